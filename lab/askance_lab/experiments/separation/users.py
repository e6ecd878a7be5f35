"""How many users the separation costs: in one round by the limits, in two and in many as measured, and the ratio.

Each number is of a kind, and is never shown without it: *proved* (nothing is assumed), *limit* (proved in the normal
limit; in rounds also for an orthogonal design), *measured* (studies of made-up users, with an interval, and the rounds
that they took).
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
from askance_server.strategies.registry import registry

FAILURE: Final = 0.05
"""A learner that succeeds is right 19 times in 20."""
TWO_ROUNDS: Final = "masked-parity-two-rounds"
"""The learner that takes exactly two rounds: r, and then the mask bit."""
DIMENSIONS: Final = (8, 16, 32, 64)
HEAD: Final = ("d", "learner in rounds", "rounds", "users", "right", "one round", "times")
LIMITS: Final = ("d", "one round: proved", "one round: normal", "in rounds: limit")
WORDS: Final = (
    "users: the fewest of those tried with which the learner was right so often.",
    "rounds: the most that one of these studies took.",
    "one round: with fewer users no learner in one round is right 19 times in 20, whatever its channels. Proved.",
    "times: one round to users. Below 1 no gap is proved for this learner.",
    "normal: as proved, assuming that reports are told apart as normal variables are.",
    "limit: with fewer no learner in rounds is, assuming that too, and that an orthogonal design is best for r.",
)
"""What the columns are, in sentences."""


@dataclass(frozen=True, slots=True)
class FewestMeasured:
    """Number of users with which a learner in rounds was right 19 times in 20."""

    strategy: str
    most_rounds: int
    """Rounds that it may take: the strategy's own, or as its parameter says."""
    rounds: int
    """Rounds of the study that took the most."""
    mean_rounds: float
    d: int
    epsilon: str
    users: int
    successes: int
    seeds: int

    @property
    def success(self) -> Proportion:
        """Studies that learned the concept exactly."""
        return Proportion(self.successes, self.seeds)

    @property
    def name(self) -> str:
        """The strategy, with its parameter where that is not the strategy's own."""
        own = registry()[self.strategy].planned({"d": self.d}).rounds
        return self.strategy if self.most_rounds == own else f"{self.strategy} rounds={self.most_rounds}"

    @property
    def rounds_text(self) -> str:
        """Rounds as they were measured."""
        return str(self.rounds) if self.mean_rounds == self.rounds else f"up to {self.rounds}"


