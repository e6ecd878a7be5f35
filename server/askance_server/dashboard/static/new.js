// A new study: each change of the form is planned by the server, and nothing is started before its plan is shown.

import { ask, say, token } from "./session.js";

const PAUSE = 300;
const form = document.getElementById("form");
const planned = document.getElementById("planned");
const field = (name) => document.getElementById(name);
let waiting = 0;
let asked = 0;

document.getElementById("signed-out").hidden = Boolean(token());

const filled = () => ({
  title: field("title").value.trim(),
  strategy: field("strategy").value,
  epsilon: field("epsilon").value,
  users: field("users").value,
  parameters: field("parameters").value,
  simulated: field("simulated").checked,
});

async function plan() {
  const number = ++asked;
  const given = filled();
  if (!given.title || !token()) return;
  try {
    const answer = await ask("/new/plan", { method: "POST", body: given });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Of two plans the later question counts, whichever is answered last.
    if (number === asked) planned.replaceChildren(...fresh.body.childNodes);
  } catch (error) {
    if (number === asked) say(planned, error.message);
  }
}

async function start(button) {
  button.disabled = true;
  try {
    const answer = await ask("/v1/studies", { method: "POST", body: JSON.parse(button.dataset.study) });
    location.assign(`/studies/${(await answer.json()).id}`);
  } catch (error) {
    button.disabled = false;
    say(document.getElementById("start-problem"), error.message);
  }
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => {
  clearTimeout(waiting);
  // What was planned is of another form by now.
  document.getElementById("start")?.setAttribute("disabled", "");
  waiting = setTimeout(plan, PAUSE);
});
planned.addEventListener("click", (event) => {
  const button = event.target.closest?.("#start");
  if (button) start(button);
});
