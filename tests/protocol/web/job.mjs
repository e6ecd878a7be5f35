// A script's modules, and its job; and what it found.

import { readFileSync } from "node:fs";

const [folder, path] = process.argv.slice(2);

/** A module of the package, or of a copy of it. */
export const module = (name) => import(`${folder}/${name}`);
export const address = folder;
export const job = JSON.parse(readFileSync(path));
export const found = (what) => process.stdout.write(JSON.stringify(what));
