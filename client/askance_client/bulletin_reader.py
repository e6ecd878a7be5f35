"""Reads a study's bulletin repeatedly, checking each time that it continues what was read before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from askance_client.history import History
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Problem, Server, Tail
from askance_protocol.rounds.lifecycle import ENDED


@dataclass(slots=True)
class BulletinReader:
    """Reads one study from one server. Users of one process may share it: what it has checked is public."""

    server: Server
    study: str
    history: History = field(init=False)
    refusal: Refusal | None = None
    """Why nothing is read any more: after a lie there is no truth to go on with."""
    _reading: asyncio.Lock = field(init=False, repr=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.history = History(self.study)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be asked."""
        return self.refusal is not None or self.history.bulletin.state in ENDED

    async def refresh(self) -> Refusal | None:
        """Read what is new, and check that it continues what was read. One caller reads at a time, for all."""
        async with self._reading:
            if self.refusal is None:
                new = await self.server.entries(self.study, len(self.history.heads) - 1)
                if isinstance(new, Problem):
                    return Refusal(Reason.UNREADABLE, f"the server says {new.status} {new.name}")
                after = new if isinstance(new, Refusal) else self._extended(new)
                if isinstance(after, Refusal):
                    self.refusal = after
                else:
                    self.history = after
            if self.refusal is None and not self.history.heads:
                return Refusal(Reason.UNREADABLE, "the bulletin is empty")
            return self.refusal

    def _extended(self, new: Tail) -> History | Refusal:
        """Extend the history. A server that lags behind has nothing new, but its head must be a known one."""
        after = self.history.extended(new.entries)
        if isinstance(after, Refusal) or not after.heads or after.continues(new.pin):
            return after
        return Refusal(Reason.TWO_HISTORIES, f"there are {after.pin.length} entries, and the head is that of others")
