// What the package makes of cases that Python has made up: answers of queries, documents, and whole reports.

import { found, job, module } from "./job.mjs";

const { ProtocolError } = await module("errors.mjs");
const { Example } = await module("examples.mjs");
const { measure, prepare, readQuery } = await module("queries.mjs");
const { wordOf } = await module("randomness.mjs");
const { encodeReport } = await module("reports.mjs");
const { checkWork, openRound } = await module("rounds.mjs");
const { readSchema } = await module("schema.mjs");
const { readRound, readStudy } = await module("spec.mjs");
const { readEntry } = await module("bulletin.mjs");
const { digest, loads } = await module("canonical.mjs");
const { readEnrolled, readProblem, readReceipt, readStatement, readTail } = await module("documents.mjs");
const { readRefusal } = await module("refusals.mjs");
const { fieldWords, fieldsOf, words } = await module("wording.mjs");

const READERS = { study: readStudy, round: readRound, entry: readEntry, query: readQuery, json: loads };
const text = (document) => (typeof document === "string" ? document : JSON.stringify(document));
const bytes = (document) => new TextEncoder().encode(text(document));

const ANSWERS = {
  tail: (body) => {
    const { entries, pin, size } = readTail(body);
    return [entries.map(digest), pin.length, pin.head, size];
  },
  statement: (body) => {
    const { user, spent, charges } = readStatement(body);
    return [user, spent, ...charges];
  },
  receipt: (body) => {
    const { user, round, charged } = readReceipt(body);
    return [user, round, charged];
  },
  enrolled: (body) => {
    const { first, tokens } = readEnrolled(body);
    return [first, ...tokens];
  },
  problem: (body) => {
    const { status, name, detail, next } = readProblem(409, body);
    return [status, name, detail, next];
  },
};

const DOES = {
  query: ({ query, schema, records }) => {
    const [read, of] = [readQuery(bytes(query)), readSchema(text(schema))];
    const prepared = prepare(read, of);
    const { nodes, depth, entries } = measure(read);
    return { digest: digest(read), cost: [nodes, depth, entries], answers: records.map((record) => prepared.answer(new Example(of, record))) };
  },
  words: ({ query, schema }) => {
    const [read, of] = [readQuery(bytes(query)), readSchema(text(schema))];
    return [words(read, of), fieldsOf(read, of).map(({ name }) => name), of.fields.map(fieldWords)];
  },
  answer: ({ form, written }) => {
    try {
      return ANSWERS[form](Uint8Array.from(Buffer.from(written, "base64")));
    } catch (error) {
      return readRefusal(error).passing ? "not read" : "refused";
    }
  },
  document: ({ form, written }) => ({ digest: digest(READERS[form](Uint8Array.from(Buffer.from(written, "base64")))) }),
  report: ({ study, round, users, record, words }) => {
    const [published, spec] = [readStudy(bytes(study)), readRound(bytes(round))];
    checkWork(spec);
    const opened = openRound(published, spec);
    const example = new Example(published.example, record);
    return users.map((user) => {
      if (!opened.asks(user)) return null;
      const { part, row } = opened.question(user);
      try {
        const [{ channel, query, encode }, outcomes] = [opened.part(part), opened.outcomes];
        const input = encode(query.answer(example), row);
        const bodies = words.map((word) => new TextDecoder().decode(encodeReport(channel.choose(input, wordOf(BigInt(word))), outcomes)));
        return { part, row, certified: channel.certified, input, bodies };
      } catch (error) {
        if (error instanceof ProtocolError) return "refused";
        throw error;
      }
    });
  },
};

found(job.map((each) => {
  try {
    return DOES[each.does](each);
  } catch (error) {
    if (error instanceof ProtocolError) return "refused";
    throw error;
  }
}));
