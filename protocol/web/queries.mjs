// A statistical query (KLNRS11, Def. 5.4), as it is published: its members, its size, and what prepares it.
//
// - boolean: g: D → {0, 1}, a test.
// - real: g: D → [−1, 1], an integer over a declared denominator, clamped to it.
// - cell: g: D → {none, cell 0, …, cell m − 1}, with an optional sign.
//
// An answer is one integer: 0 or 1; the numerator; or 0 for none and ±(cell + 1) for a cell.

import { bounder } from "./bounds.mjs";
import { loads } from "./canonical.mjs";
import { refuse } from "./errors.mjs";
import { compile } from "./evaluation.mjs";
import { NAME, checked, kinds, list, matching, oneOf, record, text, truth, whole } from "./values.mjs";

/** @typedef {import("./schema.mjs").Schema} Schema */
/**
 * @template T
 * @typedef {import("./values.mjs").Reader<T>} Reader
 */

/** @typedef {"<" | "<=" | "=" | "!=" | ">=" | ">"} Relation */
/**
 * @typedef {{readonly op: "constant", readonly truth: boolean}
 *   | {readonly op: "bit", readonly field: string, readonly index: number}
 *   | {readonly op: "parity", readonly field: string, readonly mask: string}
 *   | {readonly op: "is", readonly field: string, readonly category: string}
 *   | {readonly op: "label", readonly sign: 1 | -1}
 *   | {readonly op: "not", readonly of: Test}
 *   | {readonly op: "and" | "or" | "xor", readonly of: readonly Test[]}
 *   | {readonly op: "compare", readonly left: Numeric, readonly right: Numeric, readonly relation: Relation}} Test
 */
/** @typedef {{readonly weight: number, readonly of: Numeric}} Term */
/**
 * @typedef {{readonly op: "integer", readonly of: number}
 *   | {readonly op: "field", readonly field: string, readonly gap?: number}
 *   | {readonly op: "slice", readonly field: string, readonly first: number, readonly width: number}
 *   | {readonly op: "dot", readonly field: string, readonly weights: readonly number[]}
 *   | {readonly op: "affine", readonly constant: number, readonly terms: readonly Term[]}
 *   | {readonly op: "lookup", readonly index: Numeric, readonly table: readonly number[], readonly default: number}
 *   | {readonly op: "if", readonly test: Test, readonly then: Numeric, readonly otherwise: Numeric}
 *   | {readonly op: "clamp", readonly of: Numeric, readonly low: number, readonly high: number}} Numeric
 */
/** @typedef {{readonly kind: "boolean", readonly test: Test}} BooleanQuery */
/** @typedef {{readonly kind: "real", readonly numerator: Numeric, readonly denominator: number}} RealQuery */
/**
 * @typedef {{readonly kind: "cell", readonly cells: number, readonly cell: Numeric, readonly negative?: Test}}
 *   CellQuery
 */
/** @typedef {BooleanQuery | RealQuery | CellQuery} Query */
/** @typedef {{readonly nodes: number, readonly depth: number, readonly entries: number}} Cost */
/**
 * A query that a schema can answer, within the limits: after this no example makes it fail.
 * @typedef {object} PreparedQuery
 * @property {Query} query
 * @property {Schema} schema
 * @property {(example: import("./examples.mjs").Example) => number} answer by the same steps whichever example it is
 */

const MAX_NODES = 256;
const MAX_LEVELS = 16;
const MAX_ENTRIES = 8192;
/** Bytes of a query that is read by itself. */
const MAX_BYTES = 1 << 18;

const INTEGER = whole();

/** @type {Reader<Test>} */
const TEST = (value, place) => TESTS(value, place);
/** @type {Reader<Numeric>} */
const NUMBER = (value, place) => NUMBERS(value, place);
const SEVERAL = list(1, 255, TEST);

/** @type {Reader<Test>} */
const TESTS = kinds("op", {
  constant: record({ op: oneOf("constant"), truth }),
  bit: record({ op: oneOf("bit"), field: NAME, index: whole(0) }),
  parity: record({ op: oneOf("parity"), field: NAME, mask: matching(/^(0|[1-9a-f][0-9a-f]{0,1023})$/) }),
  is: record({ op: oneOf("is"), field: NAME, category: text(0, Infinity) }),
  label: record({ op: oneOf("label"), sign: oneOf(1, -1) }),
  not: record({ op: oneOf("not"), of: TEST }),
  and: record({ op: oneOf("and"), of: SEVERAL }),
  or: record({ op: oneOf("or"), of: SEVERAL }),
  xor: record({ op: oneOf("xor"), of: SEVERAL }),
  compare: record({
    op: oneOf("compare"),
    left: NUMBER,
    right: NUMBER,
    relation: oneOf("<", "<=", "=", "!=", ">=", ">"),
  }),
});

