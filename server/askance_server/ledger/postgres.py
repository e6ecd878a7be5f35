"""The ledger in PostgreSQL: several replicas of the server share one database.

Theory of operation
-------------------
*One commit a group.* `charge` sorts out what public data refuse, and decides the rest in one transaction:

1. it takes the round's lock, shared. Whoever closes the round takes it exclusively, so that a group is decided
   wholly before the closing or wholly after it, and nothing is accepted once a closing is on the bulletin. The lock
   is an advisory one and not a lock of the round's row: row locks let newcomers share past a waiting closer, who
   under load would wait for ever; advisory locks are given in the order of asking;
2. if the round is open, it locks the users' rows, ordered by number, so that no two groups wait for each other in a
   circle. From here on nobody else can charge these users, and every statement sees what others have committed:
   the level is READ COMMITTED, set here whatever the database's default is;
3. it looks up what these users have reported, and decides;
4. it charges, `spent + charge <= cap` being asked again where it is written, and appends to the log, where
   (round, user) is unique.

Steps 2 and 4 would each prevent overspending alone; the database's own constraints would a third time.

*Projections.* `users.spent`, `studies`, `rounds.state` and `received` repeat what the log and the bulletins say;
they are written in the commit of what they follow from, and `verify` compares.

*Failures.* A transaction that the database gave up for the sake of another is tried again. So is what lost its
connection, if doing it twice does no harm: to read, and to charge, because a report that was stored is then a retry.
The rest raises `LedgerError`, and the next call connects again. No error repeats what the database says about the
contents of rows: that can be a report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Connection, Cursor, IsolationLevel
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg.postgres import types
from psycopg.pq import Format
from psycopg.rows import TupleRow

from askance_protocol.budget import Account, whole_micro
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.estimators import Tally, tally_round
from askance_protocol.rounds import Bulletin, Entry, PreparedRound, RoundState, StudyState, prepare_round, read_entry
from askance_protocol.rounds.bulletin import GENESIS, RoundPublished, StudyPublished
from askance_server.ledger.base import (
    Charge,
    Fault,
    Ledger,
    LedgerAwayError,
    LedgerError,
    NotFoundError,
    Outcomes,
    Standing,
    Users,
    Verdict,
    Verdicts,
)

T = TypeVar("T")
Link = Connection[TupleRow]
Beginning = Callable[[Link], AbstractContextManager[object]]

MIGRATIONS: Final = Path(__file__).with_name("migrations") / "postgres"
ATTEMPTS: Final = 8
"""How often a transaction is tried that the database gives up for the sake of others."""

_LOCKS: Final = 0x61736B  # The first half of all advisory locks of this ledger; a round's second half is its key.
_MIGRATING: Final = 0
_ENROLLING: Final = -1
_SHARDS: Final = 16
_REMEMBERED: Final = 64
"""Prepared rounds that are kept."""
_BLOCK: Final = 1 << 20
"""Users of whom reports are read at a time: 16 MB at most."""

_ITEM: Final = np.dtype([("size", ">i4"), ("value", ">i8")])
_REPORT: Final = np.dtype([("user", ">i8"), ("outcome", ">i4")])
_ACCOUNT: Final = np.dtype([("number", ">i8"), ("cap", ">i8"), ("spent", ">i8")])


class _Integers(Dumper):
    """An array of integers as PostgreSQL's binary bigint[]: a list would be taken apart number by number."""

    format = Format.BINARY
    oid = types["int8"].array_oid

    def dump(self, obj: NDArray[np.integer[Any]]) -> bytes:
        """One dimension, no nulls, the element type, the length, and indexes from 1; then the items."""
        items = np.empty(len(obj), _ITEM)
        items["size"], items["value"] = 8, obj
        return np.array([1, 0, types["int8"].oid, len(obj), 1], ">i4").tobytes() + items.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A published round, and what deciding about its reports needs."""

    key: int
    round: PreparedRound
    limits: NDArray[np.int64]
    charges: NDArray[np.int64]

    @classmethod
    def of(cls, key: int, round_: PreparedRound) -> _Known:
        limits = np.array([part.channel.outcomes for part in round_.parts], np.int64)
        return cls(key, round_, limits, np.array([part.part.charge for part in round_.parts], np.int64))

    def refused(self, users: Users, outcomes: Outcomes, enrolled: int) -> Verdicts:
        """What public data refuse; `ACCEPTED` stands for the rest."""
        verdicts = np.full(len(users), Verdict.UNKNOWN_USER, np.uint8)
        known = np.flatnonzero(users < enrolled)
        asked = self.round.asked(users[known])
        verdicts[known[~asked]] = Verdict.NOT_ASKED
        asked = known[asked]
        inside = outcomes[asked] < self.limits[self._dealt(users[asked])]
        verdicts[asked] = np.where(inside, Verdict.ACCEPTED, Verdict.OUTSIDE)
        return verdicts

    def charged(self, users: Users) -> NDArray[np.int64]:
        """What a report costs each of these users."""
        return self.charges[self._dealt(users)]

    def _dealt(self, users: Users) -> NDArray[np.intp]:
        return self.round.questions(users)[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The reports that only the ledger can decide. The first report of each user stands for her."""

    users: NDArray[np.int64]
    """Ascending, each once."""
    outcomes: NDArray[np.int64]
    charges: NDArray[np.int64]
    firsts: NDArray[np.intp]
    """Where in the group each user's first report is."""
    owners: NDArray[np.intp]
    """For each report of the group, whose it is."""

    @classmethod
    def of(cls, known: _Known, users: Users, outcomes: Outcomes) -> _Group:
        numbers, firsts, owners = np.unique(users, return_index=True, return_inverse=True)
        charges = known.charged(numbers)
        return cls(numbers.astype(np.int64), outcomes[firsts].astype(np.int64), charges, firsts, owners)


