"""The two-sided geometric mechanism on a grid (N21, §2): integer noise, clamped to the range of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance_protocol.channels.additive import NANO, SLACK_NANO, AdditiveNoise, AdditiveSpec
from askance_protocol.channels.channel import ChannelKind
from askance_protocol.channels.ratio import SCALE_BITS, WORD, exp_scaled


@dataclass(frozen=True, slots=True)
class TwoSidedGeometric(AdditiveNoise):
    """Two-sided geometric noise, clamped to the inputs (N21, §2).

    Pr[noise = k] = α^(−|k|) · (α − 1)/(α + 1) with α^range = e^ε.
    """

    kind: ClassVar[str] = "geometric"
    padding: ClassVar[int] = 0
    """The outcomes are the inputs."""

    def tail(self, step: int) -> int:
        """The tail in words: 2⁶⁴ · α^(1−step)/(α + 1) = 2⁶⁴ / (α^step + α^(step−1))."""
        return (WORD << SCALE_BITS) // (self._power(step) + self._power(step - 1))

    def _power(self, step: int) -> int:
        return exp_scaled((self.micro_epsilon * 1000 - SLACK_NANO) * step, NANO * self.range)


class GeometricSpec(AdditiveSpec):
    """Two-sided geometric noise on the numerator of a real query."""

    kind: Literal["geometric"] = "geometric"
    noise = TwoSidedGeometric


CHANNEL = ChannelKind(
    "geometric",
    "an integer plus two-sided geometric noise, clamped to 0 .. range",
    GeometricSpec,
    options={"range": (10, "inputs are 0 .. range")},
    build=TwoSidedGeometric,
)
