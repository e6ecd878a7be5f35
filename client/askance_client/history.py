"""The history of a study, as a client has checked it: every digest recomputed, no round prepared before it asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from askance_client.refusals import Reason, Refusal
from askance_protocol.errors import ProtocolError
from askance_protocol.grown import NOTHING, Grown, GrownMapping
from askance_protocol.rounds import (
    Bulletin,
    Entry,
    GrowingBulletin,
    PreparedRound,
    RoundPublished,
    RoundSpec,
    RoundState,
    StudySpec,
    check_work,
    open_round,
)


@dataclass(frozen=True, slots=True)
class Pin:
    """How much of a study's history a user has seen: the digest of its last entry names all of it."""

    length: int
    head: str


LONG_OVER: Final = 3600
"""Seconds after the last deadline until a study that is still open is taken for abandoned: a server closes a round at
its deadline, computes for minutes at most, and publishes the next."""
_NOTHING: Final = Bulletin()


@dataclass(frozen=True, slots=True)
class History:
    """The entries of a bulletin that were read so far, checked. Only `extended` makes a longer one."""

    id: str
    bulletin: Bulletin = _NOTHING
    heads: Grown[str] = NOTHING
    """The digest of each entry."""
    rounds: GrownMapping[str, PreparedRound | Refusal] = field(
        default_factory=GrownMapping[str, "PreparedRound | Refusal"]
    )
    """Each round by its id: to be prepared for who is asked, or why it is refused by all."""
    deadline: int = 0
    """The last deadline of all rounds."""

    @property
    def study(self) -> StudySpec:
        """The study, from the first entry."""
        if self.bulletin.study is None:
            raise ProtocolError("is empty", where="bulletin", remedy="read it before it is looked into")
        return self.bulletin.study

    @property
    def pin(self) -> Pin:
        """Pin of the last entry: it names the whole history."""
        return Pin(self.bulletin.length, self.bulletin.head)

    def continues(self, pin: Pin) -> bool:
        """Whether the pinned entry is still part of this history."""
        return 0 < pin.length <= len(self.heads) and self.heads[pin.length - 1] == pin.head

    def open_rounds(self) -> list[str]:
        """The ids of the rounds that take reports."""
        return [id_ for id_, state in self.bulletin.rounds.others if state is RoundState.OPEN]

    def long_over(self, now: float) -> bool:
        """Whether the last deadline has passed so long ago that nothing more is to be expected."""
        return bool(self.rounds) and now > self.deadline + LONG_OVER

    def extended(self, entries: Iterable[Entry]) -> History | Refusal:
        """The history with these further entries, or the reason to refuse them; this one is unchanged."""
        deadline = self.deadline
        growing, heads, rounds = GrowingBulletin(self.bulletin), list[str](), dict[str, PreparedRound | Refusal]()
        for entry in entries:
            try:
                growing.append(entry)
            except ProtocolError as error:
                return Refusal(Reason.BROKEN_CHAIN, f"entry {entry.sequence}: {error}")
            if growing.study is None or growing.study.digest() != self.id:
                return Refusal(Reason.OTHER_STUDY, f"study {self.id} was asked for")
            heads.append(growing.head)
            if isinstance(entry.notice, RoundPublished):
                deadline = max(deadline, entry.notice.round.deadline)
                rounds[entry.notice.round.digest()] = _opened(growing.study, entry.notice.round)
        if not heads:
            return self
        return History(self.id, growing.frozen(), self.heads.plus(heads), self.rounds.plus(rounds), deadline)


def _opened(study: StudySpec, spec: RoundSpec) -> PreparedRound | Refusal:
    """The round, of which a part is prepared where it asks somebody; refused where it can ask nobody.

    The entry is in its place: a round that is refused is not answered, and the history goes on.
    """
    try:
        check_work(spec)
        return open_round(study, spec)
    except ProtocolError as error:
        return Refusal(Reason.UNSOUND_ROUND, str(error), spec.digest())
