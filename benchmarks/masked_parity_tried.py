"""Other forms of `masked-parity-pooled`, at d = 64 and ε = 1: how often each learns. docs/masked-parity.md reads it.

Prints one JSON object. The shipped strategy asks; a form of it has other portions, or another constant or function in
its posterior. Its users are not drawn one by one: a part of n users answers with the true share of each cell and
normal noise of variance C²/n, C = (e^ε + 1)/(e^ε − 1), which is what their reports would add up to. The same seeds
everywhere, so that the rates that are compared share r, a, and much of the noise. What is measured is kept in a file,
if one is given, and not measured again.

    python benchmarks/masked_parity_tried.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np
from tasks import arguments, measured_tasks

from askance_lab.experiments.sample_size import TrialOutcome, measure
from askance_lab.oracles.shared.oracle import Spent, SQOracle, run
from askance_protocol.arrays import Floats
from askance_protocol.queries import CellQuery
from askance_server.core.planning import TooFewUsersError
from askance_server.core.strategy import Answer, Ask, Strategy
from askance_server.strategies import masked_parity_pooled
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED, PORTIONS, searched
from askance_server.strategies.shared import posterior
from askance_server.strategies.shared.posterior import DECIDED, above_water

D: Final = 64
C: Final = (math.e + 1) / (math.e - 1)


# ------------------------------------------------------------------------------------------------------------ shares


@dataclass(frozen=True, slots=True)
class Truth:
    """The concept to be learned, bit j of `r` for r_j."""

    r: int
    a: int

    def signs(self) -> Floats:
        """(−1)^{r_j}."""
        return np.array([1.0 - 2 * (self.r >> j & 1) for j in range(D)])

    def learned(self) -> dict[str, object]:
        """The hypothesis value of a strategy that is right."""
        return {"r": "".join(str(self.r >> j & 1) for j in range(D)), "a": self.a}


@dataclass(slots=True)
class Shares(SQOracle):
    """An oracle like `LocalReports`, with normal noise in place of the users'."""

    strategy: Strategy
    truth: Truth
    users: int
    noise: np.random.Generator
    told: bool = False
    """Whether the empty cells show the standard deviation itself, so that the strategy knows the noise exactly."""
    rounds: list[int] = field(default_factory=list[int])
    """The number of users of each round."""

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """The users of a round go as 1/tolerance², each to a part by the coin."""
        portion = self.strategy.portion(len(self.rounds) + 1)
        self.rounds.append(int((self.users - sum(self.rounds)) * portion))
        wanted = np.array([ask.tolerance**-2 for ask in asks])
        users = self.noise.multinomial(self.rounds[-1], wanted / wanted.sum())
        return [self._shares(ask, int(part)) for ask, part in zip(asks, users, strict=True)]

    def _shares(self, ask: Ask, users: int) -> Floats:
        if not isinstance(ask.query, CellQuery):
            raise TypeError("the strategy asks for no cells")
        if not users:
            raise TooFewUsersError("a part had no users")
        means = np.zeros(ask.query.cells)
        means[:D] = self.truth.signs() / (2 * D)  # half of the users have b = 1, a d-th of them each i
        if ask.query == searched(D, self.truth.r):
            means[D] = (1 - 2 * self.truth.a) / 2  # half have b = 0
        deviation = C / math.sqrt(users)
        errors = self.noise.normal(0, deviation, len(means))
        if self.told:
            errors[D + 1 :] = deviation
        return means + errors

    @property
    def spent(self) -> Spent:
        """Each user is asked once."""
        return Spent(sum(self.rounds))


# ------------------------------------------------------------------------------------------------------------- forms


class Form(NamedTuple):
    """A form of the shipped strategy."""

    name: str
    users: tuple[int, ...]
    portions: tuple[int, ...] = PORTIONS
    posterior: Mapping[str, Any] = {}
    """The names in `strategies.shared.posterior` that differ from the shipped ones."""
    told: bool = False


def equal_for_100(heights: Floats, volume: float) -> Floats:  # noqa: ARG001 - as `above_water`
    """Equal weights for the 100 likeliest."""
    return np.ones(min(len(heights), 100))


