"""Reads a study's bulletin repeatedly, checking each time that it continues what was read before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from askance_client.history import History
from askance_client.news import ShortRound, StudyNews
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Problem, Server, Tail, UnreachableError
from askance_protocol.budget import LARGEST
from askance_protocol.rounds.lifecycle import ENDED
from askance_protocol.text import counted, printable

MOST_BYTES: Final = 64 << 20
"""Bytes of a study's entries, in all: what one study may make her hold."""
_PIECE: Final = 1 << 20
"""Bytes of an answer from which there may be more to read: a server gives a long bulletin in pieces."""
_APART: Final = 1 << 15
"""Bytes of an answer from which it is checked in a thread."""
_MOST_WORDS: Final = 500
"""Characters of a server's reason that are shown."""


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
    _read: int = field(init=False, repr=False, default=0)
    """Bytes of entries so far."""
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

    async def news(self) -> StudyNews:
        """What the study waits for: reports to open rounds, or whatever the server has paused it for.

        No entry of the bulletin says so: it is the server's word, for people. Which rounds there are, how many reports
        each wants and until when, is read off the bulletin.
        """
        try:
            study = await self.server.document(f"/v1/studies/{self.study}")
        except UnreachableError:
            return StudyNews()
        if not isinstance(study, dict):
            return StudyNews()
        reason, rounds = study.get("paused"), study.get("rounds")
        received = _received(cast("list[object]", rounds) if isinstance(rounds, list) else [])
        short = list[ShortRound]()
        for id_ in self.history.open_rounds():
            round_ = self.history.rounds[id_]
            if not isinstance(round_, Refusal) and received.get(id_, LARGEST) < round_.spec.target:
                spec = round_.spec
                short.append(ShortRound(spec.number, received[id_], spec.target, spec.deadline))
        return StudyNews(paused=printable(reason, _MOST_WORDS) if isinstance(reason, str) else "", short=tuple(short))

    async def _read_on(self) -> History | Refusal:
        """Read to the end of the bulletin, a piece at a time where it is long."""
        history, read = self.history, self._read
        while True:
            new = await self.server.entries(self.study, len(history.heads) - 1)
            if isinstance(new, Problem):
                # What has a name, a server of this protocol has said; the rest may come from anything in between.
                said = "it knows no such study: " if new.name == "not-found" else ""
                why = f"{said}the server says {new.status} {new.name}"
                return Refusal(Reason.UNREADABLE, why, passing=not new.name)
            if isinstance(new, Refusal):
                return new
            read += new.size if new.entries else 0
            if read > MOST_BYTES:
                return Refusal(Reason.UNREADABLE, f"the bulletin is longer than {MOST_BYTES} bytes")
            # Many entries are checked in a thread: other users of the process go on meanwhile.
            extend = self._extended
            after = await asyncio.to_thread(extend, history, new) if new.size > _APART else extend(history, new)
            if isinstance(after, Refusal):
                return after
            history = after
            if new.size < _PIECE or not new.entries:
                self._read = read
                return history

    @staticmethod
    def _extended(history: History, new: Tail) -> History | Refusal:
        """Extend the history. A server that lags behind has nothing new, but its head must be a known one."""
        after = history.extended(new.entries)
        if isinstance(after, Refusal) or not after.heads or after.continues(new.pin):
            return after
        return Refusal(
            Reason.TWO_HISTORIES, f"the head of its {counted(after.pin.length, 'entry', 'entries')} is that of others"
        )


def _received(rounds: Sequence[object]) -> dict[str, int]:
    """How many reports the server says that each round has; what is not said so is left out."""
    told = dict[str, int]()
    for each in rounds:
        match each:
            case {"id": str(id_), "received": int(received)} if 0 <= received <= LARGEST:
                told[id_] = received
            case _:
                pass
    return told
