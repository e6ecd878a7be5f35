// The protocol once more, in another language and from its documentation: docs/protocol.md and nothing else.
// Reads the vectors beside this file, computes each good one by itself, and says which differ.
//
//     node tests/vectors/check.mjs

import { readFileSync } from "node:fs";

const here = new URL(".", import.meta.url);
const load = (name) => JSON.parse(readFileSync(new URL(name, here)));
const good = (file) => file.vectors.filter((vector) => vector.success);
const bytes = (text) => new TextEncoder().encode(text);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest("SHA-256", data));

// ---- canonical JSON: members sorted, no white space, UTF-8

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

// What was learned is JSON inside a text: its numbers are doubles, compared by their bits.
function learned(vector) {
  if (vector.weights === undefined) return true;
  const { data } = JSON.parse(vector.text).notice.hypothesis;
  const bits = (number) => hex(new Uint8Array(new Float64Array([number]).buffer).reverse().buffer);
  return JSON.parse(data).weights.map(bits).join() === vector.weights.join();
}

async function digest(vector) {
  const text = canonical(JSON.parse(vector.text));
  const same = Buffer.from(bytes(text)).toString("base64") === vector.canonical;
  return same && hex(await sha256(bytes(text))) === vector.sha256 && learned(vector);
}

// ---- coins: eight bytes of an AES-CTR keystream

async function coin(vector) {
  const label = bytes("askance coin v1");
  const seed = new Uint8Array([...label, ...Buffer.from(vector.digest, "hex")]);
  const key = await crypto.subtle.importKey("raw", (await sha256(seed)).slice(0, 16), "AES-CTR", false, ["encrypt"]);
  const counter = new Uint8Array(16);
  new DataView(counter.buffer).setBigUint64(8, BigInt(vector.user) / 2n);
  const block = await crypto.subtle.encrypt({ name: "AES-CTR", counter, length: 64 }, key, new Uint8Array(16));
  const view = new DataView(block, 8 * (vector.user % 2), 8);
  const [low, high] = [view.getUint32(0, true), view.getUint32(4, true)];
  const choice = (count) => Math.floor((high * count) / 2 ** 32);
  return (
    view.getBigUint64(0, true).toString(16).padStart(16, "0") === vector.coin &&
    choice(3) === vector.choice_of_3 &&
    choice(1048576) === vector.choice_of_1048576 &&
    (low & 127) === vector.row_of_128
  );
}

// ---- channels: integer weights

const WORD = 1n << 64n;
const ONE = 1n << 128n;

function exponential(numerator, denominator) {
  let [term, total] = [ONE, ONE];
  for (let index = 1n; term > 0n; index++) {
    term = (term * numerator) / (denominator * index);
    total += term;
  }
  return total;
}

function binary({ micro_epsilon, steps }) {
  const odds = exponential(BigInt(micro_epsilon), 1000000n);
  const keep = (WORD * odds) / (ONE + odds);
  return Array.from({ length: steps + 1 }, (_, step) => {
    const threshold = WORD - keep + ((2n * keep - WORD) * BigInt(step)) / BigInt(steps);
    return [[threshold, 1], [WORD, 0]];
  });
}

function kary({ micro_epsilon, k }) {
  const odds = exponential(BigInt(micro_epsilon), 1000000n);
  const divisor = odds + BigInt(k - 1) * ONE;
  const lie = (WORD * ONE + divisor - 1n) / divisor;
  const certain = WORD - BigInt(k) * lie;
  return Array.from({ length: k }, (_, truth) => [
    [certain, truth],
    ...Array.from({ length: k }, (_, cell) => [certain + BigInt(cell + 1) * lie, cell]),
  ]);
}

function additive({ kind, micro_epsilon, range }) {
  const pad = kind === "laplace" ? range : 0;
  const [shrunk, nano] = [BigInt(micro_epsilon) * 1000n - 4n, 1000000000n];
  const tail = (step) => {
    const [s, r] = [BigInt(step), BigInt(range)];
    if (kind === "laplace") return ((WORD * ONE) / 2n) / exponential(shrunk * (2n * s - 1n), 2n * nano * r);
    return (WORD * ONE) / (exponential(shrunk * s, nano * r) + exponential(shrunk * (s - 1n), nano * r));
  };
  const atMost = (noise) => (noise < 0 ? tail(-noise) : WORD - tail(noise + 1));
  const last = range + 2 * pad;
  return Array.from({ length: range + 1 }, (_, given) =>
    Array.from({ length: last + 1 }, (_, outcome) => [outcome === last ? WORD : atMost(outcome - pad - given), outcome]),
  );
}

const BUILD = { binary, kary, geometric: additive, laplace: additive };

function weights(segments, outcomes) {
  const row = Array(outcomes).fill(0n);
  let begin = 0n;
  for (const [end, outcome] of segments) {
    row[outcome] += end - begin;
    begin = end;
  }
  return row.map(String);
}