class PostgresLedger(Ledger):
    """See the module. Open one with `PostgresLedger.open`; it holds one connection."""

    @classmethod
    def open(cls, url: str) -> PostgresLedger:
        """Connect, and create or migrate the tables."""
        link = _connect(url)
        try:
            _migrate(link, url)
        except psycopg.Error as error:
            link.close()
            raise _failure(url, error) from None
        except BaseException:
            link.close()
            raise
        return cls(url, link)

    def __init__(self, url: str, link: Link) -> None:
        self._url, self._link = url, link
        self._closed = False
        self._enrolled = 0  # At least so many are enrolled: users only become more.
        self._rounds: dict[str, _Known] = {}

    # ------------------------------------------------------------------------------------------------------ users

    def enrol(self, count: int, cap: int) -> range:
        """One enrolment at a time, so that numbers are consecutive and have no gaps."""
        whole_micro(cap, where="cap")
        if count < 0:
            raise ProtocolError("is negative", where="count")

        def work(link: Link) -> range:
            _ask(link, "SELECT pg_advisory_xact_lock(%s, %s)", (_LOCKS, _ENROLLING))
            users = range(first := _count_users(link), first + count)
            if users.stop > MAX_USER:
                raise ProtocolError(f"{count} more are too many", where="count", remedy=f"{MAX_USER - first} are left")
            insert = "INSERT INTO users (number, cap) SELECT number, %s FROM generate_series(%s, %s - 1) AS number"
            _ask(link, insert, (cap, users.start, users.stop))
            return users

        return self._run(work, Link.transaction)

    def enrolled(self) -> int:
        """The largest number, and one."""
        self._enrolled = self._run(_count_users, nullcontext, repeatable=True)
        return self._enrolled

    def standing(self, user: int) -> Standing:
        """One statement, so that spending and charges are of the same moment."""
        # The inner query is a scalar so that each round is looked up in the log's index; there are few rounds.
        query = """
            SELECT cap, spent, ARRAY(
                SELECT id FROM rounds
                WHERE (SELECT true FROM reports WHERE round = rounds.key AND user_number = users.number) ORDER BY key
            ) FROM users WHERE number = %s"""
        cap, spent, rounds = self._one(query, (user,), f"user {user}")
        return Standing(Account(cap, spent), tuple(Charge(id_, self.round(id_).charge_of(user)) for id_ in rounds))

    def affording(self, users: range, charge: int) -> NDArray[np.bool]:
        """A byte a user, as the database's boolean is sent. Who is not enrolled affords nothing."""
        whole_micro(charge, where="charge")
        query = """
            SELECT string_agg(boolsend(spent + %s <= cap), ''::bytea ORDER BY number) FROM users
            WHERE number >= %s AND number < %s"""
        affords = np.zeros(len(users), np.bool)
        for block in _blocks(range(users.start, min(users.stop, self.enrolled()))):
            (bytes_,) = self._one(query, (charge, block.start, block.stop), "users")
            affords[block.start - users.start : block.stop - users.start] = np.frombuffer(bytes_, np.bool)
        return affords

    def epoch(self, user: int) -> int:
        """From the user's row."""
        query = "SELECT coalesce((SELECT epoch FROM users WHERE number = %s), -1)"
        return int(self._one(query, (user,), "user")[0])

    def revoke(self, user: int) -> int:
        """One more epoch; two, where the database was lost in between: her tokens are void all the same."""
        query = "UPDATE users SET epoch = epoch + 1 WHERE number = %s RETURNING epoch"
        return int(self._one(query, (user,), f"user {user}")[0])

    # -------------------------------------------------------------------------------------- studies and their rounds

    def append(self, study: str, entry: Entry) -> Bulletin:
        """Lock the study's row, let its bulletin judge, and store. Of two who append the same place, one is late."""
        return self._run(lambda link: _append(link, study, entry), Link.transaction)

    def studies(self) -> list[str]:
        """In the order of their first entries."""
        return [id_ for (id_,) in self._all("SELECT id FROM studies ORDER BY ordinal")]

    def bulletin(self, study: str) -> Bulletin:
        """From the projections, in one snapshot."""
        bulletin = self._run(lambda link: _bulletin(link, study), _snapshot, repeatable=True)
        if not bulletin.length:
            raise NotFoundError("there is no such study")
        return bulletin

    def entries(self, study: str, after: int = -1) -> list[Entry]:
        """As they were stored, read again."""
        query = "SELECT body FROM entries WHERE study = %s AND sequence > %s ORDER BY sequence"
        self._one("SELECT FROM studies WHERE id = %s", (study,), "study")
        return [read_entry(body) for (body,) in self._all(query, (study, after))]

    def round(self, id_: str) -> PreparedRound:
        """Prepared once, as long as it is remembered."""
        return self._known(id_).round

    def state(self, id_: str) -> RoundState:
        """From the round's row."""
        return RoundState(self._one("SELECT state FROM rounds WHERE id = %s", (id_,), "round")[0])

    # ---------------------------------------------------------------------------------------------------- reports

    def charge(self, id_: str, users: Users, outcomes: Outcomes) -> Verdicts:
        """See the module's theory of operation."""
        if len(users) != len(outcomes):
            raise ProtocolError("and users are not equally many", where="outcomes")
        known = self._known(id_)
        verdicts = known.refused(users, outcomes, self._enrolled_for(users))
        left = np.flatnonzero(verdicts == Verdict.ACCEPTED)
        if len(left):
            group = _Group.of(known, users[left], outcomes[left])
            first, stored = self._run(lambda link: _decide(link, known.key, group), _pipelined, repeatable=True)
            # What stands in the log decides about a report; where nothing does, what became of the user's first.
            stored, refusals = stored[group.owners], first[group.owners]
            repeated = np.where(stored == outcomes[left], Verdict.REPEATED, Verdict.CONFLICT)
            decided = np.where(stored >= 0, repeated, refusals).astype(np.uint8)
            decided[group.firsts] = first
            verdicts[left] = decided
        return verdicts

    def received(self, id_: str) -> int:
        """The counters of the round."""
        query = "SELECT sum(reports)::bigint FROM received WHERE round = %s"
        return int(self._one(query, (self._known(id_).key,), "round")[0])

    def tallies(self, id_: str) -> list[Tally]:
        """From the log, a block of users after the other, in one snapshot."""
        known = self._known(id_)

        def work(link: Link) -> list[Tally]:
            total = tally_round(known.round, np.zeros(0, np.uint64), np.zeros(0, np.uint32))
            for block in _blocks(range(_count_users(link))):
                more = tally_round(known.round, *_reports(link, known.key, block))
                total = [sum_ + tally for sum_, tally in zip(total, more, strict=True)]
            return total

        return self._run(work, _snapshot, repeatable=True)

    # ---------------------------------------------------------------------------------------------------- upkeep

    def verify(self) -> list[Fault]:
        """Follow every bulletin and every report, in one snapshot: replicas may go on writing."""

        def work(link: Link) -> list[Fault]:
            return [*_audit_bulletins(link), *_audit_counts(link), *_audit_users(link)]

        return self._run(work, _snapshot, repeatable=True)

    def check_writable(self) -> None:
        """Write a row of the schema's versions anew."""
        self._one("UPDATE schema_version SET version = version WHERE version = 1 RETURNING version", (), "schema")

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._link.close()

    # ----------------------------------------------------------------------------------------------- transactions

    def _run(self, work: Callable[[Link], T], begin: Beginning, *, repeatable: bool = False) -> T:
        """Do this work; again, where the database gave it up, or was lost before it said that it was done."""
        for attempt in range(ATTEMPTS):
            link = self._connected()
            try:
                with begin(link):
                    return work(link)
            except (SerializationFailure, DeadlockDetected):
                time.sleep(0.01 * attempt)
            except psycopg.Error as error:
                if not (repeatable and link.closed):
                    raise _failure(self._url, error) from None
        raise LedgerError(f"{_shown(self._url)}: gave a transaction up {ATTEMPTS} times. Try again under less load.")

    def _connected(self) -> Link:
        if self._closed:
            raise LedgerError(f"{_shown(self._url)}: this ledger was closed. Open it again.")
        if self._link.closed:
            self._link = _connect(self._url)
        return self._link

    def _one(self, query: LiteralString, parameters: tuple[Any, ...], what: str) -> TupleRow:
        rows = self._all(query, parameters)
        if not rows:
            raise NotFoundError(f"there is no such {what}")
        return rows[0]

    def _all(self, query: LiteralString, parameters: tuple[Any, ...] = ()) -> list[TupleRow]:
        """One statement, which is a transaction by itself."""
        return self._run(lambda link: _ask(link, query, parameters).fetchall(), nullcontext, repeatable=True)

    # ------------------------------------------------------------------------------------------ what is remembered

    def _known(self, id_: str) -> _Known:
        """A round; it never changes, its state does and is not in here."""
        if id_ not in self._rounds:
            known = self._run(lambda link: _load_round(link, id_), _snapshot, repeatable=True)
            if len(self._rounds) >= _REMEMBERED:
                del self._rounds[next(iter(self._rounds))]
            self._rounds[id_] = known
        return self._rounds[id_]

    def _enrolled_for(self, users: Users) -> int:
        """How many are enrolled, asked again only where one of these users would not be."""
        if len(users) and int(users.max()) >= self._enrolled:
            return self.enrolled()
        return self._enrolled


