// One person and one study: read it, decide from public facts alone, draw once, store, send, and send the same bytes again.
//
// It is what `askance_client.user` is, with a wallet that is IndexedDB. What it returns is what there is to show.

import {
  ENDED, GarbledError, History, MOST_OF_A_STUDY, PIECE, ProtocolError, begin, body, decide, hold, isRefusal, judge, printable, readRefusal, refuseReceipt, refuseStudy, respond, spendingAfter, spentOf,
} from "../../../protocol/web/index.mjs";
import { exampleOf, meaningOf } from "./meaning.mjs";
import { Problem } from "./transport.mjs";

/** @typedef {import("../../../protocol/web/judge.mjs").Asked} Asked */
/** @typedef {import("../../../protocol/web/refusals.mjs").Refusal} Refusal */
/** @typedef {import("./wallet.mjs").StoredReport} StoredReport */
/** @typedef {import("./wallet.mjs").Account} Account */
/**
 * What there is to show: a question, a report (and whether it was drawn just now, of this very answer), a refusal with what the
 * wallet had read before, or why nothing is asked.
 * @typedef {{kind: "question", asked: Asked} | {kind: "report", report: StoredReport, isDrawn?: boolean} | {kind: "refused", refusal: Refusal, read: any}
 *   | {kind: "join", problem: string | null} | {kind: "quiet", why: "ended" | "between" | "elsewhere"}} Situation
 */

/** Problems with which a server declines a report for good. After any other the same bytes may be sent again. */
const FINAL = new Set(["conflict", "budget-exceeded", "round-not-open", "not-in-cohort", "invalid-report"]);

/** Her own account, by the wallet. @param {Account} account */
export function spendingOf({ owner, reports, heard }) {
  const again = [...reports.values()].filter(({ state }) => state === "conflict");
  return {
    cap: owner.cap,
    charges: new Map([...reports.values()].map(({ round, charge }) => [round, charge])),
    elsewhere: owner.elsewhere,
    heard,
    again: new Map(again.map(({ round, charge }) => [round, charge])),
  };
}

/** Micro-ε spent, by the highest account. @param {Account} account */
export const spentBy = (account) => Number(spentOf(spendingOf(account)));

export class Participant {
  /**
   * @param {import("./transport.mjs").Server} server
   * @param {import("./wallet.mjs").Wallet} wallet
   * @param {string} study
   * @param {string} token to enrol with
   */
  constructor(server, wallet, study, token) {
    this.server = server;
    this.wallet = wallet;
    this.token = token;
    this.history = new History(study);
    /** Bytes of entries that were read. */
    this.read = 0;
    /** Why nothing is read any more: after a lie there is no truth to go on with. @type {Refusal | null} */
    this.refusal = null;
  }

  /** The study's title, once it was read: a server's text, which steers nothing. */
  get title() {
    return this.history.heads.length ? printable(this.history.study.title) : "";
  }

  /**
   * Read what is new, enrol where there is no number yet, and say what there is to show. Throws `Unreachable`.
   * @returns {Promise<Situation>}
   */
  async look() {
    const refused = (await this.refresh()) ?? (await this.refuse());
    if (refused) return this.refused(refused);
    const { owner, reports } = await this.wallet.account();
    const unsent = [...this.history.rounds.keys()].map((id) => reports.get(id)).find((report) => report?.state === "kept");
    if (unsent) return { kind: "report", report: unsent };
    const { user, token } = owner;
    if (user === undefined || token === undefined) {
      if (ENDED.has(this.history.bulletin.state)) return { kind: "quiet", why: "ended" };
      const joined = await this.enrol();
      return "kind" in joined ? joined : this.next(joined.user, joined.token, reports);
    }
    return this.next(user, token, reports);
  }

  /**
   * @param {number} user
   * @param {string} token
   * @param {Map<string, StoredReport>} reports
   * @returns {Promise<Situation>}
   */
  async next(user, token, reports) {
    const open = this.history.openRounds.filter((id) => !reports.has(id) && this.isAsked(id, user));
    if (open.length) {
      const statement = await this.server.statement(token);
      if (statement instanceof Problem || isRefusal(statement)) return this.refused(refusalOf(statement));
      let refusal = null;
      for (const id of open) {
        const asked = await this.judged(id, user, statement);
        if (asked !== null && !isRefusal(asked)) return { kind: "question", asked };
        refusal ??= asked;
      }
      if (refusal) return this.refused(refusal);
    }
    const answered = [...this.history.rounds.keys()].map((id) => reports.get(id)).filter((report) => report !== undefined);
    const last = answered.at(-1);
    if (last) return { kind: "report", report: last };
    return { kind: "quiet", why: ENDED.has(this.history.bulletin.state) ? "ended" : this.history.openRounds.length ? "elsewhere" : "between" };
  }

