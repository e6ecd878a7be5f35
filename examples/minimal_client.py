"""A client of the protocol in a hundred lines, with nothing but the standard library: to read before writing your own.

usage: python minimal_client.py enrol URL ENROLMENT-TOKEN-FILE
       python minimal_client.py answer URL STUDY VALUE

It answers one round about one number by binary response, and refuses whatever else there is. It leaves out the public
coin, because the standard library has no AES: it does not check that it is its turn. docs/write-a-client.md says what
else a client does.
"""

import hashlib
import json
import math
import secrets
import sys
from pathlib import Path
from urllib.request import Request, urlopen

ONE, WORD, CAP = 1 << 128, 1 << 64, 1_000_000
WALLET = Path("minimal.wallet.json")


def digest(document):
    """The name of a document: SHA-256 of its canonical form."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def exp(micro_epsilon):
    """e^ε from below, in units of 2^-128: each term is rounded down from the one before."""
    total = term = ONE
    number = 1
    while term:
        term = term * micro_epsilon // (10**6 * number)
        total, number = total + term, number + 1
    return total


def ask(url, token=None, body=None):
    """One request, and its answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Content-Type": "application/json"} if body is not None else {}
    request = Request(url, data=body, headers=headers)  # noqa: S310 - the address is what its user has typed
    with urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
        return json.load(answer)


def refuse(reason):
    """Send nothing, and say why: never because of the value."""
    sys.exit(f"refused: {reason}")


def the_round(bulletin, study):
    """A study and its first round, from a bulletin whose chain holds."""
    before, entries = 64 * "0", bulletin["entries"]
    for number, entry in enumerate(entries):
        if entry["sequence"] != number or entry["previous"] != before:
            refuse("the chain is broken")
        before = digest(entry)
    if before != bulletin["head"] or digest(entries[0]["notice"]["study"]) != study:
        refuse("this is another study")
    if len(entries) < 2 or entries[1]["notice"]["kind"] != "round":
        refuse("it has no round")
    return entries[0]["notice"]["study"], entries[1]["notice"]["round"]


def drawn(study, asked, value):
    """The bit that may leave, and what it costs. Everything is checked before the value is looked at."""
    [part], [field] = asked["parts"], study["example"]["fields"]
    query, channel = part["query"], part["channel"]
    if (query["kind"], query["numerator"]["op"], channel["kind"], field["kind"]) != ("real", "field", "binary", "real"):
        refuse("this client knows one question only")
    if study["simulated"] or part["charge"] < channel["micro_epsilon"] or part["charge"] > CAP:
        refuse("a made-up study, or a price that is not the channel's, or beyond the cap")
    steps, e = 2 * query["denominator"], exp(channel["micro_epsilon"])
    keep = WORD * e // (ONE + e)
    numerator = math.floor(value * field["denominator"] + 0.5)
    place = max(0, min(steps, numerator + query["denominator"]))
    ones = WORD - keep + (2 * keep - WORD) * place // steps
    return int(secrets.randbits(64) < ones), part["charge"]


def enrol(url, file):
    """Become a user, once."""
    answer = ask(f"{url}/v1/enrolments", Path(file).read_text().strip(), b"{}")
    WALLET.write_text(json.dumps({"token": answer["token"], "reports": {}}))
    print(f"user {answer['user']}")


def answer(url, study, value):
    """Randomize once, store, and only then send; a second call sends the same bytes."""
    wallet = json.loads(WALLET.read_text())
    document, asked = the_round(ask(f"{url}/v1/studies/{study}/bulletin"), study)
    name = digest(asked)
    if name not in wallet["reports"]:
        bit, price = drawn(document, asked, float(value))
        if price + sum(each["price"] for each in wallet["reports"].values()) > CAP:
            refuse("beyond the cap")
        wallet["reports"][name] = {"outcome": bit, "price": price}
        WALLET.write_text(json.dumps(wallet))
    body = json.dumps({"outcome": wallet["reports"][name]["outcome"]}, separators=(",", ":")).encode()
    receipt = ask(f"{url}/v1/rounds/{name}/reports", wallet["token"], body)
    print(f"{len(body)} bytes have left, for {receipt['charged']} micro-ε")


if __name__ == "__main__":
    {"enrol": enrol, "answer": answer}[sys.argv[1]](*sys.argv[2:])
