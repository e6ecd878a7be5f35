// The public row as a hash: it puts the cells of a partition into 2^bits buckets, and a report names one. Bit i of the
// bucket of cell j is popcount(j ∧ (r·x^i)) mod 2, where row r and x^i are multiplied in the field of as many elements as
// there are rows. Without signs row 0 is not dealt, and an example in no cell is in one cell more; a sign turns bit 0.

import { rowsFor } from "./hadamard.mjs";

/** The bits of a bucket, at most. */
export const MAX_BITS = 9;
/** Columns of the matrix of rows and cells, at most. */
export const MAX_COLUMNS = 1 << 16;
/** By degree, the least irreducible polynomial over GF(2) other than x. */
const POLYNOMIALS = [
  0x2, 0x3, 0x7, 0xb, 0x13, 0x25, 0x43, 0x83, 0x11b, 0x203, 0x409, 0x805, 0x1009, 0x201b, 0x4021, 0x8003, 0x1002b,
];

/**
 * @typedef {object} Buckets
 * @property {number} bits
 * @property {number} columns cells, and one more if an unsigned example may be in none
 * @property {boolean} signed
 * @property {boolean} apart whether a signed example may be in no cell, which is an outcome of its own
 */

/** @param {Buckets} buckets */
export const outcomesOf = ({ bits, apart }) => 2 ** bits + Number(apart);

/**
 * How many rows there are, and the least that is dealt.
 * @param {Buckets} buckets
 */
export const rowsOf = ({ bits, columns, signed }) => ({
  rows: rowsFor(Math.max(columns, 2 ** bits)),
  first: signed ? 0 : 1,
});

/**
 * How an answer, 0 for none or ±(cell + 1) for a cell, becomes the bucket that a row puts it into: by the same steps for
 * each.
 * @param {Buckets} buckets
 * @returns {(answer: number, row: number) => number}
 */
export function hasher(buckets) {
  const { bits, columns, apart } = buckets;
  const { rows } = rowsOf(buckets);
  const polynomial = POLYNOMIALS[Math.log2(rows)];
  return (answer, row) => {
    const none = Number(answer === 0);
    const cell = Math.abs(answer) - 1 + none * columns;
    let multiple = row;
    let bucket = Number(answer < 0);
    for (let bit = 0; bit < bits; bit++) {
      // At most 16 bits, of which only the sum matters: they are folded onto each other.
      let odd = cell & multiple;
      odd ^= odd >> 8;
      odd ^= odd >> 4;
      odd ^= odd >> 2;
      odd ^= odd >> 1;
      bucket ^= (odd & 1) << bit;
      const doubled = 2 * multiple;
      // Rows are public: what is done to them may depend on them.
      multiple = doubled < rows ? doubled : doubled ^ polynomial;
    }
    const either = Float64Array.of(bucket, 2 ** bits);
    return either[none & Number(apart)];
  };
}
