"""The generic label-private learner: BNS13, Def. 13, Thm 7."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_lab.curator import label_private
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import loss, worst_loss
from askance_lab.curator.exponential import probabilities
from askance_lab.curator.generic_interval import interval_runs
from askance_lab.curator.label_private import (
    interval_distribution,
    label_private_distribution,
    learn,
    learn_interval,
    learn_point,
    of_public,
    point_distribution,
)
from askance_lab.curator.privacy import Paid
from askance_lab.curator.sauer import is_at, lies_below
from askance_lab.theory import central
from askance_protocol.errors import ProtocolError
from tests.lab.curator.curating import ONE, RARE, draws, too_few

PUBLIC = [(5,), (0, 7), (2, 2, 6), (0, 3, 4, 4, 7), (1, 2, 3, 5, 6, 7)]


def cuts(xs: Any) -> list[int]:
    """Thresholds that label the x's in every way in which a threshold does: and more than one for some."""
    return [0, *(each for x in sorted(xs) for each in (x, x + 1)), 1000]


def worst_flip(distribution: Any, xs: tuple[int, ...]) -> float:
    """Over all labellings of the same x's, and all single labels flipped."""
    worst = -math.inf
    for labels in product((0, 1), repeat=len(xs)):
        one = distribution(LabelledSample.of(3, xs, labels))
        for place in range(len(xs)):
            flipped = [y ^ (k == place) for k, y in enumerate(labels)]
            worst = max(worst, loss(one, distribution(LabelledSample.of(3, xs, flipped))))
    return worst


# ----------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("exact", [interval_distribution, point_distribution])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE])
@pytest.mark.parametrize("xs", PUBLIC)
def test_with_the_same_xs_and_one_label_flipped_the_log_ratio_is_at_most_epsilon(
    exact: Any, epsilon: Fraction, xs: tuple[int, ...]
) -> None:
    assert worst_flip(lambda sample: exact(sample, epsilon=epsilon), xs) <= epsilon + 1e-9
    assert label_private.paid(epsilon) == Paid(epsilon)


def test_the_rate_without_its_half_is_caught() -> None:
    def without_half(sample: LabelledSample) -> Any:
        runs = interval_runs(sample)
        chances = probabilities([-run.mistakes for run in runs], epsilon=2 * ONE)
        return {run.start: chance for run, chance in zip(runs, chances, strict=True)}

    assert worst_flip(without_half, PUBLIC[-1]) > 1.2


@pytest.mark.parametrize("exact", [interval_distribution, point_distribution])
def test_of_the_xs_it_promises_nothing(exact: Any) -> None:
    """So it must not be taken for a private learner: changing an x changes which hypotheses there are."""
    entries = list(product(range(4), (0, 1)))

    def mechanism(database: Any) -> Any:
        return exact(LabelledSample.of(2, [x for x, _ in database], [y for _, y in database]), epsilon=ONE)

    assert worst_loss(mechanism, entries, 2).value == math.inf


# --------------------------------------------------------------------------------------------------------- the class


@pytest.mark.parametrize("xs", PUBLIC)
def test_there_is_one_concept_for_each_labelling_of_the_xs(xs: tuple[int, ...]) -> None:
    """Thresholds: one more than distinct x's. Points: as many, and one for none of them. The lemma allows no fewer."""
    sample, distinct = LabelledSample.of(3, xs, [0] * len(xs)), len(set(xs))
    for exact, says in ((interval_distribution, lies_below), (point_distribution, is_at)):
        concepts = exact(sample, epsilon=ONE)
        labellings = {tuple(says(j, xs)) for j in concepts}
        assert len(concepts) == len(labellings) == distinct + 1
        assert labellings == {tuple(says(j, xs)) for j in range(8 + (says is lies_below))}
        assert math.log(distinct + 1) <= central.sauer_log_labelings(vc=1, domain=len(xs)) + 1e-12


def test_where_every_point_was_seen_a_point_is_one_of_them() -> None:
    assert set(point_distribution(LabelledSample.of(2, range(4), [0] * 4), epsilon=ONE)) == set(range(4))


@pytest.mark.parametrize("xs", PUBLIC)
def test_a_class_given_by_a_function_of_the_public_xs_has_the_same_distribution(xs: tuple[int, ...]) -> None:
    rng = random.Random(1)
    for _ in range(10):
        labels = [rng.randrange(2) for _ in xs]
        known = interval_distribution(LabelledSample.of(3, xs, labels), epsilon=ONE)
        given = label_private_distribution(xs, labels, cuts, lies_below, epsilon=ONE)
        assert len(of_public(xs, cuts, lies_below)) == len(known)
        by_labels = {tuple(lies_below(j, xs)): chance for j, chance in given.items()}
        assert by_labels == pytest.approx({tuple(lies_below(j, xs)): p for j, p in known.items()}, abs=1e-12)


