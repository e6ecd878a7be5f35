// What happens on the page: which screen is shown, what a button does, and when what is stored is sent again.

import { ENDED, ProtocolError, isRefusal, limitFromText, printable, toText as epsilon } from "../../../protocol/web/index.mjs";
import { h } from "./dom.mjs";
import { inputs } from "./form.mjs";
import { readLink, withoutCode } from "./link.mjs";
import { meaningOf, optionsOf } from "./meaning.mjs";
import { Participant, spentBy } from "./participant.mjs";
import {
  brokenScreen, choosingScreen, flippingScreen, forgettingScreen, gapHint, isTwo, joiningScreen, leftScreen, loadingScreen, questionScreen, quietScreen, reasonsScreen, refusedScreen, waitingScreen, walletScreen,
} from "./screens.mjs";
import { Server, Unreachable } from "./transport.mjs";
import { Wallet, WalletError, isUnused } from "./wallet.mjs";
import { capital } from "./words.mjs";

/** @typedef {import("./wallet.mjs").StoredReport} StoredReport */

/** Milliseconds for which the coin is in the air: the same for every answer and every outcome. */
const FLIGHT = 900;
/** Seconds until a request is tried again, and the most that it becomes, doubled each time. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1, 30];
/** Seconds between two looks for the next question, at first and in the end. */
const [FIRST_LOOK, LONGEST_LOOK] = [5, 60];

class Page {
  constructor() {
    this.link = readLink(location);
    this.server = new Server(this.link.server);
    /** What was shown last, to come back to from the wallet. @type {() => unknown} */
    this.back = () => this.start();
    /**
     * What she answered, and to which round: in memory only, until she leaves the screen that shows what has left. Without a label: a
     * report was there already, drawn of what was answered in another tab.
     * @type {{round: string, label: string | null} | null}
     */
    this.own = null;
    /** @type {{at: number, why: string}[]} */
    this.tried = [];
    /** Each new errand ends the one before: what comes late shows nothing. */
    this.errand = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.ticking = undefined;
    /** @type {Wallet | undefined} */
    this.wallet = undefined;
    /** @type {Participant | undefined} */
    this.participant = undefined;
    /** Covers her answer where it is shown. @type {(() => void) | undefined} */
    this.cover = undefined;
    this.isBusy = false;
    /** Whether she looks into her wallet, and not at what is asked. */
    this.isInWallet = false;
  }

  // -------------------------------------------------------------------------------------------------------- showing

  /**
   * @param {readonly (Node | string | null | false | undefined | readonly any[])[]} nodes
   * @param {{focus?: boolean}} [how]
   */
  show(nodes, { focus = true } = {}) {
    clearInterval(this.ticking);
    this.isInWallet = false;
    const main = /** @type {HTMLElement} */ (document.getElementById("main"));
    main.replaceChildren(...h("div", {}, ...nodes.map((node) => (Array.isArray(node) ? h("div.stack-5", {}, ...node) : node))).childNodes);
    const title = main.querySelector("h1");
    document.title = `${title?.textContent ?? "Take part"} · Askance`;
    if (focus) {
      scrollTo(0, 0);
      title?.focus({ preventScroll: true });
    }
  }

  /** @param {string} words for a screen reader */
  say(words) {
    const status = document.getElementById("status");
    if (status) status.textContent = words;
  }

  /** What is left, at the top. */
  async aside() {
    const place = document.getElementById("aside");
    if (!this.wallet || !place) return;
    const account = await this.wallet.account();
    place.replaceChildren(h("button.link.small", { type: "button", onclick: () => this.openWallet() }, `Wallet: ${this.leftOf(account)} left`));
  }

  /** @param {import("./wallet.mjs").Account} account */
  leftOf(account) {
    return `${epsilon(Math.max(0, account.owner.cap - spentBy(account)))} of ${epsilon(account.owner.cap)}`;
  }

  // ------------------------------------------------------------------------------------------------------- beginning

