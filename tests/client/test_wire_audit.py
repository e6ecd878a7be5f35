"""What reaches the wire, audited: real users with real wallets, and the bytes that they hand to HTTP.

The server is a double in memory that answers honestly, but that it loses its first answer to every twentieth user, who
then sends again. All of a client is run except the HTTP library itself: that would take four fifths of the time, and
`test_client_kills` runs it. Users draw from the operating system, so each test may fail by chance: with 10⁻⁶ at most.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
import pytest

from askance_client import (
    BulletinReader,
    Identity,
    Patience,
    Refusal,
    Server,
    UnreachableError,
    User,
    Wallet,
    WalletFile,
)
from askance_client.transport.server import AnswerBounds
from askance_lab.experiments.audit import AuditVerdict, audit_counts
from askance_protocol.budget import MICRO
from askance_protocol.examples import Example
from askance_protocol.rounds import BinarySpec, Cohort, GeometricSpec, Part, PreparedRound
from tests.client.killing import DrawsAnew
from tests.client.liar import URL, Liar
from tests.harness.memory import in_memory
from tests.protocol.studies import HEIGHT, MASKED_BIT, MASKED_CELL, PARTS, SCHEMA, part, study

LOSES_EVERY = 20
"""5 % of the users."""
TOGETHER = 500
ONE_ATTEMPT = Patience(attempts=1, first=0, longest=0)

EPSILON = 2 * MICRO
USERS = 4_000
CONTROL_USERS = 20_000
"""Fresh noise on 5 % retries is then missed about once in ten million runs (by simulation: 5.5 deviations)."""


@pytest.fixture
def folder() -> Generator[Path]:
    """For wallets that are synced at each step, and lost with nothing."""
    with TemporaryDirectory(prefix="askance-wire-", dir=in_memory()) as made:
        yield Path(made)


BINARY = BinarySpec(micro_epsilon=EPSILON)
PLAIN = {"x": "01100101", "i": 5, "b": "1", "height": 0.0, "y": -1}
NEIGHBOURS: dict[str, tuple[Part, Mapping[str, Any], Mapping[str, Any]]] = {
    "boolean": (part(MASKED_BIT, BINARY, EPSILON), {"b": "0"}, {"b": "1"}),
    "real": (part(HEIGHT, BINARY, EPSILON), {"height": -1.0}, {"height": 1.0}),
    "real, geometric": (
        part(HEIGHT, GeometricSpec(micro_epsilon=EPSILON), EPSILON),
        {"height": -1.0},
        {"height": 1.0},
    ),
    "cell": (part(MASKED_CELL, BINARY, EPSILON), {"i": 0}, {"i": 5}),
}


class Wire(Server):
    """The way to an honest server that asks one thing, and what went over it: each user's bodies, in order."""

    def __init__(self, asked: Part) -> None:
        self._double = Liar.of(study(simulated=False, cap=asked.charge))
        self._charge = asked.charge
        self.round = self._double.ask(asked, cohort=Cohort(users=1 << 20))
        self.study = self._double.id
        self.bodies: dict[int, list[bytes]] = {}
        super().__init__(URL, patience=ONE_ATTEMPT, transport=httpx.MockTransport(self._double.handle))

    async def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, bounds: AnswerBounds
    ) -> tuple[int, bytes | Refusal, float]:
        if path == "/v1/me":
            return 200, self._me(_user(headers)), 0.0
        if path == f"/v1/rounds/{self.round}/reports":
            return 200, self._receipt(_user(headers), body), 0.0
        return await super()._exchange(method, path, headers, body, bounds)

    def _me(self, user: int) -> bytes:
        account = {"cap_micro_epsilon": EPSILON, "spent_micro_epsilon": 0, "remaining_micro_epsilon": EPSILON}
        return json.dumps({"user": user, **account, "charges": []}).encode()

    def _receipt(self, user: int, body: bytes) -> bytes:
        seen = self.bodies.setdefault(user, [])
        seen.append(body)
        if len(seen) == 1 and user % LOSES_EVERY == 0:
            raise httpx.ReadError("the answer is lost")
        return json.dumps({"user": user, "round": self.round, "charged": self._charge}).encode()


def _user(headers: Mapping[str, str]) -> int:
    return int(headers["Authorization"].removeprefix("Bearer "))


class Unpadded(User):
    """Writes her report as short as it can be."""

    def _draw(self, round_: PreparedRound, user: int) -> bytes:
        return json.dumps(json.loads(super()._draw(round_, user))).encode()


