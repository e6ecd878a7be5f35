"""`askance doctor`: what is not well is found, each fault by a check of its own, and nothing is changed."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.commands import doctor as doctor_command
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.budget import MICRO
from askance_protocol.progress import Tell
from askance_server import auth
from askance_server.app import open_resources
from askance_server.ledger import open_ledger
from askance_server.ledger.base import Fault, LedgerAwayError, LedgerError
from askance_server.ledger.schemas import migrations
from askance_server.ledger.sqlite import FILE
from askance_server.ledger.sqlite.opening import lock
from askance_server.settings import Settings
from tests.harness.certificates import made
from tests.harness.marks import SECONDS
from tests.harness.ports import lasting_port, nobody
from tests.lab.commands.test_health import answering
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

pytest_plugins = ("tests.harness.postgres",)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASKANCE_PORT", "0")  # whoever listens on this machine is no affair of these tests
    return tmp_path


def called(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


class FakeLedger:
    faults: tuple[Fault, ...] = ()
    closed = 0

    def verify(self, tell: Tell) -> list[Fault]:
        tell("verifying", 1, 1)
        return [*self.faults]

    def enrolled(self) -> int:
        return 12

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def started(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory as a first start leaves it, with a stand-in for its ledger."""
    data = directory / "data"
    auth.write_tokens(data, auth.open_keys(data))
    (data / FILE).touch()
    monkeypatch.setattr(doctor_command, "open_ledger", lambda database: FakeLedger())
    return data


