// The protocol in JavaScript: what a page needs to take part in a study, and to verify one. Plain ES modules without
// dependencies, for any browser of the last three years and for Node; nothing here speaks to a server, keeps a store,
// or knows a document's DOM. The specification is docs/protocol.md, the reference askance_protocol and
// askance_client; tests/vectors holds all to the same. These names are stable: they are added to, and not changed.
//
// READING. `readTail(bytes)`, `readStatement`, `readReceipt`, `readEnrolled`, `readProblem(status, bytes)` read the
// answers of GET /v1/studies/{id}/bulletin?after=N, GET /v1/me, POST /v1/rounds/{id}/reports, POST /v1/enrolments,
// and of any error. They throw a `ProtocolError` (`what`, `where`, `remedy`), and a `GarbledError` where it is worth
// asking again: what came was no document at all. `readRefusal(error)` makes the refusal of such an error that is
// shown. `readStudy`, `readRound`, `readEntry` read single documents.
//
// A HISTORY. `new History(studyId)` is empty; `history.followed(readTail(bytes))` is the history with what is new,
// every digest recomputed, or a refusal. `?after=` is `history.heads.length - 1`. `history.study`, `.pin`,
// `.openRounds`, `.rounds`, `.bulletin.state` say what it holds. `verifyChain(entries)` checks a whole bulletin at
// once and throws where it breaks.
//
// A USER. `new Example(study.example, record)` is what she holds: `record` has a value for each field, null where she
// has none. `newSpending(cap)` is the account of a new wallet. What a page stores for her: the cap; of each report
// its round, its study, its charge, its body and its state; `elsewhere`, `heard`, `again` (see `Spending`); the heads
// she has read, by study.
//
//     const round = { history, id }, wallet = { spending, pin, statement };
//     const asked = judge(round, { user, schema, declared, simulated: false, now }, wallet);
//     if (asked === null) …                    // she is not asked this round, or it is not open
//     else if (asked.kind === "refusal") …     // asked.code, asked.text, asked.remedy, asked.passing
//     else {
//       const report = respond(asked, example);    // draws, once, from crypto.getRandomValues
//       const bytes = body(report);                // store them, and asked.microEpsilon, in ONE transaction with
//     }                                            // `judge`; then send them, the same again until there is a receipt
//
// `asked` has `channel` (`weights(input)`, `certified`), `microEpsilon`, `prepared.query`, `part`, `row`;
// `chances(asked, input)` is the probability of each outcome, and `inputOf(asked, example)` the input, to be shown to
// her alone. Also where she refuses, store `spendingAfter(spending, statement)` if `statement.user` is hers: what
// others have spent in her name stays spent (of `heard` only the rounds of this history). `refuseReceipt(receipt, …)`
// is null for the receipt of this very report. Between `statement` and sending: `const since = begin()` before
// `respond`, `await hold(since)` before the bytes leave.
//
// `words(asked.prepared.query.query, study.example)` is what her question asks, in the words of every client; `fieldsOf`
// the fields that it looks at. The title is whatever the server says.
//
// Nothing that decides here sees an example, and nothing that sees one (`respond`, `inputOf`) throws, branches or
// logs by it.

export { EMPTY, append, readEntry } from "./bulletin.mjs";
export { chargeFromText, limitFromText, toText } from "./budget.mjs";
export { digest, dumps, loads } from "./canonical.mjs";
export {
  MOST_BYTES,
  MOST_OF_A_STUDY,
  PIECE,
  readEnrolled,
  readProblem,
  readReceipt,
  readStatement,
  readTail,
} from "./documents.mjs";
export { GarbledError, ProtocolError } from "./errors.mjs";
export { Example } from "./examples.mjs";
export { History } from "./history.mjs";
export { hypothesisValue } from "./hypothesis.mjs";
export {
  decide,
  isAsked,
  judge,
  newSpending,
  refuseLate,
  refuseReceipt,
  refuseStudy,
  spendingAfter,
  spentOf,
} from "./judge.mjs";
export { ENDED } from "./lifecycle.mjs";
export { begin, hold } from "./pace.mjs";
export { isRefusal, readRefusal } from "./refusals.mjs";
export { body, chances, inputOf, respond } from "./report.mjs";
export { openRound, prepareRound } from "./rounds.mjs";
export { readSchema } from "./schema.mjs";
export { readRound, readStudy } from "./spec.mjs";
export { printable } from "./text.mjs";
export { LARGEST } from "./values.mjs";
export { verifyChain } from "./verify.mjs";
export { fieldWords, fieldsOf, words } from "./wording.mjs";
