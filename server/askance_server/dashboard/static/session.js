// Who looks: anybody, or the operator, whose token lives in this tab and nowhere else. It is sent as a header, to this
// server only; there is no cookie. What is for the operator has `data-operator`, and stays hidden without a token.

const KEY = "askance operator";

export const token = () => sessionStorage.getItem(KEY);

export function signIn(given) {
  sessionStorage.setItem(KEY, given);
}

function signOut() {
  sessionStorage.removeItem(KEY);
  location.assign("/");
}

/** A request to this server with the operator's token; what a refusal says is the error's message. */
export async function ask(path, { method = "GET", body, given = token() } = {}) {
  const headers = given ? { Authorization: `Bearer ${given}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!answer.ok) throw new Error(await refusal(answer));
  return answer;
}

async function refusal(answer) {
  const said = await answer.json().catch(() => ({}));
  return said.detail ? `${said.title}: ${said.detail}` : said.title ?? `The server answered ${answer.status}.`;
}

/** Show what is for the operator, if she is here. */
export function reveal(root = document) {
  for (const each of root.querySelectorAll("[data-operator]")) each.hidden = !token();
}

/** A problem in words, where a reader of the screen hears it. */
export function say(place, words) {
  place.textContent = words;
  place.hidden = !words;
}

const who = document.getElementById("who");
if (who && token()) {
  const out = document.createElement("button");
  out.type = "button";
  out.className = "link";
  out.textContent = "sign out";
  out.addEventListener("click", signOut);
  who.replaceChildren("Operator · ", out);
}
reveal();
