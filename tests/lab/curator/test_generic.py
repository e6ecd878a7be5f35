"""The generic agnostic private learner: KLNRS08, Thm 3.7; KLNRS11, Thm 3.4."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_lab.curator import generic
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import worst_loss
from askance_lab.curator.exponential import probabilities
from askance_lab.curator.generic import ListedConcepts, generic_distribution, learn, selected
from askance_lab.curator.generic_conjunction import Conjunctions
from askance_lab.curator.privacy import Paid
from askance_lab.theory import central
from askance_protocol.errors import ProtocolError
from tests.lab.curator.curating import ONE, RARE, draws, too_few


def contains(variables: Sequence[int], xs: Sequence[Sequence[int]]) -> list[bool]:
    return [all(x[i] for i in variables) for x in xs]


def is_below(j: int, xs: Sequence[int]) -> list[bool]:
    return [x < j for x in xs]


def all_conjunctions(d: int) -> ListedConcepts[Any, tuple[int, ...]]:
    return ListedConcepts([Conjunctions(d).hypothesis(index) for index in range(1 << d)], contains)


def entries(d: int) -> list[tuple[tuple[int, ...], int]]:
    return [(x, y) for x in product((0, 1), repeat=d) for y in (0, 1)]


# ------------------------------------------------------------------------------------------------- scores and draws


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_superset_sum_counts_the_mistakes_of_every_conjunction(d: int) -> None:
    rng = np.random.default_rng(d)
    bits, labels = rng.integers(0, 2, (40, d)), rng.integers(0, 2, 40)
    pairs = [(tuple(x), bool(y)) for x, y in zip(bits.tolist(), labels.tolist(), strict=True)]

    assert Conjunctions(d).mistakes(BitSample.of(bits, labels)).tolist() == all_conjunctions(d).mistakes(pairs).tolist()


def test_the_learner_draws_from_its_exact_distribution() -> None:
    bits = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]])
    sample, draw = BitSample.of(bits, bits[:, 0]), draws()
    exact = generic_distribution(Conjunctions(3), sample, epsilon=ONE)
    seen = Counter(learn(Conjunctions(3), sample, epsilon=ONE, draw=draw) for _ in range(4000))

    assert math.fsum(exact.values()) == pytest.approx(1, abs=1e-12)
    assert stats.chisquare([seen[h] for h in exact], [4000 * p for p in exact.values()]).pvalue > RARE


def test_a_hypothesis_is_found_beyond_the_first_block_of_a_large_class() -> None:
    """Blocks are of 2^20: hypotheses with no mistakes lie in the second and in the third."""
    mistakes = np.full((1 << 21) + 5, 400, np.int32)
    places = {(1 << 20) + 7, (1 << 21) + 4}
    mistakes[list(places)] = 0
    draw = draws()

    assert {selected(mistakes, examples=400, epsilon=ONE, draw=draw) for _ in range(12)} == places


# ----------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), ONE])
def test_conjunctions_are_learned_epsilon_privately_on_all_databases(epsilon: Fraction) -> None:
    def mechanism(database: Any) -> Any:
        return generic_distribution(Conjunctions(2), BitSample.from_rows(2, database), epsilon=epsilon)

    assert worst_loss(mechanism, entries(2), 3).value <= epsilon + 1e-9
    assert generic.paid(epsilon) == Paid(epsilon)


def test_any_listed_class_is_learned_epsilon_privately_and_the_rate_without_its_half_is_caught() -> None:
    """Five thresholds. The control: e^{−ε·mistakes}, which forgets that the normaliser moves as well."""
    hypotheses = ListedConcepts(range(5), is_below)
    domain = list(product(range(4), (0, 1)))
    right = worst_loss(lambda database: generic_distribution(hypotheses, database, epsilon=ONE), domain, 4)

    def without_half(database: Any) -> Any:
        return dict(enumerate(probabilities(-hypotheses.mistakes(database), epsilon=2 * ONE)))

    assert 0.5 < right.value <= 1 + 1e-9
    assert worst_loss(without_half, domain, 4).value > 1.1


# ------------------------------------------------------------------------------------------------ how many examples


def near_best(count: int, examples: int, opt: float, error: float, rng: np.random.Generator) -> np.ndarray:
    """Mistakes of one hypothesis with error OPT and of others with OPT + 1.05α, whose errors are independent.

    As on x uniform in [0,1]^H, all labelled 0, hypothesis h saying 1 where x_h is below its error.
    """
    errors = np.full(count, opt + 1.05 * error)
    errors[0] = opt
    return rng.binomial(examples, errors)


@pytest.mark.parametrize("opt", [0.0, 0.4])
def test_at_the_repaired_size_it_finds_the_best_of_100_whose_others_are_just_too_bad(opt: float) -> None:
    """Row "generic learner": near-best hypotheses at 1.05α, OPT = 0.4. The control: a twentieth of the examples."""
    rng, draw, runs = np.random.default_rng(4), draws(), 300
    n = central.examples_generic_repaired(hypotheses=100, epsilon=1, error=0.1, failure=0.1)

    def successes(examples: int) -> int:
        found = (
            selected(near_best(100, examples, opt, 0.1, rng), examples=examples, epsilon=ONE, draw=draw)
            for _ in range(runs)
        )
        return sum(each == 0 for each in found)

    assert not too_few(successes(n), runs, 0.9)
    assert too_few(successes(n // 20 if opt else n // 80), runs, 0.9)


CASES = [
    (hypotheses, epsilon, error, failure)
    for hypotheses in (2, 1000, 2**64)
    for epsilon in (0.01, 0.1, 1.0, 5.0)
    for error in (0.05, 0.2)
    for failure in (0.01, 0.5)
]


@pytest.mark.parametrize(("hypotheses", "epsilon", "error", "failure"), CASES)
def test_trap_4_the_union_bound_of_theorem_3_4_stays_below_beta_at_the_repaired_size(
    hypotheses: int, epsilon: float, error: float, failure: float
) -> None:
    about = {"hypotheses": hypotheses, "epsilon": epsilon, "error": error}
    n = central.examples_generic_repaired(**about, failure=failure)

    assert central.generic_failure(examples=n, **about) <= failure * (1 + 1e-9)


def test_trap_4_the_constant_6_leaves_the_union_bound_above_beta() -> None:
    """Wherever ε ≤ α: the second term alone is β, and the first comes on top. At ε = α it is visible."""
    for hypotheses, size in product((2, 1000), (0.05, 0.2)):
        about = {"hypotheses": hypotheses, "epsilon": size, "error": size}
        n = central.examples_generic_stated(**about, failure=0.1) - 1  # before the ceiling
        assert central.generic_failure(examples=n, **about) > 0.1


def difference(examples: int, up: float, down: float) -> tuple[np.ndarray, np.ndarray]:
    """The distribution of a sum of independent D_i, +1 and −1 with these probabilities, by repeated squaring."""
    power, result = np.array([down, 1 - up - down, up]), np.ones(1)
    left = examples
    while left:
        if left & 1:
            result = np.convolve(result, power)
        power, left = np.convolve(power, power) if left > 1 else power, left >> 1
    return np.arange(-examples, examples + 1), result


def exact_failure(examples: int, many: int, epsilon: float, opt: float, error: float, apart: bool) -> float:
    """One hypothesis with error OPT, `many` that are alike with OPT + α: Pr[one of the latter is chosen], exactly.

    They err on other examples than the best one does (`apart`), or on all that it errs on and more.
    """
    wrong = opt + error
    value, chance = difference(examples, wrong if apart else error, opt if apart else 0.0)
    logit = math.log(many) - epsilon / 2 * value
    return float(chance @ (1 / (1 + np.exp(np.clip(-logit, -700, 700)))))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("opt", [0.0, 0.4])
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0, 8.0])
def test_the_sharp_size_suffices_exactly_at_any_opt_and_is_below_what_both_texts_state(
    epsilon: float, opt: float, apart: bool
) -> None:
    """The module's own bound. So the sizes that the texts state suffice, though their proofs do not show it."""
    many, error, failure = 50, 0.15, 0.1
    about = {"hypotheses": many + 1, "epsilon": epsilon, "error": error}
    n = generic.examples_sharp(**about, failure=failure)

    assert n <= central.examples_generic_klnrs08_stated(**about, failure=failure)
    assert n <= central.examples_generic_stated(**about, failure=failure)
    assert n <= central.examples_generic_repaired(**about, failure=failure)
    assert exact_failure(n, many, epsilon, opt, error, apart) <= generic.failure_sharp(examples=n, **about) <= failure
    # A control that there is something to fail: with much fewer, it does.
    assert exact_failure(n // (10 if epsilon <= 1 else 60), many, epsilon, opt, error, apart) > failure


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_sharp_realizable_size_suffices_exactly_and_is_below_the_one_with_chernoffs_bound(epsilon: float) -> None:
    about = {"hypotheses": 51, "epsilon": epsilon, "error": 0.15}
    n = generic.examples_realizable_sharp(**about, failure=0.1)

    assert n <= central.examples_generic_realizable(**about, failure=0.1)
    assert exact_failure(n, 50, epsilon, 0.0, 0.15, False) <= generic.failure_realizable_sharp(examples=n, **about)
    assert generic.failure_realizable_sharp(examples=n, **about) <= 0.1
    assert generic.failure_realizable_sharp(examples=n - 1, **about) > 0.1


@pytest.mark.parametrize("opt", [0, 4])
def test_trap_5_the_proof_of_theorem_3_7_bounds_a_weight_and_calls_it_a_probability(opt: int) -> None:
    """KLNRS08: "Pr[A = h with error_T(h) > α − η] ≤ exp(−ε(α − η)n/2)". So only where some h has no mistakes.

    Ten examples; best has `opt` mistakes and the other one more. The control is OPT = 0, where the text is right.
    """
    hypotheses = ListedConcepts([opt, opt + 1], is_below)
    exact = generic_distribution(hypotheses, [(x, 0) for x in range(10)], epsilon=ONE)
    claimed, ours = math.exp(-(opt + 1) / 2), math.exp(-1 / 2)  # ours: by how much it is worse than the best

    assert exact[opt + 1] <= ours
    assert (exact[opt + 1] <= claimed) is (opt == 0)


@pytest.mark.parametrize("variables", [(), (0, 3), tuple(range(8))])
def test_conjunctions_of_8_bits_are_learned_from_the_sharp_size_on_the_hardest_examples(variables: Any) -> None:
    """All bits 1, but one that is 0, each with mass 1.05α: a conjunction that is wrong in a variable is α off."""
    rng, draw, runs = np.random.default_rng(5), draws(), 200
    n = generic.examples_realizable_sharp(hypotheses=256, epsilon=1, error=0.1, failure=0.1)

    def learned(examples: int) -> bool:
        which = rng.choice(9, examples, p=[0.105] * 8 + [0.16])
        bits = (np.arange(9) != which[:, None]).astype(int)[:, :8]
        labels = bits[:, list(variables)].all(axis=1)
        return learn(Conjunctions(8), BitSample.of(bits, labels), epsilon=ONE, draw=draw) == variables

    assert n == 196
    assert not too_few(sum(learned(n) for _ in range(runs)), runs, 0.9)
    assert too_few(sum(learned(n // 4) for _ in range(runs)), runs, 0.9)


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (lambda: Conjunctions(27), "d"),
        (lambda: Conjunctions(0), "d"),
        (lambda: ListedConcepts([], is_below), "hypotheses"),
        (lambda: learn(ListedConcepts([1], is_below), [], epsilon=ONE, draw=draws()), "database"),
        (lambda: learn(ListedConcepts([1], is_below), [(0, 1)] * (1 << 20), epsilon=ONE, draw=draws()), "database"),
        (lambda: learn(ListedConcepts([1], is_below), [(0, 1)], epsilon=Fraction(0), draw=draws()), "epsilon"),
        (lambda: learn(Conjunctions(3), BitSample.of([[1, 0]], [1]), epsilon=ONE, draw=draws()), "database"),
        (lambda: generic.examples_sharp(hypotheses=0, epsilon=1, error=0.1, failure=0.1), "hypotheses"),
        (lambda: generic.examples_sharp(hypotheses=2, epsilon=1, error=0, failure=0.1), "error"),
    ],
)
def test_what_it_cannot_do_it_refuses_and_says_why(wrong: Any, where: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        wrong()
    assert refused.value.where == where
