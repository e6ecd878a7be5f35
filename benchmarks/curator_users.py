"""How many users the curator's learners need, beside the yardsticks that they were to keep to: no more than 1.3 times.

α = β = 0.1, ε = 1, δ = 10^−6, on the landscape's problems, where hypotheses err on 1.05α. A learner needs as many users
as a search finds, with which nine of ten runs are right. Prints one JSON object; exits 6 where more are needed.

    python benchmarks/curator_users.py [runs]
    python benchmarks/curator_users.py --table      the yardsticks, as docs/theory.md has them
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from askance_lab.curator import generic_conjunction, label_private, retry
from askance_lab.curator.concepts import A_PARITY, PARITY
from askance_lab.curator.databases import BitSample
from askance_lab.curator.draws import Below, below
from askance_lab.data.problems import PROBLEMS, TOO_WRONG, LearningProblem
from askance_lab.experiments.landscape.cells import BY_KEY
from askance_lab.experiments.landscape.learners import Found, Learner, curated
from askance_lab.experiments.landscape.measurement import trial
from askance_lab.experiments.sample_size import LearnerTrial, TrialOutcome, users_needed
from askance_lab.theory.targets import Targets
from askance_protocol.randomness import SimulatedRandom

TARGETS: Final = Targets()
MOST: Final = 1.3
VARIABLES: Final = (1, 4, 6)


class Yardstick(NamedTuple):
    """The number of users that a prototype needed, and a learner that is to keep to it."""

    name: str
    users: int
    learner: LearnerTrial


def main() -> int:
    """Search, print, compare."""
    if sys.argv[1:] == ["--table"]:
        print("\n".join(markdown()))
        return 0
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    found = {each.name: needed(each, runs) for each in yardsticks()}
    missed = [name for name, each in found.items() if each["ratio"] > MOST]
    print(json.dumps({"schema_version": 1, "runs": runs, "users": found, "missed": missed}))
    return 6 if missed else 0


def needed(yardstick: Yardstick, runs: int) -> dict[str, Any]:
    """The fewest users, how often they do, and how many times the yardstick they are."""
    found = users_needed(yardstick.learner, range(runs), yardstick.users, Fraction(9, 10))
    [there] = [tried for tried in found.tried if tried.users == found.users]
    return {**there.to_json(), "yardstick": yardstick.users, "ratio": round(found.users / yardstick.users, 2)}


def yardsticks() -> list[Yardstick]:
    """Examples that a prototype needed (docs/theory.md#yardsticks); of a range the smaller end."""
    return [
        cell("PARITY · curator · generic", 10, 208),
        cell("PARITY · curator · A*, insistent", 10, 352),
        of("PARITY · curator · A*, 4 tries", "PARITY", parity_in_4_tries, 10, 352),
        Yardstick("conjunctions, one bit missing · curator · generic d=8", 100, conjunction_with_one_bit_missing),
        cell("conjunctions · curator · SuLQ", 8, 4224),
        *(cell("POINT · curator · generic", d, users) for d, users in ((32, 512), (64, 960), (256, 3712))),
        *(cell("POINT · curator · A_dist", d, 344) for d in (32, 256)),
        *(cell("INTERVAL · curator · generic", d, users) for d, users in ((32, 544), (64, 992), (1024, 14336))),
        *(cell("INTERVAL · curator · Rec", d, 1200) for d in (32, 1024)),
        *(
            of("INTERVAL · curator · label-private", "INTERVAL", curated(label_private.MECHANISM), d, 62)
            for d in (8, 64, 512)
        ),
    ]


def markdown() -> list[str]:
    """The yardsticks as a table."""
    rows = [f"| {each.name} | {each.users:,} |" for each in yardsticks()]
    return ["| learner | examples |", "|---|--:|", *rows]


def cell(key: str, d: int, users: int) -> Yardstick:
    """The yardstick of a cell of the landscape."""
    return of(key, BY_KEY[key].problem, BY_KEY[key].learn, d, users)


def of(name: str, problem: str, learn: Learner, d: int, users: int) -> Yardstick:
    """The yardstick of a learner on a problem of the landscape."""
    return Yardstick(f"{name} d={d}", users, trial(PROBLEMS[problem], learn, d, TARGETS))


def parity_in_4_tries(problem: LearningProblem, targets: Targets, seed: int) -> Found | None:
    """KLNRS08's A*, with the fewest tries that may fail with less than β."""
    sample = PARITY.database(problem.columns)
    found = retry.learn(sample, epsilon=targets.epsilon, runs=4, draw=draw(problem.users, seed))
    return None if found is None else A_PARITY.to_json(found, problem.d)


def conjunction_with_one_bit_missing(users: int, seed: int) -> TrialOutcome:
    """All bits are 1 but one, each with mass 1.05α: a conjunction that is wrong in a variable is just too wrong."""
    rng, mass = np.random.default_rng([users, seed]), TOO_WRONG * TARGETS.alpha
    which = rng.choice(9, users, p=[mass] * 8 + [1 - 8 * mass])
    bits = (np.arange(9) != which[:, None]).astype(np.uint8)[:, :8]
    sample = BitSample.of(bits, bits[:, list(VARIABLES)].all(axis=1))
    found = generic_conjunction.MECHANISM.run(sample, TARGETS, draw(users, seed))
    return TrialOutcome(found == VARIABLES, users, 1)


def draw(users: int, seed: int) -> Below:
    """Noise of its own for each number of users and seed."""
    return below(SimulatedRandom(seed, stream=users))


if __name__ == "__main__":
    sys.exit(main())
