"""What is told of a round while it is open: counts in steps of `k` reports, where its study says so (`StudySpec.live`).

Theory of operation
-------------------
A spectator sees the number of reports go up by one, looks around, and reads a count that has changed by one: then she
has read one person's bit. So counts change by `k` reports at a time, whatever is asked, whenever, and of whom.

*What is told* is a function of the order of acceptance alone (`Ledger.reports_behind`). Of n reports the first
N = k·⌊n/k⌋ are looked at. A part's reports are counted row by row, and who knows a user's number knows her part and her
row, which a public coin says; so it is rows that are told in steps: of each row of a part the first k·j reports, where
j is one less than the number of whole steps that its rarest row has among the N. All rows of a part have as many, so
that estimates are made of them as of a round that is closed.

*Each report is looked at once*, as it comes (`Telling.heard`): what was told stays told, so what has to be kept is the
tallies of that, and the reports that wait. Heard in other pieces, the same reports tell the same.

*One step less*, because the round may close at any moment, and then all of it is told: what had not been told of a row
is k reports or more. So any two counts of a row that are ever told, by any server, before or after a restart, are the
same or differ by k reports at least; where nothing was told before the end, the end is the first that anybody sees.

*What it does not do.* The reports are ε-private as they are, and a count of k says something of each. Who sends k − 1
of them herself, or knows them, reads the last one. And the aggregator, who takes the reports, sees each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.rounds import PreparedRound
from askance_protocol.tally import Tally, tally_round

MOST_LOOKED_BACK: Final = 10_000
"""Reports of a round beyond which nobody is told any more what was told before."""


def looked_at(received: int, step: int) -> int:
    """Number of reports of so many that are looked at: those of whole steps."""
    return step * (received // step)


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Reports in the order of acceptance."""

    users: NDArray[np.uint64]
    outcomes: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, some: slice | Truths) -> Arrivals:
        return Arrivals(self.users[some], self.outcomes[some])

    def __add__(self, other: Arrivals) -> Arrivals:
        """These, and the others behind them."""
        return Arrivals(np.concatenate([self.users, other.users]), np.concatenate([self.outcomes, other.outcomes]))


_NONE: Final = Arrivals(np.zeros(0, np.uint64), np.zeros(0, np.uint32))


@dataclass(frozen=True, slots=True, eq=False)
class Telling:
    """How far a round has been told after the reports that came so far."""

    round: PreparedRound
    step: int
    tallies: Sequence[Tally]
    """What is told: a tally for each part, perhaps an empty one."""
    came: Sequence[Integers]
    """For each part how many reports each row has, of those that are looked at."""
    received: int = 0
    waiting: Arrivals = _NONE
    """Reports that came and are not told."""
    first: Arrivals = _NONE
    """Of a round with one row, the first that were told."""

    @classmethod
    def of(cls, round_: PreparedRound, step: int) -> Telling:
        """A round before its first report."""
        return cls(round_, step, _tallied(round_, _NONE), [np.zeros(count, np.int64) for count in round_.rows])

    def heard(self, more: Arrivals) -> Telling:
        """What is told when these have come, behind those before."""
        received, waiting = self.received + len(more), self.waiting + more
        looked = looked_at(received, self.step)
        # What waits ends with what came last; all of it before that has been looked at.
        newly = len(waiting) - (received - looked_at(self.received, self.step))
        end = len(waiting) - (received - looked)
        came = self._counted(waiting[newly:end])
        told = self._told(waiting[:end], came)
        now = replace(self, came=came, received=received, waiting=waiting)
        if not told.any():
            return now
        stay = np.ones(len(waiting), np.bool)
        stay[:end] = ~told
        said = waiting[~stay]
        tallies = [sum_ + tally for sum_, tally in zip(self.tallies, _tallied(self.round, said), strict=True)]
        first = (self.first + said)[:MOST_LOOKED_BACK] if self.looks_back else self.first
        return replace(now, tallies=tallies, waiting=waiting[stay], first=first)

    def without_waiting(self) -> Telling:
        """What is told so far, for one who has no room for more: it can hear nothing any more."""
        return replace(self, waiting=_NONE)

    @property
    def told(self) -> int:
        """Number of reports that are told."""
        return sum(tally.received for tally in self.tallies)

    @property
    def looks_back(self) -> bool:
        """Whether the reports that are told are the first ones: of a round with one row."""
        return len(self.round.rows) == 1 and self.round.rows[0] == 1

    def after(self, reports: int) -> Sequence[Tally]:
        """What was told when so many of the first reports were."""
        return _tallied(self.round, self.first[:reports])

    def _counted(self, newly: Arrivals) -> list[Integers]:
        parts, rows = self.round.questions(newly.users)
        counts = zip(self.came, self.round.rows, strict=True)
        return [before + np.bincount(rows[parts == part], minlength=n) for part, (before, n) in enumerate(counts)]

    def _told(self, looked: Arrivals, came: Sequence[Integers]) -> Truths:
        """Which of the reports that wait and are looked at are told now: of every row of a part as many."""
        told = np.zeros(len(looked), np.bool)
        more = [self._more(*each) for each in zip(self.tallies, came, self.round.rows, strict=True)]
        if any(more):
            parts, rows = self.round.questions(looked.users)
            for part, count in enumerate(more):
                mine = np.flatnonzero(parts == part)
                told[mine] = _places(rows[mine]) < count
        return told

    def _more(self, tally: Tally, came: Integers, rows: int) -> int:
        """How many reports more of each row of a part are told."""
        return max(int(came.min()) // self.step - 1, 0) * self.step - tally.received // rows


def _tallied(round_: PreparedRound, reports: Arrivals) -> Sequence[Tally]:
    return tally_round(round_, reports.users, reports.outcomes)


def _places(rows: NDArray[np.integer[Any]]) -> Integers:
    """The place of each report among those of its row, from 0 on."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    places = np.zeros(len(rows), np.int64)
    places[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return places
