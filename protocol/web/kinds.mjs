// The kinds of channel that this implementation knows: one record a kind, and one map of them. Nothing else asks which
// kind a channel is, so a new kind is a module that exports its record, and a line in `KINDS`. A round with a kind that
// is not here cannot be read: it is refused by the name of the kind, before anything of it is answered.

import { binary, geometric, kary, laplace, notAnswered, tabulated } from "./channels.mjs";
import { refuse } from "./errors.mjs";
import { encode, rowsFor } from "./hadamard.mjs";
import { MAX_BITS, MAX_COLUMNS, hasher, outcomesOf as bucketsIn, rowsOf as rowsOfBuckets } from "./hashing.mjs";
import { alwaysInside, inputsOf } from "./queries.mjs";
import { MICRO_EPSILON, kinds, list, matching, oneOf, record, whole } from "./values.mjs";

/** @typedef {import("./channels.mjs").Channel} Channel */
/** @typedef {import("./queries.mjs").Query} Query */
/** @typedef {import("./schema.mjs").Schema} Schema */
/** @typedef {import("./channels.mjs").ChannelSpec} ChannelSpec */
/** @typedef {ChannelSpec & {readonly micro_epsilon: number}} EpsilonSpec */
/** @typedef {ChannelSpec & {readonly weights: readonly (readonly string[])[]}} TableSpec */
/** @typedef {EpsilonSpec & {readonly bits: number}} HashSpec */
/**
 * How a public row turns one of many cells into an input of a channel of few.
 * @typedef {object} Pooling
 * @property {number} rows how many there are
 * @property {number} first the least that is dealt
 * @property {(answer: number, row: number) => number} encode the input, by the same steps for each answer
 */
/**
 * One kind of channel.
 * @template {ChannelSpec} S
 * @typedef {object} ChannelKind
 * @property {import("./values.mjs").Reader<S>} spec its published form
 * @property {(spec: S, query: Query, schema: Schema) => Channel} build its channel for a query, or a refusal
 * @property {(spec: S, query: Query, schema: Schema) => number} outcomes the same of the number of outcomes, unbuilt
 * @property {(spec: S, query: Query) => number} [work] microseconds, about, to build it in the reference; else 1
 * @property {(spec: S, query: Query, schema: Schema) => Pooling | null} [pooling] else the answer says the input
 */

/** Microseconds that one weight of additive noise takes in the reference implementation. */
const WEIGHT_WORK = 16;

/** @type {ChannelKind<EpsilonSpec>} */
const BINARY = {
  spec: record({ kind: oneOf("binary"), micro_epsilon: MICRO_EPSILON }),
  build: ({ micro_epsilon }, query) =>
    binary(micro_epsilon, query.kind === "boolean" ? 1 : query.kind === "cell" ? 2 : 2 * query.denominator),
  outcomes: () => 2,
  pooling: (_, query) => (query.kind === "cell" ? { rows: rowsFor(query.cells), first: 0, encode } : null),
};

/** @type {ChannelKind<EpsilonSpec>} */
const KARY = {
  spec: record({ kind: oneOf("kary"), micro_epsilon: MICRO_EPSILON }),
  build: (spec, query, schema) =>
    query.kind === "cell" ? kary(spec.micro_epsilon, inputsOf(query, schema)) : notAnswered(spec, query),
  outcomes: (spec, query, schema) => (query.kind === "cell" ? inputsOf(query, schema) : notAnswered(spec, query)),
};

/**
 * Noise added to the numerator of a real query: a denominator of D has a range of 2D steps.
 * @param {string} kind
 * @param {(microEpsilon: number, range: number) => Channel} make
 * @param {number} padding ranges of outcomes beyond the inputs, on each side
 * @returns {ChannelKind<EpsilonSpec>}
 */
const additive = (kind, make, padding) => {
  const steps = 2 * (1 + 2 * padding);
  return {
    spec: record({ kind: oneOf(kind), micro_epsilon: MICRO_EPSILON }),
    build: (spec, query) =>
      query.kind === "real" ? make(spec.micro_epsilon, 2 * query.denominator) : notAnswered(spec, query),
    outcomes: (spec, query) => (query.kind === "real" ? steps * query.denominator + 1 : notAnswered(spec, query)),
    work: (_, query) => (query.kind === "real" ? WEIGHT_WORK * steps * query.denominator : 1),
  };
};

/** @type {ChannelKind<HashSpec>} */
const HASH = {
  spec: record({ kind: oneOf("hash"), micro_epsilon: MICRO_EPSILON, bits: whole(1, MAX_BITS) }),
  build: (spec, query, schema) => kary(spec.micro_epsilon, bucketsIn(bucketsOf(spec, query, schema))),
  outcomes: (spec, query, schema) => bucketsIn(bucketsOf(spec, query, schema)),
  pooling: (spec, query, schema) => {
    const buckets = bucketsOf(spec, query, schema);
    return { ...rowsOfBuckets(buckets), encode: hasher(buckets) };
  },
};

/**
 * The buckets of a query's cells.
 * @param {HashSpec} spec
 * @param {Query} query
 * @param {Schema} schema
 * @returns {import("./hashing.mjs").Buckets}
 */
function bucketsOf(spec, query, schema) {
  if (query.kind !== "cell") return notAnswered(spec, query);
  const [outside, signed] = [!alwaysInside(query, schema), query.negative !== undefined];
  const columns = query.cells + Number(outside && !signed);
  if (columns > MAX_COLUMNS) refuse("", `has ${columns} columns, one for examples in no cell`, "use a binary channel");
  return { bits: spec.bits, columns, signed, apart: outside && signed };
}

/** @type {ChannelKind<TableSpec>} */
const TABLE = {
  spec: record({
    kind: oneOf("table"),
    weights: list(2, Infinity, list(0, Infinity, matching(/^(0|[1-9][0-9]{0,19})$/))),
  }),
  build: ({ weights }, query, schema) => {
    const [channel, inputs] = [tabulated(weights), inputsOf(query, schema)];
    return channel.inputs === inputs
      ? channel
      : refuse("weights", `has ${channel.inputs} rows, the query ${inputs} answers`);
  },
  outcomes: ({ weights }) => weights[0].length,
  work: ({ weights }) => weights.reduce((sum, row) => sum + row.length, 0),
};

/** @type {Readonly<Record<string, ChannelKind<any>>>} */
const KINDS = Object.freeze({
  binary: BINARY,
  kary: KARY,
  geometric: additive("geometric", geometric, 0),
  laplace: additive("laplace", laplace, 1),
  hash: HASH,
  table: TABLE,
});

/** @type {import("./values.mjs").Reader<ChannelSpec>} */
export const CHANNEL = kinds(
  "kind",
  Object.fromEntries(Object.entries(KINDS).map(([name, { spec }]) => [name, spec])),
);

/**
 * The kind of a channel that was read.
 * @param {ChannelSpec} spec
 */
export const kindOf = (spec) => KINDS[spec.kind];
