"""Lower bounds on the users of PARITY and of conjunctions, for learners in one round with one ε-local report each.

They say nothing about learners in several rounds: `experiments.list_search` needs fewer.

k = e^ε − 1 and C = (e^ε+1)/(e^ε−1). None of this is in the texts; it is derived here, as `limits` is, whose first part
says what one report is: an output w has a set S_w with Pr[w|z] = q_w(1 + k·1[z ∈ S_w]). Labels are ±1 and x is uniform.
S_w splits the pair (x,+), (x,−) for a share σ of the x; f = ±1 there, by which of the two is in S_w, and 0 elsewhere. A
concept c then moves the probability of w by q_w·k·⟨f, c⟩/2, and a random user is in S_w with σ/2 at least. So the χ² of
a report is at most (k²/4)·⟨f, c⟩²/(1 + kσ/2), of which each output has its weight q_w. With Σ q_w(1 + k·σ_w/2) = 1, and
as ⟨f, c⟩² is at most σ times an eigenvalue, the best is σ = 1: binary response, with 1/C² times ⟨f, c⟩².

*PARITY.* By Parseval Σ_r ⟨f, χ_r⟩² = 1: over a random r a report has χ² of 1/(2^d·C²) on average.

*Conjunctions of s of d bits*, s random bits. Of two of them that share o bits, ⟨c, c'⟩ is 4·2^{o−2s} and constants. How
much ⟨f, c⟩ varies with the s bits is at most the largest eigenvalue of this matrix, divided by their number, but for
the vector of ones, along which all change alike. As 2^o = Σ_i (o over i), and the matrix of (o over i) has on the j-th
space of the Johnson scheme the eigenvalue (s−j over i−j)·(d−i−j over s−i) (Delsarte 1973), it is the largest sum of
these over j ≥ 1.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

from askance_lab.theory.masked_parity import shrinkage
from askance_lab.theory.theorem import DIMENSION, EPSILON, ERROR, FAILURE, HoldsFor, Kind, Parameter, Theorem
from askance_protocol import checks

_NORMAL: Final = NormalDist()


def users_parity_at_once_limit(*, dimension: int, epsilon: float, failure: float) -> int:
    """Users below which no learner at once knows r with 1-β: 2^d·C²·(z_β + z_{2^−d})², z_p = Φ⁻¹(1−p).

    Learners output one r of 2^d, so that without any signal each is right with 2^−d on average. With χ² of v in all,
    the most powerful test of that size says so with Φ(√v − z_{2^−d}), in the normal limit, which is assumed; so is that
    its concave hull in v and the size, which the average over r is below (Jensen), is the same where it is above ½.
    """
    checks.count("dimension", dimension)
    checks.between("failure", checks.positive("failure", failure), 0, 0.5)
    score = _NORMAL.inv_cdf(1 - failure) - _NORMAL.inv_cdf(checks.power(2, -dimension))
    return checks.whole(checks.power(2, dimension) * (shrinkage(epsilon=epsilon) * score) ** 2)


def conjunction_information(*, dimension: int, relevant: int, epsilon: float) -> float:
    """Nats of information in one report on which s of d bits a conjunction has, before anything is known of them."""
    checks.count("dimension", dimension)
    checks.between("relevant", checks.count("relevant", relevant), 1, max(1, dimension // 2))
    d, s = dimension, relevant
    largest = max(
        sum(math.comb(s - j, i - j) * math.comb(d - i - j, s - i) for i in range(j, s + 1) if d - i - j >= 0)
        for j in range(1, s + 1)
    )
    variance = 4.0 ** (1 - s) * largest / math.comb(d, s)
    return variance / (2 * shrinkage(epsilon=epsilon) ** 2)


def users_conjunction_at_once_limit(
    *, dimension: int, relevant: int, error: float, epsilon: float, failure: float
) -> int:
    """Users below which no learner at once has error α with 1-β: (Fano) ((1−β)·ln(M/L) − h(β)) / information.

    M conjunctions of s of d bits, of which a hypothesis that is a conjunction, too, is within α of L at most: of m
    bits, `same` of which are the target's, it has error 2^−m + 2^−s − 2·2^−(m + s − same). Assumed: ½χ² for the
    information.
    """
    checks.open_unit("error", error)
    checks.open_unit("failure", failure)
    s = relevant
    near = max(
        sum(
            math.comb(m, same) * math.comb(dimension - m, s - same)
            for same in range(min(m, relevant) + 1)
            if 2.0**-m + 2.0**-s - 2 * 2.0 ** (same - m - s) <= error
        )
        for m in range(dimension + 1)
    )
    many = math.comb(dimension, relevant)
    doubt = -failure * math.log(failure) - (1 - failure) * math.log1p(-failure)
    nats = max(0.0, (1 - failure) * math.log(many / max(1, near)) - doubt)
    if not nats:
        return 0
    return checks.whole(nats / conjunction_information(dimension=dimension, relevant=relevant, epsilon=epsilon))


_DIMENSION: Final = DIMENSION.at(8)
_RELEVANT: Final = Parameter("relevant", "s", "bits of the conjunction", int, 3)

THEOREMS: Final = (
    Theorem(
        name="parity-at-once-limit",
        title="Users that no learner of PARITY at once can do without",
        citation="derived here, for KLNRS11, §5.2",
        says="Asked all at once, PARITY takes 2^d·C²·(z_β + z_{2^−d})² users or more, whatever the channel.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_ROUND,
        gives="users",
        parameters=(_DIMENSION, EPSILON, FAILURE),
        sharp=users_parity_at_once_limit,
        needs="one ε-local report a user, all questions chosen before the first; r and x uniform",
        assumes="the normal limit: n reports are told apart as a normal variable of their χ² is; concavity above ½",
        checked_by=("lab/theory/test_learner_limits.py::test_the_limit_of_parity_is_below_what_rows_need",),
    ),
    Theorem(
        name="conjunction-at-once-limit",
        title="Users that no learner of conjunctions at once can do without",
        citation="derived here, for BB-notes, Thm 5",
        says="By Fano, reports that are all asked at once do not tell which s of d bits below this number of users.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.ONE_ROUND,
        gives="users",
        parameters=(DIMENSION, _RELEVANT, ERROR, EPSILON, FAILURE),
        sharp=users_conjunction_at_once_limit,
        others=(conjunction_information,),
        needs="one ε-local report a user, all questions chosen before the first; bits and x uniform; at most half of "
        "the bits; a conjunction for hypothesis",
        assumes="information is ½χ², its leading term",
        checked_by=("lab/theory/test_learner_limits.py::test_no_question_tells_more_of_a_conjunction_than_its_limit",),
    ),
)
