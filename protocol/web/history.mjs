// The history of a study, as a user has checked it: every digest recomputed, no round prepared before it asks.

import { EMPTY, GrowingBulletin } from "./bulletin.mjs";
import { digest } from "./canonical.mjs";
import { ProtocolError, refuse } from "./errors.mjs";
import { isRefusal, refusal } from "./refusals.mjs";
import { checkWork, openRound } from "./rounds.mjs";

/** @typedef {import("./bulletin.mjs").Bulletin} Bulletin */
/** @typedef {import("./bulletin.mjs").Entry} Entry */
/** @typedef {import("./documents.mjs").Pin} Pin */
/** @typedef {import("./documents.mjs").Tail} Tail */
/** @typedef {import("./refusals.mjs").Refusal} Refusal */
/** @typedef {import("./rounds.mjs").PreparedRound} PreparedRound */
/** @typedef {import("./spec.mjs").Study} Study */

/** Seconds after the last deadline until a study that is still open is taken for abandoned. */
const LONG_OVER = 3600;

/** The entries of a bulletin that were read so far, checked. It never changes: `extended` gives a longer one. */
export class History {
  /**
   * @param {string} id the digest of the study
   * @param {Bulletin} [bulletin]
   * @param {readonly string[]} [heads] the digest of each entry
   * @param {ReadonlyMap<string, PreparedRound | Refusal>} [rounds] by id: to be prepared for who is asked, or why all
   *   refuse it
   * @param {number} [deadline] the last of all rounds
   */
  constructor(id, bulletin = EMPTY, heads = [], rounds = new Map(), deadline = 0) {
    this.id = id;
    this.bulletin = bulletin;
    this.heads = heads;
    this.rounds = rounds;
    this.deadline = deadline;
    Object.freeze(this);
  }

  /** @returns {Study} the study, from the first entry */
  get study() {
    return this.bulletin.study ?? refuse("bulletin", "is empty", "read it before it is looked into");
  }

  /** @returns {Pin} the pin of the last entry: it names the whole history */
  get pin() {
    return { length: this.bulletin.length, head: this.bulletin.head };
  }

  /**
   * Whether the pinned entry is still part of this history.
   * @param {Pin} pin
   */
  continues({ length, head }) {
    return length > 0 && length <= this.heads.length && this.heads[length - 1] === head;
  }

  /** The ids of the rounds that take reports. */
  get openRounds() {
    return [...this.bulletin.rounds].filter(([, state]) => state === "open").map(([id]) => id);
  }

  /**
   * Whether the last deadline has passed so long ago that nothing more is to be expected.
   * @param {number} now seconds since 1970
   */
  longOver(now) {
    return this.rounds.size > 0 && now > this.deadline + LONG_OVER;
  }

  /**
   * The history with these further entries, or the reason to refuse them; this one is unchanged.
   * @param {Iterable<Entry>} entries
   * @returns {History | Refusal}
   */
  extended(entries) {
    const growing = new GrowingBulletin(this.bulletin);
    const [heads, rounds] = [[...this.heads], new Map(this.rounds)];
    let deadline = this.deadline;
    for (const entry of entries) {
      const broken = appended(growing, entry);
      if (broken) return broken;
      if (growing.study === null || digest(growing.study) !== this.id)
        return refusal("other-study", `study ${this.id} was asked for`);
      heads.push(growing.head);
      if (entry.notice.kind === "round") {
        deadline = Math.max(deadline, entry.notice.round.deadline);
        rounds.set(digest(entry.notice.round), opened(growing.study, entry.notice.round));
      }
    }
    return new History(this.id, growing.frozen(), heads, rounds, deadline);
  }

  /**
   * The history with what a server says is new. One that lags behind has nothing new, but its head must be a known one.
   * @param {Tail} tail
   * @returns {History | Refusal}
   */
  followed({ entries, pin }) {
    const after = this.extended(entries);
    if (isRefusal(after) || !after.heads.length || after.continues(pin)) return after;
    return refusal("two-histories", `there are ${after.pin.length} entries, and the head is that of others`);
  }
}

/**
 * @param {GrowingBulletin} growing
 * @param {Entry} entry
 */
function appended(growing, entry) {
  try {
    return growing.append(entry);
  } catch (error) {
    if (error instanceof ProtocolError) return refusal("broken-chain", `entry ${entry.sequence}: ${error.message}`);
    throw error;
  }
}

/**
 * The round, of which a part is prepared where it asks somebody; refused where it can ask nobody. The entry is in its
 * place:
 * a round that is refused is not answered, and the history goes on.
 * @param {Study} study
 * @param {import("./spec.mjs").Round} spec
 */
function opened(study, spec) {
  try {
    checkWork(spec);
    return openRound(study, spec);
  } catch (error) {
    if (error instanceof ProtocolError) return refusal("unsound-round", error.message, { round: digest(spec) });
    throw error;
  }
}
