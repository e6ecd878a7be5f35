"""The driver: whole studies over a ledger in memory, their failures, and their going on after a crash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from askance_protocol.budget import MICRO, to_text
from askance_protocol.channels.binary import MOST_MICRO_EPSILON
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import FieldValue, Slice
from askance_protocol.rounds import (
    MOST_ROUNDS,
    Bulletin,
    Cause,
    Entry,
    LearnedHypothesis,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundState,
    StaleEntryError,
    StudyEnded,
    StudyState,
)
from askance_server import driver
from askance_server.core import planning
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.core.study import Ended, Strategies, Waiting, check_answerable, check_study, study_of
from askance_server.driver import Driver, StudyOverError
from askance_server.ledger.base import Verdict
from askance_server.strategies.registry import registry
from tests.server.driving import advance, cancel, close, publish, result
from tests.server.learners import COIN, TRUE, bit, concepts, masked, strategy_of, study, value_of
from tests.server.ledger.memory_ledger import Crash, CrashingLedger, MemoryLedger
from tests.server.strategies.test_strategies import FAULTY

NOW = 1_800_000_000
BUILT_IN = registry()
FAST = {"epsilon": "4", "beta": "0.01"}
"""Few reports are needed at a large ε, and answers are almost never wrong."""


def coins(users: int, share: float = 0.75) -> Columns:
    """Four bits a user: the first is set for that share of them, the others for half."""
    draws = np.random.default_rng(2).random((users, 4))
    return Columns.of(COIN, {"x": (draws < np.array([share, 0.5, 0.5, 0.5])).astype(int)})


def opened(
    strategy: Strategy, users: int = 20_000, **parameters: int | bool | str
) -> tuple[MemoryLedger, str, dict[str, Strategy]]:
    """Open a study of the strategy: the ledger with its users, the study's id, and the strategies installed."""
    ledger = MemoryLedger()
    ledger.enrol(users, 4 * MICRO)
    # `users` is a parameter of studies as well.
    given = {name.rstrip("_"): value for name, value in parameters.items()}
    spec = study(strategy, **(FAST | given))
    return ledger, publish(ledger, spec, {strategy.name: strategy}), {strategy.name: strategy}


def drive(ledger: MemoryLedger, id_: str, strategies: Strategies, columns: Columns) -> Ended:
    """Drive a study to its end: whenever it waits, its cohort answers."""
    while isinstance(step := advance(ledger, id_, strategies, NOW), Waiting):
        assert ledger.answer(step.round, columns) >= step.target
    assert isinstance(step, Ended)
    return step


def drive_alone(ledger: MemoryLedger, id_: str, strategies: Strategies, columns: Columns) -> Ended:
    """The same by one server that never stops: what its strategy does wrong is sure to be of the code that asked."""
    server = Driver(ledger, strategies)
    while isinstance(step := server.advance(id_, NOW), Waiting):
        ledger.answer(step.round, columns)
    assert isinstance(step, Ended)
    return step


def waits(ledger: MemoryLedger, id_: str, strategies: Strategies, now: int = NOW) -> Waiting:
    """The next step of a study, which has to be that it waits for reports."""
    step = advance(ledger, id_, strategies, now)
    assert isinstance(step, Waiting)
    return step


def ends(ledger: MemoryLedger, id_: str, strategies: Strategies, now: int = NOW) -> Ended:
    """The next step of a study, which has to be its end."""
    step = advance(ledger, id_, strategies, now)
    assert isinstance(step, Ended)
    return step


def notices(ledger: MemoryLedger, id_: str) -> list[str]:
    return [entry.notice.kind for entry in ledger.entries(id_)]


def last(ledger: MemoryLedger, id_: str) -> StudyEnded:
    notice = ledger.entries(id_)[-1].notice
    assert isinstance(notice, StudyEnded)
    return notice


def two_rounds(_: Parameters) -> Asking:
    """Ask for a bit, then for the bit that the answer names and for a histogram."""
    [share] = yield [Ask(bit(0), 0.1)]
    which = 1 + int(share > 0.5)
    again, cells = yield [Ask(bit(which), 0.1), Ask(CELLS, 0.1)]
    assert isinstance(cells, np.ndarray)
    return Hypothesis(f"bit {which}", {"which": which, "again": again, "cells": cells.tolist()})


