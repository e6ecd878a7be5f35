"""The compression version of the private Occam's razor: KLNRS11, p. 12."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, islice, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_lab.curator import compression
from askance_lab.curator.compression import (
    CompressionResult,
    CompressionRound,
    compression_distribution,
    expected_examples,
    learn,
    rounds,
)
from askance_lab.curator.distributions import loss
from askance_lab.curator.generic import ListedConcepts, generic_distribution
from askance_lab.curator.privacy import Paid
from askance_lab.curator.sauer import lies_below
from askance_lab.theory import central
from askance_protocol.errors import ProtocolError
from tests.lab.curator.curating import ONE, RARE, draws, too_few


def thresholds(bits: int) -> ListedConcepts[int, int]:
    """Threshold j in binary: there is none of 0 bits but j = 0."""
    return ListedConcepts(range(min(8, (2 << bits) - 1)), lies_below)


class Short:
    """Conjunctions of at most this number of 16 variables, each of which takes 4 bits to name."""

    def __init__(self, bits: int) -> None:
        most = min(3, bits // 4)
        self.all = [sum(1 << i for i in some) for k in range(most + 1) for some in combinations(range(16), k)]

    def __len__(self) -> int:
        return len(self.all)

    def mistakes(self, database: Sequence[tuple[int, Any]]) -> Any:
        x, y = np.array(database).T
        return np.array([np.count_nonzero((x & v == v) != y) for v in self.all])

    def hypothesis(self, index: int) -> int:
        return self.all[index]


def contains(variables: int, xs: Sequence[int]) -> list[bool]:
    return [x & variables == variables for x in xs]


# ------------------------------------------------------------------------------------------------------ the schedule


@pytest.mark.parametrize(("error", "failure", "first"), [(0.2, 0.1, None), (0.05, 0.01, None), (0.3, 0.5, 17)])
def test_a_round_takes_twice_the_last_ones_examples_and_what_theorem_3_4_affords_with_them(
    error: float, failure: float, first: int | None
) -> None:
    schedule = list(islice(rounds(epsilon=ONE, error=error, failure=failure, first=first), 8))
    for number, each in enumerate(schedule, 1):
        share = failure / 2 / (number * (number + 1))
        assert each.number == number
        assert each.learning == schedule[0].learning << number - 1
        if each.bits:
            bound = {"epsilon": 1, "error": error / 2, "failure": share}
            assert central.examples_generic_repaired(hypotheses=(2 << each.bits) - 1, **bound) <= each.learning
        # A test errs by less than a quarter of α: half by its sampling, half by its noise.
        assert 2 * math.exp(-each.testing * (error / 4) ** 2 / 2) <= share / 2 * (1 + 1e-9)
        assert 3 * error * each.testing / 4 - 1 < each.most_mistakes <= 3 * error * each.testing / 4
    assert sum(failure / (k * (k + 1)) for k in range(1, 10**4)) < failure
    assert schedule[-1].bits > schedule[0].bits


# ----------------------------------------------------------------------------------------------------------- privacy

SCHEDULE = (CompressionRound(1, 1, 1, 0, 0), CompressionRound(2, 2, 1, 1, 0))
ENTRIES = [(x, y) for x in (0, 1) for y in (0, 1)]


def worst(mechanism: Callable[[Any], Any]) -> float:
    """Over all databases of five in their order, and all entries replaced."""
    known = {database: mechanism(database) for database in product(ENTRIES, repeat=5)}
    return max(
        loss(exact, known[*database[:place], entry, *database[place + 1 :]])
        for database, exact in known.items()
        for place in range(5)
        for entry in ENTRIES
        if entry != database[place]
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), ONE])
def test_two_rounds_at_the_full_epsilon_each_cost_epsilon_in_all(epsilon: Fraction) -> None:
    """Exactly, with the round that ended it and with ⊥. Nothing adds up: the rounds' examples are disjoint."""
    found = worst(lambda db: compression_distribution(thresholds, lies_below, db, SCHEDULE, epsilon=epsilon))

    assert 0.9 * epsilon < found <= epsilon + 1e-9
    assert compression.paid(epsilon) == Paid(epsilon)


def test_a_test_on_the_examples_that_were_learned_from_is_caught() -> None:
    """The control: round 2 learns from and tests with the same three, so that both are to be paid."""

    def reusing(database: Any) -> Any:
        chances = generic_distribution(thresholds(1), database[:3], epsilon=ONE)
        each = CompressionRound(1, 3, 3, 1, 0)
        passed = {
            j: chance * compression._passes(lies_below, j, database[:3], each, ONE) for j, chance in chances.items()
        }
        return {**passed, None: 1 - math.fsum(passed.values())}

    assert worst(reusing) > 1.2


