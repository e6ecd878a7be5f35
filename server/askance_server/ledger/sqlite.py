"""The embedded ledger: one SQLite file under a data directory, kept by one process.

Theory of operation
-------------------
*The log is the truth.* Accepted reports are appended to `report_groups`, a row a group, as columns of bytes with a
checksum. What is asked all the time, who has spent how much and who has reported what, is held in numpy arrays that
are rebuilt from the log when the file is opened; a checkpoint of the spending, written when a round closes, keeps
that short. A group whose checksum is wrong stops the opening: nothing is skipped silently.

*One commit a group.* WAL with `synchronous=FULL`: when `charge` returns, its group is on disk. The arrays are
changed just before the commit; if the commit fails, what they say is no longer what the file says, so the ledger
refuses everything from then on and the process has to end.

*One keeper.* The directory is locked by the process that has it open.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.budget import Account
from askance_protocol.rounds import Bulletin, Entry, PreparedRound, RoundState, prepare_round, read_entry
from askance_protocol.rounds.bulletin import RoundClosed, RoundPublished, StudyPublished
from askance_protocol.tally import Tally, tally_round
from askance_server.ledger.base import (
    Charge,
    Fault,
    Ledger,
    LedgerBusyError,
    LedgerError,
    NotFoundError,
    Outcomes,
    Standing,
    Users,
    Verdict,
    Verdicts,
)

FILE: Final = "ledger.sqlite"
CHECKPOINT_AFTER: Final = 100_000
"""Reports after which closing a round writes a checkpoint."""
PIECE: Final = 1 << 20
"""Bytes of a checkpoint that are handed to SQLite at a time."""

MIGRATIONS: Final = (
    """
    CREATE TABLE enrolments (
        first_user INTEGER PRIMARY KEY CHECK (first_user >= 0), -- the first of a run of users who enrolled alike
        users INTEGER NOT NULL CHECK (users > 0),               -- how many they are; the next run follows
        cap INTEGER NOT NULL CHECK (cap > 0)                    -- what each may ever spend, in micro-epsilon
    );
    CREATE TABLE epochs (
        user INTEGER PRIMARY KEY CHECK (user >= 0),             -- a user whose tokens were revoked
        epoch INTEGER NOT NULL CHECK (epoch > 0)                -- what her valid tokens carry; 0 for users not listed
    );
    CREATE TABLE entries (
        study TEXT NOT NULL CHECK (length(study) = 64),         -- digest of the study
        sequence INTEGER NOT NULL CHECK (sequence >= 0),        -- place on the study's bulletin
        digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),-- digest of the entry: what the next one carries
        body BLOB NOT NULL,                                     -- the entry's canonical JSON
        PRIMARY KEY (study, sequence)
    );
    CREATE TABLE rounds (
        number INTEGER PRIMARY KEY,                             -- short name of the round in the log
        id TEXT NOT NULL UNIQUE CHECK (length(id) = 64),        -- digest of the round
        study TEXT NOT NULL CHECK (length(study) = 64)          -- digest of its study
    );
    CREATE TABLE report_groups (
        id INTEGER PRIMARY KEY AUTOINCREMENT,                   -- order of acceptance
        round INTEGER NOT NULL REFERENCES rounds (number),      -- the round that all reports of the group answer
        reports INTEGER NOT NULL CHECK (reports > 0),           -- how many they are
        users BLOB NOT NULL                                     -- user numbers, little-endian, 4 or 8 bytes each
            CHECK (length(users) IN (4 * reports, 8 * reports)),
        outcomes BLOB NOT NULL                                  -- their outcomes, little-endian, 1, 2 or 4 bytes each
            CHECK (length(outcomes) IN (reports, 2 * reports, 4 * reports)),
        checksum BLOB NOT NULL CHECK (length(checksum) = 16)    -- BLAKE2b of round, users and outcomes
    );
    CREATE INDEX groups_of_a_round ON report_groups (round);
    CREATE TABLE heartbeat (
        one INTEGER PRIMARY KEY CHECK (one = 1),                -- there is one row
        beats INTEGER NOT NULL                                  -- counts writes that only ask whether writing works
    );
    """,
    """
    CREATE TABLE checkpoints (
        last_group INTEGER PRIMARY KEY,                         -- the last group that is counted in
        spent BLOB NOT NULL,                                    -- micro-epsilon of each user, 8 bytes little-endian
        checksum BLOB NOT NULL CHECK (length(checksum) = 16)    -- BLAKE2b of last_group and spent
    );
    """,
)  # fmt: skip


@dataclass(slots=True)
class RoundProjection:
    """What is held of one round: who reported what, as outcome + 1, and 0 for nobody."""

    number: int
    round: PreparedRound
    reported: NDArray[np.unsignedinteger[Any]]
    received: int = 0

    @classmethod
    def of(cls, number: int, round_: PreparedRound, users: int) -> RoundProjection:
        """An empty book, in the narrowest type that holds outcome + 1."""
        width = np.uint8 if round_.outcomes < 1 << 8 else np.uint16 if round_.outcomes < 1 << 16 else np.uint32
        return cls(number, round_, np.zeros(users, width))


class SqliteLedger(Ledger):
    """See the module. Open one with `SqliteLedger.open`."""

    @classmethod
    def open(cls, directory: Path) -> SqliteLedger:
        """Lock a data directory, create or migrate its file, and rebuild what is held in memory."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(directory)
        try:
            return cls(directory / FILE, lock)
        except BaseException:
            os.close(lock)
            raise

    def __init__(self, path: Path, lock: int) -> None:
        self._path, self._lock = path, lock
        self._broken: str | None = None
        self._db = _connect(path)
        self._starts = np.zeros(0, np.uint64)
        self._caps = np.zeros(0, np.int64)
        self._spent = np.zeros(0, np.int64)
        self._enrolled = 0
        self._since_checkpoint = 0
        self._bulletins: dict[str, Bulletin] = {}
        self._states: dict[str, RoundState] = {}
        self._numbers: dict[str, int] = {}
        self._studies: dict[str, str] = {}
        self._books: dict[str, RoundProjection] = {}
        self._rounds: dict[str, PreparedRound] = {}
        self._epochs: dict[int, int] = dict(self._db.execute("SELECT user, epoch FROM epochs"))
        self._load_enrolments()
        self._load_bulletins()
        self._spent[:] = self._recompute(use_checkpoint=True)

    # ------------------------------------------------------------------------------------------------------ users

    def enrol(self, count: int, cap: int) -> range:
        """Extend the last run where the cap is the same, else begin a new one."""
        first = self._enrolled
        if not count:
            return range(first, first)
        last_run = int(self._starts[-1]) if len(self._starts) else -1
        with self._commit() as db:
            if len(self._caps) and int(self._caps[-1]) == cap:
                db.execute("UPDATE enrolments SET users = users + ? WHERE first_user = ?", (count, last_run))
            else:
                db.execute("INSERT INTO enrolments VALUES (?, ?, ?)", (first, count, cap))
        self._load_enrolments()
        return range(first, first + count)

    def enrolled(self) -> int:
        """From memory."""
        return self._enrolled

    def standing(self, user: int) -> Standing:
        """The account from memory, the charges from the rounds' books."""
        self._check_user(user)
        one = np.array([user], np.uint64)
        charges = [
            Charge(id_, int(_charges(self._book(id_).round, one)[0]))
            for id_ in self._numbers
            if self._reported(self._book(id_))[user]
        ]
        return Standing(Account(int(self._cap_of(one)[0]), int(self._spent[user])), tuple(charges))

    def affording(self, users: range, charge: int) -> NDArray[np.bool]:
        """Compare arrays."""
        known = range(users.start, min(users.stop, self._enrolled))
        affords = np.zeros(len(users), np.bool)
        caps = self._cap_of(np.arange(known.start, known.stop, dtype=np.uint64))
        affords[: len(known)] = self._spent[known.start : known.stop] + charge <= caps
        return affords

    def epoch(self, user: int) -> int:
        """From memory."""
        return self._epochs.get(user, 0) if 0 <= user < self._enrolled else -1

    def revoke(self, user: int) -> int:
        """One more epoch."""
        self._check_user(user)
        epoch = self.epoch(user) + 1
        with self._commit() as db:
            db.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?)", (user, epoch))
        self._epochs[user] = epoch
        return epoch

    # -------------------------------------------------------------------------------------- studies and their rounds

    def append(self, study: str, entry: Entry) -> Bulletin:
        """Let the bulletin judge, then store."""
        after = self._bulletins.get(study, Bulletin()).append(entry)
        assert after.study is not None  # noqa: S101 - told the type checker: the first entry is the study
        if after.study.digest() != study:
            raise NotFoundError("the entry is of another study")
        with self._commit() as db:
            row = (study, entry.sequence, after.head, entry.to_bytes())
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
            if isinstance(entry.notice, RoundPublished):
                db.execute("INSERT INTO rounds (id, study) VALUES (?, ?)", (after.rounds[-1][0], study))
            if isinstance(entry.notice, RoundClosed) and self._since_checkpoint >= CHECKPOINT_AFTER:
                self._checkpoint(db)
        self._note(study, after)
        return after

    def studies(self) -> list[str]:
        """In the order of their first entries."""
        return list(self._bulletins)

    def bulletin(self, study: str) -> Bulletin:
        """From memory."""
        if study not in self._bulletins:
            raise NotFoundError("there is no such study")
        return self._bulletins[study]

    def entries(self, study: str, after: int = -1) -> list[Entry]:
        """From the file."""
        self.bulletin(study)
        rows = self._db.execute(
            "SELECT body FROM entries WHERE study = ? AND sequence > ? ORDER BY sequence", (study, after)
        )
        return [read_entry(body) for (body,) in rows]

    def round(self, id_: str) -> PreparedRound:
        """Prepared once."""
        if id_ not in self._rounds:
            entries = self.entries(self._study_of(id_))
            published = [entry.notice.round for entry in entries if isinstance(entry.notice, RoundPublished)]
            first = entries[0].notice
            assert isinstance(first, StudyPublished)  # noqa: S101 - the bulletin has refused anything else
            self._rounds[id_] = next(prepare_round(first.study, spec) for spec in published if spec.digest() == id_)
        return self._rounds[id_]

    def state(self, id_: str) -> RoundState:
        """From memory."""
        self._study_of(id_)
        return self._states[id_]

    # ---------------------------------------------------------------------------------------------------- reports

    def charge(self, id_: str, users: Users, outcomes: Outcomes) -> Verdicts:
        """Decide in memory, append the accepted to the log, and return when they are on disk."""
        self._check_whole()
        book = self._book(id_)
        verdicts = np.empty(len(users), np.uint8)
        for turn in _turns(users):
            verdicts[turn] = self._decide(book, users[turn], outcomes[turn])
        accepted = verdicts == Verdict.ACCEPTED
        if not accepted.all():
            users, outcomes = users[accepted], outcomes[accepted]
        if len(users):
            with self._commit() as db:
                _append_group(db, book.number, users, outcomes)
            self._since_checkpoint += len(users)
        return verdicts

    def received(self, id_: str) -> int:
        """From memory."""
        return self._book(id_).received

    def tallies(self, id_: str) -> list[Tally]:
        """From the log, a group at a time."""
        round_ = self.round(id_)
        nobody = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
        total = tally_round(round_, *nobody)
        for users, outcomes in self._groups_of(self._numbers[id_]):
            total = [sum_ + more for sum_, more in zip(total, tally_round(round_, users, outcomes), strict=True)]
        return total

    # ---------------------------------------------------------------------------------------------------- upkeep

    def verify(self) -> list[Fault]:
        """Rebuild spending and books from the log alone and compare; follow every chain."""
        try:
            return [*self._verify_chains(), *self._verify_books(), *self._verify_spending()]
        except LedgerError as error:
            return [Fault(str(self._path), str(error))]

    def check_writable(self) -> None:
        """Count one more heartbeat."""
        self._check_whole()
        with self._commit() as db:
            db.execute("INSERT INTO heartbeat VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET beats = beats + 1")

    def close(self) -> None:
        """Close the file, then let the directory go."""
        self._db.close()
        os.close(self._lock)

    # --------------------------------------------------------------------------------------------- deciding a group

    def _decide(self, book: RoundProjection, users: Users, outcomes: Outcomes) -> Verdicts:
        """Verdicts for reports of different users, and the arrays changed accordingly."""
        known = users < self._enrolled
        if known.all():
            return self._decide_known(book, users, outcomes)
        verdicts = np.full(len(users), Verdict.UNKNOWN_USER, np.uint8)
        verdicts[known] = self._decide_known(book, users[known], outcomes[known])
        return verdicts

    def _decide_known(self, book: RoundProjection, users: Users, outcomes: Outcomes) -> Verdicts:
        reported = self._reported(book)
        before = reported[users]
        spent = self._spent[users] + _charges(book.round, users)
        over = spent > self._cap_of(users)
        outside = outcomes >= _limits(book.round, users)
        asked = book.round.asked(users)
        verdicts = np.zeros(len(users), np.uint8)
        is_open = self._states[book.round.id] is RoundState.OPEN
        if is_open and asked.all() and not (before.any() or over.any() or outside.any()):
            # The usual group, all of it accepted: nothing to pick out.
            reported[users] = outcomes + 1
            self._spent[users] = spent
            book.received += len(users)
            return verdicts
        # Later lines win: the order of base.py, read from its end.
        verdicts[over] = Verdict.OVER_BUDGET
        if not is_open:
            verdicts[:] = Verdict.NOT_OPEN
        verdicts[before != 0] = Verdict.CONFLICT
        verdicts[(before != 0) & (before == outcomes.astype(np.int64) + 1)] = Verdict.REPEATED
        verdicts[outside] = Verdict.OUTSIDE
        verdicts[~asked] = Verdict.NOT_ASKED
        accepted = verdicts == Verdict.ACCEPTED
        reported[users[accepted]] = outcomes[accepted] + 1
        self._spent[users[accepted]] = spent[accepted]
        book.received += int(accepted.sum())
        return verdicts

    def _check_user(self, user: int) -> None:
        if not 0 <= user < self._enrolled:
            raise NotFoundError(f"there is no such user {user}")

    def _cap_of(self, users: Users) -> NDArray[np.int64]:
        if len(self._caps) == 1:
            return np.broadcast_to(self._caps, len(users))
        return self._caps[np.searchsorted(self._starts, users, side="right") - 1]

    def _reported(self, book: RoundProjection) -> NDArray[np.unsignedinteger[Any]]:
        """The book's array, as long as there are users."""
        if len(book.reported) < self._enrolled:
            longer = np.zeros(max(self._enrolled, 2 * len(book.reported)), book.reported.dtype)
            longer[: len(book.reported)] = book.reported
            book.reported = longer
        return book.reported

    # ------------------------------------------------------------------------------------------------- rebuilding

    def _load_enrolments(self) -> None:
        runs = self._db.execute("SELECT first_user, users, cap FROM enrolments ORDER BY first_user").fetchall()
        self._starts = np.array([first for first, _, _ in runs], np.uint64)
        self._caps = np.array([cap for _, _, cap in runs], np.int64)
        self._enrolled = runs[-1][0] + runs[-1][1] if runs else 0
        if len(self._spent) < self._enrolled:
            longer = np.zeros(max(self._enrolled, 2 * len(self._spent)), np.int64)
            longer[: len(self._spent)] = self._spent
            self._spent = longer

    def _load_bulletins(self) -> None:
        self._numbers = {
            id_: number for number, id_ in self._db.execute("SELECT number, id FROM rounds ORDER BY number")
        }
        for (study,) in self._db.execute("SELECT study FROM entries WHERE sequence = 0 ORDER BY rowid").fetchall():
            self._bulletins[study] = Bulletin()
            entries = self.entries(study)
            self._note(study, Bulletin().extend(entries))

    def _note(self, study: str, after: Bulletin) -> None:
        self._bulletins[study] = after
        for id_, state in after.rounds:
            self._states[id_] = state
            self._studies[id_] = study
            if id_ not in self._numbers:
                ((self._numbers[id_],),) = self._db.execute("SELECT number FROM rounds WHERE id = ?", (id_,))

    def _book(self, id_: str) -> RoundProjection:
        if id_ not in self._books:
            self._study_of(id_)
            book = RoundProjection.of(self._numbers[id_], self.round(id_), self._enrolled)
            for users, outcomes in self._groups_of(book.number):
                book.reported[users] = outcomes + 1
                book.received += len(users)
            self._books[id_] = book
        return self._books[id_]

    def _study_of(self, id_: str) -> str:
        if id_ not in self._studies:
            raise NotFoundError("there is no such round")
        return self._studies[id_]

    def _recompute(self, *, use_checkpoint: bool) -> NDArray[np.int64]:
        """What everybody has spent, from the log."""
        spent = np.zeros(len(self._spent), np.int64)
        last = 0
        if use_checkpoint:
            last = self._from_checkpoint(spent)
        ids = {number: id_ for id_, number in self._numbers.items()}
        for group, number, users, outcomes in self._groups(last):
            if len(users) and int(users.max()) >= self._enrolled:
                raise self._damaged(group)
            np.add.at(spent, users, _charges(self.round(ids[number]), users))
            self._since_checkpoint += len(outcomes) if use_checkpoint else 0
        return spent

    def _from_checkpoint(self, spent: NDArray[np.int64]) -> int:
        row = self._db.execute(
            "SELECT last_group, spent, checksum FROM checkpoints ORDER BY last_group DESC"
        ).fetchone()
        if row is None:
            return 0
        last, blob, checksum = row
        if _checksum(last, blob, b"") != checksum:
            raise LedgerError(
                f"{self._path}: the checkpoint at group {last} is damaged. Restore the directory from a backup; or, to"
                " rebuild it from the log, delete the rows of table checkpoints and start again."
            )
        held = np.frombuffer(blob, "<i8")
        spent[: len(held)] = held
        return int(last)

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        """Inside the caller's transaction: replace the checkpoint by one that counts all groups in."""
        (last,) = db.execute("SELECT coalesce(max(id), 0) FROM report_groups").fetchone()
        spent = self._spent[: self._enrolled].astype("<i8", copy=False).view(np.uint8).data
        db.execute("DELETE FROM checkpoints")
        row = (last, len(spent), _checksum(last, spent, b""))
        db.execute("INSERT INTO checkpoints VALUES (?, zeroblob(?), ?)", row)
        # In pieces: as a parameter the whole would be copied, and its copy stay with the cached statement.
        with db.blobopen("checkpoints", "spent", last) as blob:
            for begin in range(0, len(spent), PIECE):
                blob.write(spent[begin : begin + PIECE])
        self._since_checkpoint = 0

    def _groups(self, after: int) -> Iterator[tuple[int, int, Users, Outcomes]]:
        rows = self._db.execute(
            "SELECT id, round, reports, users, outcomes, checksum FROM report_groups WHERE id > ? ORDER BY id", (after,)
        )
        for group, number, reports, users, outcomes, checksum in rows:
            if _checksum(number, users, outcomes) != checksum:
                raise self._damaged(group)
            yield group, number, *_unpacked(reports, users, outcomes)

    def _groups_of(self, number: int) -> Iterator[tuple[Users, Outcomes]]:
        rows = self._db.execute(
            "SELECT id, reports, users, outcomes, checksum FROM report_groups WHERE round = ? ORDER BY id", (number,)
        )
        for group, reports, users, outcomes, checksum in rows:
            if _checksum(number, users, outcomes) != checksum:
                raise self._damaged(group)
            yield _unpacked(reports, users, outcomes)

    def _damaged(self, group: int) -> LedgerError:
        return LedgerError(
            f"{self._path}: group {group} of table report_groups is damaged: its checksum is wrong."
            " Restore the directory from a backup; nothing was changed."
        )

    # -------------------------------------------------------------------------------------------------- verifying

    def _verify_chains(self) -> Iterator[Fault]:
        for study, bulletin in self._bulletins.items():
            try:
                if Bulletin().extend(self.entries(study)) != bulletin:
                    yield Fault(f"study {study}", "the stored entries lead to another state")
            except ValueError as error:
                yield Fault(f"study {study}", str(error))

    def _verify_books(self) -> Iterator[Fault]:
        for id_, number in self._numbers.items():
            groups = list(self._groups_of(number))
            users = np.concatenate([users for users, _ in groups]) if groups else np.zeros(0, np.uint64)
            if len(np.unique(users)) < len(users):
                yield Fault(f"round {id_}", "a user stands twice in the log")
            if len(users) != self._book(id_).received:
                yield Fault(f"round {id_}", "the log and the count of reports differ")

    def _verify_spending(self) -> Iterator[Fault]:
        spent, held = self._recompute(use_checkpoint=False)[: self._enrolled], self._spent[: self._enrolled]
        wrong = np.flatnonzero(spent != held)
        if len(wrong):
            yield Fault(f"user {wrong[0]}", f"spending differs from the log for {len(wrong)} users")
        over = np.flatnonzero(spent > self._cap_of(np.arange(self._enrolled, dtype=np.uint64)))
        if len(over):
            yield Fault(f"user {over[0]}", f"the cap is exceeded by {len(over)} users")

    # ---------------------------------------------------------------------------------------------------- writing

    def _check_whole(self) -> None:
        if self._broken is not None:
            raise LedgerError(self._broken)

    @contextlib.contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        """One transaction. If it cannot be committed, the ledger is not to be used any more."""
        self._check_whole()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._broken = (
                f"{self._path} cannot be written: {error}. Free some space or repair the disk, then start again:"
                " everything that was acknowledged is on disk."
            )
            raise LedgerError(self._broken) from error


