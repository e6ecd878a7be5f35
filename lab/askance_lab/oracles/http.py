"""The local model over HTTP: users enrol, a server plans and asks, a gateway speaks for the users.

The server runs the strategy by itself. This oracle is the other side of it: it lets the users answer whatever is open,
and reads on the public bulletin what a round's tallies were. So the strategy that asks here has to ask what the server
has published, and has to learn what the server says that it learned; both are checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from askance_client import BulletinReader, Refusal, Server
from askance_client.population import Population
from askance_client.simulation.gateway import Gateway, SentBatches
from askance_lab.oracles.local import answer_of
from askance_lab.oracles.oracle import Learned, Oracle, Spent
from askance_lab.remote.local_server import LocalServer
from askance_lab.remote.study_client import StudyResult, create, ended, enrol_many, unwrap
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import PreparedRound, RoundAnswered, RoundState
from askance_protocol.tally import Tally
from askance_server.core.strategy import Answer, Ask, Parameters

_POLL: Final = 0.02
_PATIENCE: Final = 2.0
"""Seconds that a round stays open when all of the run's users have answered."""


class StudyFailedError(Exception):
    """A study ended before its strategy had learned. Says why, in the server's words."""


@dataclass(slots=True)
class Http(Oracle):
    """One study on a server, from its opening to its end. Use it in a `with` statement."""

    found: LocalServer
    strategy: str
    parameters: Parameters
    population: Population
    users: int
    seed: int
    folder: Path
    rounds: list[PreparedRound] = field(default_factory=list[PreparedRound])
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner, repr=False)
    _server: Server = field(init=False, repr=False)
    _watch: BulletinReader = field(init=False, repr=False)
    _gateway: Gateway = field(init=False, repr=False)
    _waiting: tuple[list[str], float] = field(default=([], 0.0), init=False, repr=False)
    """The rounds that all users have answered, and since when."""
    _book: SentBatches | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        self._server = Server(self.found.url)
        try:
            self._runner.run(self._open())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._server.close())
        self._runner.close()
        if self._book is not None:
            self._book.close()

    async def _open(self) -> None:
        first = await enrol_many(self._server, self.found.enrolment, self.users)
        title = f"{self.strategy}, {self.users} users"
        study = await create(self._server, self.found.operator, self.strategy, self.parameters, title)
        self._watch = BulletinReader(self._server, study.id)
        self._book, numbers = SentBatches(self.folder / f"{study.id}.book"), range(first, first + self.users)
        self._gateway = Gateway(self._server, study.gateway_token, self.population, numbers, self._book, self.seed)

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """What the round's published tallies say."""
        return self._runner.run(self._answer(asks))

    async def _answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        round_ = await self._answered()
        if [ask.query for ask in asks] != [part.part.query for part in round_.parts]:
            raise ProtocolError(
                "asks something else than was published",
                where=f"round {round_.spec.number}",
                remedy="install the version of the strategy that the server has",
            )
        self.rounds.append(round_)
        tallies = await self._tallies(round_)
        return [answer_of(part, tally) for part, tally in zip(round_.parts, tallies, strict=True)]

    async def _answered(self) -> PreparedRound:
        """Let everybody answer what is open, until the next round has its answer."""
        number = len(self.rounds)
        while True:
            unwrap(await self._watch.refresh() or ())
            history = self._watch.history
            if len(history.bulletin.rounds) > number and history.bulletin.rounds[number][1] is RoundState.ANSWERED:
                return _sound(history.rounds[history.bulletin.rounds[number][0]])
            if self._watch.ended:
                raise StudyFailedError((await ended(self._watch)).reason)
            unwrap(await self._gateway.answer(self._watch) or ())
            await self._close_if_others_are_waited_for()
            await asyncio.sleep(_POLL)

    async def _close_if_others_are_waited_for(self) -> None:
        """On a server of several, a round also asks users of earlier studies, for whom nobody speaks any more."""
        still = self._watch.history.open_rounds()
        if still != self._waiting[0]:
            self._waiting = still, time.monotonic()
        elif still and time.monotonic() - self._waiting[1] > _PATIENCE:
            unwrap(await self._server.command(f"/v1/rounds/{still[0]}/close", self.found.operator, {}))
            self._waiting = [], 0.0

    async def _tallies(self, round_: PreparedRound) -> list[Tally]:
        entries = unwrap(await self._server.entries(self._watch.study, 0)).entries
        [notice] = [e.notice for e in entries if isinstance(e.notice, RoundAnswered) and e.notice.round == round_.id]
        return [Tally.of(rows) for rows in notice.tallies]

    def end(self, learned: Learned | None = None) -> StudyResult:
        """What the server says of the end; refused where it learned something else."""
        end = self._runner.run(ended(self._watch))
        if learned is not None and dict(end.hypothesis) != dict(learned.hypothesis.value):
            raise ProtocolError(
                "says that something else was learned", where="server", remedy="compare its version with this one"
            )
        return end

    @property
    def spent(self) -> Spent:
        """A round asks users who were asked in no other."""
        return Spent(self._gateway.verdicts["accepted"], max((round_.charge for round_ in self.rounds), default=0))


def _sound(round_: PreparedRound | Refusal) -> PreparedRound:
    """The round, or an error that says why it is not answered."""
    answered = unwrap(round_)
    assert isinstance(answered, PreparedRound)  # noqa: S101 - told the type checker: `said` has refused the other
    return answered
