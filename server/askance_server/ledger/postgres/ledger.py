"""The ledger in PostgreSQL: several replicas of the server share one database.

Theory of operation
-------------------
*One commit a group.* `charge` sorts out what public data refuse, and decides the rest in one transaction:

1. it takes the round's lock, shared. To close the round is to take it exclusively, and to count its reports in the
   same transaction. So a group is decided wholly before the closing or wholly after it, the closing's count is that
   of the log, and nothing is accepted once a closing is on the bulletin. The lock is an advisory one and not a lock
   of the round's row: row locks let newcomers share past a waiting closer, who under load would wait for ever;
   advisory locks are given in the order of asking;
2. if the round is open, it locks the users' rows, ordered by number, so that no two groups wait for each other in a
   circle. From here on nobody else can charge these users, and every statement sees what others have committed:
   the level is READ COMMITTED, set here whatever the database's default is;
3. it looks up what these users have reported, and decides;
4. it charges, `spent + charge <= cap` being asked again where it is written, and appends to the log, where
   (round, user) is unique.

The groups of a live round take its lock alone, one after the other: so the places in `arrivals`, where each says behind
how many reports it came, are in the order of the commits, and no group comes in between that somebody has seen already.

Steps 2 and 4 would each prevent overspending alone; the database's own constraints would a third time.

*Projections.* `users.spent`, `studies`, `rounds.state` and `received` repeat what the log and the bulletins say;
they are written in the commit of what they follow from, and `verify` compares.

*Seals.* What follows from nothing, caps, epochs, outcomes, is covered by sums of digests, of the same commit: `seals`.

*Failures.* A transaction that the database gave up for the sake of another is tried again. So is what lost its
connection, if doing it twice does no harm: to read, and to charge, because a report that was stored is then a retry.
The rest raises `LedgerError`, and the next call connects again. A database that takes no writes, for a while or since
another has its place, is away and not broken: what only reads goes on, and each attempt to write connects anew.
Whatever else is raised, such as `KeyboardInterrupt`, ends the connection, and with it the transaction. No error
repeats what the database says about the contents of rows: that can be a report.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Cursor
from psycopg.errors import DeadlockDetected, ReadOnlySqlTransaction, SerializationFailure
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from askance_protocol.arrays import Integers, Truths
from askance_protocol.budget import Account, whole_micro
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import (
    ENDED,
    Bulletin,
    CloseReason,
    Entry,
    PreparedRound,
    RoundClosed,
    RoundState,
    StudyState,
)
from askance_protocol.rounds.bulletin import GENESIS, StudyPublished
from askance_protocol.tally import Tally, tally_round
from askance_server.ledger.base import (
    Census,
    Charge,
    Fault,
    Ledger,
    LedgerError,
    NotFoundError,
    NotOpenError,
    OtherKeyError,
    OutcomeColumn,
    StaleEpochError,
    Standing,
    StoredEntry,
    Ticket,
    Users,
    Verdict,
    Verdicts,
    check_count,
    check_enrolment,
    check_room,
    kept_as,
    kept_users,
    up_to,
    written_entry,
)
from askance_server.ledger.digests import RowSum
from askance_server.ledger.kinds import UserKind, UserKinds
from askance_server.ledger.postgres.audit import audit
from askance_server.ledger.postgres.link import (
    LOCKS,
    PATIENCE,
    Link,
    ask,
    connect,
    failure,
    first,
    shown,
    waiting,
)
from askance_server.ledger.postgres.opening import migrate, schema_of
from askance_server.ledger.postgres.rows import (
    Known,
    Populace,
    blocks,
    bulletin_of,
    count_reports,
    count_users,
    kinds_of,
    load_round,
    populace_of,
    reports_of,
    study_of_round,
)
from askance_server.ledger.postgres.seals import SHARDS, check_seals, reports_sum, seal, users_sum
from askance_server.ledger.schemas import migrations

T = TypeVar("T")
Beginning = Callable[[Link], AbstractContextManager[object]]

ATTEMPTS: Final = 8
"""Number of attempts at a transaction that the database gives up for the sake of others."""

_ENROLLING: Final = -1  # The second half of the advisory lock that an enrolment takes,
_CREATING: Final = -2  # and of that which a new study takes.
_REMEMBERED: Final = 64
_GROUPS: Final = 1 << 12
"""Groups of a live round that are read at once."""
"""Prepared rounds that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Reports that only the tables can decide. The first report of each user stands for her."""

    users: Integers
    """Ascending, each once."""
    outcomes: Integers
    charges: Integers
    firsts: NDArray[np.intp]
    """The place in the group of each user's first report."""
    owners: NDArray[np.intp]
    """For each report of the group, the place of its user in `users`."""
    live: bool
    """Whether it matters which group comes first."""

    @classmethod
    def of(cls, known: Known, users: Users, outcomes: OutcomeColumn) -> _Group:
        numbers, firsts, owners = np.unique(users, return_index=True, return_inverse=True)
        charges = known.charged(numbers)
        live = known.round.study.live is not None
        return cls(numbers.astype(np.int64), outcomes[firsts].astype(np.int64), charges, firsts, owners, live)


