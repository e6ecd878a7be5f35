"""The bulletin: an append-only list, each entry carrying the digest of the one before.

A user who holds the head's digest has pinned the whole list: a server that shows two users two histories is found
out once they compare heads. `Bulletin` holds what is needed to judge the next entry, and judges it: the order,
the chain, and that a sealed study publishes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, takewhile
from typing import Annotated, Final, Literal, TypeAlias, overload

from pydantic import Field, model_validator

from askance_protocol.errors import ProtocolError
from askance_protocol.grown import NOTHING, Grown
from askance_protocol.rounds.hypothesis import LearnedHypothesis
from askance_protocol.rounds.lifecycle import (
    END_EVENTS,
    CloseReason,
    EndState,
    RoundEvent,
    RoundState,
    StudyEvent,
    StudyState,
    round_after,
    study_after,
)
from askance_protocol.rounds.spec import VERSION, RoundSpec, StudySpec
from askance_protocol.values import WHOLE, Digest, Value, read_exactly

GENESIS: Final = "0" * 64
"""What the first entry carries in place of a digest."""


class StaleEntryError(ProtocolError):
    """An entry that does not follow on the last one: it was made for another place, or for another history."""


class StudyPublished(Value):
    """The study itself: always the first entry."""

    kind: Literal["study"] = "study"
    study: StudySpec


class RoundPublished(Value):
    """A round, open from now on."""

    kind: Literal["round"] = "round"
    round: RoundSpec


class RoundClosed(Value):
    """A round takes no more reports."""

    kind: Literal["closed"] = "closed"
    round: Digest
    reason: CloseReason
    received: Annotated[int, Field(ge=0)]


class RoundAnswered(Value):
    """What the round's reports add up to: for each part, for each row, the count of each outcome."""

    kind: Literal["answers"] = "answers"
    round: Digest
    tallies: tuple[tuple[tuple[Annotated[int, Field(ge=0)], ...], ...], ...]


class Cause(StrEnum):
    """Why a study has ended, for programs; its reason is for people."""

    LEARNED = "learned"
    """Its strategy returned a hypothesis."""
    TOO_FEW_USERS = "too-few-users"
    """A round needed more users than could still pay for it."""
    TOO_FEW_REPORTS = "too-few-reports"
    """A round closed, and one of its parts had no report."""
    STRATEGY = "strategy"
    """Its strategy raised an error, or asked what cannot be asked."""
    CANCELLED = "cancelled"
    """The operator ended it."""


class StudyEnded(Value):
    """The last entry."""

    kind: Literal["ended"] = "ended"
    state: EndState
    reason: Annotated[str, Field(max_length=2000)]
    cause: Cause | None = None
    """Absent from studies that version 0.1 ended."""
    hypothesis: LearnedHypothesis | None = None
    """What was learned, if something was: so that no other version of the strategy can change or lose it."""

    @model_validator(mode="after")
    def _one_story(self) -> StudyEnded:
        if (self.hypothesis is not None) != (self.cause is Cause.LEARNED):
            raise ValueError("a hypothesis stands where the cause is 'learned', and only there")
        ends = {Cause.LEARNED: "finished", Cause.CANCELLED: "cancelled"}
        if self.cause is not None and ends.get(self.cause, "failed") != self.state:
            raise ValueError(f"the cause {self.cause.value!r} does not lead to {self.state!r}")
        return self


Notice: TypeAlias = Annotated[
    StudyPublished | RoundPublished | RoundClosed | RoundAnswered | StudyEnded, Field(discriminator="kind")
]


EntryVersion: TypeAlias = Annotated[Literal[1, 2], WHOLE]
"""2: a study's end, with its cause and hypothesis, which a reader of version 1 refuses. It says so by the version, and
not by a member that it does not know: of the entries of a study only the last can be too new for it."""


def _version_of(notice: Notice) -> EntryVersion:
    return 2 if isinstance(notice, StudyEnded) and notice.cause is not None else 1


class Entry(Value):
    """One entry of the list."""

    form: Literal["askance.entry"] = "askance.entry"
    version: EntryVersion = VERSION
    sequence: Annotated[int, Field(ge=0)]
    previous: Digest
    notice: Notice

    @model_validator(mode="after")
    def _of_its_version(self) -> Entry:
        if self.version != _version_of(self.notice):
            raise ValueError("the version is 2 where the notice has a cause, and 1 elsewhere")
        return self


def read_entry(data: bytes | str) -> Entry:
    """An entry from its JSON form."""
    return read_exactly(Entry, data, limit=1 << 24)


