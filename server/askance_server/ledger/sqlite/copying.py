"""A copy of an embedded ledger: one moment of it, in one file, taken beside a server that goes on writing."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from askance_server.ledger.sqlite.opening import FILE, reader, refusing, schema_of
from askance_server.ledger.sqlite.seals import CommitCount, Seal, Seals

_SEALED_FROM: Final = 3
"""The first schema that counts its commits."""
_HEARTBEAT: Final = "heartbeat"


@dataclass(frozen=True, slots=True)
class LedgerMoment:
    """How far a ledger has come."""

    schema: int
    commits: int | None
    """None: it is of a version that did not count them."""
    seals: frozenset[tuple[str, Seal]]
    """Two ledgers with the same seals hold the same."""

    @property
    def beats(self) -> int:
        """Number of commits that kept nothing: who asks whether a server is ready has it make one."""
        return sum(seal.commits for table, seal in self.seals if table == _HEARTBEAT)

    @property
    def kept(self) -> frozenset[tuple[str, Seal]]:
        """The seals of what is kept for somebody."""
        return frozenset((table, seal) for table, seal in self.seals if table != _HEARTBEAT)


def copy_ledger(directory: Path, folder: Path) -> LedgerMoment:
    """Copy the ledger of a data directory into a folder, with the count of its commits."""
    source = directory / FILE
    with refusing(source), closing(reader(source)) as db:
        _copy(db, folder / FILE)
    moment = moment_of(folder)
    if moment.commits is not None:
        CommitCount.open(folder, moment.commits).close()
    return moment


def _copy(db: sqlite3.Connection, target: Path) -> None:
    target.touch(mode=0o600, exist_ok=False)
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        try:
            # All pages in one step: between two of them a server's commit would make SQLite begin again, for ever.
            db.backup(copy)
            # Whole in its one file, so that it can be looked at where nothing can be written. A start changes it back.
            copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from None
            raise


def moment_of(directory: Path) -> LedgerMoment:
    """How far the ledger in a directory has come, by its own seals."""
    path = directory / FILE
    with refusing(path), closing(reader(path)) as db:
        if (schema := schema_of(db)) < _SEALED_FROM:
            return LedgerMoment(schema, None, frozenset())
        seals = Seals.of(db)
        return LedgerMoment(schema, seals.commits, frozenset(seals.kept.items()))
