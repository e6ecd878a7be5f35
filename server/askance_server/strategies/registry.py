"""The registry of strategies: the modules of this package, and entry points of other packages.

A strategy of this package is found by its file: module `decision_list` ends with a `Strategy` named `decision-list`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Final

from askance_server import strategies
from askance_server.core.run import guarded
from askance_server.core.strategy import Strategy

GROUP: Final = "askance.strategies"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)


class BrokenStrategyError(Exception):
    """An entry point that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class Registry(Mapping[str, Strategy]):
    """Strategies by name, and the entry points that failed, with the reason of each."""

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
    usable = {strategy.name: strategy for strategy in built_in()}
    broken: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            usable[point.name] = _load(point, usable)
        except BrokenStrategyError as error:
            broken[point.name] = str(error)
    return Registry(usable, broken)


@cache
def built_in() -> tuple[Strategy, ...]:
    """The strategies of this package, by name."""
    modules = (module.name for module in iter_modules(strategies.__path__) if not module.ispkg)
    return tuple(_of_module(name) for name in sorted(modules) if name != "registry")


def _of_module(name: str) -> Strategy:
    module = import_module(f"{strategies.__name__}.{name}")
    [found] = [
        each for each in vars(module).values() if isinstance(each, Strategy) and each.name == name.replace("_", "-")
    ]
    return found


def _load(point: EntryPoint, taken: Mapping[str, Strategy]) -> Strategy:
    """Load the strategy that an entry point names."""
    if point.name in taken:
        raise BrokenStrategyError(f"{point.value}: another strategy has this name already")
    try:
        strategy: object = point.load()
    except (Exception, SystemExit) as error:
        raise BrokenStrategyError(f"{point.value}: {type(error).__name__}: {error}") from error
    if not isinstance(strategy, Strategy):
        raise BrokenStrategyError(f"{point.value}: is a {type(strategy).__name__}, not a Strategy")
    if strategy.name != point.name or not _NAME.fullmatch(point.name):
        raise BrokenStrategyError(f"{point.value}: its name is {strategy.name!r}; give the entry point that name")
    if strategy.rounds < 1:
        raise BrokenStrategyError(f"{point.value}: declares {strategy.rounds} rounds; declare one at least")
    if strategy.portions and (len(strategy.portions) != strategy.rounds or min(strategy.portions) < 1):
        raise BrokenStrategyError(f"{point.value}: its portions are not one whole number for each of its rounds")
    return guarded(strategy)
