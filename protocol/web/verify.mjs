// A whole bulletin, checked by who looks on: every digest recomputed, nothing believed.

import { GrowingBulletin, EMPTY, readEntry } from "./bulletin.mjs";
import { digest, dumps } from "./canonical.mjs";

/** @typedef {import("./bulletin.mjs").RoundState} RoundState */
/** @typedef {import("./bulletin.mjs").StudyState} StudyState */
/**
 * @typedef {{readonly study: string, readonly heads: readonly string[], readonly state: StudyState, readonly rounds:
 *   ReadonlyMap<string, RoundState>}} Verified
 */

/**
 * The digest of the study and of each entry, and where study and rounds stand; throws a `ProtocolError` where the
 * chain breaks.
 * @param {Iterable<import("./canonical.mjs").Json>} entries as they were parsed
 * @returns {Verified}
 */
export function verifyChain(entries) {
  const growing = new GrowingBulletin(EMPTY);
  const heads = [];
  for (const entry of entries) {
    growing.append(readEntry(dumps(entry)));
    heads.push(growing.head);
  }
  const { study, state, rounds } = growing.frozen();
  return Object.freeze({ study: study === null ? "" : digest(study), heads: Object.freeze(heads), state, rounds });
}
