"""Seals in the database: what each table holds, in numbers that only the ledger's programs keep in step with it.

Theory of operation
-------------------
The seal of a table is the number of its rows and the sum, modulo 2⁶⁴, of a digest of each row, written in the
transaction of the rows. Whatever anything else has changed since, a statement by hand or a bit of the disk, leaves rows
and seal apart. Sums commute: each is spread over shards, of which a connection adds to its own, as it does with the
counts in `received`. So replicas wait for each other no more than without seals.

*Reports* are sealed round by round, in `received`, where they are counted anyway: no statement, row or lock more.

*What is not sealed* is what follows from the rest and is worked out again by the audit: `users.spent`, the state of
studies and rounds, the counts in `received`.

*What a seal does not tell.* It has no key: whoever knows this page can compute it anew. An older copy of the database
has older seals that agree with it, and nothing beside the database says how old it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, LiteralString

import numpy as np

from askance_protocol.arrays import Integers
from askance_protocol.text import counted
from askance_server.ledger.base import Fault, LedgerError, OutcomeColumn, Users
from askance_server.ledger.digests import MODULUS, RowSum
from askance_server.ledger.postgres.link import Link, ask, first, shown
from askance_server.ledger.postgres.rows import accounts_of, blocks_of_users, reports_of

SHARDS: Final = 16
"""Parts of each seal, and of the count of a round's reports."""

SEALED: Final[dict[str, LiteralString]] = {
    "arrivals": "round, place, users",
    "entries": "study, sequence, digest, encode(sha256(body), 'hex')",
    "kinds": "first_user, kind",
    "rounds": "key, id, study, entry, number",
    "schema_version": "version, (extract(epoch FROM applied) * 1000000)::bigint",
    "server_key": "one, fingerprint",
    "structure": "kind, place, name, detail",
    "studies": "id, ordinal",
    "tickets": "id, users, used",
    "users": "number, cap, epoch",
}
"""What is digested of each table's rows. To seal another table, name it here and in the migration that makes it.

Where the columns of a table that is sealed already become others, it is named in `RESEALED` as well.
"""

FIRST_SEALS: Final = 3
"""The schema since which there are seals."""

RESEALED: Final[dict[int, tuple[str, ...]]] = {}
"""Tables that a migration, by its number, seals anew."""

_STRUCTURE: Final[LiteralString] = """
    WITH tables AS (
        SELECT pg_class.oid, relname::text AS place FROM pg_class
        WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'schema_version'::regclass)
            AND relkind = 'r' AND relname = ANY(%s)
    ), structure (kind, place, name, detail) AS (
        SELECT 'column', place, attname::text, format_type(atttypid, atttypmod) || attnotnull::text
        FROM tables JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
        -- Without those of NOT NULL, which are constraints only in newer versions of PostgreSQL.
        UNION ALL SELECT 'constraint', place, conname::text, contype::text
        FROM tables JOIN pg_constraint ON conrelid = tables.oid AND contype <> 'n'
        UNION ALL SELECT 'trigger', place, tgname::text, tgenabled::text || prosrc
        FROM tables JOIN pg_trigger ON tgrelid = tables.oid AND NOT tgisinternal
        JOIN pg_proc ON pg_proc.oid = tgfoid
    ) SELECT kind, place, name, detail FROM structure"""
"""Columns, constraints and triggers of the ledger's own tables; an index more does no harm."""

_PLACES: Final = {"structure": "the tables of the ledger"}
_AS_IT_WAS: Final = "put back what was changed by hand; if rows were changed as well, restore a backup (docs/server.md)"
_GONE: Final[tuple[list[int], RowSum]] = ([], RowSum())
_ROWS: Final = 10_000
"""Rows that are read at a time."""
_SMALL: Final = sorted(SEALED.keys() - {"entries", "structure", "users"})
_COUNTS: Final[dict[str, LiteralString]] = {
    "entries": "SELECT count(*) FROM entries",
    "users": "SELECT coalesce(max(number) + 1, 0) FROM users",  # Their numbers have no gaps.
}

_OWN: Final = [*sorted({*SEALED, "received", "reports", "seals"} - {"structure"})]


def seal(link: Link, changes: Mapping[str, RowSum]) -> None:
    """Count in what has come to each table, less what has gone.

    These are the last statements of a transaction, and in one order: whoever waits for a shard waits for a commit.
    """
    for table, change in sorted(changes.items()):
        if change == RowSum():
            continue
        changed = ask(
            link,
            """
            UPDATE seals SET rows = rows + %s, sum = mod(sum + %s + 18446744073709551616, 18446744073709551616)
            WHERE name = %s AND shard = pg_backend_pid() %% %s RETURNING shard""",
            (change.rows, change.signed, table, SHARDS),
        ).fetchall()
        if len(changed) != 1:
            raise LedgerError(
                f"The seal of table {table} is gone: askance doctor --deep says more. Nothing was stored."
            )