function channel(vector) {
  const rows = BUILD[vector.kind](vector);
  const table = rows.map((segments) => weights(segments, vector.weights[0].length));
  const choose = ({ input, word }) => rows[input].find(([end]) => BigInt(word) < end)[1];
  const certified = (micro) =>
    table[0].every((_, outcome) => {
      const column = table.map((row) => BigInt(row[outcome]));
      const [least, most] = [column.reduce((a, b) => (b < a ? b : a)), column.reduce((a, b) => (b > a ? b : a))];
      return most * ONE <= exponential(BigInt(micro), 1000000n) * least;
    });
  return (
    canonical(table) === canonical(vector.weights) &&
    vector.chosen.every((chosen) => choose(chosen) === chosen.outcome) &&
    certified(vector.certified_micro_epsilon) &&
    !certified(vector.certified_micro_epsilon - 1)
  );
}

// ---- queries: integers and truth values

const RELATIONS = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, "=": (a, b) => a === b,
  "!=": (a, b) => a !== b, ">=": (a, b) => a >= b, ">": (a, b) => a > b,
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function evaluator(held, label) {
  const bit = (field, index) => Number((held[field] >> BigInt(index)) & 1n);
  const range = (count) => Array.from({ length: count }, (_, index) => index);
  const rules = {
    constant: (n) => n.truth,
    bit: (n) => bit(n.field, n.index) === 1,
    parity: (n) => (held[n.field] & BigInt(`0x${n.mask}`)).toString(2).replaceAll("0", "").length % 2 === 1,
    is: (n) => held[n.field].values[held[n.field].index] === n.category,
    label: (n) => label === n.sign,
    not: (n) => !of(n.of),
    and: (n) => n.of.map(of).every(Boolean),
    or: (n) => n.of.map(of).some(Boolean),
    xor: (n) => n.of.map(of).filter(Boolean).length % 2 === 1,
    compare: (n) => RELATIONS[n.relation](of(n.left), of(n.right)),
    integer: (n) => n.of,
    field: (n) => (typeof held[n.field] === "object" ? held[n.field].index : held[n.field]),
    slice: (n) => range(n.width).reduce((sum, index) => sum + bit(n.field, n.first + index) * 2 ** index, 0),
    dot: (n) => n.weights.reduce((sum, weight, index) => sum + weight * bit(n.field, index), 0),
    affine: (n) => n.terms.reduce((sum, term) => sum + term.weight * of(term.of), n.constant),
    lookup: (n) => n.table[of(n.index)] ?? n.default,
    if: (n) => (of(n.test) ? of(n.then) : of(n.otherwise)),
    clamp: (n) => clamp(of(n.of), n.low, n.high),
  };
  const of = (node) => rules[node.op](node);
  return of;
}

function hold(field, value) {
  if (field.kind === "bits") return BigInt(`0b${[...value].reverse().join("")}`);
  if (field.kind === "category") return { values: field.values, index: field.values.indexOf(value) };
  return field.kind === "real" ? Math.floor(value * field.denominator + 0.5) : value;
}

function answer(query, record, schema) {
  const held = Object.fromEntries(schema.fields.map((field) => [field.name, hold(field, record[field.name])]));
  const of = evaluator(held, record[schema.fields.find((field) => field.kind === "label").name]);
  if (query.kind === "boolean") return Number(of(query.test));
  if (query.kind === "real") return clamp(of(query.numerator), -query.denominator, query.denominator);
  const cell = of(query.cell);
  const sign = query.negative && of(query.negative) ? -1 : 1;
  return cell >= 0 && cell < query.cells ? sign * (cell + 1) : 0;
}

async function query(vector, file) {
  const answers = file.records.map((record) => answer(vector.query, record, file.schema));
  const named = hex(await sha256(bytes(canonical(vector.query)))) === vector.canonical_sha256;
  return named && canonical(answers) === canonical(vector.answers);
}

// ---- Hadamard rows

function encoding({ row, answer, input }) {
  const ones = ((Math.abs(answer) - 1) & row).toString(2).replaceAll("0", "").length;
  return input === (answer === 0 ? 1 : 1 + Math.sign(answer) * (-1) ** ones);
}

// ---- one report

const report = (vector) => vector.form !== "single" || JSON.parse(vector.body).outcome === vector.outcome;

let [checked, differing] = [0, 0];
for (const [name, check] of Object.entries({ digests: digest, coins: coin, channels: channel, queries: query, hadamard: encoding, reports: report })) {
  const file = load(`${name}.json`);
  for (const vector of good(file)) {
    checked++;
    if (await check(vector, file)) continue;
    differing++;
    console.log(`${name}: differs: ${JSON.stringify(vector).slice(0, 160)}`);
  }
}
console.log(`${checked} vectors checked, ${differing} differ`);
process.exit(differing || !checked ? 1 : 0);
