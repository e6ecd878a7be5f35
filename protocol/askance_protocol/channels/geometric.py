"""The two-sided geometric mechanism on a grid (N21, §2): integer noise, clamped to the range of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from askance_protocol.channels.additive import NANO, SLACK_NANO, WEIGHT_WORK, AdditiveNoise
from askance_protocol.channels.channel import ChannelKind, EpsilonSpec
from askance_protocol.channels.ratio import SCALE_BITS, WORD, exp_scaled
from askance_protocol.queries import Query, RealQuery
from askance_protocol.schema import Schema


@dataclass(frozen=True, slots=True)
class TwoSidedGeometric(AdditiveNoise):
    """Two-sided geometric noise, clamped to the inputs (N21, §2).

    Pr[noise = k] = α^(−|k|) · (α − 1)/(α + 1) with α^range = e^ε.
    """

    kind: ClassVar[str] = "geometric"

    @property
    def pad(self) -> int:
        """None: the outcomes are the inputs."""
        return 0

    def tail(self, step: int) -> int:
        """The tail in words: 2⁶⁴ · α^(1−step)/(α + 1) = 2⁶⁴ / (α^step + α^(step−1))."""
        return (WORD << SCALE_BITS) // (self._power(step) + self._power(step - 1))

    def _power(self, step: int) -> int:
        return exp_scaled((self.micro_epsilon * 1000 - SLACK_NANO) * step, NANO * self.range)


class GeometricSpec(EpsilonSpec):
    """Two-sided geometric noise on the numerator of a real query."""

    kind: Literal["geometric"] = "geometric"
    answers = "a real query"

    def build(self, query: Query, schema: Schema) -> TwoSidedGeometric:  # noqa: ARG002 - the denominator says the range
        """A range of 2D steps for a numerator over D."""
        if not isinstance(query, RealQuery):
            raise self.refuse(query)
        return _noise(self.micro_epsilon, 2 * query.denominator)

    def outcomes(self, query: Query, schema: Schema) -> int:  # noqa: ARG002 - the denominator says the range
        """One for each numerator."""
        if not isinstance(query, RealQuery):
            raise self.refuse(query)
        return 2 * query.denominator + 1

    def work(self, query: Query) -> int:
        """The weight of each outcome is a quotient of large integers."""
        return WEIGHT_WORK * 2 * query.denominator if isinstance(query, RealQuery) else 1


# Built once: certifying a large table takes a moment, and a round is prepared more often than its channels change.
_noise = lru_cache(maxsize=64)(TwoSidedGeometric)

CHANNEL = ChannelKind(
    "geometric",
    "an integer plus two-sided geometric noise, clamped to 0 .. range",
    GeometricSpec,
    options={"range": (10, "inputs are 0 .. range")},
    build=TwoSidedGeometric,
)
