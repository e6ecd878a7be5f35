"""ε-local randomizers as exact integer tables (KLNRS11, Def. 5.1 and 5.13)."""

from askance_protocol.channels.additive import DiscreteLaplace, TwoSidedGeometric
from askance_protocol.channels.binary import BinaryResponse
from askance_protocol.channels.channel import Channel, Sample
from askance_protocol.channels.kary import KaryResponse
from askance_protocol.channels.tabulated import TabulatedChannel

__all__ = [
    "BinaryResponse",
    "Channel",
    "DiscreteLaplace",
    "KaryResponse",
    "Sample",
    "TabulatedChannel",
    "TwoSidedGeometric",
]
