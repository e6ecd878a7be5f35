// Figures in words. Each is computed from the channel's whole numbers; nothing here is rounded so that it sounds better.

/**
 * Some probabilities as percentages, with the fewest places at which no two that differ look the same, and none that is
 * neither looks like nothing or like certainty.
 * @param {readonly number[]} shares
 * @param {number} [least] places at least
 * @returns {string[]}
 */
export function percentages(shares, least = shares.length > 2 ? 1 : 0) {
  const texts = (/** @type {number} */ places) => shares.map((each) => (100 * each).toFixed(places));
  for (let places = least; places < 6; places++) {
    const shown = texts(places);
    const apart = shares.every((a, i) => shares.every((b, j) => Math.abs(a - b) < 1e-9 || shown[i] !== shown[j]));
    const open = shown.every((text, index) => (Number(text) > 0 || shares[index] <= 0) && (Number(text) < 100 || shares[index] >= 1));
    if (apart && open) return shown.map((text) => `${text}\u00a0%`);
  }
  return texts(6).map((text) => `${text}\u00a0%`);
}

/**
 * At most so many times: three digits, rounded up, never down.
 * @param {number} ratio at least 1
 */
export function atMost(ratio) {
  const places = Math.max(0, 2 - Math.floor(Math.log10(ratio)));
  const up = Math.ceil(ratio * 10 ** places - 1e-9) / 10 ** places;
  return up.toFixed(places);
}

/**
 * A word at the beginning of a line.
 * @param {string} text
 */
export const capital = (text) => text.slice(0, 1).toLocaleUpperCase("en") + text.slice(1);

/**
 * A digest in groups of four, as two people compare it.
 * @param {string} digest
 * @param {number} [groups]
 */
export const grouped = (digest, groups = 4) => (digest.match(/.{4}/g) ?? []).slice(0, groups).join(" ");

/** @param {number} milliseconds */
export const clock = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");

/** @param {number} milliseconds */
const hourAndMinute = (milliseconds) => clock(milliseconds).slice(0, 5);

/**
 * "today 10:31", or the date.
 * @param {number} milliseconds
 */
export function when(milliseconds) {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return "never";
  const day = date.toDateString() === new Date().toDateString() ? "today" : date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return `${day} ${hourAndMinute(milliseconds)}`;
}