CELLS = CellQuery(cells=4, cell=Slice(field="x", first=0, width=2))
TWO = strategy_of(two_rounds, rounds=2)


# ---------------------------------------------------------------------------------------------------- whole studies


@pytest.mark.parametrize(("r", "a"), [("0101", 1), ("1110", 0), ("0000", 0)])
def test_a_mp_learns_its_concept_from_users(r: str, a: int) -> None:
    """At ε = 1, d = 4, over two disjoint cohorts, each user paying once."""
    ledger, parameters = MemoryLedger(), {"d": 4, "epsilon": "1", "beta": "0.01"}
    ledger.enrol(30_000, MICRO)
    id_ = publish(ledger, study(BUILT_IN["masked-parity"], **parameters), BUILT_IN)
    ended = drive(ledger, id_, BUILT_IN, masked(4, r, a, users=30_000))

    assert ended == Ended("finished", f"c_(r,a) with r = {r}, a = {a}", Cause.LEARNED)
    assert result(ledger, id_, BUILT_IN) == Hypothesis(ended.reason, {"r": r, "a": a})
    assert notices(ledger, id_) == ["study", "round", "closed", "answers", "round", "closed", "answers", "ended"]
    first, second = ledger.rounds.values()
    assert not (first.asked(range(30_000)) & second.asked(range(30_000))).any()
    assert len(first.parts) == 4
    assert len(second.parts) == 1
    assert set(ledger.spent) == {0, MICRO}
    assert not ledger.verify()


def test_a_mp_learns_all_concepts_at_a_large_epsilon() -> None:
    for r, a in concepts(2):
        ledger = MemoryLedger()
        ledger.enrol(3000, 4 * MICRO)
        id_ = publish(ledger, study(BUILT_IN["masked-parity"], d=2, **FAST), BUILT_IN)
        drive(ledger, id_, BUILT_IN, masked(2, r, a, users=3000))

        learned = result(ledger, id_, BUILT_IN)
        assert learned is not None
        assert learned.value == {"r": r, "a": a}


@pytest.mark.parametrize(
    ("name", "parameters", "arrays", "expected"),
    [
        ("mean", {"tolerance": "0.1"}, lambda n: {"value": np.linspace(-1, 0.5, n)}, ("mean", [-0.25])),
        (
            "histogram",
            {"cells": 3, "tolerance": "0.1"},
            lambda n: {"cell": np.arange(n) % 4 % 3},
            ("shares", [0.5, 0.25, 0.25]),
        ),
    ],
)
def test_the_noninteractive_strategies_learn_from_users(
    name: str,
    parameters: dict[str, int | str],
    arrays: Callable[[int], dict[str, np.ndarray]],
    expected: tuple[str, list[float]],
) -> None:
    strategy = BUILT_IN[name]
    ledger = MemoryLedger()
    ledger.enrol(20_000, 4 * MICRO)
    id_ = publish(ledger, study(strategy, **(FAST | parameters)), BUILT_IN)
    columns = Columns.of(strategy.schema(parameters), arrays(20_000))
    drive(ledger, id_, BUILT_IN, columns)

    learned = result(ledger, id_, BUILT_IN)
    assert learned is not None
    assert np.ravel(value_of(learned)[expected[0]]) == pytest.approx(expected[1], abs=0.1)
    assert ledger.bulletin(id_).rounds[0][1] is RoundState.ANSWERED


def test_a_conjunction_is_learned_from_users() -> None:
    x = np.random.default_rng(5).integers(0, 2, (40_000, 3))
    y = np.where(x[:, [0, 2]].all(axis=1), 1, -1)
    columns = Columns.of(BUILT_IN["conjunction"].schema({"d": 3}), {"x": x, "y": y})
    ledger = MemoryLedger()
    ledger.enrol(40_000, 4 * MICRO)
    id_ = publish(ledger, study(BUILT_IN["conjunction"], d=3, alpha="0.2", **FAST), BUILT_IN)

    assert drive(ledger, id_, BUILT_IN, columns).reason == "x_0 ∧ x_2"


