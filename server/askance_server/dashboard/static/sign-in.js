// Sign in: the token is tried before it is kept.

import { ask, say, signIn } from "./session.js";

const form = document.getElementById("sign-in");
const problem = document.getElementById("problem");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = document.getElementById("token").value.trim();
  // A header takes no other characters, and no token has any.
  if (!/^[\x21-\x7e]+$/.test(given)) return say(problem, "This is no token: it has characters that none has.");
  try {
    await ask("/v1/users", { given });
  } catch (error) {
    return say(problem, error.message);
  }
  signIn(given);
  location.assign("/");
});
