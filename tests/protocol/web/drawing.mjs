// Reports drawn as a page draws them: by a channel, from the system's words. In Node and in a browser.

/** 64 KiB: the most that a generator gives at once. */
const BLOCK = 16384;

/**
 * Work for which the generator is asked for many words at once, and each that is wanted is the next of them: it is asked no
 * less, and a call for each word would take thirteen times as long as to draw by it.
 */
export function fetchedTogether(work) {
  const fetch = crypto.getRandomValues.bind(crypto);
  const [words, own] = [new Uint32Array(BLOCK), Object.getOwnPropertyDescriptor(crypto, "getRandomValues")];
  let at = BLOCK;
  crypto.getRandomValues = (array) => {
    if (array.constructor !== Uint32Array || array.length > BLOCK) return fetch(array);
    if (at + array.length > BLOCK) {
      fetch(words);
      at = 0;
    }
    for (let index = 0; index < array.length; index++) array[index] = words[at++];
    return array;
  };
  try {
    return work();
  } finally {
    if (own) Object.defineProperty(crypto, "getRandomValues", own);
    else delete crypto.getRandomValues;
  }
}

/** For each channel, how often each outcome came under its last input; and the row of the table. */
export function drawn({ binary, geometric, kary, laplace, tabulated }, systemWord, count, parameters) {
  const kinds = { binary, geometric, kary, laplace, tabulated };
  return Object.fromEntries(Object.entries(parameters).map(([name, [kind, ...others]]) => {
    const channel = kinds[kind](...others);
    const [input, counts] = [channel.inputs - 1, Array(channel.outcomes).fill(0)];
    fetchedTogether(() => {
      for (let index = 0; index < count; index++) counts[channel.choose(input, systemWord())]++;
    });
    return [name, { counts, weights: channel.weights(input).map(String) }];
  }));
}
