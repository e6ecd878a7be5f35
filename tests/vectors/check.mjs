// The protocol once more, in another language and from its documentation: docs/protocol.md and nothing else.
// Computes every good vector beside this file by itself, refuses every bad one, and says which differ.
//
//     node tests/vectors/check.mjs [FOLDER [IMPLEMENTATION]]    vectors in another folder, another implementation

import { readFileSync, readdirSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { compare } from "./compare.mjs";

const [folder = fileURLToPath(new URL(".", import.meta.url)), module] = process.argv.slice(2);
const implementation = await import(module ? pathToFileURL(resolve(module)).href : "./js/implementation.mjs");
const present = readdirSync(folder).filter((name) => name.endsWith(".json"));
const load = (name) => JSON.parse(readFileSync(resolve(folder, name)));
process.exitCode = (await compare(implementation, present, load, console.log)) ? 0 : 1;
