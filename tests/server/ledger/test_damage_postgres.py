"""Damage to a PostgreSQL ledger is found, whatever table and column it is in; what is no damage is not called so.

Tables and columns are read from the database: one that is added to the schema and not sealed fails here.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
import pytest
from psycopg.errors import UniqueViolation
from psycopg.sql import SQL, Identifier, Placeholder

from askance_protocol.budget import MICRO
from askance_protocol.progress import tell_nobody
from askance_server.ledger import Fault, LedgerError, Verdict, audit_ledger
from askance_server.ledger.postgres import PostgresLedger, seals
from askance_server.ledger.postgres import audit as audit_module
from askance_server.ledger.postgres import ledger as postgres
from askance_server.ledger.postgres.link import Link, connect
from tests.harness.marks import SECONDS
from tests.server.ledger.damaging import RUNNING, Hand, TakenError, damages, fill

pytest_plugins = ("tests.harness.postgres",)

KEY: Final = "c" * 64


@pytest.fixture(scope="module")
def whole(postgres_server: str) -> Iterator[str]:
    """The URL of a database with something in every table, which no test changes."""
    with psycopg.connect(postgres_server.format("postgres"), autocommit=True) as admin:
        admin.execute("CREATE DATABASE whole TEMPLATE template")
        with closing(PostgresLedger.open(postgres_server.format("whole"))) as ledger:
            ledger.check_key(KEY)
            fill(ledger)
        yield postgres_server.format("whole")
        admin.execute("DROP DATABASE whole WITH (FORCE)")


@pytest.fixture
def copy(whole: str, postgres_server: str) -> Iterator[str]:
    """A copy of the whole one, to be damaged."""
    with psycopg.connect(postgres_server.format("postgres"), autocommit=True) as admin:
        admin.execute("CREATE DATABASE damaged TEMPLATE whole")
        yield postgres_server.format("damaged")
        admin.execute("DROP DATABASE damaged WITH (FORCE)")


class PostgresHand(Hand):
    """In a transaction of this connection, which ends with it."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def run(self, statement: str, table: str, values: list[Any] | None = None, **names: str) -> list[tuple[Any, ...]]:
        names_ = {name: Identifier(value) for name, value in {"table": table, **names}.items()}
        cursor = self.link.execute(SQL(statement).format(**names_), values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def columns(self, table: str) -> list[str]:
        query = """
            SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
            ORDER BY attnum"""
        return [name for (name,) in self.link.execute(query, (table,))]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.run("SELECT ctid::text, * FROM {table} ORDER BY 2, 3", table)

    def change(self, table: str, column: str, place: Any, value: Any) -> None:
        try:
            with self.link.transaction():
                update = "UPDATE {table} SET {column} = %s WHERE ctid = %s::tid"
                self.run(update, table, [value, place], column=column)
        except UniqueViolation:
            raise TakenError from None

    def delete(self, table: str, place: Any = None) -> None:
        self.run("DELETE FROM {table} WHERE %s::text IS NULL OR ctid = %s::tid", table, [place, place])

    def insert(self, table: str, values: list[Any]) -> None:
        places = SQL(", ").join([Placeholder()] * len(values)).as_string(None)
        self.run("INSERT INTO {table} OVERRIDING SYSTEM VALUE VALUES (" + places + ")", table, values)


@contextmanager
def damaging(link: Link) -> Iterator[PostgresHand]:
    """A hand that triggers, checks and references do not stop; what it has done is undone at the end."""
    with link.transaction(force_rollback=True):
        link.execute("SET LOCAL session_replication_role = replica")
        link.execute("SET LOCAL allow_system_table_mods = on")
        link.execute("UPDATE pg_class SET relchecks = 0 WHERE relnamespace = 'public'::regnamespace")
        link.execute("UPDATE pg_attribute SET attidentity = '' WHERE attidentity <> '' AND attrelid >= 16384")
        yield PostgresHand(link)


def tables(url: str) -> list[str]:
    """All tables of the schema."""
    with psycopg.connect(url) as link:
        query = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        return [name for (name,) in link.execute(query)]


def missed(url: str) -> list[str]:
    """Damages to any table of which the audit says nothing."""
    silent: list[str] = []
    with closing(connect(url)) as link:
        for table in tables(url):
            with damaging(link) as hand:
                changes = damages(hand, table)
            for name, damage in changes:
                with damaging(link) as hand:
                    damage(hand)
                    if not refused_or_told(link, url):
                        silent.append(f"{table}: {name}")
    return silent


def refused_or_told(link: Link, url: str) -> list[Fault]:
    """What the audit says in the transaction of a hand, a refusal included."""
    try:
        return list(postgres.audit_link(link, url, KEY, tell_nobody))
    except (LedgerError, psycopg.errors.UndefinedTable) as error:
        return [Fault(url, str(error))]


def audit(url: str) -> list[Fault]:
    return audit_ledger(url, KEY)


def test_what_is_whole_is_found_whole(whole: str) -> None:
    assert audit(whole) == []


@pytest.mark.slow
def test_any_change_to_any_row_is_found(whole: str) -> None:
    assert missed(whole) == []
    assert audit(whole) == []  # All of it was undone.


@pytest.mark.slow
def test_without_seals_it_is_missed(whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what an audit does not find that looks at no seal."""
    monkeypatch.delitem(audit_module._PARTS, "the tables of the ledger")  # pyright: ignore[reportArgumentType] - a dict
    monkeypatch.setattr(audit_module, "broken_report_seals", lambda link, found: iter(()))
    assert {
        "users: cap of the first row",
        "users: epoch of the last row",
        "users: the last row deleted",
        "reports: outcome of the first row",
        "server_key: the first row deleted",
        "received: seal of the last row",
        "seals: all rows deleted",
    } <= set(missed(whole))


STRUCTURE: Final = {
    "a table less": "DROP TABLE server_key",
    "a column more": "ALTER TABLE users ADD COLUMN mystery integer",
    "a constraint less": "ALTER TABLE users DROP CONSTRAINT spent_within_cap",
    "a trigger less": "DROP TRIGGER append_only ON reports",
    "a trigger that does nothing": "ALTER TABLE reports DISABLE TRIGGER append_only",
    "a function that does nothing": "CREATE OR REPLACE FUNCTION refuse_to_rewrite() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN NULL; END $$",
    "a trigger more": "CREATE TRIGGER mystery AFTER INSERT ON users EXECUTE FUNCTION refuse_to_rewrite()",
    "a version less": "DELETE FROM schema_version WHERE version = 3",
    "a version more": "INSERT INTO schema_version (version) VALUES (1000)",
}


@pytest.mark.parametrize("statement", STRUCTURE.values(), ids=STRUCTURE)
def test_a_change_of_the_structure_is_found(copy: str, statement: str) -> None:
    with psycopg.connect(copy) as link:
        link.execute(statement.encode())
    with closing(connect(copy)) as link:
        assert refused_or_told(link, copy) != []


WHERE: Final = {
    "a cap changed": ("UPDATE users SET cap = cap + 1 WHERE number = 7", "table users", False),
    "a user added": ("INSERT INTO users (number, cap) VALUES (100, 5)", "table users", True),
    "a last user gone": ("DELETE FROM users WHERE number = 99", "table users", True),
    "a revocation gone": ("UPDATE users SET epoch = 0 WHERE number = 3", "table users", False),
    "reports gone": ("DELETE FROM reports WHERE user_number < 10", "round ", False),
    "a report altered": ("UPDATE reports SET outcome = 1 - outcome WHERE user_number = 5", "round ", False),
    "two reports changed for each other": (
        "UPDATE reports SET outcome = 1 - outcome WHERE user_number IN (4, 5)",
        "round ",
        False,
    ),
    "a report with its count and its charge gone": (
        "DELETE FROM reports WHERE user_number = 5; UPDATE users SET spent = 0 WHERE number = 5;"
        "UPDATE received SET reports = reports - 1 WHERE reports > 0",
        "round ",
        False,
    ),
    "a report of nobody with its count": (
        "INSERT INTO reports (user_number, round, outcome) SELECT 1000, min(key), 0 FROM rounds;"
        "UPDATE received SET reports = reports + 1 WHERE shard = 0 AND round = (SELECT min(key) FROM rounds)",
        "table reports",
        False,
    ),
    "an entry altered": (
        "ALTER TABLE entries DROP CONSTRAINT digest_of_body;"
        "UPDATE entries SET body = convert_to(replace(convert_from(body, 'UTF8'), 'A study', 'B study'), 'UTF8')",
        "table entries",
        False,
    ),
    "the key gone": ("DELETE FROM server_key", "table server_key", True),
    "rounds for each other": (
        "UPDATE rounds SET key = key + 10; UPDATE rounds SET key = CASE key WHEN 11 THEN 2 ELSE 1 END",
        "table rounds",
        True,
    ),
}


@pytest.mark.parametrize(("statement", "where", "refused"), WHERE.values(), ids=WHERE)
def test_the_place_of_a_change_is_named(copy: str, statement: str, where: str, refused: bool) -> None:
    with psycopg.connect(copy, autocommit=True) as link:
        link.execute("SET session_replication_role = replica")
        link.execute("ALTER TABLE rounds ALTER key SET GENERATED BY DEFAULT")
        link.execute(statement.encode())
    assert any(fault.where.startswith(where) for fault in audit(copy))
    # What costs little is looked at by each start.
    if refused:
        with pytest.raises(LedgerError, match="askance doctor --deep"):
            PostgresLedger.open(copy)
    else:
        PostgresLedger.open(copy).close()


def test_an_entry_that_is_damaged_while_a_server_runs_is_not_the_readers_fault(copy: str) -> None:
    with closing(PostgresLedger.open(copy)) as ledger, psycopg.connect(copy, autocommit=True) as link:
        study = next(iter(ledger.studies()))
        link.execute("SET session_replication_role = replica")
        link.execute("ALTER TABLE entries DROP CONSTRAINT digest_of_body")
        link.execute("UPDATE entries SET body = '{' WHERE study = %s", (study,))
        with pytest.raises(LedgerError, match="askance doctor --deep"):
            ledger.entries(study)


def test_a_whole_study_that_is_gone_from_every_table_is_found(copy: str) -> None:
    with psycopg.connect(copy) as link:
        link.execute("SET session_replication_role = replica")
        link.execute("DELETE FROM reports WHERE round = (SELECT key FROM rounds WHERE study = %s)", (RUNNING.digest(),))
        link.execute(
            "DELETE FROM received WHERE round = (SELECT key FROM rounds WHERE study = %s)", (RUNNING.digest(),)
        )
        for table in ("rounds", "entries"):
            link.execute(SQL("DELETE FROM {} WHERE study = %s").format(Identifier(table)), (RUNNING.digest(),))
        link.execute("DELETE FROM studies WHERE id = %s", (RUNNING.digest(),))
        link.execute("UPDATE users SET spent = (SELECT count(*) * 1000000 FROM reports WHERE user_number = number)")
    assert {fault.where for fault in audit(copy)} == {"table entries", "table rounds", "table studies"}


def test_the_ledger_gone_is_found(empty_database: str) -> None:
    (found,) = audit(empty_database)
    assert "no ledger" in found.what
    assert "backup" in found.next


def test_another_key_than_the_one_in_use_is_found(whole: str) -> None:
    assert [fault.where for fault in audit_ledger(whole, "e" * 64)] == ["server key"]
    assert audit_ledger(whole, None) == []


def test_a_user_with_a_number_far_away_does_not_hold_the_audit_up(copy: str) -> None:
    with psycopg.connect(copy) as link:
        link.execute("SET session_replication_role = replica")
        link.execute("INSERT INTO users (number, cap) VALUES (%s, 1)", ((1 << 48) - 1,))
    assert {"table users", "user 100"} <= {fault.where for fault in audit(copy)}


def test_a_hand_is_told_that_it_is_none_of_the_ledgers_programs(copy: str) -> None:
    for statement in (
        "UPDATE users SET cap = cap + 1",
        "UPDATE users SET epoch = 0",
        "INSERT INTO users (number, cap) VALUES (100, 1)",
        "INSERT INTO reports (round, user_number, outcome) VALUES (1, 30, 1)",
        "UPDATE server_key SET fingerprint = repeat('e', 64)",
    ):
        with psycopg.connect(copy) as link, pytest.raises(psycopg.Error, match="older than the ledger's tables"):
            link.execute(statement.encode())
    assert audit(copy) == []


def test_an_older_copy_of_the_database_cannot_be_told(copy: str, whole: str, postgres_server: str) -> None:
    """What is not known, written down: docs/server.md says so, too."""
    with closing(PostgresLedger.open(copy)) as ledger:
        ledger.revoke(5)
    with psycopg.connect(postgres_server.format("postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE damaged WITH (FORCE)")
        admin.execute("CREATE DATABASE damaged TEMPLATE whole")
    assert audit(copy) == []


# ------------------------------------------------------------------------------------------------ what is no damage


def test_a_ledger_that_replicas_write_is_looked_at(copy: str) -> None:
    """Three of them enrol, revoke, take reports and publish, while it is looked at again and again."""
    stop = threading.Event()
    (round_,) = [id_ for id_, _ in postgres_rounds(copy)]

    def replica(number: int) -> int:
        times = 0
        with closing(PostgresLedger.open(copy)) as ledger:
            while not stop.is_set() or not times:
                users = np.array(ledger.enrol(10, 2 * MICRO), np.uint64)
                ledger.revoke(int(users[number]))
                ledger.charge(round_, users, (users % np.uint64(2)).astype(np.uint32))
                times += 1
        return times

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(replica, number) for number in range(3)]
        try:
            assert [audit(copy) for _ in range(5)] == [[]] * 5
        finally:
            stop.set()
        assert min(each.result(SECONDS) for each in working) > 0
    assert audit(copy) == []


def test_a_dump_of_a_ledger_that_is_written_is_whole_where_it_is_restored(
    copy: str, empty_database: str, postgres_programs: Path, tmp_path: Path
) -> None:
    """As docs/server.md says it is backed up; what was acknowledged before has its receipts."""
    ((round_, _),) = postgres_rounds(copy)
    stop, enough = threading.Event(), threading.Event()
    acknowledged: list[int] = []

    def write() -> None:
        with closing(PostgresLedger.open(copy)) as ledger:
            while not stop.is_set():
                users = np.array(ledger.enrol(5, 2 * MICRO), np.uint64)
                assert not ledger.charge(round_, users, np.ones(5, np.uint32)).any()
                acknowledged.extend(users.tolist())
                enough.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            assert enough.wait(SECONDS)
            before = list(acknowledged)
            dump = ["--format=custom", f"--file={tmp_path / 'ledger.dump'}", copy]
            subprocess.run([postgres_programs / "pg_dump", *dump], check=True)
        finally:
            stop.set()
        writing.result(SECONDS)
    restore = ["--exit-on-error", f"--dbname={empty_database}", tmp_path / "ledger.dump"]
    subprocess.run([postgres_programs / "pg_restore", *restore], check=True)

    assert audit(empty_database) == []
    with closing(PostgresLedger.open(empty_database)) as ledger:
        users = np.array(before, np.uint64)
        assert ledger.charge(round_, users, np.ones(len(users), np.uint32)).tolist() == [Verdict.REPEATED] * len(users)
        ledger.revoke(int(users[0]))
    assert audit(empty_database) == []


def postgres_rounds(url: str) -> list[tuple[str, Any]]:
    """The rounds of the study that runs."""
    with closing(PostgresLedger.open(url)) as ledger:
        return list(ledger.bulletin(RUNNING.digest()).rounds)


def test_each_connection_adds_to_a_shard_of_its_own(copy: str) -> None:
    with closing(connect(copy)) as first, closing(connect(copy)) as second, first.transaction():
        seals.seal(first, {"users": seals.users_sum(np.array([7]), 1, 0)})
        if first.info.backend_pid % seals.SHARDS != second.info.backend_pid % seals.SHARDS:
            # It would wait here for the other's commit.
            second.execute("SET lock_timeout = '1ms'")
            seals.seal(second, {"users": seals.users_sum(np.array([8]), 1, 0)})
    assert [fault.where for fault in audit(copy)] == ["table users"]
