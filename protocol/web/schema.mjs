// What an example is made of: named fields, each of which turns what a person writes into one integer, or into bits.

import { loads, written } from "./canonical.mjs";
import { ProtocolError, refuse } from "./errors.mjs";
import { listed, quoted } from "./text.mjs";
import { NAME, checked, kinds, list, oneOf, record, text, whole } from "./values.mjs";

/** @typedef {{readonly kind: "bits", readonly name: string, readonly width: number}} BitsField */
/** @typedef {{readonly name: string}} Named */
/** @typedef {{readonly gap?: true}} Gaps */
/** @typedef {{readonly kind: "category", readonly values: readonly string[]} & Named & Gaps} CategoryField */
/** @typedef {{readonly low: number, readonly high: number} & Named & Gaps} Range */
/** @typedef {{readonly kind: "integer"} & Range} IntegerField */
/** @typedef {{readonly kind: "real", readonly denominator: number} & Range} RealField */
/** @typedef {{readonly kind: "label", readonly name: string}} LabelField */
/** @typedef {CategoryField | IntegerField | RealField | LabelField} NumberField */
/** @typedef {BitsField | NumberField} Field */
/** @typedef {{readonly fields: readonly Field[]}} Schema */
/** @typedef {import("./values.mjs").Json} Json */

const INTEGER = whole(-(2 ** 40), 2 ** 40);
const REAL = whole(-(2 ** 20), 2 ** 20);
const GAP = { gap: oneOf(true) };

/** @param {readonly string[]} items */
const distinct = (items) => new Set(items).size === items.length;

/** @type {import("./values.mjs").Reader<Field>} */
const FIELD = kinds("kind", {
  bits: record({ kind: oneOf("bits"), name: NAME, width: whole(1, 4096) }),
  category: checked(
    record({ kind: oneOf("category"), name: NAME, values: list(2, 4096, text(1, 64)) }, GAP),
    ({ values }, place) => distinct(values) || refuse(`${place}.values`, "a category stands twice", "name each once"),
  ),
  integer: checked(
    record({ kind: oneOf("integer"), name: NAME, low: INTEGER, high: INTEGER }, GAP),
    ({ low, high }, place) => low <= high || refuse(place, "low is above high"),
  ),
  real: checked(
    record({ kind: oneOf("real"), name: NAME, low: REAL, high: REAL, denominator: whole(1, 2 ** 20) }, GAP),
    ({ low, high }, place) => low < high || refuse(place, "low is not below high"),
  ),
  label: record({ kind: oneOf("label"), name: NAME }),
});

/** @type {import("./values.mjs").Reader<Schema>} */
export const SCHEMA = checked(record({ fields: list(1, 256, FIELD) }), ({ fields }, place) => {
  if (!distinct(fields.map(({ name }) => name))) refuse(place, "two fields have the same name", "name each once");
  if (fields.filter(({ kind }) => kind === "label").length > 1) refuse(place, "two fields are labels");
});

/**
 * A schema from its JSON form.
 * @param {Uint8Array | string} data
 */
export const readSchema = (data) => SCHEMA(loads(data), "");

/**
 * The field of a name.
 * @param {Schema} schema
 * @param {string} name
 * @param {string} place where it is named
 */
export const fieldOf = (schema, name, place) =>
  schema.fields.find((field) => field.name === name) ??
  refuse(place, `there is no field ${quoted(name)}`, `use one of ${listed(schema.fields.map((field) => field.name))}`);

/**
 * The least and the most that a field holds which is no vector.
 * @param {NumberField} field
 * @returns {readonly [number, number]}
 */
export function bounds(field) {
  switch (field.kind) {
    case "category":
      return [0, field.values.length - 1];
    case "integer":
      return [field.low, field.high];
    case "real":
      return [field.low * field.denominator, field.high * field.denominator];
    case "label":
      return [-1, 1];
  }
}

/**
 * Whether a field may be empty.
 * @param {Field} field
 */
export const hasGaps = (field) => field.kind !== "bits" && field.kind !== "label" && field.gap === true;

/**
 * The integer that stands for a gap, one above the largest.
 * @param {NumberField} field
 */
export const empty = (field) => bounds(field)[1] + 1;

/**
 * An error at a field. It never repeats the value: that is the user's own.
 * @param {Field} field
 * @param {string} remedy
 */
const notHeld = (field, remedy) =>
  new ProtocolError("is not a value of this field", `field ${quoted(field.name)}`, remedy);

/**
 * The integer for what a person wrote; null where there is nothing.
 * @param {NumberField} field
 * @param {unknown} value
 * @returns {number}
 */
export function parseNumber(field, value) {
  if (value === null && hasGaps(field)) return empty(field);
  const held = converted(field, value);
  if (held === undefined) throw notHeld(field, remedyOf(field));
  return held + 0;
}

/**
 * @param {NumberField} field
 * @param {unknown} value
 * @returns {number | undefined}
 */
function converted(field, value) {
  if (field.kind === "category") {
    const index = typeof value === "string" ? field.values.indexOf(value) : -1;
    return index < 0 ? undefined : index;
  }
  if (typeof value !== "number") return undefined;
  if (field.kind === "real") {
    // Rounded to the nearest numerator, in double precision.
    return value >= field.low && value <= field.high ? Math.floor(value * field.denominator + 0.5) : undefined;
  }
  const [least, most] = bounds(field);
  const inside = Number.isInteger(value) && value >= least && value <= most;
  return inside && (field.kind === "integer" || value !== 0) ? value : undefined;
}

/** @param {NumberField} field */
function remedyOf(field) {
  if (field.kind === "category") return `give one of ${listed(field.values.map(quoted))}`;
  if (field.kind === "label") return "give 1 or -1";
  return `give a ${field.kind === "real" ? "" : "whole "}number from ${field.low} to ${field.high}`;
}

/**
 * The bits of a text, x_0 first: one element a bit.
 * @param {BitsField} field
 * @param {unknown} value
 * @returns {Uint8Array}
 */
export function parseBits(field, value) {
  if (typeof value !== "string" || value.length !== field.width || !/^[01]*$/.test(value)) {
    throw notHeld(field, `give a text of ${field.width} times "0" or "1"`);
  }
  return Uint8Array.from(value, Number);
}

/**
 * Whether two fields are the same: of one name, with the same values.
 * @param {Field} field
 * @param {Field} other
 */
export const sameField = (field, other) =>
  written(/** @type {Json} */ (field)) === written(/** @type {Json} */ (other));

/**
 * Whether two schemas are the same.
 * @param {Schema} schema
 * @param {Schema} other
 */
export const sameSchema = (schema, other) =>
  schema === other ||
  written(/** @type {Json} */ (/** @type {unknown} */ (schema))) ===
    written(/** @type {Json} */ (/** @type {unknown} */ (other)));
