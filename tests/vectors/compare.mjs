// Holds an implementation to the vectors: it computes every good one by itself, and refuses every bad one for what is
// wrong with it. Runs in Node and in a browser: vectors come as they were loaded, lines go where they are wanted.

import { REPAIRS, blames, edge, nearest, related } from "./js/neighbours.mjs";

const goods = (file) => file.vectors.filter((vector) => vector.success);
// JSON that is compared: members in order, and large integers as they are.
const ordered = (value) => {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, ordered(value[name])]));
};
const printed = (value) => JSON.stringify(ordered(value)) ?? "nothing";
const must = (right, why) => {
  if (!right) throw new Error(why);
};
const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** The 16 hexadecimal digits of a double. */
function bits(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

// For each file: `good` computes a vector from what is given in it, all its members but name and success. `bad` says
// what is to be refused (`subject`), how it is tried, and what is its `neighbour`, which has to be accepted.

const checksOf = (of, load) => {
  const read = (document, form) => of.read(JSON.stringify(document), form);

  const digests = {
    good: async ({ text }, file) => {
      const document = of.parse(text);
      const canonical = of.canonical(document);
      const learned = {};
      if (document.form) of.read(text, document.form);
      if (document.form === "askance.round") {
        await of.round(JSON.parse(file.vectors.find(({ name }) => name === "a study").text), text);
      }
      if (document.notice?.hypothesis) learned.weights = of.weightsOf(document.notice.hypothesis.data).map(bits);
      return { text, canonical: toBase64(new TextEncoder().encode(canonical)), sha256: await of.digest(document), ...learned };
    },
    bad: ({ name, text, reads_as }, file) => {
      if (!reads_as) return { subject: text, attempt: of.parse, neighbour: REPAIRS["digests.json"][name]?.(text) };
      const neighbour = nearest(JSON.parse(text), goods(file).map((each) => JSON.parse(each.text)).filter(({ form }) => form));
      return { subject: JSON.parse(text), attempt: (document) => read(document, neighbour.form), neighbour };
    },
  };

  const coins = {
    good: async ({ digest, user }) => {
      const coin = await of.coin(digest, user);
      return {
        digest, user, coin: coin.whole.toString(16).padStart(16, "0"),
        choice_of_3: coin.choice(3), choice_of_1048576: coin.choice(2 ** 20), row_of_128: coin.row(128),
      };
    },
    bad: (vector) => ({ subject: vector, attempt: ({ digest, user }) => of.coin(digest, user), neighbour: REPAIRS["coins.json"][vector.name]?.(vector) }),
  };

  const channels = {
    good: ({ kind, micro_epsilon, steps, k, range, chosen }) => {
      const given = Object.entries({ kind, micro_epsilon, steps, k, range }).filter(([, value]) => value !== undefined);
      const parameters = Object.fromEntries(given);
      const channel = of.channel(parameters);
      return {
        ...parameters,
        weights: channel.table.map((each) => each.map(String)),
        certified_micro_epsilon: channel.certified,
        chosen: chosen.map(({ input, word }) => ({ input, word, outcome: channel.choose(input, BigInt(word)) })),
      };
    },
    bad: (vector) => ({ subject: vector, attempt: of.channel, neighbour: REPAIRS["channels.json"][vector.name]?.(vector) }),
  };

  const queries = {
    good: async ({ query: given }, { schema, records }) => {
      const { read: query, cost, answer } = of.query(JSON.stringify(given), schema);
      return { query, canonical_sha256: await of.digest(query), cost, answers: records.map(answer) };
    },
    bad: ({ name, query }, { schema }) => ({
      subject: query,
      attempt: (document) => of.query(JSON.stringify(document), schema),
      neighbour: (REPAIRS["queries.json"][name] ?? REPAIRS["gaps.json"][name])?.(query),
    }),
  };

  const hadamard = { good: ({ row, answer }) => ({ row, answer, input: of.encode(answer, row) }) };

  const hashing = {
    good: ({ bits, columns, apart, rows, answers }) => {
      const bucket = (answer, row) => of.hash({ bits, columns, apart, signed: apart }, answer, row);
      return { bits, columns, apart, rows, answers, inputs: rows.map((row) => answers.map((answer) => bucket(answer, row))) };
    },
  };

  const reports = {
    good: ({ form, body, outcomes, outcome, simulated }) => {
      if (form === "single") return { form, outcomes, outcome: of.decodeSingle(body, outcomes), body: of.encodeSingle(outcome, outcomes) };
      const batch = form === "columns" ? of.decodeColumns(body) : of.decodeRaw(fromBase64(body));
      return { form, body, users: batch.users, outcomes: batch.outcomes, ...(simulated === undefined ? {} : { simulated: batch.simulated }) };
    },
    bad: ({ form, body, outcomes }, file) => ({
      subject: body,
      attempt: { single: (text) => of.decodeSingle(text, outcomes), columns: of.decodeColumns, raw: (text) => of.decodeRaw(fromBase64(text)) }[form],
      neighbour: form === "raw" ? goods(file).find((each) => each.form === "raw").body : REPAIRS["reports.json"][form]?.(),
    }),
  };

  const roundOf = (study, document) => of.round(study, JSON.stringify(document));
  const rounds = {
    setUp: ({ study }) => void read(study, "askance.study"),
    good: async ({ round }, { study }) => {
      const { id, outcomes, parts } = await roundOf(study, round);
      return {
        round, id, body_length: of.encodeSingle(0, outcomes).length,
        parts: parts.map(({ certified, ...others }) => ({ certified_micro_epsilon: certified, ...others })),
      };
    },
    bad: ({ name, round }, { vectors, study }) => {
      const neighbour = nearest(round, goods({ vectors }).map((each) => each.round));
      // Four numbers are not wrong by one: 13 other shares stand beside one, a channel has its price, and work takes long.
      const far = ["shares of more than 2^20 in all", "ε of a channel above its limit", "a charge of zero", "work of more than 2^23 in all"].includes(name);
      return { subject: round, attempt: (document) => roundOf(study, document), neighbour, edge: far ? undefined : edge(round, neighbour) };
    },
  };

  const dealings = {
    setUp: async ({ studies, rounds: published }) => {
      const prepared = {};
      for (const [id, study] of Object.entries(studies)) must((await of.digest(read(study, "askance.study"))) === id, `${id} names another study`);
      for (const [id, round] of Object.entries(published)) {
        prepared[id] = await roundOf(studies[round.study], round);
        must(prepared[id].id === id, `${id} names another round`);
      }
      return { prepared, records: (await load("queries.json")).records };
    },
    good: async ({ round, user, words }, _, { prepared, records }) => {
      const asked = await prepared[round].asks(user);
      if (!asked) return { round, user, asked };
      const dealt = await prepared[round].deal(user);
      return { round, user, asked, ...dealt, words, reports: records.map((record) => prepared[round].respond(dealt, record, words)) };
    },
  };

  // The vectors' word for the entry as a whole, where members do not go together.
  const WHOLE = ["document", "Entry", "version"];
  const chain = (entries) => of.chain(entries.map((entry) => JSON.stringify(entry)));
  const chains = {
    good: async ({ entries }) => {
      const { heads, state, rounds: states } = await chain(entries);
      return { entries, heads, study: state, rounds: states };
    },
    // What is wrong is the last entry, so what is before it is the neighbour; the reason is held to `where`.
    bad: ({ entries, where }) => ({
      subject: entries,
      attempt: chain,
      neighbour: entries.slice(0, -1),
      blamed: (place) => WHOLE.includes(where) || related(place, where.replace(/^notice\.(ended|closed|answers)/, "notice")),
    }),
  };

  return {
    "chains.json": chains, "gaps.json": queries, "channels.json": channels, "coins.json": coins, "dealings.json": dealings,
    "digests.json": digests, "hadamard.json": hadamard, "hashing.json": hashing, "queries.json": queries, "reports.json": reports, "rounds.json": rounds,
  };
};

async function checkGood(check, vector, file, ready) {
  const { name: _, success: __, ...members } = vector;
  const computed = await check.good(vector, file, ready);
  for (const member of new Set([...Object.keys(members), ...Object.keys(computed)])) {
    const same = computed[member] !== undefined && members[member] !== undefined && printed(computed[member]) === printed(members[member]);
    must(same, `${member} is ${printed(computed[member]).slice(0, 200)}`);
  }
}

async function checkBad(check, vector, file, ready, of) {
  const { subject, attempt, neighbour, edge: beside, blamed } = check.bad(vector, file, ready);
  must(neighbour !== undefined, "no neighbour is known that is good");
  await attempt(neighbour);
  if (beside) await attempt(beside);
  try {
    await attempt(subject);
  } catch (error) {
    const place = of.placeOf(error);
    if (place === undefined) throw error;
    must(blamed ? blamed(place) : blames(place, subject, neighbour), `refused for another reason: ${error.message}`);
    return;
  }
  throw new Error("has to be refused, and was accepted");
}

/**
 * Check all files that are here, and say a line for each, and one for each vector that differs.
 * `of`: the implementation. `present`: names of files. `load`: a file's content by its name. `say`: takes a line.
 * Returns whether all that was checked is as it has to be, and something was.
 */
export async function compare(of, present, load, say) {
  const checks = checksOf(of, load);
  let [checked, differing] = [0, 0];
  const differs = (name, vector, why) => {
    differing++;
    say(`${name}: differs: ${why}: ${JSON.stringify(vector).slice(0, 160)}`);
  };
  for (const name of new Set([...present, ...Object.keys(checks)])) {
    if (!present.includes(name) || !checks[name]) {
      differs(name, {}, "is not both here and known");
      continue;
    }
    const file = await load(name);
    const count = { good: 0, bad: 0 };
    const ready = await checks[name].setUp?.(file);
    for (const vector of file.vectors) {
      try {
        must(typeof vector.success === "boolean", "is neither good nor bad");
        await (vector.success ? checkGood : checkBad)(checks[name], vector, file, ready, of);
      } catch (error) {
        differs(name, vector, error.message);
      }
      checked++;
      count[vector.success ? "good" : "bad"]++;
    }
    say(`${name}: ${count.good} good, ${count.bad} bad`);
  }
  say(`${checked} vectors checked, ${differing} differ`);
  return checked > 0 && differing === 0;
}
