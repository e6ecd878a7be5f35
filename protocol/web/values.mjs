// Members, and what each may hold: a reader takes a value and its place, and gives it back, frozen, or refuses it.
// Nothing is coerced (`true`, `"1"` and `1.0` are not 1), and members that are unknown or missing are refused.

import { isList } from "./canonical.mjs";
import { refuse, under } from "./errors.mjs";
import { quoted } from "./text.mjs";

/** @typedef {import("./canonical.mjs").Json} Json */
/** @typedef {import("./canonical.mjs").JsonObject} JsonObject */
/**
 * @template T
 * @typedef {(value: Json, place: string) => T} Reader
 */
/**
 * What the readers of some members read.
 * @template {Record<string, Reader<any>>} R
 * @typedef {{readonly [K in keyof R]: ReturnType<R[K]>}} Members
 */

/**
 * A whole number within a range.
 * @param {number} [low]
 * @param {number} [high]
 * @returns {Reader<number>}
 */
export const whole =
  (low = Number.MIN_SAFE_INTEGER, high = Number.MAX_SAFE_INTEGER) =>
  (value, place) =>
    typeof value === "number" && Number.isSafeInteger(value) && !Object.is(value, -0) && value >= low && value <= high
      ? value
      : refuse(place, `is not a whole number from ${low} to ${high}`);

/** @type {Reader<boolean>} */
export const truth = (value, place) =>
  typeof value === "boolean" ? value : refuse(place, "is neither true nor false");

/**
 * A text of so many characters. A character is a code point, not one of the halves that JavaScript counts.
 * @param {number} least
 * @param {number} most
 * @returns {Reader<string>}
 */
export const text = (least, most) => (value, place) => {
  if (typeof value !== "string") return refuse(place, "is no text");
  // A text of more than twice as many units is too long whatever they are.
  const length = value.length > 2 * most ? value.length : [...value].length;
  return length >= least && length <= most ? value : refuse(place, `has not ${least} to ${most} characters`);
};

/**
 * @param {RegExp} pattern
 * @returns {Reader<string>}
 */
export const matching = (pattern) => (value, place) =>
  typeof value === "string" && pattern.test(value) ? value : refuse(place, `does not match ${pattern.source}`);

/**
 * One of some texts, numbers or truths.
 * @template {string | number | boolean} const T
 * @param {...T} allowed
 * @returns {Reader<T>}
 */
export const oneOf =
  (...allowed) =>
  (value, place) =>
    allowed.find((each) => each === value) ?? refuse(place, `is none of ${allowed.join(", ")}`);

/**
 * @template T
 * @param {number} least
 * @param {number} most
 * @param {Reader<T>} each
 * @returns {Reader<readonly T[]>}
 */
export const list = (least, most, each) => (value, place) => {
  if (!isList(value)) return refuse(place, "is no list");
  if (value.length < least || value.length > most) return refuse(place, `has not ${least} to ${most} items`);
  return Object.freeze(value.map((item, index) => each(item, `${place}[${index}]`)));
};

/**
 * @param {Json} value
 * @returns {value is JsonObject}
 */
export const isObject = (value) => typeof value === "object" && value !== null && !isList(value);

/**
 * An object with all of the required members, some of the optional ones, and no others.
 * @template {Record<string, Reader<any>>} R
 * @template {Record<string, Reader<any>>} [O={}]
 * @param {R} required
 * @param {O} [optional]
 * @returns {Reader<Members<R> & Partial<Members<O>>>}
 */
export function record(required, optional) {
  /** @type {Record<string, Reader<any>>} */
  const known = { ...required, ...optional };
  return (value, place) => {
    if (!isObject(value)) return refuse(place, "is no object");
    for (const name of Object.keys(value)) {
      if (!Object.hasOwn(known, name)) {
        refuse(under(place, name), "is not a member of this form", "leave it out; unknown members are refused");
      }
    }
    for (const name of Object.keys(required)) {
      if (!Object.hasOwn(value, name)) refuse(under(place, name), "is missing", "publish every member, defaults too");
    }
    const read = Object.keys(value).map((name) => [name, known[name](value[name], under(place, name))]);
    return Object.freeze(Object.fromEntries(read));
  };
}

/**
 * One of several kinds of object, told apart by a member.
 * @template {Record<string, Reader<any>>} R
 * @param {string} tag
 * @param {R} choices
 * @returns {Reader<ReturnType<R[keyof R]>>}
 */
export const kinds = (tag, choices) => (value, place) => {
  if (!isObject(value)) return refuse(place, "is no object");
  if (!Object.hasOwn(value, tag)) return refuse(under(place, tag), "is missing");
  const kind = value[tag];
  if (typeof kind !== "string" || !Object.hasOwn(choices, kind)) {
    const what = typeof kind === "string" ? `is ${quoted(kind)}, which is not known here` : "is no name";
    return refuse(under(place, tag), what, `use one of ${Object.keys(choices).join(", ")}`);
  }
  return choices[kind](value, place);
};

/**
 * What a reader reads, if it is as a whole as it should be.
 * @template T
 * @param {Reader<T>} reader
 * @param {(value: T, place: string) => void} check
 * @returns {Reader<T>}
 */
export const checked = (reader, check) => (value, place) => {
  const read = reader(value, place);
  check(read, place);
  return read;
};

/** The largest number of micro-ε that is read, charged or summed. */
export const LARGEST = 1e15;
/** User numbers stay below this. */
export const MAX_USER = 2 ** 48;
/** Shares, and slots, in all. */
export const MAX_CHOICES = 2 ** 20;

export const NAME = matching(/^[a-z][a-z0-9_]{0,63}$/);
export const DIGEST = matching(/^[0-9a-f]{64}$/);
export const MICRO_EPSILON = whole(1, LARGEST);