def _turns(users: Users) -> Iterator[NDArray[np.intp] | slice]:
    """Places such that no user stands twice in one turn, and her reports come in their order."""
    if (users[1:] > users[:-1]).all() or len(np.unique(users)) == len(users):
        yield slice(None)
        return
    rest = np.arange(len(users))
    while len(rest):
        _, first = np.unique(users[rest], return_index=True)
        yield rest[np.sort(first)]
        rest = np.delete(rest, first)


def _charges(round_: PreparedRound, users: Users) -> NDArray[np.int64]:
    """What a report costs each of these users: her part's charge."""
    if len(round_.parts) == 1:
        return np.full(len(users), round_.charge, np.int64)
    return np.array([part.part.charge for part in round_.parts], np.int64)[round_.questions(users)[0]]


def _limits(round_: PreparedRound, users: Users) -> NDArray[np.int64] | int:
    """How many outcomes each of these users has."""
    if len(round_.parts) == 1:
        return round_.outcomes
    return np.array([part.channel.outcomes for part in round_.parts])[round_.questions(users)[0]]


def _append_group(db: sqlite3.Connection, number: int, users: Users, outcomes: Outcomes) -> None:
    columns = _packed(users, ("<u4", "<u8")), _packed(outcomes, ("<u1", "<u2", "<u4"))
    row = (number, len(users), *columns, _checksum(number, *columns))
    db.execute("INSERT INTO report_groups (round, reports, users, outcomes, checksum) VALUES (?, ?, ?, ?, ?)", row)


