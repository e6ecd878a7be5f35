"""What released versions have written is opened, tells what it told, and goes on; and so will what this one writes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from askance_client import WalletError
from askance_server.auth import Keys
from askance_server.ledger import LedgerError, audit_ledger
from askance_server.ledger.sqlite import FILE
from tests.harness.tree import ROOT
from tests.releases import __main__ as command
from tests.releases import keeping, ledger_story, wallet_story
from tests.releases.certain import BEGIN, certain
from tests.releases.keeping import DUMP, FILES, TOLD, changed, kept, made, missing, put, refusal, taken_out, write

pytest_plugins = ("tests.harness.postgres",)

Json = dict[str, Any]

LATER: Final = BEGIN + 3600
"""An hour after the files were written, by the clock that they know."""
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text("utf-8")
RELEASES: Final = {name: taken_out(name) for name in kept()}

each_release = pytest.mark.parametrize("name", RELEASES)


def untold(before: object, now: object, where: str = "") -> Iterator[str]:
    """What was told before and is not told now, or otherwise. What is new is no difference (docs/stable.md)."""
    match before, now:
        case Mapping(), Mapping():
            for name in before:
                if name in now:
                    yield from untold(before[name], now[name], f"{where}.{name}")
                else:
                    yield f"{where}.{name}"
        case list(), list() if len(before) == len(now):
            for place, (one, other) in enumerate(zip(before, now, strict=True)):
                yield from untold(one, other, f"{where}[{place}]")
        case _:
            if before != now:
                yield where


def as_told(name: str) -> Json:
    """What was told when the files were written."""
    return json.loads(RELEASES[name][TOLD])


def now_told(told: object) -> Any:
    """What is told now, as it would be written down."""
    return json.loads(json.dumps(told))


# ----------------------------------------------------------------------------------------------------- what is opened


@each_release
def test_a_ledger_of_a_release_tells_what_it_told_and_goes_on(name: str, tmp_path: Path) -> None:
    put(tmp_path / "data" / FILE, RELEASES[name][FILE])

    opened_and_told(name, tmp_path / "data")


@each_release
def test_a_database_of_a_release_tells_what_it_told_and_goes_on(name: str, tmp_path: Path, empty_database: str) -> None:
    with psycopg.connect(empty_database) as link:
        link.execute(RELEASES[name][DUMP])

    opened_and_told(name, tmp_path / "tokens", empty_database)


def opened_and_told(name: str, place: Path, database: str = "") -> None:
    told = as_told(name)["ledger"]
    with certain(LATER):
        for _ in range(2):  # And once more, now that it is of this version.
            with ledger_story.service_at(place, "4", database) as service:
                assert list(untold(told["told"], now_told(ledger_story.told(service)))) == []
        assert audit_ledger(database or str(place), Keys(ledger_story.KEY).fingerprint) == []
        with ledger_story.service_at(place, "4", database) as service:
            ledger_story.go_on(service, told)
        assert audit_ledger(database or str(place), Keys(ledger_story.KEY).fingerprint) == []


@each_release
def test_wallets_of_a_release_tell_what_they_told_and_go_on(name: str, tmp_path: Path) -> None:
    wallets = as_told(name)["wallets"]
    for file in ("wallet", "crew"):
        path = put(tmp_path / file, RELEASES[name][file])
        for _ in range(2):
            now = [wallet_story.told(path, owner) for owner in range(len(wallets["told"][file]))]
            assert list(untold(wallets["told"][file], now_told(now))) == []
    with certain(LATER):
        wallet_story.go_on(tmp_path, wallets)


@each_release
def test_the_files_of_a_release_are_as_they_were_written_and_lack_nothing(name: str, tmp_path: Path) -> None:
    told = as_told(name)

    assert changed(RELEASES[name]) == []
    assert list(ledger_story.lacking(told["ledger"]["told"])) == []
    assert list(wallet_story.lacking(told["wallets"]["told"])) == []


def test_every_release_has_left_its_files() -> None:
    assert missing(CHANGELOG) == set()
    # The control.
    assert missing("## Unreleased\n\n## 7.3.0 - a day\n\n## 7.2.1 - a day\n\n## 0.1.0 - a day\n") == {"7.2", "7.3"}


# ---------------------------------------------------------------------------------------- the controls: what is found


NEWEST: Final = RELEASES[max(RELEASES, key=lambda name: tuple(map(int, name.split("."))))]


@pytest.mark.parametrize("file", FILES)
def test_a_byte_that_is_changed_is_found(file: str) -> None:
    content = NEWEST[file]
    for place in range(0, len(content), 1 + len(content) // 50):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        assert changed({**NEWEST, file: damaged}) == [file]


def tables_of(content: bytes) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(_not_in_wal(content))
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        return [name for (name,) in db.execute(query)]


def _not_in_wal(content: bytes) -> bytes:
    """The file as one that has no log beside it, as SQLite asks of a copy in memory: two bytes say so."""
    return content[:18] + b"\x01\x01" + content[20:]


def without(path: Path, table: str) -> None:
    """Take a table out of a file."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        for (trigger,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute(f"DROP TABLE {table}")


