"""`askance upgrade`: what is older is tried on a copy, backed up, brought up to date and verified; or nothing is."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from askance_client.wallet import wallet_version
from askance_lab.commands import upgrade as upgrade_command
from askance_lab.commands.shared import scratch
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import AskanceError
from askance_server import backups
from askance_server.backups import check_backup, read_backup
from askance_server.ledger import audit_ledger
from askance_server.ledger.sqlite import FILE, SqliteLedger
from tests.client.stepwise import TORTURE, kill_everywhere
from tests.client.test_wallet_upgrade import old_at as old_wallet_at
from tests.lab.commands.calls import at_home, invoke
from tests.server.ledger.test_upgrade import TOLD, of_schema_3, old_at, schema_of


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        monkeypatch.delenv(name)


def upgrade(*options: object) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(invoke("upgrade", *options, "--json"))
    assert told["schema_version"] == 1
    return told


def test_to_check_says_what_would_be_done_and_changes_nothing() -> None:
    old_at(Path("data"))
    before = Path("data", FILE).read_bytes()

    told = invoke("upgrade", "--database", "data", "--check")
    assert told == "ledger  data: version 2, would be brought to 4\nnothing was changed\n"
    assert Path("data", FILE).read_bytes() == before
    assert [each.name for each in Path().iterdir()] == ["data"]


def test_a_ledger_of_version_0_1_is_backed_up_and_upgraded() -> None:
    old_at(Path("data"))
    told = upgrade("--database", "data", "--backup", "before")
    assert told["found"] == [{"kind": "ledger", "where": "data", "found": 2, "current": 4, "state": "upgraded"}]
    assert (told["changed"], told["backup"]) == (True, "before")
    assert audit_ledger("data") == []
    with closing(SqliteLedger.open(Path("data"))) as ledger:
        TOLD.assert_same_totals(ledger)
    check_backup(made := read_backup(Path("before")))
    assert made.manifest.ledger_schema == 2

    again = upgrade("--database", "data")
    assert (again["changed"], again["backup"], again["found"][0]["state"]) == (False, None, "current")

    # The way back: the ledger as it was, which says that it is older.
    assert "askance upgrade --database back" in invoke("restore", "before", "--database", "back", "--accept-loss")
    assert schema_of(Path("back")) == 2


def test_a_backup_may_be_in_a_folder_that_is_not_there_yet() -> None:
    old_at(Path("data"))
    assert upgrade("--database", "data", "--backup", "backups/before")["backup"] == "backups/before"
    assert [each.name for each in Path("backups").iterdir()] == ["before"]


def test_wallets_are_upgraded_and_no_copy_of_them_is_kept() -> None:
    wallet = old_wallet_at(Path())
    assert upgrade("--wallet", wallet, "--check")["found"][0]["state"] == "older"
    assert wallet_version(wallet) == 1
    told = upgrade("--wallet", wallet)
    assert told["found"] == [{"kind": "wallet", "where": "wallet", "found": 1, "current": 2, "state": "upgraded"}]
    assert told["backup"] is None
    assert wallet_version(wallet) == 2
    assert [each.name for each in Path().iterdir()] == ["wallet"]


def test_what_is_damaged_is_found_on_the_copy_and_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    data = of_schema_3(Path("data"))
    with closing(sqlite3.connect(data / FILE, isolation_level=None)) as db:
        db.execute("UPDATE enrolments SET cap = cap + 1")
    before = (data / FILE).read_bytes()
    code, out, err = at_home(capsys, "upgrade", "--database", "data")
    assert (code, out) == (Exit.INTERNAL, "")
    assert "table enrolments is not what it was" in err
    assert (data / FILE).read_bytes() == before
    assert {each.name for each in Path().iterdir()} == {"data"}


def test_a_ledger_that_is_not_whole_afterwards_is_said_to_be_so_with_the_way_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_schema_3(Path("data"))
    tried = upgrade_command.open_ledger

    def spoiling(database: str) -> Any:
        tried(database).close()
        if database == "data":  # The copy was well.
            with closing(sqlite3.connect(Path(database) / FILE, isolation_level=None)) as db:
                db.execute("UPDATE enrolments SET cap = cap + 1")
        return sqlite3.connect(":memory:")  # It is closed again.

    monkeypatch.setattr(upgrade_command, "open_ledger", spoiling)
    code, _, err = at_home(capsys, "upgrade", "--database", "data", "--backup", "before")
    assert code == Exit.CHECK_FAILED
    assert "is not whole once it is of schema 4: table enrolments" in err
    assert "start no server; go back to the version from before, and restore before" in err
    check_backup(read_backup(Path("before")))


def test_a_running_server_and_a_place_without_a_ledger_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    of_schema_3(Path("data"))
    with closing(SqliteLedger.open(Path("current"))):
        assert upgrade("--database", "current")["found"][0]["state"] == "current"
    with Path("data/lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, _, err = at_home(capsys, "upgrade", "--database", "data")
    assert (code, "is in use by process" in err) == (Exit.USAGE, True)
    assert at_home(capsys, "upgrade", "--database", "nowhere")[0] == Exit.USAGE
    assert at_home(capsys, "upgrade", "--wallet", "nowhere")[0] == Exit.USAGE


# ---------------------------------------------------------------------------------------------------------------- kills


def half_upgrades(folder: Path, upgrade_all: Callable[[Path], object]) -> dict[str, int]:
    """Upgrades that are killed at many places; what was left, by what is wrong with it."""

    def upgraded(place: Path) -> None:
        old_at(place / "data")
        upgrade_all(place)

    def half(place: Path) -> list[str]:
        try:
            if (place / "backup").exists():
                check_backup(read_backup(place / "backup"))
            if not (place / "data" / FILE).exists():
                return []  # It was killed before there was anything.
            with closing(SqliteLedger.open(place / "data")) as ledger:
                TOLD.assert_same_totals(ledger)
        except (AskanceError, AssertionError) as error:
            return [type(error).__name__]
        return [fault.what for fault in audit_ledger(str(place / "data"))]

    folder.mkdir()
    return kill_everywhere(folder, upgraded, half, kills=300 if TORTURE else 8, modules=[backups, upgrade_command])


def test_an_upgrade_that_is_killed_leaves_the_old_ledger_or_the_new_one(tmp_path: Path) -> None:
    def command(place: Path) -> None:
        invoke("upgrade", "--database", place / "data", "--backup", place / "backup")

    assert half_upgrades(tmp_path / "kills", command).keys() == {"whole"}


def test_an_upgrade_in_two_steps_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the ledger is taken apart, and put together again."""

    def in_two_steps(place: Path) -> None:
        with closing(sqlite3.connect(place / "data" / FILE, isolation_level=None)) as db:
            db.execute("CREATE TABLE kept AS SELECT * FROM enrolments")
            db.execute("DELETE FROM enrolments")
            db.execute("INSERT INTO enrolments SELECT * FROM kept")
            db.execute("DROP TABLE kept")

    assert half_upgrades(tmp_path / "planted", in_two_steps).keys() > {"whole"}


