"""A real server that is killed again and again while it writes, and what has to be true of its ledger afterwards.

Theory of operation
-------------------
*Nursery.* To load what the server is made of takes a second, to open a ledger some milliseconds. So one process,
this module run as a program, loads everything once, and forks for each start: the child opens the ledger from disk
and serves it by uvicorn, as after any other start. It accepts from a listening socket that the test keeps, one for
each server and its successors: whoever connects while none is alive waits for the next, and has not gone over to
another replica for good, which would leave servers without work where nothing is to be interrupted.

*Marks.* Three bytes a server in memory that the test shares: where the server is in a write transaction, whether it
shall stop there, and whether it has. They outlive the process, so what they say after its end is where it was
killed: not an estimate. Nothing of this is in the server's own code; the ledger's class is wrapped in the child.

*Kills* come while a server starts, at random (blind), in a transaction that was seen to be open or about to commit
(caught), or in one that waits for its end before or after its statements (held). Who is caught is stopped first, and
looked at again: on a busy machine the transaction is often over by then, and it is let go until the next. What is
random comes from a seeded generator. Nothing goes by the clock but `SECONDS`, after which whatever is awaited is stuck.

*Evidence.* Clients note what they send before they send it, and what is acknowledged when they hear of it. `judge`
compares with the log, which it reads without the ledger's help:
acknowledged ⊆ tallied ⊆ sent, Σ charges = Σ spent ≤ Σ caps, and the ledger's own audit finds nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import mmap
import os
import random
import signal
import socket
import sqlite3
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import psycopg
import uvicorn
from psycopg import Connection
from psycopg.rows import TupleRow

from askance_protocol.budget import MICRO
from askance_protocol.reports import encode_report
from askance_protocol.rounds import RoundAnswered
from askance_protocol.tally import tally_round
from askance_server.app import create_app
from askance_server.auth import TokenFiles
from askance_server.ledger import Ledger, Outcomes, Users, Verdicts, open_ledger, postgres, sqlite
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres_ledger
from askance_server.ledger.sqlite import FILE, SqliteLedger
from askance_server.ledger.sqlite.log import checksum
from askance_server.settings import Settings

T = TypeVar("T")
Json = dict[str, Any]
Link = Connection[TupleRow]

CAP: Final = 2 * MICRO
"""Two reports a user, and there are three studies."""
STUDIES: Final = 3
OUTCOMES: Final = 2
CONNECTIONS: Final = 48
USERS: Final = 750
"""How many enrol at a time."""
BATCH: Final = 50
SECONDS: Final = 120
"""Whatever takes longer is stuck, on a slow machine that has much else to do as well."""


# ----------------------------------------------------------------------------------------------------------- marks


class Where(IntEnum):
    """Where a server is, as far as its writing goes."""

    OUTSIDE = 0
    BEGUN = 1
    COMMITTING = 2


class Marks:
    """What a server and its killer share."""

    def __init__(self, path: Path, slot: int) -> None:
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 0)
        self._where, self._hold, self._held = 3 * slot, 3 * slot + 1, 3 * slot + 2

    @staticmethod
    def make(path: Path, slots: int) -> None:
        """The shared bytes, before any server starts."""
        path.write_bytes(bytes(3 * slots))

    @property
    def where(self) -> Where:
        """Where the server is, or was when it died."""
        return Where(self._bytes[self._where])

    @property
    def held(self) -> bool:
        """Whether the server waits to be killed."""
        return bool(self._bytes[self._held])

    def clear(self) -> None:
        """Before the next start."""
        self._bytes[self._where] = self._bytes[self._hold] = self._bytes[self._held] = 0

    def hold(self, points: int) -> None:
        """Let the server stop at so many points from now; each transaction has two."""
        self._bytes[self._hold] = points

    def begun(self) -> None:
        """In the server: a transaction is open."""
        self._bytes[self._where] = Where.BEGUN
        self._point()

    def committing(self) -> None:
        """In the server: all is written, and COMMIT comes next."""
        self._point()
        self._bytes[self._where] = Where.COMMITTING

    def ended(self) -> None:
        """In the server: committed, or rolled back."""
        self._bytes[self._where] = Where.OUTSIDE

    def _point(self) -> None:
        if self._bytes[self._hold]:
            self._bytes[self._hold] -= 1
            if not self._bytes[self._hold]:
                self._bytes[self._held] = 1
                time.sleep(SECONDS)

    def close(self) -> None:
        """Let the memory go."""
        self._bytes.close()


def marked_sqlite(kind: type[SqliteLedger], marks: Marks) -> type[SqliteLedger]:
    """The embedded ledger, saying when it writes."""

    class Marked(kind):
        @contextmanager
        def _commit(self) -> Generator[sqlite3.Connection]:
            try:
                with super()._commit() as db:
                    marks.begun()
                    yield db
                    marks.committing()
            finally:
                marks.ended()

    return Marked


def marked_postgres(kind: type[PostgresLedger], marks: Marks) -> type[PostgresLedger]:
    """The PostgreSQL ledger, saying when it decides a group."""
    decide = postgres_ledger._decide

    def marking(link: Link, *rest: Any) -> Any:
        link.execute("SELECT 1").fetchone()  # Until something is fetched, not even BEGIN was sent.
        marks.begun()
        decided = decide(link, *rest)
        marks.committing()
        return decided

    class Marked(kind):
        def charge(self, id_: str, users: Users, outcomes: Outcomes) -> Verdicts:
            try:
                return super().charge(id_, users, outcomes)
            finally:
                marks.ended()

    postgres_ledger._decide = marking
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


class SpendsApart(SqliteLedger):
    """Writes what users have spent in one transaction, and their reports in the next."""

    charging = False

    def charge(self, id_: str, users: Users, outcomes: Outcomes) -> Verdicts:
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
        "UPDATE received SET reports = reports + %s WHERE round = %s AND shard = 0 RETURNING 1", (len(accepted), key)
    ).fetchone()


SQLITE_KINDS: Final = {kind.__name__: kind for kind in (SqliteLedger, AcknowledgesEarly, SpendsApart)}
POSTGRES_KINDS: Final = {kind.__name__: kind for kind in (PostgresLedger, SpendsApartInPostgres)}


# ----------------------------------------------------------------------------------------------------- the nursery


def nursery(database: str, directory: str, kind: str, marks: str, *listeners: str) -> None:
    """The program: `start SLOT` forks a server and says its number, `reap PID` says when that one is gone."""
    children: set[int] = set()
    try:
        for line in sys.stdin:
            command, number = line.split()
            if command == "start":
                pid = os.fork()
                if not pid:
                    slot = int(number)
                    _serve(database, Path(directory), kind, Marks(Path(marks), slot), int(listeners[slot]))
                children.add(pid)
                print(pid, flush=True)
            else:
                os.waitpid(int(number), 0)
                children.remove(int(number))
                print("gone", flush=True)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(database: str, directory: Path, kind: str, marks: Marks, listener: int) -> None:
    """In the child: serve until killed."""
    # No server outlives the process that started it: PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    # Where `open_ledger` looks when it is called.
    if kind in SQLITE_KINDS:
        sqlite.SqliteLedger = marked_sqlite(SQLITE_KINDS[kind], marks)  # type: ignore[misc]
    else:
        postgres.PostgresLedger = marked_postgres(POSTGRES_KINDS[kind], marks)  # type: ignore[misc]
    settings = Settings(database=database, data_directory=directory, cap=CAP, port=0)
    config = uvicorn.Config(
        create_app(settings), lifespan="on", ws="none", log_config=None, access_log=False, server_header=False
    )
    try:
        uvicorn.Server(config).run([socket.socket(fileno=listener)])
    finally:
        os._exit(1)


@dataclass
class Nursery:
    """The program at work."""

    process: asyncio.subprocess.Process

    @classmethod
    async def open(cls, *arguments: str, listeners: Sequence[socket.socket], log: Path) -> Nursery:
        """Start the program; it waits for commands."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        descriptors = [listener.fileno() for listener in listeners]
        command = (sys.executable, __file__, *arguments, *map(str, descriptors))
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
                pass_fds=descriptors,
            )
        return cls(process)

    async def start(self, slot: int) -> int:
        """A new server; its process."""
        return int(await self._ask(f"start {slot}"))

    async def kill(self, pid: int) -> None:
        """The end of a server, by SIGKILL; it is gone when this returns."""
        os.kill(pid, signal.SIGKILL)
        await self._ask(f"reap {pid}")

    async def _ask(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n".encode())
        answer = await asyncio.wait_for(self.process.stdout.readline(), SECONDS)
        assert answer, "the nursery is gone: see its log"
        return answer.decode()

    async def close(self) -> None:
        """No commands any more: it ends, and its servers with it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), SECONDS)


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
        rows = _postgres_log(database) if "://" in database else _sqlite_log(Path(database))
        return [*evidence.faults, *_judge_reports(rows, evidence), *_judge_ledger(ledger, rows, evidence)]


Log = list[tuple[str, int, int]]


def _sqlite_log(directory: Path) -> Log:
    rows: Log = []
    with closing(sqlite3.connect(directory / FILE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        query = "SELECT rounds.id, reports, users, outcomes FROM report_groups JOIN rounds ON number = round"
        for id_, count, users, outcomes in db.execute(query):
            numbers = np.frombuffer(users, f"<u{len(users) // count}").tolist()
            reported = np.frombuffer(outcomes, f"<u{len(outcomes) // count}").tolist()
            rows += [(id_, user, outcome) for user, outcome in zip(numbers, reported, strict=True)]
    return rows


def _postgres_log(url: str) -> Log:
    query = "SELECT id, user_number, outcome FROM reports JOIN rounds ON key = round"
    with closing(psycopg.connect(url)) as link:
        return link.execute(query).fetchall()  # pyright: ignore[reportReturnType]


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
    for id_, _ in ledger.bulletin(study).rounds:
        mine = [(user, outcome) for round_, user, outcome in rows if round_ == id_]
        users, outcomes = np.array(mine, np.int64).reshape(-1, 2).T
        expected = tuple(tally.to_rows() for tally in tally_round(ledger.round(id_), users.astype(np.uint64), outcomes))
        counted = tuple(tally.to_rows() for tally in ledger.tallies(id_))
        if not expected == counted == published.get(id_, expected) or ledger.received(id_) != len(mine):
            yield f"round {id_} is not tallied as it was reported"


# ---------------------------------------------------------------------------------------------------------- clients


class Lost(Exception):
    """The connection broke, and nobody knows what became of the request."""


class Client:
    """One connection at a time, and requests one after the other on it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, token: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            if self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writer.write(head.encode() + body)
            answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answer.partition(b"content-length:")[2].partition(b"\r")[0])
            return int(answer.split(b" ", 2)[1]), await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            raise Lost from None

    async def close(self) -> None:
        """Hang up."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _answer(status: int, body: bytes) -> str:
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
    """How many reports each server has answered."""

    def run(self) -> list[asyncio.Task[None]]:
        """All clients, until they are cancelled."""
        reporters = (self.report(number % len(self.ports)) for number in range(CONNECTIONS))
        work = [self.operate(), self.deliver(), *reporters]
        return [asyncio.create_task(each) for each in work]

    async def operate(self) -> None:
        """Enrol users, open studies for them, and close the rounds of those before, whenever reports run out."""
        client, files = Client(self.ports[0]), TokenFiles.of(self.directory)
        try:
            while not files.enrolment.exists() or not files.operator.exists():
                await asyncio.sleep(0.01)
            operator, enrolment = files.operator.read_text().strip(), files.enrolment.read_text().strip()
            while True:
                if len(self.tasks) < 2 * CONNECTIONS:
                    with contextlib.suppress(Lost):
                        await self._refill(client, operator, enrolment)
                await asyncio.sleep(0.01)
        finally:
            await client.close()

    async def _refill(self, client: Client, operator: str, enrolment: str) -> None:
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

    async def _create(self, client: Client, path: str, token: str, asked: Json) -> Json:
        status, body = await client.post(path, token, json.dumps(asked).encode())
        assert status == 201, body
        created: Json = json.loads(body)
        return created

    def _queue_batches(self, round_: str, token: str, users: range) -> None:
        for begin in range(users.start, users.stop, BATCH):
            some = list(range(begin, min(begin + BATCH, users.stop)))
            self.batches.append((round_, token, some, [self.random.randrange(OUTCOMES) for _ in some]))

    async def report(self, slot: int) -> None:
        """Send one report after the other; some again, some again with another outcome."""
        client = Client(self.ports[slot])
        try:
            while True:
                if not self.tasks:
                    await asyncio.sleep(0.005)
                    continue
                task = self.tasks.popleft()
                self.evidence.sends(task.round, task.user, task.outcome)
                body = encode_report(task.outcome, OUTCOMES)
                try:
                    answer = _answer(*await client.post(f"/v1/rounds/{task.round}/reports", task.token, body))
                except Lost:
                    self._again(task, change=0.3)
                    continue
                self.heard[slot] += 1
                self.evidence.hears(task.round, task.user, task.outcome, answer)
                if answer == "not-ready" or self.random.random() < 0.1:
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
        client = Client(self.ports[-1])
        try:
            while True:
                await asyncio.sleep(0.005)
                if self.batches:
                    await self._deliver(client, *self.batches[0])
        finally:
            await client.close()

    async def _deliver(self, client: Client, round_: str, token: str, users: list[int], outcomes: list[int]) -> None:
        for user, outcome in zip(users, outcomes, strict=True):
            self.evidence.sends(round_, user, outcome)
        body = json.dumps({"users": users, "outcomes": outcomes}).encode()
        try:
            status, answer = await client.post(f"/v1/rounds/{round_}/batches", token, body)
        except Lost:
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


TRIES: Final = 300
MODES: Final = ("starting", "blind", "caught", "caught", "caught", "held", "held", "held")


@dataclass
class Killer:
    """Ends servers, and starts them again."""

    nursery: Nursery
    marks: list[Marks]
    crowd: Crowd
    random: random.Random
    pids: dict[int, int] = field(default_factory=dict[int, int])
    _modes: list[str] = field(default_factory=list[str])

    async def run(self, kills: int) -> None:
        """So many kills; at the end all servers are at work again."""
        for slot in range(len(self.marks)):
            await self._start(slot)
        for _ in range(kills):
            await self._kill()
        for slot in self.pids:
            await self._under_load(slot)

    async def _start(self, slot: int) -> None:
        self.marks[slot].clear()
        self.pids[slot] = await self.nursery.start(slot)

    async def _kill(self) -> None:
        """One server, in one of the ways, and start it again."""
        # Dealt like cards, so that of any eight kills six aim inside.
        self._modes = self._modes or self.random.sample(MODES, len(MODES))
        slot, mode = self.random.choice(sorted(self.pids)), self._modes.pop()
        if mode != "starting":
            await self._under_load(slot)
        await asyncio.sleep(self.random.uniform(0, 0.05))
        if mode == "held":
            self.marks[slot].hold(self.random.randint(1, 20))
            await self._until(lambda: self.marks[slot].held, f"server {slot} comes to the end of no transaction")
        elif mode == "caught":
            await self._catch(slot)
        await self.nursery.kill(self.pids.pop(slot))
        self.crowd.evidence.kills[self.marks[slot].where.name] += 1
        await self._start(slot)

    async def _under_load(self, slot: int) -> None:
        """Until the clients of this server hear answers again."""
        enough = self.crowd.heard[slot] + CONNECTIONS // len(self.marks)
        await self._until(lambda: self.crowd.heard[slot] > enough, f"server {slot} does not answer")

    async def _catch(self, slot: int) -> None:
        """Stop the server in a transaction; one that slips away so often is killed where it is, and counted so."""
        pid, marks = self.pids[slot], self.marks[slot]
        for _ in range(TRIES):
            if _seen(marks, self.random.choice((Where.BEGUN, Where.COMMITTING))):
                os.kill(pid, signal.SIGSTOP)
                await self._until(lambda: _state(pid) == "T", f"server {slot} does not stop")
                if marks.where is not Where.OUTSIDE:
                    return
                os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.001)

    async def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait, as long as all servers live."""
        end = time.monotonic() + SECONDS
        while not condition():
            dead = [slot for slot, pid in self.pids.items() if _state(pid) == "Z"]
            assert not dead, f"servers {dead} ended by themselves: see the log"
            assert time.monotonic() < end, f"{otherwise}: see the log"
            await asyncio.sleep(0.001)


