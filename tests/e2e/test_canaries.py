"""Canaries: a study over HTTP with secrets that are easily told, and afterwards none stands where it should not.

Real users with wallets of their own, raw senders, a gateway and an operator use one server, which logs at the level
debug, is killed in the middle and starts again. Then everything that it has left is searched, byte by byte, for

- tokens of every role, also forged and void ones, and ones that were put where no token belongs: nowhere but in the
  answer that hands a token out. The data directory holds the operator's and the enrolment token and the key, each in a
  file of its own; of users' tokens it holds nothing, they are made from the key.
- examples: nowhere at all, the user's own wallet included.
- bodies of reports: nowhere at the server. By design its ledger holds outcomes, as numbers beside user numbers; and a
  wallet holds the body of its own user's report, as the client writes it.

Searched for in each way that a program might write them: raw, hexadecimal, in base64 wherever it begins, as a decimal
number, as Python or JSON escapes them, and examples as ones and zeros in either order. Searched are the database
with its write-ahead log, the logs, all answers with problem documents and event streams, metrics, what `askance doctor`
says, and other users' wallets. `ASKANCE_TORTURE=1` does it twenty times, with secrets of their own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client import Answered, Identity, Server, User, Wallet
from askance_client.pace import AT_ONCE
from askance_protocol.examples import Example
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.auth import KEY_FILE, EnrolmentToken, GatewayToken, Keys, OperatorToken, UserToken
from tests.harness.figures import Figures
from tests.harness.marks import SECONDS
from tests.harness.servers import COMMAND, Json, ServerProcess
from tests.lab.commands.calls import invoke

TURNS: Final = 20 if os.environ.get("ASKANCE_TORTURE") == "1" else 1
D: Final = 96
"""Bits of an example: so many do not turn up by chance."""
PEOPLE: Final = 3


# --------------------------------------------------------------------------------------------------- what is sought


def writings(secret: bytes) -> Iterator[bytes]:
    """Every way in which a program might write these bytes; cut where the neighbours would change them."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for before in range(3):
        # In base64 three bytes are four letters, so a text looks different by where it begins.
        first = -before % 3
        whole = secret[first : first + (len(secret) - first) // 3 * 3]
        yield base64.b64encode(whole)
        yield base64.urlsafe_b64encode(whole)
    for order in ("big", "little"):
        yield str(int.from_bytes(secret, order)).encode()
    yield repr(secret)[2:-1].encode()
    text = secret.decode("latin-1")
    yield json.dumps(text)[1:-1].encode()
    yield text.encode("utf-8")


@dataclass(frozen=True)
class Canary:
    """A secret, and where it may stand by design."""

    name: str
    forms: tuple[bytes, ...]
    allowed: frozenset[str] = frozenset()
    """Names of places."""

    @classmethod
    def of(cls, name: str, *secrets: bytes, allowed: Iterable[str] = ()) -> Canary:
        """A secret of these bytes, in all their writings; too short a one would be found by chance."""
        forms = {form for secret in secrets for form in writings(secret) if len(form) >= 12}
        assert forms, name
        return cls(name, tuple(forms), frozenset(allowed))

    @classmethod
    def token(cls, name: str, token: str, *, allowed: Iterable[str] = ()) -> Canary:
        """A token; and its tag alone, which is what makes it one."""
        tag = token.rpartition(".")[2]
        raw = base64.urlsafe_b64decode(tag + "=" * (-len(tag) % 4))
        return cls.of(name, token.encode(), tag.encode(), raw, allowed=allowed)

    @classmethod
    def example(cls, name: str, bits: str) -> Canary:
        """An example of bits: also as text in either order, and as numbers."""
        numbers = [int(bits, 2), int(bits[::-1], 2)]
        raw = [number.to_bytes(-(-len(bits) // 8), "big") for number in numbers]
        lists = [", ".join(bits), ",".join(bits), " ".join(bits)]
        more = [bytes(map(int, bits)), *(text.encode() for text in (bits, bits[::-1], *lists))]
        return cls.of(name, *raw, *(each[::-1] for each in raw), *more)


def found(canaries: Iterable[Canary], places: Mapping[str, bytes]) -> list[str]:
    """Where a canary stands that should not."""
    return [
        f"{canary.name} in {place}"
        for canary in canaries
        for place, content in places.items()
        if place not in canary.allowed and any(form in content for form in canary.forms)
    ]


# -------------------------------------------------------------------------------------------------------- the scene


@contextmanager
def overheard() -> Generator[list[str]]:
    """What this process logs, at every level: the client's and its library's."""
    lines = list[str]()

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name} {record.getMessage()} {record.exc_text}")

    root, handler = logging.getLogger(), Keep(logging.DEBUG)
    levels = {name: logging.getLogger(name).level for name in ("", "httpx", "httpcore", "asyncio")}
    root.addHandler(handler)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@dataclass
class Scene:
    """One server, what was sent to it, and all that it has said and left."""

    directory: Path
    source: random.Random
    command: tuple[str, ...] = COMMAND
    canaries: list[Canary] = field(default_factory=list[Canary])
    places: dict[str, bytes] = field(default_factory=dict[str, bytes])
    people: list[User] = field(default_factory=list[User])
    problems: int = 0

    def play(self) -> None:
        """The whole study; what is left is in `places` then."""
        data = self.directory / "data"
        server = ServerProcess(data, "--cap", "3", "--log-level", "debug", "--log-format", "json")
        server._command[: len(COMMAND)] = self.command  # pyright: ignore[reportPrivateUsage] - with a fault planted
        self.directory.mkdir(parents=True)
        server.start()
        try:
            with overheard() as lines:
                asyncio.run(asyncio.wait_for(self._enrol_people(server), SECONDS))
            tokens, study, simulated = self._open(server)
            with overheard() as more:
                asyncio.run(asyncio.wait_for(self._answer(server, study), SECONDS))
            self.places["the clients' log"] = "\n".join([*lines, *more]).encode()
            self._senders(server, study, tokens)
            self._strangers(server, study, simulated, tokens)
            # What is on disk, and in the write-ahead log, when nothing was tidied up.
            server.kill()
            self._keep_files("killed", data)
            server.start()
            self._say(server, study, simulated)
            self._senders(server, study, tokens)
            server.post(f"/v1/rounds/{study['rounds'][0]['id']}/close", token=server.operator)
            self._say(server, study, simulated)
        finally:
            server.stop()
        self._keep_files("stopped", data)
        self.places["askance doctor"] = invoke("doctor", "--deep", "--json", "--database", str(data)).encode()
        self.places["log"] = Path(f"{data}.log").read_bytes()
        # That there was something to be searched.
        assert self.places["log"].count(b'"message"') > 5
        assert self.problems > 20

    def _unusual(self, count: int) -> bytes:
        return self.source.randbytes(count)

    def _hear(self, name: str, response: Any, *, wanted: int | None = None) -> Any:
        """Keep an answer."""
        assert response.status_code < 500, response.text
        assert wanted is None or response.status_code == wanted, response.text
        self.problems += response.status_code >= 400
        headers = "\n".join(f"{key}: {value}" for key, value in response.headers.items()).encode()
        self.places[name] = self.places.get(name, b"") + headers + b"\n" + response.content + b"\n"
        return response

    def _open(self, server: ServerProcess) -> tuple[list[str], Json, Json]:
        """Users enrol, studies begin; the tokens that were handed out are canaries from now on."""
        key = server.keys
        tokens = server.enrol(6)
        asked = {"d": D, "alpha": "0.9", "users": "all"}
        study = server.study("conjunction", asked)
        simulated = server.study("mean", {"users": "all", "tolerance": "0.5"}, simulated=True)
        files = {"operator": "operator.token", "enrolment": "enrolment.token"}
        for role, name in files.items():
            text = (server.directory / name).read_text("ascii").strip()
            own = [f"{when}: {name}" for when in ("killed", "stopped")]
            self.canaries.append(Canary.token(f"the {role} token", text, allowed=own))
        written = (server.directory / KEY_FILE).read_bytes().strip()
        raw = bytes.fromhex(written.decode()) if len(written) == 64 else written
        own = [f"{when}: {KEY_FILE}" for when in ("killed", "stopped")]
        self.canaries.append(Canary.of("the server's key", raw, allowed=own))
        self.canaries += [Canary.token(f"user {user}'s token", token) for user, token in enumerate(tokens)]
        self.canaries.append(Canary.token("the gateway's token", simulated["gateway_token"]))
        # Genuine tokens that nobody was ever given, and forged ones.
        more = [OperatorToken("another"), EnrolmentToken("another"), UserToken(77, 7), GatewayToken(study["id"], 0, 9)]
        self.canaries += [Canary.token(f"another {each.role} token", key.mint(each)) for each in more]
        return tokens, study, simulated

    async def _enrol_people(self, server: ServerProcess) -> None:
        """People with examples and wallets of their own."""
        schema = Schema(fields=(BitsField(name="x", width=D), LabelField(name="y")))
        for number in range(PEOPLE):
            bits = "".join(self.source.choices("01", k=D))
            self.canaries.append(Canary.example(f"person {number}'s example", bits))
            wallet = Wallet.open(self.directory / f"person-{number}.wallet", cap=2_000_000)
            example = Example.of(schema, {"x": bits, "y": self.source.choice([-1, 1])})
            user = User(example, wallet, pace=AT_ONCE)
            async with Server(server.url) as known:
                identity = await user.enrol(known, server.enrolment)
            assert isinstance(identity, Identity), identity
            place = f"person {number}'s wallet"
            self.canaries.append(Canary.token(f"person {number}'s token", identity.token, allowed=[place]))
            self.people.append(user)

    async def _answer(self, server: ServerProcess, study: Json) -> None:
        """They take part, as anybody does; their wallets stay as they are then, write-ahead logs and all."""
        for number, user in enumerate(self.people):
            async with Server(server.url) as known:
                results = await user.take_part(known, study["id"])
            assert [type(each) for each in results] == [Answered], results
            files = sorted(self.directory.glob(f"person-{number}.wallet*"))
            self.places[f"person {number}'s wallet"] = b"".join(each.read_bytes() for each in files)
            user.wallet.close()

    def _body(self, outcome: object) -> bytes:
        """A report that is written as nobody else writes it."""
        blanks = [bytes(self.source.choices(b" \t\n\r", k=9)) for _ in range(5)]
        body = b'%b{%b"outcome"%b:%b%b}' % (*blanks[:4], str(outcome).encode())
        self.canaries.append(Canary.of("a report's body", body))
        return body

    def _senders(self, server: ServerProcess, study: Json, tokens: list[str]) -> None:
        """Reports whose bodies are easily told: taken, repeated, in conflict, invalid."""
        path = f"/v1/rounds/{study['rounds'][0]['id']}/reports"
        kind = {"Content-Type": "application/json"}
        for token in tokens:
            for body in (self._body(1), self._body(1), self._body(0), self._body(4_000_000_000)):
                self._hear("reports", server.post(path, token=token, content=body, headers=kind))
            marks = self._unusual(24)
            self.canaries.append(Canary.of("an invalid report", marks, marks.hex().encode()))
            for body in (b'{"outcome":"%b"}' % marks.hex().encode(), marks, b'{"%b":1}' % marks.hex().encode()):
                self._hear("reports", server.post(path, token=token, content=body, headers=kind))

    def _strangers(self, server: ServerProcess, study: Json, simulated: Json, tokens: list[str]) -> None:
        """Secrets where they do not belong: in a path, a query, a cookie, another member; and tokens made void."""
        token, mark = tokens[0], self._unusual(24).hex()
        self.canaries.append(Canary.of("a member's value", mark.encode()))
        forged = Keys(self._unusual(32)).mint(UserToken(1, 0))
        self.canaries.append(Canary.token("a forged token", forged))
        hear = self._hear
        for each in (token, forged, server.operator, simulated["gateway_token"]):
            hear("strange", server.get("/v1/me", token=each)) if each != token else None
            hear("strange", server.get(f"/v1/studies?token={each}"))
            hear("strange", server.get(f"/v1/studies/{each}"))
            hear("strange", server.get(f"/v1/rounds/{each}/tally"))
            hear("strange", server.post(f"/v1/rounds/{each}/reports", token=forged, json={"outcome": 1}))
            hear("strange", server.get("/v1/me", headers={"Cookie": f"token={each}", "X-Token": each}))
            hear("strange", server.get("/v1/me", headers={"Authorization": f"Basic {each}"}))
            hear("strange", server.get("/v1/me", headers={"Askance-Protocol": each}))
            hear("strange", server.post("/v1/enrolments", token=server.enrolment, json={"users": each}))
            asked = {"title": "t", "strategy": "mean", "parameters": {"epsilon": each[:199]}}
            hear("strange", server.post("/v1/studies", token=server.operator, json=asked))
        bodies: list[Any] = [
            {"users": [mark], "outcomes": [1]},
            {"users": [0], "outcomes": [mark]},
            {"users": [0], mark: [1]},
            mark,
            {mark: {mark: mark}},
        ]
        batches = f"/v1/rounds/{simulated['rounds'][0]['id']}/batches"
        for body in bodies:
            hear("strange", server.post(batches, token=simulated["gateway_token"], json=body))
            hear("strange", server.post("/v1/studies", token=server.operator, json=body))
            hear("strange", server.post("/v1/enrolments", token=server.enrolment, json=body))
        raw = {"Content-Type": "application/octet-stream"}
        hear("strange", server.post(batches, token=simulated["gateway_token"], content=mark.encode(), headers=raw))
        # Not the people who have enrolled before: for them no gateway speaks.
        first = server.keys.read(tokens[0], UserToken).user
        users = [first, first + 1, first + 2]
        told = server.batch(simulated["rounds"][0]["id"], simulated["gateway_token"], users, [1, 0, 1])
        assert told.status_code == 200, told.text
        for user in (-2, -1):
            renewed = server.post(f"/v1/users/{PEOPLE + len(tokens) + user}/token", token=server.operator).json()[
                "token"
            ]
            self.canaries.append(Canary.token("a renewed token", renewed))
            hear("strange", server.get("/v1/me", token=tokens[user]), wanted=401)
            hear("own account", server.get("/v1/me", token=renewed), wanted=200)
            tokens[user] = renewed

    def _say(self, server: ServerProcess, study: Json, simulated: Json) -> None:
        """All that everybody may ask."""
        for path in ("/metrics", "/healthz", "/readyz", "/docs", "/openapi.json", "/v1/studies"):
            self._hear(path, server.get(path), wanted=200)
        for each in (study, simulated):
            for tail in ("", "/bulletin", "/result"):
                self._hear(f"study{tail}", server.get(f"/v1/studies/{each['id']}{tail}"), wanted=200)
            for tail in ("", "/tally"):
                self._hear(f"round{tail}", server.get(f"/v1/rounds/{each['rounds'][0]['id']}{tail}"), wanted=200)
            self._hear_events(server, each)

    def _hear_events(self, server: ServerProcess, study: Json) -> None:
        with server.client.stream("GET", f"/v1/studies/{study['id']}/events") as stream:
            heard = b""
            for piece in stream.iter_bytes():
                heard += piece
                if b"event: received" in heard or b"event: ended" in heard:
                    break
        self.places["events"] = self.places.get("events", b"") + heard

    def _keep_files(self, when: str, data: Path) -> None:
        """Every file of the data directory; of the database also what SQLite says that it holds."""
        for path in sorted(data.rglob("*")):
            if path.is_file():
                self.places[f"{when}: {path.name}"] = path.read_bytes()
        copy = self.directory / f"copy-{when}"
        shutil.copytree(data, copy)
        [database] = [path for path in copy.iterdir() if path.read_bytes()[:15] == b"SQLite format 3"]
        with sqlite3.connect(database) as db:
            self.places[f"{when}: as SQL"] = "\n".join(db.iterdump()).encode("utf-8", "surrogatepass")
        db.close()


def played(directory: Path, number: int, command: tuple[str, ...] = COMMAND) -> Scene:
    """A scene, to its end."""
    scene = Scene(directory, random.Random(number), command)
    scene.play()
    return scene


@pytest.mark.slow
def test_no_secret_stands_where_it_does_not_belong(tmp_path: Path, figures: Figures) -> None:
    for number in range(TURNS):
        scene = played(tmp_path / str(number), number)

        figures(
            "canaries",
            secrets=len(scene.canaries),
            writings=sum(len(canary.forms) for canary in scene.canaries),
            places=len(scene.places),
            bytes_searched=sum(map(len, scene.places.values())),
            refusals=scene.problems,
            found=len(found(scene.canaries, scene.places)),
        )
        assert found(scene.canaries, scene.places) == []


# ------------------------------------------------------------------------------------------------------- controls

LOGS_BODIES: Final = """
import logging
import askance_server.api.reports as reports
read = reports._outcome

def told(body, outcomes):
    logging.getLogger("askance").info("got %s", body.hex())
    return read(body, outcomes)

reports._outcome = told
"""
LOGS_TAGS: Final = """
import logging
from askance_server.auth import Keys
read = Keys.user_token

def told(self, header):
    logging.getLogger("askance").debug("from %s", (header or b"")[-43:].decode())
    return read(self, header)

Keys.user_token = told
"""
ANSWERS_WITH_TOKENS: Final = """
import askance_server.problems as problems
from askance_server.auth import Keys
read = Keys.read

def told(self, token, *kinds):
    try:
        return read(self, token, *kinds)
    except Exception as error:
        raise problems.ProblemError("forbidden", repr(token)) from error

Keys.read, problems.scrub = told, lambda text: text
"""
PLANTED: Final = {
    "a report's body in log": LOGS_BODIES,
    "token in log": LOGS_TAGS,
    "token in strange": ANSWERS_WITH_TOKENS,
}


@pytest.mark.slow
def test_control_a_server_that_tells_is_found(tmp_path: Path) -> None:
    # Each in a namespace of its own.
    program = "\n".join(f"exec({plant!r}, {{}})" for plant in PLANTED.values())
    program += "\nfrom askance_lab.cli import main; main()"
    command = (*COMMAND[: COMMAND.index("-c") + 1], program, *COMMAND[COMMAND.index("-c") + 2 :])
    scene = played(tmp_path / "scene", 1, command)
    told = found(scene.canaries, scene.places)

    for where in PLANTED:
        assert any(where in each for each in told), where


def test_control_one_line_in_any_writing_is_found() -> None:
    source = random.Random(5)
    secret, bits = source.randbytes(24), "".join(source.choices("01", k=D))
    token = Keys(bytes(range(32))).mint(UserToken(3, 0))
    canaries = [Canary.of("a body", secret), Canary.token("a token", token), Canary.example("an example", bits)]
    quiet = {"log": b'{"message": "a study begins"}\n' * 50}

    assert found(canaries, quiet) == []
    for canary in canaries:
        for form in canary.forms:
            assert found(canaries, {"log": quiet["log"] + b"x" + form + b"\n"}) != []
    # In the middle of something that is written in base64 as a whole, wherever it begins there.
    for before in range(3):
        around = base64.b64encode(b"?" * before + secret + b"??")
        assert found(canaries[:1], {"log": around}) == ["a body in log"]
    # Where it belongs it is no find.
    assert found([Canary.token("a token", token, allowed=["her wallet"])], {"her wallet": token.encode()}) == []
