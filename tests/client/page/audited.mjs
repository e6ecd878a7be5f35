// Many people at once, each with a wallet of her own in this browser, at a double of a server that is in this script: it gives
// what it was told to say, loses its first answer to some, and keeps the bytes that it was sent.

import { body, respond } from "../../../protocol/web/index.mjs";
import { exampleOf } from "../../../client/askance_client/page/meaning.mjs";
import { Participant } from "../../../client/askance_client/page/participant.mjs";
import { Server, Unreachable } from "../../../client/askance_client/page/transport.mjs";
import { Wallet } from "../../../client/askance_client/page/wallet.mjs";
import { fetchedTogether } from "../../protocol/web/drawing.mjs";

const answer = (document) => new Response(JSON.stringify(document), { headers: { "Content-Type": "application/json" } });

/** What the double says. `bulletin` is a text, `losing` how many people there are to one whose first answer is lost. */
function double({ bulletin, round, charge, cap, losing }) {
  const seen = new Map();
  const { head, length } = JSON.parse(bulletin);
  const handle = ({ pathname: path, searchParams }, user, sent) => {
    if (path.endsWith("/bulletin")) return searchParams.get("after") === "-1" ? new Response(bulletin) : answer({ head, length, entries: [] });
    if (path === "/v1/me") return answer({ user, cap_micro_epsilon: cap, spent_micro_epsilon: 0, remaining_micro_epsilon: cap, charges: [] });
    const before = seen.get(user) ?? [];
    seen.set(user, [...before, new TextDecoder().decode(sent)]);
    if (!before.length && user % losing === 0) throw new TypeError("the answer is lost");
    return answer({ user, round, charged: charge });
  };
  globalThis.fetch = async (url, { headers, body: sent }) => handle(new URL(url), Number((headers.Authorization ?? "").slice(7)), sent);
  return seen;
}

/**
 * A clock that goes on a millisecond at each look, and short pauses that are over at once: of a hundred people in one thread each
 * would count down the last milliseconds before her report leaves, while all others wait. Only that pace pauses so short, and
 * `test_web_pace` is about it.
 */
function hastened() {
  const { setTimeout: later } = globalThis;
  let now = 0;
  performance.now = () => ++now;
  globalThis.setTimeout = (wake, milliseconds) => {
    if (milliseconds > SHORT) return later(wake, milliseconds);
    now += milliseconds;
    queueMicrotask(wake);
  };
}

const SHORT = 200;

/** A page that draws anew for each attempt: the control. */
class DrawsAnew extends Participant {
  async send(report) {
    const asked = await this.askedFor(report);
    return super.send({ ...report, body: body(respond(asked, exampleOf(this.history.study.example, this.values))) });
  }
}

async function untilAnswered(participant, values) {
  participant.values = values;
  const situation = await participant.look();
  if (situation.kind !== "question") throw new Error(situation.kind);
  const { report } = await participant.answer(situation.asked, values, "");
  for (;;) {
    try {
      return await participant.send(report);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
    }
  }
}

async function one(user, study, values, Kind, name) {
  const wallet = await Wallet.open(`${name} ${user}`);
  await wallet.enrolled({ user, token: String(user) });
  await untilAnswered(new Kind(new Server("http://double.test"), wallet, study, ""), values);
  await wallet.forget();
}

hastened();

/** What was seen of each of so many people who all hold this. */
globalThis.audited = async ({ study, values, users, drawsAnew, name, ...said }) => {
  const seen = double(said);
  for (let begin = 0; begin < users; begin += 100) {
    const some = Array.from({ length: Math.min(100, users - begin) }, (_, at) => begin + at);
    await Promise.all(some.map((user) => one(user, study, values, drawsAnew ? DrawsAnew : Participant, name)));
  }
  return [...seen.values()];
};

/** How often each outcome was drawn, of so many draws by the page's own way. */
globalThis.drawn = async ({ study, values, draws, ...said }) => {
  double({ ...said, losing: Infinity });
  const wallet = await Wallet.open("draws");
  await wallet.enrolled({ user: 0, token: "0" });
  const participant = new Participant(new Server("http://double.test"), wallet, study, "");
  const { asked } = await participant.look();
  const example = exampleOf(participant.history.study.example, values);
  const counts = Array(asked.outcomes).fill(0);
  fetchedTogether(() => {
    for (let draw = 0; draw < draws; draw++) counts[respond(asked, example).outcome]++;
  });
  await wallet.forget();
  return counts;
};