  /**
   * Judge a round by what the wallet has; and store what others have spent in her name, also where she refuses.
   * @param {string} id
   * @param {number} user
   * @param {import("../../../protocol/web/documents.mjs").Statement} statement
   */
  judged(id, user, statement) {
    return this.wallet.changeAccount((account, stores) => this.decided(id, user, statement, account, stores));
  }

  /**
   * @param {string} id
   * @param {number} user
   * @param {import("../../../protocol/web/documents.mjs").Statement} statement
   * @param {Account} account
   * @param {Record<string, IDBObjectStore>} stores
   * @returns {Asked | Refusal | null}
   */
  decided(id, user, statement, account, stores) {
    const spending = spendingOf(account);
    const asked = judge({ history: this.history, id }, { ...this.declaration(user), now: Date.now() / 1000 }, { spending, pin: null, statement });
    if (statement.user === user) noteElsewhere(spendingAfter(spending, statement), this.history, account, stores);
    return asked;
  }

  /**
   * Draw her report, store it with its charge, and give what was stored. All that decides is public; this is the one place where
   * an answer is looked at. Where there is a report already, drawn in another tab, it is given and nothing is drawn.
   * @param {Asked} shown what she was shown when she answered
   * @param {Record<string, unknown>} values her answer, by field
   * @param {string} question
   * @returns {Promise<Situation>}
   */
  async answer(shown, values, question) {
    const refused = (await this.refresh()) ?? (await this.refuse());
    if (refused) return this.refused(refused);
    const { owner: { user, token } } = await this.wallet.account();
    if (user === undefined || token === undefined) return this.look();
    const statement = await this.server.statement(token);
    if (statement instanceof Problem || isRefusal(statement)) return this.refused(refusalOf(statement));
    let isDrawn = false;
    const since = begin();
    const drawn = await this.wallet.changeAccount((account, stores) => {
      const before = account.reports.get(shown.round);
      if (before) return before;
      const asked = this.decided(shown.round, user, statement, account, stores);
      if (asked === null || isRefusal(asked)) return asked;
      const report = this.drawn(asked, values, question);
      stores.reports.add(report);
      isDrawn = true;
      return report;
    });
    if (drawn === null) return this.look();
    if (isRefusal(drawn)) return this.refused(drawn);
    await hold(since);
    return { kind: "report", report: drawn, isDrawn };
  }

  /**
   * @param {Asked} asked
   * @param {Record<string, unknown>} values
   * @param {string} question
   * @returns {StoredReport}
   */
  drawn(asked, values, question) {
    const { example: schema } = this.history.study;
    const report = respond(asked, exampleOf(schema, values));
    const said = meaningOf(asked, schema).outcomes[report.outcome];
    return { round: asked.round, study: this.history.id, charge: asked.microEpsilon, body: body(report), state: "kept", question, said, drawn: Date.now() };
  }

  /**
   * Send a stored report: the same bytes, whatever has happened before. Throws `Unreachable`.
   * @param {StoredReport} report
   * @returns {Promise<{state: string, receipt?: unknown, why?: string} | Refusal>}
   */
  async send(report) {
    const { owner: { user, token } } = await this.wallet.account();
    if (user === undefined || token === undefined) return { state: "kept", why: "this browser has no number any more" };
    const answer = await this.server.send(report.round, token, report.body);
    if (isRefusal(answer)) return answer;
    if (answer instanceof Problem) {
      if (!FINAL.has(answer.name)) return { state: "kept", why: answer.name || `the server says ${answer.status}` };
      // Another draw was taken, so two were seen, and both are charged.
      const state = answer.name === "conflict" ? "conflict" : "declined";
      await this.wallet.settle(report.round, state);
      return { state };
    }
    const wrong = refuseReceipt(answer, { user, round: report.round, microEpsilon: report.charge });
    if (wrong) return wrong;
    await this.wallet.settle(report.round, "acknowledged");
    return { state: "acknowledged", receipt: answer };
  }

  /**
   * What a stored report was an answer to, for showing: by its round, whatever she has spent since.
   * @param {StoredReport} report
   * @returns {Promise<Asked | null>}
   */
  async askedFor(report) {
    const round = this.history.rounds.get(report.round);
    const { owner: { user } } = await this.wallet.account();
    if (round === undefined || isRefusal(round) || user === undefined) return null;
    const nothing = { cap: Number.MAX_SAFE_INTEGER, charges: new Map(), elsewhere: 0, heard: new Map(), again: new Map() };
    const asked = decide(this.history, report.round, this.declaration(user), nothing, { user, spent: 0, charges: new Map() });
    return isRefusal(asked) ? null : asked;
  }