def doctor(data: Path | str, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    code, printed = called("doctor", "--database", str(data), "--json", *options)
    report = json.loads(printed)
    assert report["schema_version"] == 1
    assert report["ok"] == (code == Exit.OK)
    return code, {check["name"]: check for check in report["checks"]}


def test_doctor_finds_a_started_server_well_and_closes_its_ledger(started: Path) -> None:
    before = FakeLedger.closed

    code, checks = doctor(started)

    assert (code, {check["outcome"] for check in checks.values()}) == (Exit.OK, {"ok"})
    assert set(checks) == {
        *(
            "python",
            "settings",
            "port",
            "directory",
            "key",
            "operator token",
            "enrolment token",
            "ledger",
            "disk",
            "clock",
        )
    }
    assert "12 users" in checks["ledger"]["detail"]
    assert FakeLedger.closed == before + 1


def test_doctor_makes_nothing_where_nothing_was_started(directory: Path) -> None:
    code, _ = doctor(directory / "new")
    assert code == Exit.OK
    assert not (directory / "new").exists()


def test_doctor_prints_a_table_with_the_next_step_below_what_is_not_well(started: Path) -> None:
    (started / "server.key").chmod(0o644)

    code, printed = called("doctor", "--database", str(started))

    assert code == Exit.CHECK_FAILED
    failed, step = next(
        (a, b) for a, b in zip(printed.splitlines(), printed.splitlines()[1:], strict=False) if "failed" in a
    )
    assert "0644" in failed
    assert f"→ chmod 600 {started / 'server.key'}" in step


@pytest.mark.parametrize("name", ["operator.token", "enrolment.token", "server.key"])
def test_doctor_fails_on_a_secret_that_others_can_read(started: Path, name: str) -> None:
    (started / name).chmod(0o640)
    code, checks = doctor(started)
    assert code == Exit.CHECK_FAILED
    assert [check["next"] for check in checks.values() if check["outcome"] == "failed"] == [
        f"chmod 600 {started / name}"
    ]


@pytest.mark.parametrize(("mode", "outcome"), [(0o700, "ok"), (0o755, "warning"), (0o777, "failed")])
def test_doctor_looks_at_who_may_enter_the_directory(started: Path, mode: int, outcome: str) -> None:
    started.chmod(mode)
    assert doctor(started)[1]["directory"]["outcome"] == outcome


def test_doctor_reports_the_faults_of_a_ledger(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLedger, "faults", (Fault("user 7", "spent more than her reports cost"),))
    code, checks = doctor(started)
    assert code == Exit.CHECK_FAILED
    assert "1 faults, the first at user 7: spent more" in checks["ledger"]["detail"]


@pytest.mark.parametrize(
    ("error", "detail"),
    [(LedgerError("group 2 is damaged"), "group 2 is damaged"), (KeyError("x"), "cannot be read: KeyError")],
)
def test_doctor_survives_a_ledger_that_does_not_open(
    started: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, detail: str
) -> None:
    def broken(database: str) -> FakeLedger:
        raise error

    monkeypatch.setattr(doctor_command, "open_ledger", broken)
    code, checks = doctor(started)
    assert (code, checks["ledger"]["outcome"]) == (Exit.CHECK_FAILED, "failed")
    assert detail in checks["ledger"]["detail"]


def test_doctor_beside_a_running_server_does_not_ask_to_stop_it(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "open_ledger", lambda database: lock(Path(database)))
    descriptor = lock(started)
    try:
        code, checks = doctor(started)
    finally:
        os.close(descriptor)
    ledger = checks["ledger"]
    assert (code, ledger["outcome"]) == (Exit.OK, "warning")
    assert ledger["detail"] == f"is in use by process {os.getpid()}"  # Its own, here.
    assert "askance doctor --deep looks beside it" in ledger["next"]


@pytest.mark.parametrize(("days", "outcome"), [(20, "warning"), (4, "ok")])
def test_doctor_warns_when_a_tenth_of_a_certificate_s_time_is_left(
    started: Path, monkeypatch: pytest.MonkeyPatch, days: int, outcome: str
) -> None:
    """Its last day begins: of twenty days, or, as a control, of four."""
    pair = made(started.parent, "localhost", begins=1 - days, days=days)
    monkeypatch.setenv("ASKANCE_CERTIFICATE", str(pair.certificate))
    monkeypatch.setenv("ASKANCE_KEY", str(pair.key))
    code, checks = doctor(started)
    assert (code, checks["certificate"]["outcome"]) == (Exit.OK, outcome)


def deep(data: Path | str) -> list[dict[str, str]]:
    """What the audit finds, each with what to do next."""
    code, printed = called("doctor", "--deep", "--database", str(data), "--json")
    failed = [check for check in json.loads(printed)["checks"] if check["outcome"] == "failed"]
    assert code == (Exit.CHECK_FAILED if failed else Exit.OK)
    assert all(check["detail"] and check["where"] and check["next"] for check in failed)
    return failed


@pytest.fixture
def kept(directory: Path) -> Path:
    """A data directory with a ledger in which something has happened, closed in good order."""
    data = directory / "data"
    opened = open_resources(Settings(database=str(data)))
    with closing(opened.ledger) as ledger:
        ledger.enrol(10, MICRO)
        ledger.revoke(3)
        bulletin = publish(ledger, spec := study(), round_ := round_of(part(), of=spec))
        ledger.charge(round_.digest(), np.arange(6, dtype=np.uint64), np.ones(6, np.uint32))
        assert bulletin.length == 2
    return data


def sql(data: Path, statement: str) -> None:
    with closing(sqlite3.connect(data / FILE, isolation_level=None)) as db:
        db.execute(statement)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a cap changed": (lambda data: sql(data, "UPDATE enrolments SET cap = cap + 1"), "table enrolments"),
    "a user added": (lambda data: sql(data, "UPDATE enrolments SET users = users + 1"), "table enrolments"),
    "a revocation gone": (lambda data: sql(data, "DELETE FROM epochs"), "table epochs"),
    "log rows gone": (lambda data: sql(data, "DELETE FROM report_groups"), "table report_groups"),
    "an entry altered": (
        lambda data: sql(data, "UPDATE entries SET body = CAST(body || ' ' AS BLOB)"),
        "table entries",
    ),
    "the ledger gone": (lambda data: (data / FILE).unlink(), FILE),
    "the key gone": (lambda data: (data / "server.key").unlink(), "server.key"),
    "another key": (lambda data: (data / "server.key").write_text("f" * 64), "server.key"),
    "the ledger cut": (lambda data: os.truncate(data / FILE, 9000), FILE),
    "no ledger at all": (lambda data: (data / FILE).write_bytes(b"not a database" * 1000), FILE),
    "an older copy": (lambda data: (data / "ledger.commits").write_text(f"{10**6:020}"), FILE),
}


@pytest.mark.parametrize(("damage", "where"), DAMAGE.values(), ids=DAMAGE)
def test_doctor_says_what_is_damaged_and_where_and_what_to_do(
    kept: Path, damage: Callable[[Path], object], where: str
) -> None:
    assert deep(kept) == []
    damage(kept)
    found = deep(kept)
    assert any(where in check["where"] for check in found), found
    # Also in the table that a person reads.
    code, printed = called("doctor", "--deep", "--database", str(kept))
    assert code == Exit.CHECK_FAILED
    assert where in printed
    assert "→ " in printed


