"""MASKED-PARITY: what interaction buys (KLNRS11 §5.3), and how KLNRS08 overstated it.

The concepts c_{r,a}(x, i, b) = (-1)^{r·x+a} if b = 0 and (-1)^{r_i} if b = 1, over uniform x in {0,1}^d, i among d
values, b a fair bit. Two rounds learn (r, a) from poly(d) users; one round needs about 2^d.

In every sign decision below a user's report, after randomized response, is a ±1 variable of mean ±µ, and one-sided
Hoeffding (KLNRS11, Thm A.2) gives a wrong sign with probability at most exp(-nµ²/2), so n = 2ln(1/β)/µ². C is the
factor (e^ε+1)/(e^ε-1) = 1/tanh(ε/2) by which randomized response shrinks a ±1 mean.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from askance_lab.theory.local import Queries, users_sq_query_repaired, users_sq_simulation_stated
from askance_lab.theory.theorem import (
    CONSTANT,
    DIMENSION,
    EPSILON,
    FAILURE,
    QUERIES,
    TOLERANCE,
    HoldsFor,
    Kind,
    Theorem,
)
from askance_protocol import checks


class MaskedParityUsers(NamedTuple):
    """Users of the two rounds of A_MP."""

    first: int
    second: int

    @property
    def total(self) -> int:
        """Users of both rounds: each gives one report."""
        return self.first + self.second


class MaskedParityQueries(NamedTuple):
    """What the two rounds of A_MP ask."""

    first: Queries
    second: Queries


class NonadaptiveClaim(NamedTuple):
    """The claim that learning with this advantage takes more than this number of queries of this tolerance."""

    queries: int
    tolerance: float
    advantage: float


def shrinkage(*, epsilon: float) -> float:
    """C = (e^ε+1)/(e^ε-1): randomized response divides a ±1 mean by it. KLNRS11, p. 4 (Warner)."""
    return 1 / math.tanh(checks.positive("epsilon", epsilon) / 2)


def masked_parity_queries(*, dimension: int) -> MaskedParityQueries:
    """A_MP's two rounds: d queries of tolerance 1/(4d+1), then one of 1/5. KLNRS11, Prop. 5.18.

    The mean of g_j is 1/(2d) or 0 (KLNRS08 §5.1 prints 1/2^d).
    """
    checks.count("dimension", dimension)
    return MaskedParityQueries(Queries(dimension, 1 / (4 * dimension + 1)), Queries(1, 1 / 5))


def users_masked_parity_stated(*, dimension: int, epsilon: float, failure: float, constant: float) -> int:
    """A_MP through KLNRS11, Thm 5.7 as stated: t = d+1 queries, all at the smallest tolerance 1/(4d+1), b = 1."""
    first, _ = masked_parity_queries(dimension=dimension)
    return users_sq_simulation_stated(
        queries=dimension + 1, bound=1, tolerance=first.tolerance, epsilon=epsilon, failure=failure, constant=constant
    )


def users_masked_parity_repaired(*, dimension: int, epsilon: float, failure: float) -> MaskedParityUsers:
    """A_MP through KLNRS11, Thm 5.7 with the constants that are proved (trap 2), β shared by all d+1 queries."""
    rounds = masked_parity_queries(dimension=dimension)
    share = checks.open_unit("failure", failure) / (dimension + 1)
    portions = (
        asked.number * users_sq_query_repaired(bound=1, tolerance=asked.tolerance, epsilon=epsilon, failure=share)
        for asked in rounds
    )
    return MaskedParityUsers(*portions)


def users_masked_parity_pooled(*, dimension: int, epsilon: float, failure: float) -> int:
    """A_MP's first round, all d queries at once: n = 4d²C²·2ln(d/β). docs/theory.md#one-pooled-round.

    Each user answers for a public Hadamard row; the signal in every sign is µ = 1/(2dC), and d signs share β.
    """
    checks.count("dimension", dimension)
    checks.open_unit("failure", failure)
    signal = 1 / (2 * dimension * shrinkage(epsilon=epsilon))
    return checks.whole(2 * math.log(dimension / failure) / signal**2)


def users_mask_bit_enough(*, dimension: int, epsilon: float, failure: float) -> int:
    """So many users are enough for the mask bit at once, by Hoeffding: n = 2^d·4C²·2ln(1/β). docs/theory.md#at-once.

    No limit, and no need: 2ln(1/β) is 2.2 times the z² of the normal law at β = .05. `theory.limits` has the limits.

    All answer y·B(x) for one bent function B: the signal is µ = 2^{-d/2-1}/C for every r (even d). Or each answers for
    a parity χ_s of her own and those with s = r are kept: the same count on average, at every d. The other half, r,
    takes users_masked_parity_pooled. With non-constant Hadamard columns both halves can share a user, b deciding which
    question her bit answers: each half then has mean 0 in the other's estimate.
    """
    checks.count("dimension", dimension)
    checks.open_unit("failure", failure)
    factor = 4 * shrinkage(epsilon=epsilon) ** 2
    return checks.whole(checks.power(2, dimension) * factor * 2 * math.log(1 / failure))


# --- What no nonadaptive learner can do --------------------------------------------------------------------------


def mask_hidden_stated(*, queries: int, dimension: int) -> float:
    """Pr[error >= 1/4] of a nonadaptive learner, tolerance >= 2^{-d/3}. KLNRS11, Thm 5.16(2): ½ - t/2^{d/3+2}.

    The proof ends on ½(1 - t/2^{d/3+2}), which is more: `mask_hidden_repaired`.
    """
    checks.count("queries", queries)
    checks.count("dimension", dimension)
    return max(0.0, 0.5 - queries * math.pow(2, -(dimension / 3 + 2)))


def mask_hidden_repaired(*, queries: int, dimension: int, tolerance: float | None = None) -> float:
    """KLNRS11, Thm 5.16(2) for any tolerance: at least ½(1 - t/(τ²·2^{d+2})); at τ = 2^{-d/3} ½(1 - t/2^{d/3+2}).

    Bessel: 2Σ⟨f,c_{r,a}⟩² <= 1 over all 2^{d+1} concepts, so a query sees at most 1/(2τ²) of them. (The text's display
    says 2^{2d/3-1}/2^{d+1} = 2^{-d/3}; it is 2^{-d/3-2}.) For ±1-valued queries; the oracle hides a unless one sees it.
    """
    checks.count("queries", queries)
    checks.count("dimension", dimension)
    least = math.pow(2, -dimension / 3) if tolerance is None else checks.positive("tolerance", tolerance)
    seen = math.exp(math.log(queries) - 2 * math.log(least) - (dimension + 2) * math.log(2))
    return max(0.0, 0.5 * (1 - seen))


def klnrs08_nonadaptive_stated(*, dimension: int) -> NonadaptiveClaim:
    """KLNRS08, Thm 5.1 as stated: tolerance >= 2^{-2d/3}, advantage above ½+2^{-2d/3}, more than 2^d - 1 queries.

    False from d = 8 on (trap 1): see `klnrs08_refuted`. KLNRS11, Thm 5.16 replaces it.
    """
    checks.count("dimension", dimension)
    tolerance = math.pow(2, -2 * dimension / 3)
    return NonadaptiveClaim(2**dimension - 1, tolerance, 0.5 + tolerance)


def bent_query_bias(*, dimension: int) -> float:
    """|mean - ½| of the ±1 query "y·B(x) if b = 0, else 1" for a bent B: 2^{-d/2-1} on every concept (trap 1)."""
    remedy = "bent functions live on an even number of bits"
    checks.require(checks.count("dimension", dimension) % 2 == 0, "must be even", where="dimension", remedy=remedy)
    return math.pow(2, -dimension / 2 - 1)


def klnrs08_refuted(*, dimension: int) -> bool:
    """Whether d+1 nonadaptive queries contradict KLNRS08, Thm 5.1 at this even d (trap 1): from d = 8 on.

    d queries "y if i = j and b = 1, else 1" have means 1/d apart and give r; the bent query's sign is a ⊕ the dual of
    B at r. Both need a tolerance below half the distance of the two possible means.
    """
    claim = klnrs08_nonadaptive_stated(dimension=dimension)
    reads_mask = bent_query_bias(dimension=dimension) > claim.tolerance
    reads_parity = 1 / (2 * dimension) > claim.tolerance
    return reads_mask and reads_parity and dimension + 1 <= claim.queries


def parity_sq_lower_bound_stated(*, dimension: int) -> Queries:
    """PARITY is not SQ-learnable: 2^{d/3} queries of tolerance 2^{-d/3} do not suffice. KLNRS11 §5.2.

    Rounded down to whole queries. At this very corner `parity_survives` has nothing left to say; at half as many
    queries it still leaves half of the parities unseen.
    """
    checks.count("dimension", dimension)
    return Queries(math.floor(math.pow(2, dimension / 3)), math.pow(2, -dimension / 3))


def parity_survives(*, queries: int, dimension: int, tolerance: float) -> float:
    """Least share of the parities that t ±1-valued queries of tolerance τ cannot tell from noise: 1 - t/(τ²2^d).

    Bessel, as in KLNRS11 §5.3.2: Σ_r⟨f,χ_r⟩² <= 1, so a query sees at most 1/τ² parities, however adaptive the learner,
    because until one is seen all answers are the same.
    """
    checks.count("queries", queries)
    checks.count("dimension", dimension)
    checks.positive("tolerance", tolerance)
    return max(0.0, 1 - math.exp(math.log(queries) - 2 * math.log(tolerance) - dimension * math.log(2)))


# --- Records ---------------------------------------------------------------------------------------------------------


THEOREMS: Final = (
    Theorem(
        name="randomized-response",
        title="Warner's randomized response",
        citation="KLNRS11, p. 4",
        says="Telling the truth with probability e^ε/(1+e^ε) divides a ±1 mean by C = (e^ε+1)/(e^ε-1).",
        kind=Kind.PRICE,
        gives="shrinkage",
        parameters=(EPSILON,),
        sharp=shrinkage,
        checked_by=("lab/theory/test_masked_parity.py::test_the_pooled_round_suffices_exactly",),
    ),
    Theorem(
        name="masked-parity-queries",
        title="The queries of A_MP, the adaptive learner of MASKED-PARITY",
        citation="KLNRS11, Prop. 5.18",
        says="d queries of tolerance 1/(4d+1) tell r, then one of tolerance 1/5 tells the mask bit a.",
        kind=Kind.SHAPE,
        gives="queries",
        parameters=(DIMENSION,),
        stated=masked_parity_queries,
        differs="The mean of g_j is 1/(2d) or 0; KLNRS08, §5.1 prints 1/2^d.",
        checked_by=("lab/theory/test_masked_parity.py::test_a_mp_tolerances_separate_the_means",),
    ),
    Theorem(
        name="masked-parity",
        title="A_MP by local reports, fresh users for each query",
        citation="KLNRS11, Prop. 5.18 through Thm 5.7",
        says="A_MP learns MASKED-PARITY in two rounds from poly(d) users.",
        kind=Kind.ENOUGH,
        gives="users",
        parameters=(DIMENSION, EPSILON, FAILURE, CONSTANT),
        stated=users_masked_parity_stated,
        repaired=users_masked_parity_repaired,
        differs="As Thm 5.7: c is open in the text, and its tail bound is false.",
        traps=(2,),
        checked_by=("lab/theory/test_masked_parity.py::test_a_mp_first_round_costs_what_theory_says",),
    ),
    Theorem(
        name="masked-parity-pooled",
        title="A_MP's first round with one report for all d queries",
        citation="KLNRS11, Prop. 5.18; derived here",
        says="Asked as cells of one partition, with public Hadamard rows, all d queries share all the users.",
        kind=Kind.ENOUGH,
        gives="users",
        parameters=(DIMENSION, EPSILON, FAILURE),
        sharp=users_masked_parity_pooled,
        differs="The text takes a fresh portion of users for each query.",
        checked_by=("lab/theory/test_masked_parity.py::test_the_pooled_round_suffices_exactly",),
    ),
    Theorem(
        name="masked-parity-at-once",
        title="Users that are enough for the mask bit in one round",
        citation="derived here, against KLNRS11, Thm 5.16",
        says="2^d·4C²·2ln(1/β) users who answer y·B(x), for a bent B, tell the mask bit for every r.",
        kind=Kind.ENOUGH,
        gives="users",
        parameters=(DIMENSION, EPSILON, FAILURE),
        sharp=users_mask_bit_enough,
        differs="By Hoeffding, some 2.1 times what was measured. What no learner at once goes below: at-once-proved, "
        "at-once-limit.",
        checked_by=("lab/theory/test_masked_parity.py::test_the_noninteractive_learner_costs_what_theory_says",),
    ),
    Theorem(
        name="mask-hidden",
        title="No nonadaptive learner of MASKED-PARITY",
        citation="KLNRS11, Thm 5.16(2)",
        says="With t nonadaptive queries of tolerance 2^{-d/3} the mask bit stays hidden with this probability.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.NONADAPTIVE_QUERIES,
        gives="probability",
        parameters=(QUERIES.at(1000), DIMENSION, TOLERANCE.at(0.001)),
        stated=mask_hidden_stated,
        repaired=mask_hidden_repaired,
        needs="±1-valued queries; the stated form is at tolerance 2^{-d/3}, whatever τ is given",
        differs="A display has 2^{-d/3} where it is 2^{-d/3-2}; the theorem's ½ - x is less than the ½(1 - x) that is "
        "proved.",
        checked_by=(
            "lab/theory/test_masked_parity.py::test_a_query_sees_at_most_the_fraction_bessel_allows",
            "lab/theory/test_masked_parity.py::test_the_mask_stays_hidden_as_the_proof_says",
        ),
    ),
    Theorem(
        name="klnrs08-nonadaptive",
        title="The conference version's lower bound, which is false",
        citation="KLNRS08, Thm 5.1",
        says="Nonadaptive learners with tolerance 2^{-2d/3} are said to need more than 2^d - 1 queries.",
        kind=Kind.FALSE,
        gives="refuted",
        parameters=(DIMENSION.at(8),),
        stated=klnrs08_nonadaptive_stated,
        others=(bent_query_bias, klnrs08_refuted),
        needs="an even d, for the refutation",
        differs="False from d = 8 on: d queries tell r and one bent query, of mean ½ ± 2^{-d/2-1}, tells a. KLNRS11, "
        "Thm 5.16 replaces it.",
        traps=(1,),
        checked_by=("lab/theory/test_masked_parity.py::test_klnrs08_theorem_5_1_is_refuted_at_d_8",),
    ),
    Theorem(
        name="parity-not-sq",
        title="PARITY is not learnable by statistical queries",
        citation="KLNRS11, §5.2",
        says="2^{d/3} queries of tolerance 2^{-d/3} do not suffice.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.QUERIES,
        gives="share",
        parameters=(DIMENSION.at(30), QUERIES.at(512), TOLERANCE.at(2**-10)),
        stated=parity_sq_lower_bound_stated,
        others=(parity_survives,),
        needs="±1-valued queries",
        differs="parity_survives is the share of the parities that t queries have not told apart, by Bessel: at the "
        "text's corner it is 0, at half as many queries ½.",
        checked_by=("lab/theory/test_masked_parity.py::test_parities_survive_few_queries",),
    ),
)
