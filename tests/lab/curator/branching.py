"""Runs a mechanism's own code down every branch of its draws: the exact distribution of what the code outputs.

Theory of operation
-------------------
A mechanism draws from a handful of laws (`draws`): uniform numbers, coins, the discrete Laplace distribution, levels of
the exponential mechanism. Here each such draw is a branching: the code is run again and again, each time down another
branch, until all have been taken, and what it returned is weighed by the branches' probabilities, which are computed
here and not in the sources. Nothing is sampled, and nothing is copied: a distribution that a module states of itself
(`*_distribution`) can be right where its `learn` is not; this one is what `learn` does.

That the laws are drawn as they should be is `test_draws`'s part.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np

from askance_lab.curator import draws, parity

REACH = 60
"""Noise beyond it is put at its ends: exact for code that compares noisy numbers within it, or clamps them to it."""
NEVER = 1e-13
"""A branch that is taken as rarely as this is left out."""


class LeftOut(Exception):
    """The branch is as good as never taken."""


class Branch:
    """A draw that goes down a given path, and takes the first branch wherever the path has ended."""

    def __init__(self, path: Sequence[int], reach: int) -> None:
        self.path, self.widths, self.chance, self._reach = list(path), list[int](), 1.0, reach

    def _take(self, chances: Sequence[float]) -> int:
        place = len(self.widths)
        if place == len(self.path):
            self.path.append(0)
        self.widths.append(len(chances))
        self.chance *= chances[self.path[place]]
        if self.chance < NEVER:
            raise LeftOut
        return self.path[place]

    def __call__(self, many: int) -> int:
        return self._take([1 / many] * many)

    def of(self, law: Mapping[Any, float]) -> Any:
        """One of the outcomes of a law that is known."""
        return list(law)[self._take(list(law.values()))]

    def coin(self, chance: Fraction) -> bool:
        return self._take([float(chance), 1 - float(chance)]) == 0

    def laplace(self, scale: Fraction) -> int:
        """Integer k with probability in proportion to e^{−|k|/scale}; the ends collect what lies beyond them."""
        q, reach = math.exp(-1 / float(scale)), self._reach
        inner = [q ** abs(k) * (1 - q) / (1 + q) for k in range(1 - reach, reach)]
        tail = q**reach / (1 + q)
        return self._take([tail, *inner, tail]) - reach

    def level(self, losses: Sequence[int], multiplicities: Sequence[int], rate: Fraction) -> int:
        """Level i with probability in proportion to multiplicity_i·e^{−rate·loss_i}."""
        least = min(losses)
        weights = [
            many * math.exp(-float(rate) * (loss - least)) for loss, many in zip(losses, multiplicities, strict=True)
        ]
        return self._take([each / math.fsum(weights) for each in weights])


def distribution(run: Callable[[Any], Any], *, reach: int = REACH) -> dict[Any, float]:
    """The exact distribution of what this returns, by running it down every branch."""
    total: dict[Any, float] = defaultdict(float)
    path: list[int] = []
    with _branching():
        while True:
            branch = Branch(path, reach)
            try:
                found = run(branch)
                total[found] += branch.chance
            except LeftOut:
                pass
            path, widths = branch.path[: len(branch.widths)], branch.widths
            while path and path[-1] == widths[-1] - 1:
                path.pop()
                widths.pop()
            if not path:
                return dict(total)
            path[-1] += 1


def as_one_draw(mechanism: Callable[..., Any], *, reach: int = REACH) -> Callable[..., Any]:
    """A part of a mechanism as one draw from its own exact law: many of them in a row are then no tree of branches."""
    known: dict[str, dict[Any, float]] = {}

    def draw_once(*given: Any, draw: Any, **named: Any) -> Any:
        key = repr((given, named))
        if key not in known:
            known[key] = distribution(lambda each: mechanism(*given, draw=each, **named), reach=reach)
        return draw.of(known[key])

    return draw_once


def _laplace(scale: Any, draw: Any) -> Any:
    return draw.laplace(scale)


def _coin(chance: Any, draw: Any) -> Any:
    return draw.coin(chance)


def _level(losses: Any, multiplicities: Any, rate: Any, draw: Any) -> Any:
    return draw.level(losses, multiplicities, rate)


def _coins(count: Any, chance: Any, draw: Any) -> Any:
    return np.array([draw.coin(chance) for _ in range(count)], bool)


@contextmanager
def _branching() -> Iterator[None]:
    """Every module that has imported one of the laws branches at it: the function's code is replaced, not its name."""
    laws: tuple[tuple[Any, Any], ...] = (
        (draws.discrete_laplace, _laplace),
        (draws.bernoulli, _coin),
        (draws.draw_exponential, _level),
        (parity.coins, _coins),
    )
    kept = [law.__code__ for law, _ in laws]
    try:
        for law, branching in laws:
            law.__code__ = branching.__code__
        yield
    finally:
        for (law, _), code in zip(laws, kept, strict=True):
            law.__code__ = code


# ------------------------------------------------------------------------------------------------------ planted faults

_numbers = count()


@contextmanager
def planted(module: ModuleType, was: str, now: str) -> Iterator[ModuleType]:
    """A copy of a module with one piece of its text replaced: the fault that a check has to find."""
    text = inspect.getsource(module)
    assert text.count(was) == 1, f"{was!r} is {text.count(was)} times in {module.__name__}"
    name = f"{module.__name__}_planted_{next(_numbers)}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    assert spec is not None
    copy = importlib.util.module_from_spec(spec)
    copy.__file__ = module.__file__
    sys.modules[name] = copy  # dataclasses look their module up
    try:
        exec(compile(text.replace(was, now), str(module.__file__), "exec"), copy.__dict__)
        yield copy
    finally:
        del sys.modules[name]
