// What each table costs in micro-ε, if it draws by its rows; or the place at which it is refused: of each, one row is not like the others.

import { found, job, module } from "./job.mjs";

const { tabulated } = await module("channels.mjs");
const { ProtocolError } = await module("errors.mjs");

const wordOf = (whole) => [Number(whole >> 32n), Number(whole & 0xffffffffn)];

/** Whether the words of an input are cut where the weights of its row say: looked at on both sides of each cut. */
function isCut(channel, input) {
  let end = 0n;
  return channel.weights(input).every((weight, outcome) => {
    const begin = end;
    end += weight;
    return channel.choose(input, wordOf(begin)) === outcome && channel.choose(input, wordOf(end - 1n)) === outcome;
  });
}

function costOf({ rows, odd, row, even }) {
  try {
    const channel = tabulated(Array.from({ length: rows }, (_, given) => (given === odd ? row : even)));
    return [0, odd, rows - 1].every((input) => isCut(channel, input)) ? channel.certified : "it draws otherwise";
  } catch (error) {
    if (error instanceof ProtocolError) return error.where;
    throw error;
  }
}

found(job.map(costOf));
