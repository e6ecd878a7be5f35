// The public Hadamard row: one bit answers a whole partition. H[r, j] = (−1)^popcount(r ∧ j), with a power of two of
// rows.

/** Inputs of a binary response with two steps, by 2·(in a cell) + (the sign is minus): in no cell it is the middle. */
const INPUTS = Float64Array.of(1, 1, 2, 0);

/**
 * The number of rows of the smallest Sylvester matrix with a column for each cell.
 * @param {number} cells
 */
export function rowsFor(cells) {
  let rows = 1;
  while (rows < cells) rows *= 2;
  return rows;
}

/**
 * The input of binary response for one answer, 0 for none or ±(cell + 1) for a cell; the same steps for each.
 * @param {number} answer
 * @param {number} row
 */
export function encode(answer, row) {
  // At most 16 bits: the cell lies below 2^16, and so does the row. They are counted by halves, quarters, eighths, ….
  let ones = (Math.abs(answer) - 1) & row;
  ones -= (ones >> 1) & 0x5555;
  ones = (ones & 0x3333) + ((ones >> 2) & 0x3333);
  ones = (ones + (ones >> 4)) & 0x0f0f;
  ones += ones >> 8;
  const odd = (ones & 1) ^ Number(answer < 0);
  return INPUTS[2 * Number(answer !== 0) + odd];
}
