"""Transactions of a wallet's file: by one who waits, or in groups while the loop goes on.

Theory of operation
-------------------
SQLite is asked by one thread at a time. A transaction either runs whole within one turn of the loop, or it is that of a
group: what all who asked in one turn of the loop want done (`group_commit`). Its statements run on the loop; then a
thread waits for the disk, and whoever asks SQLite anything else waits for that thread (`_wait`). What a group has
changed is known to nobody before the disk has it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from askance_client.wallet.errors import FROM_SQLITE, damaged, translated, wallet_error
from askance_client.wallet.tables import CheckedTable, SqlValue

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Transactions(ABC):
    """A file of checked tables, and its transactions. What subclasses remember of it, they forget when told."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path, self._db = path, db
        self._waiting: list[_Work] = []
        self._durable = False
        self._disk = ThreadPoolExecutor(1, "askance-wallet")
        self._at_disk: Future[object] | None = None
        """The commit of the last group, while the thread is at it. Nothing else is asked of SQLite meanwhile."""
        self._id = b""
        self._version = -1

    @abstractmethod
    def _forget(self) -> None:
        """Forget what was read: another program has written, or a transaction was taken back."""

    @abstractmethod
    def _group_ended(self) -> None:
        """The last group is on disk, or was taken back."""

    def close(self) -> None:
        """Close the file, and with it all wallets that are in it."""
        self._wait()
        self._disk.shutdown()
        self._db.close()

    def rows(self, query: str, parameters: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, as they stand in the file."""
        self._wait()
        try:
            return self._db.execute(query, parameters).fetchall()
        except FROM_SQLITE as error:
            raise wallet_error(self.path, error) from None

    def read(
        self, table: CheckedTable, condition: str = "", parameters: Sequence[SqlValue] = ()
    ) -> list[tuple[Any, ...]]:
        """Rows of a table, each compared with its checksum, which is left out."""
        found = self.rows(f"{table.select} {condition}", parameters)
        rows = [row[:-1] for row in found]
        for row, whole in zip(rows, found, strict=True):
            if table.checksum(self._id, row) != whole[-1]:
                raise damaged(self.path, f"a row of {table.name} is not as it was written")
        return rows

    def insert(self, table: CheckedTable, row: Sequence[SqlValue]) -> None:
        """Add a row, in a transaction that is open."""
        self._db.execute(table.insert, table.inserted(self._id, row))

    def update(self, table: CheckedTable, row: Sequence[SqlValue]) -> None:
        """Change a row, in a transaction that is open."""
        if self._db.execute(table.update, table.updated(self._id, row)).rowcount != 1:
            raise damaged(self.path, f"a row of {table.name} is not in its place")

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Make the changes of a block, on disk when it ends, or none of them; as part of a transaction that is open."""
        self._wait()
        if self._is_open:
            yield self._db
            return
        try:
            self._begin()
            yield self._db
            self._db.execute("COMMIT")
        except BaseException as error:
            self._give_up()
            if isinstance(error, FROM_SQLITE):
                raise wallet_error(self.path, error) from None
            raise

    @contextmanager
    def _one_state(self) -> Generator[None]:
        """Let all reads of a block see the same state of the file."""
        self._wait()
        if self._is_open:
            yield
            return
        with translated(self.path):
            try:
                self._db.execute("BEGIN")
                yield
            finally:
                self._roll_back()  # There is nothing to commit.

    def _begin(self) -> None:
        """Begin a transaction: from here on no other process decides."""
        self._db.execute("BEGIN IMMEDIATE")
        self._compare_version()

    def _give_up(self) -> None:
        """Take back a transaction that has failed, and what was known within it."""
        self._forget()
        self._roll_back()

    @property
    def _is_open(self) -> bool:
        """Whether a transaction is open: where the file is closed, none is."""
        try:
            return self._db.in_transaction
        except sqlite3.ProgrammingError:
            return False

    def _roll_back(self) -> None:
        """Take back the transaction, if it is still open. If that fails, stop: nothing may be added to it."""
        try:
            if self._is_open:
                self._db.execute("ROLLBACK")
        finally:
            if self._is_open:
                self._db.close()

    def _look_again(self) -> None:
        """Forget what was read, if another program has written since. Within a transaction none can."""
        if self._at_disk is None and not self._is_open:
            self._compare_version()

    def _compare_version(self) -> None:
        ((version,),) = self.rows("PRAGMA data_version")
        if version != self._version:
            self._forget()
            self._version = version

    # ------------------------------------------------------------------------------------------------------ groups

    async def group_commit(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """Run this in one transaction with the other requests of this turn of the loop; it is on disk afterwards.

        What need not be `durable` outlives the process, but perhaps not the machine.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._commit_waiting)  # Or, if the disk is busy, when it is not.
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, done))
        self._durable |= durable
        return await done

    def _commit_waiting(self) -> None:
        """Commit what waits. While the disk is at the group before, it waits to be the next one, with what comes."""
        if self._at_disk is not None or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        durable, self._durable = self._durable, False
        if durable:
            self._commit_beside(waiting)
            return
        results = list[object]()
        try:
            with self._relaxed(), self.transaction():
                results += [self._attempt(work) for work, _ in waiting]
        except Exception as error:
            results = [self._named(error)] * len(waiting)
        _tell(waiting, results)

    def _commit_beside(self, waiting: Sequence[_Work]) -> None:
        """Do these works, and let a thread wait for the disk: others of this loop go on meanwhile."""
        self._group_ended()
        try:
            self._begin()
            results: list[object] = [self._attempt(work) for work, _ in waiting]
        except BaseException as error:
            self._give_up()
            if not isinstance(error, Exception):
                raise
            _tell(waiting, [self._named(error)] * len(waiting))
            return
        loop = asyncio.get_running_loop()
        self._at_disk = self._disk.submit(self._db.execute, "COMMIT")

        def there(commit: Future[object]) -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody waits.
                loop.call_soon_threadsafe(self._committed, waiting, results, commit)

        self._at_disk.add_done_callback(there)

    def _committed(self, waiting: Sequence[_Work], results: Sequence[object], commit: Future[object]) -> None:
        if self._at_disk is commit:
            self._wait()
        try:
            commit.result()
        except Exception as error:
            results = [self._named(error)] * len(waiting)
        _tell(waiting, results)
        self._commit_waiting()

    def _wait(self) -> None:
        """Wait until the disk has the last group, or has refused it."""
        commit, self._at_disk = self._at_disk, None
        if commit is not None and commit.exception() is not None:
            self._give_up()
        if commit is not None:
            self._group_ended()

    @contextmanager
    def _relaxed(self) -> Generator[None]:
        """Commit without waiting for the disk."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def _attempt(self, work: Callable[[], T]) -> T | Exception:
        """Do one of several works of a transaction, whole or not at all."""
        self._db.execute("SAVEPOINT work")
        try:
            result = work()
        except Exception as error:
            self._forget()
            # Where SQLite had to roll back everything, there is no savepoint any more; and then no COMMIT succeeds.
            self._db.execute("ROLLBACK TO work")
            return self._named(error)
        self._db.execute("RELEASE work")
        return result

    def _named(self, error: Exception) -> Exception:
        """The error, as one of this package's if it comes out of SQLite."""
        return wallet_error(self.path, error) if isinstance(error, FROM_SQLITE) else error


def _tell(waiting: Sequence[_Work], results: Sequence[object]) -> None:
    """Tell those who wait what came of their works."""
    for (_, done), result in zip(waiting, results, strict=True):
        if done.done():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)
