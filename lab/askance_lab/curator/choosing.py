"""The choosing mechanism: the exponential mechanism among solutions that somebody spoke for. BNS13, §4.1, Lemma 4.

For k-bounded-growth scores: an entry of the database raises at most k solutions, each by 1, and nothing else counts. So
solutions outside the mapping score 0 and need no listing, however many there are.

Privacy, re-derived with discrete noise of scale 4/ε (x = e^{−ε/4}), opt the best score, Z = Σ e^{εq/4} over G(S):

* opt < αm/4: step 1 is passed with at most e^{−εαm/16} ≤ δe^{−ε/4}; ⊥ changes by e^{ε/4} at most.
* opt ≥ αm/4: Z' ≤ e^{ε/4}(Z + k) and k/Z ≤ k·e^{−εαm/16} ≤ αβε/16. So a solution of both G's changes by at most
  e^{3ε/4}·(1 + αβε/16) < e^ε. One that only this database has scores 1: with passing step 1, all k of them together
  have at most k·e^{ε/4}·e^{−εαm/8} ≤ δ·αβε/16, which is within δ as long as αβε ≤ 16: at any ε of use.

Both lines need Lemma 4's bound on m. Below it the mechanism is not private at all (trap 17), and `choose` refuses: m is
the public size. The text says nothing of an empty G(S) behind a passed step 1: here that is ⊥, which the first line
covers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

from askance_lab.curator import exponential
from askance_lab.curator.distributions import Distribution, mixture
from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.geometric import at_least
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory.sanitizers import require_choosing_examples
from askance_protocol import checks

Solution = TypeVar("Solution")


def choose(
    scores: Mapping[Solution, int],
    m: int,
    *,
    growth: int,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction | float,
    failure: Fraction | float,
    draw: Below,
) -> Solution | None:
    """A solution that is within αm of the best but for β, or ⊥. Scores that are not in the mapping are 0."""
    checked(epsilon, delta)
    sane = Fraction(error) * Fraction(failure) * epsilon <= 16
    checks.require(sane, "is so large that δ is not kept", where="epsilon", remedy="keep αβε to 16 at most")
    # Lemma 4's bound comes first: below it there is no privacy (trap 17)
    require_choosing_examples(
        m, growth=growth, epsilon=float(epsilon), delta=float(delta), error=float(error), failure=float(failure)
    )
    # step 1: best(S) + noise of scale 4/ε against αm/2
    best = max(scores.values(), default=0)
    if best + discrete_laplace(4 / epsilon, draw) < least(m, error):
        return None
    # step 2: the exponential mechanism with ε/2 on G(S) = solutions of score ≥ 1
    grown = _grown(scores)
    if not grown:
        return None
    solutions = list(grown)
    return solutions[exponential.choose(list(grown.values()), epsilon=epsilon / 2, draw=draw)]


def choosing_distribution(
    scores: Mapping[Solution, int], m: int, *, epsilon: Fraction, error: Fraction | float
) -> Distribution:
    """The exact distribution; None is ⊥. It refuses no m: that is `choose`'s part, and the checker's to see why."""
    grown = _grown(scores)
    if not grown:
        return {None: 1.0}
    passed = at_least(least(m, error) - max(grown.values()), rate=checked(epsilon).epsilon / 4)
    chosen = zip(grown, exponential.probabilities(list(grown.values()), epsilon=epsilon / 2), strict=True)
    return mixture([(1 - passed, {None: 1.0}), (passed, dict[Hashable, float](chosen))])


def least(m: int, error: Fraction | float) -> int:
    """The whole number that the noisy best must reach: ⌈αm/2⌉."""
    checks.open_unit("error", float(error))
    return math.ceil(Fraction(error) * checks.count("m", m) / 2)


def paid(epsilon: Fraction, delta: Fraction) -> Paid:
    """(ε,δ). BNS13, Lemma 4."""
    return checked(epsilon, delta)


def _grown(scores: Mapping[Solution, int]) -> dict[Solution, int]:
    return {solution: score for solution, score in scores.items() if score >= 1}
