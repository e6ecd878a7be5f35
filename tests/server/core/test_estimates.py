"""Estimates by name: every strategy has them, their intervals hold, and a strategy may say more than its queries do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from askance_lab.data.made_up import made_up
from askance_lab.run_study import run_study
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import Affine, FieldValue, Term
from askance_protocol.queries.notation import CUT, questions
from askance_protocol.rounds import PreparedPart, PreparedRound
from askance_protocol.tally import Tally
from askance_server.core import planning
from askance_server.core.estimates import AnsweredRound, estimates_of, study_estimates
from askance_server.core.estimators import estimate
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.replay import Replay
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Asking, Estimate, Estimating, Hypothesis, Parameters, Strategy, estimates_in
from askance_server.core.study import study_of
from askance_server.strategies.registry import registry
from tests.protocol.studies import PARTS, part, prepared, wrong
from tests.server.core.test_estimators import populations, report_probabilities, truth

STRATEGIES = registry()
IN_STEPS = RealQuery(
    numerator=Affine(constant=4, terms=(Term(weight=-2, of=FieldValue(field="height")),)), denominator=10
)
"""A real query that is told in other units: 4 − 2h over 10, h a height in tenths, from −3/10 to 7/10 of it."""
ROUNDS = {name: prepared(one) for name, one in {**PARTS, "real, in its own units": part(IN_STEPS)}.items()}


def finished(strategy: Strategy, users: int = 4000) -> StudyInMemory:
    """A study of a strategy, in memory, by users it is shown on."""
    own = {"d": 4} if strategy.small is None else strategy.small
    parameters: Parameters = {"users": "all", **own}
    named = {strategy.name: strategy}
    spec = study_of(named, strategy=strategy.name, parameters=parameters, title="T", nonce="0" * 32, simulated=True)
    return run_study(spec, strategy, made_up(strategy, parameters, 1, {}, None), users, seed=1)


@cache
def ended(name: str) -> StudyInMemory:
    return finished(STRATEGIES[name])


def answered(view: StudyInMemory) -> list[AnsweredRound]:
    return [(round_, view.counted[id_]) for id_, round_ in view.rounds.items()]


def told(view: StudyInMemory) -> list[Estimate]:
    return study_estimates(view.study, view.strategy, answered(view))


# -------------------------------------------------------------------------------------------------- every strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_result_of_each_strategy_has_an_estimate_for_each_question_and_each_cell(name: str) -> None:
    view = ended(name)
    found = told(view)

    asked = sum(questions(part.query).count for round_ in view.rounds.values() for part in round_.parts)
    # Of a mean over gaps two queries are asked, and their quotient is the one estimate; k-means tells its centres, too,
    # and a poll of two choices the share of each.
    assert len(found) == asked + {"survey": -1, "poll": 1, "kmeans": 3 * 2}.get(name, 0)
    for each in found:
        assert each.name.startswith(("share(", "mean(", "histogram("))
        assert -math.inf < each.low <= each.estimate <= each.high < math.inf
        assert (each.level, each.reports > 0) == (0.95, True)
    assert reports_fault(view, found) is None
    # A name that was cut says which question it is of.
    cut = [each.name for each in found if CUT in each.name]
    assert len(set(cut)) == len(cut)
    assert all("(round " in name for name in cut)


def reports_fault(view: StudyInMemory, found: Sequence[Estimate]) -> str | None:
    """Whose number of reports is not that of its question, exactly; None if all are right."""
    received = [
        (questions(part.query).count, tally.received)
        for id_, round_ in view.rounds.items()
        for part, tally in zip(round_.parts, view.counted[id_], strict=True)
    ]
    if view.strategy.name == "survey":
        # The mean over gaps is made of the reports of its two parts, the first that are asked.
        (_, value), (_, known), *others = received
        received = [(1, value + known), *others]
    by_question = [reports for count, reports in received for _ in range(count)]
    last = found[len(found) - len(by_question) :]
    wrong = [each.name for each, reports in zip(last, by_question, strict=True) if each.reports != reports]
    return wrong[0] if wrong else None


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_report_too_many_of_any_question_is_found(name: str) -> None:
    """The control."""
    view = ended(name)
    found = told(view)
    assert reports_fault(view, [*found[:-1], replace(found[-1], reports=found[-1].reports + 1)]) == found[-1].name
    first = {"kmeans": 3 * 2, "poll": 1}.get(name, 0)
    more = replace(found[first], reports=found[first].reports + 1)
    assert reports_fault(view, [*found[:first], more, *found[first + 1 :]]) == more.name


def test_the_names_of_the_simplest_are_what_was_asked() -> None:
    assert [each.name for each in told(ended("mean"))] == ["mean(value, -1, 1)"]
    assert [each.name for each in told(ended("histogram"))] == [f"share(cell = {cell})" for cell in range(4)]
    assert [each.name for each in told(ended("conjunction"))] == [f"share(x[{i}] = 0 and y = 1)" for i in range(4)]


def test_a_part_that_nobody_has_answered_has_no_estimate() -> None:
    view = ended("conjunction")
    [(round_, tallies)] = answered(view)
    empty = Tally(np.zeros_like(tallies[1].counts))
    found = estimates_of(round_, [tallies[0], empty, *tallies[2:]])

    assert [each.name for each in found] == [f"share(x[{i}] = 0 and y = 1)" for i in (0, 2, 3)]


def test_an_estimate_stays_where_its_question_can_have_an_answer() -> None:
    """The unbiased estimate of a share may be negative, as the tally shows it; a share is not, nor is it certain."""
    one = ROUNDS["boolean, binary"]
    nobody = Tally(np.array([[100, 0]]))
    [found] = estimates_of(one, [nobody])

    assert estimate(one.parts[0], nobody).values[0] < -0.5
    assert found.estimate == found.low == 0
    assert 0.05 < found.high < 0.5


def test_a_higher_level_has_a_wider_interval() -> None:
    [(round_, tallies)] = answered(ended("mean"))
    [usual], [surer] = estimates_of(round_, tallies), estimates_of(round_, tallies, 0.999)

    assert surer.low < usual.low < usual.estimate == surer.estimate < usual.high < surer.high
    assert surer.level == 0.999


# ------------------------------------------------------------------------------------------------ intervals that hold

SIZES = [2, 50, 5000]
RUNS = 150
MISSES_ALLOWED = 1e-6

Recording = Callable[[PreparedRound, Sequence[Tally], float], list[Estimate]]


def aims(one: PreparedPart, population: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """What is estimated, as it is told."""
    return [questions(one.query).told(each) for each in truth(one, population).tolist()]


def coverage_fault(round_: PreparedRound, recording: Recording, level: float = 0.9) -> str | None:
    """Where the intervals of records miss more often than they may, by a binomial test at 10⁻⁶; else None."""
    rng, [one] = np.random.default_rng(12), round_.parts
    for name, population in populations(one).items():
        probabilities, aim = report_probabilities(one, population), np.array(aims(one, population))
        for size in SIZES:
            missed = np.zeros(len(aim))
            for _ in range(RUNS):
                counts = rng.multinomial(size, probabilities.ravel() / probabilities.sum())
                found = recording(round_, [Tally(counts.reshape(probabilities.shape))], level)
                low, high = np.array([each.low for each in found]), np.array([each.high for each in found])
                missed += (aim < low - 1e-9) | (aim > high + 1e-9)
            if stats.binom.sf(missed.max() - 1, RUNS, 1 - level) < MISSES_ALLOWED:
                return f"{name}, {size} reports: {missed.max():.0f} of {RUNS} missed"
    return None


@pytest.mark.parametrize("name", ["cell, Hadamard", "real, in its own units"])
def test_the_intervals_of_records_cover_in_the_units_of_the_question(name: str) -> None:
    assert coverage_fault(ROUNDS[name], estimates_of) is None


@pytest.mark.parametrize("name", ["cell, Hadamard", "real, in its own units"])
def test_intervals_half_as_wide_are_found(name: str) -> None:
    """The control."""

    def half(round_: PreparedRound, tallies: Sequence[Tally], level: float) -> list[Estimate]:
        honest = estimates_of(round_, tallies, level)
        return [replace(e, low=(e.low + e.estimate) / 2, high=(e.high + e.estimate) / 2) for e in honest]

    assert coverage_fault(ROUNDS[name], half) is not None


def test_intervals_in_the_units_of_the_query_are_found() -> None:
    """The control of the units."""

    def untold(round_: PreparedRound, tallies: Sequence[Tally], level: float) -> list[Estimate]:
        found = estimate(round_.parts[0], tallies[0], level)
        [record] = estimates_of(round_, tallies, level)
        return [replace(record, low=float(found.low[0]), high=float(found.high[0]))]

    assert coverage_fault(ROUNDS["real, in its own units"], untold) is not None


# ------------------------------------------------------------------------------------------- what strategies say of it


def test_answers_from_reports_tell_a_strategy_how_sure_they_are() -> None:
    heard = list[Sequence[Estimate]]()

    def asking(parameters: Parameters) -> Asking:
        [ask] = next(STRATEGIES["mean"].run(parameters))
        answers = yield [ask]
        heard.extend([estimates_in(answers), estimates_in(answers, 0.99)])
        return Hypothesis("heard", {"mean": float(answers[0])})

    view = finished(replace(STRATEGIES["mean"], run=asking))

    assert view.end.reason == "heard"
    assert [heard[0], heard[1]] == [estimates_of(*answered(view)[0]), estimates_of(*answered(view)[0], 0.99)]


def test_a_study_of_version_0_1_is_replayed_with_answers_that_have_no_intervals() -> None:
    """It began so, and a strategy that looks at them would go another way."""
    heard = list[Sequence[Estimate]]()

    def asking(parameters: Parameters) -> Asking:
        answers = yield next(STRATEGIES["mean"].run(parameters))
        heard.append(estimates_in(answers))
        return Hypothesis("heard", {"mean": float(answers[0])})

    view = finished(replace(STRATEGIES["mean"], run=asking))
    heard.clear()
    for bare in (False, True):
        Replay(view.study, view.strategy, view.round, bare=bare).hear(entry.notice for entry in view.entries)

    assert heard == [estimates_of(*answered(view)[0]), ()]


def test_in_memory_the_clock_is_read_once_a_round() -> None:
    """What is planned again has the same deadline, and a later round one of its own."""
    view = finished(STRATEGIES["mean"])
    fresh = StudyInMemory(view.study, view.strategy, 10, clock=iter([5, 9, 11]).__next__)
    for answered_rounds, time in enumerate([5, 9, 11]):
        fresh._replay.answered = answered_rounds
        assert [fresh.now, fresh.now] == [time, time]


def test_answers_from_elsewhere_have_no_intervals() -> None:
    assert estimates_in([0.5]) == ()


def renamed(_: Parameters, at: Estimating) -> Sequence[Estimate]:
    """The same question by another name, at the level of two at once."""
    return [replace(each, name="mine", level=0.95) for each in at(1 - 0.05 / 2)]


def test_a_strategy_may_name_and_combine_its_estimates() -> None:
    view = ended("mean")
    [mine] = study_estimates(view.study, replace(view.strategy, estimates=renamed), answered(view))
    [usual] = told(view)

    assert (mine.name, mine.level, mine.estimate) == ("mine", 0.95, usual.estimate)
    assert mine.low < usual.low < usual.high < mine.high


def unready(strategy: Strategy, view: StudyInMemory) -> list[str]:
    """Where a strategy cannot tell its estimates: after fewer rounds than it asks, or with a part without a report."""
    rounds, wrong_at = answered(view), list[str]()
    looks = {f"{number} rounds": rounds[:number] for number in range(len(rounds) + 1)}
    for number in {0, len(rounds) - 1}:
        round_, tallies = rounds[number]
        for part_ in {0, len(tallies) - 1}:
            some = [Tally(np.zeros_like(each.counts)) if at == part_ else each for at, each in enumerate(tallies)]
            looks[f"round {number} without part {part_}"] = [*rounds[:number], (round_, some)]
    for look, some in looks.items():
        for vacuous in (False, True):
            try:
                found = study_estimates(view.study, strategy, some, vacuous=vacuous)
            except StrategyError:
                wrong_at.append(look)
                continue
            if not all(each.low <= each.estimate <= each.high and (each.reports or vacuous) for each in found):
                wrong_at.append(look)
    return wrong_at


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_tells_its_estimates_whatever_has_been_answered(name: str) -> None:
    view = ended(name)
    assert study_estimates(view.study, view.strategy, []) == []
    if view.strategy.on(view.study.example, planning.reports_in(view.study.parameters)).estimates is not None:
        assert unready(view.strategy, view) == []


def test_control_a_strategy_that_counts_on_all_its_rounds_is_found() -> None:
    def all_rounds(_: Parameters, at: Estimating) -> Sequence[Estimate]:
        return [each for each, _ in zip(at(0.95), range(known), strict=True)]

    view = ended("masked-parity")
    known = len(told(view))
    broken = replace(view.strategy, estimates=all_rounds)
    assert unready(broken, view)[:2] == ["1 rounds", "1 rounds"]
    assert "2 rounds" not in unready(broken, view)


@pytest.mark.parametrize("returned", [None, [1], [("mine", 0, 0, 0, 0.95, 1)]])
def test_what_a_strategy_says_of_its_estimates_is_checked(returned: object) -> None:
    view = ended("mean")
    broken = replace(view.strategy, estimates=wrong(lambda *_: returned))
    with pytest.raises(StrategyError, match=r"mean\.estimates"):
        study_estimates(view.study, broken, answered(view))
