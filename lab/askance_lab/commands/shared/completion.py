"""What a shell completes: the words that options and arguments take, looked up only when a shell asks for them.

A shell calls the command with `_ASKANCE_COMPLETE` set. The names of commands are those of files and cost no import; the
options and words of a command cost the import of that command, and of no other.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import typer

_SAFE: Final = re.compile(r"[\w.+-]+")
"""A column that a shell can insert as it stands; it would have to quote another."""

Completer: TypeAlias = Callable[[str], list[str]]


def words_of(module: str, attribute: str, *more: str) -> Completer:
    """Completes the names that a function or a table of a module has, and `more`; the module is loaded when asked."""

    def complete(incomplete: str) -> list[str]:
        found: Any = getattr(import_module(module), attribute)
        known = cast("Iterable[str]", found() if callable(found) else found)
        return [name for name in (*more, *known) if name.startswith(incomplete)]

    return complete


def words(*known: str) -> Completer:
    """Completes these words."""
    return lambda incomplete: [word for word in known if word.startswith(incomplete)]


STRATEGIES: Final = words_of("askance_server.strategies.registry", "registry")
POPULATIONS: Final = words_of("askance_client.simulation.population", "KINDS")


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the columns of the table that the line names already: its first row, if it is a CSV file."""
    given: Mapping[str, Any] = ctx.params
    data = given.get("data")
    if not isinstance(data, Path) or data.suffix != ".csv":
        return []
    with data.open(encoding="utf-8-sig", newline="") as file:
        names = next(csv.reader(file), list[str]())
    return [name for name in names if name.startswith(incomplete) and _SAFE.fullmatch(name)]
