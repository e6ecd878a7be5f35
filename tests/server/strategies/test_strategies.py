"""Strategies: against the exact oracle, against the worst answers within tolerance, and as entry points."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import askance_server.strategies
from askance_lab.experiments.planned_users import plan_study
from askance_protocol.budget import MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import CellQuery, RealQuery
from askance_server.core.cell_channels import ReportsAt
from askance_server.core.run import MAX_QUERIES, MAX_REASON, Run, StrategyError
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies import registry as module
from askance_server.strategies.conjunction import CONJUNCTION
from askance_server.strategies.histogram import HISTOGRAM
from askance_server.strategies.masked_parity import MASKED_PARITY
from askance_server.strategies.masked_parity_noninteractive import MASKED_PARITY_NONINTERACTIVE, dual
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED, portions, searched
from askance_server.strategies.masked_parity_two_rounds import MASKED_PARITY_TWO_ROUNDS
from askance_server.strategies.masked_parity_until_sure import MASKED_PARITY_UNTIL_SURE
from askance_server.strategies.mean import MEAN
from askance_server.strategies.registry import registry
from askance_server.strategies.shared.posterior import (
    DEALT,
    FEWEST,
    Candidate,
    Posterior,
    above_water,
    cheapest,
    largest_remainders,
)
from tests.server.learners import TRUE, Lie, concepts, expectation, learn, masked, shares, strategy_of, value_of

WORST: list[Lie] = [lambda _: 1.0, lambda _: -1.0, lambda k: (-1.0) ** k, lambda k: -((-1.0) ** k)]

# --------------------------------------------------------------------------------------------------- masked parity


@pytest.mark.parametrize("lie", [lambda _: 0.0, *WORST])
@pytest.mark.parametrize("d", [2, 4])
def test_a_mp_learns_every_concept_whatever_the_oracle_says_within_tolerance(d: int, lie: Lie) -> None:
    """KLNRS11, Prop. 5.18, "with probability 1"."""
    for r, a in concepts(d):
        learned, asked = learn(MASKED_PARITY, {"d": d}, masked(d, r, a), lie)

        assert learned.value == {"r": r, "a": a}
        assert [len(asks) for asks in asked] == [d, 1]
        assert [{ask.tolerance for ask in asks} for asks in asked] == [{1 / (4 * d + 1)}, {1 / 5}]


def test_what_a_mp_asks_has_the_expectations_of_the_paper() -> None:
    """KLNRS11, proof of Prop. 5.18: E[g_j] = r_j/(2d), E[g_{d+1}] = a/2."""
    d = 4
    for r, a in concepts(d):
        columns = masked(d, r, a)
        _, (first, second) = learn(MASKED_PARITY, {"d": d}, columns)

        assert [expectation(ask, columns) for ask in first] == [int(bit) / (2 * d) for bit in r]
        assert [expectation(ask, columns) for ask in second] == [a / 2]


@pytest.mark.parametrize("lie", [lambda _: 0.0, *WORST])
@pytest.mark.parametrize("strategy", [MASKED_PARITY_TWO_ROUNDS, MASKED_PARITY_NONINTERACTIVE])
@pytest.mark.parametrize("d", [2, 4])
def test_the_pooled_forms_learn_every_concept_whatever_the_oracle_says_within_tolerance(
    d: int, strategy: Strategy, lie: Lie
) -> None:
    for r, a in concepts(d):
        learned, asked = learn(strategy, {"d": d}, masked(d, r, a), lie)

        assert learned.value == {"r": r, "a": a}
        assert [len(asks) for asks in asked] == ([1, 1] if strategy.interactive else [1])


@pytest.mark.parametrize("lie", WORST)
def test_in_one_round_the_tolerance_has_to_fall_as_the_mean_that_tells_a(lie: Lie) -> None:
    """The price of one round, KLNRS11, Thm 5.16: that mean is 2^(−d/2−1), and from d = 8 on the least of all."""
    d = 8
    for number in (0, 1, 3, 90, 255):
        for a in (0, 1):
            r = f"{number:08b}"
            learned, [[ask]] = learn(MASKED_PARITY_NONINTERACTIVE, {"d": d}, masked(d, r, a), lie)

            assert learned.value == {"r": r, "a": a}
            assert ask.tolerance < 2 ** (-d / 2 - 1)
            # And by no more than has to be: the users go as the square.
            assert 1 / ask.tolerance <= 2 ** (d / 2 + 1) + 1


def test_control_a_lie_as_large_as_that_mean_misleads_about_a() -> None:
    learned, _ = learn(MASKED_PARITY_NONINTERACTIVE, {"d": 8}, masked(8, "00000000", 0), lambda _: -33 / 32 - 0.01)

    assert learned.value["a"] == 1


@pytest.mark.parametrize("d", [2, 4])
def test_the_search_learns_every_concept_from_exact_answers_in_two_rounds(d: int) -> None:
    for strategy in (MASKED_PARITY_POOLED, MASKED_PARITY_UNTIL_SURE):
        for r, a in concepts(d):
            learned, asked = learn(strategy, {"d": d}, masked(d, r, a))

            assert learned.value == {"r": r, "a": a}
            assert [[ask.tolerance for ask in asks] for asks in asked] == [[1 / (2 * d + 1)], [1 / 5]]


def test_the_searched_cells_have_the_means_that_are_looked_for() -> None:
    """±1/(2d) where b = 1; where b = 0 (−1)^a/2 if r̂ = r, else 0; beyond it nobody."""
    d = 4
    for r, a in concepts(d):
        columns = masked(d, r, a)
        for candidate in range(2**d):
            means = shares(Ask(searched(d, candidate), 0.1), columns)
            right = candidate == int(r[::-1], 2)

            assert means[:d].tolist() == [(-1) ** int(bit) / (2 * d) for bit in r]
            assert means[d] == (-1) ** a / 2 * right
            assert len(means) > d + 8
            assert not means[d + 1 :].any()


def test_the_search_looks_again_where_a_bit_was_wrong() -> None:
    """Bit 3 of r is read wrongly, and softly: among the candidates is r, and it stands out when it is asked about."""
    d, noise = 8, np.random.default_rng(1).normal(0, 0.03, 64)
    shares = np.zeros(64)
    shares[:d], shares[0], shares[3], shares[d:] = 1 / 16, -1 / 16, -1 / 160, noise[d:]
    posterior = Posterior(d)
    posterior.hear([Candidate(0)], [shares])
    trials = posterior.worth(60)

    assert [trial.r for trial in trials[:2]] == [0b1001, 0b0001]
    answers = [noise / (trial.weight / DEALT) ** 0.5 for trial in trials]
    for trial, answer in zip(trials, answers, strict=True):
        answer[d] -= 0.5 * (trial.r == 1)
    posterior.hear(trials, answers)
    best = posterior.best()
    assert (best.r, best.a) == ("10000000", 1)
    assert best.probability > 0.999


@pytest.mark.parametrize("spread", [0.01, 0.03])
def test_the_search_reckons_with_as_many_users_as_the_noise_of_the_first_round_tells(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C²/n is the variance of an empty cell; the second round has its portion of as many."""
    reckoned, worth = list[float](), Posterior.worth
    monkeypatch.setattr(
        Posterior, "worth", lambda self, users, *more: reckoned.append(users) or worth(self, users, *more)
    )
    d = 8
    run = Run(MASKED_PARITY_POOLED, {"d": d})
    run.step(None)
    shares = np.random.default_rng(3).normal(0, spread, 64)
    shares[:d] += 1 / 16
    run.step([shares])

    first, second, *_ = portions({"d": d})
    assert reckoned == [pytest.approx(second / first / spread**2, rel=0.6)]


