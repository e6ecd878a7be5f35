// The lives of a study and of a round. What may follow what is in these two tables; a pair that is not there is
// refused.

import { refuse } from "./errors.mjs";

/** @typedef {"created" | "running" | "sealed" | "finished" | "failed" | "cancelled"} StudyState */
/** @typedef {"published" | "open" | "closed" | "answered" | "abandoned"} RoundState */

/** @type {Readonly<Record<string, StudyState>>} */
export const STUDY_AFTER = {
  "created publish": "running",
  "created publish all": "sealed",
  "running publish": "running",
  "created finish": "finished",
  "running finish": "finished",
  "sealed finish": "finished",
  "created fail": "failed",
  "running fail": "failed",
  "sealed fail": "failed",
  "created cancel": "cancelled",
  "running cancel": "cancelled",
  "sealed cancel": "cancelled",
};

/** @type {Readonly<Record<string, RoundState>>} */
export const ROUND_AFTER = {
  "published open": "open",
  "open close": "closed",
  "closed answer": "answered",
  "published abandon": "abandoned",
  "open abandon": "abandoned",
  "closed abandon": "abandoned",
};

/** The event by which a study comes to its end. */
export const END_EVENTS = /** @type {const} */ ({ finished: "finish", failed: "fail", cancelled: "cancel" });

/** @type {ReadonlySet<StudyState>} */
export const ENDED = new Set(/** @type {const} */ (["finished", "failed", "cancelled"]));

/**
 * The study's next state.
 * @param {StudyState} state
 * @param {string} event
 */
export const studyAfter = (state, event) => STUDY_AFTER[`${state} ${event}`] ?? impossible(state, event);

/**
 * The round's next state.
 * @param {RoundState} state
 * @param {string} event
 */
export const roundAfter = (state, event) => ROUND_AFTER[`${state} ${event}`] ?? impossible(state, event);

/**
 * @param {string} state
 * @param {string} event
 * @returns {never}
 */
const impossible = (state, event) => refuse("life cycle", `'${event}' is not possible when ${state}`);
