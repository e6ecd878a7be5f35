// Verify a bulletin here: every entry is read strictly, its digest is computed anew, and it has to follow on the one
// before. What this browser saw earlier has to be part of it: a server that shows two histories is found out.

const PINS = "askance pin ";
const button = document.getElementById("verify");
const said = document.getElementById("verified");
let running = false;
let known = [];

const place = () => document.getElementById("title").dataset.study;

function tell(state, words) {
  said.dataset.state = state;
  said.textContent = words;
}

/** The pin of an earlier look; none if the browser keeps nothing. */
function pinned(study) {
  try {
    return JSON.parse(localStorage.getItem(PINS + study));
  } catch {
    return null;
  }
}

function mark(heads) {
  for (const each of document.querySelectorAll("#bulletin li")) {
    const number = Number(each.querySelector(".n").textContent);
    const good = heads[number] === each.dataset.digest;
    each.classList.toggle("ok", good);
    if (number < heads.length && !good) throw new Error(`Entry ${number} is another one here than on this page.`);
  }
}

/** What the protocol refuses, as the number of the entry at which it did. */
function checked(number, work) {
  try {
    return work();
  } catch (error) {
    throw new Error(`Entry ${number} does not follow from what is before it (${error.message}). Phones refuse this study.`);
  }
}

async function verify() {
  const study = place();
  // Loaded when it is asked for: most who look do not verify, and it is as large as all the rest.
  const { EMPTY, GrowingBulletin } = await import("./protocol/bulletin.mjs");
  const { digest } = await import("./protocol/canonical.mjs");
  const { readTail } = await import("./protocol/documents.mjs");
  const growing = new GrowingBulletin(EMPTY);
  const heads = [];
  for (let more = true; more; ) {
    const answer = await fetch(`/v1/studies/${study}/bulletin?after=${heads.length - 1}`);
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    const body = new Uint8Array(await answer.arrayBuffer());
    const entries = checked(heads.length, () => readTail(body).entries);
    for (const entry of entries) {
      checked(heads.length, () => growing.append(entry));
      heads.push(growing.head);
    }
    tell("running", `${heads.length} entries`);
    more = entries.length > 0;
  }
  if (heads.length === 0) throw new Error("The bulletin is empty.");
  if (digest(growing.study) !== study) throw new Error("This is the bulletin of another study.");
  const before = pinned(study);
  if (before && heads[before.length - 1] !== before.head) {
    throw new Error(`Another history than this browser saw at ${before.at}.`);
  }
  mark(heads);
  known = heads;
  const at = new Date().toLocaleTimeString();
  try {
    localStorage.setItem(PINS + study, JSON.stringify({ length: heads.length, head: growing.head, at }));
  } catch {
    // A browser that keeps nothing has verified all the same.
  }
  tell("good", `✓ ${heads.length} entries verified here, ${at}`);
}

// What is put in place of the list has no marks.
document.addEventListener("refreshed", () => {
  try {
    mark(known);
  } catch (error) {
    tell("broken", `⊘ ${error.message}`);
  }
});

button.hidden = false;
button.addEventListener("click", async () => {
  if (running) return;
  running = true;
  button.textContent = "Verifying …";
  try {
    await verify();
  } catch (error) {
    tell("broken", `⊘ ${error.message}`);
  }
  button.textContent = "Verify again";
  running = false;
});
