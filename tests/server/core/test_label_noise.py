"""Labels that are wrong with a known probability: what is asked in place of a question has its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_lab.data.made_up import made_up
from askance_lab.experiments.planned_users import plan_study
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run as learned_by
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    FieldValue,
    If,
    Integer,
    Label,
    Not,
    Or,
    Slice,
    Term,
    Xor,
)
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core import planning
from askance_server.core.label_noise import LabelNoise, corrected
from askance_server.core.strategy import (
    Answer,
    Ask,
    Asking,
    Estimate,
    Estimating,
    Hypothesis,
    Parameters,
    ReportedAnswers,
    SumsOfCells,
    estimates_in,
)
from askance_server.core.study import study_of
from askance_server.strategies.conjunction import CONJUNCTION
from askance_server.strategies.registry import registry
from tests.server.learners import exact

EXAMPLE = Schema(fields=(BitsField(name="x", width=3), LabelField(name="y")))
ETA = Fraction(1, 5)
NO_SUMS: SumsOfCells = {}
X0, X1, PLUS = Bit(field="x", index=0), Bit(field="x", index=1), Label(sign=1)
Y = FieldValue(field="y")
QUERIES: dict[str, BooleanQuery | RealQuery | CellQuery] = {
    "boolean": BooleanQuery(test=And(of=(X0, PLUS))),
    "boolean, no label": BooleanQuery(test=X0),
    "boolean, the label twice": BooleanQuery(test=Xor(of=(PLUS, And(of=(X1, Label(sign=-1)))))),
    "real": RealQuery(numerator=If(test=X0, then=Y, otherwise=Integer(of=0)), denominator=1),
    "real, clamped": RealQuery(numerator=Affine(constant=1, terms=(Term(weight=3, of=Y),)), denominator=2),
    "real, no room for a denominator": RealQuery(numerator=Y, denominator=1 << 17),
    "cells, of which the label is the sign": CellQuery(
        cells=8, cell=Slice(field="x", first=0, width=3), negative=Xor(of=(X0, Not(of=PLUS)))
    ),
    "cells, of which the label is some signs": CellQuery(
        cells=4, cell=Slice(field="x", first=0, width=2), negative=Or(of=(X0, PLUS))
    ),
    "cells by the label": CellQuery(
        cells=4, cell=If(test=PLUS, then=Slice(field="x", first=0, width=2), otherwise=Integer(of=3))
    ),
}
every = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)


def people(labels: str) -> Columns:
    """Every x once, with the label that the text gives it."""
    return Columns.of(EXAMPLE, {"x": cube(), "y": np.array([1 if sign == "+" else -1 for sign in labels])})


def cube() -> np.ndarray:
    return np.array(list(product((0, 1), repeat=3)))


def noisy(columns: Columns, eta: Fraction) -> Columns:
    """The same users, each as often with the wrong label as η says."""
    wrong, right = eta.numerator, eta.denominator - eta.numerator
    y = np.concatenate([*[columns["y"]] * right, *[-columns["y"]] * wrong])
    return Columns.of(EXAMPLE, {"x": np.tile(cube(), (eta.denominator, 1)), "y": y})


def asked(query: Any, tolerance: float = 0.1) -> Ask:
    return Ask(query, tolerance)


@every
@pytest.mark.parametrize("labels", ["++++----", "+-+-+--+", "++++++++"])
def test_over_noisy_labels_its_answer_is_that_over_right_ones(query: Any, labels: str) -> None:
    columns, ask = people(labels), asked(query)
    asks, answer = LabelNoise(ETA, "y").undone(ask)
    found = answer([exact(each, noisy(columns, ETA)) for each in asks])

    assert found == pytest.approx(exact(ask, columns), abs=1e-12)


@every
@pytest.mark.parametrize("labels", ["++++----", "+-+-+--+"])
def test_answers_within_their_tolerance_keep_it_within_that_of_the_question(query: Any, labels: str) -> None:
    columns, ask = people(labels), asked(query)
    asks, answer = LabelNoise(ETA, "y").undone(ask)
    worst = 0.0
    for signs in product((-1, 1), repeat=len(asks)):
        answers = [
            exact(each, noisy(columns, ETA)) + sign * each.tolerance for each, sign in zip(asks, signs, strict=True)
        ]
        worst = max(worst, float(np.abs(np.asarray(answer(answers)) - exact(ask, columns)).max()))

    assert worst <= ask.tolerance + 1e-12
    # No sharper than needed: the worst errors add up to the tolerance.
    assert worst == pytest.approx(ask.tolerance)


def test_without_the_correction_the_answer_is_another() -> None:
    """The control."""
    columns, ask = people("++++----"), asked(QUERIES["boolean"])

    assert exact(ask, noisy(columns, ETA)) != pytest.approx(exact(ask, columns), abs=0.01)
    asks, answer = LabelNoise(Fraction(1, 10), "y").undone(ask)
    assert answer([exact(each, noisy(columns, ETA)) for each in asks]) != pytest.approx(exact(ask, columns), abs=0.01)


def test_one_question_is_asked_wherever_one_will_do() -> None:
    counts = {name: len(LabelNoise(ETA, "y").undone(asked(query))[0]) for name, query in QUERIES.items()}

    assert {name for name, count in counts.items() if count == 2} == {
        "real, no room for a denominator",
        "cells, of which the label is some signs",
        "cells by the label",
    }
    assert set(counts.values()) == {1, 2}


def test_noise_costs_what_it_takes_from_each_answer_and_no_more() -> None:
    clean = plan_study("conjunction", {"d": 8}).rounds[0].planned
    dirty = plan_study("conjunction", {"d": 8, "eta": "0.2"}).rounds[0].planned

    assert dirty / clean == pytest.approx(1 / (1 - 2 * 0.2) ** 2, rel=0.02)


# --------------------------------------------------------------------------------------------------------- strategies

LABELLED: dict[str, dict[str, Any]] = {
    "conjunction": {"d": 4, "alpha": "0.3"},
    "conjunction-checked": {"d": 4, "alpha": "0.3"},
    "decision-list": {"d": 3, "alpha": "0.4"},
    "decision-list-checked": {"d": 3, "alpha": "0.4"},
    "decision-tree": {"d": 4, "depth": 2, "tolerance": "0.1"},
    "decision-tree-checked": {"d": 4, "alpha": "0.3"},
    "masked-parity": {"d": 2},
    "masked-parity-noninteractive": {"d": 2},
    "masked-parity-pooled": {"d": 4},
    "masked-parity-two-rounds": {"d": 4},
    "masked-parity-until-sure": {"d": 4},
    "masked-parity-weak": {"d": 2},
    "parity": {"d": 4},
    "perceptron": {"d": 2, "tolerance": "0.1"},
}


def test_every_strategy_that_learns_labels_is_tried() -> None:
    assert {name for name, each in registry().items() if each.predict is not None} == set(LABELLED)


def learned(name: str, told: str | None, seed: int) -> float | None:
    """Error of what is learned from users a tenth of whose labels are wrong, where the study is told so."""
    strategy, parameters = registry()[name], {**LABELLED[name], "users": "all", "epsilon": "4"}
    own = {} if told is not None else {"eta": "0.1"}
    study = parameters if told is None else {**parameters, "eta": told}
    population = made_up(strategy, study, seed, own)
    reports = LocalReports(study_for(strategy, study, seed), strategy, population, 60_000, seed)
    found = learned_by(strategy, planning.strategy_parameters(study), reports).hypothesis.value
    return None if strategy.error is None else float(strategy.error(found, population.truth) or 0)


@pytest.mark.parametrize("name", LABELLED)
def test_each_keeps_its_promise_over_noisy_labels(name: str) -> None:
    strategy = registry()[name]
    promise = 0.3 if strategy.promise is None else strategy.promise(LABELLED[name])

    for seed in range(3):
        error = learned(name, "0.1", seed)
        assert error is None or error <= promise


def test_conjunctions_are_learned_where_the_uncorrected_learner_fails() -> None:
    """12 of 12 against 0 of 12: no variable is hardly ever 0 in what is labelled positive."""
    errors = {told: [learned("conjunction", told, seed) or 0.0 for seed in range(12)] for told in ("0.1", None)}

    assert sum(error <= 0.3 for error in errors["0.1"]) == 12
    assert sum(error <= 0.05 for error in errors[None]) == 0


def test_no_noise_changes_nothing() -> None:
    assert corrected(CONJUNCTION, Fraction(0), EXAMPLE) is CONJUNCTION


@pytest.mark.parametrize(
    ("strategy", "parameters", "what"),
    [
        ("mean", {"eta": "0.1"}, "how noisy labels are"),
        ("conjunction", {"d": 4, "eta": "0.5"}, "is not such a number"),
        ("conjunction", {"d": 4, "eta": 1}, "is not such a number"),
    ],
)
def test_noise_that_cannot_be_undone_is_refused(strategy: str, parameters: dict[str, Any], what: str) -> None:
    with pytest.raises(ProtocolError, match=what) as error:
        study_of(registry(), strategy=strategy, parameters=parameters, title="t", nonce="0" * 32, simulated=True)

    assert error.value.where == "parameters.eta"


def estimating(asks: Sequence[Ask], answers: Sequence[Answer], reach: float) -> Estimating:
    """An interval of this reach on both sides of each answer, and of each cell."""

    def estimates(level: float, _: SumsOfCells = NO_SUMS) -> list[Estimate]:
        values = [float(each) for answer in answers for each in np.atleast_1d(answer)]
        return [Estimate("asked", each, each - reach, each + reach, level, 10) for each in values]

    assert len(asks) == len(answers)
    return estimates


def sure_of(ask: Ask, columns: Columns, reach: float) -> tuple[Answer, Sequence[Estimate]]:
    """The answer to a question over noisy labels, as a strategy is sent it, and how sure it is of it."""
    seen: list[tuple[Answer, Sequence[Estimate]]] = []

    def asking(_: Parameters) -> Asking:
        answers = yield [ask]
        seen.append((answers[0], estimates_in(answers, 0.9)))
        return Hypothesis("", {})

    run = corrected(replace(CONJUNCTION, run=asking), ETA, EXAMPLE).run({})
    asks = next(run)
    answers = [exact(each, columns) for each in asks]
    with pytest.raises(StopIteration):
        run.send(ReportedAnswers(answers, estimating(asks, answers, reach)))
    return seen[0]


@every
@pytest.mark.parametrize("labels", ["++++----", "+-+-+--+"])
def test_a_strategy_is_told_how_sure_an_answer_is_that_was_made_of_others(query: Any, labels: str) -> None:
    columns, ask = people(labels), asked(query)
    answer, estimates = sure_of(ask, noisy(columns, ETA), 0.01)
    values = np.atleast_1d(answer)

    assert len(estimates) == len(values)
    assert {each.level for each in estimates} == {0.9}
    for value, each in zip(values.tolist(), estimates, strict=True):
        assert each.estimate == pytest.approx(value, abs=1e-12)
        assert each.low <= value + 1e-12
        assert value - 1e-12 <= each.high
        # The truth is as far off as the answers it is made of may be, and no farther: ends are within the domain.
        assert 0 < each.high - each.low <= 0.02 * (1 + 2 * float(ETA)) / (1 - 2 * float(ETA)) + 1e-12
    # The control: with twice the reach the interval grows.
    wider = sure_of(ask, noisy(columns, ETA), 0.02)[1]
    assert sum(each.high - each.low for each in wider) > 1.4 * sum(each.high - each.low for each in estimates)


def levels_asked(asks: Sequence[Ask], level: float = 0.9) -> tuple[list[float], list[Estimate]]:
    """How sure the answers have to be that are asked for in place of these, and what a strategy is told of its own."""
    levels, told = list[float](), list[Estimate]()

    def asking(_: Parameters) -> Asking:
        told.extend(estimates_in((yield asks), level))
        return Hypothesis("", {})

    run = corrected(replace(CONJUNCTION, run=asking), ETA, EXAMPLE).run({})
    instead = next(run)
    answers = [exact(each, people("+-+-+--+")) for each in instead]
    intervals = estimating(instead, answers, 0.01)

    def estimates(at: float, sums: SumsOfCells = NO_SUMS) -> Sequence[Estimate]:
        levels.append(at)
        return intervals(at, sums)

    with pytest.raises(StopIteration):
        run.send(ReportedAnswers(answers, estimates))
    return levels, told


@pytest.mark.parametrize("place", range(4))
def test_an_answer_that_is_made_of_two_may_fail_with_either_half_as_often(place: int) -> None:
    """Wherever among the questions the one stands of which two are asked."""
    one, two = asked(QUERIES["real"]), asked(QUERIES["cells by the label"])
    asks = [two if at == place else one for at in range(4)]
    levels, told = levels_asked(asks)

    assert levels == [pytest.approx(1 - 0.1 / 2, abs=1e-15)]
    assert {each.level for each in told} == {0.9}
    assert len(told) == 3 + 4
    # The control: where one is asked for each, none is shared.
    assert levels_asked([one] * 4)[0] == [pytest.approx(0.9, abs=1e-15)]


def test_an_answer_outside_of_its_domain_has_the_interval_of_the_nearest_one() -> None:
    ask, far = asked(QUERIES["boolean"]), people("--------")
    # 1 − 2η is what is asked, and −1 the least it can be: below it there is no share.
    [asked_instead], _ = LabelNoise(ETA, "y").undone(ask)
    assert asked_instead.query != ask.query
    _, [estimate] = sure_of(ask, far, 0.01)

    assert (estimate.low, estimate.estimate) == (0, 0)
    assert estimate.high > 0
