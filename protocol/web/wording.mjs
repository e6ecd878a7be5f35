// Questions in words: what a query asks, and what a field holds, in plain English for whoever has to answer. The very
// sentences of `askance_protocol.queries.wording`, so that a person reads the same on every client: they say all that
// the query does, whatever the title says.

import { parts, roots } from "./queries.mjs";
import { bounds, fieldOf, hasGaps } from "./schema.mjs";
import { printable } from "./text.mjs";

/** @typedef {import("./queries.mjs").Numeric} Numeric */
/** @typedef {import("./queries.mjs").Query} Query */
/** @typedef {import("./queries.mjs").Test} Test */
/** @typedef {Extract<Numeric, {op: "lookup"}>} Lookup */
/** @typedef {import("./schema.mjs").Field} Field */
/** @typedef {import("./schema.mjs").Schema} Schema */

/** Numbers or names of a list that are shown. */
const SHOWN = 32;
/** Values of a field, no category, of which each is told what a table says of it. */
const TOLD = 1024;

/** Each relation, and its opposite. @type {Readonly<Record<import("./queries.mjs").Relation, readonly [string, string]>>} */
const RELATIONS = {
  "<": ["is less than", "is at least"],
  "<=": ["is at most", "is more than"],
  "=": ["is", "is not"],
  "!=": ["is not", "is"],
  ">=": ["is at least", "is less than"],
  ">": ["is more than", "is at most"],
};

/**
 * What a query asks of one example: "whether plan is 'pro'", "the value of height, from -1 to 1".
 * @param {Query} query
 * @param {Schema} schema
 */
export function words(query, schema) {
  const say = new Wording(schema);
  switch (query.kind) {
    case "boolean":
      return `whether ${say.test(query.test)}`;
    case "real":
      return say.scaled(query) ?? `the value of ${say.quotient(query)}, from -1 to 1`;
    case "cell":
      return say.cell(query);
  }
}

/**
 * What a field holds: "plan: one of 'free', 'pro'".
 * @param {Field} field
 */
export const fieldWords = (field) => `${field.name}: ${kindWords(field)}${hasGaps(field) ? ", or nothing" : ""}`;

/** @param {Field} field */
function kindWords(field) {
  switch (field.kind) {
    case "bits":
      return field.width === 1 ? "one bit" : `${field.width} bits`;
    case "category":
      return `one of ${list(field.values.map(quotedName))}`;
    case "integer":
      return `a whole number from ${field.low} to ${field.high}`;
    case "real":
      return `a number from ${field.low} to ${field.high}, in steps of 1/${field.denominator}`;
    case "label":
      return "a label, +1 or -1";
  }
}

/**
 * The fields that a query looks at, in the schema's order.
 * @param {Query} query
 * @param {Schema} schema
 */
export function fieldsOf(query, schema) {
  const found = new Set();
  for (let level = roots(query).map(([, node]) => node); level.length; level = level.flatMap(parts)) {
    for (const node of level) {
      if ("field" in node) found.add(node.field);
      if (node.op === "label") found.add(labelOf(schema)?.name);
    }
  }
  return schema.fields.filter(({ name }) => found.has(name));
}

/** @param {Schema} schema */
const labelOf = (schema) => schema.fields.find(({ kind }) => kind === "label");

class Wording {
  /** @param {Schema} schema */
  constructor(schema) {
    this.schema = schema;
  }

  /** @param {string} name */
  field(name) {
    return fieldOf(this.schema, name, "field");
  }

  // ---------------------------------------------------------------------------------------------------- queries

  /**
   * The value of a real query: a real field itself, where the query counts in the field's own steps.
   * @param {Extract<Query, {kind: "real"}>} query
   */
  quotient({ numerator, denominator }) {
    if (numerator.op === "field" && numerator.gap === undefined) {
      const field = this.field(numerator.field);
      if (field.kind === "real" && field.denominator === denominator) return field.name;
    }
    return this.factor(numerator) + (denominator > 1 ? ` / ${denominator}` : "");
  }

