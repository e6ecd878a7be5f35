"""What is special to the embedded ledger: its lock, its file, its checkpoints, and what it refuses to open."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.rounds import RoundClosed, RoundPublished, StudyPublished
from askance_server.ledger import LedgerError, Verdict, open_ledger, sqlite
from askance_server.ledger.sqlite import FILE, MIGRATIONS, SqliteLedger
from tests.protocol.studies import part, round_of, study

ROUND = round_of(part())
ID = ROUND.digest()
STUDY = study().digest()


def published(directory: Path, users: int = 1000) -> SqliteLedger:
    """A ledger with users and one open round."""
    ledger = SqliteLedger.open(directory)
    ledger.enrol(users, MICRO)
    ledger.append(STUDY, ledger_next(ledger, StudyPublished(study=study())))
    ledger.append(STUDY, ledger_next(ledger, RoundPublished(round=ROUND)))
    return ledger


def ledger_next(ledger: SqliteLedger, notice: object) -> object:
    from askance_protocol.rounds import Bulletin

    known = ledger.bulletin(STUDY) if STUDY in ledger.studies() else Bulletin()
    return known.next(notice)  # type: ignore[arg-type]


def report(ledger: SqliteLedger, first: int, last: int, outcome: int = 1) -> list[int]:
    users = np.arange(first, last, dtype=np.uint64)
    return ledger.charge(ID, users, np.full(len(users), outcome, np.uint32)).tolist()


def raw(directory: Path) -> sqlite3.Connection:
    return sqlite3.connect(directory / FILE, isolation_level=None)


def test_a_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    SqliteLedger.open(tmp_path / "new" / "data").close()
    assert (tmp_path / "new" / "data").stat().st_mode & 0o077 == 0


def test_a_directory_in_use_is_refused_and_the_holder_is_named(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from askance_server.ledger.sqlite import SqliteLedger;"
        "ledger = SqliteLedger.open(pathlib.Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(LedgerError, match=rf"in use by process {holder.pid}.*--database"):
            SqliteLedger.open(tmp_path)
        holder.communicate()
    SqliteLedger.open(tmp_path).close()


def test_every_column_is_explained() -> None:
    for script in MIGRATIONS:
        for line in script.splitlines():
            if line.startswith("        ") and not line.strip().startswith(("PRIMARY KEY", "CHECK")):
                assert "--" in line, line


def test_a_file_of_an_older_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    directory = tmp_path / "old"
    ledger = published(directory)
    report(ledger, 0, 10)
    ledger.close()
    with raw(directory) as db:
        db.executescript("DROP TABLE checkpoints; PRAGMA user_version = 1;")
    db.close()

    reopened = SqliteLedger.open(directory)
    assert reopened.received(ID) == 10
    assert report(reopened, 0, 11) == [Verdict.REPEATED] * 10 + [Verdict.ACCEPTED]
    assert reopened.verify() == []
    reopened.close()
    version = raw(directory).execute("PRAGMA user_version").fetchone()
    assert version == (len(MIGRATIONS),)


def test_a_file_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    published(tmp_path).close()
    raw(tmp_path).execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(LedgerError, match=r"ledger\.sqlite has schema 3.*newer askance"):
        SqliteLedger.open(tmp_path)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite is not a ledger or is damaged"):
        SqliteLedger.open(tmp_path)


@pytest.mark.parametrize("column", ["users", "outcomes", "checksum"])
def test_a_damaged_group_stops_the_opening_and_is_named(tmp_path: Path, column: str) -> None:
    ledger = published(tmp_path)
    for first in (0, 10, 20):
        report(ledger, first, first + 10)
    ledger.close()
    db = raw(tmp_path)
    (blob,) = db.execute(f"SELECT {column} FROM report_groups WHERE id = 2").fetchone()
    db.execute(f"UPDATE report_groups SET {column} = ? WHERE id = 2", (bytes([blob[0] ^ 1]) + blob[1:],))
    db.close()

    with pytest.raises(LedgerError, match=r"ledger\.sqlite: group 2 .* is damaged.*Restore"):
        SqliteLedger.open(tmp_path)


def test_a_checkpoint_stands_for_the_groups_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_AFTER", 10)
    ledger = published(tmp_path)
    report(ledger, 0, 500)
    ledger.append(STUDY, ledger_next(ledger, RoundClosed(round=ID, reason="target", received=500)))
    assert raw(tmp_path).execute("SELECT last_group FROM checkpoints").fetchall() == [(1,)]
    ledger.close()

    reopened = SqliteLedger.open(tmp_path)
    assert reopened.standing(499).account.spent == MICRO
    assert reopened.standing(500).account.spent == 0
    assert reopened.verify() == []
    reopened.close()

    db = raw(tmp_path)
    db.execute("UPDATE checkpoints SET spent = zeroblob(length(spent))")
    with pytest.raises(LedgerError, match="the checkpoint at group 1 is damaged"):
        SqliteLedger.open(tmp_path)
    db.execute("DELETE FROM checkpoints")
    db.close()
    rebuilt = SqliteLedger.open(tmp_path)
    assert rebuilt.standing(499).account.spent == MICRO
    rebuilt.close()


def test_a_full_disk_stops_the_ledger_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """SQLite's own limit on pages stands in for a disk without room: the error is the same."""
    ledger = published(tmp_path, users=200_000)
    pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
    ledger._db.execute(f"PRAGMA max_page_count = {pages + 12}")
    acknowledged: list[int] = []
    with pytest.raises(LedgerError, match=r"ledger\.sqlite cannot be written: .*full.*Free some space"):
        fill(ledger, acknowledged)
    assert acknowledged

    for refused in (lambda: report(ledger, 0, 1), ledger.check_writable, lambda: ledger.enrol(1, 1)):
        with pytest.raises(LedgerError, match="cannot be written"):
            refused()
    ledger.close()
    reopened = SqliteLedger.open(tmp_path)
    assert reopened.received(ID) == acknowledged[-1]
    assert reopened.verify() == []
    reopened.close()


def fill(ledger: SqliteLedger, acknowledged: list[int]) -> None:
    """Report until the disk is full, and note what was acknowledged."""
    for first in range(0, 200_000, 1000):
        assert report(ledger, first, first + 1000) == [Verdict.ACCEPTED] * 1000
        acknowledged.append(first + 1000)


def test_durability_is_asserted_and_not_hoped_for(tmp_path: Path) -> None:
    ledger = SqliteLedger.open(tmp_path)
    assert ledger._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    ledger.close()


def test_the_factory_opens_the_embedded_ledger_for_a_path(tmp_path: Path) -> None:
    ledger = open_ledger(str(tmp_path))
    assert isinstance(ledger, SqliteLedger)
    ledger.close()


def test_users_beyond_four_billion_and_large_outcomes_are_kept(tmp_path: Path) -> None:
    """The log's columns are as narrow as their content allows, and as wide as it needs."""
    users, outcomes = np.array([1, 1 << 40], np.uint64), np.array([3, 1 << 31], np.uint32)
    packed = sqlite._packed(users, ("<u4", "<u8")), sqlite._packed(outcomes, ("<u1", "<u2", "<u4"))
    back = sqlite._unpacked(2, *packed)
    assert [column.tolist() for column in back] == [users.tolist(), outcomes.tolist()]
    assert len(sqlite._packed(users[:1], ("<u4", "<u8"))) == 4
