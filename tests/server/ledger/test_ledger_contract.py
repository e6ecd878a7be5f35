"""What every keeper of the ledger promises (`askance_server.ledger.base`), over all three; then PostgreSQL's own."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import psycopg
import pytest

from askance_protocol.budget import MICRO, Account
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    Bulletin,
    Cause,
    CloseReason,
    Cohort,
    Entry,
    GeometricSpec,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundState,
    StudyEnded,
    StudyPublished,
    StudyState,
    prepare_round,
)
from askance_protocol.tally import tally_round
from askance_server.ledger import open_ledger
from askance_server.ledger.base import (
    Charge,
    Ledger,
    LedgerError,
    NotFoundError,
    NotOpenError,
    StaleEpochError,
    Standing,
    Ticket,
    TicketUsedError,
    Verdict,
)
from askance_server.ledger.kinds import UserKind, UserKinds
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres
from tests.harness.marks import SECONDS
from tests.harness.told import Told
from tests.protocol.studies import HEIGHT, LN_3, MASKED_BIT, TABLE, part, round_of, study
from tests.server.ledger.ledgers import Keeper, PostgresKeeper, SqliteKeeper, publish
from tests.server.ledger.memory_ledger import MemoryKeeper

pytest_plugins = ("tests.server.ledger.ledgers",)

STUDY = study()
ID = STUDY.digest()
FIRST = round_of(part(), of=STUDY)
SECOND = round_of(part(), of=STUDY, number=2)
THIRD = round_of(part(), of=STUDY, number=3)
A, B, C = FIRST.digest(), SECOND.digest(), THIRD.digest()
NOWHERE = "f" * 64

# Half of the users, a quarter of them by the third part: three charges, and three numbers of outcomes.
PARTED_STUDY = study(interactive=False, nonce="f" * 32)
PARTED = round_of(
    part(share=2),
    part(MASKED_BIT, TABLE, LN_3),
    part(HEIGHT, GeometricSpec(micro_epsilon=MICRO), charge=2 * MICRO),
    of=PARTED_STUDY,
    cohort=Cohort(users=1_000_000, slots=2),
)
PREPARED = prepare_round(PARTED_STUDY, PARTED)
P = PREPARED.id


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    """Each of the three, empty."""
    match request.param:
        case "memory":
            kept: Keeper = MemoryKeeper()
        case "sqlite":
            kept = SqliteKeeper(tmp_path / "data")
        case _:
            kept = PostgresKeeper(request.getfixturevalue("database"))
    yield kept
    kept.ledger.close()


def report(ledger: Ledger, round_: str, *reports: tuple[int, int]) -> list[Verdict]:
    """Charge a group of (user, outcome)."""
    users = np.array([user for user, _ in reports], np.uint64)
    verdicts = ledger.charge(round_, users, np.array([outcome for _, outcome in reports], np.uint32))
    assert verdicts.dtype == np.uint8
    return [Verdict(verdict) for verdict in verdicts.tolist()]


def close(ledger: Ledger, round_: str, study_: str = ID) -> Bulletin:
    """Close a round, and look that its count on the bulletin is that of the tallies."""
    bulletin = ledger.close_round(round_, "operator")
    closing = ledger.entries(study_)[-1].notice
    assert closing == RoundClosed(round=round_, reason="operator", received=tallied(ledger, round_))
    assert bulletin == ledger.bulletin(study_)
    return bulletin


def tallied(ledger: Ledger, round_: str) -> int:
    """Number of reports in a round's tallies."""
    return sum(tally.received for tally in ledger.tallies(round_))


def spent(ledger: Ledger, user: int) -> int:
    """What a user has spent, which is what her charges add up to."""
    standing = ledger.standing(user)
    assert standing.account.spent == sum(charge.micro_epsilon for charge in standing.charges)
    return standing.account.spent


def users_of_part(number: int | None, count: int) -> list[int]:
    """The first users who are asked that part of `PARTED`; with None, who are asked none."""
    everybody = range(10_000)
    asked, (dealt, _) = PREPARED.asked(everybody), PREPARED.questions(everybody)
    chosen = ~asked if number is None else asked & (dealt == number)
    return np.flatnonzero(chosen)[:count].tolist()


# ---------------------------------------------------------------------------------------------------------------- users


def test_nobody_is_enrolled_at_first(ledger: Ledger) -> None:
    assert ledger.enrolled() == 0


def test_users_are_numbered_one_after_the_other(ledger: Ledger) -> None:
    given = [ledger.enrol(3, MICRO), ledger.enrol(1, 2 * MICRO), ledger.enrol(1000, MICRO)]

    assert given == [range(3), range(3, 4), range(4, 1004)]
    assert ledger.enrolled() == 1004


def test_to_enrol_nobody_changes_nothing(ledger: Ledger) -> None:
    ledger.enrol(3, MICRO)

    assert ledger.enrol(0, 7) == range(3, 3)
    assert ledger.enrolled() == 3


def test_every_user_has_the_cap_that_she_was_enrolled_with(ledger: Ledger) -> None:
    ledger.enrol(2, MICRO)
    ledger.enrol(1, 7)
    ledger.enrol(1, MICRO)

    assert [ledger.standing(user) for user in range(4)] == [
        Standing(Account(cap), ()) for cap in (MICRO, MICRO, 7, MICRO)
    ]


def test_who_was_never_enrolled_is_not_found(ledger: Ledger) -> None:
    ledger.enrol(3, MICRO)

    with pytest.raises(NotFoundError):
        ledger.standing(3)


def test_a_standing_lists_what_each_round_cost(ledger: Ledger) -> None:
    ledger.enrol(2, 10 * MICRO)
    publish(ledger, STUDY, FIRST, SECOND, THIRD)
    for round_ in (C, A):
        report(ledger, round_, (1, 0))

    standing = ledger.standing(1)
    assert standing.account == Account(10 * MICRO, 2 * MICRO)
    assert Counter(standing.charges) == Counter([Charge(A, MICRO), Charge(C, MICRO)])
    assert ledger.standing(0) == Standing(Account(10 * MICRO), ())


def test_a_user_affords_what_remains_and_no_more(ledger: Ledger) -> None:
    ledger.enrol(2, 2 * MICRO)
    ledger.enrol(2, 3 * MICRO)
    publish(ledger, STUDY, FIRST)
    report(ledger, A, (1, 0), (3, 0))

    assert ledger.affording(range(4), MICRO).tolist() == [True, True, True, True]
    assert ledger.affording(range(4), MICRO + 1).tolist() == [True, False, True, True]
    assert ledger.affording(range(4), 2 * MICRO + 1).tolist() == [False, False, True, False]
    assert ledger.affording(range(1, 3), 2 * MICRO).tolist() == [False, True]
    assert ledger.affording(range(2, 2), MICRO).tolist() == []
    assert ledger.affording(range(4), MICRO).dtype == np.bool
    charges = [1, MICRO, MICRO + 1, 2 * MICRO, 2 * MICRO + 1, 9 * MICRO]
    assert ledger.able(charges) == [int(ledger.affording(range(4), charge).sum()) for charge in charges]
    assert ledger.able(charges) == [4, 4, 3, 3, 1, 0]


