// In how many ways calls run that differ in what is private: each block of the modules' code is counted by the engine,
// how often it was taken. Blocks are what branches and loops, `&&`, `||` and `?:` have.

import { Session } from "node:inspector";

import { address, found, job, module } from "./job.mjs";

const { Example } = await module("examples.mjs");
const { wordOf } = await module("randomness.mjs");
const { body, respond } = await module("report.mjs");
const { prepare, readQuery } = await module("queries.mjs");
const { History } = await module("history.mjs");
const { decide, newSpending } = await module("judge.mjs");
const { readEntry } = await module("bulletin.mjs");
const { digest } = await module("canonical.mjs");
const { readSchema } = await module("schema.mjs");
const channels = await module("channels.mjs");

const session = new Session();
session.connect();
const post = (method, parameters = {}) => {
  let answer;
  session.post(method, parameters, (error, result) => {
    if (error) throw new Error(error.message);
    answer = result;
  });
  return answer;
};
post("Profiler.enable");
post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });

const Whole = globalThis.BigInt;
const refused = () => {
  throw new Error("an integer that grows with its value");
};

/** Each block that was taken in a call, and how often. */
function steps(call) {
  post("Profiler.takePreciseCoverage");
  globalThis.BigInt = refused;
  call();
  globalThis.BigInt = Whole;
  const { result } = post("Profiler.takePreciseCoverage");
  const mine = result.filter(({ url }) => url.startsWith(address));
  return mine.map(({ url, functions }) => [url, functions.map(({ functionName, ranges }) => [functionName, ranges])]);
}

/** The first call is made once before: what it keeps for later has to serve the others too. */
function ways(calls) {
  calls[0]();
  const all = new Set(calls.map((call) => JSON.stringify(steps(call))));
  if (all.has("[]")) throw new Error("no step was seen");
  return all.size;
}

const schema = readSchema(JSON.stringify(job.schema));
const examples = job.examples.map((record) => new Example(schema, record));
const words = job.words.map((word) => wordOf(Whole(word)));
const pairs = (some, others) => some.flatMap((one) => others.map((other) => [one, other]));
const answers = {};

for (const [name, query] of Object.entries(job.queries)) {
  const prepared = prepare(readQuery(JSON.stringify(query)), schema);
  answers[name] = ways(examples.map((example) => () => prepared.answer(example)));
}
for (const [name, [kind, ...parameters]] of Object.entries(job.channels)) {
  const channel = channels[kind](...parameters);
  // As an answer comes from its register: a double, whatever it is.
  const inputs = Float64Array.of(0, 1, Math.floor(channel.inputs / 2), channel.inputs - 1);
  answers[name] = ways(pairs([0, 1, 2, 3], words).map(([at, word]) => () => channel.choose(inputs[at], word)));
}
for (const [name, entries] of Object.entries(job.rounds)) {
  const read = entries.map((entry) => readEntry(JSON.stringify(entry)));
  const history = new History(digest(read[0].notice.study)).extended(read);
  const [id] = history.openRounds;
  const declaration = { user: 7, schema: history.study.example, declared: null, simulated: true };
  const asked = decide(history, id, declaration, newSpending(1e9), { user: 7, spent: 0, charges: new Map() });
  if (asked.kind !== "asked") throw new Error(`${name}: ${asked.text}`);
  const hers = job.people.map((record) => new Example(history.study.example, record));
  answers[name] = ways(pairs(hers, words).map(([example, word]) => () => body(respond(asked, example, () => word))));
}
found(answers);
