"""The interface of a ledger: every user's lifetime budget, every accepted report, every bulletin.

Theory of operation
-------------------
A report is accepted and charged in one commit, or not at all. A ledger decides a whole group of reports at a time,
because one commit to disk is what costs. For each report, in this order:

1. an unknown user, a user who was not asked, an outcome that her part does not have: refused;
2. she has reported to this round before: the same outcome gets the same receipt (`REPEATED`), a different one is
   a `CONFLICT`; neither is charged. This is looked up before the budget and before the state of the round, so a
   retry is answered alike whenever it comes;
3. the round does not take reports: `NOT_OPEN`;
4. her cap does not cover the charge of her part: `OVER_BUDGET`;
5. otherwise `ACCEPTED`: the report joins the log, and her spending grows by the charge.

Where one user stands several times in a group, the first that is not refused by 1. counts and the others are retries
of it.

Studies and rounds change state only by entries of their bulletin: `append` stores the entry and the state that
`askance_protocol.rounds.Bulletin` says it leads to, in one commit.

A user's kind (`kinds`) decides with 1.: a study of real users does not ask simulated ones.

A ticket is an enrolment token of limited number. Users and the count of its use are one commit, so that no race, no
crash and no second replica lets more in than it says.

An enrolment that was given a key is answered to the same key again, and enrols nobody a second time: who was killed
before she had stored her number asks once more. It is kept as a ticket of its own that was used at once (`kept_as`),
which needs no table.

The reports of a live round (`StudySpec.live`) have an order, that of their commits, which never changes: what was
accepted joins at its end. So the first n of them are the same for every server that shares a ledger and after every
start, and a count of them tells nobody anything by being asked for again. Whoever has read them up to somewhere goes on
from there (`reports_behind`).

A round is closed by `close_round`: that it takes no more reports, how many it has, and the entry that says so are one
commit. A count that was read before is out of date where others accept reports meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.budget import Account, whole_micro
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import AskanceError, Code, ProtocolError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import (
    ENDED,
    Bulletin,
    CloseReason,
    Entry,
    PreparedRound,
    RoundClosed,
    RoundState,
    StudyState,
    read_entry,
)
from askance_protocol.tally import Tally
from askance_protocol.text import are, counted
from askance_server.ledger.kinds import UserKind, UserKinds

Users = NDArray[np.uint64]
OutcomeColumn = NDArray[np.uint32]
Verdicts = NDArray[np.uint8]


A_PIECE: Final = 1 << 20
"""Reports that are read at once, and those of one group more."""


class Verdict(IntEnum):
    """The decision about one report."""

    ACCEPTED = 0
    REPEATED = 1
    CONFLICT = 2
    OVER_BUDGET = 3
    NOT_OPEN = 4
    NOT_ASKED = 5
    OUTSIDE = 6
    UNKNOWN_USER = 7


class LedgerError(AskanceError):
    """The ledger cannot be opened or trusted; the message names the file and the remedy."""

    code = Code.LEDGER


class LedgerUrlError(LedgerError):
    """What names the database cannot be read."""

    code = Code.USAGE


class LedgerBusyError(LedgerError):
    """Another process has locked this ledger."""

    code = Code.LEDGER_BUSY


class LedgerAwayError(LedgerError):
    """The ledger cannot be reached now. Its content is safe, and the call may be repeated."""

    code = Code.LEDGER_AWAY


class OtherKeyError(LedgerError):
    """The servers that share this ledger have another key."""


def written_entry(body: bytes, ledger: str) -> Entry:
    """An entry as a ledger holds it: it was checked before it was written, so what cannot be read has been damaged."""
    try:
        return read_entry(body)
    except ProtocolError as error:
        raise LedgerError(
            f"{ledger} is damaged, one of its entries is not what was written ({error}). Look with askance doctor"
            " --deep, and restore it from a backup."
        ) from None


class NotOpenError(ProtocolError):
    """The round is not open: it was closed, or its study has ended, perhaps by another replica."""

    code = Code.ROUND_NOT_OPEN

    def __init__(self, what: str = "is not open", *, where: str = "round", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy or "look at the bulletin of its study")


class TicketUsedError(AskanceError):
    """The enrolment token has let in as many users as it says, or would with these. Nobody was enrolled."""

    code = Code.ENROLMENT_OVER


class StaleEpochError(AskanceError):
    """The token that is to be renewed has been renewed already."""

    code = Code.UNAUTHORIZED


class NotFoundError(AskanceError, LookupError):
    """No such study, round or user exists."""

    code = Code.NOT_FOUND


@dataclass(frozen=True, slots=True)
class Ticket:
    """An enrolment token that lets in a limited number of users."""

    id: str
    users: int
    """The number of users in all."""

    def used(self, before: int, count: int) -> int:
        """How many have come in with `count` more; TicketUsedError if that is more than the number."""
        if before + count > self.users:
            left = f"{are(self.users - before)} left" if before < self.users else "all have come"
            raise TicketUsedError(f"admits {counted(self.users, 'user')}, and {left}", where="this enrolment token")
        return before + count


def kept_as(key: str, users: range) -> Ticket:
    """The ticket by which an enrolment is known again: it has let in so many users, the last of them below its number.

    No token names it, because `key` is a digest.
    """
    return Ticket(key, users.stop)


def kept_users(ticket: Ticket, used: int) -> range:
    """The users of an enrolment that was kept as this ticket."""
    return range(ticket.users - used, ticket.users)


@dataclass(frozen=True, slots=True)
class UserRun:
    """Users who enrol together, as an enrolment is stored."""

    first: int
    count: int
    cap: int
    kind: UserKind
    ticket: Ticket | None = None
    used: int = 0
    """How many the ticket has let in, these included."""
    kept: Ticket | None = None
    """The ticket that keeps this enrolment, if it has a key."""

    @property
    def tickets(self) -> Iterator[tuple[Ticket, int]]:
        """Each ticket that is written with it, and how many it has let in."""
        if self.ticket is not None:
            yield self.ticket, self.used
        if self.kept is not None:
            yield self.kept, self.count


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one round to one user."""

    round: str
    micro_epsilon: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One user's account and the charges that add up to its spending."""

    account: Account
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of a bulletin as it is stored: read by those who ask for it, and not before it is sent."""

    sequence: int
    digest: str
    body: bytes
    """The canonical form."""


@dataclass(frozen=True, slots=True)
class Census:
    """Number of users, and of studies and rounds in each state."""

    users: int
    studies: Mapping[StudyState, int]
    rounds: Mapping[RoundState, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """An inconsistency that an audit of the ledger found."""

    where: str
    what: str
    next: str = ""
    """What to do about it, if it is not what to do about damage in general."""


def check_enrolment(count: int, cap: int) -> None:
    """Refuse a negative number of users, and a cap that pays for nothing."""
    if count < 0:
        raise ProtocolError("is negative", where="count")
    whole_micro(cap, where="cap", least=1)


class NoRoomError(ProtocolError):
    """More users than there is room for."""


def check_room(enrolled: int, count: int, most: int) -> None:
    """Refuse more users than there is room for."""
    if enrolled + count > most:
        left = max(most - enrolled, 0)
        remedy = f"this server has room for {left} more"
        raise NoRoomError(f"{count} more are too many", where="users", remedy=remedy)


def check_count(closing: RoundClosed, received: int) -> None:
    """Refuse a closing that names another number of reports than the round has."""
    if closing.received != received:
        what = f"is {closing.received}, and the round has {counted(received, 'report')}"
        raise ProtocolError(what, where="notice.received", remedy="close it by close_round, which counts them")


def a_piece(mark: int, groups: Iterable[tuple[int, Users, OutcomeColumn]]) -> tuple[Users, OutcomeColumn, int]:
    """The first of these groups as one, and the mark behind them: that of the last."""
    users, outcomes, found = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint32)], 0
    for behind, some, told in groups:
        users.append(some)
        outcomes.append(told)
        mark, found = behind, found + len(some)
        if found >= A_PIECE:
            break
    return np.concatenate(users), np.concatenate(outcomes), mark


def up_to(most: int, rows: Iterable[tuple[int, str, bytes]]) -> list[StoredEntry]:
    """The first of these entries: `most` bytes of them, but at least one."""
    taken, size = list[StoredEntry](), 0
    for sequence, digest, body in rows:
        size += len(body)
        if taken and size > most:
            break
        taken.append(StoredEntry(sequence, digest, body))
    return taken


class Ledger(ABC):
    """A ledger, as the server uses it.

    All methods are synchronous, and may be called from several threads at once. Those that take long (`tallies`,
    `affording` over all users, `round` at its first use) hold up no `charge`.
    """

    shared: ClassVar[bool] = False
    """Whether other servers may write to what is kept: then what they did is found by looking."""

    # ------------------------------------------------------------------------------------------------------ users

    @abstractmethod
    def enrol(
        self,
        count: int,
        cap: int,
        kind: UserKind = UserKind.UNKNOWN,
        *,
        ticket: Ticket | None = None,
        most: int = MAX_USER,
        key: str | None = None,
    ) -> range:
        """Enrol `count` new users under the next numbers, each with this cap in micro-ε.

        Nobody is enrolled if there would be more than `most`, or more than the ticket admits (TicketUsedError). Nor if
        there was an enrolment with this `key`, a digest: its users are named again, whatever else is asked.
        """

    @abstractmethod
    def let_in(self, ticket: str) -> int:
        """Number of users whom the ticket with this id has let in."""

    @abstractmethod
    def enrolled(self) -> int:
        """Number of users: they are numbered 0 .. enrolled − 1."""

    @abstractmethod
    def kinds(self) -> UserKinds:
        """The kind of every user: of those at least who were enrolled before the call."""

    @abstractmethod
    def standing(self, user: int) -> Standing:
        """Cap, spending and charges of one user."""

    @abstractmethod
    def affording(self, users: range, charge: int, kinds: Set[UserKind] = frozenset(UserKind)) -> Truths:
        """Truths for these users: whether each is of one of these kinds and can still pay `charge`.

        Users who are not enrolled cannot.
        """

    @abstractmethod
    def able(self, charges: Sequence[int]) -> list[int]:
        """Number of users who can still pay each of these charges."""

    @abstractmethod
    def epoch(self, user: int) -> int:
        """Epoch that this user's tokens must carry; −1, which no token carries, if the user does not exist."""

    @abstractmethod
    def epochs(self, users: Users) -> Integers:
        """`epoch` of each of these users, in one look."""

    @abstractmethod
    def revoke(self, user: int, expected: int | None = None) -> int:
        """Make all of a user's tokens void, and return the epoch of new ones.

        `expected` is the epoch of the token that asks for it. Of several who show the same one, one succeeds, and the
        others get StaleEpochError.
        """

    # -------------------------------------------------------------------------------------- studies and their rounds

    @abstractmethod
    def append(self, study: str, entry: Entry) -> Bulletin:
        """Store the next entry of a study's bulletin and its effects. The first entry creates the study.

        Raises StaleEntryError if the entry does not follow on the last one: another replica may have been faster.
        """

    @abstractmethod
    def close_round(self, id_: str, reason: CloseReason) -> Bulletin:
        """Close an open round, count its reports and store the entry that says so, in one commit.

        Raises NotOpenError if it is not open: of several who close it at once, one does.
        """

    @abstractmethod
    def studies(self) -> list[str]:
        """The ids of all studies, oldest first."""

    def studies_behind(self, study: str, most: int) -> list[str]:
        """The ids of studies that were created after this one, oldest first; of the oldest of all if it is empty.

        `most` of them. Whatever is created meanwhile comes after all that were given before.
        """
        known = self.studies()
        if study and study not in known:
            raise NotFoundError("there is no such study")
        first = known.index(study) + 1 if study else 0
        return known[first : first + most]

    def unfinished(self) -> list[str]:
        """The ids of the studies that have not ended, oldest first."""
        return [study for study in self.studies() if self.bulletin(study).state not in ENDED]

    @abstractmethod
    def bulletin(self, study: str) -> Bulletin:
        """State of a study and of its rounds."""

    @abstractmethod
    def entries(self, study: str, after: int = -1) -> list[Entry]:
        """Entries of a study whose sequence is larger than `after`."""

    @abstractmethod
    def stored_entries(self, study: str, after: int, most: int) -> list[StoredEntry]:
        """The first of the entries behind `after` as they are stored: `most` bytes of them, but at least one."""

    @abstractmethod
    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared."""

    @abstractmethod
    def state(self, id_: str) -> RoundState:
        """State of a round."""

    # ---------------------------------------------------------------------------------------------------- reports

    @abstractmethod
    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """Decide and store a group of reports to one round in one commit. Returns verdicts once it is on disk."""

    @abstractmethod
    def received(self, id_: str) -> int:
        """Number of accepted reports of a round."""

    @abstractmethod
    def reports_behind(self, id_: str, mark: int = 0) -> tuple[Users, OutcomeColumn, int]:
        """Reports of a live round in the order of acceptance, from a mark on, and the mark behind them.

        0 is before the first. Another mark is one that this ledger gave, before its last start perhaps. There may be
        more than are given at once (`A_PIECE`); when there are none, the mark is the same.
        """

    @abstractmethod
    def tallies(self, id_: str) -> list[Tally]:
        """Tallies of the accepted reports of a round, one per part, counted from the log."""

    # ---------------------------------------------------------------------------------------------------- health

    @abstractmethod
    def census(self) -> Census:
        """How many of everything there are, as a monitor asks for it."""

    @abstractmethod
    def verify(self, tell: Tell = tell_nobody) -> list[Fault]:
        """Recompute everything from the log: Σ charges = Σ spent, no cap exceeded, one report per user and round.

        `tell` hears how much has been looked at.
        """

    def check_key(self, fingerprint: str) -> None:  # noqa: B027 - a ledger of one process has nobody to differ from
        """Refuse a server whose key is not that of the servers that share this ledger, with OtherKeyError."""

    @abstractmethod
    def check_writable(self) -> None:
        """Commit a small write, or raise LedgerError."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""