@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
@pytest.mark.parametrize("d", [2, 4, 8, 64])
@pytest.mark.parametrize("strategy", [MASKED_PARITY, MASKED_PARITY_TWO_ROUNDS])
def test_two_rounds_have_users_in_proportion_to_what_they_need(strategy: Strategy, d: int, epsilon: str) -> None:
    """By the exact plan, which knows ε; and no more than 200 to 1."""
    first, second = (each.planned for each in plan_study(strategy.name, {"d": d, "epsilon": epsilon}).rounds)
    planned = strategy.planned({"d": d})

    assert planned.portion(1) / (1 - planned.portion(1)) == pytest.approx(min(first / second, 200), rel=0.2)


@pytest.mark.parametrize("rounds", [2, 3, 6, 12, 20, 100])
def test_the_rounds_of_a_search_take_fewer_and_fewer_users(rounds: int) -> None:
    strategy = MASKED_PARITY_POOLED.planned({"d": 8, "rounds": rounds})

    assert strategy.rounds == len(strategy.portions) == rounds
    assert list(strategy.portions) == sorted(strategy.portions, reverse=True)
    assert strategy.portions[0] > sum(strategy.portions) * 0.4


@pytest.mark.parametrize("rounds", [1, 101, "6", True])
def test_a_search_has_two_to_a_hundred_rounds(rounds: Any) -> None:
    with pytest.raises(ProtocolError, match="rounds"):
        MASKED_PARITY_POOLED.schema({"d": 8, "rounds": rounds})


