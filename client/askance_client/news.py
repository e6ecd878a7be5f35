"""What there is to tell one who takes part: what she is too late for, and what a study waits for.

Who comes late, and for what, follows from the bulletin and from user numbers, which are given in the order in which
users come. How many reports an open round has, only its server knows; no decision goes by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_client.history import History
from askance_client.refusals import Refusal
from askance_protocol.arrays import Truths
from askance_protocol.budget import to_text
from askance_protocol.rounds import RoundState
from askance_protocol.text import counted

_CLOSED: Final = frozenset({RoundState.CLOSED, RoundState.ANSWERED, RoundState.ABANDONED})
_UNITS: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True, slots=True)
class ShortRound:
    """An open round that has not all its reports yet. Target and deadline are those that were published."""

    number: int
    received: int
    """By the server's word."""
    target: int
    deadline: int
    """Seconds since 1970."""

    def text(self, now: float) -> str:
        """How many of how many have come, and until when it waits, by the clock of this place."""
        of = f"round {self.number} has {self.received:,} of {counted(self.target, 'report')}"
        if self.deadline <= now:
            return f"{of}, and its deadline has passed"
        return f"{of}, and waits until {local_time(self.deadline, now)} ({time_left(self.deadline, now)} left)"


@dataclass(frozen=True, slots=True)
class LateRound:
    """A round for which some of these users came too late."""

    number: int
    of: int
    """Number of users whom this is about."""
    opened: int
    """Users who enrolled after it was opened: it cannot ask them."""
    closed: int
    """Users whom it asked, and who have no report in it: it has closed."""

    def texts(self) -> Iterator[str]:
        """What came too late for whom; "you", if it is about one."""
        if self.opened:
            who, them = ("you", "you") if self.of == 1 else (f"{self.opened:,} of these users", "them")
            yield f"round {self.number} was opened before {who} enrolled, and does not ask {them}"
        if self.closed:
            who = "you answered" if self.of == 1 else f"{self.closed:,} of these users answered"
            yield f"round {self.number} closed before {who}"


@dataclass(frozen=True, slots=True)
class StudyNews:
    """Where a study stands, for one who takes part in it."""

    answered: int = 0
    """Number of rounds that she has answered."""
    charged: int = 0
    """What they cost, in micro-ε."""
    over: str = ""
    """How it had ended before she came: finished, failed or cancelled; empty if it had not."""
    late: tuple[LateRound, ...] = ()
    paused: str = ""
    """Why its server has paused it; empty if it has not."""
    short: tuple[ShortRound, ...] = ()

    def __bool__(self) -> bool:
        return self != StudyNews()

    def __str__(self) -> str:
        """All of it in one line, at this moment."""
        lines = [*self.progress(), *self.lateness(), *self.pause(), *self.waiting(time.time())]
        return "; ".join(lines) or "the study goes on, and asks nothing now"

    def progress(self) -> Iterator[str]:
        """What she has answered."""
        if self.answered:
            yield f"you have answered {counted(self.answered, 'round')} of the study, for ε = {to_text(self.charged)}"

    def lateness(self) -> Iterator[str]:
        """What came too late, a text each."""
        if self.over:
            yield f"the study had {'been cancelled' if self.over == 'cancelled' else self.over} before you came"
        for each in self.late:
            yield from each.texts()

    def pause(self) -> Iterator[str]:
        """Why nothing goes on."""
        if self.paused:
            yield f"the server has paused the study, and may go on later: {self.paused}"

    def waiting(self, now: float) -> Iterator[str]:
        """What is waited for, a text a round."""
        yield from (each.text(now) for each in self.short)


def late_rounds(
    history: History, users: NDArray[np.uint64], reported: Callable[[str], Truths]
) -> tuple[LateRound, ...]:
    """The rounds for which some of these users are too late. `reported`: which of them have a report in a round."""
    late = list[LateRound]()
    for id_, state in history.bulletin.rounds:
        round_ = history.rounds[id_]
        if isinstance(round_, Refusal):
            continue
        cohort = round_.spec.cohort
        opened = int((users >= cohort.first_user + cohort.users).sum())
        closed = int((round_.asked(users) & ~reported(id_)).sum()) if state in _CLOSED else 0
        if opened or closed:
            late.append(LateRound(round_.spec.number, len(users), opened, closed))
    return tuple(late)


def local_time(moment: float, now: float) -> str:
    """A moment as clocks here show it; with its day, if that is not today."""
    there, here = time.localtime(moment), time.localtime(now)
    return time.strftime("%H:%M" if there[:3] == here[:3] else "%Y-%m-%d %H:%M", there)


def time_left(moment: float, now: float) -> str:
    """The time until a moment in its largest whole unit, in words."""
    seconds = max(int(moment - now), 0)
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    many = seconds // size
    return counted(many, unit)
