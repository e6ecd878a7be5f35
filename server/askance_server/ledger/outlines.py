"""What follows from an entry for its bulletin, read off the bytes of its canonical form.

To read an entry strictly takes a thousand times as long as to look at it. It was read strictly when it was written, and
its digest says that it is what was written: so whoever only has to know where a study stands that has ended looks here.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Bulletin, RoundState, StudyState, study_after
from askance_protocol.rounds.bulletin import GENESIS, RoundStates
from askance_protocol.rounds.lifecycle import END_EVENTS

# The members of a canonical form are in the order of their names: the notice is before all else that differs.
_HEAD: Final = re.compile(rb'\{"form":"askance\.entry","notice":\{(?:"cause"|"kind":"([a-z]+)")')
_TAIL: Final = re.compile(rb'\},"previous":"([0-9a-f]{64})","sequence":([0-9]{1,15}),"version":[12]\}\Z')
_LONGEST_TAIL: Final = 140
_STATE: Final = re.compile(rb'"state":"([a-z]+)"\Z')
_ANSWERED: Final = re.compile(rb'"kind":"answers","round":"([0-9a-f]{64})"')
_CLOSED: Final = re.compile(rb'"round":"([0-9a-f]{64})"\Z')
_ROUND: Final = b'{"form":"askance.entry","notice":{"kind":"round","round":'


@dataclass(slots=True)
class StudyOutline:
    """Where a study stands, entry by entry."""

    head: str = GENESIS
    length: int = 0
    ended: StudyState | None = None
    rounds: dict[str, RoundState] = field(default_factory=dict[str, RoundState])
    places: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Each round and the sequence of the entry that has published it."""

    def append(self, digest: str, body: bytes) -> None:
        """Take in the next entry, which has this digest; ProtocolError if it is not what was written next."""
        head, tail = _HEAD.match(body), _TAIL.search(body, max(0, len(body) - _LONGEST_TAIL))
        if head is None or tail is None or hashlib.sha256(body).hexdigest() != digest:
            raise ProtocolError("is not what was written", where=f"entry {self.length}")
        if (tail[1].decode(), int(tail[2])) != (self.head, self.length) or self.ended is not None:
            raise ProtocolError("does not follow on the entry before", where=f"entry {self.length}")
        self._take(b"ended" if head[1] is None else head[1], body, tail.start())
        self.head, self.length = digest, self.length + 1

    def _take(self, kind: bytes, body: bytes, end: int) -> None:
        match kind:
            case b"round":
                id_ = hashlib.sha256(body[len(_ROUND) : end]).hexdigest()
                self.rounds[id_] = RoundState.OPEN
                self.places.append((id_, self.length))
            case b"answers" if (found := _ANSWERED.search(body, 0, 200)) is not None:
                self.rounds[found[1].decode()] = RoundState.ANSWERED
            case b"closed" if (found := _CLOSED.search(body, 0, end)) is not None:
                self.rounds[found[1].decode()] = RoundState.CLOSED
            case b"ended" if (found := _STATE.search(body, 0, end)) is not None:
                self._end(found[1].decode())
            case b"study":
                pass
            case _:
                raise ProtocolError("is of no kind that is known", where=f"entry {self.length}")

    def _end(self, state: str) -> None:
        # Whatever the study was before: from each state that a study may end in, its end leads to the same.
        event = next(event for name, event in END_EVENTS.items() if name == state)
        self.ended = study_after(StudyState.RUNNING, event)
        for id_, before in self.rounds.items():
            if before is not RoundState.ANSWERED:
                self.rounds[id_] = RoundState.ABANDONED

    def bulletin(self) -> Bulletin:
        """The bulletin of a study that has ended, but for the study itself."""
        assert self.ended is not None  # noqa: S101 - told the type checker: nobody asks for another
        return Bulletin(self.head, self.length, None, self.ended, RoundStates.of(self.rounds.items()))
