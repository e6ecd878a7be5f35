// Text from outside, made harmless: it can be read on a page, and moves, hides or turns nothing beside it.

/** Characters of one text that are shown. */
export const LONGEST = 4096;
/** Characters that a message shows of what it refuses. */
export const QUOTED = 64;

// Control, format, surrogate, private and unassigned characters, and separators of lines; but not the two joiners,
// which have no width, move nothing, and are needed to spell Persian, Hindi and others.
const HARMFUL = /(?![\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/gu;
/** @type {Readonly<Record<string, string>>} */
const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** @param {string} character */
function escaped(character) {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return ESCAPES[character] ?? (code < 256 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`);
}

/**
 * Escape every character that steers what shows it, and cut what is longer than `most` characters.
 * @param {string} text
 * @param {number} [most]
 */
export function printable(text, most = LONGEST) {
  const shown = text.slice(0, most).replace(HARMFUL, escaped);
  return shown.length <= most && text.length <= most ? shown : `${shown.slice(0, most - 1)}…`;
}

/**
 * A text from outside as a message quotes it.
 * @param {string} text
 */
export const quoted = (text) => `'${printable(text, QUOTED)}'`;

/**
 * Names with commas between them, as many as have room, and how many more there are.
 * @param {readonly string[]} names
 * @param {number} [most]
 */
export function listed(names, most = 4 * QUOTED) {
  let room = most;
  const shown = [];
  for (const name of names) {
    room -= name.length + 2;
    if (room < 0 && shown.length) return `${shown.join(", ")} and ${names.length - shown.length} more`;
    shown.push(printable(name, QUOTED + 2));
  }
  return shown.join(", ");
}

/**
 * A place in a document, without its middle where it is long.
 * @param {string} place
 * @param {number} most
 */
export function shortened(place, most) {
  return place.length <= most ? place : `${place.slice(0, most / 2 - 1)}…${place.slice(-most / 2)}`;
}
