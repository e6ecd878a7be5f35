// Privacy budgets: ε is counted in whole millionths, and summed exactly. Nothing is rounded: an ε with more than six
// decimals is refused.

import { refuse } from "./errors.mjs";
import { quoted } from "./text.mjs";
import { LARGEST } from "./values.mjs";

/** Micro-ε in one ε. */
export const MICRO = 1_000_000;

const DECIMAL = /^\+?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?$/;

/**
 * The sum of some micro-ε, exact: a server may say 10^15 of many rounds, and their sum is beyond 2^53.
 * @param {Iterable<number>} charges
 * @returns {bigint}
 */
export function total(charges) {
  let sum = 0n;
  for (const charge of charges) sum += BigInt(charge);
  return sum;
}

/**
 * A sum as a number that a wallet holds: no cap is beyond `LARGEST`, so what is beyond it changes nothing.
 * @param {bigint} sum
 */
export const held = (sum) => Number(sum < BigInt(LARGEST) ? sum : BigInt(LARGEST));

/**
 * The shortest decimal that reads back as so many micro-ε.
 * @param {number} microEpsilon
 */
export function toText(microEpsilon) {
  const [whole, part] = [Math.floor(microEpsilon / MICRO), microEpsilon % MICRO];
  return `${whole}.${String(part).padStart(6, "0")}`.replace(/\.?0+$/, "");
}

/**
 * Micro-ε of an ε as people write it, exact; more than six decimals are refused.
 * @param {string} text
 */
export function chargeFromText(text) {
  const [, whole, part = "", exponent = "0"] =
    (text.length <= 64 && DECIMAL.exec(text)) ||
    refuse("ε", `${quoted(text)} is not a positive decimal number`, 'write ε as "1", "0.25" or "1e-3"');
  const power = Number(exponent) - part.length + 6;
  const [digits, most] = [BigInt(whole + part), BigInt(LARGEST)];
  const [scaled, divisor] = power >= 0 ? [digits * 10n ** BigInt(power), 1n] : [digits, 10n ** BigInt(-power)];
  if (scaled < divisor) refuse("ε", `${text} is below one micro-ε`, 'the smallest ε is "0.000001"');
  if (scaled > most * divisor) refuse("ε", `${text} is out of range`, `the largest ε is "${toText(LARGEST)}"`);
  const near = Number(scaled / divisor);
  if (scaled % divisor)
    refuse("ε", `${text} has more than six decimals`, `ε is counted in millionths: write "${toText(near)}"`);
  return near;
}

/** Micro-ε of an ε that must not be exceeded: read as one that is charged. */
export const limitFromText = chargeFromText;