def test_answers_are_a_float_or_an_array() -> None:
    ledger, id_, strategies = opened(TWO)
    drive(ledger, id_, strategies, coins(20_000))
    learned = result(ledger, id_, strategies)

    assert learned is not None
    assert isinstance(learned.value["again"], float)
    assert value_of(learned)["cells"] == pytest.approx([0.125, 0.375, 0.125, 0.375], abs=0.1)


def test_a_strategy_may_return_without_asking() -> None:
    def silent(_: Parameters) -> Asking:
        return Hypothesis("known", {})
        yield

    ledger, id_, strategies = opened(strategy_of(silent), users=0)

    assert advance(ledger, id_, strategies, NOW) == Ended("finished", "known", Cause.LEARNED)
    assert result(ledger, id_, strategies) == Hypothesis("known", {})


# ------------------------------------------------------------------------------------------------- life of a round


def test_a_study_waits_for_its_round() -> None:
    ledger, id_, strategies = opened(TWO)
    waiting = waits(ledger, id_, strategies)

    spec = ledger.round(waiting.round).spec
    assert (waiting.received, waiting.target, waiting.deadline) == (0, spec.target, NOW + 3600)
    assert advance(ledger, id_, strategies, NOW + 3599) == waiting
    assert notices(ledger, id_) == ["study", "round"]
    assert result(ledger, id_, strategies) is None


def test_who_only_waits_runs_no_strategy() -> None:
    """`advance` is called after every group of reports."""
    starts = list[int]()

    def counted(parameters: Parameters) -> Asking:
        starts.append(1)
        return two_rounds(parameters)

    ledger, id_, strategies = opened(strategy_of(counted, rounds=2))
    same = Driver(ledger, strategies)
    for _ in range(5):
        same.advance(id_, NOW)

    assert len(starts) == 1


def test_a_server_that_goes_on_sends_each_answer_to_the_strategy_once() -> None:
    """Four rounds: one start and one answer a round, and the same bulletin as servers that start anew each time."""
    heard = list[str]()

    def four_rounds(_: Parameters) -> Asking:
        heard.append("start")
        share: Answer = 0.0
        for number in range(4):
            [share] = yield [Ask(bit(number), 0.2)]
            heard.append(f"answer {number + 1}")
        return Hypothesis("done", {"share": share})

    strategy = strategy_of(four_rounds, rounds=4)
    ledger, id_, strategies = opened(strategy)
    again = Driver(ledger, strategies)
    while isinstance(due := again.advance(id_, NOW), Waiting):
        ledger.answer(due.round, coins(20_000))

    assert heard == ["start", *(f"answer {number}" for number in range(1, 5))]
    anew, again, _ = opened(strategy)
    drive(anew, again, strategies, coins(20_000))
    assert anew.entries(again) == ledger.entries(id_)
    # The control: servers that start anew each time send answers again.
    assert heard.count("start") > 2


def test_a_result_is_read_from_the_bulletin() -> None:
    """No strategy is run for it, and none has to be installed."""
    starts = list[int]()

    def counted(parameters: Parameters) -> Asking:
        starts.append(1)
        return two_rounds(parameters)

    ledger, id_, strategies = opened(strategy_of(counted, rounds=2))
    drive(ledger, id_, strategies, coins(20_000))
    starts.clear()

    learned = result(ledger, id_, strategies)
    assert learned is not None
    assert last(ledger, id_).hypothesis == LearnedHypothesis.of(learned.text, learned.value)
    assert result(ledger, id_, {}) == learned
    assert starts == []


def test_a_round_closes_at_its_target() -> None:
    ledger, id_, strategies = opened(TWO)
    waiting = waits(ledger, id_, strategies)
    ledger.answer(waiting.round, coins(20_000), most=waiting.target - 1)
    assert waits(ledger, id_, strategies).round == waiting.round

    ledger.answer(waiting.round, coins(20_000), most=1)
    assert waits(ledger, id_, strategies).round != waiting.round
    closed = ledger.entries(id_)[2].notice
    assert closed == RoundClosed(round=waiting.round, reason="target", received=waiting.target)
    answered = ledger.entries(id_)[3].notice
    assert isinstance(answered, RoundAnswered)
    assert sum(sum(row) for part in answered.tallies for row in part) == waiting.target


