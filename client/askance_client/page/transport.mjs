// One server over HTTP: its requests, each once, its answers bounded in size and time and read strictly.
//
// No redirect is followed, no cookie is sent, nothing is cached. A browser unpacks a packed answer before a page sees it, so
// the bounds count what was unpacked, piece by piece, and the rest is never fetched.

import { GarbledError, MOST_BYTES, ProtocolError, dumps, isRefusal, readEnrolled, readProblem, readReceipt, readRefusal, readStatement, readTail } from "../../../protocol/web/index.mjs";

/** @typedef {import("../../../protocol/web/refusals.mjs").Refusal} Refusal */

/** No answer: lost, refused, or too late. What was sent may have arrived all the same. */
export class Unreachable extends Error {
  /**
   * @param {string} why in words for a person
   */
  constructor(why) {
    super(why);
    this.why = why;
  }
}

/** What the server refuses, and why. */
export class Problem {
  /** @param {{status: number, name: string, detail: string, next: string}} said */
  constructor({ status, name, detail, next }) {
    this.status = status;
    /** The problem's type; empty where what answered does not speak this protocol. */
    this.name = name;
    this.detail = detail;
    this.next = next;
  }
}

/** The version that is spoken here: a server of another one says so. */
const PROTOCOL = "1";
const [SMALL_BYTES, ACCOUNT_BYTES] = [64 << 10, 8 << 20];
/** Statuses after which it is of no use to ask again. */
const PERMANENT = new Set([400, 401, 403, 404, 405, 409, 413, 415, 422]);
const SECONDS = 30;
/** Of a report, which is sent again as soon as nothing has come. */
const REPORT_SECONDS = 10;

export class Server {
  /** @param {string} url without a slash at its end */
  constructor(url) {
    this.url = url;
  }

  /**
   * The entries of a study's bulletin that follow entry `after`.
   * @param {string} study
   * @param {number} after
   */
  entries(study, after) {
    return this.ask(`/v1/studies/${study}/bulletin?after=${after}`, { most: MOST_BYTES }, readTail);
  }

  /**
   * What the user with this token has spent, by the server's account.
   * @param {string} token
   */
  statement(token) {
    return this.ask("/v1/me", { token, most: ACCOUNT_BYTES }, readStatement);
  }

  /**
   * Send a report, once: these very bytes.
   * @param {string} round
   * @param {string} token
   * @param {Uint8Array} body
   */
  send(round, token, body) {
    return this.ask(`/v1/rounds/${round}/reports`, { token, body, seconds: REPORT_SECONDS }, readReceipt);
  }

  /**
   * A number for this browser. The same key gets the same number, however often it comes.
   * @param {string} token
   * @param {string} key
   */
  enrol(token, key) {
    return this.ask("/v1/enrolments", { token, body: dumps({ users: 1, key }) }, readNumber);
  }

  /** The studies that there are: identifiers and what the server says of them, for a list to choose from. */
  studies() {
    return this.ask("/v1/studies", { most: MOST_BYTES }, (bytes) => JSON.parse(new TextDecoder().decode(bytes)));
  }

  /**
   * @template T
   * @param {string} path
   * @param {{token?: string, body?: Uint8Array, most?: number, seconds?: number}} how
   * @param {(bytes: Uint8Array) => T} read
   * @returns {Promise<T | Problem | Refusal>}
   */
  async ask(path, { token = "", body, most = SMALL_BYTES, seconds = SECONDS }, read) {
    /** @type {Record<string, string>} */
    const headers = { "Askance-Protocol": PROTOCOL };
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body) headers["Content-Type"] = "application/json";
    const stopping = new AbortController();
    const timer = setTimeout(() => stopping.abort(), 1000 * seconds);
    try {
      const response = await fetch(this.url + path, {
        method: body ? "POST" : "GET",
        headers,
        // In a buffer of its own, as TypeScript wants it: the same bytes.
        body: body && new Uint8Array(body),
        redirect: "manual",
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
        signal: stopping.signal,
      });
      if (response.type === "opaqueredirect") return new Problem(readProblem(307, new Uint8Array()));
      const bytes = await boundedBody(response, response.ok ? most : SMALL_BYTES);
      if (response.ok) return isRefusal(bytes) ? bytes : readAnswer(bytes, read);
      if (!PERMANENT.has(response.status) && response.status >= 400) throw new Unreachable(`the server says ${response.status}`);
      return new Problem(readProblem(response.status, isRefusal(bytes) ? new Uint8Array() : bytes));
    } catch (error) {
      if (error instanceof Unreachable) throw error;
      if (stopping.signal.aborted) throw new Unreachable(`no answer after ${seconds} s${body ? "; it may have arrived" : ""}`);
      if (error instanceof TypeError) throw new Unreachable(navigator.onLine ? "no connection" : "no network");
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * A body of so many bytes at most.
 * @param {Response} response
 * @param {number} most
 * @returns {Promise<Uint8Array | Refusal>}
 */
async function boundedBody(response, most) {
  if (!response.body) return new Uint8Array();
  const reader = response.body.getReader();
  const pieces = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      return readRefusal(new GarbledError(`is longer than ${most} bytes`, "answer"));
    }
    pieces.push(value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/**
 * @template T
 * @param {Uint8Array} bytes
 * @param {(bytes: Uint8Array) => T} read
 * @returns {T | Refusal}
 */
function readAnswer(bytes, read) {
  try {
    return read(bytes);
  } catch (error) {
    // What is no JSON at all, as a portal answers, is an error of the browser's own reader where one is used.
    return readRefusal(error instanceof ProtocolError ? error : new GarbledError("is no document of this protocol", "answer"));
  }
}

/**
 * The number and the token of the one user that was asked for.
 * @param {Uint8Array} bytes
 */
function readNumber(bytes) {
  const { first, tokens } = readEnrolled(bytes);
  if (tokens.length !== 1) throw new ProtocolError("are not one, and one was asked for", "tokens");
  return { user: first, token: tokens[0] };
}
