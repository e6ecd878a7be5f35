"""The next step of a study: from its public state to the one notice that has to follow.

Theory of operation
-------------------
`step` looks at a study and says what is due: the notice that belongs on its bulletin next, or that it waits for
reports, or that it has ended. It writes nothing and remembers nothing; the caller appends the notice and asks again. So
a process that stops anywhere loses nothing, and the same function drives a study over a ledger on a server
(`askance_server.driver`) and over a bulletin in memory (`askance_lab.run_study`).

Whatever a strategy does wrong ends its study, with the reason and its cause on the bulletin. What the ledger does wrong
does not: its errors pass through, and the study stands where it stood.

A strategy that is not installed, or that does not do again what is published, pauses its study: no entry says so, and
reports are taken, counted and answered as before, because none of that asks the strategy. The study goes on when the
code is back that it began with.

A round that closes early, by its deadline or by the operator, is answered from the reports that came, if every part had
one: estimates stay unbiased, only wider. The study's last entry names such rounds. A part without any report has no
estimate, and the study fails with the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from askance_protocol.budget import to_text
from askance_protocol.channels.binary import MOST_MICRO_EPSILON
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    ENDED,
    LEAST_CHARGE,
    MOST_ROUNDS,
    Bulletin,
    Cause,
    CloseReason,
    EndState,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundState,
    StudyEnded,
    StudyEvent,
    StudySpec,
    StudyState,
    study_after,
)
from askance_protocol.schema import Schema
from askance_protocol.tally import Tally
from askance_protocol.text import counted, one_of, quoted
from askance_server.core import planning
from askance_server.core.adapted import interactive
from askance_server.core.bounded_noise import chosen
from askance_server.core.label_noise import label_of
from askance_server.core.replay import Replay, ReplayError
from askance_server.core.run import StrategyError, raised, readable
from askance_server.core.strategy import Ask, Hypothesis, Parameters, Strategy

Strategies: TypeAlias = Mapping[str, Strategy]
DueNotice: TypeAlias = RoundPublished | RoundClosed | RoundAnswered | StudyEnded


@dataclass(frozen=True, slots=True)
class Waiting:
    """A round is open and may still receive reports."""

    round: str
    received: int
    target: int
    deadline: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The study has ended; no notice follows."""

    state: EndState
    reason: str
    cause: Cause | None = None
    """Unknown for studies that version 0.1 ended."""

    @classmethod
    def of(cls, notice: StudyEnded) -> Ended:
        """End of a study, read from the last entry of its bulletin."""
        return cls(notice.state, notice.reason, notice.cause)


@dataclass(frozen=True, slots=True)
class Paused:
    """The study cannot go on here: the strategy that is installed is not the one that it began with."""

    reason: str


class StudyView(Protocol):
    """State that the next step of a study depends on. Reading it changes nothing."""

    @property
    def bulletin(self) -> Bulletin:
        """Current bulletin of the study."""
        ...

    @property
    def replay(self) -> Replay:
        """Replay of its strategy over the whole bulletin; ProtocolError if the strategy is not installed."""
        ...

    @property
    def end(self) -> StudyEnded:
        """Last entry of a study that has ended."""
        ...

    @property
    def now(self) -> int:
        """Current time, in seconds since 1970."""
        ...

    @property
    def enrolled(self) -> int:
        """Number of users: they are numbered 0 .. enrolled − 1."""
        ...

    def payers(self, charge: int) -> planning.Slots:
        """Number of users of each slot who can still pay `charge`."""
        ...

    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared."""
        ...

    def received(self, id_: str) -> int:
        """Number of reports that a round has accepted."""
        ...

    def tallies(self, id_: str) -> Sequence[Tally]:
        """Tallies of a round's accepted reports, one for each part."""
        ...


# ------------------------------------------------------------------------------------------------- opening a study


