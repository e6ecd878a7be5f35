"""A real server that is killed again and again while it writes, and what has to be true of its ledger afterwards.

Theory of operation
-------------------
*Servers.* This module, run as a program, forks for each start (`tests.harness.kills`): the child opens the ledger from
disk and serves it by uvicorn. It accepts from a listening socket that the test keeps, one for each server and its
successors: a client that connects while none is alive waits for the next, and does not go over to another replica for
good, which would leave servers without work where nothing is to be interrupted.

*Marks.* Where each server is in a write transaction. Nothing of this is in the server's own code; the ledger's class is
wrapped in the child.

*Evidence.* Clients note what they send before they send it, and what is acknowledged when they hear of it. `judge`
compares with the log, which it reads without the ledger's help:
acknowledged ⊆ tallied ⊆ sent, Σ charges = Σ spent ≤ Σ caps, and the ledger's own audit finds nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import sqlite3
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
import uvicorn
from psycopg.rows import TupleRow

from askance_protocol.budget import MICRO
from askance_protocol.reports import encode_report
from askance_protocol.rounds import RoundAnswered, RoundClosed, RoundState
from askance_protocol.tally import tally_round
from askance_server.app import create_app
from askance_server.auth import TokenFiles
from askance_server.ledger import Ledger, OutcomeColumn, Ticket, Users, Verdicts, open_ledger, postgres, sqlite
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres_ledger
from askance_server.ledger.postgres.seals import reports_sum
from askance_server.ledger.sqlite import FILE, SqliteLedger
from askance_server.ledger.sqlite.log import checksum
from askance_server.settings import Settings
from tests.harness.kills import TRIES, Deck, ForkServer, catch, ended, serve_forks, until
from tests.harness.marks import Marks
from tests.harness.postgres import MortalPostgres
from tests.harness.wire import Connection, LostError

Json = dict[str, Any]
Link = psycopg.Connection[TupleRow]

CAP: Final = 2 * MICRO
"""Two reports a user, and there are three studies."""
STUDIES: Final = 3
OUTCOMES: Final = 2
CONNECTIONS: Final = 48
USERS: Final = 750
"""How many enrol at a time."""
BATCH: Final = 50


# ----------------------------------------------------------------------------------------------------------- marks


class Where(IntEnum):
    """Where a server is, as far as its writing goes."""

    OUTSIDE = 0
    BEGUN = 1
    COMMITTING = 2


def where(marks: Marks) -> Where:
    """Where a server is, or was when it was killed."""
    return Where(marks[0])


def begun(marks: Marks) -> None:
    """In the server: a transaction is open."""
    marks[0] = Where.BEGUN
    marks.point()


def committing(marks: Marks) -> None:
    """In the server: all is written, and COMMIT comes next."""
    marks.point()
    marks[0] = Where.COMMITTING


def marks_of(folder: Path, slot: int) -> Marks:
    """The marks of a server and its successors."""
    return Marks(folder / f"marks-{slot}", 1)


def marked_sqlite(kind: type[SqliteLedger], marks: Marks) -> type[SqliteLedger]:
    """The embedded ledger, saying when it writes."""

    class Marked(kind):
        @contextmanager
        def _commit(self) -> Generator[sqlite3.Connection]:
            try:
                with super()._commit() as db:
                    begun(marks)
                    yield db
                    committing(marks)
            finally:
                marks[0] = Where.OUTSIDE

    return Marked


def marked_postgres(kind: type[PostgresLedger], marks: Marks) -> type[PostgresLedger]:
    """The PostgreSQL ledger, saying when it decides a group, and when it counts the use of a token."""
    decide, use = postgres_ledger._decide, postgres_ledger._use

    def using(link: Link, ticket: Ticket, count: int) -> Any:
        begun(marks)
        added = use(link, ticket, count)
        committing(marks)
        return added

    def marking(link: Link, *rest: Any) -> Any:
        link.execute("SELECT 1").fetchone()  # Until something is fetched, not even BEGIN was sent.
        begun(marks)
        decided = decide(link, *rest)
        committing(marks)
        return decided

    class Marked(kind):
        def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
            try:
                return super().charge(id_, users, outcomes)
            finally:
                marks[0] = Where.OUTSIDE

        def enrol(self, *given: Any, **named: Any) -> range:
            try:
                return super().enrol(*given, **named)
            finally:
                marks[0] = Where.OUTSIDE

    postgres_ledger._decide, postgres_ledger._use = marking, using
    return Marked


# ----------------------------------------------------------------------------------------------------------- twins


class AcknowledgesEarly(SqliteLedger):
    """Commits each group only when the fourth after it comes."""

    waiting = 0

    @contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        if self.waiting == 4:
            self._db.execute("COMMIT")
            self.waiting = 0
        if not self.waiting:
            self._db.execute("BEGIN IMMEDIATE")
        self.waiting += 1
        yield self._db
        self._seals.write(self._db)
        self._seals.committed()


class SpendsApart(SqliteLedger):
    """Writes what users have spent in one transaction, and their reports in the next."""

    charging = False

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """As it is, but for what `_commit` does with it."""
        self.charging = True
        try:
            return super().charge(id_, users, outcomes)
        finally:
            self.charging = False

    @contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        if self.charging:
            with super()._commit() as db:
                self._checkpoint(db)
                ((last, spent),) = db.execute("SELECT last_group, spent FROM checkpoints").fetchall()
                # As it will be once the group is written.
                row = (last + 1, checksum(last + 1, spent, b""))
                db.execute("UPDATE checkpoints SET last_group = ?, checksum = ?", row)
        with super()._commit() as db:
            yield db


class SpendsApartInPostgres(PostgresLedger):
    """The same over PostgreSQL."""

    def __init__(self, url: str, link: Link) -> None:
        super().__init__(url, link)
        postgres_ledger._store = _store_apart


def _store_apart(
    link: Link, key: int, group: postgres_ledger._Group, accepted: np.ndarray[Any, np.dtype[np.intp]]
) -> None:
    users, outcomes, charges = group.users[accepted], group.outcomes[accepted], group.charges[accepted]
    link.execute(
        "UPDATE users SET spent = spent + charge FROM unnest(%s, %s) AS given (who, charge) WHERE number = who",
        (users, charges),
    )
    link.execute("COMMIT")
    link.execute("BEGIN")
    link.execute(
        "INSERT INTO reports (round, user_number, outcome) SELECT %s, * FROM unnest(%s, %s)",
        (key, users, outcomes),
    )
    link.execute(
        "UPDATE received SET reports = reports + %s, seal = mod(seal + %s, 2::numeric ^ 64)"
        " WHERE round = %s AND shard = 0 RETURNING 1",
        (len(accepted), reports_sum(key, users, outcomes).sum, key),
    ).fetchone()


class OpensAgain(SqliteLedger):
    """Takes reports to a round that was closed by its deadline, if the clock says that it is earlier now."""

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """As it is, but for the state of the round."""
        if time.time() < self.round(id_).spec.deadline:
            self._states[id_] = RoundState.OPEN
        return super().charge(id_, users, outcomes)


class WritesLater(PostgresLedger):
    """Is told of a commit before it is on disk."""

    def __init__(self, url: str, link: Link) -> None:
        super().__init__(url, link)
        if postgres_ledger._decide is not _decide_unsafely:
            decides.append(postgres_ledger._decide)
            postgres_ledger._decide = _decide_unsafely


decides: Final[list[Callable[..., Any]]] = []
"""How `WritesLater` decides."""


def _decide_unsafely(link: Link, *rest: Any) -> Any:
    link.execute("SET LOCAL synchronous_commit = off")
    return decides[0](link, *rest)


SQLITE_KINDS: Final = {kind.__name__: kind for kind in (SqliteLedger, AcknowledgesEarly, SpendsApart)}
POSTGRES_KINDS: Final = {kind.__name__: kind for kind in (PostgresLedger, SpendsApartInPostgres, WritesLater)}


# ------------------------------------------------------------------------------------------------------ the program


def serve(database: str, folder: Path, kind: str, slot: int, listener: int, seconds: int) -> None:
    """In the child: serve until killed, with a clock that is so many seconds ahead."""
    clock = time.time
    time.time = lambda: clock() + seconds
    marks = marks_of(folder, slot)
    # Where `open_ledger` looks when it is called.
    if kind in SQLITE_KINDS:
        sqlite.SqliteLedger = marked_sqlite(SQLITE_KINDS[kind], marks)  # type: ignore[misc]
    else:
        postgres.PostgresLedger = marked_postgres(POSTGRES_KINDS[kind], marks)  # type: ignore[misc]
    settings = Settings(database=database, data_directory=folder / "data", cap=CAP, port=0)
    config = uvicorn.Config(
        create_app(settings), lifespan="on", ws="none", log_config=None, access_log=False, server_header=False
    )
    uvicorn.Server(config).run([socket.socket(fileno=listener)])


# --------------------------------------------------------------------------------------------------------- evidence


@dataclass
class Evidence:
    """What clients know, and how the servers died."""

    sent: dict[tuple[str, int], set[int]] = field(default_factory=dict[tuple[str, int], set[int]])
    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    conflicts: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])
    refused: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    studies: list[str] = field(default_factory=list[str])
    enrolled: int = 0
    faults: list[str] = field(default_factory=list[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    kills: Counter[str] = field(default_factory=Counter[str])

    def sends(self, round_: str, user: int, outcome: int) -> None:
        self.sent.setdefault((round_, user), set()).add(outcome)

    def hears(self, round_: str, user: int, outcome: int, answer: str) -> None:
        """The answer to a report. All but that a round is not open is for ever."""
        self.answers[answer] += 1
        if answer == "accepted" and self.acknowledged.setdefault((round_, user), outcome) != outcome:
            self.faults.append(f"user {user} has receipts for two outcomes")
        if answer == "conflict":
            self.conflicts.add((round_, user, outcome))
        if answer == "budget-exceeded":
            self.refused.add((round_, user))

    @property
    def inside(self) -> int:
        """Kills that landed inside an open write transaction."""
        return sum(count for where, count in self.kills.items() if where != Where.OUTSIDE.name)


def judge(database: str, evidence: Evidence) -> list[str]:
    """What is wrong with a ledger that was left behind."""
    with closing(open_ledger(database)) as ledger:
        rows = log_of(database)
        return [*evidence.faults, *_judge_reports(rows, evidence), *_judge_ledger(ledger, rows, evidence)]


Log = list[tuple[str, int, int]]
"""Round, user and outcome of each report."""


def log_of(database: str) -> Log:
    """All reports, those of a live round in the order in which they were accepted."""
    return _postgres_log(database) if "://" in database else _sqlite_log(Path(database))


def _sqlite_log(directory: Path) -> Log:
    rows: Log = []
    with closing(sqlite3.connect(directory / FILE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        query = "SELECT rounds.id, reports, users, outcomes FROM report_groups AS groups JOIN rounds ON number = round"
        for id_, count, users, outcomes in db.execute(f"{query} ORDER BY groups.id"):
            numbers = np.frombuffer(users, f"<u{len(users) // count}").tolist()
            reported = np.frombuffer(outcomes, f"<u{len(outcomes) // count}").tolist()
            rows += [(id_, user, outcome) for user, outcome in zip(numbers, reported, strict=True)]
    return rows


def _postgres_log(url: str) -> Log:
    query = "SELECT id, user_number, outcome FROM reports JOIN rounds ON key = round"
    groups = "SELECT id, users FROM arrivals JOIN rounds ON key = round ORDER BY round, place"
    with closing(psycopg.connect(url)) as link:
        rows: Log = link.execute(query).fetchall()  # pyright: ignore[reportAssignmentType]
        came = [(id_, user) for id_, users in link.execute(groups) for user in np.frombuffer(users, "<i8").tolist()]
    places = {key: place for place, key in enumerate(came)}
    return sorted(rows, key=lambda row: places.get(row[:2], -1))


def _judge_reports(rows: Log, evidence: Evidence) -> Iterator[str]:
    log = {(id_, user): outcome for id_, user, outcome in rows}
    if len(log) < len(rows):
        yield "a user stands twice in the log of a round"
    lost = [key for key, outcome in evidence.acknowledged.items() if log.get(key) != outcome]
    if lost:
        yield f"{len(lost)} reports were acknowledged and are not tallied"
    made_up = [key for key, outcome in log.items() if outcome not in evidence.sent.get(key, ())]
    if made_up:
        yield f"{len(made_up)} reports are tallied and were never sent"
    if any(log.get((id_, user), outcome) == outcome for id_, user, outcome in evidence.conflicts):
        yield "a report was a conflict, and there is no other"
    if not evidence.refused.isdisjoint(log):
        yield "a report is tallied that was beyond the budget"


def _judge_ledger(ledger: Ledger, rows: Log, evidence: Evidence) -> Iterator[str]:
    yield from (f"{fault.where}: {fault.what}" for fault in ledger.verify())
    charged: Counter[int] = Counter()
    for id_, user, _ in rows:
        charged[user] += ledger.round(id_).charge_of(user)
    for user in range(ledger.enrolled()):
        standing = ledger.standing(user)
        if not sum(c.micro_epsilon for c in standing.charges) == charged[user] == standing.account.spent <= CAP:
            yield f"user {user} has spent {standing.account.spent}, and her reports cost {charged[user]}"
    if ledger.enrolled() < evidence.enrolled:
        yield "enrolled users are gone"
    if not set(evidence.studies) <= set(ledger.studies()):
        yield "studies are gone"
    for study in ledger.studies():
        yield from _judge_study(ledger, study, rows)


def _judge_study(ledger: Ledger, study: str, rows: Log) -> Iterator[str]:
    """Tallies are what the log adds up to, the ledger's own and those on the bulletin."""
    published = {
        entry.notice.round: entry.notice.tallies
        for entry in ledger.entries(study)
        if isinstance(entry.notice, RoundAnswered)
    }
    closings = {
        entry.notice.round: entry.notice.received
        for entry in ledger.entries(study)
        if isinstance(entry.notice, RoundClosed)
    }
    for id_, _ in ledger.bulletin(study).rounds:
        mine = [(user, outcome) for round_, user, outcome in rows if round_ == id_]
        users, outcomes = np.array(mine, np.int64).reshape(-1, 2).T
        expected = tuple(tally.to_rows() for tally in tally_round(ledger.round(id_), users.astype(np.uint64), outcomes))
        counted = tuple(tally.to_rows() for tally in ledger.tallies(id_))
        if not expected == counted == published.get(id_, expected) or ledger.received(id_) != len(mine):
            yield f"round {id_} is not tallied as it was reported"
        if closings.get(id_, len(mine)) != len(mine):
            yield f"round {id_} has other reports than when it was closed"