  /**
   * The mean of a column, as surveys ask it: "your rating, on a scale from 1 to 5"; null for other queries.
   * @param {Extract<Query, {kind: "real"}>} query
   */
  scaled({ numerator, denominator }) {
    const there = numerator.op === "if" ? this.presence(numerator.test) : null;
    if (numerator.op === "if" && (there === null || !isInteger(numerator.otherwise, 0))) return null;
    const number = numerator.op === "if" ? numerator.then : numerator;
    if (number.op !== "affine" || number.terms.length !== 1) return null;
    const [{ weight, of: clamp }] = number.terms;
    if (clamp.op !== "clamp" || clamp.of.op !== "field") return null;
    const [value, { low, high }] = [clamp.of, clamp];
    const field = this.field(value.field);
    if (field.kind !== "integer" && field.kind !== "real") return null;
    if (weight * low + number.constant !== -denominator || weight * high + number.constant !== denominator) return null;
    if (weight !== 1 + (high - low) % 2 || (value.gap === undefined) !== (there === null)) return null;
    if (there !== null && there !== field.name) return null;
    const [least, most] = bounds(field);
    const beyond = low <= least && most <= high ? "" : ", where what is beyond counts as the nearer end";
    const scale = `your ${field.name}, on a scale from ${inUnits(low, field)} to ${inUnits(high, field)}`;
    return scale + beyond + (there === null ? "" : ", or the middle of it if there is nothing");
  }

  /**
   * The field of which a test asks whether there is a value; null for other tests.
   * @param {Test} test
   */
  presence(test) {
    if (test.op !== "compare" || test.relation !== ">" || test.left.op !== "field") return null;
    const { field: name, gap } = test.left;
    if (gap === undefined || !isInteger(test.right, gap)) return null;
    const field = this.field(name);
    return (field.kind === "integer" || field.kind === "real") && gap < bounds(field)[0] ? name : null;
  }

  /** @param {Extract<Query, {kind: "cell"}>} query */
  cell(query) {
    const asked = this.ofAllValues(query) ?? this.ofAllNumbers(query) ?? this.ofRanges(query) ?? this.group(query);
    return query.negative === undefined
      ? asked
      : `${asked}; and whether ${this.test(query.negative)}, which counts against the group`;
  }

  /** @param {Extract<Query, {kind: "cell"}>} query */
  group({ cells, cell }) {
    const last = cells > 1 ? `to ${cells - 1}` : "alone";
    return `which group you are in, of those numbered 0 ${last}, if any: number ${this.number(cell)}`;
  }

  /**
   * A category of which each value is a group; null where the groups are others.
   * @param {Extract<Query, {kind: "cell"}>} query
   */
  ofAllValues({ cells, cell }) {
    const field = cell.op === "field" ? this.field(cell.field) : null;
    if (cell.op !== "field" || field?.kind !== "category") return null;
    const [{ gap }, { length }] = [cell, field.values];
    const which = `which one ${field.name} is, of ${list(field.values.map(quotedName))}`;
    if (gap === undefined) return cells === length ? which : null;
    if (gap === length && cells === length + 1) return `${which}, or whether there is nothing`;
    return cells === length && (gap < 0 || gap >= length) ? `${which}, if any` : null;
  }

  /**
   * Each whole number of a field is a group, in its place; null where the groups are others.
   * @param {Extract<Query, {kind: "cell"}>} query
   */
  ofAllNumbers({ cells, cell }) {
    const index = shiftedField(cell);
    if (index === null) return null;
    const field = this.field(index.value.field);
    if (field.kind !== "integer" || index.constant !== -field.low || index.value.gap !== undefined) return null;
    if (cells !== field.high - field.low + 1) return null;
    return `which number ${field.name} is, from ${field.low} to ${field.high}`;
  }