def test_who_is_not_enrolled_affords_nothing(ledger: Ledger) -> None:
    ledger.enrol(2, MICRO)

    assert ledger.affording(range(1, 4), 1).tolist() == [True, False, False]
    assert ledger.affording(range(5, 7), 1).tolist() == [False, False]


def test_revoking_counts_one_users_epoch_up(ledger: Ledger) -> None:
    ledger.enrol(3, MICRO)

    assert [ledger.epoch(user) for user in range(3)] == [0, 0, 0]
    assert [ledger.revoke(1), ledger.revoke(1)] == [1, 2]
    assert [ledger.epoch(user) for user in range(3)] == [0, 2, 0]


def test_nobodys_epoch_is_one_that_no_token_carries_and_nobody_is_revoked(ledger: Ledger) -> None:
    ledger.enrol(3, MICRO)

    assert ledger.epoch(3) == -1
    with pytest.raises(NotFoundError):
        ledger.revoke(3)


def test_of_those_who_renew_by_the_same_token_one_succeeds(ledger: Ledger) -> None:
    ledger.enrol(3, MICRO)

    assert ledger.revoke(1, 0) == 1
    for stale in (0, 2, 7):
        with pytest.raises(StaleEpochError):
            ledger.revoke(1, stale)
    assert ledger.revoke(1, 1) == 2
    # An operator expects none.
    assert ledger.revoke(1) == 3
    assert [ledger.epoch(user) for user in range(3)] == [0, 3, 0]
    with pytest.raises(NotFoundError):
        ledger.revoke(3, 0)


# ------------------------------------------------------------------------------------------------ tickets and kinds


TICKET, OTHER_TICKET = Ticket("0f" * 16, 5), Ticket("a1" * 16, 2)


def enrols(ledger: Ledger, count: int, ticket: Ticket) -> bool:
    """Whether a ticket lets so many in; if not, nothing has changed."""
    before = ledger.enrolled()
    try:
        assert ledger.enrol(count, MICRO, ticket=ticket) == range(before, before + count)
    except TicketUsedError:
        assert ledger.enrolled() == before
        return False
    return True


def test_a_ticket_lets_its_number_in_and_no_more(keeper: Keeper) -> None:
    ledger = keeper.ledger
    assert [enrols(ledger, count, TICKET) for count in (2, 4, 1, 3, 2, 1)] == [True, False, True, False, True, False]
    assert [enrols(ledger, count, OTHER_TICKET) for count in (3, 2, 1)] == [False, True, False]
    assert enrols(ledger, 0, TICKET)
    ledger.enrol(4, MICRO)

    ledger = keeper.reopen()
    assert not enrols(ledger, 1, TICKET)
    assert ledger.enrolled() == 11
    assert ledger.verify() == []


KEY, OTHER_KEY = "c0" * 16, "c1" * 16


def test_an_enrolment_with_a_key_is_named_again_and_enrols_nobody_a_second_time(keeper: Keeper) -> None:
    """Whatever else is asked, also by a ticket that is used up. The control is another key, and none."""
    ledger = keeper.ledger
    assert ledger.enrol(2, MICRO) == range(2)
    assert ledger.enrol(2, MICRO, ticket=OTHER_TICKET, key=KEY) == range(2, 4)
    assert ledger.enrol(1, MICRO, key=OTHER_KEY) == range(4, 5)
    for _ in range(2):
        assert ledger.enrol(2, MICRO, ticket=OTHER_TICKET, key=KEY) == range(2, 4)
        assert ledger.enrol(7, 2 * MICRO, UserKind.REAL, most=3, key=KEY) == range(2, 4)
        assert ledger.enrol(1, MICRO, key=OTHER_KEY) == range(4, 5)
        assert (ledger.enrolled(), ledger.let_in(OTHER_TICKET.id)) == (5, 2)
        assert ledger.verify() == []
        ledger = keeper.reopen()
    assert ledger.enrol(2, MICRO, key="c2" * 16) == range(5, 7)
    assert ledger.enrol(2, MICRO) == range(7, 9)


def test_a_key_whose_enrolment_was_refused_is_free(ledger: Ledger) -> None:
    with pytest.raises(TicketUsedError):
        ledger.enrol(3, MICRO, ticket=OTHER_TICKET, key=KEY)
    with pytest.raises(ProtocolError):
        ledger.enrol(3, MICRO, most=2, key=KEY)

    assert ledger.enrol(1, MICRO, key=KEY) == range(1)


def test_what_else_refuses_an_enrolment_uses_no_ticket(ledger: Ledger) -> None:
    for wrong in (lambda: ledger.enrol(2, 0, ticket=TICKET), lambda: ledger.enrol(2, MICRO, ticket=TICKET, most=1)):
        with pytest.raises(ProtocolError):
            wrong()

    assert enrols(ledger, TICKET.users, TICKET)


def test_there_are_no_more_users_than_there_is_room_for(ledger: Ledger) -> None:
    assert ledger.enrol(3, MICRO, most=3) == range(3)
    with pytest.raises(ProtocolError, match="room for 0 more"):
        ledger.enrol(1, MICRO, most=3)
    assert ledger.enrol(1, MICRO, most=4) == range(3, 4)


def kinds_of(ledger: Ledger) -> list[UserKind]:
    """The kind of each user."""
    return [kind for users, kind in ledger.kinds().runs(ledger.enrolled()) for _ in users]


def test_each_user_is_of_the_kind_that_she_enrolled_with(keeper: Keeper) -> None:
    real, simulated, unknown = UserKind.REAL, UserKind.SIMULATED, UserKind.UNKNOWN
    assert kinds_of(keeper.ledger) == []
    wanted: list[UserKind] = []
    for count, kind in (
        (2, simulated),
        (1, simulated),
        (1, real),
        (2, unknown),
        (1, unknown),
        (3, real),
        (1, simulated),
    ):
        keeper.ledger.enrol(count, MICRO, kind)
        wanted += [kind] * count
        assert kinds_of(keeper.ledger) == wanted

    ledger = keeper.reopen()
    assert kinds_of(ledger) == wanted
    assert ledger.kinds().counts(11) == {real: 4, simulated: 4, unknown: 3}
    for kinds in ({real}, {simulated, unknown}, set(UserKind), set[UserKind]()):
        affords = ledger.affording(range(12), MICRO, kinds)
        assert affords.tolist() == [*(kind in kinds for kind in wanted), False]


