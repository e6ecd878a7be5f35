// The bulletin: entries, their chain, and the life cycles of a study and its rounds.

import { readHypothesis } from "./hypothesis.mjs";
import { digest } from "./json.mjs";
import { readRound, readStudy } from "./rounds.mjs";
import { DIGEST, int, kinds, list, oneOf, record, refuse, text } from "./shape.mjs";

const STATE_OF = {
  learned: "finished",
  cancelled: "cancelled",
  "too-few-users": "failed",
  "too-few-reports": "failed",
  strategy: "failed",
};

const COUNT = int(0);
const notice = (kind, members, optional) => record({ kind: oneOf(kind), ...members }, optional);
const ENDED = notice(
  "ended",
  { state: oneOf("finished", "failed", "cancelled"), reason: text(0, 2000) },
  { cause: oneOf(...Object.keys(STATE_OF)), hypothesis: readHypothesis },
);
const readNotice = kinds("kind", {
  study: notice("study", { study: readStudy }),
  round: notice("round", { round: readRound }),
  closed: notice("closed", { round: DIGEST, reason: oneOf("target", "deadline", "operator"), received: COUNT }),
  answers: notice("answers", { round: DIGEST, tallies: list(0, Infinity, list(0, Infinity, list(0, Infinity, COUNT))) }),
  ended: (value, place) => {
    ENDED(value, place);
    if (value.cause !== undefined && STATE_OF[value.cause] !== value.state) refuse(`${place}.state`, "is not where its cause leads");
    if (value.cause === "learned" && value.hypothesis === undefined) refuse(`${place}.hypothesis`, "is missing where the cause is learned");
    if (value.cause !== "learned" && value.hypothesis !== undefined) refuse(`${place}.cause`, "is not learned, and there is a hypothesis");
    return value;
  },
});
const ENTRY = record({ form: oneOf("askance.entry"), version: oneOf(1, 2), sequence: int(0), previous: DIGEST, notice: readNotice });

export function readEntry(value, place = "") {
  ENTRY(value, place);
  const expected = value.notice.cause === undefined ? 1 : 2;
  return value.version === expected ? value : refuse("version", `is not ${expected}, that of such a notice`);
}

// ---- what may follow what

const STUDY = {
  "created publish": "running", "created publish all": "sealed", "running publish": "running",
  "created finish": "finished", "running finish": "finished", "sealed finish": "finished",
  "created fail": "failed", "running fail": "failed", "sealed fail": "failed",
  "created cancel": "cancelled", "running cancel": "cancelled", "sealed cancel": "cancelled",
};
const ROUND = {
  "published open": "open", "open close": "closed", "closed answer": "answered",
  "published abandon": "abandoned", "open abandon": "abandoned", "closed abandon": "abandoned",
};
const END = { finished: "finish", failed: "fail", cancelled: "cancel" };
const step = (table, state, event) => table[`${state} ${event}`] ?? refuse("life cycle", `${event} does not follow ${state}`);

/** A bulletin without entries. */
export const EMPTY = { head: "0".repeat(64), length: 0, study: undefined, studyId: undefined, state: undefined, rounds: [] };

/** The bulletin with one entry more; a refused entry leaves it as it was. */
export async function append(bulletin, entry) {
  readEntry(entry);
  if (entry.sequence !== bulletin.length) refuse("sequence", `is not ${bulletin.length}`);
  if (entry.previous !== bulletin.head) refuse("previous", "is not the digest of the entry before");
  const isFirst = entry.notice.kind === "study";
  if (isFirst !== (bulletin.length === 0)) refuse("notice", "the first entry, and no other, publishes the study");
  const changed = await FOLLOW[entry.notice.kind](bulletin, entry.notice);
  return { ...bulletin, ...changed, head: await digest(entry), length: bulletin.length + 1 };
}

/** A round's step. */
function stepOf(bulletin, { round }, event) {
  if (!bulletin.rounds.some(([id]) => id === round)) refuse("notice.round", "was never published");
  return { rounds: bulletin.rounds.map(([id, state]) => [id, id === round ? step(ROUND, state, event) : state]) };
}

const FOLLOW = {
  study: async (_, { study }) => ({ study, studyId: await digest(study), state: "created" }),
  round: async (bulletin, { round }) => {
    if (round.study !== bulletin.studyId) refuse("notice.round.study", "is another study");
    if (round.number !== bulletin.rounds.length + 1) refuse("notice.round.number", "is not the next");
    const state = step(STUDY, bulletin.state, bulletin.study.interactive ? "publish" : "publish all");
    return { state, rounds: [...bulletin.rounds, [await digest(round), step(ROUND, "published", "open")]] };
  },
  closed: (bulletin, closed) => stepOf(bulletin, closed, "close"),
  answers: (bulletin, answers) => stepOf(bulletin, answers, "answer"),
  ended: (bulletin, { state }) => ({
    state: step(STUDY, bulletin.state, END[state]),
    rounds: bulletin.rounds.map(([id, at]) => [id, at === "answered" ? at : step(ROUND, at, "abandon")]),
  }),
};
