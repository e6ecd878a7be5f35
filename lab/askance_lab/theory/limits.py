"""Lower bounds on the users of MASKED-PARITY, for every learner with one ε-local report from each user.

k = e^ε - 1 and C = (e^ε+1)/(e^ε-1). None of this is in the texts; it is derived here.

*One report.* An ε-local randomizer is a mixture of channels whose outputs w have a set S_w with
Pr[w|z] = q_w(1 + k·1[z ∈ S_w]) (Kairouz, Oh, Viswanath, 2016). Put σ for the share of the pairs (x,+), (x,-) with b = 0
that S_w splits, τ for the share that lies in S_w unsplit, s_r for the share of the half b = 1 that does under concept
r, and f = ±1 on the split x, 0 elsewhere. Then w has probability q_w(1 + k·p_r ± (k/4)·f̂(r)), the sign being (-1)^a and
p_r = s_r/2 + σ/4 + τ/2. So a report's χ² about a, for one who knows r, is v_r = Σ_w q_w(k²/16)·f̂_w(r)²/(1 + k·p_r), and
Σ_r f̂(r)² <= σ (Parseval). The outputs add up to 1 for every user: Σ q_w(1 + k·s_r) = Σ q_w(1 + k(σ/2 + τ)) = 1.

*All r together.* p_r >= σ/4 whatever s_r is, so Σ_r v_r <= Σ q_w(k²/16)·σ/(1 + kσ/4), where Σ q_w(1 + kσ/2) <= 1.
That is at most the largest (k²/16)·σ/((1 + kσ/4)(1 + kσ/2)), at σ = min(1, √8/k): `channel_gain_over_parities`. It is
attained where σ = 1, by four outputs for a pair of words r and r', one the complement of the other: A± hold y = ±χ_r(x)
on b = 0, and on b = 1 all bits that contradict r; B± the same for r'. Under r nobody with b = 1 is in A±, where the
mask bit shows.

*The bits of r* have the halves changed: Σ_i (c_i/d)² <= σ/d in place of f̂(r)², and an output's chance is its average
over all r. As 1/(1+kp) is convex in s, two conditions leave two kinds of outputs, (s, σ) = (0, u) and (1, v), over
which `channel_gain` searches. (A linear program over all shares finds nothing better: the tests solve it, and for the
sums over all r one over all sets S at d = 1 and 2.) Binary response has σ = 1 and s = ½ in both outputs, so
(k²/16)/(1 + k/2)² = 1/4C², the unit of all gains.

*What is assumed* is said at each function: the normal limit, in which n reports of χ² are a normal variable of mean
√(n·χ²); for learners in rounds, that questions which tell the bits of r apart evenly (an orthogonal design) are best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Final

import numpy as np

from askance_lab.theory.masked_parity import shrinkage
from askance_lab.theory.theorem import DIMENSION, EPSILON, FAILURE, HoldsFor, Kind, Parameter, Theorem
from askance_protocol import checks
from askance_protocol.arrays import Floats

_NORMAL: Final = NormalDist()
_STEP: Final = 4e-3
"""Nats: the log-likelihood ratio of one bit is rounded to multiples of it."""
_LEAST: Final = -25.0
"""Nats: a bit's log-likelihood ratio below it counts as this much."""
_SHARES: Final = 200
"""Lengths of the list that are tried."""


# --- One report --------------------------------------------------------------------------------------------------


def channel_gain(*, epsilon: float) -> float:
    """How much more χ² about the bits of r the best channel has than binary response: 1.061 at ε = 1."""
    return _gain(epsilon, power=1)


def channel_gain_known_parity(*, epsilon: float) -> float:
    """The same about the mask bit where r is known: f = χ_r on a share σ has f̂(r)² = σ², not σ. 1.056 at ε = 1."""
    return _gain(epsilon, power=2)


def channel_gain_over_parities(*, epsilon: float) -> float:
    """The same summed over all r: no channel has more χ² about the mask bit in all. 1.300 at ε = 1.

    (1 + k/2)/(1 + k/4) as long as k <= √8 (ε <= 1.34), and there it is attained.
    """
    return _summed_chi_squared(epsilon) * 4 * shrinkage(epsilon=epsilon) ** 2