def test_draws_follow_the_exact_distribution_with_its_tests_and_its_end() -> None:
    """All thresholds tie in learning; in the test those up to 3 have about as many mistakes as are let pass."""
    about = {"epsilon": 3 * ONE, "error": 0.9, "failure": 0.9, "first": 200}
    first = next(rounds(**about))
    learning = [(3, k % 2) for k in range(first.learning)]
    wrong = first.most_mistakes
    database = learning + [(3, k < wrong) for k in range(first.testing)]
    exact = compression_distribution(thresholds, lies_below, database, [first], epsilon=3 * ONE)
    draw = draws()
    seen = Counter(learn(thresholds, lies_below, database, draw=draw, **about) for _ in range(300))

    assert first.bits >= 3
    assert math.fsum(exact.values()) == pytest.approx(1, abs=1e-12)
    assert exact[None] > 0.01
    assert stats.chisquare([seen[each] for each in exact], [300 * p for p in exact.values()]).pvalue > RARE


# ---------------------------------------------------------------------------------------------------------- learning


def examples_of(target: int, count: int, rng: np.random.Generator) -> list[tuple[int, bool]]:
    """One of the target's variables is 0, or none; other bits are fair coins. To omit a variable costs ¼ or more."""
    bits = [i for i in range(16) if target >> i & 1]
    x = rng.integers(0, 1 << 16, count) | target
    zero = np.array([0, *(1 << i for i in bits)])[rng.integers(0, len(bits) + 1, count)]
    x &= ~zero
    return list(zip(x.tolist(), (x & target == target).tolist(), strict=True))


@pytest.mark.parametrize(
    ("target", "expected"), [(0, 1), (1 << 5, 2), (1 << 3 | 1 << 15, 2), (0b100_0000_0001_0010, 3)]
)
def test_a_longer_description_takes_more_rounds_and_no_more_examples_than_are_expected(
    target: int, expected: int
) -> None:
    """α = .2, β = .1, ε = 1. Success is an error of at most α, which here is the target itself."""
    about = {"epsilon": ONE, "error": 0.2, "failure": 0.1}
    schedule = list(islice(rounds(**about), 4))
    rng, draw, runs = np.random.default_rng(9), draws(target), 40
    available = sum(each.examples for each in schedule)
    found = [learn(Short, contains, examples_of(target, available, rng), draw=draw, **about) for _ in range(runs)]
    taken = [sum(each.examples for each in schedule[: one.round if one else 4]) for one in found]

    right = sum(one is not None and one.hypothesis == target for one in found)
    assert not too_few(right, runs, 0.9)
    assert Counter(one.round if one else 0 for one in found).most_common(1)[0][0] == expected
    assert np.mean(taken) <= expected_examples(bits=4 * target.bit_count(), **about)


def test_a_hypothesis_that_is_wrong_by_more_than_alpha_does_not_pass_the_test() -> None:
    """The control to the test of step 3: coins for labels. No hypothesis is good, so the output is ⊥ at the end."""
    rng, about = np.random.default_rng(2), {"epsilon": ONE, "error": 0.3, "failure": 0.1}
    available = sum(each.examples for each in islice(rounds(**about), 2))
    database = [(int(x), bool(rng.integers(0, 2))) for x in rng.integers(0, 8, available)]

    assert [learn(thresholds, lies_below, database, draw=draws(k), **about) for k in range(10)] == [None] * 10


def test_what_is_to_be_expected_is_little_more_than_the_rounds_up_to_the_one_that_affords_it() -> None:
    about = {"epsilon": ONE, "error": 0.2, "failure": 0.1}
    schedule = list(islice(rounds(**about), 6))
    for until, each in enumerate(schedule, 1):
        taken = sum(one.examples for one in schedule[:until])
        assert taken < expected_examples(bits=each.bits, **about) < 1.1 * taken


# ---------------------------------------------------------------------------------------------------------- refusals


def test_more_hypotheses_than_there_are_descriptions_are_refused() -> None:
    """Thm 3.4 affords fewer than 2^{s+1}."""
    crowded = ListedConcepts(range(100), lies_below)
    with pytest.raises(ProtocolError, match="more hypotheses than descriptions"):
        learn(lambda bits: crowded, lies_below, [(0, 0)] * 8000, epsilon=ONE, error=0.2, failure=0.1, draw=draws())


def test_too_few_examples_for_the_first_round_give_bottom() -> None:
    for size in (0, 1, 6968):
        assert learn(thresholds, lies_below, [(0, 0)] * size, epsilon=ONE, error=0.2, failure=0.1, draw=draws()) is None
    exact = compression_distribution(thresholds, lies_below, [(0, 0)], list(SCHEDULE), epsilon=ONE)
    assert exact == {None: 1.0}


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"epsilon": Fraction(0)}, "epsilon"),
        ({"error": 0}, "error"),
        ({"failure": 1}, "failure"),
        ({"first": 0}, "first"),
    ],
)
def test_parameters_outside_their_ranges_are_refused(changed: Any, where: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        next(rounds(**{"epsilon": ONE, "error": 0.2, "failure": 0.1, **changed}))
    assert refused.value.where == where


def test_a_learned_hypothesis_says_in_which_round() -> None:
    found = learn(thresholds, lies_below, [(0, 0)] * 6969, epsilon=ONE, error=0.2, failure=0.1, draw=draws())
    assert found == CompressionResult(0, 1)
