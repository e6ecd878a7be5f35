"""Faults inside a ledger, one at every place in turn, and what has to be true of the ledger after each.

Theory of operation
-------------------
*A trial* is one operation (`OPERATIONS`) with one fault in it. A `MemoryLedger` without faults tells what holds before
and after. Once the fault has struck, the ledger that it struck either refuses everything, or says exactly what is
stored; what is stored is what was before or what comes after, never between; what was acknowledged is stored. The
operation is then tried again, on the same ledger if it still answers and on one that was opened again, and is told the
truth: a report that is stored is a repetition, one that is not is accepted.

*Places.* `at_line` raises before the n-th line that runs in the ledger's own code, `at_statement` before or after the
n-th SQL statement, `within_bytes` lets files grow only so far. Memory that is short is in `starving`: SQLite's limit on
its heap can be lowered, but never raised again in the same process.
"""

from __future__ import annotations

import resource
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import psycopg
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.rounds import Bulletin, RoundClosed, RoundPublished, StudyPublished
from askance_protocol.rounds.bulletin import read_entry
from askance_server import ledger as ledger_package
from askance_server.ledger.base import Ledger, LedgerError, OutcomeColumn, Ticket, Users, Verdict, Verdicts
from askance_server.ledger.kinds import UserKind
from askance_server.ledger.memory import MemoryLedger
from askance_server.ledger.postgres import PostgresLedger, rows
from askance_server.ledger.postgres import ledger as postgres_ledger
from askance_server.ledger.postgres.link import Link, ask
from askance_server.ledger.postgres.seals import reports_sum
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.ledger.sqlite.seals import Seals
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import Keeper

STUDY: Final = study()
ID: Final = STUDY.digest()
USERS: Final = 2_000
CAP: Final = 2 * MICRO
TICKETS: Final = 50

read_once: Final = lru_cache(1 << 10)(read_entry)
"""`read_entry`, which looks at bytes alone: sweeps open the same ledgers again and again."""

Told = object
"""What an operation is told: it compares."""


# ------------------------------------------------------------------------------------------------------- operations


def charge(ledger: Ledger, number: int, *reports: tuple[int, int]) -> list[Verdict]:
    """Report to the study's round of this number."""
    users, outcomes = np.array(reports, np.uint64).T
    verdicts = ledger.charge(ledger.bulletin(ID).rounds[number][0], users, outcomes.astype(np.uint32))
    return [Verdict(verdict) for verdict in verdicts.tolist()]


def one_report(ledger: Ledger, step: int) -> Told:
    return charge(ledger, 0, (1_000 + step, step % 2))


def a_group(ledger: Ledger, step: int) -> Told:
    """New users, users of the step before, one who stands twice, one who contradicts herself, a stranger."""
    new = [(2 * step + user, 1) for user in range(4)]
    return charge(ledger, 1, *reversed(new), new[0], (new[1][0], 0), (USERS * 2, 1), (3, 9))


def an_enrolment(ledger: Ledger, step: int) -> Told:
    return ledger.enrol(2, CAP)


def an_enrolment_with_another_cap(ledger: Ledger, step: int) -> Told:
    return ledger.enrol(1, CAP + step + 1)


def an_enrolment_with_a_ticket(ledger: Ledger, step: int) -> Told:
    """The first of it, or one more."""
    return ledger.enrol(2, CAP, tuple(UserKind)[step % 3], ticket=Ticket(f"{step // 4 % TICKETS:032x}", 10_000))


def a_renewal(ledger: Ledger, step: int) -> Told:
    return ledger.revoke(step % 3, ledger.epoch(step % 3))


def a_revocation(ledger: Ledger, step: int) -> Told:
    return ledger.revoke(step % 3)


def a_publication(ledger: Ledger, step: int) -> Told:
    bulletin = ledger.bulletin(ID)
    number = len(bulletin.rounds) + 1
    return ledger.append(ID, bulletin.next(RoundPublished(round=round_of(part(), number=number))))


def a_new_study(ledger: Ledger, step: int) -> Told:
    other = study(nonce=f"{step:032x}")
    return ledger.append(other.digest(), Bulletin().next(StudyPublished(study=other)))


def a_closing(ledger: Ledger, step: int) -> Told:
    """Of the last round; `before_a_closing` has published it."""
    bulletin = ledger.bulletin(ID)
    notice = RoundClosed(round=bulletin.rounds[-1][0], reason="operator", received=0)
    return ledger.append(ID, bulletin.next(notice))


def before_a_closing(ledger: Ledger, step: int) -> None:
    a_publication(ledger, step)
    charge(ledger, 1, (1_500 + step, 0))  # So that there is something for a checkpoint to count in.


