// The words that come of a generator that counts, where many are fetched together.

import { fetchedTogether } from "./drawing.mjs";
import { found, job } from "./job.mjs";

let next = 0;
const counting = (array) => {
  for (let index = 0; index < array.length; index++) array[index] = next++;
  return array;
};
crypto.getRandomValues = counting;
const drawn = () => [...crypto.getRandomValues(new Uint32Array(job.size))];
const words = fetchedTogether(() => Array.from({ length: job.count }, drawn).flat());
found({ words, restored: crypto.getRandomValues === counting });
