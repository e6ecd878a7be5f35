// e^ε from below, in integers, and the exact inequality that certifies a channel: weight(w|u) ≤ L(ε) · weight(w|u') /
// 2^128 for L(ε) / 2^128 ≤ e^ε (KLNRS11, Def. 5.1). All of it is public.

import { MICRO, toText } from "./budget.mjs";
import { ProtocolError, refuse } from "./errors.mjs";
import { LARGEST } from "./values.mjs";

/** Every row of a channel sums to this: one 64-bit random word decides one report. */
export const WORD = 1n << 64n;
/** No channel that is built from an ε has a smaller weight. */
export const MIN_WEIGHT = 1n << 30n;
/** 2^64 / e^24 is below `MIN_WEIGHT`: no channel can be built for more. */
export const MAX_MICRO_EPSILON = 24 * MICRO;
export const SCALE_BITS = 128n;
export const SCALE = 1n << SCALE_BITS;

/**
 * 2^128 · e^x for a rational x ≥ 0, from below: the sum of the terms 2^128 · x^i/i!, each rounded down.
 * @param {bigint} numerator
 * @param {bigint} denominator
 */
export function expScaled(numerator, denominator) {
  let [term, total] = [SCALE, SCALE];
  for (let index = 1n; term; index++) {
    term = (term * numerator) / (denominator * index);
    total += term;
  }
  return total;
}

/** @type {Map<number, bigint>} */
const powers = new Map();

/**
 * L(ε). Some are kept: a certificate asks for the same ones again.
 * @param {number} microEpsilon
 */
export function expLower(microEpsilon) {
  const kept = powers.get(microEpsilon);
  if (kept !== undefined) return kept;
  if (powers.size > 1024) powers.clear();
  const power = expScaled(BigInt(microEpsilon), BigInt(MICRO));
  powers.set(microEpsilon, power);
  return power;
}

/** @typedef {readonly [bigint, bigint]} Extremes the smallest and the largest weight of one outcome, over all inputs */

/**
 * @param {Extremes} extremes
 * @param {number} microEpsilon
 */
const within = ([smallest, largest], microEpsilon) => largest << SCALE_BITS <= expLower(microEpsilon) * smallest;

/**
 * The least ε, in micro-ε, that certifies every outcome.
 * @param {Iterable<Extremes>} outcomes
 */
export function certified(outcomes) {
  let least = 0;
  for (const extremes of outcomes) {
    if (extremes[0] === 0n && extremes[1] > 0n)
      refuse("weights", "an outcome is impossible under one input and possible under another");
    if (!within(extremes, least)) least = leastAbove(least, extremes);
  }
  return least;
}

/**
 * The least ε above `from` that certifies an outcome; `from` itself does not.
 * @param {number} from
 * @param {Extremes} extremes
 */
function leastAbove(from, extremes) {
  let [low, high] = [from, MAX_MICRO_EPSILON];
  while (!within(extremes, high)) high *= 2;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (within(extremes, middle)) high = middle;
    else low = middle;
  }
  return high;
}

/**
 * An ε that a channel may be asked for: whole micro-ε, positive and small enough to certify.
 * @param {number} microEpsilon
 */
export function wholeEpsilon(microEpsilon) {
  if (!Number.isInteger(microEpsilon) || microEpsilon < 1)
    refuse("micro_epsilon", "is not a positive whole number", "1000000 stands for ε = 1");
  if (microEpsilon > MAX_MICRO_EPSILON) throw tooLarge(microEpsilon);
  return microEpsilon;
}

/**
 * The refusal of an ε whose rarest outcome would have too few words to certify it.
 * @param {number} microEpsilon
 */
export const tooLarge = (microEpsilon) =>
  new ProtocolError(
    `ε = ${toText(Math.min(microEpsilon, LARGEST))} is too large to certify with 64-bit weights`,
    "micro_epsilon",
    "ask for less; an ε above 16 protects nobody anyway",
  );