class PostgresLedger(Ledger):
    """The ledger in a PostgreSQL database. Open one with `PostgresLedger.open`.

    Each thread that calls it has a connection of its own: what takes long in one holds no other up.
    """

    shared = True

    @classmethod
    def open(cls, url: str) -> PostgresLedger:
        """Connect, create or migrate the tables, and look at the small ones."""
        link = connect(url)
        try:
            migrate(link, url)
            with snapshot(link):
                check_seals(link, url)
        except psycopg.Error as error:
            link.close()
            raise failure(url, error) from None
        except BaseException:
            link.close()
            raise
        return cls(url, link)

    def __init__(self, url: str, link: Link) -> None:
        self._url = url
        self._closed = False
        self._mine = threading.local()
        """`link`: the connection of the thread that looks."""
        self._links: list[Link] = []
        """The connections of all threads."""
        self._taking = threading.Lock()
        self._take(link)
        self._populace = Populace()
        self._rounds: dict[str, Known] = {}

    # ------------------------------------------------------------------------------------------------------ users

    def enrol(
        self,
        count: int,
        cap: int,
        kind: UserKind = UserKind.UNKNOWN,
        *,
        ticket: Ticket | None = None,
        most: int = MAX_USER,
        key: str | None = None,
    ) -> range:
        """Give new users the next numbers, one enrolment at a time, so that numbers have no gaps."""
        check_enrolment(count, cap)

        def work(link: Link) -> range:
            # Kinds and tickets are read and written under this lock as well.
            ask(link, "SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, _ENROLLING))
            before = ask(link, "SELECT users, used FROM tickets WHERE id = %s", (key,)).fetchall() if key else []
            if key and before:
                return kept_users(Ticket(key, before[0][0]), before[0][1])
            users = range(first := count_users(link), first + count)
            check_room(first, count, min(most, MAX_USER))
            added = {"kinds": _note_kind(link, first, kind) if users else RowSum(), "tickets": RowSum()}
            for used in (ticket, kept_as(key, users) if key else None) if users else ():
                if used is not None:
                    added["tickets"] += _use(link, used, count)
            insert = "INSERT INTO users (number, cap) SELECT number, %s FROM generate_series(%s, %s - 1) AS number"
            come = RowSum()
            for block in blocks(users):
                ask(link, insert, (cap, block.start, block.stop))
                come += users_sum(np.arange(block.start, block.stop), cap, 0)
            seal(link, {**added, "users": come})
            return users

        return self._run(work, Link.transaction)

    def let_in(self, ticket: str) -> int:
        """Number of users whom a ticket has let in, from its row."""
        query = "SELECT coalesce((SELECT used FROM tickets WHERE id = %s), 0)"
        return int(self._one(query, (ticket,), "ticket")[0])

    def enrolled(self) -> int:
        """Number of users: the largest number and one."""
        return self._run(count_users, nullcontext, repeatable=True)

    def kinds(self) -> UserKinds:
        """The kind of every user, from the table of runs."""
        return self._run(kinds_of, nullcontext, repeatable=True)

    def standing(self, user: int) -> Standing:
        """Account and charges of one user, read in one statement so that they are of the same moment."""
        # The inner query is a scalar so that each round is looked up in the log's index; there are few rounds.
        query = """
            SELECT cap, spent, ARRAY(
                SELECT id FROM rounds
                WHERE (SELECT true FROM reports WHERE round = rounds.key AND user_number = users.number) ORDER BY key
            ) FROM users WHERE number = %s"""
        cap, spent, rounds = self._one(query, (user,), f"user {user}")
        return Standing(Account(cap, spent), tuple(Charge(id_, self.round(id_).charge_of(user)) for id_ in rounds))

    def affording(self, users: range, charge: int, kinds: Set[UserKind] = frozenset(UserKind)) -> Truths:
        """Whether each of these users is of one of these kinds and can still pay `charge`, read as a byte per user."""
        whole_micro(charge, where="charge")
        query = """
            SELECT string_agg(boolsend(spent + %s <= cap), ''::bytea ORDER BY number) FROM users
            WHERE number >= %s AND number < %s"""
        affords = np.zeros(len(users), np.bool)
        for block in blocks(range(users.start, min(users.stop, self.enrolled()))):
            (bytes_,) = self._one(query, (charge, block.start, block.stop), "users")
            affords[block.start - users.start : block.stop - users.start] = np.frombuffer(bytes_, np.bool)
        return affords & self.kinds().are(np.arange(users.start, users.stop, dtype=np.uint64), kinds)

    def able(self, charges: Sequence[int]) -> list[int]:
        """Number of users who can still pay each of these charges, counted where they are."""
        query = """
            SELECT (SELECT count(*) FROM users WHERE spent + charge <= cap)
            FROM unnest(%s::bigint[]) WITH ORDINALITY AS asked (charge, place) ORDER BY place"""
        return [int(count) for (count,) in self._all(query, ([*charges],))]

    def epoch(self, user: int) -> int:
        """The epoch of a user's tokens, from her row."""
        query = "SELECT coalesce((SELECT epoch FROM users WHERE number = %s), -1)"
        return int(self._one(query, (user,), "user")[0])

    def epochs(self, users: Users) -> Integers:
        """The epoch of each user's tokens, from their rows."""
        query = "SELECT number, epoch FROM users WHERE number = ANY(%s)"
        found = np.array(self._all(query, (users.astype(np.int64),)), np.int64).reshape(-1, 2)
        found = found[np.argsort(found[:, 0])]
        epochs = np.full(len(users), -1, np.int64)
        if len(found):
            places = np.searchsorted(found[:, 0], users.astype(np.int64)).clip(max=len(found) - 1)
            known = found[places, 0] == users.astype(np.int64)
            epochs[known] = found[places[known], 1]
        return epochs

    def revoke(self, user: int, expected: int | None = None) -> int:
        """Count a user's epoch up, if it is the one expected, in one statement.

        If the connection was lost in between, without an expected one it may be counted up by two: her tokens are void
        all the same. With one, it is not tried again: what has happened, her token tells.
        """

        def work(link: Link) -> int:
            query = """
                UPDATE users SET epoch = epoch + 1 WHERE number = %s AND epoch = coalesce(%s, epoch)
                RETURNING cap, epoch"""
            row = ask(link, query, (user, expected)).fetchone()
            if row is None:
                if ask(link, "SELECT FROM users WHERE number = %s", (user,)).fetchone() is None:
                    raise NotFoundError(f"there is no such user {user}")
                raise StaleEpochError("has been renewed already", where=f"the token of user {user}")
            (cap, epoch), number = row, np.array([user])
            seal(link, {"users": users_sum(number, cap, epoch) - users_sum(number, cap, epoch - 1)})
            return int(epoch)

        return self._run(work, Link.transaction, repeatable=expected is None)

    # -------------------------------------------------------------------------------------- studies and their rounds

    def append(self, study: str, entry: Entry) -> Bulletin:
        """Lock the study's row, check the entry against the bulletin, store it. Of two for a place, one is late."""
        return self._run(lambda link: _append(link, study, entry), Link.transaction)

    def close_round(self, id_: str, reason: CloseReason) -> Bulletin:
        """Wait for the groups that have begun, count, and store the entry, before another group can begin."""
        return self._run(lambda link: _close(link, id_, reason), Link.transaction)

    def studies(self) -> list[str]:
        """The ids of all studies, in the order of their first entries."""
        return [id_ for (id_,) in self._all("SELECT id FROM studies ORDER BY ordinal")]

    def studies_behind(self, study: str, most: int) -> list[str]:
        """The ids of studies that were created after this one, from the index of their order."""
        first = self._one("SELECT ordinal FROM studies WHERE id = %s", (study,), "study")[0] if study else 0
        query = "SELECT id FROM studies WHERE ordinal > %s ORDER BY ordinal LIMIT %s"
        return [id_ for (id_,) in self._all(query, (first, most))]

    def unfinished(self) -> list[str]:
        """The ids of the studies that have not ended, by their state: all replicas ask this once a second."""
        query = "SELECT id FROM studies WHERE length > 0 AND state <> ALL(%s) ORDER BY ordinal"
        return [id_ for (id_,) in self._all(query, ([state.value for state in ENDED],))]

    def bulletin(self, study: str) -> Bulletin:
        """State of a study and of its rounds, from the projections, in one snapshot."""
        bulletin = self._run(lambda link: bulletin_of(link, study), snapshot, repeatable=True)
        if not bulletin.length:
            raise NotFoundError("there is no such study")
        return bulletin

    def entries(self, study: str, after: int = -1) -> list[Entry]:
        """Entries of a study whose sequence is larger than `after`."""
        query = "SELECT body FROM entries WHERE study = %s AND sequence > %s ORDER BY sequence"
        self._one("SELECT FROM studies WHERE id = %s", (study,), "study")
        return [written_entry(body, "the database") for (body,) in self._all(query, (study, after))]

    def stored_entries(self, study: str, after: int, most: int) -> list[StoredEntry]:
        """The first of the entries behind `after`. Which these are, the database works out from their lengths."""
        self._one("SELECT FROM studies WHERE id = %s", (study,), "study")
        query = """
            SELECT sequence, digest, body FROM entries JOIN (
                SELECT sequence, sum(octet_length(body)) OVER (ORDER BY sequence) AS total,
                       row_number() OVER (ORDER BY sequence) AS place
                FROM entries WHERE study = %s AND sequence > %s
            ) AS sizes USING (sequence)
            WHERE study = %s AND (total <= %s OR place = 1) ORDER BY sequence"""
        return up_to(most, self._all(query, (study, after, study, most)))

    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared at its first use and remembered for a while."""
        return self._known(id_).round

    def state(self, id_: str) -> RoundState:
        """State of a round, from its row."""
        return RoundState(self._one("SELECT state FROM rounds WHERE id = %s", (id_,), "round")[0])

    # ---------------------------------------------------------------------------------------------------- reports

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """Decide and store a group of reports, as the module's theory of operation says."""
        if len(users) != len(outcomes):
            raise ProtocolError("and users are not equally many", where="outcomes")
        known = self._known(id_)
        verdicts = known.refused(users, outcomes, self._populace_for(users))
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
        """Number of accepted reports of a round: the sum of its counters."""
        return self._run(lambda link: count_reports(link, id_), nullcontext, repeatable=True)

    def reports_behind(self, id_: str, mark: int = 0) -> tuple[Users, OutcomeColumn, int]:
        """The users of some groups, and what each has reported. A mark is a place: the number of reports before it."""
        key = self._known(id_).key
        groups = "SELECT users FROM arrivals WHERE round = %s AND place >= %s ORDER BY place LIMIT %s"
        came = b"".join(users for (users,) in self._all(groups, (key, mark, _GROUPS)))
        users = np.frombuffer(came, "<i8").astype(np.int64)
        query = "SELECT user_number, outcome FROM reports WHERE round = %s AND user_number = ANY(%s) ORDER BY 1"
        logged = np.array(self._all(query, (key, users)), np.int64).reshape(-1, 2)
        places = np.searchsorted(logged[:, 0], users)
        return users.astype(np.uint64), logged[places, 1].astype(np.uint32), mark + len(users)

    def tallies(self, id_: str) -> list[Tally]:
        """Tallies of the accepted reports, from the log, one block of users after the other, in one snapshot."""
        known = self._known(id_)

        def work(link: Link) -> list[Tally]:
            total = tally_round(known.round, np.zeros(0, np.uint64), np.zeros(0, np.uint32))
            for block in blocks(range(count_users(link))):
                more = tally_round(known.round, *reports_of(link, known.key, block))
                total = [sum_ + tally for sum_, tally in zip(total, more, strict=True)]
            return total

        return self._run(work, snapshot, repeatable=True)

    # ---------------------------------------------------------------------------------------------------- health

    def census(self) -> Census:
        """How many of everything there are, counted by the database."""
        studies = self._all("SELECT state, count(*) FROM studies WHERE length > 0 GROUP BY state")
        rounds = self._all("SELECT state, count(*) FROM rounds GROUP BY state")
        return Census(
            self.enrolled(),
            {StudyState(state): count for state, count in studies},
            {RoundState(state): count for state, count in rounds},
        )

    def verify(self, tell: Tell = tell_nobody) -> list[Fault]:
        """Follow every bulletin and every report, in one snapshot: replicas may go on writing."""
        return self._run(partial(audit, tell=tell), snapshot, repeatable=True, patience=math.inf)

    def check_key(self, fingerprint: str) -> None:
        """Compare with the key of the first replica that has started, which wrote it here."""
        query = "SELECT fingerprint FROM server_key"

        def insert(link: Link) -> None:
            first_one = (
                "INSERT INTO server_key (fingerprint) VALUES (%s) ON CONFLICT DO NOTHING RETURNING one, fingerprint"
            )
            rows = ask(link, first_one, (fingerprint,)).fetchall()
            seal(link, {"server_key": RowSum.of("server_key", *rows)})

        if not (known := self._all(query)):
            self._run(insert, Link.transaction, repeatable=True)
            known = self._all(query)
        if known != [(fingerprint,)]:
            raise OtherKeyError(
                f"{shown(self._url)} is the ledger of servers with another key: their users' tokens would be refused."
                " Give this server their key (server.key of its data directory, or ASKANCE_SERVER_KEY)."
            )

    def check_writable(self) -> None:
        """Write one row of the schema's versions again."""
        self._one("UPDATE schema_version SET version = version WHERE version = 1 RETURNING version", (), "schema")

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for link in self._links:
            link.close()

    # ----------------------------------------------------------------------------------------------- transactions

    def _run(
        self, work: Callable[[Link], T], begin: Beginning, *, repeatable: bool = False, patience: float = PATIENCE
    ) -> T:
        """Do this work; again, if the database gave it up, or was lost before it said that it was done.

        A database that does not answer a statement for `patience` seconds is away.
        """
        for attempt in range(ATTEMPTS):
            link = self._connected()
            try:
                with waiting(link, patience), begin(link):
                    return work(link)
            except (SerializationFailure, DeadlockDetected):
                time.sleep(0.01 * attempt)
            except psycopg.Error as error:
                if isinstance(error, ReadOnlySqlTransaction):
                    # Whether a session may write is settled when it begins, and after a failover elsewhere.
                    link.close()
                    raise failure(self._url, error) from None
                if not (repeatable and link.closed):
                    raise failure(self._url, error) from None
            except AskanceError:
                raise  # A refusal: the transaction was rolled back.
            except BaseException:
                # MemoryError, KeyboardInterrupt: nobody knows how far the exchange has come. What is open ends with it.
                link.close()
                raise
        raise LedgerError(f"{shown(self._url)}: gave a transaction up {ATTEMPTS} times. Try again under less load.")

    def _connected(self) -> Link:
        if self._closed:
            raise LedgerError(f"{shown(self._url)}: this ledger was closed. Open it again.")
        link: Link | None = getattr(self._mine, "link", None)
        if link is not None and link.info.transaction_status is TransactionStatus.IDLE:
            return link
        if link is not None:
            # Lost, or left in the middle of a transaction: what would be done there would be part of it.
            link.close()
        return self._take(connect(self._url))

    def _take(self, link: Link) -> Link:
        """Give this thread a connection."""
        self._mine.link = link
        with self._taking:
            self._links = [*(each for each in self._links if not each.closed), link]
        return link

    def _one(self, query: LiteralString, parameters: tuple[Any, ...], what: str) -> TupleRow:
        rows = self._all(query, parameters)
        if not rows:
            raise NotFoundError(f"there is no such {what}")
        return rows[0]

    def _all(self, query: LiteralString, parameters: tuple[Any, ...] = ()) -> list[TupleRow]:
        """All rows of one statement, which is a transaction by itself."""
        return self._run(lambda link: ask(link, query, parameters).fetchall(), nullcontext, repeatable=True)

    # ------------------------------------------------------------------------------------------ remembered rounds

    def _known(self, id_: str) -> Known:
        """A published round. It never changes; its state does, and is not part of it."""
        known = self._rounds.get(id_)
        if known is None:
            known = self._run(lambda link: load_round(link, id_), snapshot, repeatable=True)
            # A new one in place of the old: other threads may be looking.
            kept = list(self._rounds.items())[-_REMEMBERED + 1 :]
            self._rounds = {**dict(kept), id_: known}
        return known

    def _populace_for(self, users: Users) -> Populace:
        """Who is enrolled, asked again only if one of these users would not be."""
        if len(users) and int(users.max()) >= self._populace.enrolled:
            self._populace = self._run(populace_of, nullcontext, repeatable=True)
        return self._populace


def audit_postgres(url: str, fingerprint: str | None = None, tell: Tell = tell_nobody) -> list[Fault]:
    """Faults of the ledger in a database, seen in one snapshot: replicas may go on. Nothing is changed or migrated."""
    with closing(connect(url)) as link:
        try:
            with snapshot(link):
                return list(audit_link(link, url, fingerprint, tell))
        except psycopg.Error as error:
            raise failure(url, error) from None


def audit_link(link: Link, url: str, fingerprint: str | None, tell: Tell) -> Iterator[Fault]:
    """Faults of the ledger that a connection sees, and of its version and key."""
    version, newest = schema_of(link), max(migrations("postgres"))
    if not version:
        yield Fault(shown(url), "there is no ledger in this database", "restore the database from a backup")
    elif version > newest:
        what = f"it has schema {version}, and this program knows {newest}"
        yield Fault(shown(url), what, "look with a newer askance")
    elif version < newest:
        step = "stop all servers, then start one: it brings the database up to date, and seals what has no seal"
        yield Fault(shown(url), f"it has schema {version}, of an older version, which is not looked at", step)
    else:
        yield from audit(link, tell)
        known = ask(link, "SELECT fingerprint FROM server_key").fetchall()
        if fingerprint is not None and known not in ([], [(fingerprint,)]):
            what = "it is not the key that this ledger's servers have: tokens in use are refused"
            yield Fault("server key", what, "give this server their key (server.key, or ASKANCE_SERVER_KEY)")


@contextmanager
def snapshot(link: Link) -> Generator[None]:
    """A transaction whose statements all see the same moment."""
    with link.transaction():
        ask(link, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _pipelined(link: Link) -> Generator[None]:
    """A transaction whose statements are sent without waiting for each answer: the way to the database counts once."""
    with link.pipeline(), link.transaction():
        yield


# ---------------------------------------------------------------------------------------------------- enrolling


def _note_kind(link: Link, first_user: int, kind: UserKind) -> RowSum:
    """Begin a new run of kinds, if the last one is of another kind; what has come to their table."""
    insert = """
        INSERT INTO kinds (first_user, kind) SELECT %s, %s
        WHERE coalesce((SELECT kind FROM kinds ORDER BY first_user DESC LIMIT 1), 'unknown') <> %s
        RETURNING first_user, kind"""
    return RowSum.of("kinds", *ask(link, insert, (first_user, kind.value, kind.value)).fetchall())


def _use(link: Link, ticket: Ticket, count: int) -> RowSum:
    """Count the use of a ticket, in the transaction of its users; what has come to their table, less what has gone."""
    before = ask(link, "SELECT id, users, used FROM tickets WHERE id = %s", (ticket.id,)).fetchall()
    used = ticket.used(before[0][2] if before else 0, count)
    write = """
        INSERT INTO tickets (id, users, used) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET used = excluded.used
        RETURNING id, users, used"""
    after = ask(link, write, (ticket.id, ticket.users, used)).fetchall()
    return RowSum.of("tickets", *after) - RowSum.of("tickets", *before)


# ------------------------------------------------------------------------------------------------- deciding a group


def _decide(link: Link, key: int, group: _Group) -> tuple[Verdicts, Integers]:
    """For each user the verdict on her first report, and the outcome that then stands in the log, or −1."""
    # Three statements: each sees what was committed until it began, so the order of locking is the order of seeing.
    if group.live:
        ask(link, "SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, key))
    else:
        ask(link, "SELECT pg_advisory_xact_lock_shared(%s, %s)", (LOCKS, key))
    accounts = ask(
        link,
        """
        SELECT number, cap - spent FROM users
        WHERE number = ANY(%s) AND (SELECT state = 'open' FROM rounds WHERE key = %s)
        ORDER BY number FOR NO KEY UPDATE""",
        (group.users, key),
    )
    reports = ask(
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
        arrived = _place(link, key, group.users[accepted]) if group.live else RowSum()
        _store(link, key, group, accepted)
        seal(link, {"arrivals": arrived})
        stored[accepted] = group.outcomes[accepted]
    return first, stored


def _place(link: Link, key: int, users: Integers) -> RowSum:
    """Put these users behind those whose reports came before; what has come to the table."""
    insert = """
        INSERT INTO arrivals (round, place, users) SELECT %s, sum(reports)::bigint, %s FROM received WHERE round = %s
        RETURNING round, place, users"""
    return RowSum.of("arrivals", *ask(link, insert, (key, users.astype("<i8").tobytes(), key)).fetchall())


def _store(link: Link, key: int, group: _Group, accepted: NDArray[np.intp]) -> None:
    """Charge, log, count and seal in one statement: no report stands in the log that was not charged."""
    given = users, outcomes, _ = group.users[accepted], group.outcomes[accepted], group.charges[accepted]
    stored = ask(
        link,
        """
        WITH given AS (
            SELECT * FROM unnest(%s, %s, %s) AS given (number, outcome, charge)
        ), charged AS (
            UPDATE users SET spent = spent + given.charge FROM given
            -- Named twice: from the join alone a plan may come that reads all users for a batch of a few of them.
            WHERE users.number = given.number AND users.number = ANY(%s) AND spent + given.charge <= cap
            RETURNING users.number, given.outcome
        ), logged AS (
            INSERT INTO reports (user_number, round, outcome) SELECT number, %s, outcome FROM charged RETURNING 1
        )
        UPDATE received SET reports = reports + (SELECT count(*) FROM logged),
            seal = mod(seal + %s + 18446744073709551616, 18446744073709551616)
        WHERE round = %s AND shard = pg_backend_pid() %% %s RETURNING (SELECT count(*) FROM logged)""",
        (*given, users, key, reports_sum(key, users, outcomes).signed, key, SHARDS),
    ).fetchone()
    if stored != (len(accepted),):
        raise LedgerError("Not every report that was decided could be charged; nothing was. Verify the ledger.")


# ------------------------------------------------------------------------------------------- studies and their rounds


def _append(link: Link, study: str, entry: Entry) -> Bulletin:
    notice, changes = entry.notice, dict[str, RowSum]()
    if isinstance(notice, StudyPublished) and notice.study.digest() == study:
        # Studies are created one after the other: who reads on behind the last one has missed none before it.
        ask(link, "SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, _CREATING))
        # There has to be a row to lock. It goes again if the entry is refused.
        create = """
            INSERT INTO studies (id, head, length, state) VALUES (%s, %s, 0, %s) ON CONFLICT DO NOTHING
            RETURNING id, ordinal"""
        rows = ask(link, create, (study, GENESIS, StudyState.CREATED.value)).fetchall()
        changes["studies"] = RowSum.of("studies", *rows)
    return _store_entry(link, study, _locked(link, study), entry, changes)


def _close(link: Link, id_: str, reason: CloseReason) -> Bulletin:
    """Close a round: the count is of all groups that the closing has waited for, and there are no others."""
    study = study_of_round(link, id_)
    before = _locked(link, study)
    if dict(before.rounds)[id_] is not RoundState.OPEN:
        raise NotOpenError(where=f"round {id_}")
    _wait_for_groups(link, id_)
    closing = RoundClosed(round=id_, reason=reason, received=count_reports(link, id_))
    return _store_entry(link, study, before, before.next(closing), {})


def _locked(link: Link, study: str) -> Bulletin:
    """The bulletin of a study, to which nobody else appends before this transaction ends."""
    ask(link, "SELECT FROM studies WHERE id = %s FOR NO KEY UPDATE", (study,))
    return bulletin_of(link, study)


def _store_entry(link: Link, study: str, before: Bulletin, entry: Entry, changes: Mapping[str, RowSum]) -> Bulletin:
    """Check the entry against the locked bulletin; store it, what follows from it, and the seals of both."""
    after = before.append(entry)
    if after.study is None or after.study.digest() != study:
        raise NotFoundError("the entry is of another study")
    body = entry.to_bytes()
    row = (study, entry.sequence, after.head)
    ask(link, "INSERT INTO entries (study, sequence, digest, body) VALUES (%s, %s, %s, %s)", (*row, body))
    sealed = (*row, hashlib.sha256(body).hexdigest())
    position = (after.head, after.length, after.state.value, study)
    ask(link, "UPDATE studies SET head = %s, length = %s, state = %s WHERE id = %s", position)
    known, rounds = dict(before.rounds), RowSum()
    for number, (id_, state) in enumerate(after.rounds, start=1):
        if id_ not in known:
            rounds += _publish(link, (id_, study, entry.sequence, number), state)
        elif known[id_] is not state:
            _turn(link, id_, state)
    if isinstance(entry.notice, RoundClosed):
        check_count(entry.notice, count_reports(link, entry.notice.round))
    seal(link, {**changes, "entries": RowSum.of("entries", sealed), "rounds": rounds})
    return after


def _publish(link: Link, row: tuple[str, str, int, int], state: RoundState) -> RowSum:
    """Store a round and its counters, and return what it adds to the seal of the rounds."""
    insert = "INSERT INTO rounds (id, study, entry, number, state) VALUES (%s, %s, %s, %s, %s) RETURNING key"
    key = first(ask(link, insert, (*row, state.value)))
    ask(link, "INSERT INTO received (round, shard) SELECT %s, generate_series(0, %s - 1)", (key, SHARDS))
    return RowSum.of("rounds", (key, *row))


def _wait_for_groups(link: Link, id_: str) -> None:
    """Wait until all groups are decided that have begun, and let none begin before this transaction ends."""
    ask(link, "SELECT pg_advisory_xact_lock(%s, key) FROM rounds WHERE id = %s", (LOCKS, id_))


def _turn(link: Link, id_: str, state: RoundState) -> None:
    _wait_for_groups(link, id_)
    ask(link, "UPDATE rounds SET state = %s WHERE id = %s", (state.value, id_))


def _table(rows: Cursor[TupleRow]) -> Integers:
    """The rows, which are pairs of integers, as an array."""
    return np.array(rows.fetchall(), np.int64).reshape(-1, 2)
