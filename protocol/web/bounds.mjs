// What a schema says of a query before any example is looked at: between which integers each number lies, and what is
// refused because it could leave ±(2^53 − 1), or asks what the schema has not. All of it is public, and exact:
// integers of any size.

import { refuse, under } from "./errors.mjs";
import { bounds as boundsOf, fieldOf, hasGaps } from "./schema.mjs";

/** @typedef {import("./queries.mjs").Test} Test */
/** @typedef {import("./queries.mjs").Numeric} Numeric */
/** @typedef {import("./schema.mjs").Schema} Schema */
/** @typedef {readonly [bigint, bigint]} Bounds the least and the most */

const SAFE = BigInt(Number.MAX_SAFE_INTEGER);

/** @param {readonly bigint[]} items */
const least = (items) => items.reduce((a, b) => (b < a ? b : a));
/** @param {readonly bigint[]} items */
const most = (items) => items.reduce((a, b) => (b > a ? b : a));
/** @param {readonly bigint[]} items */
const sum = (items) => items.reduce((a, b) => a + b, 0n);

/**
 * Between which integers some sums lie, whatever their order.
 * @param {readonly Bounds[]} summands
 * @param {string} place
 */
function checkSums(summands, place) {
  const low = sum(summands.map(([below]) => (below < 0n ? below : 0n)));
  const high = sum(summands.map(([, above]) => (above > 0n ? above : 0n)));
  if (-low > SAFE || high > SAFE)
    refuse(place, "can leave ±(2^53 - 1)", "use smaller weights, or clamp what is summed");
}

/**
 * What checks a node against a schema, and gives a number's bounds; undefined for a test.
 * @param {Schema} schema
 * @returns {(node: Test | Numeric, place: string) => Bounds | undefined}
 */
export function bounder(schema) {
  /**
   * @param {string} name
   * @param {string} place
   */
  function bits(name, place) {
    const field = fieldOf(schema, name, under(place, "field"));
    return field.kind === "bits" ? field.width : refuse(under(place, "field"), "is not a bit vector");
  }

  /**
   * @param {Numeric} node
   * @param {string} place
   * @returns {Bounds}
   */
  function number(node, place) {
    switch (node.op) {
      case "integer":
        return [BigInt(node.of), BigInt(node.of)];
      case "field":
        return held(node, place);
      case "slice":
        if (node.first + node.width > bits(node.field, place)) refuse(place, "reaches beyond the bits of its field");
        return [0n, (1n << BigInt(node.width)) - 1n];
      case "dot":
        return product(node, place);
      case "affine":
        return total(node, place);
      case "lookup":
        return found(node, place);
      case "if": {
        test(node.test, under(place, "test"));
        const [then, otherwise] = [
          number(node.then, under(place, "then")),
          number(node.otherwise, under(place, "otherwise")),
        ];
        return [least([then[0], otherwise[0]]), most([then[1], otherwise[1]])];
      }
      case "clamp": {
        const [low, high] = number(node.of, under(place, "of")).map((bound) =>
          least([most([bound, BigInt(node.low)]), BigInt(node.high)]),
        );
        return [low, high];
      }
    }
  }

  /**
   * @param {Extract<Numeric, {op: "field"}>} node
   * @param {string} place
   * @returns {Bounds}
   */
  function held(node, place) {
    const field = fieldOf(schema, node.field, under(place, "field"));
    if (field.kind === "bits")
      return refuse(under(place, "field"), "is a bit vector", "take a `slice` or a `dot` of it");
    if (hasGaps(field) && node.gap === undefined)
      refuse(place, "of a field that has gaps", 'say what one counts as: "gap"');
    if (!hasGaps(field) && node.gap !== undefined)
      refuse(under(place, "gap"), "of a field that has no gaps", "leave it out");
    const [low, high] = boundsOf(field).map(BigInt);
    const gap = node.gap === undefined ? low : BigInt(node.gap);
    return [least([low, gap]), most([high, gap])];
  }

  /**
   * @param {Extract<Numeric, {op: "dot"}>} node
   * @param {string} place
   * @returns {Bounds}
   */
  function product(node, place) {
    const width = bits(node.field, place);
    if (node.weights.length !== width)
      refuse(under(place, "weights"), `has ${node.weights.length} weights`, `give one for each of ${width} bits`);
    /** @type {Bounds[]} */
    const summands = node.weights.map((weight) => [least([BigInt(weight), 0n]), most([BigInt(weight), 0n])]);
    checkSums(summands, place);
    return [sum(summands.map(([low]) => low)), sum(summands.map(([, high]) => high))];
  }

  /**
   * @param {Extract<Numeric, {op: "affine"}>} node
   * @param {string} place
   * @returns {Bounds}
   */
  function total(node, place) {
    /** @type {Bounds[]} */
    const summands = node.terms.map(({ weight, of }, index) => {
      const ends = number(of, under(place, `terms[${index}].of`)).map((bound) => bound * BigInt(weight));
      return [least(ends), most(ends)];
    });
    summands.push([BigInt(node.constant), BigInt(node.constant)]);
    checkSums(summands, place);
    return [sum(summands.map(([low]) => low)), sum(summands.map(([, high]) => high))];
  }

  /**
   * @param {Extract<Numeric, {op: "lookup"}>} node
   * @param {string} place
   * @returns {Bounds}
   */
  function found(node, place) {
    const [low, high] = number(node.index, under(place, "index"));
    const reached = node.table.filter((_, index) => low <= BigInt(index) && BigInt(index) <= high).map(BigInt);
    if (low < 0n || high >= BigInt(node.table.length)) reached.push(BigInt(node.default));
    return [least(reached), most(reached)];
  }

  /**
   * @param {Test} node
   * @param {string} place
   */
  function test(node, place) {
    switch (node.op) {
      case "constant":
        break;
      case "bit":
        if (node.index >= bits(node.field, place))
          refuse(under(place, "index"), "there is no such bit", "bits are numbered from 0");
        break;
      case "parity":
        if (BigInt(`0x${node.mask}`) >> BigInt(bits(node.field, place)))
          refuse(under(place, "mask"), "selects bits beyond the field");
        break;
      case "is": {
        const field = fieldOf(schema, node.field, under(place, "field"));
        if (field.kind !== "category") refuse(under(place, "field"), "is not a category");
        else if (!field.values.includes(node.category)) refuse(under(place, "category"), "is no value of the field");
        break;
      }
      case "label":
        if (!schema.fields.some(({ kind }) => kind === "label")) refuse(place, "the examples have no label");
        break;
      case "not":
        test(node.of, under(place, "of"));
        break;
      case "compare":
        number(node.left, under(place, "left"));
        number(node.right, under(place, "right"));
        break;
      default:
        node.of.forEach((each, index) => test(each, under(place, `of[${index}]`)));
    }
  }

  return (node, place) => (isTest(node) ? void test(node, place) : number(node, place));
}

const TESTS = new Set(["constant", "bit", "parity", "is", "label", "not", "and", "or", "xor", "compare"]);

/**
 * @param {Test | Numeric} node
 * @returns {node is Test}
 */
export const isTest = (node) => TESTS.has(node.op);
