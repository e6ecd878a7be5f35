"""The registry of strategies: the modules of this package, and entry points of other packages.

A strategy of this package is found by its file: module `decision_list` ends with a `Strategy` named `decision-list`.
A file or an entry point that gives none is broken: it touches no other, and is listed with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from askance_protocol import discovery
from askance_server import strategies
from askance_server.core.run import guarded
from askance_server.core.strategy import Features, Strategy

GROUP: Final = "askance.strategies"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
_MEMBERS: Final[Mapping[str, type]] = {"summary": str, "interactive": bool, "rounds": int, "portions": tuple}
_OPTIONAL: Final[Mapping[str, type]] = {"examples": str, "features": Features, "small": Mapping, "former": Strategy}


class BrokenStrategyError(Exception):
    """A file or an entry point that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class Registry(Mapping[str, Strategy]):
    """Strategies by name, and the files and entry points that gave none, with the reason of each."""

    usable: Mapping[str, Strategy]
    broken: Mapping[str, str]

    def __getitem__(self, name: str) -> Strategy:
        return self.usable[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.usable)

    def __len__(self) -> int:
        return len(self.usable)


def registry() -> Registry:
    """Find all strategies. A broken one does not affect the others; no name can be taken over."""
    built, faults = of_package()
    usable, broken = dict(built), dict(faults)
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            usable[point.name] = _load(point, usable)
        except BrokenStrategyError as error:
            broken[point.name] = str(error)
    return Registry(usable, broken)


@cache
def of_package() -> tuple[Mapping[str, Strategy], Mapping[str, str]]:
    """The strategies of this package's files, and what is wrong with the files that have none."""
    usable: dict[str, Strategy] = {}
    broken: dict[str, str] = {}
    for module in discovery.names(strategies):
        if module == "registry":
            continue
        name = module.replace("_", "-")
        try:
            usable[name] = _of_module(module, name)
        except BrokenStrategyError as error:
            broken[name] = str(error)
    return usable, broken


def _of_module(module: str, name: str) -> Strategy:
    file = f"strategies/{module}.py"
    try:
        # The last one of its name: what a file may have imported is a former form.
        found = reversed(vars(import_module(f"{strategies.__name__}.{module}")).values())
    except (Exception, SystemExit) as error:
        raise BrokenStrategyError(f"{file}: {type(error).__name__}: {_one_line(error)}") from error
    for each in found:
        if isinstance(each, Strategy) and each.name == name:
            return each
    raise BrokenStrategyError(f"{file}: has no Strategy that is named {name!r}; name it as its file")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _load(point: EntryPoint, taken: Mapping[str, Strategy]) -> Strategy:
    """Load the strategy that an entry point names."""
    if point.name in taken:
        raise BrokenStrategyError(f"{point.value}: another strategy has this name already")
    try:
        strategy: object = point.load()
    except (Exception, SystemExit) as error:
        raise BrokenStrategyError(f"{point.value}: {type(error).__name__}: {_one_line(error)}") from error
    if not isinstance(strategy, Strategy):
        raise BrokenStrategyError(f"{point.value}: is a {type(strategy).__name__}, not a Strategy")
    if strategy.name != point.name or not _NAME.fullmatch(point.name):
        raise BrokenStrategyError(f"{point.value}: its name is {strategy.name!r}; give the entry point that name")
    if wrong := _wrong_members(strategy):
        raise BrokenStrategyError(f"{point.value}: {wrong}")
    if strategy.rounds < 1:
        raise BrokenStrategyError(f"{point.value}: declares {strategy.rounds} rounds; declare one at least")
    if strategy.portions and (len(strategy.portions) != strategy.rounds or min(strategy.portions) < 1):
        raise BrokenStrategyError(f"{point.value}: its portions are not one whole number for each of its rounds")
    return guarded(strategy)


def _wrong_members(strategy: Strategy) -> str:
    """What of a strategy is of another type than it is declared: nothing has checked that before. Empty: nothing."""
    for name, kind in _MEMBERS.items():
        value: object = getattr(strategy, name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return f"its {name} is a {type(value).__name__}, not a {kind.__name__}"
    if not all(isinstance(portion, int) for portion in cast("tuple[object, ...]", strategy.portions)):
        return "its portions are not whole numbers"
    for name in ("schema", "run", "over", "fields", "portions_for", "predict", "promise", "error", "cost", "positive"):
        value = getattr(strategy, name)
        if not callable(value) and (value is not None or name in {"schema", "run"}):
            return f"its {name} is a {type(value).__name__}, not a function"
    if strategy.longest not in (None, "ones") and not callable(strategy.longest):
        return 'its longest is neither "ones" nor a function'
    for name, kind in _OPTIONAL.items():
        value = getattr(strategy, name)
        if value is not None and not isinstance(value, kind):
            return f"its {name} is a {type(value).__name__}, not a {kind.__name__}"
    return ""
