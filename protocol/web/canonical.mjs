// One JSON text for one value, so that a digest names a value and not its spelling: RFC 8785 for documents without
// floats. A reader is strict: no member twice, no floats, no NaN, no integer beyond ±(2^53 − 1), at most 64 levels,
// names of ASCII.

import { ProtocolError, refuse, under } from "./errors.mjs";
import { hex, sha256 } from "./sha256.mjs";

/** @typedef {null | boolean | number | string | JsonList | JsonObject} Json */
/** @typedef {readonly Json[]} JsonList */
/** @typedef {{readonly [name: string]: Json}} JsonObject */

export const MAX_SAFE_INTEGER = Number.MAX_SAFE_INTEGER;
export const MAX_DEPTH = 64;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const HEXADECIMAL = /^[0-9a-fA-F]{4}$/;
// With the flag u, only halves that stand alone match.
const HALF_PAIR = /[\ud800-\udfff]/u;
const ASCII = /^[\u0000-\u007f]*$/;
/** @type {Readonly<Record<string, string>>} */
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** @type {readonly (readonly [string, Json])[]} */
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
];

/**
 * What a text's numbers and names may be, beyond its grammar. A document's are those of `DOCUMENT`.
 * @template N
 * @typedef {object} Dialect
 * @property {(written: string, isInteger: boolean, place: string) => N} number
 * @property {boolean} anyText whether names may be other than ASCII, and texts hold half a surrogate pair
 */

/** @type {Dialect<number>} */
const DOCUMENT = {
  number: (written, isInteger, place) => {
    if (!isInteger) refuse(place, "is not an integer", "this protocol speaks integers only");
    if (written === "-0") refuse(place, "is -0, which is not an integer", "write 0");
    // 17 characters hold every safe integer; longer ones are not read at all.
    if (written.length > 17 || !Number.isSafeInteger(Number(written))) {
      refuse(place, "is beyond ±(2^53 - 1)", "write a larger integer as a string");
    }
    return Number(written);
  },
  anyText: false,
};

/**
 * Read a document strictly.
 * @param {Uint8Array | string} data
 * @param {number} [limit] bytes of UTF-8
 * @returns {Json}
 */
export function loads(data, limit = 1 << 20) {
  return new Parser(decoded(data, limit), DOCUMENT).whole();
}

/**
 * @param {Uint8Array | string} data
 * @param {number} limit
 */
function decoded(data, limit) {
  const size = typeof data === "string" && 4 * data.length > limit ? encoded(data).length : data.length;
  if (size > limit) refuse("document", `is ${size} long, over the limit of ${limit}`, "send less at a time");
  if (typeof data === "string") return data;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return refuse("document", "is not UTF-8");
  }
}

/**
 * JSON whose numbers and texts are of another dialect: the data of a hypothesis.
 * @template N
 * @param {string} text
 * @param {Dialect<N>} dialect
 */
export const parse = (text, dialect) => new Parser(text, dialect).whole();

/** @template N */
class Parser {
  /**
   * @param {string} text
   * @param {Dialect<N>} dialect
   */
  constructor(text, dialect) {
    this.text = text;
    this.dialect = dialect;
    this.at = 0;
  }

  /** @returns {any} the value that the text is */
  whole() {
    const value = this.value(0);
    this.skip(SPACE);
    return this.at === this.text.length ? value : this.wrong("something follows");
  }

  /**
   * @param {string} why
   * @returns {never}
   */
  wrong(why) {
    return refuse(this.place(), `is not JSON: ${why}`);
  }

  place() {
    return `character ${this.at}`;
  }

  /** @param {RegExp} pattern */
  skip(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at += found[0].length;
    return found;
  }

  /** @param {string} expected */
  here(expected) {
    if (this.text[this.at] !== expected) return false;
    this.at++;
    return true;
  }

  /** @param {string} expected */
  token(expected) {
    this.skip(SPACE);
    return this.here(expected);
  }

  /** @param {string} expected */
  expect(expected) {
    return this.token(expected) || this.wrong(`${expected} is expected`);
  }

  /**
   * @param {number} level
   * @returns {any}
   */
  value(level) {
    this.skip(SPACE);
    switch (this.text[this.at]) {
      case '"':
        this.at++;
        return this.string();
      case "[":
      case "{":
        if (level === MAX_DEPTH) refuse(this.place(), `is nested deeper than ${MAX_DEPTH}`);
        return this.text[this.at++] === "[" ? this.list(level + 1) : this.object(level + 1);
      default:
        return this.word();
    }
  }

