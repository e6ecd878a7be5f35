"""Labels that are wrong with a probability of which only a bound is known: one of the rates is near, and is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_lab.data.made_up import made_up
from askance_lab.experiments.planned_users import plan_study
from askance_lab.oracles.local import study_for
from askance_lab.oracles.shared.registry import oracle_named
from askance_lab.oracles.shared.setting import OracleSetting
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, prepare
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core.adapted import adapted, reasked
from askance_server.core.bounded_noise import GRID, _Rates, chosen, sharper
from askance_server.core.label_noise import LabelNoise
from askance_server.core.run import Run, StrategyError
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.core.study import check_answerable
from askance_server.strategies.registry import registry
from tests.server.core.test_label_noise import EXAMPLE, QUERIES, noisy, people
from tests.server.learners import exact

MOST = Fraction(1, 5)
every = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)


def asking_once(query: Any, seen: list[Answer], tolerance: float = 0.1) -> Strategy:
    """Asks one question, and shows what each of its runs is answered."""

    def run(_: Parameters) -> Asking:
        [answer] = yield [Ask(query, tolerance)]
        seen.append(answer)
        return Hypothesis("", {"number": 0})

    return Strategy(
        "once",
        "One question",
        interactive=False,
        rounds=1,
        schema=lambda _: EXAMPLE,
        run=run,
        positive=registry()["conjunction"].positive,
    )


def answered(query: Any, labels: str, eta: Fraction, lies: float = 0.0) -> tuple[float, int]:
    """How far the answer of the nearest rate is from that over right labels, at worst; and how many rates there are."""
    worst, rates = 0.0, 0
    for signs in product((-1, 1), repeat=3 if lies else 0):
        seen = list[Answer]()
        run = Run(chosen(asking_once(query, seen), MOST, EXAMPLE), {})
        asks = run.step(None)
        assert not isinstance(asks, Hypothesis)
        columns = noisy(people(labels), eta)
        said = [
            exact(ask, columns) + lies * sign * ask.tolerance
            for ask, sign in zip(asks, (*signs, 0, 0, 0), strict=False)
        ]
        assert isinstance(run.step(said), Hypothesis)  # one hypothesis: nothing more is asked
        truth = exact(Ask(query, 0.1), people(labels))
        worst, rates = max(worst, min(float(np.abs(np.asarray(each) - truth).max()) for each in seen)), len(seen)
    return worst, rates


@every
@pytest.mark.parametrize("labels", ["++++----", "+-+-+--+", "++++++++"])
@pytest.mark.parametrize("eta", [Fraction(0), Fraction(1, 20), Fraction(1, 7), Fraction(1, 5)])
def test_one_rate_has_the_answer_over_right_labels_within_the_tolerance(query: Any, labels: str, eta: Fraction) -> None:
    off, rates = answered(query, labels, eta)
    # A twentieth is left to the distance of rates; lies within what users are asked for take the rest.
    assert off <= 0.005 + 1e-12
    assert answered(query, labels, eta, 1.0)[0] <= 0.1 + 1e-12
    assert rates <= 69


def test_beyond_the_bound_no_rate_is_near() -> None:
    """The control: of 35 % of wrong labels all answers are off by more than the tolerance."""
    assert answered(QUERIES["boolean"], "++++----", Fraction(7, 20))[0] > 0.1


def test_what_does_not_ask_for_the_label_is_asked_once_and_what_scales_too() -> None:
    def asks(name: str) -> int:
        said = Run(chosen(asking_once(QUERIES[name], []), MOST, EXAMPLE), {}).step(None)
        assert not isinstance(said, Hypothesis)
        return len(said)

    counts = {name: asks(name) for name in QUERIES}
    assert counts["boolean, no label"] == counts["cells, of which the label is the sign"] == 1
    assert set(counts.values()) == {1, 2}


@pytest.mark.parametrize("eta", [Fraction(1, 20), Fraction(1, 7), Fraction(1, 4), Fraction(2, 5)])
def test_the_rates_reach_from_none_to_the_bound_and_are_as_near_to_each_other_as_is_said(eta: Fraction) -> None:
    """Of a rate η the answer goes by η/(1 − 2η): every one up to the bound is within `reach` of that of the grid."""
    tolerance = 0.1
    rates = _Rates.of(asking_once(QUERIES["boolean"], [], tolerance), {}, LabelNoise(eta, "y"))
    most = float(eta / (1 - 2 * eta))
    grid = [most * step for step in rates.steps]

    assert (grid[0], grid[-1]) == (0, pytest.approx(most))
    gaps = np.diff(grid)
    assert gaps == pytest.approx([2 * rates.reach] * (len(grid) - 1))
    assert rates.reach <= GRID * tolerance
    # One rate fewer would leave them further apart than that.
    assert len(grid) == 2 or most / (len(grid) - 2) / 2 > GRID * tolerance


@pytest.mark.parametrize("eta", [Fraction(number, 40) for number in range(1, 19)])
def test_noise_is_undone_the_cheaper_way(eta: Fraction) -> None:
    """Users go as 1/τ² of each question; the question itself is asked in either way."""
    noise, ask = LabelNoise(eta, "y"), Ask(QUERIES["boolean"], 0.1)
    rates = _Rates.of(asking_once(QUERIES["boolean"], [], 0.5), {}, noise)
    (joined, _), (apart, _) = noise.undone(ask), noise.apart(ask)
    # A question about a value on [−1, 1] is as dear as a share at half the tolerance.
    both = sum(each.tolerance**-2 for each in apart)
    one = ask.tolerance**-2 + 4 * sum(each.tolerance**-2 for each in joined)
    if abs(both - one) > 1e-6 * one:
        assert len(rates._undo(ask)[0]) == (2 if both < one else 1)


# --------------------------------------------------------------------------------------------------------- strategies

SMALL: dict[str, dict[str, Any]] = {
    "conjunction": {"d": 4, "alpha": "0.3"},
    "decision-list": {"d": 3, "alpha": "0.4"},
    "decision-tree": {"d": 3, "depth": 2, "tolerance": "0.1"},
    "parity": {"d": 4},
}
LEARNED: dict[str, list[dict[str, Any]]] = {
    "conjunction": [{"variables": []}, {"variables": [0]}, {"variables": [1, 3]}],
    "decision-list": [
        {"rules": [], "otherwise": -1},
        {"rules": [[0, 1, 1]], "otherwise": -1},
        {"rules": [[0, 1, 1], [2, 0, 1], [1, 1, -1], [3, 0, 1]], "otherwise": -1},
        {"rules": [[0, 0, -1], [2, 1, -1], [1, 1, 1]], "otherwise": 1},
    ],
    "decision-tree": [
        {"tree": 1},
        {"tree": {"bit": 1, "one": -1, "zero": {"bit": 3, "one": 1, "zero": -1}}},
    ],
    "parity": [{"r": "0000"}, {"r": "1000"}, {"r": "0110"}, {"r": "1111"}],
}


def test_every_strategy_that_can_be_asked_about_is_tried() -> None:
    assert {name for name, each in registry().items() if each.positive is not None} == set(SMALL) == set(LEARNED)


@pytest.mark.parametrize("name", LEARNED)
def test_the_question_of_a_hypothesis_is_its_prediction(name: str) -> None:
    strategy = registry()[name]
    schema = Schema(fields=(BitsField(name="x", width=4), LabelField(name="y")))
    x = np.array(list(product((0, 1), repeat=4)))
    columns = Columns.of(schema, {"x": x, "y": np.ones(16, np.int64)})
    assert strategy.predict is not None
    assert strategy.positive is not None
    for value in LEARNED[name]:
        asked = prepare(BooleanQuery(test=strategy.positive({"d": 4}, value)), schema).answers(columns)
        assert asked.tolist() == strategy.predict(value, columns).astype(int).tolist()


def error_of(name: str, parameters: dict[str, Any], eta: str, oracle: str, seed: int, users: int = 100_000) -> float:
    """Error of what is learned from users so many of whose labels are wrong."""
    strategy = registry()[name]
    population = made_up(strategy, parameters, seed, {"eta": eta})
    runs = strategy if oracle == "local" else reasked(strategy, study_for(strategy, parameters, seed))
    setting = OracleSetting(runs, parameters, population, users, seed)
    with oracle_named(oracle).open(setting) as opened:
        learned = opened.learn(runs, setting.own).hypothesis.value
    assert strategy.error is not None
    return float(strategy.error(learned, population.truth) or 0)


@pytest.mark.parametrize("eta", ["0", "0.05", "0.1"])
@pytest.mark.parametrize("oracle", ["exact", "adversarial", "samples", "local"])
@pytest.mark.parametrize("name", SMALL)
def test_each_keeps_its_promise_whatever_the_rate_is(name: str, oracle: str, eta: str) -> None:
    parameters = {**SMALL[name], "users": "all", "epsilon": "4", "eta_most": "0.1"}
    promise = registry()[name].promise
    for seed in range(2):
        assert error_of(name, parameters, eta, oracle, seed) <= (0.3 if promise is None else promise(SMALL[name]))


@pytest.mark.parametrize("eta", ["0", "0.05", "0.1"])
def test_as_many_users_as_are_planned_keep_the_promise_of_a_conjunction_where_the_uncorrected_fails(eta: str) -> None:
    terms = {**SMALL["conjunction"], "epsilon": "3", "eta_most": "0.1", "users": "needed"}
    users = plan_study("conjunction", terms).enrol
    errors = [error_of("conjunction", terms, eta, "local", seed, users) for seed in range(10)]
    naive = {key: value for key, value in terms.items() if key != "eta_most"}

    assert max(errors) <= 0.3
    if eta == "0.1":
        # The control: whoever knows of no noise learns conjunctions of nothing.
        assert all(error_of("conjunction", naive, eta, "local", seed, users) > 0.05 for seed in range(5))


def test_a_study_of_it_asks_in_rounds_one_of_them_for_the_choice() -> None:
    strategy = registry()["conjunction"]
    study = study_for(strategy, {"d": 4, "eta_most": "0.1"}, 1)
    asked = adapted(strategy, study)

    assert (study.interactive, asked.interactive, asked.rounds) == (True, True, 2)
    assert not study_for(strategy, {"d": 4}, 1).interactive
    longest = replace(strategy, rounds=4096)
    with pytest.raises(ProtocolError, match="asks up to 4097 rounds"):
        check_answerable(study, {"conjunction": longest})


def test_the_choice_leaves_room_in_the_error_that_is_promised() -> None:
    strategy = registry()["conjunction"]
    own, error = sharper(strategy, {"d": 4, "alpha": "0.2"})

    assert (float(own["alpha"]), error) == (0.175, 0.2)
    assert sharper(registry()["parity"], {"d": 4}) == ({"d": 4}, 0.0)
    fixed = replace(strategy, promise=lambda _: 0.25)
    with pytest.raises(ProtocolError, match="leaves no room"):
        sharper(fixed, {"d": 4})


def test_rounds_share_the_users_with_the_choice() -> None:
    strategy = replace(registry()["decision-list"], portions=(6, 3, 2, 1))

    assert chosen(strategy, MOST, EXAMPLE).portions == (6, 3, 2, 1, 3)
    assert chosen(registry()["conjunction"], MOST, EXAMPLE).portions == ()
    assert chosen(strategy, Fraction(0), EXAMPLE) is strategy
    # As many rounds as the parameters take, and the choice: planned before or afterwards.
    some = replace(strategy, portions_for=lambda _: (4, 2))
    for planned in (chosen(some.planned({}), MOST, EXAMPLE), chosen(some, MOST, EXAMPLE).planned({})):
        assert (planned.rounds, planned.portions) == (3, (4, 2, 3))


@pytest.mark.parametrize(
    ("strategy", "parameters", "what"),
    [
        ("mean", {"eta_most": "0.1"}, "how noisy labels are"),
        ("masked-parity", {"d": 4, "eta_most": "0.1"}, "cannot be asked about"),
        ("conjunction", {"d": 4, "eta_most": "0.5"}, "is not such a number"),
        ("conjunction", {"d": 4, "eta": "0.1", "eta_most": "0.1"}, "of which eta is not known"),
    ],
)
def test_what_cannot_be_chosen_among_is_refused(strategy: str, parameters: dict[str, Any], what: str) -> None:
    with pytest.raises(ProtocolError, match=what) as error:
        study_for(registry()[strategy], parameters, 1)

    assert error.value.where == "parameters.eta_most"


def test_too_many_rates_and_a_round_that_asks_more_sharply_than_the_first_are_refused() -> None:
    fine = chosen(asking_once(QUERIES["boolean"], [], 1e-7), MOST, EXAMPLE)
    with pytest.raises(StrategyError, match="rates at a tolerance of 1e-07"):
        Run(fine, {}).step(None)

    def run(_: Parameters) -> Asking:
        yield [Ask(QUERIES["boolean"], 0.1)]
        yield [Ask(QUERIES["boolean"], 0.001)]
        return Hypothesis("", {})

    growing = replace(asking_once(QUERIES["boolean"], []), run=run, rounds=2)
    runs = Run(chosen(growing, MOST, EXAMPLE), {})
    asks = runs.step(None)
    assert not isinstance(asks, Hypothesis)
    with pytest.raises(StrategyError, match="more sharply than in the first round"):
        runs.step([0.5 for _ in asks])
