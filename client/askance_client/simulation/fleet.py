"""Many users over HTTP: each a real `User` with a wallet of her own, in one file for all of a crew.

A crew is what one process runs: so many users in turn, over so many connections at a time, each connection with an HTTP
client of its own (one that is shared is five times slower). A fleet is several crews, a process each. Whatever is
interrupted goes on with the same wallets: nobody randomizes a second time.
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
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.refusals import Refusal
from askance_client.transport import Enrolled, Patience, Problem, Receipt, Server, UnreachableError
from askance_client.user import BulletinReader, Result, User, count
from askance_client.wallet import Identity, WalletFile
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example

CONNECTIONS: Final = 32

_TOKENS: Final = 10_000
"""How many users enrol at a time: for more, a server mints no tokens."""
_EXAMPLES: Final = 1_000
"""How many examples are made at a time."""
_POLL: Final = 0.1
_TELL_EVERY: Final = 0.2
_FRUITLESS: Final = 3
"""Rounds of visits in which nobody reached the server, before it is given up."""


@dataclass(slots=True)
class FleetProgress:
    """What a crew has come to."""

    users: int
    results: Counter[str] = field(default_factory=Counter[str])
    """Visits by their result; one more for each round in which a user is asked."""
    latencies: list[float] = field(default_factory=list[float])
    """Seconds until each report was acknowledged."""
    spent: int = 0
    """The most that one of them has spent, in micro-ε."""
    ended: bool = False

    def __add__(self, other: FleetProgress) -> FleetProgress:
        return FleetProgress(
            self.users + other.users,
            self.results + other.results,
            self.latencies + other.latencies,
            max(self.spent, other.spent),
            self.ended and other.ended,
        )


Tell = Callable[[FleetProgress], None]


@dataclass(frozen=True, slots=True)
class FleetShard:
    """What one process runs."""

    url: str
    rows: range
    """Which examples of a population are theirs."""
    wallets: Path
    cap: int
    """Micro-ε that each will ever spend, by her own wallet."""
    enrolment: str = field(default="", repr=False)
    """A token of somebody who may enrol; not needed where all have numbers."""
    connections: int = CONNECTIONS
    rate: float = 0.0
    """Visits that begin in a second; 0: as many as can."""
    patience: Patience = field(default_factory=Patience)


# ---------------------------------------------------------------------------------------------------------- one crew


async def enrol_crew(crew: FleetShard) -> None:
    """Give everybody a number; those who have one keep it."""
    file = WalletFile.open(crew.wallets)
    try:
        async with Server(crew.url, patience=crew.patience) as server:
            await _enrol(crew, server, file)
    finally:
        file.close()


async def run_crew(crew: FleetShard, study: str, population: Population, tell: Tell = lambda _: None) -> FleetProgress:
    """Enrol who is not yet, and answer until nobody of the crew will be asked any more."""
    file = WalletFile.open(crew.wallets)
    try:
        async with Server(crew.url, patience=crew.patience) as server, _connections(crew) as lines:
            await _enrol(crew, server, file)
            return await _Run(crew, population, file, lines, BulletinReader(server, study), tell).go()
    finally:
        file.close()


async def _enrol(crew: FleetShard, server: Server, file: WalletFile) -> None:
    for begin in range(len(file.owners()), len(crew.rows), _TOKENS):
        some = range(begin, min(begin + _TOKENS, len(crew.rows)))
        enrolled = await server.enrol(crew.enrolment, len(some))
        if not isinstance(enrolled, Enrolled) or len(enrolled.tokens) != len(some):
            why = enrolled.detail if isinstance(enrolled, Problem | Refusal) else "too few tokens"
            raise ProtocolError(f"the server enrols nobody: {why}", where="enrolment", remedy="see the token for it")
        people = zip(some, enrolled.tokens, strict=True)
        file.add_all(
            [(owner, crew.cap, Identity(server.url, enrolled.first + owner - begin, token)) for owner, token in people]
        )
    file.moved(server.url)


class _Line(Server):
    """One connection, with a stopwatch."""

    latencies: list[float]

    async def send(self, round_: str, token: str, body: bytes) -> Receipt | Problem | Refusal:
        """As it is."""
        begin = time.perf_counter()
        answer = await super().send(round_, token, body)
        self.latencies.append(time.perf_counter() - begin)
        return answer


@asynccontextmanager
async def _connections(crew: FleetShard) -> AsyncGenerator[list[_Line]]:
    lines = [_Line(crew.url, patience=crew.patience, connections=1) for _ in range(crew.connections)]
    async with AsyncExitStack() as stack:
        for line in lines:
            await stack.enter_async_context(line)
        yield lines


@dataclass(slots=True)
class _Run:
    """One crew at work."""

    crew: FleetShard
    population: Population
    file: WalletFile
    lines: Sequence[_Line]
    watch: BulletinReader
    tell: Tell
    numbers: NDArray[np.uint64] = field(init=False)
    progress: FleetProgress = field(init=False)
    visited: dict[str, NDArray[np.bool]] = field(default_factory=dict[str, "NDArray[np.bool]"])
    """For each round, who has been there."""
    resent: bool = False

    def __post_init__(self) -> None:
        self.numbers = np.array(self.file.numbers(), np.uint64)
        self.progress = FleetProgress(len(self.crew.rows))
        for line in self.lines:
            line.latencies = self.progress.latencies

    async def go(self) -> FleetProgress:
        """Round after round."""
        fruitless = 0
        while fruitless < _FRUITLESS:
            refusal = await self.watch.refresh()
            if refusal is not None:
                self.progress.results[refusal.reason.value] += len(self.crew.rows)
                break
            owners = self._to_visit()
            if len(owners):
                fruitless = 0 if await self._visit_all(owners) else fruitless + 1
            elif self.watch.ended or not self.watch.history.study.interactive:
                break
            else:
                await asyncio.sleep(_POLL)
        else:
            raise UnreachableError(f"{self.crew.url} answers nobody; what was drawn is stored, and sent another time")
        self.progress.spent, self.progress.ended = self.file.most_spent(), True
        self.tell(self.progress)
        return self.progress

    def _to_visit(self) -> NDArray[np.intp]:
        """Who is asked in an open round and has not been there, or has a report that is not acknowledged."""
        todo = np.zeros(len(self.numbers), np.bool)
        for id_ in self.watch.history.open_rounds():
            round_ = self.watch.history.rounds[id_]
            asked = np.True_ if isinstance(round_, Refusal) else round_.asked(self.numbers)
            todo |= asked & ~self._been(id_)
        if not self.resent:
            # Also to rounds that have closed: the server may have heard it, and the receipt was lost.
            self.resent = True
            todo[self.file.waiting()] = True
        return np.flatnonzero(todo)

    def _been(self, id_: str) -> NDArray[np.bool]:
        if id_ not in self.visited:
            self.visited[id_] = np.zeros(len(self.numbers), np.bool)
            self.visited[id_][self.file.reported(id_)] = True
        return self.visited[id_]

    async def _visit_all(self, owners: NDArray[np.intp]) -> bool:
        """Everybody once, as many at a time as there are connections; whether somebody reached the server."""
        todo, begin, examples = deque(owners.tolist()), time.monotonic(), _Examples(self.population, self.crew.rows)
        reached = False

        async def visit(line: _Line) -> None:
            nonlocal reached
            while todo:
                if self.crew.rate:
                    await asyncio.sleep(begin + (len(owners) - len(todo)) / self.crew.rate - time.monotonic())
                owner = todo.popleft() if todo else None
                if owner is None:
                    return
                user = User(examples[owner], self.file.wallet(owner), simulated=True)
                try:
                    results = await user.answer(self.watch, refresh=False, via=line)
                except UnreachableError:
                    continue
                reached = True
                self._note(owner, results)

        async with asyncio.TaskGroup() as group:
            for line in self.lines:
                group.create_task(visit(line))
        return reached

    def _note(self, owner: int, results: Sequence[Result]) -> None:
        fresh = [each for each in results if each.round is None or not self._been(each.round)[owner]]
        for each in fresh:
            if each.round is not None:
                self._been(each.round)[owner] = True
        self.progress.results.update(count(fresh))
        self.tell(self.progress)


class _Examples:
    """The examples of a crew, some at a time."""

    def __init__(self, population: Population, rows: range) -> None:
        self._population, self._rows = population, rows
        self._begin, self._columns = 0, population.columns(rows[:0])

    def __getitem__(self, owner: int) -> Example:
        if not self._begin <= owner < self._begin + len(self._columns):
            self._begin = owner - owner % _EXAMPLES
            self._columns = self._population.columns(self._rows[self._begin : self._begin + _EXAMPLES])
        return self._columns.example(owner - self._begin)


# ------------------------------------------------------------------------------------------------------ several crews


def crews_of(whole: FleetShard, processes: int) -> list[FleetShard]:
    """A crew cut into several: `wallets` names a folder, in which each has a file; each has its share of the rate."""
    if not 1 <= processes <= 64:
        raise ProtocolError(f"{processes} is not from 1 to 64", where="processes")
    folder = whole.wallets
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    edges = [whole.rows.start + len(whole.rows) * k // processes for k in range(processes + 1)]
    return [
        replace(
            whole,
            rows=range(*edges[k : k + 2]),
            wallets=folder / f"crew-{k}-of-{processes}.wallets",
            rate=whole.rate / processes,
        )
        for k in range(processes)
    ]


def run_fleet(
    crews: Sequence[FleetShard], study: str, population: Population, tell: Tell = lambda _: None
) -> FleetProgress:
    """All crews, a process each; what they have come to together. If one fails, the others are stopped."""
    if len(crews) == 1:
        return asyncio.run(run_crew(crews[0], study, population, _at_times(tell)))
    context = multiprocessing.get_context("spawn")
    said: Queue[tuple[int, FleetProgress | str]] = context.Queue()
    processes = [
        context.Process(target=_crew_process, args=(number, crew, study, population, said), daemon=True)
        for number, crew in enumerate(crews)
    ]
    try:
        for process in processes:
            process.start()
        return _gather(processes, said, tell)
    finally:
        for process in processes:
            process.terminate()
            process.join()
        said.close()


def _gather(
    processes: Sequence[SpawnProcess], said: Queue[tuple[int, FleetProgress | str]], tell: Tell
) -> FleetProgress:
    latest: dict[int, FleetProgress] = {}
    while not (len(latest) == len(processes) and all(each.ended for each in latest.values())):
        try:
            number, news = said.get(timeout=1)
        except queue.Empty:
            gone = [process for process in processes if process.exitcode not in {None, 0}]
            if gone:
                raise UnreachableError(f"a crew ended with exit code {gone[0].exitcode}") from None
            continue
        if isinstance(news, str):
            raise UnreachableError(news)
        latest[number] = news
        tell(sum(latest.values(), FleetProgress(0, ended=True)))
    return sum(latest.values(), FleetProgress(0, ended=True))


def _at_times(tell: Tell) -> Tell:
    """Not at each of thousands of visits, and without the latencies, which are as many."""
    last = 0.0

    def sometimes(progress: FleetProgress) -> None:
        nonlocal last
        if time.monotonic() - last > _TELL_EVERY and not progress.ended:
            last = time.monotonic()
            tell(FleetProgress(progress.users, Counter(progress.results)))

    return sometimes


def _crew_process(
    number: int, crew: FleetShard, study: str, population: Population, said: Queue[tuple[int, FleetProgress | str]]
) -> None:
    """In a process of its own."""
    try:
        tell = _at_times(lambda progress: said.put((number, progress)))
        said.put((number, asyncio.run(run_crew(crew, study, population, tell))))
    except* (ProtocolError, UnreachableError) as errors:
        said.put((number, str(errors.exceptions[0])))
    except* KeyboardInterrupt:
        pass
