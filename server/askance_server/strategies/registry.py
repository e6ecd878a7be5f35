"""Which strategies there are: the built-in ones, and those that installed packages name as entry points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from askance_server.core.strategy import Strategy
from askance_server.strategies.conjunction import CONJUNCTION
from askance_server.strategies.decision_list import DECISION_LIST
from askance_server.strategies.decision_tree import DECISION_TREE
from askance_server.strategies.histogram import HISTOGRAM
from askance_server.strategies.kmeans import KMEANS
from askance_server.strategies.masked_parity import MASKED_PARITY
from askance_server.strategies.masked_parity_noninteractive import MASKED_PARITY_NONINTERACTIVE
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED
from askance_server.strategies.masked_parity_two_rounds import MASKED_PARITY_TWO_ROUNDS
from askance_server.strategies.masked_parity_weak import MASKED_PARITY_WEAK
from askance_server.strategies.mean import MEAN
from askance_server.strategies.parity import PARITY
from askance_server.strategies.perceptron import PERCEPTRON

GROUP: Final = "askance.strategies"
BUILT_IN: Final = (
    MEAN,
    HISTOGRAM,
    CONJUNCTION,
    MASKED_PARITY,
    MASKED_PARITY_POOLED,
    MASKED_PARITY_NONINTERACTIVE,
    MASKED_PARITY_WEAK,
    PARITY,
    DECISION_LIST,
    DECISION_TREE,
    PERCEPTRON,
    KMEANS,
    MASKED_PARITY_TWO_ROUNDS,
)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)


class BrokenStrategyError(Exception):
    """An entry point cannot be used. Says why."""


@dataclass(frozen=True, slots=True)
class Registry(Mapping[str, Strategy]):
    """Strategies by their names, and the entry points that gave none, with the reason of each."""

    usable: Mapping[str, Strategy]
    broken: Mapping[str, str]

    def __getitem__(self, name: str) -> Strategy:
        return self.usable[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.usable)

    def __len__(self) -> int:
        return len(self.usable)


def registry() -> Registry:
    """Look for strategies. One that is broken does not touch the others; no name is taken over."""
    usable = {strategy.name: strategy for strategy in BUILT_IN}
    broken: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            usable[point.name] = _load(point, usable)
        except BrokenStrategyError as error:
            broken[point.name] = str(error)
    return Registry(usable, broken)


def _load(point: EntryPoint, taken: Mapping[str, Strategy]) -> Strategy:
    """The strategy that an entry point names."""
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
    return strategy
