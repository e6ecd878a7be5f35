// The bulletin: an append-only list, each entry carrying the digest of the one before. Who holds the head's digest
// has pinned the whole list: a server that shows two users two histories is found out once they compare heads.

import { digest, loads } from "./canonical.mjs";
import { refuse, under } from "./errors.mjs";
import { HYPOTHESIS } from "./hypothesis.mjs";
import { END_EVENTS, roundAfter, studyAfter } from "./lifecycle.mjs";
import { ROUND, STUDY } from "./spec.mjs";
import { DIGEST, checked, kinds, list, oneOf, record, text, whole } from "./values.mjs";

/** @typedef {import("./lifecycle.mjs").StudyState} StudyState */
/** @typedef {import("./lifecycle.mjs").RoundState} RoundState */
/** @typedef {import("./spec.mjs").Study} Study */
/** @typedef {import("./spec.mjs").Round} Round */
/** @typedef {"target" | "deadline" | "operator"} CloseReason */
/** @typedef {"learned" | "cancelled" | "too-few-users" | "too-few-reports" | "strategy"} Cause */
/**
 * @typedef {readonly (readonly (readonly number[])[])[]} Tallies for each part, for each row, the count of each
 *   outcome
 */
/**
 * @typedef {{readonly kind: "study", readonly study: Study}
 *   | {readonly kind: "round", readonly round: Round}
 *   | {readonly kind: "closed", readonly round: string, readonly reason: CloseReason, readonly received: number}
 *   | {readonly kind: "answers", readonly round: string, readonly tallies: Tallies}
 *   | {readonly kind: "ended", readonly state: "finished" | "failed" | "cancelled", readonly reason: string,
 *      readonly cause?: Cause, readonly hypothesis?: import("./hypothesis.mjs").Hypothesis}} Notice
 */
/**
 * @typedef {object} Entry
 * @property {"askance.entry"} form
 * @property {1 | 2} version
 * @property {number} sequence
 * @property {string} previous the digest of the entry before
 * @property {Notice} notice
 */
/**
 * What is known of a study after its first entries.
 * @typedef {object} Bulletin
 * @property {string} head the digest of the last entry
 * @property {number} length
 * @property {Study | null} study
 * @property {StudyState} state
 * @property {ReadonlyMap<string, RoundState>} rounds each round's id and state, in the order of publication
 */

/** What the first entry carries in place of a digest. */
export const GENESIS = "0".repeat(64);

/** Bytes of an entry. */
const MAX_BYTES = 1 << 24;
const COUNT = whole(0);
const CAUSES = /** @type {const} */ (["learned", "cancelled", "too-few-users", "too-few-reports", "strategy"]);

/** @type {import("./values.mjs").Reader<Extract<Notice, {kind: "ended"}>>} */
const ENDED = checked(
  record(
    { kind: oneOf("ended"), state: oneOf("finished", "failed", "cancelled"), reason: text(0, 2000) },
    { cause: oneOf(...CAUSES), hypothesis: HYPOTHESIS },
  ),
  ({ state, cause, hypothesis }, place) => {
    if ((hypothesis !== undefined) !== (cause === "learned")) {
      refuse(
        under(place, hypothesis === undefined ? "hypothesis" : "cause"),
        "a hypothesis stands where the cause is 'learned', and only there",
      );
    }
    const leads = cause === "learned" ? "finished" : cause === "cancelled" ? "cancelled" : "failed";
    if (cause !== undefined && state !== leads)
      refuse(under(place, "state"), `the cause '${cause}' does not lead to '${state}'`);
  },
);

/** @type {import("./values.mjs").Reader<Notice>} */
const NOTICE = kinds("kind", {
  study: record({ kind: oneOf("study"), study: STUDY }),
  round: record({ kind: oneOf("round"), round: ROUND }),
  closed: record({
    kind: oneOf("closed"),
    round: DIGEST,
    reason: oneOf("target", "deadline", "operator"),
    received: COUNT,
  }),
  answers: record({
    kind: oneOf("answers"),
    round: DIGEST,
    tallies: list(0, Infinity, list(0, Infinity, list(0, Infinity, COUNT))),
  }),
  ended: ENDED,
});

