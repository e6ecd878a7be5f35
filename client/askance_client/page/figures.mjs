// Drawings. What is hatched stays on the phone; the accent, solid, leaves it; grey is public or past.

import { h, s, unique } from "./dom.mjs";

/** Marks that tell a state by their shape. @type {Record<string, () => SVGElement[]>} */
const MARKS = {
  received: () => [s("circle", { cx: 8, cy: 8, r: 7, fill: "currentColor" }), s("path.tick", { d: "M4.6 8.2l2.3 2.4 4.5-5" })],
  waiting: () => [s("circle.ring.broken", { cx: 8, cy: 8, r: 6.5 }), s("path.ring", { d: "M8 4.5V8l2.4 1.6" })],
  sending: () => [s("circle.ring", { cx: 8, cy: 8, r: 6 }), s("path", { d: "M8 2a6 6 0 0 1 0 12z", fill: "currentColor" })],
  refused: () => [s("path.ring", { d: "M5 1h6l4 4v6l-4 4H5l-4-4V5z" }), s("path.ring", { d: "M5 8h6" })],
  ended: () => [s("rect.ring", { x: 3, y: 3, width: 10, height: 10, rx: 1 })],
};

/**
 * A state, by a mark and a word.
 * @param {string} mark
 * @param {...(Node | string)} words
 */
export const chip = (mark, ...words) => h("p.chip", {}, s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, MARKS[mark]()), h("span", {}, ...words));

/** @param {string} mark */
export const small = (mark) => s("svg.mini", { viewBox: "0 0 16 16", "aria-hidden": "true" }, MARKS[mark]());

/** What hatches: a pattern, and its name. */
function hatching() {
  const id = unique();
  const pattern = s("pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line.hatch", { x1: 0, y1: 0, x2: 0, y2: 7 }));
  return { definition: s("defs", {}, pattern), fill: `url(#${id})` };
}

/**
 * How often the answer leaves as it is, as a bar of 100 coins.
 * @param {number} kept
 * @param {string} keptText
 * @param {string} turnedText
 */
export function coinBar(kept, keptText, turnedText) {
  const width = Math.min(250, Math.max(78, Math.round(324 * kept)));
  return s(
    "svg.chart", { viewBox: "0 0 328 44", role: "img", "aria-label": `Your answer leaves with ${keptText}, and otherwise with ${turnedText}.` },
    s("rect.box-on", { x: 0, y: 0, width, height: 44, rx: 8 }),
    s("rect.box", { x: width + 4, y: 0.75, width: 323 - width, height: 42.5, rx: 8 }),
    s("text.on", { x: 12, y: 28, "font-size": 17 }, keptText),
    s("text.b", { x: 316, y: 28, "text-anchor": "end", "font-size": 17 }, turnedText),
  );
}

/**
 * A wallet as a bar: grey is spent, the accent is this question, empty is left.
 * @param {number} cap
 * @param {number} spent
 * @param {number} now
 * @param {string} words
 */
export function walletBar(cap, spent, now, words) {
  const at = (/** @type {number} */ amount) => (328 * Math.min(amount, cap)) / cap;
  // In pieces of one question's cost, where all of it is whole questions.
  const unit = now || spent;
  const pieces = unit && cap % unit === 0 && spent % unit === 0 && cap / unit <= 8 ? unit : cap;
  const block = (/** @type {string} */ kind, /** @type {number} */ from, /** @type {number} */ to) => {
    const blocks = [];
    for (let begin = from; begin < Math.min(to, cap); begin += pieces) {
      const width = at(Math.min(begin + pieces, to)) - at(begin) - 6;
      blocks.push(s(kind, { x: at(begin) + 1, y: 0.75, width: Math.max(1.5, width), height: 20, rx: 5 }));
    }
    return blocks;
  };
  const label = at(spent + now) - at(spent) > 74 && now > 0 ? s("text.on", { x: at(spent) + 11, y: 15.5, "font-size": 13 }, "this one") : null;
  return s(
    "svg.chart", { viewBox: "0 0 328 22", role: "img", "aria-label": words },
    block("rect.bar-2", 0, spent), block("rect.box-on", spent, spent + now), block("rect.box", spent + now, cap), label,
  );
}

/**
 * Both ways to a bit: for each of two answers, how often it gives each of two bits. The column on the left stays on the phone.
 * @param {object} model
 * @param {readonly string[]} model.answers
 * @param {readonly string[]} model.bits in the order in which the answers are: that which each gives the more often
 * @param {readonly (readonly number[])[]} model.shares of each answer, of each bit
 * @param {readonly (readonly string[])[]} model.texts
 * @param {number} model.sent which bit has left
 * @param {number | null} model.own which answer was hers, where she has asked for it
 * @param {string} model.words
 */
