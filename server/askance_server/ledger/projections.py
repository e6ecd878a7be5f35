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
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.budget import Account
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import (
    Bulletin,
    CloseReason,
    Entry,
    PreparedRound,
    RoundClosed,
    RoundPublished,
    RoundSpec,
    RoundState,
    open_round,
)
from askance_protocol.tally import Tally, tally_round
from askance_protocol.text import counted
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
from askance_server.ledger.kinds import UserKind, UserKinds, admitted

Item = TypeVar("Item", bound=np.generic)

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
        return UserBudgets(enrolled, _lengthened(self.spent, enrolled), starts, caps)

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


@dataclass(slots=True)
class RoundProjection:
    """The reports of one round, by user number: outcome + 1, and 0 for users who have not reported."""

    round: PreparedRound
    reported: NDArray[np.unsignedinteger[Any]]
    received: int = 0

    @classmethod
    def of(cls, round_: PreparedRound, users: int) -> RoundProjection:
        """A round without reports, in the narrowest type that holds outcome + 1."""
        width = np.uint8 if round_.outcomes < 1 << 8 else np.uint16 if round_.outcomes < 1 << 16 else np.uint32
        return cls(round_, np.zeros(users, width))

    def marked(self, outcomes: OutcomeColumn) -> NDArray[np.unsignedinteger[Any]]:
        """These outcomes as `reported` has them."""
        return (outcomes + 1).astype(self.reported.dtype)

    def add(self, users: NDArray[np.intp], marked: NDArray[np.unsignedinteger[Any]]) -> None:
        """Note reports of different users."""
        self.reported[users] = marked
        self.received += len(users)

    def lengthen(self, users: int) -> NDArray[np.unsignedinteger[Any]]:
        """`reported`, made as long as there are users."""
        self.reported = _lengthened(self.reported, users)
        return self.reported


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
        self._states: dict[str, RoundState] = {}
        self._published: dict[str, RoundSpec] = {}
        """All rounds, in the order in which they were published."""
        self._prepared: dict[str, PreparedRound] = {}
        self._projections: dict[str, RoundProjection] = {}

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

    @one_at_a_time
    def standing(self, user: int) -> Standing:
        """Account of one user, and the charges of the rounds that she has answered."""
        self._check_user(user)
        one = np.array([user], np.uint64)
        charges = [
            Charge(id_, int(charges_of(projection.round, one)[0]))
            for id_, projection in ((id_, self._projection(id_)) for id_ in self._published)
            if projection.reported[user]
        ]
        account = Account(int(self._spending.cap_of(one)[0]), int(self._spending.spent[user]))
        return Standing(account, tuple(charges))

    @one_at_a_time
    def affording(self, users: range, charge: int, kinds: Set[UserKind] = frozenset(UserKind)) -> Truths:
        """Whether each of these users is of one of these kinds and can still pay `charge`."""
        self._check_whole()
        affords = self._spending.affording(users, charge)
        return affords & self._kinds.are(np.arange(users.start, users.stop, dtype=np.uint64), kinds)

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

    @one_at_a_time
    def append(self, study: str, entry: Entry) -> Bulletin:
        """Check the entry against the bulletin, keep it, and note what follows from it."""
        self._check_whole()
        after = self._bulletins.get(study, Bulletin()).append(entry)
        if after.study is None or after.study.digest() != study:
            raise NotFoundError("the entry is of another study")
        if isinstance(entry.notice, RoundClosed):
            check_count(entry.notice, self.received(entry.notice.round))
        self._write(lambda: self._keep_entry(study, entry, after), lambda: self._note(study, after, [entry]))
        return after

    @one_at_a_time
    def close_round(self, id_: str, reason: CloseReason) -> Bulletin:
        """Close an open round with the number of its reports: nothing is charged in between."""
        study = self._spec(id_).study
        if self._states[id_] is not RoundState.OPEN:
            raise NotOpenError(where=f"round {id_}")
        notice = RoundClosed(round=id_, reason=reason, received=self.received(id_))
        return self.append(study, self._bulletins[study].next(notice))

    def _note(self, study: str, after: Bulletin, entries: Iterable[Entry]) -> None:
        """Take over a study's state after its last `entries`."""
        published = [entry.notice.round for entry in entries if isinstance(entry.notice, RoundPublished)]
        new = after.rounds[len(after.rounds) - len(published) :]
        self._published |= {id_: spec for (id_, _), spec in zip(new, published, strict=True)}
        self._states |= after.rounds
        self._bulletins[study] = after

    def studies(self) -> list[str]:
        """The ids of all studies, in the order of their first entries."""
        self._check_whole()
        return list(self._bulletins)

    def bulletin(self, study: str) -> Bulletin:
        """State of a study and of its rounds."""
        self._check_whole()
        if study not in self._bulletins:
            raise NotFoundError("there is no such study")
        return self._bulletins[study]

    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared at its first use."""
        self._check_whole()
        if id_ not in self._prepared:
            spec = self._spec(id_)
            study = self._bulletins[spec.study].study
            assert study is not None  # noqa: S101 - the bulletin has refused rounds of anything else
            self._prepared[id_] = open_round(study, spec)
        return self._prepared[id_]

    def state(self, id_: str) -> RoundState:
        """State of a round."""
        self._spec(id_)
        return self._states[id_]

    def _spec(self, id_: str) -> RoundSpec:
        self._check_whole()
        if id_ not in self._published:
            raise NotFoundError("there is no such round")
        return self._published[id_]

    # ---------------------------------------------------------------------------------------------------- reports

    @one_at_a_time
    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """Decide from the projections, keep what is accepted, then note it."""
        if len(users) != len(outcomes):
            raise ProtocolError("and users are not equally many", where="outcomes")
        projection = self._projection(id_)
        verdicts, spent = self._decide(projection, users, outcomes)
        if verdicts.any() or not _differ(users):
            accepted = _accept_firsts(users, outcomes, verdicts)
            users, outcomes, spent = users[accepted], outcomes[accepted], spent[accepted]
        if len(users):
            rows, reported = users.astype(np.intp), projection.marked(outcomes)

            def note() -> None:
                projection.add(rows, reported)
                self._spending.spent[rows] = spent

            self._write(lambda: self._keep_group(id_, users, outcomes), note)
        return verdicts

    def _decide(self, projection: RoundProjection, users: Users, outcomes: OutcomeColumn) -> tuple[Verdicts, Integers]:
        """Verdict on each report as if it came alone, and what its user would have spent with it. Changes nothing."""
        known = users < self._spending.enrolled
        if known.all():
            return self._decide_known(projection, users, outcomes)
        verdicts, spent = np.full(len(users), Verdict.UNKNOWN_USER, np.uint8), np.zeros(len(users), np.int64)
        verdicts[known], spent[known] = self._decide_known(projection, users[known], outcomes[known])
        return verdicts, spent

    def _decide_known(
        self, projection: RoundProjection, users: Users, outcomes: OutcomeColumn
    ) -> tuple[Verdicts, Integers]:
        spending = self._spending
        rows = users.astype(np.intp)
        before = projection.reported[rows]
        spent = spending.spent[rows] + charges_of(projection.round, users)
        over = spent > spending.cap_of(users)
        outside = outcomes >= _limits_of(projection.round, users)
        kinds = admitted(simulated=projection.round.study.simulated)
        asked = projection.round.asked(users) & self._kinds.are(users, kinds)
        verdicts = np.zeros(len(users), np.uint8)
        is_open = self._states[projection.round.id] is RoundState.OPEN
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

    def _projection(self, id_: str) -> RoundProjection:
        """A round's reports, read from the log at first use; its array is as long as there are users."""
        self._check_whole()
        projection = self._projections.get(id_)
        if projection is None:
            projection = RoundProjection.of(self.round(id_), self._spending.enrolled)
            for users, outcomes in self._logged(id_):
                projection.add(users.astype(np.intp), projection.marked(outcomes))
            self._projections[id_] = projection
        projection.lengthen(self._spending.enrolled)
        return projection

    @one_at_a_time
    def received(self, id_: str) -> int:
        """Number of accepted reports of a round."""
        return self._projection(id_).received

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
        for study, bulletin in self._bulletins.items():
            try:
                if Bulletin().extend(_told(self.entries(study), before, length, tell)) != bulletin:
                    yield Fault(f"study {study}", "the stored entries lead to another state")
            except ValueError as error:
                yield Fault(f"study {study}", str(error))
            before += bulletin.length

    def _verify_reports(self, tell: Tell) -> Iterator[Fault]:
        """Round by round, then user by user."""
        spent = np.zeros(self._spending.enrolled, np.int64)
        done = received = 0
        for number, id_ in enumerate(self._published, 1):
            received += self.received(id_)
            tell("reading rounds", number, len(self._published))
        for id_ in self._published:
            projection = self._projection(id_)
            groups = list[Users]()
            for users, _ in self._logged(id_):
                groups.append(users)
                tell("verifying reports", done := done + len(users), received)
            users = np.concatenate(groups) if groups else np.zeros(0, np.uint64)
            np.add.at(spent, users, charges_of(projection.round, users))
            if len(np.unique(users)) < len(users):
                yield Fault(f"round {id_}", "a user stands twice in the log")
            if len(users) != projection.received:
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


def _lengthened(array: NDArray[Item], length: int) -> NDArray[Item]:
    """An array of at least this length, padded with zeros; its length doubles if it has to grow."""
    if len(array) >= length:
        return array
    longer = np.zeros(max(length, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer


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
