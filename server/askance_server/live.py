"""What is told of open rounds, from a ledger: worked out once for each step, however often it is asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from askance_protocol.rounds import RoundState
from askance_protocol.tally import Tally
from askance_server.core.live import looked_at, told_tallies
from askance_server.ledger.base import Ledger

_REMEMBERED: Final = 64
"""Rounds whose tallies are kept."""


@dataclass(slots=True)
class LiveTallies:
    """The tallies of open rounds, as far as they are told. Threads may ask at once: at worst, one counts in vain."""

    ledger: Ledger
    _known: OrderedDict[str, tuple[int, Sequence[Tally]]] = field(
        default_factory=OrderedDict[str, tuple[int, "Sequence[Tally]"]]
    )

    def of(self, round_id: str) -> Sequence[Tally]:
        """The tallies that are told, one for each part; none of a round that is not live, or not open."""
        round_ = self.ledger.round(round_id)
        step = round_.study.live
        if step is None or self.ledger.state(round_id) is not RoundState.OPEN:
            return ()
        count = looked_at(self.ledger.received(round_id), step)
        known = self._known.get(round_id)
        if known is None or known[0] < count:
            known = count, told_tallies(round_, *self.ledger.first_reports(round_id, count), step)
            self._remember(round_id, known)
        return known[1]

    def _remember(self, round_id: str, told: tuple[int, Sequence[Tally]]) -> None:
        self._known[round_id] = told
        while len(self._known) > _REMEMBERED:
            self._known.pop(next(iter(self._known)), None)
