// Draws in Node.

import { drawn } from "./drawing.mjs";
import { found, job, module } from "./job.mjs";

const { systemWord } = await module("randomness.mjs");
found(drawn(await module("channels.mjs"), systemWord, job.count, job.channels));
