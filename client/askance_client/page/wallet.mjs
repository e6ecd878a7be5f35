// The wallet of this browser at one server: her number, her cap, what she has spent, and every report that she has drawn.
//
// A report is drawn inside the transaction that stores it with its charge. IndexedDB runs transactions that write one after
// the other, also those of two tabs, and the draw looks whether there is one already: so there is one draw a round, with no
// lock that a plain HTTP page would not have. Nothing is sent before `complete`, with durability "strict", says that it is on
// disk. An answer is never stored; a report's bytes are, since the same ones are sent again.

/** @typedef {"kept" | "acknowledged" | "declined" | "conflict"} State the words of the Python wallet */
/**
 * @typedef {object} StoredReport
 * @property {string} round
 * @property {string} study
 * @property {number} charge micro-ε
 * @property {Uint8Array} body what is sent, and sent again
 * @property {State} state
 * @property {string} question what was asked, in words
 * @property {string} said the outcome, in words: what left, and not what was answered
 * @property {number} drawn milliseconds since 1970
 */
/**
 * @typedef {object} Owner
 * @property {number} cap micro-ε that this browser will ever spend at this server
 * @property {number} elsewhere what copies of this wallet were seen to have spent
 * @property {string} key stored before she enrols, so that one browser gets one number
 * @property {number} [user]
 * @property {string} [token]
 */
/**
 * @typedef {object} Account
 * @property {Owner} owner
 * @property {Map<string, StoredReport>} reports
 * @property {Map<string, number>} heard what each round cost that a copy of this wallet has answered
 */

/** Of the stores: what a later page changes them to, this one does not touch. */
const VERSION = 1;
/** Until a store is open, or gone. */
const MOST_SECONDS = 20;
const ACCOUNT = ["owner", "reports", "heard"];
/** What a person is asked to spend at most where she says nothing: e³ = 20.1 times, over her lifetime at this server. */
export const USUAL_CAP = 3_000_000;

/** This browser keeps nothing, or does not let this page keep it. */
export class WalletError extends Error {}

export class Wallet {
  /**
   * The wallet at this server; made where there is none.
   * @param {string} server
   */
  static async open(server) {
    const request = opened(`askance ${server}`);
    request.onupgradeneeded = () => {
      const db = request.result;
      db.createObjectStore("owner");
      db.createObjectStore("reports", { keyPath: "round" });
      db.createObjectStore("heard");
      db.createObjectStore("studies", { keyPath: "study" });
    };
    const db = await done(request);
    const wallet = new Wallet(db, server);
    // An older page in another tab must not keep a newer one out.
    db.onversionchange = () => db.close();
    await wallet.change(["owner"], (stores) => {
      const there = stores.owner.get(OWNER);
      there.onsuccess = () => {
        if (!there.result) stores.owner.add({ cap: USUAL_CAP, elsewhere: 0, key: randomKey() }, OWNER);
      };
    });
    return wallet;
  }

  /**
   * @param {IDBDatabase} db
   * @param {string} server
   */
  constructor(db, server) {
    this.db = db;
    this.server = server;
  }

  /**
   * One transaction that writes. What `work` returns is returned once it is on disk; where it throws, nothing is changed.
   * It must not wait for anything but this transaction's own requests.
   * @template T
   * @param {string[]} names
   * @param {(stores: Record<string, IDBObjectStore>) => T} work
   * @returns {Promise<T>}
   */
  change(names, work) {
    return transact(this.db, names, "readwrite", work);
  }

  /** @returns {Promise<Account>} */
  async account() {
    return transact(this.db, ACCOUNT, "readonly", (stores) => readAccount(stores, (account) => account)).then((held) => held.value);
  }

  /**
   * Change what she has, after looking at all of it, in one transaction.
   * @template T
   * @param {(account: Account, stores: Record<string, IDBObjectStore>) => T} work
   * @returns {Promise<T>}
   */
  async changeAccount(work) {
    return (await this.change(ACCOUNT, (stores) => readAccount(stores, (account) => work(account, stores)))).value;
  }

  /** @param {{user: number, token: string}} given */
  async enrolled(given) {
    await this.changeAccount(({ owner }, stores) => {
      if (owner.user !== undefined && owner.user !== given.user) throw new WalletError(`this browser is number ${owner.user}, and no other`);
      stores.owner.put({ ...owner, ...given }, OWNER);
    });
  }

  /**
   * Her cap. It is for a lifetime once anything was spent.
   * @param {number} cap
   */
  async limit(cap) {
    await this.changeAccount((account, stores) => {
      if (!isUnused(account)) throw new WalletError("a cap is for a lifetime");
      stores.owner.put({ ...account.owner, cap }, OWNER);
    });
  }

  /**
   * The digest of each entry of a study that this browser has read.
   * @param {string} study
   * @returns {Promise<{heads: string[], title: string, read: number} | undefined>}
   */
  async pin(study) {
    return transact(this.db, ["studies"], "readonly", (stores) => stores.studies.get(study)).then((request) => request.result);
  }

