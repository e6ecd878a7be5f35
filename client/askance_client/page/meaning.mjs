// What a question means: the answers that a person can give to it, how often each gives each outcome, and what an outcome says.
//
// All of it is computed from the round's own documents, for every answer alike, before a person has given one: it shows what
// the channel does, and never what she did.

import { Example, chances, fieldsOf, inputOf, printable, words } from "../../../protocol/web/index.mjs";

/** @typedef {import("../../../protocol/web/judge.mjs").Asked} Asked */
/** @typedef {{readonly label: string, readonly value: unknown, readonly isGap: boolean}} Option one value of a field */
/** @typedef {{readonly label: string, readonly isGap: boolean, readonly input: number, readonly shares: readonly number[]}} Answer */
/**
 * @typedef {object} Meaning
 * @property {readonly any[]} fields the fields that the question looks at
 * @property {string} words what it asks, as every client says it
 * @property {readonly Answer[]} answers all that a person can give, where they are few; of a longer list its two ends
 * @property {boolean} isWhole whether these are all
 * @property {readonly string[]} outcomes what each outcome says, in words
 * @property {number} odds the most that a bit moves anybody's odds, by the channel's own weights
 * @property {boolean} isBit whether there are two outcomes
 */

/** More answers than this are not listed. */
const FEW = 64;
/** A whole number is one of a row of buttons up to so many. */
export const SCALE = 11;

/**
 * All values of a field, where they are few.
 * @param {any} field
 * @returns {Option[] | null}
 */
export function optionsOf(field) {
  const gap = field.gap ? [{ label: "nothing", value: null, isGap: true }] : [];
  const option = (/** @type {string} */ label, /** @type {unknown} */ value) => ({ label, value, isGap: false });
  switch (field.kind) {
    case "category":
      return field.values.length > FEW ? null : [...field.values.map((/** @type {string} */ value) => option(printable(value), value)), ...gap];
    case "integer": {
      const count = field.high - field.low + 1;
      return count > FEW ? null : [...Array.from({ length: count }, (_, at) => option(String(field.low + at), field.low + at)), ...gap];
    }
    case "bits":
      return field.width === 1 ? [option("yes", "1"), option("no", "0")] : null;
    case "label":
      return [option("yes (+1)", 1), option("no (−1)", -1)];
    default:
      return null;
  }
}

/**
 * A value of a field that may stand where the question does not look.
 * @param {any} field
 */
function anyOf(field) {
  switch (field.kind) {
    case "category":
      return field.values[0];
    case "bits":
      return "0".repeat(field.width);
    case "label":
      return 1;
    default:
      return field.low;
  }
}

/**
 * The example of a person who gives these values, and whatever else the schema wants where the question does not look.
 * @param {any} schema
 * @param {Record<string, unknown>} values
 */
export function exampleOf(schema, values) {
  return new Example(schema, Object.fromEntries(schema.fields.map((/** @type {any} */ field) => [field.name, Object.hasOwn(values, field.name) ? values[field.name] : anyOf(field)])));
}

/**
 * What the question means that a user is dealt.
 * @param {Asked} asked
 * @param {any} schema
 * @returns {Meaning}
 */
export function meaningOf(asked, schema) {
  const { channel, prepared: { part } } = asked;
  const fields = fieldsOf(part.query, schema);
  const all = fields.length === 1 ? optionsOf(fields[0]) : null;
  const answers = all
    ? all.map(({ label, value, isGap }) => {
        const input = inputOf(asked, exampleOf(schema, { [fields[0].name]: value }));
        return { label, isGap, input, shares: chances(asked, input) };
      })
    : ends(asked);
  const weights = Array.from({ length: channel.inputs }, (_, input) => channel.weights(input));
  return {
    fields,
    words: printable(words(part.query, schema)),
    answers,
    isWhole: all !== null,
    outcomes: Array.from({ length: channel.outcomes }, (_, outcome) => saying(answers, outcome, channel.outcomes)),
    odds: Array.from({ length: channel.outcomes }, (_, outcome) => oddsOf(weights.map((each) => each[outcome]))).reduce((a, b) => Math.max(a, b)),
    isBit: channel.outcomes === 2,
  };
}

/**
 * The two inputs that are furthest apart, where the answers are too many to list.
 * @param {Asked} asked
 * @returns {Answer[]}
 */
function ends(asked) {
  const [least, most] = asked.prepared.part.query.kind === "boolean" ? ["no", "yes"] : ["the least", "the most"];
  return [{ label: most, input: asked.channel.inputs - 1 }, { label: least, input: 0 }].map(({ label, input }) => ({ label, input, isGap: false, shares: chances(asked, input) }));
}

/**
 * What an outcome says: the answers that give it the most often.
 * @param {readonly Answer[]} answers
 * @param {number} outcome
 * @param {number} outcomes
 */
function saying(answers, outcome, outcomes) {
  const given = answers.filter(({ isGap }) => !isGap);
  const heights = given.map(({ shares }) => Math.max(...shares));
  // A bit that is likelier the larger a number is says no single answer.
  if (outcomes === 2 && Math.max(...heights) - Math.min(...heights) > 1e-9) return String(outcome);
  const most = Math.max(...answers.map(({ shares }) => shares[outcome]));
  const likely = answers.filter(({ shares }) => shares[outcome] > most - 1e-12).map(({ label }) => label);
  // Where all answers give it alike, or it is one number of many, it has no other name than its own.
  return likely.length === answers.length || likely.length > 3 || outcomes > FEW ? String(outcome) : likely.join(" / ");
}

/** @param {readonly bigint[]} column */
function oddsOf(column) {
  const [least, most] = column.reduce(([low, high], each) => [each < low ? each : low, each > high ? each : high], [column[0], column[0]]);
  return Number((most * 10n ** 9n + least - 1n) / least) / 1e9;
}
