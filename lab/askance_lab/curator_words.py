"""What `askance curator` found, for programs and for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from askance_lab.curator_catalogue import Entry
from askance_lab.curator_data import Given, Kind, ones

_EXACT: Final = 1 << 53
"""Above it a JSON number may be read as another: then it is a string."""


def value(chosen: Entry, d: int, found: Any) -> Mapping[str, Any]:
    """As strategies and populations write it; what is no hypothesis is an answer."""
    if chosen.off is not None:
        return {"answer": _plain(found)}
    match chosen.kind:
        case Kind.PARITY:
            return {"r": "".join(str(found >> i & 1) for i in range(d))}
        case Kind.MASKED_PARITY:
            return dict(found)
        case Kind.CONJUNCTION:
            return {"variables": list(found)}
        case Kind.POINT:
            return {"point": _plain(found)}
        case Kind.INTERVAL:
            return {"threshold": _plain(found)}


def text(chosen: Entry, given: Given, d: int, found: Any) -> str:
    """In the words of the table, if it is one's own."""
    if found is None:
        return "⊥"
    if chosen.off is not None:
        return str(_plain(found))
    says: Mapping[Kind, Callable[[], str]] = {
        Kind.PARITY: lambda: "odd " + (" ⊕ ".join(_named(given, ones(d, found))) or "0"),
        Kind.MASKED_PARITY: lambda: f"r = {found['r']}, a = {found['a']}",
        Kind.CONJUNCTION: lambda: " ∧ ".join(_named(given, found)) or "true",
        Kind.POINT: lambda: f"x = {given.show(found)}",
        Kind.INTERVAL: lambda: f"x < {given.show(found)}",
    }
    return says[chosen.kind]()


def _named(given: Given, places: tuple[int, ...]) -> list[str]:
    return [given.features[i] if given.features else f"x_{i}" for i in places]


def _plain(found: float | Mapping[int, int]) -> Any:
    if isinstance(found, int | float):
        return found if abs(found) < _EXACT else str(found)
    return {str(key): _plain(each) for key, each in found.items()}