@pytest.fixture
def shared(database: str) -> str:
    """A database with a ledger in which something has happened; its server's key is where doctor looks for it."""
    opened = open_resources(Settings(database=database))
    with closing(opened.ledger) as ledger:
        ledger.enrol(10, MICRO)
        ledger.revoke(3)
        publish(ledger, spec := study(), round_ := round_of(part(), of=spec))
        ledger.charge(round_.digest(), np.arange(6, dtype=np.uint64), np.ones(6, np.uint32))
    return database


KEY_OF_A_REPLICA = Path("askance-data/server.key")

DAMAGE_IN_A_DATABASE: dict[str, tuple[str | Callable[[], object], str]] = {
    "a cap changed": ("UPDATE users SET cap = cap + 1 WHERE number = 2", "table users"),
    "a user added": ("INSERT INTO users (number, cap) VALUES (10, 1)", "table users"),
    "a revocation gone": ("UPDATE users SET epoch = 0", "table users"),
    "log rows gone": ("DELETE FROM reports WHERE user_number = 4", "round "),
    "a report altered": ("UPDATE reports SET outcome = 0 WHERE user_number = 4", "round "),
    "an entry gone": ("DELETE FROM entries WHERE sequence = 1", "table entries"),
    "the ledger gone": ("DROP SCHEMA public CASCADE; CREATE SCHEMA public", "postgresql://"),
    "the key gone": (KEY_OF_A_REPLICA.unlink, "server.key"),
    "another key": (lambda: KEY_OF_A_REPLICA.write_text("f" * 64), "server key"),
}


@pytest.mark.parametrize(("damage", "where"), DAMAGE_IN_A_DATABASE.values(), ids=DAMAGE_IN_A_DATABASE)
def test_doctor_says_so_of_a_database_too(shared: str, damage: str | Callable[[], object], where: str) -> None:
    assert deep(shared) == []
    if isinstance(damage, str):
        with psycopg.connect(shared) as link:
            link.execute("SET session_replication_role = replica")
            link.execute(damage.encode())
    else:
        damage()
    found = deep(shared)
    assert any(where in check["where"] for check in found), found


def test_doctor_neither_makes_nor_upgrades_a_ledger_in_a_database(empty_database: str) -> None:
    def tables() -> int:
        with psycopg.connect(empty_database) as link:
            ((count,),) = link.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchall()
            return count

    code, checks = doctor(empty_database)
    assert (code, checks["ledger"]["detail"], tables()) == (Exit.OK, "will be made at the first start", 0)

    with psycopg.connect(empty_database) as link:
        link.execute(migrations("postgres")[1].encode())
        link.execute("INSERT INTO schema_version (version) VALUES (1)")
    before = tables()
    code, checks = doctor(empty_database)
    assert (code, checks["ledger"]["outcome"], tables()) == (Exit.OK, "warning", before)
    assert "askance upgrade" in checks["ledger"]["next"]
    (found,) = deep(empty_database)
    assert "stop all servers" in found["next"]
    assert tables() == before


def test_doctor_looks_at_the_ledger_of_a_running_server_and_changes_nothing(kept: Path) -> None:
    with closing(open_ledger(str(kept))) as ledger:
        before = (kept / FILE).read_bytes()
        assert deep(kept) == []
        ledger.enrol(1, MICRO)
        assert deep(kept) == []
        assert (kept / FILE).read_bytes() == before
        # Without --deep it says whom to ask.
        assert "askance health" in doctor(kept)[1]["ledger"]["next"]


def test_doctor_does_not_bring_an_older_ledger_up_to_date(kept: Path) -> None:
    sql(kept, "PRAGMA user_version = 2")
    code, checks = doctor(kept)
    assert (code, checks["ledger"]["outcome"]) == (Exit.OK, "warning")
    assert "askance upgrade" in checks["ledger"]["next"]
    (found,) = deep(kept)
    assert "start the server once" in found["next"]