  async start() {
    const errand = ++this.errand;
    this.own = null;
    this.show(loadingScreen("Reading the study, and checking it here."), { focus: false });
    try {
      if (!this.link.server) return this.show(brokenScreen({ what: "A saved copy has to be told its server. Open the link on the wall: behind the # it says which.", again: () => location.reload() }));
      this.wallet ??= await Wallet.open(this.link.server);
      if (!this.link.studies.length) return await this.choose();
      await this.look(errand);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Anything that should not be: in words, and never what she answered. @param {unknown} error */
  failed(error) {
    this.isBusy = false;
    const what = error instanceof WalletError ? `${capital(error.message)}. Nothing can be asked without a place to store what leaves: a private window may have none.` : "Something went wrong in this page. Nothing of your answer has left, unless the wallet lists it.";
    this.show(brokenScreen({ what, again: () => location.reload() }));
  }

  /** The link names no study. */
  async choose() {
    const listed = await this.attempt(() => this.server.studies(), ++this.errand);
    if (listed === undefined) return;
    const open = Array.isArray(listed) ? listed.filter((each) => typeof each?.id === "string" && /^[0-9a-f]{64}$/.test(each.id) && typeof each?.study?.title === "string" && !each.study.simulated && !ENDED.has(each.state)) : [];
    const choices = open.map(({ id, state, study }) => ({ id, state, title: printable(study.title, 200) }));
    this.show(choosingScreen({ studies: choices, open: (study) => this.open({ ...this.link, studies: [study] }) }));
  }

  /** @param {import("./link.mjs").Link} link */
  open(link) {
    this.link = link;
    history.replaceState(null, "", withoutCode(link));
    return this.start();
  }

  // ------------------------------------------------------------------------------------------------- looking, and waiting

  /**
   * Do it, as often as it takes until there is an answer; undefined if something else was begun meanwhile.
   * @template T
   * @param {() => Promise<T>} work
   * @param {number} errand
   * @param {StoredReport | null} [report]
   * @returns {Promise<T | undefined>}
   */
  async attempt(work, errand, report = null) {
    this.tried = [];
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        const done = await work();
        return errand === this.errand ? done : undefined;
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        if (errand !== this.errand) return undefined;
        this.tried.push({ at: Date.now(), why: error.why });
        await this.aside();
        await this.pause(pause, report);
        if (errand !== this.errand) return undefined;
      }
    }
  }

  /**
   * Wait until the time is over, the network is back, or she has enough of it; and show that, unless she looks into her wallet.
   * @param {number} seconds
   * @param {StoredReport | null} report
   */
  pause(seconds, report) {
    const round = report && this.participant?.history.rounds.get(report.round);
    return new Promise((resolve) => {
      const until = performance.now() + 1000 * seconds;
      const rest = () => Math.ceil((until - performance.now()) / 1000);
      const again = () => {
        clearTimeout(timer);
        removeEventListener("online", again);
        resolve(undefined);
      };
      // What is shown decides nothing: it is tried again whatever she looks at.
      const timer = setTimeout(again, 1000 * seconds);
      addEventListener("online", again, { once: true });
      const show = (/** @type {boolean} */ focus) => {
        this.show(waitingScreen({ report, tried: this.tried, seconds: rest(), deadline: round && !isRefusal(round) ? round.spec.deadline : null, again, wallet: () => this.openWallet() }), { focus });
        this.ticking = setInterval(() => {
          const shown = document.getElementById("countdown");
          if (shown) shown.textContent = rest() > 0 ? `Next try in ${rest()} s.` : "Trying …";
        }, 1000);
      };
      this.back = () => show(true);
      if (!this.isInWallet) show(this.tried.length === 1);
    });
  }

  /**
   * Look at the questions of the link, in their order, for one that is not answered yet.
   * @param {number} errand
   */
  async look(errand) {
    const { wallet } = this;
    if (!wallet) return;
    for (const study of this.link.studies) {
      const participant = new Participant(this.server, wallet, study, this.link.join);
      this.participant = participant;
      const situation = await this.attempt(() => participant.look(), errand);
      if (situation === undefined) return;
      const isDone = situation.kind === "quiet" || (situation.kind === "report" && situation.report.state !== "kept");
      if (!isDone || study === this.link.studies.at(-1)) return this.present(situation);
    }
  }

