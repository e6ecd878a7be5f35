// The screens. Each is made of public documents and of what is in the wallet; the one that shows what the coin did also takes
// an answer, which it is given while it is shown and never keeps.

import { bar, chip, coin, coinBar, move, small, walletBar, ways } from "./figures.mjs";
import { h } from "./dom.mjs";
import { REASONS } from "./refusals.mjs";
import { fieldWords, printable, toText as epsilon } from "../../../protocol/web/index.mjs";
import { atMost, capital, clock, grouped, percentages, when } from "./words.mjs";

/** @typedef {import("./meaning.mjs").Meaning} Meaning */
/** @typedef {import("./wallet.mjs").StoredReport} StoredReport */

const heading = (/** @type {string} */ text) => h([...text].length > 90 ? "h1.long" : "h1", { tabindex: "-1", dir: "auto" }, text);
const button = (/** @type {string} */ text, /** @type {() => void} */ onclick, kind = "button") => h(kind, { type: "button", onclick }, text);
const link = (/** @type {string} */ text, /** @type {() => void} */ onclick) => h("button.link", { type: "button", onclick }, text);
const facts = (/** @type {readonly (readonly [string, ...(Node | string)[]])[]} */ rows, kind = "dl.facts") =>
  h(kind, {}, rows.flatMap(([name, ...said]) => [h("dt", {}, name), h("dd", {}, ...said)]));

// ---------------------------------------------------------------------------------------------------- what a channel does

/** The answers that are answers. @param {Meaning} meaning */
const given = ({ answers }) => answers.filter(({ isGap }) => !isGap);

/**
 * Whether there are two answers and a bit, each of which is one of them.
 * @param {Meaning} meaning
 */
export const isTwo = (meaning) => meaning.isWhole && meaning.isBit && given(meaning).length === 2 && new Set(meaning.outcomes).size === 2;

/** How often the likeliest outcome of each answer leaves, and whether that is the same for all. @param {Meaning} meaning */
function kept(meaning) {
  const most = given(meaning).map(({ shares }) => Math.max(...shares));
  return { share: most[0], isSame: most.every((each) => Math.abs(each - most[0]) < 1e-9) };
}

/**
 * What ε means here, in one sentence with the very probability.
 * @param {Meaning} meaning
 */
function sentence(meaning) {
  const { share, isSame } = kept(meaning);
  const answers = given(meaning);
  const stays = "Your answer stays in this browser.";
  if (isTwo(meaning) && isSame) {
    const [own, other] = percentages([share, 1 - share]);
    return `${stays} One bit leaves: your answer with ${own}, the other one with ${other}.`;
  }
  if (meaning.isBit && isSame) {
    const [own, other] = percentages([share, 1 - share]);
    return `${stays} One bit leaves, “${meaning.outcomes[1]}” or “${meaning.outcomes[0]}”: with ${own} the one that has your answer in it, with ${other} the other one.`;
  }
  if (meaning.isBit) {
    const [first, last] = [answers[0], answers[answers.length - 1]];
    const [low, high] = percentages([first.shares[1], last.shares[1]]);
    return `${stays} One bit leaves, 1 or 0. It is 1 with ${low} if you say ${first.label}, with ${high} if you say ${last.label}, and in between for what is between.`;
  }
  const others = answers[0].shares.filter((each) => each < share);
  if (isSame && others.every((each) => Math.abs(each - others[0]) < 1e-9)) {
    const [own, other] = percentages([share, others[0], 1]);
    return `${stays} One of ${meaning.outcomes.length} words leaves: your answer with ${own}, each other one with ${other}.`;
  }
  return `${stays} One of ${meaning.outcomes.length} numbers leaves: yours, moved up or down by a coin that is thrown here. It is the likeliest one with ${percentages([share, 0.5])[0]}.`;
}

/**
 * What leaves where she says nothing.
 * @param {Meaning} meaning
 */
