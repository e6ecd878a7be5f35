"""The history of a study, as a client has checked it: every digest recomputed, every round prepared or refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from askance_client.refusals import Reason, Refusal
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    Bulletin,
    Entry,
    PreparedRound,
    RoundPublished,
    RoundState,
    StudySpec,
    prepare_round,
)


@dataclass(frozen=True, slots=True)
class Pin:
    """How much of a study's history a user has seen: the digest of its last entry names all of it."""

    length: int
    head: str


_NOTHING: Final = Bulletin()


@dataclass(frozen=True, slots=True)
class History:
    """The entries of a bulletin that were read so far, checked. Only `extended` makes a longer one."""

    id: str
    bulletin: Bulletin = _NOTHING
    heads: tuple[str, ...] = ()
    """The digest of each entry."""
    rounds: Mapping[str, PreparedRound | Refusal] = field(default_factory=dict[str, "PreparedRound | Refusal"])
    """Each round by its id: ready to be answered, or why it is not."""

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
        return [id_ for id_, state in self.bulletin.rounds if state is RoundState.OPEN]

    def extended(self, entries: Iterable[Entry]) -> History | Refusal:
        """The history with these further entries, or the reason to refuse them; this one is unchanged."""
        history = self
        for entry in entries:
            after = history._extended(entry)
            if isinstance(after, Refusal):
                return after
            history = after
        return history

    def _extended(self, entry: Entry) -> History | Refusal:
        try:
            after = self.bulletin.append(entry)
        except ProtocolError as error:
            return Refusal(Reason.BROKEN_CHAIN, f"entry {entry.sequence}: {error}")
        if after.study is None or after.study.digest() != self.id:
            return Refusal(Reason.OTHER_STUDY, f"study {self.id} was asked for")
        rounds = self.rounds
        if isinstance(entry.notice, RoundPublished):
            id_ = after.rounds[-1][0]
            try:
                prepared: PreparedRound | Refusal = prepare_round(after.study, entry.notice.round)
            except ProtocolError as error:
                # The entry is in its place; that round is not answered.
                prepared = Refusal(Reason.UNSOUND_ROUND, str(error), id_)
            rounds = {**rounds, id_: prepared}
        return replace(self, bulletin=after, heads=(*self.heads, after.head), rounds=rounds)
