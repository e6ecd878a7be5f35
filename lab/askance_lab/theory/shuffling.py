"""What a trusted shuffler would make of local reports: (ε_c, δ) for all of them together.

Theory of operation
-------------------
Askance has no shuffler: reports go straight to the aggregator, and what protects a user is the ε of her own report.
This says what the same reports would give if somebody whom all trust took the names off and permuted them.

*The blanket* (Balle, Bell, Gascón and Nissim 2019, CRYPTO, §4). By binary response at ε a report is true with
p = e^ε/(e^ε + 1) and a lie with q = 1/(e^ε + 1). So whatever bit a user holds, her report is a fair coin with
probability γ = 2q, her *blanket*, and her own bit otherwise. Tell the adversary who of the other n − 1 left a coin, and
what the rest said: what is left is the number of ones among C ~ Binomial(n − 1, γ) coins, A ~ Binomial(C, ½), and the
one user's report. For two bits of hers that is A + Bernoulli(p) against A + Bernoulli(q), with C known. What was told
could only help, so the hockey-stick divergence of this pair bounds that of all shuffled reports, for every population.
A question about a number in [−1, 1] is answered by a mixture of both, and so is no worse.

*Clones* (Feldman, McMillan and Talwar 2021, FOCS, Thm 3.2). Of any ε-local randomizer, whatever the questions, a user's
report is with probability e^−ε a clone of the one user's, evenly of her one example and of her other: the same pair
with C ~ Binomial(n − 1, e^−ε). Where users are asked different questions it has to be hidden who was asked which.

*The sum.* With f the law of A given C, f(j)/f(j − 1) = (C − j + 1)/j falls in j, so the divergence is that of the event
that there are j ones or more, from the least j where it pays:

    δ_C(ε_c) = (p − q·e^ε_c)·Pr[A ≥ j − 1] − (p·e^ε_c − q)·Pr[A ≥ j],   j = ⌊(C + 1)/(1 + t)⌋ + 1,
    t = (p − q·e^ε_c)/(p·e^ε_c − q),

and δ(ε_c) is its mean over C. More coins are one more step of randomness, so δ_C falls in C: where C has many values
they are summed in runs, each at its least, which errs upward only, by some parts in a thousand of ε_c.

Beyond `EXACT` users the closed form of Feldman, McMillan and Talwar, Thm 3.1, is taken, which is several times as
large.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from askance_lab.theory.theorem import DELTA, EPSILON, Kind, Parameter, Theorem
from askance_protocol import checks
from askance_server.core import binomial

EXACT: Final = 10**9
"""Users up to which the divergence is summed."""
_RUNS: Final = 48
"""Values, or runs of values, of the number of coins."""
_LEFT_OUT: Final = 1e-4
"""Part of δ that is given away to numbers of coins that are too rare to be looked at."""
_STEPS: Final = 60


def shuffled_delta(*, users: int, epsilon: float, central: float, clones: float) -> float:
    """δ of shuffled reports at ε_c = `central`, where each other user is a coin with probability `clones`."""
    others = checks.count("users", users) - 1
    checks.positive("epsilon", epsilon)
    checks.between("central", central, 0, epsilon)
    checks.between("clones", clones, 0, 1)
    return _delta(others, epsilon, central, clones, _LEFT_OUT * 1e-6)


def _delta(others: int, epsilon: float, central: float, clones: float, left_out: float) -> float:
    lie = 1 / (math.exp(epsilon) + 1)
    gain, loss = 1 - lie - lie * math.exp(central), (1 - lie) * math.exp(central) - lie
    if gain <= 0:
        return 0.0
    ends = _ends(others, clones, left_out)
    chances = -np.diff(binomial.at_least(ends, others, clones), append=0.0)
    # Fewer coins than the first end has are taken for none.
    total = float(binomial.at_most(int(ends[0]) - 1, others, clones)) * gain if ends[0] else 0.0
    for coins, chance in zip(ends.tolist(), chances.tolist(), strict=True):
        first = math.floor((coins + 1) * loss / (gain + loss)) + 1
        tails = binomial.at_least(np.array([first - 1, first]), coins, 0.5)
        total += chance * max(0.0, gain * float(tails[0]) - loss * float(tails[1]))
    return total


def _ends(others: int, clones: float, left_out: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The least number of coins of each run, from one that is hardly ever gone below."""
    spread = math.sqrt(2 * math.log(1 / left_out) * others * clones)
    low = max(0, math.floor(others * clones - spread))
    # Above the mean a few are enough: the last run has all the rest.
    high = min(others, math.ceil(others * clones + spread / 2))
    return np.unique(np.linspace(low, high, min(high - low + 1, _RUNS)).astype(np.int64))