export function gapHint(meaning) {
  const gap = meaning.answers.find(({ isGap }) => isGap);
  if (!gap) return "The question looks at nothing else.";
  const isFair = gap.shares.every((each) => Math.abs(each - 1 / gap.shares.length) < 1e-9);
  if (isFair && isTwo(meaning)) return `A fair coin leaves instead, 50 : 50. It counts as half a ${given(meaning)[0].label}.`;
  if (isFair) return "A fair coin leaves instead, which says nothing.";
  const same = given(meaning).find(({ input }) => input === gap.input);
  return same ? `What leaves is drawn as for “${same.label}”.` : "What leaves is drawn for it, as for every answer.";
}

// ------------------------------------------------------------------------------------------------------- 1. the question

/**
 * @param {object} model
 * @param {string} model.server
 * @param {boolean} model.isPlain whether the page came over plain HTTP
 * @param {string | null} model.from where the page came from; null for a saved copy
 * @param {string} model.title the study's
 * @param {string} model.question
 * @param {Meaning} model.meaning
 * @param {readonly HTMLElement[]} model.inputs
 * @param {number} model.charge
 * @param {number} model.spent
 * @param {number} model.cap
 * @param {boolean} model.isNew whether nothing was spent yet, so that the cap may be chosen
 * @param {any} model.study
 * @param {any} model.round
 * @param {string} model.id
 * @param {() => void} model.send
 * @param {() => void} model.wallet
 */
export function questionScreen(model) {
  const { meaning, charge, spent, cap } = model;
  const { share, isSame } = kept(meaning);
  const [own, other] = percentages([share, 1 - share], meaning.isBit ? 0 : 1);
  const left = Math.max(0, cap - spent);
  const send = h("button.primary.wide", { type: "button", onclick: model.send, id: "send" }, meaning.isBit ? "Flip the coin and send one bit" : "Flip the coin and send one word");
  return [
    h("div.stack-2", {}, h("p.small.quiet", {}, model.title === model.question ? `Asked at ${host(model.server)}` : model.title), heading(model.question)),
    h("div.stack-5", {},
      model.inputs,
      h("section.card.stack", { "aria-labelledby": "coin" },
        h("h2", { id: "coin" }, "A coin decides what leaves"),
        isSame ? coinBar(share, own, other) : null,
        isSame ? h("p.sum.small", {}, h("span", {}, isTwo(meaning) ? "your answer leaves" : "it tells of your answer"), h("span", {}, isTwo(meaning) ? "the other leaves" : "it tells of another")) : null,
        h("p", {}, sentence(meaning), " ", h("span.quiet", {}, `That is what ε = ${epsilon(charge)} means.`))),
      h("div.stack-2", {},
        h("div.sum", {}, h("b", {}, `Costs ${epsilon(charge)} of the ${epsilon(left)} left`), h("span.quiet", {}, `then ${epsilon(Math.max(0, left - charge))} is left`)),
        walletBar(cap, spent, charge, `${epsilon(spent)} of ${epsilon(cap)} spent, this question takes ${epsilon(charge)}, ${epsilon(Math.max(0, left - charge))} stays.`),
        model.isNew ? h("p.small", {}, link(`Your cap is ${epsilon(cap)}: change it before you first answer`, model.wallet)) : null),
      h("div.stack-2", {}, send,
        h("p.small.quiet", { id: "missing", "aria-live": "polite" }, "Tilt your phone away while you choose. The next screen may be seen by anyone."))),
    h("details", {}, h("summary", {}, "What exactly is asked"),
      facts([
        ["Asked", meaning.words],
        ["Fields", ...(meaning.fields.length ? meaning.fields.flatMap((field) => [fieldWords(field), h("br")]) : ["none of yours"])],
        ["Privacy", `ε = ${epsilon(charge)}, recomputed here from the channel’s whole numbers`],
        ["Rounds", model.study.interactive ? "this one, and others may follow" : "one; nothing can be asked later in this study"],
        ["At most", `ε = ${epsilon(model.study.cap)} in this study, ${epsilon(cap)} by this browser`],
        ["Wall", model.study.live ? `shows the share every ${model.study.live} answers` : "shows the share when the question has closed"],
        ["Ends", `${when(1000 * model.round.deadline)}, or after ${model.round.target} answers`],
        ["Study", h("span.digest", {}, `${grouped(model.id, 2)} … ${model.id.slice(-4)}`)],
      ], "dl.facts.small")),
    h("div.note.small.stack-2", {},
      h("p", {}, h("b", {}, "Not hidden:"), " that you take part, when, from which address, and what you were asked."),
      h("p", {}, h("b", {}, "This page "), origin(model))),
  ];
}

