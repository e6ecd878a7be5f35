"""What is special to the embedded ledger: its lock, its file, its checkpoints, and what it refuses to open."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.rounds import Bulletin, Entry, RoundClosed, RoundPublished, StudyPublished
from askance_protocol.rounds.bulletin import Notice
from askance_server.ledger import LedgerError, Verdict, open_ledger
from askance_server.ledger.schemas import migrations
from askance_server.ledger.sqlite import FILE, SqliteLedger, schema_behind
from askance_server.ledger.sqlite import ledger as sqlite
from askance_server.ledger.sqlite.log import pack_outcomes, pack_users, unpack
from tests.protocol.studies import part, round_of, study

ROUND = round_of(part())
ID = ROUND.digest()
STUDY = study().digest()
SCHEMA = max(migrations("sqlite"))

# The schema of version 0.1, word for word: files that were written with it are opened by every later version.
OLD_MIGRATIONS = (
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


def published(directory: Path, users: int = 1000) -> SqliteLedger:
    """A ledger with users and one open round."""
    ledger = SqliteLedger.open(directory)
    ledger.enrol(users, MICRO)
    ledger.append(STUDY, ledger_next(ledger, StudyPublished(study=study())))
    ledger.append(STUDY, ledger_next(ledger, RoundPublished(round=ROUND)))
    return ledger


def ledger_next(ledger: SqliteLedger, notice: Notice) -> Entry:
    known = ledger.bulletin(STUDY) if STUDY in ledger.studies() else Bulletin()
    return known.next(notice)


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
    for script in migrations("sqlite").values():
        for line in script.splitlines():
            if line.startswith("    ") and not line.strip().startswith(("PRIMARY KEY", "CHECK")):
                assert "--" in line, line


def write_as_version_0_1(directory: Path, version: int) -> None:
    """A data directory with two studies' worth of everything, made through SQL alone."""
    directory.mkdir()
    with closing(raw(directory)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for number, script in enumerate(OLD_MIGRATIONS[:version], start=1):
            db.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")
        db.execute("INSERT INTO enrolments VALUES (0, 20, ?), (20, 5, ?)", (MICRO, 3 * MICRO))
        db.execute("INSERT INTO epochs VALUES (7, 2)")
        bulletin = Bulletin()
        for notice in (StudyPublished(study=study()), RoundPublished(round=ROUND)):
            entry = bulletin.next(notice)
            bulletin = bulletin.append(entry)
            row = (STUDY, entry.sequence, bulletin.head, entry.to_bytes())
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
        db.execute("INSERT INTO rounds VALUES (4, ?, ?)", (ID, STUDY))
        for first, last in ((0, 3), (20, 22)):
            users = np.arange(first, last, dtype="<u4").tobytes()
            outcomes = np.ones(last - first, "<u1").tobytes()
            row = (4, last - first, users, outcomes, digest(4, users + outcomes))
            db.execute(
                "INSERT INTO report_groups (round, reports, users, outcomes, checksum) VALUES (?, ?, ?, ?, ?)", row
            )
        if version > 1:
            spent = np.array([MICRO] * 3 + [0] * 22, "<i8").tobytes()
            db.execute("INSERT INTO checkpoints VALUES (1, ?, ?)", (spent, digest(1, spent)))


def digest(number: int, columns: bytes) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "little") + columns, digest_size=16).digest()