export function ways({ answers, bits, shares, texts, sent, own, words }) {
  const { definition, fill } = hatching();
  const top = [6, 138];
  // Where each flow begins at its answer, and ends at its bit.
  const begin = answers.map((_, a) => [top[a], top[a] + 100 * shares[a][0]]);
  const end = [[top[0], top[0] + 100 * shares[0][0]], [top[1], top[1] + 100 * shares[0][1]]];
  const flow = (/** @type {number} */ a, /** @type {number} */ b) => {
    const [from, to, size] = [begin[a][b], a === 0 ? end[b][0] : end[b][1], 100 * shares[a][b]];
    const kind = b !== sent ? "flow" : own === null ? "flow-on" : own === a ? "flow-own" : "flow";
    return s(`path.${kind}`, { d: `M104 ${from}C170 ${from} 170 ${to} 236 ${to}V${to + size}C170 ${to + size} 170 ${from + size} 104 ${from + size}Z` });
  };
  const flows = [[0, 0], [0, 1], [1, 0], [1, 1]].sort(([, x], [, y]) => Number(x === sent) - Number(y === sent)).map(([a, b]) => flow(a, b));
  const left = answers.map((answer, a) => [
    s("rect.box", { x: 1, y: top[a], width: 101, height: 100, rx: 8 }),
    s("rect", { x: 1, y: top[a], width: 101, height: 100, rx: 8, fill, opacity: 0.55 }),
    s("rect.stay", { x: 1, y: top[a], width: 101, height: 100, rx: 8 }),
    s("rect.label", { x: 12, y: top[a] + 28, width: 79, height: 44, rx: 6 }),
    s("text.q", { x: 52, y: top[a] + 46, "text-anchor": "middle", "font-size": 12 }, own === a ? "yours:" : "if it is"),
    s("text.b", { x: 52, y: top[a] + 64, "text-anchor": "middle" }, shortened(answer, 10)),
  ]);
  const right = bits.map((bit, b) => [
    s(b === sent ? "rect.box-on" : "rect.box", { x: 238, y: top[b], width: 89, height: 100, rx: 8 }),
    s(b === sent ? "text.on" : "text.q", { x: 282, y: top[b] + 46, "text-anchor": "middle", "font-size": 12 }, b === sent ? "what left:" : "not sent:"),
    s(b === sent ? "text.on" : "text.q", { x: 282, y: top[b] + 66, "text-anchor": "middle", "font-size": 18 }, shortened(bit, 9)),
  ]);
  const labels = [0, 1].flatMap((a) => [0, 1].map((b) => s("text.b", { x: 114, y: begin[a][b] + 50 * shares[a][b] + 5 }, texts[a][b])));
  return s("svg.chart", { viewBox: "0 0 328 244", role: "img", "aria-label": words }, definition, flows, left.flat(), right.flat(), labels);
}

/**
 * A move on a line from 0 to 100 %.
 * @param {number} before
 * @param {number} after
 */
export function move(before, after) {
  const at = (/** @type {number} */ p) => 8 + 144 * p;
  const [low, high] = [Math.min(before, after), Math.max(before, after)].map(at);
  return s(
    "svg.chart", { viewBox: "0 0 160 20", "aria-hidden": "true" },
    s("line.grid", { x1: 8, x2: 152, y1: 10, y2: 10 }),
    s("line.span", { x1: low, x2: high, y1: 10, y2: 10 }),
    s("circle.dot-past", { cx: at(before), cy: 10, r: 5 }),
    s("circle.dot", { cx: at(after), cy: 10, r: 7 }),
  );
}

/**
 * A share as a bar in a table.
 * @param {number} part
 * @param {boolean} isOn
 */
export function bar(part, isOn) {
  return s("svg.chart", { viewBox: "0 0 160 14", "aria-hidden": "true" }, s(isOn ? "rect.bar" : "rect.bar-2", { x: 0, y: 2, width: Math.max(1, 160 * part), height: 10, rx: 3 }));
}

/**
 * The coin, with what has left on it.
 * @param {string} face
 */
export function coin(face) {
  const size = face.length > 2 ? 20 : 32;
  return s(
    "svg.coin", { viewBox: "0 0 64 64", "aria-hidden": "true" },
    s("circle", { cx: 32, cy: 32, r: 30 }),
    s("text.face", { x: 32, y: 32 + size / 3, "text-anchor": "middle", "font-size": size }, face),
  );
}

/**
 * @param {string} text
 * @param {number} most
 */
const shortened = (text, most) => ([...text].length <= most ? text : `${[...text].slice(0, most - 1).join("")}…`);
