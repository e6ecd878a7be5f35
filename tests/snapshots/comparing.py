"""A surface, its file, and what a change of it is to whoever relies on it.

A *surface* is what one kind of user relies on: owners (a command, an endpoint, a class), each with members (an option,
a field, a parameter), a line each. A line that is gone breaks something; a line that is new does not, but in two cases:
what is asked for where it was not, and null in an answer that was never null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Surface = Mapping[str, Iterable[str]]

_INDENT = "    "
_REQUIRED = ", required"
_NULL = ": null"


@dataclass(frozen=True, slots=True)
class Difference:
    """Lines that are gone or ask for more, and lines that are new."""

    broken: tuple[str, ...]
    added: tuple[str, ...]


def written(surface: Surface) -> str:
    """A surface as a file: each owner, and its members below it, in alphabetical order."""
    lines = list[str]()
    for owner in sorted(surface):
        lines += [owner, *(_INDENT + member for member in sorted(set(surface[owner])))]
    return "\n".join(lines) + "\n"


def read(text: str) -> dict[str, set[str]]:
    """The surface that a file has."""
    surface = dict[str, set[str]]()
    owner = ""
    for line in text.splitlines():
        if line.startswith(_INDENT):
            surface[owner].add(line.removeprefix(_INDENT))
        else:
            owner = line
            surface[owner] = set()
    return surface


def difference(promised: Surface, now: Surface) -> Difference:
    """What of a surface is broken, and what is new."""
    old = {owner: set(members) for owner, members in promised.items()}
    new = {owner: set(members) for owner, members in now.items()}
    broken, added = list[str](), list[str]()
    for owner in sorted(old.keys() | new.keys()):
        if owner not in new:
            broken.append(f"{owner}: is gone")
            continue
        if owner not in old:
            added.append(owner)
        broken += [f"{owner}: {member}: is gone" for member in sorted(old.get(owner, set()) - new[owner])]
        for member in sorted(new[owner] - old.get(owner, set())):
            why = asks_more(owner, member, old) if owner in old else ""
            broken += [f"{owner}: {member}: {why}"] * bool(why)
            added += [f"{owner}: {member}"] * (not why)
    return Difference(tuple(broken), tuple(added))


def asks_more(owner: str, member: str, promised: Mapping[str, set[str]]) -> str:
    """Why a line breaks something though it is new; empty if it does not."""
    if member.endswith(_REQUIRED):
        return "is new, and required"
    name = member.removesuffix(_NULL)
    known = any(line.startswith(f"{name}: ") for line in promised[owner])
    return "may be null now" if member.endswith(_NULL) and known else ""
