// The protocol once more, in another language and from its documentation: docs/protocol.md and nothing else.
// Computes every good vector beside this file by itself, refuses every bad one, and says which differ.
//
//     node tests/vectors/check.mjs

import { readFileSync, readdirSync } from "node:fs";

import { EMPTY, append, readEntry } from "./js/bulletin.mjs";
import { build } from "./js/channels.mjs";
import { choice, encode, row, toss } from "./js/coins.mjs";
import { bits, readData, writeData } from "./js/hypothesis.mjs";
import { bytes, canonical, digest, hex, parse, sha256 } from "./js/json.mjs";
import { REPAIRS, blames, edge, nearest, related } from "./js/neighbours.mjs";
import { answer, measure, prepare, readQuery } from "./js/queries.mjs";
import { decodeColumns, decodeRaw, decodeReport, encodeReport } from "./js/reports.mjs";
import { asks, deal, prepareRound, readRound, readStudy, respond } from "./js/rounds.mjs";
import { hold, readSchema } from "./js/schema.mjs";
import { Refusal } from "./js/shape.mjs";

const here = new URL(".", import.meta.url);
const load = (name) => JSON.parse(readFileSync(new URL(name, here)));
const goods = (file) => file.vectors.filter((vector) => vector.success);
const same = (a, b) => canonical(a) === canonical(b);
const must = (right, why) => {
  if (!right) throw new Error(why);
};

/** As it would come: a text, read strictly. */
const received = (document) => parse(JSON.stringify(document));
const READERS = { "askance.study": (value) => readStudy(value, ""), "askance.round": (value) => readRound(value, ""), "askance.entry": readEntry };
const read = (document, form) => READERS[form](received(document));

// For each file: `good` computes a vector from what is given in it, all its members but name and success. `bad` says
// what is to be refused (`subject`), how it is tried, and what is its `neighbour`, which has to be accepted.

const digests = {
  good: async ({ text }, file) => {
    const document = parse(text);
    const printed = canonical(document);
    const learned = {};
    if (document.form) READERS[document.form](document);
    if (document.form === "askance.round") await prepareRound(parse(file.vectors.find(({ name }) => name === "a study").text), document);
    if (document.notice?.hypothesis) {
      const { data } = document.notice.hypothesis;
      const value = readData(data, "data");
      must(writeData(value) === data, `the data would be written ${writeData(value)}`);
      learned.weights = value.weights.map((each) => bits(each.value));
    }
    return { text, canonical: Buffer.from(bytes(printed)).toString("base64"), sha256: hex(await sha256(bytes(printed))), ...learned };
  },
  bad: ({ name, text, reads_as }, file) => {
    if (!reads_as) return { subject: text, attempt: parse, neighbour: REPAIRS["digests.json"][name]?.(text) };
    const neighbour = nearest(JSON.parse(text), goods(file).map((each) => JSON.parse(each.text)).filter(({ form }) => form));
    return { subject: JSON.parse(text), attempt: (document) => read(document, neighbour.form), neighbour };
  },
};

const coins = {
  good: async ({ digest: of, user }) => {
    const coin = await toss(of, user);
    return {
      digest: of, user, coin: coin.whole.toString(16).padStart(16, "0"),
      choice_of_3: choice(coin, 3), choice_of_1048576: choice(coin, 2 ** 20), row_of_128: row(coin, 128),
    };
  },
  bad: (vector) => ({ subject: vector, attempt: ({ digest: of, user }) => toss(of, user), neighbour: REPAIRS["coins.json"][vector.name]?.(vector) }),
};

const channels = {
  good: ({ kind, micro_epsilon, steps, k, range, chosen }) => {
    const parameters = Object.fromEntries(Object.entries({ kind, micro_epsilon, steps, k, range }).filter(([, value]) => value !== undefined));
    const channel = build(parameters);
    return {
      ...parameters,
      weights: channel.table.map((each) => each.map(String)),
      certified_micro_epsilon: channel.certified,
      chosen: chosen.map(({ input, word }) => ({ input, word, outcome: channel.choose(input, BigInt(word)) })),
    };
  },
  bad: (vector) => ({
    subject: vector,
    attempt: (parameters) => build({ steps: 1, ...parameters }),
    neighbour: REPAIRS["channels.json"][vector.name]?.(vector),
  }),
};

const queries = {
  setUp: (file) => {
    readSchema(received(file.schema), "schema");
    return file.records.map((record) => hold(file.schema, record));
  },
  good: async ({ query: given }, { schema }, held) => {
    const query = readQuery(received(given), "");
    prepare(query, schema);
    return { query, canonical_sha256: await digest(query), cost: measure(query), answers: held.map((each) => answer(query, schema, each)) };
  },
  bad: ({ name, query }, { schema }) => ({
    subject: query,
    attempt: (document) => prepare(readQuery(received(document), ""), schema),
    neighbour: (REPAIRS["queries.json"][name] ?? REPAIRS["gaps.json"][name])?.(query),
  }),
};

const hadamard = { good: ({ row: of, answer: given }) => ({ row: of, answer: given, input: encode(given, of) }) };

const base64 = (text) => Uint8Array.from(Buffer.from(text, "base64"));
const reports = {
  good: ({ form, body, outcomes, outcome }) => {
    if (form === "single") return { form, outcomes, outcome: decodeReport(body, outcomes), body: encodeReport(outcome, outcomes) };
    return { form, body, ...(form === "columns" ? decodeColumns(body) : decodeRaw(base64(body))) };
  },
  bad: ({ form, body, outcomes }, file) => ({
    subject: body,
    attempt: { single: (text) => decodeReport(text, outcomes), columns: decodeColumns, raw: (text) => decodeRaw(base64(text)) }[form],
    neighbour: form === "raw" ? goods(file).find((each) => each.form === "raw").body : REPAIRS["reports.json"][form]?.(),
  }),
};

