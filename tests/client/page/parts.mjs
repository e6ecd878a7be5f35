// The page's wallet and its participant by themselves, at doubles of a server that are in this script: what each scene comes to.

import "./indexed_db.mjs";
import { found, job, module } from "../../protocol/web/job.mjs";

const { isUnused, Wallet, WalletError, USUAL_CAP } = await module("client/askance_client/page/wallet.mjs");
const { meaningOf } = await module("client/askance_client/page/meaning.mjs");
const { Participant, spentBy } = await module("client/askance_client/page/participant.mjs");
const { Problem } = await module("client/askance_client/page/transport.mjs");
const { GarbledError, readRefusal, readTail } = await module("protocol/web/index.mjs");

const { study, rounds, bulletins, values, questions } = job;
const MICRO = 1_000_000;
const STATES = ["kept", "acknowledged", "declined", "conflict"];
const USER = 3;

let wallets = 0;
const opened = () => Wallet.open(`http://${wallets++}.test`);
const roundOf = (number) => `${number}`.repeat(64);
const reportTo = (round, more = {}) => ({ round, study, charge: MICRO, body: new Uint8Array([1]), state: "kept", question: "", said: "", drawn: 0, ...more });
const stored = (wallet, reports) => wallet.changeAccount((_, stores) => void reports.map((report) => stores.reports.add(report)));
const statesOf = async (wallet) => [...(await wallet.account()).reports.values()].map(({ state }) => state);
const spent = async (wallet) => spentBy(await wallet.account());
const refusedBy = async (work) => work.then(() => null, (error) => (error instanceof WalletError ? error.message : `another error: ${error}`));
const named = (status, name) => new Problem({ status, name, detail: "", next: "" });
const kindOf = ({ kind, report, asked, refusal, why, problem }) => [kind, report?.round ?? asked?.round ?? refusal?.code ?? why ?? problem];

/** A server that says this. */
const serverOf = (bulletin, says = {}) => ({
  entries: async (_, after) => {
    const tail = readTail(new TextEncoder().encode(bulletin));
    return { ...tail, entries: tail.entries.slice(after + 1) };
  },
  statement: async () => ({ user: USER, spent: 0, charges: new Map() }),
  send: async (round) => ({ user: USER, round, charged: MICRO }),
  ...says,
});

/** A person with a number and a cap. */
async function participant(says = {}, { bulletin = bulletins.sound, cap = 100 * MICRO } = {}) {
  const wallet = await opened();
  await wallet.limit(cap);
  await wallet.enrolled({ user: USER, token: "her token" });
  const who = new Participant(serverOf(bulletin, says), wallet, study, "");
  await who.refresh();
  return { who, wallet };
}

