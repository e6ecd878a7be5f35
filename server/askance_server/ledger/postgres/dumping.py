"""A PostgreSQL ledger as a file, and back: by PostgreSQL's own programs, which have to be installed for it.

The dump is of one snapshot, which is also the one that was looked at: what `audit_snapshot` found whole is what the
file holds, however many servers go on. Nothing is put into a database but whole, in one transaction, and into none that
has tables. A password is never among a program's arguments, which every user of a machine can read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from askance_protocol.errors import Code, DataError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.text import counted
from askance_server.ledger.base import Fault, LedgerBusyError, LedgerError
from askance_server.ledger.postgres.ledger import audit_link, snapshot
from askance_server.ledger.postgres.link import Link, ask, connect, failure, first, shown
from askance_server.ledger.postgres.opening import schema_of

_PASSWORDS: Final = {"password": "PGPASSWORD", "sslpassword": "PGSSLPASSWORD"}


class PostgresProgramError(LedgerError):
    """One of PostgreSQL's programs is not there, or refused."""

    code = Code.DATA


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """One moment of a database, held for as long as the transaction that sees it is open."""

    link: Link
    url: str
    name: str
    schema: int

    def audit(self, fingerprint: str | None, tell: Tell = tell_nobody) -> list[Fault]:
        """Faults of the ledger at this moment."""
        return list(audit_link(self.link, self.url, fingerprint, tell))

    def dump(self, file: Path) -> None:
        """Write the ledger of this moment to a new file."""
        file.touch(mode=0o600, exist_ok=False)
        _run(
            "pg_dump",
            self.url,
            "--format=custom",
            f"--snapshot={self.name}",
            f"--file={file}",
            "--no-owner",
            "--no-acl",
        )


@contextmanager
def open_snapshot(url: str) -> Generator[LedgerSnapshot]:
    """One moment of the ledger in a database. Servers go on meanwhile."""
    with closing(connect(url)) as link:
        try:
            with snapshot(link):
                # For as long as the dump takes, this connection has nothing to say.
                ask(link, "SET LOCAL idle_in_transaction_session_timeout = 0")
                if not (schema := schema_of(link)):
                    raise DataError("holds no ledger", where=shown(url), remedy="name the database that servers use")
                yield LedgerSnapshot(link, url, first(ask(link, "SELECT pg_export_snapshot()")), schema)
        except psycopg.Error as error:
            raise failure(url, error) from None


def load(file: Path, url: str) -> None:
    """Put a dump into a database that has nothing in it: all of it, or nothing."""
    refuse_tables(url)
    _run("pg_restore", url, "--single-transaction", "--exit-on-error", "--no-owner", "--no-acl", str(file))


def check_dump(file: Path) -> None:
    """Refuse a file that is no dump, or that this version of PostgreSQL's programs cannot read."""
    _run("pg_restore", None, "--list", str(file))


def refuse_tables(url: str) -> None:
    """Refuse a database in which there is something: nothing is overwritten."""
    query = """
        SELECT count(*) FROM pg_class
        WHERE relkind IN ('r', 'p', 'v', 'S') AND relnamespace = ANY(current_schemas(false)::regnamespace[])"""
    if taken := _asked(url, query):
        what = f"is not empty: it has {taken} tables and sequences"
        raise DataError(what, where=shown(url), remedy="name an empty database: createdb NAME")


def refuse_connections(url: str) -> None:
    """Refuse a database that servers of this program are connected to."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'askance' AND pid <> pg_backend_pid()"""
    if servers := _asked(url, query):
        what = f"is in use: servers have {counted(servers, 'connection')} to it"
        raise LedgerBusyError(what, where=shown(url), remedy="stop all servers, then run it again")


def _asked(url: str, query: LiteralString) -> int:
    """The one number that a query gives."""
    with closing(connect(url)) as link:
        try:
            return int(first(ask(link, query)))
        except psycopg.Error as error:
            raise failure(url, error) from None


def _run(program: str, url: str | None, *arguments: str) -> None:
    found = shutil.which(program)
    if found is None:
        remedy = "install PostgreSQL's programs, of the version of the database or a later one"
        raise PostgresProgramError("is not installed here", where=program, remedy=remedy)
    command, environment = [found, *arguments], dict(os.environ)
    if url is not None:
        where, secrets = _without_passwords(url)
        command[1:1] = ["--no-password", f"--dbname={where}"]
        environment |= secrets
    # Its arguments are files of ours and a database that was named to us; there is no shell.
    run = subprocess.run(  # noqa: S603
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise PostgresProgramError(f"refused: {_said(run.stderr)}", where=program, remedy=_remedy(run.stderr))


def _without_passwords(url: str) -> tuple[str, dict[str, str]]:
    parts = conninfo_to_dict(url)
    secrets = {name: str(parts.pop(key)) for key, name in _PASSWORDS.items() if parts.get(key)}
    return make_conninfo("", **parts), secrets


def _said(errors: str) -> str:
    """The first line of what a program said, which names no row."""
    lines = [line.partition("error: ")[2] or line for line in errors.splitlines() if line.strip()]
    return lines[0] if lines else "it gave no reason"


def _remedy(errors: str) -> str:
    if re.search("server version mismatch|unsupported version", errors):
        return "install PostgreSQL's programs of the database's version, or a later one, and put them first in PATH"
    return "nothing was left half done: see to that, then run it again"
