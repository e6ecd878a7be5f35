"""ε-local randomizers as exact integer tables (KLNRS11, Def. 5.1 and 5.13), a file a channel.

The package finds its own channels: every module that ends with a `CHANNEL`. A new channel is one new file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, Union

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from askance_protocol import discovery
from askance_protocol.channels.binary import BinaryResponse, BinarySpec
from askance_protocol.channels.channel import BaseChannelSpec, Channel, ChannelKind, Sample
from askance_protocol.channels.geometric import GeometricSpec, TwoSidedGeometric
from askance_protocol.channels.hashed import HashSpec
from askance_protocol.channels.kary import KaryResponse, KarySpec
from askance_protocol.channels.laplace import DiscreteLaplace, LaplaceSpec
from askance_protocol.channels.tabulated import TableSpec, TabulatedChannel

__all__ = [
    "CHANNELS",
    "BaseChannelSpec",
    "BinaryResponse",
    "BinarySpec",
    "Channel",
    "ChannelKind",
    "ChannelSpec",
    "DiscreteLaplace",
    "GeometricSpec",
    "HashSpec",
    "KaryResponse",
    "KarySpec",
    "LaplaceSpec",
    "Sample",
    "TableSpec",
    "TabulatedChannel",
    "TwoSidedGeometric",
]


def _found() -> dict[str, ChannelKind]:
    kinds: dict[str, ChannelKind] = {}
    for kind in discovery.records(sys.modules[__name__], "CHANNEL", ChannelKind):
        if kind.name in kinds:
            raise ImportError(f"two channels are called {kind.name!r}: rename one of them")
        kinds[kind.name] = kind
    return kinds


CHANNELS: Final[Mapping[str, ChannelKind]] = MappingProxyType(_found())
"""All kinds of channel, by name."""


class _AnyFoundSpec:
    """Makes the type of `ChannelSpec` for pydantic: one of the published forms that were found, told by its kind."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        specs = tuple(kind.spec for kind in CHANNELS.values())
        return handler.generate_schema(Annotated[Union[specs], Field(discriminator="kind")])  # noqa: UP007 - known at run time only


if TYPE_CHECKING:
    ChannelSpec: TypeAlias = BaseChannelSpec
else:
    # Not the base class: descriptions of an interface would list it beside the forms that there are.
    ChannelSpec = Annotated[Any, _AnyFoundSpec]
