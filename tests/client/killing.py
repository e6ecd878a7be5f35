"""Real users in a process that is killed again and again while they answer, and what has to be true of them afterwards.

Theory of operation
-------------------
*Lives.* This module, run as a program, forks for each life (`tests.harness.kills`): the child opens the wallet file
from disk and lets its users answer round after round, several at a time, until it is killed. The next life goes on with
the same file.

*Wire.* Between the clients and a real `askance serve` a proxy notes each report, and hangs up at some requests: before
the server hears of them, or after.

*Marks.* For each connection, where its user is on her way from the server's statement of her account (claim) to the
note that she has a receipt (settle), and where the wallet file is in a transaction. Nothing of this is in the client's
own code; its classes are extended here.

*Evidence.* `judge` compares what the proxy has seen, what the wallets say, what the server said of each user after the
last kill, and its ledger after a last life that nobody disturbed, in which all users came to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sqlite3
import ssl
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
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
from askance_client.pace import AT_ONCE
from askance_client.transport import Problem, Receipt
from askance_client.transport.bare import BareConnection, BareServer, Reply
from askance_client.transport.server import AnswerBounds
from askance_client.wallet import StoredReport, WalletFile
from askance_protocol.budget import MICRO, to_text
from askance_protocol.examples import Example
from askance_protocol.rounds import PreparedRound
from tests.harness.kills import Deck, ForkServer, catch, ended, serve_forks, until
from tests.harness.marks import Marks
from tests.harness.wire import Proxy

if TYPE_CHECKING:  # A life needs nothing of a server, and would take a second longer to load.
    from askance_server.ledger.sqlite import SqliteLedger
    from tests.harness.servers import ServerProcess

T = TypeVar("T")
Json = dict[str, Any]

LINES: Final = 4
"""Number of users who answer at a time."""
STUDIES: Final = 4
"""Number of studies that a user is asked in, one round each."""
BLOCK: Final = 80
"""Number of users who are enrolled at a time, with studies of their own."""
CHARGE: Final = MICRO // 10
"""What a report costs: so little that two reports of one user differ half of the time."""
CAP: Final = STUDIES * CHARGE
SMALL_CAP: Final = 2 * CHARGE
SMALL_EVERY: Final = 8
"""One user in this many can pay for two rounds only, and refuses the others."""
SERVER_CAP: Final = "100"
PATIENCE: Final = Patience(attempts=3, first=0.001, longest=0.002)
NO_TLS: Final = ssl.create_default_context()
"""Nobody looks at it; to make one for each connection would take most of a life."""


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


WRITING, HEARD, LINE = range(3)
"""The marks of a life: what the file does, whether anybody had an answer to her report, and one for each connection."""


def marks_of(folder: Path) -> Marks:
    """The marks that a life and its killer share."""
    return Marks(folder / "marks", LINE + LINES)


def lines_of(marks: Marks) -> list[Where]:
    """Where each user is, or was when the life ended."""
    return [Where(marks[LINE + line]) for line in range(LINES)]


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of one connection."""

    marks: Marks
    line: int

    @property
    def where(self) -> Where:
        """Where its user is."""
        return Where(self.marks[LINE + self.line])

    def __call__(self, where: Where) -> None:
        self.marks[LINE + self.line] = where
        if where is Where.ANSWERED:
            self.marks[HEARD] = 1
        if where is not Where.OUTSIDE:
            self.marks.point()


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
                    self.marks[WRITING] = Writing.BEGUN
                yield db
                if outermost:
                    self.marks.point()
                    self.marks[WRITING] = Writing.COMMITTING
        finally:
            if outermost:
                self.marks[WRITING] = Writing.NOTHING
        if outermost:
            # It is on disk, and nobody who waits for that knows it yet.
            self.marks.point()


class MarkedWallet(Wallet):
    """A wallet, saying what is done with it."""

    def __init__(self, file: MarkedFile, owner: int, mark: Mark) -> None:
        super().__init__(file, owner)
        self.mark = mark

    def draw_and_store(self, study: str, round_: str, charge: int, draw: Callable[[], bytes]) -> StoredReport:
        """As it is."""
        kept = super().draw_and_store(study, round_, charge, draw)
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


class Said(Server):
    """A server, saying what it is used for."""

    _mark: Mark

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


class Line(Said):
    """One connection, by httpx."""

    def __init__(self, url: str, mark: Mark) -> None:
        super().__init__(url, patience=PATIENCE, transport=MarkedTransport(mark))
        self._mark = mark


class MarkedConnection(BareConnection):
    """A bare connection that says when a report has been sent."""

    mark: Mark

    async def exchange(self, request: bytes, bounds: AnswerBounds) -> Reply:
        """As it is: it writes before it waits."""
        if request.startswith(b"POST"):
            asyncio.get_running_loop().call_soon(self.mark, Where.SENT)
        return await super().exchange(request, bounds)


