"""The wallet: what one user has spent, and the very bytes that she sends. A SQLite file that only its owner can read.

Theory of operation
-------------------
*Randomize once.* `keep` stores a report and its charge in one transaction that is on disk when it ends, and only then
may the report be sent. Whatever happens afterwards, the same bytes are sent again; fresh noise would spend twice.
Where a report is there already, by whatever process, that one is given back and nothing is drawn.

*What the file itself forbids.* Triggers refuse a report that would exceed the cap, and any change of a stored report:
not only this program keeps the promise.

*Copies.* A copy or an old version of a wallet does not know what the other has sent. The server does, and `judgement`
asks it first; what is learned is kept here as spent `elsewhere`, and which rounds it was spent on, for good.

*Many owners.* A fleet of simulated users may keep its wallets in one file: an owner is a number in the file, and
nothing else is shared but the way to the disk: what several owners keep in one turn of the event loop is `together` one
transaction.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from askance_client.consent import Spending
from askance_client.history import Pin
from askance_protocol.budget import to_text, whole_micro
from askance_protocol.errors import ProtocolError

SCHEMA_VERSION: Final = 1
_APPLICATION: Final = 0x41534B57  # "ASKW", in the header of the file
_SECONDS: Final = 60.0

_TABLES: Final = """
    CREATE TABLE owners (
        id INTEGER PRIMARY KEY,                                   -- whose wallet this is; 0 where there is one
        cap INTEGER NOT NULL CHECK (cap > 0),                     -- what she will ever spend, in micro-epsilon
        elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere >= 0), -- spent by other copies of this wallet
        server TEXT,                                              -- the server that knows her
        user_number INTEGER CHECK (user_number >= 0),             -- her number there
        token TEXT                                                -- proves it
    );
    CREATE TABLE pins (
        owner INTEGER NOT NULL REFERENCES owners (id),
        study TEXT NOT NULL CHECK (length(study) = 64),           -- digest of the study
        length INTEGER NOT NULL CHECK (length > 0),               -- how many entries of its bulletin she has seen
        head TEXT NOT NULL CHECK (length(head) = 64),             -- digest of the last of them
        PRIMARY KEY (owner, study)
    ) WITHOUT ROWID;
    CREATE TABLE reports (
        owner INTEGER NOT NULL REFERENCES owners (id),
        round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of the round
        charge INTEGER NOT NULL CHECK (charge > 0),               -- what it cost, in micro-epsilon
        body BLOB NOT NULL,                                       -- what is sent, and sent again
        state TEXT NOT NULL DEFAULT 'kept'                        -- see State
            CHECK (state IN ('kept', 'acknowledged', 'declined')),
        PRIMARY KEY (owner, round)
    ) WITHOUT ROWID;
    CREATE TABLE heard (
        owner INTEGER NOT NULL REFERENCES owners (id),
        round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of a round that a copy has answered
        charge INTEGER NOT NULL CHECK (charge >= 0),              -- what it cost, as the server said
        PRIMARY KEY (owner, round)
    ) WITHOUT ROWID;
    CREATE TRIGGER within_the_cap BEFORE INSERT ON reports
    WHEN new.charge + (SELECT coalesce(sum(charge), 0) FROM reports WHERE owner = new.owner)
        > (SELECT cap - elsewhere FROM owners WHERE id = new.owner)
    BEGIN SELECT raise(ABORT, 'beyond the cap'); END;
    CREATE TRIGGER reports_stay BEFORE UPDATE OF owner, round, charge, body ON reports
    BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
    -- REPLACE deletes without asking the triggers of a deletion.
    CREATE TRIGGER reports_are_not_replaced BEFORE INSERT ON reports
    WHEN EXISTS (SELECT 1 FROM reports WHERE owner = new.owner AND round = new.round)
    BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
    CREATE TRIGGER reports_are_not_forgotten BEFORE DELETE ON reports
    BEGIN SELECT raise(ABORT, 'a report is never forgotten'); END;
    CREATE TRIGGER caps_stay BEFORE UPDATE OF id, cap ON owners
    BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
    CREATE TRIGGER caps_are_not_replaced BEFORE INSERT ON owners
    WHEN EXISTS (SELECT 1 FROM owners WHERE id = new.id)
    BEGIN SELECT raise(ABORT, 'this owner is there already'); END;
    CREATE TRIGGER caps_are_not_forgotten BEFORE DELETE ON owners
    BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
    CREATE TRIGGER nothing_is_unspent BEFORE UPDATE OF elsewhere ON owners WHEN new.elsewhere < old.elsewhere
    BEGIN SELECT raise(ABORT, 'what was spent stays spent'); END;
