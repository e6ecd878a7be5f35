"""A sanitizer for C^label learns C: what the reduction costs, what it reaches, and that both c^label and Δ matter."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from askance_lab.curator import exponential
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import loss, worst_loss
from askance_lab.curator.draws import below
from askance_lab.curator.privacy import Paid
from askance_lab.curator.sanitizer_learner import (
    SmallDatabases,
    best,
    examples_to_generalize,
    for_thresholds,
    labelled,
    learn,
    learn_distribution,
    paid,
    thresholds,
)
from askance_lab.theory.sanitizers import sanitizer_learner_accuracy
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

F = Fraction
X2 = [(x, y) for x in range(2) for y in (False, True)]


def deviation(databases, one, other):
    """max_c |Q_c(S) − Q_c(Ŝ)|, straight from Def. 6."""
    place = {entry: i for i, entry in enumerate(databases.universe)}
    return max(
        abs(F(int(sum(row[place[e]] for e in one)), len(one)) - F(int(sum(row[place[e]] for e in other)), len(other)))
        for row in databases.holds
    )


def test_c_label_says_that_c_mislabels() -> None:
    """BNS13, §5.1: c^label(x∘y) = y ⊕ c(x)."""
    for j, c in thresholds(2).items():
        assert [labelled(c)((x, y)) for x in range(4) for y in (False, True)] == [
            y ^ (x < j) for x in range(4) for y in (False, True)
        ]


@pytest.mark.parametrize("epsilon", [F(1, 8), F(1), F(3)])
@pytest.mark.parametrize("size", [1, 3])
def test_the_sanitizer_is_private_by_enumeration_and_so_is_the_learner(epsilon, size) -> None:
    databases = for_thresholds(1, size)
    sanitized = worst_loss(lambda entries: databases.sanitize_distribution(entries, epsilon=epsilon), X2, 4)

    def hypothesis(entries):
        sample = LabelledSample.of(1, *zip(*entries, strict=True))
        return learn_distribution(
            sample, thresholds(1), lambda given: databases.sanitize_distribution(given, epsilon=epsilon)
        )

    assert sanitized.value <= float(epsilon) + 1e-9
    assert worst_loss(hypothesis, X2, 4).value <= sanitized.value + 1e-9
    assert sanitized.value > float(epsilon) / 4


def test_control_a_sensitivity_of_1_is_caught() -> None:
    """The score is in units of 1/nm: an entry of S counts n in it."""
    databases = for_thresholds(1, 3)

    def careless(entries):
        chances = exponential.probabilities(databases.scores(entries), epsilon=F(1))
        return dict(enumerate(chances))

    assert worst_loss(careless, X2, 4).value > 1.2


@pytest.mark.parametrize(("d", "size"), [(1, 5), (2, 4)])
def test_some_database_of_n_entries_is_within_1_over_n_of_any(d, size) -> None:
    """The cumulative rounding's promise, and that the score is what it says: −nm times the deviation."""
    databases, rng = for_thresholds(d, size), random.Random(1)
    for m in (1, 2, 7, 30):
        entries = [rng.choice(databases.universe) for _ in range(m)]
        scores = databases.scores(entries)
        place = int(rng.randrange(len(scores)))
        listed = [databases.universe[i] for i in databases.databases[place]]

        assert -int(scores.max()) <= m
        assert F(-int(scores[place]), m * size) == deviation(databases, entries, listed)


