"""A* by training and testing: its loss over ordered databases, its selection, trap 7, utility at the bound."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import pytest
from scipy.stats import binom, chi2

from askance_lab.curator import train_test
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution, loss
from askance_lab.curator.draws import below
from askance_lab.curator.privacy import Paid
from askance_lab.curator.train_test import (
    divided,
    learn,
    mistakes,
    paid,
    select,
    selection_probabilities,
    train_test_distribution,
)
from askance_lab.theory.parity import (
    TrainTest,
    parity_train_test_exponential,
    parity_train_test_repaired,
    parity_train_test_stated,
)
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom
from tests.lab.curator.curating import ONE, hard

Entry: TypeAlias = tuple[tuple[int, ...], int]
Selection: TypeAlias = Literal["laplace", "exponential"]
TINY = 1e-6
ONE_BIT: list[Entry] = [((x,), y) for x in (0, 1) for y in (0, 1)]
SELECTIONS: list[Selection] = ["laplace", "exponential"]
SMALL = [TrainTest(2, 1, 1), TrainTest(2, 1, 2), TrainTest(3, 1, 1)]


def sample_of(rows: Sequence[Entry]) -> BitSample:
    return BitSample.from_rows(len(rows[0][0]), rows)


def replaced(size: int) -> Iterator[tuple[tuple[Entry, ...], tuple[Entry, ...]]]:
    """All ordered databases of this size, each with all that differ in one place: here the order matters."""
    for rows in itertools.product(ONE_BIT, repeat=size):
        for place, entry in itertools.product(range(size), ONE_BIT):
            if rows[place] != entry:
                yield rows, (*rows[:place], entry, *rows[place + 1 :])


def worst(mechanism: Callable[[BitSample], Distribution], size: int) -> float:
    known = {rows: mechanism(sample_of(rows)) for rows in itertools.product(ONE_BIT, repeat=size)}
    return max(loss(known[one], known[other]) for one, other in replaced(size))


# --- Privacy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("parts", SMALL, ids=lambda parts: "-".join(map(str, parts)))
def test_the_loss_over_all_ordered_databases_of_one_bit_is_within_epsilon(
    parts: TrainTest, selection: Selection
) -> None:
    for epsilon in (Fraction(1, 2), Fraction(2)):
        found = worst(
            lambda sample, e=epsilon: train_test_distribution(sample, epsilon=e, parts=parts, selection=selection),
            parts.total,
        )
        assert 0.05 * epsilon < found <= float(epsilon) + 1e-12


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_selection_that_reads_the_true_counts_more_sharply_is_caught(
    selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the test phase at eight times the ε that is declared; only that phase shows it."""
    true = selection_probabilities
    monkeypatch.setattr(
        train_test,
        "selection_probabilities",
        lambda counts, *, epsilon, selection: true(counts, epsilon=8 * epsilon, selection=selection),
    )
    parts = TrainTest(2, 1, 1)

    assert (
        worst(lambda sample: train_test_distribution(sample, epsilon=ONE, parts=parts, selection=selection), 3) > 1.01
    )


@pytest.mark.parametrize("k", [2, 3, 5])
def test_telling_which_candidate_errs_least_spends_epsilon_at_most_and_its_noise_may_not_be_k_times_less(
    k: int,
) -> None:
    """Counts of k candidates on one test set: replacing an example moves each by −1, 0 or 1."""
    for selection in SELECTIONS:
        found, least = 0.0, 0.0
        for move in itertools.product((-1, 0, 1), repeat=k):
            one, other = [3] * k, [3 + step for step in move]
            found = max(found, _between(one, other, ONE, selection), _between(other, one, ONE, selection))
            least = max(least, _between(one, other, k * ONE, selection), _between(other, one, k * ONE, selection))
        assert found <= 1 + 1e-12
        assert least > 1.05


def _between(one: Sequence[int], other: Sequence[int], epsilon: Fraction, selection: Selection) -> float:
    return loss(
        *(dict(enumerate(selection_probabilities(each, epsilon=epsilon, selection=selection))) for each in (one, other))
    )


