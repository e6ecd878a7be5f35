// The rows of the matrix for each number of cells.

import { found, job, module } from "./job.mjs";

const { rowsFor } = await module("hadamard.mjs");

found(job.map(rowsFor));
