"""Other forms of `masked-parity-pooled`, at d = 64 and ε = 1: how often each learns. docs/masked-parity.md reads it.

Prints one JSON object. The shipped strategy asks; a form of it has other portions, or another constant or function in
its posterior. Its users are tallied, not drawn one by one (`masked_parity_tallies`). The same seeds everywhere, so that
the rates that are compared share r, a, and much of the noise. What is measured is kept in a file, if one is given, and
not measured again.

    python benchmarks/masked_parity_tried.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np
from masked_parity_tallies import tallied
from tasks import arguments, measured_tasks

from askance_lab.experiments.sample_size import measure
from askance_protocol.arrays import Floats
from askance_server.core.strategy import Parameters
from askance_server.strategies import masked_parity_pooled
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED, portions
from askance_server.strategies.shared import posterior
from askance_server.strategies.shared.posterior import above_water

D: Final = 64


class Form(NamedTuple):
    """A form of the shipped strategy."""

    name: str
    users: int
    rounds: int
    portions: Callable[[Parameters], tuple[int, ...]] = portions
    posterior: Mapping[str, Any] = {}
    """The names in `strategies.shared.posterior` that differ from the shipped ones."""
    told: bool = False


def geometric(first: float, ratio: float) -> Callable[[Parameters], tuple[int, ...]]:
    """Portions of which the first is this share, and each of the others so many times the one before."""

    def shares(parameters: Parameters) -> tuple[int, ...]:
        later = [ratio**place for place in range(int(parameters["rounds"]) - 1)]
        return tuple(round(10**6 * each) for each in (first, *((1 - first) * each / sum(later) for each in later)))

    return shares


def equal_for_poured(heights: Floats, volume: float) -> Floats:
    """Equal weights for all that would be poured on."""
    return np.ones(len(above_water(heights, volume)))


def volumes(factor: float) -> Mapping[str, Any]:
    """So many times the volume of the water, for the same users: more candidates, each looked at less."""

    def poured(heights: Floats, volume: float) -> Floats:
        return above_water(heights, factor * volume)

    return {"above_water": poured}


FORMS: Final = (
    *(Form("100 rounds", users, 100) for users in (300_000, 312_000, 320_000)),
    Form("20 rounds", 320_000, 20),
    Form("6 rounds", 335_000, 6),
    Form("100 rounds, of which the first has 30 %", 320_000, 100, geometric(0.3, 0.97)),
    Form("100 rounds, of which the first has 55 %", 320_000, 100, geometric(0.55, 0.97)),
    Form("100 rounds, the later ones alike", 320_000, 100, geometric(0.41, 1)),
    Form("100 rounds, a list of 100", 320_000, 100, posterior={"MOST": 100}),
    Form("100 rounds, a list of 3,000", 320_000, 100, posterior={"MOST": 3000}),
    Form("100 rounds, a candidate for 80 users at least", 320_000, 100, posterior={"FEWEST": 80}),
    Form("100 rounds, candidates looked at three times as well", 320_000, 100, posterior=volumes(1 / 3)),
    Form("100 rounds, equal shares for those poured on", 320_000, 100, posterior={"above_water": equal_for_poured}),
    Form("100 rounds, noise known", 320_000, 100, told=True),
    Form("6 rounds, candidates looked at a third as well", 335_000, 6, posterior=volumes(3)),
    Form("6 rounds, equal shares for those poured on", 335_000, 6, posterior={"above_water": equal_for_poured}),
    Form("6 rounds, noise known", 335_000, 6, told=True),
)


class FormTask(NamedTuple):
    """What one worker does: a form, by its place among all."""

    form: int
    seeds: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{FORMS[self.form].name} users={FORMS[self.form].users} seeds={self.seeds}"


def main() -> int:
    """Measure, print."""
    chosen = arguments(__doc__, seeds=300)
    begin = time.perf_counter()
    tasks = [FormTask(place, chosen.seeds) for place in range(len(FORMS))]
    result = {
        "schema_version": 2,
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
    form = FORMS[task.form]
    formed = replace(MASKED_PARITY_POOLED, portions_for=form.portions)
    names = {"portions": form.portions, "MASKED_PARITY_POOLED": formed}
    with patch.dict(vars(masked_parity_pooled), names), patch.dict(vars(posterior), form.posterior):
        learner = tallied(formed, {"d": D, "rounds": form.rounds}, told=form.told)
        return {"variant": form.name, **measure(learner, form.users, range(task.seeds)).to_json()}


if __name__ == "__main__":
    sys.exit(main())
