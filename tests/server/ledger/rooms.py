"""A room whose servers are killed again and again: what is told of its open rounds, and whom its codes let in.

Theory of operation
-------------------
*The room* (`Room`) is the clients of a campaign (`crashing`). People come with one-time codes, some two with one code;
each enrols by a key of her own and reports, and asks again, with the same key and the same bytes, as long as nobody
answers. Watchers look at the tallies of open rounds all the time, and note what they see and in which life of the
servers.

*The judge* (`judge_room`) compares with the log in its order, read without the ledger's help. What was told of a row of
a part is its first reports; two counts of a row that were ever told, the last one included, are the same or differ by a
step; none goes back; what a closed round tells is all of its log. A code that was used has let in one user, whoever
asks afterwards, and no code is used up with nobody there.

*Twins.* One tells steps that it counts from its own start. One writes the user first and marks her code in the next
transaction, one the other way round.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from askance_protocol.reports import encode_report
from askance_protocol.rounds import RoundState
from askance_protocol.tally import Tally, tally_round
from askance_server import driver
from askance_server.ledger import Ledger, Ticket, UserKind, open_ledger
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.live import LiveTallies
from tests.harness.kills import until
from tests.harness.wire import Connection, LostError
from tests.server.ledger.crashing import (
    CONNECTIONS,
    OUTCOMES,
    SQLITE_KINDS,
    Campaign,
    Crowd,
    Log,
    answer_of,
    judge,
    log_of,
    program,
)
from tests.server.ledger.ledgers import first_reports

STEP: Final = 5
PEOPLE: Final = 200
"""How many codes there are for a question, and at how many answers it ends."""
SHARED: Final = 5
"""Of so many codes one is given to two people."""
WATCHERS: Final = 3
"""At each server."""
FIELDS: Final = (
    ({"kind": "category", "name": "answer", "values": ["yes", "no"], "gap": True}, OUTCOMES),
    ({"kind": "integer", "name": "answer", "low": 1, "high": 3, "gap": True}, 4),
)
"""What is asked in turn, and how many outcomes there are: a scale is two questions, each of half of the people."""

# ----------------------------------------------------------------------------------------------------------- twins


class CountsFromItsStart(LiveTallies):
    """Tells whole steps of what came since this server was started, and before that all there was."""

    def of(self, round_id: str) -> Sequence[Tally]:
        """As it is, but for the number that steps are counted from: it stands in memory alone."""
        round_ = self.ledger.round(round_id)
        step = round_.study.live
        if step is None or self.ledger.state(round_id) is not RoundState.OPEN:
            return ()
        received = self.ledger.received(round_id)
        begin = starts.setdefault(round_id, received)
        told = max(0, begin + step * ((received - begin) // step) - step)
        return tally_round(round_, *first_reports(self.ledger, round_id, told))


starts: Final[dict[str, int]] = {}
"""Of each round, how many reports there were when its steps began to be counted."""


class TellsAnew(SqliteLedger):
    """A server on it counts steps from its own start."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        driver.LiveTallies = CountsFromItsStart  # type: ignore[misc]


class MarksApart(SqliteLedger):
    """Writes a new user in one transaction, and marks her code in another."""

    before: bool
    """Whether the code is marked first."""

    def enrol(
        self,
        count: int,
        cap: int,
        kind: UserKind = UserKind.UNKNOWN,
        *,
        ticket: Ticket | None = None,
        most: int = 1 << 48,
        key: str | None = None,
    ) -> range:
        """As it is, in two steps."""
        with self.alone:
            if ticket is None or (key is not None and self._let_in(key)):
                return super().enrol(count, cap, kind, most=most, key=key)
            used = ticket.used(self._let_in(ticket.id), count)
            if self.before:
                self._mark(ticket, used)
                self._linger()
            users = super().enrol(count, cap, kind, most=most, key=key)
            if not self.before:
                self._linger()
                self._mark(ticket, used)
            return users

    def _mark(self, ticket: Ticket, used: int) -> None:
        with self._commit() as db:
            self._keep_ticket(db, ticket, used)

    def _linger(self) -> None:
        """Write something else between the two, so that more kills land there."""
        for _ in range(4):
            self._beat()


class MarksLate(MarksApart):
    """First the user, then her code."""

    before = False


class MarksEarly(MarksApart):
    """First the code, then its user."""

    before = True


# -------------------------------------------------------------------------------------------------------- the room


@dataclass
class Person:
    """Somebody with a code, until she has answered the question."""

    round: str
    outcomes: int
    code: str
    key: str
    outcome: int
    token: str = ""
    """What she reports with, once she is enrolled."""
    user: int = -1


@dataclass(frozen=True, slots=True)
class Look:
    """What a watcher saw of a round."""

    watcher: int
    life: int
    """How often a server had been killed by then."""
    round: str
    state: str
    tallies: list[list[list[int]]]

    @property
    def told(self) -> int:
        """Of how many reports."""
        return sum(count for part in self.tallies for row in part for count in row)


