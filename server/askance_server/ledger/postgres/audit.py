"""The audit of a PostgreSQL ledger: everything is worked out again from the bulletins and the log,
and what follows from nothing is compared with its seal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray

from askance_protocol.arrays import Integers
from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import Bulletin, Entry, StudyState, read_entry
from askance_server.ledger.base import Fault, Verdict
from askance_server.ledger.digests import RowSum
from askance_server.ledger.postgres.link import Link, ask, first
from askance_server.ledger.postgres.rows import (
    Known,
    accounts_of,
    blocks_of_users,
    load_round,
    populace_of,
    reports_of,
    rounds_of,
)
from askance_server.ledger.postgres.seals import SHARDS, broken_report_seals, broken_seals, reports_sum

_TellOf: TypeAlias = Callable[[int, int], None]
"""Hears how much of a part is done, and of how much."""
_LEFT_OUT: Final = "the number was left out, or the row is gone"


def audit(link: Link, tell: Tell = tell_nobody) -> list[Fault]:
    """Faults found by comparing every seal, and by following every bulletin and every report."""
    faults: list[Fault] = []
    for where, part in _PARTS.items():
        tell(f"verifying {where}", 0, 0)
        try:
            faults += part(link, partial(tell, f"verifying {where}"))
        except psycopg.Error:
            raise
        except Exception as error:  # what is damaged breaks in its own ways
            faults.append(Fault(where, f"it cannot be read: {error or type(error).__name__}"))
    return faults


def _audit_seals(link: Link, _: _TellOf) -> Iterator[Fault]:
    """Compare every seal."""
    return broken_seals(link)


def _audit_bulletins(link: Link, tell: _TellOf) -> Iterator[Fault]:
    """Replay every bulletin and compare with the stored state of its study."""
    query = "SELECT id, head, length, state FROM studies ORDER BY ordinal"
    studies = ask(link, query).fetchall()
    entries = list(accumulate((length for _, _, length, _ in studies), initial=0))
    for before, (study, head, length, state) in zip(entries, studies, strict=False):
        try:
            replayed = _replay(link, study, partial(_tell_more, tell, before, entries[-1]))
        except ProtocolError as error:
            yield Fault(f"study {study}", f"its bulletin is broken: {error}")
            continue
        if (replayed.head, replayed.length, replayed.state) != (head, length, StudyState(state)):
            yield Fault(f"study {study}", "its head, length or state is not what its bulletin leads to")
        if replayed.rounds != rounds_of(link, study):
            yield Fault(f"study {study}", "its rounds or their states are not what its bulletin leads to")


def _tell_more(tell: _TellOf, before: int, entries: int, done: int) -> None:
    tell(before + done, entries)


def _replay(link: Link, study: str, tell: Callable[[int], None]) -> Bulletin:
    """Append the entries one by one: those of a study may not fit into memory at once."""
    replayed = Bulletin()
    sequences = ask(link, "SELECT sequence FROM entries WHERE study = %s ORDER BY sequence", (study,)).fetchall()
    for done, (sequence,) in enumerate(sequences, 1):
        try:
            replayed = replayed.append(_entry(link, study, sequence))
        except ProtocolError as error:
            raise error.at(f"entry {sequence}") from None
        tell(done)
    return replayed


def _entry(link: Link, study: str, sequence: int) -> Entry:
    query = "SELECT body FROM entries WHERE study = %s AND sequence = %s"
    entry = read_entry(first(ask(link, query, (study, sequence))))
    if entry.sequence != sequence:
        raise ProtocolError(f"is entry {entry.sequence}, and not stored as that")
    return entry


def _audit_counts(link: Link, _: _TellOf) -> Iterator[Fault]:
    """Compare each round's reports with their count."""
    query = """
        SELECT id, (SELECT count(*) FROM reports WHERE round = key), ARRAY(
            SELECT shard::integer FROM received WHERE round = key ORDER BY shard
        ), (SELECT coalesce(sum(reports), 0)::bigint FROM received WHERE round = key)
        FROM rounds ORDER BY key"""
    for id_, logged, shards, counted in ask(link, query).fetchall():
        if logged != counted:
            yield Fault(f"round {id_}", f"reports in the log: {logged:,}; counted: {counted:,}")
        if shards != list(range(SHARDS)):
            yield Fault(f"round {id_}", "a part of the count of its reports is gone, or is not the ledger's")
    strays = """
        SELECT (SELECT count(*) FROM reports WHERE NOT EXISTS (SELECT FROM rounds WHERE key = round)),
               (SELECT count(*) FROM received WHERE NOT EXISTS (SELECT FROM rounds WHERE key = round))"""
    for table, count in zip(("reports", "received"), ask(link, strays).fetchall()[0], strict=True):
        if count:
            yield Fault(f"table {table}", f"rows of rounds that are not there: {count:,}")
    # Whose number lies between others is missed among the users.
    nobody = """
        SELECT count(*) FROM reports
        WHERE user_number NOT BETWEEN 0 AND (SELECT coalesce(max(number), -1) FROM users)"""
    if count := first(ask(link, nobody)):
        yield Fault("table reports", f"rows of users that are not there: {count:,}")


