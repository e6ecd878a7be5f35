// A study live: its stream of events says that something is new, and the page is brought up to date by the server.

import "./session.js";
import "./actions.js";
import { refresh } from "./refresh.js";

const AGAIN = 2000;
const AT_MOST_EVERY = 500;
const MOMENT = 200;
const AT_LEAST_EVERY = 10000;
const SHAPES = {
  live: '<circle cx="8" cy="8" r="7" fill="currentColor"/>',
  restarting: '<circle cx="8" cy="8" r="6.5" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="3 2.2"/>',
  ended: '<rect x="3" y="3" width="10" height="10" rx="1" fill="none" stroke="currentColor" stroke-width="2"/>',
};
const WORDS = { live: "live", restarting: "the server restarts; this page goes on by itself", ended: "ended" };

const title = () => document.getElementById("title");
let state = "";
let source = null;
let waiting = 0;
let last = 0;

function tell(now) {
  state = now;
  const place = document.getElementById("connection");
  if (place.dataset.state === now) return;
  place.dataset.state = now;
  place.innerHTML = `<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">${SHAPES[now]}</svg>`;
  place.append(WORDS[now]);
}

/** Bring the page up to date soon: of many events in a moment, once; and not when hundreds of others do. */
function soon() {
  if (waiting) return;
  waiting = setTimeout(async () => {
    last = Date.now();
    const answered = await refresh();
    waiting = 0;
    if (!answered) restart();
    else if (title().hasAttribute("data-ended")) end();
  }, Math.max(0, last + AT_MOST_EVERY - Date.now()) + MOMENT * Math.random());
}

function end() {
  source?.close();
  source = null;
  tell("ended");
}

function restart() {
  source?.close();
  source = null;
  tell("restarting");
  setTimeout(listen, AGAIN * (1 + Math.random()));
}

function listen() {
  if (source || state === "ended") return;
  const opened = new EventSource(`/v1/studies/${title().dataset.study}/events`);
  source = opened;
  opened.onopen = () => {
    tell("live");
    soon();
  };
  opened.onerror = () => {
    if (source === opened && state !== "ended") restart();
  };
  for (const kind of ["study", "round", "closed", "answers", "received"]) opened.addEventListener(kind, soon);
  opened.addEventListener("ended", soon);
}

// What nobody announces: the pace.
setInterval(() => {
  if (state === "live" && document.visibilityState === "visible") soon();
}, AT_LEAST_EVERY);

// What is put in place of the title has an empty mark of the connection.
document.addEventListener("refreshed", () => tell(state || "live"));

if (title().hasAttribute("data-ended")) tell("ended");
else listen();