/**
 * Where the page came from, and what follows.
 * @param {{from: string | null, server: string, isPlain: boolean}} model
 */
function origin({ from, server, isPlain }) {
  if (from === null) return `is a saved copy, and speaks to ${host(server)}.`;
  const came = `came from ${host(from)}${isPlain ? " over plain HTTP" : ""}${from === server ? "" : `, and speaks to ${host(server)}`}`;
  return [`${came}. Whoever serves it, or changes it on the way, decides what it does. A saved copy, written by `, h("code", {}, "askance page"), ", need not come from there."];
}

// ------------------------------------------------------------------------------------------- 2. while the coin is in the air

/** The same for every answer, every outcome and every time. */
export const flippingScreen = () => [
  h("div.left-bit.flipping", {}, coin("?"), h("div", {}, heading("The coin is in the air"), h("p.quiet", {}, "It lands once. What it says is stored here before it leaves."))),
];

/**
 * @param {object} model
 * @param {Meaning} model.meaning
 * @param {StoredReport} model.report
 * @param {number} model.outcome
 * @param {string} model.question
 * @param {{state: string, at?: number, receipt?: unknown, why?: string}} model.sending
 * @param {string | null} model.own the label of her answer, where she has asked for it
 * @param {boolean} model.isKnown whether this page still knows what she answered
 * @param {boolean} model.isOther whether it was answered in another tab, when she answered in this one
 * @param {() => void} model.uncover
 * @param {() => void} model.wallet
 * @param {(() => void) | null} model.next to the next question, where there is one
 * @param {string} model.left
 */
export function leftScreen(model) {
  const { meaning, report, outcome } = model;
  const said = meaning.outcomes[outcome];
  const what = meaning.isBit ? "bit" : "word";
  return [
    h("div.left-bit", {}, coin(String(outcome)),
      h("div", {}, heading(`One ${what} left: ${said}`), h("p.quiet", {}, "It may have been turned. Only this phone knows."))),
    model.isOther ? h("p.note", {}, "This browser had answered already, in another tab. What you chose in this one was not looked at.") : null,
    chip(...sendingWords(model.sending, report)),
    h("p.small.quiet.quest", {}, model.question),
    covered(model, said),
    conclusions(meaning, outcome, report.charge),
    bytes(report, meaning, model.sending.receipt),
    model.next ? button("Next question", model.next, "button.primary.wide") : null,
    h("p", {}, link(model.left, model.wallet)),
  ];
}

/**
 * @param {{state: string, at?: number}} sending
 * @param {StoredReport} report
 * @returns {[string, ...string[]]}
 */
function sendingWords({ state, at }, report) {
  const cost = `Cost: ${epsilon(report.charge)}.`;
  switch (state) {
    case "acknowledged":
      return ["received", `Received and kept${at ? `, ${clock(at)}` : ""}. ${cost}`];
    case "declined":
      return ["ended", `The server does not take it any more: it came too late, or not to it. ${cost} It stays booked, since it may have been seen.`];
    case "conflict":
      return ["refused", `The server had taken another draw of yours. Both were seen, so both are booked: ${epsilon(2 * report.charge)}.`];
    default:
      return ["sending", `Stored here, on its way. ${cost}`];
  }
}