def test_a_simulated_user_is_not_in_a_study_of_real_ones_and_whoever_wants_is_in_a_simulated_one(
    ledger: Ledger,
) -> None:
    of_persons = study(simulated=False)
    round_ = round_of(part(), of=of_persons).digest()
    publish(ledger, STUDY, FIRST)
    publish(ledger, of_persons, round_of(part(), of=of_persons))
    for kind in (UserKind.UNKNOWN, UserKind.SIMULATED, UserKind.REAL):
        ledger.enrol(1, 2 * MICRO, kind)

    everybody = ((0, 1), (1, 1), (2, 1), (3, 1))
    accepted, refused, unknown = Verdict.ACCEPTED, Verdict.NOT_ASKED, Verdict.UNKNOWN_USER
    assert report(ledger, round_, *everybody) == [accepted, refused, accepted, unknown]
    assert report(ledger, A, *everybody) == [accepted, accepted, accepted, unknown]
    assert [spent(ledger, user) for user in range(3)] == [2 * MICRO, MICRO, 2 * MICRO]
    assert (tallied(ledger, round_), tallied(ledger, A)) == (2, 3)


def test_whom_rounds_wait_for_and_gateways_speak_for() -> None:
    real, simulated, unknown = UserKind.REAL, UserKind.SIMULATED, UserKind.UNKNOWN
    kinds = UserKinds()
    assert kinds.spoken_for(0) == range(0)
    assert kinds.spoken_for(7) == range(7)  # Users of version 0.1.
    assert kinds.waited_for(7, simulated=True) == {simulated, unknown}
    kinds = kinds.extended(0, real)
    assert (kinds.spoken_for(3), kinds.waited_for(3, simulated=True)) == (range(0), set(UserKind))
    kinds = kinds.extended(3, simulated).extended(5, real).extended(6, simulated).extended(8, unknown)
    assert kinds.spoken_for(9) == range(3, 8)
    assert kinds.spoken_for(6) == range(3, 5)  # Whoever comes later is not in it.
    assert kinds.waited_for(9, simulated=True) == {simulated, unknown}
    assert kinds.waited_for(9, simulated=False) == {real, unknown}


# --------------------------------------------------------------------------------------------- studies and their rounds


def test_a_new_ledger_has_no_studies(ledger: Ledger) -> None:
    assert ledger.studies() == []


def test_what_was_appended_is_what_the_bulletin_says(ledger: Ledger) -> None:
    bulletin = Bulletin()
    answered = RoundAnswered(round=A, tallies=(((2, 3),),))
    closed = RoundClosed(round=A, reason="target", received=0)
    ended = StudyEnded(state="finished", reason="")
    entries: list[Entry] = []
    for notice in (StudyPublished(study=STUDY), RoundPublished(round=FIRST), closed, answered, ended):
        entries.append(bulletin.next(notice))
        bulletin = bulletin.append(entries[-1])

        assert ledger.append(ID, entries[-1]) == bulletin
        assert ledger.bulletin(ID) == bulletin
        assert ledger.entries(ID) == entries
    assert ledger.studies() == [ID]
    assert [ledger.entries(ID, after) for after in (-1, 0, 3, 4, 9)] == [entries, entries[1:], entries[4:], [], []]


def test_studies_are_listed_oldest_first_and_keep_apart(ledger: Ledger) -> None:
    others = [study(nonce=digit * 32) for digit in "9a15"]
    for other in others:
        publish(ledger, other, round_of(part(), of=other))

    assert ledger.studies() == [other.digest() for other in others]
    close(ledger, round_of(part(), of=others[1]).digest(), others[1].digest())
    states = [ledger.bulletin(id_).rounds[0][1] for id_ in ledger.studies()]
    assert states == [RoundState.OPEN, RoundState.CLOSED, RoundState.OPEN, RoundState.OPEN]
    assert ledger.studies() == [other.digest() for other in others]


def test_a_published_round_is_found_prepared(ledger: Ledger) -> None:
    publish(ledger, STUDY, FIRST, SECOND)
    publish(ledger, PARTED_STUDY, PARTED)

    for id_, prepared in ((A, prepare_round(STUDY, FIRST)), (B, prepare_round(STUDY, SECOND)), (P, PREPARED)):
        found = ledger.round(id_)
        assert (found.id, found.study, found.spec) == (prepared.id, prepared.study, prepared.spec)


@pytest.mark.parametrize("after", [-1, 0, 1, 2, 3, 1 << 53])
def test_entries_as_they_are_stored_are_the_entries_as_many_as_fit(ledger: Ledger, after: int) -> None:
    publish(ledger, STUDY, FIRST)
    ledger.close_round(A, "operator")
    entries = ledger.entries(ID, after)
    sizes = list(accumulate(len(entry.to_bytes()) for entry in entries))

    for most in {0, 1, *sizes, *(size - 1 for size in sizes), 1 << 30}:
        fit = max(1, sum(size <= most for size in sizes))
        stored = ledger.stored_entries(ID, after, most)
        assert [(each.sequence, each.digest, each.body) for each in stored] == [
            (entry.sequence, entry.digest(), entry.to_bytes()) for entry in entries[:fit]
        ]
    with pytest.raises(NotFoundError):
        ledger.stored_entries(NOWHERE, after, 1)


def test_unfinished_studies_are_those_that_have_not_ended(ledger: Ledger) -> None:
    assert ledger.unfinished() == []
    publish(ledger, STUDY, FIRST)
    publish(ledger, PARTED_STUDY, PARTED)
    assert ledger.unfinished() == ledger.studies() == [ID, PARTED_STUDY.digest()]

    ledger.append(ID, ledger.bulletin(ID).next(StudyEnded(state="cancelled", reason="enough", cause=Cause.CANCELLED)))

    assert ledger.unfinished() == [PARTED_STUDY.digest()]
    assert len(ledger.studies()) == 2


def test_a_rounds_state_follows_the_bulletin(ledger: Ledger) -> None:
    bulletin = publish(ledger, STUDY, FIRST, SECOND)
    assert ledger.state(A) is RoundState.OPEN

    bulletin = ledger.append(ID, bulletin.next(RoundClosed(round=A, reason="target", received=0)))
    assert (ledger.state(A), ledger.state(B)) == (RoundState.CLOSED, RoundState.OPEN)

    bulletin = ledger.append(ID, bulletin.next(RoundAnswered(round=A, tallies=(((0, 0),),))))
    assert (ledger.state(A), ledger.state(B)) == (RoundState.ANSWERED, RoundState.OPEN)

    ledger.append(ID, bulletin.next(StudyEnded(state="cancelled", reason="")))
    assert (ledger.state(A), ledger.state(B)) == (RoundState.ANSWERED, RoundState.ABANDONED)
    assert ledger.bulletin(ID).state is StudyState.CANCELLED


@pytest.mark.parametrize("reason", ["target", "deadline", "operator"])
def test_a_closing_counts_the_reports_that_were_accepted(keeper: Keeper, reason: CloseReason) -> None:
    """Those of the tallies, which are those with a receipt: not the refused ones, and a retry counts once."""
    ledger = keeper.ledger
    ledger.enrol(9, 2 * MICRO)
    publish(ledger, STUDY, FIRST, SECOND)
    told = report(ledger, A, (0, 1), (1, 0), (1, 0), (1, 1), (2, 7), (99, 1), (3, 1))
    bulletin = ledger.close_round(A, reason)

    assert told.count(Verdict.ACCEPTED) == 3
    for opened in (lambda: keeper.ledger, keeper.reopen):
        ledger = opened()
        assert ledger.entries(ID)[-1].notice == RoundClosed(round=A, reason=reason, received=3)
        assert ledger.bulletin(ID) == bulletin
        assert (ledger.state(A), ledger.received(A), tallied(ledger, A)) == (RoundState.CLOSED, 3, 3)
        assert ledger.verify() == []


