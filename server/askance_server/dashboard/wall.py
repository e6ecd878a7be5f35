"""What the wall of a room says: the question, how many have answered, and the share as far as it is told.

Theory of operation
-------------------
*Interval first.* A share stands alone only where its interval is narrower than 50 points; before that a number would be
taken for an answer. Ends are rounded outward, so that what is shown still covers. Of several choices all intervals are
said to hold together, with what is left of one when each may fail (the union bound).

*In steps.* Of an open round nothing is shown but what the server tells of it to anybody (`StudySpec.live`), so that who
looks at the wall while one person sends does not read that person's bit. The number of reports is public at once.

*Nobody's answer.* What a turned bit means is said on the same screen, with the very probability of the round's channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from askance_protocol.budget import to_text
from askance_protocol.channels import BinarySpec, KarySpec
from askance_protocol.rounds import ENDED, PreparedRound, StudySpec, StudyState
from askance_protocol.schema import Schema
from askance_server.core.strategy import Estimate
from askance_server.dashboard.names import choice, ends_of_mean

MOST_BELOW: Final = 10
"""Choices that stand below each other; more are in two columns, so that the wall needs no scrolling."""
MOST_SHOWN: Final = 24
"""Choices that the wall shows, the first ones; the result has the others."""
WIDEST: Final = 50
"""Points below which an interval has to be for its share to be shown."""
_WORD: Final = 1 << 64
_PERCENT: Final = "\u00a0%"


@dataclass(frozen=True, slots=True)
class ToldNumber:
    """One number of the wall, from 0 to 1 along its line."""

    label: str
    estimate: float
    low: float
    high: float
    level: float
    reports: int
    ends: tuple[float, float] | None = None
    """What the line's ends mean; None: they are shares, 0 and 100 %."""

    @property
    def interval(self) -> tuple[float, float]:
        """Where both ends stand on the line, in points, as they are told: outward."""
        return self._drawn(self.least), self._drawn(self.most)

    @property
    def point(self) -> float:
        """Where the number stands on the line, in points, as it is told."""
        return self._drawn(self.number)

    @property
    def percent(self) -> int:
        """The per cent with which it holds, rounded down."""
        return _down(100 * self.level)

    @property
    def is_narrow(self) -> bool:
        """Whether a number may stand alone."""
        low, high = self.interval
        return high - low < WIDEST

    @property
    def number(self) -> str:
        """The share, or the mean, in words."""
        return self._said(self.estimate, round)

    @property
    def least(self) -> str:
        """The lower end, rounded down."""
        return self._said(self.low, _down)

    @property
    def most(self) -> str:
        """The upper end, rounded up."""
        return self._said(self.high, _up)

    def _drawn(self, told: str) -> float:
        low, high = (0.0, 100.0) if self.ends is None else self.ends
        return min(100.0, max(0.0, 100 * (float(told.removesuffix(_PERCENT)) - low) / (high - low)))

    def _said(self, at: float, rounded: Callable[[float], int]) -> str:
        if self.ends is None:
            return f"{rounded(100 * at)}{_PERCENT}"
        return f"{rounded(10 * (self.ends[0] + (self.ends[1] - self.ends[0]) * at)) / 10:.1f}"


def _down(value: float) -> int:
    """Rounded down, but for what the last digit of a double adds or takes."""
    return math.floor(value + 1e-9)


def _up(value: float) -> int:
    return math.ceil(value - 1e-9)


def rows_of(estimates: Sequence[Estimate], example: Schema) -> list[ToldNumber]:
    """The numbers of the wall, in the order of the question.

    Of a scale it is the share of each number, or the mean alone where there are too many for shares (`mean_of`); of two
    choices the first, since the other is the rest.
    """
    rows = [_row(each, example) for each in estimates]
    if len(rows) > 1 and rows[0].ends is not None:
        return rows[1:]
    if len(rows) == 2 and math.isclose(rows[0].estimate + rows[1].estimate, 1):
        return rows[:1]
    return rows


def mean_of(estimates: Sequence[Estimate], example: Schema) -> ToldNumber | None:
    """The mean of a scale of which shares are told, too."""
    rows = [_row(each, example) for each in estimates]
    return rows[0] if len(rows) > 1 and rows[0].ends is not None else None


def _row(each: Estimate, example: Schema) -> ToldNumber:
    if (ends := ends_of_mean(each.name, example)) is not None:
        low, high = ends
        scaled = ((value - low) / (high - low) for value in (each.estimate, each.low, each.high))
        middle, least, most = (min(1.0, max(0.0, value)) for value in scaled)
        return ToldNumber("on average", middle, least, most, each.level, each.reports, ends)
    return ToldNumber(choice(each.name), each.estimate, each.low, each.high, each.level, each.reports)