/**
 * @param {Parameters<typeof leftScreen>[0]} model
 * @param {string} said
 */
function covered(model, said) {
  const { meaning, outcome, own } = model;
  const id = "ways";
  const title = own === null ? `Where a “${said}” comes from` : "What the coin did";
  return h("section.stack", { "aria-labelledby": id }, h("h2", { id }, title), isTwo(meaning) ? drawn(meaning, outcome, own) : listed(meaning, outcome, own),
    own === null ? null : h("p", {}, ownWords(meaning, outcome, own)),
    model.isKnown
      ? h("button.wide", { type: "button", id: "uncover", onclick: model.uncover }, own === null ? "Show what my coin did" : "Cover my answer")
      : h("p.small.quiet", {}, "Your answer is not known to this page any more, so neither is what the coin did."),
    model.isKnown && own === null ? h("p.small.quiet", {}, "Until you do, this screen says no more than what has left. Show it to anyone.") : null);
}

/**
 * @param {Meaning} meaning
 * @param {number} outcome
 * @param {string} own
 */
function ownWords(meaning, outcome, own) {
  const answer = meaning.answers.find(({ label }) => label === own);
  const cover = "Cover this again before you show your phone.";
  if (!answer) return `Your answer was ${own}. ${cover}`;
  if (answer.isGap) return `You did not say, so what left is the coin’s alone. ${cover}`;
  const likely = answer.shares.indexOf(Math.max(...answer.shares));
  const [often] = percentages([answer.shares[outcome], answer.shares[likely] === answer.shares[outcome] ? 1 : answer.shares[likely]], meaning.isBit ? 0 : 1);
  return `Your answer was ${capital(own)}. The coin ${likely === outcome ? "let it through" : "turned it"}, as it does with ${often}. ${cover}`;
}

/**
 * @param {Meaning} meaning
 * @param {number} outcome
 * @param {string | null} own
 */
function drawn(meaning, outcome, own) {
  const answers = given(meaning);
  const order = answers.map(({ shares }) => shares.indexOf(Math.max(...shares)));
  const shares = answers.map((answer) => order.map((each) => answer.shares[each]));
  const texts = shares.map((each) => percentages(each));
  const sent = order.indexOf(outcome);
  const [first, second] = answers.map(({ label }) => capital(label));
  const bits = order.map((each) => meaning.outcomes[each]);
  const words = `Of all who hold ${first}, ${texts[0][0]} send ${bits[0]} and ${texts[0][1]} send ${bits[1]}. Of all who hold ${second}, ${texts[1][0]} send ${bits[0]} and ${texts[1][1]} send ${bits[1]}. This phone sent ${bits[sent]}.`;
  const at = own === null ? -1 : answers.findIndex(({ label }) => label === own);
  return [
    ways({ answers: answers.map(({ label }) => capital(label)), bits, shares, texts, sent, own: at < 0 ? null : at, words }),
    own === null ? h("p", {}, `Of those who hold ${first}, ${texts[0][sent]} send “${bits[sent]}”; of those who hold ${second}, ${texts[1][sent]} do. Yours is one of these.`) : null,
  ];
}

/**
 * @param {Meaning} meaning
 * @param {number} outcome
 * @param {string | null} own
 */
function listed(meaning, outcome, own) {
  const texts = percentages(meaning.answers.map(({ shares }) => shares[outcome]));
  return h("div.scroll", { tabindex: "0", role: "group", "aria-label": "How often each answer sends it" },
    h("table.tight.small.mid", {}, h("caption", {}, `How often “${meaning.outcomes[outcome]}” leaves`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "if it is"), h("th", { scope: "col" }, h("span.sr", {}, "Drawn")), h("th.num", { scope: "col" }, "with"))),
      h("tbody", {}, meaning.answers.map(({ label, shares }, at) =>
        h(own === label ? "tr.now" : "tr", {}, h("th", { scope: "row" }, capital(label), own === label ? h("span.quiet", {}, " (yours)") : null), h("td", {}, bar(shares[outcome], own === null || own === label)), h("td.num", {}, h("b", {}, texts[at])))))));
}

