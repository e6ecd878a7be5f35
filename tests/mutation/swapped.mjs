// Node starts with this: one module's text is another one, wherever it is imported.

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const { MUTANT_URL: url, MUTANT_TEXT: text } = process.env;

registerHooks({
  load: (asked, context, next) =>
    asked === url ? { format: "module", source: readFileSync(text, "utf-8"), shortCircuit: true } : next(asked, context),
});