def a_heartbeat(ledger: Ledger, step: int) -> Told:
    return ledger.check_writable()


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that is written, and what has to happen before it, without a fault."""

    run: Callable[[Ledger, int], Told]
    before: Callable[[Ledger, int], object] = lambda ledger, step: None
    again: Callable[[Told], Told] | None = None
    """What a retry is told where the operation is stored already; None where it refuses or is not tried."""


def as_retries(told: Any) -> Told:
    """What is stored was accepted; the rest is told the same."""
    return [Verdict.REPEATED if verdict is Verdict.ACCEPTED else verdict for verdict in told]


OPERATIONS: Final[dict[str, Operation]] = {
    "a report": Operation(one_report, again=as_retries),
    "a group": Operation(a_group, again=as_retries),
    "an enrolment": Operation(an_enrolment),
    "an enrolment with another cap": Operation(an_enrolment_with_another_cap),
    "an enrolment with a ticket": Operation(an_enrolment_with_a_ticket),
    "a revocation": Operation(a_revocation),
    "a renewal": Operation(a_renewal),
    "a publication": Operation(a_publication),
    "a new study": Operation(a_new_study),
    "a closing": Operation(a_closing, before=before_a_closing),
    "a heartbeat": Operation(a_heartbeat, again=lambda told: told),
}
"""Everything that a ledger writes."""


def prepare(ledger: Ledger) -> None:
    """Users, a study and two open rounds."""
    ledger.enrol(USERS, CAP)
    bulletin = ledger.append(ID, Bulletin().next(StudyPublished(study=STUDY)))
    for number in (1, 2):
        bulletin = ledger.append(ID, bulletin.next(RoundPublished(round=round_of(part(), number=number))))
    charge(ledger, 0, (0, 1))
    charge(ledger, 1, (0, 1), (1, 0))


Snapshot = list[object]


def snapshot(ledger: Ledger) -> Snapshot:
    """Everything that the operations can change, as the ledger tells it."""
    users = ledger.enrolled()
    rounds = ledger.bulletin(ID).rounds
    return [
        users,
        [ledger.affording(range(users), charge).tobytes() for charge in (1, MICRO + 1, CAP + 9)],
        [ledger.standing(user) for user in (0, 3, users - 1)],
        [ledger.epoch(user) for user in range(3)],
        list(ledger.kinds().runs(users)),
        [ledger.let_in(f"{number:032x}") for number in range(TICKETS)],
        ledger.studies(),
        ledger.bulletin(ID),
        [entry.digest() for study_ in ledger.studies()[-2:] for entry in ledger.entries(study_)[-3:]],
        [(ledger.state(id_), ledger.received(id_), ledger.tallies(id_)[0].to_rows()) for id_, _ in rounds[:2]],
    ]


# ----------------------------------------------------------------------------------------------------------- faults

FOLDER: Final = str(Path(ledger_package.__file__).parent)

Fault = Callable[[Ledger, int, Callable[[], Told]], tuple[bool, Told]]
"""Does the work with a fault at the n-th place; whether it struck, and what the work was told, or the error."""


def told(work: Callable[[], Told]) -> Told:
    """What some work is told, or what it raises."""
    try:
        return work()
    except BaseException as error:
        return error


def at_line(make: Callable[[], BaseException]) -> Fault:
    """Raise before the n-th line that runs in the ledger's folder: what an asynchronous error can do, and what memory
    that is short can do to any line.
    """

    def strike(ledger: Ledger, place: int, work: Callable[[], Told]) -> tuple[bool, Told]:
        left = place

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.startswith(FOLDER):
                return None
            if event == "line":
                left -= 1
                if not left:
                    raise make()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            answer = told(work)
        finally:
            sys.settrace(before)
        return left <= 0, answer

    return strike


class StrikingConnection:
    """A connection to SQLite that fails at one statement, before it is carried out or after."""

    def __init__(self, db: sqlite3.Connection, place: int, make: Callable[[], BaseException], *, after: bool) -> None:
        self._db, self._left, self._make, self._after = db, place, make, after

    @property
    def struck(self) -> bool:
        return self._left <= 0

    def execute(self, *given: Any) -> Any:
        return self._strike(lambda: self._db.execute(*given))

    def blobopen(self, *given: Any) -> Any:
        return self._strike(lambda: self._db.blobopen(*given))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def _strike(self, work: Callable[[], Any]) -> Any:
        self._left -= 1
        if not self._left and not self._after:
            raise self._make()
        done = work()
        if not self._left:
            raise self._make()
        return done


def at_statement(make: Callable[[], BaseException], *, after: bool) -> Fault:
    """Raise at the n-th statement that the embedded ledger executes."""

    def strike(ledger: Any, place: int, work: Callable[[], Told]) -> tuple[bool, Told]:
        striking = StrikingConnection(ledger._db, place, make, after=after)
        ledger._db = striking
        try:
            answer = told(work)
        finally:
            ledger._db = striking._db
        return striking.struck, answer

    return strike


def at_query(fault: Callable[[PostgresLedger], None], *, after: bool) -> Fault:
    """Do something before or after the n-th query that the ledger in PostgreSQL sends: raise, or end its connection."""

    def strike(ledger: Any, place: int, work: Callable[[], Told]) -> tuple[bool, Told]:
        left = place

        def asking(link: Link, *given: Any) -> Any:
            nonlocal left
            left -= 1
            if not left and not after:
                fault(ledger)
            rows = ask(link, *given)
            if not left and after:
                fault(ledger)
            return rows

        with pytest.MonkeyPatch.context() as patch:
            for module in (postgres_ledger, rows):
                patch.setattr(module, "ask", asking)
            answer = told(work)
        return left <= 0, answer

    return strike


def cut(ledger: Any) -> None:
    """End the connection of a ledger in PostgreSQL from outside, as a database does that is shut down."""
    with psycopg.connect(ledger._url, autocommit=True) as link:
        link.execute("SELECT pg_terminate_backend(%s, 10000)", (ledger._mine.link.info.backend_pid,)).fetchall()


def raising(make: Callable[[], BaseException]) -> Callable[[PostgresLedger], None]:
    """Raise this."""

    def fault(_: PostgresLedger) -> None:
        raise make()

    return fault


def within_bytes(piece: int) -> Fault:
    """Let no file grow beyond what the write-ahead log has, and n − 1 pieces more: a disk that is full."""

    def strike(ledger: Any, place: int, work: Callable[[], Told]) -> tuple[bool, Told]:
        log = Path(f"{ledger._path}-wal")
        with limited((log.stat().st_size if log.exists() else 0) + (place - 1) * piece):
            answer = told(work)
        return isinstance(answer, BaseException), answer

    return strike


@contextmanager
def limited(most: int) -> Generator[None]:
    """No file of this process grows beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ------------------------------------------------------------------------------------------------------------ trials


