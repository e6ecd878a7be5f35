"""The local model over HTTP: users enrol, a server plans and asks, a gateway reports for the users.

The server runs the strategy by itself. This oracle is the other side of it: it lets the users answer whatever is open,
until the study has ended. Then it replays the public bulletin with the strategy that is installed here, which has to
ask what the server has published, and has to learn what the server says that it learned.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from askance_client import BulletinReader, Server
from askance_client.population import Population
from askance_client.simulation.gateway import Gateway, SentBatches
from askance_lab.oracles.local import failure
from askance_lab.oracles.shared.oracle import Learned, Oracle, Spent
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_lab.remote.local_server import LocalServer, local_server
from askance_lab.remote.study_client import (
    StrategyFailsThereError,
    StudyResult,
    TooFewUsersThereError,
    create,
    ended,
    enrol_many,
    raise_paused,
    raise_refused,
    unwrap,
)
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Cause, Entry, PreparedRound, RoundAnswered, StudyState
from askance_protocol.schema import Schema
from askance_protocol.tally import Tally
from askance_protocol.text import counted
from askance_server.core.estimates import study_estimates
from askance_server.core.planning import TooFewUsersError
from askance_server.core.replay import Replay
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Estimate, Hypothesis, Parameters, Strategy

_POLL: Final = 0.02
_QUIET: Final = 0.5
"""Seconds without a new entry after which it is asked whether the study is paused."""
_PATIENCE: Final = 2.0
"""Seconds that a round stays open when all of the run's users have answered."""


