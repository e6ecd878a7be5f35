"""A PostgreSQL ledger of version 0.1 goes on with this version; killed at any statement of its upgrade, it is whole.

`fixtures/ledger_of_0_1.sql.xz` was made by version 0.1 (commit ac6be6c) with `fixtures/make_ledger_of_0_1.py`.
"""

from __future__ import annotations

import lzma
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from askance_protocol.budget import MICRO
from askance_server.auth import Keys
from askance_server.ledger import LedgerBusyError, LedgerError, Ticket, UserKind, audit_ledger
from askance_server.ledger.postgres import PostgresLedger, opening, seals
from askance_server.ledger.postgres import ledger as postgres
from askance_server.ledger.postgres.link import Link, connect
from askance_server.ledger.postgres.seals import seal_new
from askance_server.ledger.schemas import migrations
from tests.harness.marks import SECONDS
from tests.harness.servers import Service, prepared
from tests.lab.commands.calls import invoke
from tests.server.ledger.upgrading import FIXTURES, KEY, Told, killed

pytest_plugins = ("tests.harness.postgres",)

DUMP: Final = lzma.decompress((FIXTURES / "ledger_of_0_1.sql.xz").read_bytes()).decode()
TOLD: Final = Told.of("ledger_of_0_1.sql.json")
NEWEST: Final = max(migrations("postgres"))
EACH: Final = 1 if os.environ.get("ASKANCE_TORTURE") else 8
"""Which statements of an upgrade are killed: each, or one in so many."""


@pytest.fixture(scope="module")
def template(postgres_server: str) -> Iterator[str]:
    """The name of a database that is as version 0.1 left it."""
    with psycopg.connect(postgres_server.format("postgres"), autocommit=True) as admin:
        admin.execute("CREATE DATABASE of_0_1 TEMPLATE template0")
        with psycopg.connect(postgres_server.format("of_0_1")) as link:
            # Without what only psql knows, and what only one version of PostgreSQL does.
            lines = [line for line in DUMP.splitlines() if not line.startswith(("\\", "SET "))]
            link.execute("\n".join(lines).encode())
        yield "of_0_1"
        admin.execute("DROP DATABASE of_0_1 WITH (FORCE)")


@pytest.fixture
def renew(template: str, postgres_server: str) -> Iterator[Callable[[], str]]:
    """Makes the database `old` anew, as version 0.1 left it, and returns its URL."""
    with psycopg.connect(postgres_server.format("postgres"), autocommit=True) as admin:

        def make() -> str:
            admin.execute("DROP DATABASE IF EXISTS old WITH (FORCE)")
            admin.execute(f"CREATE DATABASE old TEMPLATE {template}".encode())
            return postgres_server.format("old")

        yield make
        admin.execute("DROP DATABASE IF EXISTS old WITH (FORCE)")


@pytest.fixture
def old(renew: Callable[[], str]) -> str:
    """The URL of a database that is as version 0.1 left it."""
    return renew()


def schema_of(url: str) -> int:
    with closing(connect(url)) as link:
        return opening.schema_of(link)


def test_the_ledger_of_version_0_1_has_no_seals_and_what_it_told_stays_true(old: str) -> None:
    assert schema_of(old) == 1
    (found,) = audit_ledger(old)
    assert "stop all servers, then start one" in found.next
    assert schema_of(old) == 1  # To look changed nothing.

    with closing(PostgresLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)
    assert schema_of(old) == NEWEST
    assert audit_ledger(old) == []


