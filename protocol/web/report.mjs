// From the question and the example to the bytes that leave: the one place that looks at an example. From here on the
// same steps are taken for every example, input and outcome, and one random word is drawn whatever they are.

import { systemWord } from "./randomness.mjs";
import { encodeReport } from "./reports.mjs";

/** @typedef {import("./judge.mjs").Asked} Asked */
/** @typedef {import("./examples.mjs").Example} Example */
/**
 * A report: what leaves, and what it costs. It does not hold the answer.
 * @typedef {object} Report
 * @property {string} study
 * @property {string} round
 * @property {number} microEpsilon
 * @property {number} outcome
 * @property {number} outcomes
 */

/**
 * The channel's input: the answer to the question, and the public row.
 * @param {Asked} asked
 * @param {Example} example
 */
export const inputOf = ({ prepared, row }, example) => prepared.encode(prepared.query.answer(example), row);

/**
 * A user's report (KLNRS11, Def. 5.2): answer her question, randomize once. It is stored, with its charge, before it
 * is sent, and
 * never drawn again.
 * @param {Asked} asked
 * @param {Example} example
 * @param {import("./randomness.mjs").RandomSource} [random] for tests; a user draws from the operating system
 * @returns {Report}
 */
export function respond(asked, example, random = systemWord) {
  const outcome = asked.channel.choose(inputOf(asked, example), random());
  return Object.freeze({
    study: asked.study,
    round: asked.round,
    microEpsilon: asked.microEpsilon,
    outcome,
    outcomes: asked.outcomes,
  });
}

/**
 * The exact bytes of a report, as long as all others of its round.
 * @param {Report} report
 */
export const body = ({ outcome, outcomes }) => encodeReport(outcome, outcomes);

/**
 * How likely each outcome is under an input, to be shown: "the bit that leaves says yes with 73 %". No report is
 * decided by it.
 * @param {Asked} asked
 * @param {number} input
 */
export const chances = ({ channel }, input) => channel.weights(input).map((weight) => Number(weight) / 2 ** 64);