C: Final = 2.16395
"""At ε = 1."""


def posterior_of(seed: int, spread: float, d: int = 16) -> Posterior:
    """Of a round in which this was the noise."""
    shares = np.random.default_rng(seed).normal(0, spread, 64)
    shares[:d] += 1 / (2 * d)
    posterior = Posterior(d, C)
    posterior.hear([Candidate(0)], [shares])
    return posterior


@pytest.mark.parametrize("users", [60, 900, 20_000])
@pytest.mark.parametrize("seed", range(5))
def test_each_candidate_is_asked_of_enough_users_and_all_users_are_asked(seed: int, users: int) -> None:
    trials = posterior_of(seed, 0.02).worth(users / C**2)
    each = [trial.weight / DEALT * users for trial in trials]

    assert sum(trial.weight for trial in trials) == DEALT
    assert each == sorted(each, reverse=True)
    assert len(trials) == 1 or min(each) > FEWEST * 0.99
    assert len({trial.r for trial in trials}) == len(trials)
    # And no more of them than are allowed.
    assert len(posterior_of(seed, 0.02).worth(users / C**2, 3)) <= min(3, len(trials))


def test_control_without_a_least_some_would_be_asked_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_server.strategies.shared.posterior.FEWEST", 0)
    fewest = min(trial.weight for seed in range(5) for trial in posterior_of(seed, 0.02).worth(900 / C**2))

    assert fewest / DEALT * 900 < 3


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_are_those_of_all_concepts_and_not_of_the_list(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2^10 with a list of 8, and some that are asked about: as a list of all has them."""
    monkeypatch.setattr("askance_server.strategies.shared.posterior.MOST", 8)
    d, source = 10, np.random.default_rng(seed)
    posterior = Posterior(d)
    posterior.hear([Candidate(0)], [source.normal(0.02, 0.05, 64)])
    tried = [Candidate(r) for r in (1, 9, 77, 1000)]
    posterior.hear(tried, list(source.normal(0, 0.15, (4, 64))))
    few = dict(zip(*(each.tolist() for each in posterior.ranking()), strict=True))
    monkeypatch.setattr("askance_server.strategies.shared.posterior.MOST", 2**d)
    every = Posterior(d)
    every.__dict__.update({**posterior.__dict__, "_ranked": None})
    ranked, logs = every.ranking()
    known = dict(zip(ranked.tolist(), logs.tolist(), strict=True))

    assert len(known) == 2**d
    assert np.exp(logs).sum() == pytest.approx(1)
    assert all(few[r] == pytest.approx(known[r]) for r in few)
    assert {1, 9, 77, 1000} < set(few)
    # The control: the list alone holds much less than all.
    assert sum(np.exp(list(few.values()))) < 0.9


def test_those_who_were_asked_about_keep_their_place_though_their_bits_are_bad() -> None:
    """A candidate that three bits speak against is the likeliest once it was asked about."""
    posterior = posterior_of(1, 0.005)
    far, shares = 0b111, np.random.default_rng(2).normal(0, 0.005, 64)
    shares[16] = 0.5
    posterior.hear([Candidate(far)], [shares])
    ranked, logs = posterior.ranking()

    assert ranked[0] == far
    assert far in ranked
    assert len(set(ranked.tolist())) == len(ranked)
    assert 0.5 < np.exp(logs).sum() <= 1.000001
    assert posterior.best().r == "1110000000000000"


@pytest.mark.parametrize(("shares", "dealt"), [([1, 1, 1], [4, 3, 3]), ([5, 3, 2], [5, 3, 2]), ([7], [10])])
def test_users_are_dealt_by_largest_remainders(shares: list[float], dealt: list[int]) -> None:
    assert largest_remainders(np.array(shares, np.float64), 10) == dealt


@pytest.mark.parametrize(
    ("strategy", "parameters"),
    [(MASKED_PARITY_POOLED, {"d": 64, "rounds": 100}), (MASKED_PARITY_UNTIL_SURE, {"d": 64})],
)
def test_a_search_that_is_never_sure_asks_no_more_than_a_study_may(strategy: Strategy, parameters: Parameters) -> None:
    """Noise alone: every round looks at as many candidates as there is room for, and the search ends by itself."""
    source, queries = np.random.default_rng(4), 0
    run = Run(strategy.on(strategy.schema(parameters), ReportsAt(MICRO)), parameters)
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        queries += len(said)
        users = np.array([ask.share or 1 for ask in said]) / sum(ask.share or 1 for ask in said)
        said = run.step([source.normal(0, 0.004 / share**0.5, 128) for share in users.tolist()])

    assert 2000 < queries <= MAX_QUERIES


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_sets_are_the_cheapest(seed: int) -> None:
    """Against all 2^7 of them."""
    costs = np.random.default_rng(seed).integers(0, 12, 7).astype(float)
    sums, sets = cheapest(costs, 20)
    every = sorted(sum(c for j, c in enumerate(costs) if mask >> j & 1) for mask in range(2**7))

    assert sums.tolist() == every[:20]
    assert len(set(sets.tolist())) == 20
    assert [sum(c for j, c in enumerate(costs) if int(mask) >> j & 1) for mask in sets] == sums.tolist()


@pytest.mark.parametrize("volume", [0.01, 1.0, 3.0, 100.0])
def test_water_has_one_level(volume: float) -> None:
    heights = np.array([-1.0, -1.5, -1.5, -4.0, -9.0])
    above = above_water(heights, volume)
    level = heights[0] - above[0]

    assert above.sum() == pytest.approx(volume)
    assert np.allclose(above, np.maximum(heights - level, 0)[: len(above)])
    assert (heights[len(above) :] <= level).all()


def test_the_halves_have_the_means_that_their_signs_are_read_from() -> None:
    """±1/(2d) where b = 1, and where b = 0 the bent function's ±2^(−d/2−1), for every r and a alike."""
    d = 4
    for r, a in concepts(d):
        columns = masked(d, r, a)
        _, [[ask]] = learn(MASKED_PARITY_NONINTERACTIVE, {"d": d}, columns)
        means = shares(ask, columns)

        assert means[:d].tolist() == [(-1) ** int(bit) / (2 * d) for bit in r]
        assert means[d] == (-1) ** (a + dual(r)) * 2 ** (-d / 2 - 1)


def test_control_a_lie_beyond_tolerance_misleads_a_mp() -> None:
    """Just beyond 1/(4d), r is wrong: the worst answers of the other tests are the worst that there are."""
    learned, _ = learn(MASKED_PARITY, {"d": 4}, masked(4, "0101", 1), lambda _: 17 / 16 + 0.01)

    assert learned.value["r"] == "1111"


@pytest.mark.parametrize("d", [0, 1, 3, 6, 128, "4", True, None])
def test_a_mp_wants_a_power_of_two(d: int | str | bool | None) -> None:
    named: Parameters = {} if d is None else {"d": d}
    for call in (MASKED_PARITY.schema, lambda parameters: Run(MASKED_PARITY, parameters).step(None)):
        with pytest.raises((ProtocolError, StrategyError), match=r"parameters\.d"):
            call(named)


# ----------------------------------------------------------------------------------------------------- conjunction


def examples(d: int, kept: set[int]) -> Columns:
    """All x, labelled by the conjunction of these variables."""
    x = np.array(list(product((0, 1), repeat=d)))
    y = np.where(x[:, sorted(kept)].all(axis=1), 1, -1)
    return Columns.of(CONJUNCTION.schema({"d": d}), {"x": x, "y": y})


def error_of(learned: Hypothesis, columns: Columns, d: int) -> Fraction:
    """Where the learned conjunction differs from the labels."""
    x = np.array(list(product((0, 1), repeat=d)))
    said = np.where(x[:, value_of(learned)["variables"]].all(axis=1), 1, -1)
    return Fraction(int((said != columns["y"]).sum()), len(columns))


@pytest.mark.parametrize("lie", [lambda _: 0.0, *WORST])
@pytest.mark.parametrize("alpha", ["0.05", "0.3", "0.9"])
def test_a_conjunction_is_learned_to_its_error(alpha: str, lie: Lie) -> None:
    """BB-notes, Thm 5: every conjunction of 4 variables, under the worst answers."""
    d = 4
    for chosen in product((False, True), repeat=d):
        kept = {i for i in range(d) if chosen[i]}
        columns = examples(d, kept)
        learned, [asks] = learn(CONJUNCTION, {"d": d, "alpha": alpha}, columns, lie)

        assert [ask.tolerance for ask in asks] == [float(Fraction(alpha) / (2 * d))] * d
        assert kept <= set(value_of(learned)["variables"])
        assert error_of(learned, columns, d) <= Fraction(alpha)


def test_a_conjunction_reads_as_one() -> None:
    assert learn(CONJUNCTION, {"d": 3}, examples(3, {0, 2}))[0].text == "x_0 ∧ x_2"
    assert learn(CONJUNCTION, {"d": 3, "alpha": "0.01"}, examples(3, set()))[0].text == "true"


# ---------------------------------------------------------------------------------------------- mean and histogram


def test_a_mean_is_one_real_query() -> None:
    columns = Columns.of(MEAN.schema({"denominator": 4}), {"value": np.array([-1, 0.25, 0.5, 1.0])})
    learned, [[ask]] = learn(MEAN, {"denominator": 4, "tolerance": "0.1"}, columns)

    assert isinstance(ask.query, RealQuery)
    assert (ask.query.denominator, ask.tolerance) == (4, 0.1)
    assert learned.value == {"mean": 0.1875, "tolerance": 0.1}
    assert learned.text == "the mean is 0.1875, asked to within 0.1"


def test_a_histogram_is_one_cell_query() -> None:
    columns = Columns.of(HISTOGRAM.schema({"cells": 5}), {"cell": np.array([0, 3, 3, 4])})
    learned, [[ask]] = learn(HISTOGRAM, {"cells": 5}, columns)

    assert isinstance(ask.query, CellQuery)
    assert learned.value == {"shares": [0.25, 0, 0, 0.5, 0.25], "tolerance": 0.05}
    assert learned.text == "cell 3 of 5 has the largest share, 0.5, asked to within 0.05"


# ------------------------------------------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("strategy", "parameters", "named"),
    [
        (MEAN, {"tolerance": 1}, "tolerance"),
        (MEAN, {"tolerance": "0"}, "tolerance"),
        (MEAN, {"tolerance": "1"}, "tolerance"),
        (MEAN, {"tolerance": "1/3"}, "tolerance"),
        (MEAN, {"tolerance": "1e-3"}, "tolerance"),
        (MEAN, {"tolerance": "٠.5"}, "tolerance"),
        (MEAN, {"denominator": 0}, "denominator"),
        (MEAN, {"denominator": True}, "denominator"),
        (MEAN, {"tolerence": "0.1"}, "tolerence"),
        (HISTOGRAM, {}, "cells"),
        (HISTOGRAM, {"cells": 1}, "cells"),
        (HISTOGRAM, {"cells": 1 << 17}, "cells"),
        (HISTOGRAM, {"cells": 2, "d": 3}, "d"),
        (CONJUNCTION, {}, "d"),
        (CONJUNCTION, {"d": 4097}, "d"),
        (CONJUNCTION, {"d": 4, "alpha": "2"}, "alpha"),
        (MASKED_PARITY, {"d": 4, "alpha": "0.1"}, "alpha"),
        (MASKED_PARITY, {"d": 4, "epsilon": "1"}, "epsilon"),
    ],
)
def test_a_wrong_parameter_is_named(strategy: Strategy, parameters: Parameters, named: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        strategy.schema(parameters)

    assert caught.value.where == f"parameters.{named}"
    assert caught.value.remedy


# ------------------------------------------------------------------------------------------------- a run is watched


Faulty: TypeAlias = Callable[[Parameters], Any]
"""What stands in a strategy's `run`, whatever it returns."""


def forged(value: object) -> Any:
    """A value where its type does not belong."""
    return value


def raising(_: Parameters) -> Asking:
    yield [Ask(TRUE, 0.1)]
    raise ZeroDivisionError("x" * 5000)


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError


def unreadable(_: Parameters) -> Asking:
    raise Unreadable
    yield


def leaving(_: Parameters) -> Asking:
    raise SystemExit(1)
    yield


def stopping(_: Parameters) -> Asking:
    yield [Ask(TRUE, 0.1)]
    raise StopIteration  # noqa: PLR1708 - what is tested


def yielding(what: Any) -> Faulty:
    """A strategy that asks this."""

    def run(_: Parameters) -> Asking:
        yield what
        return Hypothesis("", {})

    return run


def returning(what: Any) -> Faulty:
    """A strategy that learns this."""

    def run(_: Parameters) -> Asking:
        yield [Ask(TRUE, 0.1)]
        return what

    return run


def for_ever(_: Parameters) -> Asking:
    while True:
        yield [Ask(TRUE, 0.1)]


def asking_much(parameters: Parameters) -> Asking:
    for _ in range(3):
        yield [Ask(TRUE, 0.1)] * (MAX_QUERIES // 2)
    return Hypothesis("", {})


def not_a_generator(_: Parameters) -> list[Ask]:
    return [Ask(TRUE, 0.1)]


FAULTY: dict[str, tuple[Faulty, str]] = {
    "raises": (raising, "raised ZeroDivisionError: xxx"),
    "raises what cannot be read": (unreadable, "raised Unreadable"),
    "leaves": (leaving, "raised SystemExit: 1"),
    "stops by hand": (stopping, "raised RuntimeError"),
    "is no generator": (not_a_generator, "does not run as a generator"),
    "yields None": (yielding(None), "round 1 is not a list of one or more asks"),
    "yields nothing": (yielding([]), "round 1 is not a list of one or more asks"),
    "yields text": (yielding("ask"), "round 1 is not a list of one or more asks"),
    "yields an ask alone": (yielding(Ask(TRUE, 0.1)), "round 1 is not a list of one or more asks"),
    "yields an iterator": (yielding(iter([Ask(TRUE, 0.1)])), "round 1 is not a list of one or more asks"),
    "yields a query": (yielding([TRUE]), "ask 0 of round 1 is a BooleanQuery, not an Ask"),
    "asks a test": (
        yielding([Ask(TRUE, 0.1), Ask(forged(TRUE.test), 0.1)]),
        "ask 1 of round 1 has a Constant for a query",
    ),
    "tolerance 0": (yielding([Ask(TRUE, 0.0)]), "ask 0 of round 1 has a tolerance that is not a number above 0"),
    "share −1": (yielding([Ask(TRUE, 0.1, share=-1)]), "ask 0 of round 1 has a share that is not a whole number"),
    "half a share": (yielding([Ask(TRUE, 0.1, share=forged(0.5))]), "has a share that is not a whole number"),
    "one share": (
        yielding([Ask(TRUE, 0.1, share=1), Ask(TRUE, 0.1)]),
        "round 1 has asks without a share beside others",
    ),
    "shares": (yielding([Ask(TRUE, 0.1, share=1 << 20), Ask(TRUE, 0.1, share=1)]), "shares above 1048576 in all"),
    "tolerance NaN": (yielding([Ask(TRUE, float("nan"))]), "ask 0 of round 1 has a tolerance that"),
    "tolerance text": (yielding([Ask(TRUE, forged("0.1"))]), "ask 0 of round 1 has a tolerance that"),
    "tolerance True": (yielding([Ask(TRUE, True)]), "ask 0 of round 1 has a tolerance that"),
    "too many asks at once": (yielding([Ask(TRUE, 0.1)] * 4097), "asks more than 4096 queries"),
    "too many asks": (asking_much, "asks more than 4096 queries"),
    "never stops": (for_ever, "asks for round 4 and declares 3"),
    "returns None": (returning(None), "returned a NoneType, not a Hypothesis"),
    "returns a number": (returning(1), "returned a int, not a Hypothesis"),
    "returns an array": (returning(Hypothesis("", {"w": np.zeros(2)})), "not text and JSON values"),
    "returns NaN": (returning(Hypothesis("", {"w": float("nan")})), "not text and JSON values"),
    "returns a tuple": (returning(Hypothesis("", {"w": (1, 2)})), "not text and JSON values"),
    "returns a list": (returning(Hypothesis("", forged([1]))), "not text and JSON values"),
    "returns no text": (returning(Hypothesis(forged(1), {})), "not text and JSON values"),
}


def to_the_end(strategy: Strategy) -> None:
    run = Run(strategy, {})
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        said = run.step([1.0] * len(said))


@pytest.mark.parametrize("fault", FAULTY)
def test_what_a_strategy_does_wrong_has_a_reason(fault: str) -> None:
    run, reason = FAULTY[fault]

    with pytest.raises(StrategyError) as caught:
        to_the_end(strategy_of(run))

    assert reason in str(caught.value)
    assert len(str(caught.value)) <= MAX_REASON


def test_a_strategy_cannot_change_the_parameters_of_its_study() -> None:
    def run(parameters: Any) -> Asking:
        parameters.clear()
        yield [Ask(TRUE, 0.1)]
        return Hypothesis("", {})

    parameters = {"d": 4}
    Run(strategy_of(run), parameters).step(None)

    assert parameters == {"d": 4}


# -------------------------------------------------------------------------------------------------------- registry

THIRD = Strategy("third-party", "somebody else's", False, 1, schema=MEAN.schema, run=MEAN.run)
LAZY = Strategy("lazy", "declares nothing", False, 0, schema=MEAN.schema, run=MEAN.run)
IMPOSTOR = Strategy("mean", "takes a name", False, 1, schema=MEAN.schema, run=MEAN.run)
NOT_A_STRATEGY = 3
# What no type checker has seen: another package's strategy is only what its fields turn out to be.
ANY: Any = "2"
WORDS = replace(THIRD, name="words", rounds=ANY)
SHARES = replace(THIRD, name="shares", portions=(1.5,))  # pyright: ignore[reportArgumentType] - the fault to be found
NO_FUNCTION = replace(THIRD, name="no-function", predict=3)  # pyright: ignore[reportArgumentType] - as above


def installed(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """These entry points, and no others."""
    found = [EntryPoint(name.replace("_", "-"), value, "askance.strategies") for name, value in points.items()]
    monkeypatch.setattr("askance_server.strategies.registry.entry_points", lambda *, group: found)


BUILT_IN = {
    "mean": False,
    "histogram": False,
    "conjunction": False,
    "conjunction-checked": True,
    "masked-parity": True,
    "masked-parity-pooled": True,
    "masked-parity-noninteractive": False,
    "masked-parity-weak": False,
    "parity": False,
    "decision-list": True,
    "decision-list-checked": True,
    "decision-tree": True,
    "decision-tree-checked": True,
    "perceptron": True,
    "kmeans": True,
    "masked-parity-two-rounds": True,
    "masked-parity-until-sure": True,
    "poll": False,
    "survey": False,
    "quantile": True,
    "quantile-at-once": False,
    "heavy-hitters": True,
    "heavy-hitters-at-once": False,
}
"""Whether each is interactive."""


def test_the_built_in_strategies_are_there() -> None:
    strategies = registry()

    assert list(strategies) == sorted(BUILT_IN)
    assert len(strategies) == len(list(strategies))
    assert all(strategies[name].name == name for name in strategies)
    assert {name: strategies[name].interactive for name in strategies} == BUILT_IN
    # What asks once shares its failure with nobody, and what is called interactive asks again.
    assert {name: strategies[name].rounds > 1 for name in strategies} == BUILT_IN


def test_an_installed_package_adds_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, third_party="tests.server.strategies.test_strategies:THIRD")

    assert registry()["third-party"].summary == "somebody else's"
    assert not registry().broken


def test_a_broken_entry_point_is_listed_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(
        monkeypatch,
        nowhere="no_such_module:THIRD",
        nothing="tests.server.strategies.test_strategies:no_such_name",
        number="tests.server.strategies.test_strategies:NOT_A_STRATEGY",
        mean="tests.server.strategies.test_strategies:IMPOSTOR",
        other_name="tests.server.strategies.test_strategies:THIRD",
        lazy="tests.server.strategies.test_strategies:LAZY",
        words="tests.server.strategies.test_strategies:WORDS",
        shares="tests.server.strategies.test_strategies:SHARES",
        no_function="tests.server.strategies.test_strategies:NO_FUNCTION",
        third_party="tests.server.strategies.test_strategies:THIRD",
    )
    strategies = registry()

    assert set(strategies) == {*BUILT_IN, "third-party"}
    assert strategies["mean"] is MEAN
    assert {name: reason.partition(": ")[2] for name, reason in strategies.broken.items()} == {
        "nowhere": "ModuleNotFoundError: No module named 'no_such_module'",
        "nothing": "AttributeError: module 'tests.server.strategies.test_strategies' has no attribute 'no_such_name'",
        "number": "is a int, not a Strategy",
        "mean": "another strategy has this name already",
        "other-name": "its name is 'third-party'; give the entry point that name",
        "lazy": "declares 0 rounds; declare one at least",
        "words": "its rounds is a str, not a int",
        "shares": "its portions are not whole numbers",
        "no-function": "its predict is a int, not a function",
    }


def test_a_broken_file_of_the_package_is_listed_and_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty_file.py").write_text("")
    (tmp_path / "raises.py").write_text("raise RuntimeError('two\\nlines')")
    (tmp_path / "other.py").write_text("from askance_server.strategies.mean import MEAN")
    monkeypatch.setattr(askance_server.strategies, "__path__", [*askance_server.strategies.__path__, str(tmp_path)])
    installed(monkeypatch)
    module.of_package.cache_clear()
    try:
        strategies = registry()
    finally:
        module.of_package.cache_clear()

    assert list(strategies) == sorted(BUILT_IN)
    assert strategies.broken == {
        "empty-file": "strategies/empty_file.py: has no Strategy that is named 'empty-file'; name it as its file",
        "other": "strategies/other.py: has no Strategy that is named 'other'; name it as its file",
        "raises": "strategies/raises.py: RuntimeError: two lines",
    }


def test_rounds_share_the_users_evenly_unless_it_says_otherwise() -> None:
    """And without a list as long as the number of rounds, which another package declares."""
    many = replace(THIRD, rounds=10**12)

    assert many.portion(1) == Fraction(1, 10**12)
    assert many.portion(10**12) == 1
    assert replace(THIRD, rounds=2, portions=(1, 3)).portion(1) == Fraction(1, 4)


# ---------------------------------------------------------------------------------------------------------- house


def strategy_files() -> list[Path]:
    """A learner a file: the registry, which finds them, is none."""
    folder = Path(askance_server.strategies.__file__).parent
    return sorted(file for file in folder.glob("*.py") if file.stem != "registry")


def test_strategies_see_the_protocol_and_nothing_else_of_the_server() -> None:
    """Import-linter checks this as well; this test also sees an import of the server's root."""
    for file in strategy_files():
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                # `from askance_server import strategies` names a module of the server, `from askance_server import
                # create_app` would name the server itself.
                modules += [f"{node.module}.{alias.name}" for alias in node.names]
            ours = [module for module in modules if module.startswith("askance")]

            assert all(
                module.startswith(("askance_protocol", "askance_server.strategies", "askance_server.core"))
                for module in ours
            ), file


@pytest.mark.parametrize("name", [name.replace("-", "_") for name in BUILT_IN])
def test_a_built_in_strategy_is_short(name: str) -> None:
    [file] = [file for file in strategy_files() if file.stem == name]

    assert len(file.read_text().splitlines()) < 110