  // ------------------------------------------------------------------------------------------------------------- reading

  /** Read to the end of the bulletin; the reason to refuse what was read. @returns {Promise<Refusal | null>} */
  async refresh() {
    if (this.refusal) return this.refusal;
    const after = await this.readOn();
    if (!isRefusal(after)) this.history = after;
    else if (after.passing) return after;
    else this.refusal = after;
    if (this.refusal === null && !this.history.heads.length) return readRefusal(new GarbledError("is empty", "bulletin"));
    return this.refusal;
  }

  /** @returns {Promise<History | Refusal>} */
  async readOn() {
    let { history, read } = this;
    for (;;) {
      const tail = await this.server.entries(history.id, history.heads.length - 1);
      if (tail instanceof Problem || isRefusal(tail)) return refusalOf(tail);
      read += tail.entries.length ? tail.size : 0;
      if (read > MOST_OF_A_STUDY) return readRefusal(new ProtocolError(`is longer than ${MOST_OF_A_STUDY} bytes`, "bulletin"));
      const after = history.followed(tail);
      if (isRefusal(after)) return after;
      history = after;
      if (tail.size < PIECE || !tail.entries.length) {
        this.read = read;
        return history;
      }
    }
  }

  /**
   * Reason to answer nothing of this study. How far she has read is stored, before anything else is asked of the server.
   * @returns {Promise<Refusal | null>}
   */
  async refuse() {
    await this.wallet.noteHistory(this.history.id, this.title, this.history.heads);
    // What is noted by now: if another tab was told another past meanwhile, it is not this one.
    const read = await this.wallet.pin(this.history.id);
    const pin = read ? { length: read.heads.length, head: read.heads[read.heads.length - 1] } : null;
    return refuseStudy(this.history, pin, this.declaration(0));
  }

  /**
   * A person's facts. She is asked on this page, field by field, so what she declares is what she is shown: the study that she
   * named, by its digest.
   * @param {number} user
   */
  declaration(user) {
    return { user, schema: this.history.study.example, declared: null, simulated: false };
  }

  /**
   * @param {string} id
   * @param {number} user
   */
  isAsked(id, user) {
    const round = this.history.rounds.get(id);
    return round !== undefined && (isRefusal(round) || round.asks(user));
  }

  /**
   * Get a number for this browser. Its key was stored first, so it gets one, however often it asks.
   * @returns {Promise<Situation | {user: number, token: string}>}
   */
  async enrol() {
    if (!this.token) return { kind: "join", problem: null };
    const { owner } = await this.wallet.account();
    const given = await this.server.enrol(this.token, owner.key);
    if (isRefusal(given)) return this.refused(given);
    if (given instanceof Problem) return { kind: "join", problem: joinWords(given) };
    await this.wallet.enrolled(given);
    return given;
  }

  /**
   * @param {Refusal} refusal
   * @returns {Promise<Situation>}
   */
  async refused(refusal) {
    return { kind: "refused", refusal, read: await this.wallet.pin(this.history.id) };
  }
}

/**
 * What others have spent in her name stays spent: of single rounds, those of this history.
 * @param {import("../../../protocol/web/judge.mjs").Spending} spending
 * @param {History} history
 * @param {Account} account
 * @param {Record<string, IDBObjectStore>} stores
 */
function noteElsewhere(spending, history, account, stores) {
  if (spending.elsewhere > account.owner.elsewhere) stores.owner.put({ ...account.owner, elsewhere: spending.elsewhere }, "owner");
  for (const [round, cost] of spending.heard) {
    if (history.rounds.has(round) && cost > (account.heard.get(round) ?? -1)) stores.heard.put(cost, round);
  }
}

/**
 * The refusal that an answer comes to which is none.
 * @param {Problem | Refusal} said
 * @returns {Refusal}
 */
function refusalOf(said) {
  if (!(said instanceof Problem)) return said;
  const what = `${said.name === "not-found" ? "it knows no such study: " : ""}the server says ${said.status} ${said.name}`;
  // What has a name, a server of this protocol has said; the rest may come from anything in between.
  return readRefusal(said.name ? new ProtocolError(what) : new GarbledError(what));
}

/** @param {Problem} problem */
function joinWords({ name, status }) {
  if (name === "enrolment-over") return "This code has let in as many as it may, or its time is over. Ask for another one.";
  if (name === "unauthorized" || name === "forbidden") return "This code is not right. Type what stands on the wall, or on your slip.";
  return `The server does not take this code: ${status} ${name}.`;
}