def _summed_chi_squared(epsilon: float) -> float:
    k = _excess(epsilon)
    split = min(1.0, math.sqrt(8) / k)
    return checks.attainable("epsilon", k**2 / 16 * split / ((1 + k * split / 4) * (1 + k * split / 2)))


def _excess(epsilon: float) -> float:
    """The number k = e^ε - 1."""
    small = checks.positive("epsilon", epsilon) < 20
    checks.require(small, "is too large for this search", where="epsilon", remedy="give an ε below 20")
    return checks.attainable("epsilon", math.expm1(epsilon))


def _gain(epsilon: float, power: int) -> float:
    k = _excess(epsilon)

    def chi_squared(u: float, v: float) -> float:
        """Of the outputs (0, u) and (1, v), weighted so that they add up to 1 on both halves."""
        second = 1 / ((2 - v) / u + 1 + k)
        first = second * (2 - v) / u
        return first * u**power / (1 + k * u / 4) + second * v**power / (1 + k / 2 + k * v / 4)

    return _largest(chi_squared) * (1 + k / 2) ** 2


def _largest(function: Callable[[float, float], float]) -> float:
    """Largest value on (0, 1]²: the best of a grid, refined on finer grids around it."""
    u, v, width = 0.5, 0.5, 0.5
    best = 0.0
    for _ in range(30):
        points = [
            (min(1.0, max(1e-9, u + width * i / 8)), min(1.0, max(0.0, v + width * j / 8)))
            for i in range(-8, 9)
            for j in range(-8, 9)
        ]
        best, u, v = max((function(*point), *point) for point in points)
        width /= 2
    return best


def report_information(*, dimension: int, epsilon: float, likeliest: float) -> float:
    """Nats of information on r in one binary report: (1/8C²)(1/d + π), π the likeliest candidate's probability.

    ½χ², the leading term: with a uniform r what is left out is below 2 % at ε = 1.
    """
    per_bit = 1 / checks.count("dimension", dimension)
    return (per_bit + checks.between("likeliest", likeliest, 0, 1)) / (8 * shrinkage(epsilon=epsilon) ** 2)


def list_information(*, candidates: int, epsilon: float) -> float:
    """Nats of information in one binary report on which of L likely candidates is r: at most 1/(8C²L).

    Parseval: whatever a report asks, its squared correlations with all L parities sum to 1 at most. So users are needed
    in proportion to L, and to ask about the likeliest first is right.
    """
    return 1 / (8 * shrinkage(epsilon=epsilon) ** 2 * checks.count("candidates", candidates))


# --- At once -----------------------------------------------------------------------------------------------------


def users_at_once_proved(*, dimension: int, epsilon: float, failure: float) -> int:
    """Users below which no learner at once has the mask bit with 1-β, r given for free: 2^d·½ln(1/4β(1-β))/h.

    At r the laws of all reports for both mask bits have the Bhattacharyya coefficient e^{-H_r}, so success at r is at
    most ½(1 + √(1 - e^{-2H_r})). That is concave in H_r: on average over r at most the same of the mean H (Jensen). One
    report takes y_r from the coefficient at r and adds -ln(1 - y_r) to H_r. `_hellinger` bounds y_r at one r by y and
    its sum over r by Y, and -ln(1 - y_r) is convex, so h = -ln(1 - y)·Y/y at most. Nothing is assumed.
    """
    checks.count("dimension", dimension)
    checks.between("failure", checks.positive("failure", failure), 0, 0.5)
    one, all_ = _hellinger(_excess(epsilon))
    each = -math.log1p(-one) * all_ / one
    return checks.whole(checks.power(2, dimension) * -math.log(4 * failure * (1 - failure)) / 2 / each)