  /** @param {import("./participant.mjs").Situation} situation */
  async present(situation) {
    this.isBusy = false;
    await this.aside();
    const { participant } = this;
    if (!participant) return;
    if (this.link.join && (await participant.wallet.account()).owner.user !== undefined) {
      this.link = { ...this.link, join: "" };
      history.replaceState(null, "", withoutCode(this.link));
    }
    switch (situation.kind) {
      case "question":
        return this.ask(situation.asked);
      case "report":
        return this.deliver(situation.report);
      case "refused":
        return this.refuse(situation);
      case "join":
        this.show(joiningScreen({ title: participant.title, problem: situation.problem, join: (code) => this.join(code) }));
        return;
      case "quiet":
        return this.rest(situation.why);
    }
  }

  /** @param {string} code */
  join(code) {
    if (!this.participant || !code) return;
    this.link = { ...this.link, join: code };
    this.look(++this.errand).catch((error) => this.failed(error));
  }

  /** @param {{refusal: import("../../../protocol/web/refusals.mjs").Refusal, read: any}} situation */
  async refuse({ refusal, read }) {
    const { participant, wallet } = this;
    if (!participant || !wallet) return;
    const at = read ? read.heads.length - 1 : -1;
    const histories = refusal.code === "two-histories" && read
      ? { title: read.title, entry: at, before: read.heads[at], now: participant.history.heads[at] ?? null, read: read.read }
      : null;
    const account = await wallet.account();
    const [left, hasLeft] = [`${this.leftOf(account)} are left`, [...account.reports.values()].some(({ study }) => study === participant.history.id)];
    const show = () => this.show(refusedScreen({ refusal, left, hasLeft, histories, again: () => this.start(), wallet: () => this.openWallet(), reasons: () => this.openReasons() }));
    this.back = show;
    show();
    if (refusal.passing) this.later(FIRST_LOOK, () => this.start());
  }

  /** Nothing is asked of her now. @param {"ended" | "between" | "elsewhere"} why */
  rest(why) {
    const { participant } = this;
    if (!participant) return;
    const words = {
      ended: { title: "This study has ended", said: `“${participant.title}” takes no answers any more.`, more: "What the room answered stands on the wall.", state: "ended" },
      between: { title: "Nothing is asked now", said: "The next question appears here by itself.", state: "waiting" },
      elsewhere: { title: "This question is not for your number", said: "A public coin has chosen others to answer it. The next question appears here by itself.", state: "waiting" },
    }[why];
    const show = () => this.show(quietScreen({ ...words, again: () => this.start(), wallet: () => this.openWallet() }));
    this.back = show;
    show();
    if (why !== "ended") this.watch(FIRST_LOOK);
  }

  /**
   * Look whether something else is asked by now.
   * @param {number} seconds
   */
  watch(seconds) {
    this.later(seconds, async () => {
      const { participant, errand } = this;
      const next = Math.min(1.5 * seconds, LONGEST_LOOK);
      if (!participant || document.hidden) return this.watch(seconds);
      try {
        const situation = await participant.look();
        if (errand !== this.errand) return;
        if (situation.kind === "question" || situation.kind === "refused") await this.present(situation);
        else if (situation.kind === "quiet" && situation.why === "ended") this.rest("ended");
        else this.watch(next);
      } catch (error) {
        if (!(error instanceof Unreachable)) this.failed(error);
        else if (errand === this.errand) this.watch(next);
      }
    });
  }

  /**
   * @param {number} seconds
   * @param {() => unknown} work
   */
  later(seconds, work) {
    clearTimeout(this.timer);
    const errand = this.errand;
    this.timer = setTimeout(() => errand === this.errand && work(), 1000 * seconds * (0.8 + 0.4 * Math.random()));
  }

  // ------------------------------------------------------------------------------------------------- asking, and sending