def went_out(folder: Path, asked: Part, change: Mapping[str, Any], users: int, kind: type[User] = User) -> Wire:
    """Let a number of users with one example send, each until she is answered."""
    return asyncio.run(_went_out(folder / "wallets", asked, Example.of(SCHEMA, {**PLAIN, **change}), users, kind))


async def _went_out(path: Path, asked: Part, example: Example, users: int, kind: type[User]) -> Wire:
    path.unlink(missing_ok=True)
    async with Wire(asked) as wire:
        with closing(WalletFile.open(path)) as file:
            file.add_all([(user, asked.charge, Identity(URL, user, str(user))) for user in range(users)])
            reader = BulletinReader(wire, wire.study)
            await reader.refresh()
            people = [kind(example, Wallet(file, owner)) for owner in file.owners()]
            for begin in range(0, users, TOGETHER):
                await asyncio.gather(*(_until_answered(each, reader) for each in people[begin : begin + TOGETHER]))
    return wire


async def _until_answered(user: User, reader: BulletinReader) -> None:
    results = []
    while not results:
        with suppress(UnreachableError):
            results = await user.answer(reader, refresh=False)


def outcomes_of(bodies: Sequence[bytes]) -> list[int]:
    return [int(json.loads(body)["outcome"]) for body in bodies]


def views(wire: Wire, round_: PreparedRound) -> np.ndarray[Any, Any]:
    """Count what was seen of each user: her outcome at her public row, or both outcomes if she sent twice."""
    once = np.zeros((round_.parts[0].rows, round_.outcomes), np.int64)
    twice = np.zeros((round_.outcomes, round_.outcomes), np.int64)
    for user, bodies in wire.bodies.items():
        match outcomes_of(bodies):
            case [outcome]:
                once[round_.question(user).row, outcome] += 1
            case [first, second]:
                twice[first, second] += 1
            case seen:
                raise AssertionError(seen)
    return np.concatenate([once.ravel(), twice.ravel()])


def prepared_by(asked: Part) -> PreparedRound:
    """The round, as everybody prepares it."""
    wire = Wire(asked)

    async def read() -> PreparedRound:
        async with wire:
            reader = BulletinReader(wire, wire.study)
            assert await reader.refresh() is None
            round_ = reader.history.rounds[wire.round]
            assert isinstance(round_, PreparedRound)
            return round_

    return asyncio.run(read())


@pytest.mark.slow
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_what_is_seen_of_a_user_tells_no_more_than_is_certified(folder: Path, name: str) -> None:
    asked, one, other = NEIGHBOURS[name]
    round_ = prepared_by(asked)
    here, there = (views(went_out(folder, asked, change, USERS), round_) for change in (one, other))
    audit = audit_counts(here, there)

    print(f"{name}: ε ≥ {audit.epsilon_lower_bound:.3f} of {audit.samples}")
    assert audit.verdict(round_.parts[0].channel.certified_micro_epsilon) is AuditVerdict.CONSISTENT
    # Not by blindness.
    assert audit.epsilon_lower_bound > 0.35 * EPSILON / MICRO


@pytest.mark.slow
def test_fresh_noise_on_retries_is_caught_where_both_reports_are_seen(folder: Path) -> None:
    asked, one, other = NEIGHBOURS["boolean"]
    round_ = prepared_by(asked)
    here, there = (views(went_out(folder, asked, change, CONTROL_USERS, DrawsAnew), round_) for change in (one, other))
    audit = audit_counts(here, there)

    print(f"fresh noise: ε ≥ {audit.epsilon_lower_bound:.3f} of {audit.samples}, at {audit.event}")
    assert audit.verdict(EPSILON) is AuditVerdict.VIOLATED
    assert audit.verdict(2 * EPSILON) is AuditVerdict.CONSISTENT


def lengths(folder: Path, asked: Part, kind: type[User] = User) -> set[int]:
    """The lengths of all bodies of a round, at both ends of what is asked."""
    ends = ({"height": -1.0, "i": 0, "b": "0"}, {"height": 1.0, "i": 7, "b": "1"})
    wires = [went_out(folder, asked, change, 100, kind) for change in ends]
    return {len(body) for wire in wires for bodies in wire.bodies.values() for body in bodies}


@pytest.mark.parametrize("name", PARTS)
def test_all_reports_of_a_round_have_one_length(folder: Path, name: str) -> None:
    assert len(lengths(folder, PARTS[name])) == 1


def test_reports_that_are_not_padded_are_found(folder: Path) -> None:
    assert len(lengths(folder, PARTS["real, geometric"], Unpadded)) == 2
