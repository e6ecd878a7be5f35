// Reports on the wire: one user's, and columns of many. No error repeats a report's content.

import { encoded, loads } from "./canonical.mjs";
import { refuse } from "./errors.mjs";
import { MAX_USER, list, record, whole } from "./values.mjs";

/**
 * @typedef {{readonly users: readonly number[], readonly outcomes: readonly number[], readonly simulated: boolean}}
 *   ReportBatch
 */

const MAX_REPORT_BYTES = 64;
const MAX_BATCH = 1_000_000;
const MAX_OUTCOME = 2 ** 32;
/** Bytes of JSON columns: two numbers and two commas a report. */
const MAX_COLUMNS = 1 << 26;

const [BEFORE, AFTER] = [encoded('{"outcome":'), encoded("}")];
/** The digits, and where nothing stands yet, a blank for each. */
const DIGITS = encoded(`0123456789${" ".repeat(10)}`);

/**
 * The body of one report, in the length that all reports with this many outcomes have. Each place is written by the
 * same steps:
 * an engine keeps the texts of numbers that it has written before.
 * @param {number} outcome
 * @param {number} outcomes
 * @returns {Uint8Array}
 */
export function encodeReport(outcome, outcomes) {
  if (!(outcome >= 0 && outcome < outcomes && outcomes <= MAX_OUTCOME))
    refuse("outcome", `is not in 0 .. ${outcomes - 1}`);
  const width = String(outcomes - 1).length;
  const body = new Uint8Array(BEFORE.length + width + AFTER.length);
  body.set(BEFORE);
  body.set(AFTER, BEFORE.length + width);
  const left = Float64Array.of(outcome);
  for (let place = width - 1; place >= 0; place--) {
    const tenth = Math.floor(left[0] / 10);
    const blank = Number(left[0] === 0) & Number(place < width - 1);
    body[BEFORE.length + place] = DIGITS[left[0] - 10 * tenth + 10 * blank];
    left[0] = tenth;
  }
  return body;
}

/**
 * The outcome of one report.
 * @param {Uint8Array | string} body
 * @param {number} outcomes
 */
export const decodeReport = (body, outcomes) =>
  record({ outcome: whole(0, outcomes - 1) })(loads(body, MAX_REPORT_BYTES), "").outcome;

const COLUMNS = record({
  users: list(0, MAX_BATCH, whole(0, MAX_USER - 1)),
  outcomes: list(0, MAX_BATCH, whole(0, MAX_OUTCOME - 1)),
});

/**
 * Reports from JSON columns.
 * @param {Uint8Array | string} body
 * @returns {ReportBatch}
 */
export function decodeColumns(body) {
  const { users, outcomes } = COLUMNS(loads(body, MAX_COLUMNS), "");
  if (users.length !== outcomes.length)
    refuse("outcomes", `has ${outcomes.length} entries, users has ${users.length}`, "give one outcome a user");
  return { users, outcomes, simulated: true };
}

/**
 * Reports from raw columns.
 * @param {Uint8Array} body
 * @returns {ReportBatch}
 */
export function decodeRaw(body) {
  if (body.length < 16) refuse("batch", `has ${body.length} bytes, the header alone has 16`);
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  if (!encoded("ASKB").every((byte, at) => body[at] === byte)) refuse("bytes 0 .. 4", 'does not begin with "ASKB"');
  if (body[4] !== 1) refuse("version", `is ${body[4]}, this side speaks 1`);
  if (body[5] > 1 || body[6] || body[7]) refuse("bytes 5 .. 8", "has bits set that mean nothing", "set them to zero");
  const count = view.getBigUint64(8, true);
  if (count > BigInt(MAX_BATCH)) refuse("batch", `has more than ${MAX_BATCH} reports`, "send less");
  const n = Number(count);
  if (body.length !== 16 + 12 * n) refuse("batch", `has ${body.length} bytes, ${n} reports take ${16 + 12 * n}`);
  const users = Array.from({ length: n }, (_, at) => Number(view.getBigUint64(16 + 8 * at, true)));
  users.forEach((user, at) => user < MAX_USER || refuse(`users[${at}]`, `is not below ${MAX_USER}`));
  return {
    users,
    outcomes: Array.from({ length: n }, (_, at) => view.getUint32(16 + 8 * n + 4 * at, true)),
    simulated: body[5] === 1,
  };
}
