// ε-local randomizers as exact integer tables (KLNRS11, Def. 5.1 and 5.13).
//
// For each input a channel has a row of positive weights that sum to 2^64, one for each outcome. One uniform 64-bit
// word decides a report: the 2^64 words are cut into consecutive segments, and the outcome is that of the segment the
// word falls into. The tables are integers of any size, made of public data. To choose, the word is compared with
// every cut-point that may matter, by the same steps for every input, word and outcome: in halves of 32 bits, which
// doubles hold exactly (`Cuts`).

import { refuse } from "./errors.mjs";
import { MIN_WEIGHT, SCALE, WORD, certified, expLower, expScaled, tooLarge, wholeEpsilon } from "./ratio.mjs";
import { whole } from "./values.mjs";

/** @typedef {import("./randomness.mjs").Word} Word */
/** @typedef {{readonly kind: string}} ChannelSpec as it is published: its kind, and the members that its kind has */
/**
 * @typedef {object} Channel
 * @property {string} kind
 * @property {number} inputs how many there are
 * @property {number} outcomes how many there are
 * @property {number} certified the least micro-ε for which the integer inequality holds for all inputs and outcomes
 * @property {(input: number) => readonly bigint[]} weights how many of the 2^64 words choose each outcome
 * @property {(input: number, word: Word) => number} choose the outcome that a word chooses, by the same steps for each
 */

/** Inputs × outcomes of a table. */
const MAX_CELLS = 1 << 20;

/**
 * Refuse a query that a channel does not answer.
 * @param {ChannelSpec} channel
 * @param {import("./queries.mjs").Query} query
 * @returns {never}
 */
export const notAnswered = (channel, query) =>
  refuse("", `a ${channel.kind} channel does not answer a ${query.kind} query`, "binary answers every query");

/** Rows of cut-points, each in two halves: with them a word is compared. */
class Cuts {
  /** @param {readonly bigint[]} cuts */
  constructor(cuts) {
    this.high = Float64Array.from(cuts, (cut) => Number(cut >> 32n));
    this.low = Float64Array.from(cuts, (cut) => Number(cut & 0xffffffffn));
  }

  /**
   * How many of the cuts from `first` on a word has reached.
   * @param {Word} word
   * @param {number} first
   * @param {number} count
   */
  reached(word, first, count) {
    let reached = 0;
    for (let at = 0; at < count; at++) {
      const same = Number(this.high[first + at] === word[0]) & Number(this.low[first + at] <= word[1]);
      reached += Number(this.high[first + at] < word[0]) | same;
    }
    return reached;
  }
}

/**
 * Refuse a table too large to print and to check.
 * @param {number} inputs
 * @param {number} outcomes
 */
function checkSize(inputs, outcomes) {
  if (inputs * outcomes > MAX_CELLS)
    refuse("weights", `${inputs} inputs × ${outcomes} outcomes are more than ${MAX_CELLS} cells`);
}

/**
 * @param {number} input
 * @param {number} inputs
 */
function checkInput(input, inputs) {
  if (!(input >= 0 && input < inputs)) refuse("input", `is not in 0 .. ${inputs - 1}`);
}

/**
 * @param {number} value
 * @param {string} where
 * @param {number} least
 * @param {number} most
 */
const checkWhole = (value, where, least, most) => whole(least, most)(value, where);

/**
 * Binary randomized response (KLNRS11, p. 4; Warner 1965) on inputs 0 .. steps: one step for a bit, two if it may
 * also be
 * "neither", more for a value in [−1, 1]. The first t(u) words choose outcome 1.
 * @param {number} microEpsilon
 * @param {number} steps
 * @returns {Channel}
 */
export function binary(microEpsilon, steps) {
  const odds = expLower(wholeEpsilon(microEpsilon));
  checkWhole(steps, "steps", 1, MAX_CELLS / 2 - 1);
  const keep = (WORD * odds) / (SCALE + odds);
  if (WORD - keep < MIN_WEIGHT) throw tooLarge(microEpsilon);
  /** @param {number} input */
  const threshold = (input) => WORD - keep + ((2n * keep - WORD) * BigInt(input)) / BigInt(steps);
  const thresholds = new Cuts(Array.from({ length: steps + 1 }, (_, input) => threshold(input)));
  return Object.freeze({
    kind: "binary",
    inputs: steps + 1,
    outcomes: 2,
    certified: certified([[WORD - keep, keep]]),
    weights: (/** @type {number} */ input) => {
      checkInput(input, steps + 1);
      return [WORD - threshold(input), threshold(input)];
    },
    choose: (/** @type {number} */ input, /** @type {Word} */ word) => {
      checkInput(input, steps + 1);
      return 1 - thresholds.reached(word, input, 1);
    },
  });
}