@pytest.mark.parametrize("reason", ["deadline", "operator"])
def test_a_round_that_closes_early_is_answered_from_what_came_and_the_end_says_so(
    reason: Literal["deadline", "operator"],
) -> None:
    ledger, id_, strategies = opened(TWO)
    waiting = waits(ledger, id_, strategies)
    ledger.answer(waiting.round, coins(20_000), most=10)
    if reason == "operator":
        close(ledger, waiting.round)
    ended = drive_late(ledger, id_, strategies)

    closed = ledger.entries(id_)[2].notice
    assert closed == RoundClosed(round=waiting.round, reason=reason, received=10)
    note = f" (fewer reports than planned: round 1 had 10 of {waiting.target} reports)"
    assert ended.state == "finished"
    assert ended.reason.endswith(note)
    learned = result(ledger, id_, strategies)
    assert learned is not None
    assert learned.text + note == ended.reason


def drive_late(ledger: MemoryLedger, id_: str, strategies: Strategies) -> Ended:
    """Let the first deadline pass; then the second cohort answers."""
    second = waits(ledger, id_, strategies, NOW + 3600)
    ledger.answer(second.round, coins(20_000))
    return ends(ledger, id_, strategies, NOW + 3600)


def test_a_part_without_reports_fails_the_study_with_the_numbers() -> None:
    ledger, id_, strategies = opened(strategy_of(lambda _: iter_asks(3)))
    waiting = waits(ledger, id_, strategies)
    ledger.answer(waiting.round, coins(20_000), most=1)
    ended = ends(ledger, id_, strategies, NOW + 3600)

    assert ended == Ended(
        "failed",
        f"round 1: closed at 1 of {waiting.target:,} reports, and 2 of its 3 parts had none",
        Cause.TOO_FEW_REPORTS,
    )
    assert ledger.state(waiting.round) is RoundState.ABANDONED


def iter_asks(count: int) -> Asking:
    yield [Ask(bit(k), 0.2) for k in range(count)]
    return Hypothesis("done", {})


def test_close_refuses_a_round_that_is_not_open() -> None:
    ledger, id_, strategies = opened(TWO)
    waiting = waits(ledger, id_, strategies)
    close(ledger, waiting.round)

    with pytest.raises(ProtocolError, match="is not open"):
        close(ledger, waiting.round)


def test_the_operator_cancels() -> None:
    ledger, id_, strategies = opened(TWO)
    waiting = waits(ledger, id_, strategies)

    assert cancel(ledger, id_) == Ended("cancelled", "cancelled by the operator", Cause.CANCELLED)
    assert advance(ledger, id_, strategies, NOW) == Ended("cancelled", "cancelled by the operator", Cause.CANCELLED)
    assert ledger.state(waiting.round) is RoundState.ABANDONED
    assert result(ledger, id_, strategies) is None
    with pytest.raises(ProtocolError, match="has ended already"):
        cancel(ledger, id_)


class RacingLedger(MemoryLedger):
    """At an append that is to come, another replica is faster."""

    def __init__(self) -> None:
        super().__init__()
        self.faster: Callable[[], object] | None = None

    def append(self, study: str, entry: Entry) -> Bulletin:
        faster, self.faster = self.faster, None
        if faster is not None:
            faster()
        return super().append(study, entry)


def racing() -> tuple[RacingLedger, str, dict[str, Strategy]]:
    """A study over such a ledger, whose first round has its reports."""
    ledger, strategies = RacingLedger(), {"small": TWO}
    ledger.enrol(20_000, 4 * MICRO)
    id_ = publish(ledger, study(TWO, **FAST), strategies)
    ledger.answer(waits(ledger, id_, strategies).round, coins(20_000))
    return ledger, id_, strategies


def test_a_driver_that_is_late_goes_on_from_what_another_has_appended() -> None:
    ledger, id_, strategies = racing()
    ledger.faster = lambda: advance(ledger, id_, strategies, NOW)
    waiting = waits(ledger, id_, strategies)

    assert notices(ledger, id_) == ["study", "round", "closed", "answers", "round"]
    assert waiting.round == ledger.bulletin(id_).rounds[1][0]


