"""`askance backup` and `askance restore`: what they say to people and to programs, and how they end."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.budget import MICRO
from askance_server.app import open_resources
from askance_server.settings import Settings
from tests.lab.commands.calls import at_home, invoke


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        monkeypatch.delenv(name)


def enrol(users: int, directory: str = "askance-data") -> None:
    """What a server does that is started, takes so many users, and is stopped."""
    with closing(open_resources(Settings(database=directory)).ledger) as ledger:
        ledger.enrol(users, MICRO)


def test_a_backup_has_a_name_of_its_own_and_says_that_it_is_secret() -> None:
    enrol(3)
    told = invoke("backup")
    [made] = Path().glob("askance-backup-*")
    assert told.startswith(f"{made}: askance-data, 3 files, ")
    assert "looked at and whole\nit holds server.key: keep it as secret" in told


def test_programs_are_told_the_same() -> None:
    enrol(3)
    made = json.loads(invoke("backup", "--out", "b", "--json"))
    assert set(made) == {
        *("schema_version", "backup", "made_at", "askance", "ledger", "ledger_schema", "commits", "has_key", "bytes")
    }
    assert (made["schema_version"], made["backup"], made["ledger"], made["has_key"]) == (1, "b", "sqlite", True)
    checked = json.loads(invoke("restore", "b", "--check", "--json"))
    assert checked == {"schema_version": 1, "backup": "b", "made_at": made["made_at"], "whole": True}
    assert invoke("restore", "b", "--check") == f"b: of {made['made_at']}, looked at and whole\n"

    Path("askance-data").rename("old")
    restored = json.loads(invoke("restore", "b", "--replaces", "old", "--json"))
    assert restored == {
        "schema_version": 1,
        "backup": "b",
        "made_at": made["made_at"],
        "database": "askance-data",
        "lost_commits": 0,
        "next": [],
    }


def test_what_is_lost_has_to_be_accepted_and_what_to_do_about_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    enrol(3)
    invoke("backup", "--out", "b")
    enrol(2)
    Path("askance-data").rename("old")

    code, out, err = at_home(capsys, "restore", "b", "--replaces", "old")
    assert (code, out) == (Exit.USAGE, "")
    assert "lost: 1 commit that followed on the backup. What users have spent since is forgotten" in err
    assert "a person's own wallet remembers" in err
    assert not Path("askance-data").exists()

    code, out, _ = at_home(capsys, "restore", "b", "--replaces", "old", "--accept-loss")
    first, *steps = out.splitlines()
    assert code == Exit.OK
    assert first.startswith("askance-data: as it was at ")
    assert [step.split()[1] for step in steps] == ["cancel", "if"]


def test_a_key_that_is_a_setting_is_to_be_kept_by_who_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_SERVER_KEY", "0" * 64)
    open_resources(Settings(database="askance-data", server_key=bytes(32))).ledger.close()  # pyright: ignore[reportArgumentType]
    assert "the key is not in it, because it is a setting" in invoke("backup", "--out", "b")
    restored = json.loads(invoke("restore", "b", "--database", "new", "--accept-loss", "--json"))
    assert "ASKANCE_SERVER_KEY" in restored["next"][0]
    assert [each.name for each in Path("new").iterdir() if each.name == "server.key"] == []


def test_a_ledger_without_its_key_is_backed_up_and_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    enrol(3)
    Path("askance-data/server.key").unlink()
    assert "there was no server.key" in invoke("backup", "--out", "b")


def test_a_damaged_backup_ends_with_the_code_of_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    enrol(3)
    invoke("backup", "--out", "b")
    Path("b/server.key").write_text("0" * 64)
    for more in (["--check"], ["--database", "new", "--accept-loss"]):
        code, out, err = at_home(capsys, "restore", "b", *more)
        assert (code, out) == (Exit.CHECK_FAILED, "")
        assert err == "askance: b: is damaged: server.key is not what was backed up (use another backup)\n"
    assert not Path("new").exists()