class BareLine(Said, BareServer):
    """One bare connection, as a fleet has them."""

    def __init__(self, url: str, mark: Mark) -> None:
        super().__init__(url, patience=PATIENCE, connections=1)
        self._mark = mark

    async def _dial(self, made: Callable[[], BareConnection]) -> tuple[object, BareConnection]:
        def marked() -> BareConnection:
            connection = MarkedConnection()
            connection.mark = self._mark
            return connection

        return await super()._dial(marked)


def line_of(url: str, mark: Mark, number: int) -> Said:
    """Every other connection is a bare one."""
    return (BareLine if number % 2 else Line)(url, mark)


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

    def draw_and_store(self, study: str, round_: str, charge: int, draw: Callable[[], bytes]) -> StoredReport:
        """In memory, for the time being."""
        body = draw()
        store = super().draw_and_store
        self._late[round_] = lambda: store(study, round_, charge, lambda: body)
        self.mark(Where.DRAWN)
        return StoredReport(round_, charge, body, ReportState.STORED)

    def settle(self, round_: str, state: ReportState) -> None:
        """Now it is time."""
        if round_ in self._late:
            self._late.pop(round_)()
        super().settle(round_, state)


KINDS: Final[dict[str, tuple[type[User], type[MarkedWallet]]]] = {
    "User": (User, MarkedWallet),
    "DrawsAnew": (DrawsAnew, MarkedWallet),
    "StoresLate": (User, StoresLate),
}
"""The classes that the users of a campaign are made of."""


# ------------------------------------------------------------------------------------------------------------ lives


@dataclass(frozen=True, slots=True)
class Order:
    """One life: whose, with which wallets, and what they are asked."""

    url: str
    folder: str
    """Where wallets and marks are, and the results of a life that comes to its end."""
    kind: str
    blocks: list[list[str]]
    """The studies of each block of users."""
    seed: int
    everybody: bool = False
    """Also users who have come to the end are asked again."""


