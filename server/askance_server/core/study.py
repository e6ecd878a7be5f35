"""The driver: carries a study from its publication to its end, one bulletin entry at a time.

Theory of operation
-------------------
`advance` looks at what the ledger holds, works out the one entry that has to follow, appends it, and looks again,
until there is nothing to do but to wait, or the study has ended. It keeps nothing between two entries, so a process
that stops anywhere loses nothing: whoever calls `advance` next goes on from the last entry.

Where a strategy stands is not stored either: `replay` finds out.

Whatever a strategy does wrong ends its study, with the reason on the bulletin. What the ledger does wrong does not:
its errors pass through, and the study stands where it stood. So does a study whose strategy is not installed.

A round that closes early, by its deadline or by the operator, is answered from what came, if every part had a report:
estimates stay unbiased, only wider. The study's last entry names such rounds. A part without any report has no
estimate, and the study fails with the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from askance_protocol.budget import to_text
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    Bulletin,
    Entry,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundState,
    StudyEnded,
    StudyEvent,
    StudyPublished,
    StudySpec,
    StudyState,
    study_after,
)
from askance_server.core import planning
from askance_server.core.replay import Record, replay
from askance_server.core.run import StrategyError, raised, readable
from askance_server.core.strategy import Ask, Hypothesis, Parameters, Strategy
from askance_server.ledger.base import Ledger

Strategies: TypeAlias = Mapping[str, Strategy]
CloseReason: TypeAlias = Literal["target", "deadline", "operator"]

_ENDS: Final = (StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A round is open, and reports may come."""

    round: str
    received: int
    target: int
    deadline: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more will happen."""

    state: Literal["finished", "failed", "cancelled"]
    reason: str


# ---------------------------------------------------------------------------------------------------- what is offered


def study_of(
    strategies: Strategies,
    *,
    strategy: str,
    parameters: Parameters,
    title: str,
    nonce: str,
    simulated: bool,
    cap: int | None = None,
) -> StudySpec:
    """The study that runs a strategy; its cap is the price of one report, which is all that a user pays, or more."""
    epsilon = planning.terms_of(parameters).epsilon
    runs = _named(strategies, strategy)
    study = StudySpec(
        title=title,
        nonce=nonce,
        example=runs.schema(planning.strategy_parameters(parameters)),
        strategy=strategy,
        parameters=parameters,
        interactive=runs.interactive,
        simulated=simulated,
        cap=epsilon if cap is None else cap,
    )
    check_study(study, strategies)
    return study


def check_study(study: StudySpec, strategies: Strategies) -> None:
    """Refuse a study that could not start, naming the parameter or member that is wrong."""
    strategy = _named(strategies, study.strategy)
    epsilon = planning.terms_of(study.parameters).epsilon
    if study.example != strategy.schema(planning.strategy_parameters(study.parameters)):
        raise ProtocolError(f"is not the schema of {strategy.name!r}", where="example", remedy="take the strategy's")
    if study.interactive != strategy.interactive:
        raise ProtocolError(f"is {strategy.interactive} for {strategy.name!r}", where="interactive", remedy="say so")
    if epsilon > study.cap:
        what = f"{to_text(epsilon)} is above the study's cap of {to_text(study.cap)}"
        raise ProtocolError(what, where="parameters.epsilon", remedy="raise the cap, or ask for less")


def publish(ledger: Ledger, study: StudySpec, strategies: Strategies) -> str:
    """Put a study on its bulletin; the id by which it goes from now on. `advance` opens its first round."""
    check_study(study, strategies)
    id_ = study.digest()
    ledger.append(id_, Bulletin().next(StudyPublished(study=study)))
    return id_


def advance(ledger: Ledger, study_id: str, strategies: Strategies, now: int) -> Waiting | Ended:
    """Do what is due, and say what the study waits for. To do so twice is as good as once."""
    while True:
        bulletin = ledger.bulletin(study_id)
        step = _step(ledger, study_id, bulletin, strategies, now)
        if isinstance(step, Waiting | Ended):
            return step
        ledger.append(study_id, bulletin.next(step))


def close(ledger: Ledger, round_id: str) -> None:
    """Close a round that is open, because the operator says so. `advance` answers it."""
    if ledger.state(round_id) is not RoundState.OPEN:
        raise ProtocolError("is not open", where=f"round {round_id}", remedy="look at the bulletin of its study")
    study_id = ledger.round(round_id).spec.study
    notice = RoundClosed(round=round_id, reason="operator", received=ledger.received(round_id))
    ledger.append(study_id, ledger.bulletin(study_id).next(notice))


def cancel(ledger: Ledger, study_id: str) -> Ended:
    """End a study, because the operator says so. What was reported stays charged, and is not looked at."""
    end = StudyEnded(state="cancelled", reason="cancelled by the operator")
    ledger.append(study_id, ledger.bulletin(study_id).next(end))
    return Ended(end.state, end.reason)


def result(ledger: Ledger, study_id: str, strategies: Strategies) -> Hypothesis | None:
    """What a finished study learned, computed anew from its bulletin; None where it has not finished."""
    bulletin = ledger.bulletin(study_id)
    if bulletin.state is not StudyState.FINISHED:
        return None
    record = Record.of(ledger, study_id)
    try:
        learned = replay(record, _named(strategies, record.study.strategy))
    except StrategyError as error:
        raise _another(study_id) from error
    if not isinstance(learned, Hypothesis) or record.finished(learned) != record.ended:
        raise _another(study_id)
    return learned


def _another(study_id: str) -> ProtocolError:
    return ProtocolError(
        "its strategy does not say any more what it said",
        where=f"study {study_id}",
        remedy="install the version of the strategy that the study ran with",
    )


# -------------------------------------------------------------------------------------------------------------- steps

DueNotice: TypeAlias = RoundPublished | RoundClosed | RoundAnswered | StudyEnded


def _step(
    ledger: Ledger, study_id: str, bulletin: Bulletin, strategies: Strategies, now: int
) -> DueNotice | Waiting | Ended:
    """The one thing to do next. Whoever only waits replays nothing: this is asked after every group of reports."""
    if bulletin.state in _ENDS:
        return _ended(ledger.entries(study_id, bulletin.length - 2))
    if bulletin.rounds:
        id_, state = bulletin.rounds[-1]
        if state is RoundState.OPEN:
            return _wait_or_close(ledger, ledger.round(id_), now)
        if state is RoundState.CLOSED:
            return _answer_or_fail(ledger, ledger.round(id_))
    return _ask_or_end(ledger, Record.of(ledger, study_id), strategies, now)


def _ended(last: Sequence[Entry]) -> Ended:
    notice = last[-1].notice
    assert isinstance(notice, StudyEnded)  # noqa: S101 - told the type checker: nothing else leads to an end
    return Ended(notice.state, notice.reason)


def _wait_or_close(ledger: Ledger, round_: PreparedRound, now: int) -> RoundClosed | Waiting:
    received = ledger.received(round_.id)
    reason = _due(round_, received, now)
    if reason is None:
        return Waiting(round_.id, received, round_.spec.target, round_.spec.deadline)
    return RoundClosed(round=round_.id, reason=reason, received=received)


def _due(round_: PreparedRound, received: int, now: int) -> CloseReason | None:
    if received >= round_.spec.target:
        return "target"
    return "deadline" if now >= round_.spec.deadline else None


def _answer_or_fail(ledger: Ledger, round_: PreparedRound) -> RoundAnswered | StudyEnded:
    tallies = ledger.tallies(round_.id)
    received = [tally.received for tally in tallies]
    if not all(received):
        spec, silent = round_.spec, received.count(0)
        return _failed(
            f"round {spec.number}: closed at {sum(received)} of {spec.target} reports, "
            f"and {silent} of its {len(received)} parts had none"
        )
    return RoundAnswered(round=round_.id, tallies=tuple(tally.to_rows() for tally in tallies))


def _ask_or_end(ledger: Ledger, record: Record, strategies: Strategies, now: int) -> RoundPublished | StudyEnded:
    strategy = _named(strategies, record.study.strategy)
    try:
        said = replay(record, strategy)
        if isinstance(said, Hypothesis):
            return record.finished(said)
        demand = _demand(record, said, strategy.rounds)
    except StrategyError as error:
        return _failed(str(error))
    enrolled = ledger.enrolled()
    payers = planning.payers(record.study, enrolled, demand.charge, ledger.affording)
    number = len(record.rounds) + 1
    place = planning.RoundPosition(number, strategy.portion(number), record.first_slot)
    try:
        return RoundPublished(round=planning.plan(record.study, demand, place, enrolled, payers, now))
    except planning.TooFewUsersError as error:
        return _failed(str(error))


def _demand(record: Record, asks: Sequence[Ask], rounds: int) -> planning.Demand:
    """The asks as parts. Nothing but what the strategy asks can go wrong here."""
    try:
        # In a noninteractive study nothing follows what was published: the protocol's own table says so.
        study_after(record.state, StudyEvent.PUBLISH if record.study.interactive else StudyEvent.PUBLISH_ALL)
        return planning.demand(record.study, asks, rounds)
    except ProtocolError as error:
        raise StrategyError(f"round {len(record.rounds) + 1}: {error}") from error
    except Exception as error:
        # A query that was not made by its class, for instance.
        raise raised(error) from error


def _failed(reason: str) -> StudyEnded:
    return StudyEnded(state="failed", reason=readable(reason))


def _named(strategies: Strategies, name: str) -> Strategy:
    if name not in strategies:
        known = ", ".join(strategies)
        raise ProtocolError(f"there is no {name!r} here", where="strategy", remedy=f"install it, or use one of {known}")
    return strategies[name]