def together(rows: Sequence[ToldNumber]) -> int:
    """The per cent with which all intervals hold at once, at least: by the union bound, rounded down."""
    return max(0, math.floor(100 * (1 - sum(1 - row.level for row in rows)) + 1e-6))


def not_told_apart(rows: Sequence[ToldNumber]) -> tuple[str, str] | None:
    """Two choices whose intervals overlap, though one was chosen more than the other: those that differ the most."""
    pairs = [
        (high.estimate - low.estimate, (high.label, low.label))
        for high in rows
        for low in rows
        if high.estimate > low.estimate and high.low <= low.high
    ]
    return max(pairs)[1] if pairs else None


def turned(round_: PreparedRound, *, begun: bool) -> str:
    """What each phone does to its own answer, with the very probability; what it did, once one has."""
    before, turns = ("Before anything left", "turned") if begun else ("Before anything leaves", "turns")
    [part, *others] = round_.spec.parts
    if others:
        return f"{before}, each phone {turns} its own answer by a coin"
    channel = round_.parts[0].channel
    weights = sorted(weight / _WORD for weight in channel.weights(0))
    match part.channel:
        case BinarySpec() if channel.inputs <= 3:
            # Of a value between the two the coin is fairer still.
            return f"{before}, each phone {turns} its own answer with {round(100 * weights[0])}{_PERCENT}"
        case BinarySpec():
            return f"{before}, each phone {turns} its bit with {round(100 * weights[0])}{_PERCENT} or more"
        case KarySpec():
            through, sent = ("let", "sent") if begun else ("lets", "sends")
            own, other = (f"{100 * weight:.1f}{_PERCENT}" for weight in (weights[-1], weights[0]))
            each = f"each of the other {len(weights) - 1}"
            return f"Each phone {through} its own answer through with {own}, and {sent} {each} with {other}"
        case _:
            moves = "moved" if begun else "moves"
            return f"{before}, each phone {moves} its own answer by a coin"


def chance_of_another(round_: PreparedRound) -> float | None:
    """How often what leaves is another answer than her own; None where that depends on her answer, or on the part."""
    [part, *others] = round_.spec.parts
    channel = round_.parts[0].channel
    if others or not (
        isinstance(part.channel, KarySpec) or (isinstance(part.channel, BinarySpec) and channel.inputs <= 3)
    ):
        return None
    return 1 - max(channel.weights(0)) / _WORD


@dataclass(frozen=True, slots=True)
class Wall:
    """All that the wall shows of one study at one moment."""

    study: str
    spec: StudySpec
    state: StudyState
    round: PreparedRound | None
    received: int
    told: int
    rows: Sequence[ToldNumber]
    past: Sequence[ToldNumber] = ()
    """Of a single number, what was told after fewer reports."""
    mean: ToldNumber | None = None
    """Of a scale, beside the share of each number."""
    left_out: int = 0
    """Number of choices that are not shown."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.state in ENDED

    @property
    def epsilon(self) -> str:
        """The most that an answer costs."""
        return to_text(self.spec.cap if self.round is None else self.round.charge)

    @property
    def closes(self) -> datetime | None:
        """When the round closes at last."""
        return None if self.round is None else datetime.fromtimestamp(self.round.spec.deadline, UTC)

    @property
    def share_of_target(self) -> float:
        """How much of the round's reports are there, from 0 to 1."""
        return 0.0 if self.round is None else min(1.0, self.received / self.round.spec.target)

    @property
    def turned(self) -> str:
        """What each phone did."""
        return "" if self.round is None else turned(self.round, begun=self.received > 0)

    @property
    def slice(self) -> tuple[float, float] | None:
        """Where the part of the coin that turns an answer ends, on a circle of radius 1 from its top clockwise."""
        chance = None if self.round is None else chance_of_another(self.round)
        return None if chance is None else (math.sin(2 * math.pi * chance), -math.cos(2 * math.pi * chance))

    @property
    def is_bit(self) -> bool:
        """Whether what leaves a phone is one bit."""
        return self.round is not None and self.round.outcomes == 2

    @property
    def level(self) -> int:
        """The per cent with which all that is shown holds at once, at least."""
        if self.spec.strategy == "poll" or self.spec.parameters.get("simultaneous") is True:
            # They were made to hold together.
            return min((row.percent for row in self.rows), default=0)
        return together(self.rows)

    @property
    def columns(self) -> Sequence[Sequence[ToldNumber]]:
        """The choices as they stand beside each other."""
        half = len(self.rows) if len(self.rows) <= MOST_BELOW else -(-len(self.rows) // 2)
        return [self.rows[start : start + half] for start in range(0, len(self.rows), half)]

    @property
    def alike(self) -> tuple[str, str] | None:
        """Two choices that are not told apart yet."""
        return not_told_apart(self.rows)
