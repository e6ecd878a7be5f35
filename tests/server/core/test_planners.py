"""Users needed, by exact tails, against brute force over every breakpoint in p."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from askance_protocol.errors import ProtocolError
from askance_server.core import planners, tails

WARNER = math.e / (1 + math.e)


def brute_force(users: int, tolerance: float, lowest: float, highest: float) -> float:
    """Sup over p of P(|N/n - p| > τ): between two breakpoints the accepted counts are fixed, found from the middle."""
    tau, low, high = (Fraction(str(x)) for x in (tolerance, lowest, highest))
    cuts = {low, high} | {q for k in range(users + 1) for q in (Fraction(k, users) - tau, Fraction(k, users) + tau)}
    cuts = sorted(q for q in cuts if low <= q <= high)
    pieces = [(p, p, p) for p in (low, high)] + [(a, b, (a + b) / 2) for a, b in itertools.pairwise(cuts)]
    worst = 0.0
    for a, b, inside in pieces:
        first, last = math.ceil(users * (inside - tau)), math.floor(users * (inside + tau))
        ends = np.array([float(a), float(b)])
        worst = max(worst, float(np.max(binom.cdf(first - 1, users, ends) + binom.sf(last, users, ends))))
    return worst


CASES = [
    (0.3, 0.1, 0.0, 1.0),
    (0.25, 0.05, 0.0, 1.0),
    (0.15, 0.2, 0.0, 1.0),
    (0.1, 0.05, 0.0, 1.0),
    (0.6, 0.01, 0.0, 1.0),
    (0.45, 0.001, 0.0, 1.0),
    (0.13, 0.01, 0.2689, 0.7311),
    (0.12, 0.001, 0.6, 0.9),
    (0.07, 0.05, 0.1, 0.3),
    (0.03, 0.05, 0.01, 0.03),
    (0.038, 0.001, 0.0, 0.01),  # the least n is inside a long tooth, twenty before the next one begins
]


@pytest.mark.parametrize("case", CASES)
def test_the_answer_suffices_and_no_smaller_one_does(case: tuple[float, float, float, float]) -> None:
    """At n the supremum over p, by brute force, is within β; at every smaller n it is not; Hoeffding is never below."""
    tolerance, failure, lowest, highest = case
    n = planners.users_for_proportion(*case)

    assert brute_force(n, tolerance, lowest, highest) <= failure
    for fewer in range(1, n):
        assert brute_force(fewer, tolerance, lowest, highest) > failure
    assert n <= tails.users_hoeffding(deviation=tolerance, width=1, failure=failure)


@pytest.mark.parametrize("users", [1, 7, 50, 101])
@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.27, 0.73), (0.0, 0.04), (0.55, 0.9)])
def test_the_worst_proportion_is_the_supremum(users: int, interval: tuple[float, float]) -> None:
    """Its failure equals brute force, and is approached next to the proportion it names."""
    tolerance = 0.07
    worst = planners.worst_proportion(users, tolerance, *interval)
    near = max(
        float(binom.cdf(math.ceil(users * (p - tolerance)) - 1, users, p))
        + float(binom.sf(math.floor(users * (p + tolerance)), users, p))
        for p in (worst.proportion + 1e-9, worst.proportion - 1e-9, worst.proportion)
        if interval[0] <= p <= interval[1]
    )

    assert worst.failure == pytest.approx(brute_force(users, tolerance, *interval), abs=1e-12)
    assert near == pytest.approx(worst.failure, abs=1e-6)


def test_more_users_may_do_slightly_worse() -> None:
    """The sawtooth, admitted: 100 users suffice for τ = .1 at β = .05 and fail less often than 101 to 104 do."""
    failures = [planners.worst_proportion(n, 0.1).failure for n in (100, 101, 104, 105)]

    assert failures[0] < failures[1] < failures[2]
    assert failures[3] < failures[2]


@pytest.mark.parametrize("interval", [(0.2, 0.8), (0.07, 0.81), (0.31, 0.99)])
@pytest.mark.parametrize("users", [700, 5000, 54321])
def test_climbing_finds_the_same_top_as_trying_all(
    users: int, interval: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond ENUMERATED breakpoints the hill is searched: nothing is missed."""
    searched = planners.worst_proportion(users, 0.01, *interval)
    monkeypatch.setattr(planners, "ENUMERATED", 10**9)
    enumerated = planners.worst_proportion(users, 0.01, *interval)

    assert searched.failure == pytest.approx(enumerated.failure, rel=1e-12)


@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.2, 0.8), (0.07, 0.81), (0.0, 0.04)])
@pytest.mark.parametrize("tolerance", [0.31, 0.05, 0.004])
def test_whether_users_suffice_is_what_the_worst_proportion_says(
    interval: tuple[float, float], tolerance: float
) -> None:
    """Just where it is decided: at the failure of the worst proportion itself, and a hair below it."""
    plan = planners._Plan.of(tolerance, *interval)
    for users in (1, 2, 9, 80, 700, 6000, 10**6):
        worst = planners.worst_proportion(users, tolerance, *interval).failure
        assert planners._suffices(plan, users, worst)
        assert worst == 0 or not planners._suffices(plan, users, worst * (1 - 1e-9))