@dataclass
class Code:
    """A one-time code, and what came of it."""

    users: set[int] = field(default_factory=set[int])
    refused: bool = False
    in_doubt: bool = False
    """Whether a server was lost while it was used."""


@dataclass
class Room(Crowd):
    """People, watchers, and who asks them."""

    people: list[Person] = field(default_factory=list[Person])
    codes: defaultdict[str, Code] = field(default_factory=lambda: defaultdict[str, Code](Code))
    looks: list[Look] = field(default_factory=list[Look])
    asked: list[str] = field(default_factory=list[str])
    """All rounds."""
    busy: int = 0
    """People whom a server has not answered yet."""
    settling: bool = False

    def run(self) -> list[asyncio.Task[None]]:
        """Everybody, until they are cancelled."""
        ports = self.ports
        work: list[Coroutine[Any, Any, None]] = [self.operate()]
        work += [self.attend(number % len(ports)) for number in range(CONNECTIONS)]
        # Some at each server, and one that goes from server to server.
        views = [*([port] for port in ports for _ in range(WATCHERS)), *([ports] if len(ports) > 1 else [])]
        work += [self.watch(watcher, view) for watcher, view in enumerate(views)]
        return [asyncio.create_task(each) for each in work]

    @property
    def runs_out(self) -> bool:
        """Whether there are too few left who have not answered."""
        return not self.settling and len(self.people) < 2 * CONNECTIONS

    async def _refill(self, client: Connection, operator: str, enrolment: str) -> None:
        """Another question, with codes for it; the question before the last is closed."""
        del enrolment
        field_, outcomes = FIELDS[len(self.asked) % len(FIELDS)]
        asked = {
            "title": "Tea?",
            "strategy": "poll",
            "parameters": {"ask": "Tea?", "users": PEOPLE},
            "example": {"fields": [field_]},
            "live": STEP,
        }
        made = await self._create(client, "/v1/enrolment-codes", operator, {"codes": PEOPLE, "seconds": 3600})
        study = await self._create(client, "/v1/studies", operator, asked)
        self.evidence.studies.append(study["id"])
        round_ = study["rounds"][0]["id"]
        for number, code in enumerate(made["codes"]):
            for _ in range(1 if number % SHARED else 2):
                key, outcome = secrets.token_hex(16), self.random.randrange(OUTCOMES)
                self._later(Person(round_, outcomes, code, key, outcome))
        self.asked.append(round_)
        for old in self.asked[-3:-2]:
            await client.post(f"/v1/rounds/{old}/close", operator, b"")

    def _later(self, person: Person) -> None:
        self.people.insert(self.random.randrange(min(len(self.people), PEOPLE) + 1), person)

    async def attend(self, slot: int) -> None:
        """One person after the other: let her enrol, or report; as long as nobody answers, again."""
        client = Connection(self.ports[slot])
        try:
            while True:
                if not self.people:
                    await asyncio.sleep(0.005)
                    continue
                person = self.people.pop()
                self.busy += 1
                step = self._report if person.token else self._enrol
                try:
                    goes_on = await step(client, person)
                    self.heard[slot] += 1
                except LostError:
                    goes_on = True
                    self.codes[person.code].in_doubt |= not person.token
                self.busy -= 1
                if goes_on:
                    self._later(person)
        finally:
            await client.close()

    async def _enrol(self, client: Connection, person: Person) -> bool:
        """Whether she has anything left to do."""
        code = self.codes[person.code]
        body = json.dumps({"key": person.key}).encode()
        status, answer = await client.post("/v1/enrolments", person.code, body)
        if status == 503:
            raise LostError
        if status == 201:
            told = json.loads(answer)
            person.token, person.user = told["token"], told["user"]
            code.users.add(person.user)
            self.evidence.enrolled = max(self.evidence.enrolled, person.user + 1)
            return True
        assert answer_of(status, answer) == "enrolment-over", answer
        code.refused = True
        return False

    async def _report(self, client: Connection, person: Person) -> bool:
        self.evidence.sends(person.round, person.user, person.outcome)
        body = encode_report(person.outcome, person.outcomes)
        answer = answer_of(*await client.post(f"/v1/rounds/{person.round}/reports", person.token, body))
        self.evidence.hears(person.round, person.user, person.outcome, answer)
        assert answer in {"accepted", "round-not-open", "not-ready"}, answer
        # Some send the same once more.
        return answer == "not-ready" or (answer == "accepted" and self.random.random() < 0.1)

    async def watch(self, watcher: int, ports: Sequence[int]) -> None:
        """Look at the tallies of the last rounds, over and over."""
        clients, turn = [Connection(port) for port in ports], 0
        try:
            while True:
                await asyncio.sleep(0.002)
                turn += 1
                for round_ in self.asked[-3:]:
                    await self._look(clients[turn % len(clients)], watcher, round_)
        finally:
            for client in clients:
                await client.close()

    async def _look(self, client: Connection, watcher: int, round_: str) -> str:
        life = self.evidence.kills.total()
        try:
            status, answer = await client.get(f"/v1/rounds/{round_}/tally")
        except LostError:
            return ""
        if status == 503:
            return ""
        assert status == 200, answer
        told = json.loads(answer)
        self.looks.append(Look(watcher, life, round_, told["state"], told["tallies"]))
        return str(told["state"])

    async def settle(self) -> None:
        """Everybody is answered; strangers try the codes that were used when a server was lost; rounds are closed."""
        self.settling = True
        await until(lambda: not self.people and not self.busy, "not everybody is answered")
        client, operator = Connection(self.ports[0]), (self.directory / "operator.token").read_text().strip()
        try:
            for code in [text for text, code in self.codes.items() if code.in_doubt]:
                await self._enrol(client, Person("", 0, code, secrets.token_hex(16), 0))
            for round_ in self.asked:
                await client.post(f"/v1/rounds/{round_}/close", operator, b"")
                while await self._look(client, -1, round_) != "answered":
                    await asyncio.sleep(0.01)
        finally:
            await client.close()

    @property
    def watched_over_kills(self) -> int:
        """Rounds of which something was told in several lives."""
        lives = defaultdict[str, set[int]](set)
        for look in self.looks:
            if look.told and look.state == "open":
                lives[look.round].add(look.life)
        return sum(len(each) > 1 for each in lives.values())