@dataclass(slots=True)
class Life:
    """In the child: all users of a wallet file, until nobody has anything left to do."""

    file: MarkedFile
    order: Order
    watches: dict[str, BulletinReader] = field(default_factory=dict[str, BulletinReader])
    results: list[Result] = field(default_factory=list[Result])

    async def run(self) -> None:
        """First the users with a report that waits, then the others, in random order."""
        dice = random.Random(self.order.seed)
        waiting = self.file.waiting()
        others = self.file.owners() if self.order.everybody else unfinished(self.file)
        dice.shuffle(waiting)
        dice.shuffle(others)
        todo = list(dict.fromkeys(waiting + others))
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            lines = [line_of(self.order.url, Mark(self.file.marks, line), line) for line in range(LINES)]
            for line in lines:
                await stack.enter_async_context(line)
            await self._read(lines, {owner // BLOCK for owner in todo})
            todo.reverse()
            for number, line in enumerate(lines):
                group.create_task(self._visit_all(line, Mark(self.file.marks, number), todo))

    async def _read(self, lines: Sequence[Said], blocks: set[int]) -> None:
        for block in sorted(blocks):
            watches = [BulletinReader(line, study) for line, study in zip(lines, self.order.blocks[block], strict=True)]
            self.watches |= {watch.study: watch for watch in watches}
            await asyncio.gather(*map(_refreshed, watches))

    async def _visit_all(self, line: Said, mark: Mark, todo: list[int]) -> None:
        user_class, wallet_class = KINDS[self.order.kind]
        while todo:
            owner = todo.pop()
            wallet = wallet_class(self.file, owner, mark)
            identity = wallet.identity
            assert identity is not None
            for study in self.order.blocks[owner // BLOCK]:
                example = Example(self.watches[study].history.study.example, (identity.user % 3 - 1,))
                user = user_class(example, wallet, pace=AT_ONCE)
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


def live(text: str) -> None:
    """In the child: one life, until it is killed, or until all is done."""
    order = Order(**json.loads(text))
    folder = Path(order.folder)
    MarkedFile.marks = marks_of(folder)
    with closing(MarkedFile.open(folder / "wallets")) as file:
        assert isinstance(file, MarkedFile)
        life = Life(file, order)
        asyncio.run(life.run())
        (folder / "results").write_text(json.dumps(count(life.results)))


async def load(folder: Path) -> None:
    """Load what is loaded with the first request, once and not in each life."""
    async with Line("http://127.0.0.1:9", Mark(marks_of(folder), 0)) as line:
        with contextlib.suppress(UnreachableError):
            await line.studies()


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

    def died(self, mode: str, marks: Marks) -> None:
        """Note where a kill landed."""
        lines = lines_of(marks)
        self.kills[mode] += 1
        self.where.update(where.name for where in lines if where)
        self.writing[Writing(marks[WRITING]).name] += 1
        self.inside += any(lines)

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
SIGHTS: Final = (Where.DRAWN, Where.STORED, Where.SENT, Where.ANSWERED, Writing.COMMITTING)


@dataclass
class Campaign:
    """A server, a proxy, and a wallet file of users of some kind."""

    folder: Path
    kind: str = "User"
    cuts: float = 0.06
    blocks: list[list[str]] = field(default_factory=list[list[str]])
    evidence: Evidence = field(default_factory=Evidence)

    @property
    def wallets(self) -> Path:
        """The wallet file."""
        return self.folder / "wallets"

    @property
    def log(self) -> Path:
        """What went wrong in a life."""
        return self.folder / "lives.log"

    def run(self, kills: int, seed: int) -> Evidence:
        """Kill this often; then let everybody come to the end."""
        from askance_server.ledger.sqlite import SqliteLedger

        asyncio.run(self._run(kills, seed))
        with closing(SqliteLedger.open(self.folder / "data")) as ledger:
            self._audit(ledger)
        return self.evidence

    async def _run(self, kills: int, seed: int) -> None:
        from tests.harness.servers import serving

        proxy, dice = Proxy(random.Random(seed), self.cuts), random.Random(seed)
        with closing(marks_of(self.folder)) as marks, serving(self.folder / "data", "--cap", SERVER_CAP) as server:
            proxy.upstream = server.port
            async with (
                proxy.listening(),
                ForkServer.open("tests.client.killing", str(self.folder), log=self.log) as forks,
            ):
                order = Order(f"http://127.0.0.1:{proxy.port}", str(self.folder), self.kind, self.blocks, seed)
                deck = Deck(MODES, dice)
                while self.evidence.kills.total() < kills:
                    self._more_users(server, order.url)
                    await self._kill(forks, replace(order, seed=dice.randrange(1 << 30)), deck, marks)
                await self._read_claims(server)
                proxy.cuts = 0
                marks.clear()
                code = await forks.reap(await forks.start(json.dumps(asdict(replace(order, everybody=True)))))
                assert code == 0, f"the last life ended with {code}: see {self.log}"
        self._read_wire(proxy)

    async def _kill(self, forks: ForkServer, order: Order, deck: Deck, marks: Marks) -> None:
        """Let one life begin, and end it in one of the ways."""
        mode, dice = deck.deal(), deck.dice
        marks.clear()
        if mode == "held":
            marks.hold(dice.randint(1, 60))
        pid = await forks.start(json.dumps(asdict(order)))
        if mode == "held":
            await until(lambda: marks.held or ended(pid), "a life comes to no point")
        elif mode == "caught":
            sight = dice.choice(SIGHTS)
            await catch(pid, lambda: lambda: _sees(marks, sight), lambda: _sees(marks, sight))
        else:
            await until(lambda: mode == "starting" or marks[HEARD] > 0 or ended(pid), "nobody hears anything")
            await asyncio.sleep(dice.uniform(0, 0.04))
        code = await forks.kill(pid)
        if code == 0:
            # On a busy machine everybody may have come to the end before the life was looked at again.
            self.evidence.escaped += 1
        else:
            assert code == -signal.SIGKILL, f"a life ended with {code}: see {self.log}"
            self.evidence.died(mode, marks)

    def _read_wire(self, proxy: Proxy) -> None:
        users = self._users()
        for token, round_, body in proxy.reports:
            self.evidence.wire[users[token], round_].append(body)
        self.evidence.cut = proxy.cut
        self.evidence.last = Counter(json.loads((self.folder / "results").read_text()))

    def _more_users(self, server: ServerProcess, url: str) -> None:
        """While nobody lives: when most have come to the end, there are others, and studies for them."""
        with closing(WalletFile.open(self.wallets)) as file:
            if len(unfinished(file)) > BLOCK // 2:
                return
            first = len(file.owners())
            enrolled = server.post("/v1/enrolments", token=server.enrolment, json={"users": BLOCK}).json()
            people: list[tuple[int, int, Identity | None]] = [
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
            rows = db.execute(query).fetchall()
        return {(row[0], row[1]): StoredReport(row[1], row[2], row[3], ReportState(row[4])) for row in rows}

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


def _sees(marks: Marks, sight: Where | Writing) -> bool:
    return any(mark is sight for mark in (Writing(marks[WRITING]), *lines_of(marks)))


if __name__ == "__main__":
    asyncio.run(load(Path(sys.argv[1])))
    serve_forks(live)
