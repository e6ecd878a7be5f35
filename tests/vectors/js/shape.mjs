// Members, and what each may hold: every reader takes a value and its place, and gives the value back or refuses it.

/** Refused, as the protocol demands. Any other error is a fault of this program. */
export class Refusal extends Error {
  constructor(place, why) {
    super(`${place}: ${why}`);
    this.place = place;
  }
}

export function refuse(place, why) {
  throw new Refusal(place, why);
}

export const int = (low = Number.MIN_SAFE_INTEGER, high = Number.MAX_SAFE_INTEGER) => (value, place) =>
  Number.isSafeInteger(value) && !Object.is(value, -0) && value >= low && value <= high
    ? value
    : refuse(place, `is no integer from ${low} to ${high}`);

export const truth = (value, place) => (typeof value === "boolean" ? value : refuse(place, "is neither true nor false"));

/** A character is a code point, not one of the halves that JavaScript counts. */
export const text = (least, most) => (value, place) => {
  if (typeof value !== "string") refuse(place, "is no text");
  const length = value.length > 2 * most ? value.length : [...value].length;
  return length >= least && length <= most ? value : refuse(place, `has not ${least} to ${most} characters`);
};

export const matching = (pattern) => (value, place) =>
  typeof value === "string" && pattern.test(value) ? value : refuse(place, `does not match ${pattern}`);

export const oneOf = (...allowed) => (value, place) => (allowed.includes(value) ? value : refuse(place, `is none of ${allowed}`));

export const list = (least, most, each) => (value, place) => {
  if (!Array.isArray(value)) refuse(place, "is no list");
  if (value.length < least || value.length > most) refuse(place, `has not ${least} to ${most} items`);
  return value.map((item, index) => each(item, `${place}[${index}]`));
};

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** All the required members, some of the optional ones, and no others. */
export const record = (required, optional = {}) => (value, place) => {
  if (!isObject(value)) refuse(place, "is no object");
  const known = { ...required, ...optional };
  const under = (name) => (place ? `${place}.${name}` : name);
  for (const name of Object.keys(value)) if (!Object.hasOwn(known, name)) refuse(under(name), "is unknown");
  for (const name of Object.keys(required)) if (!Object.hasOwn(value, name)) refuse(under(name), "is missing");
  for (const name of Object.keys(value)) known[name](value[name], under(name));
  return value;
};

/** Objects that a member tells apart. */
export const kinds = (tag, choices) => (value, place) => {
  const under = place ? `${place}.${tag}` : tag;
  if (!isObject(value)) refuse(place, "is no object");
  if (!Object.hasOwn(value, tag)) refuse(under, "is missing");
  if (typeof value[tag] !== "string" || !Object.hasOwn(choices, value[tag])) refuse(under, "is unknown");
  return choices[value[tag]](value, place);
};

export const NAME = matching(/^[a-z][a-z0-9_]{0,63}$/);
export const DIGEST = matching(/^[0-9a-f]{64}$/);
export const MICRO_EPSILON = int(1, 1e15);
export const MAX_USER = 2 ** 48;
