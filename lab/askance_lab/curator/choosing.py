"""The choosing mechanism: the exponential mechanism among solutions with a positive score. BNS13, §4.1, Lemma 4.

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
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, TypeVar

from askance_lab.curator import exponential
from askance_lab.curator.concepts import A_NUMBER, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution, mixture
from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.errors import require_examples
from askance_lab.curator.geometric import at_least
from askance_lab.curator.mechanism import Mechanism, approximate, exactly, roughly
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory.sanitizers import examples_choosing
from askance_lab.theory.targets import Targets
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
    """Choose a solution within αm of the best with probability 1 − β, or ⊥. Solutions not in the mapping score 0."""
    checked(epsilon, delta)
    sane = Fraction(error) * Fraction(failure) * epsilon <= 16
    checks.require(sane, "is so large that δ is not kept", where="epsilon", remedy="keep αβε to 16 at most")
    # Lemma 4's bound comes first: below it there is no privacy (trap 17)
    refuse_too_few(
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


def refuse_too_few(m: int, *, growth: int, epsilon: float, delta: float, error: float, failure: float) -> None:
    """Refuse a database below Lemma 4's bound, on which the mechanism is not private (BNS13, Lemma 4)."""
    needed = examples_choosing(growth=growth, epsilon=epsilon, delta=delta, error=error, failure=failure)
    require_examples(m, needed, "the choosing mechanism is not private on so few examples", where="examples")


def choosing_distribution(
    scores: Mapping[Solution, int], m: int, *, epsilon: Fraction, error: Fraction | float
) -> Distribution[Solution | None]:
    """Exact distribution; None is ⊥. It accepts any m: `choose` refuses, and the checker shows why."""
    grown = _grown(scores)
    if not grown:
        return {None: 1.0}
    passed = at_least(least(m, error) - max(grown.values()), rate=checked(epsilon).epsilon / 4)
    chosen = zip(grown, exponential.probabilities(list(grown.values()), epsilon=epsilon / 2), strict=True)
    return mixture([(1 - passed, {None: 1.0}), (passed, dict[Solution | None, float](chosen))])


def least(m: int, error: Fraction | float) -> int:
    """Smallest whole number that the noisy best score must reach: ⌈αm/2⌉."""
    checks.open_unit("error", float(error))
    return math.ceil(Fraction(error) * checks.count("m", m) / 2)


def paid(epsilon: Fraction, delta: Fraction) -> Paid:
    """Pay (ε,δ). BNS13, Lemma 4."""
    return checked(epsilon, delta)


def _grown(scores: Mapping[Solution, int]) -> dict[Solution, int]:
    return {solution: score for solution, score in scores.items() if score >= 1}


def behind(found: float, sample: LabelledSample) -> float:
    """Share of the examples by which the most frequent one is ahead of the one found."""
    counts = Counter(sample.points)
    return (max(counts.values()) - counts[int(found)]) / len(sample)


def _frequent(sample: LabelledSample, targets: Targets, draw: Below) -> int | None:
    return choose(Counter(sample.points), len(sample), growth=1, draw=draw, **exactly(targets))


MECHANISM: Final = Mechanism(
    name="choosing",
    summary="a frequent example, if there is one",
    by="BNS13 Lemma 4",
    concepts=POINT,
    answers=A_NUMBER,
    run=_frequent,
    needed=lambda _, targets: examples_choosing(growth=1, delta=float(targets.delta), **roughly(targets)),
    paid=approximate,
    off=behind,
    place=4,
)
