"""Errors: what is wrong, where, what to do next, and a code that a program may act on.

Every error of every room descends from `AskanceError`. People read the message; programs read `code`, and never the
message: how a command ends and which problem document a server sends are tables over codes. A room that has errors of
its own gives them a class of its own, with one of these codes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from askance_protocol.text import LONGEST, QUOTED, printable, shortened


class Code(StrEnum):
    """Kind of an error, for programs."""

    INTERNAL = "internal"
    """A fault of this program."""
    INVALID = "invalid"
    """A document, a report or a parameter that both sides must refuse."""
    USAGE = "usage"
    """Options or arguments that do not go together, or that nothing goes by."""
    DATA = "data"
    """A file or table that cannot be used."""
    MISSING_EXTRA = "missing-extra"
    """A package that belongs to an extra is not installed."""
    NOT_FOUND = "not-found"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    ENROLMENT_OVER = "enrolment-over"
    """An enrolment token that is used up or has expired."""
    OVER_BUDGET = "over-budget"
    """More ε is asked than is left."""
    ROUND_NOT_OPEN = "round-not-open"
    """A round that takes no reports, or was closed already."""
    STUDY_OVER = "study-over"
    """A study that has ended: nothing follows."""
    TOO_FEW_USERS = "too-few-users"
    """More users, or more reports, would have helped."""
    STRATEGY = "strategy"
    """A strategy did what ends its study."""
    CHECK_FAILED = "check-failed"
    """What was looked at is not as it has to be: a threshold, a promise, a tally."""
    REMOTE = "remote"
    """The other side said no, or what cannot be understood."""
    UNREACHABLE = "unreachable"
    VERSION_MISMATCH = "version-mismatch"
    WALLET = "wallet"
    LEDGER = "ledger"
    """The ledger cannot be opened, or cannot be trusted any more."""
    LEDGER_BUSY = "ledger-busy"
    LEDGER_AWAY = "ledger-away"
    QUEUE_FULL = "queue-full"


class AskanceError(Exception):
    """Something that is refused, or has failed.

    `what` says what is wrong, `where` names the place in the input, `remedy` says what to do next.
    The message never repeats an example or a report: those are private. It may quote a document of somebody else, so
    none of the three can hold what steers a terminal.
    """

    code: ClassVar[Code] = Code.INTERNAL
    most: ClassVar[tuple[int, int, int]] = (LONGEST, LONGEST, LONGEST)
    """Characters of `what`, `where` and `remedy`: as long as the path of a file may be."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        of_what, of_where, of_remedy = self.most
        self.what, self.remedy = printable(what, of_what), printable(remedy, of_remedy)
        self.where = shortened(printable(where), of_where)
        message = ": ".join(part for part in (self.where, self.what) if part)
        super().__init__(message + (f" ({self.remedy})" if self.remedy else ""))

    def at(self, where: str) -> Self:
        """The same error, seen from one level further out."""
        inner = self.where if self.where.startswith("[") or not self.where else f".{self.where}"
        return type(self)(self.what, where=where + inner, remedy=self.remedy)


class ProtocolError(AskanceError, ValueError):
    """Something that both sides must refuse. A `ValueError`, so that pydantic reports it with its place.

    What is refused is somebody else's document, so its message is short whatever was sent, also where the code that
    refuses it did not think of that.
    """

    code = Code.INVALID
    most = (4 * QUOTED, 2 * QUOTED, 8 * QUOTED)


class UsageError(AskanceError):
    """An option or argument that cannot be used as it was given."""

    code = Code.USAGE


class DataError(AskanceError):
    """A file or table that cannot be used."""

    code = Code.DATA


class MissingExtraError(AskanceError):
    """A package that is not installed here."""

    code = Code.MISSING_EXTRA

    @classmethod
    def of(cls, package: str, extra: str) -> Self:
        """Names the one command that installs it; without an extra, that of the base installation."""
        wanted = f"'askance[{extra}]'" if extra else "askance"
        return cls("is not installed", where=package, remedy=f"pip install {wanted}")