  /** @param {import("../../../protocol/web/judge.mjs").Asked} asked */
  async ask(asked) {
    const { participant, wallet } = this;
    if (!participant || !wallet) return;
    const { study } = participant.history;
    const [meaning, account] = [meaningOf(asked, study.example), await wallet.account()];
    const question = questionOf(study, meaning);
    const given = inputs(meaning.fields, () => gapHint(meaning), () => this.complain(""));
    const round = participant.history.rounds.get(asked.round);
    const nodes = questionScreen({
      server: this.link.server, isPlain: location.protocol === "http:", from: this.link.from, title: participant.title, question, meaning, inputs: given.elements,
      charge: asked.microEpsilon, spent: spentBy(account), cap: account.owner.cap, isNew: isUnused(account), study, round: round && !isRefusal(round) ? round.spec : null, id: participant.history.id,
      send: () => {
        const values = given.read();
        if (values === null) return this.complain("Choose one first. “I cannot or will not say” is an answer, where it stands.");
        return this.answer(asked, meaning, values, question);
      },
      wallet: () => this.openWallet(),
    });
    this.back = () => this.ask(asked);
    this.show(nodes);
  }

  /** @param {string} words */
  complain(words) {
    const place = document.getElementById("missing");
    if (place) place.textContent = words || "Tilt your phone away while you choose. The next screen may be seen by anyone.";
  }

  /**
   * @param {import("../../../protocol/web/judge.mjs").Asked} asked
   * @param {import("./meaning.mjs").Meaning} meaning
   * @param {Record<string, unknown>} values
   * @param {string} question
   */
  async answer(asked, meaning, values, question) {
    const { participant } = this;
    if (!participant || this.isBusy) return;
    this.isBusy = true;
    const errand = ++this.errand;
    this.show(flippingScreen());
    const landed = new Promise((land) => setTimeout(land, matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : FLIGHT));
    try {
      navigator.storage?.persist?.();
      const situation = await this.attempt(() => participant.answer(asked, values, question), errand);
      if (situation === undefined) return;
      if (situation.kind === "report") this.own = { round: asked.round, label: situation.isDrawn ? labelOf(meaning, values) : null };
      // The bytes leave at once; only the eye waits.
      const sending = situation.kind === "report" ? participant.send(situation.report).catch((error) => error) : null;
      await landed;
      if (errand !== this.errand) return;
      if (situation.kind === "report") await this.deliver(situation.report, sending);
      else await this.present(situation);
    } catch (error) {
      this.failed(error);
    }
  }

  /**
   * Show what has left, and send it until there is a receipt.
   * @param {StoredReport} report
   * @param {Promise<unknown> | null} [first] the attempt that is under way
   */
  async deliver(report, first = null) {
    const { participant } = this;
    if (!participant) return;
    const errand = ++this.errand;
    this.isBusy = false;
    if (report.state !== "kept") return this.shown(report, { state: report.state });
    let begun = first;
    const result = await this.attempt(async () => {
      const answer = await (begun ?? participant.send(report));
      begun = null;
      if (answer instanceof Error) throw answer;
      const said = /** @type {Awaited<ReturnType<Participant["send"]>>} */ (answer);
      // What was sent may have arrived whatever is said of it: the same bytes are sent again.
      if (isRefusal(said)) throw new Unreachable(`refused: ${said.text}`);
      if (said.state === "kept") throw new Unreachable(`the server does not take it: ${said.why}`);
      return said;
    }, errand, report);
    if (result) await this.shown({ ...report, state: /** @type {StoredReport["state"]} */ (result.state) }, { ...result, at: Date.now() });
  }

