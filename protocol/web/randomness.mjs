// Where a report's random word comes from: the browser's own generator, as it comes from the operating system. It
// takes no seed.
//
// A word is 64 bits as two halves in a `Float64Array`, the high one first: a `BigInt` would be longer where the word
// is, and a number by itself is stored in another way where it is small.

/** @typedef {Float64Array} Word two elements, each from 0 to 2^32 − 1: the high half and the low half */
/** @typedef {() => Word} RandomSource */

/**
 * A fresh word.
 * @returns {Word}
 */
export const systemWord = () => new Float64Array(crypto.getRandomValues(new Uint32Array(2)));

/**
 * The word of a number, for vectors and tests.
 * @param {bigint} number
 * @returns {Word}
 */
export const wordOf = (number) => Float64Array.of(Number(number >> 32n), Number(number & 0xffffffffn));
