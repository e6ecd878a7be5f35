// What is published: a study, and a round of it. Both are named by the digest of their canonical form.

import { loads } from "./canonical.mjs";
import { refuse, under } from "./errors.mjs";
import { CHANNEL } from "./kinds.mjs";
import { QUERY } from "./queries.mjs";
import { SCHEMA } from "./schema.mjs";
import {
  DIGEST,
  MAX_CHOICES,
  MAX_USER,
  MICRO_EPSILON,
  NAME,
  checked,
  isObject,
  list,
  matching,
  oneOf,
  record,
  text,
  truth,
  whole,
} from "./values.mjs";

/** @typedef {{readonly [name: string]: number | boolean | string}} Parameters */
/**
 * @typedef {object} Study
 * @property {"askance.study"} form
 * @property {1} version
 * @property {string} title
 * @property {string} nonce
 * @property {import("./schema.mjs").Schema} example
 * @property {string} strategy
 * @property {Parameters} parameters
 * @property {boolean} interactive
 * @property {boolean} simulated
 * @property {number} [live]
 * @property {number} cap micro-ε: the most that this study charges one user, over all its rounds
 */
/**
 * One question of a round.
 * @typedef {object} Part
 * @property {import("./queries.mjs").Query} query
 * @property {import("./kinds.mjs").ChannelSpec} channel
 * @property {number} charge micro-ε: what a user who answers pays
 * @property {number} share
 */
/**
 * @typedef {{readonly first_user: number, readonly users: number, readonly slots: number, readonly first_slot:
 *   number, readonly slot_count: number}} Cohort
 */
/**
 * @typedef {object} Round
 * @property {"askance.round"} form
 * @property {1} version
 * @property {string} study
 * @property {number} number
 * @property {readonly Part[]} parts
 * @property {Cohort} cohort
 * @property {number} target
 * @property {number} deadline seconds since 1970
 */

/** Bytes of a study or a round. */
const MAX_DOCUMENT = 1 << 22;

const TEXT = text(0, 200);
const INTEGER = whole();

/** @type {import("./values.mjs").Reader<Parameters>} */
function parameters(value, place) {
  if (!isObject(value)) return refuse(place, "is no object");
  return Object.freeze(
    Object.fromEntries(
      Object.entries(value).map(([name, each]) => {
        const here = under(place, NAME(name, place));
        return [
          name,
          typeof each === "boolean" ? each : typeof each === "string" ? TEXT(each, here) : INTEGER(each, here),
        ];
      }),
    ),
  );
}

/** Number of reports of which counts may be told together: of a single one, they would be that report. */
const LEAST_STEP = 2;

/** @type {import("./values.mjs").Reader<Study>} */
export const STUDY = record({
  form: oneOf("askance.study"),
  version: oneOf(1),
  title: text(1, 200),
  nonce: matching(/^[0-9a-f]{32}$/),
  example: SCHEMA,
  strategy: matching(/^[a-z][a-z0-9-]{0,63}$/),
  parameters,
  interactive: truth,
  simulated: truth,
  cap: MICRO_EPSILON,
}, { live: whole(LEAST_STEP, MAX_USER) });

const PART = record({ query: QUERY, channel: CHANNEL, charge: MICRO_EPSILON, share: whole(1, MAX_CHOICES) });

const COHORT = checked(
  record({
    first_user: whole(0, MAX_USER - 1),
    users: whole(1, MAX_USER),
    slots: whole(1, MAX_CHOICES),
    first_slot: whole(0),
    slot_count: whole(1),
  }),
  ({ first_user, users, slots, first_slot, slot_count }, place) => {
    if (first_user + users > MAX_USER) refuse(place, "the users go beyond the largest user number");
    if (first_slot + slot_count > slots) refuse(place, "the slots go beyond the last slot");
  },
);

/** @type {import("./values.mjs").Reader<Round>} */
export const ROUND = checked(
  record({
    form: oneOf("askance.round"),
    version: oneOf(1),
    study: DIGEST,
    number: whole(1, 1_000_000),
    parts: list(1, 4096, PART),
    cohort: COHORT,
    target: whole(1, MAX_USER),
    deadline: whole(0),
  }),
  ({ parts }, place) => {
    const shares = parts.reduce((sum, { share }) => sum + share, 0);
    if (shares > MAX_CHOICES)
      refuse(under(place, "parts"), `the shares of all parts add up to more than ${MAX_CHOICES}`);
  },
);

/**
 * A study from its published form.
 * @param {Uint8Array | string} data
 * @returns {Study}
 */
export const readStudy = (data) => STUDY(loads(data, MAX_DOCUMENT), "");

/**
 * A round from its published form.
 * @param {Uint8Array | string} data
 * @returns {Round}
 */
export const readRound = (data) => ROUND(loads(data, MAX_DOCUMENT), "");