  /** @returns {Json | N} */
  word() {
    for (const [word, meant] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return meant;
    }
    const [written, fraction, exponent] = this.skip(NUMBER) ?? this.wrong("no value");
    return this.dialect.number(written, fraction === undefined && exponent === undefined, this.place());
  }

  string() {
    let whole = "";
    while (!this.here('"')) {
      whole += (this.skip(PLAIN) ?? [""])[0];
      if (this.text[this.at] === "\\") whole += this.escape();
      else if (this.text[this.at] !== '"') this.wrong("a text has no end, or a bare control character");
    }
    if (!this.dialect.anyText && HALF_PAIR.test(whole)) {
      refuse(this.place(), "holds half of a surrogate pair", "send whole Unicode characters");
    }
    return whole;
  }

  escape() {
    const letter = this.text[this.at + 1];
    const digits = this.text.slice(this.at + 2, this.at + 6);
    if (letter === "u" && HEXADECIMAL.test(digits)) {
      this.at += 6;
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (letter === undefined || !Object.hasOwn(ESCAPES, letter)) this.wrong("an unknown escape");
    this.at += 2;
    return ESCAPES[letter];
  }

  /** @param {number} level */
  list(level) {
    /** @type {(Json | N)[]} */
    const items = [];
    if (this.token("]")) return items;
    do items.push(this.value(level));
    while (this.token(","));
    this.expect("]");
    return items;
  }

  /** @param {number} level */
  object(level) {
    // Without a prototype: a member may have any name, `__proto__` too.
    /** @type {Record<string, Json | N>} */
    const members = Object.create(null);
    if (this.token("}")) return members;
    do {
      this.expect('"');
      const name = this.string();
      if (Object.hasOwn(members, name)) refuse(this.place(), "has a member that stands twice", "name each member once");
      // Sorting by code point and by UTF-16 unit agree on ASCII.
      if (!this.dialect.anyText && !ASCII.test(name)) refuse(this.place(), "a member's name is not ASCII text");
      this.expect(":");
      members[name] = this.value(level);
    } while (this.token(","));
    this.expect("}");
    return members;
  }
}

/**
 * The canonical text of a value; refused where it has none.
 * @param {Json} value
 * @returns {string}
 */
export function written(value, place = "", level = 0) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) refuse(place, "is no integer within ±(2^53 - 1)");
    return String(value);
  }
  if (typeof value === "string") {
    if (HALF_PAIR.test(value)) refuse(place, "holds half of a surrogate pair", "send whole Unicode characters");
    return JSON.stringify(value);
  }
  if (typeof value !== "object") throw new ProtocolError(`a ${typeof value} has no canonical form`, place);
  if (level === MAX_DEPTH) refuse(place, `is nested deeper than ${MAX_DEPTH}`);
  if (isList(value)) return `[${value.map((item, index) => written(item, `${place}[${index}]`, level + 1)).join(",")}]`;
  const members = Object.keys(value)
    .sort()
    .map((name) => {
      if (!ASCII.test(name)) refuse(place, "a member's name is not ASCII text");
      return `${JSON.stringify(name)}:${written(value[name], under(place, name), level + 1)}`;
    });
  return `{${members.join(",")}}`;
}

/**
 * @param {Json} value
 * @returns {value is JsonList}
 */
export const isList = (value) => Array.isArray(value);

/**
 * The canonical bytes of a value.
 * @param {Json} value
 */
export const dumps = (value) => encoded(written(value));

/** @param {string} text */
export const encoded = (text) => new TextEncoder().encode(text);

/** @type {WeakMap<object, string>} */
const names = new WeakMap();

/**
 * The name of a document: SHA-256 of its canonical bytes, as 64 hexadecimal digits. Of a frozen one it is computed
 * once.
 * @param {unknown} document what a reader of this package has read
 * @returns {string}
 */
export function digest(document) {
  const json = /** @type {Json} */ (document);
  if (typeof json !== "object" || json === null || !Object.isFrozen(json)) return hex(sha256(dumps(json)));
  const name = names.get(json) ?? hex(sha256(dumps(json)));
  names.set(json, name);
  return name;
}
