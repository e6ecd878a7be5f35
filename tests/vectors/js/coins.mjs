// Public coins: 64 bits a user of an AES-128-CTR keystream.

import { bytes, sha256 } from "./json.mjs";
import { DIGEST, MAX_USER, int } from "./shape.mjs";

/** The two halves of a user's coin under a digest. */
export async function toss(digest, user) {
  DIGEST(digest, "digest");
  int(0, MAX_USER - 1)(user, "user");
  const seed = await sha256(new Uint8Array([...bytes("askance coin v1"), ...Buffer.from(digest, "hex")]));
  const key = await crypto.subtle.importKey("raw", seed.slice(0, 16), "AES-CTR", false, ["encrypt"]);
  const counter = new Uint8Array(16);
  new DataView(counter.buffer).setBigUint64(8, BigInt(user) / 2n);
  const block = await crypto.subtle.encrypt({ name: "AES-CTR", counter, length: 64 }, key, new Uint8Array(16));
  const view = new DataView(block, 8 * (user % 2), 8);
  return { low: view.getUint32(0, true), high: view.getUint32(4, true), whole: view.getBigUint64(0, true) };
}

/** One of n, by the high half. */
export const choice = (coin, n) => Math.floor((coin.high * n) / 2 ** 32);

/** The least power of two that covers so many cells; and the row, by the low bits. */
export const rowsFor = (cells) => 2 ** Math.ceil(Math.log2(cells));
export const row = (coin, rows) => coin.low % rows;

/** How an answer becomes the input of a pooled part: 0 for −1, 1 for in no cell, 2 for +1. */
export function encode(given, ofRow) {
  const ones = ((Math.abs(given) - 1) & ofRow).toString(2).replaceAll("0", "").length;
  return given === 0 ? 1 : 1 + Math.sign(given) * (-1) ** ones;
}

export const rowFromOne = (coin, rows) => 1 + Number((BigInt(coin.low) * BigInt(rows - 1)) >> 32n);

/** The least irreducible polynomial of a degree over GF(2), other than x. */
function irreducible(degree) {
  const mod = (a, b) => {
    while (a.toString(2).length >= b.toString(2).length) a ^= b << (a.toString(2).length - b.toString(2).length);
    return a;
  };
  for (let found = 2 ** degree + 1; ; found++) {
    let divisor = 2;
    while (divisor < 2 ** (degree / 2 + 1) && divisor < found && mod(found, divisor) !== 0) divisor++;
    if (divisor >= 2 ** (degree / 2 + 1) || divisor === found) return found;
  }
}

/** How many rows a hash has, and its buckets: the bits of ⟨cell, row · x^i⟩, with the sign in the lowest. */
export const hashRows = ({ bits, columns }) => 2 ** Math.max(bits, Math.ceil(Math.log2(columns)));
export function hashed({ bits, columns, apart }) {
  const rows = hashRows({ bits, columns });
  const by = irreducible(Math.log2(rows));
  return (given, ofRow) => {
    if (given === 0 && apart) return 2 ** bits;
    const cell = given === 0 ? columns - 1 : Math.abs(given) - 1;
    let bucket = given < 0 ? 1 : 0;
    for (let bit = 0, multiple = ofRow; bit < bits; bit++) {
      if ((cell & multiple).toString(2).replaceAll("0", "").length % 2) bucket ^= 2 ** bit;
      multiple = multiple * 2 >= rows ? (multiple * 2) ^ by : multiple * 2;
    }
    return bucket;
  };
}