const rounds = {
  setUp: (file) => readStudy(received(file.study), ""),
  good: async ({ round: given }, _, study) => {
    const prepared = await prepareRound(study, read(given, "askance.round"));
    return {
      round: given, id: prepared.id, body_length: encodeReport(0, prepared.outcomes).length,
      parts: prepared.parts.map(({ channel, rows }) => ({
        certified_micro_epsilon: channel.certified, inputs: channel.inputs, outcomes: channel.outcomes, rows,
      })),
    };
  },
  bad: ({ name, round }, file, study) => {
    const neighbour = nearest(round, goods(file).map((each) => each.round));
    // Four numbers are not wrong by one: 13 other shares stand beside one, a channel has its price, and work takes long.
    const far = ["shares of more than 2^20 in all", "ε of a channel above its limit", "a charge of zero", "work of more than 2^23 in all"].includes(name);
    return { subject: round, attempt: (document) => prepareRound(study, read(document, "askance.round")), neighbour, edge: far ? undefined : edge(round, neighbour) };
  },
};

const dealings = {
  setUp: async ({ studies, rounds: published }) => {
    const prepared = {};
    for (const [id, study] of Object.entries(studies)) must((await digest(read(study, "askance.study"))) === id, `${id} names another study`);
    for (const [id, round] of Object.entries(published)) {
      prepared[id] = await prepareRound(studies[round.study], read(round, "askance.round"));
      must(prepared[id].id === id, `${id} names another round`);
    }
    return { prepared, records: load("queries.json").records };
  },
  good: async ({ round, user, words }, _, { prepared, records }) => {
    const asked = await asks(prepared[round], user);
    if (!asked) return { round, user, asked };
    const dealt = await deal(prepared[round], user);
    return { round, user, asked, ...dealt, words, reports: records.map((record) => respond(prepared[round], dealt, record, words)) };
  },
};

const chain = async (entries) => {
  let bulletin = EMPTY;
  const heads = [];
  for (const entry of entries) {
    bulletin = await append(bulletin, received(entry));
    heads.push(bulletin.head);
  }
  return { bulletin, heads };
};
// The vectors' word for the entry as a whole, where members do not go together.
const WHOLE = ["document", "Entry", "version"];
const chains = {
  good: async ({ entries }) => {
    const { bulletin, heads } = await chain(entries);
    return { entries, heads, study: bulletin.state, rounds: bulletin.rounds };
  },
  // What is wrong is the last entry, so what is before it is the neighbour; the reason is held to `where`.
  bad: ({ entries, where }) => ({
    subject: entries,
    attempt: chain,
    neighbour: entries.slice(0, -1),
    blamed: (place) => WHOLE.includes(where) || related(place, where.replace(/^notice\.(ended|closed|answers)/, "notice")),
  }),
};

const CHECKS = {
  "chains.json": chains, "gaps.json": queries, "channels.json": channels, "coins.json": coins, "dealings.json": dealings, "digests.json": digests,
  "hadamard.json": hadamard, "queries.json": queries, "reports.json": reports, "rounds.json": rounds,
};

async function checkGood(check, vector, file, ready) {
  const { name, success, ...members } = vector;
  const computed = await check.good(vector, file, ready);
  for (const member of new Set([...Object.keys(members), ...Object.keys(computed)])) {
    must(computed[member] !== undefined && members[member] !== undefined && same(computed[member], members[member]), `${member} is ${canonical(computed[member] ?? "nothing").slice(0, 200)}`);
  }
}

async function checkBad(check, vector, file, ready) {
  const { subject, attempt, neighbour, edge: beside, blamed } = check.bad(vector, file, ready);
  must(neighbour !== undefined, "no neighbour is known that is good");
  await attempt(neighbour);
  if (beside) await attempt(beside);
  try {
    await attempt(subject);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    must(blamed ? blamed(error.place) : blames(error.place, subject, neighbour), `refused for another reason: ${error.message}`);
    return;
  }
  throw new Error("has to be refused, and was accepted");
}

let [checked, differing] = [0, 0];
const differs = (name, vector, why) => {
  differing++;
  console.log(`${name}: differs: ${why}: ${JSON.stringify(vector).slice(0, 160)}`);
};
const present = readdirSync(here).filter((name) => name.endsWith(".json"));
for (const name of new Set([...present, ...Object.keys(CHECKS)])) {
  if (!present.includes(name) || !CHECKS[name]) {
    differs(name, {}, "is not both here and known");
    continue;
  }
  const file = load(name);
  const count = { good: 0, bad: 0 };
  const ready = await CHECKS[name].setUp?.(file);
  for (const vector of file.vectors) {
    try {
      must(typeof vector.success === "boolean", "is neither good nor bad");
      await (vector.success ? checkGood : checkBad)(CHECKS[name], vector, file, ready);
    } catch (error) {
      differs(name, vector, error.message);
    }
    checked++;
    count[vector.success ? "good" : "bad"]++;
  }
  console.log(`${name}: ${count.good} good, ${count.bad} bad`);
}
console.log(`${checked} vectors checked, ${differing} differ`);
process.exitCode = differing || !checked ? 1 : 0;