@pytest.mark.parametrize("version", [1, 2])
def test_a_directory_of_version_0_1_is_opened_and_goes_on_unchanged(tmp_path: Path, version: int) -> None:
    directory = tmp_path / "old"
    write_as_version_0_1(directory, version)

    with closing(SqliteLedger.open(directory)) as ledger:
        assert ledger.verify() == []
        assert ledger.enrolled() == 25
        assert [ledger.standing(user).account.spent for user in (0, 2, 3, 20, 22)] == [MICRO, MICRO, 0, MICRO, 0]
        assert [ledger.standing(user).account.cap for user in (19, 20)] == [MICRO, 3 * MICRO]
        assert [ledger.epoch(user) for user in (6, 7)] == [0, 2]
        assert (ledger.studies(), ledger.received(ID)) == ([STUDY], 5)
        assert ledger.tallies(ID)[0].counts.tolist() == [[0, 5]]
        assert report(ledger, 0, 5) == [Verdict.REPEATED] * 3 + [Verdict.ACCEPTED] * 2
        assert ledger.enrol(2, 3 * MICRO) == range(25, 27)
        assert ledger.append(STUDY, ledger_next(ledger, RoundPublished(round=round_of(part(), number=2)))).length == 3

    with closing(SqliteLedger.open(directory)) as ledger:
        assert (ledger.enrolled(), ledger.received(ID), ledger.verify()) == (27, 7, [])
    with closing(raw(directory)) as db:
        assert db.execute("SELECT * FROM enrolments").fetchall() == [(0, 20, MICRO), (20, 7, 3 * MICRO)]
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def test_the_schema_files_make_what_version_0_1_made(tmp_path: Path) -> None:
    def tables(scripts: tuple[str, ...]) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(":memory:")) as db:
            db.executescript("".join(scripts))
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return [(name, row[1:]) for name in names for row in db.execute(f"PRAGMA table_info({name})")]

    scripts = tuple(script for number, script in migrations("sqlite").items() if number <= len(OLD_MIGRATIONS))
    assert tables(scripts) == tables(OLD_MIGRATIONS)
    # The control: another column is found.
    assert tables((*scripts, "ALTER TABLE epochs ADD COLUMN mystery INTEGER;")) != tables(OLD_MIGRATIONS)


def test_a_file_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    published(tmp_path).close()
    raw(tmp_path).execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(LedgerError, match=rf"ledger\.sqlite: has schema {SCHEMA + 1}.*newer askance"):
        SqliteLedger.open(tmp_path)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite: is not a ledger or is damaged"):
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
    back = unpack(2, pack_users(users), pack_outcomes(outcomes))
    assert [column.tolist() for column in back] == [users.tolist(), outcomes.tolist()]
    assert len(pack_users(users[:1])) == 4


def test_a_group_of_a_user_who_was_never_enrolled_is_damage(tmp_path: Path) -> None:
    ledger = published(tmp_path, users=10)
    report(ledger, 0, 10)
    ledger.close()
    with closing(raw(tmp_path)) as db:
        db.execute("UPDATE enrolments SET users = 9")

    with pytest.raises(LedgerError, match=r"group 1 .* never enrolled"):
        SqliteLedger.open(tmp_path)


def test_a_group_of_a_round_that_was_never_published_is_damage(tmp_path: Path) -> None:
    ledger = published(tmp_path, users=10)
    report(ledger, 0, 10)
    ledger.close()
    with closing(raw(tmp_path)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("DELETE FROM rounds")

    with pytest.raises(LedgerError, match=r"group 1 .* never published"):
        SqliteLedger.open(tmp_path)


def test_another_server_key_than_before_is_said_once_and_the_same_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = list[int]()
    for key in ("a" * 64, "a" * 64, "b" * 64, "b" * 64):
        with closing(SqliteLedger.open(tmp_path)) as ledger:
            ledger.check_key(key)
        said.append(len(caplog.records))

    assert said == [0, 0, 1, 1]
    assert "another one than before" in caplog.text


@pytest.mark.parametrize(
    ("version", "behind"), [(1, 1), (SCHEMA - 1, SCHEMA - 1), (SCHEMA, None), (SCHEMA + 1, None), (0, None)]
)
def test_a_file_is_behind_where_its_schema_is_older_than_the_programs(
    tmp_path: Path, version: int, behind: int | None
) -> None:
    SqliteLedger.open(tmp_path).close()
    with closing(raw(tmp_path)) as db:
        db.execute(f"PRAGMA user_version = {version}")

    assert schema_behind(tmp_path) == behind
    with closing(raw(tmp_path)) as db:
        assert db.execute("PRAGMA user_version").fetchall() == [(version,)]
