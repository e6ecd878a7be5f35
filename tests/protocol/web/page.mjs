// What a test asks of the package in a browser, which is as one in a classroom: without crypto.subtle.

import * as channels from "../../../protocol/web/channels.mjs";
import { systemWord } from "../../../protocol/web/randomness.mjs";
import { compare } from "../../vectors/compare.mjs";
import { drawn } from "./drawing.mjs";
import * as implementation from "./implementation.mjs";

Object.defineProperty(globalThis.crypto, "subtle", {
  get() {
    throw new Error("a page over plain HTTP has no crypto.subtle");
  },
});

const load = async (name) => (await fetch(`../../vectors/${name}`)).json();

globalThis.vectors = async (present) => {
  const said = [];
  await compare(implementation, present, load, (line) => said.push(line));
  return said;
};
globalThis.draws = (count, parameters) => drawn(channels, systemWord, count, parameters);