def test_of_two_closings_the_second_is_refused(keeper: Keeper) -> None:
    """Also by a keeper that was opened again, and where the study has ended in between."""
    bulletin = publish(keeper.ledger, STUDY, FIRST, SECOND)
    bulletin = close(keeper.ledger, A)
    keeper.ledger.append(ID, bulletin.next(StudyEnded(state="cancelled", reason="")))
    before = keeper.ledger.entries(ID)

    for opened in (lambda: keeper.ledger, keeper.reopen):
        ledger = opened()
        for id_ in (A, B):
            with pytest.raises(NotOpenError):
                ledger.close_round(id_, "operator")
        assert ledger.entries(ID) == before


@pytest.mark.parametrize("wrong", [-2, -1, 1])
def test_a_closing_with_another_count_is_refused(keeper: Keeper, wrong: int) -> None:
    ledger = keeper.ledger
    ledger.enrol(9, 2 * MICRO)
    bulletin = publish(ledger, STUDY, FIRST)
    report(ledger, A, (0, 1), (1, 0))

    with pytest.raises(ProtocolError, match="and the round has 2 reports"):
        ledger.append(ID, bulletin.next(RoundClosed(round=A, reason="target", received=2 + wrong)))

    for opened in (lambda: keeper.ledger, keeper.reopen):
        assert opened().bulletin(ID) == bulletin
        assert opened().state(A) is RoundState.OPEN
    # The control: with its true count the same entry is taken.
    assert report(keeper.ledger, A, (2, 1)) == [Verdict.ACCEPTED]
    keeper.ledger.append(ID, bulletin.next(RoundClosed(round=A, reason="target", received=3)))


def test_what_does_not_exist_is_not_found(ledger: Ledger) -> None:
    publish(ledger, STUDY, FIRST)
    nobody = np.zeros(0, np.uint64), np.zeros(0, np.uint32)

    for ask in (
        lambda: ledger.bulletin(NOWHERE),
        lambda: ledger.entries(NOWHERE),
        lambda: ledger.round(NOWHERE),
        lambda: ledger.state(NOWHERE),
        lambda: ledger.charge(NOWHERE, *nobody),
        lambda: ledger.received(NOWHERE),
        lambda: ledger.tallies(NOWHERE),
        lambda: ledger.close_round(NOWHERE, "operator"),
        lambda: ledger.round(B),
    ):
        with pytest.raises(NotFoundError):
            ask()


def wrong_entries() -> Iterator[tuple[str, Entry]]:
    bulletin = Bulletin().extend(entries_of_two())
    right = bulletin.next(RoundPublished(round=SECOND))
    yield "a place taken", right.model_copy(update={"sequence": 1})
    yield "a gap", right.model_copy(update={"sequence": 3})
    yield "another history", right.model_copy(update={"previous": NOWHERE})
    yield "the study again", bulletin.next(StudyPublished(study=STUDY))
    yield "a number left out", bulletin.next(RoundPublished(round=THIRD))
    yield "a round of another study", bulletin.next(RoundPublished(round=PARTED))
    yield "closing what was never published", bulletin.next(RoundClosed(round=B, reason="target", received=0))
    yield "answering what is open", bulletin.next(RoundAnswered(round=A, tallies=(((0, 0),),)))


def entries_of_two() -> list[Entry]:
    first = Bulletin().next(StudyPublished(study=STUDY))
    return [first, Bulletin().append(first).next(RoundPublished(round=FIRST))]


@pytest.mark.parametrize("entry", [pytest.param(entry, id=why) for why, entry in wrong_entries()])
def test_a_wrong_entry_is_refused_and_nothing_of_it_is_stored(keeper: Keeper, entry: Entry) -> None:
    before = publish(keeper.ledger, STUDY, FIRST)

    with pytest.raises(ProtocolError):
        keeper.ledger.append(ID, entry)

    for opened in (lambda: keeper.ledger, keeper.reopen):
        ledger = opened()
        assert ledger.bulletin(ID) == before
        assert ledger.entries(ID) == entries_of_two()
        assert (ledger.state(A), ledger.studies()) == (RoundState.OPEN, [ID])
        assert ledger.verify() == []
        with pytest.raises(NotFoundError):
            ledger.round(B)
    keeper.ledger.append(ID, before.next(RoundPublished(round=SECOND)))


def test_a_study_does_not_begin_with_anything_else(ledger: Ledger) -> None:
    with pytest.raises(ProtocolError):
        ledger.append(ID, Bulletin().next(RoundPublished(round=FIRST)))
    with pytest.raises(NotFoundError):
        ledger.append(NOWHERE, Bulletin().next(StudyPublished(study=STUDY)))

    assert ledger.studies() == []
    publish(ledger, STUDY, FIRST)


# ------------------------------------------------------------------------------------------------------------- verdicts


def test_each_verdict_and_that_a_refusal_costs_nothing(ledger: Ledger) -> None:
    publish(ledger, PARTED_STUDY, PARTED)
    (stranger,) = users_of_part(None, 1)
    poor, *users = users_of_part(0, 10)
    ledger.enrol(poor, 10 * MICRO)
    ledger.enrol(1, MICRO - 1)
    ledger.enrol(10_000, 10 * MICRO)
    enrolled = ledger.enrolled()

    cases = [
        ((users[0], 1), Verdict.ACCEPTED),
        ((users[0], 1), Verdict.REPEATED),
        ((users[0], 0), Verdict.CONFLICT),
        ((users[1], 2), Verdict.OUTSIDE),
        ((stranger, 0), Verdict.NOT_ASKED),
        ((enrolled, 0), Verdict.UNKNOWN_USER),
        ((poor, 0), Verdict.OVER_BUDGET),
    ]
    for case, verdict in cases:
        assert report(ledger, P, case) == [verdict]
    assert report(ledger, P, *(case for case, _ in cases)) == [
        Verdict.REPEATED if verdict is Verdict.ACCEPTED else verdict for _, verdict in cases
    ]
    close(ledger, P, PARTED_STUDY.digest())
    assert report(ledger, P, (users[2], 0)) == [Verdict.NOT_OPEN]

    assert ledger.received(P) == 1
    assert [spent(ledger, user) for user in (users[0], users[1], users[2], stranger, poor)] == [MICRO, 0, 0, 0, 0]
    assert ledger.verify() == []


def test_numbers_beyond_all_bounds_are_refused_like_others(ledger: Ledger) -> None:
    ledger.enrol(1, MICRO)
    publish(ledger, STUDY, FIRST)

    reports = [(number, 0) for number in (1, 2**31, 2**48 - 1, 2**48, 2**63, 2**64 - 1)]
    assert report(ledger, A, *reports) == [Verdict.UNKNOWN_USER] * 6
    assert report(ledger, A, *((0, outcome) for outcome in (2, 2**31, 2**32 - 1))) == [Verdict.OUTSIDE] * 3
    assert ledger.received(A) == 0


