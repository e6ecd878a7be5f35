// Reports drawn as a page draws them: by a channel, from the system's words. In Node and in a browser.

/** For each channel, how often each outcome came under its last input; and the row of the table. */
export function drawn({ binary, geometric, kary, laplace, tabulated }, systemWord, count, parameters) {
  const kinds = { binary, geometric, kary, laplace, tabulated };
  return Object.fromEntries(Object.entries(parameters).map(([name, [kind, ...others]]) => {
    const channel = kinds[kind](...others);
    const [input, counts] = [channel.inputs - 1, Array(channel.outcomes).fill(0)];
    for (let index = 0; index < count; index++) counts[channel.choose(input, systemWord())]++;
    return [name, { counts, weights: channel.weights(input).map(String) }];
  }));
}