  /** @returns {Promise<{study: string, heads: string[], title: string, read: number}[]>} */
  async pins() {
    return transact(this.db, ["studies"], "readonly", (stores) => stores.studies.getAll()).then((request) => request.result);
  }

  /**
   * Store how far she has read. What was read stays read: heads that do not go on with it change nothing.
   * @param {string} study
   * @param {string} title
   * @param {readonly string[]} heads
   */
  async noteHistory(study, title, heads) {
    await this.change(["studies"], (stores) => {
      const request = stores.studies.get(study);
      request.onsuccess = () => {
        /** @type {string[]} */
        const before = request.result?.heads ?? [];
        if (before.length < heads.length && before.every((head, index) => head === heads[index])) {
          stores.studies.put({ study, title, heads: [...heads], read: Date.now() });
        }
      };
    });
  }

  /**
   * Store what became of a report. An acknowledgement is never taken back, and neither is a conflict.
   * @param {string} round
   * @param {State} state
   */
  async settle(round, state) {
    await this.change(["reports"], (stores) => {
      const request = stores.reports.get(round);
      request.onsuccess = () => {
        const report = request.result;
        if (report && report.state !== "acknowledged" && report.state !== "conflict") stores.reports.put({ ...report, state });
      };
    });
  }

  /** All of it, for a person to look at; without her token, by which anybody could answer as her. */
  async copy() {
    const { owner, reports, heard } = await this.account();
    const { key: _, token: __, ...hers } = owner;
    const sent = [...reports.values()].map((report) => ({ ...report, body: new TextDecoder().decode(report.body) }));
    return { form: "askance.wallet-copy", server: this.server, owner: hers, reports: sent, heard: Object.fromEntries(heard), studies: await this.pins() };
  }

  /** Forget all of it, for good. */
  async forget() {
    this.db.close();
    const request = indexedDB.deleteDatabase(`askance ${this.server}`);
    await done(request);
  }
}

const OWNER = "owner";

/** @param {Account} account */
export const isUnused = ({ owner, reports }) => reports.size === 0 && owner.elsewhere === 0;

/** 128 random bits, as hexadecimal digits. */
function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @template T
 * @param {Record<string, IDBObjectStore>} stores
 * @param {(account: Account) => T} work
 * @returns {{value: T}} filled when the transaction is complete
 */
function readAccount(stores, work) {
  const held = /** @type {{value: T}} */ ({});
  const [owner, reports, costs, rounds] = [stores.owner.get(OWNER), stores.reports.getAll(), stores.heard.getAll(), stores.heard.getAllKeys()];
  // Requests are answered in their order: with the last, all are there.
  rounds.onsuccess = () => {
    try {
      if (!owner.result) throw new WalletError("this browser has lost its wallet");
      const byRound = new Map(reports.result.map((/** @type {StoredReport} */ report) => [report.round, report]));
      const heard = new Map(rounds.result.map((round, index) => [String(round), costs.result[index]]));
      held.value = work({ owner: owner.result, reports: byRound, heard });
    } catch (error) {
      failures.set(rounds.transaction, error);
      rounds.transaction?.abort();
    }
  };
  return held;
}

/** Why a transaction was given up. @type {WeakMap<any, unknown>} */
const failures = new WeakMap();

/**
 * @template T
 * @param {IDBDatabase} db
 * @param {string[]} names
 * @param {IDBTransactionMode} mode
 * @param {(stores: Record<string, IDBObjectStore>) => T} work
 * @returns {Promise<T>}
 */
function transact(db, names, mode, work) {
  return new Promise((resolve, reject) => {
    const transaction = begun(db, names, mode);
    const stores = Object.fromEntries(names.map((name) => [name, transaction.objectStore(name)]));
    transaction.onabort = () => reject(failures.get(transaction) ?? new WalletError(`this browser stores nothing: ${transaction.error?.message ?? "it gave up"}`));
    try {
      const result = work(stores);
      transaction.oncomplete = () => resolve(result);
    } catch (error) {
      failures.set(transaction, error);
      transaction.abort();
    }
  });
}

/**
 * @param {IDBDatabase} db
 * @param {string[]} names
 * @param {IDBTransactionMode} mode
 */
function begun(db, names, mode) {
  try {
    return db.transaction(names, mode, { durability: "strict" });
  } catch {
    throw new WalletError("the wallet was forgotten, or taken over by a newer version of this page, in another tab");
  }
}

/**
 * Ask for a store. A browser that has none says so at once, or has not even the name.
 * @param {string} name
 */
function opened(name) {
  try {
    return indexedDB.open(name, VERSION);
  } catch (error) {
    throw new WalletError(`this browser stores nothing: ${error instanceof Error ? error.message : "it gives no reason"}`);
  }
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function done(request) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new WalletError("this browser’s store gives no answer: close its other tabs of this page")), MOST_SECONDS * 1000);
    request.onsuccess = () => {
      clearTimeout(timer);
      resolve(request.result);
    };
    request.onerror = () =>
      reject(new WalletError(request.error?.name === "VersionError"
        ? "a newer version of this page keeps the wallet of this browser"
        : `this browser stores nothing: ${request.error?.message ?? "it gives no reason"}`));
  });
}