def test_public_refusals_come_first_and_in_their_order(ledger: Ledger) -> None:
    publish(ledger, PARTED_STUDY, PARTED)
    (stranger,) = users_of_part(None, 1)
    (user,) = users_of_part(0, 1)
    ledger.enrol(max(stranger, user) + 1, 1)
    close(ledger, P, PARTED_STUDY.digest())

    # All of them also come too late and cannot pay.
    assert report(ledger, P, (stranger, 99)) == [Verdict.NOT_ASKED]
    assert report(ledger, P, (user, 99)) == [Verdict.OUTSIDE]
    assert report(ledger, P, (10_000_000, 99)) == [Verdict.UNKNOWN_USER]
    assert report(ledger, P, (user, 0)) == [Verdict.NOT_OPEN]


@pytest.mark.parametrize("closed", [False, True])
def test_a_retry_is_answered_alike_whenever_it_comes(ledger: Ledger, closed: bool) -> None:
    ledger.enrol(1, MICRO)
    publish(ledger, STUDY, FIRST, SECOND)
    assert report(ledger, A, (0, 1)) == [Verdict.ACCEPTED]
    if closed:
        close(ledger, A)
    for _ in range(2):
        # She has spent everything, and perhaps the round is closed.
        assert report(ledger, A, (0, 1), (0, 0)) == [Verdict.REPEATED, Verdict.CONFLICT]

    assert report(ledger, B, (0, 1)) == [Verdict.OVER_BUDGET]
    assert (spent(ledger, 0), ledger.received(A), ledger.received(B)) == (MICRO, 1, 0)


def test_a_closed_round_is_said_before_an_empty_purse(ledger: Ledger) -> None:
    ledger.enrol(1, 1)
    publish(ledger, STUDY, FIRST)
    assert report(ledger, A, (0, 1)) == [Verdict.OVER_BUDGET]
    close(ledger, A)

    assert report(ledger, A, (0, 1)) == [Verdict.NOT_OPEN]


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
def test_the_rounds_of_a_study_that_has_ended_take_no_reports(ledger: Ledger, end: str) -> None:
    ledger.enrol(2, MICRO)
    bulletin = publish(ledger, STUDY, FIRST)
    report(ledger, A, (0, 1))
    ledger.append(ID, bulletin.next(StudyEnded.model_validate({"state": end, "reason": ""})))

    assert report(ledger, A, (1, 1), (0, 1)) == [Verdict.NOT_OPEN, Verdict.REPEATED]


def test_within_a_group_a_users_first_report_counts_and_the_others_are_retries(ledger: Ledger) -> None:
    ledger.enrol(4, 10 * MICRO)
    publish(ledger, STUDY, FIRST)

    group = [(2, 1), (0, 0), (2, 0), (2, 1), (0, 0), (3, 1)]
    assert report(ledger, A, *group) == [
        Verdict.ACCEPTED,
        Verdict.ACCEPTED,
        Verdict.CONFLICT,
        Verdict.REPEATED,
        Verdict.REPEATED,
        Verdict.ACCEPTED,
    ]
    assert [spent(ledger, user) for user in range(4)] == [MICRO, 0, MICRO, MICRO]
    assert ledger.tallies(A)[0].counts.tolist() == [[1, 2]]


def test_a_report_that_was_refused_does_not_count_as_her_first(ledger: Ledger) -> None:
    ledger.enrol(1, MICRO)
    ledger.enrol(1, 1)
    publish(ledger, STUDY, FIRST)

    assert report(ledger, A, (0, 9), (1, 0), (0, 1), (1, 1)) == [
        Verdict.OUTSIDE,
        Verdict.OVER_BUDGET,
        Verdict.ACCEPTED,
        Verdict.OVER_BUDGET,
    ]


def test_each_part_charges_its_own_and_has_its_own_outcomes(ledger: Ledger) -> None:
    ledger.enrol(10_000, 10 * MICRO)
    publish(ledger, PARTED_STUDY, PARTED)
    users = [users_of_part(number, 1)[0] for number in range(3)]
    last = PREPARED.parts[2].channel.outcomes - 1

    assert report(ledger, P, *((user, last) for user in users)) == [
        Verdict.OUTSIDE,
        Verdict.OUTSIDE,
        Verdict.ACCEPTED,
    ]
    assert report(ledger, P, (users[0], 1), (users[1], 1)) == [Verdict.ACCEPTED] * 2
    assert [spent(ledger, user) for user in users] == [MICRO, LN_3, 2 * MICRO]


def test_a_budget_is_spent_to_the_last_micro_epsilon_and_no_further(ledger: Ledger) -> None:
    ledger.enrol(1, 2 * MICRO)
    ledger.enrol(1, 2 * MICRO - 1)
    publish(ledger, STUDY, FIRST, SECOND, THIRD)

    told = [report(ledger, round_, (0, 1), (1, 1)) for round_ in (A, B, C)]
    assert told == [
        [Verdict.ACCEPTED, Verdict.ACCEPTED],
        [Verdict.ACCEPTED, Verdict.OVER_BUDGET],
        [Verdict.OVER_BUDGET, Verdict.OVER_BUDGET],
    ]
    assert ledger.standing(0).account.remaining == 0
    assert ledger.standing(1).account.remaining == MICRO - 1


def test_one_cap_covers_all_studies(ledger: Ledger) -> None:
    ledger.enrol(1, MICRO)
    other = study(nonce="a" * 32)
    publish(ledger, STUDY, FIRST)
    publish(ledger, other, elsewhere := round_of(part(), of=other))

    assert report(ledger, elsewhere.digest(), (0, 1)) == [Verdict.ACCEPTED]
    assert report(ledger, A, (0, 1)) == [Verdict.OVER_BUDGET]


def test_an_empty_group_is_decided(ledger: Ledger) -> None:
    publish(ledger, STUDY, FIRST)

    assert report(ledger, A) == []
    assert ledger.received(A) == 0


def test_arguments_that_do_not_fit_are_refused_and_change_nothing(ledger: Ledger) -> None:
    ledger.enrol(2, MICRO)
    publish(ledger, STUDY, FIRST)

    for wrong in (
        lambda: ledger.charge(A, np.arange(2, dtype=np.uint64), np.zeros(1, np.uint32)),
        lambda: ledger.enrol(-1, MICRO),
        lambda: ledger.enrol(1, -1),
        lambda: ledger.enrol(1, 0),
    ):
        with pytest.raises(ProtocolError):
            wrong()
    assert (ledger.enrolled(), ledger.received(A), ledger.verify()) == (2, 0, [])
    assert report(ledger, A, (0, 1)) == [Verdict.ACCEPTED]


