"""How many users the separation costs: at once by the limits, in rounds as measured, and how many times as many.

Each number is of a kind, and is never shown without it: *proved* (nothing is assumed), *limit* (proved in the normal
limit; in rounds also for an orthogonal design), *measured* (studies of made-up users, user by user, with an interval).
What was measured is in `measured.json` beside this module, taken from docs/masked-parity/measured.json by
`python benchmarks/users.py --remake`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from pydantic import TypeAdapter

from askance_lab.evaluation.proportion import Proportion
from askance_lab.theory.limits import users_at_once_limit, users_at_once_proved, users_rounds_limit
from askance_protocol.errors import ProtocolError

FAILURE: Final = 0.05
"""Who succeeds is right 19 times in 20."""
DIMENSIONS: Final = (8, 16, 32, 64)
HEAD: Final = (
    "d",
    "at once: proved",
    "at once: normal",
    "in rounds: limit",
    "in rounds: measured",
    "right",
    "times, proved",
    "times, normal",
)
WORDS: Final = (
    "proved: with fewer users no learner at once is right 19 times in 20, whatever the channels. Nothing is assumed.",
    "normal: the same, assuming that reports are told apart as normal variables are.",
    "limit: with fewer no learner in rounds is, assuming that too, and that an orthogonal design is best for r.",
    "measured: the fewest users of those tried with which a learner in rounds was right so often.",
)
"""What the columns are, in sentences."""


@dataclass(frozen=True, slots=True)
class FewestMeasured:
    """Number of users with which a learner in rounds was right 19 times in 20."""

    strategy: str
    d: int
    epsilon: str
    users: int
    successes: int
    seeds: int

    @property
    def success(self) -> Proportion:
        """Studies that learned the concept exactly."""
        return Proportion(self.successes, self.seeds)


@dataclass(frozen=True, slots=True)
class SeparationUsers:
    """The users of one dimension."""

    d: int
    epsilon: str
    at_once_proved: int
    at_once_limit: int
    rounds_limit: int
    measured: FewestMeasured | None
    """None where nobody has measured it."""

    @property
    def times_proved(self) -> float | None:
        """How many times as many users it takes at once, by what is proved."""
        return None if self.measured is None else self.at_once_proved / self.measured.users

    @property
    def times_limit(self) -> float | None:
        """The same by the normal limit."""
        return None if self.measured is None else self.at_once_limit / self.measured.users

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        return {**asdict(self), "times_proved": self.times_proved, "times_limit": self.times_limit}


@cache
def measured_users() -> Mapping[tuple[int, str], FewestMeasured]:
    """What was measured, by dimension and ε."""
    kept = (files("askance_lab.experiments.separation") / "measured.json").read_bytes()
    every = TypeAdapter(list[FewestMeasured]).validate_json(kept)
    return {(each.d, each.epsilon): each for each in every}


def fewest(rows: Iterable[Mapping[str, Any]], strategies: Iterable[str], epsilon: str) -> list[FewestMeasured]:
    """For each dimension, of a benchmark's rows of these strategies, the fewest users with .95 of the studies right."""
    enough = [row for row in rows if row["strategy"] in set(strategies) and row["successes"] >= 0.95 * row["seeds"]]
    best = {row["d"]: row for row in sorted(enough, key=lambda row: row["users"], reverse=True)}
    names = ("strategy", "d", "users", "successes", "seeds")
    return [FewestMeasured(**{name: best[d][name] for name in names}, epsilon=epsilon) for d in sorted(best)]


@cache
def separation_users(d: int, epsilon: str) -> SeparationUsers | None:
    """The users of one dimension; None where ε is too large, or too small, for the limits to say anything."""
    limits = (users_at_once_proved, users_at_once_limit, users_rounds_limit)
    try:
        found = [limit(dimension=d, epsilon=float(epsilon), failure=FAILURE) for limit in limits]
    except ProtocolError:
        return None
    return SeparationUsers(d, epsilon, *found, measured=measured_users().get((d, epsilon)))


def table(dimensions: Iterable[int], epsilon: str) -> list[SeparationUsers]:
    """The users of these dimensions, but where no limit says anything."""
    every = (separation_users(d, epsilon) for d in dimensions)
    return [each for each in every if each is not None]


def rows(users: Sequence[SeparationUsers]) -> list[tuple[str, ...]]:
    """Cells under `HEAD`; a dash stands for what was not measured."""
    return [
        (
            str(each.d),
            shown(each.at_once_proved),
            shown(each.at_once_limit),
            shown(each.rounds_limit),
            *_measured(each.measured),
            times(each.times_proved),
            times(each.times_limit),
        )
        for each in users
    ]


def _measured(measured: FewestMeasured | None) -> tuple[str, str]:
    return ("–", "–") if measured is None else (shown(measured.users), f"{measured.successes}/{measured.seeds}")


def shown(users: int) -> str:
    """In full below 10^7, with two digits beyond."""
    return f"{users:,}" if users < 10**7 else f"{float(users):.1e}"


def times(ratio: float | None) -> str:
    """A ratio with two digits."""
    if ratio is None:
        return "–"
    return f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f}" if ratio < 10**5 else f"{ratio:.1e}"


def lines(users: Sequence[SeparationUsers]) -> list[str]:
    """The table as text, at most 80 columns wide."""
    groups = f"{'':>4}{'at once, lower limit':>21}{'in rounds':>26}{'times as many':>19}"
    head = f"{'d':>4}{'proved':>11}{'normal':>10}{'limit':>9}{'measured':>10}{'right':>9}{'proved':>10}{'normal':>9}"
    cells = (
        f"{d:>4}{proved:>11}{limit:>10}{rounds:>9}{measured:>10}{right:>9}{least:>10}{by_limit:>9}"
        for d, proved, limit, rounds, measured, right, least, by_limit in rows(users)
    )
    return [groups, head, *cells]