/**
 * @param {Meaning} meaning
 * @param {number} outcome
 * @param {number} charge
 */
function conclusions(meaning, outcome, charge) {
  const times = atMost(meaning.odds);
  const rows = isTwo(meaning) ? [0.1, 0.5, 0.9] : [];
  const [first, second] = given(meaning);
  return h("section.stack", { "aria-labelledby": "conclude" }, h("h2", { id: "conclude" }, "What anyone can conclude"),
    rows.length ? h("p", {}, `How likely your answer is ${capital(first.label)}, to someone who sees this bit:`) : null,
    rows.length
      ? h("table.tight.small.mid", {},
          h("thead", {}, h("tr", {}, h("th.num", { scope: "col" }, "before"), h("th", { scope: "col" }, h("span.sr", {}, "Drawn")), h("th.num", { scope: "col" }, "after"))),
          h("tbody", {}, rows.map((before) => {
            const [yes, no] = [before * first.shares[outcome], (1 - before) * second.shares[outcome]];
            const after = yes / (yes + no);
            return h("tr", {}, h("td.num", {}, `${Math.round(100 * before)}\u00a0%`), h("td", {}, move(before, after)), h("td.num", {}, h("b", {}, percentages([after, before])[0])));
          })))
      : null,
    h("p", {}, `Whatever they thought before, one ${meaning.isBit ? "bit" : "word"} moves the odds at most ${times} times, either way. `,
      h("span.quiet", {}, `What the room’s share says about people like you, it would say nearly as well without you. That is ε = ${epsilon(charge)}.`)));
}

/**
 * @param {StoredReport} report
 * @param {Meaning} meaning
 * @param {unknown} receipt
 */
function bytes(report, meaning, receipt) {
  const text = new TextDecoder().decode(report.body);
  const digits = String(meaning.outcomes.length - 1).length;
  const [before, marked] = [text.slice(0, -1 - digits), text.slice(-1 - digits, -1)];
  const hex = Array.from(report.body, (byte) => byte.toString(16).padStart(2, "0"));
  const depends = digits === 1 ? "One of them depends on your answer: the marked one." : `${digits} of them depend on your answer: the marked ones.`;
  return h("section.stack", { "aria-labelledby": "bytes" }, h("h2", { id: "bytes" }, "Exactly what was sent"),
    h("code.bytes", { tabindex: "0", role: "group", "aria-label": `Body of the report, ${report.body.length} bytes` }, before, h("mark", {}, marked), "}"),
    h("p.small", {}, `${report.body.length} bytes, as from every phone of this round. ${depends} With it went your number’s token, so the server knows which number sent it, and when.`),
    h("details.small", {}, h("summary", {}, "Bytes and receipt"),
      h("code.bytes", { tabindex: "0", role: "group", "aria-label": "Bytes in hexadecimal digits, and the receipt" },
        `${hex.slice(0, -1 - digits).join(" ")} `, h("mark", {}, hex.slice(-1 - digits, -1).join(" ")), ` ${hex.at(-1)}`,
        receipt ? `\n\n${JSON.stringify(receipt, null, 1)}` : "\n\nno receipt yet")));
}

// ------------------------------------------------------------------------------------------------------------ 3. the wallet

/**
 * @param {object} model
 * @param {string} model.server
 * @param {import("./wallet.mjs").Account} model.account
 * @param {readonly {study: string, heads: string[], title: string}[]} model.pins
 * @param {number} model.spent
 * @param {boolean} model.isUnused
 * @param {string} model.back
 * @param {() => void} model.goBack
 * @param {(cap: string) => Promise<string | null>} model.limit
 * @param {() => void} model.copy
 * @param {() => void} model.forget
 */
