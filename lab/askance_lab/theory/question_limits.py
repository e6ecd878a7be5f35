"""Lower bounds on the users of questions about a population: a mean, shares, a quantile, strings that many have.

C = (e^ε+1)/(e^ε-1). Where every user holds one of two values, randomized response is the best ε-local channel: the
extreme channels have outputs Pr[w|z] = q_w(1 + k·1[z ∈ S_w]) (Kairouz, Oh, Viswanath, 2016), with two inputs S_w is one
of them, and all such outputs are those of randomized response, split. So no rounds help either, and a question is at
least as hard as the binomial test or estimate that it contains. What is assumed is the normal limit of that binomial
law. Strings take the information that a report has on them, exactly.

A limit holds for the hardest population; over an easier one fewer users may do.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np

from askance_lab.theory.masked_parity import shrinkage
from askance_lab.theory.theorem import DIMENSION, EPSILON, FAILURE, TOLERANCE, HoldsFor, Kind, Parameter, Theorem
from askance_protocol import checks

_NORMAL: Final = NormalDist()


def users_mean_limit(*, tolerance: float, epsilon: float, failure: float) -> int:
    """Users below which no mean of values in [-1, 1] is within τ but for β: z²C²/τ², z = Φ⁻¹(1-β/2).

    Over users of ±1 whose mean is near 0: the report of each has variance C² about it. No estimate of a normal
    variable's mean is within a distance more often than the variable itself (Anderson's lemma).
    """
    checks.positive("tolerance", tolerance)
    score = _NORMAL.inv_cdf(1 - checks.open_unit("failure", failure) / 2)
    return checks.whole((score * shrinkage(epsilon=epsilon) / tolerance) ** 2)


def users_shares_limit(*, cells: int, tolerance: float, epsilon: float, failure: float) -> int:
    """Users below which some share of K cells is not within τ but for β: z²V/τ², V the mean variance of a share.

    Over uniform cells an output with m cells in S has k²m(1-m/K)/(1+km/K)² of Fisher's information on the shares, in
    all of the K-1 directions that there are. The variances sum to (K-1)² over the most of it, or more (means of
    inverses): what subset selection attains (Ye and Barg 2018). Some share has a K-th of that sum.
    """
    checks.count("cells", cells, least=2)
    checks.positive("tolerance", tolerance)
    score = _NORMAL.inv_cdf(1 - checks.open_unit("failure", failure) / 2)
    return checks.whole(score**2 * _share_variance(cells, epsilon) / tolerance**2)


def _share_variance(cells: int, epsilon: float) -> float:
    weight = checks.exp(checks.positive("epsilon", epsilon))
    sizes = range(1, cells)
    best = min((m * weight + cells - m) ** 2 / (m * (cells - m)) for m in sizes) / (weight - 1) ** 2
    return ((cells - 1) / cells) ** 2 * best


def users_quantile_limit(*, tolerance: float, epsilon: float, failure: float) -> int:
    """Users below which no median has a rank within τ but for β: z²C²/4τ², z = Φ⁻¹(1-β).

    Of two values the lower has a share of ½ + τ, or ½ - τ, and a little more: only one of them is an answer.
    """
    checks.positive("tolerance", tolerance)
    score = _NORMAL.inv_cdf(1 - checks.between("failure", checks.positive("failure", failure), 0, 0.5))
    return checks.whole((score * shrinkage(epsilon=epsilon) / (2 * tolerance)) ** 2)


def users_heavy_limit(*, dimension: int, share: float, epsilon: float, failure: float) -> int:
    """Users below which no 2/θ strings contain one of share θ but for β: ((1-β)ln(2^dθ/2) - h(β))/I, in rounds too.

    One string of d bits, any of them, has the share θ; all others are alike. Fano, for lists of 2/θ. A report says at
    most I nats of it: an output's set S holds the share u of all strings, and the heavy one with chance p as far as the
    reports before tell, so the output's odds are m = 1 + k((1-θ)u + θ·1[s ∈ S]). I is the most of E[m ln(m/E m)]/E m.
    """
    return _users_of_a_list(dimension, share, epsilon, failure, rounds=True)


def users_heavy_at_once_limit(*, dimension: int, share: float, epsilon: float, failure: float) -> int:
    """The same where all is asked at once: nothing is known of the string, so p = u."""
    return _users_of_a_list(dimension, share, epsilon, failure, rounds=False)


def _users_of_a_list(dimension: int, share: float, epsilon: float, failure: float, *, rounds: bool) -> int:
    checks.count("dimension", dimension)
    checks.open_unit("share", share)
    checks.open_unit("failure", failure)
    doubt = -failure * math.log(failure) - (1 - failure) * math.log1p(-failure)
    nats = (1 - failure) * (dimension * math.log(2) - math.log(2 / share)) - doubt
    return checks.whole(max(0.0, nats) / _most_nats(share, epsilon, rounds=rounds))


def _most_nats(share: float, epsilon: float, *, rounds: bool) -> float:
    """The largest information of a report on which string is heavy: u = 0 is the best where it is free to choose."""
    chances = np.linspace(0, 1, 10_001)[1:-1]
    k = checks.exp(checks.positive("epsilon", epsilon)) - 1
    out = 1 + k * (1 - share) * (0.0 if rounds else chances)
    within, mean = out + k * share, out + k * share * chances
    nats = chances * within / mean * np.log(within / mean) + (1 - chances) * out / mean * np.log(out / mean)
    return float(nats.max())


_NORMAL_LIMIT: Final = "the normal limit of a binomial law"
_STRINGS: Final = (
    DIMENSION.at(32, "bits of a string"),
    Parameter("share", "θ", "share of a heavy string", float, 0.2),
    EPSILON,
    FAILURE,
)
_ONE_REPORT: Final = "one ε-local report a user, at once or in rounds"

THEOREMS: Final = (
    Theorem(
        name="mean-limit",
        title="Users that no mean can do without",
        citation="derived here; Anderson 1955",
        says="A mean of values in [-1, 1] takes z²C²/τ² users, whatever is asked in how many rounds.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ANY_ROUNDS,
        gives="users",
        parameters=(TOLERANCE, EPSILON, FAILURE),
        sharp=users_mean_limit,
        needs=_ONE_REPORT,
        assumes=_NORMAL_LIMIT,
        checked_by=("lab/theory/test_question_limits.py::test_a_mean_takes_the_users_of_its_limit",),
    ),
    Theorem(
        name="histogram-limit",
        title="Users that no histogram can do without",
        citation="Ye and Barg 2018; derived here",
        says="The worst share of K cells takes the users of subset selection's variance, whatever the channel.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ANY_ROUNDS,
        gives="users",
        parameters=(Parameter("cells", "K", "number of cells", int, 16), TOLERANCE, EPSILON, FAILURE),
        sharp=users_shares_limit,
        needs=f"{_ONE_REPORT}; uniform cells",
        assumes="the normal limit",
        checked_by=(
            "lab/theory/test_question_limits.py::test_shares_have_the_variance_of_subset_selection",
            "lab/theory/test_question_limits.py::test_no_channel_has_more_information_on_shares_than_subset_selection",
        ),
    ),
    Theorem(
        name="quantile-limit",
        title="Users that no median can do without",
        citation="derived here",
        says="A median of rank within τ takes z²C²/4τ² users, however few values there are.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ANY_ROUNDS,
        gives="users",
        parameters=(TOLERANCE, EPSILON, FAILURE),
        sharp=users_quantile_limit,
        needs=_ONE_REPORT,
        assumes=_NORMAL_LIMIT,
        checked_by=("lab/theory/test_question_limits.py::test_two_values_take_the_users_of_the_exact_test",),
    ),
    Theorem(
        name="heavy-hitters-limit",
        title="Users that no search for heavy strings can do without",
        citation="derived here",
        says="A list of 2/θ strings that has the one of share θ takes a user for each report's information on it.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ANY_ROUNDS,
        gives="users",
        parameters=_STRINGS,
        sharp=users_heavy_limit,
        needs=f"{_ONE_REPORT}; a list of 2/θ strings at most",
        checked_by=("lab/theory/test_question_limits.py::test_no_channel_says_more_of_a_heavy_string",),
    ),
    Theorem(
        name="heavy-hitters-at-once-limit",
        title="Users that no search for heavy strings at once can do without",
        citation="derived here",
        says="The same where all is asked at once, before anything is known of the string.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_ROUND,
        gives="users",
        parameters=_STRINGS,
        sharp=users_heavy_at_once_limit,
        needs="one ε-local report a user, all asked at once; a list of 2/θ strings at most",
        checked_by=("lab/theory/test_question_limits.py::test_no_channel_says_more_of_a_heavy_string",),
    ),
)
