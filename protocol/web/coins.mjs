// The public coin: which question a user gets, as a function of a public digest and her number. Her data have no part
// in it.

import { encrypt, expand } from "./aes.mjs";
import { encoded } from "./canonical.mjs";
import { sha256 } from "./sha256.mjs";
import { DIGEST, MAX_USER, whole } from "./values.mjs";

/** The 64 bits of a coin, as two halves. @typedef {{readonly high: number, readonly low: number}} Tossed */

const USER = whole(0, MAX_USER - 1);

/** The coins of all users under one digest. */
export class Coin {
  #keys;

  /** @param {string} digest */
  constructor(digest) {
    DIGEST(digest, "digest");
    const label = encoded("askance coin v1");
    const seed = new Uint8Array(label.length + 32);
    seed.set(label);
    seed.set(
      Uint8Array.from(digest.match(/../g) ?? [], (byte) => parseInt(byte, 16)),
      label.length,
    );
    this.#keys = expand(sha256(seed).subarray(0, 16));
  }

  /**
   * A user's coin: 8 of the 16 bytes of a block of the keystream whose counter begins at zero, little-endian.
   * @param {number} user
   * @returns {Tossed}
   */
  toss(user) {
    USER(user, "user");
    const counter = new Uint8Array(16);
    new DataView(counter.buffer).setBigUint64(8, BigInt(Math.floor(user / 2)));
    const block = new DataView(encrypt(this.#keys, counter).buffer, 8 * (user % 2), 8);
    return { low: block.getUint32(0, true), high: block.getUint32(4, true) };
  }
}

/**
 * One of 0 .. count − 1, from the high half. The product is exact: `count` is at most 2^20.
 * @param {Tossed} coin
 * @param {number} count
 */
export const choice = (coin, count) => Math.floor((coin.high * count) / 2 ** 32);

/**
 * One of so many rows, a power of two of at most 2^16, from the low half.
 * @param {Tossed} coin
 * @param {number} rows
 */
export const rowOf = (coin, rows) => coin.low % rows;

/**
 * One of the rows 1 .. rows − 1, from the low half. The product is exact: there are at most 2^16.
 * @param {Tossed} coin
 * @param {number} rows
 */
export const rowFromOne = (coin, rows) => 1 + Math.floor((coin.low * (rows - 1)) / 2 ** 32);
