// The link that a person opens: which studies, in their order, at which server, and the code that lets her in. All of it stands behind the `#`, which
// a browser sends to nobody and no server writes into a log.

/**
 * @typedef {{server: string, studies: readonly string[], join: string, from: string | null}} Link `from`: where this page came
 *   from; null for a file
 */

const DIGEST = /^[0-9a-f]{64}$/;
/** Questions of one evening. */
const MOST = 64;
const CODE = /^[\x21-\x7e]{1,1024}$/;

/**
 * @param {Location | URL} location
 * @returns {Link}
 */
export function readLink(location) {
  const given = new URLSearchParams(location.hash.slice(1));
  const from = /^https?:$/.test(location.protocol) ? location.origin : null;
  const join = given.get("join") ?? "";
  return {
    server: serverOf(given.get("server"), from ?? ""),
    studies: given.getAll("study").filter((study) => DIGEST.test(study)).slice(0, MOST),
    join: CODE.test(join) ? join : "",
    from,
  };
}

/**
 * The link without the code: what stands in the address once she has a number, so that neither a photograph of her screen nor the
 * list of pages that she has seen lets anybody in.
 * @param {Link} link
 */
export function withoutCode({ server, studies, from }) {
  const kept = new URLSearchParams(studies.map((study) => ["study", study]));
  if (server !== from) kept.set("server", server);
  return `#${kept}`;
}

/**
 * @param {string | null} given
 * @param {string} usual
 */
function serverOf(given, usual) {
  try {
    const url = new URL(given || usual);
    return /^https?:$/.test(url.protocol) ? url.origin : "";
  } catch {
    return "";
  }
}