# --- What it draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", SELECTIONS)
def test_selection_draws_with_the_probabilities_that_it_declares(selection: Selection) -> None:
    counts, draw, runs = [3, 1, 1, 6], below(SimulatedRandom(6)), 4000
    seen = Counter(select(counts, epsilon=Fraction(2), draw=draw, selection=selection) for _ in range(runs))

    def improbable(chances: Sequence[float]) -> bool:
        return bool(chi2.sf(sum((seen[j] - runs * c) ** 2 / (runs * c) for j, c in enumerate(chances)), 3) < TINY)

    declared = selection_probabilities(counts, epsilon=Fraction(2), selection=selection)
    assert math.fsum(declared) == pytest.approx(1, abs=1e-12)
    assert not improbable(declared)
    assert improbable(selection_probabilities(counts, epsilon=Fraction(4), selection=selection))


def test_the_probability_of_the_least_noisy_count_is_that_of_all_pairs_of_noises() -> None:
    first, second = selection_probabilities([4, 5], epsilon=ONE, selection="laplace")
    ratio = math.exp(-1 / 2)
    mass = [(1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-120, 121)]
    direct = math.fsum(
        one * other for (i, one), (j, other) in itertools.product(enumerate(mass), repeat=2) if 4 + i <= 5 + j
    )

    assert first == pytest.approx(direct, abs=1e-12)
    assert first + second == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_learner_draws_from_its_distribution(selection: Selection) -> None:
    rows: list[Entry] = [((1, 0), 1), ((0, 1), 1), ((1, 1), 0), ((0, 1), 1), ((1, 0), 0), ((1, 1), 0)]
    sample, parts, draw, runs = sample_of(rows), TrainTest(2, 2, 2), below(SimulatedRandom(7)), 3000
    seen = Counter(learn(sample, epsilon=Fraction(3), parts=parts, selection=selection, draw=draw) for _ in range(runs))

    def improbable(theirs: Distribution) -> bool:
        gap = math.fsum((seen.get(h, 0) - runs * each) ** 2 / (runs * each) for h, each in theirs.items() if each)
        return bool(chi2.sf(gap, sum(each > 0 for each in theirs.values()) - 1) < TINY)

    expected = train_test_distribution(sample, epsilon=Fraction(3), parts=parts, selection=selection)
    assert math.fsum(expected.values()) == pytest.approx(1, abs=1e-12)
    assert not improbable(expected)
    assert improbable(train_test_distribution(sample, epsilon=ONE, parts=parts, selection=selection))


# --- Trap 7 --------------------------------------------------------------------------------------------------------


def test_the_texts_number_of_candidates_does_not_exist_and_the_repaired_one_does() -> None:
    sizes = {"dimension": 10, "epsilon": 1.0, "error": 0.1, "failure": 0.1}

    with pytest.raises(ProtocolError, match="candidates"):
        parity_train_test_stated(**sizes, train_constant=8, test_constant=10)  # type: ignore[arg-type]
    assert parity_train_test_repaired(**sizes).candidates == math.ceil(math.log(30) / math.log(4 / 3))  # type: ignore[arg-type]


def test_as_many_examples_as_the_parts_take_are_enough_and_one_less_is_refused() -> None:
    parts = TrainTest(3, 2, 4)
    rows: list[Entry] = [((1, 0), 1)] * parts.total
    training, test = divided(sample_of(rows), parts)

    assert [len(part) for part in training] == [2, 2, 2]
    assert len(test) == 4
    with pytest.raises(ProtocolError, match="insufficient samples"):
        learn(sample_of(rows[1:]), epsilon=ONE, parts=parts, draw=below(SimulatedRandom(1)))


def test_the_parts_are_disjoint_and_make_up_all_examples() -> None:
    rng = np.random.default_rng(1)
    sample = BitSample.of(rng.integers(0, 2, (30, 64)), rng.integers(0, 2, 30))
    training, test = divided(sample, TrainTest(4, 5, 7))
    together = np.concatenate([*(part.words for part in training), test.words])

    assert len(test) == 10
    assert (together == sample.words).all()


