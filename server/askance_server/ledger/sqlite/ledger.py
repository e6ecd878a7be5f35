"""The embedded ledger: projections in memory over a log in SQLite.

Theory of operation
-------------------
*The log is the truth.* Accepted reports are appended to `report_groups`, a row per group. What is asked all the time,
who has spent how much and who has reported what, is held in the arrays of `ProjectedLedger` and rebuilt from the log
when the file is opened; a checkpoint of the spending, written when a round closes, keeps that short.

*One commit a group.* WAL with `synchronous=FULL`: when `charge` returns, its group is on disk. The arrays are changed
after the commit. Whatever is raised inside a transaction rolls it back; and because a commit that was interrupted may
have been made or not, the ledger refuses everything from then on and the process has to end (`ProjectedLedger._write`).

*One keeper.* The directory is locked by the process that has it open.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import Bulletin, Entry, RoundClosed, RoundPublished
from askance_server.durable import make_directory
from askance_server.ledger.alone import one_at_a_time
from askance_server.ledger.base import (
    Fault,
    LedgerAwayError,
    LedgerError,
    OutcomeColumn,
    StoredEntry,
    Ticket,
    UserRun,
    Users,
    up_to,
    written_entry,
)
from askance_server.ledger.books import Shelf
from askance_server.ledger.kinds import UserKind
from askance_server.ledger.outlines import StudyOutline
from askance_server.ledger.projections import ProjectedLedger, charges_of
from askance_server.ledger.sqlite.log import Log, append_group, write_checkpoint
from askance_server.ledger.sqlite.opening import FILE, connect, lock, reader, refusing
from askance_server.ledger.sqlite.seals import CommitCount, Seals, broken_seals, check_seals, last_key

CHECKPOINT_AFTER: Final = 100_000
"""Reports after which closing a round writes a checkpoint,"""
CHECKPOINT_PART: Final = 4
"""and so many of the users: it has all of them, and would else be most of what is written."""


_SHORT: Final = 1 << 14
"""Bytes of an entry that is looked at without reading it strictly: a round of one part has no more."""
_LOG = logging.getLogger(__name__)


class SqliteLedger(ProjectedLedger):
    """The ledger in a data directory. Open one with `SqliteLedger.open`."""

    @classmethod
    def open(cls, directory: Path) -> SqliteLedger:
        """Lock a data directory, create or migrate its file, and rebuild the projections."""
        make_directory(directory)
        with contextlib.ExitStack() as opened:
            held = lock(directory)
            opened.callback(os.close, held)
            ledger = cls(directory / FILE, connect(directory / FILE))
            opened.callback(ledger._db.close)
            ledger._shelf = Shelf(directory)
            opened.callback(ledger._shelf.close)
            with refusing(ledger._path):
                ledger._load()
                check_seals(ledger._db, ledger._seals, ledger._path)
            ledger._count = CommitCount.open(directory, ledger._seals.commits)
            opened.callback(ledger._count.close)
            ledger._held = opened.pop_all()
        return ledger

    @classmethod
    def reading(cls, directory: Path, db: sqlite3.Connection) -> SqliteLedger:
        """A ledger that answers from a connection of the caller's, for an audit: it locks nothing, and cannot write."""
        ledger = cls(directory / FILE, db)
        ledger._reader = lambda: contextlib.nullcontext(db)
        ledger._load()
        return ledger

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        super().__init__()
        self._path, self._db = path, db
        self._held = contextlib.ExitStack()
        """Gives back the lock and the files, last opened first."""
        self._log = Log(self._db, path)
        self._numbers: dict[str, int] = {}
        """The number in the log of each round."""
        self._since_checkpoint = 0
        self._reader: Callable[[], contextlib.AbstractContextManager[sqlite3.Connection]] = lambda: contextlib.closing(
            reader(path)
        )
        self._seals = Seals()
        self._count: CommitCount | None = None

    # ------------------------------------------------------------------------------------------------- rebuilding

    def _load(self) -> None:
        self._seals = Seals.of(self._db)
        self._load_users()
        self._load_bulletins()
        self._load_spending()

    def _load_users(self) -> None:
        for users, cap in self._db.execute("SELECT users, cap FROM enrolments ORDER BY first_user"):
            self._note_users(self._spending.extended(users, cap))
        for first, kind in self._db.execute("SELECT first_user, kind FROM kinds ORDER BY first_user"):
            self._kinds = self._kinds.extended(first, UserKind.named(kind))
        self._epochs = dict(self._db.execute("SELECT user, epoch FROM epochs"))

    def _load_bulletins(self) -> None:
        self._numbers = {
            id_: number for number, id_ in self._db.execute("SELECT number, id FROM rounds ORDER BY number")
        }
        outlines = dict[str, StudyOutline]()
        # In the order in which they were written, which is the fastest, and in which each study is in order.
        for study, digest, body in self._db.execute("SELECT study, digest, body FROM entries ORDER BY rowid"):
            outline = outlines.get(study)
            if outline is None:
                outline = outlines[study] = StudyOutline()
            outline.append(digest, body)
        for study, outline in outlines.items():
            if outline.ended is None:
                entries = self._read_entries(study)
                self._note(study, Bulletin().extend(entries), entries)
            else:
                self._published |= {id_: (study, sequence) for id_, sequence in outline.places}
                self._note_state(study, outline.bulletin())
        # Over all studies, in the order of publication.
        self._published = {id_: self._published[id_] for id_ in self._numbers}

    def _load_spending(self) -> None:
        """What users had spent at the checkpoint, and what the groups behind it charge."""
        spent = self._spending.spent
        last = self._log.read_checkpoint(spent)
        ids = {number: id_ for id_, number in self._numbers.items()}
        for group in self._log.groups(last, self._spending.enrolled):
            if group.round not in ids:
                raise self._log.damaged(group.id, "it is of a round that was never published")
            sole = self._sole_charge(ids[group.round])
            charges = sole if sole is not None else charges_of(self.round(ids[group.round]), group.users)
            np.add.at(spent, group.users, charges)
            self._since_checkpoint += len(group.users)

    def _sole_charge(self, id_: str) -> int | None:
        """The charge of a round of one part, looked up in its entry: thousands of rounds are not all prepared."""
        spec = self._specs.get(id_)
        if spec is not None:
            return spec.parts[0].charge if len(spec.parts) == 1 else None
        body = self._kept_body(*self._place(id_))
        parts = json.loads(body)["notice"]["round"]["parts"] if len(body) <= _SHORT else ()
        return int(parts[0]["charge"]) if len(parts) == 1 else None

    # ---------------------------------------------------------------------------------------------------- reading

    def entries(self, study: str, after: int = -1) -> list[Entry]:
        """Entries of a study whose sequence is larger than `after`, from the file."""
        self._check_study(study)
        return self._read_entries(study, after)

    def _read_entries(self, study: str, after: int = -1) -> list[Entry]:
        query = "SELECT body FROM entries WHERE study = ? AND sequence > ? ORDER BY sequence"
        with self.alone:
            rows = self._db.execute(query, (study, after)).fetchall()
        return [written_entry(body, str(self._path)) for (body,) in rows]

    def stored_entries(self, study: str, after: int, most: int) -> list[StoredEntry]:
        """The first of the entries behind `after`, from the file, row by row."""
        self._check_study(study)
        query = "SELECT sequence, digest, body FROM entries WHERE study = ? AND sequence > ? ORDER BY sequence"
        with self.alone, contextlib.closing(self._db.execute(query, (study, after))) as rows:
            return up_to(most, rows)

    def _kept_entry(self, study: str, sequence: int) -> Entry:
        return written_entry(self._kept_body(study, sequence), str(self._path))

    def _kept_body(self, study: str, sequence: int) -> bytes:
        query = "SELECT body FROM entries WHERE study = ? AND sequence = ?"
        with self.alone:
            ((body,),) = self._db.execute(query, (study, sequence)).fetchall()
        return bytes(body)

    def _count_logged(self, id_: str) -> int:
        query = "SELECT coalesce(sum(reports), 0) FROM report_groups WHERE round = ?"
        ((count,),) = self._db.execute(query, (self._numbers[id_],)).fetchall()
        return int(count)

    def _logged_behind(self, id_: str, mark: int) -> Iterator[tuple[int, Users, OutcomeColumn]]:
        # By a connection of its own: it sees nothing of a transaction that is open, and waits for none.
        with self._reader() as db:
            for group in Log(db, self._path).groups_of(self._numbers[id_], mark, self._spending.enrolled):
                yield group.id, group.users, group.outcomes

    @one_at_a_time
    def verify(self, tell: Tell = tell_nobody) -> list[Fault]:
        """Work out spending and reports from the log alone and compare; follow every bulletin."""
        try:
            sealed = [Fault(where, what) for where, what in broken_seals(self._db, self._seals, tell)]
            return [*super().verify(tell), *sealed]
        except LedgerError as error:
            return [Fault(str(self._path), str(error))]

    # ---------------------------------------------------------------------------------------------------- writing

    @one_at_a_time
    def check_key(self, fingerprint: str) -> None:
        """Note the key that is in use. Another one than before is allowed, and said: who lost a key has to go on."""
        before = last_key(self._db)
        if before is not None and before != fingerprint:
            _LOG.warning("the server key is another one than before: every token that was given out before is void")
        if before != fingerprint:
            self._write(lambda: self._keep_key(fingerprint), lambda: None)

    def _keep_key(self, fingerprint: str) -> None:
        with self._commit() as db:
            insert = "INSERT INTO server_keys (fingerprint) VALUES (?) RETURNING number, fingerprint"
            ((number, kept),) = db.execute(insert, (fingerprint,)).fetchall()
            self._seals.change("server_keys", new=(number, kept))

    @one_at_a_time
    def check_writable(self) -> None:
        """Count one more heartbeat."""
        self._write(self._beat, lambda: None)

    @one_at_a_time
    def close(self) -> None:
        """Close the files, then release the directory."""
        self._held.close()

    def _beat(self) -> None:
        with self._commit() as db:
            beat = """
                INSERT INTO heartbeat VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET beats = beats + 1
                RETURNING one, beats"""
            ((one, beats),) = db.execute(beat).fetchall()
            self._seals.hold("heartbeat", (one, beats))

    def _keep_users(self, run: UserRun) -> None:
        """Extend the last run if the cap is the same, else begin a new one; likewise that of kinds."""
        with self._commit() as db:
            self._keep_budgets(db, run.first, run.count, run.cap)
            if run.kind is not self._kinds.last:
                db.execute("INSERT INTO kinds VALUES (?, ?)", (run.first, run.kind.value))
                self._seals.change("kinds", new=(run.first, run.kind.value))
            for ticket, used in run.tickets:
                self._keep_ticket(db, ticket, used)

    def _keep_budgets(self, db: sqlite3.Connection, first: int, count: int, cap: int) -> None:
        last = db.execute("SELECT * FROM enrolments ORDER BY first_user DESC LIMIT 1").fetchone()
        if last is not None and last[2] == cap:
            run = (last[0], last[1] + count, cap)
            db.execute("UPDATE enrolments SET users = ? WHERE first_user = ?", (run[1], run[0]))
            self._seals.change("enrolments", gone=last, new=run)
        else:
            db.execute("INSERT INTO enrolments VALUES (?, ?, ?)", (first, count, cap))
            self._seals.change("enrolments", new=(first, count, cap))

    def _keep_ticket(self, db: sqlite3.Connection, ticket: Ticket, used: int) -> None:
        before = db.execute("SELECT id, users, used FROM tickets WHERE id = ?", (ticket.id,)).fetchone()
        row = (ticket.id, ticket.users, used)
        db.execute("INSERT INTO tickets VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET used = excluded.used", row)
        self._seals.change("tickets", gone=before, new=row if before is None else (ticket.id, before[1], used))

    def _kept_ticket(self, id_: str) -> tuple[Ticket, int] | None:
        try:
            with refusing(self._path):
                row = self._db.execute("SELECT users, used FROM tickets WHERE id = ?", (id_,)).fetchone()
        except MemoryError as error:
            what, remedy = (
                "cannot be read: there is too little memory",
                "nothing was changed, and it may be asked again",
            )
            raise LedgerAwayError(what, where=str(self._path), remedy=remedy) from error
        return None if row is None else (Ticket(id_, row[0]), row[1])

    def _keep_epoch(self, user: int, epoch: int) -> None:
        with self._commit() as db:
            before = db.execute("SELECT user, epoch FROM epochs WHERE user = ?", (user,)).fetchone()
            db.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?)", (user, epoch))
            self._seals.change("epochs", gone=before, new=(user, epoch))

    def _keep_entry(self, study: str, entry: Entry, after: Bulletin) -> None:
        with self._commit() as db:
            row = (study, entry.sequence, after.head, entry.to_bytes())
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
            self._seals.change("entries", new=row)
            if isinstance(entry.notice, RoundPublished):
                id_ = after.rounds[-1][0]
                insert = "INSERT INTO rounds (id, study) VALUES (?, ?) RETURNING number"
                ((number,),) = db.execute(insert, (id_, study)).fetchall()
                self._seals.change("rounds", new=(number, id_, study))
                self._numbers[id_] = number
            due = max(CHECKPOINT_AFTER, self._spending.enrolled // CHECKPOINT_PART)
            if isinstance(entry.notice, RoundClosed) and self._since_checkpoint >= due:
                self._checkpoint(db)

    def _keep_group(self, id_: str, users: Users, outcomes: OutcomeColumn) -> None:
        with self._commit() as db:
            self._seals.change("report_groups", new=append_group(db, self._numbers[id_], users, outcomes))
        self._since_checkpoint += len(users)

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        """Inside the caller's transaction: replace the checkpoint."""
        self._seals.hold("checkpoints", write_checkpoint(db, self._spending.spent[: self._spending.enrolled]))
        self._since_checkpoint = 0

    def _explained(self, error: Exception) -> str:
        told = str(error) or type(error).__name__  # A MemoryError says nothing.
        return (
            f"{self._path} cannot be written: {told}. Free some space or repair the disk, then start again:"
            " everything that was acknowledged is on disk."
        )

    @contextlib.contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        """One transaction, rolled back whatever is raised in it: sqlite3.Error, MemoryError, KeyboardInterrupt."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._seals.write(self._db)
            self._db.execute("COMMIT")
            self._seals.committed()
            if self._count is not None:
                self._count.write(self._seals.commits)
        except BaseException:
            # To close the file would roll back as well; but who reads it until then should not find it locked.
            with contextlib.suppress(Exception):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            raise
