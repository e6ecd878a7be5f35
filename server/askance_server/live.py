"""What is told of open rounds, from a ledger: each report is read and looked at once, however often is asked.

How far a round is told (`core.live.Telling`) is kept from one question to the next, with the place in the ledger up to
which it has heard. It is none of the truth: after a start, and on every server that shares the ledger, it is made anew
from the same reports in the same order.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from askance_protocol.rounds import PreparedRound, RoundState
from askance_protocol.tally import Tally
from askance_server.core.live import Arrivals, Telling, looked_at
from askance_server.ledger.base import Ledger

_REMEMBERED: Final = 64
"""Rounds that are kept."""
MOST_WAITING: Final = 1 << 18
"""Arrivals of a round that may wait to be told. A round with more, which has many rows, is read anew for each step."""


@dataclass(slots=True, eq=False)
class _Kept:
    """How far one round is told, and up to where it has been read."""

    telling: Telling
    mark: int | None = 0
    """None: from the beginning, next time."""
    alone: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class LiveTallies:
    """The tallies of open rounds, as far as they are told. Threads may ask at once; of one round one reads."""

    ledger: Ledger
    most_waiting: int = MOST_WAITING
    _kept: OrderedDict[str, _Kept] = field(default_factory=OrderedDict[str, _Kept])
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def of(self, round_id: str) -> Sequence[Tally]:
        """The tallies that are told, one for each part; none of a round that is not live, or not open."""
        telling = self.telling(round_id)
        return () if telling is None else telling.tallies

    def telling(self, round_id: str) -> Telling | None:
        """How far a round is told; None of one that is not live, or not open."""
        round_ = self.ledger.round(round_id)
        if round_.study.live is None:
            return None
        if self.ledger.state(round_id) is not RoundState.OPEN:
            with self._alone:
                self._kept.pop(round_id, None)
            return None
        kept = self._kept_of(round_, round_.study.live)
        with kept.alone:
            self._catch_up(round_id, kept)
            return kept.telling

    def _kept_of(self, round_: PreparedRound, step: int) -> _Kept:
        with self._alone:
            kept = self._kept.get(round_.id)
            if kept is None:
                kept = self._kept[round_.id] = _Kept(Telling.of(round_, step))
            self._kept.move_to_end(round_.id)
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
            return kept

    def _catch_up(self, round_id: str, kept: _Kept) -> None:
        """Hear what has come, if it is a whole step or more."""
        telling, mark = kept.telling, kept.mark
        due = looked_at(self.ledger.received(round_id), telling.step)
        if due <= telling.received:
            return
        if mark is None:
            telling, mark = Telling.of(telling.round, telling.step), 0
        while telling.received < due:
            users, outcomes, mark = self.ledger.reports_behind(round_id, mark)
            if not len(users):
                break
            telling = telling.heard(Arrivals(users, outcomes))
        kept.telling, kept.mark = telling, mark
        if len(telling.waiting) > self.most_waiting:
            kept.telling, kept.mark = telling.without_waiting(), None
