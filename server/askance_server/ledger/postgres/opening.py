"""Bringing a database up to date: whatever happens meanwhile, it is wholly of one version or of the other."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from askance_server.ledger.base import LedgerError
from askance_server.ledger.postgres.link import LOCKS, Link, ask, connect, first, shown
from askance_server.ledger.postgres.seals import seal_new
from askance_server.ledger.schemas import migrations

_MIGRATING: Final = 0  # The second half of the advisory lock that a migration takes.

_GUARD: Final = """
    CREATE OR REPLACE FUNCTION refuse_older_programs() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        -- A number and no query: this runs once for each group of reports.
        IF coalesce(nullif(current_setting('askance.schema', true), ''), '0')::integer < {newest} THEN
            RAISE EXCEPTION 'this program is older than the ledger''s tables: stop it, and start a newer askance';
        END IF;
        RETURN NULL;
    END $$;
    COMMENT ON FUNCTION refuse_older_programs() IS
        'Keeps programs out that do not know all seals. Each connection says which schema it knows.'"""


def migrate(link: Link, url: str) -> None:
    """Apply what is missing and seal what is new, all in one transaction, one program at a time."""
    scripts = migrations("postgres")
    if (version := schema_of(link)) > max(scripts):
        raise LedgerError(
            f"{shown(url)} has schema {version}, this program knows {max(scripts)}: start a newer askance."
        )
    if version == max(scripts):
        return
    with link.transaction():
        ask(link, "SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, _MIGRATING))
        # Asked again: another one may have done it meanwhile.
        if missing := range(schema_of(link) + 1, max(scripts) + 1):
            guard(link)
            for number in missing:
                link.execute(scripts[number].encode())
                ask(link, "INSERT INTO schema_version (version) VALUES (%s)", (number,))
            # Last, because what is sealed are the tables as this program knows them.
            seal_new(link, missing)


def guard(link: Link) -> None:
    """From the end of this transaction on, let no program write that knows an older schema than this one."""
    link.execute(_GUARD.format(newest=max(migrations("postgres"))).encode())


def schema_at(url: str) -> int | None:
    """The version of a database's schema, if it is older than this program's; 0 where there is none."""
    with closing(connect(url)) as link:
        version = schema_of(link)
    return version if version < max(migrations("postgres")) else None


def schema_of(link: Link) -> int:
    """The version of a database's schema; 0 where there is none."""
    # Looked up in the catalogue's table: `to_regclass` may answer from what this connection knew before it waited.
    query = "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'schema_version' AND pg_table_is_visible(oid))"
    if not first(ask(link, query)):
        return 0
    return int(first(ask(link, "SELECT coalesce(max(version), 0) FROM schema_version")))