# ---------------------------------------------------------------------------------------------------------- clients


def answer_of(status: int, body: bytes) -> str:
    """`accepted`, or the name of the problem."""
    return "accepted" if status == 200 else str(json.loads(body)["type"]).rpartition(":")[2]


@dataclass
class Task:
    """One report, until it was answered."""

    round: str
    user: int
    token: str
    outcome: int


@dataclass
class Crowd:
    """The clients of one campaign. What one server did not answer may be sent to another."""

    ports: Sequence[int]
    directory: Path
    random: random.Random
    evidence: Evidence
    tasks: deque[Task] = field(default_factory=deque[Task])
    batches: deque[tuple[str, str, list[int], list[int]]] = field(
        default_factory=deque[tuple[str, str, list[int], list[int]]]
    )
    rounds: deque[str] = field(default_factory=deque[str])
    heard: Counter[int] = field(default_factory=Counter[int])
    """How many reports each server has decided."""

    def run(self) -> list[asyncio.Task[None]]:
        """All clients, until they are cancelled."""
        reporters = (self.report(number % len(self.ports)) for number in range(CONNECTIONS))
        work = [self.operate(), self.deliver(), *reporters]
        return [asyncio.create_task(each) for each in work]

    @property
    def runs_out(self) -> bool:
        """Whether there is too little left to send."""
        return len(self.tasks) < 2 * CONNECTIONS

    async def settle(self) -> None:
        """What is left to do when all kills are done and all servers at work."""

    async def operate(self) -> None:
        """Enrol users, open studies for them, and close the rounds of those before, whenever reports run out."""
        client, files = Connection(self.ports[0]), TokenFiles.of(self.directory)
        try:
            while not files.enrolment.exists() or not files.operator.exists():
                await asyncio.sleep(0.01)
            operator, enrolment = files.operator.read_text().strip(), files.enrolment.read_text().strip()
            while True:
                if self.runs_out:
                    with contextlib.suppress(LostError):
                        await self._refill(client, operator, enrolment)
                await asyncio.sleep(0.01)
        finally:
            await client.close()

    async def _refill(self, client: Connection, operator: str, enrolment: str) -> None:
        users = await self._create(client, "/v1/enrolments", enrolment, {"users": USERS})
        first: int = users["user"]
        self.evidence.enrolled = max(self.evidence.enrolled, first + USERS)
        numbers, singles = range(first, first + USERS), range(first, first + USERS * 4 // 5)
        old = list(self.rounds)
        for number in range(STUDIES):
            asked = {"title": "A study", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True}
            study = await self._create(client, "/v1/studies", operator, asked)
            self.evidence.studies.append(study["id"])
            round_: str = study["rounds"][0]["id"]
            self.rounds.append(round_)
            tokens = zip(singles, users["tokens"], strict=False)
            self.tasks += [Task(round_, user, token, self.random.randrange(OUTCOMES)) for user, token in tokens]
            if number < CAP // MICRO:  # What a gateway's users cannot pay, it does not send: it hears only counts.
                self._queue_batches(round_, study["gateway_token"], numbers[len(singles) :])
        self.random.shuffle(self.tasks)
        for round_ in old:
            await client.post(f"/v1/rounds/{round_}/close", operator, b"")
            self.rounds.remove(round_)

    async def _create(self, client: Connection, path: str, token: str, asked: Json) -> Json:
        status, body = await client.post(path, token, json.dumps(asked).encode())
        if status == 503:
            self.evidence.answers[answer_of(status, body)] += 1
            raise LostError  # The database is away, or the disk full: whether it was done is not known.
        assert status == 201, body
        created: Json = json.loads(body)
        return created

    def _queue_batches(self, round_: str, token: str, users: range) -> None:
        for begin in range(users.start, users.stop, BATCH):
            some = list(range(begin, min(begin + BATCH, users.stop)))
            self.batches.append((round_, token, some, [self.random.randrange(OUTCOMES) for _ in some]))

    async def report(self, slot: int) -> None:
        """Send one report after the other; some again, some again with another outcome."""
        client = Connection(self.ports[slot])
        try:
            while True:
                if not self.tasks:
                    await asyncio.sleep(0.005)
                    continue
                task = self.tasks.popleft()
                self.evidence.sends(task.round, task.user, task.outcome)
                body = encode_report(task.outcome, OUTCOMES)
                try:
                    answer = answer_of(*await client.post(f"/v1/rounds/{task.round}/reports", task.token, body))
                except LostError:
                    self._again(task, change=0.3)
                    continue
                self.evidence.hears(task.round, task.user, task.outcome, answer)
                if answer == "not-ready":
                    await asyncio.sleep(0.1)  # A database that starts again needs the processor more than this does.
                else:
                    self.heard[slot] += 1
                if answer == "round-not-open" and self.random.random() < 0.8:
                    self.tasks.append(task)  # Perhaps another server, or another clock, takes it for open later.
                elif answer == "not-ready" or self.random.random() < 0.1:
                    self._again(task, change=0.5)
        finally:
            await client.close()

    def _again(self, task: Task, change: float) -> None:
        outcome = 1 - task.outcome if self.random.random() < change else task.outcome
        self.tasks.insert(
            self.random.randrange(min(len(self.tasks), 200) + 1), Task(task.round, task.user, task.token, outcome)
        )

    async def deliver(self) -> None:
        """A gateway: send batches, each until it is answered."""
        client = Connection(self.ports[-1])
        try:
            while True:
                await asyncio.sleep(0.005)
                if self.batches:
                    await self._deliver(client, *self.batches[0])
        finally:
            await client.close()

    async def _deliver(
        self, client: Connection, round_: str, token: str, users: list[int], outcomes: list[int]
    ) -> None:
        for user, outcome in zip(users, outcomes, strict=True):
            self.evidence.sends(round_, user, outcome)
        body = json.dumps({"users": users, "outcomes": outcomes}).encode()
        try:
            status, answer = await client.post(f"/v1/rounds/{round_}/batches", token, body)
        except LostError:
            return
        if status == 503:
            self.evidence.answers[answer_of(status, answer)] += 1
            return
        self.batches.popleft()
        if status != 200:
            # A ledger that has lost a round that it published, for one.
            self.evidence.faults.append(f"a batch to a round that was open met {status}: {answer[:200]!r}")
            return
        if not json.loads(answer)["refused"]:
            for user, outcome in zip(users, outcomes, strict=True):
                self.evidence.hears(round_, user, outcome, "accepted")


# --------------------------------------------------------------------------------------------------------- campaigns


MODES: Final = ("starting", "blind", "caught", "caught", "caught", "held", "held", "held")


@dataclass
class Killer:
    """Ends servers, and starts them again."""

    forks: ForkServer
    marks: list[Marks]
    crowd: Crowd
    random: random.Random
    postgres: MortalPostgres | None = None
    clocks: Sequence[int] = (0,)
    pids: dict[int, int] = field(default_factory=dict[int, int])

    async def run(self, kills: int) -> None:
        """This many kills; at the end all servers are at work again."""
        deck = Deck(MODES, self.random)
        for slot in range(len(self.marks)):
            await self._start(slot)
        for _ in range(kills):
            await self._kill(deck.deal())
        for slot in self.pids:
            await self._under_load(slot)
        await self.crowd.settle()

    async def _start(self, slot: int) -> None:
        self.marks[slot].clear()
        self.pids[slot] = await self.forks.start(f"{slot} {self.random.choice(self.clocks)}")

    async def _kill(self, mode: str) -> None:
        """One server, in one of the ways, and start it again."""
        slot = self.random.choice(sorted(self.pids))
        marks, pid = self.marks[slot], self.pids[slot]
        if mode != "starting":
            await self._under_load(slot)
        await asyncio.sleep(self.random.uniform(0, 0.05))
        if mode == "held":
            marks.hold(self.random.randint(1, 20))  # Each transaction has two points.
            await self._until(lambda: marks.held, f"server {slot} comes to the end of no transaction")
        elif mode == "caught":
            await catch(pid, lambda: self._sight(marks), lambda: where(marks) is not Where.OUTSIDE)
        await self.forks.kill(self.pids.pop(slot))
        self.crowd.evidence.kills[where(marks).name] += 1
        await self._start(slot)

    def _sight(self, marks: Marks) -> Callable[[], bool]:
        awaited = self.random.choice((Where.BEGUN, Where.COMMITTING))
        return lambda: where(marks) is awaited

    async def _under_load(self, slot: int) -> None:
        """Until the clients of this server hear answers again."""
        enough = self.crowd.heard[slot] + CONNECTIONS // len(self.marks)
        await self._until(lambda: self.crowd.heard[slot] > enough, f"server {slot} does not answer")

    async def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait, as long as all servers live."""

        def holds() -> bool:
            dead = [slot for slot, pid in self.pids.items() if ended(pid)]
            assert not dead, f"servers {dead} ended by themselves: see the log"
            return condition()

        await until(holds, otherwise)


class DatabaseKiller(Killer):
    """Freezes and ends the database instead; servers outlive it, and go on when it is there again."""

    async def run(self, kills: int) -> None:
        deck = Deck(("blind", "caught", "caught", "held", "one"), self.random)
        for slot in range(len(self.marks)):
            await self._start(slot)
        for _ in range(kills):
            for slot in self.pids:
                await self._under_load(slot)
            await self._end_database(deck.deal())
        for slot in self.pids:
            await self._under_load(slot)

    async def _end_database(self, mode: str) -> None:
        assert self.postgres is not None
        await asyncio.sleep(self.random.uniform(0, 0.05))
        slot = self.random.choice(sorted(self.pids))
        if mode == "held":
            # A server that waits in its transaction loses it, and is killed with the database.
            self.marks[slot].hold(self.random.randint(1, 20))
            await self._until(lambda: self.marks[slot].held, f"server {slot} comes to the end of no transaction")
            await self.forks.kill(self.pids.pop(slot))
        if mode == "caught":
            await self._freeze_inside()
        begun = [place for place in map(where, self.marks) if place is not Where.OUTSIDE]
        self.crowd.evidence.kills[max(begun, default=Where.OUTSIDE).name] += 1
        end = self.postgres.kill_one if mode == "one" else self.postgres.kill
        await asyncio.to_thread(end)
        if slot not in self.pids:
            await self._start(slot)

    async def _freeze_inside(self) -> None:
        """Stop the database until a server is found to wait for it inside a transaction; then for a moment more."""
        assert self.postgres is not None
        for _ in range(TRIES):
            processes = self.postgres.freeze()
            await asyncio.sleep(0.02)
            if any(where(marks) is not Where.OUTSIDE for marks in self.marks):
                await asyncio.sleep(self.random.uniform(0, 0.2))
                return
            self.postgres.thaw(processes)
            await asyncio.sleep(0.002)


@dataclass(frozen=True)
class Campaign:
    """A ledger, of what kind its servers make it, and how many of them there are at a time."""

    folder: Path
    database: str
    kind: str
    replicas: int = 1
    killer: type[Killer] = Killer
    postgres: MortalPostgres | None = None
    """The database's own processes, where they are what is killed."""
    clocks: Sequence[int] = (0,)
    """How many seconds a server's clock may be ahead; at each start it is another of these."""
    crowd: Callable[[Sequence[int], Path, random.Random, Evidence], Crowd] = Crowd
    program: str = "tests.server.ledger.crashing"

    @property
    def log(self) -> Path:
        """What the servers say."""
        return self.folder / "servers.log"

    def run(self, kills: int, seed: int) -> Evidence:
        """Kill this many servers under load; at the end none is left."""
        return asyncio.run(self._run(kills, seed))

    async def _run(self, kills: int, seed: int) -> Evidence:
        directory = self.folder / "data"
        directory.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as stack:
            slots = range(self.replicas)
            listeners = [stack.enter_context(listening()) for _ in slots]
            marks = [stack.enter_context(closing(marks_of(self.folder, slot))) for slot in slots]
            crowd = self.crowd(
                [listener.getsockname()[1] for listener in listeners], directory, random.Random(seed), Evidence()
            )
            numbers = [listener.fileno() for listener in listeners]
            arguments = (self.database, str(self.folder), self.kind, *map(str, numbers))
            async with ForkServer.open(self.program, *arguments, log=self.log, pass_fds=numbers) as forks:
                killer = self.killer(forks, marks, crowd, random.Random(seed), self.postgres, self.clocks)
                await storm(crowd, killer.run(kills))
        return crowd.evidence


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=1024)


async def storm(crowd: Crowd, work: Coroutine[Any, Any, None]) -> None:
    """Work while clients send. They never end by themselves: one that does has failed, and then so has the campaign."""
    tasks = [*crowd.run(), asyncio.create_task(work)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [end for end in ends if isinstance(end, Exception)]
    if failures:
        raise failures[0]


def program(database: str, folder: str, kind: str, *listeners: str) -> None:
    """Fork a server for each order: the number of its listening socket, and how far its clock is ahead."""

    def start(order: str) -> None:
        slot, seconds = map(int, order.split())
        serve(database, Path(folder), kind, slot, int(listeners[slot]), seconds)

    serve_forks(start)


if __name__ == "__main__":
    program(*sys.argv[1:])
