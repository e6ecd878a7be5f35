// Documents that a server answers with: the last entries of a bulletin, a user's account, a receipt, an enrolment, a
// problem. They are read strictly, and nothing in them is believed yet. What a server says may echo what is private,
// so it is not repeated.

import { ENTRY } from "./bulletin.mjs";
import { digest, dumps, isList, loads } from "./canonical.mjs";
import { GarbledError, ProtocolError, refuse } from "./errors.mjs";
import { printable } from "./text.mjs";
import { LARGEST, MAX_USER, isObject, whole } from "./values.mjs";

/** @typedef {import("./bulletin.mjs").Entry} Entry */
/**
 * How much of a study's history a user has seen: the digest of its last entry names all of it.
 * @typedef {{readonly length: number, readonly head: string}} Pin
 */
/**
 * The last entries of a bulletin, what the server says of all of it, and in how many bytes it came.
 * @typedef {{readonly entries: readonly Entry[], readonly pin: Pin, readonly size: number}} Tail
 */
/**
 * @typedef {{readonly user: number, readonly spent: number, readonly charges: ReadonlyMap<string, number>}} Statement
 */
/** @typedef {{readonly user: number, readonly round: string, readonly charged: number}} Receipt */
/** @typedef {{readonly first: number, readonly tokens: readonly string[]}} Enrolled */
/**
 * @typedef {{readonly status: number, readonly name: string, readonly detail: string, readonly next: string}} Problem
 */

/** Bytes of any answer. A server gives a longer bulletin in pieces. */
export const MOST_BYTES = 32 << 20;
/** Bytes of an answer from which there may be more to read. */
export const PIECE = 1 << 20;
/** Bytes of a study's entries, in all. */
export const MOST_OF_A_STUDY = 64 << 20;

const MAX_CONTAINERS = 1 << 20;
const MAX_VALUES = 1 << 22;
const MAX_ENTRY = 1 << 24;
const PROBLEM = "urn:askance:problem:";
const PROBLEM_TEXT = 500;

const USER = whole(0, MAX_USER - 1);
const AMOUNT = whole(0, LARGEST);

/**
 * @template T
 * @param {() => T} work
 * @returns {T}
 */
function garbled(work) {
  try {
    return work();
  } catch (error) {
    throw error instanceof ProtocolError ? new GarbledError(error.what, error.where, error.remedy) : error;
  }
}

/**
 * An object with exactly these members.
 * @param {Uint8Array} body
 * @param {readonly string[]} names
 */
function loaded(body, names) {
  checkAmount(body);
  return members(
    garbled(() => loads(body, body.length)),
    names,
  );
}

/**
 * @param {import("./canonical.mjs").Json} value
 * @param {readonly string[]} names
 */
function members(value, names) {
  if (!isObject(value) || Object.keys(value).sort().join() !== [...names].sort().join()) {
    throw new GarbledError("has not the members that it should have", "answer");
  }
  return value;
}

/**
 * Count brackets and commas before parsing: an empty list is two bytes long, and takes many more in memory.
 * @param {Uint8Array} body
 */
function checkAmount(body) {
  let [containers, values] = [0, 0];
  for (const byte of body) {
    if (byte === 0x5b || byte === 0x7b) containers++;
    if (byte === 0x2c) values++;
  }
  if (containers > MAX_CONTAINERS || values > MAX_VALUES)
    throw new GarbledError(`has ${containers} brackets and ${values} commas`, "answer");
}

/** @param {import("./canonical.mjs").Json} value */
const items = (value) => (isList(value) ? value : refuse("answer", "is no list"));

/** @param {import("./canonical.mjs").Json} value */
const shortText = (value) =>
  typeof value === "string" && /^[\u0000-\u007f]{0,4096}$/.test(value)
    ? value
    : refuse("answer", "is not a short text");

/**
 * The last entries of a bulletin, and what the server says of the whole of it.
 * @param {Uint8Array} body
 * @returns {Tail}
 */
export function readTail(body) {
  const { entries: listed, length, head } = loaded(body, ["head", "length", "entries"]);
  const entries = items(listed).map((entry) => {
    if (dumps(entry).length > MAX_ENTRY) refuse("document", `is longer than ${MAX_ENTRY}`);
    return ENTRY(entry, "");
  });
  const pin = { length: whole(0)(length, "answer"), head: shortText(head) };
  const last = entries.at(-1);
  if (last && (last.sequence + 1 !== pin.length || digest(last) !== pin.head))
    refuse("head", "is not that of the last entry");
  return { entries, pin, size: body.length };
}

/**
 * What the server says that a user has spent.
 * @param {Uint8Array} body
 * @returns {Statement}
 */
export function readStatement(body) {
  const document = loaded(body, [
    "user",
    "cap_micro_epsilon",
    "spent_micro_epsilon",
    "remaining_micro_epsilon",
    "charges",
  ]);
  const charges = new Map(
    items(document.charges).map((item) => {
      const { round, micro_epsilon } = members(item, ["round", "micro_epsilon"]);
      return [shortText(round), AMOUNT(micro_epsilon, "answer")];
    }),
  );
  return { user: USER(document.user, "answer"), spent: AMOUNT(document.spent_micro_epsilon, "answer"), charges };
}

/**
 * The server's word that a report is on its disk.
 * @param {Uint8Array} body
 * @returns {Receipt}
 */
export function readReceipt(body) {
  const { user, round, charged } = loaded(body, ["user", "round", "charged"]);
  return { user: USER(user, "answer"), round: shortText(round), charged: AMOUNT(charged, "answer") };
}

/**
 * The number and the token of a new user, or those of many.
 * @param {Uint8Array} body
 * @returns {Enrolled}
 */
export function readEnrolled(body) {
  const { user, token, tokens } = loaded(body, ["user", "users", "cap_micro_epsilon", "token", "tokens"]);
  return { first: USER(user, "answer"), tokens: (token === null ? items(tokens) : [token]).map(shortText) };
}

/**
 * A problem document; of anything else the status says enough.
 * @param {number} status
 * @param {Uint8Array} body
 * @returns {Problem}
 */
export function readProblem(status, body) {
  const document = objectOrNothing(body);
  const said = (/** @type {string} */ name) => {
    const value = document[name];
    return typeof value === "string" ? value : "";
  };
  const type = said("type");
  const name = type.startsWith(PROBLEM) ? type.slice(PROBLEM.length) : "";
  return {
    status,
    name: printable(name, PROBLEM_TEXT),
    detail: printable(said("detail"), PROBLEM_TEXT),
    next: printable(said("next"), PROBLEM_TEXT),
  };
}

/** @param {Uint8Array} body */
function objectOrNothing(body) {
  try {
    const value = loads(body, body.length);
    return isObject(value) ? value : {};
  } catch (error) {
    if (error instanceof ProtocolError) return {};
    throw error;
  }
}
