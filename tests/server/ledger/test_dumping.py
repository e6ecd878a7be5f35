"""A backup of a PostgreSQL ledger, by PostgreSQL's own programs: one snapshot, loaded whole or not at all."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.errors import DataError, UsageError
from askance_server import auth
from askance_server.app import open_resources
from askance_server.backups import Backup, DamagedBackupError, check_backup, make_backup, read_backup, restore_backup
from askance_server.ledger import LedgerBusyError, audit_ledger, open_ledger, refuse_servers
from askance_server.ledger.base import OtherKeyError
from askance_server.ledger.postgres import PostgresLedger, dumping
from askance_server.ledger.postgres.dumping import PostgresProgramError, load, refuse_tables
from askance_server.settings import Settings
from tests.server.ledger.ledgers import publish
from tests.server.ledger.test_backup import ID, ROUND, STUDY
from tests.test_operate import ELSEWHERE, pattern_of

pytest_plugins = ("tests.harness.postgres",)


@pytest.fixture(autouse=True)
def programs(postgres_programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's programs of the server's own version."""
    monkeypatch.setenv("PATH", f"{postgres_programs}{os.pathsep}{os.environ['PATH']}")


def at(url: str, directory: Path) -> Settings:
    return Settings(database=url, data_directory=directory)


@pytest.fixture
def filled(database: str, tmp_path: Path) -> Settings:
    """A database that servers have used, and their key."""
    settings = at(database, tmp_path / "keys")
    keys = auth.open_keys(settings.directory)
    with closing(open_ledger(database)) as ledger:
        ledger.check_key(keys.fingerprint)
        ledger.enrol(20, MICRO)
        publish(ledger, STUDY, ROUND)
    return settings


@pytest.fixture
def dumped(filled: Settings, tmp_path: Path) -> Backup:
    """A backup of it, made while a server has it open."""
    with closing(open_ledger(filled.database)):
        return make_backup(filled, tmp_path / "backup")


def test_a_database_comes_back_as_it_was_with_the_key_of_its_servers(
    dumped: Backup, empty_database: str, tmp_path: Path
) -> None:
    check_backup(read_backup(dumped.folder))
    settings = at(empty_database, tmp_path / "new")
    with pytest.raises(UsageError, match="--accept-loss"):
        restore_backup(dumped, settings)
    with pytest.raises(UsageError, match="--replaces: is of no use for a database"):
        restore_backup(dumped, settings, replaced=tmp_path, accept_loss=True)
    refuse_tables(empty_database)

    restore_backup(dumped, settings, accept_loss=True)
    fingerprint = auth.Keys(auth.read_key(settings.directory / auth.KEY_FILE)).fingerprint
    assert fingerprint == dumped.manifest.key_fingerprint
    assert [each.name for each in settings.directory.iterdir()] == [auth.KEY_FILE]
    assert audit_ledger(empty_database, fingerprint) == []
    with closing(open_ledger(empty_database)) as ledger:
        assert (ledger.enrolled(), ledger.studies()) == (20, [STUDY.digest()])
        assert ledger.received(ID) == 0
    # It overwrites nothing, and says so before it reads anything.
    told = list[tuple[str, int, int]]()
    with pytest.raises(DataError, match="is not empty"):
        restore_backup(dumped, settings, accept_loss=True, tell=lambda *step: told.append(step))
    assert told == []