@contextmanager
def _snapshot(link: Link) -> Generator[None]:
    """A transaction whose statements all see the same moment."""
    with link.transaction():
        _ask(link, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _pipelined(link: Link) -> Generator[None]:
    """A transaction whose statements are sent without waiting for each answer: the way to the database counts once."""
    with link.pipeline(), link.transaction():
        yield


# ------------------------------------------------------------------------------------------------- deciding a group


def _decide(link: Link, key: int, group: _Group) -> tuple[Verdicts, NDArray[np.int64]]:
    """For each user: what becomes of her first report, and the outcome that then stands in the log, or −1."""
    # Three statements: each sees what was committed until it began, so the order of locking is the order of seeing.
    _ask(link, "SELECT pg_advisory_xact_lock_shared(%s, %s)", (_LOCKS, key))
    accounts = _ask(
        link,
        """
        SELECT number, cap - spent FROM users
        WHERE number = ANY(%s) AND (SELECT state = 'open' FROM rounds WHERE key = %s)
        ORDER BY number FOR NO KEY UPDATE""",
        (group.users, key),
    )
    reports = _ask(
        link, "SELECT user_number, outcome FROM reports WHERE round = %s AND user_number = ANY(%s)", (key, group.users)
    )
    remaining = _table(accounts)
    if len(remaining) not in {0, len(group.users)}:
        raise LedgerError("Users are missing who were enrolled: restore the database, and start the server again.")
    first = np.full(len(group.users), Verdict.NOT_OPEN, np.uint8)
    if len(remaining):
        first = np.where(group.charges <= remaining[:, 1], Verdict.ACCEPTED, Verdict.OVER_BUDGET).astype(np.uint8)
    stored = np.full(len(group.users), -1, np.int64)
    before = _table(reports)
    places = np.searchsorted(group.users, before[:, 0])
    stored[places] = before[:, 1]
    first[places] = np.where(before[:, 1] == group.outcomes[places], Verdict.REPEATED, Verdict.CONFLICT)
    accepted = np.flatnonzero(first == Verdict.ACCEPTED)
    if len(accepted):
        _store(link, key, group, accepted)
        stored[accepted] = group.outcomes[accepted]
    return first, stored


def _store(link: Link, key: int, group: _Group, accepted: NDArray[np.intp]) -> None:
    """Charge, log and count in one statement: no report stands in the log that was not charged."""
    stored = _ask(
        link,
        """
        WITH given AS (
            SELECT * FROM unnest(%s, %s, %s) AS given (number, outcome, charge)
        ), charged AS (
            UPDATE users SET spent = spent + given.charge FROM given
            WHERE users.number = given.number AND spent + given.charge <= cap
            RETURNING users.number, given.outcome
        ), logged AS (
            INSERT INTO reports (user_number, round, outcome) SELECT number, %s, outcome FROM charged RETURNING 1
        )
        UPDATE received SET reports = reports + (SELECT count(*) FROM logged)
        WHERE round = %s AND shard = pg_backend_pid() %% %s RETURNING (SELECT count(*) FROM logged)""",
        (group.users[accepted], group.outcomes[accepted], group.charges[accepted], key, key, _SHARDS),
    ).fetchone()
    if stored != (len(accepted),):
        raise LedgerError("Not every report that was decided could be charged; nothing was. Verify the ledger.")


# ------------------------------------------------------------------------------------------- studies and their rounds


def _bulletin(link: Link, study: str) -> Bulletin:
    """Where a study stands; an empty bulletin, if there is none."""
    position = _ask(link, "SELECT head, length, state FROM studies WHERE id = %s", (study,)).fetchone()
    if position is None or not position[1]:
        return Bulletin()
    head, length, state = position
    return Bulletin(head, length, _load_study(link, study).study, StudyState(state), _rounds_of(link, study))


def _rounds_of(link: Link, study: str) -> tuple[tuple[str, RoundState], ...]:
    rows = _ask(link, "SELECT id, state FROM rounds WHERE study = %s ORDER BY number", (study,))
    return tuple((id_, RoundState(state)) for id_, state in rows)


def _append(link: Link, study: str, entry: Entry) -> Bulletin:
    notice = entry.notice
    if isinstance(notice, StudyPublished) and notice.study.digest() == study:
        # There has to be a row to lock. It goes again if the entry is refused.
        create = "INSERT INTO studies (id, head, length, state) VALUES (%s, %s, 0, %s) ON CONFLICT DO NOTHING"
        _ask(link, create, (study, GENESIS, StudyState.CREATED.value))
    _ask(link, "SELECT FROM studies WHERE id = %s FOR NO KEY UPDATE", (study,))
    before = _bulletin(link, study)
    after = before.append(entry)
    if after.study is None or after.study.digest() != study:
        raise NotFoundError("the entry is of another study")
    row = (study, entry.sequence, after.head, entry.to_bytes())
    _ask(link, "INSERT INTO entries (study, sequence, digest, body) VALUES (%s, %s, %s, %s)", row)
    position = (after.head, after.length, after.state.value, study)
    _ask(link, "UPDATE studies SET head = %s, length = %s, state = %s WHERE id = %s", position)
    known = dict(before.rounds)
    for number, (id_, state) in enumerate(after.rounds, start=1):
        if id_ not in known:
            _publish(link, (id_, study, entry.sequence, number, state.value))
        elif known[id_] is not state:
            _turn(link, id_, state)
    return after


def _publish(link: Link, row: tuple[str, str, int, int, str]) -> None:
    """A round, and its counters."""
    insert = "INSERT INTO rounds (id, study, entry, number, state) VALUES (%s, %s, %s, %s, %s) RETURNING key"
    key = _first(_ask(link, insert, row))
    _ask(link, "INSERT INTO received (round, shard) SELECT %s, generate_series(0, %s - 1)", (key, _SHARDS))


def _turn(link: Link, id_: str, state: RoundState) -> None:
    """Wait until all groups are decided that have begun, and let none begin before this is committed."""
    _ask(link, "SELECT pg_advisory_xact_lock(%s, key) FROM rounds WHERE id = %s", (_LOCKS, id_))
    _ask(link, "UPDATE rounds SET state = %s WHERE id = %s", (state.value, id_))


def _load_round(link: Link, id_: str) -> _Known:
    query = """
        SELECT rounds.key, rounds.study, entries.body
        FROM rounds JOIN entries ON entries.study = rounds.study AND entries.sequence = rounds.entry
        WHERE rounds.id = %s"""
    row = _ask(link, query, (id_,)).fetchone()
    if row is None:
        raise NotFoundError("there is no such round")
    key, study, body = row
    notice = read_entry(body).notice
    if not isinstance(notice, RoundPublished):
        raise LedgerError(f"Round {id_} names an entry that publishes no round: restore the database from a backup.")
    return _Known.of(key, prepare_round(_load_study(link, study).study, notice.round))


def _load_study(link: Link, study: str) -> StudyPublished:
    row = _ask(link, "SELECT body FROM entries WHERE study = %s AND sequence = 0", (study,)).fetchone()
    notice = read_entry(row[0]).notice if row is not None else None
    if not isinstance(notice, StudyPublished):
        raise LedgerError(f"The first entry of study {study} is not a study: restore the database from a backup.")
    return notice


# ----------------------------------------------------------------------------------------------------- the audit


def _audit_bulletins(link: Link) -> Iterator[Fault]:
    """Replay every bulletin and compare with where its study is said to stand."""
    query = "SELECT id, head, length, state FROM studies ORDER BY ordinal"
    for study, head, length, state in _ask(link, query).fetchall():
        try:
            replayed = _replay(link, study)
        except ProtocolError as error:
            yield Fault(f"study {study}", f"its bulletin is broken: {error}")
            continue
        if (replayed.head, replayed.length, replayed.state) != (head, length, StudyState(state)):
            yield Fault(f"study {study}", "its head, length or state is not what its bulletin leads to")
        if replayed.rounds != _rounds_of(link, study):
            yield Fault(f"study {study}", "its rounds or their states are not what its bulletin leads to")


def _replay(link: Link, study: str) -> Bulletin:
    """The entries one by one: a study's are more than fits at once."""
    replayed = Bulletin()
    sequences = _ask(link, "SELECT sequence FROM entries WHERE study = %s ORDER BY sequence", (study,)).fetchall()
    for (sequence,) in sequences:
        try:
            replayed = replayed.append(_entry(link, study, sequence))
        except ProtocolError as error:
            raise error.at(f"entry {sequence}") from None
    return replayed


def _entry(link: Link, study: str, sequence: int) -> Entry:
    query = "SELECT body FROM entries WHERE study = %s AND sequence = %s"
    entry = read_entry(_first(_ask(link, query, (study, sequence))))
    if entry.sequence != sequence:
        raise ProtocolError(f"is entry {entry.sequence}, and not stored as that")
    return entry


def _audit_counts(link: Link) -> Iterator[Fault]:
    query = """
        SELECT id, (SELECT count(*) FROM reports WHERE round = key),
               (SELECT coalesce(sum(reports), 0)::bigint FROM received WHERE round = key)
        FROM rounds ORDER BY key"""
    for id_, logged, counted in _ask(link, query).fetchall():
        if logged != counted:
            yield Fault(f"round {id_}", f"{logged} reports stand in the log, {counted} were counted")


def _audit_users(link: Link) -> Iterator[Fault]:
    """Σ charges = spent ≤ cap, user by user; a block of users at a time, for all rounds."""
    enrolled = _count_users(link)
    ids = [id_ for (id_,) in _ask(link, "SELECT id FROM rounds ORDER BY key").fetchall()]
    rounds: list[_Known] = []
    for id_ in ids:
        try:
            rounds.append(_load_round(link, id_))
        except (ProtocolError, LedgerError) as error:
            yield Fault(f"round {id_}", f"it cannot be read: {error}")
    for block in _blocks(range(enrolled)):
        owed = np.zeros(len(block), np.int64)
        for known in rounds:
            users, outcomes = _reports(link, known.key, block)
            refused = known.refused(users, outcomes, enrolled) != Verdict.ACCEPTED
            yield from _of_users(users[refused], f"a report to round {known.round.id} should have been refused")
            owed[users - np.uint64(block.start)] += known.charged(users)
        yield from _audit_accounts(link, block, owed)


def _audit_accounts(link: Link, block: range, owed: NDArray[np.int64]) -> Iterator[Fault]:
    query = """
        SELECT string_agg(int8send(number) || int8send(cap) || int8send(spent), ''::bytea ORDER BY number) FROM users
        WHERE number >= %s AND number < %s"""
    accounts = np.frombuffer(_first(_ask(link, query, (block.start, block.stop))) or b"", _ACCOUNT)
    numbers = np.arange(block.start, block.stop)
    yield from _of_users(np.setdiff1d(numbers, accounts["number"]), "the number was left out, or the row is gone")
    yield from _of_users(accounts["number"][accounts["spent"] > accounts["cap"]], "more is spent than the cap")
    differs = accounts["spent"] != owed[accounts["number"] - block.start]
    yield from _of_users(accounts["number"][differs], "what is spent is not the sum of the charges")


def _of_users(users: NDArray[np.integer[Any]], what: str) -> Iterator[Fault]:
    """One fault for many users: what is wrong for one is often wrong for all."""
    if len(users):
        yield Fault(f"user {users[0]}", what if len(users) == 1 else f"{what} (and so for {len(users) - 1} more users)")


# ------------------------------------------------------------------------------------------------------- reading


def _ask(link: Link, query: LiteralString, parameters: tuple[Any, ...] = ()) -> Cursor[TupleRow]:
    return link.execute(query, parameters, binary=True)


def _first(rows: Cursor[TupleRow]) -> Any:
    """The value of a query that has exactly one."""
    ((value,),) = rows.fetchall()
    return value


def _table(rows: Cursor[TupleRow]) -> NDArray[np.int64]:
    """Pairs of integers."""
    return np.array(rows.fetchall(), np.int64).reshape(-1, 2)


def _count_users(link: Link) -> int:
    return int(_first(_ask(link, "SELECT coalesce(max(number) + 1, 0) FROM users")))


def _blocks(users: range) -> Iterator[range]:
    for begin in range(users.start, users.stop, _BLOCK):
        yield range(begin, min(begin + _BLOCK, users.stop))


def _reports(link: Link, key: int, block: range) -> tuple[Users, Outcomes]:
    """Who of these users reported what, as one value: a row for each would be an object for each."""
    query = """
        SELECT string_agg(int8send(user_number) || int4send(outcome), ''::bytea) FROM reports
        WHERE round = %s AND user_number >= %s AND user_number < %s"""
    reports = np.frombuffer(_first(_ask(link, query, (key, block.start, block.stop))) or b"", _REPORT)
    return reports["user"].astype(np.uint64), reports["outcome"].astype(np.uint32)


# ----------------------------------------------------------------------------------------------------- connecting


def _connect(url: str) -> Link:
    """A connection that commits to disk, at the level that `charge` needs."""
    try:
        parts = {"connect_timeout": 10, "application_name": "askance", **conninfo_to_dict(url)}
    except psycopg.Error:
        # Not repeated: whatever it is, a password may be in it.
        raise LedgerError("The database URL cannot be read: write postgresql://user@host:5432/database.") from None
    try:
        link = psycopg.connect(**parts, autocommit=True)  # pyright: ignore[reportArgumentType] - as libpq names them
    except psycopg.Error as error:
        raise _failure(url, error) from None
    try:
        _settle(link, url)
    except BaseException:
        link.close()
        raise
    return link


def _settle(link: Link, url: str) -> None:
    link.adapters.register_dumper(np.ndarray, _Integers)
    link.isolation_level = IsolationLevel.READ_COMMITTED
    if _first(_ask(link, "SELECT current_setting('fsync')")) != "on":
        raise LedgerError(f"{_shown(url)} does not write to disk: set fsync = on in postgresql.conf and restart it.")
    # Whatever role or database say: an acknowledged report is on disk, and a frozen replica keeps no locks for ever.
    durable = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    _ask(link, durable)
    _ask(link, "SELECT set_config('idle_in_transaction_session_timeout', '60s', false)")


def _migrate(link: Link, url: str) -> None:
    """Apply what is missing, each migration in a transaction of its own, one program at a time."""
    scripts = {int(path.name.split("_")[0]): path for path in sorted(MIGRATIONS.glob("*.sql"))}
    if (version := _version(link)) > max(scripts):
        raise LedgerError(
            f"{_shown(url)} has schema {version}, this program knows {max(scripts)}: start a newer askance."
        )
    for number in range(version + 1, max(scripts) + 1):
        with link.transaction():
            _ask(link, "SELECT pg_advisory_xact_lock(%s, %s)", (_LOCKS, _MIGRATING))
            if _version(link) < number:
                link.execute(scripts[number].read_bytes())
                _ask(link, "INSERT INTO schema_version (version) VALUES (%s)", (number,))


def _version(link: Link) -> int:
    # Looked up in the catalogue's table: `to_regclass` may answer from what this connection knew before it waited.
    query = "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'schema_version' AND pg_table_is_visible(oid))"
    if not _first(_ask(link, query)):
        return 0
    return int(_first(_ask(link, "SELECT coalesce(max(version), 0) FROM schema_version")))


def _shown(url: str) -> str:
    """The URL without its password and options."""
    parts = {"host": "", "port": "", "user": "", "dbname": "", **conninfo_to_dict(url)}
    user = f"{parts['user']}@" if parts["user"] else ""
    port = f":{parts['port']}" if parts["port"] else ""
    return f"postgresql://{user}{parts['host']}{port}/{parts['dbname']}"


def _failure(url: str, error: psycopg.Error) -> LedgerError:
    """What the database said, but for what it may say about rows: its details, and errors about values."""
    if isinstance(error, psycopg.OperationalError):
        said = " ".join((error.diag.message_primary or str(error)).split())
        if password := conninfo_to_dict(url).get("password"):
            said = said.replace(str(password), "***")
        return LedgerAwayError(
            f"{_shown(url)}: {said}. See that the server runs and takes connections, then try again:"
            " what was acknowledged is stored, and a report may be sent again."
        )
    said = "a value was refused" if isinstance(error, psycopg.DataError) else error.diag.message_primary or ""
    return LedgerError(
        f"{_shown(url)}: {type(error).__name__} ({error.sqlstate}): {said}. Nothing was stored. Check the role's"
        " rights and the server's log, and verify the ledger before going on."
    )
