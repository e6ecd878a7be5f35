"""A group in which users stand many times: the verdicts are those of one turn after the other, in few operations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from askance_protocol.budget import MICRO
from askance_server.ledger.base import Ledger, OutcomeColumn, Users, Verdict, Verdicts
from askance_server.ledger.memory import MemoryLedger
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

STUDY = study()
ROUND = round_of(part(), of=STUDY)
ID = ROUND.digest()


def opened(users: int) -> MemoryLedger:
    """A ledger with one open round; every third user cannot pay."""
    ledger = MemoryLedger()
    for user in range(users):
        ledger.enrol(1, 1 if user % 3 == 2 else MICRO)
    publish(ledger, STUDY, ROUND)
    return ledger


def turns(users: Users) -> Iterator[NDArray[np.intp]]:
    """Positions such that no user appears twice in a turn, and each user's reports keep their order.

    So version 0.1 defined it. The work grows with the square of how often a user appears.
    """
    rest = np.arange(len(users))
    while len(rest):
        _, first = np.unique(users[rest], return_index=True)
        yield rest[np.sort(first)]
        rest = np.delete(rest, first)


def in_turns(ledger: Ledger, users: Users, outcomes: OutcomeColumn) -> Verdicts:
    """The reference: one turn after the other."""
    verdicts = np.empty(len(users), np.uint8)
    for turn in turns(users):
        verdicts[turn] = ledger.charge(ID, users[turn], outcomes[turn])
    return verdicts


def at_once(ledger: Ledger, users: Users, outcomes: OutcomeColumn) -> Verdicts:
    return ledger.charge(ID, users, outcomes)


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(
    groups=st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=30), min_size=1, max_size=3),
    closed=st.booleans(),
)
def test_a_group_gets_the_verdicts_of_one_turn_after_the_other(
    groups: list[list[tuple[int, int]]], closed: bool
) -> None:
    one, other = opened(6), opened(6)
    for group in groups:
        if closed and group is groups[-1]:
            for ledger in (one, other):
                ledger.close_round(ID, "operator")
        users = np.array([user for user, _ in group], np.uint64)
        outcomes = np.array([outcome for _, outcome in group], np.uint32)

        assert at_once(one, users, outcomes).tolist() == in_turns(other, users, outcomes).tolist()

    assert [one.standing(user) for user in range(6)] == [other.standing(user) for user in range(6)]
    assert one.tallies(ID)[0].to_rows() == other.tallies(ID)[0].to_rows()
    assert one.verify() == other.verify() == []


def calls(charge: Callable[[Ledger, Users, OutcomeColumn], Verdicts], reports: int) -> int:
    """The number of function calls that a group of reports by one user takes, numpy's among them."""
    ledger = opened(6)
    users, outcomes = np.zeros(reports, np.uint64), np.arange(reports, dtype=np.uint32) % np.uint32(2)
    made = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    charge(ledger, np.ones(1, np.uint64), outcomes[:1])  # What is done once is done.
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        verdicts = charge(ledger, users, outcomes)
    finally:
        sys.setprofile(before)
    assert np.bincount(verdicts, minlength=3)[:3].tolist() == [1, reports // 2 - 1, reports // 2]
    return made


def test_many_reports_of_one_user_take_as_many_operations_as_a_few() -> None:
    """Each of them is one over the whole group: a sort at most."""
    assert calls(at_once, 32_000) == calls(at_once, 320)


def test_one_turn_after_the_other_takes_an_operation_for_each_report() -> None:
    assert calls(in_turns, 3_200) > 5 * calls(in_turns, 320)


def test_of_a_users_reports_in_a_group_the_first_that_can_be_accepted_is() -> None:
    users = np.array([0, 2, 0, 0, 1, 2, 0, 1], np.uint64)
    outcomes = np.array([9, 1, 1, 0, 0, 1, 1, 0], np.uint32)

    assert [Verdict(verdict).name for verdict in at_once(opened(3), users, outcomes)] == [
        "OUTSIDE",
        "OVER_BUDGET",
        "ACCEPTED",
        "CONFLICT",
        "ACCEPTED",
        "OVER_BUDGET",
        "REPEATED",
        "REPEATED",
    ]