def _hellinger(k: float) -> tuple[float, float]:
    """The most that one report takes from the Bhattacharyya coefficient at one r, and summed over all r.

    An output whose set splits a share σ has odds 1 ± t, t <= u/(4+u) with u = kσ, so that 1 - √(1-t²) <= c(u)t² with
    c(u) = 1/(1 + √(1-t²)) at that t. By Parseval it takes q·c(u)·(k²/16)σ/(1 + u/4) at most in all, and q·(1 + u/2)
    sums to 1 at most. With v = √(4 + 2u) that is k(v-2)/(v²(v+2)), largest at v² = 2v + 4, which is u = v = 1 + √5, or
    at σ = 1 where k is less. At one r there is σ² for σ: (v-2)²/2v², which grows up to σ = 1. So both are the same for
    k <= 1 + √5, ε up to 1.44.
    """
    split = min(k, 1 + math.sqrt(5))
    v, best = math.sqrt(4 + 2 * k), math.sqrt(4 + 2 * split)
    # v - 2 is 2u/(v + 2), which has all its digits for a small u, too.
    one = 2 * (k / (v * (v + 2))) ** 2
    return checks.attainable("epsilon", one), 2 * k * split / (best * (best + 2)) ** 2


def users_at_once_limit(*, dimension: int, epsilon: float, failure: float) -> int:
    """The same in the normal limit, which is assumed: 2^d·4C²·z²/G, z = Φ⁻¹(1-β), G = `channel_gain_over_parities`.

    Each report is chosen before r is known, so the χ² that n reports have about a at r, v_r, averages nG/(4C²·2^d)
    at most (Parseval). Success at r is Φ(√v_r); it is concave in v_r, so the average over r is at most Φ of the root of
    that average (Jensen). Where few reports hold all of the χ², the normal law is not exact: a channel of four outputs
    that is given r reaches .95 with 2.5 % fewer users. `users_at_once_proved` needs no such law.
    """
    checks.count("dimension", dimension)
    checks.between("failure", checks.positive("failure", failure), 0, 0.5)
    score = _NORMAL.inv_cdf(1 - failure)
    return checks.whole(checks.power(2, dimension) * score**2 / _summed_chi_squared(epsilon))


# --- In rounds ---------------------------------------------------------------------------------------------------


def users_bits_limit(*, dimension: int, epsilon: float, failure: float) -> int:
    """Users below which the bits of those with b = 1 do not tell r with 1-β: (Fano) ((1-β)d·ln 2 - h(β))·8C²d/G.

    A report about the bits says at most G/(8C²d) nats. Assumed: ½χ² for the information. Of the whole task it is no
    limit, for the half b = 0 tells candidates apart as well: `users_rounds_limit`.
    """
    checks.count("dimension", dimension)
    checks.open_unit("failure", failure)
    doubt = -failure * math.log(failure) - (1 - failure) * math.log1p(-failure)
    nats = max(0.0, (1 - failure) * dimension * math.log(2) - doubt)
    per_user = channel_gain(epsilon=epsilon) / (8 * shrinkage(epsilon=epsilon) ** 2 * dimension)
    return checks.whole(nats / per_user)


def rounds_success_limit(*, users: int, dimension: int, epsilon: float) -> float:
    """Success that no learner in rounds exceeds with n users: the least of NP(p_L, mG'/4C²) over L·m = n.

    Whatever is asked in which round, at most L = n/m candidates get as much as m users say about one (Parseval). r is
    one of the L likeliest by the bits with p_L at most (Neyman and Pearson: a list of L of 2^d, normal bits). Otherwise
    m users' χ² is all that tells r, (a) and the rest apart: NP(p, v) = Pr[|N(√v, 1)| >= Φ⁻¹(1-p/2)]. The bits have the
    gain G = `channel_gain`, parities G' = `channel_gain_over_parities`.
    Assumed: the normal limit, and that an orthogonal design is best for the bits. For every list length at once it is
    an upper bound of p_L, so that the limit errs on the low side.
    """
    checks.count("users", users)
    checks.count("dimension", dimension)
    per_bit = channel_gain(epsilon=epsilon) / (4 * shrinkage(epsilon=epsilon) ** 2)
    truth, others = _list_test(dimension, math.sqrt(users * per_bit) / dimension)
    per_parity = _summed_chi_squared(epsilon)
    best = 1.0
    for share in np.geomspace(1, users, _SHARES).tolist():
        size = math.log(users / share) - dimension * math.log(2)
        place = int(np.searchsorted(others, math.exp(size))) if size < 0 else len(truth) - 1
        kept = float(truth[min(place, len(truth) - 1)]) if size < 0 else 1.0
        best = min(best, _two_sided_power(kept, share * per_parity))
    return best


