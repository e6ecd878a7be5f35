// When a report leaves that took so long to draw, by a clock and timers of this script: no moment of this machine is in it.

import { found, job, module } from "./job.mjs";

const { begin, hold } = await module("pace.mjs");

/** Seconds that a look at the clock takes, and looks after which nothing is waited for any more. */
const [LOOK, MOST] = [2 ** -20, 1 << 20];

async function left({ work, timers, late }) {
  let [now, looks] = [2, 0];
  globalThis.performance = {
    now: () => {
      if (++looks > MOST) throw new Error("it waits for ever");
      return 1000 * (now += LOOK);
    },
  };
  // A timer sleeps whole milliseconds, comes late, and, where the tab is hidden, at whole seconds alone.
  globalThis.setTimeout = (wake, milliseconds) => {
    now += Math.ceil(milliseconds) / 1000 + late;
    if (timers) now = timers * Math.ceil(now / timers);
    queueMicrotask(wake);
  };
  const since = begin();
  now += work;
  try {
    await hold(since);
    return Math.round((now - since) / LOOK);
  } catch (error) {
    return error.message;
  }
}

const answers = [];
for (const each of job) answers.push(await left(each));
found({ look: LOOK, answers });