@dataclass
class Trials:
    """One operation again and again, with a fault at each place in turn."""

    make: Callable[[], Keeper]
    operation: Operation
    strike: Fault
    durable: bool = True
    """Whether there is something to open again once the ledger has stopped."""
    keeper: Keeper = field(init=False)
    model: MemoryLedger = field(default_factory=MemoryLedger)
    refused: int = 0
    """How many faults stopped the ledger."""
    answered: int = 0
    """How many it lived through."""

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.keeper, self.model = self.make(), MemoryLedger()
        for ledger in (self.model, self.keeper.ledger):
            prepare(ledger)

    @property
    def struck(self) -> int:
        """The number of faults that struck."""
        return self.refused + self.answered - 1  # The last one found nothing to strike.

    def run(self, places: Iterable[int]) -> list[str]:
        """What is wrong after a fault at each of these places, until none strikes any more."""
        for step, place in enumerate(places):
            for ledger in (self.model, self.keeper.ledger):
                self.operation.before(ledger, step)
            struck, faults = self.trial(step, place)
            if faults or not struck:
                return [f"at place {place}: {fault}" for fault in faults]
        return []

    def trial(self, step: int, place: int) -> tuple[bool, list[str]]:
        """One fault at this place."""
        before = snapshot(self.model)
        expected = self.operation.run(self.model, step)
        after = snapshot(self.model)
        ledger = self.keeper.ledger
        struck, answer = self.strike(ledger, place, lambda: self.operation.run(ledger, step))
        return struck, list(self._judge(ledger, answer, expected, before, after, step))

    def _judge(
        self, ledger: Ledger, answer: Told, expected: Told, before: Snapshot, after: Snapshot, step: int
    ) -> Iterator[str]:
        acknowledged = not isinstance(answer, BaseException)
        if acknowledged and answer != expected:
            yield f"it was told {answer!r} and not {expected!r}"
        said = told(lambda: snapshot(ledger))
        if isinstance(said, LedgerError):
            self.refused += 1
            yield from self._judge_stopped(ledger, step)
        else:
            self.answered += 1
            if said not in (before, after):
                yield f"the ledger says what is neither before nor after: {said!r}"
            stored = said == after
            yield from self._judge_retry(ledger, expected, stored=stored, step=step)
            if (now := told(lambda: snapshot(ledger))) != after:
                yield f"after a retry the ledger says {now!r}"
        if not self.durable:
            if isinstance(said, LedgerError):
                self._begin()
            return
        try:
            again = self.keeper.reopen()
        except LedgerError as error:
            yield f"it does not open again: {error}"
            self._begin()
            return
        stored = snapshot(again) == after
        if not stored and (acknowledged or not isinstance(said, LedgerError)):
            yield "what was acknowledged is not stored"
        if not stored and snapshot(again) != before:
            yield "what is stored is neither before nor after"
        yield from self._judge_retry(again, expected, stored=stored, step=step)
        if snapshot(again) != after:
            yield "a retry of the ledger that was opened again does not lead to what comes after"
        yield from (f"{fault.where}: {fault.what}" for fault in again.verify())

    def _judge_stopped(self, ledger: Ledger, step: int) -> Iterator[str]:
        """A ledger that has stopped takes nothing, whatever is asked of it."""
        for name, operation in OPERATIONS.items():
            answer = told(lambda operation=operation: operation.run(ledger, step))
            if not isinstance(answer, LedgerError):
                yield f"it has stopped, and {name} is told {answer!r}"

    def _judge_retry(self, ledger: Ledger, expected: Told, *, stored: bool, step: int) -> Iterator[str]:
        if stored and self.operation.again is None:
            return  # Whoever enrols or publishes again does another thing: `_repeats_an_entry` is about those.
        answer = told(lambda: self.operation.run(ledger, step))
        right = self.operation.again(expected) if stored and self.operation.again else expected
        if isinstance(answer, AskanceError) and not isinstance(answer, LedgerError | ProtocolError):
            raise answer
        if answer != right:
            yield f"{'stored' if stored else 'not stored'}, and a retry is told {answer!r} and not {right!r}"


