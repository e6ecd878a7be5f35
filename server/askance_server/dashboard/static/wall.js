// The wall, live: whenever the stream of events says that something has changed, what has changed is asked for, as the server
// renders it. What lets people in stands behind the # of the address, and is shown to the server only to be drawn as a code.

const { study } = document.body.dataset;
const parts = ["now", "progress", "says"];
const MOMENT = 200;
const AGAIN = 2000;
let isAsking = false;
let isOld = false;
let isDrawing = false;
let heard = new Date();

/** A time of day as it is here. */
const hour = (/** @type {Date} */ time) => time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

function localTimes() {
  for (const time of document.querySelectorAll("time")) {
    const there = new Date(time.dateTime);
    time.textContent = hour(there);
    if (there.toDateString() !== new Date().toDateString()) time.textContent += there.toLocaleDateString("en-GB", { day: "numeric", month: "short" }).replace(/^/, ", ");
  }
}

async function refresh() {
  isOld = true;
  if (isAsking) return;
  isAsking = true;
  while (isOld) {
    // Events come in pairs, and to hundreds at once: what comes within a moment is asked for once, by each at a time of its own.
    await new Promise((go) => setTimeout(go, MOMENT * Math.random()));
    isOld = false;
    try {
      const answer = await fetch(`/wall/now?study=${study}`);
      if (!answer.ok) break;
      const said = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of parts) {
        const [old, now] = [document.getElementById(id), said.getElementById(id)];
        // What is the same stays, so that a screen reader is told only what is new.
        if (now && old.innerHTML !== now.innerHTML) old.replaceChildren(...now.childNodes);
      }
      localTimes();
    } catch {
      break;
    }
  }
  isAsking = false;
}

function listen() {
  const stream = new EventSource(`/v1/studies/${study}/events`);
  const connection = document.getElementById("connection");
  let isOver = false;
  for (const name of ["study", "round", "closed", "answers", "received", "live"]) stream.addEventListener(name, refresh);
  stream.addEventListener("ended", () => {
    isOver = true;
    refresh();
  });
  stream.addEventListener("open", () => {
    connection.textContent = "";
    // A server that was away when the page came, or started again since, has drawn none.
    if (!isDrawing && !document.querySelector("#code > *")) code();
  });
  stream.addEventListener("error", () => {
    if (isOver) return stream.close();
    // Said once for each loss, with the time from which all that stands here is.
    if (!connection.textContent) heard = new Date();
    connection.textContent = `No word from the server since ${hour(heard)}; this wall goes on by itself.`;
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN * (1 + Math.random()));
  });
}

async function code() {
  const join = new URLSearchParams(location.hash.slice(1)).get("join");
  // Put in here and not by the server: one page is kept for all, whatever name they know the server by.
  document.getElementById("address").textContent = `${location.host}/t`;
  const link = `${location.origin}/t#study=${study}${join ? `&join=${join}` : ""}`;
  if (join && join.length <= 24) document.getElementById("join").textContent = join;
  // Who gets no answer asks again as soon as the stream is there.
  isDrawing = true;
  const answer = await fetch("/wall/code", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ link }) }).catch(() => null);
  isDrawing = false;
  if (!answer?.ok) return;
  const drawn = new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement;
  document.getElementById("code").replaceChildren(document.adoptNode(drawn));
}

localTimes();
listen();
code();
