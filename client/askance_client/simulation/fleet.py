"""Many users over HTTP: each a real `User` with a wallet of her own, in one file for all users of a shard.

A shard is what one process runs: some users, visited one after the other over a number of connections, each a bare one
for what its users send (`transport.bare`). A fleet is several shards, a process each. A
fleet that was interrupted goes on with the same wallets: nobody randomizes a second time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_client.bulletin_reader import BulletinReader
from askance_client.history import History
from askance_client.news import LateRound, StudyNews, late_rounds
from askance_client.pace import AT_ONCE
from askance_client.population import Population
from askance_client.refusals import Refusal
from askance_client.transport import (
    Enrolled,
    Patience,
    Polling,
    Problem,
    Receipt,
    RemoteError,
    Server,
    UnreachableError,
)
from askance_client.transport.bare import BareServer
from askance_client.user import Result, User, count
from askance_client.wallet import Identity, Wallet, WalletFile
from askance_client.wallet.durable import make_folder
from askance_client.wallet.errors import unwritable
from askance_protocol.arrays import Truths
from askance_protocol.errors import AskanceError, UsageError
from askance_protocol.examples import Example

CONNECTIONS: Final = 32

_TOKENS: Final = 10_000
"""How many users enrol at a time: for more, a server mints no tokens."""
_EXAMPLES: Final = 1_000
"""How many examples are made at a time."""
_READ: Final = 256
"""How many users' accounts are read at a time."""
_POLL: Final = 0.1
"""Seconds between two looks while there is news, at most; 32 times as many while there is none."""
_QUIET: Final = 3
"""Looks in a row without news, after which a shard that nobody asks wants to know what the study waits for."""
_TELL_EVERY: Final = 0.2
_FRUITLESS: Final = 3
"""Rounds of visits in which nobody reached the server, before it is given up."""


@dataclass(slots=True)
class FleetProgress:
    """How far a shard, or a fleet, has come."""

    users: int
    results: Counter[str] = field(default_factory=Counter[str])
    """Visits by their result; one more for each round in which a user is asked."""
    latencies: list[float] = field(default_factory=list[float])
    """Seconds until each report was acknowledged."""
    spent: int = 0
    """The most that one of them has spent, in micro-ε."""
    ended: bool = False
    news: StudyNews = field(default_factory=StudyNews)
    """What the study waits for, while nobody is asked."""

    def __add__(self, other: FleetProgress) -> FleetProgress:
        return FleetProgress(
            self.users + other.users,
            self.results + other.results,
            self.latencies + other.latencies,
            max(self.spent, other.spent),
            self.ended and other.ended,
            self.news or other.news,
        )


TellFleet = Callable[[FleetProgress], None]
News: TypeAlias = "Queue[tuple[int, FleetProgress | AskanceError]]"
"""From the processes: how far each shard has come, by its number, or why it has stopped."""


@dataclass(frozen=True, slots=True)
class FleetShard:
    """Configuration of one process of a fleet."""

    url: str
    rows: range
    """Which examples of a population its users hold."""
    wallets: Path
    cap: int
    """Micro-ε that each will ever spend, by her own wallet."""
    enrolment: str = field(default="", repr=False)
    """A token that allows to enrol; not needed where all have numbers."""
    connections: int = CONNECTIONS
    rate: float = 0.0
    """Visits that begin in a second; 0: no limit."""
    patience: Patience = field(default_factory=Patience)
    simulated: bool = True
    """Whether its users are made up, which the server is told: they take part in simulated studies only."""


# --------------------------------------------------------------------------------------------------------- one shard


async def enrol_shard(shard: FleetShard) -> None:
    """Get a number for each user of a shard who has none yet."""
    file = WalletFile.open(shard.wallets)
    try:
        async with Server(shard.url, patience=shard.patience) as server:
            await _enrol(shard, server, file)
    finally:
        file.close()


async def run_shard(
    shard: FleetShard, study: str, population: Population, tell: TellFleet = lambda _: None
) -> FleetProgress:
    """Enrol the users who have no number yet, and answer until no user of the shard will be asked any more."""
    file = WalletFile.open(shard.wallets)
    try:
        async with Server(shard.url, patience=shard.patience) as server, _connections(shard) as connections:
            await _enrol(shard, server, file)
            return await _ShardRun(shard, population, file, connections, BulletinReader(server, study), tell).run()
    finally:
        file.close()