export function walletScreen(model) {
  const { account: { owner, reports }, pins, spent } = model;
  const [remaining, rows] = [Math.max(0, owner.cap - spent), [...reports.values()].sort((a, b) => b.drawn - a.drawn)];
  const states = { acknowledged: ["received", "received"], kept: ["waiting", "not yet received"], declined: ["ended", "not taken"], conflict: ["refused", "two draws were seen"] };
  return [
    h("div.stack-2", {}, heading("Your wallet"), h("p.quiet", {}, owner.user === undefined ? `No number yet at ${host(model.server)}` : `Number ${owner.user} at ${host(model.server)}`)),
    h("section.card.stack", { "aria-labelledby": "spent" }, h("h2.sr", { id: "spent" }, "Spent"),
      h("div.sum", {}, h("span", {}, h("span.what", {}, epsilon(spent)), ` of ${epsilon(owner.cap)} spent`), h("span.quiet", {}, `${epsilon(remaining)} left`)),
      walletBar(owner.cap, spent, 0, `${epsilon(spent)} of ${epsilon(owner.cap)} spent, ${epsilon(remaining)} left.`),
      h("p.small", {}, `At ${epsilon(owner.cap)} this page stops answering, for good: nothing is renewed. All that leaves, up to that cap, moves anyone’s odds about you at most ${atMost(Math.exp(owner.cap / 1e6))} times `, h("span.quiet", {}, `(e to the ${epsilon(owner.cap)}).`)),
      owner.elsewhere ? h("p.small", {}, `${epsilon(owner.elsewhere)} of it was spent elsewhere, as the server says: by a copy of this wallet.`) : null,
      model.isUnused ? capField(owner.cap, model.limit) : null),
    h("section.stack", { "aria-labelledby": "history" }, h("h2", { id: "history" }, "What has left"),
      rows.length
        ? h("table.tight", {},
            h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Question"), h("th", { scope: "col" }, "Left"), h("th.num", { scope: "col" }, "Cost"))),
            h("tbody", {}, rows.map((report) => {
              const [mark, word] = states[report.state];
              return h("tr", {}, h("td", {}, report.question, h("br"), h("span.small.quiet", {}, `${when(report.drawn)} · `, small(mark), ` ${word}`)), h("td.mono", {}, report.said), h("td.num", {}, epsilon(report.charge)));
            })))
        : h("p.quiet", {}, "Nothing yet."),
      h("p.small.quiet", {}, "Your answers are not here: each was forgotten when you left the screen that showed what left.")),
    h("section.stack", { "aria-labelledby": "pins" }, h("h2", { id: "pins" }, "Seen by this page"),
      h("p.small", {}, "Two phones that show other digits for one study, after equally many entries, were told two histories. Compare with your neighbour."),
      pins.length ? facts(pins.map(({ title, heads }) => [printable(title), h("span.digest", {}, grouped(heads.at(-1) ?? "")), h("br"), h("span.quiet", {}, `${heads.length} entries`)]), "dl.facts.small") : h("p.quiet", {}, "Nothing yet.")),
    h("div.row", {}, button("Save a copy", model.copy), button("Forget this wallet …", model.forget), button(model.back, model.goBack)),
    h("div.note.small.stack-2", {},
      h("p", {}, h("b", {}, "The cap counts this browser, not you."), " Answering again from another browser spends again, and no page can notice."),
      h("p", {}, "A copy is for looking. It has no token in it, so nobody can answer from it.")),
  ];
}

/**
 * @param {number} cap
 * @param {(cap: string) => Promise<string | null>} limit
 */
