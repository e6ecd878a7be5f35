"""The registry of the trusted curator's mechanisms, found in this package's modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast

from askance_lab import curator
from askance_lab.curator.mechanism import AnyMechanism, Mechanism
from askance_protocol import discovery
from askance_protocol.errors import ProtocolError
from askance_protocol.text import one_of, quoted


@cache
def mechanisms() -> Mapping[str, AnyMechanism]:
    """All mechanisms by name, in their order of listing."""
    every = cast("Iterator[AnyMechanism]", discovery.records(curator, "MECHANISM", Mechanism))
    found = sorted(every, key=lambda each: (each.place, each.name))
    return {each.name: each for each in found}


def mechanism(name: str) -> AnyMechanism:
    """The mechanism with this name, or an error that lists the names."""
    known = mechanisms()
    if name not in known:
        what = f"{quoted(name)} is nothing that a curator does here"
        raise ProtocolError(what, where="NAME", remedy=one_of(name, known))
    return known[name]
