"""Tallies: what the reports of a round add up to, part by part. Tallies add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers
from askance_protocol.coins import Users
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Dealt, InTurn, PreparedRound
from askance_protocol.text import counted

Counts = Integers

_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The reports of one part, counted: for each public row, how often each outcome came. Tallies add up."""

    counts: Counts

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Tally:
        """Read a tally from the rows of a bulletin entry."""
        return cls(np.array(rows, np.int64))

    @property
    def received(self) -> int:
        """The number of reports that came in."""
        return int(np.add.reduce(self.counts, axis=None))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.counts + other.counts)

    def to_rows(self) -> tuple[tuple[int, ...], ...]:
        """The rows as a bulletin entry carries them."""
        return tuple(tuple(row) for row in self.counts.tolist())


def tally_round(round_: PreparedRound, users: Users, outcomes: NDArray[np.integer[Any]]) -> list[Tally]:
    """Count the reports of a round: one tally for each part."""
    if len(users) != len(outcomes):
        raise ProtocolError(
            f"has {counted(len(outcomes), 'entry', 'entries')}, users has {len(users):,}",
            where="outcomes",
            remedy="give one outcome a user",
        )
    counters = _Counters(round_)
    for begin in range(0, len(outcomes), _CHUNK):
        counters.count(round_.questions(users[begin : begin + _CHUNK]), outcomes[begin : begin + _CHUNK])
    return counters.tallies()


def tally_in_turn(round_: PreparedRound, reports: InTurn) -> list[Tally]:
    """Count the reports of a round that are in the order of its parts: one tally for each part."""
    sizes = np.diff(reports.ends)
    counters = _Counters(round_)
    if counters.shape == (1, 2):
        return [Tally(counts) for counts in _bits(sizes, reports)]
    parts = np.repeat(np.arange(len(sizes), dtype=np.uint16), sizes)
    counters.count(Dealt(parts, reports.rows), reports.outcomes)
    return counters.tallies()


def _bits(sizes: Counts, reports: InTurn) -> Counts:
    """How often each part was answered 0 and 1, where all have these two outcomes and no row: sums of runs."""
    _refuse_outside(reports.outcomes, 2)
    answered = sizes > 0
    ones = np.zeros(len(sizes), np.int64)
    if answered.any():
        ones[answered] = np.add.reduceat(reports.outcomes, reports.ends[:-1][answered], dtype=np.int64)
    return np.stack([sizes - ones, ones], axis=-1)[:, None]


def _refuse_outside(outcomes: NDArray[np.integer[Any]], widths: int | NDArray[np.int64]) -> None:
    if len(outcomes) and (int(outcomes.min()) < 0 or (outcomes >= widths).any()):
        raise ProtocolError("is not an outcome of its part", where="outcomes", remedy="check reports as they arrive")


class _Counters:
    """All parts' counts in one array, so that a report is counted in one pass whatever its part."""

    def __init__(self, round_: PreparedRound) -> None:
        self._shapes = list(zip(round_.rows, round_.limits, strict=True))
        self.shape = self._shapes[0] if len(set(self._shapes)) == 1 else None
        """The rows and outcomes of every part; None where they differ."""
        sizes = [rows * outcomes for rows, outcomes in self._shapes]
        self._starts = np.cumsum([0, *sizes])
        self._widths = np.array([outcomes for _, outcomes in self._shapes])
        self._counts = np.zeros(int(self._starts[-1]), np.int64)

    def count(self, asked: Dealt, outcomes: NDArray[np.integer[Any]]) -> None:
        if self.shape is not None:
            height, width = self.shape
            _refuse_outside(outcomes, width)
            # Where a part's counts begin is a product then, and they are fewer than 2³².
            rows = asked.parts if height == 1 else asked.parts.astype(np.uint32) * np.uint32(height) + asked.rows
            places = rows.astype(np.uint32) * np.uint32(width) + outcomes.astype(np.uint32)
        else:
            widths = self._widths.take(asked.parts)
            _refuse_outside(outcomes, widths)
            places = self._starts.take(asked.parts) + asked.rows * widths + outcomes
        self._counts += np.bincount(places, minlength=len(self._counts))

    def tallies(self) -> list[Tally]:
        counts, starts = self._counts, self._starts.tolist()
        return [Tally(counts[at : at + h * w].reshape(h, w)) for at, (h, w) in zip(starts, self._shapes, strict=False)]
