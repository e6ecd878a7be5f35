// Reports: one, as long as the round's longest; many, as JSON columns or as raw columns.

import { bytes, parse } from "./json.mjs";
import { MAX_USER, int, list, record, refuse } from "./shape.mjs";

const MOST_BYTES = 64;
const MOST_REPORTS = 10 ** 6;

/** The canonical form, with blanks before the number. */
export const encodeReport = (outcome, outcomes) => `{"outcome":${String(outcome).padStart(String(outcomes - 1).length)}}`;

export function decodeReport(text, outcomes) {
  if (bytes(text).length > MOST_BYTES) refuse("", `is longer than ${MOST_BYTES} bytes`);
  return record({ outcome: int(0, outcomes - 1) })(parse(text), "").outcome;
}

const USER = int(0, MAX_USER - 1);
const OUTCOME = int(0, 2 ** 32 - 1);

export function decodeColumns(text) {
  const batch = record({ users: list(0, MOST_REPORTS, USER), outcomes: list(0, MOST_REPORTS, OUTCOME) })(parse(text), "");
  if (batch.users.length !== batch.outcomes.length) refuse("outcomes", "are not as many as the users");
  return batch;
}

export function decodeRaw(raw) {
  if (raw.length < 16) refuse("length", "is below 16");
  const view = new DataView(raw.buffer, raw.byteOffset, raw.length);
  if (!bytes("ASKB").every((byte, index) => raw[index] === byte)) refuse("magic", "is not ASKB");
  if (raw[4] !== 1) refuse("version", "is not 1");
  if (raw[5] > 1 || raw[6] || raw[7]) refuse("flags", "are unknown");
  const count = view.getBigUint64(8, true);
  if (BigInt(raw.length) !== 16n + 12n * count) refuse("length", "is not that of n reports");
  if (count > MOST_REPORTS) refuse("length", "too many reports");
  const n = Number(count);
  const users = Array.from({ length: n }, (_, index) => USER(Number(view.getBigUint64(16 + 8 * index, true)), `users[${index}]`));
  const outcomes = Array.from({ length: n }, (_, index) => view.getUint32(16 + 8 * n + 4 * index, true));
  return { users, outcomes, simulated: raw[5] === 1 };
}
