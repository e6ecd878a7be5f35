// A round, checked and ready to be answered.
//
// A user is asked one part of a round. So what has to be known of all parts (shares, rows, charges, numbers of
// outcomes, work) is read off their published forms, and only her own is prepared: her query is total, her channel's
// exact ε is at most what she pays. Everything that is refused here is refused from public data.

import { digest } from "./canonical.mjs";
import { Coin, choice, rowFromOne, rowOf } from "./coins.mjs";
import { ProtocolError, refuse } from "./errors.mjs";
import { kindOf } from "./kinds.mjs";
import { measure, prepare } from "./queries.mjs";

/** @typedef {import("./channels.mjs").Channel} Channel */
/** @typedef {import("./examples.mjs").Example} Example */
/** @typedef {import("./queries.mjs").PreparedQuery} PreparedQuery */
/** @typedef {import("./queries.mjs").Query} Query */
/** @typedef {import("./schema.mjs").Schema} Schema */
/** @typedef {import("./spec.mjs").Part} Part */
/** @typedef {import("./spec.mjs").Round} Round */
/** @typedef {import("./spec.mjs").Study} Study */
/**
 * What one user is asked: a part of the round and, where it pools cells, a public row.
 * @typedef {{readonly part: number, readonly row: number}} Question
 */
/**
 * One question, ready: from an answer and a public row to the input of a channel.
 * @typedef {object} PreparedPart
 * @property {Part} part
 * @property {PreparedQuery} query
 * @property {Channel} channel
 * @property {number} rows
 * @property {(answer: number, row: number) => number} encode
 */

/** Microseconds, about, that it takes to prepare all parts of a round in the reference implementation. */
export const MAX_WORK = 1 << 23;

/** A round that may be answered. Only `openRound` and `prepareRound` should make one. */
export class PreparedRound {
  /** @type {Map<number, PreparedPart | ProtocolError>} */
  #prepared = new Map();
  #shares;

  /**
   * @param {Study} study
   * @param {Round} spec
   */
  constructor(study, spec) {
    this.study = study;
    this.spec = spec;
    this.id = digest(spec);
    this.rows = spec.parts.map((part) => rowsOrNone(part, study.example));
    this.#shares = spec.parts.reduce((sum, { share }) => sum + share, 0);
    Object.freeze(this);
  }

  /** The largest number of outcomes of a part: every report of the round is as long as that needs. */
  get outcomes() {
    return this.spec.parts.reduce(
      (most, { query, channel }) => Math.max(most, kindOf(channel).outcomes(channel, query, this.study.example)),
      0,
    );
  }

  /**
   * Whether a user is in the cohort.
   * @param {number} user
   */
  asks(user) {
    const { first_user, users, slots, first_slot, slot_count } = this.spec.cohort;
    if (user < first_user || user >= first_user + users) return false;
    if (slots === 1) return true;
    const slot = choice(new Coin(this.spec.study).toss(user), slots);
    return slot >= first_slot && slot < first_slot + slot_count;
  }

