// Strict JSON: what docs/protocol.md, "Documents and their names", lets a reader accept, and the one form that is written.

import { refuse } from "./shape.mjs";

const LEVELS = 64;
const MOST_DIGITS = 4300;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** A number that was written with a point or an exponent: only a hypothesis has such. */
export class Double {
  constructor(value) {
    this.value = value;
  }
}

/** Integers are safe numbers. With `doubles`, as in the data of a hypothesis, they are large (BigInt), others are Doubles, and text is free. */
export function parse(text, { doubles = false } = {}) {
  let at = 0;
  const wrong = (why) => refuse(`character ${at}`, why);
  const skip = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at += found[0].length;
    return found;
  };
  const here = (expected) => {
    if (text[at] !== expected) return false;
    at++;
    return true;
  };
  const token = (expected) => {
    skip(SPACE);
    return here(expected);
  };
  const expect = (expected) => token(expected) || wrong(`${expected} is expected`);

  function string() {
    let whole = "";
    while (!here('"')) {
      whole += skip(PLAIN)[0];
      if (text[at] === "\\") whole += escape();
      else if (text[at] !== '"') wrong("a text has no end, or a bare control character");
    }
    if (!doubles && !whole.isWellFormed()) wrong("half a surrogate pair");
    return whole;
  }
  function escape() {
    const letter = text[at + 1];
    if (letter === "u" && /^[0-9a-fA-F]{4}$/.test(text.slice(at + 2, at + 6))) {
      at += 6;
      return String.fromCharCode(parseInt(text.slice(at - 4, at), 16));
    }
    at += 2;
    return ESCAPES[letter] ?? wrong("an unknown escape");
  }
  function number() {
    const [written, fraction, exponent] = skip(NUMBER) ?? wrong("no value");
    if (doubles) {
      if (fraction === undefined && exponent === undefined) {
        return written.replace("-", "").length <= MOST_DIGITS ? BigInt(written) : wrong(`more than ${MOST_DIGITS} digits`);
      }
      return Number.isFinite(Number(written)) ? new Double(Number(written)) : wrong("beyond all doubles");
    }
    if (fraction !== undefined || exponent !== undefined) wrong("a float");
    if (written === "-0" || !Number.isSafeInteger(Number(written))) wrong("no integer within ±(2^53 - 1)");
    return Number(written);
  }
  function array(level) {
    const items = [];
    if (token("]")) return items;
    do items.push(value(level));
    while (token(","));
    expect("]");
    return items;
  }
  function object(level) {
    const members = Object.create(null);
    if (token("}")) return members;
    do {
      expect('"');
      const name = string();
      if (Object.hasOwn(members, name)) wrong(`${name} stands twice`);
      if (!doubles && !/^[\u0000-\u007f]*$/.test(name)) wrong("a name beyond ASCII");
      expect(":");
      members[name] = value(level);
    } while (token(","));
    expect("}");
    return members;
  }
  function value(level) {
    if (token('"')) return string();
    for (const [open, read] of [["[", array], ["{", object]]) {
      if (!token(open)) continue;
      if (level === LEVELS) wrong(`more than ${LEVELS} levels`);
      return read(level + 1);
    }
    for (const [word, meant] of [["true", true], ["false", false], ["null", null]]) {
      if (!text.startsWith(word, at)) continue;
      at += word.length;
      return meant;
    }
    return number();
  }

  const whole = value(0);
  skip(SPACE);
  if (at !== text.length) wrong("something follows");
  return whole;
}

/** Members sorted, no white space. The escapes of the page are those of JSON.stringify. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(",")}}`;
}

export const bytes = (text) => new TextEncoder().encode(text);
export const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
export const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", data));

/** The name of a document. */
export const digest = async (document) => hex(await sha256(bytes(canonical(document))));
