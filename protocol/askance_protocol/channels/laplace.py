"""The Laplace mechanism of KLNRS11, §5.1.1, rounded to a grid and clamped one range beyond it."""

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
class DiscreteLaplace(AdditiveNoise):
    """Laplace noise, rounded to a grid and clamped: R(u) = g(u) + Lap(2b/ε) of KLNRS11, §5.1.1.

    The grid has `range` steps from −b to b, so noise of scale 2b/ε is noise of scale range/ε in steps. Rounding
    and clamping are post-processing: the ε is that of the paper.
    """

    kind: ClassVar[str] = "laplace"

    @property
    def pad(self) -> int:
        """One whole range on each side."""
        return self.range

    def tail(self, step: int) -> int:
        """The tail in words: 2⁶⁴ · Pr[Lap(range/ε) ≤ −(step − ½)] = 2⁶³ · e^(−(step − ½)·ε/range)."""
        exponent = (self.micro_epsilon * 1000 - SLACK_NANO) * (2 * step - 1)
        return (WORD << SCALE_BITS - 1) // exp_scaled(exponent, 2 * NANO * self.range)


class LaplaceSpec(EpsilonSpec):
    """Discretised Laplace noise on the numerator of a real query."""

    kind: Literal["laplace"] = "laplace"
    answers = "a real query"

    def build(self, query: Query, schema: Schema) -> DiscreteLaplace:  # noqa: ARG002 - the denominator says the range
        """A range of 2D steps for a numerator over D."""
        if not isinstance(query, RealQuery):
            raise self.refuse(query)
        return _noise(self.micro_epsilon, 2 * query.denominator)

    def outcomes(self, query: Query, schema: Schema) -> int:  # noqa: ARG002 - the denominator says the range
        """One for each numerator, and a range on each side."""
        if not isinstance(query, RealQuery):
            raise self.refuse(query)
        return 6 * query.denominator + 1

    def work(self, query: Query) -> int:
        """The weight of each outcome is a quotient of large integers."""
        return WEIGHT_WORK * 6 * query.denominator if isinstance(query, RealQuery) else 1


# Built once: certifying a large table takes a moment, and a round is prepared more often than its channels change.
_noise = lru_cache(maxsize=64)(DiscreteLaplace)

CHANNEL = ChannelKind(
    "laplace",
    "an integer plus discretised Laplace noise, clamped to one range beyond 0 .. range",
    LaplaceSpec,
    options={"range": (10, "inputs are 0 .. range")},
    build=DiscreteLaplace,
)