def equal_for_poured(heights: Floats, volume: float) -> Floats:
    """Equal weights for all that would be poured on, to whole nats."""
    return (above_water(heights, volume) >= 1 / 2).astype(np.float64)


def in_tenths(heights: Floats, volume: float) -> Floats:
    """Weights ten times as fine. Finer ones would leave parts without any user, which fails a study."""
    return 10 * above_water(heights, volume)


FOUR: Final = (70, 10, 10, 10)
TENTHS: Final = {"above_water": in_tenths, "DECIDED": 10 * DECIDED}
FORMS: Final = (
    Form("shipped", (330_000, 340_000, 345_000, 350_000, 360_000)),
    Form("two rounds, 90 + 10 %", (350_000, 380_000), (90, 10)),
    Form("two rounds, 80 + 20 %", (380_000,), (80, 20)),
    Form("four rounds, 70 + 10 + 10 + 10 %", (330_000, 340_000), FOUR),
    Form("nine rounds, 60 + 8 × 5 %", (330_000,), (60, *[5] * 8)),
    Form("ten rounds, 55 + 9 × 5 %", (330_000,), (55, *[5] * 9)),
    Form("twenty-one rounds, 60 + 20 × 2 %", (330_000,), (60, *[2] * 20)),
    Form("four rounds, equal shares for the 100 likeliest", (330_000,), FOUR, {"above_water": equal_for_100}),
    Form("equal shares for the 100 likeliest", (330_000,), PORTIONS, {"above_water": equal_for_100}),
    Form("four rounds, equal shares for those poured on", (330_000,), FOUR, {"above_water": equal_for_poured}),
    Form("equal shares for those poured on", (330_000,), PORTIONS, {"above_water": equal_for_poured}),
    Form("four rounds, tenths of nats as weights", (330_000,), FOUR, TENTHS),
    Form("tenths of nats as weights", (330_000, 340_000), PORTIONS, TENTHS),
    *(
        Form(f"{depth:g} times the users that reach the level", (330_000,), PORTIONS, {"DEPTH": depth})
        for depth in (1.0, 2.0, 4.0)
    ),
    Form("the 100 likeliest", (330_000,), PORTIONS, {"MOST": 100}),
    Form("never stopping before the last round", (330_000,), PORTIONS, {"SURE": 1.0}),
    Form("noise known", (330_000, 340_000), told=True),
)


BY_NAME: Final = {form.name: form for form in FORMS}


class FormTask(NamedTuple):
    """What one worker does: a form, by its name, with this number of users."""

    form: str
    users: int
    seeds: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{self.form} users={self.users} seeds={self.seeds}"


def main() -> int:
    """Measure, print."""
    chosen = arguments(__doc__, seeds=300)
    begin = time.perf_counter()
    tasks = [FormTask(form.name, users, chosen.seeds) for form in FORMS for users in form.users]
    result = {
        "schema_version": 1,
        "epsilon": "1",
        "d": D,
        "seeds": chosen.seeds,
        "tried": measured_tasks(row, {task.key: task for task in tasks}, chosen),
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 0


def row(task: FormTask) -> dict[str, Any]:
    """How often the form learns, over all the seeds."""
    form = BY_NAME[task.form]
    with patch.dict(vars(masked_parity_pooled), PORTIONS=form.portions), patch.dict(vars(posterior), form.posterior):
        measured = measure(partial(study, form), task.users, range(task.seeds))
    return {"variant": form.name, **measured.to_json()}


def study(form: Form, users: int, seed: int) -> TrialOutcome:
    """One study, to its end."""
    strategy = replace(MASKED_PARITY_POOLED, rounds=len(form.portions), portions=form.portions)
    coins = np.random.default_rng(seed)
    truth = Truth(int(coins.integers(1 << D, dtype=np.uint64)), int(coins.integers(2)))
    people = Shares(strategy, truth, users, coins, form.told)
    try:
        learned = run(strategy, {"d": D}, people).hypothesis.value
    except TooFewUsersError:
        learned = None
    return TrialOutcome(learned == truth.learned(), sum(people.rounds), len(people.rounds))


if __name__ == "__main__":
    sys.exit(main())