@dataclass(frozen=True, slots=True, eq=False)
class RoundStates(Sequence[tuple[str, RoundState]]):
    """Each round's id and state, in the order of publication. Of a long study few change, and the others are shared."""

    answered: Grown[tuple[str, RoundState]] = NOTHING
    """The first of them, which all have been answered: these never change."""
    others: tuple[tuple[str, RoundState], ...] = ()

    @classmethod
    def of(cls, rounds: Iterable[tuple[str, RoundState]]) -> RoundStates:
        """Of these rounds."""
        return cls(others=tuple(rounds)).settled()

    def settled(self) -> RoundStates:
        """The same, with all among the first that can be that have been answered."""
        new = list(takewhile(lambda each: each[1] is RoundState.ANSWERED, self.others))
        return RoundStates(self.answered.plus(new), self.others[len(new) :]) if new else self

    def __len__(self) -> int:
        return len(self.answered) + len(self.others)

    @overload
    def __getitem__(self, index: int) -> tuple[str, RoundState]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str, RoundState]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, RoundState] | Sequence[tuple[str, RoundState]]:
        if isinstance(index, int) and self.others and -len(self.others) <= index < 0:
            return self.others[index]
        return tuple(self)[index]

    def __iter__(self) -> Iterator[tuple[str, RoundState]]:
        return chain(self.answered, self.others)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, RoundStates) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))


_NO_ROUNDS: Final = RoundStates()


@dataclass(frozen=True, slots=True)
class Bulletin:
    """What is known of a study after its first `length` entries."""

    head: str = GENESIS
    length: int = 0
    study: StudySpec | None = None
    state: StudyState = StudyState.CREATED
    rounds: RoundStates = _NO_ROUNDS

    def next(self, notice: Notice) -> Entry:
        """The entry that would carry this notice."""
        return Entry(version=_version_of(notice), sequence=self.length, previous=self.head, notice=notice)

    def append(self, entry: Entry) -> Bulletin:
        """The bulletin with one more entry, or an error that leaves this one as it is."""
        return self.extend((entry,))

    def extend(self, entries: Iterable[Entry]) -> Bulletin:
        """The bulletin with all of these entries, or none."""
        growing = GrowingBulletin(self)
        for entry in entries:
            growing.append(entry)
        return growing.frozen()


class GrowingBulletin:
    """A bulletin to which many entries are appended, each in a time that does not depend on how many there are.

    An entry that is refused changes nothing. `frozen` is the bulletin so far.
    """

    def __init__(self, bulletin: Bulletin) -> None:
        self.head, self.length = bulletin.head, bulletin.length
        self.study, self.state = bulletin.study, bulletin.state
        self._answered = bulletin.rounds.answered
        self._others = dict(bulletin.rounds.others)

    def frozen(self) -> Bulletin:
        """The bulletin as it is now."""
        rounds = RoundStates(self._answered, tuple(self._others.items())).settled()
        return Bulletin(self.head, self.length, self.study, self.state, rounds)

    def append(self, entry: Entry) -> None:
        """Append one more entry, or refuse it."""
        if entry.sequence != self.length:
            raise StaleEntryError(
                f"{entry.sequence} does not follow {self.length - 1}",
                where="sequence",
                remedy="fetch the entries between",
            )
        if entry.previous != self.head:
            raise StaleEntryError(
                "does not continue the pinned history", where="previous", remedy="stop: the server shows two histories"
            )
        self._take(entry.notice)
        self.head, self.length = entry.digest(), self.length + 1

    # Each of these refuses before it changes anything.

    def _take(self, notice: Notice) -> None:
        if isinstance(notice, StudyPublished) != (self.study is None):
            raise ProtocolError("a study is published first, and once", where="notice")
        match notice:
            case StudyPublished(study=study):
                self.study = study
            case RoundPublished(round=round_):
                self._publish(round_)
            case RoundClosed(round=id_):
                self._turn(id_, RoundEvent.CLOSE)
            case RoundAnswered(round=id_):
                self._turn(id_, RoundEvent.ANSWER)
            case StudyEnded(state=state):
                self.state = study_after(self.state, END_EVENTS[state])
                self._abandon()

    def _publish(self, round_: RoundSpec) -> None:
        assert self.study is not None  # noqa: S101 - told the type checker: `_take` has refused this
        if round_.study != self.study.digest():
            raise ProtocolError("is of another study", where="notice.round.study")
        due = len(self._answered) + len(self._others) + 1
        if round_.number != due:
            raise ProtocolError(f"is {round_.number}, the next is {due}", where="notice.round.number")
        event = StudyEvent.PUBLISH if self.study.interactive else StudyEvent.PUBLISH_ALL
        self.state = study_after(self.state, event)
        self._others[round_.digest()] = round_after(RoundState.PUBLISHED, RoundEvent.OPEN)

    def _abandon(self) -> None:
        """Abandon all rounds without an answer: a study that has ended takes no reports."""
        for id_, state in self._others.items():
            if state is not RoundState.ANSWERED:
                self._others[id_] = round_after(state, RoundEvent.ABANDON)

    def _turn(self, id_: str, event: RoundEvent) -> None:
        state = self._others.get(id_) or dict(self._answered).get(id_)
        if state is None:
            raise ProtocolError("was never published here", where="notice.round")
        self._others[id_] = round_after(state, event)