@pytest.mark.parametrize("case", [(0.01, 1e-9, 0.0, 1.0), (3e-4, 1e-9, 0.0, 0.003), (1e-4, 1e-6, 0.6, 0.99)])
def test_a_large_answer_suffices_and_the_teeth_before_it_do_not(case: tuple[float, float, float, float]) -> None:
    """Beyond brute force, also where the normal guess is far off: n is within β, ten points of earlier teeth are not.

    Around ½ not even n-1; where an end of the interval is worst, nothing before the tooth before (module docstring).
    """
    tolerance, failure, *interval = case
    n = planners.users_for_proportion(*case)
    central = interval[0] < 0.5 < interval[1]
    earlier = [n - 1] if central else []
    earlier += [math.floor(n - back / (2 * tolerance)) for back in range(1 if central else 2, 11)]

    assert planners.worst_proportion(n, tolerance, *interval).failure <= failure
    for fewer in earlier:
        assert planners.worst_proportion(fewer, tolerance, *interval).failure > failure


def zubkov_serov(count: int, users: int, p: float) -> float:
    """Φ(sgn(k/n-p)√(2n·KL(k/n‖p))): brackets P(N <= k) between its values at k and k+1 (Zubkov and Serov, 2013)."""
    x = count / users - p
    kl = sum(q * (u * u / 2 - u**3 / 6 + u**4 / 12) for q, u in ((p, x / p), (1 - p, -x / (1 - p))))
    return float(ndtr(math.copysign(math.sqrt(2 * users * kl), x)))


