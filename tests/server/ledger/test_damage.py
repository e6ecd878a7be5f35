"""Damage to an embedded ledger is found, whatever table and column it is in; what is no damage is not called so.

Tables and columns are read from the file: one that is added to the schema and not sealed fails here.
"""

from __future__ import annotations

import lzma
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from askance_protocol.rounds import read_entry
from askance_server.ledger import Fault, LedgerError, audit_ledger
from askance_server.ledger.sqlite import FILE, SqliteLedger, opening, seals
from askance_server.ledger.sqlite import audit as audit_module
from askance_server.ledger.sqlite import ledger as sqlite
from tests.harness.told import Told
from tests.server.ledger.damaging import RUNNING, Hand, TakenError, damages, fill
from tests.server.ledger.upgrading import FIXTURES

FLIPS: Final = 250
KEY: Final = "c" * 64


def filled(directory: Path) -> SqliteLedger:
    """A ledger with something in every table."""
    ledger = SqliteLedger.open(directory)
    ledger.check_key("d" * 64)
    ledger.check_key(KEY)
    fill(ledger)
    return ledger


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was closed in good order."""
    directory = tmp_path_factory.mktemp("whole") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "CHECKPOINT_AFTER", 1)
        filled(directory).close()
    return directory


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory as a server leaves it that is killed: all of its writes are in the write-ahead log."""
    folder = tmp_path_factory.mktemp("crashed")
    with closing(filled(folder / "open")):
        shutil.copytree(folder / "open", folder / "data")
    return folder / "data"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data directory of version 0.1, which sealed nothing."""
    directory = tmp_path / "old"
    directory.mkdir(mode=0o700)
    (directory / FILE).write_bytes(lzma.decompress((FIXTURES / "ledger_of_0_1.sqlite.xz").read_bytes()))
    return directory


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the whole one, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def raw(directory: Path) -> sqlite3.Connection:
    """A connection by hand, which no constraint stops."""
    db = sqlite3.connect(directory / FILE, isolation_level=None)
    db.execute("PRAGMA ignore_check_constraints = ON")
    return db


def tables() -> list[str]:
    """All tables of the schema, from a file that was made by it."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript("".join(audit_module.migrations("sqlite").values()))
        return [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


class SqliteHand(Hand):
    """In the file itself."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def columns(self, table: str) -> list[str]:
        return columns(self.db, table)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.db.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid").fetchall()

    def change(self, table: str, column: str, place: Any, value: Any) -> None:
        try:
            self.db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, place))
        except sqlite3.IntegrityError:
            raise TakenError from None

    def delete(self, table: str, place: Any = None) -> None:
        self.db.execute(f"DELETE FROM {table} WHERE ?1 IS NULL OR rowid = ?1", (place,))

    def insert(self, table: str, values: list[Any]) -> None:
        self.db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def audit(directory: Path) -> list[Fault]:
    return audit_ledger(str(directory), KEY)


@pytest.fixture(scope="module")
def missed_without_seals(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The control: what is not found by an audit that looks at no seal."""
    missed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (sqlite, audit_module):
            patch.setattr(module, "broken_seals", lambda *_: iter(()))
        folder = tmp_path_factory.mktemp("control")
        for table in tables():
            missed += [f"{table}: {name}" for name, found in damaged(whole, folder / table, table) if not found]
    return missed


def damaged(whole: Path, folder: Path, table: str) -> Iterator[tuple[str, list[Fault]]]:
    """Each damage to a table, and what the audit says of it."""
    with closing(raw(whole)) as db:
        changes = damages(SqliteHand(db), table)
    for number, (name, damage) in enumerate(changes):
        directory = Path(shutil.copytree(whole, folder / str(number)))
        with closing(raw(directory)) as db:
            damage(SqliteHand(db))
        yield name, audit(directory)


def test_what_is_whole_is_found_whole(whole: Path) -> None:
    before = {file.name: file.read_bytes() for file in whole.iterdir()}
    assert audit(whole) == []
    assert {name: (whole / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("table", tables())
def test_any_change_to_any_row_is_found(whole: Path, tmp_path: Path, table: str) -> None:
    missed = [name for name, found in damaged(whole, tmp_path, table) if not found]
    assert missed == []


def test_without_seals_it_is_missed(missed_without_seals: list[str]) -> None:
    assert {
        "enrolments: cap of the first row",
        "enrolments: users of the last row",
        "enrolments: a row inserted",
        "epochs: epoch of the last row",
        "epochs: the last row deleted",
        "heartbeat: beats of the first row",
        "kinds: kind of the last row",
        "tickets: used of the first row",
        "tickets: the last row deleted",
    } <= set(missed_without_seals)


def test_each_column_is_sealed_or_covered_by_a_checksum_that_is() -> None:
    covered = {"report_groups": {"users", "outcomes"}, "checkpoints": {"spent"}}
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript("".join(audit_module.migrations("sqlite").values()))
        # Both are compared with what they say of the others.
        for table in set(tables()) - {"seals", "sqlite_sequence"}:
            sealed = set(seals.SEALED[table].replace("length(spent)", "spent").split(", "))
            assert sealed | covered.get(table, set()) == set(columns(db, table)), table


STATEMENTS: Final = {
    "a table more": "CREATE TABLE mystery (one INTEGER)",
    "a table less": "DROP TABLE heartbeat",
    "a column more": "ALTER TABLE epochs ADD COLUMN mystery",
    "an index less": "DROP INDEX groups_of_a_round",
    "a trigger": "CREATE TRIGGER mystery AFTER INSERT ON epochs BEGIN DELETE FROM epochs; END",
    "an older version": "PRAGMA user_version = 3",
    "a much older version": "PRAGMA user_version = 2",
    "a newer version": "PRAGMA user_version = 1000",
    "a group twice": "INSERT INTO report_groups (round, reports, users, outcomes, checksum)"
    " SELECT round, reports, users, outcomes, checksum FROM report_groups LIMIT 1",
    "two rounds for each other": "UPDATE rounds SET id = replace(replace(replace(id, substr(id, 1, 8), '-'), '-',"
    " (SELECT substr(other.id, 1, 8) FROM rounds AS other WHERE other.number <> rounds.number)), '-', '')",
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_a_change_of_the_structure_is_found(copy: Path, statement: str) -> None:
    with closing(raw(copy)) as db:
        db.execute(statement)
    assert audit(copy) != []


WHERE: Final = {
    "a cap changed": ("UPDATE enrolments SET cap = cap + 1", "table enrolments"),
    "a user added": ("UPDATE enrolments SET users = users + 1 WHERE first_user = 50", "table enrolments"),
    "a revocation gone": ("DELETE FROM epochs WHERE user = 3", "table epochs"),
    "a made-up user made real": ("UPDATE kinds SET kind = 'real' WHERE kind = 'simulated'", "table kinds"),
    "the use of a ticket forgotten": ("UPDATE tickets SET used = 1", "table tickets"),
    "log rows gone": ("DELETE FROM report_groups WHERE id > 2", "table report_groups"),
    "an entry altered": (
        "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'A study', 'B study') AS BLOB)",
        "table entries",
    ),
}


@pytest.mark.parametrize(("statement", "where"), WHERE.values(), ids=WHERE)
def test_the_table_that_was_changed_is_named(copy: Path, statement: str, where: str) -> None:
    with closing(raw(copy)) as db:
        db.execute(statement)
    assert where in {fault.where for fault in audit(copy)}
    # A server does not go on with it either: caps, users, revocations and reports are looked at by each start.
    with pytest.raises((LedgerError, ValueError)):
        SqliteLedger.open(copy).close()


def dump(directory: Path) -> list[str]:
    """Everything that SQL can read."""
    with closing(sqlite3.connect(directory / FILE)) as db:
        return [*db.iterdump(), str(db.execute("PRAGMA user_version").fetchall())]


def flipped(directory: Path, folder: Path, name: str, seed: int) -> list[tuple[int, list[Fault]]]:
    """Bits of a file, each flipped alone, that change what can be read, or whether it can; and what the audit says."""
    expected, body = dump(Path(shutil.copytree(directory, folder / "read"))), (directory / name).read_bytes()
    told: list[tuple[int, list[Fault]]] = []
    for bit in random.Random(seed).sample(range(8 * len(body)), FLIPS):
        changed = bytearray(body)
        changed[bit // 8] ^= 1 << bit % 8
        for attempt in ("audit", "dump"):
            shutil.rmtree(folder / attempt, ignore_errors=True)
            shutil.copytree(directory, folder / attempt)
            (folder / attempt / name).write_bytes(changed)
        try:
            harmless = dump(folder / "dump") == expected
        except (sqlite3.Error, UnicodeDecodeError):
            harmless = False
        if not harmless:
            told.append((bit, audited(folder / "audit")))
    return told


def audited(directory: Path) -> list[Fault]:
    """What an audit says, a refusal included."""
    try:
        return audit(directory)
    except LedgerError as error:
        return [Fault(str(directory), str(error))]


def test_a_bit_that_flips_in_the_file_is_found_or_changes_nothing(whole: Path, tmp_path: Path) -> None:
    told = flipped(whole, tmp_path, FILE, seed=1)
    assert [bit for bit, found in told if not found] == []
    assert len(told) > FLIPS // 10


def test_a_bit_that_flips_in_the_write_ahead_log_is_found_or_changes_nothing(crashed: Path, tmp_path: Path) -> None:
    told = flipped(crashed, tmp_path, f"{FILE}-wal", seed=2)
    assert [bit for bit, found in told if not found] == []
    assert len(told) > FLIPS // 10


def starts(directory: Path, folder: Path, seed: int) -> Counter[str]:
    """How a ledger opens of which one bit was flipped, by the kind of the error; of so many bits."""
    body, seen = (directory / FILE).read_bytes(), Counter[str]()
    dice, written = random.Random(seed), [place for place, byte in enumerate(body) if byte]
    for _ in range(FLIPS):
        changed = bytearray(body)
        changed[dice.choice(written)] ^= 1 << dice.randrange(8)
        shutil.rmtree(folder / "start", ignore_errors=True)
        shutil.copytree(directory, folder / "start")
        (folder / "start" / FILE).write_bytes(changed)
        try:
            SqliteLedger.open(folder / "start").close()
        except Exception as error:
            seen[type(error).__name__] += 1
    return seen


def test_a_start_with_a_bit_flipped_opens_or_is_refused_as_damaged(whole: Path, old: Path, tmp_path: Path) -> None:
    """Also of version 0.1, which has no seals: what flips there shows in any way, as a key that is missing, as a text
    in a number's place.
    """
    for directory in (whole, old):
        seen = starts(directory, tmp_path, seed=3)
        assert set(seen) == {"LedgerError"}
        assert seen["LedgerError"] > FLIPS // 10


def test_a_start_that_knows_errors_of_sqlite_only_ends_in_others(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""

    @contextmanager
    def refusing(path: Path) -> Generator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise LedgerError(f"{path} is damaged") from error

    monkeypatch.setattr(opening, "refusing", refusing)
    monkeypatch.setattr(sqlite, "refusing", refusing)
    monkeypatch.setattr(sqlite, "written_entry", lambda body, _: read_entry(body))
    assert {"ProtocolError", "KeyError"} <= set(starts(old, tmp_path, seed=3))


def test_an_entry_that_is_damaged_while_a_server_runs_is_not_the_readers_fault(copy: Path) -> None:
    with closing(SqliteLedger.open(copy)) as ledger, closing(raw(copy)) as db:
        study = next(iter(ledger.studies()))
        db.execute("UPDATE entries SET body = x'7b' WHERE study = ?", (study,))
        with pytest.raises(LedgerError, match="askance doctor --deep"):
            ledger.entries(study)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.99])
def test_a_write_ahead_log_that_was_cut_is_found_and_no_server_starts_on_it(
    crashed: Path, tmp_path: Path, share: float
) -> None:
    directory = Path(shutil.copytree(crashed, tmp_path / "data"))
    log = directory / f"{FILE}-wal"
    log.write_bytes(log.read_bytes()[: int(log.stat().st_size * share)])

    found = audited(directory)
    assert found
    with pytest.raises(LedgerError, match=r"has lost \d+ of \d+ commits.*ledger\.commits") as refused:
        SqliteLedger.open(directory)
    # Deliberately: as the message says.
    (directory / seals.COMMITS_FILE).unlink()
    with closing(SqliteLedger.open(directory)) as ledger:
        assert ledger.verify() == []
    assert "Put the newer files back" in str(refused.value)


def test_an_older_copy_of_the_file_alone_is_found(whole: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(whole, tmp_path / "data"))
    older = (directory / FILE).read_bytes()
    with closing(SqliteLedger.open(directory)) as ledger:
        ledger.revoke(5)
    (directory / FILE).write_bytes(older)

    assert [fault for fault in audit(directory) if "has lost 1 of" in fault.what]
    with pytest.raises(LedgerError, match="has lost 1 of"):
        SqliteLedger.open(directory)


def test_an_older_copy_of_the_whole_directory_cannot_be_told(whole: Path, tmp_path: Path) -> None:
    """What is not known, written down: docs/server.md says so, too."""
    directory = Path(shutil.copytree(whole, tmp_path / "data"))
    with closing(SqliteLedger.open(directory)) as ledger:
        ledger.revoke(5)
    shutil.rmtree(directory)
    shutil.copytree(whole, directory)

    assert audit(directory) == []


def test_a_whole_study_that_is_gone_from_every_table_is_found(copy: Path) -> None:
    with closing(raw(copy)) as db:
        gone = RUNNING.digest()
        number = db.execute("SELECT number FROM rounds WHERE study = ?", (gone,)).fetchone()[0]
        db.execute("DELETE FROM report_groups WHERE round = ?", (number,))
        db.execute("DELETE FROM rounds WHERE study = ?", (gone,))
        db.execute("DELETE FROM entries WHERE study = ?", (gone,))
    assert audit(copy) != []


def test_a_deep_look_tells_how_far_it_is(whole: Path, copy: Path) -> None:
    parts = ("verifying seals", "verifying bulletins", "reading rounds", "verifying reports")
    told = Told()
    assert audit_ledger(str(whole), KEY, told) == []
    assert told.fault(*parts) is None
    assert [part for part, _, of in told.news if not of] == ["checking pages", "reading the log"]

    # The control: of rows that are gone, and were sealed, nothing is told.
    with closing(raw(copy)) as db:
        db.execute("DELETE FROM tickets")
    again = Told()
    assert audit_ledger(str(copy), KEY, again) != []
    assert again.fault(*parts) == "verifying seals: it is not told to its end"


def test_another_key_than_the_one_in_use_is_found(whole: Path) -> None:
    assert [fault.where for fault in audit_ledger(str(whole), "e" * 64)] == ["server.key"]
    assert audit_ledger(str(whole), None) == []


# ------------------------------------------------------------------------------------------------ what is no damage


def test_what_was_killed_is_whole(crashed: Path, tmp_path: Path) -> None:
    assert audit(Path(shutil.copytree(crashed, tmp_path / "data"))) == []


def test_a_count_that_lags_behind_is_a_power_cut_and_no_damage(copy: Path) -> None:
    count = copy / seals.COMMITS_FILE
    count.write_text(f"{int(count.read_text()) - 3:020}\n")
    assert audit(copy) == []
    SqliteLedger.open(copy).close()
    assert audit(copy) == []


def test_a_file_that_was_written_anew_by_sqlite_is_whole(copy: Path) -> None:
    with closing(raw(copy)) as db:
        db.execute("VACUUM")
    assert audit(copy) == []


def test_a_ledger_that_a_server_has_open_and_writes_is_looked_at(copy: Path) -> None:
    with closing(SqliteLedger.open(copy)) as ledger:
        for user in range(5):
            ledger.revoke(user)
            assert audit(copy) == []