def test_draws_follow_the_exact_distributions() -> None:
    sample, draw = LabelledSample.of(600, [1 << 500, 1 << 550, 9, 1 << 599], [1, 0, 1, 0]), draws()
    pairs = [
        (lambda: learn_interval(sample, epsilon=ONE, draw=draw), interval_distribution(sample, epsilon=ONE)),
        (lambda: learn_point(sample, epsilon=ONE, draw=draw), point_distribution(sample, epsilon=ONE)),
        (
            lambda: learn([3, 5, 9], [1, 0, 0], cuts, lies_below, epsilon=ONE, draw=draw),
            label_private_distribution([3, 5, 9], [1, 0, 0], cuts, lies_below, epsilon=ONE),
        ),
    ]
    for once, exact in pairs:
        seen = Counter(once() for _ in range(2000))
        assert stats.chisquare([seen[j] for j in exact], [2000 * p for p in exact.values()]).pvalue > RARE


# --------------------------------------------------------------------------------------------------- examples needed


def uniform_success(d: int, m: int, seed: int) -> float:
    """Pr[error ≤ .1], exactly for one draw of uniform x's, threshold in the middle."""
    source, target = random.Random(f"{d} {m} {seed}"), 1 << d - 1
    xs = [source.getrandbits(d) for _ in range(m)]
    exact = interval_distribution(LabelledSample.of(d, xs, [x < target for x in xs]), epsilon=ONE)
    return sum(chance for j, chance in exact.items() if 10 * abs(j - target) <= 1 << d)


def hard_success(d: int, m: int, seed: int) -> float:
    """The same with mass 1.05α next to the threshold on each side, the rest at both ends: it must be hit."""
    target, rng = 1 << d - 1, np.random.default_rng([d, m, seed])
    places = [0, target - 1, target, (1 << d) - 1]
    xs = [places[k] for k in rng.choice(4, m, p=[0.395, 0.105, 0.105, 0.395])]
    return float(interval_distribution(LabelledSample.of(d, xs, [x < target for x in xs]), epsilon=ONE).get(target, 0))


@pytest.mark.parametrize("d", [8, 64, 512])
@pytest.mark.parametrize(("success", "examples"), [(uniform_success, 62), (hard_success, 72)])
def test_the_examples_needed_are_flat_in_d(success: Any, examples: int, d: int) -> None:
    """α = β = .1, ε = 1; measured 57–58 on uniform x's, 67 on the hard ones, at each of d = 8, 64, 512.

    The mean over 300 databases of an exact probability: Hoeffding's bound says how far below its expectation it may be.
    The control: a third of the examples.
    """
    runs = 300
    slack = math.sqrt(math.log(1 / RARE) / (2 * runs))

    assert np.mean([success(d, examples, seed) for seed in range(runs)]) >= 0.9 - slack
    assert np.mean([success(d, examples // 3, seed) for seed in range(runs)]) < 0.9 - slack


@pytest.mark.parametrize("d", [8, 64, 512])
def test_at_the_bound_that_does_not_know_d_it_learns(d: int) -> None:
    """`examples_label_private`: VC = 1, whatever the domain. 100 studies, drawn."""
    m = central.examples_label_private(vc=1, epsilon=1, error=0.1, failure=0.1)
    source, draw, target, right = random.Random(d), draws(d), (1 << d) // 3, 0
    for _ in range(100):
        xs = [source.getrandbits(d) for _ in range(m)]
        j = learn_interval(LabelledSample.of(d, xs, [x < target for x in xs]), epsilon=ONE, draw=draw)
        right += 10 * abs(j - target) <= 1 << d

    assert not too_few(right, 100, 0.9)


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (lambda: learn_interval(LabelledSample.of(3, [], []), epsilon=ONE, draw=draws()), "database"),
        (lambda: learn_interval(LabelledSample.of(3, [1], [1]), epsilon=Fraction(0), draw=draws()), "epsilon"),
        (lambda: learn([], [], cuts, lies_below, epsilon=ONE, draw=draws()), "domain"),
        (lambda: learn([1], [1], lambda xs: [], lies_below, epsilon=ONE, draw=draws()), "concepts"),
        (lambda: learn([1, 2], [1], cuts, lies_below, epsilon=ONE, draw=draws()), "labels"),
    ],
)
def test_what_it_cannot_do_it_refuses_and_says_why(wrong: Any, where: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        wrong()
    assert refused.value.where == where


def test_where_all_points_are_seen_no_other_is_learned() -> None:
    exact = point_distribution(LabelledSample.of(1, [0, 1, 1], [1, 0, 1]), epsilon=ONE)

    assert set(exact) == {0, 1}
