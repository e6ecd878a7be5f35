// A bad vector has one thing wrong. Its neighbour has it right, and has to be accepted; and the refusal has to name
// a place at which the two differ. Otherwise whoever refuses everything would pass, or refuses for another reason.

import { isObject } from "./shape.mjs";

/** The places at which two documents differ: `parts[0].charge`. */
export function differences(a, b, place = "") {
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
    return a.flatMap((item, index) => differences(item, b[index], `${place}[${index}]`));
  }
  if (isObject(a) && isObject(b)) {
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => differences(a[name], b[name], place ? `${place}.${name}` : name));
  }
  return a === b ? [] : [place];
}

/** Whether one of two places stands in the other, or they are the same. */
export function related(place, other) {
  const [short, long] = place.length < other.length ? [place, other] : [other, place];
  return long === short || (long.startsWith(short) && ".[".includes(long[short.length]));
}

/** Whether a refusal is for what makes the difference. */
export function blames(place, bad, good) {
  if (typeof bad !== "string") return place !== "" && differences(bad, good).some((each) => related(place, each));
  const found = /^character (\d+)$/.exec(place);
  if (!found) return true;
  const first = [...bad, ""].findIndex((_, index) => bad[index] !== good[index]);
  return Number(found[1]) >= first;
}

export const nearest = (bad, documents) =>
  documents.reduce((best, each) => (differences(bad, each).length < differences(bad, best).length ? each : best));

/** One number wrong: the number beside it, on the way to the neighbour's. Undefined where more is wrong. */
export function edge(bad, good) {
  const [place, ...others] = differences(bad, good);
  if (place === undefined || others.length) return undefined;
  const path = place.split(/[.[\]]+/).filter(Boolean);
  const changed = structuredClone(bad);
  const holder = path.slice(0, -1).reduce((inner, name) => inner?.[name], changed);
  const target = path.reduce((inner, name) => inner?.[name], good);
  const last = path.at(-1);
  if (typeof target !== "number" || typeof holder?.[last] !== "number") return undefined;
  holder[last] += Math.sign(target - holder[last]);
  return changed;
}

const set = (path, value) => (document) => {
  const changed = structuredClone(document);
  const holder = path.slice(0, -1).reduce((inner, name) => inner[name], changed);
  if (value === undefined) delete holder[path.at(-1)];
  else holder[path.at(-1)] = value;
  return changed;
};
const HALF = String(1n << 63n);

/** What is mended, where no good vector is near: as little as can be, so that limits are met exactly. */
export const REPAIRS = {
  "queries.json": {
    "an unknown kind": set(["kind"], "boolean"),
    "an unknown operation": set(["test"], { op: "xor", of: [{ op: "constant", truth: true }] }),
    "an unknown member": set(["test", "because"]),
    "a missing member": set(["test", "index"], 0),
    "true is not an index": set(["test", "index"], 0),
    "text is not an index": set(["test", "index"], 0),
    "true is not a sign": set(["test", "sign"], 1),
    "no such field": set(["test", "field"], "b"),
    "no such bit": set(["test", "index"], 69),
    "a mask wider than its field": set(["test", "mask"], "1"),
    "no such category": set(["test", "category"], "Cork"),
    "deeper than the limit": ({ kind, test }) => ({ kind, test: test.of }),
    "more nodes than the limit": ({ kind, test: { op, of } }) => ({ kind, test: { op, of: [of[0], { op: "or", of: of[1].of.slice(3) }] } }),
    "a sum that can leave the safe integers": set(["numerator", "terms", 0, "weight"], Math.floor(Number.MAX_SAFE_INTEGER / 7)),
    "a denominator of zero": set(["denominator"], 1),
    "a sum without its constant": set(["numerator", "constant"], 0),
    "a lookup without its default": set(["numerator", "default"], 0),
    "a null in place of a sign": set(["negative"]),
  },
  "gaps.json": {
    "a gap that counts as nothing": set(["test", "left", "gap"], 0),
    "a gap where there are none": set(["cell", "gap"]),
    "a gap that is true": set(["cell", "gap"], 1),
    "a gap that is text": set(["cell", "gap"], 2),
  },
  "coins.json": {
    "a digest in capitals": set(["digest"], "a".repeat(64)),
    "a digest that is too short": set(["digest"], "0".repeat(64)),
    "a negative user": set(["user"], 0),
    "a user beyond the largest": set(["user"], 2 ** 48 - 1),
  },
  "channels.json": {
    "ε of zero": set(["micro_epsilon"], 1),
    "ε below zero": set(["micro_epsilon"], 1),
    // The least weight, not the certified ε, is what stops it: 2^64 / (1 + e^ε) ≥ 2^30 up to ε = 23.567…
    "ε too large to certify": set(["micro_epsilon"], 23_567_000),
    "one category": set(["k"], 2),
    "no range": set(["range"], 1),
    // (r + 1)·(3r + 1) weights are at most 2^20 up to r = 590.
    "a range too large": set(["range"], 590),
    "a row one short of 2^64": set(["weights", 1, 1], HALF),
    "a row one beyond 2^64": set(["weights", 0, 1], HALF),
    "a zero opposite a weight": set(["weights", 0], [HALF, HALF]),
    "rows of unequal length": set(["weights", 1], [HALF, HALF]),
    "one input": set(["weights"], [[HALF, HALF], [HALF, HALF]]),
  },
  "digests.json": {
    "a float": () => '{"a": 1}',
    "an exponent": () => '{"a": 1000}',
    "not a number": () => '{"a": 0}',
    "negative zero": () => "[0]",
    "beyond 2^53 - 1": () => "[9007199254740991]",
    "a member twice": () => '{"a": 1, "b": 1}',
    "half a surrogate pair": () => '["\\ud800\\udc00"]',
    "deep nesting": (text) => text.slice(1, -1),
    "trailing text": () => "{}",
    "no text": () => "{}",
  },
  // Reports have no names: what is mended is the body, by its form.
  "reports.json": {
    single: () => '{"outcome": 1}',
    columns: () => '{"users": [1, 281474976710655], "outcomes": [0, 4294967295]}',
  },
};