def users_rounds_limit(*, dimension: int, epsilon: float, failure: float) -> int:
    """Users below which no learner in rounds succeeds with 1-β, by `rounds_success_limit` and what it assumes."""
    checks.open_unit("failure", failure)
    checks.between("dimension", checks.count("dimension", dimension), 1, 256)
    low, high = 0, max(1, users_bits_limit(dimension=dimension, epsilon=epsilon, failure=failure) // 4)
    while rounds_success_limit(users=high, dimension=dimension, epsilon=epsilon) < 1 - failure:
        low, high = high, 2 * high
    while high - low > max(1, high // 5000):
        middle = (low + high) // 2
        enough = rounds_success_limit(users=middle, dimension=dimension, epsilon=epsilon) >= 1 - failure
        low, high = (low, middle) if enough else (middle, high)
    return high


def _two_sided_power(size: float, signal: float) -> float:
    """NP(p, v): power of the two-sided test of size p for a normal variable of mean √v."""
    if not 0 < size < 1:
        return float(size >= 1)
    edge, mean = _NORMAL.inv_cdf(1 - size / 2), math.sqrt(signal)
    return _NORMAL.cdf(mean - edge) + _NORMAL.cdf(-mean - edge)


def _list_test(dimension: int, signal: float) -> tuple[Floats, Floats]:
    """Tails, from the top, of d bits' log-likelihood ratio: under the truth, and under a random r.

    A bit is a normal variable of mean ±µ; its ratio to the even mixture of both is ln 2 - ln(1 + e^{-2µy}).
    """
    y = np.linspace(-12, 12, 100_001) + signal
    weights = np.exp(-((y - signal) ** 2) / 2) / math.sqrt(2 * math.pi) * (y[1] - y[0])
    ratio = math.log(2) - np.logaddexp(0, -2 * signal * y)
    bins = int((math.log(2) - _LEAST) / _STEP) + 2
    one = np.bincount(np.clip(np.rint((ratio - _LEAST) / _STEP).astype(int), 0, None), weights, bins)
    size = 1 << (bins * dimension - 1).bit_length()
    law = np.clip(np.fft.irfft(np.fft.rfft(one, size) ** dimension, size), 0, None)
    at = _LEAST * dimension + _STEP * np.arange(size)
    random = law * np.exp(np.clip(-at, -700, 700)) * (law > 1e-18)
    return np.cumsum(law[::-1]), np.cumsum(random[::-1])


# --- Records ---------------------------------------------------------------------------------------------------------


_DIMENSION: Final = DIMENSION.at(16)
_NORMAL_LIMIT: Final = "the normal limit: n reports are told apart as a normal variable of their χ² is"

THEOREMS: Final = (
    Theorem(
        name="channel-gain",
        title="The best channel for one report",
        citation="derived here, for KLNRS11, §5.3",
        says="No ε-local randomizer says more of the bits of r than this many times binary response.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_REPORT,
        gives="gain",
        parameters=(EPSILON,),
        sharp=channel_gain,
        others=(channel_gain_known_parity, channel_gain_over_parities),
        needs="χ²; r uniform, so that nothing is known of it before; of the mask bit channel_gain_known_parity at one "
        "r that is known, channel_gain_over_parities summed over all r",
        checked_by=(
            "lab/theory/test_limits.py::test_all_channels_of_small_dimensions_sum_to_the_gain_over_parities",
            "lab/theory/test_limits.py::test_no_linear_program_over_channels_finds_a_better_one",
            "lab/theory/test_limits.py::test_a_channel_of_four_outputs_attains_the_gain_of_a_known_parity",
        ),
    ),
    Theorem(
        name="report-information",
        title="What one report says of r",
        citation="derived here, for KLNRS11, §5.3",
        says="A report by binary response says (1/8C²)(1/d + π) nats of r at most, π the likeliest candidate's chance.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.BINARY_REPORT,
        gives="nats",
        parameters=(
            _DIMENSION,
            EPSILON,
            Parameter("likeliest", "π", "chance of the likeliest candidate", float, 2**-16),
            Parameter("candidates", "L", "equally likely candidates", int, 1000),
        ),
        sharp=report_information,
        others=(list_information,),
        assumes="information is ½χ², its leading term; spread bits",
        checked_by=("lab/theory/test_limits.py::test_half_of_chi_squared_is_the_information_but_for_two_percent",),
    ),
    Theorem(
        name="at-once-proved",
        title="Users that no learner of MASKED-PARITY at once can do without, proved",
        citation="derived here, for KLNRS11, Thm 5.16",
        says="Asked all at once, the mask bit takes this many users or more, whatever the channel.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_ROUND,
        gives="users",
        parameters=(_DIMENSION, EPSILON, FAILURE),
        sharp=users_at_once_proved,
        needs="one ε-local report a user; r uniform, and given for free once all have answered",
        checked_by=(
            "lab/theory/test_limits.py::test_what_is_proved_holds_of_exact_laws",
            "lab/theory/test_limits.py::test_no_channel_takes_more_from_the_coefficients_than_is_proved",
            "lab/theory/test_limits.py::test_what_is_proved_is_nearly_attained_at_a_large_epsilon",
            "lab/theory/test_limits.py::test_limits_at_once",
        ),
    ),
    Theorem(
        name="at-once-limit",
        title="The same users in the normal limit",
        citation="derived here, for KLNRS11, Thm 5.16",
        says="Asked all at once, the mask bit takes 2^d·4C²·z²/G users or more, whatever the channel.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_ROUND,
        gives="users",
        parameters=(_DIMENSION, EPSILON, FAILURE),
        sharp=users_at_once_limit,
        needs="as at-once-proved, which assumes nothing",
        assumes=f"{_NORMAL_LIMIT}; off by 2.5 % for a channel that is known",
        checked_by=(
            "lab/theory/test_limits.py::test_the_normal_limit_at_once_is_met_within_three_percent",
            "lab/theory/test_limits.py::test_limits_at_once",
        ),
    ),
    Theorem(
        name="bits-limit",
        title="Users whose bits tell r",
        citation="derived here, for KLNRS11, Prop. 5.18",
        says="By Fano, the reports about the bits of r do not tell r below this number of users.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_ROUND,
        gives="users",
        parameters=(_DIMENSION, EPSILON, FAILURE),
        sharp=users_bits_limit,
        needs="reports about the half b = 1 only; r uniform, so that its bits are independent, as in one round",
        assumes="information is ½χ², its leading term; spread bits",
        checked_by=("lab/theory/test_limits.py::test_bits_take_the_users_of_their_capacity",),
    ),
    Theorem(
        name="rounds-limit",
        title="Users that no learner of MASKED-PARITY in rounds can do without",
        citation="derived here, for KLNRS11, Prop. 5.18",
        says="However many rounds, the bits put r on a list, and telling the list apart takes users in proportion to "
        "it.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ANY_ROUNDS,
        gives="users",
        parameters=(
            _DIMENSION,
            EPSILON,
            FAILURE,
            Parameter("users", "n", "number of users", int, 5000),
        ),
        sharp=users_rounds_limit,
        others=(rounds_success_limit,),
        needs="one ε-local report a user; d up to 256",
        assumes=f"{_NORMAL_LIMIT}; an orthogonal design is the best for the bits",
        checked_by=(
            "lab/theory/test_limits.py::test_limits_in_rounds",
            "lab/theory/test_limits.py::test_a_list_by_exact_counts_is_no_better_than_the_limit",
        ),
    ),
)
