// Whether a user answers a round, decided before anything is drawn, from public data alone. Nothing here sees an
// example, only its schema. So neither an answer nor a refusal tells more about her than that she takes part.

import { MICRO, held, toText, total } from "./budget.mjs";
import { ProtocolError } from "./errors.mjs";
import { isRefusal, refusal } from "./refusals.mjs";
import { sameField, sameSchema } from "./schema.mjs";

/** @typedef {import("./channels.mjs").Channel} Channel */
/** @typedef {import("./documents.mjs").Pin} Pin */
/** @typedef {import("./documents.mjs").Receipt} Receipt */
/** @typedef {import("./documents.mjs").Statement} Statement */
/** @typedef {import("./history.mjs").History} History */
/** @typedef {import("./refusals.mjs").Refusal} Refusal */
/** @typedef {import("./rounds.mjs").PreparedPart} PreparedPart */
/** @typedef {import("./rounds.mjs").PreparedRound} PreparedRound */
/** @typedef {import("./schema.mjs").Schema} Schema */

/**
 * Micro-ε that a round has to charge at least, in each of its parts: more than its moment was ever measured to tell.
 */
export const LEAST_CHARGE = MICRO / 100;
/** Rounds that a study may publish. */
export const MOST_ROUNDS = MICRO / LEAST_CHARGE;
/** Seconds that a round is still answered after its deadline, by a clock that may be fast. */
export const CLOCK_SKEW = 300;

/**
 * What a user has spent, by her own wallet. All maps are by the round's id, in micro-ε.
 * @typedef {object} Spending
 * @property {number} cap what she will ever spend
 * @property {ReadonlyMap<string, number>} charges of each round that she has a report for, sent or not
 * @property {number} elsewhere what other copies of this wallet were once seen to have spent
 * @property {ReadonlyMap<string, number>} heard of each round that another copy was once seen to have answered
 * @property {ReadonlyMap<string, number>} again of each round a second time: the server took another draw than the
 *   one it was sent
 */
/**
 * Public facts about a user. With public documents they decide what she answers.
 * @typedef {object} Declaration
 * @property {number} user her number
 * @property {Schema} schema of her example
 * @property {Schema | null} declared the fields that she has declared to her wallet, for good; null before she has
 * @property {boolean} simulated whether she is made up
 */
/**
 * What a user is asked, if she answers: all of it is public.
 * @typedef {object} Asked
 * @property {"asked"} kind
 * @property {string} study its digest
 * @property {string} round its digest
 * @property {number} number of the round in its study
 * @property {number} part
 * @property {number} row
 * @property {PreparedPart} prepared her question, its query and its channel
 * @property {Channel} channel
 * @property {number} microEpsilon what she pays
 * @property {number} certified the channel's exact ε, in micro-ε: at most that
 * @property {number} outcomes the most that a part of the round has: all its reports are as long as that needs
 * @property {Spending} spending of her wallet, with what the server says of it: to be stored, also where she refuses
 */

/**
 * Spending of a new wallet.
 * @param {number} cap
 * @returns {Spending}
 */
export const newSpending = (cap) =>
  Object.freeze({ cap, charges: new Map(), elsewhere: 0, heard: new Map(), again: new Map() });

/**
 * This spending, with the reports that the server has from her and this wallet does not know of. A higher figure than
 * her own
 * is believed, a lower one never.
 * @param {Spending} spending
 * @param {Statement} statement
 * @returns {Spending}
 */
export function spendingAfter(spending, { spent, charges }) {
  const heard = new Map(spending.heard);
  for (const [round, cost] of charges) {
    if (!spending.charges.has(round)) heard.set(round, Math.max(cost, heard.get(round) ?? 0));
  }
  const claims = [BigInt(spending.elsewhere), total(heard.values()), BigInt(spent) - total(spending.charges.values())];
  const elsewhere = held(claims.reduce((a, b) => (b > a ? b : a)));
  return Object.freeze({ ...spending, elsewhere, heard });
}

/**
 * Micro-ε spent, by the highest account.
 * @param {Spending} spending
 * @returns {bigint}
 */