@dataclass(slots=True)
class Http(Oracle):
    """One study on a server, from creation to end. Use it in a `with` statement."""

    found: LocalServer
    strategy: str
    parameters: Parameters
    population: Population
    users: int
    seed: int
    folder: Path
    example: Schema | None = None
    """What examples are made of, for a strategy that asks about whatever fields there are."""
    tell: Callable[[int], None] = lambda _: None
    """Is told how many users have answered so far."""
    rounds: list[PreparedRound] = field(default_factory=list[PreparedRound])
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner, repr=False)
    _server: Server = field(init=False, repr=False)
    _reader: BulletinReader = field(init=False, repr=False)
    _gateway: Gateway = field(init=False, repr=False)
    _waiting: tuple[list[str], float] = field(default=([], 0.0), init=False, repr=False)
    """The rounds that all users have answered, and since when."""
    _still: tuple[int, float] = field(default=(0, 0.0), init=False, repr=False)
    """The number of entries that were read, and since when there are no more, or it was asked why."""
    _failed: TooFewUsersError | StrategyError | None = field(default=None, init=False, repr=False)
    """Why the server would not even open the study."""
    _published: Sequence[Entry] = field(default=(), init=False, repr=False)
    """The bulletin of the study that has ended."""
    _sent: SentBatches | None = field(default=None, init=False, repr=False)

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
        if self._sent is not None:
            self._sent.close()

    async def _open(self) -> None:
        await self._server.check()
        first = await enrol_many(self._server, self.found.enrolment, self.users)
        title = f"{self.strategy}, {counted(self.users, 'user')}"
        numbers = range(first, first + self.users)
        whose = self._server, self.found.operator
        try:
            study = await create(*whose, self.strategy, self.parameters, title, gateway=numbers, example=self.example)
        except TooFewUsersThereError as error:
            self._failed = failure(Cause.TOO_FEW_USERS, error.what)
            return
        except StrategyFailsThereError as error:
            self._failed = failure(Cause.STRATEGY, error.what)
            return
        self._reader = BulletinReader(self._server, study.id)
        self._sent = SentBatches(self.folder / f"{study.id}.book")
        self._gateway = Gateway(self._server, study.gateway_token, self.population, numbers, self._sent, self.seed)
        self._gateway.tell = lambda: self.tell(self._gateway.verdicts.total())

    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:  # noqa: ARG002 - the study has them
        """Report for the users until the study has ended; then check the server's result against the bulletin."""
        if self._failed is not None:
            raise self._failed
        self._runner.run(self._answer_to_the_end())
        self.rounds = [unwrap(round_) for round_ in self._reader.history.rounds.values()]
        end = self.end()
        if end.state is not StudyState.FINISHED:
            raise failure(end.cause, end.reason)
        # What a server says was learned is not believed: the published answers have to lead there.
        learned = self._replayed(strategy)
        if dict(learned.value) != dict(end.hypothesis):
            raise ProtocolError(
                "says that something else was learned", where="server", remedy="compare its version with this one"
            )
        queries = sum(len(round_.parts) for round_ in self.rounds)
        spent = self.spent
        return Learned(learned, end.rounds, queries, spent.users, spent.micro_epsilon, tuple(end.received), end.reason)

    async def _answer_to_the_end(self) -> None:
        while True:
            raise_refused(await self._reader.refresh())
            if self._reader.ended:
                return
            raise_refused(await self._gateway.answer(self._reader))
            await self._stop_if_paused()
            await self._close_if_others_are_waited_for()
            await asyncio.sleep(_POLL)

    async def _stop_if_paused(self) -> None:
        """Raise an error where nothing is new for a while because the server cannot go on."""
        read = len(self._reader.history.heads)
        if read != self._still[0]:
            self._still = read, time.monotonic()
        elif time.monotonic() - self._still[1] > _QUIET:
            await raise_paused(self._reader)
            self._still = read, time.monotonic()

    async def _close_if_others_are_waited_for(self) -> None:
        """Close a round that also waits for users of earlier studies, who no longer report."""
        still = self._reader.history.open_rounds()
        if still != self._waiting[0]:
            self._waiting = still, time.monotonic()
        elif still and time.monotonic() - self._waiting[1] > _PATIENCE:
            unwrap(await self._server.command(f"/v1/rounds/{still[0]}/close", self.found.operator, {}))
            self._waiting = [], 0.0

    def _replayed(self, strategy: Strategy) -> Hypothesis:
        """Hypothesis that the locally installed strategy learns from the answers on the bulletin."""
        entries = self._published = self._runner.run(self._entries())
        replay = Replay(self._reader.history.study, strategy, {round_.id: round_ for round_ in self.rounds}.__getitem__)
        replay.hear(entry.notice for entry in entries)
        try:
            output = replay.output
        except StrategyError as error:
            remedy = "install the version of the strategy that the server has"
            raise ProtocolError(str(error), where="strategy", remedy=remedy) from error
        assert isinstance(output, Hypothesis)  # noqa: S101 - the study has finished, and all of its queries were the same
        return output

    async def _entries(self) -> Sequence[Entry]:
        entries = list[Entry]()
        # A long bulletin comes in pieces.
        while more := unwrap(await self._server.entries(self._reader.study, len(entries) - 1)).entries:
            entries += more
        return entries

    def end(self) -> StudyResult:
        """End of the study, as the server reports it."""
        return self._runner.run(ended(self._reader))

    def estimates(self, strategy: Strategy | None) -> Sequence[Estimate]:
        """What the reports say of all that was asked: from the bulletin, and not as the server says it."""
        by_id = {round_.id: round_ for round_ in self.rounds}
        answers = [entry.notice for entry in self._published if isinstance(entry.notice, RoundAnswered)]
        rounds = [(by_id[each.round], [Tally.of(rows) for rows in each.tallies]) for each in answers]
        return study_estimates(self._reader.history.study, strategy, rounds)

    @property
    def received(self) -> Sequence[int]:
        """Number of reports of each round, as the server counts them."""
        return self.end().received if self.rounds else ()

    @property
    def spent(self) -> Spent:
        """ε of one report: no user is asked in two rounds."""
        return Spent(self._gateway.verdicts["accepted"], max((round_.charge for round_ in self.rounds), default=0))


@contextmanager
def _http(setting: OracleSetting) -> Generator[Oracle]:
    """Open a study on the server of the setting, or on one started for this study alone."""
    name, epsilon = setting.strategy.name, str(setting.parameters["epsilon"])
    with tempfile.TemporaryDirectory(prefix="askance-run-") as folder:
        own = local_server(Path(folder) / "server", epsilon) if setting.server is None else nullcontext(setting.server)
        with own as found:
            whom = setting.population, setting.users, setting.seed
            example = setting.population.schema if setting.strategy.over else None
            with Http(found, name, setting.parameters, *whom, Path(folder), example, setting.tell) as oracle:
                yield oracle


ORACLE: Final = OracleKind("http", "users' own reports to a server, over HTTP", _http, local=True)