def test_each_step_is_told_and_what_was_loaded_is_looked_at(
    filled: Settings, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[tuple[str, int, int]]()
    made = make_backup(filled, tmp_path / "backup", lambda *step: told.append(step))
    assert ("dumping the database", 0, 0) in told

    def spoiling(file: Path, url: str) -> None:
        load(file, url)
        with psycopg.connect(url) as link:
            link.execute("SELECT set_config('askance.schema', '99', false)")
            link.execute("UPDATE users SET cap = cap + 1")

    monkeypatch.setattr(dumping, "load", spoiling)
    with pytest.raises(DamagedBackupError, match=r"the ledger is damaged: .*drop this database, and use another"):
        restore_backup(
            made, at(empty_database, tmp_path / "new"), accept_loss=True, tell=lambda *step: told.append(step)
        )
    assert {("reading ledger.dump", 0, 0), ("loading the database", 0, 0)} <= set(told)


def test_a_dump_that_was_changed_is_found_before_anything_is_loaded(
    dumped: Backup, empty_database: str, tmp_path: Path
) -> None:
    (dumped.folder / "ledger.dump").write_bytes((dumped.folder / "ledger.dump").read_bytes() + b"\0")
    with pytest.raises(DamagedBackupError, match="is not what was backed up"):
        restore_backup(dumped, at(empty_database, tmp_path / "new"), accept_loss=True)
    refuse_tables(empty_database)


def test_a_damaged_database_is_not_taken_for_a_backup(filled: Settings, tmp_path: Path) -> None:
    with psycopg.connect(filled.database) as link:
        link.execute("SELECT set_config('askance.schema', '99', false)")
        link.execute("UPDATE users SET cap = cap + 1")
    with pytest.raises(DamagedBackupError, match="the ledger is damaged"):
        make_backup(filled, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_directory_and_a_database_are_not_mistaken_for_each_other(dumped: Backup, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds a ledger of PostgreSQL"):
        restore_backup(dumped, Settings(database=str(tmp_path / "new")), accept_loss=True)


def test_another_key_is_not_replaced(dumped: Backup, empty_database: str, tmp_path: Path) -> None:
    auth.open_keys(tmp_path / "other")
    with pytest.raises(DataError, match="is not the key of this backup"):
        restore_backup(dumped, at(empty_database, tmp_path / "other"), accept_loss=True)
    refuse_tables(empty_database)


def test_what_is_loaded_half_is_not_there(dumped: Backup, empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = dumped.folder / "ledger.dump"
    body = file.read_bytes()
    file.write_bytes(body[:-16])  # The tables are all there, and of the last rows the end is missing.
    with pytest.raises(DamagedBackupError, match=r"ledger\.dump is not what was backed up"):
        check_backup(dumped)
    with pytest.raises(PostgresProgramError, match="pg_restore: refused"):
        load(file, empty_database)
    refuse_tables(empty_database)

    # The control: a load in many transactions leaves some of it.
    run = dumping._run
    monkeypatch.setattr(
        dumping, "_run", lambda *given: run(*(each for each in given if each != "--single-transaction"))
    )
    with pytest.raises(PostgresProgramError):
        load(file, empty_database)
    with pytest.raises(DataError, match="is not empty"):
        refuse_tables(empty_database)


def test_a_database_without_a_ledger_and_a_missing_program_are_named(
    filled: Settings, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="holds no ledger"):
        make_backup(at(empty_database, tmp_path / "none"), tmp_path / "backup")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresProgramError, match=r"pg_dump: is not installed here \(install PostgreSQL's programs"):
        make_backup(filled, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_password_is_not_among_the_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program, told = tmp_path / "pg_dump", tmp_path / "told"
    program.write_text(f'#!/bin/sh\necho "$@" "($PGPASSWORD)" > {told}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    dumping._run("pg_dump", "postgresql://me:secret@db.test/name?sslmode=require", "--format=custom")
    arguments, password = told.read_text().rstrip(")\n").split(" (")
    assert password == "secret"
    assert "secret" not in arguments
    assert {"user=me", "host=db.test", "dbname=name", "sslmode=require"} <= set(
        arguments.replace("--dbname=", "").split()
    )


def test_servers_that_are_connected_are_told(filled: Settings) -> None:
    refuse_servers(filled.database)
    with closing(PostgresLedger.open(filled.database)), pytest.raises(LedgerBusyError, match="1 connection"):
        refuse_servers(filled.database)


def test_a_program_that_is_older_than_the_database_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "pg_dump"
    program.write_text("#!/bin/sh\necho 'pg_dump: error: aborting because of server version mismatch' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(
        PostgresProgramError, match=r"aborting because.*\(install PostgreSQL's programs of the database's"
    ):
        dumping._run("pg_dump", None)


def test_servers_with_another_key_are_refused_as_the_runbook_says(filled: Settings, tmp_path: Path) -> None:
    [message] = ELSEWHERE
    auth.open_keys(tmp_path / "other")
    with pytest.raises(OtherKeyError, match=pattern_of(message)):
        open_resources(at(filled.database, tmp_path / "other"))
