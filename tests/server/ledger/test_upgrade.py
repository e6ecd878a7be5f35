"""A ledger that version 0.1 made goes on with this version; killed at any statement of its upgrade, it is whole.

`fixtures/ledger_of_0_1.sqlite.xz` was made by version 0.1 (commit ac6be6c) with `fixtures/make_ledger_of_0_1.py`.
"""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from askance_protocol.budget import MICRO
from askance_server.auth import Keys
from askance_server.ledger import LedgerError, Ticket, UserKind, audit_ledger
from askance_server.ledger.schemas import migrations
from askance_server.ledger.sqlite import FILE, SqliteLedger, opening
from tests.harness.servers import Service
from tests.server.ledger.upgrading import FIXTURES, KEY, Told, killed

BODY: Final = lzma.decompress((FIXTURES / "ledger_of_0_1.sqlite.xz").read_bytes())
TOLD: Final = Told.of("ledger_of_0_1.json")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data directory of version 0.1."""
    return old_at(tmp_path / "data")


def old_at(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    (directory / FILE).write_bytes(BODY)
    return directory


def schema_of(directory: Path) -> int:
    with closing(sqlite3.connect(directory / FILE)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_the_ledger_of_version_0_1_has_no_seals_and_what_it_told_stays_true(old: Path) -> None:
    assert schema_of(old) == 2
    (found,) = audit_ledger(str(old))
    assert "start the server once" in found.next
    assert schema_of(old) == 2  # To look changed nothing.

    with closing(SqliteLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)
    assert schema_of(old) == max(migrations("sqlite"))
    assert audit_ledger(str(old)) == []
    with closing(SqliteLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)


def test_a_study_of_version_0_1_goes_on_to_its_end(old: Path) -> None:
    with Service(old, cap="4", server_key=KEY.hex()) as service:
        TOLD.go_on(service)
    assert audit_ledger(str(old), Keys(KEY).fingerprint) == []


# ------------------------------------------------------------------------------------------------------------- kills


def upgrade_killed(directory: Path, place: int, migrate: Callable[..., None] | None = None) -> bool:
    """Open a ledger in a child that is killed before its n-th statement; whether it came so far."""
    return killed(lambda: _open_until(directory, place, migrate))


def _open_until(directory: Path, place: int, migrate: Callable[..., None] | None) -> None:
    left = place
    connect = sqlite3.connect

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def counting(*given: Any, **named: Any) -> sqlite3.Connection:
        db = connect(*given, **named)
        db.set_trace_callback(count)
        return db

    sqlite3.connect = counting  # type: ignore[assignment]
    if migrate is not None:
        opening._migrate = migrate  # type: ignore[assignment]
    SqliteLedger.open(directory)


def broken_upgrades(folder: Path, migrate: Callable[..., None] | None = None) -> tuple[int, list[str]]:
    """Kill an upgrade at each of its statements: how many there are, and what was left behind that is not whole."""
    wrong: list[str] = []
    seen: set[int] = set()
    place = 1
    while not wrong and upgrade_killed(directory := old_at(folder / "data"), place, migrate):
        seen.add(version := schema_of(directory))
        with closing(sqlite3.connect(directory / FILE)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if ("seals" in tables, "kinds" in tables) != (version >= 3, version >= 4):
                wrong.append(f"killed at statement {place}: tables of two versions")
        try:
            with closing(SqliteLedger.open(directory)) as ledger:
                TOLD.assert_same_totals(ledger)
        except Exception as error:
            wrong.append(f"killed at statement {place}: {error}")
        else:
            wrong += [f"killed at statement {place}: {fault.what}" for fault in audit_ledger(str(directory))]
        place += 1
    assert wrong or seen == {2, 3, 4}  # Before each of its commits and after it.
    return place - 1, wrong


def test_an_upgrade_that_is_killed_leaves_one_version_or_the_other_whole(tmp_path: Path) -> None:
    statements, wrong = broken_upgrades(tmp_path)
    assert wrong == []
    assert statements > 20


def in_steps(db: sqlite3.Connection, path: Path) -> None:
    """The control: an upgrade whose statements are commits of their own."""
    db.executescript(migrations("sqlite")[3])
    opening.seal_all(db)
    db.execute("PRAGMA user_version = 3")


def of_schema_3(directory: Path) -> Path:
    """A ledger of schema 3, which `fixtures/make_ledger_of_schema_3.py` has made with the code of its time."""
    directory.mkdir(mode=0o700)
    (directory / FILE).write_bytes(lzma.decompress((FIXTURES / "ledger_of_schema_3.sqlite.xz").read_bytes()))
    return directory


def test_a_ledger_of_schema_3_goes_on_and_its_users_are_of_unknown_kind(tmp_path: Path) -> None:
    directory = of_schema_3(tmp_path / "data")
    (found,) = audit_ledger(str(directory))
    assert "start the server once" in found.next
    assert schema_of(directory) == 3

    for _ in range(2):
        with closing(SqliteLedger.open(directory)) as ledger:
            assert list(ledger.kinds().runs(15)) == [(range(15), UserKind.UNKNOWN)]
            assert sum(ledger.standing(user).account.spent for user in range(15)) == 8 * MICRO
            assert [ledger.epoch(3), ledger.epoch(4)] == [1, 0]
            assert ledger.verify() == []
        assert schema_of(directory) == 4
        assert audit_ledger(str(directory), "c" * 64) == []
    with closing(SqliteLedger.open(directory)) as ledger:
        assert ledger.enrol(2, MICRO, UserKind.SIMULATED, ticket=Ticket("0f" * 16, 2)) == range(15, 17)
    assert audit_ledger(str(directory), "c" * 64) == []


@pytest.mark.parametrize(
    "statement", ["UPDATE enrolments SET cap = cap + 1", "CREATE TRIGGER t AFTER INSERT ON epochs BEGIN SELECT 1; END"]
)
def test_damage_from_before_an_upgrade_is_found_after_it(tmp_path: Path, statement: str) -> None:
    directory = of_schema_3(tmp_path / "data")
    with closing(sqlite3.connect(directory / FILE, isolation_level=None)) as db:
        db.execute(statement)

    with pytest.raises(LedgerError, match="is not what it was when it was written last"):
        SqliteLedger.open(directory)
    assert schema_of(directory) == 4
    assert audit_ledger(str(directory), "c" * 64) != []


def test_an_upgrade_in_several_commits_is_found(tmp_path: Path) -> None:
    _, wrong = broken_upgrades(tmp_path, in_steps)
    assert any("two versions" in fault for fault in wrong)
