"""A channel, as the commands name it: its kind, its ε and its size."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import typer

from askance_protocol.budget import limit_from_text
from askance_protocol.channels import BinaryResponse, Channel, DiscreteLaplace, KaryResponse, TwoSidedGeometric
from askance_protocol.errors import UsageError

_DEFAULT_K: Final = 4
_DEFAULT_RANGE: Final = 10


class ChannelKind(StrEnum):
    """The kinds of channel."""

    BINARY = "binary"
    KARY = "kary"
    GEOMETRIC = "geometric"
    LAPLACE = "laplace"


KindOption: TypeAlias = Annotated[ChannelKind, typer.Option("--kind", help="Which randomizer.")]
ChannelEpsilonOption: TypeAlias = Annotated[
    str, typer.Option("--epsilon", help="Privacy parameter ε of the channel, in decimal; six digits of it count.")
]
KOption: TypeAlias = Annotated[
    int | None, typer.Option("--k", help=f"Number of categories of a kary channel.  [default: {_DEFAULT_K}]")
]
RangeOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--range", help=f"Largest input of a geometric or laplace channel; the least is 0.  [default: {_DEFAULT_RANGE}]"
    ),
]


def build(kind: ChannelKind, epsilon: str, k: int | None, range_: int | None) -> Channel:
    """The channel that the options name. An option that its kind does not have is refused."""
    micro_epsilon = limit_from_text(epsilon)
    if k is not None and kind is not ChannelKind.KARY:
        raise UsageError(f"a {kind} channel has no k", where="--k", remedy="leave it out, or use --kind kary")
    if range_ is not None and kind not in {ChannelKind.GEOMETRIC, ChannelKind.LAPLACE}:
        raise UsageError(f"a {kind} channel has no range", where="--range", remedy="leave it out")
    match kind:
        case ChannelKind.BINARY:
            return BinaryResponse(micro_epsilon)
        case ChannelKind.KARY:
            return KaryResponse(micro_epsilon, _DEFAULT_K if k is None else k)
        case ChannelKind.GEOMETRIC:
            return TwoSidedGeometric(micro_epsilon, _DEFAULT_RANGE if range_ is None else range_)
        case ChannelKind.LAPLACE:
            return DiscreteLaplace(micro_epsilon, _DEFAULT_RANGE if range_ is None else range_)
