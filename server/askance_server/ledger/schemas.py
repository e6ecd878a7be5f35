"""The schemas of the ledgers: SQL files in `migrations`, each of which brings a database to the next version.

A file's name begins with the version that it leads to. A file that was released is never changed.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal, TypeAlias

Database: TypeAlias = Literal["sqlite", "postgres"]


def migrations(database: Database) -> dict[int, str]:
    """The SQL scripts for this database, by the version that each leads to, in ascending order."""
    scripts = {
        int(file.name.split("_")[0]): file.read_text(encoding="utf-8")
        for file in files("askance_server.ledger").joinpath("migrations", database).iterdir()
        if file.name.endswith(".sql")
    }
    return dict(sorted(scripts.items()))