def _seen(marks: Marks, awaited: Where) -> bool:
    """Look without a pause, for a moment: a transaction is over sooner than a task that sleeps wakes up."""
    end = time.monotonic() + 0.003
    while time.monotonic() < end:
        if marks.where is awaited:
            return True
    return False


def _state(pid: int) -> str:
    """As Linux says it: T is stopped, Z is dead and not yet reaped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@dataclass(frozen=True)
class Campaign:
    """A ledger, of what kind its servers make it, and how many of them there are at a time."""

    folder: Path
    database: str
    kind: str
    replicas: int = 1

    @property
    def log(self) -> Path:
        """What the servers say."""
        return self.folder / "servers.log"

    def run(self, kills: int, seed: int) -> Evidence:
        """Kill so many servers under load; at the end none is left."""
        return asyncio.run(self._run(kills, seed))

    async def _run(self, kills: int, seed: int) -> Evidence:
        directory = self.folder / "data"
        directory.mkdir(mode=0o700, exist_ok=True)
        Marks.make(self.folder / "marks", self.replicas)
        marks = [Marks(self.folder / "marks", slot) for slot in range(self.replicas)]
        arguments = (self.database, str(directory), self.kind, str(self.folder / "marks"))
        with ExitStack() as stack:
            listeners = [stack.enter_context(_listener()) for _ in marks]
            for each in marks:
                stack.callback(each.close)
            nursery = await Nursery.open(*arguments, listeners=listeners, log=self.log)
            ports = [listener.getsockname()[1] for listener in listeners]
            crowd = Crowd(ports, directory, random.Random(seed), Evidence())
            try:
                await _storm(Killer(nursery, marks, crowd, random.Random(seed)), kills)
            finally:
                await nursery.close()
        return crowd.evidence


def _listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=1024)


async def _storm(killer: Killer, kills: int) -> None:
    """Kill while clients send. They never end by themselves: one that does has failed, and then so has the campaign."""
    tasks = [*killer.crowd.run(), asyncio.create_task(killer.run(kills))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [end for end in ends if isinstance(end, Exception)]
    if failures:
        raise failures[0]


if __name__ == "__main__":
    nursery(*sys.argv[1:])
