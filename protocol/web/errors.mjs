// Errors: what is wrong, where, and what to do next. The message never repeats an example or a report.

import { printable, shortened } from "./text.mjs";

const WHAT = 256;
const WHERE = 128;
const REMEDY = 512;

/** Something that both sides must refuse. Any other error is a fault of this program. */
export class ProtocolError extends Error {
  /**
   * @param {string} what what is wrong
   * @param {string} [where] the place in the input: `parts[0].charge`
   * @param {string} [remedy] what to do next
   */
  constructor(what, where = "", remedy = "") {
    const [said, place, next] = [printable(what, WHAT), shortened(printable(where), WHERE), printable(remedy, REMEDY)];
    super((place ? `${place}: ` : "") + said + (next ? ` (${next})` : ""));
    this.name = "ProtocolError";
    this.what = said;
    this.where = place;
    this.remedy = next;
  }

  /**
   * The same error, seen from one level further out.
   * @param {string} where
   * @returns {ProtocolError}
   */
  at(where) {
    return new ProtocolError(this.what, under(where, this.where), this.remedy);
  }
}

/**
 * An answer that is not even of the form that it should have, as a portal, a proxy, or a server that is starting
 * gives.
 */
export class GarbledError extends ProtocolError {}

/**
 * Refuse.
 * @param {string} where
 * @param {string} what
 * @param {string} [remedy]
 * @returns {never}
 */
export function refuse(where, what, remedy = "") {
  throw new ProtocolError(what, where, remedy);
}

/**
 * The place of a member or an item below a place.
 * @param {string} place
 * @param {string} inner
 */
export function under(place, inner) {
  return place && inner && !inner.startsWith("[") ? `${place}.${inner}` : place + inner;
}
