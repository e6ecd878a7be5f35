// What an operator does to a study: asked once more in words before it is done, because none of it can be undone.

import { ask, say } from "./session.js";
import { refresh } from "./refresh.js";

function dialog(words, doing) {
  const made = document.createElement("dialog");
  made.setAttribute("aria-labelledby", "sure");
  const text = document.createElement("p");
  text.id = "sure";
  text.textContent = words;
  const problem = document.createElement("p");
  problem.className = "problem";
  problem.setAttribute("role", "alert");
  problem.hidden = true;
  const row = document.createElement("div");
  row.className = "row";
  row.append(button("Go on", "primary", act), button("Leave it", "", () => made.close()));
  made.append(text, problem, row);
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();

  async function act() {
    try {
      await doing();
      made.close();
    } catch (error) {
      say(problem, error.message);
    }
  }
}

function button(words, kind, pressed) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = kind;
  made.textContent = words;
  made.addEventListener("click", pressed);
  return made;
}

document.addEventListener("click", (event) => {
  const pressed = event.target.closest?.("[data-action]");
  if (!pressed) return;
  dialog(pressed.dataset.sure, async () => {
    await ask(pressed.dataset.action, { method: "POST" });
    await refresh();
  });
});
