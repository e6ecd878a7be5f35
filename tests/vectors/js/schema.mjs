// What an example is: its fields, the integer that each holds, and the bounds of that integer.

import { NAME, int, kinds, list, oneOf, record, refuse, text } from "./shape.mjs";

const field = (kind, members = {}, optional = {}) => record({ kind: oneOf(kind), name: NAME, ...members }, optional);
const GAP = { gap: oneOf(true) };
const REAL = int(-(2 ** 20), 2 ** 20);
const INTEGER = int(-(2 ** 40), 2 ** 40);

const FIELD = kinds("kind", {
  bits: field("bits", { width: int(1, 4096) }),
  category: field("category", { values: list(2, 4096, text(1, 64)) }, GAP),
  integer: field("integer", { low: INTEGER, high: INTEGER }, GAP),
  real: field("real", { low: REAL, high: REAL, denominator: int(1, 2 ** 20) }, GAP),
  label: field("label"),
});

export function readSchema(value, place) {
  const { fields } = record({ fields: list(1, 256, FIELD) })(value, place);
  const unique = (items) => new Set(items).size === items.length;
  if (!unique(fields.map(({ name }) => name))) refuse(`${place}.fields`, "a name stands twice");
  if (fields.filter(({ kind }) => kind === "label").length > 1) refuse(`${place}.fields`, "two labels");
  fields.forEach((each, index) => {
    const here = `${place}.fields[${index}]`;
    if (each.kind === "category" && !unique(each.values)) refuse(`${here}.values`, "a value stands twice");
    if (each.kind === "integer" && each.low > each.high) refuse(here, "low is above high");
    if (each.kind === "real" && each.low >= each.high) refuse(here, "low is not below high");
  });
  return value;
}

/** The least and the most that a field other than bits holds. */
export const bounds = {
  category: ({ values }) => [0, values.length - 1],
  integer: ({ low, high }) => [low, high],
  real: ({ low, high, denominator }) => [low * denominator, high * denominator],
  label: () => [-1, 1],
};

/** The integer of a gap, one above the most. */
export const empty = (field_) => bounds[field_.kind](field_)[1] + 1;

const holders = {
  bits: ({ width }, value) => (value.length === width && /^[01]*$/.test(value) ? [...value].map(Number) : undefined),
  category: ({ values }, value) => (values.includes(value) ? values.indexOf(value) : undefined),
  integer: (_, value) => value,
  real: ({ denominator }, value) => (value === null ? undefined : Math.floor(value * denominator + 0.5)),
  label: (_, value) => (value === 0 ? undefined : value),
};

/** What is held of each field of a record: an integer, or bits with x_0 first. */
export function hold(schema, record_) {
  const held = {};
  for (const each of schema.fields) {
    if (each.gap && record_[each.name] === null) {
      held[each.name] = empty(each);
      continue;
    }
    const value = holders[each.kind](each, record_[each.name]);
    const [low, high] = each.kind === "bits" ? [0, 0] : bounds[each.kind](each);
    const inside = each.kind === "bits" ? value !== undefined : Number.isSafeInteger(value) && value >= low && value <= high;
    if (!inside) refuse(each.name, "is not what the schema says");
    held[each.name] = value;
  }
  return held;
}