def users_sum(users: Integers, cap: Integers | int, epoch: Integers | int) -> RowSum:
    """What these users' rows add to the seal of their table."""
    return RowSum.of_columns("users", users, cap, epoch)


def reports_sum(key: int, users: Users | Integers, outcomes: OutcomeColumn | Integers) -> RowSum:
    """What these reports add to the seal of the round with this key."""
    return RowSum.of_columns("reports", users.astype(np.int64), outcomes.astype(np.int64), key)


def recount(link: Link, table: str) -> RowSum:
    """The seal that the rows of a table have now."""
    if table == "users":
        found = RowSum()
        # From below zero: what is no user's number may stand there all the same.
        for block in blocks_of_users(link, -(1 << 62)):
            numbers, caps, _, epochs = accounts_of(link, block)
            found += users_sum(numbers, caps, epochs)
        return found
    if table == "structure":
        return RowSum.of(table, *ask(link, _STRUCTURE, (_OWN,)).fetchall())
    found = RowSum()
    # By a cursor of the database, which needs a transaction: not all rows are held at once.
    with link.transaction(), link.cursor("recount") as cursor:
        # Both names are of `SEALED`.
        cursor.execute(f"SELECT {SEALED[table]} FROM {table}".encode(), binary=True)  # noqa: S608
        while rows := cursor.fetchmany(_ROWS):
            found += RowSum.of(table, *rows)
    return found


def seal_new(link: Link, missing: range) -> None:
    """Inside the transaction of these migrations: seal what has no seal, and what they have changed."""
    changed = {"structure", "schema_version", *(table for number in missing for table in RESEALED.get(number, ()))}
    for table in SEALED:
        if table in changed:
            ask(link, "DELETE FROM seals WHERE name = %s", (table,))
        insert = """
            INSERT INTO seals (name, shard) SELECT %s, generate_series(0, %s - 1)
            WHERE NOT EXISTS (SELECT FROM seals WHERE name = %s) RETURNING shard"""
        if ask(link, insert, (table, SHARDS, table)).fetchall():
            seal(link, {table: recount(link, table)})
    if FIRST_SEALS in missing:
        for (key,) in ask(link, "SELECT key FROM rounds ORDER BY key").fetchall():
            _seal_reports(link, key)


def _seal_reports(link: Link, key: int) -> None:
    found = RowSum()
    for block in blocks_of_users(link):
        users, outcomes = reports_of(link, key, block)
        found += reports_sum(key, users, outcomes)
    ask(link, "UPDATE received SET seal = %s WHERE round = %s AND shard = 0", (found.sum, key))


def broken_seals(link: Link) -> Iterator[Fault]:
    """The tables whose rows are not what was sealed, and what is wrong with each."""
    seals = _read(link)
    for table in SEALED:
        where, (shards, kept), found = (
            _PLACES.get(table, f"table {table}"),
            seals.get(table, _GONE),
            recount(link, table),
        )
        if shards != list(range(SHARDS)):
            yield Fault(where, "its seal, or a part of it, is gone")
        elif table == "structure" and found != kept:
            yield Fault(where, "columns, constraints or triggers are not those that this ledger was given", _AS_IT_WAS)
        elif found.rows != kept.rows:
            yield Fault(where, f"{counted(found.rows, 'row')}, and {kept.rows} were written")
        elif found != kept:
            yield Fault(where, "a row, or its seal, is not what was written")
    for table in sorted(seals.keys() - SEALED):
        yield Fault(f"table {table}", "a seal of a table that this program does not know")


def broken_report_seals(link: Link, found: Mapping[int, RowSum]) -> Iterator[Fault]:
    """The rounds whose reports, which `found` has by the rounds' keys, are not what was sealed."""
    query = "SELECT key, id, (SELECT sum(seal) FROM received WHERE round = key) FROM rounds ORDER BY key"
    for key, id_, sealed in ask(link, query).fetchall():
        # Their number is compared with the count.
        if key in found and int(sealed or 0) % MODULUS != found[key].sum:
            yield Fault(f"round {id_}", "a report, or the seal of its reports, is not what was written")


def check_seals(link: Link, url: str) -> None:
    """At each start: compare what costs little, and the number of users. `broken_seals` compares everything."""
    seals = _read(link)
    wrong = [table for table in _SMALL if recount(link, table) != seals.get(table, _GONE)[1]]
    wrong += [table for table, query in _COUNTS.items() if first(ask(link, query)) != seals.get(table, _GONE)[1].rows]
    if wrong:
        raise LedgerError(
            f"{shown(url)}: table {wrong[0]} is not what it was when it was written last. askance doctor --deep says"
            " more; then restore the database from a backup."
        )


def _read(link: Link) -> dict[str, tuple[list[int], RowSum]]:
    """The shards and the sums of all seals."""
    query = (
        "SELECT name, array_agg(shard::integer ORDER BY shard), sum(rows)::bigint, sum(sum) FROM seals GROUP BY name"
    )
    return {name: (shards, RowSum(rows, int(sum_) % MODULUS)) for name, shards, rows, sum_ in ask(link, query)}