def test_the_command_backs_it_up_brings_it_up_to_date_and_verifies(
    old: str, empty_database: str, tmp_path: Path, postgres_programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{postgres_programs}{os.pathsep}{os.environ['PATH']}")
    told = invoke("upgrade", "--database", old, "--check")
    assert f"version 1, would be brought to {NEWEST}\nnothing was changed\n" in told
    with closing(connect(old)), pytest.raises(LedgerBusyError, match="servers have 1 connection"):
        invoke("upgrade", "--database", old)
    assert schema_of(old) == 1

    told = invoke("upgrade", "--database", old, "--backup", "before")
    assert f"brought from version 1 to {NEWEST}, and verified\nthe ledger as it was before is in before" in told
    assert audit_ledger(old) == []
    with closing(PostgresLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)

    # The way back, and forth again.
    told = invoke("restore", "before", "--database", empty_database, "--accept-loss")
    assert "bring it up to date: askance upgrade" in told
    assert schema_of(empty_database) == 1
    invoke("upgrade", "--database", empty_database)
    with closing(PostgresLedger.open(empty_database)) as ledger:
        TOLD.assert_same_totals(ledger)


def test_a_ledger_of_schema_2_is_sealed(old: str) -> None:
    with psycopg.connect(old) as link:
        link.execute(migrations("postgres")[2].encode())
        link.execute("INSERT INTO schema_version (version) VALUES (2)")
    with closing(PostgresLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)
    assert audit_ledger(old) == []


def test_a_ledger_of_schema_3_is_given_kinds_and_tickets(old: str) -> None:
    with pytest.MonkeyPatch.context() as patch, closing(connect(old)) as link:
        for table in ("arrivals", "kinds", "tickets"):
            patch.delitem(seals.SEALED, table)  # pyright: ignore[reportArgumentType] - a dict
        before = {number: script for number, script in migrations("postgres").items() if number <= 3}
        patch.setattr(opening, "migrations", lambda _: before)
        opening.migrate(link, old)
    assert schema_of(old) == 3
    (found,) = audit_ledger(old)
    assert "stop all servers, then start one" in found.next

    with closing(PostgresLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)
        users = ledger.enrolled()
        assert list(ledger.kinds().runs(users)) == [(range(users), UserKind.UNKNOWN)]
        ledger.enrol(2, MICRO, UserKind.SIMULATED, ticket=Ticket("0f" * 16, 2))
        assert ledger.kinds().spoken_for(users + 2) == range(users, users + 2)
    assert schema_of(old) == NEWEST
    assert audit_ledger(old) == []


def test_a_study_of_version_0_1_goes_on_to_its_end(old: str, tmp_path: Path) -> None:
    with Service(tmp_path, database=old, cap="4", server_key=KEY.hex()) as service:
        TOLD.go_on(service)
    assert audit_ledger(old, Keys(KEY).fingerprint) == []


# ------------------------------------------------------------------------------------------------------------- kills


def statements(script: bytes) -> Iterator[bytes]:
    """The statements of a script, which end with a line; a function's body is part of one."""
    statement = ""
    for line in script.decode().splitlines():
        statement += f"{line}\n"
        if line.endswith(";") and statement.count("$$") % 2 == 0:
            yield statement.encode()
            statement = ""


def each_statement(before: Callable[[], None]) -> Callable[..., Any]:
    """`execute`, which calls `before` each statement, also of a script."""
    execute = psycopg.Connection.execute

    def counting(link: Any, query: Any, *given: Any, **named: Any) -> Any:
        *first, last = statements(query) if isinstance(query, bytes) and b";\n" in query else (query,)
        for statement in first:
            before()
            execute(link, statement)
        before()
        return execute(link, last, *given, **named)

    return counting


def count_statements(url: str) -> int:
    """How many statements an opening of this database takes, with its upgrade."""
    made: list[None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", each_statement(lambda: made.append(None)))
        PostgresLedger.open(url).close()
    return len(made)


def upgrade_killed(url: str, place: int, migrate: Callable[[Link, str], None]) -> bool:
    """Open a ledger in a child that is killed before its n-th statement; whether it came so far."""
    return killed(lambda: _open_until(url, place, migrate))


def _open_until(url: str, place: int, migrate: Callable[[Link, str], None]) -> None:
    left = place

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    psycopg.Connection.execute = each_statement(count)  # type: ignore[method-assign]
    postgres.migrate = migrate
    PostgresLedger.open(url)


def contents(url: str) -> dict[str, list[Any]]:
    """Everything in the tables."""
    with psycopg.connect(url) as link:
        query = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        names = [name for (name,) in link.execute(query).fetchall()]
        read = SQL("SELECT * FROM {} ORDER BY 1, 2")
        return {name: link.execute(read.format(Identifier(name))).fetchall() for name in names}


def broken_upgrades(
    renew: Callable[[], str], migrate: Callable[[Link, str], None] = opening.migrate
) -> tuple[int, list[str]]:
    """Kill an upgrade at its statements: how many there are, and what was left behind that is not whole."""
    wrong: list[str] = []
    seen: set[int] = set()
    count = count_statements(renew())
    before = contents(url := renew())
    for place in sorted({*range(1, count, EACH), count}):
        assert upgrade_killed(url, place, migrate)
        settle(url)
        seen.add(version := schema_of(url))
        after = contents(url)
        if version == 1 and after != before:
            wrong.append(f"killed at statement {place}: tables of two versions")
            break
        if version == NEWEST:
            wrong += [f"killed at statement {place}: {fault.what}" for fault in audit_ledger(url)]
            with closing(PostgresLedger.open(url)) as ledger:
                TOLD.assert_same_totals(ledger)
            url = renew()
    assert wrong or seen == {1, NEWEST}  # Before its commit and after it.
    return count, wrong


def settle(url: str) -> None:
    """Wait until the database has noticed that whoever was killed is gone."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    until = time.monotonic() + SECONDS
    with psycopg.connect(url, autocommit=True) as link:
        while link.execute(query + " AND backend_type = 'client backend'").fetchone() != (0,):
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.slow
def test_an_upgrade_that_is_killed_leaves_one_version_or_the_other_whole(renew: Callable[[], str]) -> None:
    count, wrong = broken_upgrades(renew)
    assert wrong == []
    assert count > 50


def in_steps(link: Link, url: str) -> None:
    """The control: an upgrade whose statements are commits of their own."""
    del url
    opening.guard(link)
    for number in range(2, NEWEST + 1):
        for statement in statements(migrations("postgres")[number].encode()):
            if b"LOCK TABLE" not in statement:
                link.execute(statement)
        link.execute("INSERT INTO schema_version (version) VALUES (%s)", (number,))
    seal_new(link, range(2, NEWEST + 1))


def test_an_upgrade_in_several_commits_is_found(renew: Callable[[], str]) -> None:
    _, wrong = broken_upgrades(renew, in_steps)
    assert any("two versions" in fault for fault in wrong)


# ---------------------------------------------------------------------------------------------------- several at once


def opened_at_once(url: str, replicas: int = 4) -> list[str]:
    """Errors of replicas that start at once, each of which has seen the older version before any goes on."""
    ready, seen = threading.Barrier(replicas), threading.local()
    schema = opening.schema_of

    def looking(link: Link) -> int:
        version = schema(link)
        if not hasattr(seen, "version"):
            seen.version = version
            ready.wait(SECONDS)
        return version

    def replica(_: int) -> str:
        try:
            PostgresLedger.open(url).close()
        except LedgerError as error:
            return str(error)
        return ""

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(replicas) as pool:
        patch.setattr(opening, "schema_of", looking)
        return [error for error in pool.map(replica, range(replicas)) if error]


def test_replicas_that_start_the_upgrade_at_once_do_it_once(old: str) -> None:
    assert opened_at_once(old) == []
    assert audit_ledger(old) == []
    with closing(PostgresLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)


def test_replicas_that_do_not_look_again_disturb_each_other(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""

    def at_once(link: Link, url: str) -> None:
        del url
        missing = range(opening.schema_of(link) + 1, NEWEST + 1)
        with link.transaction():
            opening.guard(link)
            for number in missing:
                link.execute(migrations("postgres")[number].encode())
                link.execute("INSERT INTO schema_version (version) VALUES (%s)", (number,))
            seal_new(link, missing)

    monkeypatch.setattr(postgres, "migrate", at_once)
    assert len(opened_at_once(old)) == 3


STUDY: Final = TOLD.told["studies"][1]
(OPEN,) = [number for number, each in enumerate(STUDY["rounds"]) if each["state"] == "open"]
ROUND: Final = prepared(STUDY, OPEN)
ASKED: Final = [user for user in range(12, 40) if ROUND.asks(user)]
"""Users who have not answered yet."""


def charge_as_0_1_did(link: psycopg.Connection[Any], user: int) -> None:
    """One report to the round that is open, without a seal."""
    link.execute("UPDATE users SET spent = spent + %s WHERE number = %s", (ROUND.charge_of(user), user))
    insert = (
        "INSERT INTO reports (user_number, round, outcome) SELECT %s, key, 0 FROM rounds WHERE id = %s RETURNING round"
    )
    rows = link.execute(insert, (user, ROUND.id)).fetchall()
    link.execute("UPDATE received SET reports = reports + 1 WHERE shard = 3 AND round = %s", rows[0])


def test_an_upgrade_waits_for_what_an_older_server_is_writing_and_seals_it(old: str) -> None:
    with psycopg.connect(old) as older, ThreadPoolExecutor(1) as pool:
        charge_as_0_1_did(older, ASKED[0])
        upgrading = pool.submit(PostgresLedger.open, old)
        wait_for_a_waiter(old)
        older.commit()
        with closing(upgrading.result(SECONDS)) as ledger:
            assert ledger.received(ROUND.id) == STUDY["rounds"][OPEN]["received"] + 1
    assert audit_ledger(old) == []


def wait_for_a_waiter(url: str) -> None:
    """Wait until somebody waits for a table."""
    until = time.monotonic() + SECONDS
    with psycopg.connect(url, autocommit=True) as link:
        while link.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
            assert time.monotonic() < until
            time.sleep(0.01)


def test_an_older_server_that_goes_on_after_the_upgrade_writes_nothing(old: str) -> None:
    with psycopg.connect(old) as older:
        older.execute("SELECT 1 FROM users")
        older.commit()
        PostgresLedger.open(old).close()
        with pytest.raises(psycopg.Error, match="older than the ledger's tables"):
            charge_as_0_1_did(older, ASKED[0])
        older.rollback()
    with closing(PostgresLedger.open(old)) as ledger:
        TOLD.assert_same_totals(ledger)
        # The same for each of the ledger's own ways to write, as a program of the schema before would go them.
        ledger._mine.link.execute("SELECT set_config('askance.schema', %s, false)", (str(NEWEST - 1),))
        users = np.array(ASKED, np.uint64)
        for write in (
            lambda: ledger.charge(ROUND.id, users, np.zeros(len(users), np.uint32)),
            lambda: ledger.enrol(1, 1),
            lambda: ledger.revoke(7),
            lambda: ledger.check_key("a" * 64),
            lambda: ledger.close_round(ROUND.id, "operator"),
        ):
            with pytest.raises(LedgerError, match="start a newer askance"):
                write()
        TOLD.assert_same_totals(ledger)
    assert audit_ledger(old) == []
