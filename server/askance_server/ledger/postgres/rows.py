"""Reading the tables: rounds, bulletins, users and reports, for the ledger and for its audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers
from askance_protocol.rounds import Bulletin, PreparedRound, RoundState, StudyState, open_round
from askance_protocol.rounds.bulletin import RoundPublished, RoundStates, StudyPublished
from askance_server.ledger.base import (
    LedgerError,
    NotFoundError,
    OutcomeColumn,
    Users,
    Verdict,
    Verdicts,
    written_entry,
)
from askance_server.ledger.kinds import UserKind, UserKinds, admitted
from askance_server.ledger.postgres.link import Link, ask, first

_BLOCK: Final = 1 << 20
"""Users of whom reports are read at a time: 16 MB at most."""
_REPORT: Final = np.dtype([("user", ">i8"), ("outcome", ">i4")])
_ACCOUNT: Final = np.dtype([("number", ">i8"), ("cap", ">i8"), ("spent", ">i8"), ("epoch", ">i8")])


@dataclass(frozen=True, slots=True, eq=False)
class Populace:
    """Who is enrolled: at least so many, of these kinds. Users only become more, and kinds never change."""

    enrolled: int = 0
    kinds: UserKinds = field(default_factory=UserKinds)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A published round, with the charges and limits that deciding about its reports needs."""

    key: int
    round: PreparedRound
    limits: Integers
    charges: Integers

    @classmethod
    def of(cls, key: int, round_: PreparedRound) -> Known:
        """Number of outcomes and charge of each part."""
        limits = np.array(round_.limits, np.int64)
        return cls(key, round_, limits, np.array([part.charge for part in round_.spec.parts], np.int64))

    def refused(self, users: Users, outcomes: OutcomeColumn, populace: Populace) -> Verdicts:
        """Verdicts as far as public data decide them; `ACCEPTED` for the rest."""
        verdicts = np.full(len(users), Verdict.UNKNOWN_USER, np.uint8)
        known = np.flatnonzero(users < populace.enrolled)
        kinds = admitted(simulated=self.round.study.simulated)
        asked = self.round.asked(users[known]) & populace.kinds.are(users[known], kinds)
        verdicts[known[~asked]] = Verdict.NOT_ASKED
        asked = known[asked]
        inside = outcomes[asked] < self.limits[self._dealt(users[asked])]
        verdicts[asked] = np.where(inside, Verdict.ACCEPTED, Verdict.OUTSIDE)
        return verdicts

    def charged(self, users: Users) -> Integers:
        """The charge of a report by each of these users."""
        return self.charges[self._dealt(users)]

    def _dealt(self, users: Users) -> NDArray[np.uint16]:
        return self.round.questions(users)[0]


def bulletin_of(link: Link, study: str) -> Bulletin:
    """State of a study and of its rounds; an empty bulletin, if there is no such study."""
    position = ask(link, "SELECT head, length, state FROM studies WHERE id = %s", (study,)).fetchone()
    if position is None or not position[1]:
        return Bulletin()
    head, length, state = position
    return Bulletin(head, length, load_study(link, study).study, StudyState(state), rounds_of(link, study))


def rounds_of(link: Link, study: str) -> RoundStates:
    """The rounds of a study in their order, and the state of each."""
    rows = ask(link, "SELECT id, state FROM rounds WHERE study = %s ORDER BY number", (study,))
    return RoundStates.of((id_, RoundState(state)) for id_, state in rows)


def load_round(link: Link, id_: str) -> Known:
    """A round as it was published, prepared."""
    query = """
        SELECT rounds.key, rounds.study, entries.body
        FROM rounds JOIN entries ON entries.study = rounds.study AND entries.sequence = rounds.entry
        WHERE rounds.id = %s"""
    row = ask(link, query, (id_,)).fetchone()
    if row is None:
        raise NotFoundError("there is no such round")
    key, study, body = row
    notice = written_entry(body, "the database").notice
    if not isinstance(notice, RoundPublished):
        raise LedgerError(f"Round {id_} names an entry that publishes no round: restore the database from a backup.")
    return Known.of(key, open_round(load_study(link, study).study, notice.round))