  /**
   * @param {StoredReport} report
   * @param {{state: string, at?: number, receipt?: unknown}} sending
   */
  async shown(report, sending) {
    const { participant, wallet } = this;
    if (!participant || !wallet) return;
    await this.aside();
    const asked = await participant.askedFor(report);
    if (asked === null) return this.rest("between");
    const meaning = meaningOf(asked, participant.history.study.example);
    const outcome = JSON.parse(new TextDecoder().decode(report.body)).outcome;
    const more = this.link.studies.indexOf(participant.history.id) < this.link.studies.length - 1;
    const words = `Your wallet: ${this.leftOf(await wallet.account())} left`;
    let isOpen = false;
    const show = (/** @type {boolean} */ focus) => {
      const own = this.own?.round === report.round ? this.own : null;
      this.show(leftScreen({
        meaning, report, outcome, question: report.question, sending, own: isOpen && own ? own.label : null, isKnown: own !== null && own.label !== null, isOther: own?.label === null, left: words, next: more ? () => this.start() : null,
        uncover: () => {
          isOpen = !isOpen;
          show(false);
          document.getElementById("uncover")?.focus();
          this.say(isOpen ? "What the coin did is shown." : "Your answer is covered.");
        },
        wallet: () => this.openWallet(),
      }), { focus });
    };
    this.cover = () => {
      if (!isOpen) return;
      isOpen = false;
      show(false);
    };
    this.back = () => show(true);
    show(true);
    this.say(isTwo(meaning) ? `One bit left: ${meaning.outcomes[outcome]}.` : "It has left.");
    this.watch(FIRST_LOOK);
  }

  // ------------------------------------------------------------------------------------------------------- other screens

  async openWallet() {
    const { wallet } = this;
    if (!wallet) return;
    this.forgetAnswer();
    const [account, pins] = [await wallet.account(), await wallet.pins()];
    const screen = () => walletScreen({
      server: wallet.server, account, pins, spent: spentBy(account), isUnused: isUnused(account), back: "Back", goBack: () => this.back(),
      limit: (text) => this.limit(text),
      copy: () => this.saveCopy(),
      forget: () => render(forgettingScreen({ spent: spentBy(account), no: () => render(screen()), yes: () => this.forget() })),
    });
    const render = (/** @type {any} */ nodes) => {
      this.show(nodes);
      this.isInWallet = true;
    };
    render(screen());
  }

  openReasons() {
    const { back } = this;
    this.show(reasonsScreen({ back: () => back() }));
  }

  /**
   * @param {string} text
   * @returns {Promise<string | null>} what is wrong with it
   */
  async limit(text) {
    try {
      await this.wallet?.limit(limitFromText(text.trim().replace(",", ".")));
    } catch (error) {
      if (error instanceof ProtocolError) return "Write a number above 0, as 3 or 0.5.";
      this.failed(error);
      return "It could not be stored.";
    }
    this.back = () => this.start();
    await this.aside();
    return null;
  }

  async saveCopy() {
    const text = JSON.stringify(await this.wallet?.copy(), null, 1);
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const anchor = h("a", { href: address, download: "askance-wallet.json" });
    anchor.click();
    URL.revokeObjectURL(address);
  }

  async forget() {
    this.errand++;
    await this.wallet?.forget();
    location.reload();
  }

  /** What she answered: it is not known to this page from now on. */
  forgetAnswer() {
    this.own = null;
    this.cover = undefined;
  }
}

/**
 * The question in words: the study's title where it asks one, else the fields that are looked at.
 * @param {any} study
 * @param {import("./meaning.mjs").Meaning} meaning
 */
function questionOf(study, meaning) {
  const title = printable(study.title);
  return study.example.fields.length === 1 ? title : `${title}: ${meaning.fields.map((/** @type {any} */ { name }) => name.replaceAll("_", " ")).join(", ")}`;
}

/**
 * Her answer as the page names it.
 * @param {import("./meaning.mjs").Meaning} meaning
 * @param {Record<string, unknown>} values
 */
function labelOf(meaning, values) {
  const [field] = meaning.fields;
  const option = meaning.isWhole ? optionsOf(field)?.find(({ value }) => value === values[field.name]) : undefined;
  return option ? option.label : Object.values(values).map((value) => (value === null ? "nothing" : String(value))).join(", ");
}

const page = new Page();
// A browser may keep a page as it is, to show it again: nothing that she chose or uncovered stands on it then.
addEventListener("pagehide", () => {
  page.forgetAnswer();
  page.show(loadingScreen("Reading the study, and checking it here."), { focus: false });
});
addEventListener("pageshow", (event) => {
  if (event.persisted) page.start();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) page.cover?.();
});
addEventListener("hashchange", () => {
  const link = readLink(location);
  if (link.studies.join() !== page.link.studies.join() || link.join) {
    page.link = link;
    page.start();
  }
});
page.start();
