// Studies and rounds: their members, what a round may ask under its study, whom it asks what, and what leaves.

import { build, readChannel } from "./channels.mjs";
import { choice, encode, hashRows, hashed, row, rowFromOne, rowsFor, toss } from "./coins.mjs";
import { digest } from "./json.mjs";
import { answer, measure, prepare, readQuery } from "./queries.mjs";
import { encodeReport } from "./reports.mjs";
import { hold, readSchema } from "./schema.mjs";
import { DIGEST, MAX_USER, MICRO_EPSILON, NAME, Refusal, int, isObject, list, matching, oneOf, record, refuse, text, truth } from "./shape.mjs";

const MOST_SHARES = 2 ** 20;
const MOST_WORK = 2 ** 23;

function parameters(value, place) {
  if (!isObject(value)) refuse(place, "is no object");
  for (const [name, each] of Object.entries(value)) {
    NAME(name, `${place}.${name}`);
    if (typeof each === "string") text(0, 200)(each, `${place}.${name}`);
    else if (typeof each !== "boolean") int()(each, `${place}.${name}`);
  }
  return value;
}

export const readStudy = record({
  form: oneOf("askance.study"),
  version: oneOf(1),
  title: text(1, 200),
  nonce: matching(/^[0-9a-f]{32}$/),
  example: readSchema,
  strategy: matching(/^[a-z][a-z0-9-]{0,63}$/),
  parameters,
  interactive: truth,
  simulated: truth,
  cap: MICRO_EPSILON,
}, { live: int(2, MAX_USER) });

const PART = record({ query: readQuery, channel: readChannel, charge: MICRO_EPSILON, share: int(1, MOST_SHARES) });

function readParts(value, place) {
  list(1, 4096, PART)(value, place);
  if (value.reduce((sum, { share }) => sum + share, 0) > MOST_SHARES) refuse(place, "the shares are more than 2^20 in all");
  return value;
}

function readCohort(value, place) {
  const { first_user, users, slots, first_slot, slot_count } = record({
    first_user: int(0, MAX_USER - 1), users: int(1, MAX_USER), slots: int(1, 2 ** 20), first_slot: int(0), slot_count: int(1),
  })(value, place);
  if (first_user + users > MAX_USER) refuse(place, "users beyond the last there can be");
  if (first_slot + slot_count > slots) refuse(place, "slots beyond the last");
  return value;
}

export const readRound = record({
  form: oneOf("askance.round"),
  version: oneOf(1),
  study: DIGEST,
  number: int(1, 10 ** 6),
  parts: readParts,
  cohort: readCohort,
  target: int(1, 2 ** 48),
  deadline: int(0),
});

// ---- which channel answers which query, and with which input

const cellOf = (query) => (given) => (query.negative ? 2 * (Math.abs(given) - 1) + Number(given < 0) : given - 1);
const cells = (query) => (query.negative ? 2 : 1) * query.cells;
const same = (given) => given;

function alwaysInCell(query, [low, high], place) {
  if (low < 0n || high >= BigInt(query.cells)) refuse(place, "the number may lie in no cell");
}

/** The parameters of the channel, the number of rows, and how an answer becomes an input. */
function pair(query, spec, bounds, place) {
  const numerator = (given) => given + query.denominator;
  if (spec.kind === "binary") {
    if (query.kind === "boolean") return [{ ...spec, steps: 1 }, 1, same];
    if (query.kind === "real") return [{ ...spec, steps: 2 * query.denominator }, 1, numerator];
    return [{ ...spec, steps: 2 }, rowsFor(query.cells), encode];
  }
  if (query.kind === "cell" && spec.kind === "hash") {
    const outside = bounds[0] < 0n || bounds[1] >= BigInt(query.cells);
    const signed = query.negative !== undefined;
    const buckets = { bits: spec.bits, columns: query.cells + (outside && !signed ? 1 : 0), apart: outside && signed };
    if (buckets.columns > 65536) refuse(`${place}.channel`, "too many columns");
    const k = 2 ** spec.bits + (buckets.apart ? 1 : 0);
    return [{ kind: "kary", micro_epsilon: spec.micro_epsilon, k }, hashRows(buckets), hashed(buckets), !signed];
  }
  if (query.kind === "cell" && (spec.kind === "kary" || spec.kind === "table")) {
    alwaysInCell(query, bounds, place);
    return [{ ...spec, k: cells(query) }, 1, cellOf(query)];
  }
  if (query.kind === "real" && spec.kind !== "kary" && spec.kind !== "hash") return [{ ...spec, range: 2 * query.denominator }, 1, numerator];
  if (query.kind === "boolean" && spec.kind === "table") return [spec, 1, same];
  return refuse(`${place}.channel`, `${spec.kind} does not answer a ${query.kind} query`);
}

