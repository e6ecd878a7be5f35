"""The Laplace mechanism of KLNRS11, §5.1.1, rounded to a grid and clamped one range beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance_protocol.channels.additive import NANO, SLACK_NANO, AdditiveNoise, AdditiveSpec
from askance_protocol.channels.channel import ChannelKind
from askance_protocol.channels.ratio import SCALE_BITS, WORD, exp_scaled


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(AdditiveNoise):
    """Laplace noise, rounded to a grid and clamped: R(u) = g(u) + Lap(2b/ε) of KLNRS11, §5.1.1.

    The grid has `range` steps from −b to b, so noise of scale 2b/ε is noise of scale range/ε in steps. Rounding
    and clamping are post-processing: the ε is that of the paper.
    """

    kind: ClassVar[str] = "laplace"
    padding: ClassVar[int] = 1
    """One whole range on each side."""

    def tail(self, step: int) -> int:
        """The tail in words: 2⁶⁴ · Pr[Lap(range/ε) ≤ −(step − ½)] = 2⁶³ · e^(−(step − ½)·ε/range)."""
        exponent = (self.micro_epsilon * 1000 - SLACK_NANO) * (2 * step - 1)
        return (WORD << SCALE_BITS - 1) // exp_scaled(exponent, 2 * NANO * self.range)


class LaplaceSpec(AdditiveSpec):
    """Discretised Laplace noise on the numerator of a real query."""

    kind: Literal["laplace"] = "laplace"
    noise = DiscreteLaplace


CHANNEL = ChannelKind(
    "laplace",
    "an integer plus discretised Laplace noise, clamped to one range beyond 0 .. range",
    LaplaceSpec,
    options={"range": (10, "inputs are 0 .. range")},
    build=DiscreteLaplace,
)
