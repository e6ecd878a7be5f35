"""Real users in a process that is killed again and again while they answer, and what has to be true of them afterwards.

Theory of operation
-------------------
*Lives.* To load what a client is made of takes a second. So one process, this module run as a program (the nursery),
loads everything once and forks for each life: the child opens the wallet file from disk and lets its users answer round
after round, several at a time, until it is killed. The next life goes on with the same file.

*Wire.* Between the clients and a real `askance serve` there is a proxy in the process of the test. It notes the body of
each report that reaches it, and for some requests it hangs up: before the server hears of them, or after.

*Marks.* A few bytes in memory that nursery and child share: for each connection, where its user is on her way from the
server's word on her account (claim) to the note that she has a receipt (settle), and where the wallet file is in a
transaction. They outlive the child, so what they say after its end is where it was killed: not an estimate. Nothing of
this is in the client's own code; its classes have heirs here.

*Kills* come while a life begins (starting), at random under load (blind), where a user was seen to be at some point
(caught), or where one waits for it (held). What is random comes from a seeded generator, but for the reports:
those come from the operating system. Nothing goes by the clock but `SECONDS`, after which whatever is awaited is stuck.

*Evidence.* `judge` holds together what the proxy has seen, what the wallets say, what the server said of each user when
the last client had been killed, and its ledger after a last life in peace, in which everybody came to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import mmap
import os
import random
import signal
import sqlite3
import ssl
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx

from askance_client import (
    BulletinReader,
    Identity,
    Patience,
    Refusal,
    ReportState,
    Result,
    Server,
    UnreachableError,
    User,
    Wallet,
    count,
)
from askance_client.consent import AccountStatement
from askance_client.history import Pin
from askance_client.transport import Problem, Receipt
from askance_client.wallet import StoredReport, WalletFile
from askance_protocol.budget import MICRO, to_text
from askance_protocol.examples import Example
from askance_protocol.rounds import PreparedRound

if TYPE_CHECKING:  # The nursery needs nothing of a server, and would take a second longer to load.
    from askance_server.ledger.sqlite import SqliteLedger
    from tests.server.serving import ServerProcess

T = TypeVar("T")
Json = dict[str, Any]

LINES: Final = 4
"""Users who answer at a time."""
STUDIES: Final = 4
"""What a user is asked for, one round each."""
BLOCK: Final = 80
"""How many users come at a time, and the studies for them."""
CHARGE: Final = MICRO // 10
"""What a report costs. So little that two reports of one user are the same only half of the time."""
CAP: Final = STUDIES * CHARGE
SMALL_CAP: Final = 2 * CHARGE
SMALL_EVERY: Final = 8
"""Every so many users can pay for two rounds only, and refuse the others."""
SERVER_CAP: Final = "100"
PATIENCE: Final = Patience(attempts=3, first=0.001, longest=0.002)
NO_TLS: Final = ssl.create_default_context()
"""Nobody looks at it; to make one for each connection would take most of a life."""
SECONDS: Final = 120
"""Whatever takes longer is stuck, on a slow machine that has much else to do as well."""


# ----------------------------------------------------------------------------------------------------------- marks


class Where(IntEnum):
    """Where a user is in answering a round."""

    OUTSIDE = 0
    CLAIMED = 1
    """The server has said what it knows of her; she decides."""
    DRAWN = 2
    """Her report is in a transaction that has not ended, as far as she knows."""
    STORED = 3
    """It is on disk, and is not sent yet, or not again."""
    SENT = 4
    """Its last byte is on its way."""
    ANSWERED = 5
    """The receipt is here."""
    SETTLED = 6
    """That is written, in a transaction that has not ended as far as she knows."""


class Writing(IntEnum):
    """Where the wallet file is in a transaction."""

    NOTHING = 0
    BEGUN = 1
    COMMITTING = 2


class Marks:
    """What a life and its nursery share."""

    _HOLD, _HELD, _WRITING, _HEARD, _LINES = range(5)

    def __init__(self) -> None:
        self._bytes = mmap.mmap(-1, self._LINES + LINES)

    def clear(self, hold: int = 0) -> None:
        """Before the next life, which stops after so many points; 0: it does not."""
        self._bytes[:] = bytes(len(self._bytes))
        self._bytes[self._HOLD] = hold

    @property
    def where(self) -> list[Where]:
        """Where each user is, or was when the life ended."""
        return [Where(each) for each in self._bytes[self._LINES :]]

    @property
    def writing(self) -> Writing:
        """Where the wallet file is, or was."""
        return Writing(self._bytes[self._WRITING])

    @property
    def heard(self) -> bool:
        """Whether somebody had an answer to her report in this life."""
        return bool(self._bytes[self._HEARD])

    @property
    def held(self) -> bool:
        """Whether the life waits to be killed."""
        return bool(self._bytes[self._HELD])

    def stand(self, line: int, where: Where) -> None:
        """In the life: a user has come to here."""
        self._bytes[self._LINES + line] = where
        if where is Where.ANSWERED:
            self._bytes[self._HEARD] = 1
        if where is not Where.OUTSIDE:
            self.point()

    def write(self, writing: Writing) -> None:
        """In the life: the file has come to here."""
        self._bytes[self._WRITING] = writing

    def point(self) -> None:
        """In the life: a place to stop at."""
        if self._bytes[self._HOLD]:
            self._bytes[self._HOLD] -= 1
            if not self._bytes[self._HOLD]:
                self._bytes[self._HELD] = 1
                time.sleep(SECONDS)


@dataclass(frozen=True, slots=True)
class Mark:
    """One connection's."""

    marks: Marks
    line: int

    @property
    def where(self) -> Where:
        """Where its user is."""
        return self.marks.where[self.line]

    def __call__(self, where: Where) -> None:
        self.marks.stand(self.line, where)


