"""How many users sufficed in simulation: a search that is kept as it goes, and found again by a later plan.

Theory of operation
-------------------
A study over made-up users succeeds if it keeps its strategy's promise. The search doubles the number of users until
`1 − β` of the studies with seeds 0, 1, … succeed, and then halves the gap to within one in twenty. A number that has
failed too often is given up at once, so small numbers cost little; and none above the plan's own is tried.

What a search has found is lucky: its seeds chose it. So the success rate that is told, with Clopper and Pearson's
interval, is that of as many fresh seeds. It is measured over one kind of made-up users, and so it bounds nothing: other
users may need more. Outcomes are kept by number of users and seed as they come: an interrupted search goes on, and one
with more seeds uses what there is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from askance_lab.data.made_up import split_parameters
from askance_lab.engines import Engine
from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.sample_size import IN_PROCESS, LearnerTrial, PromiseTrial
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters
from askance_server.core import planning
from askance_server.core.study import strategy_named
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
STEP: Final = Fraction(1, 20)
"""How near each other the numbers are between which a search ends."""
_START: Final = 64
_FRESH: Final = 1_000_000
"""The first seed that no search uses."""


@dataclass(frozen=True, slots=True)
class MeasuredUsers:
    """Users that sufficed, and how often they did over fresh seeds."""

    users: int
    sufficed: bool
    """If not, no number up to this one, the plan's, did."""
    right: Proportion
    population: str
    version: str

    def to_json(self) -> dict[str, Any]:
        """For `plan --json`."""
        return {
            "users": self.users,
            "sufficed": self.sufficed,
            "seeds": self.right.total,
            "successes": self.right.count,
            "rate": self.right.rate,
            "interval": [round(end, 4) for end in self.right.interval],
            "level": self.right.confidence,
            "population": self.population,
            "version": self.version,
            "bound": False,
        }


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is measured: a strategy at parameters, over a kind of made-up users, by a version of this package."""

    strategy: str
    parameters: Parameters
    """The study's, and those of its users."""
    population: str
    version: str
    counts: bool = False
    """Whether the tallies of its studies are drawn: of one law, but other numbers for a seed, so kept apart."""

    @classmethod
    def of(cls, strategy: str, parameters: Parameters, kind: str | None, *, counts: bool = False) -> Self:
        """The measurement that a plan would show."""
        found = strategy_named(registry(), strategy)
        return cls(strategy, parameters, kind or found.examples or "uniform", version("askance"), counts)

    @property
    def document(self) -> dict[str, Any]:
        """What it is kept under."""
        return {
            "strategy": self.strategy,
            "parameters": {name: self.parameters[name] for name in sorted(self.parameters)},
            "population": self.population,
            "version": self.version,
            **({"counts": True} if self.counts else {}),
        }

    def file(self, folder: Path) -> Path:
        """The file that keeps it."""
        digest = hashlib.sha256(json.dumps(self.document).encode()).hexdigest()
        return folder / f"{self.strategy}-{digest[:12]}.json"

    def trial(self, kind: str | None) -> LearnerTrial:
        """One study, by its users and seed; UsageError if nobody can tell whether it succeeded."""
        strategy = strategy_named(registry(), self.strategy)
        if strategy.promise is None:
            what = "promises nothing, so no number of users can be said to suffice"
            raise UsageError(what, where=self.strategy, remedy="leave out --measure")
        study, own = split_parameters(strategy, self.parameters, kind)
        return PromiseTrial(strategy, study, own, kind, self.counts)

    @property
    def rate(self) -> Fraction:
        """Share of the studies that have to succeed."""
        return 1 - Fraction(str(planning.terms_of(self.parameters).beta))


def kept(measurement: Measurement, folder: Path) -> MeasuredUsers | None:
    """What an earlier measurement of the same has found, with the most seeds; None: nothing."""
    found = _checkpoint(measurement, folder).results.get("found", {})
    return None if not found else _read(found[max(found, key=int)], measurement)


def measure(
    measurement: Measurement,
    trial: LearnerTrial,
    seeds: int,
    most: int,
    folder: Path,
    tell: Callable[[int], None] = lambda _: None,
    engine: Engine = IN_PROCESS,
) -> MeasuredUsers:
    """Search for the number of users, up to `most`; `tell` hears how many studies were run or found.

    Studies are looked at in the order of their seeds, so that what is found, and kept, is the same by every engine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _checkpoint(measurement, folder) as checkpoint:
        checkpoint.keep("measurement", measurement.document)
        search = _Search(trial, checkpoint, seeds, seeds - math.ceil(measurement.rate * seeds), tell, engine)
        users = search.fewest(most)
        right = search.fresh(users or most)
        found = checkpoint.results.get("found", {})
        mine = {"users": users or most, "sufficed": users is not None, "seeds": seeds, "successes": right}
        checkpoint.keep("found", {**found, str(seeds): mine})
        return _read(mine, measurement)


def _read(found: Mapping[str, Any], measurement: Measurement) -> MeasuredUsers:
    right = Proportion(found["successes"], found["seeds"])
    return MeasuredUsers(found["users"], found["sufficed"], right, measurement.population, measurement.version)


def _checkpoint(measurement: Measurement, folder: Path) -> Checkpoint:
    return Checkpoint(measurement.file(folder), "outcomes", SCHEMA_VERSION)


@dataclass(slots=True)
class _Search:
    """Studies that are run, or found among those that were kept."""

    trial: LearnerTrial
    checkpoint: Checkpoint
    seeds: int
    allowed: int
    """Studies that may fail."""
    tell: Callable[[int], None]
    engine: Engine
    done: int = 0

    def fewest(self, most: int) -> int | None:
        """The fewest users with whom enough succeed, to within one in twenty; None: `most` do not."""
        low, high = 0, min(_START, most)
        while not self.enough(high):
            if high == most:
                return None
            low, high = high, min(2 * high, most)
        while high - low > max(1, STEP * low):
            middle = (low + high) // 2
            low, high = (low, middle) if self.enough(middle) else (middle, high)
        return high

    def enough(self, users: int) -> bool:
        """Whether no more fail than may: studies are run until that is known."""
        failed = 0
        for success in self._outcomes(users, 0):
            failed += not success
            if failed > self.allowed:
                return False
        return True

    def fresh(self, users: int) -> int:
        """How many of as many studies with other seeds succeed."""
        return sum(self._outcomes(users, _FRESH))

    def _outcomes(self, users: int, first: int) -> Iterator[bool]:
        """Whether each study succeeds, seed after seed: those that are kept, then the others as they are run."""
        key = f"users={users}{' fresh' * (first > 0)}"
        known: list[int] = list(self.checkpoint.results.get(key, ()))
        missing = [first + seed for seed in range(len(known), self.seeds)]
        for success in known[: self.seeds]:
            yield self._told(bool(success))
        for success in self.engine(partial(_succeeds, self.trial, users), missing):
            known.append(int(success))
            self.checkpoint.keep(key, known)
            yield self._told(success)

    def _told(self, success: bool) -> bool:
        self.done += 1
        self.tell(self.done)
        return success


def _succeeds(trial: LearnerTrial, users: int, seed: int) -> bool:
    return trial(users, seed).success
