// As much of IndexedDB as the page's wallet uses, in memory: for tests in Node, which has none.
//
// Transactions run one after the other. A transaction sees its own writes, and is over when none of its requests waits.

const databases = new Map();

class Request {
  constructor(work) {
    this.work = work;
  }
}

class Store {
  constructor(transaction, rows, keyPath) {
    Object.assign(this, { transaction, rows, keyPath });
  }

  asked(work) {
    const request = Object.assign(new Request(work), { transaction: this.transaction });
    this.transaction.waiting.push(request);
    return request;
  }

  key(value, key) {
    return this.keyPath ? value[this.keyPath] : key;
  }

  get(key) {
    return this.asked(() => structuredClone(this.rows.get(key)));
  }

  getAll() {
    return this.asked(() => structuredClone(this.sorted().map(([, value]) => value)));
  }

  getAllKeys() {
    return this.asked(() => this.sorted().map(([key]) => key));
  }

  put(value, key) {
    const copy = structuredClone(value);
    return this.asked(() => void this.rows.set(this.key(copy, key), copy));
  }

  add(value, key) {
    const copy = structuredClone(value);
    return this.asked(() => {
      if (this.rows.has(this.key(copy, key))) throw new Error("there is one already");
      this.rows.set(this.key(copy, key), copy);
    });
  }

  sorted() {
    return [...this.rows].sort(([a], [b]) => (a < b ? -1 : 1));
  }
}

class Transaction {
  constructor(db, names, mode) {
    Object.assign(this, { db, names, mode, waiting: [], error: null, aborted: false });
    this.copies = new Map();
    db.turn = db.turn.then(() => this.run());
  }

  objectStore(name) {
    if (!this.names.includes(name)) throw new Error(`not among the stores of this transaction: ${name}`);
    const store = new Store(this, null, this.db.keyPaths.get(name));
    // What it sees is what is there when its turn comes.
    Object.defineProperty(store, "rows", { get: () => this.rowsOf(name) });
    return store;
  }

  rowsOf(name) {
    if (!this.copies.has(name)) this.copies.set(name, new Map(this.db.stores.get(name)));
    return this.copies.get(name);
  }

  abort() {
    this.aborted = true;
  }

  async run() {
    while (this.waiting.length && !this.aborted) {
      const request = this.waiting.shift();
      try {
        request.result = request.work();
      } catch (error) {
        this.error = error;
        this.aborted = true;
        break;
      }
      request.onsuccess?.();
      await null;
    }
    if (this.aborted) return this.onabort?.();
    for (const [name, rows] of this.copies) this.db.stores.set(name, rows);
    return this.oncomplete?.();
  }
}

class Database {
  stores = new Map();
  keyPaths = new Map();
  turn = Promise.resolve();

  createObjectStore(name, { keyPath } = {}) {
    this.stores.set(name, new Map());
    this.keyPaths.set(name, keyPath);
  }

  transaction(names, mode) {
    if (this.isClosed || names.some((name) => !this.stores.has(name))) throw new Error("there is no such store any more");
    return new Transaction(this, names, mode);
  }

  /** For all who have it open: there is one of each name. */
  close() {
    this.isClosed = true;
  }
}

function later(work) {
  const request = new Request();
  setTimeout(() => work(request), 0);
  return request;
}

globalThis.indexedDB = {
  open: (name) =>
    later((request) => {
      const isNew = !databases.has(name);
      if (isNew) databases.set(name, new Database());
      request.result = databases.get(name);
      request.result.isClosed = false;
      if (isNew) request.onupgradeneeded?.();
      request.onsuccess?.();
    }),
  deleteDatabase: (name) =>
    later((request) => {
      databases.delete(name);
      request.onsuccess?.();
    }),
};
