"""Several yes/no questions in one report: the answers of each, for fewer users where the planner finds so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from askance_lab.data.made_up import made_up
from askance_lab.experiments.planned_users import plan_study
from askance_lab.oracles.local import LocalReports, study_for
from askance_protocol.channels import BinaryResponse, BinarySpec, ChannelSpec, KarySpec, TableSpec
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    Compare,
    FieldValue,
    If,
    Integer,
    Label,
    Not,
    Slice,
    Term,
)
from askance_protocol.rounds import Part, PreparedPart, StudySpec
from askance_protocol.rounds.prepared import PreparedParts
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core import planning
from askance_server.core.questions_each import Joint, factors_of, joined, product_of, together, yes_cells
from askance_server.core.sample_size import reports_needed
from askance_server.core.strategy import (
    Ask,
    Asking,
    Estimate,
    Hypothesis,
    Parameters,
    ReportedAnswers,
    Strategy,
    SumsOfCells,
    estimates_in,
)
from askance_server.strategies.registry import registry
from askance_server.strategies.shared.grids import strips
from tests.server.learners import exact

MICRO = 1_000_000
NO_SUMS: SumsOfCells = {}
EXAMPLE = Schema(fields=(BitsField(name="x", width=5), LabelField(name="y")))
X = [Bit(field="x", index=i) for i in range(5)]
TESTS = [BooleanQuery(test=And(of=(Not(of=x), Label(sign=1)))) for x in X]


def people(seed: int = 3) -> Columns:
    random = np.random.default_rng(seed)
    return Columns.of(EXAMPLE, {"x": random.integers(0, 2, (40, 5)), "y": random.choice([1, -1], 40)})


def asks(*tolerances: float) -> list[Ask]:
    return [Ask(query, tolerance) for query, tolerance in zip(TESTS, tolerances, strict=False)]


def study(epsilon: str = "1", **more: Any) -> StudySpec:
    return study_for(FIVE, {"epsilon": epsilon, **more}, 1)


def run(_: Parameters) -> Asking:
    """Say what was answered."""
    said = yield asks(*[0.05] * 5)
    return Hypothesis("", {"answers": [round(float(answer), 9) for answer in said]})


FIVE = Strategy("five", "Five questions", interactive=False, rounds=1, schema=lambda _: EXAMPLE, run=run)


def groups(joint: list[Joint]) -> list[tuple[int, ...]]:
    return [one.numbers for one in joint]


@pytest.mark.parametrize("each", range(1, planning.MOST_EACH + 1))
def test_each_question_has_the_answer_that_it_has_alone(each: int) -> None:
    joint = joined(study(), asks(*[0.05] * 5), 1, each)
    found = dict(pair for one in joint for pair in one.answers(exact(one.ask, people())))

    assert len(joint) == -(-5 // each)
    assert [found[number] for number in range(5)] == pytest.approx([exact(ask, people()) for ask in asks(*[1] * 5)])
    assert all(
        factors_of(one.ask.query) == tuple(TESTS[n] for n in one.numbers) for one in joint if len(one.numbers) > 1
    )


def test_the_cells_of_a_yes_are_those_in_which_its_test_holds() -> None:
    """The control: those of another test give another answer."""
    assert yes_cells(3) == ((1, 3, 5, 7), (2, 3, 6, 7), (4, 5, 6, 7))
    cells = np.asarray(exact(Ask(product_of(TESTS[:2]), 0.1), people()))
    right, wrong = (cells[list(some)].sum() for some in yes_cells(2))

    assert right == pytest.approx(exact(asks(0.1)[0], people()))
    assert wrong != pytest.approx(exact(asks(0.1)[0], people()))


def test_only_yes_no_questions_of_one_tolerance_are_put_together() -> None:
    cells = Ask(CellQuery(cells=4, cell=Slice(field="x", first=0, width=2)), 0.1)
    mean = Ask(RealQuery(numerator=FieldValue(field="y"), denominator=1), 0.1)

    assert groups(joined(study(), [cells, *asks(0.1, 0.2, 0.1, 0.2, 0.1), mean], 1, 2)) == [
        (0,),
        (1,),
        (2, 4),
        (3, 5),
        (6,),
    ]
    # Who says her share of the users has the users that she says.
    shared = [Ask(ask.query, ask.tolerance, share=1) for ask in asks(*[0.1] * 5)]
    assert groups(joined(study(), shared, 1, 3)) == [(0,), (1,), (2,), (3,), (4,)]


@pytest.mark.parametrize(("epsilon", "each"), [("1", 1), ("1.3", 1), ("1.5", 2), ("2", 2), ("3.2", 3), ("5", 5)])
def test_the_best_number_is_that_for_which_a_round_needs_the_fewest_users(epsilon: str, each: int) -> None:
    """At ε = 1 it never pays."""
    five = asks(*[0.01] * 5)
    needs = {
        k: planning.demand(study(epsilon), [one.ask for one in joined(study(epsilon), five, 1, k)], 1).target
        for k in range(1, 6)
    }

    assert min(needs, key=needs.__getitem__) == each
    assert max(len(one.numbers) for one in joined(study(epsilon), five, 1, "best")) == each


def product_channel(tests: int, epsilon: int) -> TableSpec:
    """Each test by a binary response at its share of ε: several reports of one user (KLNRS11, Def. 5.3)."""
    # A millionth less than the share, so that what rounding leaves does not matter.
    truth = Fraction(BinaryResponse(epsilon // tests - 1).keep, 1 << 64)
    answers = list(product((0, 1), repeat=tests))
    rows = list[tuple[str, ...]]()
    for given in answers:
        lies = [sum(one != other for one, other in zip(given, told, strict=True)) for told in answers]
        row = [int((1 << 64) * truth ** (tests - lie) * (1 - truth) ** lie) for lie in lies]
        row[-1] += (1 << 64) - sum(row)
        rows.append(tuple(map(str, row)))
    return TableSpec(weights=tuple(rows))


def need(query: BooleanQuery | CellQuery, channel: ChannelSpec, epsilon: int, sums: Any = ()) -> int:
    part: PreparedPart = PreparedParts([Part(query=query, channel=channel, charge=epsilon)], EXAMPLE)[0]
    assert part.channel.certified_micro_epsilon <= epsilon
    return reports_needed(part, 0.02, 0.001 * max(1, len(sums)), sums)


@pytest.mark.parametrize("tests", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [MICRO // 2, MICRO, 3 * MICRO // 2, 2 * MICRO, 3 * MICRO, 4 * MICRO])
def test_several_reports_of_one_user_never_need_the_fewest_users(tests: int, epsilon: int) -> None:
    """Exactly, for a question: one at a time, several at shares of ε, or several at the whole of it."""
    query, yes = product_of(TESTS[:tests]), yes_cells(tests)
    alone = tests * need(TESTS[0], BinarySpec(micro_epsilon=epsilon), epsilon)
    several = need(query, product_channel(tests, epsilon), epsilon, yes)
    joint = need(query, KarySpec(micro_epsilon=epsilon), epsilon, yes)

    assert several > min(alone, joint)
    if tests == 2:
        assert joint < several
    # The control: at a large ε either of them needs fewer users than one question each.
    if epsilon == 4 * MICRO and tests < 4:
        assert max(joint, several) < alone


# -------------------------------------------------------------------------------------------------------- in a study


def test_estimates_are_told_by_the_question_and_are_what_the_strategy_was_sent() -> None:
    users = 60_000
    parameters = {"epsilon": "3", "users": "all", "questions_each": 3}
    population = made_up(registry()["decision-tree"], {"d": 5}, 4, {})
    oracle = LocalReports(study_for(FIVE, parameters, 2), FIVE, population, users, 2)
    answers = cast("list[float]", oracle.learn(FIVE, {}).hypothesis.value["answers"])
    found = oracle.estimates(FIVE)

    assert [each.name for each in found] == [f"share(x[{i}] = 0 and y = 1)" for i in (0, 1, 2, 3, 4)]
    # A share that is told is one that there may be.
    assert [round(each.estimate, 9) for each in found] == [max(0.0, answer) for answer in answers]
    assert {each.reports for each in found} == {tally.received for tallies in oracle.tallies for tally in tallies}
    truth = [exact(ask, population.columns(range(users))) for ask in asks(*[0.05] * 5)]
    assert all(each.low - 0.005 < right < each.high + 0.005 for each, right in zip(found, truth, strict=True))


@pytest.mark.parametrize("each", [2, 3, "best"])
def test_a_learner_keeps_its_promise_with_as_many_users_as_it_needs(each: int | str) -> None:
    strategy, terms = registry()["conjunction"], {"d": 4, "alpha": "0.3", "epsilon": "3", "questions_each": each}
    enrol = plan_study("conjunction", terms).enrol
    for seed in range(8):
        population = made_up(strategy, terms, seed, {})
        oracle = LocalReports(study_for(strategy, terms, seed), strategy, population, enrol, seed)
        value = oracle.learn(strategy, {}).hypothesis.value
        assert strategy.error is not None
        assert float(strategy.error(value, population.truth) or 0) <= 0.3
        assert oracle.spent.micro_epsilon == 3 * MICRO


@pytest.mark.parametrize("wrong", [0, 7, "2", "most", True])
def test_what_is_no_number_of_questions_is_refused(wrong: Any) -> None:
    with pytest.raises(ProtocolError, match="questions_each") as refused:
        study(questions_each=wrong)

    assert '"best"' in refused.value.remedy


def test_who_tells_her_estimates_herself_says_herself_what_is_asked_together() -> None:
    with pytest.raises(ProtocolError, match="decided by 'kmeans' itself"):
        study_for(registry()["kmeans"], {"d": 1, "k": 2, "questions_each": "best"}, 1)


def test_what_is_no_product_of_tests_is_told_by_its_cells() -> None:
    assert factors_of(TESTS[0]) == factors_of(CellQuery(cells=4, cell=Slice(field="x", first=0, width=2))) == ()
    signed = product_of(TESTS[:2]).model_copy(update={"negative": Label(sign=1)})
    wider = product_of(TESTS[:2]).model_copy(update={"cells": 8})
    assert factors_of(signed) == factors_of(wider) == ()
    # 31 tests, as many as there are cuts: their product has more cells than a query may have.
    assert factors_of(strips(0, 1000)) == ()


def test_a_count_of_more_tests_than_a_product_may_have_is_none() -> None:
    """A grid counts the cuts that a coordinate has passed, of which there may be any number."""
    field, one, zero = FieldValue(field="y"), Integer(of=1), Integer(of=0)
    tests = [Compare(left=field, relation=">=", right=Integer(of=cut)) for cut in range(31)]
    terms = tuple(Term(weight=1, of=If(test=test, then=one, otherwise=zero)) for test in tests)

    assert factors_of(CellQuery(cells=32, cell=Affine(terms=terms))) == ()
    with pytest.raises(ValueError, match="65536"):
        product_of([BooleanQuery(test=test) for test in tests])


def test_a_strategy_is_told_how_sure_answers_are_that_were_asked_together() -> None:
    """Its own questions in its own order, though cells that it asks second are asked between others."""
    cells = CellQuery(cells=2, cell=Slice(field="x", first=0, width=1))
    first, *rest = asks(*[0.05] * 3)
    mine, seen = [first, Ask(cells, 0.05), *rest], list[Sequence[Estimate]]()

    def asking(_: Parameters) -> Asking:
        seen.append(estimates_in((yield mine)))
        return Hypothesis("", {})

    run_ = together(replace(FIVE, run=asking), study(), 3).run({})
    joint = list(next(run_))

    def estimates(level: float, _: SumsOfCells = NO_SUMS) -> list[Estimate]:
        told = [factors_of(ask.query) or (ask.query,) * 2 for ask in joint]
        return [Estimate(str(each.to_json()), 0.5, 0.4, 0.6, level, 9) for every in told for each in every]

    with pytest.raises(StopIteration):
        run_.send(ReportedAnswers([exact(ask, people()) for ask in joint], estimates))

    assert len(joint) == 2
    assert [each.name for each in seen[0]] == [
        str(query.to_json()) for query in (TESTS[0], cells, cells, TESTS[1], TESTS[2])
    ]