def run_here(shard: FleetShard, study: str, population: Population, tell: TellFleet = lambda _: None) -> FleetProgress:
    """Run a shard in this process, on an event loop of its own: the faster one, where it is installed."""
    with asyncio.Runner(loop_factory=_new_loop()) as runner:
        return runner.run(run_shard(shard, study, population, tell))


def _new_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes uvloop's event loop; None where there is none, as on Windows and on a person's device."""
    try:
        import uvloop  # noqa: PLC0415 - as said
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _enrol(shard: FleetShard, server: Server, file: WalletFile) -> None:
    """Enrol who has no wallet yet, some at a time.

    A fleet may be killed after the server has enrolled some and before their wallets are on disk. Each such request has
    a key that the file gives again: the next fleet is given the same users, and none are left behind for whom a round
    of all users would wait. If she is asked to run more users or fewer by then, they are as many as they were.
    """
    while (begin := len(file.owners())) < len(shard.rows):
        wanted = min(_TOKENS, len(shard.rows) - begin)
        key = file.enrolment_key(f"{server.url} {begin} {shard.simulated}")
        enrolled = await server.enrol(shard.enrolment, wanted, simulated=shard.simulated, key=key)
        if not isinstance(enrolled, Enrolled) or not enrolled.tokens:
            why = enrolled.detail if isinstance(enrolled, Problem | Refusal) else "too few tokens"
            remedy = "see the token for it: --enrolment-token FILE"
            raise RemoteError(f"the server enrols nobody: {why}", where="enrolment", remedy=remedy)
        people = enumerate(enrolled.tokens)
        file.add_all([(begin + k, shard.cap, Identity(server.url, enrolled.first + k, token)) for k, token in people])
    file.moved(server.url)


class TimedServer(BareServer):
    """A server over a connection of its own, that notes how long each report took."""

    latencies: list[float]

    async def send(self, round_: str, token: str, body: bytes) -> Receipt | Problem | Refusal:
        """Send a report, and note the seconds until its answer."""
        begin = time.perf_counter()
        answer = await super().send(round_, token, body)
        self.latencies.append(time.perf_counter() - begin)
        return answer


@asynccontextmanager
async def _connections(shard: FleetShard) -> AsyncGenerator[list[TimedServer]]:
    connections = [TimedServer(shard.url, patience=shard.patience, connections=1) for _ in range(shard.connections)]
    async with AsyncExitStack() as stack:
        for connection in connections:
            await stack.enter_async_context(connection)
        yield connections


@dataclass(slots=True)
class _ShardRun:
    """A shard at work on one study."""

    shard: FleetShard
    population: Population
    file: WalletFile
    connections: Sequence[TimedServer]
    reader: BulletinReader
    tell: TellFleet
    numbers: NDArray[np.uint64] = field(init=False)
    progress: FleetProgress = field(init=False)
    visited: dict[str, Truths] = field(default_factory=dict[str, "Truths"])
    """For each round, which users need not be visited again."""
    reported: dict[str, list[int]] | None = None
    """What the file held of each round when the run began; None before it was read."""
    resent: bool = False

    def __post_init__(self) -> None:
        # A file may have wallets of more users than are run now: these are left in peace.
        self.numbers = np.array(self.file.numbers()[: len(self.shard.rows)], np.uint64)
        self.progress = FleetProgress(len(self.shard.rows))
        for connection in self.connections:
            connection.latencies = self.progress.latencies

    async def run(self) -> FleetProgress:
        """Visit users, round after round, until the study has ended."""
        fruitless, quiet, polling = 0, 0, Polling(_POLL)
        while fruitless < _FRUITLESS:
            before = len(self.reader.history.heads)
            refusal = await self.reader.refresh()
            if refusal is not None and refusal.passing:
                fruitless += 1
                await asyncio.sleep(polling.pause(news=False))
                continue
            quiet = quiet + 1 if len(self.reader.history.heads) == before else 0
            if refusal is not None:
                self.progress.results[refusal.reason.value] += len(self.shard.rows)
                break
            # Before anybody is visited; her own visit finds it done, or the file has read another history before.
            await self.file.group_commit(self._note_history, durable=False)
            owners = self._to_visit()
            if len(owners):
                fruitless, quiet = 0 if await self._visit_all(owners) else fruitless + 1, 0
            elif self.reader.over or not self.reader.history.study.interactive:
                break
            else:
                fruitless = 0
                if quiet >= _QUIET:
                    self.progress.news = await self.reader.news()
                    self.tell(self.progress)
                await asyncio.sleep(polling.pause(news=quiet <= 1))
        else:
            raise UnreachableError(
                "answers nobody; what was drawn is stored, and sent another time", where=self.shard.url
            )
        self.progress.spent, self.progress.ended = self.file.most_spent(), True
        self.tell(self.progress)
        return self.progress

    def _note_history(self) -> None:
        history = self.reader.history
        if self.file.pin(history.id) != history.pin:
            self.file.note_heads(history.id, history.heads)

    def _to_visit(self) -> NDArray[np.intp]:
        """The users who are asked in an open round and were not visited, or have a report that is not acknowledged."""
        todo = np.zeros(len(self.numbers), np.bool)
        for id_ in self.reader.history.open_rounds():
            round_ = self.reader.history.rounds[id_]
            asked = np.True_ if isinstance(round_, Refusal) else round_.asked(self.numbers)
            todo |= asked & ~self._visited(id_)
        if not self.resent:
            # Also to rounds that have closed: the server may have heard it, and the receipt was lost.
            self.resent = True
            todo[self._here(self.file.waiting())] = True
        return np.flatnonzero(todo)

    def _visited(self, id_: str) -> Truths:
        if id_ not in self.visited:
            self.visited[id_] = np.zeros(len(self.numbers), np.bool)
            # Read once: what comes later into this file, this run puts there.
            self.reported = self.file.reported() if self.reported is None else self.reported
            self.visited[id_][self._here(self.reported.get(id_, ()))] = True
        return self.visited[id_]

    def _here(self, owners: Sequence[int]) -> list[int]:
        return [owner for owner in owners if owner < len(self.numbers)]

    async def _visit_all(self, owners: NDArray[np.intp]) -> bool:
        """Visit each of them once, as many at a time as there are connections; whether one reached the server."""
        todo, begin, examples = deque(owners.tolist()), time.monotonic(), _Examples(self.population, self.shard.rows)
        reached = False

        async def visit(connection: TimedServer) -> None:
            nonlocal reached
            while todo:
                if self.shard.rate:
                    await asyncio.sleep(begin + (len(owners) - len(todo)) / self.shard.rate - time.monotonic())
                if not todo:
                    return
                if not (len(owners) - len(todo)) % _READ:
                    self.file.read_accounts(list(islice(todo, _READ)))
                owner = todo.popleft()
                user = User(examples[owner], Wallet(self.file, owner), simulated=True, pace=AT_ONCE)
                try:
                    results = await user.answer(self.reader, refresh=False, via=connection)
                except UnreachableError:
                    continue
                reached = True
                self._note(owner, results)

        try:
            async with asyncio.TaskGroup() as group:
                for connection in self.connections:
                    group.create_task(visit(connection))
        except ExceptionGroup as errors:
            known = errors.subgroup(AskanceError)
            raise errors if known is None else _first(known) from None
        return reached

    def _note(self, owner: int, results: Sequence[Result]) -> None:
        fresh = [each for each in results if each.round is None or not self._visited(each.round)[owner]]
        for each in fresh:
            if each.round is not None:
                self._visited(each.round)[owner] = True
        self.progress.results.update(count(fresh))
        self.tell(self.progress)


def _first(errors: ExceptionGroup[AskanceError]) -> AskanceError:
    """First plain error of a group, which may hold groups."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