def load_study(link: Link, study: str) -> StudyPublished:
    """The first entry of a bulletin."""
    row = ask(link, "SELECT body FROM entries WHERE study = %s AND sequence = 0", (study,)).fetchone()
    notice = written_entry(row[0], "the database").notice if row is not None else None
    if not isinstance(notice, StudyPublished):
        raise LedgerError(f"The first entry of study {study} is not a study: restore the database from a backup.")
    return notice


def count_users(link: Link) -> int:
    """Number of users: their numbers have no gaps."""
    return int(first(ask(link, "SELECT coalesce(max(number) + 1, 0) FROM users")))


def populace_of(link: Link) -> Populace:
    """Who is enrolled now. First the number: of whoever is counted, the kind is known then."""
    return Populace(count_users(link), kinds_of(link))


def kinds_of(link: Link) -> UserKinds:
    """The kind of every user."""
    kinds = UserKinds()
    for first_user, kind in ask(link, "SELECT first_user, kind FROM kinds ORDER BY first_user"):
        kinds = kinds.extended(first_user, UserKind.named(kind))
    return kinds


def count_reports(link: Link, round_: str) -> int:
    """Number of accepted reports of a round: the sum of its counters."""
    query = "SELECT sum(reports)::bigint FROM received JOIN rounds ON round = key WHERE id = %s"
    counted = first(ask(link, query, (round_,)))
    if counted is None:
        raise NotFoundError("there is no such round")
    return int(counted)


def study_of_round(link: Link, round_: str) -> str:
    """The study that has published a round."""
    row = ask(link, "SELECT study FROM rounds WHERE id = %s", (round_,)).fetchone()
    if row is None:
        raise NotFoundError("there is no such round")
    return str(row[0])


def blocks(users: range) -> Iterator[range]:
    """These users in blocks of which all reports fit into memory."""
    for begin in range(users.start, users.stop, _BLOCK):
        yield range(begin, min(begin + _BLOCK, users.stop))


def blocks_of_users(link: Link, first_number: int = 0) -> Iterator[range]:
    """All users that there are in such blocks; where many numbers are missing, nothing is read."""
    query = "SELECT min(number), (SELECT max(number) FROM users) FROM users WHERE number >= %s"
    while True:
        least, last = ask(link, query, (first_number,)).fetchall()[0]
        if least is None:
            return
        block = range(least, min(least + _BLOCK, last + 1))
        yield block
        first_number = block.stop


def accounts_of(link: Link, block: range) -> tuple[Integers, Integers, Integers, Integers]:
    """Numbers, caps, spending and epochs of these users as columns, read as one value."""
    query = """
        SELECT string_agg(int8send(number) || int8send(cap) || int8send(spent) || int8send(epoch), ''::bytea
            ORDER BY number) FROM users WHERE number >= %s AND number < %s"""
    read = np.frombuffer(first(ask(link, query, (block.start, block.stop))) or b"", _ACCOUNT)
    return (
        read["number"].astype(np.int64),
        read["cap"].astype(np.int64),
        read["spent"].astype(np.int64),
        read["epoch"].astype(np.int64),
    )


def reports_of(link: Link, key: int, block: range) -> tuple[Users, OutcomeColumn]:
    """The reports of these users, read as one value: a row for each would be an object for each."""
    query = """
        SELECT string_agg(int8send(user_number) || int4send(outcome), ''::bytea) FROM reports
        WHERE round = %s AND user_number >= %s AND user_number < %s"""
    reports = np.frombuffer(first(ask(link, query, (key, block.start, block.stop))) or b"", _REPORT)
    return reports["user"].astype(np.uint64), reports["outcome"].astype(np.uint32)
