"""What `askance curator` found, for programs and for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from askance_lab.curator.catalogue import Mechanism
from askance_lab.curator.inputs import ConceptClass, MechanismInput, ones

_EXACT: Final = 1 << 53
"""Above it a JSON number may be read as another: then it is a string."""


def value(chosen: Mechanism, d: int, found: Any) -> Mapping[str, Any]:
    """As strategies and populations write it; what is no hypothesis is an answer."""
    if chosen.off is not None:
        return {"answer": _plain(found)}
    match chosen.kind:
        case ConceptClass.PARITY:
            return {"r": "".join(str(found >> i & 1) for i in range(d))}
        case ConceptClass.MASKED_PARITY:
            return dict(found)
        case ConceptClass.CONJUNCTION:
            return {"variables": list(found)}
        case ConceptClass.POINT:
            return {"point": _plain(found)}
        case ConceptClass.INTERVAL:
            return {"threshold": _plain(found)}


def text(chosen: Mechanism, given: MechanismInput, d: int, found: Any) -> str:
    """In the words of the table, if it is one's own."""
    if found is None:
        return "⊥"
    if chosen.off is not None:
        return str(_plain(found))
    says: Mapping[ConceptClass, Callable[[], str]] = {
        ConceptClass.PARITY: lambda: "odd " + (" ⊕ ".join(_named(given, ones(d, found))) or "0"),
        ConceptClass.MASKED_PARITY: lambda: f"r = {found['r']}, a = {found['a']}",
        ConceptClass.CONJUNCTION: lambda: " ∧ ".join(_named(given, found)) or "true",
        ConceptClass.POINT: lambda: f"x = {given.show(found)}",
        ConceptClass.INTERVAL: lambda: f"x < {given.show(found)}",
    }
    return says[chosen.kind]()


def _named(given: MechanismInput, places: tuple[int, ...]) -> list[str]:
    return [given.features[i] if given.features else f"x_{i}" for i in places]


def _plain(found: float | Mapping[int, int]) -> Any:
    if isinstance(found, int | float):
        return found if abs(found) < _EXACT else str(found)
    return {str(key): _plain(each) for key, each in found.items()}