  /**
   * A field is cut into groups, the lowest first: "which range minutes is in, of below 30, …"; null where it is not.
   * @param {Extract<Query, {kind: "cell"}>} query
   */
  ofRanges({ cells, cell }) {
    if (cell.op !== "affine" || cell.constant || cell.terms.some(({ weight }) => weight !== 1)) return null;
    const numbers = cell.terms.map(({ of }) => of);
    const missing = this.missing(numbers[numbers.length - 1]);
    /** @type {number[]} */
    const cuts = [];
    const [names, gaps] = [new Set(), new Set()];
    for (const part of missing === null ? numbers : numbers.slice(0, -1)) {
      if (part.op !== "if" || part.test.op !== "compare" || part.test.relation !== ">=") return null;
      const { left, right } = part.test;
      if (left.op !== "field" || right.op !== "integer") return null;
      if (!isInteger(part.then, 1) || !isInteger(part.otherwise, 0)) return null;
      names.add(left.field);
      gaps.add(left.gap);
      cuts.push(right.of);
    }
    const [[name], [gap]] = [[...names], [...gaps]];
    if (names.size !== 1 || gaps.size !== 1 || cuts.some((cut, at) => at > 0 && cut <= cuts[at - 1])) return null;
    const field = this.field(name);
    if ((missing !== null && missing !== name) || (field.kind !== "integer" && field.kind !== "real")) return null;
    if (cells !== cuts.length + 1 + Number(missing !== null) || (gap === undefined) !== (missing === null)) return null;
    if (gap !== undefined && gap < cuts[cuts.length - 1]) return null;
    const said = cuts.map((cut) => inUnits(cut, field));
    const between = said.slice(1).map((high, at) => `from ${said[at]} to below ${high}`);
    const ranges = list([`below ${said[0]}`, ...between, `from ${said[said.length - 1]} on`]);
    return `which range ${name} is in, of ${ranges}${missing === null ? "" : ", or whether there is nothing"}`;
  }

  /**
   * The field of whose gaps a number is 1, and else 0.
   * @param {Numeric} number
   */
  missing(number) {
    if (number.op !== "if" || !isInteger(number.then, 0) || !isInteger(number.otherwise, 1)) return null;
    return this.presence(number.test);
  }

  // ------------------------------------------------------------------------------------------------------ tests

  /**
   * A test, or its opposite, as a clause.
   * @param {Test} test
   * @param {boolean} [holds]
   * @returns {string}
   */
  test(test, holds = true) {
    const verb = (/** @type {import("./queries.mjs").Relation} */ relation) => RELATIONS[relation][holds ? 0 : 1];
    switch (test.op) {
      case "constant":
        return `the answer is ${test.truth === holds ? "yes" : "no"} for everybody`;
      case "bit":
        return this.bits(test.field, [test.index], holds);
      case "parity":
        return this.bits(test.field, chosen(test.mask), holds);
      case "is":
        return `${test.field} ${verb("=")} ${quotedName(test.category)}`;
      case "label":
        return `${labelOf(this.schema)?.name ?? "the label"} is ${(test.sign > 0) === holds ? "+1" : "-1"}`;
      case "not":
        return this.test(test.of, !holds);
      case "compare":
        return this.comparison(test, verb(test.relation), holds);
      default:
        return this.several(test, holds);
    }
  }

  /**
   * A field beside a number as people write it, and what a gap counts as; other numbers as they are computed.
   * @param {Extract<Test, {op: "compare"}>} test
   * @param {string} verb
   * @param {boolean} holds
   */
  comparison(test, verb, holds) {
    const [{ left, right, relation }, there] = [test, this.presence(test)];
    if (there !== null) return `there is ${holds ? "a" : "no"} value for ${there}`;
    const field = left.op === "field" ? this.field(left.field) : null;
    if (left.op !== "field" || right.op !== "integer" || (field?.kind !== "integer" && field?.kind !== "real"))
      return `${this.factor(left)} ${verb} ${this.factor(right)}`;
    const said = `${field.name} ${verb} ${inUnits(right.of, field)}`;
    if (left.gap === undefined) return said;
    return `${said} (nothing counts as ${stands(left.gap, relation, right.of) === holds ? "yes" : "no"})`;
  }

  /**
   * One bit, or the parity of some.
   * @param {string} name
   * @param {readonly number[]} indexes
   * @param {boolean} holds
   */
  bits(name, indexes, holds) {
    const field = this.field(name);
    if (indexes.length === 1) {
      const bit = field.kind === "bits" && field.width === 1 ? name : `bit ${indexes[0]} of ${name}`;
      return `${bit} is ${Number(holds)}`;
    }
    const among = indexes.length ? `bits ${list(indexes.map(String))}` : "no bits";
    return `the number of ones among ${among} of ${name} is ${holds ? "odd" : "even"}`;
  }