const scenes = {
  /** What was settled before, and what is settled now: of the second of three reports. */
  async settled() {
    const changes = {};
    for (const before of STATES) {
      for (const now of STATES) {
        const wallet = await opened();
        await stored(wallet, [1, 2, 3].map((number) => reportTo(roundOf(number), { state: number === 2 ? before : "kept" })));
        await wallet.settle(roundOf(2), now);
        await wallet.settle(roundOf(4), now);
        changes[`${before}, ${now}`] = await statesOf(wallet);
      }
    }
    return changes;
  },

  /** A conflict is told, and then the same report is said to be received: what is spent before, between and after, and what is asked. */
  async conflict() {
    const says = { send: async () => named(409, "conflict") };
    const { who, wallet } = await participant(says, { cap: 2 * MICRO + 999_999 });
    const { asked } = await who.look();
    const { report } = await who.answer(asked, values, "");
    const seen = [await spent(wallet), await who.send(report), await spent(wallet)];
    who.server.send = serverOf("").send;
    await who.send(report);
    return { seen, after: await spent(wallet), states: await statesOf(wallet), next: kindOf(await who.look()) };
  },

  /** What is spent where one of some reports is in conflict. */
  async counted() {
    const sums = [];
    for (const at of [0, 1, 2, 3]) {
      const wallet = await opened();
      await stored(wallet, [0, 1, 2, 3].map((place) => reportTo(roundOf(place), { charge: 10 ** place, state: place === at ? "conflict" : STATES[place % 3] })));
      sums.push(await spent(wallet));
    }
    return sums;
  },

  /** How much is known of a study that is read again, where one of its heads is another: by its place. */
  async pinned() {
    const heads = [0, 1, 2, 3].map((place) => `head ${place}`);
    const lengths = {};
    for (const at of [0, 1, 2, 3, "none", "shorter"]) {
      const wallet = await opened();
      await wallet.noteHistory("other", "", ["x"]);
      await wallet.noteHistory(study, "", heads);
      const again = [...heads.map((head, place) => (place === at ? "another" : head)), "head 4"];
      await wallet.noteHistory(study, "", at === "shorter" ? heads.slice(0, 3) : again);
      lengths[at] = (await wallet.pin(study)).heads;
    }
    return lengths;
  },

  /** What a server says of reports that others have sent: of each round of the history, and of one that is none of it. */
  async heard() {
    const costs = (factor) => new Map([...rounds, roundOf(9)].map((round, place) => [round, factor * (place + 1)]));
    const says = { statement: async () => statement };
    let statement = { user: USER, spent: 9_000, charges: costs(20) };
    const { who, wallet } = await participant(says);
    const looks = [kindOf(await who.look())];
    const account = async () => [Object.fromEntries((await wallet.account()).heard), (await wallet.account()).owner.elsewhere];
    const seen = [await account()];
    for (statement of [{ user: USER, spent: 100, charges: costs(10) }, { user: 5, spent: 9 * MICRO, charges: costs(30) }, { user: USER, spent: 0, charges: costs(40) }]) {
      looks.push(kindOf(await who.look()));
      seen.push(await account());
    }
    return { looks, seen };
  },

  /** What a wallet does not let be changed, and what a copy of it leaves out. */
  async kept() {
    const wallet = await opened();
    const fresh = await wallet.account();
    await wallet.enrolled({ user: 7, token: "one" });
    await wallet.enrolled({ user: 7, token: "two" });
    const other = await refusedBy(wallet.enrolled({ user: 8, token: "three" }));
    await wallet.limit(5);
    await stored(wallet, [reportTo(roundOf(1))]);
    const twice = await refusedBy(stored(wallet, [reportTo(roundOf(2)), reportTo(roundOf(1))]));
    const late = await refusedBy(wallet.limit(6));
    const { owner, reports } = await wallet.account();
    const again = (await (await Wallet.open(wallet.server)).account()).owner;
    const { owner: shown, reports: copied } = await wallet.copy();
    await wallet.forget();
    const anew = (await (await Wallet.open(wallet.server)).account()).owner;
    return {
      fresh: [fresh.owner.cap === USUAL_CAP, /^[0-9a-f]{32}$/.test(fresh.owner.key), fresh.owner.user ?? null],
      unused: [isUnused(fresh), isUnused({ owner: { elsewhere: 1 }, reports: new Map() }), isUnused({ owner, reports })],
      refused: [other, late, twice !== null],
      owner: [owner.user, owner.token, owner.cap, reports.size],
      again: [again.user, again.cap, again.key === owner.key],
      copy: [Object.keys(shown).sort(), copied.map(({ body }) => body)],
      anew: [anew.user ?? null, anew.cap === USUAL_CAP, anew.key === owner.key],
    };
  },

  /** What is looked at first: the one report that was not sent yet, whichever round it is of. */
  async unsent() {
    const seen = [];
    for (const at of rounds.keys()) {
      const { who, wallet } = await participant();
      await stored(wallet, rounds.map((round, place) => reportTo(round, { state: place === at ? "kept" : "acknowledged" })));
      seen.push(kindOf(await who.look()));
    }
    const { who, wallet } = await participant();
    await stored(wallet, rounds.map((round) => reportTo(round, { state: "declined" })));
    return [...seen, kindOf(await who.look())];
  },

  /** What is asked where one round alone is sound, and where none is; and where one is answered. */
  async sound() {
    const seen = {};
    for (const [name, bulletin] of Object.entries(bulletins)) {
      const { who, wallet } = await participant({}, { bulletin });
      seen[name] = kindOf(await who.look());
      if (name === "sound") {
        await stored(wallet, rounds.slice(0, -1).map((round) => reportTo(round, { state: "acknowledged" })));
        seen["all but the last are answered"] = kindOf(await who.look());
      }
    }
    return seen;
  },

  /** A report is drawn once, whatever a second tab answers; and it is that of the answer. */
  async drawn() {
    const { who, wallet } = await participant();
    const tab = new Participant(who.server, wallet, study, "");
    const [{ asked }, other] = [await who.look(), await tab.look()];
    const [one, two] = await Promise.all([who.answer(asked, values, "one"), tab.answer(other.asked, values, "two")]);
    const { reports } = await wallet.account();
    const { charge, state, round } = one.report;
    return { drawn: [one.isDrawn, two.isDrawn].sort(), same: String(one.report.body) === String(two.report.body), reports: reports.size, report: [charge, state, round === rounds[0]] };
  },

  /** What becomes of a report, by what the server says to it. */
  async sent() {
    const receipt = { user: USER, round: rounds[0], charged: MICRO };
    const said = {
      receipt, "another user": { ...receipt, user: 4 }, "another round": { ...receipt, round: rounds[1] }, "another price": { ...receipt, charged: MICRO - 1 },
      ...Object.fromEntries(["conflict", "budget-exceeded", "round-not-open", "not-in-cohort", "invalid-report", "too-busy"].map((name) => [name, named(409, name)])),
    };
    const became = {};
    for (const [name, answer] of Object.entries(said)) {
      const { who, wallet } = await participant({ send: async () => answer });
      await stored(wallet, [reportTo(rounds[1]), reportTo(rounds[0]), reportTo(rounds[2])]);
      const { reports } = await wallet.account();
      const { state, code } = await who.send(reports.get(rounds[0]));
      const after = (await wallet.account()).reports;
      became[name] = [state ?? code, ...[0, 1, 2].map((place) => after.get(rounds[place]).state), await spent(wallet)];
    }
    return became;
  },

  /** A bulletin that comes in pieces is read to its end; one whose pieces are too many bytes is not. */
  async pieces() {
    const lengths = [];
    for (const size of [1 << 20, 1 << 24]) {
      const { entries } = serverOf(bulletins.sound);
      const piecemeal = { entries: async (id, after) => {
        const tail = await entries(id, after);
        const head = tail.entries[1]?.previous ?? tail.pin.head;
        const piece = tail.entries.slice(0, 1);
        return { entries: piece, pin: { length: after + 1 + piece.length, head }, size };
      } };
      const wallet = await opened();
      const who = new Participant(serverOf(bulletins.sound, piecemeal), wallet, study, "");
      const refusal = await who.refresh();
      lengths.push(refusal ? refusal.code : who.history.heads.length);
    }
    // A piece that does not go on with the one before ends it, however many would follow.
    const broken = { entries: async (id, after) => {
      const tail = await serverOf(bulletins.sound).entries(id, after);
      const [entry] = tail.entries;
      return { entries: [after < 1 ? entry : { ...entry, sequence: 9 }], pin: { length: after + 2, head: tail.entries[1]?.previous ?? tail.pin.head }, size: 1 << 20 };
    } };
    const who = new Participant(serverOf(bulletins.sound, broken), await opened(), study, "");
    lengths.push((await who.refresh()).code, (await who.refresh()).code);
    return lengths;
  },

  /** What a person is told where the server says something else than her account, or nothing; and where the bulletin is no good. */
  async unsaid() {
    const refusal = readRefusal(new GarbledError("is no document"));
    const says = {
      "a problem": { statement: async () => named(403, "forbidden") },
      "an unknown problem": { statement: async () => named(404, "") },
      "an account that cannot be read": { statement: async () => refusal },
      "no bulletin": { entries: async () => named(404, "not-found") },
      "a bulletin that cannot be read": { entries: async () => refusal },
      "an empty bulletin": { entries: async () => ({ entries: [], pin: { length: 0, head: "" }, size: 2 }) },
      "a bulletin of its first entry alone": { entries: async () => ({ ...(await serverOf(bulletins.sound).entries("", -1)), pin: { length: 2, head: "x" } }) },
    };
    const seen = {};
    for (const [name, said] of Object.entries(says)) {
      const { who } = await participant(said);
      const first = await who.look();
      // After a lie nothing is read any more; what may pass is asked for again.
      who.server = serverOf(bulletins.sound);
      seen[name] = [...kindOf(first), kindOf(await who.look())[0]];
    }
    return seen;
  },

  /** What a question was about, once it was answered and all is spent; and what is sent by a browser that has lost half of its number. */
  async answered() {
    const { who, wallet } = await participant({}, { cap: MICRO });
    const { asked } = await who.look();
    const { report } = await who.answer(asked, values, "");
    const about = await who.askedFor(report);
    const lost = [];
    for (const half of [{ user: undefined }, { token: undefined }]) {
      await wallet.changeAccount(({ owner }, stores) => stores.owner.put({ ...owner, user: USER, token: "t", ...half }, "owner"));
      lost.push((await who.send(report)).state, (await who.askedFor(report)) === null);
    }
    return { next: kindOf(await who.look())[0], about: [about?.round === report.round, about?.microEpsilon], lost, none: await who.askedFor({ ...report, round: roundOf(9) }) };
  },

  /** What is said where the store is gone, or is none. */
  async stores() {
    const wallet = await opened();
    wallet.db.close();
    const gone = await refusedBy(wallet.account());
    const { open } = indexedDB;
    indexedDB.open = () => { throw new Error("denied"); };
    const denied = await refusedBy(opened());
    indexedDB.open = open;
    return [gone, denied];
  },

  /** What each question means, by the channel alone. */
  async meant() {
    const told = {};
    for (const [name, { study: id, bulletin }] of Object.entries(questions)) {
      const wallet = await opened();
      await wallet.limit(100 * MICRO);
      await wallet.enrolled({ user: USER, token: "t" });
      const who = new Participant(serverOf(bulletin), wallet, id, "");
      const { asked } = await who.look();
      const { answers, isWhole, outcomes, odds, isBit, fields } = meaningOf(asked, who.history.study.example);
      told[name] = { answers: answers.map(({ label, isGap, shares }) => [label, isGap, shares]), isWhole, outcomes, odds, isBit, fields: fields.map((field) => field.name) };
    }
    return told;
  },

  /** Who has no number yet gets one, or is told why not. */
  async joined() {
    const said = { number: { user: 4, token: "new" }, over: named(403, "enrolment-over"), wrong: named(401, "unauthorized"), forbidden: named(403, "forbidden"), else: named(418, "teapot") };
    const seen = {};
    for (const [name, answer] of Object.entries(said)) {
      const wallet = await opened();
      const keys = [];
      const enrol = async (token, key) => (keys.push([token, key]), answer);
      const statement = async (token) => ({ user: token === "new" ? 4 : 0, spent: 0, charges: new Map() });
      const who = new Participant(serverOf(bulletins.sound, { enrol, statement }), wallet, study, "the code");
      seen[name] = kindOf(await who.look());
      const { owner } = await wallet.account();
      seen[`${name}, asked`] = [keys.length, keys[0][0], keys[0][1] === owner.key, owner.user ?? null];
    }
    const none = new Participant(serverOf(bulletins.sound), await opened(), study, "");
    return { ...seen, none: kindOf(await none.look()) };
  },
};

const seen = {};
for (const name of job.scenes ?? Object.keys(scenes)) seen[name] = await scenes[name]();
found(seen);
