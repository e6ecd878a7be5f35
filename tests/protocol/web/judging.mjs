// What a user's page says to what a server says: for each case its answers, and who she is. Reads, judges, draws nothing.

import { found, job, module } from "./job.mjs";

const { GarbledError, History, isRefusal, judge, newSpending, readProblem, readRefusal, readStatement, readTail } = await module("index.mjs");
const { readSchema } = await module("schema.mjs");

/** A server's answer: its document, or the refusal of what came instead. */
function answered([status, body], reader) {
  const bytes = Uint8Array.from(Buffer.from(body, "base64"));
  if (status !== 200) {
    const { name } = readProblem(status, bytes);
    return readRefusal(new GarbledError(`the server says ${status} ${name}`));
  }
  try {
    return reader(bytes);
  } catch (error) {
    return readRefusal(error);
  }
}

function judged({ study, bulletin, me, schema, declared, user, now, cap, simulated }) {
  const tail = answered(bulletin, readTail);
  if (isRefusal(tail)) return [tail.code];
  const history = new History(study).followed(tail);
  if (isRefusal(history)) return [history.code];
  if (!history.heads.length) return ["unreadable"];
  const read = (document) => (document === null ? null : readSchema(JSON.stringify(document)));
  const declaration = { user, schema: read(schema), declared: read(declared), simulated, now };
  const results = [];
  for (const id of history.openRounds) {
    const statement = answered(me, readStatement);
    const wallet = { spending: newSpending(cap), pin: null, statement };
    const asked = isRefusal(statement) ? statement : judge({ history, id }, declaration, wallet);
    if (asked) results.push(asked.code ?? { charge: asked.microEpsilon, certified: asked.certified, part: asked.part });
    // What is said of the study as a whole is said once.
    if (asked && ["two-histories", "simulated", "other-schema", "too-many-rounds"].includes(asked.code)) break;
  }
  return results;
}

found(job.map(judged));
