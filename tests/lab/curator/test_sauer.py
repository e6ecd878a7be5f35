"""One concept for each labelling of a public domain: KLNRS11, Cor. 3.6."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_lab.curator import generic, sauer
from askance_lab.curator.distributions import worst_loss
from askance_lab.curator.draws import below
from askance_lab.curator.generic import ListedConcepts, generic_distribution, learn
from askance_lab.curator.privacy import Paid
from askance_lab.curator.sauer import dichotomies, intervals, points, thresholds, vc_dimension
from askance_lab.theory import central
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom
from tests.lab.curator.curating import ONE, RARE, too_few


def odd(r: int, xs: Sequence[int]) -> list[bool]:
    return [bool((x & r).bit_count() & 1) for x in xs]


def contains(variables: int, xs: Sequence[int]) -> list[bool]:
    return [x & variables == variables for x in xs]


@pytest.mark.parametrize(
    ("class_of", "size", "vc"),
    [
        (thresholds, lambda n: n + 1, 1),
        (points, lambda n: n, 1),
        (intervals, lambda n: n * (n + 1) // 2 + 1, 2),
    ],
)
@pytest.mark.parametrize("domain", [[5], [2, 7], [1, 4, 9, 16, 25, 1000], list(range(12))])
def test_a_domain_is_labelled_in_as_many_ways_as_sauers_lemma_allows_at_most(
    class_of: Any, size: Any, vc: int, domain: list[int]
) -> None:
    found = class_of(domain)

    assert len(found) == size(len(domain)) == len({row.tobytes() for row in found.labels})
    # One point has no second labelling by a point function, two no fourth.
    assert vc_dimension(found.labels) <= vc
    if len(domain) > 2:
        assert vc_dimension(found.labels) == vc
    if len(domain) >= vc:
        assert math.log(len(found)) <= central.sauer_log_labelings(vc=vc, domain=len(domain))


def test_concepts_that_label_the_domain_alike_are_one_and_the_first_stands_for_them() -> None:
    """A class without end has few labellings of four points: thresholds at every 1/7 up to 100."""
    reals = [Fraction(k, 7) for k in range(700)]
    found = dichotomies([3, 10, 50, 90], reals, lambda j, xs: [x < j for x in xs])

    assert found.concepts == [0, Fraction(22, 7), Fraction(71, 7), Fraction(351, 7), Fraction(631, 7)]


def test_its_distribution_is_the_generic_learners_on_the_concepts_that_stand_for_the_rest() -> None:
    rng = random.Random(1)
    found = intervals([1, 4, 9, 16])
    brute = ListedConcepts(found.concepts, sauer.lies_within)
    for size in (1, 5, 30):
        database = [(rng.choice([1, 4, 9, 16]), rng.randrange(2)) for _ in range(size)]
        assert found.mistakes(database).tolist() == brute.mistakes(database).tolist()
        one, other = (generic_distribution(each, database, epsilon=ONE) for each in (found, brute))
        assert one == pytest.approx(dict(other), abs=1e-12)


# ----------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE])
def test_it_is_epsilon_private_on_all_databases(epsilon: Fraction) -> None:
    found = intervals(range(3))
    domain = list(product(range(3), (0, 1)))
    worst = worst_loss(lambda database: generic_distribution(found, database, epsilon=epsilon), domain, 3)

    assert worst.value <= epsilon + 1e-9
    assert generic.paid(epsilon) == Paid(epsilon)


def test_the_labellings_of_the_examples_in_place_of_the_domains_are_caught() -> None:
    """The control: then the class itself says who is in the database."""
    domain = list(product(range(4), (0, 1)))

    def of_examples(database: Any) -> Any:
        return generic_distribution(thresholds(x for x, _ in database), database, epsilon=ONE)

    assert worst_loss(of_examples, domain, 3).value == math.inf


# ------------------------------------------------------------------------------------------------- how many examples


@pytest.mark.parametrize("d", [2, 3, 4])
def test_parities_and_conjunctions_have_vc_dimension_d_and_all_2_to_the_d_labellings(d: int) -> None:
    for says in (odd, contains):
        found = dichotomies(range(1 << d), range(1 << d), says)
        assert (len(found), vc_dimension(found.labels)) == (1 << d, d)


@pytest.mark.parametrize("d", [4, 8, 20, 64])
def test_sauers_bound_is_worse_than_counting_for_parities_and_conjunctions(d: int) -> None:
    """|C| = 2^d, VC = d, |X| = 2^d (theory.md#smaller). The control: for thresholds it is the same but for 1 + o(1)."""
    about = {"epsilon": 1.0, "error": 0.1, "failure": 0.1}
    counted = central.examples_generic_repaired(hypotheses=1 << d, **about)

    assert central.sauer_log_labelings(vc=d, domain=1 << d) > d * math.log(2)
    assert central.examples_sauer_repaired(vc=d, domain=1 << d, **about) > (1.2 if d == 4 else 2) * counted
    assert central.examples_sauer_repaired(vc=1, domain=1 << d, **about) < 1.2 * counted


def test_at_the_repaired_size_a_threshold_is_learned_where_a_third_of_the_labels_are_wrong() -> None:
    """Agnostic, over 64 points: success is an error within α of the best, in 200 studies. Control: a four-hundredth."""
    rng, draw, runs = np.random.default_rng(3), below(SimulatedRandom(1)), 200
    found, alpha = thresholds(range(64)), 0.1
    n = central.examples_sauer_repaired(vc=1, domain=64, epsilon=1, error=alpha, failure=0.1)

    def good(examples: int) -> bool:
        target = int(rng.integers(0, 65))
        xs = rng.integers(0, 64, examples)
        ys = (xs < target) ^ (rng.random(examples) < 1 / 3)
        j = learn(found, list(zip(xs.tolist(), ys.tolist(), strict=True)), epsilon=ONE, draw=draw)
        return abs(j - target) / 64 / 3 <= alpha  # each point between them is wrong by ⅔ − ⅓

    assert not too_few(sum(good(n) for _ in range(runs)), runs, 0.9)
    assert too_few(sum(good(n // 400) for _ in range(runs)), runs, 0.9)


def test_draws_follow_the_exact_distribution() -> None:
    found, draw = points([2, 3, 5, 7]), below(SimulatedRandom(2))
    database = [(2, 1), (3, 0), (2, 1), (7, 1)]
    exact = generic_distribution(found, database, epsilon=ONE)
    seen = Counter(learn(found, database, epsilon=ONE, draw=draw) for _ in range(3000))

    assert stats.chisquare([seen[j] for j in exact], [3000 * p for p in exact.values()]).pvalue > RARE


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (lambda: thresholds([]), "domain"),
        (lambda: dichotomies([], [1], sauer.is_at), "domain"),
        (lambda: dichotomies([1], [], sauer.is_at), "concepts"),
        (lambda: learn(points([1, 2]), [], epsilon=ONE, draw=below(SimulatedRandom(1))), "database"),
        (lambda: thresholds(range(5000)), "domain"),
        (lambda: points(range(5000)), "domain"),
        (lambda: intervals(range(300)), "domain"),
    ],
)
def test_what_it_cannot_do_it_refuses_and_says_why(wrong: Any, where: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        wrong()
    assert refused.value.where == where


def test_an_example_outside_the_public_domain_is_refused_without_being_repeated() -> None:
    with pytest.raises(ProtocolError, match="outside the public domain") as refused:
        points([1, 2]).mistakes([(1, 1), (77, 0)])
    assert "77" not in str(refused.value)
