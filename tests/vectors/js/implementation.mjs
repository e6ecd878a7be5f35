// What `compare.mjs` asks of an implementation, asked of this one.

import { EMPTY, append, readEntry } from "./bulletin.mjs";
import { build } from "./channels.mjs";
import { choice, encode, hashed, row, toss } from "./coins.mjs";
import { readData, writeData } from "./hypothesis.mjs";
import { canonical, digest, parse } from "./json.mjs";
import { answer, measure, prepare, readQuery } from "./queries.mjs";
import { decodeColumns, decodeRaw, decodeReport, encodeReport } from "./reports.mjs";
import { asks, deal, prepareRound, readRound, readStudy, respond } from "./rounds.mjs";
import { hold, readSchema } from "./schema.mjs";
import { Refusal } from "./shape.mjs";

const READERS = { "askance.study": (value) => readStudy(value, ""), "askance.round": (value) => readRound(value, ""), "askance.entry": readEntry };

export const name = "the check, written from docs/protocol.md alone";
export const placeOf = (error) => (error instanceof Refusal ? error.place : undefined);
export { canonical, decodeColumns, decodeRaw, digest, encode, parse };

export const read = (text, form) => READERS[form](parse(text));

/** The doubles that the data of a hypothesis holds; read and written once more, it is the same text. */
export function weightsOf(data) {
  const value = readData(data, "data");
  if (writeData(value) !== data) throw new Error(`the data would be written ${writeData(value)}`);
  return value.weights.map((each) => each.value);
}

export async function coin(of, user) {
  const tossed = await toss(of, user);
  return { whole: tossed.whole, choice: (n) => choice(tossed, n), row: (rows) => row(tossed, rows) };
}

export function channel(parameters) {
  const { table, certified, choose } = build({ steps: 1, ...parameters });
  return { table, certified, choose };
}

export function query(text, schema) {
  readSchema(parse(JSON.stringify(schema)), "schema");
  const read_ = readQuery(parse(text), "");
  prepare(read_, schema);
  return { read: read_, cost: measure(read_), answer: (record) => answer(read_, schema, hold(schema, record)) };
}

export const hash = (buckets, given, ofRow) => hashed(buckets)(given, ofRow);
export const encodeSingle = encodeReport;
export const decodeSingle = decodeReport;

export async function round(study, text) {
  const prepared = await prepareRound(study, read(text, "askance.round"));
  return {
    id: prepared.id,
    outcomes: prepared.outcomes,
    parts: prepared.parts.map(({ channel: { inputs, outcomes, certified }, rows }) => ({ inputs, outcomes, certified, rows })),
    asks: (user) => asks(prepared, user),
    deal: (user) => deal(prepared, user),
    respond: (dealt, record, words) => respond(prepared, dealt, record, words),
  };
}

export async function chain(texts) {
  let bulletin = EMPTY;
  const heads = [];
  for (const text of texts) {
    bulletin = await append(bulletin, parse(text));
    heads.push(bulletin.head);
  }
  return { heads, state: bulletin.state, rounds: bulletin.rounds };
}
