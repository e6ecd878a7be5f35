"""The registry of the trusted curator's mechanisms, found in this package's modules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache

from askance_lab import curator
from askance_lab.curator.mechanism import AnyMechanism, Mechanism
from askance_protocol.errors import ProtocolError


@cache
def mechanisms() -> Mapping[str, AnyMechanism]:
    """All mechanisms by name, in their order of listing."""
    found = sorted(_found(), key=lambda each: (each.place, each.name))
    return {each.name: each for each in found}


def mechanism(name: str) -> AnyMechanism:
    """The mechanism with this name, or an error that lists the names."""
    known = mechanisms()
    if name not in known:
        remedy = f"use one of {', '.join(known)}"
        raise ProtocolError(f"{name!r} is nothing that a curator does here", where="NAME", remedy=remedy)
    return known[name]


def _found() -> Iterable[AnyMechanism]:
    """Import each module; one without a MECHANISM supports the others."""
    for module in pkgutil.iter_modules(curator.__path__, f"{curator.__name__}."):
        each = getattr(importlib.import_module(module.name), "MECHANISM", None)
        if isinstance(each, Mechanism):
            yield each