def test_a_cancelling_is_not_lost_to_an_entry_that_comes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, id_, strategies = racing()
    ledger.faster = lambda: advance(ledger, id_, strategies, NOW)
    assert cancel(ledger, id_).cause is Cause.CANCELLED
    assert notices(ledger, id_) == ["study", "round", "closed", "answers", "round", "ended"]

    # The control: tried once, it is refused although the study runs.
    monkeypatch.setattr(driver, "suppress", lambda *_: nullcontext())
    ledger, id_, strategies = racing()
    ledger.faster = lambda: advance(ledger, id_, strategies, NOW)
    with pytest.raises(StaleEntryError):
        cancel(ledger, id_)
    assert notices(ledger, id_)[-1] == "round"


def test_who_cancels_what_another_has_just_cancelled_is_told_so() -> None:
    ledger, id_, _ = racing()
    ledger.faster = lambda: cancel(ledger, id_)

    with pytest.raises(StudyOverError, match="has ended already"):
        cancel(ledger, id_)
    assert notices(ledger, id_).count("ended") == 1


def test_only_accepted_reports_count() -> None:
    """Through `charge`, with a retry, a conflict, a stranger and somebody who was not asked."""
    ledger, id_, strategies = opened(TWO)
    waiting = waits(ledger, id_, strategies)
    asked = ledger.round(waiting.round).asked(range(20_000))
    member, other = int(np.argmax(asked)), int(np.argmin(asked))
    users = np.array([member, member, member, other, 20_000], np.uint64)
    verdicts = ledger.charge(waiting.round, users, np.array([1, 1, 0, 1, 1], np.uint32))

    assert [Verdict(verdict).name for verdict in verdicts] == [
        "ACCEPTED",
        "REPEATED",
        "CONFLICT",
        "NOT_ASKED",
        "UNKNOWN_USER",
    ]
    assert waits(ledger, id_, strategies).received == 1
    assert ledger.standing(member).account.remaining == 0
    close(ledger, waiting.round)
    advance(ledger, id_, strategies, NOW)
    answered = ledger.entries(id_)[3].notice
    assert isinstance(answered, RoundAnswered)
    assert answered.tallies == (((0, 1),),)


# ---------------------------------------------------------------------------------------------------- too few users


def test_too_few_users_fail_the_study_before_anything_is_spent() -> None:
    ledger, id_, strategies = opened(TWO, users=5)
    ended = ends(ledger, id_, strategies)

    assert (ended.state, ended.cause) == ("failed", Cause.TOO_FEW_USERS)
    assert "round 1: needs" in ended.reason
    assert "and 5 are left" in ended.reason
    assert notices(ledger, id_) == ["study", "ended"]
    ledger.assert_nothing_spent()


def test_users_who_have_spent_their_budget_do_not_count() -> None:
    ledger, id_, strategies = opened(TWO)
    ledger.spent = [1] * 20_000

    assert "and 0 are left" in ends(ledger, id_, strategies).reason


def test_a_second_round_without_users_fails_with_the_numbers() -> None:
    need = opened_target(TWO)
    ledger, id_, strategies = opened(TWO, users=need)
    waiting = waits(ledger, id_, strategies)
    ledger.answer(waiting.round, coins(need))
    ended = ends(ledger, id_, strategies)

    assert ended.reason.startswith("round 2: needs")
    assert "and 0 are left" in ended.reason
    assert sum(ledger.spent) == need * 4 * MICRO


def opened_target(strategy: Strategy) -> int:
    ledger, id_, strategies = opened(strategy)
    return waits(ledger, id_, strategies).target


def test_all_users_take_part_where_the_study_says_so() -> None:
    ledger, id_, strategies = opened(TWO, users=100, users_="all")
    ended = drive(ledger, id_, strategies, coins(100))

    assert ended.state == "finished"
    assert set(ledger.spent) == {4 * MICRO}


# ---------------------------------------------------------------------------------------------- strategies that fail