  /**
   * The part and the row of a user.
   * @param {number} user
   * @returns {Question}
   */
  question(user) {
    if (this.rows.length === 1 && this.rows[0].rows === 1) return { part: 0, row: 0 };
    const coin = new Coin(this.id).toss(user);
    let drawn = choice(coin, this.#shares);
    const part = this.rows.length === 1 ? 0 : this.spec.parts.findIndex(({ share }) => (drawn -= share) < 0);
    const { rows, first } = this.rows[part];
    return { part, row: first ? rowFromOne(coin, rows) : rowOf(coin, rows) };
  }

  /**
   * A part, prepared when it is first looked at. What is unsound is refused each time.
   * @param {number} number
   * @returns {PreparedPart}
   */
  part(number) {
    const kept = this.#prepared.get(number) ?? preparedOrNot(this.spec.parts[number], this.study.example, number);
    this.#prepared.set(number, kept);
    if (kept instanceof ProtocolError) throw kept;
    return kept;
  }
}

/**
 * Check what a round is as a whole; each part is checked when it is first looked at.
 * @param {Study} study
 * @param {Round} spec
 */
export function openRound(study, spec) {
  if (spec.study !== digest(study)) refuse("study", "is of another study", "fetch the study that the round names");
  spec.parts.forEach(({ charge }, number) => {
    if (charge > study.cap)
      refuse(`parts[${number}].charge`, `${charge} is above the study's cap of ${study.cap} micro-ε`);
  });
  return new PreparedRound(study, spec);
}

/**
 * Check a round against its study, whole: every query answerable, every channel certified for what it charges.
 * @param {Study} study
 * @param {Round} spec
 */
export function prepareRound(study, spec) {
  checkWork(spec);
  const round = openRound(study, spec);
  spec.parts.forEach((_, number) => round.part(number));
  return round;
}

/**
 * Refuse a round that takes too long to prepare, told without doing it.
 * @param {Round} spec
 */
export function checkWork(spec) {
  const work = spec.parts.reduce((sum, part) => sum + workOf(part), 0);
  if (work > MAX_WORK)
    refuse("parts", `takes ${work} steps to prepare, over the limit of ${MAX_WORK}`, "ask fewer questions at once");
}

/** @param {Part} part */
function workOf({ query, channel }) {
  const { nodes, entries } = measure(query);
  return nodes + entries + (kindOf(channel).work?.(channel, query) ?? 1);
}

/**
 * How a public row turns an answer into an input; null where a part needs no row.
 * @param {Part} part
 * @param {Schema} schema
 */
const poolingOf = ({ query, channel }, schema) => kindOf(channel).pooling?.(channel, query, schema) ?? null;

/**
 * How many public rows a part has, one where it needs none, and the least that is dealt.
 * @param {Part} part
 * @param {Schema} schema
 * @returns {{readonly rows: number, readonly first: number}}
 */
const rowsOf = (part, schema) => poolingOf(part, schema) ?? { rows: 1, first: 0 };

/**
 * The same; a part that is unsound has no rows: whoever is dealt it refuses it, and others go on.
 * @param {Part} part
 * @param {Schema} schema
 */
function rowsOrNone(part, schema) {
  try {
    return rowsOf(part, schema);
  } catch (error) {
    if (error instanceof ProtocolError) return { rows: 1, first: 0 };
    throw error;
  }
}

/**
 * How an answer becomes an input: by the same steps for each.
 * @param {Part} part
 * @param {Schema} schema
 * @returns {(answer: number, row: number) => number}
 */
function encoder(part, schema) {
  const [{ query }, pooling] = [part, poolingOf(part, schema)];
  if (pooling !== null) return pooling.encode;
  if (query.kind === "boolean") return (answer) => answer;
  if (query.kind === "real") return (answer) => answer + query.denominator;
  if (query.negative === undefined) return (answer) => answer - 1;
  return (answer) => 2 * (Math.abs(answer) - 1) + Number(answer < 0);
}

/**
 * @param {Part} part
 * @param {Schema} schema
 * @param {number} number
 * @returns {PreparedPart | ProtocolError}
 */
function preparedOrNot(part, schema, number) {
  try {
    return preparePart(part, schema);
  } catch (error) {
    if (error instanceof ProtocolError) return error.at(`parts[${number}]`);
    throw error;
  }
}

/**
 * @template T
 * @param {string} where
 * @param {() => T} work
 * @returns {T}
 */
function within(where, work) {
  try {
    return work();
  } catch (error) {
    throw error instanceof ProtocolError ? error.at(where) : error;
  }
}

/**
 * @param {Part} part
 * @param {Schema} schema
 * @returns {PreparedPart}
 */
function preparePart(part, schema) {
  const query = within("query", () => prepare(part.query, schema));
  const channel = within("channel", () => kindOf(part.channel).build(part.channel, part.query, schema));
  if (part.charge < channel.certified) {
    refuse(
      "charge",
      `${part.charge} micro-ε is charged, but the channel is certified for ${channel.certified}`,
      "charge what the channel costs, or more",
    );
  }
  return Object.freeze({
    part,
    query,
    channel,
    rows: rowsOf(part, schema).rows,
    encode: encoder(part, schema),
  });
}
