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
const TRIES = 4;

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
  let [due, late] = [0, 0];
  do {
    due = next();
    await asleep(due - COUNTED - begin());
  } while (begin() > due && ++late < TRIES);
  // Who has woken too late so often counts down to the next instant, however far it is: in a tab that nobody sees timers
  // come once a second, and to sleep again would never end.
  due = next();
  while (begin() < due);
}