const inputs = { boolean: () => 2, real: ({ denominator }) => 2 * denominator + 1, cell: cells };

function preparePart({ query, channel: spec, charge, share }, study, place) {
  const bounds = prepare(query, study.example, `${place}.query`);
  const [parameters_, rows, toInput, fromOne] = pair(query, spec, bounds, place);
  let channel;
  try {
    channel = build(parameters_);
  } catch (error) {
    if (error instanceof Refusal) refuse(`${place}.channel`, error.message);
    throw error;
  }
  if (spec.kind === "table" && channel.inputs !== inputs[query.kind](query)) refuse(`${place}.channel.weights`, "not a row an input");
  if (charge < channel.certified) refuse(`${place}.charge`, `is below the certified ${channel.certified}`);
  if (charge > study.cap) refuse(`${place}.charge`, "is above the study's cap");
  return { query, channel, charge, share, rows, toInput, fromOne };
}

/** About how long it takes to prepare a part. */
function work({ query, channel }) {
  const { nodes, entries } = measure(query);
  const noise = { geometric: 32, laplace: 96 }[channel.kind];
  if (channel.kind === "table") return nodes + entries + channel.weights.flat().length;
  return nodes + entries + (noise && query.kind === "real" ? noise * query.denominator : 1);
}

/** A round that may be answered: whom it asks, and all that is needed to answer. */
export async function prepareRound(study, round) {
  const of = await digest(study);
  if (round.study !== of) refuse("study", "is another study");
  if (round.parts.map(work).reduce((sum, each) => sum + each) > MOST_WORK) refuse("parts", "take too long to prepare");
  const parts = round.parts.map((part, index) => preparePart(part, study, `parts[${index}]`));
  return { study, studyId: of, id: await digest(round), parts, cohort: round.cohort, outcomes: Math.max(...parts.map(({ channel }) => channel.outcomes)) };
}

export async function asks({ cohort, studyId }, user) {
  if (user < cohort.first_user || user >= cohort.first_user + cohort.users) return false;
  if (cohort.slots === 1) return true;
  const slot = choice(await toss(studyId, user), cohort.slots);
  return slot >= cohort.first_slot && slot < cohort.first_slot + cohort.slot_count;
}

/** Which part and which row a user is dealt by the round's coin. */
export async function deal({ parts, id }, user) {
  const coin = await toss(id, user);
  let drawn = choice(coin, parts.reduce((sum, { share }) => sum + share, 0));
  const index = parts.findIndex(({ share }) => (drawn -= share) < 0);
  const { rows, fromOne, charge } = parts[index];
  return { part: index, row: fromOne ? rowFromOne(coin, rows) : row(coin, rows), charge };
}

/** What one record gives under some words: the input, the outcomes, and the bytes that leave for the last. */
export function respond({ study, parts, outcomes }, dealt, example, words) {
  const { query, channel, toInput } = parts[dealt.part];
  const input = toInput(answer(query, study.example, hold(study.example, example)), dealt.row);
  const drawn = words.map((word) => channel.choose(input, BigInt(word)));
  return { input, outcomes: drawn, body: encodeReport(drawn.at(-1), outcomes) };
}