  /**
   * Tests that are joined. The opposite of several is told of the whole.
   * @param {Extract<Test, {op: "and" | "or" | "xor"}>} test
   * @param {boolean} holds
   */
  several({ op, of }, holds) {
    if (of.length === 1) return this.test(of[0], holds);
    // What is joined itself stands in brackets.
    const clauses = of.map((each) => (isJoined(each) ? `(${this.test(each)})` : this.test(each)));
    if (op === "xor") return `${holds ? "an odd" : "an even"} number of these are true: ${clauses.join("; ")}`;
    const joined = clauses.join(` ${op} `);
    return holds ? joined : `it is not so that (${joined})`;
  }

  // ---------------------------------------------------------------------------------------------------- numbers

  /**
   * A number, as a phrase.
   * @param {Numeric} number
   * @returns {string}
   */
  number(number) {
    switch (number.op) {
      case "integer":
        return String(number.of);
      case "field":
        return held(this.field(number.field)) + (number.gap === undefined ? "" : `, or ${number.gap} where there is nothing`);
      case "slice": {
        const { first, width } = number;
        return `${width === 1 ? `bit ${first}` : `bits ${first} to ${first + width - 1}`} of ${number.field}, read as a number`;
      }
      case "dot":
        return `the bits of ${number.field} times ${list(number.weights.map(String))}, added up`;
      case "affine":
        return this.sum(number);
      case "lookup":
        return this.byValue(number) ?? this.byEntry(number);
      case "if": {
        const test = isJoined(number.test) ? `(${this.test(number.test)})` : this.test(number.test);
        return `${this.factor(number.then)} if ${test}, else ${this.factor(number.otherwise)}`;
      }
      case "clamp":
        return `${this.factor(number.of)}, but not below ${number.low} nor above ${number.high}`;
    }
  }

  /**
   * What a table says, entry by entry.
   * @param {Lookup} lookup
   */
  byEntry({ index, table, default: other }) {
    const entry = `entry ${this.factor(index)}, counted from 0, of the list ${list(table.map(String))}`;
    return `${entry}, or ${other} where it has none`;
  }

  /**
   * What a table says of each value of a field: "1 if plan is 'free', 0 if it is 'pro'"; null where that is long.
   * Neighbours of which it says the same are told together.
   * @param {Lookup} lookup
   */
  byValue({ index, table, default: other }) {
    const shifted = shiftedField(index);
    if (shifted === null) return null;
    const field = this.field(shifted.value.field);
    if (field.kind === "bits" || field.kind === "label") return null;
    const [least, most] = bounds(field);
    if (most - least >= (field.kind === "category" ? SHOWN : TOLD)) return null;
    const entry = (/** @type {number} */ value) => table[value + shifted.constant] ?? other;
    const values = Array.from({ length: most - least + 1 }, (_, place) => least + place);
    const starts = values.filter((value) => value === least || entry(value) !== entry(value - 1));
    if (starts.length > SHOWN) return null;
    const pieces = starts.map((start, place) => {
      const run = values.slice(start - least, (starts[place + 1] ?? most + 1) - least);
      const subject = place ? "it" : field.kind === "category" ? field.name : held(field);
      return `${entry(start)} if ${subject} is ${runWords(field, run)}`;
    });
    const { gap } = shifted.value;
    return [...pieces, ...(gap === undefined ? [] : [`${entry(gap)} if there is nothing`])].join(", ");
  }

  /**
   * A number as a part of a longer phrase: all but a plain number or a name stands in brackets.
   * @param {Numeric} number
   */
  factor(number) {
    const phrase = this.number(number);
    return number.op === "integer" || !phrase.includes(" ") ? phrase : `(${phrase})`;
  }

  /** @param {Extract<Numeric, {op: "affine"}>} number */
  sum({ constant, terms }) {
    const phrases = terms.map(({ weight, of }) => {
      const phrase = this.factor(of);
      return /** @type {const} */ ([weight, Math.abs(weight) === 1 ? phrase : `${Math.abs(weight)} × ${phrase}`]);
    });
    if (constant) phrases.push([constant, String(Math.abs(constant))]);
    const [[sign, first], ...others] = phrases;
    return `${sign < 0 ? "-" : ""}${first}${others.map(([weight, phrase]) => ` ${weight < 0 ? "-" : "+"} ${phrase}`).join("")}`;
  }
}

