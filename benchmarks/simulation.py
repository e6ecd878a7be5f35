"""How fast users are simulated on one core: whole studies, beside numpy's `rng.random(n) < p` in the same run.

A user of a ratio is one user of a study: she is made, dealt her questions, answers, is randomized and counted, by the
code of `askance run`; a draw of the baseline is one float and one comparison. A ratio of .1 is ten draws a user.
MASKED-PARITY is KLNRS11's A_MP at d = 64, two rounds; `conjunction` asks 64 bits; `histogram` has 128 cells. The small
studies are whole runs of 3·10⁵ users: what is worked out once a study and once a round weighs there.

    python benchmarks/simulation.py [--turns N] [--planted NAME]
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np
from measuring import Work, arguments, in_turns, on_one_core, tell

from askance_client.simulation.population import synthetic
from askance_lab.run_study import run_study
from askance_server.core.study import study_of
from askance_server.strategies.registry import registry

USERS: Final = 20_000_000
SMALL: Final = 300_000
DRAWS: Final = 20_000_000
STUDIES: Final[dict[str, dict[str, Any]]] = {
    "masked-parity": {"d": 64},
    "conjunction": {"d": 64},
    "histogram": {"cells": 128},
}
GOALS: Final = {"masked-parity": 0.1, "conjunction": 0.08, "histogram": 0.08}
"""Users beside draws, at least. 10 and 30 million users a second were asked of the last two: .03 and .08 of what this
kind of machine draws. They do more."""
SMALL_GOAL: Final = 0.005
"""2 million users a second are about this part of the draws."""


def main() -> int:
    """Measure, print, compare with the goals."""
    given = arguments(__doc__, ["draws", *STUDIES, *map(small, STUDIES)])
    on_one_core()
    rng = np.random.default_rng(1)
    work: dict[str, Work] = {"draws": lambda: rng.random(DRAWS) < 0.7310585786300049}
    work |= {name: whole(name, USERS) for name in STUDIES}
    work |= {small(name): whole(name, SMALL) for name in STUDIES}
    timed = in_turns(work, given)
    sizes = {**dict.fromkeys(STUDIES, USERS), **dict.fromkeys(map(small, STUDIES), SMALL)}
    goals = GOALS | dict.fromkeys(map(small, STUDIES), SMALL_GOAL)
    ratios = {
        name: timed.ratio("draws", name, scale=size / DRAWS, at_least=goals[name]) for name, size in sizes.items()
    }
    rates = {f"{name}, users/s": timed.rate(name, size) for name, size in sizes.items()}
    return tell(ratios | rates | {"draws/s": timed.rate("draws", DRAWS)}, users=USERS, small=SMALL)


def small(name: str) -> str:
    """What the small study of a strategy is called."""
    return f"{name}-small"


def whole(name: str, users: int) -> Work:
    """One study of all its users, from its publication to its hypothesis."""
    strategies = registry()
    parameters = {"users": "all", **STUDIES[name]}
    study = study_of(
        strategies, strategy=name, parameters=parameters, title="A benchmark", nonce="0" * 32, simulated=True
    )
    population = synthetic(name, STUDIES[name], 5)

    def run() -> None:
        view = run_study(study, strategies[name], population, users, 11)
        received = sum(view.received(id_) for id_ in view.rounds)
        assert received == users, f"{received} of {users} users reported"  # noqa: S101 - what is measured is the whole work

    return run


if __name__ == "__main__":
    sys.exit(main())
