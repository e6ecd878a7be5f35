// Bring a page up to date without a reload: the server renders it again, and the parts that differ are put in place.
// Charts, tables and words are made in one place, the server; nothing here knows what they mean.

import { reveal } from "./session.js";

let shown = new Map();
for (const part of document.querySelectorAll("[data-live][id]")) shown.set(part.id, part.innerHTML);

/** Ask for this page again and put in what has changed; whether the server answered. */
export async function refresh() {
  let text;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return false;
    text = await answer.text();
  } catch {
    return false;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of fresh.querySelectorAll("[data-live][id]")) {
    const old = document.getElementById(part.id);
    if (!old) {
      // A part that has not been there: a new page has it, with everything else where it belongs.
      location.reload();
      return true;
    }
    if (shown.get(part.id) === part.innerHTML) continue;
    shown.set(part.id, part.innerHTML);
    put(old, part);
  }
  return true;
}

function put(old, part) {
  const open = [...old.querySelectorAll("details[open][id]")].map((each) => each.id);
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  for (const { name, value } of part.attributes) old.setAttribute(name, value);
  old.replaceChildren(...part.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
  reveal(old);
  old.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
}
