"""Whether a wallet file is of an older version, and whether it can be brought to this one: tried on a copy.

The copy goes again. None is kept: a copy that is put back has forgotten what was spent since.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from askance_client.wallet.errors import damaged, translated
from askance_client.wallet.file import WalletFile
from askance_client.wallet.layout import check_file, check_tables

_Totals: TypeAlias = list[tuple[int, ...]]


def wallet_version(path: Path) -> int:
    """The version of a wallet file, which stays as it is."""
    check_file(path)
    # One that may write, and does not: else SQLite's own files would be left beside the wallet.
    with translated(path), closing(sqlite3.connect(path)) as db:
        return check_tables(db, path)


def try_upgrade(path: Path, folder: Path) -> None:
    """Bring a copy in this folder to this version; an error if that fails, or if spending would not be what it was."""
    copy = folder / "wallet"
    copy.touch(mode=0o600, exist_ok=False)
    with translated(path), closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(copy)) as target:
        before = _totals(db)
        db.backup(target)
    WalletFile.open(copy).close()
    with translated(path), closing(sqlite3.connect(copy)) as db:
        if _totals(db) != before:
            raise damaged(path, "what was spent is not the same after an upgrade")


def _totals(db: sqlite3.Connection) -> _Totals:
    """Owners, reports and what was heard of, in numbers that every version has."""
    query = """
        SELECT count(*), total(cap), total(elsewhere) FROM owners
        UNION ALL SELECT count(*), total(charge), total(length(body)) FROM reports
        UNION ALL SELECT count(*), total(charge), 0 FROM heard
    """
    return db.execute(query).fetchall()