# ------------------------------------------------------------------------------------------------------------- twins


class CatchesItsOwnErrorsOnly(SqliteLedger):
    """As version 0.1 wrote: of reports the arrays first, and only an error of SQLite stops it."""

    charging = False

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        self.charging = True
        try:
            return super().charge(id_, users, outcomes)
        finally:
            self.charging = False

    def _write(self, keep: Callable[[], None], note: Callable[[], None]) -> None:
        self._check_whole()
        try:
            for work in (note, keep) if self.charging else (keep, note):
                work()
        except sqlite3.Error as error:
            self._broken = "cannot be written"
            raise LedgerError(self._broken) from error

    @contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        yield self._db
        self._seals.write(self._db)
        self._db.execute("COMMIT")
        self._seals.committed()


class SwallowsItsErrors(SqliteLedger):
    """Takes an error of its database for nothing where it stores reports, and goes on as if it had."""

    charging = False

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        self.charging = True
        try:
            return super().charge(id_, users, outcomes)
        finally:
            self.charging = False

    @contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        try:
            with super()._commit() as db:
                yield db
        except sqlite3.Error:
            if not self.charging:
                raise
            self._seals = Seals.of(self._db)


@dataclass
class Embedded(Keeper):
    """An embedded ledger of some class in a new place."""

    directory: Path
    kind: type[SqliteLedger] = SqliteLedger

    def __post_init__(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        super().__init__()

    def open(self) -> Ledger:
        return self.kind.open(self.directory)

    def plant_overspend(self, user: int) -> None:
        raise NotImplementedError


class GoesOnInATransaction(PostgresLedger):
    """Works with a connection for as long as it is open, whatever was left on it, as version 0.1 did."""

    def _connected(self) -> Link:
        return self._mine.link


def charge_in_two_steps(link: Link, key: int, group: Any, accepted: Any) -> None:
    """As `_store`, but for a commit between the charge and the log."""
    users, outcomes, charges = group.users[accepted], group.outcomes[accepted], group.charges[accepted]
    charging = "UPDATE users SET spent = spent + c FROM unnest(%s, %s) AS given (who, c) WHERE number = who"
    postgres_ledger.ask(link, charging, (users, charges))
    postgres_ledger.ask(link, "COMMIT")
    postgres_ledger.ask(link, "BEGIN")
    logging = "INSERT INTO reports (round, user_number, outcome) SELECT %s, * FROM unnest(%s, %s)"
    postgres_ledger.ask(link, logging, (key, users, outcomes))
    counts = "reports = reports + %s, seal = mod(seal + %s, 2::numeric ^ 64)"
    sealing: Any = f"UPDATE received SET {counts} WHERE round = %s AND shard = 0"
    postgres_ledger.ask(link, sealing, (len(users), reports_sum(key, users, outcomes).sum, key))


class KeepsWithoutStopping(MemoryLedger):
    """A ledger in memory that keeps and notes, and goes on whatever comes in between."""

    def _write(self, keep: Callable[[], None], note: Callable[[], None]) -> None:
        keep()
        note()
