"""A quantile by bisection in rounds: is your value at most m? The next m depends on the answer.

Theory of operation
-------------------
F(m) is the share of users whose value is at most m. Wanted is a v with F(v − 1) ≤ q + α and F(v) ≥ q − α: a quantile,
within α of its rank. One question is one threshold, a statistical query (KLNRS11, Def. 5.4). What is known is kept as
lo ≤ v ≤ hi with F(lo − 1) ≤ q + α and F(hi) ≥ q − α, and m is in their middle:

- An answer within τ of F(m) that is above q + τ − α says F(m) ≥ q − α, so hi = m; below q − τ + α, lo = m + 1.
- At τ = 2α/3 one of the two always holds, and an answer within α/3 of q is the end: m itself is within α.
- At a larger τ, which takes fewer users, both may fail. Then it is halved, and m is asked about again.

Far from the quantile a coarse answer does: over a continuous law the distance from q halves with each bisection, so
each question takes four times the users of the one before, and the last ones take most. A law with atoms may need the
finest tolerance at each step; that is what is planned for.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from askance_server.core.strategy import LEVEL, Asking, estimates_in
from askance_server.strategies.shared.quantiles import COARSEST, HALVINGS, Between, Target, hypothesis, quantile

MOST: Final = 1 << 20
"""Values that are told apart at most."""
ROUNDS: Final = MOST.bit_length() - 1 + HALVINGS
"""Bisections, and questions that are asked again more finely."""


def asking(target: Target) -> Asking:
    """Halve the values between which the quantile is."""
    field, alpha, finest, tau = target.field, target.alpha, target.finest, COARSEST
    low, high, sure = field.least, field.most, Between(field.least, field.most)
    for left in range(target.rounds, 0, -1):
        if low == high:
            break
        # What is left of the rounds has to do for the bisections.
        tau = tau if left > (high - low).bit_length() else finest
        m = (low + high) // 2
        answers = yield [target.ask(m, tau)]
        # Which m are asked about depends on the answers, so all rounds' intervals have to hold together.
        sure = sure.narrowed(m, target, estimates_in(answers, 1 - (1 - LEVEL) / target.rounds))
        above = target.above(float(answers[0]))
        if abs(above) <= alpha - tau:
            low = high = m
        elif above > max(tau - alpha, Fraction(0)):
            high = m
        elif above < min(alpha - tau, Fraction(0)):
            low = m + 1
        else:
            tau = max(tau / 2, finest)
    return hypothesis(target, high, sure)


QUANTILE: Final = quantile(
    "quantile",
    "A quantile, by bisection in rounds",
    asking,
    rounds=ROUNDS,
    most=MOST,
    portions=lambda target: (1,) * target.rounds,
)