def _audit_reports(link: Link, tell: _TellOf) -> Iterator[Fault]:
    """Every report as it was sealed; Σ charges = spent ≤ cap, user by user; a block of users at a time."""
    populace = populace_of(link)
    rounds: list[Known] = []
    for (id_,) in ask(link, "SELECT id FROM rounds ORDER BY key").fetchall():
        try:
            rounds.append(load_round(link, id_))
        except AskanceError as error:
            yield Fault(f"round {id_}", f"it cannot be read: {error}")
    found = {known.key: RowSum() for known in rounds}
    expected, there = 0, first(ask(link, "SELECT coalesce(max(number) + 1, 0) FROM users"))
    for block in blocks_of_users(link):
        if block.start > expected:
            yield Fault(f"user {expected}", _LEFT_OUT)
        owed = np.zeros(len(block), np.int64)
        for known in rounds:
            users, outcomes = reports_of(link, known.key, block)
            found[known.key] += reports_sum(known.key, users, outcomes)
            refused = known.refused(users, outcomes, populace) != Verdict.ACCEPTED
            yield from _of_users(users[refused], f"a report to round {known.round.id} should have been refused")
            owed[users - np.uint64(block.start)] += known.charged(users)
        yield from _audit_accounts(link, block, owed)
        expected = block.stop
        tell(expected, there)
    yield from broken_report_seals(link, found)


def _audit_arrivals(link: Link, _: _TellOf) -> Iterator[Fault]:
    """The order of a live round's reports: each group behind those before it, and of all users each once."""
    query = """
        SELECT id, key, ARRAY(SELECT place FROM arrivals WHERE round = key ORDER BY place),
               ARRAY(SELECT users FROM arrivals WHERE round = key ORDER BY place)
        FROM rounds WHERE EXISTS (SELECT FROM arrivals WHERE round = key) ORDER BY key"""
    for id_, key, places, groups in ask(link, query).fetchall():
        reported = ask(link, "SELECT user_number FROM reports WHERE round = %s ORDER BY 1", (key,)).fetchall()
        came = np.frombuffer(b"".join(groups), "<i8")
        if np.cumsum([0, *(len(users) // 8 for users in groups[:-1])]).tolist() != places:
            yield Fault(f"round {id_}", "a group of its reports is gone from their order, or is not where it was")
        elif [(user,) for user in np.sort(came).tolist()] != reported:
            yield Fault(f"round {id_}", "the order of its reports is of other users than have reported")


def _audit_accounts(link: Link, block: range, owed: Integers) -> Iterator[Fault]:
    numbers, caps, spent, _ = accounts_of(link, block)
    yield from _of_users(np.setdiff1d(np.arange(block.start, block.stop), numbers), _LEFT_OUT)
    yield from _of_users(numbers[spent > caps], "more is spent than the cap")
    differs = spent != owed[numbers - block.start]
    yield from _of_users(numbers[differs], "what is spent is not the sum of the charges")


def _of_users(users: NDArray[np.integer[Any]], what: str) -> Iterator[Fault]:
    """One fault for many users: what is wrong for one is often wrong for all."""
    if len(users):
        yield Fault(f"user {users[0]}", what if len(users) == 1 else f"{what} (and so for {len(users) - 1} more users)")


_PARTS: Final[dict[str, Callable[[Link, _TellOf], Iterator[Fault]]]] = {
    "the tables of the ledger": _audit_seals,
    "the bulletins": _audit_bulletins,
    "the counts of reports": _audit_counts,
    "the order of reports": _audit_arrivals,
    "the reports": _audit_reports,
}
"""What is looked at, by the place that is named where it cannot be read at all."""
