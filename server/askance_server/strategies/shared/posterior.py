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

*Search.* The best way to look for one needle is to look where it is likeliest. A question to n users about a wrong
r̂ lowers its log odds by n/(8C²) on average, C = (e^ε + 1)/(e^ε − 1). So users are poured onto the candidates like
water: each gets what brings it down to one common level. Who is asked about a candidate and has b = 1 shows a bit of r
as in the first round, so no user is wasted and the list grows shorter from round to round.

This leans on errors that are random. An oracle that errs as it likes within a tolerance (KLNRS11, Def. 5.4) is met by
`masked_parity_two_rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats

MOST: Final = 1000
"""Candidates that are looked at, and so the most parts of a round."""
HOPELESS: Final = 12.0
"""Nats below certainty under which no candidate is asked about: one in 160,000."""
DEPTH: Final = 3.0
"""Users for a candidate, over those who would bring it to the common level: few candidates, and each looked at well."""
DECIDED: Final = 10
"""Nats above the common level that are paid for; more would only confirm."""
SURE: Final = 0.999
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
    sure: bool


class Posterior:
    """Log-likelihoods of all answers so far, in nats."""

    def __init__(self, d: int) -> None:
        self._d = d
        self._bits: Floats = np.zeros(d)
        """ln of the odds of r_j = 0."""
        self._masked: dict[int, tuple[float, float]] = {}
        """By candidate: m·share/v and m²/(2v), summed, for m = 1/2."""

    def hear(self, trials: Sequence[Candidate], answers: Sequence[Floats]) -> float:
        """Add the answers of a round, one for each trial. Returns the noise variance of weight 1."""
        weights = np.array([trial.weight for trial in trials])
        shares = np.array(answers)
        # Cells beyond d are empty, so what they show is noise; its variance goes as 1/users.
        noise = max(float((weights @ shares[:, self._d + 1 :] ** 2).mean()) / len(trials), _EXACT)
        self._bits += weights @ shares[:, : self._d] / (self._d * noise)
        for trial, share in zip(trials, shares[:, self._d].tolist(), strict=True):
            tilt, fall = self._masked.get(trial.r, (0.0, 0.0))
            precision = trial.weight / noise
            self._masked[trial.r] = (tilt + precision * share / 2, fall + precision / 8)
        return noise

    def ranking(self) -> tuple[list[int], Floats]:
        """Candidates and their log probabilities, likeliest first: the best by their bits, and those asked about."""
        costs, flips = cheapest(np.abs(self._bits), MOST)
        signs = sum(1 << j for j in np.flatnonzero(self._bits < 0).tolist())
        logs = {signs ^ flip: -cost for flip, cost in zip(flips.tolist(), costs.tolist(), strict=True)}
        for r, (tilt, fall) in self._masked.items():
            logs[r] = self._by_bits(r ^ signs) + float(np.logaddexp(tilt, -tilt)) - np.log(2) - fall
        ranked = sorted(logs, key=lambda r: (-logs[r], r))
        values = np.array([logs[r] for r in ranked])
        return ranked, values - np.logaddexp.reduce(values)

    def _by_bits(self, flips: int) -> float:
        return -sum(abs(float(self._bits[j])) for j in range(self._d) if flips >> j & 1)

    def worth(self, users: float) -> list[Candidate]:
        """Candidates to ask about next, with this number of users over C²."""
        ranked, logs = self.ranking()
        logs = logs[: max(1, min(MOST, int((logs > -HOPELESS).sum())))]
        weights = np.clip(np.rint(above_water(logs, users / (8 * DEPTH))), 0, DECIDED).astype(np.int64)
        weights = weights[weights > 0] if weights.any() else np.ones(1, np.int64)
        weights //= np.gcd.reduce(weights)
        return [Candidate(r, weight) for r, weight in zip(ranked, weights.tolist(), strict=False)]

    def best(self) -> Best:
        """Most probable concept; the mask bit is the sign of the answers."""
        ranked, logs = self.ranking()
        place = next(place for place, r in enumerate(ranked) if r in self._masked)
        r = ranked[place]
        text = "".join(str(r >> j & 1) for j in range(self._d))
        return Best(text, int(self._masked[r][0] < 0), bool(np.exp(logs[place]) > SURE))


def cheapest(costs: Floats, most: int) -> tuple[Floats, NDArray[np.uint64]]:
    """The cheapest sets of positions, as bit masks, the cheapest first; a set costs the sum of its positions.

    With positions taken by rising cost, what one of the cheapest sets has of the first few is one of the cheapest too.
    """
    sums, sets = np.zeros(1), np.zeros(1, np.uint64)
    for j in np.argsort(costs, kind="stable").tolist():
        longer = sets | np.uint64(1 << j)
        order = np.argsort(np.concatenate([sums, sums + costs[j]]), kind="stable")[:most]
        sums, sets = np.concatenate([sums, sums + costs[j]])[order], np.concatenate([sets, longer])[order]
    return sums, sets


def above_water(heights: Floats, volume: float) -> Floats:
    """Heights above the level at which these falling heights exceed it by `volume` in all."""
    levels = (np.cumsum(heights) - volume) / np.arange(1, len(heights) + 1)
    above = int(np.flatnonzero(heights > levels)[-1]) + 1
    return heights[:above] - levels[above - 1]
