"""Several servers on one PostgreSQL: a database that takes no writes for a while, and a server with another key."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from askance_protocol.budget import MICRO
from askance_server.auth import KEY_FILE, Keys
from askance_server.ledger.base import LedgerAwayError, LedgerError, OtherKeyError, Verdict
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres
from askance_server.ledger.postgres import link as link_of_postgres
from tests.harness.marks import SECONDS
from tests.harness.servers import COMMAND, is_problem, serving
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

pytest_plugins = ("tests.harness.postgres",)

STUDY = study()
ROUND = round_of(part(), of=STUDY)


def take_writes(url: str, *, yes: bool) -> None:
    """As a failover does: every session ends, and those that follow may write, or not."""
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("SET default_transaction_read_only = off")
        name = link.info.dbname
        link.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {'off' if yes else 'on'}".encode())
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        if not yes:
            link.execute(others, (name,))


def have_space(url: str, *, yes: bool, code: str = "53100") -> None:
    """As when the database's disk is full: each write is refused with this code, in the session that it came by."""
    with psycopg.connect(url, autocommit=True) as link:
        if yes:
            link.execute("DROP FUNCTION no_space CASCADE")
            return
        refuse = f"BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '{code}'; END"
        link.execute(f"CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ {refuse} $$".encode())
        for (table,) in link.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            trigger = f"CREATE TRIGGER no_space BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION no_space()"
            link.execute(trigger.encode())


def report(ledger: PostgresLedger, user: int) -> Verdict:
    return Verdict(ledger.charge(ROUND.digest(), np.array([user], np.uint64), np.array([1], np.uint32))[0])


def goes_on(url: str, take_writes: Callable[..., None] = take_writes) -> list[str]:
    """What a ledger does wrong while its database takes no writes, and after that."""
    wrong: list[str] = []
    with closing(PostgresLedger.open(url)) as ledger:
        publish(ledger, STUDY, ROUND)
        ledger.enrol(4, MICRO)
        report(ledger, 0)
        take_writes(url, yes=False)
        for write in (lambda: report(ledger, 1), lambda: ledger.enrol(1, MICRO), ledger.check_writable):
            try:
                write()
                wrong.append("it was written")
            except LedgerAwayError:
                pass
            except LedgerError as error:
                wrong.append(f"it is taken for broken: {error}")
        if (ledger.enrolled(), ledger.received(ROUND.digest())) != (4, 1):
            wrong.append("it cannot be read")
        take_writes(url, yes=True)
        for user in (1, 2):
            # What was opened while it took none may be told so once more.
            try:
                told = report(ledger, user)
            except LedgerError:
                told = report(ledger, user) if user == 1 else None
            if told is not Verdict.ACCEPTED:
                wrong.append("it does not go on")
        if ledger.verify():
            wrong.append("it is not sound")
    return wrong


def test_a_database_that_takes_no_writes_is_away_and_not_broken(database: str) -> None:
    assert goes_on(database) == []


def test_a_database_whose_disk_is_full_is_away_and_not_broken(database: str) -> None:
    assert goes_on(database, have_space) == []


def test_control_an_error_that_is_not_of_the_surroundings_is_found_in_its_place(database: str) -> None:
    wrong = goes_on(database, partial(have_space, code="XX000"))

    assert any("it is taken for broken" in each for each in wrong)


def test_control_a_ledger_that_does_not_know_of_it_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the error stopped the server, and its session would never have written again."""
    from askance_server.ledger.postgres import link

    class Never(Exception):
        """Is not raised."""

    monkeypatch.setattr(link, "ReadOnlySqlTransaction", Never)
    wrong = goes_on(database)

    assert any("it is taken for broken" in each for each in wrong)


def test_control_a_session_that_is_kept_stays_without_writes(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Never(Exception):
        """Is not raised."""

    monkeypatch.setattr(postgres, "ReadOnlySqlTransaction", Never)

    with pytest.raises(LedgerAwayError):
        goes_on(database)


def until(happens: Callable[[], bool]) -> None:
    """Wait for it; a hang fails."""
    end = time.monotonic() + SECONDS
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_replica_outlives_a_time_without_writes_and_another_key_is_refused(database: str, tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    with serving(first, "--database", database, "--data-directory", str(first)) as api:
        tokens = api.enrol(3)
        made = api.study()
        round_ = made["rounds"][0]["id"]
        assert api.report(round_, tokens[0]).status_code == 200
        take_writes(database, yes=False)
        is_problem(api.report(round_, tokens[1]), "not-ready")
        is_problem(api.get("/readyz"), "not-ready")
        assert api.get("/healthz").status_code == 200
        assert api.get(f"/v1/studies/{made['id']}").json()["rounds"][0]["received"] == 1
        # One that starts meanwhile serves what can be read.
        second.mkdir(mode=0o700)
        shutil.copy(first / KEY_FILE, second / KEY_FILE)
        with serving(second, "--database", database, "--data-directory", str(second)) as replica:
            assert replica.get(f"/v1/studies/{made['id']}").json()["state"] == "sealed"
            is_problem(replica.report(round_, tokens[1]), "not-ready")
            take_writes(database, yes=True)
            until(lambda: api.report(round_, tokens[1]).status_code == 200)
            until(lambda: replica.report(round_, tokens[2]).status_code == 200)
            for each in (api, replica):
                until(lambda each=each: each.get(f"/v1/studies/{made['id']}").json()["state"] == "finished")
        command = [*COMMAND, "--port", "0", "--database", database, "--data-directory", str(other)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert refused.returncode != 0
        [line] = [line for line in refused.stderr.splitlines() if line.strip()]
        assert "is the ledger of servers with another key" in line
        assert api.get("/readyz").status_code == 200


def test_the_first_key_is_that_of_all_and_its_fingerprint_is_no_secret(database: str) -> None:
    mine, others = Keys(b"\1" * 32), Keys(b"\2" * 32)
    assert len({mine.fingerprint, others.fingerprint, (b"\1" * 32).hex()}) == 3
    with closing(PostgresLedger.open(database)) as ledger:
        ledger.check_key(mine.fingerprint)
        ledger.check_key(Keys(b"\1" * 32).fingerprint)
    with closing(PostgresLedger.open(database)) as ledger:
        ledger.check_key(mine.fingerprint)
        with pytest.raises(OtherKeyError, match="ASKANCE_SERVER_KEY"):
            ledger.check_key(others.fingerprint)


def test_a_database_that_is_lost_right_after_it_took_a_connection_is_away(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error that should not be, and 500, where the database was killed under load."""
    settle = link_of_postgres._settle

    def lost(link: psycopg.Connection[Any], url: str) -> None:
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", (link.info.backend_pid,)).fetchall()
        settle(link, url)

    monkeypatch.setattr(link_of_postgres, "_settle", lost)
    with pytest.raises(LedgerAwayError):
        PostgresLedger.open(database)