def study_of(
    strategies: Strategies,
    *,
    strategy: str,
    parameters: Parameters,
    title: str,
    nonce: str,
    simulated: bool,
    cap: int | None = None,
    example: Schema | None = None,
    live: int | None = None,
) -> StudySpec:
    """Build the study that runs a strategy. Unless given, its cap is the price of one report.

    The examples are the strategy's, unless it takes what there is: then those that are given.
    """
    terms = planning.terms_of(parameters)
    epsilon, runs = terms.epsilon, strategy_named(strategies, strategy)
    if epsilon > MOST_MICRO_EPSILON:
        what = f"{to_text(epsilon)} is more than channels are certified for, and would protect nobody"
        raise ProtocolError(what, where="parameters.epsilon", remedy=f"give {to_text(MOST_MICRO_EPSILON)} or less")
    runs = runs if example is None else runs.on(example)
    study = StudySpec(
        title=title,
        nonce=nonce,
        example=runs.schema(planning.strategy_parameters(parameters)),
        strategy=strategy,
        parameters=parameters,
        interactive=interactive(runs, terms),
        simulated=simulated,
        cap=epsilon if cap is None else cap,
        live=live,
    )
    if example not in (None, study.example):
        what, remedy = f"has examples of its own, as {strategy!r} is asked", "leave them out"
        raise ProtocolError(what, where="example", remedy=remedy)
    check_study(study, strategies)
    return study


def check_study(study: StudySpec, strategies: Strategies) -> None:
    """Refuse a study that could not start, naming the parameter or member that is wrong."""
    strategy = strategy_named(strategies, study.strategy).on(study.example)
    terms = planning.terms_of(study.parameters)
    if study.example != strategy.schema(planning.strategy_parameters(study.parameters)):
        raise ProtocolError(f"is not the schema of {strategy.name!r}", where="example", remedy="take the strategy's")
    if study.interactive != interactive(strategy, terms):
        raise ProtocolError(f"is {not study.interactive} for {strategy.name!r}", where="interactive", remedy="say so")
    if terms.eta:
        label_of(study.example)
    chosen(strategy, terms.eta_most, study.example)
    if terms.questions_each != 1 and _tells_estimates(study, strategies):
        what, remedy = f"is decided by {strategy.name!r} itself", "leave it out"
        raise ProtocolError(what, where="parameters.questions_each", remedy=remedy)
    if terms.epsilon > study.cap:
        what = f"{to_text(terms.epsilon)} is above the study's cap of {to_text(study.cap)}"
        raise ProtocolError(what, where="parameters.epsilon", remedy="raise the cap, or ask for less")


def _tells_estimates(study: StudySpec, strategies: Strategies) -> bool:
    """Whether the strategy tells its estimates itself: some do where reports answer, and only there."""
    reports = planning.reports_in(study.parameters)
    return strategy_named(strategies, study.strategy).on(study.example, reports).estimates is not None


def check_answerable(study: StudySpec, strategies: Strategies) -> None:
    """Refuse a study that every client would refuse: the users of a round would be waited for in vain."""
    terms = planning.terms_of(study.parameters)
    # The choice among hypotheses is a round more.
    rounds, epsilon = strategy_named(strategies, study.strategy).rounds + bool(terms.eta_most), terms.epsilon
    if rounds > MOST_ROUNDS:
        what = f"{study.strategy} asks up to {rounds} rounds, and clients answer {MOST_ROUNDS} of a study at most"
        raise ProtocolError(what, where="strategy", remedy="ask more queries in a round")
    if epsilon < LEAST_CHARGE:
        what = f"{to_text(epsilon)} is less than clients answer: when a report comes tells something, too"
        raise ProtocolError(what, where="parameters.epsilon", remedy=f"give {to_text(LEAST_CHARGE)} or more")


