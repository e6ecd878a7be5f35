// Channels: integer weights that sum to 2^64 a row, and the ε that they are certified for.

import { MICRO_EPSILON, int, kinds, list, matching, oneOf, record, refuse } from "./shape.mjs";

const WORD = 1n << 64n;
const ONE = 1n << 128n;
const LEAST_WEIGHT = 1n << 30n;
const MOST_WEIGHTS = 2 ** 20;
const LIMIT = 24_000_000;
// A table may be certified for more: 1 word against all but one is the most there can be, at 2^64 ≤ e^44.4.
const BEYOND = 45_000_000;

// ---- published forms

const spec = (kind) => record({ kind: oneOf(kind), micro_epsilon: MICRO_EPSILON });
const weight = (value, place) => {
  matching(/^(0|[1-9][0-9]{0,19})$/)(value, place);
  return BigInt(value) >= 1n && BigInt(value) <= WORD ? value : refuse(place, "is not from 1 to 2^64");
};

export function readTable(weights, place) {
  const rows = list(2, MOST_WEIGHTS, list(2, MOST_WEIGHTS, weight))(weights, place);
  rows.forEach((row, index) => {
    if (row.length !== rows[0].length) refuse(`${place}[${index}]`, "is of another length");
    if (row.reduce((sum, each) => sum + BigInt(each), 0n) !== WORD) refuse(`${place}[${index}]`, "does not sum to 2^64");
  });
  return rows;
}

export const readChannel = kinds("kind", {
  binary: spec("binary"),
  kary: spec("kary"),
  geometric: spec("geometric"),
  laplace: spec("laplace"),
  hash: record({ kind: oneOf("hash"), micro_epsilon: MICRO_EPSILON, bits: int(1, 9) }),
  table: record({ kind: oneOf("table"), weights: readTable }),
});

// ---- E(x) = Σ 2^128 x^i / i!, each term rounded down from the one before

function exponential(numerator, denominator) {
  let [term, total] = [ONE, ONE];
  for (let index = 1n; term > 0n; index++) {
    term = (term * numerator) / (denominator * index);
    total += term;
  }
  return total;
}

// ---- segments: for each input a list of [end, outcome]; a word falls into the first that ends above it

function binary({ micro_epsilon, steps }) {
  const odds = exponential(BigInt(micro_epsilon), 1000000n);
  const keep = (WORD * odds) / (ONE + odds);
  return Array.from({ length: steps + 1 }, (_, step) => {
    const threshold = WORD - keep + ((2n * keep - WORD) * BigInt(step)) / BigInt(steps);
    return [[threshold, 1], [WORD, 0]];
  });
}

function kary({ micro_epsilon, k }) {
  const odds = exponential(BigInt(micro_epsilon), 1000000n);
  const divisor = odds + BigInt(k - 1) * ONE;
  const lie = (WORD * ONE + divisor - 1n) / divisor;
  const certain = WORD - BigInt(k) * lie;
  return Array.from({ length: k }, (_, meant) => [
    [certain, meant],
    ...Array.from({ length: k }, (_, cell) => [certain + BigInt(cell + 1) * lie, cell]),
  ]);
}

function additive({ kind, micro_epsilon, range }) {
  const pad = kind === "laplace" ? range : 0;
  const [shrunk, nano] = [BigInt(micro_epsilon) * 1000n - 4n, 1000000000n];
  const tail = (step) => {
    const [s, r] = [BigInt(step), BigInt(range)];
    if (kind === "laplace") return ((WORD * ONE) / 2n) / exponential(shrunk * (2n * s - 1n), 2n * nano * r);
    return (WORD * ONE) / (exponential(shrunk * s, nano * r) + exponential(shrunk * (s - 1n), nano * r));
  };
  const tails = Array.from({ length: range + pad + 2 }, (_, step) => (step ? tail(step) : 0n));
  const atMost = (noise) => (noise < 0 ? tails[-noise] : WORD - tails[noise + 1]);
  const last = range + 2 * pad;
  return Array.from({ length: range + 1 }, (_, given) =>
    Array.from({ length: last + 1 }, (_, outcome) => [outcome === last ? WORD : atMost(outcome - pad - given), outcome]),
  );
}

function tabulated({ weights }) {
  return readTable(weights, "weights").map((row) => {
    let end = 0n;
    return row.map((each, outcome) => [(end += BigInt(each)), outcome]);
  });
}

const BUILD = { binary, kary, geometric: additive, laplace: additive, table: tabulated };
const SIZE = {
  binary: ({ steps }) => [steps + 1, 2],
  kary: ({ k }) => [k, k],
  geometric: ({ range }) => [range + 1, range + 1],
  laplace: ({ range }) => [range + 1, 3 * range + 1],
  table: ({ weights }) => [weights.length, weights[0].length],
};

function total(segments, outcomes) {
  const row = Array(outcomes).fill(0n);
  let begin = 0n;
  for (const [end, outcome] of segments) {
    row[outcome] += end - begin;
    begin = end;
  }
  return row;
}

/** The channel of a kind with its parameters (steps, k, range, weights): inputs, outcomes, table, certified ε, choice. */
export function build(parameters) {
  const { kind } = parameters;
  if (!Object.hasOwn(BUILD, kind)) refuse("kind", "is unknown");
  if (kind !== "table") int(1, LIMIT)(parameters.micro_epsilon, "micro_epsilon");
  if (kind === "kary") int(2, 1024)(parameters.k, "k");
  if (kind === "geometric" || kind === "laplace") int(1, 1023)(parameters.range, "range");
  const [inputs, outcomes] = SIZE[kind](parameters);
  if (inputs * outcomes > MOST_WEIGHTS) refuse("weights", `more than ${MOST_WEIGHTS} weights`);
  const segments = BUILD[kind](parameters);
  const table = segments.map((row) => total(row, outcomes));
  const low = kind === "table" ? 1n : LEAST_WEIGHT;
  if (table.some((row) => row.some((each) => each < low))) refuse(kind === "table" ? "weights" : "micro_epsilon", `a weight is below ${low}`);
  return {
    inputs,
    outcomes,
    table,
    certified: certify(table),
    choose: (input, word) => segments[input].find(([end]) => word < end)[1],
  };
}

/** The least µ for which no weight is more than E(µ/10^6) / 2^128 times another of its outcome. */
export function certify(table) {
  const columns = table[0].map((_, outcome) => {
    const column = table.map((row) => row[outcome]);
    return [column.reduce((a, b) => (b < a ? b : a)), column.reduce((a, b) => (b > a ? b : a))];
  });
  const holds = (micro) => {
    const odds = exponential(BigInt(micro), 1000000n);
    return columns.every(([least, most]) => most * ONE <= odds * least);
  };
  let [low, high] = [0, BEYOND];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
