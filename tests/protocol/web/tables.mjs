// What each table costs in micro-ε, or the place at which it is refused: of each, one row is not like the others.

import { found, job, module } from "./job.mjs";

const { tabulated } = await module("channels.mjs");
const { ProtocolError } = await module("errors.mjs");

function costOf({ rows, odd, row, even }) {
  try {
    return tabulated(Array.from({ length: rows }, (_, given) => (given === odd ? row : even))).certified;
  } catch (error) {
    if (error instanceof ProtocolError) return error.where;
    throw error;
  }
}

found(job.map(costOf));