# -------------------------------------------------------------------------------------------------------- the judge


def judge_room(database: str, room: Room) -> list[str]:
    """What is wrong with what was told and who was let in, besides what `judge` finds wrong with the ledger."""
    with closing(open_ledger(database)) as ledger:
        told = [*_judge_told(ledger, log_of(database), room.looks), *_judge_codes(ledger, room.codes)]
    return [*judge(database, room.evidence), *told]


def _judge_codes(ledger: Ledger, codes: dict[str, Code]) -> Iterator[str]:
    users = Counter(user for code in codes.values() for user in code.users)
    if any(len(code.users) > 1 for code in codes.values()):
        yield "a code has let in two users"
    if any(code.refused and not code.users for code in codes.values()):
        yield "a code is used up, and nobody was let in by it"
    if any(count > 1 for count in users.values()):
        yield "two codes have let in the same user"
    if set(users) != set(range(ledger.enrolled())):
        yield "somebody is enrolled whom no code has let in"


def _judge_told(ledger: Ledger, log: Log, looks: Sequence[Look]) -> Iterator[str]:
    reports = defaultdict[str, list[tuple[int, int]]](list)
    for id_, user, outcome in log:
        reports[id_].append((user, outcome))
    seen = defaultdict[str, list[Look]](list)
    for look in looks:
        seen[look.round].append(look)
    for id_, mine in seen.items():
        yield from _judge_round(ledger, id_, reports[id_], mine)


def _judge_round(ledger: Ledger, id_: str, reports: Sequence[tuple[int, int]], looks: Sequence[Look]) -> Iterator[str]:
    """What was told of one round: by each row of each part the counts that were told."""
    round_ = ledger.round(id_)
    users, outcomes = np.array(reports, np.int64).reshape(-1, 2).T
    parts, rows = round_.questions(users.astype(np.uint64))
    for part, count in enumerate(round_.rows):
        for row in range(count):
            came = outcomes[(parts == part) & (rows == row)].tolist()
            told = [(look, look.tallies[part][row]) for look in looks if look.tallies]
            yield from _judge_row(came, told)


def _judge_row(came: Sequence[int], told: Sequence[tuple[Look, list[int]]]) -> Iterator[str]:
    last = dict[int, int]()
    sizes = set[int]()
    for look, counts in told:
        size = sum(counts)
        if counts != [came[:size].count(outcome) for outcome in range(len(counts))]:
            yield "what was told is not of the first reports of the log"
        if look.state != "open" and size != len(came):
            yield "what a closed round tells is not all of its log"
        if size < last.get(look.watcher, 0):
            yield "what was told has gone back"
        last[look.watcher] = size
        sizes.add(size)
    if any(more - fewer < STEP for fewer, more in pairwise(sorted(sizes - {0}))):
        yield "what was told has grown by less than a step"


# ------------------------------------------------------------------------------------------------------ a campaign


def kill_room(folder: Path, database: str, kind: str, kills: int, seed: int, replicas: int = 1) -> Room:
    """Kill this many servers of a room; then let everybody come to the end."""
    rooms = list[Room]()

    def people(*given: Any) -> Room:
        rooms.append(Room(*given))
        return rooms[0]

    here = "tests.server.ledger.rooms"
    Campaign(folder, database, kind, replicas=replicas, crowd=people, program=here).run(kills, seed)
    return rooms[0]


if __name__ == "__main__":
    SQLITE_KINDS.update({kind.__name__: kind for kind in (TellsAnew, MarksLate, MarksEarly)})
    program(*sys.argv[1:])