def strategy_named(strategies: Strategies, name: str) -> Strategy:
    """Look up a strategy by name; the error for an unknown one lists the known names."""
    if name not in strategies:
        remedy = one_of(name, strategies, "install it, or use one of")
        raise ProtocolError(f"there is no {quoted(name)} here", where="strategy", remedy=remedy)
    return strategies[name]


# -------------------------------------------------------------------------------------------------------- the step


def step(view: StudyView) -> DueNotice | Waiting | Paused | Ended:
    """Compute the next notice, or that there is none. A waiting study replays nothing: this runs after every group."""
    bulletin = view.bulletin
    if bulletin.state in ENDED:
        return Ended.of(view.end)
    if bulletin.rounds:
        id_, state = bulletin.rounds[-1]
        if state is RoundState.OPEN:
            return _wait_or_close(view, view.round(id_))
        if state is RoundState.CLOSED:
            return _answer_or_fail(view, view.round(id_))
    return _ask_or_end(view)


def _wait_or_close(view: StudyView, round_: PreparedRound) -> RoundClosed | Waiting:
    received = view.received(round_.id)
    reason = _due(round_, received, view.now)
    if reason is None:
        return Waiting(round_.id, received, round_.spec.target, round_.spec.deadline)
    return RoundClosed(round=round_.id, reason=reason, received=received)


def _due(round_: PreparedRound, received: int, now: int) -> CloseReason | None:
    if received >= round_.spec.target:
        return "target"
    return "deadline" if now >= round_.spec.deadline else None


def _answer_or_fail(view: StudyView, round_: PreparedRound) -> RoundAnswered | StudyEnded:
    tallies = view.tallies(round_.id)
    received = [tally.received for tally in tallies]
    if not all(received):
        spec, silent = round_.spec, received.count(0)
        reports, parts = counted(spec.target, "report"), counted(len(received), "part")
        what = f"closed at {sum(received):,} of {reports}, and {silent:,} of its {parts} had none"
        return _failed(f"round {spec.number}: {what}", Cause.TOO_FEW_REPORTS)
    return RoundAnswered(round=round_.id, tallies=tuple(tally.to_rows() for tally in tallies))


def _ask_or_end(view: StudyView) -> RoundPublished | StudyEnded | Paused:
    try:
        return next_round(view)
    except ReplayError as error:
        return Paused(str(error))
    except StrategyError as error:
        return _failed(str(error), Cause.STRATEGY)
    except planning.TooFewUsersError as error:
        return _failed(str(error), Cause.TOO_FEW_USERS)


def next_round(view: StudyView) -> RoundPublished | StudyEnded:
    """The round that follows, or the end with what was learned.

    StrategyError or TooFewUsersError where neither can be: of a study that is not published yet, nothing is left.
    """
    replay = view.replay
    output = replay.output
    if isinstance(output, Hypothesis):
        return replay.finished(output)
    demand = asked(replay, view.bulletin.state, output)
    payers = view.payers(demand.charge)
    number = len(replay.rounds) + 1
    position = planning.RoundPosition(number, replay.strategy.portion(number), replay.first_free_slot)
    return RoundPublished(round=planning.plan_round(replay.study, demand, position, view.enrolled, payers, view.now))


def asked(replay: Replay, state: StudyState, asks: Sequence[Ask]) -> planning.Demand:
    """Compile the asks to parts; an error here is the strategy's."""
    try:
        # In a noninteractive study nothing follows what was published: the protocol's own table says so.
        event = StudyEvent.PUBLISH if replay.study.interactive else StudyEvent.PUBLISH_ALL
        study_after(state, event)
        return planning.demand(replay.study, asks, replay.strategy.rounds)
    except ProtocolError as error:
        raise StrategyError(f"round {len(replay.rounds) + 1}: {error}") from error
    except Exception as error:
        # A query that was not made by its class, for instance.
        raise raised(error) from error


def _failed(reason: str, cause: Cause) -> StudyEnded:
    return StudyEnded(state="failed", reason=readable(reason), cause=cause)