class MarkedFile(WalletFile):
    """The wallet file, saying when it writes."""

    marks: Marks

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """As it is."""
        outermost = not self._db.in_transaction
        try:
            with super().transaction() as db:
                if outermost:
                    self.marks.write(Writing.BEGUN)
                yield db
                if outermost:
                    self.marks.point()
                    self.marks.write(Writing.COMMITTING)
        finally:
            if outermost:
                self.marks.write(Writing.NOTHING)
        if outermost:
            # It is on disk, and nobody who waits for that knows it yet.
            self.marks.point()


class MarkedWallet(Wallet):
    """A wallet, saying what is done with it."""

    def __init__(self, file: MarkedFile, owner: int, mark: Mark) -> None:
        super().__init__(file, owner)
        self.mark = mark

    def draw_and_store(
        self, study: str, pin: Pin, elsewhere: int, round_: str, charge: int, draw: Callable[[], bytes]
    ) -> StoredReport:
        """As it is."""
        kept = super().draw_and_store(study, pin, elsewhere, round_, charge, draw)
        self.mark(Where.DRAWN)
        return kept

    def settle(self, round_: str, state: ReportState) -> None:
        """As it is."""
        super().settle(round_, state)
        self.mark(Where.SETTLED)

    async def group_commit(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """As it is."""
        done = await super().group_commit(work, durable=durable)
        after = {Where.DRAWN: Where.STORED, Where.SETTLED: Where.OUTSIDE}
        self.mark(after.get(self.mark.where, self.mark.where))
        return done


class MarkedTransport(httpx.AsyncHTTPTransport):
    """Says when a report has left this process."""

    def __init__(self, mark: Mark) -> None:
        super().__init__(verify=NO_TLS, limits=httpx.Limits(max_connections=1))
        self._mark = mark

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As it is."""
        if request.method == "POST":
            request.extensions = {**request.extensions, "trace": self._trace}
        return await super().handle_async_request(request)

    async def _trace(self, event: str, _: Json) -> None:
        if event == "http11.send_request_body.complete":
            self._mark(Where.SENT)


class Line(Server):
    """One connection, saying what it is used for."""

    def __init__(self, url: str, mark: Mark) -> None:
        super().__init__(url, patience=PATIENCE, transport=MarkedTransport(mark))
        self._mark = mark

    async def statement(self, token: str) -> AccountStatement | Problem | Refusal:
        """As it is."""
        claim = await super().statement(token)
        self._mark(Where.CLAIMED)
        return claim

    async def send(self, round_: str, token: str, body: bytes) -> Receipt | Problem | Refusal:
        """As it is."""
        self._mark(Where.STORED)
        answer = await super().send(round_, token, body)
        self._mark(Where.ANSWERED)
        return answer


# ----------------------------------------------------------------------------------------------------------- twins


class DrawsAnew(User):
    """Stores her report before she sends it, and when it has to be sent again she randomizes again."""

    async def answer(self, reader: BulletinReader, *, refresh: bool = True, via: Server | None = None) -> list[Result]:
        """As it is."""
        self._again = {id_: round_ for id_, round_ in reader.history.rounds.items() if self._wallet.stored(id_)}
        return await super().answer(reader, refresh=refresh, via=via)

    async def _send(self, server: Server, report: StoredReport, identity: Identity) -> Result:
        again = self._again.get(report.round)
        if isinstance(again, PreparedRound):
            report = replace(report, body=self._draw(again, identity.user))
        return await super()._send(server, report, identity)


class StoresLate(MarkedWallet):
    """Stores a report when its receipt is here."""

    def __init__(self, file: MarkedFile, owner: int, mark: Mark) -> None:
        super().__init__(file, owner, mark)
        self._late: dict[str, Callable[[], StoredReport]] = {}

    def draw_and_store(
        self, study: str, pin: Pin, elsewhere: int, round_: str, charge: int, draw: Callable[[], bytes]
    ) -> StoredReport:
        """In memory, for the time being."""
        body = draw()
        store = super().draw_and_store
        self._late[round_] = lambda: store(study, pin, elsewhere, round_, charge, lambda: body)
        self.mark(Where.DRAWN)
        return StoredReport(round_, charge, body, ReportState.STORED)

    def settle(self, round_: str, state: ReportState) -> None:
        """Now it is time."""
        if round_ in self._late:
            self._late.pop(round_)()
        super().settle(round_, state)


@dataclass(frozen=True, slots=True)
class Kind:
    """Of which classes the users of a campaign are made."""

    user: type[User] = User
    wallet: type[MarkedWallet] = MarkedWallet


KINDS: Final = {
    "User": Kind(),
    "DrawsAnew": Kind(user=DrawsAnew),
    "StoresLate": Kind(wallet=StoresLate),
}


# ------------------------------------------------------------------------------------------------------------ lives


@dataclass(frozen=True, slots=True)
class Order:
    """One life, and how it ends."""

    blocks: list[list[str]]
    """The studies of each block of users."""
    seed: int
    mode: str
    delay: float = 0
    hold: int = 0
    sight: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """Where a life was when it ended."""

    where: list[int]
    writing: int
    code: int
    """0: by itself."""


@dataclass(slots=True)
class Life:
    """In the child: all users of a wallet file, until nobody has anything left to do."""

    url: str
    file: MarkedFile
    kind: Kind
    order: Order
    watches: dict[str, BulletinReader] = field(default_factory=dict[str, BulletinReader])
    results: list[Result] = field(default_factory=list[Result])

    async def run(self) -> None:
        """First whoever has a report that waits, then the others, in an order of chance."""
        dice = random.Random(self.order.seed)
        waiting = self.file.waiting()
        others = self.file.owners() if self.order.mode == "in peace" else unfinished(self.file)
        dice.shuffle(waiting)
        dice.shuffle(others)
        todo = list(dict.fromkeys(waiting + others))
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            lines = [Line(self.url, Mark(self.file.marks, line)) for line in range(LINES)]
            for line in lines:
                await stack.enter_async_context(line)
            await self._read(lines, {owner // BLOCK for owner in todo})
            todo.reverse()
            for number, line in enumerate(lines):
                group.create_task(self._visit_all(line, Mark(self.file.marks, number), todo))

    async def _read(self, lines: Sequence[Line], blocks: set[int]) -> None:
        for block in sorted(blocks):
            watches = [BulletinReader(line, study) for line, study in zip(lines, self.order.blocks[block], strict=True)]
            self.watches |= {watch.study: watch for watch in watches}
            await asyncio.gather(*map(_refreshed, watches))

    async def _visit_all(self, line: Line, mark: Mark, todo: list[int]) -> None:
        while todo:
            owner = todo.pop()
            wallet = self.kind.wallet(self.file, owner, mark)
            identity = wallet.identity
            assert identity is not None
            for study in self.order.blocks[owner // BLOCK]:
                example = Example(self.watches[study].history.study.example, (identity.user % 3 - 1,))
                user = self.kind.user(example, wallet)
                with contextlib.suppress(UnreachableError):
                    self.results += await user.answer(self.watches[study], refresh=False, via=line)
                mark(Where.OUTSIDE)


async def _refreshed(watch: BulletinReader) -> None:
    while not watch.history.heads:
        with contextlib.suppress(UnreachableError):
            assert await watch.refresh() is None


def unfinished(file: WalletFile) -> list[int]:
    """Who has not got a receipt for all that she can pay for."""
    query = (
        "SELECT id FROM owners WHERE min(cap, ?) > (SELECT coalesce(sum(charge), 0) FROM reports"
        " WHERE owner = id AND state <> 'kept') ORDER BY id"
    )
    return [owner for (owner,) in file.rows(query, (CAP,))]


def nursery(url: str, wallets: str, kind: str, results: str) -> None:
    """The program: for each order on a line, one life; then a line that says how it ended."""
    marks = Marks()
    asyncio.run(_load(url, marks))
    gc.freeze()  # Else each life would copy what it never changes.
    for line in sys.stdin:
        order = Order(**json.loads(line))
        marks.clear(order.hold)
        pid = os.fork()
        if not pid:
            _live(url, Path(wallets), KINDS[kind], order, marks, Path(results))
        print(json.dumps(asdict(_kill(pid, order, marks))), flush=True)


async def _load(url: str, marks: Marks) -> None:
    """What is loaded with the first request: here, and not in each life."""
    async with Line(url, Mark(marks, 0)) as line:
        with contextlib.suppress(UnreachableError):
            await line.studies()


def _live(url: str, wallets: Path, kind: Kind, order: Order, marks: Marks, results: Path) -> None:
    """In the child: until killed, or until all is done."""
    # No life outlives the nursery: PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    code = 1
    try:
        MarkedFile.marks = marks
        with closing(MarkedFile.open(wallets)) as file:
            life = Life(url, file, kind, order)
            asyncio.run(life.run())
            results.write_text(json.dumps(count(life.results)))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            sys.stderr.flush()
        os._exit(code)


def _kill(pid: int, order: Order, marks: Marks) -> End:
    """In the nursery: end a life as it was ordered, unless it ends before."""
    code = _await(pid, lambda: _ripe(order, marks))
    if code is None:
        time.sleep(order.delay)
        os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return End([*marks.where], marks.writing, code)


def _ripe(order: Order, marks: Marks) -> bool:
    match order.mode:
        case "starting":
            return True
        case "blind":
            return marks.heard
        case "caught":
            return order.sight in {marks.writing.name, *(each.name for each in marks.where)}
        case "held":
            return marks.held
        case _:
            return False


def _await(pid: int, condition: Callable[[], bool]) -> int | None:
    """Wait; the exit code, if the life ends before."""
    end = time.monotonic() + SECONDS
    while not condition():
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            return os.waitstatus_to_exitcode(status)
        assert time.monotonic() < end, "a life is stuck"
        time.sleep(0.0001)
    return None


# ------------------------------------------------------------------------------------------------------------- wire


@dataclass
class Proxy:
    """Between clients and server: notes each report, and hangs up now and then."""

    random: random.Random
    cuts: float
    """The share of requests at which it hangs up, half of them before the server hears of it."""
    port: int = 0
    upstream: int = 0
    """The server's port."""
    reports: list[tuple[str, str, bytes]] = field(default_factory=list[tuple[str, str, bytes]])
    """Token, round and body."""
    cut: Counter[str] = field(default_factory=Counter[str])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Take connections."""
        server = await asyncio.start_server(self._serve, "127.0.0.1")
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        up: asyncio.StreamWriter | None = None
        try:
            down, up = await asyncio.open_connection("127.0.0.1", self.upstream)
            while await self._pass_on(reader, writer, down, up):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            for each in (writer, up):
                if each is not None:
                    each.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        down: asyncio.StreamReader,
        up: asyncio.StreamWriter,
    ) -> bool:
        """One request and its answer; whether there may be another."""
        head, body = await self._message(reader)
        fate = self.random.random()
        if fate < self.cuts / 2:
            self.cut["before"] += 1
            return False
        up.write(head + body)
        answer = b"".join(await self._message(down))
        if fate < self.cuts:
            self.cut["after"] += 1
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def _message(self, reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
        """Head and body. A report is noted however much of its body has come."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0] or 0)
        try:
            body = await reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                self._note(head, error.partial)
            raise
        self._note(head, body)
        return head, body

    def _note(self, head: bytes, body: bytes) -> None:
        match head.split(b" ", 2)[:2]:
            case [b"POST", path] if path.startswith(b"/v1/rounds/") and path.endswith(b"/reports"):
                token = head.partition(b"Bearer ")[2].partition(b"\r")[0].decode()
                self.reports.append((token, path.split(b"/")[3].decode(), body))
            case _:
                pass


# --------------------------------------------------------------------------------------------------------- evidence


Rounds = dict[tuple[int, str], T]
"""Something for each user, by her number, and round."""


@dataclass
class Evidence:
    """What was seen of a campaign."""

    wire: Rounds[list[bytes]] = field(default_factory=lambda: defaultdict[tuple[int, str], list[bytes]](list))
    """All bodies that reached the wire."""
    kept: Rounds[StoredReport] = field(default_factory=dict[tuple[int, str], StoredReport])
    """What the wallets say in the end."""
    caps: dict[int, int] = field(default_factory=dict[int, int])
    known: Rounds[int] = field(default_factory=dict[tuple[int, str], int])
    """The charges in the wallets, after the last kill."""
    claimed: Rounds[int] = field(default_factory=dict[tuple[int, str], int])
    """The charges that the server spoke of, after the last kill."""
    charged: Rounds[int] = field(default_factory=dict[tuple[int, str], int])
    """The charges in its ledger, in the end."""
    tallied: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    faults: list[str] = field(default_factory=list[str])
    kills: Counter[str] = field(default_factory=Counter[str])
    """By the way they came."""
    where: Counter[str] = field(default_factory=Counter[str])
    """Users whom a kill found at each point."""
    writing: Counter[str] = field(default_factory=Counter[str])
    inside: int = 0
    """Kills that found somebody between claim and settle."""
    escaped: int = 0
    """Lives that were over before they were killed."""
    cut: Counter[str] = field(default_factory=Counter[str])
    last: Counter[str] = field(default_factory=Counter[str])
    """Results of the last life, that nobody disturbed."""

    def died(self, mode: str, end: End) -> None:
        """A kill."""
        self.kills[mode] += 1
        self.where.update(Where(each).name for each in end.where if each)
        self.writing[Writing(end.writing).name] += 1
        self.inside += any(end.where)

    @property
    def repeated(self) -> int:
        """Reports that were sent more than once."""
        return sum(len(bodies) > 1 for bodies in self.wire.values())

    def __str__(self) -> str:
        counters = {name: dict(getattr(self, name)) for name in ("kills", "where", "writing", "cut", "last")}
        return f"{self.inside} inside; {len(self.wire)} reports on the wire, {self.repeated} repeated; {counters}"


def judge(evidence: Evidence) -> list[str]:
    """What is wrong."""
    return [*evidence.faults, *_judge_wire(evidence), *_judge_accounts(evidence), *_judge_tallies(evidence)]


def _judge_wire(evidence: Evidence) -> Iterator[str]:
    several = [key for key, bodies in evidence.wire.items() if len(set(bodies)) > 1]
    if several:
        yield f"{len(several)} users have sent two bodies to one round"
    unknown = [key for key in evidence.wire if key not in evidence.kept]
    if unknown:
        yield f"{len(unknown)} reports were sent that no wallet knows"
    others = [key for key, kept in evidence.kept.items() if set(evidence.wire.get(key, ())) != {kept.body}]
    if others:
        yield f"{len(others)} wallets hold another report than the one that was sent"


def _judge_accounts(evidence: Evidence) -> Iterator[str]:
    if not evidence.claimed.items() <= evidence.known.items():
        yield "after the kills the server knows of a charge that a wallet does not know"
    if not evidence.known.items() <= {key: kept.charge for key, kept in evidence.kept.items()}.items():
        yield "a wallet has forgotten a charge"
    if evidence.charged != {key: kept.charge for key, kept in evidence.kept.items()}:
        yield "in the end the charges of wallets and server differ"
    yield from _judge_ends(evidence)


def _judge_ends(evidence: Evidence) -> Iterator[str]:
    """Everybody has come to the end, and nobody is beyond it."""
    if {kept.state for kept in evidence.kept.values()} != {ReportState.ACKNOWLEDGED}:
        yield "in the end a report is without its receipt"
    spent, sent = Counter[int](), Counter[int]()
    for (user, _), kept in evidence.kept.items():
        spent[user] += kept.charge
    for user, _ in evidence.wire:
        sent[user] += CHARGE
    if any(max(spent[user], sent[user]) > cap for user, cap in evidence.caps.items()):
        yield "somebody is beyond her cap"
    if any(spent[user] < cap for user, cap in evidence.caps.items()):
        yield "somebody has not come to the end"


def _judge_tallies(evidence: Evidence) -> Iterator[str]:
    """Nothing but what is in the wallets was counted."""
    counted = {round_: [0, 0] for round_ in evidence.tallied}
    for (_, round_), kept in evidence.kept.items():
        counted[round_][json.loads(kept.body)["outcome"]] += 1
    if counted != evidence.tallied:
        yield "the tallies are not those of the reports in the wallets"


# --------------------------------------------------------------------------------------------------------- campaigns


MODES: Final = ("starting", "blind", "blind", "caught", "caught", "held", "held", "held")
SIGHTS: Final = ("COMMITTING", "DRAWN", "STORED", "SENT", "ANSWERED")


@dataclass
class Campaign:
    """A server, a wire, and a wallet file of users of some kind."""

    folder: Path
    kind: str = "User"
    cuts: float = 0.06
    blocks: list[list[str]] = field(default_factory=list[list[str]])
    evidence: Evidence = field(default_factory=Evidence)
    _modes: list[str] = field(default_factory=list[str])

    @property
    def wallets(self) -> Path:
        """Theirs."""
        return self.folder / "wallets"

    @property
    def log(self) -> Path:
        """What went wrong in a life."""
        return self.folder / "lives.log"

    def run(self, kills: int, seed: int) -> Evidence:
        """Kill so often; then let everybody come to the end."""
        from askance_server.ledger.sqlite import SqliteLedger

        asyncio.run(self._run(kills, seed))
        with closing(SqliteLedger.open(self.folder / "data")) as ledger:
            self._audit(ledger)
        return self.evidence

    async def _run(self, kills: int, seed: int) -> None:
        from tests.server.serving import serving

        proxy = Proxy(random.Random(seed), self.cuts)
        async with proxy.listening():
            url, results = f"http://127.0.0.1:{proxy.port}", self.folder / "results"
            async with _nursery((url, str(self.wallets), self.kind, str(results)), self.log) as live:
                with serving(self.folder / "data", "--cap", SERVER_CAP) as server:
                    proxy.upstream = server.port
                    await self._kill(live, server, url, kills, random.Random(seed))
                    await self._read_claims(server)
                    proxy.cuts = 0
                    end = await live(Order(self.blocks, seed, "in peace"))
                    assert end.code == 0, f"the last life ended with {end.code}: see {self.log}"
        self._read_wire(proxy, results)

    async def _kill(self, live: Live, server: ServerProcess, url: str, kills: int, dice: random.Random) -> None:
        while self.evidence.kills.total() < kills:
            self._more_users(server, url)
            order = self._order(dice)
            end = await live(order)
            if end.code == 0:
                # On a busy machine everybody may have come to the end before the nursery looked again.
                self.evidence.escaped += 1
                continue
            assert end.code == -signal.SIGKILL, f"a life ended with {end.code}: see {self.log}"
            self.evidence.died(order.mode, end)

    def _read_wire(self, proxy: Proxy, results: Path) -> None:
        users = self._users()
        for token, round_, body in proxy.reports:
            self.evidence.wire[users[token], round_].append(body)
        self.evidence.cut = proxy.cut
        self.evidence.last = Counter(json.loads(results.read_text()))

    def _order(self, dice: random.Random) -> Order:
        # Dealt like cards, so that of any eight kills five aim inside.
        self._modes = self._modes or dice.sample(MODES, len(MODES))
        mode = self._modes.pop()
        order = Order(self.blocks, dice.randrange(1 << 30), mode)
        match mode:
            case "held":
                return replace(order, hold=dice.randint(1, 60))
            case "caught":
                return replace(order, sight=dice.choice(SIGHTS))
            case _:
                return replace(order, delay=dice.uniform(0, 0.04))

    def _more_users(self, server: ServerProcess, url: str) -> None:
        """While nobody lives: when most have come to the end, there are others, and studies for them."""
        with closing(WalletFile.open(self.wallets)) as file:
            if len(unfinished(file)) > BLOCK // 2:
                return
            first = len(file.owners())
            enrolled = server.post("/v1/enrolments", token=server.enrolment, json={"users": BLOCK}).json()
            people = [
                (
                    first + at,
                    CAP if at % SMALL_EVERY else SMALL_CAP,
                    Identity(url, enrolled["user"] + at, token),
                )
                for at, token in enumerate(enrolled["tokens"])
            ]
            file.add_all(people)
        asked = {"users": "all", "epsilon": to_text(CHARGE)}
        self.blocks.append([server.study(parameters=asked)["id"] for _ in range(STUDIES)])

    def _users(self) -> dict[str, int]:
        """Each user by her token."""
        with closing(sqlite3.connect(self.wallets)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return dict(db.execute("SELECT token, user_number FROM owners"))

    async def _read_claims(self, server: ServerProcess) -> None:
        """What the wallets know, and what the server says, of everybody."""
        self.evidence.known = {key: kept.charge for key, kept in self._kept().items()}
        for token, user in self._users().items():
            said = server.get("/v1/me", token=token).json()
            self.evidence.claimed |= {(user, each["round"]): each["micro_epsilon"] for each in said["charges"]}

    def _kept(self) -> Rounds[StoredReport]:
        query = "SELECT user_number, round, charge, body, state FROM reports JOIN owners ON id = owner"
        with closing(sqlite3.connect(self.wallets)) as db:
            return {(row[0], row[1]): StoredReport(*row[1:4], ReportState(row[4])) for row in db.execute(query)}

    def _audit(self, ledger: SqliteLedger) -> None:
        """After the end."""
        evidence = self.evidence
        evidence.kept = self._kept()
        with closing(sqlite3.connect(self.wallets)) as db:
            evidence.caps = dict(db.execute("SELECT user_number, cap FROM owners"))
        evidence.faults += [f"{fault.where}: {fault.what}" for fault in ledger.verify()]
        for user in range(ledger.enrolled()):
            standing = ledger.standing(user)
            evidence.charged |= {(user, each.round): each.micro_epsilon for each in standing.charges}
            if standing.account.spent != sum(each.micro_epsilon for each in standing.charges):
                evidence.faults.append(f"user {user} has not spent what her reports cost")
        rounds = [id_ for study in ledger.studies() for id_, _ in ledger.bulletin(study).rounds]
        evidence.tallied = {id_: ledger.tallies(id_)[0].counts[0].tolist() for id_ in rounds}


Live = Callable[[Order], Awaitable[End]]
"""Has an order carried out."""


@asynccontextmanager
async def _nursery(arguments: Sequence[str], log: Path) -> AsyncGenerator[Live]:
    """The program at work."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def live(order: Order) -> End:
        stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        answer = await asyncio.wait_for(stdout.readline(), 2 * SECONDS)
        assert answer, f"the nursery is gone: see {log}"
        return End(**json.loads(answer))

    try:
        yield live
    finally:
        stdin.close()
        try:
            await asyncio.wait_for(process.wait(), SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


if __name__ == "__main__":
    nursery(*sys.argv[1:])