@pytest.mark.parametrize("table", tables_of(NEWEST[FILE]))
def test_a_table_that_is_missing_in_a_ledger_is_found(table: str, tmp_path: Path) -> None:
    path = put(tmp_path / "data" / FILE, NEWEST[FILE])
    without(path, table)

    with pytest.raises(LedgerError), certain(LATER), ledger_story.service_at(tmp_path / "data", "4"):
        pass


@pytest.mark.parametrize("table", tables_of(NEWEST["wallet"]))
def test_a_table_that_is_missing_in_a_wallet_is_found(table: str, tmp_path: Path) -> None:
    path = put(tmp_path / "wallet", NEWEST["wallet"])
    without(path, table)

    with pytest.raises(WalletError):
        wallet_story.told(path, 0)


def test_what_is_told_otherwise_is_found() -> None:
    before = {"a": [{"b": 1}, {"c": None}], "d": "e"}

    assert list(untold(before, {**before, "new": 1})) == []
    assert list(untold(before, {"a": [{"b": 1, "new": 2}, {"c": 0}], "d": "e"})) == [".a[1].c"]
    assert list(untold(before, {"a": [{"b": 1}], "d": "f"})) == [".a", ".d"]
    assert list(untold(before, {"a": [{}, {"c": None}]})) == [".a[0].b", ".d"]


def test_what_is_lacking_is_named_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(NEWEST[TOLD])
    told["ledger"]["told"]["studies"] = told["ledger"]["told"]["studies"][:1]
    told["ledger"]["told"]["users"]["kinds"]["simulated"] = 0
    told["wallets"]["told"]["wallet"][0]["reports"].pop()
    found = [*ledger_story.lacking(told["ledger"]["told"]), *wallet_story.lacking(told["wallets"]["told"])]
    assert {"users: simulated", "studies: cancelled", "rounds: open"} < set(found)
    assert any(each.startswith("a report: ") for each in found)

    monkeypatch.setattr(keeping, "made", lambda _: (NEWEST, found))
    assert write("7.3", tmp_path) == found
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(keeping, "made", lambda _: (NEWEST, []))
    assert write("7.3", tmp_path) == []
    assert taken_out("7.3", tmp_path) == NEWEST


def test_the_files_of_a_release_are_never_written_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal("7.3", "## Unreleased\n") == ""
    assert "is released" in refusal("7.3", "## Unreleased\n\n## 7.3.0 - a day\n")
    for name in ("0.2", "7", "7.3.0", "../7.3"):
        assert "is no MAJOR.MINOR" in refusal(name, "")
    monkeypatch.setattr(sys, "argv", ["releases", "7.3.0"])
    assert command.main() == 2
    assert "7.3.0 is no MAJOR.MINOR" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_written_depends_on_the_code_alone(tmp_path: Path) -> None:
    """Not on the day, the folder, a number of a version, or the order of a set."""
    program = (
        "import sys; from pathlib import Path; from tests.releases import keeping as k;"
        "c, lacking = k.made(Path(sys.argv[1])); [(Path(sys.argv[1]) / ('made ' + f)).write_bytes(c[f]) for f in c]"
    )
    contents, lacking = made((tmp_path / "here").absolute().mkdir() or tmp_path / "here")
    (tmp_path / "there").mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Kolkata", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, tmp_path / "there"], env=environment, cwd=ROOT, check=True)
    others = {file: (tmp_path / "there" / f"made {file}").read_bytes() for file in contents}

    assert lacking == []
    assert {file for file in FILES if contents[file] != others[file]} <= {DUMP}
    one, other = (json.loads(each[TOLD]) for each in (contents, others))
    assert (one["ledger"], one["wallets"]) == (other["ledger"], other["wallets"])