@pytest.mark.parametrize(
    ("d", "error", "size", "weights"),
    [(1, 1 / 20, 40, (0.8, 0.2)), (2, 1 / 8, 16, (0.1, 0.4, 0.4, 0.1))],
)
def test_at_theorem_5s_conditions_the_hypothesis_is_as_good_as_it_says(d, error, size, weights) -> None:
    epsilon, failure, runs = F(1, 8), 0.05, 30
    databases, draw = for_thresholds(d, size), below(SimulatedRandom(6))
    needs = databases.examples_needed(epsilon=1 / 8, error=error, rounding=1 / size, failure=failure)
    t = max(needs, examples_to_generalize(concepts=(1 << d) + 1, error=error, failure=failure))
    promised = sanitizer_learner_accuracy(error=error, failure=failure, epsilon=1 / 8)
    rng, good, best_of_all = np.random.default_rng(2), 0, 0
    for target in itertools.islice(itertools.cycle(range((1 << d) + 1)), runs):
        points = rng.choice(1 << d, size=t, p=weights)
        sample = LabelledSample.of(d, points, points < target)
        j = learn(sample, thresholds(d), lambda entries: databases.sanitize(entries, epsilon=epsilon, draw=draw))
        wrong = math.fsum(weights[x] for x in range(1 << d) if (x < j) != (x < target))
        good += wrong <= promised.error
        best_of_all += wrong <= 3 * error

    assert binom.cdf(good, runs, 1 - promised.failure) > 1e-6
    assert binom.cdf(best_of_all, runs, 1 - 2 * failure) > 1e-6
    assert min(good, best_of_all) >= 25


def test_control_the_least_q_c_in_place_of_q_c_label_learns_nothing() -> None:
    """Q_c counts where c holds, and is least for the concept that holds nowhere, whatever the labels are."""
    concepts = thresholds(2)
    database = [(x, x < 3) for x in (0, 1, 2, 3) * 5]
    literal = min(concepts, key=lambda name: sum(concepts[name](x) for x, _ in database))

    assert best(concepts, database) == 3
    assert literal == 0


def test_any_sanitizer_will_do_and_nothing_but_its_output_is_looked_at() -> None:
    asked = []

    def constant(entries):
        asked.append(entries)
        return [(0, True), (1, False)]

    samples = [LabelledSample.of(2, [3, 2], [1, 1]), LabelledSample.of(2, [0, 0], [0, 0])]

    assert {learn(sample, thresholds(2), constant) for sample in samples} == {1}
    assert asked == [((3, True), (2, True)), ((0, False), (0, False))]
    assert paid(Paid(F(1, 8))) == Paid(F(1, 8))


def test_what_is_drawn_has_the_exact_distribution() -> None:
    databases, draw, runs = for_thresholds(1, 2), below(SimulatedRandom(3)), 2000
    entries = [(0, True), (1, False), (1, False)]
    exact = databases.sanitize_distribution(entries, epsilon=F(2))
    drawn = Counter(databases.sanitize(entries, epsilon=F(2), draw=draw) for _ in range(runs))

    assert math.fsum(exact.values()) == pytest.approx(1, abs=1e-12)
    assert loss(exact, exact) == 0
    for database, chance in exact.items():
        assert binom.cdf(drawn[database], runs, chance) > 1e-6
        assert binom.sf(drawn[database] - 1, runs, chance) > 1e-6


@pytest.mark.parametrize(
    "call",
    [
        lambda: for_thresholds(1, 0),
        lambda: for_thresholds(3, 40),
        lambda: SmallDatabases.of([], [bool], 2),
        lambda: SmallDatabases.of([1], [], 2),
        lambda: for_thresholds(1, 2).scores([]),
        lambda: for_thresholds(1, 2).scores([(987, True)]),
        lambda: for_thresholds(1, 2).sanitize([(1, True)], epsilon=F(0), draw=below(SimulatedRandom(1))),
        lambda: for_thresholds(1, 2).examples_needed(epsilon=1, error=0.1, rounding=0.2, failure=0.1),
        lambda: best({}, [(1, True)]),
        lambda: examples_to_generalize(concepts=3, error=0, failure=0.1),
    ],
)
def test_what_is_empty_too_large_or_out_of_range_is_refused(call) -> None:
    with pytest.raises(ProtocolError) as refusal:
        call()
    assert "987" not in str(refusal.value)