export const spentOf = ({ charges, again, elsewhere }) =>
  total(charges.values()) + total(again.values()) + BigInt(elsewhere);

/**
 * Names of the fields that are asked about and not declared so: of another name, or of other values.
 * @param {Schema} asked
 * @param {Schema | null} declared
 */
export const undeclaredFields = (asked, declared) =>
  declared === null
    ? []
    : asked.fields.filter((field) => !declared.fields.some((other) => sameField(field, other))).map(({ name }) => name);

/**
 * Reason to answer nothing of this study; null if there is none.
 * @param {History} history
 * @param {Pin | null} pin how far she had read it before
 * @param {Declaration} declaration
 * @returns {Refusal | null}
 */
export function refuseStudy(history, pin, { schema, declared, simulated }) {
  const { study, rounds } = history;
  if (pin && !history.continues(pin))
    return refusal("two-histories", `entry ${pin.length - 1} is another one than before, or gone`);
  if (study.simulated && !simulated) return refusal("simulated", "gateways may speak for the users of this study");
  if (!sameSchema(study.example, schema))
    return refusal("other-schema", "the study's examples have other fields than yours");
  const undeclared = undeclaredFields(study.example, declared);
  if (undeclared.length) return refusal("other-schema", `you have not declared ${undeclared.join(", ")}`);
  if (rounds.size > MOST_ROUNDS)
    return refusal("too-many-rounds", `the study has ${rounds.size} rounds, and ${MOST_ROUNDS} are answered at most`);
  return null;
}

/**
 * Whether a user has to decide. An invalid round asks everybody, and all refuse it.
 * @param {History} history
 * @param {string} id
 * @param {number} user
 */
export function isAsked(history, id, user) {
  const round = history.rounds.get(id);
  return round !== undefined && history.bulletin.rounds.get(id) === "open" && (isRefusal(round) || round.asks(user));
}

/**
 * Reason not to answer a round any more, by its own deadline and her device's clock; null if there is none.
 * @param {PreparedRound | Refusal} round
 * @param {number} now seconds since 1970
 * @returns {Refusal | null}
 */
export function refuseLate(round, now) {
  if (isRefusal(round) || now <= round.spec.deadline + CLOCK_SKEW) return null;
  const late = Math.floor(now) - round.spec.deadline;
  const text = `its deadline passed ${late} seconds ago by the clock of this device, and the server has not closed it`;
  return refusal("deadline-passed", text, { round: round.id });
}

/**
 * What a user is asked, if she answers, or the reason for not answering. To be called where `isAsked` says so, with
 * what her wallet
 * holds at that moment: decide, draw and store in one transaction, so that nothing is spent between.
 * @param {History} history
 * @param {string} id
 * @param {Declaration} declaration
 * @param {Spending} before by her wallet
 * @param {Statement} statement by the server
 * @returns {Asked | Refusal}
 */
export function decide(history, id, { user }, before, statement) {
  const round =
    history.rounds.get(id) ?? refusal("unreadable", "there is no such round on the bulletin", { round: id });
  if (isRefusal(round)) return round;
  const least = round.spec.parts.reduce((lowest, { charge }) => Math.min(lowest, charge), Infinity);
  if (least < LEAST_CHARGE) {
    const text = `ε = ${toText(least)} is charged, and nothing below ${toText(LEAST_CHARGE)} is answered`;
    return refusal("below-floor", text, { round: id });
  }
  if (statement.user !== user)
    return refusal("other-user", `you are user ${user}, the server says ${statement.user}`, { round: id });
  const spending = spendingAfter(before, statement);
  if (spending.heard.has(id))
    return refusal("heard-already", "another report of yours was taken; a second would spend twice", { round: id });
  return question(history, round, user, spending, statement);
}

/**
 * @param {History} history
 * @param {PreparedRound} round
 * @param {number} user
 * @param {Spending} spending
 * @param {Statement} statement
 * @returns {Asked | Refusal}
 */
