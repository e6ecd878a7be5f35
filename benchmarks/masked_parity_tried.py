"""Other forms of `masked-parity-pooled`, at d = 64 and ε = 1: how often each learns. docs/masked-parity.md reads it.

Prints one JSON object. The shipped strategy asks; a form of it has other portions, or another constant or function in
its posterior. Its users are not drawn one by one: a part of n users answers with the true share of each cell and
normal noise of variance C²/n, C = (e^ε + 1)/(e^ε − 1), which is what their reports would add up to. The same seeds
everywhere, so that the rates that are compared share r, a, and much of the noise.

    python benchmarks/masked_parity_tried.py [seeds]
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from askance_lab.experiments.sample_size import TrialOutcome, measure
from askance_lab.oracles.shared.oracle import Spent, SQOracle, run
from askance_protocol.queries import CellQuery
from askance_server.core.planning import TooFewUsersError
from askance_server.core.strategy import Answer, Ask, Strategy
from askance_server.strategies import masked_parity_pooled
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED, PORTIONS, searched
from askance_server.strategies.shared import posterior as masked_parity_likeliest
from askance_server.strategies.shared.posterior import DECIDED, Floats, above_water

D: Final = 64
C: Final = (math.e + 1) / (math.e - 1)


# ------------------------------------------------------------------------------------------------------------ shares


@dataclass(frozen=True, slots=True)
class Truth:
    """What is to be learned, bit j of `r` for r_j."""

    r: int
    a: int

    def signs(self) -> Floats:
        """(−1)^{r_j}."""
        return np.array([1.0 - 2 * (self.r >> j & 1) for j in range(D)])

    def learned(self) -> dict[str, object]:
        """As the strategy puts it."""
        return {"r": "".join(str(self.r >> j & 1) for j in range(D)), "a": self.a}


@dataclass(slots=True)
class Shares(SQOracle):
    """As `Pooled`, with normal noise for the users'."""

    strategy: Strategy
    truth: Truth
    users: int
    noise: np.random.Generator
    told: bool = False
    """The empty cells show the standard deviation itself, so that the strategy knows the noise exactly."""
    rounds: list[int] = field(default_factory=list[int])
    """Users of each."""

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
    """One way to go about it."""

    name: str
    users: tuple[int, ...]
    portions: tuple[int, ...] = PORTIONS
    posterior: Mapping[str, Any] = {}
    """What of `masked_parity_likeliest` is another than shipped."""
    told: bool = False


def equal_for_100(heights: Floats, volume: float) -> Floats:  # noqa: ARG001 - as `above_water`
    """The 100 likeliest get the same."""
    return np.ones(min(len(heights), 100))


def equal_for_poured(heights: Floats, volume: float) -> Floats:
    """Whoever would be poured on, to whole nats, gets the same."""
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


def main() -> int:
    """Measure, print."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    begin = time.perf_counter()
    rows = [row(form, users, seeds) for form in FORMS for users in form.users]
    result = {
        "schema_version": 1,
        "epsilon": "1",
        "d": D,
        "seeds": seeds,
        "tried": rows,
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 0


def row(form: Form, users: int, seeds: int) -> dict[str, Any]:
    """As many studies as there are seeds."""
    with (
        patch.dict(vars(masked_parity_pooled), PORTIONS=form.portions),
        patch.dict(vars(masked_parity_likeliest), form.posterior),
    ):
        measured = measure(lambda users, seed: study(form, users, seed), users, range(seeds))
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
