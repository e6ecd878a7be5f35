// AES-128 (FIPS 197), to encrypt one block: what a public coin is made of. Its key and its input are public, so
// tables may be looked up by them.

const SBOX = substitution();

/**
 * Times x in GF(2^8).
 * @param {number} byte
 */
function doubled(byte) {
  return ((byte << 1) ^ (byte & 0x80 ? 0x11b : 0)) & 0xff;
}

/** FIPS 197, 5.1.1: the inverse in GF(2^8), then an affine map. Powers of 3 go through all bytes but zero. */
function substitution() {
  const box = new Uint8Array(256);
  const [powers, logarithms] = [new Uint8Array(255), new Uint8Array(256)];
  for (let power = 0, value = 1; power < 255; power++) {
    powers[power] = value;
    logarithms[value] = power;
    value ^= doubled(value);
  }
  for (let byte = 0; byte < 256; byte++) {
    const inverse = byte ? powers[(255 - logarithms[byte]) % 255] : 0;
    let image = 0x63;
    for (let by = 0; by < 5; by++) image ^= (inverse << by) | (inverse >> (8 - by));
    box[byte] = image;
  }
  return box;
}

/**
 * FIPS 197, 5.2: the keys of the eleven rounds, one after the other.
 * @param {Uint8Array} key 16 bytes
 */
export function expand(key) {
  const keys = new Uint8Array(176);
  keys.set(key);
  for (let at = 16, constant = 1; at < 176; at += 4) {
    let word = [...keys.subarray(at - 4, at)];
    if (at % 16 === 0) {
      word = [SBOX[word[1]] ^ constant, SBOX[word[2]], SBOX[word[3]], SBOX[word[0]]];
      constant = doubled(constant);
    }
    word.forEach((byte, index) => (keys[at + index] = keys[at + index - 16] ^ byte));
  }
  return keys;
}

/**
 * FIPS 197, 5.1: one block, encrypted.
 * @param {Uint8Array} keys those of `expand`
 * @param {Uint8Array} block 16 bytes
 * @returns {Uint8Array}
 */
export function encrypt(keys, block) {
  let state = block.map((byte, at) => byte ^ keys[at]);
  for (let round = 1; round <= 10; round++) {
    // The bytes of a column are one after the other; row r is turned left by r columns.
    const shifted = state.map((_, at) => SBOX[state[(at + 4 * (at % 4)) % 16]]);
    state = (round < 10 ? mixed(shifted) : shifted).map((byte, at) => byte ^ keys[16 * round + at]);
  }
  return state;
}

/** @param {Uint8Array} state */
function mixed(state) {
  return state.map((byte, at) => {
    const column = at - (at % 4);
    const [next, second, third] = [1, 2, 3].map((by) => state[column + ((at + by) % 4)]);
    return doubled(byte) ^ doubled(next) ^ next ^ second ^ third;
  });
}
