// What a study has learned, as the last entry of its bulletin holds it: JSON with floats inside a text.

import { isList, parse } from "./canonical.mjs";
import { ProtocolError, refuse } from "./errors.mjs";
import { checked, record, text } from "./values.mjs";

/** @typedef {{readonly text: string, readonly data: string}} Hypothesis */
/** @typedef {null | boolean | number | bigint | string | HypothesisList | HypothesisObject} HypothesisValue */
/** @typedef {readonly HypothesisValue[]} HypothesisList */
/** @typedef {{readonly [name: string]: HypothesisValue}} HypothesisObject */

/** Digits of an integer: as many as Python reads. */
const MAX_DIGITS = 4300;

/** @type {import("./canonical.mjs").Dialect<number | bigint>} */
const DATA = {
  number: (written, isInteger, place) => {
    const number = Number(written);
    if (!isInteger) return Number.isFinite(number) ? number : refuse(place, "is a number that is not finite");
    if (written.replace("-", "").length > MAX_DIGITS) refuse(place, `has more than ${MAX_DIGITS} digits`);
    // Beyond 2^53 a number would be another one.
    return Number.isSafeInteger(number) ? number : BigInt(written);
  },
  anyText: true,
};

/**
 * The data of a hypothesis: floats are the doubles that were learned, integers beyond ±(2^53 − 1) are of type bigint.
 * @param {string} data
 * @returns {HypothesisObject}
 */
export function hypothesisValue(data) {
  const value = parse(data, DATA);
  return typeof value === "object" && value !== null && !isList(value) ? value : refuse("data", "is not an object");
}

/** @type {import("./values.mjs").Reader<Hypothesis>} */
export const HYPOTHESIS = checked(record({ text: text(0, 2 ** 16), data: text(0, 2 ** 20) }), ({ data }, place) => {
  try {
    hypothesisValue(data);
  } catch (error) {
    throw error instanceof ProtocolError ? new ProtocolError(error.message, place ? `${place}.data` : "data") : error;
  }
});