def test_users_who_enrol_later_take_part(ledger: Ledger) -> None:
    publish(ledger, STUDY, FIRST)
    assert report(ledger, A, (0, 1)) == [Verdict.UNKNOWN_USER]
    ledger.enrol(2, MICRO)
    assert report(ledger, A, (0, 1), (2, 1)) == [Verdict.ACCEPTED, Verdict.UNKNOWN_USER]
    ledger.enrol(2, MICRO)
    assert report(ledger, A, (3, 1), (0, 1)) == [Verdict.ACCEPTED, Verdict.REPEATED]


# ------------------------------------------------------------------------------------------------ the log and its audit


def test_tallies_are_what_the_accepted_reports_add_up_to(ledger: Ledger) -> None:
    ledger.enrol(5000, 10 * MICRO)
    publish(ledger, PARTED_STUDY, PARTED)
    users = np.random.default_rng(1).permutation(5000).astype(np.uint64)
    outcomes = (users % np.uint64(3)).astype(np.uint32)
    verdicts = np.concatenate(
        [ledger.charge(P, users[k : k + 700], outcomes[k : k + 700]) for k in range(0, 5000, 700)]
    )
    accepted = verdicts == Verdict.ACCEPTED
    close(ledger, P, PARTED_STUDY.digest())
    ledger.charge(P, users, outcomes)

    expected = tally_round(PREPARED, users[accepted], outcomes[accepted])
    found = ledger.tallies(P)
    assert [tally.counts.tolist() for tally in found] == [tally.counts.tolist() for tally in expected]
    assert ledger.received(P) == int(accepted.sum()) == sum(tally.received for tally in found) > 1000


def test_nobodys_reports_add_up_to_nothing(ledger: Ledger) -> None:
    publish(ledger, PARTED_STUDY, PARTED)

    assert ledger.received(P) == 0
    shapes = [(part.rows, part.channel.outcomes) for part in PREPARED.parts]
    assert [tally.counts.shape for tally in ledger.tallies(P)] == shapes
    assert not any(tally.received for tally in ledger.tallies(P))


def test_a_ledger_that_is_opened_again_says_the_same(keeper: Keeper) -> None:
    ledger = keeper.ledger
    ledger.enrol(3, 2 * MICRO)
    ledger.enrol(2, MICRO)
    ledger.revoke(1)
    publish(ledger, STUDY, FIRST, SECOND)
    report(ledger, A, (0, 1), (3, 0), (4, 1))
    report(ledger, B, (0, 0))
    close(ledger, A)

    def everything(of: Ledger) -> list[object]:
        return [
            of.enrolled(),
            [of.standing(user) for user in range(5)],
            [of.epoch(user) for user in range(5)],
            of.affording(range(5), MICRO).tolist(),
            of.studies(),
            of.bulletin(ID),
            of.entries(ID),
            [(of.state(id_), of.received(id_), of.tallies(id_)[0].counts.tolist()) for id_ in (A, B)],
            of.verify(),
        ]

    before = everything(ledger)
    again = keeper.reopen()
    assert everything(again) == before
    # And it goes on from there.
    assert again.enrol(1, MICRO) == range(5, 6)
    assert report(again, B, (0, 0), (3, 1), (5, 1)) == [Verdict.REPEATED, Verdict.OVER_BUDGET, Verdict.ACCEPTED]
    assert report(again, A, (4, 1), (5, 1)) == [Verdict.REPEATED, Verdict.NOT_OPEN]


def test_an_audit_finds_nothing_where_nothing_is_wrong(ledger: Ledger) -> None:
    assert ledger.verify() == []
    ledger.enrol(100, MICRO)
    publish(ledger, STUDY, FIRST, SECOND)
    for round_ in (A, B):
        report(ledger, round_, *((user, user % 2) for user in range(100)))

    assert ledger.verify() == []


