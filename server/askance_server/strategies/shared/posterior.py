"""The likeliest (r, a) after the reports so far, and the r that are worth asking about next.

Theory of operation
-------------------
*Two kinds of evidence.* The users with b = 1 show the bits of r, all at once: the signed share of cell j has mean
(−1)^{r_j}/(2d). The users with b = 0 show one candidate r̂ at a time: the share of y·χ_r̂ has mean (−1)^a/2 if r̂ = r,
else 0 (KLNRS11, proof of Prop. 5.18). By Parseval Σ_r̂ E[f·χ_r̂]² ≤ 1 for every question |f| ≤ 1 that they could be
asked, so asking about many at once tells no more than asking about each in turn.

*Likelihoods.* A share is normal to within what matters, so one of noise variance v turns the odds of its mean being m
against −m by 2m·share/v nats, and those of ±m (a is open) against 0 by ln cosh(m·share/v) − m²/(2v). The noise is read
off cells that nobody is in: neither the users nor ε have to be known.

*Certainty.* By their bits the probabilities of all 2^d are a product, and only of those asked about is more known: so
their sum is known, though most of them are on no list. A list that is taken for all there is would be sure of a wrong
r̂ as soon as it had ruled out the others on it.

*Search.* The best way to look for one needle is to look where it is likeliest. A question to n users about a wrong
r̂ lowers its log odds by n/(8C²) on average, C = (e^ε + 1)/(e^ε − 1). So users are poured onto the candidates like
water: each gets what brings it down to one common level, and none is asked about that would get a few users only. Who
is asked about a candidate and has b = 1 shows a bit of r as in the first round, so no user is wasted and the list grows
shorter from round to round.

This leans on errors that are random. An oracle that errs as it likes within a tolerance (KLNRS11, Def. 5.4) is met by
`masked_parity_two_rounds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats
from askance_server.core.strategy import Reports

MOST: Final = 1000
"""Candidates that are looked at, and so the most parts of a round."""
HOPELESS: Final = 12.0
"""Nats below the likeliest under which no candidate is asked about: one in 160,000."""
FEWEST: Final = 20
"""Users whom a candidate is asked of at least, so that no part of a round has nobody."""
DEALT: Final = 1_000_000
"""What the weights of a round add up to: users are dealt to its candidates by real numbers, to within this."""
SEVERAL_BITS: Final = 1_500_000
"""Micro-ε from which a report is of several bits: a bucket of cells, and not the sign of one half of them."""
_EXACT: Final = 1e-9
"""An oracle without any noise is taken to have this little."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate, bit j of `r` for r_j, and its share of the users."""

    r: int
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Best:
    """The likeliest concept of those asked about."""

    r: str
    a: int
    probability: float


class Posterior:
    """Log-likelihoods of all answers so far, in nats."""

    def __init__(self, d: int, c: float = 1.0) -> None:
        self._d = d
        self._least = FEWEST / (8 * c * c)
        """Nats that a candidate is asked for at least. C is 1 at least, so without it they are too many, never too few.
        """
        self._bits: Floats = np.zeros(d)
        """ln of the odds of r_j = 0."""
        self._masked: dict[int, tuple[float, float]] = {}
        """By candidate: m·share/v and m²/(2v), summed, for m = 1/2."""
        self._ranked: tuple[NDArray[np.uint64], Floats] | None = None

    def hear(self, trials: Sequence[Candidate], answers: Sequence[Floats]) -> float:
        """Add the answers of a round, one for each trial. Returns C² over its users, by its noise."""
        self._ranked = None
        weights = np.array([trial.weight for trial in trials])
        weights = weights / weights.sum()
        shares = np.array(answers)
        # Cells beyond d are empty, so what they show is noise; its variance goes as 1/users.
        noise = max(float((weights @ shares[:, self._d + 1 :] ** 2).mean()) / len(trials), _EXACT)
        self._bits += weights @ shares[:, : self._d] / (self._d * noise)
        for trial, weight, share in zip(trials, weights.tolist(), shares[:, self._d].tolist(), strict=True):
            tilt, fall = self._masked.get(trial.r, (0.0, 0.0))
            precision = weight / noise
            self._masked[trial.r] = (tilt + precision * share / 2, fall + precision / 8)
        return noise

    def ranking(self) -> tuple[NDArray[np.uint64], Floats]:
        """Candidates and their log probabilities, likeliest first: the best by their bits, and those asked about."""
        if self._ranked is None:
            self._ranked = self._rank()
        return self._ranked

    def _rank(self) -> tuple[NDArray[np.uint64], Floats]:
        reliable = np.abs(self._bits)
        costs, flips = cheapest(reliable, MOST)
        signs = np.uint64(sum(1 << j for j in np.flatnonzero(self._bits < 0).tolist()))
        asked = np.array(list(self._masked), np.uint64)
        tilt, fall = np.array(list(self._masked.values())).reshape(-1, 2).T
        by_bits = -(positions(asked ^ signs, self._d) @ reliable)
        masked = by_bits + np.logaddexp(tilt, -tilt) - np.log(2) - fall
        unasked = ~np.isin(flips ^ signs, asked)
        every = np.concatenate([asked, (flips ^ signs)[unasked]])
        logs = np.concatenate([masked, -costs[unasked]])
        order = np.lexsort((every, -logs))
        # All 2^d of them, of which most are on no list: by their bits a product, but for those asked about.
        others = np.exp(np.log1p(np.exp(-reliable)).sum()) - np.exp(by_bits).sum()
        listed = np.logaddexp.reduce(masked)
        total = np.logaddexp(listed, np.log(others)) if others > 0 else listed
        return every[order], logs[order] - max(total, np.logaddexp.reduce(logs))

    def worth(self, users: float, most: int = MOST, depth: float = 1.0) -> list[Candidate]:
        """Candidates to ask about next, with this number of users over C².

        With a depth each gets so many times the users that bring it to the common level: where few rounds are left,
        fewer candidates are looked at, and each well.
        """
        ranked, logs = self.ranking()
        nats = users / 8
        logs = logs[: max(1, min(most, MOST, int((logs > logs[0] - HOPELESS).sum())))]
        above = above_water(logs, nats / depth)
        # The last of those that are kept has the least, and shares what the others leave.
        kept = max(1, int((above * nats >= self._least * np.cumsum(above)).sum()))
        dealt = largest_remainders(above[:kept], DEALT)
        return [Candidate(r, weight) for r, weight in zip(ranked[:kept].tolist(), dealt, strict=True)]

    def best(self) -> Best:
        """Most probable concept; the mask bit is the sign of the answers."""
        ranked, logs = self.ranking()
        place, r = next((place, r) for place, r in enumerate(ranked.tolist()) if r in self._masked)
        text = "".join(str(r >> j & 1) for j in range(self._d))
        return Best(text, int(self._masked[r][0] < 0), float(np.exp(logs[place])))


