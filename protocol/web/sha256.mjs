// SHA-256 (FIPS 180-4). A browser has it too, but not on a page that came over plain HTTP, as in a classroom. What is
// digested here is public: documents and public coins. Nothing private goes through it, so its time may tell anything.

/**
 * The first `bits` bits of the fraction of a number whose power is taken: FIPS 180-4, 4.2.2 and 5.3.3, as they define
 * it.
 */
const PRIMES = primes(64);
const ROUND_CONSTANTS = Uint32Array.from(PRIMES, (prime) => fraction(BigInt(prime), 3n));
const START = Uint32Array.from(PRIMES.slice(0, 8), (prime) => fraction(BigInt(prime), 2n));

/** @param {number} count */
function primes(count) {
  const found = /** @type {number[]} */ ([]);
  for (let number = 2; found.length < count; number++) {
    if (found.every((prime) => number % prime)) found.push(number);
  }
  return found;
}

/**
 * The first 32 bits of the fraction of a root, in integers: no float rounds a constant.
 * @param {bigint} number
 * @param {bigint} degree
 */
function fraction(number, degree) {
  const target = number << (32n * degree);
  let [low, high] = [0n, number << 32n];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (middle ** degree <= target) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}

/**
 * @param {number} word
 * @param {number} by
 */
const turned = (word, by) => (word >>> by) | (word << (32 - by));

/**
 * The digest of some bytes.
 * @param {Uint8Array} data
 * @returns {Uint8Array} 32 bytes
 */
export function sha256(data) {
  const state = START.slice();
  const whole = data.length - (data.length % 64);
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  for (let at = 0; at < whole; at += 64) compress(state, view, at);
  const rest = data.length - whole;
  const last = new Uint8Array(rest < 56 ? 64 : 128);
  last.set(data.subarray(whole));
  last[rest] = 0x80;
  const end = new DataView(last.buffer);
  end.setBigUint64(last.length - 8, BigInt(data.length) * 8n);
  for (let at = 0; at < last.length; at += 64) compress(state, end, at);
  const digest = new Uint8Array(32);
  const out = new DataView(digest.buffer);
  state.forEach((word, at) => out.setUint32(4 * at, word));
  return digest;
}

const schedule = new Int32Array(64);

/**
 * FIPS 180-4, 6.2.2: one block of 64 bytes.
 * @param {Uint32Array} state
 * @param {DataView} view
 * @param {number} from
 */
function compress(state, view, from) {
  const w = schedule;
  for (let t = 0; t < 16; t++) w[t] = view.getInt32(from + 4 * t);
  for (let t = 16; t < 64; t++) {
    const x = w[t - 15];
    const y = w[t - 2];
    const s0 = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
    const s1 = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
    w[t] = (w[t - 16] + s0 + w[t - 7] + s1) | 0;
  }
  let a = state[0];
  let b = state[1];
  let c = state[2];
  let d = state[3];
  let e = state[4];
  let f = state[5];
  let g = state[6];
  let h = state[7];
  for (let t = 0; t < 64; t++) {
    const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + s1 + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[t] + w[t]) | 0;
    const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/**
 * As hexadecimal digits, in lower case.
 * @param {Uint8Array} data
 */
export const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