def shuffled_epsilon_binary(*, users: int, epsilon: float, delta: float) -> float:
    """ε_c of n reports by binary response to one question, shuffled: the blanket is left with 2/(e^ε + 1)."""
    return _epsilon(users, epsilon, delta, 2 / (math.exp(checks.positive("epsilon", epsilon)) + 1))


def shuffled_epsilon_any(*, users: int, epsilon: float, delta: float) -> float:
    """ε_c of n reports by any ε-local randomizers, shuffled: FMT 2021, Thm 3.2, clones with e^−ε."""
    return _epsilon(users, epsilon, delta, math.exp(-checks.positive("epsilon", epsilon)))


def shuffled_epsilon_closed(*, users: int, epsilon: float, delta: float) -> float:
    """ε_c in closed form. FMT 2021, Thm 3.1: ln(1 + (e^ε−1)/(e^ε+1)·(8√(e^ε·ln(4/δ))/√n + 8e^ε/n))."""
    checks.count("users", users)
    checks.open_unit("delta", delta)
    odds = math.exp(checks.positive("epsilon", epsilon))
    remedy = "take more users, or a smaller ε"
    enough = odds * 16 * math.log(2 / delta) <= users
    checks.require(enough, "are too few: Thm 3.1 asks for ε <= ln(n/(16·ln(2/δ)))", where="users", remedy=remedy)
    apart = (odds - 1) / (odds + 1)
    return math.log1p(apart * (8 * math.sqrt(odds * math.log(4 / delta) / users) + 8 * odds / users))


def _epsilon(users: int, epsilon: float, delta: float, clones: float) -> float:
    """The least ε_c, from above, at which δ is enough; never more than ε."""
    checks.count("users", users)
    checks.open_unit("delta", delta)
    if users > EXACT:
        return min(epsilon, shuffled_epsilon_closed(users=users, epsilon=epsilon, delta=delta))
    low, high = 0.0, epsilon
    for _ in range(_STEPS):
        middle = (low + high) / 2
        enough = _delta(users - 1, epsilon, middle, clones, _LEFT_OUT * delta) <= delta
        low, high = (low, middle) if enough else (middle, high)
        if high - low <= 5e-4 * high:
            break
    return high


THEOREMS: Final = (
    Theorem(
        name="shuffling",
        title="What a trusted shuffler would add",
        citation="Balle, Bell, Gascón, Nissim 2019, §4; Feldman, McMillan, Talwar 2021, Thms 3.1 and 3.2",
        says="n local reports that somebody trusted permutes are (ε_c, δ)-differentially private together.",
        kind=Kind.PRICE,
        gives="epsilon",
        parameters=(
            Parameter("users", "n", "number of reports", int, 10_000),
            EPSILON,
            DELTA,
            Parameter("central", "ε_c", "ε of all reports together, for their δ", float, 0.05),
            Parameter("clones", "γ", "chance that another user's report is a coin", float, 0.5),
        ),
        stated=shuffled_epsilon_closed,
        sharp=shuffled_epsilon_binary,
        others=(shuffled_epsilon_any, shuffled_delta),
        needs="a shuffler, which Askance does not have: reports go straight to the aggregator. The sharp form is that "
        "of binary response to one question; where questions differ, who was asked which has to be hidden, too",
        checked_by=(
            "lab/theory/test_shuffling.py::test_no_population_of_a_few_users_is_told_apart_better_than_it_says",
            "lab/theory/test_shuffling.py::test_the_sum_is_that_of_all_coins_one_by_one",
        ),
    ),
)
