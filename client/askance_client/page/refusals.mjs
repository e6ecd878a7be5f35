// Refusals in words: what each reason of the protocol means to a person. Each is read off public documents, her number and
// what she has spent; what decides never sees an answer.

/**
 * Of each reason: its short name, what happened, and what she can do.
 * @type {Readonly<Record<string, readonly [string, string, string]>>}
 */
export const REASONS = Object.freeze({
  "unreadable": ["not readable", "The server sent something that is not an Askance document, or one of a newer version.", "Look again once; then tell whoever asks."],
  "other-study": ["another study", "The server answered with another study than the one that you opened.", "Open the link on the wall again."],
  "broken-chain": ["broken chain", "An entry of this study’s list does not follow from the one before.", "Do not go on; tell whoever asks."],
  "two-histories": ["two histories", "The server tells another past of this study than it told this page before.", "Show this screen to whoever asks. Where the server was set up anew, a new study has to be opened; this page will not go on with this one."],
  "simulated": ["made-up users", "This study is for made-up users, so others may report in your name.", "Nothing to do: it is not for people."],
  "other-schema": ["other fields", "It asks about fields that you did not agree to.", "Read the fields again before you agree."],
  "unsound-round": ["unsound question", "The question costs more privacy than the server says, or could fail on some answers.", "Do not go on; tell whoever asks."],
  "too-many-rounds": ["too many rounds", "The study has more rounds than anybody needs. Each one also tells when you answer.", "Do not go on; tell whoever asks."],
  "below-floor": ["too cheap", "The question costs so little that a server could ask it any number of times.", "Do not go on; tell whoever asks."],
  "deadline-passed": ["too late", "By the clock of this device the question should have closed. An answer would cost you, and come too late.", "See whether this device’s clock is right; then wait for the next question."],
  "other-user": ["another number", "The server takes you for another number than it gave you.", "Join again with the link on the wall."],
  "heard-already": ["answered already", "The server has a bit of your number that this wallet did not draw: the wallet is a copy, or was restored.", "Use the browser that answered."],
  "beyond-study-cap": ["beyond the study’s cap", "The study said that it would take less than it asks for now.", "Nothing to do: the study broke its word."],
  "beyond-cap": ["beyond your cap", "It costs more than is left of your cap.", "Nothing to do: that is what the cap is for."],
  "wrong-receipt": ["wrong receipt", "The receipt is for another report than yours. The same bytes are sent again.", "Wait; if it stays, tell whoever asks."],
});