function capField(cap, limit) {
  const said = h("span.hint", { "aria-live": "polite" }, "Until you first answer. Then it is for a lifetime.");
  const box = /** @type {HTMLInputElement} */ (h("input", { type: "text", id: "cap", inputmode: "decimal", value: epsilon(cap), autocomplete: "off" }));
  const keep = async () => {
    // Said when it is on disk: a page that is closed at once would have lost it.
    said.textContent = (await limit(box.value)) ?? "Stored.";
  };
  return h("div.stack-2", {}, h("label", { for: "cap" }, "The most that you will ever spend here"), h("div.row", {}, box, button("Set the cap", keep)), said);
}

/** What forgetting means, before it is done. @param {{yes: () => void, no: () => void, spent: number}} model */
export const forgettingScreen = ({ yes, no, spent }) => [
  heading("Forget this wallet?"),
  h("p.lead", {}, `What has left stays where it is. ${spent ? `The server goes on counting ε = ${epsilon(spent)} for your number; this browser would count from nothing, and so would its cap.` : "This browser’s number is lost with it."}`),
  h("p", {}, "A report that has not been received yet is lost, and the history by which this page would notice a second one."),
  h("div.row", {}, button("Keep it", no, "button.primary"), button("Forget it for good", yes)),
];

// ------------------------------------------------------------------------------------------- 4. refused, waiting, and nothing to do

/**
 * @param {object} model
 * @param {import("../../../protocol/web/refusals.mjs").Refusal} model.refusal
 * @param {boolean} model.hasLeft whether something left before
 * @param {string} model.left
 * @param {{title: string, entry: number, before: string, now: string | null, read: number} | null} model.histories
 * @param {() => void} model.again
 * @param {() => void} model.wallet
 * @param {() => void} model.reasons
 */
export function refusedScreen(model) {
  const { refusal, histories } = model;
  const [name, said, next] = REASONS[refusal.code];
  return [
    h("div.stack-2", {}, chip("refused", `Refused: ${name}`), heading("This page did not answer")),
    h("p.lead", {}, said),
    histories
      ? h("table.tight.small", {}, h("caption", {}, `Entry ${histories.entry} of “${histories.title}”`), h("tbody", {},
          h("tr", {}, h("th", { scope: "row" }, when(histories.read)), h("td.digest", {}, `${grouped(histories.before)} …`)),
          h("tr", {}, h("th", { scope: "row" }, "now"), h("td.digest", {}, histories.now ? `${grouped(histories.now)} …` : "gone"))))
      : null,
    facts([
      ["Left", h("b", {}, model.hasLeft ? "Nothing further." : "Nothing of your answer."), " ", h("span.quiet", {}, "The server knows that this page read the study.")],
      ["Cost", `Nothing: ${model.left}.`],
      ["Why", `${capital(refusal.text)}. `, h("span.quiet", {}, "Only public documents were looked at. That it refused says nothing about you.")],
    ]),
    h("section.card.stack-2", { "aria-labelledby": "do" }, h("h2", { id: "do" }, "What you can do"), h("p", {}, next)),
    h("div.row", {}, button("Look again", model.again), button("Wallet", model.wallet)),
    h("p.small", {}, link("All reasons for which this page refuses", model.reasons)),
  ];
}

/** @param {{back: () => void}} model */
export const reasonsScreen = ({ back }) => [
  h("div.stack-2", {}, heading("Why this page may refuse"), h("p.quiet", {}, "Each reason is read off public documents. None looks at your answer.")),
  h("dl.stack", {}, Object.entries(REASONS).map(([name, [, said, next]]) => h("div.stack-2", {}, h("dt", {}, h("b", {}, said), " ", h("code.small.quiet", {}, name)), h("dd.small.quiet", {}, next)))),
  h("div.row", {}, button("Back", back)),
];

/**
 * @param {object} model
 * @param {StoredReport | null} model.report what is stored and was not received yet
 * @param {readonly {at: number, why: string}[]} model.tried
 * @param {number} model.seconds until the next attempt
 * @param {number | null} model.deadline
 * @param {() => void} model.again
 * @param {() => void} model.wallet
 */
