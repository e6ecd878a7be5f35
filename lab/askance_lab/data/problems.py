"""Five concept classes, each with a distribution of examples on which the target error α matters.

Over uniform examples a wrong parity errs on half of them, and a wrong point on none that anybody would ever see: users
needed would say nothing about α. So each class has hypotheses that are only just too wrong, by 1.05·α, where it can:

- PARITY: x = 0 but with probability 2.1·α, then uniform. Every wrong parity errs on 1.05·α.
- MASKED-PARITY: uniform, as the papers have it. Below error ¼ both r and a have to be right.
- conjunctions: uniform bits, of which three are asked for.
- POINT: the point itself has mass 1.05·α, the rest is uniform. Every wrong point errs on 1.05·α.
- INTERVAL: both numbers beside the threshold have mass 1.05·α, the rest lies at the two ends. Every wrong threshold
  errs on 1.05·α at least.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.simulation.population import synthetic
from askance_client.tables import FromFile
from askance_protocol import checks
from askance_protocol.arrays import Truths
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.strategies.conjunction import error as conjunction_error
from askance_server.strategies.masked_parity import error as masked_parity_error

TOO_WRONG: Final = 1.05
"""The error of the hypotheses that are only just too wrong, in α."""

HypothesisValue: TypeAlias = Mapping[str, Any]
"""A hypothesis as JSON, as strategies return it: {"r"}, {"r", "a"}, {"variables"}, {"point"} or {"threshold"}."""


@dataclass(frozen=True, slots=True)
class LearningProblem:
    """A concept, its users' examples, and the error of a hypothesis."""

    d: int
    alpha: float
    people: Population
    users: int
    error: Callable[[HypothesisValue], float]
    """The exact error of a hypothesis over the whole distribution."""

    def good(self, found: HypothesisValue | None) -> bool:
        """Whether a hypothesis has error at most α. None, the missing hypothesis, has not."""
        return found is not None and self.error(found) <= self.alpha

    @property
    def columns(self) -> Columns:
        """Columns of all examples."""
        return self.people.columns(range(self.users))


Maker: TypeAlias = Callable[[int, float, int, int], LearningProblem]
"""Makes a problem from d, α, the number of users and a seed."""


def parity(d: int, alpha: float, users: int, seed: int) -> LearningProblem:
    """PARITY: KLNRS11, §4. The hypothesis is {"r": bits as a string}."""
    random = np.random.default_rng([seed, d, 1])
    r = random.integers(0, 2, d, np.uint8)
    x = random.integers(0, 2, (users, d), np.uint8)
    x[random.random(users) >= 2 * TOO_WRONG * alpha] = 0
    truth = "".join(map(str, r.tolist()))
    return _of_columns(d, alpha, _columns(x, (x @ r) % 2 == 0), lambda found: TOO_WRONG * alpha * (found["r"] != truth))


def masked_parity(d: int, alpha: float, users: int, seed: int) -> LearningProblem:
    """MASKED-PARITY: KLNRS11, §5.3. The hypothesis is {"r": bits as a string, "a": bit}."""
    people = synthetic("masked-parity", {"d": d}, seed)
    return LearningProblem(d, alpha, people, users, lambda found: float(masked_parity_error(found, people.truth)))


def conjunctions(d: int, alpha: float, users: int, seed: int) -> LearningProblem:
    """Monotone conjunctions: BB-notes, Thm 5. The hypothesis is {"variables": a list of them}."""
    people = synthetic("conjunction", {"d": d}, seed)
    return LearningProblem(d, alpha, people, users, lambda found: float(conjunction_error(found, people.truth)))


def point(d: int, alpha: float, users: int, seed: int) -> LearningProblem:
    """POINT_d: BNS13, §3.1. The hypothesis is {"point": a whole number}."""
    random = np.random.default_rng([seed, d, 2])
    target = random.integers(0, 2, d, np.uint8)
    x = random.integers(0, 2, (users, d), np.uint8)
    x[random.random(users) < TOO_WRONG * alpha] = target
    truth = sum(int(bit) << i for i, bit in enumerate(target))
    # Both points are hit by the uniform rest, too.
    rest = (1 - TOO_WRONG * alpha) * 2.0**-d

    def error(found: HypothesisValue) -> float:
        return 0.0 if found["point"] == truth else TOO_WRONG * alpha + 2 * rest

    return _of_columns(d, alpha, _columns(x, (x == target).all(axis=1)), error)


def interval(d: int, alpha: float, users: int, seed: int) -> LearningProblem:
    """INTERVAL_d: BNS13, §3.2. The hypothesis is {"threshold": j}: x < j is labelled +1."""
    checks.count("d", d, least=3)
    random = np.random.default_rng([seed, d, 3])
    drawn = int.from_bytes(random.bytes(d // 8 + 1), "little")
    j = (1 << d - 2) + drawn % (1 << d - 1)  # in the middle half
    places = (j - 1, j, 0, (1 << d) - 1)
    ends = 0.5 - TOO_WRONG * alpha
    masses = (TOO_WRONG * alpha, TOO_WRONG * alpha, ends, ends)
    chosen = random.choice(4, users, p=masses)
    bits = np.array([[place >> bit & 1 for bit in range(d)] for place in places], np.uint8)
    four = _columns(bits, np.array([place < j for place in places]))

    def error(found: HypothesisValue) -> float:
        threshold = found["threshold"]
        return sum(mass for place, mass in zip(places, masses, strict=True) if (place < threshold) != (place < j))

    return _of_columns(d, alpha, four.take(chosen), error)


PROBLEMS: Final[Mapping[str, Maker]] = {
    "PARITY": parity,
    "MASKED-PARITY": masked_parity,
    "conjunctions": conjunctions,
    "POINT": point,
    "INTERVAL": interval,
}


def _columns(x: NDArray[np.uint8], positive: Truths) -> Columns:
    schema = Schema(fields=(BitsField(name="x", width=x.shape[1]), LabelField(name="y")))
    return Columns.of(schema, {"x": x, "y": np.where(positive, np.int64(1), np.int64(-1))})


def _of_columns(d: int, alpha: float, rows: Columns, error: Callable[[HypothesisValue], float]) -> LearningProblem:
    people = FromFile("made up", rows.schema, len(rows), {}, "", rows)
    return LearningProblem(d, alpha, people, len(rows), error)