/** @type {Reader<Numeric>} */
const NUMBERS = kinds("op", {
  integer: record({ op: oneOf("integer"), of: INTEGER }),
  field: record({ op: oneOf("field"), field: NAME }, { gap: INTEGER }),
  slice: record({ op: oneOf("slice"), field: NAME, first: whole(0), width: whole(1, 52) }),
  dot: record({ op: oneOf("dot"), field: NAME, weights: list(1, 4096, INTEGER) }),
  affine: record({
    op: oneOf("affine"),
    constant: INTEGER,
    terms: list(1, 255, record({ weight: INTEGER, of: NUMBER })),
  }),
  lookup: record({ op: oneOf("lookup"), index: NUMBER, table: list(1, MAX_ENTRIES, INTEGER), default: INTEGER }),
  if: record({ op: oneOf("if"), test: TEST, then: NUMBER, otherwise: NUMBER }),
  clamp: checked(
    record({ op: oneOf("clamp"), of: NUMBER, low: INTEGER, high: INTEGER }),
    ({ low, high }, place) => low <= high || refuse(place, "low is above high"),
  ),
});

/** @type {Reader<Query>} */
export const QUERY = kinds("kind", {
  boolean: record({ kind: oneOf("boolean"), test: TEST }),
  real: record({ kind: oneOf("real"), numerator: NUMBER, denominator: whole(1, 2 ** 17) }),
  cell: record({ kind: oneOf("cell"), cells: whole(1, 2 ** 16), cell: NUMBER }, { negative: TEST }),
});

/**
 * A query from its published form.
 * @param {Uint8Array | string} data
 */
export const readQuery = (data) => QUERY(loads(data, MAX_BYTES), "");

/**
 * The expressions of a query that are evaluated, each with the member that holds it.
 * @param {Query} query
 * @returns {readonly (readonly [string, Test | Numeric])[]}
 */
export function roots(query) {
  if (query.kind === "boolean") return [["test", query.test]];
  if (query.kind === "real") return [["numerator", query.numerator]];
  return query.negative === undefined
    ? [["cell", query.cell]]
    : [
        ["cell", query.cell],
        ["negative", query.negative],
      ];
}

/**
 * The nodes directly below a node.
 * @param {Test | Numeric} node
 * @returns {readonly (Test | Numeric)[]}
 */
export function parts(node) {
  switch (node.op) {
    case "not":
    case "clamp":
      return [node.of];
    case "and":
    case "or":
    case "xor":
      return node.of;
    case "compare":
      return [node.left, node.right];
    case "affine":
      return node.terms.map(({ of }) => of);
    case "lookup":
      return [node.index];
    case "if":
      return [node.test, node.then, node.otherwise];
    default:
      return [];
  }
}

/**
 * The number of table entries and weights that a node carries.
 * @param {Test | Numeric} node
 */
function entriesOf(node) {
  if (node.op === "parity") return Math.ceil(node.mask.length / 16);
  if (node.op === "dot") return node.weights.length;
  if (node.op === "affine") return node.terms.length;
  return node.op === "lookup" ? node.table.length : 0;
}

/**
 * Count nodes, levels and table entries: what a query costs to evaluate, known before it is.
 * @param {Query} query
 * @returns {Cost}
 */
export function measure(query) {
  let [nodes, depth, entries] = [0, 0, 0];
  for (let level = roots(query).map(([, node]) => node); level.length; level = level.flatMap(parts)) {
    depth++;
    nodes += level.length;
    for (const node of level) entries += entriesOf(node);
  }
  return { nodes, depth, entries };
}

/**
 * Check a query against its schema and the limits, and compile it.
 * @param {Query} query
 * @param {Schema} schema
 * @returns {PreparedQuery}
 */
export function prepare(query, schema) {
  const { nodes, depth, entries } = measure(query);
  const [top] = roots(query)[0];
  if (nodes > MAX_NODES) refuse(top, `has ${nodes} nodes, over the limit of ${MAX_NODES}`, "ask less at once");
  if (depth > MAX_LEVELS) refuse(top, `has ${depth} levels, over the limit of ${MAX_LEVELS}`, "ask less at once");
  if (entries > MAX_ENTRIES)
    refuse(top, `has ${entries} table entries, over the limit of ${MAX_ENTRIES}`, "ask less at once");
  const check = bounder(schema);
  for (const [name, node] of roots(query)) check(node, name);
  const evaluate = compile(query, schema);
  return Object.freeze({
    query,
    schema,
    answer: (/** @type {import("./examples.mjs").Example} */ example) => {
      example.checkSchema(schema);
      return evaluate(example);
    },
  });
}

/**
 * Between which numbers the cell of a query lies.
 * @param {Extract<Query, {kind: "cell"}>} query
 * @param {Schema} schema
 */
const boundsOfCell = (query, schema) => bounder(schema)(query.cell, "cell") ?? [0n, 0n];

/**
 * Whether each example lies in a cell.
 * @param {Extract<Query, {kind: "cell"}>} query
 * @param {Schema} schema
 */
export function alwaysInside(query, schema) {
  const [low, high] = boundsOfCell(query, schema);
  return low >= 0n && high < BigInt(query.cells);
}

/**
 * The number of inputs of a channel that has one for each answer. Refused where a cell query may name no cell.
 * @param {Query} query
 * @param {Schema} schema
 */
export function inputsOf(query, schema) {
  if (query.kind === "boolean") return 2;
  if (query.kind === "real") return 2 * query.denominator + 1;
  if (!alwaysInside(query, schema)) {
    const [low, high] = boundsOfCell(query, schema);
    refuse(
      "",
      `the cell lies in ${low} .. ${high}, not always in 0 .. ${query.cells - 1}`,
      "clamp it, or use a binary channel, which has an answer for no cell",
    );
  }
  return query.negative === undefined ? query.cells : 2 * query.cells;
}