"""


class WalletError(ProtocolError):
    """A file that cannot be used as a wallet: which, why, and what to do."""


T = TypeVar("T")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class State(StrEnum):
    """What is known of a stored report."""

    KEPT = "kept"
    """On its way, or waiting to be sent again."""
    ACKNOWLEDGED = "acknowledged"
    """The server has given its receipt."""
    DECLINED = "declined"
    """The server will never take it. What it cost stays spent: it has been seen."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who she is to a server."""

    server: str
    user: int
    token: str

    def __repr__(self) -> str:
        return f"Identity({self.server!r}, {self.user}, …)"


@dataclass(frozen=True, slots=True, repr=False)
class StoredReport:
    """A stored report. Its body is private as long as it is not sent, so it has no readable form."""

    round: str
    charge: int
    body: bytes
    state: State


class WalletFile:
    """A file of wallets. Open one with `WalletFile.open`."""

    @classmethod
    def open(cls, path: Path | str) -> WalletFile:
        """Open a file, or create it for nobody but its owner to read."""
        path = Path(path)
        fresh = _create(path)
        if not fresh:
            _check_private(path)
        try:
            db = sqlite3.connect(path, timeout=_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise _unusable(path, str(error)) from None
        try:
            _settle(db, path)
        except sqlite3.Error as error:
            db.close()
            raise _unusable(path, str(error)) from None
        except BaseException:
            db.close()
            raise
        return cls(path, db)

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path, self._db = path, db
        self._waiting: list[_Work] = []
        self._durable = False

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    async def together(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """Do this in one transaction with what others ask for in this turn of the loop; it is on disk afterwards.

        What need not be `durable` outlives the process, but perhaps not the machine.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._commit_waiting)
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, done))
        self._durable |= durable
        return await done

    def _commit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        durable, self._durable = self._durable, False
        results: list[object] = []
        try:
            with self._synchronous(durable), self.transaction():
                results += [_attempt(work) for work, _ in waiting]
        except Exception as error:
            results = [error] * len(waiting)
        for (_, done), result in zip(waiting, results, strict=True):
            if done.done():
                continue
            if isinstance(result, Exception):
                done.set_exception(result)
            else:
                done.set_result(result)

    @contextmanager
    def _synchronous(self, durable: bool) -> Generator[None]:
        if durable:
            yield
            return
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def owners(self) -> list[int]:
        """Whose wallets are in here."""
        return [owner for (owner,) in self.rows("SELECT id FROM owners ORDER BY id", ())]

    def add(self, owner: int, cap: int, identity: Identity | None = None) -> Wallet:
        """A new wallet."""
        self.add_all([(owner, cap, identity)])
        return self.wallet(owner)

    def add_all(self, owners: list[tuple[int, int, Identity | None]]) -> None:
        """Many at a time, all or none."""
        rows = [
            (
                owner,
                whole_micro(cap, where="cap", least=1),
                *((who.server, who.user, who.token) if who else (None,) * 3),
            )
            for owner, cap, who in owners
        ]
        with self.transaction() as db:
            db.executemany("INSERT INTO owners (id, cap, server, user_number, token) VALUES (?, ?, ?, ?, ?)", rows)

    def wallet(self, owner: int) -> Wallet:
        """The wallet of one owner."""
        row = self.row("SELECT cap FROM owners WHERE id = ?", (owner,))
        if row is None:
            raise WalletError(f"has no owner {owner}", where=str(self.path), remedy="add her, or open another file")
        return Wallet(self, owner, row[0])

    # What follows is for fleets: all owners at once.

    def moved(self, server: str) -> None:
        """The server that knows them is found elsewhere now."""
        with self.transaction() as db:
            db.execute("UPDATE owners SET server = ? WHERE server <> ?", (server, server))

    def numbers(self) -> list[int]:
        """Each owner's number at the server."""
        return [number for (number,) in self.rows("SELECT user_number FROM owners ORDER BY id", ())]

    def reported(self, round_: str) -> list[int]:
        """Who has a report for a round, and need not be asked again."""
        query = "SELECT owner FROM reports WHERE round = ? AND state <> 'kept'"
        return [owner for (owner,) in self.rows(query, (round_,))]

    def waiting(self) -> list[int]:
        """Who has a report that is not acknowledged yet."""
        return [owner for (owner,) in self.rows("SELECT DISTINCT owner FROM reports WHERE state = 'kept'", ())]

    def most_spent(self) -> int:
        """The most that one of them has spent."""
        query = "SELECT coalesce(max(spent), 0) FROM (SELECT sum(charge) AS spent FROM reports GROUP BY owner)"
        ((most,),) = self.rows(query, ())
        return int(most)

    # What follows is for `Wallet`.

    def row(self, query: str, parameters: tuple[object, ...]) -> tuple[Any, ...] | None:
        """The one row of a query, if there is one."""
        rows = self.rows(query, parameters)
        return rows[0] if rows else None

    def rows(self, query: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise _unusable(self.path, str(error)) from None

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """On disk when it ends, or never begun; part of another one, where it is inside that."""
        outermost = not self._db.in_transaction
        try:
            if outermost:
                self._db.execute("BEGIN IMMEDIATE")  # From here on no other process decides.
            yield self._db
            if outermost:
                self._db.execute("COMMIT")
        except BaseException as error:
            if outermost and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _unusable(self.path, str(error)) from None
            raise


def _attempt(work: Callable[[], T]) -> T | Exception:
    """A statement that fails takes back itself, and not what others have asked for."""
    try:
        return work()
    except Exception as error:
        return error


class Wallet:
    """One user's wallet. `Wallet.open` for one that has a file of its own."""

    @classmethod
    def open(cls, path: Path | str, *, cap: int | None = None) -> Wallet:
        """The wallet in a file; a new one with this cap, in micro-ε, where there is none yet."""
        file = WalletFile.open(path)
        try:
            with file.transaction():  # Of two processes that open a new wallet, one makes it.
                return file.wallet(0).requiring(cap) if file.owners() else file.add(0, _said(cap, file.path))
        except BaseException:
            file.close()
            raise

    def __init__(self, file: WalletFile, owner: int, cap: int) -> None:
        self._file, self._owner, self.cap = file, owner, cap

    def requiring(self, cap: int | None) -> Wallet:
        """This wallet, if it has this cap: a lifetime's is not renewed by asking for another one."""
        if cap not in {None, self.cap}:
            what = f"has a cap of ε = {to_text(self.cap)}, and is to be used with another"
            raise WalletError(what, where=str(self._file.path), remedy="leave the cap out: it is for a lifetime")
        return self

    def close(self) -> None:
        """Let go of the file, and of all wallets in it."""
        self._file.close()

    # ------------------------------------------------------------------------------------------------- who she is

    @property
    def identity(self) -> Identity | None:
        """Who she is to her server; None before she has enrolled."""
        row = self._file.row("SELECT server, user_number, token FROM owners WHERE id = ?", (self._owner,))
        if row is None or row[0] is None:
            return None
        return Identity(*row)

    def enrolled(self, identity: Identity) -> None:
        """She has a number now, and keeps it. Her token may change."""
        before = self.identity
        if before is not None and before.user != identity.user:
            raise WalletError(
                f"is of user {before.user}", where=str(self._file.path), remedy="use a wallet of its own for each user"
            )
        with self._file.transaction() as db:
            row = (identity.server, identity.user, identity.token, self._owner)
            db.execute("UPDATE owners SET server = ?, user_number = ?, token = ? WHERE id = ?", row)

    def moved(self, server: str) -> None:
        """The server that knows her is found elsewhere now. Her token will be shown there."""
        if self.identity is not None:
            self.enrolled(replace(self.identity, server=server.rstrip("/")))

    # ------------------------------------------------------------------------------------------------ what she knows

    @property
    def purse(self) -> Spending:
        """What she has spent, and on what."""
        row = self._file.row("SELECT elsewhere FROM owners WHERE id = ?", (self._owner,))
        charges = self._file.rows("SELECT round, charge FROM reports WHERE owner = ?", (self._owner,))
        heard = self._file.rows("SELECT round, charge FROM heard WHERE owner = ?", (self._owner,))
        return Spending(self.cap, dict(charges), row[0] if row else 0, dict(heard))

    def pin(self, study: str) -> Pin | None:
        """What she has seen of a study."""
        row = self._file.row("SELECT length, head FROM pins WHERE owner = ? AND study = ?", (self._owner, study))
        return None if row is None else Pin(row[0], row[1])

    def kept(self, round_: str) -> StoredReport | None:
        """Her report to a round, if she has drawn one."""
        query = "SELECT round, charge, body, state FROM reports WHERE owner = ? AND round = ?"
        row = self._file.row(query, (self._owner, round_))
        return None if row is None else StoredReport(row[0], row[1], row[2], State(row[3]))

    # ------------------------------------------------------------------------------------------------ what she does

    def see(self, study: str, pin: Pin, elsewhere: int) -> None:
        """Remember how far she has read, and what copies of this wallet have spent."""
        with self._file.transaction() as db:
            self._see(db, study, pin, elsewhere)

    def hear(self, rounds: Mapping[str, int]) -> None:
        """Remember which rounds copies of this wallet have answered, and what each cost."""
        insert = "INSERT OR IGNORE INTO heard VALUES (?, ?, ?)"
        with self._file.transaction() as db:
            db.executemany(insert, [(self._owner, round_, charge) for round_, charge in rounds.items()])

    def keep(
        self, study: str, pin: Pin, elsewhere: int, round_: str, charge: int, draw: Callable[[], bytes]
    ) -> StoredReport:
        """Draw a report and store it with its charge, on disk when this returns; or the one that is there already."""
        with self._file.transaction() as db:
            before = self.kept(round_)
            if before is not None:
                return before
            self._see(db, study, pin, elsewhere)
            body = draw()
            insert = "INSERT INTO reports (owner, round, charge, body) VALUES (?, ?, ?, ?)"
            db.execute(insert, (self._owner, round_, charge, body))
        return StoredReport(round_, charge, body, State.KEPT)

    async def together(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """`WalletFile.together`."""
        return await self._file.together(work, durable=durable)

    def settle(self, round_: str, state: State) -> None:
        """What became of a report. An acknowledgement is never taken back."""
        with self._file.transaction() as db:
            update = "UPDATE reports SET state = ? WHERE owner = ? AND round = ? AND state <> 'acknowledged'"
            db.execute(update, (state.value, self._owner, round_))

    def _see(self, db: sqlite3.Connection, study: str, pin: Pin, elsewhere: int) -> None:
        longer = (
            "ON CONFLICT DO UPDATE SET length = excluded.length, head = excluded.head WHERE excluded.length > length"
        )
        db.execute(f"INSERT INTO pins VALUES (?, ?, ?, ?) {longer}", (self._owner, study, pin.length, pin.head))  # noqa: S608
        more = "UPDATE owners SET elsewhere = ? WHERE id = ? AND elsewhere < ?"
        db.execute(more, (elsewhere, self._owner, elsewhere))


def _said(cap: int | None, path: Path) -> int:
    if cap is None:
        raise WalletError("is new and has no cap", where=str(path), remedy="say what it may spend: cap=1_000_000")
    return cap


def _create(path: Path) -> bool:
    """Whether the file was not there: it is made before SQLite writes, so that its rights are right from the start."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from None
    return True


def _check_private(path: Path) -> None:
    mode = path.stat().st_mode
    if os.name == "posix" and mode & 0o077:
        raise WalletError("can be read by others", where=str(path), remedy=f"chmod 600 {path}")


def _settle(db: sqlite3.Connection, path: Path) -> None:
    """Checked, durable, and with the tables of this version. Another program's file stays as it is."""
    _is_new(db, path)
    _write_ahead(db)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("BEGIN IMMEDIATE")
    if _is_new(db, path):
        for statement in _TABLES.split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing is in there yet; an error, if what is there is not for this program."""
    # One statement, so that it sees one state of the file.
    query = "SELECT * FROM pragma_application_id, pragma_user_version, (SELECT count(*) FROM sqlite_schema)"
    ((application, version, tables),) = db.execute(query).fetchall()
    if application == 0 and tables == 0:
        return True
    if application != _APPLICATION:
        raise WalletError("is no wallet", where=str(path), remedy="name another file")
    if version > SCHEMA_VERSION:
        what = f"is of version {version}, this program knows {SCHEMA_VERSION}"
        raise WalletError(what, where=str(path), remedy="update askance")
    return False


def _write_ahead(db: sqlite3.Connection) -> None:
    """Where several processes switch a new file at once, SQLite says at once that it is locked: ask again."""
    begin = time.monotonic()
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() - begin > _SECONDS:
                raise
            time.sleep(0.01)
        else:
            return


def _unusable(path: Path, why: str) -> WalletError:
    remedies = {
        "beyond the cap": "nothing was drawn and nothing is sent: what is left does not cover it",
        "database is locked": "another process uses it: wait until that one has ended",
        "file is not a database": "it is damaged, or no wallet: restore a copy; the server knows what you have spent",
        "database disk image is malformed": "it is damaged: restore a copy; the server knows what you have spent",
    }
    return WalletError(
        why, where=str(path), remedy=remedies.get(why, "nothing was sent; see that the disk can be written")
    )