class _Examples:
    """The examples of a shard's users, made some at a time."""

    def __init__(self, population: Population, rows: range) -> None:
        self._population, self._rows = population, rows
        self._begin, self._columns = 0, population.columns(rows[:0])

    def __getitem__(self, owner: int) -> Example:
        if not self._begin <= owner < self._begin + len(self._columns):
            self._begin = owner - owner % _EXAMPLES
            self._columns = self._population.columns(self._rows[self._begin : self._begin + _EXAMPLES])
        return self._columns.example(owner - self._begin)


def late_of(shards: Sequence[FleetShard], history: History) -> tuple[LateRound, ...]:
    """The rounds for which users of these shards are too late, by their wallets. No shard may be running."""
    numbers, reported = list[int](), dict[str, list[Truths]]()
    for shard in shards:
        file = WalletFile.open(shard.wallets)
        try:
            run = file.numbers()[: len(shard.rows)]
            numbers += run
            by_round = file.reported()
            for id_ in history.rounds:
                answered = np.zeros(len(run), np.bool)
                answered[[owner for owner in by_round.get(id_, ()) if owner < len(run)]] = True
                reported.setdefault(id_, []).append(answered)
        finally:
            file.close()
    return late_rounds(history, np.array(numbers, np.uint64), lambda id_: np.concatenate(reported[id_]))


