"""Projections that a ledger of one process holds in memory, and the decisions it makes from them.

Theory of operation
-------------------
*The log is the truth.* Everything here is a projection of it: who has spent how much, who has reported what, where
studies and rounds stand. They are numpy arrays by user number, because a decision about a group is a few operations on
arrays. `ProjectedLedger` answers every question from them; what it must not forget it hands to its subclass, through
five methods whose names begin with `_keep` or `_logged`. Tickets alone are no projection: there is one for each
enrolment with a key, and each is asked for once or twice, so the subclass looks it up (`_kept_ticket`).

*Threads.* Whatever reads or changes arrays does so alone (`one_at_a_time`). What takes long, preparing a round and
counting its tallies from the log, does not hold the others up: it reads what never changes.

*Order of writing.* First decide, and allocate whatever there is to allocate: an error up to here has changed nothing.
Then keep, then note: `_write` does both. If anything is raised on the way, be it `MemoryError` or `KeyboardInterrupt`,
nobody knows any more whether the projections say what is kept. So nothing is answered from then on, neither questions
nor reports: the process has to end, and the next one reads the log. Nothing was acknowledged that is not kept.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.budget import Account
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.remembering import Remembered
from askance_protocol.rounds import (
    ENDED,
    Bulletin,
    CloseReason,
    Entry,
    PreparedRound,
    RoundClosed,
    RoundPublished,
    RoundSpec,
    RoundState,
    StudyPublished,
    StudySpec,
    open_round,
)
from askance_protocol.tally import Tally, tally_round
from askance_protocol.text import counted
from askance_protocol.values import Value
from askance_server.ledger.alone import one_at_a_time
from askance_server.ledger.base import (
    Census,
    Charge,
    Fault,
    Ledger,
    LedgerError,
    NotFoundError,
    NotOpenError,
    OutcomeColumn,
    StaleEpochError,
    Standing,
    Ticket,
    UserRun,
    Users,
    Verdict,
    Verdicts,
    a_piece,
    check_count,
    check_enrolment,
    check_room,
    kept_as,
    kept_users,
)
from askance_server.ledger.books import FEW, ClosedBook, OpenBook, Shelf, lengthened
from askance_server.ledger.kinds import UserKind, UserKinds, admitted

_ANY_OUTCOME: Final = 1 << 31
_PIECE: Final = 1 << 18
"""Users who are looked at in one go."""
_MOST_STUDIES: Final = 8 << 20
_MOST_ROUNDS: Final = 32 << 20
"""Bytes of studies that have ended, and of rounds, that are at hand without reading them again."""
_A_DOCUMENT: Final = 4 << 10
_A_BYTE: Final = 16
"""Bytes that a document takes up when it is read: at least, and for each byte of its text."""
_INTERRUPTED: Final = "the ledger was interrupted while it wrote: start again, and everything acknowledged is there."


@dataclass(frozen=True, slots=True, eq=False)
class UserBudgets:
    """Cap and spending of every user, by user number."""

    enrolled: int = 0
    spent: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Micro-ε of each user; longer than there are users, and zero there."""
    _starts: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The first user of each run of users with the same cap."""
    _caps: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def last_cap(self) -> int | None:
        """The cap of the user who enrolled last."""
        return int(self._caps[-1]) if len(self._caps) else None

    def extended(self, count: int, cap: int) -> UserBudgets:
        """These, and new users behind them. What was spent is shared, not copied."""
        starts, caps = self._starts, self._caps
        if cap != self.last_cap:
            starts, caps = np.append(starts, np.uint64(self.enrolled)), np.append(caps, np.int64(cap))
        enrolled = self.enrolled + count
        return UserBudgets(enrolled, lengthened(self.spent, enrolled), starts, caps)

    def cap_of(self, users: Users) -> Integers:
        """The cap of each of these users."""
        if len(self._caps) == 1:
            return np.broadcast_to(self._caps, len(users))
        return self._caps[np.searchsorted(self._starts, users, side="right") - 1]

    def affording(self, users: range, charge: int) -> Truths:
        """Whether each of these users can still pay `charge`."""
        known = range(users.start, min(users.stop, self.enrolled))
        affords = np.zeros(len(users), np.bool)
        caps = self.cap_of(np.arange(known.start, known.stop, dtype=np.uint64))
        affords[: len(known)] = self.spent[known.start : known.stop] + charge <= caps
        return affords

    def able(self, users: range, charges: Sequence[int]) -> Integers:
        """Number of these users who can still pay each of these charges: their runs one by one, each with one cap."""
        found = np.zeros(len(charges), np.int64)
        ends = [*self._starts[1:].tolist(), self.enrolled]
        first = int(np.searchsorted(self._starts, users.start, side="right")) - 1
        for start, end, cap in zip(
            self._starts[first:].tolist(), ends[first:], self._caps[first:].tolist(), strict=True
        ):
            spent = self.spent[max(start, users.start) : min(end, users.stop)]
            found += [np.count_nonzero(spent <= cap - charge) for charge in charges]
            if end >= users.stop:
                break
        return found


class ProjectedLedger(Ledger):
    """A ledger that answers from memory. Subclasses keep users, entries and reports where they must be kept."""

    def __init__(self) -> None:
        self.alone = threading.RLock()
        self._broken: str | None = None
        """Why nothing is answered any more."""
        self._spending = UserBudgets()
        self._kinds = UserKinds()
        self._epochs: dict[int, int] = {}
        self._bulletins: dict[str, Bulletin] = {}
        """All studies, oldest first; those that have ended without what stands in their first entry."""
        self._running: dict[str, None] = {}
        """Those that have not ended."""
        self._states: dict[str, RoundState] = {}
        self._published: dict[str, tuple[str, int]] = {}
        """All rounds, in the order in which they were published: the study of each, and the place of its entry."""
        self._specs: dict[str, RoundSpec] = {}
        """The rounds of studies that have not ended."""
        self._ended = Remembered(self._read_study, _size_of, _MOST_STUDIES)
        self._prepared = Remembered(self._read_round, lambda round_: _size_of(round_.spec), _MOST_ROUNDS)
        self._in_use: WeakValueDictionary[str, PreparedRound] = WeakValueDictionary()
        """Rounds that somebody has at hand, if they are remembered or not."""
        self._books: dict[str, OpenBook] = {}
        """Of open rounds; of others only until it is put away."""
        self._putting = threading.Lock()
        """Held by who puts books away."""
        self._closing = 0
        """How many are about to, of which there is more than one where a closing brings about another."""
        self._shelf = Shelf()
        self._shelved: dict[str, ClosedBook] = {}
        self._counted: dict[str, int] = {}
        """Number of reports of rounds that are not open and whose book nobody has asked for."""

    # ------------------------------------------------------------------------------------------ what subclasses keep

    @abstractmethod
    def _keep_users(self, run: UserRun) -> None:
        """Keep new users, who follow on those there are, and what their tickets have let in."""

    @abstractmethod
    def _kept_ticket(self, id_: str) -> tuple[Ticket, int] | None:
        """A ticket that was used, as it was kept, and how many users it has let in."""

    @abstractmethod
    def _keep_epoch(self, user: int, epoch: int) -> None:
        """Keep the epoch of a user's tokens."""

    @abstractmethod
    def _keep_entry(self, study: str, entry: Entry, after: Bulletin) -> None:
        """Keep an entry; `after` is the bulletin with it."""

    @abstractmethod
    def _keep_group(self, id_: str, users: Users, outcomes: OutcomeColumn) -> None:
        """Append accepted reports to the log."""

    @abstractmethod
    def _logged_behind(self, id_: str, mark: int) -> Iterator[tuple[int, Users, OutcomeColumn]]:
        """The accepted reports of a round from the log, group by group from a mark on, each with the mark behind it."""

    @abstractmethod
    def _count_logged(self, id_: str) -> int:
        """Number of accepted reports of a round in the log."""

    @abstractmethod
    def _kept_entry(self, study: str, sequence: int) -> Entry:
        """An entry as it was kept."""

    def _logged(self, id_: str) -> Iterator[tuple[Users, OutcomeColumn]]:
        """All of them."""
        return ((users, outcomes) for _, users, outcomes in self._logged_behind(id_, 0))

    # ------------------------------------------------------------------------------------------------------ writing

    def _write(self, keep: Callable[[], None], note: Callable[[], None]) -> None:
        """Keep, then note; where that is interrupted, answer nothing any more. All writing goes through here."""
        self._check_whole()
        try:
            keep()
            note()
        except BaseException as error:
            # First what needs no memory: what comes after it may fail as well.
            self._broken = _INTERRUPTED
            if not isinstance(error, Exception):
                raise
            self._broken = self._explained(error)
            raise LedgerError(self._broken) from error

    def _explained(self, error: Exception) -> str:
        """What to tell of an error that stopped the ledger."""
        return f"{type(error).__name__}: {_INTERRUPTED}"

    def _check_whole(self) -> None:
        """Refuse to answer from projections that may not be what is kept."""
        if self._broken is not None:
            raise LedgerError(self._broken)

    # ------------------------------------------------------------------------------------------------------ users

    @one_at_a_time
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
        """Give new users the next numbers, or name those whom this key has enrolled."""
        check_enrolment(count, cap)
        self._check_whole()
        if key is not None and (kept := self._kept_ticket(key)) is not None:
            return kept_users(*kept)
        first = self._spending.enrolled
        check_room(first, count, min(most, MAX_USER))
        used = 0 if ticket is None else ticket.used(self._let_in(ticket.id), count)
        users = range(first, first + count)
        if count:
            run = UserRun(first, count, cap, kind, ticket, used, None if key is None else kept_as(key, users))
            after, kinds = self._spending.extended(count, cap), self._kinds.extended(first, kind)
            self._write(lambda: self._keep_users(run), lambda: self._note_run(after, kinds))
        return users

    def _note_run(self, after: UserBudgets, kinds: UserKinds) -> None:
        # Kinds first: whoever is counted as enrolled has one.
        self._kinds = kinds
        self._note_users(after)

    def _note_users(self, after: UserBudgets) -> None:
        self._spending = after

    @one_at_a_time
    def let_in(self, ticket: str) -> int:
        """Number of users whom a ticket has let in."""
        self._check_whole()
        return self._let_in(ticket)

    def _let_in(self, ticket: str) -> int:
        kept = self._kept_ticket(ticket)
        return 0 if kept is None else kept[1]

    def enrolled(self) -> int:
        """Number of users."""
        self._check_whole()
        return self._spending.enrolled

    def kinds(self) -> UserKinds:
        """The kind of every user."""
        self._check_whole()
        return self._kinds

    def standing(self, user: int) -> Standing:
        """Account of one user, and the charges of the rounds that she has answered."""
        with self.alone:
            self._check_user(user)
            one, spent = np.array([user], np.uint64), int(self._spending.spent[user])
            account = Account(int(self._spending.cap_of(one)[0]), spent)
            states = {id_: self._states[id_] for id_ in self._published} if spent else {}
            charges = self._charges(user, spent, [id_ for id_, of in states.items() if of is RoundState.OPEN])
            spent -= sum(charges.values())
        # Nothing is added to the others any more, so what they charged is of the same moment.
        charges |= self._charges(user, spent, [id_ for id_, of in states.items() if of is not RoundState.OPEN])
        return Standing(account, tuple(Charge(id_, charges[id_]) for id_ in states if id_ in charges))

    def _charges(self, user: int, spent: int, rounds: list[str]) -> dict[str, int]:
        """What each of these rounds has charged a user: the newest first, until it adds up to what she has spent."""
        charges = dict[str, int]()
        for id_ in reversed(rounds):
            if spent and self._book(id_).has(user):
                charges[id_] = self.round(id_).charge_of(user)
                spent -= charges[id_]
        return charges

    def affording(self, users: range, charge: int, kinds: Set[UserKind] = frozenset(UserKind)) -> Truths:
        """Whether each of these users is of one of these kinds and can still pay `charge`.

        Some at a time: whoever charges meanwhile is not kept waiting for ten million users.
        """
        self._check_whole()
        affords, of = np.zeros(len(users), np.bool), self._kinds
        for begin in range(0, len(users), _PIECE):
            some = users[begin : begin + _PIECE]
            with self.alone:
                affords[begin : begin + _PIECE] = self._spending.affording(some, charge)
            affords[begin : begin + _PIECE] &= of.are(np.arange(some.start, some.stop, dtype=np.uint64), kinds)
        return affords

    def able(self, charges: Sequence[int]) -> list[int]:
        """Number of users who can still pay each of these charges: some users at a time, as `affording`."""
        self._check_whole()
        found = np.zeros(len(charges), np.int64)
        for begin in range(0, self._spending.enrolled, _PIECE):
            with self.alone:
                spending = self._spending
                found += spending.able(range(begin, min(begin + _PIECE, spending.enrolled)), charges)
        return [int(each) for each in found]

    def epoch(self, user: int) -> int:
        """The epoch of a user's tokens: 0 until they are revoked."""
        self._check_whole()
        return self._epochs.get(user, 0) if 0 <= user < self._spending.enrolled else -1

    @one_at_a_time
    def epochs(self, users: Users) -> Integers:
        """The epoch of each user's tokens."""
        epochs = np.where(users < self._spending.enrolled, 0, -1)
        if self._epochs:
            epochs += np.array([self._epochs.get(user, 0) for user in users.tolist()], np.int64)
        return epochs

    @one_at_a_time
    def revoke(self, user: int, expected: int | None = None) -> int:
        """Count the epoch of a user's tokens up by one."""
        self._check_user(user)
        epoch = self.epoch(user) + 1
        if expected not in {None, epoch - 1}:
            raise StaleEpochError("has been renewed already", where=f"the token of user {user}")

        def note() -> None:
            self._epochs[user] = epoch

        self._write(lambda: self._keep_epoch(user, epoch), note)
        return epoch

    def _check_user(self, user: int) -> None:
        self._check_whole()
        if not 0 <= user < self._spending.enrolled:
            raise NotFoundError(f"there is no such user {user}")

    # -------------------------------------------------------------------------------------- studies and their rounds

    def append(self, study: str, entry: Entry) -> Bulletin:
        """Check the entry against the bulletin, keep it, and note what follows from it."""
        after = self._append(study, entry)
        self._put_away()
        return after

    @one_at_a_time
    def _append(self, study: str, entry: Entry) -> Bulletin:
        self._check_whole()
        after = (self.bulletin(study) if study in self._bulletins else Bulletin()).append(entry)
        if after.study is None or after.study.digest() != study:
            raise NotFoundError("the entry is of another study")
        if isinstance(entry.notice, RoundClosed):
            check_count(entry.notice, self.received(entry.notice.round))
        self._write(lambda: self._keep_entry(study, entry, after), lambda: self._note(study, after, [entry]))
        return after

    def close_round(self, id_: str, reason: CloseReason) -> Bulletin:
        """Close an open round with the number of its reports: nothing is charged in between."""
        with self.alone:
            study = self._place(id_)[0]
            if self._states[id_] is not RoundState.OPEN:
                raise NotOpenError(where=f"round {id_}")
            notice = RoundClosed(round=id_, reason=reason, received=self.received(id_))
            entry = self._bulletins[study].next(notice)
            # Its book is put away behind the lock, for which everybody waits who reports.
            self._closing += 1
            try:
                after = self.append(study, entry)
            finally:
                self._closing -= 1
        self._put_away()
        return after

    def _note(self, study: str, after: Bulletin, entries: Iterable[Entry]) -> None:
        """Take over a study's state after its last `entries`."""
        published = [entry for entry in entries if isinstance(entry.notice, RoundPublished)]
        new = after.rounds[len(after.rounds) - len(published) :]
        for (id_, _), entry in zip(new, published, strict=True):
            self._published[id_] = study, entry.sequence
            if isinstance(entry.notice, RoundPublished):
                self._specs[id_] = entry.notice.round
        self._note_state(study, after)

    def _note_state(self, study: str, after: Bulletin) -> None:
        """Take over where a study stands; of one that has ended nothing is held that can be read again."""
        self._states |= after.rounds
        if after.state in ENDED:
            self._bulletins[study] = replace(after, study=None)
            self._running.pop(study, None)
            for id_, _ in after.rounds:
                self._specs.pop(id_, None)
        else:
            self._bulletins[study] = after
            self._running[study] = None

    def studies(self) -> list[str]:
        """The ids of all studies, in the order of their first entries."""
        self._check_whole()
        return list(self._bulletins)

    def unfinished(self) -> list[str]:
        """The ids of the studies that have not ended, in the order of their first entries."""
        self._check_whole()
        return list(self._running)

    def bulletin(self, study: str) -> Bulletin:
        """State of a study and of its rounds."""
        self._check_study(study)
        bulletin = self._bulletins[study]
        return bulletin if bulletin.study is not None else replace(bulletin, study=self._ended(study))

    def _check_study(self, study: str) -> None:
        self._check_whole()
        if study not in self._bulletins:
            raise NotFoundError("there is no such study")

    def _read_study(self, study: str) -> StudySpec:
        """A study from its first entry."""
        notice = self._kept_entry(study, 0).notice
        assert isinstance(notice, StudyPublished)  # noqa: S101 - the bulletin has refused a first entry of another kind
        return notice.study

    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared at its first use."""
        self._place(id_)
        round_ = self._in_use.get(id_)
        if round_ is None:
            round_ = self._in_use[id_] = self._prepared(id_)
        return round_

    def _read_round(self, id_: str) -> PreparedRound:
        study, sequence = self._place(id_)
        spec, of = self._specs.get(id_), self.bulletin(study).study
        if spec is None:
            notice = self._kept_entry(study, sequence).notice
            assert isinstance(notice, RoundPublished)  # noqa: S101 - it was one when its place was noted
            spec = notice.round
        assert of is not None  # noqa: S101 - the bulletin has refused rounds of anything else
        return open_round(of, spec)

    def state(self, id_: str) -> RoundState:
        """State of a round."""
        self._place(id_)
        return self._states[id_]

    def _place(self, id_: str) -> tuple[str, int]:
        """The study of a round, and the place of its entry there."""
        self._check_whole()
        if id_ not in self._published:
            raise NotFoundError("there is no such round")
        return self._published[id_]

    # ---------------------------------------------------------------------------------------------------- reports

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """Decide from the projections, keep what is accepted, then note it."""
        if len(users) != len(outcomes):
            raise ProtocolError("and users are not equally many", where="outcomes")
        if self.state(id_) is not RoundState.OPEN:
            self._book(id_)  # It may have to be read, for which nobody else has to wait.
        return self._charge(id_, users, outcomes)

    @one_at_a_time
    def _charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        round_, book = self.round(id_), self._book(id_)
        verdicts, spent = self._decide(round_, book, users, outcomes)
        if verdicts.any() or not _differ(users):
            accepted = _accept_firsts(users, outcomes, verdicts)
            users, outcomes, spent = users[accepted], outcomes[accepted], spent[accepted]
        if len(users):
            assert isinstance(book, OpenBook)  # noqa: S101 - of another round nothing is accepted
            rows, add = users.astype(np.intp), book.adding(users, outcomes, len(self._spending.spent))

            def note() -> None:
                add()
                self._spending.spent[rows] = spent

            self._write(lambda: self._keep_group(id_, users, outcomes), note)
        return verdicts

    def _decide(
        self, round_: PreparedRound, book: OpenBook | ClosedBook, users: Users, outcomes: OutcomeColumn
    ) -> tuple[Verdicts, Integers]:
        """Verdict on each report as if it came alone, and what its user would have spent with it. Changes nothing."""
        known = users < self._spending.enrolled
        if known.all():
            return self._decide_known(round_, book, users, outcomes)
        verdicts, spent = np.full(len(users), Verdict.UNKNOWN_USER, np.uint8), np.zeros(len(users), np.int64)
        verdicts[known], spent[known] = self._decide_known(round_, book, users[known], outcomes[known])
        return verdicts, spent

    def _decide_known(
        self, round_: PreparedRound, book: OpenBook | ClosedBook, users: Users, outcomes: OutcomeColumn
    ) -> tuple[Verdicts, Integers]:
        spending = self._spending
        rows = users.astype(np.intp)
        before = book.found(users)
        spent = spending.spent[rows] + charges_of(round_, users)
        over = spent > spending.cap_of(users)
        outside = outcomes >= _limits_of(round_, users)
        kinds = admitted(simulated=round_.study.simulated)
        asked = round_.asked(users) & self._kinds.are(users, kinds)
        verdicts = np.zeros(len(users), np.uint8)
        is_open = self._states[round_.id] is RoundState.OPEN
        if is_open and asked.all() and not (before.any() or over.any() or outside.any()):
            # The usual group, all of it accepted: nothing to pick out.
            return verdicts, spent
        # Later lines win: the order of base.py, read from its end.
        verdicts[over] = Verdict.OVER_BUDGET
        if not is_open:
            verdicts[:] = Verdict.NOT_OPEN
        verdicts[before != 0] = Verdict.CONFLICT
        verdicts[(before != 0) & (before == outcomes.astype(np.int64) + 1)] = Verdict.REPEATED
        verdicts[outside] = Verdict.OUTSIDE
        verdicts[~asked] = Verdict.NOT_ASKED
        return verdicts, spent

    def _book(self, id_: str) -> OpenBook | ClosedBook:
        """The book of a round: at hand, or read from the log. That of an open one is asked for alone."""
        self._place(id_)
        if self._states[id_] is not RoundState.OPEN:
            book = self._shelved.get(id_) or self._books.get(id_)
            if book is None:
                book = self._shelved[id_] = ClosedBook.of(self._read_book(id_), self._shelf)
            return book
        book = self._books.get(id_)
        if book is None:
            book = self._books[id_] = self._read_book(id_)
        book.lengthen(self._spending.enrolled)
        return book

    def _read_book(self, id_: str) -> OpenBook:
        # To prepare a round takes ten times as long as to read few reports: they are held as if there were any outcome.
        few = self._states[id_] is not RoundState.OPEN and self.received(id_) <= FEW
        book, enrolled = OpenBook.of(_ANY_OUTCOME if few else self.round(id_).outcomes), self._spending.enrolled
        for users, outcomes in _joined(self._logged(id_)):
            book.adding(users, outcomes, enrolled)()
        return book

    def _put_away(self) -> None:
        """Let the books of rounds leave memory that take no more reports, unless somebody is about to."""
        if self._closing or not self._putting.acquire(blocking=False):
            return
        try:
            closed = [id_ for id_ in list(self._books) if self._states[id_] is not RoundState.OPEN]
            for id_ in closed:
                book = ClosedBook.of(self._books[id_], self._shelf)
                with self.alone:
                    self._shelved[id_] = book
                    del self._books[id_]
        finally:
            self._putting.release()

    @one_at_a_time
    def received(self, id_: str) -> int:
        """Number of accepted reports of a round."""
        self._place(id_)
        if self._states[id_] is RoundState.OPEN:
            return self._book(id_).received
        book = self._shelved.get(id_) or self._books.get(id_)
        if book is not None:
            return book.received
        if id_ not in self._counted:
            self._counted[id_] = self._count_logged(id_)
        return self._counted[id_]

    def reports_behind(self, id_: str, mark: int = 0) -> tuple[Users, OutcomeColumn, int]:
        """Reports of the log: groups are in the order of their commits there."""
        self.round(id_)
        return a_piece(mark, self._logged_behind(id_, mark))

    def tallies(self, id_: str) -> list[Tally]:
        """Tallies of the accepted reports, counted from the log a group at a time, beside all else that goes on."""
        round_ = self.round(id_)
        total = tally_round(round_, np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        for users, outcomes in self._logged(id_):
            total = [sum_ + more for sum_, more in zip(total, tally_round(round_, users, outcomes), strict=True)]
        return total

    # ----------------------------------------------------------------------------------------------------- health

    @one_at_a_time
    def census(self) -> Census:
        """How many of everything there are."""
        studies = Counter(bulletin.state for bulletin in self._bulletins.values())
        return Census(self._spending.enrolled, studies, Counter(self._states.values()))

    @one_at_a_time
    def verify(self, tell: Tell = tell_nobody) -> list[Fault]:
        """Work out spending and reports from the log alone and compare; follow every bulletin."""
        self._check_whole()
        return [*self._verify_bulletins(tell), *self._verify_reports(tell)]

    def _verify_bulletins(self, tell: Tell) -> Iterator[Fault]:
        before, length = 0, sum(bulletin.length for bulletin in self._bulletins.values())
        for study in self._bulletins:
            try:
                bulletin = self.bulletin(study)
                if Bulletin().extend(_told(self.entries(study), before, length, tell)) != bulletin:
                    yield Fault(f"study {study}", "the stored entries lead to another state")
                before += bulletin.length
            except ValueError as error:
                yield Fault(f"study {study}", str(error))

    def _verify_reports(self, tell: Tell) -> Iterator[Fault]:
        """Round by round, then user by user."""
        spent = np.zeros(self._spending.enrolled, np.int64)
        done = received = 0
        for number, id_ in enumerate(self._published, 1):
            received += self.received(id_)
            tell("reading rounds", number, len(self._published))
        for id_ in self._published:
            groups = list[Users]()
            for users, _ in self._logged(id_):
                groups.append(users)
                tell("verifying reports", done := done + len(users), received)
            users = np.concatenate(groups) if groups else np.zeros(0, np.uint64)
            np.add.at(spent, users, charges_of(self.round(id_), users))
            if len(np.unique(users)) < len(users):
                yield Fault(f"round {id_}", "a user stands twice in the log")
            if len(users) != self.received(id_):
                yield Fault(f"round {id_}", "the log and the count of reports differ")
        wrong = np.flatnonzero(spent != self._spending.spent[: len(spent)])
        if len(wrong):
            yield Fault(f"user {wrong[0]}", f"spending differs from the log for {counted(len(wrong), 'user')}")
        over = np.flatnonzero(spent > self._spending.cap_of(np.arange(len(spent), dtype=np.uint64)))
        if len(over):
            yield Fault(f"user {over[0]}", f"the cap is exceeded by {counted(len(over), 'user')}")


def _told(entries: Iterable[Entry], before: int, length: int, tell: Tell) -> Iterator[Entry]:
    """These entries, and how many of all have been followed."""
    for number, entry in enumerate(entries, before + 1):
        yield entry
        tell("verifying bulletins", number, length)


def _joined(groups: Iterable[tuple[Users, OutcomeColumn]]) -> Iterator[tuple[Users, OutcomeColumn]]:
    """The reports of these groups, many at a time."""
    users, outcomes, size = list[Users](), list[OutcomeColumn](), 0
    for some, told in groups:
        users.append(some)
        outcomes.append(told)
        size += len(some)
        if size > FEW:
            yield np.concatenate(users), np.concatenate(outcomes)
            users, outcomes, size = [], [], 0
    if users:
        yield np.concatenate(users), np.concatenate(outcomes)


def _size_of(document: Value) -> int:
    """About how many bytes a study or round takes up that is read and prepared."""
    return _A_DOCUMENT + _A_BYTE * len(document.to_bytes())


def charges_of(round_: PreparedRound, users: Users) -> Integers:
    """The charge of a report by each of these users: that of her part."""
    if len(round_.spec.parts) == 1:
        return np.full(len(users), round_.charge, np.int64)
    return np.array([part.charge for part in round_.spec.parts], np.int64)[round_.questions(users)[0]]


def _limits_of(round_: PreparedRound, users: Users) -> Integers | int:
    """The number of outcomes that each of these users has."""
    if len(round_.spec.parts) == 1:
        return round_.outcomes
    return np.array(round_.limits)[round_.questions(users)[0]]


def _accept_firsts(users: Users, outcomes: OutcomeColumn, verdicts: Verdicts) -> NDArray[np.intp]:
    """Positions of the reports that are accepted: of several by one user the first, and the others are retries of it.

    What is not accepted stays refused whatever else came with it: an account that cannot pay for the first report of a
    user cannot pay for her second. So one sort by users tells all.
    """
    accepted = np.flatnonzero(verdicts == Verdict.ACCEPTED)
    mine, told = users[accepted], outcomes[accepted]
    if _differ(mine):
        return accepted
    _, firsts, owners = np.unique(mine, return_index=True, return_inverse=True)
    verdicts[accepted] = np.where(told == told[firsts][owners], Verdict.REPEATED, Verdict.CONFLICT)
    accepted = accepted[np.sort(firsts)]
    verdicts[accepted] = Verdict.ACCEPTED
    return accepted


def _differ(users: Users) -> bool:
    """Whether no user comes twice. A gateway sends them in ascending order."""
    if (users[1:] > users[:-1]).all():
        return True
    ordered = np.sort(users)
    return bool((ordered[1:] > ordered[:-1]).all())
