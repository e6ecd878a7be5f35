// What `tests/vectors/compare.mjs` asks of an implementation, asked of the package in protocol/web.

import { EMPTY, GrowingBulletin, readEntry } from "../../../protocol/web/bulletin.mjs";
import { digest as digestOf, loads, written } from "../../../protocol/web/canonical.mjs";
import { binary, geometric, kary, laplace, tabulated } from "../../../protocol/web/channels.mjs";
import { Coin, choice, rowOf } from "../../../protocol/web/coins.mjs";
import { ProtocolError } from "../../../protocol/web/errors.mjs";
import { Example } from "../../../protocol/web/examples.mjs";
import { encode } from "../../../protocol/web/hadamard.mjs";
import { hasher } from "../../../protocol/web/hashing.mjs";
import { hypothesisValue } from "../../../protocol/web/hypothesis.mjs";
import { CHANNEL, kindOf } from "../../../protocol/web/kinds.mjs";
import { measure, prepare, readQuery } from "../../../protocol/web/queries.mjs";
import { wordOf } from "../../../protocol/web/randomness.mjs";
import { decodeColumns as columns, decodeRaw, decodeReport, encodeReport } from "../../../protocol/web/reports.mjs";
import { prepareRound } from "../../../protocol/web/rounds.mjs";
import { readSchema } from "../../../protocol/web/schema.mjs";
import { readRound, readStudy } from "../../../protocol/web/spec.mjs";

const READERS = { "askance.study": readStudy, "askance.round": readRound, "askance.entry": readEntry };
const bytesOf = (text) => new TextEncoder().encode(text);
const textOf = (bytes) => new TextDecoder().decode(bytes);

export const name = "the package in protocol/web";
export const placeOf = (error) => (error instanceof ProtocolError ? error.where : undefined);
export { decodeRaw, encode };

// In bytes, as it comes over the wire.
export const parse = (text) => loads(bytesOf(text));
export const read = (text, form) => READERS[form](bytesOf(text));
export const canonical = written;
export const digest = digestOf;
export const weightsOf = (data) => hypothesisValue(data).weights;
export const decodeColumns = (body) => columns(bytesOf(body));

export function coin(of, user) {
  const tossed = new Coin(of).toss(user);
  const whole = (BigInt(tossed.high) << 32n) | BigInt(tossed.low);
  return { whole, choice: (n) => choice(tossed, n), row: (rows) => rowOf(tossed, rows) };
}

const KINDS = {
  binary: ({ micro_epsilon, steps }) => binary(micro_epsilon, steps ?? 1),
  kary: ({ micro_epsilon, k }) => kary(micro_epsilon, k),
  geometric: ({ micro_epsilon, range }) => geometric(micro_epsilon, range),
  laplace: ({ micro_epsilon, range }) => laplace(micro_epsilon, range),
  table: ({ weights }) => tabulated(weights),
};

/** A kind that is not above: its parameters are its published form, and a bit is what it is asked. */
function published(parameters) {
  const spec = CHANNEL(parameters, "");
  return kindOf(spec).build(spec, { kind: "boolean" }, null);
}

export function channel(parameters) {
  const built = (KINDS[parameters.kind] ?? published)(parameters);
  return {
    table: Array.from({ length: built.inputs }, (_, input) => [...built.weights(input)]),
    certified: built.certified,
    choose: (input, word) => built.choose(input, wordOf(word)),
  };
}

export function query(text, document) {
  const [schema, read_] = [readSchema(JSON.stringify(document)), readQuery(bytesOf(text))];
  const prepared = prepare(read_, schema);
  return { read: read_, cost: measure(read_), answer: (record) => prepared.answer(new Example(schema, record)) };
}

export const hash = (buckets, given, ofRow) => hasher(buckets)(given, ofRow);
export const encodeSingle = (outcome, outcomes) => textOf(encodeReport(outcome, outcomes));
export const decodeSingle = (body, outcomes) => decodeReport(bytesOf(body), outcomes);

export function round(study, text) {
  const published = readStudy(JSON.stringify(study));
  const prepared = prepareRound(published, readRound(bytesOf(text)));
  return {
    id: prepared.id,
    outcomes: prepared.outcomes,
    parts: prepared.spec.parts.map((_, number) => {
      const { channel: { inputs, outcomes, certified }, rows } = prepared.part(number);
      return { inputs, outcomes, certified, rows };
    }),
    asks: (user) => prepared.asks(user),
    deal: (user) => {
      const question = prepared.question(user);
      return { ...question, charge: prepared.part(question.part).part.charge };
    },
    respond: ({ part, row }, record, words) => {
      const { channel: chosen, query: asked, encode: toInput } = prepared.part(part);
      const input = toInput(asked.answer(new Example(published.example, record)), row);
      const outcomes = words.map((word) => chosen.choose(input, wordOf(BigInt(word))));
      return { input, outcomes, body: textOf(encodeReport(outcomes.at(-1), prepared.outcomes)) };
    },
  };
}

export function chain(texts) {
  const [growing, heads] = [new GrowingBulletin(EMPTY), []];
  for (const text of texts) {
    growing.append(readEntry(bytesOf(text)));
    heads.push(growing.head);
  }
  const { state, rounds } = growing.frozen();
  return { heads, state, rounds: [...rounds] };
}