/**
 * k-ary randomized response: the first words tell the truth, the others name each cell equally often.
 * @param {number} microEpsilon
 * @param {number} k
 * @returns {Channel}
 */
export function kary(microEpsilon, k) {
  const odds = expLower(wholeEpsilon(microEpsilon));
  checkWhole(k, "k", 2, 1024);
  const divisor = odds + BigInt(k - 1) * SCALE;
  const lie = (WORD * SCALE + divisor - 1n) / divisor;
  if (lie < MIN_WEIGHT) throw tooLarge(microEpsilon);
  const truth = WORD - BigInt(k - 1) * lie;
  const cuts = new Cuts(Array.from({ length: k }, (_, cell) => truth - lie + BigInt(cell) * lie));
  return Object.freeze({
    kind: "kary",
    inputs: k,
    outcomes: k,
    certified: certified([[lie, truth]]),
    weights: (/** @type {number} */ input) => {
      checkInput(input, k);
      return Array.from({ length: k }, (_, cell) => (cell === input ? truth : lie));
    },
    choose: (/** @type {number} */ input, /** @type {Word} */ word) => {
      checkInput(input, k);
      const dealt = cuts.reached(word, 0, k) - 1;
      // Before the first cut-point is the truth.
      const either = Float64Array.of(dealt, input);
      return either[Number(dealt < 0)];
    },
  });
}

/** Nano-ε in one micro-ε, and by how many the tables of noise are built for less, so that rounded tails stay within. */
const NANO_OF_MICRO = 1000n;
const SLACK_NANO = 4n;
const NANO = 1_000_000_000n;

/**
 * Two-sided geometric noise, clamped to the inputs (N21, §2): 2^64 / (α^step + α^(step − 1)) words have noise ≤ −step.
 * @param {number} microEpsilon
 * @param {number} range
 */
export function geometric(microEpsilon, range) {
  const rate = BigInt(microEpsilon) * NANO_OF_MICRO - SLACK_NANO;
  /** @param {number} step */
  const power = (step) => expScaled(rate * BigInt(step), NANO * BigInt(range));
  return additive("geometric", microEpsilon, range, 0, (step) => (WORD * SCALE) / (power(step) + power(step - 1)));
}

/**
 * The Laplace mechanism of KLNRS11, §5.1.1, rounded to a grid and clamped one range beyond it.
 * @param {number} microEpsilon
 * @param {number} range
 */
export function laplace(microEpsilon, range) {
  const rate = BigInt(microEpsilon) * NANO_OF_MICRO - SLACK_NANO;
  /** @param {number} step */
  const power = (step) => expScaled(rate * BigInt(2 * step - 1), 2n * NANO * BigInt(range));
  return additive("laplace", microEpsilon, range, range, (step) => (WORD * SCALE) / 2n / power(step));
}

/**
 * Noise added to an integer 0 .. range, and clamped: the outcome is input + pad + noise.
 * @param {string} kind
 * @param {number} microEpsilon
 * @param {number} range
 * @param {number} pad outcomes beyond the inputs, on each side
 * @param {(step: number) => bigint} tail the number of words whose noise is −step or less
 * @returns {Channel}
 */
function additive(kind, microEpsilon, range, pad, tail) {
  wholeEpsilon(microEpsilon);
  checkWhole(range, "range", 1, 1023);
  const [inputs, last, reach] = [range + 1, range + 2 * pad, range + pad];
  checkSize(inputs, last + 1);
  const tails = Array.from({ length: reach }, (_, index) => tail(index + 1));
  /** @param {number} noise */
  const atMost = (noise) => (noise < 0 ? tails[-noise - 1] : WORD - tails[noise]);
  // The first word beyond each noise −reach .. reach − 1.
  const ends = Array.from({ length: 2 * reach }, (_, index) => atMost(index - reach));
  const extremes = noiseExtremes(ends, inputs, reach + pad);
  if (extremes.some(([least]) => least < MIN_WEIGHT)) throw tooLarge(microEpsilon);
  const cuts = new Cuts(ends);
  return Object.freeze({
    kind,
    inputs,
    outcomes: last + 1,
    certified: certified(extremes),
    weights: (/** @type {number} */ input) => {
      checkInput(input, inputs);
      const upTo = Array.from({ length: last + 1 }, (_, outcome) =>
        outcome === last ? WORD : atMost(outcome - pad - input),
      );
      return upTo.map((end, outcome) => end - (outcome ? upTo[outcome - 1] : 0n));
    },
    choose: (/** @type {number} */ input, /** @type {Word} */ word) => {
      checkInput(input, inputs);
      const noise = cuts.reached(word, 0, 2 * reach) - reach;
      return Math.min(Math.max(input + noise + pad, 0), last);
    },
  });
}