# ----------------------------------------------------------------------------------------------------- several shards


def shards_of(whole: FleetShard, processes: int) -> list[FleetShard]:
    """Cut a shard into several, each with its share of the rate. `wallets` names a folder, in which each has a file."""
    if not 1 <= processes <= 64:
        raise UsageError(f"{processes} is not from 1 to 64", where="processes")
    folder = whole.wallets
    try:
        make_folder(folder)
    except OSError as error:
        raise unwritable(folder, str(error.strerror)) from None
    edges = [whole.rows.start + len(whole.rows) * k // processes for k in range(processes + 1)]
    return [
        replace(
            whole,
            rows=range(*edges[k : k + 2]),
            # A name that folders of wallets hold already: it is never changed.
            wallets=folder / f"crew-{k}-of-{processes}.wallets",
            rate=whole.rate / processes,
        )
        for k in range(processes)
    ]


def run_fleet(
    shards: Sequence[FleetShard], study: str, population: Population, tell: TellFleet = lambda _: None
) -> FleetProgress:
    """Run all shards, a process each, and add up how far they have come. If one fails, the others are stopped."""
    if len(shards) == 1:
        return run_here(shards[0], study, population, _at_times(tell))
    context = multiprocessing.get_context("spawn")
    news: News = context.Queue()
    processes = [
        context.Process(target=_shard_process, args=(number, shard, study, population, news), daemon=True)
        for number, shard in enumerate(shards)
    ]
    try:
        for process in processes:
            process.start()
        return _gather(processes, news, tell)
    finally:
        for process in processes:
            process.terminate()
            process.join()
        news.close()


def _gather(processes: Sequence[SpawnProcess], news: News, tell: TellFleet) -> FleetProgress:
    latest: dict[int, FleetProgress] = {}
    while not (len(latest) == len(processes) and all(each.ended for each in latest.values())):
        try:
            number, heard = news.get(timeout=1)
        except queue.Empty:
            gone = [process for process in processes if process.exitcode not in {None, 0}]
            if gone:
                raise AskanceError(f"a process ended with exit code {gone[0].exitcode}", where="fleet") from None
            continue
        if isinstance(heard, AskanceError):
            raise heard
        latest[number] = heard
        tell(sum(latest.values(), FleetProgress(0, ended=True)))
    return sum(latest.values(), FleetProgress(0, ended=True))


def _at_times(tell: TellFleet) -> TellFleet:
    """Tell a few times a second, not at each visit, and without the latencies, of which there is one a report."""
    last = 0.0

    def sometimes(progress: FleetProgress) -> None:
        nonlocal last
        if time.monotonic() - last > _TELL_EVERY and not progress.ended:
            last = time.monotonic()
            tell(FleetProgress(progress.users, Counter(progress.results), news=progress.news))

    return sometimes


def _shard_process(number: int, shard: FleetShard, study: str, population: Population, news: News) -> None:
    """Run one shard in a process of its own."""
    try:
        tell = _at_times(lambda progress: news.put((number, progress)))
        news.put((number, run_here(shard, study, population, tell)))
    except AskanceError as error:
        news.put((number, error))
    except KeyboardInterrupt:
        pass
