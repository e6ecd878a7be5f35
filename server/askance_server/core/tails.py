"""Concentration bounds: KLNRS11, Appendix A, and KLNRS08, Lemma 4.2, as stated and as repaired.

The sum of Laplace variables is where both texts slip. With X_i ~ Lap(λ), Markov's inequality for e^{tS} gives, for
every 0 < t < 1/λ,

    Pr[S/n >= δ] <= (e^{tδ} (1 - (λt)²))^{-n}.

KLNRS11 continues with (1-x)^{-n} < e^{nx}, which is reversed (trap 2). What holds is -ln(1-x) <= 2x for 0 <= x <= 1/2;
then t = δ/(4λ²) gives exp(-nδ²/(8λ²)), and (λt)² <= 1/2 asks for δ <= 2√2·λ. KLNRS08 picks t = δ at λ = 1, where
e^{t²}(1-t²) < 1, so its bound exceeds 1 (trap 3); t = δ/2 works.
"""

from __future__ import annotations

import math

from askance_protocol import checks


def chernoff_upper_tail(*, users: int, mean: float, excess: float) -> float:
    """Pr[average >= (1+φ)µ] of Bernoulli(µ) variables, φ = `excess`. KLNRS11, Thm A.1."""
    checks.count("users", users)
    checks.between("mean", mean, 0, 1)
    checks.between("excess", excess, 0, 1)
    return math.exp(-(excess**2) * mean * users / 3)


def chernoff_lower_tail(*, users: int, mean: float, excess: float) -> float:
    """Pr[average <= (1-φ)µ] of Bernoulli(µ) variables, φ = `excess`. KLNRS11, Thm A.1."""
    checks.count("users", users)
    checks.between("mean", mean, 0, 1)
    checks.between("excess", excess, 0, 1)
    return math.exp(-(excess**2) * mean * users / 2)


def hoeffding_tail(*, users: int, deviation: float, width: float) -> float:
    """Pr[|average - mean| >= δ] of variables in an interval of length `width`. KLNRS11, Thm A.2."""
    checks.count("users", users)
    checks.positive("deviation", deviation)
    checks.positive("width", width)
    return min(1.0, 2 * math.exp(-2 * users * (deviation / width) ** 2))


def users_hoeffding(*, deviation: float, width: float, failure: float) -> int:
    """Users until Thm A.2 of KLNRS11 falls to `failure`: n = (width²/2δ²)·ln(2/β)."""
    checks.positive("deviation", deviation)
    checks.positive("width", width)
    checks.open_unit("failure", failure)
    return checks.whole((width / deviation) ** 2 / 2 * math.log(2 / failure))


def laplace_sum_tail_stated(*, users: int, deviation: float, scale: float) -> float:
    """KLNRS11, Lemma A.3 as stated: exp(-nδ²/4λ²). False (trap 2): the true tail is larger. Never plan with it."""
    checks.count("users", users)
    ratio = checks.positive("deviation", deviation) / checks.positive("scale", scale)
    return math.exp(-users * ratio**2 / 4)


def laplace_sum_tail_repaired(*, users: int, deviation: float, scale: float) -> float:
    """KLNRS11, Lemma A.3 as repaired (trap 2): Pr[|average| >= δ] <= 2exp(-nδ²/8λ²), for δ <= 2√2·λ."""
    checks.count("users", users)
    ratio = checks.positive("deviation", deviation) / checks.positive("scale", scale)
    remedy = "beyond it use laplace_sum_tail_chernoff"
    checks.require(ratio**2 <= 8, "the repaired Lemma A.3 holds up to 2√2·λ only", where="deviation", remedy=remedy)
    return min(1.0, 2 * math.exp(-users * ratio**2 / 8))


def laplace_sum_tail_markov(*, users: int, deviation: float, t: float) -> float:
    """KLNRS08, proof of Lemma 4.2: one side of a sum of Lap(1), (e^{tτ'}(1-t²))^{-n}, for a given 0 < t < 1.

    May exceed 1, and is then no bound: that is what the text's own t = τ' does (trap 3).
    """
    checks.count("users", users)
    checks.positive("deviation", deviation)
    checks.open_unit("t", t)
    return checks.exp(-users * (t * deviation + math.log1p(-(t**2))))


def laplace_sum_tail_klnrs08_stated(*, users: int, deviation: float) -> float:
    """KLNRS08, Lemma 4.2 with the proof's t = τ', both sides. Never below 2 (trap 3), so no bound at all."""
    return 2 * laplace_sum_tail_markov(users=users, deviation=deviation, t=deviation)


def laplace_sum_tail_klnrs08_repaired(*, users: int, deviation: float) -> float:
    """KLNRS08, Lemma 4.2 with t = τ'/2 (trap 3), both sides, λ = 1: at most 2exp(-0.21·nτ'²) for τ' <= 1."""
    return min(1.0, 2 * laplace_sum_tail_markov(users=users, deviation=deviation, t=deviation / 2))


def laplace_sum_tail_chernoff(*, users: int, deviation: float, scale: float) -> float:
    """Best bound that Markov's inequality gives for Pr[|average| >= δ], at every δ.

    tδ + ln(1-(λt)²) is largest at λt = (√(1+x²)-1)/x with x = δ/λ; written x/(1+√(1+x²)), which is stable for small x.
    """
    checks.count("users", users)
    x = checks.positive("deviation", deviation) / checks.positive("scale", scale)
    t = x / (1 + math.hypot(1, x))
    return min(1.0, 2 * math.exp(-users * (t * x + math.log1p(-(t**2)))))
