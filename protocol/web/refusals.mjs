// Refusals: why a user does not answer, as values that are shown. A refusal depends on public documents, on her
// number and on what she has spent; never on her example: what decides never sees one.

import { GarbledError, ProtocolError } from "./errors.mjs";
import { printable } from "./text.mjs";

/**
 * @typedef {"unreadable" | "other-study" | "broken-chain" | "two-histories" | "simulated" | "other-schema" |
 *   "unsound-round"
 *   | "too-many-rounds" | "below-floor" | "deadline-passed" | "other-user" | "heard-already" | "beyond-study-cap" |
 *   "beyond-cap"
 *   | "wrong-receipt"} Reason
 */
/**
 * @typedef {object} Refusal
 * @property {"refusal"} kind
 * @property {Reason} code
 * @property {string} text why, in a sentence that steers nothing
 * @property {string} remedy what she may do
 * @property {string | null} round
 * @property {boolean} passing whether it may be over at the next attempt: what came was no document of this protocol
 *   at all
 */

const LIE = "nothing was sent: tell those who run the study what you see here";

/** @type {Readonly<Record<Reason, string>>} */
const REMEDIES = {
  unreadable: "nothing was sent: try again later, and compare the version of this page with the server's",
  "other-study": "nothing was sent: open the study by the address that you were given",
  "broken-chain": LIE,
  "two-histories": `${LIE}, and compare the head of the study with others who take part`,
  simulated: "nothing was sent: this study is for simulated users only",
  "other-schema": "nothing was sent: take part in studies about what you have declared",
  "unsound-round": LIE,
  "too-many-rounds": LIE,
  "below-floor": LIE,
  "deadline-passed": "nothing was sent: compare the clock of this device, or wait for the next round",
  "other-user": LIE,
  "heard-already": "nothing was sent: use the device or the browser with which you answered",
  "beyond-study-cap": LIE,
  "beyond-cap": "nothing was sent: your budget is for a lifetime and is not renewed",
  "wrong-receipt": "your report is stored, and its cost is counted: tell those who run the study what you see here",
};

/**
 * @param {Reason} code
 * @param {string} text
 * @param {{round?: string | null, passing?: boolean}} [more]
 * @returns {Refusal}
 */
export const refusal = (code, text, { round = null, passing = false } = {}) =>
  Object.freeze({ kind: "refusal", code, text: printable(text), remedy: REMEDIES[code], round, passing });

/**
 * @param {unknown} value
 * @returns {value is Refusal}
 */
export const isRefusal = (value) =>
  typeof value === "object" && value !== null && "kind" in value && value.kind === "refusal";

/**
 * The refusal of a document that could not be read. Any other error is a fault of this program, and thrown again.
 * @param {unknown} error
 * @returns {Refusal}
 */
export function readRefusal(error) {
  if (error instanceof ProtocolError)
    return refusal("unreadable", error.message, { passing: error instanceof GarbledError });
  throw error;
}