def _packed(column: Users | Outcomes, types: tuple[str, ...]) -> bytes:
    """The column in the narrowest of these types."""
    narrow = next(kind for kind in types if int(column.max()) <= np.iinfo(kind).max)
    return column.astype(narrow).tobytes()


def _unpacked(reports: int, users: bytes, outcomes: bytes) -> tuple[Users, Outcomes]:
    """The columns, in the types that their lengths tell."""
    wide_users = np.frombuffer(users, f"<u{len(users) // reports}").astype(np.uint64)
    return wide_users, np.frombuffer(outcomes, f"<u{len(outcomes) // reports}").astype(np.uint32)


def _checksum(number: int, users: bytes | memoryview, outcomes: bytes) -> bytes:
    digest = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=16)
    digest.update(users)
    digest.update(outcomes)
    return digest.digest()


def _lock(directory: Path) -> int:
    """Hold the directory's lock file, or say who does."""
    path = directory / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise LedgerBusyError(
            f"{directory} is in use by process {holder}. Stop it, or give another directory with --database."
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        ((level,),) = db.execute("PRAGMA synchronous").fetchall()
        # Both are asserted: a setting that is silently not taken would acknowledge what a power cut can lose.
        if (mode, level) != ("wal", 2):
            raise LedgerError(f"{path}: journal_mode is {mode} and synchronous is {level}, not wal and 2.")
        _migrate(db, path)
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{path} is not a ledger or is damaged: {error}. Restore it from a backup.") from error
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring an older file up to date, a version a transaction."""
    ((version,),) = db.execute("PRAGMA user_version").fetchall()
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"{path} has schema {version}, this program knows {len(MIGRATIONS)}. Start it with a newer askance."
        )
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        db.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")