@dataclass(frozen=True, slots=True)
class SeparationUsers:
    """The users of one dimension."""

    d: int
    epsilon: str
    at_once_proved: int
    at_once_limit: int
    rounds_limit: int
    learners: tuple[FewestMeasured, ...]
    """Learners in rounds, from the fewest rounds to the most; none where nobody has measured it."""

    @property
    def measured(self) -> FewestMeasured | None:
        """The learner with the fewest users, in as many rounds as it takes."""
        return min(self.learners, key=lambda each: each.users, default=None)

    @property
    def two_rounds(self) -> FewestMeasured | None:
        """A_MP in exactly two rounds: r, then the mask bit."""
        return next((each for each in self.learners if each.strategy == TWO_ROUNDS), None)

    @property
    def times_proved(self) -> float | None:
        """How many times as many users one round takes as the fewest in rounds, by what is proved."""
        return None if self.measured is None else self.at_once_proved / self.measured.users

    @property
    def times_limit(self) -> float | None:
        """The same by the normal limit."""
        return None if self.measured is None else self.at_once_limit / self.measured.users

    def times(self, learner: FewestMeasured) -> float:
        """How many times as many users one round takes as this learner, by what is proved."""
        return self.at_once_proved / learner.users

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            **asdict(self),
            "learners": self.rows(),
            "measured": None if self.measured is None else asdict(self.measured),
            "times_proved": self.times_proved,
            "times_limit": self.times_limit,
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for each learner in rounds, for a program."""
        return [
            {**asdict(each), "at_once_proved": self.at_once_proved, "times_proved": self.times(each)}
            for each in self.learners
        ]


@cache
def measured_users() -> Mapping[tuple[int, str], tuple[FewestMeasured, ...]]:
    """What was measured, by dimension and ε."""
    kept = (files("askance_lab.experiments.separation") / "measured.json").read_bytes()
    found = dict[tuple[int, str], tuple[FewestMeasured, ...]]()
    for each in TypeAdapter(list[FewestMeasured]).validate_json(kept):
        found[each.d, each.epsilon] = (*found.get((each.d, each.epsilon), ()), each)
    return found


def fewest(rows: Iterable[Mapping[str, Any]], strategies: Iterable[str], epsilon: str) -> list[FewestMeasured]:
    """By dimension, of a benchmark's rows of these strategies: the fewest users with .95 of the studies right.

    One of each strategy that took exactly two rounds, and one of all that took more.
    """
    names = ("strategy", "most_rounds", "rounds", "mean_rounds", "d", "users", "successes", "seeds")
    best = dict[tuple[int, str], FewestMeasured]()
    for row in rows:
        # Rows of former versions do not say how many rounds they took.
        if row["strategy"] in set(strategies) and row["successes"] >= 0.95 * row["seeds"] and "rounds" in row:
            found = FewestMeasured(**{name: row[name] for name in names}, epsilon=epsilon)
            key = (found.d, found.strategy if found.rounds == 2 else "")
            best[key] = min(best.get(key, found), found, key=lambda each: each.users)
    return sorted(best.values(), key=lambda each: (each.d, each.rounds, -each.users))


@cache
def separation_users(d: int, epsilon: str) -> SeparationUsers | None:
    """The users of one dimension; None where ε is too large, or too small, for the limits to say anything."""
    limits = (users_at_once_proved, users_at_once_limit, users_rounds_limit)
    try:
        found = [limit(dimension=d, epsilon=float(epsilon), failure=FAILURE) for limit in limits]
    except ProtocolError:
        return None
    return SeparationUsers(d, epsilon, *found, learners=measured_users().get((d, epsilon), ()))


def table(dimensions: Iterable[int], epsilon: str) -> list[SeparationUsers]:
    """The users of these dimensions, but where no limit says anything."""
    every = (separation_users(d, epsilon) for d in dimensions)
    return [each for each in every if each is not None]


def rows(users: Sequence[SeparationUsers]) -> list[tuple[str, ...]]:
    """Cells under `HEAD`, a row for each learner; dashes stand for what was not measured."""
    return [
        cells
        for each in users
        for cells in (
            [
                (
                    str(each.d),
                    learner.name,
                    learner.rounds_text,
                    shown(learner.users),
                    f"{learner.successes}/{learner.seeds}",
                    shown(each.at_once_proved),
                    times(each.times(learner)),
                )
                for learner in each.learners
            ]
            or [(str(each.d), *"––––", shown(each.at_once_proved), "–")]
        )
    ]


def limit_rows(users: Sequence[SeparationUsers]) -> list[tuple[str, ...]]:
    """Cells under `LIMITS`."""
    return [
        (str(each.d), shown(each.at_once_proved), shown(each.at_once_limit), shown(each.rounds_limit)) for each in users
    ]


def shown(users: int) -> str:
    """In full below 10^7, with two digits beyond."""
    return f"{users:,}" if users < 10**7 else f"{float(users):.1e}"


def times(ratio: float | None) -> str:
    """A ratio with two digits."""
    if ratio is None:
        return "–"
    if ratio < 1:
        return f"{ratio:.2f}"
    return f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f}" if ratio < 10**5 else f"{ratio:.1e}"


def lines(users: Sequence[SeparationUsers]) -> list[str]:
    """Both tables as text, at most 80 columns wide."""
    learners = (
        f"{d:>3} {learner:<31}{rounds:>10}{number:>8}{right:>9}{once:>10}{ratio:>8}"
        for d, learner, rounds, number, right, once, ratio in (HEAD, *rows(users))
    )
    limits = (
        f"{d:>3}{proved:>19}{normal:>19}{rounds:>18}" for d, proved, normal, rounds in (LIMITS, *limit_rows(users))
    )
    return [*learners, "", *limits]