def shrinkage(reports: Reports) -> float:
    """C = (e^ε + 1)/(e^ε − 1): randomized response divides a ±1 mean by it. KLNRS11, p. 4 (Warner)."""
    return 1 / math.tanh(reports.micro_epsilon / 2e6)


@dataclass(frozen=True, slots=True)
class WhatReportsTell:
    """What a report tells, as far as the search depends on it."""

    c: float = 1.0
    """C = (e^ε + 1)/(e^ε − 1), or less where ε is not known."""
    channel: Literal["binary", "best"] = "binary"

    @classmethod
    def by(cls, reports: Reports) -> WhatReportsTell:
        """Beyond one bit there is little to gain at ε = 1, and twice the reports at ε = 3 (`core.hashed_cells`)."""
        return cls(shrinkage(reports), "best" if reports.micro_epsilon >= SEVERAL_BITS else "binary")


UNKNOWN: Final = WhatReportsTell()
"""Where answers are not made from reports of a known ε."""


def positions(sets: NDArray[np.uint64], d: int) -> Floats:
    """A row for each bit mask: 1 at the positions that it holds."""
    return (sets[:, np.newaxis] >> np.arange(d, dtype=np.uint64) & np.uint64(1)).astype(np.float64)


def cheapest(costs: Floats, most: int) -> tuple[Floats, NDArray[np.uint64]]:
    """The cheapest sets of positions, as bit masks, the cheapest first; a set costs the sum of its positions.

    With positions taken by rising cost, what one of the cheapest sets has of the first few is one of the cheapest too.
    """
    sums, sets = np.zeros(1), np.zeros(1, np.uint64)
    for j in np.argsort(costs, kind="stable").tolist():
        if len(sums) == most and costs[j] >= sums[-1]:
            break
        longer = sets | np.uint64(1 << j)
        order = np.argsort(np.concatenate([sums, sums + costs[j]]), kind="stable")[:most]
        sums, sets = np.concatenate([sums, sums + costs[j]])[order], np.concatenate([sets, longer])[order]
    return sums, sets


def above_water(heights: Floats, volume: float) -> Floats:
    """Heights above the level at which these falling heights exceed it by `volume` in all."""
    levels = (np.cumsum(heights) - volume) / np.arange(1, len(heights) + 1)
    above = int(np.flatnonzero(heights > levels)[-1]) + 1
    return heights[:above] - levels[above - 1]


def largest_remainders(shares: Floats, whole: int) -> list[int]:
    """Whole numbers that add up to `whole`, in proportion to these shares to within one."""
    exact = shares * (whole / shares.sum())
    dealt = np.floor(exact)
    dealt[np.argsort(dealt - exact, kind="stable")[: round(whole - dealt.sum())]] += 1
    return [int(each) for each in dealt]