def test_an_audit_tells_how_far_it_is(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = keeper.ledger
    ledger.enrol(100, MICRO)
    publish(ledger, STUDY, FIRST, SECOND)
    for round_ in (A, B):
        report(ledger, round_, *((user, user % 2) for user in range(100)))
    parts = ("verifying bulletins", "verifying reports")
    if isinstance(keeper, PostgresKeeper):
        parts = ("verifying the bulletins", "verifying the reports")
    told = Told()
    ledger.verify(told)
    assert told.fault(*parts) is None

    # The control: a length that is not that of the entries.
    monkeypatch.setattr(Bulletin, "extend", lambda self, entries: list(islice(entries, 2)))
    monkeypatch.setattr("askance_server.ledger.postgres.audit._replay", lambda link, study, tell: tell(2) or Bulletin())
    again = Told()
    ledger.verify(again)
    assert again.fault(*parts) == f"{parts[0]}: it is not told to its end"


def test_an_audit_finds_who_has_spent_more_than_her_cap(keeper: Keeper) -> None:
    keeper.ledger.enrol(100, MICRO)
    publish(keeper.ledger, STUDY, FIRST, SECOND)
    report(keeper.ledger, A, (41, 1), (42, 1))

    keeper.plant_overspend(42)

    faults = keeper.ledger.verify()
    assert "user 42" in {fault.where for fault in faults}
    assert all(fault.what for fault in faults)
    assert "user 41" not in {fault.where for fault in faults}


def test_writing_is_tried_out(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.check_writable()


# --------------------------------------------------------------------------------- many reports, against a small model


@dataclass
class Model:
    """The theory of operation in base.py, for one report after the other."""

    caps: list[int]
    rounds: dict[str, PreparedRound]
    spent: Counter[int] = field(default_factory=Counter[int])
    reports: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    closed: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        everybody = range(len(self.caps))
        self.asked = {id_: round_.asked(everybody).tolist() for id_, round_ in self.rounds.items()}
        self.dealt = {id_: round_.questions(everybody)[0].tolist() for id_, round_ in self.rounds.items()}

    def report(self, id_: str, user: int, outcome: int) -> Verdict:  # noqa: PLR0911 - the order is what matters
        if user >= len(self.caps):
            return Verdict.UNKNOWN_USER
        if not self.asked[id_][user]:
            return Verdict.NOT_ASKED
        mine = self.rounds[id_].parts[self.dealt[id_][user]]
        if outcome >= mine.channel.outcomes:
            return Verdict.OUTSIDE
        if (id_, user) in self.reports:
            return Verdict.REPEATED if self.reports[id_, user] == outcome else Verdict.CONFLICT
        if id_ in self.closed:
            return Verdict.NOT_OPEN
        if self.spent[user] + mine.part.charge > self.caps[user]:
            return Verdict.OVER_BUDGET
        self.spent[user] += mine.part.charge
        self.reports[id_, user] = outcome
        return Verdict.ACCEPTED


def test_large_groups_of_everything_get_the_verdicts_that_one_report_after_the_other_gets(keeper: Keeper) -> None:
    rng = np.random.default_rng(20)
    caps = rng.integers(1, 5, 8) * MICRO + rng.integers(0, 2, 8)
    for cap in caps.tolist():
        keeper.ledger.enrol(1500, cap)
    rounds = [PARTED.model_copy(update={"study": ID, "number": number}) for number in range(1, 6)]
    publish(keeper.ledger, STUDY, *rounds)
    ids = [round_.digest() for round_ in rounds]
    prepared = [prepare_round(STUDY, round_) for round_ in rounds]
    model = Model(np.repeat(caps, 1500).tolist(), dict(zip(ids, prepared, strict=True)))

    seen: Counter[Verdict] = Counter()
    for number, size in enumerate([10_000, *rng.integers(0, 1000, 52).tolist(), 10_000]):
        id_ = ids[0] if not number else ids[int(rng.integers(5))]
        if number in {25, 40}:
            model.closed.add(closing_ := ids[number % 4])
            close(keeper.ledger, closing_)
        # A small number of users, so that many come again, in half of the groups.
        users = rng.integers(0, (12_010, 400)[number % 2], size).astype(np.uint64)
        outcomes = rng.choice([0, 1, 2, 999], size, p=[0.45, 0.45, 0.05, 0.05]).astype(np.uint32)

        verdicts = keeper.ledger.charge(id_, users, outcomes).tolist()

        assert verdicts == [model.report(id_, *one) for one in zip(users.tolist(), outcomes.tolist(), strict=True)]
        seen.update(map(Verdict, verdicts))
    assert min(seen[verdict] for verdict in Verdict) > 5
    compare(keeper.ledger, model)
    compare(keeper.reopen(), model)


def compare(ledger: Ledger, model: Model) -> None:
    """Tallies and counts of all rounds, and the accounts of some users."""
    for id_, round_ in model.rounds.items():
        mine = [(user, outcome) for (of, user), outcome in model.reports.items() if of == id_]
        users, outcomes = np.array(mine, np.int64).reshape(-1, 2).T
        expected = [tally.counts.tolist() for tally in tally_round(round_, users, outcomes)]
        assert [tally.counts.tolist() for tally in ledger.tallies(id_)] == expected
        assert ledger.received(id_) == len(mine)
    for user in range(0, len(model.caps), 97):
        assert spent(ledger, user) == model.spent[user]
    assert ledger.verify() == []


# ------------------------------------------------------------------------------------------------- PostgreSQL's own


@contextmanager
def sql(url: str) -> Iterator[psycopg.Connection]:
    """Behind the ledger's back."""
    with psycopg.connect(url, autocommit=True) as link:
        yield link


@pytest.fixture
def used(database: str) -> Iterator[PostgresLedger]:
    """A ledger over PostgreSQL in which something has happened."""
    with closing(PostgresLedger.open(database)) as ledger:
        ledger.enrol(10, 2 * MICRO)
        publish(ledger, STUDY, FIRST, SECOND)
        report(ledger, A, (1, 1), (2, 0), (3, 1))
        close(ledger, A)
        yield ledger


def test_the_factory_opens_postgresql_for_its_url(database: str) -> None:
    with closing(open_ledger(database)) as ledger:
        assert isinstance(ledger, PostgresLedger)


def test_every_table_and_column_is_explained(database: str) -> None:
    query = """
        SELECT relname, attname FROM pg_class CROSS JOIN LATERAL (
            SELECT attname, attnum FROM pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0
            UNION ALL SELECT '(table)', 0
        ) AS columns
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND col_description(pg_class.oid, attnum) IS NULL
        AND obj_description(pg_class.oid) IS NULL = (attnum = 0)"""
    with sql(database) as link:
        assert link.execute(query).fetchall() == []
        assert link.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchall() == [(12,)]
        # The control: a column without a comment is found.
        link.execute("ALTER TABLE users ADD COLUMN mystery integer")
        assert link.execute(query).fetchall() == [("users", "mystery")]


PLANTS = {
    "a sum": ("UPDATE users SET spent = spent + 1 WHERE number = 3", "user 3"),
    "a report": ("DELETE FROM reports WHERE user_number = 3", "user 3"),
    "a report of a stranger": ("UPDATE reports SET outcome = 2 WHERE user_number = 3", "user 3"),
    "a hole in the numbers": ("DELETE FROM users WHERE number = 5", "user 5"),
    "a count": ("UPDATE received SET reports = reports + 1 WHERE shard = 3", f"round {A}"),
    "a round's state": ("UPDATE rounds SET state = 'open' WHERE number = 1", f"study {ID}"),
    "a study's state": ("UPDATE studies SET state = 'sealed'", f"study {ID}"),
    "a head": (f"UPDATE studies SET head = '{NOWHERE}'", f"study {ID}"),
    "the last entry": ("DELETE FROM entries WHERE sequence = 3", f"study {ID}"),
    "the chain": ("UPDATE entries SET sequence = 9 WHERE sequence = 3", f"study {ID}"),
    "a body": (
        "UPDATE entries SET body = convert_to(replace(convert_from(body, 'UTF8'), 'A study', 'B study'), 'UTF8')",
        f"study {ID}",
    ),
}


@pytest.mark.parametrize(("statement", "where"), PLANTS.values(), ids=PLANTS)
def test_an_audit_finds_what_was_changed_by_hand(
    database: str, used: PostgresLedger, statement: str, where: str
) -> None:
    assert used.verify() == []
    with sql(database) as link:
        link.execute("SET session_replication_role = replica")
        link.execute("ALTER TABLE entries DROP CONSTRAINT digest_of_body")
        link.execute(statement.encode())

    assert where in {fault.where for fault in used.verify()}


FORBIDDEN = (
    "UPDATE users SET spent = cap + 1",
    "UPDATE users SET spent = -1",
    "INSERT INTO users (number, cap) VALUES (3, 1)",
    "INSERT INTO reports (round, user_number, outcome) VALUES (1, 3, 1)",
    "INSERT INTO reports (round, user_number, outcome) VALUES (1, 99, 1)",
    "UPDATE reports SET outcome = 0",
    "DELETE FROM reports",
    "TRUNCATE reports",
    "UPDATE entries SET sequence = sequence + 1",
    "DELETE FROM entries",
    "UPDATE rounds SET state = 'ajar'",
    "DELETE FROM users WHERE number = 3",
)


def test_the_database_itself_refuses_what_must_never_be(database: str, used: PostgresLedger) -> None:
    for statement in FORBIDDEN:
        with sql(database) as link, pytest.raises(psycopg.Error):
            link.execute(statement.encode())
    assert used.verify() == []


def test_a_newer_schema_than_this_program_knows_is_refused(database: str) -> None:
    with sql(database) as link:
        link.execute("INSERT INTO schema_version (version) VALUES (1000)")

    with pytest.raises(LedgerError, match=r"schema 1000.* newer askance"):
        PostgresLedger.open(database)


def told(error: BaseException) -> str:
    """What a log would say of an error, but for the lines of source."""
    assert error.__cause__ is None
    assert error.__suppress_context__
    return "".join(traceback.format_exception_only(error))


def test_an_unreachable_database_is_named_without_its_password() -> None:
    with pytest.raises(LedgerError, match=r"://ann@127\.0\.0\.1:1/askance: .*See that the server runs") as caught:
        PostgresLedger.open("postgresql://ann:Sesame99@127.0.0.1:1/askance?application_name=x")

    assert "Sesame99" not in told(caught.value)


@pytest.mark.parametrize("url", ["postgresql://ann:Sesame99@[/askance", "postgresql://ann:x@host:Sesame99/%zz"])
def test_a_url_that_cannot_be_read_is_not_repeated(url: str) -> None:
    with pytest.raises(LedgerError, match=r"postgresql://user@host:5432/database|invalid") as caught:
        PostgresLedger.open(url)

    assert "ann:" not in told(caught.value)


def test_no_error_repeats_a_report(database: str, used: PostgresLedger) -> None:
    with sql(database) as link:
        link.execute("ALTER TABLE reports ADD CONSTRAINT never CHECK (user_number <> 7)")

    with pytest.raises(LedgerError, match='"never"') as caught:
        report(used, B, (7, 1))

    assert "(7, " not in told(caught.value)
    assert "Failing row" not in told(caught.value)
    # Nothing was stored, and the connection goes on.
    assert spent(used, 7) == 0
    assert report(used, B, (6, 1)) == [Verdict.ACCEPTED]
    assert [fault.where for fault in used.verify()] == ["the tables of the ledger"]  # The constraint.


def cut(url: str) -> None:
    """End all other connections to this database."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
    with sql(url) as link:
        link.execute(query, (link.info.backend_pid,))


def test_a_lost_connection_is_opened_again(database: str, used: PostgresLedger) -> None:
    cut(database)
    assert report(used, B, (1, 1)) == [Verdict.ACCEPTED]
    cut(database)
    assert used.standing(1).account.spent == 2 * MICRO
    cut(database)
    assert used.bulletin(ID).length == 4
    cut(database)
    # To enrol twice would not be the same: that is left to who asked.
    with pytest.raises(LedgerError, match="try again"):
        used.enrol(1, MICRO)
    assert used.enrol(1, MICRO) == range(10, 11)


def test_a_report_whose_acknowledgement_was_lost_is_a_retry(
    database: str, used: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = postgres._decide
    lost: list[int] = []

    def losing(link: postgres.Link, key: int, group: Any) -> object:
        decided = decide(link, key, group)
        if not lost:
            lost.append(1)
            link.execute("COMMIT")
            link.execute("SELECT pg_terminate_backend(pg_backend_pid())").fetchall()
        return decided

    monkeypatch.setattr(postgres, "_decide", losing)

    assert report(used, B, (1, 1)) == [Verdict.REPEATED]
    assert used.received(B) == 1
    assert used.verify() == []


def test_a_closed_ledger_stays_closed(database: str) -> None:
    ledger = PostgresLedger.open(database)
    ledger.close()

    with pytest.raises(LedgerError, match="Open it again"):
        ledger.enrolled()


def by_default(url: str, setting: str) -> None:
    """Set something for all connections to this database."""
    with sql(url) as link:
        link.execute(f'ALTER DATABASE "{link.info.dbname}" SET {setting}'.encode())


def test_it_gives_up_what_fails_again_and_again(used: PostgresLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def failing(*_: object) -> None:
        tried.append(1)
        raise psycopg.errors.SerializationFailure

    monkeypatch.setattr(postgres, "_decide", failing)

    with pytest.raises(LedgerError, match="gave a transaction up"):
        report(used, B, (1, 1))
    assert len(tried) == postgres.ATTEMPTS


def test_a_group_that_the_database_gave_up_in_a_deadlock_is_decided_again(
    database: str, used: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger holds the round's lock and wants a user; the other holds the user and wants the round's lock."""
    ask = postgres.ask
    tried: list[int] = []

    def meeting(link: postgres.Link, query: LiteralString, parameters: tuple[Any, ...] = ()) -> object:
        if "FOR NO KEY UPDATE" in query:
            tried.append(1)
            link.execute("SELECT 1").fetchone()  # Now the round's lock is held: what is in the pipeline was not sent.
            if len(tried) == 1:
                wants.set()
                wait_for_a_lock_that_is_not_granted(database)
        return ask(link, query, parameters)

    monkeypatch.setattr(postgres, "ask", meeting)
    wants = threading.Event()
    with psycopg.connect(database) as other, ThreadPoolExecutor(1) as pool:
        # It waits too long to look for a circle, so the ledger is the one that finds it and gives way.
        other.execute("SET deadlock_timeout = '10min'")
        other.execute("SELECT FROM users WHERE number = 1 FOR UPDATE")
        reporting = pool.submit(report, used, B, (1, 1))
        assert wants.wait(SECONDS)
        other.execute("SELECT pg_advisory_xact_lock(%s, key) FROM rounds WHERE id = %s", (postgres.LOCKS, B))
        other.commit()
        assert reporting.result(SECONDS) == [Verdict.ACCEPTED]
    assert len(tried) == 2
    assert used.received(B) == 1


def wait_for_a_lock_that_is_not_granted(url: str) -> None:
    """Wait until some connection waits for an advisory lock."""
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    end = time.monotonic() + SECONDS
    with psycopg.connect(url, autocommit=True) as link:
        while link.execute(query).fetchone() == (0,):
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_databases_default_isolation_does_not_matter(database: str) -> None:
    by_default(database, "default_transaction_isolation = serializable")
    with closing(PostgresLedger.open(database)) as ledger, closing(PostgresLedger.open(database)) as other:
        ledger.enrol(1, 4 * MICRO)
        publish(ledger, STUDY, FIRST, SECOND)
        # The group waits for the closing, and then has to see it.
        with psycopg.connect(database) as holding, ThreadPoolExecutor(1) as pool:
            holding.execute("SELECT pg_advisory_xact_lock(%s, key) FROM rounds WHERE id = %s", (postgres.LOCKS, A))
            assert report(other, B, (0, 1)) == [Verdict.ACCEPTED]
            waiting = pool.submit(report, other, A, (0, 1))
            wait_for_a_lock_that_is_not_granted(database)
            holding.execute("UPDATE rounds SET state = 'closed' WHERE id = %s", (A,))
            holding.commit()
            assert waiting.result(SECONDS) == [Verdict.NOT_OPEN]


def test_a_large_group_takes_as_many_statements_as_a_small_one(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = postgres.ask

    def counting(link: postgres.Link, query: LiteralString, parameters: tuple[Any, ...] = ()) -> object:
        asked.append(query)
        return ask(link, query, parameters)

    # Those that write; to count the users is another module's.
    monkeypatch.setattr(postgres, "ask", counting)

    def statements(work: Callable[[], object]) -> int:
        asked.clear()
        work()
        return len(asked)

    with closing(PostgresLedger.open(database)) as ledger:
        publish(ledger, STUDY, FIRST)
        ledger.round(A)
        assert statements(lambda: ledger.enrol(1, MICRO)) == statements(lambda: ledger.enrol(100_000, MICRO)) == 3
        ledger.enrolled()
        sizes = (range(1), range(1, 10_001), range(10_001))
        groups = [(np.array(users, np.uint64), np.zeros(len(users), np.uint32)) for users in sizes]
        # The last one are retries: nothing is stored.
        assert [statements(lambda group=group: ledger.charge(A, *group)) for group in groups] == [4, 4, 3]
        assert ledger.received(A) == 10_001
