// Pace: a report leaves at an instant that was fixed before its example was looked at.
//
// A server sees when each request comes, and between two of them lies whatever a client computes. To evaluate and to
// draw takes the same steps for every example; this takes away what an engine and its machine leave. `begin` is
// called when the server's last answer has been read, before anything private is looked at; `hold` waits until the
// first multiple of `SECONDS` after it that is still to come. A page sleeps whole milliseconds at best, so the last
// few are counted down by the clock.

/** Of a person's device: a hundred times what a draw takes, and less than anybody waits for. */
export const SECONDS = 0.1;

const COUNTED = 0.008;

/** Now, in seconds. */
export const begin = () => performance.now() / 1000;

/** @param {number} seconds */
const asleep = (seconds) => new Promise((wake) => setTimeout(wake, Math.max(seconds, 0) * 1000));

/**
 * Wait until the first multiple of `seconds` after `since` that is still to come.
 * @param {number} since what `begin` gave
 * @param {number} [seconds]
 */
export async function hold(since, seconds = SECONDS) {
  const next = () => since + seconds * (1 + Math.floor((begin() - since) / seconds));
  await asleep(next() - COUNTED - begin());
  // Who wakes too late counts down to the instant after that one, however far it is: to sleep again would never end in
  // a tab that nobody sees, whose timers come once a second.
  const due = next();
  while (begin() < due);
}