def copies_left(folder: Path, old: Callable[[Path], Path], option: str) -> dict[str, int]:
    """Kill upgrades at many places: those that left copies, and those whose copies the next upgrade has left, too."""
    found = {"left by the kill": 0, "left by the next": 0}

    def upgraded(place: Path) -> None:
        invoke("upgrade", option, old(place), "--backup", place / "backup")

    def copies(place: Path) -> list[Path]:
        return [file for at in (place, folder) for file in at.glob("askance-upgrade-*/*") if file.name != "alive"]

    def left(place: Path) -> list[str]:
        found["left by the kill"] += bool(copies(place))
        (place / "other").mkdir()
        # Whatever there is to be upgraded: it may be current by now.
        invoke("upgrade", "--wallet", old_wallet_at(place / "other"), "--backup", place / "backup")
        found["left by the next"] += bool(copies(place))
        return []

    (folder / "kills").mkdir()
    kill_everywhere(folder / "kills", upgraded, left, kills=300 if TORTURE else 16, modules=[upgrade_command, scratch])
    return found


@pytest.mark.parametrize(
    ("old", "option"),
    [(lambda place: old_at(place / "data"), "--database"), (old_wallet_at, "--wallet")],
    ids=["ledger", "wallet"],
)
def test_the_copies_of_an_upgrade_that_was_killed_go_with_the_next(
    old: Callable[[Path], Path], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wallet's copy has its owner's example, and an old account of what she has spent."""
    for name in ("kept", "planted"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        if name == "planted":  # The control.
            for module in (upgrade_command, scratch):
                monkeypatch.setattr(module, "remove_abandoned", lambda *_: None)
        found = copies_left(tmp_path / name, old, option)
        assert found["left by the kill"] > 0
        assert (found["left by the next"] == 0) == (name == "kept")