/**
 * @param {Numeric} number
 * @param {number} value
 */
const isInteger = (number, value) => number.op === "integer" && number.of === value;

/**
 * Whether two numbers stand in a relation.
 * @param {number} left
 * @param {import("./queries.mjs").Relation} relation
 * @param {number} right
 */
function stands(left, relation, right) {
  const [less, same] = [left < right, left === right];
  return { "<": less, "<=": less || same, "=": same, "!=": !same, ">=": !less, ">": !less && !same }[relation];
}

/**
 * A number that a field holds, as people write it: a real field counts in steps.
 * @param {number} number
 * @param {Extract<Field, {kind: "integer" | "real"}>} field
 */
function inUnits(number, field) {
  const steps = field.kind === "real" ? field.denominator : 1;
  if (number % steps === 0) return String(number / steps || 0);
  return [10, 100, 1000].includes(steps) ? String(number / steps) : `${number}/${steps}`;
}

/**
 * The bits of a mask that are set, the lowest first.
 * @param {string} mask hexadecimal
 */
function chosen(mask) {
  const digits = [...BigInt(`0x${mask}`).toString(2)].reverse();
  return digits.flatMap((digit, index) => (digit === "1" ? [index] : []));
}

/**
 * Whether a test is told by several clauses.
 * @param {Test} test
 * @returns {boolean}
 */
function isJoined(test) {
  if (test.op === "not") return isJoined(test.of);
  if (test.op === "and" || test.op === "or" || test.op === "xor") return test.of.length > 1 || test.of.some(isJoined);
  return false;
}

/**
 * The field that an index is, and what is added to it; null for other indexes.
 * @param {Numeric} index
 */
function shiftedField(index) {
  if (index.op === "field") return { value: index, constant: 0 };
  if (index.op !== "affine" || index.terms.length !== 1) return null;
  const [{ weight, of }] = index.terms;
  return weight === 1 && of.op === "field" ? { value: of, constant: index.constant } : null;
}

/**
 * Neighbouring values of a field.
 * @param {Field} field
 * @param {readonly number[]} run
 */
function runWords(field, run) {
  if (field.kind === "category") return run.map((place) => quotedName(field.values[place])).join(" or ");
  return run.length === 1 ? String(run[0]) : `${run[0]} to ${run[run.length - 1]}`;
}

/**
 * The integer that a field holds.
 * @param {Field} field
 */
function held(field) {
  if (field.kind === "real" && field.denominator > 1) return `${field.denominator} × ${field.name}`;
  if (field.kind === "category") return `the place of ${field.name}, counted from 0, in ${list(field.values.map(quotedName))}`;
  return field.name;
}

// A name as Python writes it (`repr`), so that the same is read on every client. What it escapes is what cannot be
// seen: it takes the joiners, too, and every space but one.
const UNSEEN = /[\\\p{C}\p{Z}]/gu;
/** @type {Readonly<Record<string, string>>} */
const SHORT = { " ": " ", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** @param {string} name */
function quotedName(name) {
  const quote = name.includes("'") && !name.includes('"') ? '"' : "'";
  const inside = name.replace(UNSEEN, unseen);
  return printable(`${quote}${quote === "'" ? inside.replaceAll("'", "\\'") : inside}${quote}`);
}

/** @param {string} character */
function unseen(character) {
  const hex = (character.codePointAt(0) ?? 0).toString(16);
  const [letter, digits] = hex.length <= 2 ? ["x", 2] : hex.length <= 4 ? ["u", 4] : ["U", 8];
  return SHORT[character] ?? `\\${letter}${hex.padStart(digits, "0")}`;
}

/**
 * A list with commas; a long one is shortened, and its length is told.
 * @param {readonly string[]} names
 */
function list(names) {
  if (names.length <= SHOWN) return names.join(", ");
  return `${names.slice(0, SHOWN - 1).join(", ")}, … (${names.length} in all)`;
}