# Thousands of queries that are answered before there are too many take seconds: `test_strategies` asks them.
@pytest.mark.parametrize("fault", sorted(FAULTY.keys() - {"too many asks"}))
def test_what_a_strategy_does_wrong_ends_its_study(fault: str) -> None:
    run, reason = FAULTY[fault]
    ledger, id_, strategies = opened(strategy_of(run), users=3000)
    ended = drive_alone(ledger, id_, strategies, coins(ledger.enrolled()))

    assert (ended.state, ended.cause) == ("failed", Cause.STRATEGY)
    assert reason in ended.reason
    assert last(ledger, id_).reason == ended.reason
    assert advance(ledger, id_, strategies, NOW) == ended
    assert result(ledger, id_, strategies) is None


UNANSWERABLE: dict[str, tuple[list[Ask], str]] = {
    "unknown field": ([Ask(CellQuery(cells=2, cell=FieldValue(field="nothing")), 0.1)], "there is no field"),
    "no such bit": ([Ask(bit(9), 0.1)], "parts[0].bit"),
    "tolerance above 1": ([Ask(TRUE, 3.0)], "asks[0].tolerance"),
    "tolerance too small": ([Ask(TRUE, 1e-300)], "asks[0].tolerance"),
    "a forged query": ([Ask(BooleanQuery.model_construct(test=3), 0.1)], "raised AttributeError"),
}


@pytest.mark.parametrize("what", UNANSWERABLE)
def test_what_cannot_be_planned_ends_its_study(what: str) -> None:
    asks, reason = UNANSWERABLE[what]

    def run(_: Parameters) -> Asking:
        yield asks
        return Hypothesis("", {})

    ledger, id_, strategies = opened(strategy_of(run))
    ended = ends(ledger, id_, strategies)

    assert ended.state == "failed"
    assert reason in ended.reason
    ledger.assert_nothing_spent()


def test_a_noninteractive_study_is_sealed() -> None:
    """A strategy that says it is noninteractive and asks again is refused by the protocol's own table."""
    ledger, id_, strategies = opened(strategy_of(two_rounds, interactive=False, rounds=2))
    waits(ledger, id_, strategies)
    assert ledger.bulletin(id_).state is StudyState.SEALED
    ledger, id_, strategies = opened(strategy_of(two_rounds, interactive=False, rounds=2))
    ended = drive_alone(ledger, id_, strategies, coins(20_000))

    assert ended.state == "failed"
    assert ended.reason.startswith("round 2: life cycle: 'publish all' is not possible when sealed")
    assert notices(ledger, id_).count("round") == 1


def test_a_later_round_of_a_sealed_study_is_refused_by_the_bulletin_too() -> None:
    ledger, id_, strategies = opened(strategy_of(two_rounds, interactive=False, rounds=2))
    advance(ledger, id_, strategies, NOW)
    bulletin = ledger.bulletin(id_)
    published = ledger.entries(id_)[1].notice
    assert isinstance(published, RoundPublished)
    again = RoundPublished(round=published.round.model_copy(update={"number": 2}))

    with pytest.raises(ProtocolError, match="not possible when sealed"):
        ledger.append(id_, bulletin.next(again))


def test_a_long_reason_is_cut() -> None:
    def talkative(_: Parameters) -> Asking:
        return Hypothesis("é" * 5000 + "\ud800", {})
        yield

    ledger, id_, strategies = opened(strategy_of(talkative))
    ended = ends(ledger, id_, strategies)

    assert len(ended.reason) == 1000
    assert ended.reason.endswith("…")


# ------------------------------------------------------------------------------------------------ crash and resume


def resumed(at: int, *, stored: bool, parameters: dict[str, str]) -> CrashingLedger:
    """Run a study that crashes at its `at`-th append, and go on as a new process would."""
    ledger = CrashingLedger(at, stored=stored)
    ledger.enrol(20_000, 4 * MICRO)
    strategies = {"small": TWO}
    spec = study(TWO, **(FAST | parameters))
    for _ in range(3):
        try:
            if spec.digest() not in ledger.studies():
                publish(ledger, spec, strategies)
            drive(ledger, spec.digest(), strategies, coins(20_000))
        except Crash:
            assert ledger.left == 0
    return ledger


