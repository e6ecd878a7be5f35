"""The page of the separation, as it was measured: error against users, in many rounds, in two and in one.

The points are those of `results.json` as `askance separation --out` writes it: of the operator, if it is in the
data directory as `separation/results.json`, else of the measurement that comes with this program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from askance_server.dashboard import charts
from askance_server.dashboard.templates import rendered

OWN: Final = Path("separation") / "results.json"
"""Where the operator's own measurement is, in the data directory."""
_LARGEST: Final = 4 << 20
_AT_ONCE: Final = ("-noninteractive", "-weak")
_TWO: Final = "-two-rounds"
Series: TypeAlias = Literal["rounds", "two", "once"]
SERIES: Final[tuple[Series, ...]] = ("rounds", "two", "once")
_LEFT, _RIGHT, _BOTTOM, _TOP = 52.0, 810.0, 382.0, 40.0
_MARKED: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
_GAP: Final = 20.0
"""Least distance between the names at the ends of two lines."""

Share = Annotated[float, Field(ge=0, le=1)]


class MeasuredPoint(BaseModel):
    """One learner at one number of users."""

    model_config = ConfigDict(frozen=True)
    learner: Annotated[str, Field(max_length=100)]
    rounds: Annotated[int, Field(ge=1)] | None = None
    """The most that a run took; None in a file of a former version, which does not say it."""
    d: Annotated[int, Field(ge=1, le=4096)]
    epsilon: Annotated[str, Field(max_length=20)]
    users: Annotated[int, Field(ge=1)]
    seeds: Annotated[int, Field(ge=1)]
    successes: int | None
    success: tuple[Share, Share, Share] | None
    error: tuple[Share, Share, Share] | None

    @property
    def series(self) -> Series:
        """The line that it belongs to."""
        if self.learner.endswith(_AT_ONCE):
            return "once"
        return "two" if self.learner.endswith(_TWO) else "rounds"

    @property
    def rounds_text(self) -> str:
        """Rounds as they were measured."""
        if self.rounds is None:
            return "rounds not recorded"
        return f"{self.rounds} round{'s' if self.rounds > 1 else ''}"


class RoundsMeasured(BaseModel):
    """Users with which a learner in rounds was right 19 times in 20."""

    model_config = ConfigDict(frozen=True)
    strategy: Annotated[str, Field(max_length=100)] = ""
    rounds: Annotated[int, Field(ge=1)] | None = None
    users: Annotated[int, Field(ge=1)]
    successes: int
    seeds: Annotated[int, Field(ge=1)]


class UserLimits(BaseModel):
    """Users of one dimension whatever the learner, beside what was measured."""

    model_config = ConfigDict(frozen=True)
    d: int
    epsilon: Annotated[str, Field(max_length=20)]
    at_once_proved: int
    at_once_limit: int
    """In the normal limit."""
    rounds_limit: int
    measured: RoundsMeasured | None
    learners: Annotated[tuple[RoundsMeasured, ...], Field(max_length=100)] = ()
    times_proved: float | None
    times_limit: float | None

    @property
    def two_rounds(self) -> RoundsMeasured | None:
        """A_MP in exactly two rounds, where it was measured."""
        return next((each for each in self.learners if each.strategy.endswith(_TWO)), None)


class Results(BaseModel):
    """The part of a results file that is shown."""

    model_config = ConfigDict(frozen=True)
    command: Annotated[str, Field(max_length=300)] = "askance separation"
    points: Annotated[tuple[MeasuredPoint, ...], Field(min_length=1, max_length=10_000)]
    limits: Annotated[tuple[UserLimits, ...], Field(max_length=100)] = ()


def results(directory: Path) -> tuple[Results, bool]:
    """What was measured, and whether it is the operator's own. A file that cannot be read is not there."""
    try:
        with (directory / OWN).open("rb") as file:
            return Results.model_validate_json(file.read(_LARGEST)), True
    except (OSError, ValidationError):
        shipped = files("askance_server.dashboard") / "measured" / "separation.json"
        return Results.model_validate_json(shipped.read_bytes()), False


def separation_page(directory: Path, asked: int | None) -> bytes:
    """The page, rendered. For a thread: it reads a file."""
    found, own = results(directory)
    dimensions = sorted({point.d for point in found.points})
    d = asked if asked in dimensions else dimensions[-1]
    points = sorted(
        (point for point in found.points if point.d == d), key=lambda each: (each.users, SERIES.index(each.series))
    )
    lines: dict[Series, list[MeasuredPoint]] = {
        series: _line([each for each in points if each.series == series]) for series in SERIES
    }
    return rendered(
        "separation.html",
        own=own,
        command=found.command,
        d=d,
        dimensions=dimensions,
        points=points,
        epsilon=points[0].epsilon,
        seeds=max(point.seeds for point in points),
        last=[each for line in lines.values() for each in line[-1:] if each.successes is not None],
        most={series: max((each.rounds or 0 for each in line), default=0) for series, line in lines.items()},
        limits=found.limits,
        chart=_chart(lines),
    )


def _line(points: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    """The points of one learner that can be drawn: of the first that was measured."""
    return [each for each in points if each.error is not None and each.learner == points[0].learner]


def _chart(lines: Mapping[Series, Sequence[MeasuredPoint]]) -> dict[str, object]:
    every = [each for line in lines.values() for each in line]
    low, high = min(each.users for each in every), max(each.users for each in every)
    across = charts.Axis(low * 0.9, high * 1.1, _LEFT, _RIGHT, logarithmic=True)
    most = max(0.6, *(each.error[2] for each in every if each.error))
    up = charts.Axis(0.0, most, _BOTTOM, _TOP)

    def drawn(points: Sequence[MeasuredPoint]) -> dict[str, object]:
        ends = [(across.at(each.users), *map(up.at, each.error)) for each in points if each.error]
        middle = [(x, y) for x, y, _, _ in ends]
        return {
            "points": middle,
            "line": charts.line(middle),
            "band": charts.band([(x, top) for x, _, _, top in ends], [(x, bottom) for x, _, bottom, _ in ends]),
        }

    quarter = up.at(0.25)
    below = next((up.at(line[-1].error[0]) for line in lines.values() if line and line[-1].error), _BOTTOM)
    return {
        **{series: drawn(line) if line else None for series, line in lines.items()},
        "up": [(up.at(each), f"{each:.1f}") for each in charts.ticks(0, most, 6)],
        "across": [(across.at(each), f"{each:,}") for each in _MARKED if low <= each <= high],
        "quarter": quarter,
        # Above the line's own words or below them, wherever the learner ends.
        "once_says": quarter - 2 * _GAP,
        "rounds_says": below - 14,
        "two_says": below - 14 - _GAP,
    }
