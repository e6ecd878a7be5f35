"""The audit of a PostgreSQL ledger: everything is worked out again from the bulletins and the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Bulletin, Entry, StudyState, read_entry
from askance_server.ledger.base import Fault, LedgerError, Verdict
from askance_server.ledger.postgres.link import Link, ask, first
from askance_server.ledger.postgres.rows import Known, blocks, count_users, load_round, reports_of, rounds_of

_ACCOUNT: Final = np.dtype([("number", ">i8"), ("cap", ">i8"), ("spent", ">i8")])


def audit(link: Link) -> list[Fault]:
    """Faults found by following every bulletin and every report."""
    return [*_audit_bulletins(link), *_audit_counts(link), *_audit_users(link)]


def _audit_bulletins(link: Link) -> Iterator[Fault]:
    """Replay every bulletin and compare with the stored state of its study."""
    query = "SELECT id, head, length, state FROM studies ORDER BY ordinal"
    for study, head, length, state in ask(link, query).fetchall():
        try:
            replayed = _replay(link, study)
        except ProtocolError as error:
            yield Fault(f"study {study}", f"its bulletin is broken: {error}")
            continue
        if (replayed.head, replayed.length, replayed.state) != (head, length, StudyState(state)):
            yield Fault(f"study {study}", "its head, length or state is not what its bulletin leads to")
        if replayed.rounds != rounds_of(link, study):
            yield Fault(f"study {study}", "its rounds or their states are not what its bulletin leads to")


def _replay(link: Link, study: str) -> Bulletin:
    """Append the entries one by one: those of a study may not fit into memory at once."""
    replayed = Bulletin()
    sequences = ask(link, "SELECT sequence FROM entries WHERE study = %s ORDER BY sequence", (study,)).fetchall()
    for (sequence,) in sequences:
        try:
            replayed = replayed.append(_entry(link, study, sequence))
        except ProtocolError as error:
            raise error.at(f"entry {sequence}") from None
    return replayed


def _entry(link: Link, study: str, sequence: int) -> Entry:
    query = "SELECT body FROM entries WHERE study = %s AND sequence = %s"
    entry = read_entry(first(ask(link, query, (study, sequence))))
    if entry.sequence != sequence:
        raise ProtocolError(f"is entry {entry.sequence}, and not stored as that")
    return entry


def _audit_counts(link: Link) -> Iterator[Fault]:
    query = """
        SELECT id, (SELECT count(*) FROM reports WHERE round = key),
               (SELECT coalesce(sum(reports), 0)::bigint FROM received WHERE round = key)
        FROM rounds ORDER BY key"""
    for id_, logged, counted in ask(link, query).fetchall():
        if logged != counted:
            yield Fault(f"round {id_}", f"{logged} reports stand in the log, {counted} were counted")


def _audit_users(link: Link) -> Iterator[Fault]:
    """Σ charges = spent ≤ cap, user by user; a block of users at a time, for all rounds."""
    enrolled = count_users(link)
    ids = [id_ for (id_,) in ask(link, "SELECT id FROM rounds ORDER BY key").fetchall()]
    rounds: list[Known] = []
    for id_ in ids:
        try:
            rounds.append(load_round(link, id_))
        except (ProtocolError, LedgerError) as error:
            yield Fault(f"round {id_}", f"it cannot be read: {error}")
    for block in blocks(range(enrolled)):
        owed = np.zeros(len(block), np.int64)
        for known in rounds:
            users, outcomes = reports_of(link, known.key, block)
            refused = known.refused(users, outcomes, enrolled) != Verdict.ACCEPTED
            yield from _of_users(users[refused], f"a report to round {known.round.id} should have been refused")
            owed[users - np.uint64(block.start)] += known.charged(users)
        yield from _audit_accounts(link, block, owed)


def _audit_accounts(link: Link, block: range, owed: Integers) -> Iterator[Fault]:
    query = """
        SELECT string_agg(int8send(number) || int8send(cap) || int8send(spent), ''::bytea ORDER BY number) FROM users
        WHERE number >= %s AND number < %s"""
    accounts = np.frombuffer(first(ask(link, query, (block.start, block.stop))) or b"", _ACCOUNT)
    numbers = np.arange(block.start, block.stop)
    yield from _of_users(np.setdiff1d(numbers, accounts["number"]), "the number was left out, or the row is gone")
    yield from _of_users(accounts["number"][accounts["spent"] > accounts["cap"]], "more is spent than the cap")
    differs = accounts["spent"] != owed[accounts["number"] - block.start]
    yield from _of_users(accounts["number"][differs], "what is spent is not the sum of the charges")


def _of_users(users: NDArray[np.integer[Any]], what: str) -> Iterator[Fault]:
    """One fault for many users: what is wrong for one is often wrong for all."""
    if len(users):
        yield Fault(f"user {users[0]}", what if len(users) == 1 else f"{what} (and so for {len(users) - 1} more users)")
