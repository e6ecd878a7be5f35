"""Studies at d = 64 whose tallies are drawn from their law: a million million users in a second, on one core.

Prints one JSON object, and exits 6 where a goal is missed: where a study takes longer than a second, where 10¹² users
take twice as long as 10⁷, or where a study takes six times as long as NumPy takes to make 10⁷ bits, which is a
baseline that does not move with this code.

    python benchmarks/counts.py [--turns N] [--planted NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
from measuring import Figure, arguments, in_turns, on_one_core, tell

from askance_lab.counted_study import count_study
from askance_lab.data.made_up import made_up
from askance_lab.oracles.local import learned_by, study_for
from askance_server.strategies.registry import registry

MANY: Final = 10**12
FEW: Final = 10**7
NAMES: Final = ("masked-parity", "masked-parity-pooled", "masked-parity-until-sure", "conjunction")
BITS: Final = "random(10^7) < p"


def counted(name: str, users: int) -> None:
    """One study, from its publication to what it learned."""
    strategy, parameters = registry()[name], {"d": 64}
    study = study_for(strategy, {**parameters, "users": "all"}, 1)
    learned_by(count_study(study, strategy, made_up(strategy, parameters, 1), users, 1))


def main() -> int:
    """Measure, print, compare with the goals."""
    on_one_core()
    source = np.random.default_rng(1)
    work: Mapping[str, Callable[[], object]] = {
        BITS: lambda: source.random(FEW) < 0.3,
        **{name: partial(counted, name, MANY) for name in NAMES},
        f"{NAMES[0]} of 10^7": partial(counted, NAMES[0], FEW),
    }
    timed = in_turns(work, arguments(__doc__, tuple(work)))
    figures = {f"seconds of {name}": Figure(tuple(timed.seconds[name]), at_most=1) for name in NAMES}
    figures |= {f"{name} beside {BITS}": timed.ratio(name, BITS, at_most=6) for name in NAMES}
    figures["10^12 users beside 10^7"] = timed.ratio(NAMES[0], f"{NAMES[0]} of 10^7", at_most=2)
    return tell(figures, users=MANY)


if __name__ == "__main__":
    sys.exit(main())