@pytest.mark.parametrize("tolerance", [3e-5, 1.4e-6])
def test_tails_at_a_billion_and_a_trillion_users_are_right_in_few_steps(
    tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst failure lies in the rigorous Zubkov-Serov bracket; the search tries fewer than 300 plans."""
    looked_at: list[int] = []
    worst_of = planners._worst

    def counted(plan: planners._Plan, users: int) -> planners.WorstProportion:
        looked_at.append(users)
        return worst_of(plan, users)

    monkeypatch.setattr(planners, "_worst", counted)
    n = planners.users_for_proportion(tolerance, 0.05)
    steps = len(looked_at)
    worst = planners.worst_proportion(n, tolerance)
    p = worst.proportion
    # Counts below and above which the plan fails at p, one either way for the limit p stands for.
    below, above = math.floor(n * (p - tolerance)), n - math.ceil(n * (p + tolerance))
    lower = zubkov_serov(below - 2, n, p) + zubkov_serov(above - 2, n, 1 - p)
    upper = zubkov_serov(below + 2, n, p) + zubkov_serov(above + 2, n, 1 - p)

    assert n > 10**9
    assert worst.proportion == pytest.approx(0.5, abs=tolerance)
    assert lower <= worst.failure <= upper <= 1.001 * lower
    assert worst.failure <= 0.05 < planners.worst_proportion(n - round(2 / tolerance), tolerance).failure
    assert steps < 300


@pytest.mark.parametrize(("tolerance", "failure"), [(0.02, 0.05), (0.3, 1e-6), (1e-4, 0.01), (1e-8, 0.05)])
def test_hoeffding_is_never_smaller(tolerance: float, failure: float) -> None:
    """KLNRS11, Thm A.2 is an upper limit at every size, and the answer itself where exact tails end."""
    n = planners.users_for_proportion(tolerance, failure)

    assert n <= tails.users_hoeffding(deviation=tolerance, width=1, failure=failure)


def test_a_tolerance_is_the_decimal_that_was_written() -> None:
    """At τ = .15, n = 10: 2nτ is 3, though the float is below 15/100, so |N - np| <= 1.5 accepts at up to 4 counts."""
    assert planners.worst_proportion(10, 0.15).failure == pytest.approx(brute_force(10, 0.15, 0, 1))
    assert 20 * Fraction(0.15) < 3


@pytest.mark.parametrize("mean", [-1.0, -0.3, 0.0, 0.7])
def test_a_binary_plan_recovers_a_signed_mean(mean: float) -> None:
    """Reports say +1 with (1 + (2k-1)µ)/2; the debiased average is within τ but for β, at the exact binomial."""
    n = planners.users_binary(WARNER, 0.2, 0.05)
    gain = 2 * WARNER - 1
    counts = np.arange(n + 1)
    off = np.abs((2 * counts / n - 1) / gain - mean) > 0.2

    assert np.sum(binom.pmf(counts[off], n, (1 + gain * mean) / 2)) <= 0.05


@pytest.mark.parametrize("frequency", [0.0, 0.4, 1.0])
def test_a_bit_plan_recovers_a_frequency(frequency: float) -> None:
    """A {0,1} frequency within τ is a ±1 mean within 2τ: the same users: the tolerance doubles."""
    n = planners.users_bit(WARNER, 0.1, 0.05)
    counts = np.arange(n + 1)
    off = np.abs((counts / n - (1 - WARNER)) / (2 * WARNER - 1) - frequency) > 0.1

    assert np.sum(binom.pmf(counts[off], n, (1 - WARNER) + (2 * WARNER - 1) * frequency)) <= 0.05
    assert n == pytest.approx(planners.users_binary(WARNER, 0.2, 0.05), abs=2)


def test_a_k_ary_plan_recovers_a_cell() -> None:
    """K = 10 at ε = 1: reports name the cell with q + (p-q)π, far from ½, so far fewer users than Hoeffding asks."""
    p, q = math.e / (math.e + 9), 1 / (math.e + 9)
    n = planners.users_kary(p, q, 0.1, 0.05)
    counts = np.arange(n + 1)

    for frequency in (0.0, 0.3, 1.0):
        off = np.abs((counts / n - q) / (p - q) - frequency) > 0.1
        assert binom.pmf(counts, n, q + (p - q) * frequency)[off].sum() <= 0.05
    assert 1.5 * n < tails.users_hoeffding(deviation=0.1 * (p - q), width=1, failure=0.05)


def test_a_hadamard_plan_serves_all_cells_at_once() -> None:
    """Each cell's agreement bit has mean (1+s/C)/2: at s = ±1 and 0 one cell misses with at most β/cells."""
    cells, tolerance, failure = 16, 0.2, 0.05
    n = planners.users_hadamard(WARNER, cells, tolerance, failure)
    inverse = 2 * WARNER - 1
    counts = np.arange(n + 1)

    for cell in (-1.0, 0.0, 1.0):
        off = np.abs((2 * counts / n - 1) / inverse - cell) > tolerance
        assert cells * binom.pmf(counts, n, (1 + cell * inverse) / 2)[off].sum() <= failure
    assert n > planners.users_hadamard(WARNER, 1, tolerance, failure)


@pytest.mark.parametrize(("mean", "failure"), [(0.3, 0.05), (0.03, 1e-4)])
def test_a_sign_needs_exactly_this_number_of_reports(mean: float, failure: float) -> None:
    """The majority of n reports is wrong with at most β, of n-2 with more; one-sided Hoeffding asks for more."""
    n = planners.users_for_sign(mean, failure)

    assert n % 2 == 1
    assert binom.cdf((n - 1) // 2, n, (1 + mean) / 2) <= failure < binom.cdf((n - 3) // 2, n - 2, (1 + mean) / 2)
    assert n <= 2 * math.log(1 / failure) / mean**2 + 2


def test_bernstein_holds_for_geometric_noise() -> None:
    """Two-sided geometric noise at ε = 1, clamped to ±20: the exact tail of the sum, by convolution, is within β."""
    k = np.arange(-20, 21)
    pmf = np.exp(-np.abs(k).astype(float))
    pmf /= pmf.sum()
    variance = float((pmf * k**2).sum())
    n = planners.users_bounded(variance, 20, 0.5, 0.05)
    total = np.fft.irfft(np.fft.rfft(pmf, 41 * n) ** n, 41 * n)
    sums = np.arange(41 * n) - 20 * n

    assert total[np.abs(sums) > 0.5 * n].sum() <= 0.05
    assert n < tails.users_hoeffding(deviation=0.5, width=40, failure=0.05) / 50


def test_bernstein_counts_the_spread_of_rare_reports() -> None:
    """A report of 1 with probability 1/1000, else 0: the variance alone would ask for too few (exact binomial)."""
    p, tolerance, failure = 1e-3, 0.01, 0.05
    n = planners.users_bounded(p * (1 - p), 1, tolerance, failure)
    without_spread = math.ceil(2 * p * (1 - p) / tolerance**2 * math.log(2 / failure))

    assert binom.sf(math.floor(n * (p + tolerance)), n, p) <= failure
    assert binom.sf(math.floor(without_spread * (p + tolerance)), without_spread, p) > failure
    assert n > without_spread


@pytest.mark.parametrize(
    ("variance", "spread", "tolerance", "failure"),
    [(0.0, 1, 0.1, 0.1), (1, -1, 0.1, 0.1), (1, 1, -0.1, 0.1), (1, 1, 0.0, 0.1), (1, 1, 0.1, 0.0), (1, 1, 0.1, 1.0)],
)
def test_bernstein_is_asked_about_positive_numbers_and_a_probability(
    variance: float, spread: float, tolerance: float, failure: float
) -> None:
    with pytest.raises(ProtocolError):
        planners.users_bounded(variance, spread, tolerance, failure)