function question(history, round, user, spending, statement) {
  const { part, row } = round.question(user);
  try {
    // Her question, and how long her report is written, which depends on all parts.
    const [prepared, outcomes] = [round.part(part), round.outcomes];
    const microEpsilon = prepared.part.charge;
    const { channel } = prepared;
    return (
      unaffordable(history, round.id, microEpsilon, spending, statement) ??
      Object.freeze({
        kind: "asked",
        study: history.id,
        round: round.id,
        number: round.spec.number,
        part,
        row,
        prepared,
        channel,
        microEpsilon,
        certified: channel.certified,
        outcomes,
        spending,
      })
    );
  } catch (error) {
    if (error instanceof ProtocolError) return refusal("unsound-round", error.message, { round: round.id });
    throw error;
  }
}

/**
 * The cap that does not cover a charge: what the study promised at most, or her own.
 * @param {History} history
 * @param {string} id
 * @param {number} charge
 * @param {Spending} spending
 * @param {Statement} statement
 * @returns {Refusal | null}
 */
function unaffordable(history, id, charge, spending, statement) {
  const accounts = [spending.charges, spending.heard, statement.charges];
  const inStudy = total(
    [...history.rounds.keys()].flatMap((other) => [
      Math.max(...accounts.map((account) => account.get(other) ?? 0)),
      spending.again.get(other) ?? 0,
    ]),
  );
  const { cap } = history.study;
  if (inStudy + BigInt(charge) > BigInt(cap)) {
    const left = toText(Math.max(cap - held(inStudy), 0));
    const text = `ε = ${toText(charge)} is asked, ${left} is left of the ${toText(cap)} that the study promised`;
    return refusal("beyond-study-cap", `${text} at most`, { round: id });
  }
  const spent = spentOf(spending);
  if (spent + BigInt(charge) > BigInt(spending.cap)) {
    const left = toText(Math.max(spending.cap - held(spent), 0));
    return refusal("beyond-cap", `ε = ${toText(charge)} is asked, ${left} is left${shutByAClaim(spending, charge)}`, {
      round: id,
    });
  }
  return null;
}

/**
 * What is said where nothing but the server's word keeps her from answering. It is believed for good, as it has to
 * be: of what a
 * copy of her wallet has spent only the server knows. So one forged figure shuts a wallet; that costs her none of her
 * privacy.
 * @param {Spending} spending
 * @param {number} charge
 */
function shutByAClaim(spending, charge) {
  const own = held(spentOf(spending) - BigInt(spending.elsewhere));
  if (own + charge > spending.cap) return "";
  return (
    `: this wallet has spent ${toText(own)} of its ${toText(spending.cap)}, but its server has claimed that ` +
    `ε = ${toText(spending.elsewhere)} more was spent in your name, and a claim is believed for good. ` +
    "It is true if a copy of this wallet was used; if there was none, the server has shut this wallet by a false " +
    "claim: tell those who run it, and use a new wallet with another server (what this one has spent stays spent)"
  );
}

/**
 * All of the judgement of one round, in the order in which a user makes it: the study, the deadline, the round.
 *
 * Null: she is not asked. That the round is hers to answer (`kind: "asked"`) holds for the wallet as it was given.
 * @param {{history: History, id: string}} round
 * @param {Declaration & {now: number}} declaration with the time, in seconds since 1970
 * @param {{spending: Spending, pin: Pin | null, statement: Statement}} wallet her own account, how far she had read,
 *   and the server's
 * @returns {Asked | Refusal | null}
 */
export function judge({ history, id }, declaration, { spending, pin, statement }) {
  const refused = refuseStudy(history, pin, declaration);
  if (refused) return refused;
  const round = history.rounds.get(id);
  if (round === undefined || !isAsked(history, id, declaration.user)) return null;
  return refuseLate(round, declaration.now) ?? decide(history, id, declaration, spending, statement);
}

/**
 * Reason not to believe a receipt; null if it is for this very report.
 * @param {Receipt} receipt
 * @param {{user: number, round: string, microEpsilon: number}} report
 * @returns {Refusal | null}
 */
export function refuseReceipt(receipt, { user, round, microEpsilon }) {
  if (receipt.user === user && receipt.round === round && receipt.charged === microEpsilon) return null;
  return refusal("wrong-receipt", "the receipt names another report or another price", { round });
}