@pytest.mark.parametrize("options", [(), ("--deep",)], ids=["", "deep"])
def test_doctor_never_advises_a_restore_for_what_is_merely_away(
    kept: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """A database that does not answer, a file that is locked, and a file of another user."""
    _, away = doctor("postgresql://ann@127.0.0.1:1/askance", *options)

    def locked(*_: object, **__: object) -> object:
        raise LedgerAwayError("ledger.sqlite cannot be opened: database is locked")

    def foreign(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied", "ledger.sqlite")

    def elsewhere(*_: object, **__: object) -> object:
        raise OSError(errno.ESTALE, "Stale file handle", "ledger.sqlite")

    def full(*_: object, **__: object) -> object:
        raise MemoryError

    told = [away["ledger"]]
    for fault in (locked, foreign, elsewhere, full):
        monkeypatch.setattr(doctor_command, "open_ledger", fault)
        monkeypatch.setattr(doctor_command, "audit_ledger", fault)
        told.append(doctor(kept, *options)[1]["ledger"])
    for check in told:
        assert check["outcome"] == "failed"
        assert not re.search("restore|backup", check["next"]), check

    # The control: damage is answered with a backup.
    def damaged(*_: object, **__: object) -> object:
        raise LedgerError("group 2 is damaged")

    def unreadable(*_: object, **__: object) -> object:
        raise OSError(errno.EIO, "Input/output error", "ledger.sqlite")

    for fault in (damaged, unreadable):
        monkeypatch.setattr(doctor_command, "open_ledger", fault)
        monkeypatch.setattr(doctor_command, "audit_ledger", fault)
        assert "restore a backup" in doctor(kept, *options)[1]["ledger"]["next"]


def port_of(data: Path, port: int | str, monkeypatch: pytest.MonkeyPatch, host: str = "127.0.0.1") -> dict[str, str]:
    monkeypatch.setenv("ASKANCE_PORT", str(port))
    monkeypatch.setenv("ASKANCE_HOST", host)
    _, checks = doctor(data)
    # A server that is stopped is merely away.
    assert not [each for each in checks.values() if re.search("restore|backup", each["next"])]
    return checks["port"]


def test_doctor_says_that_the_port_of_a_stopped_server_is_free(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = lasting_port()
    check = port_of(kept, port, monkeypatch)

    assert (check["outcome"], check["detail"]) == ("ok", f"127.0.0.1:{port} is free: no server runs there")
    # Nobody listens there now either.
    assert port_of(kept, port, monkeypatch) == check


@pytest.mark.parametrize(
    ("answer", "outcome", "detail", "step"),
    [
        ({}, "ok", "an Askance server of this version answers at", ""),
        ({"statuses": {"/readyz": 503}}, "warning", "is alive but not ready", "see that server's log"),
        ({"version": "2"}, "warning", "speaks version '2' of the protocol", "install the same version"),
        ({"version": None}, "warning", "answers, but is no Askance server", "askance serve --port "),
        ({"statuses": {"/healthz": 500}}, "warning", "answers with status 500", "askance serve --port "),
        ({"silent": True}, "warning", "does not answer in time", "askance serve --port "),
    ],
)
def test_doctor_says_who_listens_on_the_port_and_what_to_do(
    kept: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], outcome: str, detail: str, step: str
) -> None:
    monkeypatch.setattr(doctor_command, "_SECONDS_FOR_AN_ANSWER", 0.2 if answer.get("silent") else SECONDS)
    with answering(**answer) as url:
        check = port_of(kept, url.rpartition(":")[2], monkeypatch)

    assert check["outcome"] == outcome
    assert detail in check["detail"]
    assert step in check["next"]
    assert bool(check["next"]) == (outcome != "ok")


def test_doctor_says_that_a_port_is_taken_by_who_does_not_listen(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nobody() as url:
        check = port_of(kept, url.rpartition(":")[2], monkeypatch)
    assert check["outcome"] == "warning"
    assert "is taken, and nothing answers there" in check["detail"]
    assert "--port" in check["next"]


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_doctor_fails_on_an_address_that_is_not_of_this_machine(
    kept: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(doctor_command, "_SECONDS_FOR_AN_ANSWER", 0.2)
    check = port_of(kept, 8080, monkeypatch, host)
    assert (check["outcome"], "127.0.0.1" in check["next"]) == ("failed", True)


def test_doctor_sees_a_full_disk_and_a_clock_that_went_back(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(started / "server.key", (time.time() + 10**6, time.time() + 10**6))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    _, checks = doctor(started)
    assert (checks["clock"]["outcome"], checks["disk"]["outcome"]) == ("failed", "failed")


def test_doctor_warns_of_variables_that_nothing_reads(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_PROT", "1")
    code, checks = doctor(started)
    assert (code, checks["settings"]["outcome"]) == (Exit.OK, "warning")


def test_doctor_reports_settings_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_PORT", "x")
    code, checks = doctor("data")
    assert code == Exit.CHECK_FAILED
    assert checks["settings"]["detail"].startswith("ASKANCE_PORT: ")
    assert set(checks) == {"python", "settings"}
