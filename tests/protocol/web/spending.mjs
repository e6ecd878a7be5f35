// Budgets as a page reads, counts and tells them: texts of ε, and what a wallet says to one round.

import { found, job, module } from "./job.mjs";

const { History, ProtocolError, chargeFromText, judge, limitFromText, readStatement, readTail, spentOf, toText } = await module("index.mjs");
const bytes = (document) => new TextEncoder().encode(JSON.stringify(document));
const map = (object) => new Map(Object.entries(object));

function readText(reader, text) {
  try {
    return reader(text);
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}

function told({ study, tail, user, statement, cap, charges, elsewhere, heard, again }) {
  const history = new History(study).followed(readTail(bytes(tail)));
  const spending = { cap, charges: map(charges), elsewhere, heard: map(heard), again: map(again) };
  const declaration = { user, schema: history.study.example, declared: null, simulated: false, now: 0 };
  const asked = judge({ history, id: history.openRounds.at(-1) }, declaration, { spending, pin: null, statement: readStatement(bytes(statement)) });
  const { code, text, microEpsilon } = asked;
  return { said: code === undefined ? microEpsilon : [code, text], before: String(spentOf(spending)) };
}

found({
  texts: job.texts.map((text) => [readText(chargeFromText, text), readText(limitFromText, text)]),
  amounts: job.amounts.map(toText),
  wallets: job.wallets.map(told),
});
