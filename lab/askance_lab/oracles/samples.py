"""Samples in the clear for an SQ algorithm (BB-notes, Thms 6 and 8). Nothing is private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_lab.evaluation.weighted import WeightedExamples, histogram, mean
from askance_lab.oracles.shared.oracle import Oracle, Spent
from askance_lab.oracles.shared.portions import Portioned, evenly
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.arrays import Floats
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import PreparedQuery
from askance_server.core.strategy import Answer, Ask


@dataclass(slots=True)
class Samples(Portioned):
    """Empirical means. All queries of a round share its examples: they were asked before these were drawn.

    (The proof of Thm 6 breaks the sample into a piece for each query. `apart` does so; where a round has one query, or
    its union bound is taken over the round, both are as sound.)
    """

    eta: float = 0.0
    """The rate at which the labels are wrong, of which the answers are cleared. The naive answer is that of 0."""
    apart: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.eta < 0.5:
            raise ProtocolError("is not below 1/2", where="eta", remedy="at 1/2 labels say nothing")

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Answers to a round from one shared piece of the sample."""
        if self.apart:
            # Not super(): a dataclass with slots is a new class, which the empty form does not find.
            return Portioned.answer(self, asks)
        size = sum(self.deal(len(self.portions) + 1, asks, self.crowd.left))
        queries = [self.prepared(ask) for ask in asks]
        sums: list[Floats | float] = [0.0 for _ in asks]
        for some in self.crowd.take(size):
            for number, query in enumerate(queries):
                sums[number] = sums[number] + self._counts(query, some)
        self.portions.append(size)
        return [mean(query.query, np.asarray(total)) for query, total in zip(queries, sums, strict=True)]

    def estimate(self, ask: Ask, size: int) -> Answer:
        """Answer from a separate piece of the sample."""
        query = self.prepared(ask)
        return mean(ask.query, np.sum([self._counts(query, some) for some in self.crowd.take(size)], axis=0))

    def _counts(self, query: PreparedQuery, some: WeightedExamples) -> Floats:
        """Histogram of the answers; under label noise a signed one, unbiased for the examples without noise.

        BB-notes, proof of Thm 8: with e(x) = (φ(x, 1) + φ(x, −1))/2 and f(x) = (φ(x, 1) − φ(x, −1))/2 the query is
        e(x) + f(x)·y, noise leaves e alone and shrinks the mean of f(x)·y by 1 − 2η. On an example (x, y) seen under
        noise, e + f·y/(1 − 2η) = ((1 − η)·φ(x, y) − η·φ(x, −y))/(1 − 2η).
        """
        seen: Floats = histogram(query, some).astype(np.float64)
        if not self.eta:
            return seen
        turned = histogram(query, some.flipped())
        return ((1 - self.eta) * seen - self.eta * turned) / (1 - 2 * self.eta)

    @property
    def spent(self) -> Spent:
        """No privacy: whole examples are seen."""
        return Spent(self.crowd.asked, None if self.crowd.asked else 0)


def _samples(setting: OracleSetting) -> Oracle:
    return Samples(setting.people, evenly(setting.planned), eta=setting.eta)


ORACLE: Final = OracleKind("samples", "means over examples that are seen in the clear", _samples)