export function waitingScreen(model) {
  const { report, tried } = model;
  const body = report && new TextDecoder().decode(report.body);
  return [
    h("div.stack-2", {}, chip("waiting", "Waiting for the network"), heading(report ? "Drawn and kept. Not yet received." : "The server gives no answer")),
    h("p.lead", {}, report ? "The coin was flipped once, and what it said is stored in this browser. It will not be flipped again." : "Nothing has left, and nothing was asked yet."),
    report && body ? h("code.bytes", { tabindex: "0", role: "group", "aria-label": `Body that waits, ${report.body.length} bytes` }, body.slice(0, 11), h("mark", {}, body.slice(11, -1)), "}") : null,
    report ? h("p", {}, `These same ${report.body.length} bytes are sent until the server confirms them, also after you close or reload this page. Sent twice, they count once and cost once.`) : null,
    h("table.tight.small", {}, h("caption", {}, "Tried"), h("tbody", {}, tried.slice(-4).map(({ at, why }) => h("tr", {}, h("th", { scope: "row" }, clock(at)), h("td", {}, why))))),
    h("p", {}, h("b", { id: "countdown" }, `Next try in ${model.seconds} s.`), model.deadline ? h("span.quiet", {}, ` The round closes ${when(1000 * model.deadline)}.`) : null),
    button("Try now", model.again, "button.primary.wide"),
    report ? h("div.note.small", {}, h("p", {}, `The cost of ${epsilon(report.charge)} is booked already: what may have been seen counts as seen. If the round closes first, it stays booked.`)) : null,
    h("p", {}, link("Your wallet", model.wallet)),
  ];
}

/**
 * Nothing is to be answered now, and why.
 * @param {{title: string, said: string, more?: string, state: string, again?: () => void, wallet?: () => void}} model
 */
export const quietScreen = ({ title, said, more, state, again, wallet: open }) => [
  h("div.stack-2", {}, chip(state === "ended" ? "ended" : "waiting", state === "ended" ? "Ended" : "Nothing to do now"), heading(title)),
  h("p.lead", {}, said), more ? h("p", {}, more) : null,
  h("div.row", {}, again ? button("Look again", again) : null, open ? button("Wallet", open) : null),
];

/**
 * No number yet, and no way to get one but the code on the wall.
 * @param {{title: string, problem: string | null, join: (code: string) => void}} model
 */
export function joiningScreen({ title, problem, join }) {
  const box = /** @type {HTMLInputElement} */ (h("input", { type: "text", id: "code", autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-describedby": "why" }));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") join(box.value.trim());
  });
  return [
    h("div.stack-2", {}, heading("The code, please"), h("p.quiet", {}, title)),
    h("p.lead", { id: "why" }, problem ?? "Scan the code on the wall, or type what stands below it."),
    h("div.stack-2", {}, h("label", { for: "code" }, "Code"), box),
    button("Take part", () => join(box.value.trim()), "button.primary.wide"),
  ];
}

/**
 * The link names no study: she chooses one by its title.
 * @param {{studies: readonly {id: string, title: string, state: string}[], open: (id: string) => void}} model
 */
export const choosingScreen = ({ studies, open }) => [
  heading(studies.length ? "Which question?" : "No question is open"),
  studies.length ? h("p.lead", {}, "Only the one that you name is answered.") : h("p.lead", {}, "Scan the code on the wall, or open its link."),
  studies.map(({ id, title }) => button(title, () => open(id), "button.wide")),
];

/** @param {string} what */
export const loadingScreen = (what) => [heading("One moment"), h("p.quiet", {}, what)];

/** @param {{what: string, again: () => void}} model */
export const brokenScreen = ({ what, again }) => [
  h("div.stack-2", {}, chip("refused", "This page cannot go on"), heading("Nothing is asked here")),
  h("p.lead", {}, what),
  h("div.row", {}, button("Load again", again)),
];

/** @param {string} url */
const host = (url) => url.replace(/^https?:\/\//, "");
