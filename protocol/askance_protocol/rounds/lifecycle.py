"""The lives of a study and of a round.

Everything that decides what may follow what is in the two tables of this file. A pair that is not in its table
is refused and changes nothing; that is the whole rule. `docs/protocol.md` draws these tables, from these tables.

A noninteractive study is published once, whole, and is *sealed*: there is no way from there to another round.
A round's reports count while it is open, and only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, TypeAlias, TypeVar

from askance_protocol.errors import ProtocolError


class StudyState(Enum):
    """Where a study stands."""

    CREATED = "created"
    RUNNING = "running"
    SEALED = "sealed"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StudyEvent(Enum):
    """What happens to a study."""

    PUBLISH = "publish"
    PUBLISH_ALL = "publish all"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"


class RoundState(Enum):
    """Where a round stands."""

    PUBLISHED = "published"
    OPEN = "open"
    CLOSED = "closed"
    ANSWERED = "answered"
    ABANDONED = "abandoned"


class RoundEvent(Enum):
    """What happens to a round."""

    OPEN = "open"
    CLOSE = "close"
    ANSWER = "answer"
    ABANDON = "abandon"


STUDY: Final[Mapping[tuple[StudyState, StudyEvent], StudyState]] = {
    # An interactive study publishes a round at a time, a noninteractive one everything at once.
    (StudyState.CREATED, StudyEvent.PUBLISH): StudyState.RUNNING,
    (StudyState.CREATED, StudyEvent.PUBLISH_ALL): StudyState.SEALED,
    (StudyState.RUNNING, StudyEvent.PUBLISH): StudyState.RUNNING,
    # A strategy may return without having asked anything.
    (StudyState.CREATED, StudyEvent.FINISH): StudyState.FINISHED,
    (StudyState.RUNNING, StudyEvent.FINISH): StudyState.FINISHED,
    (StudyState.SEALED, StudyEvent.FINISH): StudyState.FINISHED,
    (StudyState.CREATED, StudyEvent.FAIL): StudyState.FAILED,
    (StudyState.RUNNING, StudyEvent.FAIL): StudyState.FAILED,
    (StudyState.SEALED, StudyEvent.FAIL): StudyState.FAILED,
    (StudyState.CREATED, StudyEvent.CANCEL): StudyState.CANCELLED,
    (StudyState.RUNNING, StudyEvent.CANCEL): StudyState.CANCELLED,
    (StudyState.SEALED, StudyEvent.CANCEL): StudyState.CANCELLED,
}

ROUND: Final[Mapping[tuple[RoundState, RoundEvent], RoundState]] = {
    (RoundState.PUBLISHED, RoundEvent.OPEN): RoundState.OPEN,
    (RoundState.OPEN, RoundEvent.CLOSE): RoundState.CLOSED,
    (RoundState.CLOSED, RoundEvent.ANSWER): RoundState.ANSWERED,
    # Its study failed or was cancelled: what was reported stays charged, and is not looked at.
    (RoundState.PUBLISHED, RoundEvent.ABANDON): RoundState.ABANDONED,
    (RoundState.OPEN, RoundEvent.ABANDON): RoundState.ABANDONED,
    (RoundState.CLOSED, RoundEvent.ABANDON): RoundState.ABANDONED,
}

ENDED: Final = frozenset(StudyState) - {state for state, _ in STUDY}
"""The states of a study after which nothing follows."""

SETTLED: Final = frozenset(RoundState) - {state for state, _ in ROUND}
"""The states of a round after which nothing follows."""

EndState: TypeAlias = Literal["finished", "failed", "cancelled"]
"""How a bulletin spells them."""

CloseReason: TypeAlias = Literal["target", "deadline", "operator"]
"""Why a round takes no more reports, as bulletins spell it."""

END_EVENTS: Final[Mapping[EndState, StudyEvent]] = {
    "finished": StudyEvent.FINISH,
    "failed": StudyEvent.FAIL,
    "cancelled": StudyEvent.CANCEL,
}

State = TypeVar("State", StudyState, RoundState)
Event = TypeVar("Event", StudyEvent, RoundEvent)


def study_after(state: StudyState, event: StudyEvent) -> StudyState:
    """The study's next state."""
    return _after(STUDY, state, event)


def round_after(state: RoundState, event: RoundEvent) -> RoundState:
    """The round's next state."""
    return _after(ROUND, state, event)


def _after(table: Mapping[tuple[State, Event], State], state: State, event: Event) -> State:
    if (state, event) not in table:
        possible = [known.value for begin, known in table if begin is state]
        raise ProtocolError(
            f"{event.value!r} is not possible when {state.value}",
            where="life cycle",
            remedy=f"possible: {', '.join(possible)}" if possible else "this is an end",
        )
    return table[state, event]