/**
 * The smallest and the largest weight of each outcome, over all inputs. Under input u an inner outcome w has the noise
 * w − pad − u, so its weights are a window of those of all noise, one further on for each outcome.
 * @param {readonly bigint[]} ends
 * @param {number} inputs
 * @param {number} top the first end of the highest outcome, one more
 * @returns {import("./ratio.mjs").Extremes[]}
 */
function noiseExtremes(ends, inputs, top) {
  const exactly = ends.slice(1).map((end, index) => end - ends[index]);
  const [lowest, highest] = [ends.slice(0, inputs), ends.slice(top - 1)];
  const inner = windowExtremes(exactly, inputs);
  return [[lowest[0], lowest[inputs - 1]], ...inner, [WORD - highest[highest.length - 1], WORD - highest[0]]];
}

/**
 * The smallest and the largest value of each window of a width, in steps that do not depend on the width: of each
 * window the
 * positions are kept of what is smaller (larger) than all that follow, and the first of them is the extreme.
 * @param {readonly bigint[]} values
 * @param {number} width
 * @returns {import("./ratio.mjs").Extremes[]}
 */
function windowExtremes(values, width) {
  const [small, large] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  const found = /** @type {import("./ratio.mjs").Extremes[]} */ ([]);
  values.forEach((value, position) => {
    while (small.length && values[small[small.length - 1]] >= value) small.pop();
    while (large.length && values[large[large.length - 1]] <= value) large.pop();
    small.push(position);
    large.push(position);
    const begin = position - width + 1;
    if (begin < 0) return;
    if (small[0] < begin) small.shift();
    if (large[0] < begin) large.shift();
    found.push([values[small[0]], values[large[0]]]);
  });
  return found;
}

/**
 * A channel given by its table.
 * @param {readonly (readonly string[])[]} weights decimal texts
 * @returns {Channel}
 */
export function tabulated(weights) {
  if (weights.length < 2 || weights[0].length < 2) refuse("weights", "needs two inputs and two outcomes at least");
  const [inputs, outcomes] = [weights.length, weights[0].length];
  checkSize(inputs, outcomes);
  const rows = weights.map((row, input) => checkedRow(row, outcomes, `weights[${input}]`));
  const extremes = rows[0].map((_, outcome) => {
    const column = rows.map((row) => row[outcome]);
    return /** @type {const} */ ([column.reduce((a, b) => (b < a ? b : a)), column.reduce((a, b) => (b > a ? b : a))]);
  });
  const inner = outcomes - 1;
  const cuts = new Cuts(
    rows.flatMap((row) => {
      let end = 0n;
      return row.slice(0, -1).map((weight) => (end += weight));
    }),
  );
  return Object.freeze({
    kind: "table",
    inputs,
    outcomes,
    certified: certified(extremes),
    weights: (/** @type {number} */ input) => {
      checkInput(input, inputs);
      return rows[input];
    },
    choose: (/** @type {number} */ input, /** @type {Word} */ word) => {
      checkInput(input, inputs);
      return cuts.reached(word, input * inner, inner);
    },
  });
}

/**
 * @param {readonly string[]} row
 * @param {number} outcomes
 * @param {string} place
 */
function checkedRow(row, outcomes, place) {
  if (row.length !== outcomes) refuse(place, `has ${row.length} weights, the first row ${outcomes}`);
  const weights = row.map(BigInt);
  weights.forEach((weight, outcome) => {
    if (weight === 0n) refuse(`${place}[${outcome}]`, "is zero: this outcome would rule this input out");
  });
  const sum = weights.reduce((a, b) => a + b);
  if (sum !== WORD) refuse(place, `sums to ${sum}, not to 2^64 = ${WORD}`);
  return weights;
}
