"""Reads a study's bulletin repeatedly, checking each time that it continues what was read before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from askance_client.history import History
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Problem, Server, Tail
from askance_protocol.rounds.lifecycle import ENDED

_APART: Final = 1 << 15
"""Bytes of an answer from which it is checked in a thread."""


def _now() -> float:
    return time.time()


@dataclass(slots=True)
class BulletinReader:
    """Reads one study from one server. Users of one process may share it: what it has checked is public."""

    server: Server
    study: str
    history: History = field(init=False)
    clock: Callable[[], float] = _now
    """Seconds since 1970, by her own device: by which deadlines are judged."""
    refusal: Refusal | None = None
    """Why nothing is read any more: after a lie there is no truth to go on with."""
    _reading: asyncio.Lock = field(init=False, repr=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.history = History(self.study)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be asked."""
        return self.refusal is not None or self.history.bulletin.state in ENDED

    @property
    def over(self) -> bool:
        """Whether nothing more is to be expected: the study has ended, or its last deadline has long passed."""
        return self.ended or self.history.long_over(self.clock())

    async def refresh(self) -> Refusal | None:
        """Read what is new, and check that it continues what was read. One caller reads at a time, for all."""
        async with self._reading:
            if self.refusal is None:
                after = await self._read_on()
                if isinstance(after, History):
                    self.history = after
                elif after.passing:
                    return after
                else:
                    self.refusal = after
            if self.refusal is None and not self.history.heads:
                return Refusal(Reason.UNREADABLE, "the bulletin is empty", passing=True)
            return self.refusal

    async def _read_on(self) -> History | Refusal:
        new = await self.server.entries(self.study, len(self.history.heads) - 1)
        if isinstance(new, Problem):
            # What has a name, a server of this protocol has said; the rest may come from anything in between.
            return Refusal(Reason.UNREADABLE, f"the server says {new.status} {new.name}", passing=not new.name)
        if isinstance(new, Refusal):
            return new
        # Many entries are checked in a thread: other users of the process go on meanwhile.
        return await asyncio.to_thread(self._extended, new) if new.size > _APART else self._extended(new)

    def _extended(self, new: Tail) -> History | Refusal:
        """Extend the history. A server that lags behind has nothing new, but its head must be a known one."""
        after = self.history.extended(new.entries)
        if isinstance(after, Refusal) or not after.heads or after.continues(new.pin):
            return after
        return Refusal(Reason.TWO_HISTORIES, f"there are {after.pin.length} entries, and the head is that of others")