def test_bottom_is_scored_as_always_wrong_and_scored_as_never_wrong_it_would_win(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Entry] = [((1, 0), 1), ((0, 1), 0)] * 20 + [((1, 0), 1), ((0, 1), 0), ((1, 1), 1)] * 20
    sample, parts = sample_of(rows), TrainTest(4, 10, 60)
    ours = train_test_distribution(sample, epsilon=ONE, parts=parts)

    monkeypatch.setattr(
        train_test,
        "mistakes",
        lambda candidates, test: [0 if h is None else mistakes([h], test)[0] for h in candidates],
    )
    literal = train_test_distribution(sample, epsilon=ONE, parts=parts)

    # ⊥ is left where all four are: 2^−4, but for the noise.
    assert ours[None] < 0.07
    assert ours[0b01] > 0.9
    assert literal[None] > 0.5


def test_mistakes_are_counted_as_by_hand() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 2, (50, 70)), rng.integers(0, 2, 50)
    r = rng.integers(0, 2, 70)
    h = sum(int(bit) << j for j, bit in enumerate(r))

    assert mistakes([h, None, 0], BitSample.of(x, y)) == [int((x @ r % 2 != y).sum()), 50, int(y.sum())]


# --- Utility -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", SELECTIONS)
def test_at_the_repaired_bound_the_error_is_within_alpha_nine_times_of_ten_and_far_below_it_is_not(
    selection: Selection,
) -> None:
    bound = {"laplace": parity_train_test_repaired, "exponential": parity_train_test_exponential}[selection]
    parts = bound(dimension=10, epsilon=1, error=0.1, failure=0.1)
    runs, draw = 100, below(SimulatedRandom(13))

    def improbable(parts: TrainTest) -> bool:
        right = 0
        for seed in range(runs):
            sample, r = hard(10, parts.total, 0.1, seed)
            right += learn(sample, epsilon=ONE, parts=parts, draw=draw, selection=selection, stated=True) == r
        return bool(binom.cdf(right, runs, 0.9) < TINY)

    assert not improbable(parts)
    assert improbable(TrainTest(parts.candidates, parts.train // 40, parts.test // 40))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_with_the_exact_rate_four_small_parts_and_a_small_test_are_enough(selection: Selection) -> None:
    runs, draw, parts = 300, below(SimulatedRandom(14)), TrainTest(4, 180, 100)

    def improbable(parts: TrainTest) -> bool:
        right = 0
        for seed in range(runs):
            sample, r = hard(10, parts.total, 0.1, seed)
            right += learn(sample, epsilon=ONE, parts=parts, draw=draw, selection=selection) == r
        return bool(binom.cdf(right, runs, 0.9) < TINY)

    assert not improbable(parts)
    assert improbable(TrainTest(2, 180, 100))


# --- Refusals ------------------------------------------------------------------------------------------------------


def test_parameters_out_of_range_are_refused() -> None:
    sample, draw = sample_of(ONE_BIT), below(SimulatedRandom(1))

    with pytest.raises(ProtocolError, match="must be positive"):
        learn(sample, epsilon=Fraction(0), parts=TrainTest(1, 1, 1), draw=draw)
    with pytest.raises(ProtocolError, match="is not known"):
        select([1, 2], epsilon=ONE, draw=draw, selection="least")  # type: ignore[arg-type]
    for parts in (TrainTest(0, 1, 1), TrainTest(1, 0, 1), TrainTest(1, 1, 0)):
        with pytest.raises(ProtocolError, match="at least 1"):
            learn(sample, epsilon=ONE, parts=parts, draw=draw)


def test_contradictory_parts_give_bottom() -> None:
    rows: list[Entry] = [((1,), 0), ((1,), 1)] * 60

    drawn = {
        learn(sample_of(rows), epsilon=Fraction(5), parts=TrainTest(2, 40, 40), draw=below(SimulatedRandom(seed)))
        for seed in range(10)
    }
    assert drawn == {None}


def test_what_is_paid_is_epsilon_once() -> None:
    assert paid(Fraction(1, 3)) == Paid(Fraction(1, 3))