@pytest.mark.parametrize("stored", [False, True])
def test_a_crash_at_any_append_changes_nothing(stored: bool) -> None:
    """Before the entry is on disk, or after: the same entries, to the digest, and the same users charged."""
    whole = resumed(99, stored=stored, parameters={})
    [id_] = whole.studies()
    appends = len(whole.entries(id_))
    assert appends == 8
    for at in range(1, appends + 1):
        ledger = resumed(at, stored=stored, parameters={})

        assert ledger.left <= 0
        assert ledger.bulletin(id_) == whole.bulletin(id_)
        assert ledger.spent == whole.spent
        assert result(ledger, id_, {"small": TWO}) == result(whole, id_, {"small": TWO})


def test_the_bulletin_of_a_study_can_be_checked_by_anybody() -> None:
    ledger, id_, strategies = opened(TWO)
    drive(ledger, id_, strategies, coins(20_000))

    assert Bulletin().extend(ledger.entries(id_)) == ledger.bulletin(id_)


# -------------------------------------------------------------------------------------------------------- check_study


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"strategy": "nobody"}, "strategy"),
        ({"interactive": False}, "interactive"),
        ({"example": BUILT_IN["mean"].schema({})}, "example"),
        ({"cap": 1}, "parameters.epsilon"),
        ({"parameters": {"d": 4, "alpha": "0.1"}}, "parameters.alpha"),
        ({"parameters": {"d": 3}}, "parameters.d"),
        ({"parameters": {"d": 4, "beta": "2"}}, "parameters.beta"),
    ],
)
def test_a_study_that_could_not_start_is_refused(changes: dict[str, object], where: str) -> None:
    ledger = MemoryLedger()
    spec = study(BUILT_IN["masked-parity"], d=4).model_copy(update=changes)

    for call in (lambda: check_study(spec, BUILT_IN), lambda: publish(ledger, spec, BUILT_IN)):
        with pytest.raises(ProtocolError) as caught:
            call()
        assert caught.value.where == where
    assert not ledger.studies()


@pytest.mark.parametrize(
    ("rounds", "epsilon", "where"),
    [
        (MOST_ROUNDS, "0.01", None),
        (MOST_ROUNDS + 1, "0.01", "strategy"),
        (10_000, "1", "strategy"),
        (MOST_ROUNDS, "0.009999", "parameters.epsilon"),
        (1, "0.000001", "parameters.epsilon"),
    ],
)
def test_a_study_that_clients_would_refuse_is_not_answerable(rounds: int, epsilon: str, where: str | None) -> None:
    """It may run in one process, where nobody times anybody; `Aggregator.create` refuses it."""
    strategy = replace(BUILT_IN["mean"], rounds=rounds)
    spec, strategies = study(strategy, epsilon=epsilon), {strategy.name: strategy}
    if where is None:
        check_answerable(spec, strategies)
        return
    with pytest.raises(ProtocolError) as caught:
        check_answerable(spec, strategies)
    assert caught.value.where == where
    assert caught.value.remedy


def test_an_epsilon_that_no_channel_is_certified_for_is_refused_by_its_parameter() -> None:
    """Where the study is made: not by a part of a round that nobody has seen."""
    most, more = to_text(MOST_MICRO_EPSILON), to_text(MOST_MICRO_EPSILON + 1)

    last = study(BUILT_IN["masked-parity"], d=4, epsilon=most)
    assert planning.demand(last, [Ask(TRUE, 0.1)], 1).target
    with pytest.raises(ProtocolError) as caught:
        study(BUILT_IN["masked-parity"], d=4, epsilon=more)
    assert (caught.value.where, more in caught.value.what) == ("parameters.epsilon", True)
    assert most in caught.value.remedy


def test_a_study_costs_a_user_one_report() -> None:
    spec = study(BUILT_IN["masked-parity"], d=4, epsilon="0.3")

    assert spec.cap == 300_000
    assert spec.interactive
    with pytest.raises(ProtocolError, match="nobody"):
        study_of(BUILT_IN, strategy="nobody", parameters={}, title="t", nonce="0" * 32, simulated=True)
