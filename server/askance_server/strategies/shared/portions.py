"""How two rounds of A_MP share the users of a study that takes all of them: by what each needs."""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

MOST_TO_ONE: Final = 200
"""How many times the users of the second round the first one has at most: half a percent insures the second well."""


def by_need(users: float, answers: int) -> tuple[int, int]:
    """Portions of a first round with so many answers that takes, at one rate of failure, so many times the users.

    The answers of a round share its failure, so each takes more users, as the squares of the normal tails: at β = 0.05,
    as a strategy knows neither β nor ε. They hardly change the ratio: from ε = 0.5 to 4, by a fifth.
    """
    first, second = (NormalDist().inv_cdf(1 - 0.05 / 4 / number) for number in (answers, 1))
    return round(min(users * (first / second) ** 2, MOST_TO_ONE)), 1