/** @type {import("./values.mjs").Reader<Entry>} */
export const ENTRY = checked(
  record({ form: oneOf("askance.entry"), version: oneOf(1, 2), sequence: whole(0), previous: DIGEST, notice: NOTICE }),
  ({ version, notice }, place) => {
    const right = notice.kind === "ended" && notice.cause !== undefined ? 2 : 1;
    if (version !== right)
      refuse(under(place, "version"), "the version is 2 where the notice has a cause, and 1 elsewhere");
  },
);

/**
 * An entry from its JSON form.
 * @param {Uint8Array | string} data
 * @returns {Entry}
 */
export const readEntry = (data) => ENTRY(loads(data, MAX_BYTES), "");

/** A bulletin without entries. @type {Bulletin} */
export const EMPTY = Object.freeze({ head: GENESIS, length: 0, study: null, state: "created", rounds: new Map() });

/**
 * The bulletin with one entry more, or an error that leaves this one as it is.
 * @param {Bulletin} bulletin
 * @param {Entry} entry
 */
export function append(bulletin, entry) {
  const growing = new GrowingBulletin(bulletin);
  growing.append(entry);
  return growing.frozen();
}

/** A bulletin to which many entries are appended, each in a time that does not depend on how many there are. */
export class GrowingBulletin {
  #rounds;

  /** @param {Bulletin} bulletin */
  constructor(bulletin) {
    this.head = bulletin.head;
    this.length = bulletin.length;
    this.study = bulletin.study;
    this.state = bulletin.state;
    this.#rounds = new Map(bulletin.rounds);
  }

  /** @returns {Bulletin} the bulletin as it is now */
  frozen() {
    const { head, length, study, state } = this;
    return Object.freeze({ head, length, study, state, rounds: new Map(this.#rounds) });
  }

  /**
   * Append one more entry, or refuse it; then nothing is changed.
   * @param {Entry} entry
   */
  append(entry) {
    if (entry.sequence !== this.length) {
      refuse("sequence", `${entry.sequence} does not follow ${this.length - 1}`, "fetch the entries between");
    }
    if (entry.previous !== this.head) {
      refuse("previous", "does not continue the pinned history", "stop: the server shows two histories");
    }
    this.#take(entry.notice);
    this.head = digest(entry);
    this.length++;
  }

  // Each of these refuses before it changes anything.

  /** @param {Notice} notice */
  #take(notice) {
    const { study } = this;
    if ((study === null) !== (notice.kind === "study")) refuse("notice", "a study is published first, and once");
    if (study === null || notice.kind === "study") {
      this.study = notice.kind === "study" ? notice.study : study;
    } else if (notice.kind === "round") {
      this.#publish(study, notice.round);
    } else if (notice.kind === "ended") {
      this.state = studyAfter(this.state, END_EVENTS[notice.state]);
      this.#abandon();
    } else {
      this.#step(notice.round, notice.kind === "closed" ? "close" : "answer");
    }
  }

  /**
   * @param {Study} study
   * @param {Round} round
   */
  #publish(study, round) {
    if (round.study !== digest(study)) refuse("notice.round.study", "is of another study");
    const next = this.#rounds.size + 1;
    if (round.number !== next) refuse("notice.round.number", `is ${round.number}, the next is ${next}`);
    this.state = studyAfter(this.state, study.interactive ? "publish" : "publish all");
    this.#rounds.set(digest(round), roundAfter("published", "open"));
  }

  /**
   * @param {string} id
   * @param {string} event
   */
  #step(id, event) {
    const state = this.#rounds.get(id) ?? refuse("notice.round", "was never published here");
    this.#rounds.set(id, roundAfter(state, event));
  }

  /** A study that has ended takes no reports: its rounds without an answer are abandoned. */
  #abandon() {
    for (const [id, state] of this.#rounds)
      if (state !== "answered") this.#rounds.set(id, roundAfter(state, "abandon"));
  }
}
