"""Whatever is done to a ledger, in whatever order, it says what a small model of dictionaries says.

Hypothesis makes up the lives of a ledger: users enrol, rounds open and close, reports come alone and in groups, are
sent again, contradict each other, run out of budget, come late, and the ledger is closed and opened again. After
every step everything that the ledger tells is compared with the model, and before each restart its own audit runs.
`ASKANCE_TORTURE=1` makes ten times as many.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from askance_protocol.budget import MICRO, Account
from askance_protocol.rounds import (
    Bulletin,
    Cohort,
    Entry,
    GeometricSpec,
    KarySpec,
    Part,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundState,
    StudyEnded,
    StudyPublished,
    StudySpec,
    prepare_round,
)
from askance_protocol.tally import tally_round
from askance_server.ledger import (
    Charge,
    Ledger,
    NotFoundError,
    OutcomeColumn,
    StaleEpochError,
    Standing,
    Ticket,
    TicketUsedError,
    UserKind,
    UserKinds,
    Users,
    Verdict,
    Verdicts,
    base,
)
from askance_server.ledger.memory import MemoryLedger
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.sqlite import FILE, SqliteLedger
from askance_server.ledger.sqlite import ledger as sqlite
from tests.protocol.studies import HEIGHT, LN_3, MASKED_BIT, MASKED_CELL, TABLE, WHICH, part, round_of, study
from tests.server.ledger.faults import read_once

pytest_plugins = ("tests.server.ledger.ledgers",)

TORTURE = os.environ.get("ASKANCE_TORTURE") == "1"
RUNS = 5_000 if TORTURE else 500
MEMORY_RUNS = 1_000 if TORTURE else 100
POSTGRES_RUNS = 500 if TORTURE else 50
STEPS = 50

MOST_USERS = 8
MOST_ROUNDS = 10
CAPS = (MICRO, 2 * MICRO, 3 * MICRO + 7)

PARTS: tuple[tuple[Part, ...], ...] = (
    (part(),),
    (part(charge=MICRO + 1),),
    (part(MASKED_CELL, charge=2 * MICRO),),
    (part(WHICH, KarySpec(micro_epsilon=MICRO)),),
    # Parts with charges and numbers of outcomes of their own.
    (part(), part(HEIGHT, GeometricSpec(micro_epsilon=MICRO), charge=2 * MICRO, share=2)),
    (part(MASKED_BIT, TABLE, LN_3), part(MASKED_CELL), part(WHICH, KarySpec(micro_epsilon=MICRO), charge=MICRO + 5)),
)
COHORTS = (
    Cohort(users=MOST_USERS),
    Cohort(users=1 << 40),
    Cohort(first_user=2, users=3),
    Cohort(users=MOST_USERS, slots=4, first_slot=1, slot_count=2),
)

Item = TypeVar("Item")

small = st.integers(0, 11)
users_ = st.integers(0, MOST_USERS + 1)
TICKETS = (Ticket("0f" * 16, 3), Ticket("a1" * 16, 5))
tickets_ = st.sampled_from((None, *TICKETS))
outcomes_ = st.sampled_from((0, 1, 1, 0, 2, 7, 300))


# ------------------------------------------------------------------------------------------------------- the model


@dataclass
class Model:
    """What base.py says, in dictionaries."""

    caps: list[int] = field(default_factory=list[int])
    kinds: list[UserKind] = field(default_factory=list[UserKind])
    used: Counter[str] = field(default_factory=Counter[str])
    """By the id of a ticket: how many users it has let in."""
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    states: dict[str, RoundState] = field(default_factory=dict[str, RoundState])
    reports: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])

    def charges(self, user: int) -> tuple[Charge, ...]:
        return tuple(Charge(id_, dealt(id_, user)[0]) for id_, reports in self.reports.items() if user in reports)

    def standing(self, user: int) -> Standing:
        charges = self.charges(user)
        return Standing(Account(self.caps[user], sum(charge.micro_epsilon for charge in charges)), charges)

    def decide(self, id_: str, user: int, outcome: int) -> Verdict:  # noqa: PLR0911 - one return for each verdict
        reports = self.reports[id_]
        if user >= len(self.caps):
            return Verdict.UNKNOWN_USER
        of_real_users = not ROUNDS[id_].study.simulated
        if not asks(id_, user) or (of_real_users and self.kinds[user] is UserKind.SIMULATED):
            return Verdict.NOT_ASKED
        charge, limit = dealt(id_, user)
        if outcome >= limit:
            return Verdict.OUTSIDE
        if user in reports:
            return Verdict.REPEATED if reports[user] == outcome else Verdict.CONFLICT
        if self.states[id_] is not RoundState.OPEN:
            return Verdict.NOT_OPEN
        if not self.standing(user).account.affords(charge):
            return Verdict.OVER_BUDGET
        reports[user] = outcome
        return Verdict.ACCEPTED


# ----------------------------------------------------------------------------------- studies and rounds, made once


STUDIES: dict[str, StudySpec] = {
    spec.digest(): spec
    for spec in (study(nonce=f"{number:032x}", cap=3 * MICRO, simulated=number != 1) for number in range(3))
}
ROUNDS: dict[str, PreparedRound] = {}


@cache
def publication(study_id: str, number: int, parts: int, cohort: int) -> RoundPublished:
    of = STUDIES[study_id]
    spec = round_of(*PARTS[parts], of=of, number=number, cohort=COHORTS[cohort])
    prepared = prepare_round(of, spec)
    ROUNDS[prepared.id] = prepared
    return RoundPublished(round=spec)


@cache
def asks(id_: str, user: int) -> bool:
    return ROUNDS[id_].asks(user)


@cache
def dealt(id_: str, user: int) -> tuple[int, int]:
    """What the user pays in this round, and how many outcomes she has."""
    mine = ROUNDS[id_].parts[ROUNDS[id_].question(user).part]
    return mine.part.charge, mine.channel.outcomes


def pick(items: Sequence[Item], which: int) -> Item:
    return items[which % len(items)]


def refused(work: Callable[[], object], error: type[Exception]) -> bool:
    """Whether some work is refused by this error. (What `pytest.raises` raises is no AssertionError.)"""
    try:
        work()
    except error:
        return True
    return False


# ----------------------------------------------------------------------------------------------------- the machine


Opener = Callable[[], Ledger]


class LedgerMachine(RuleBasedStateMachine):
    """One ledger from its creation on. `fresh` makes a place for a new ledger and says how to open it."""

    def __init__(self, fresh: Callable[[], Opener], seen: Counter[str]) -> None:
        super().__init__()
        self.open = fresh()
        self.seen = seen
        self.ledger = self.open()
        self.model = Model()
        self.entries: dict[str, list[Entry]] = {}
        self.bulletins: dict[str, Bulletin] = {}
        self.checked: dict[str, dict[int, int]] = {}

    # ------------------------------------------------------------------------------------------------- in the rules

    def append(self, study_id: str, entry: Entry) -> None:
        after = self.bulletins.get(study_id, Bulletin()).append(entry)
        assert self.ledger.append(study_id, entry) == after
        self.bulletins[study_id] = after
        self.entries.setdefault(study_id, []).append(entry)
        for id_, state in after.rounds:
            self.model.states[id_] = state
            self.model.reports.setdefault(id_, {})

    def studies_at_work(self) -> list[str]:
        """Those that take another entry; one that was not published yet does."""
        return [id_ for id_ in STUDIES if id_ not in self.bulletins or self.bulletins[id_].state.value == "running"]

    def rounds(self, *states: RoundState) -> list[str]:
        return [id_ for id_, state in self.model.states.items() if state in states]

    def answered_by(self, user: int) -> list[str]:
        return [id_ for id_, reports in self.model.reports.items() if user in reports]

    def send(self, id_: str, reports: list[tuple[int, int]]) -> list[Verdict]:
        users, outcomes = np.array(reports, np.uint64).T
        expected = [self.model.decide(id_, user, outcome) for user, outcome in reports]
        verdicts = self.ledger.charge(id_, users, outcomes.astype(np.uint32))
        assert [Verdict(verdict) for verdict in verdicts.tolist()] == expected
        self.seen.update(verdict.name for verdict in expected)
        return expected

    # -------------------------------------------------------------------------------------------------------- rules

    @precondition(lambda self: len(self.model.caps) < MOST_USERS)
    @rule(count=st.integers(1, 4), cap=st.sampled_from(CAPS), kind=st.sampled_from(UserKind), ticket=tickets_)
    def enrol(self, count: int, cap: int, kind: UserKind, ticket: Ticket | None) -> None:
        first = len(self.model.caps)
        if ticket is not None:
            if self.model.used[ticket.id] + count > ticket.users:
                assert refused(lambda: self.ledger.enrol(count, cap, kind, ticket=ticket), TicketUsedError)
                return
            self.model.used[ticket.id] += count
        assert self.ledger.enrol(count, cap, kind, ticket=ticket) == range(first, first + count)
        self.model.caps += [cap] * count
        self.model.kinds += [kind] * count

    @precondition(lambda self: len(self.model.states) < MOST_ROUNDS and self.studies_at_work())
    @rule(which=small, parts=st.integers(0, len(PARTS) - 1), cohort=st.integers(0, len(COHORTS) - 1))
    def open_a_round(self, which: int, parts: int, cohort: int) -> None:
        study_id = pick(self.studies_at_work(), which)
        if study_id not in self.bulletins:
            self.append(study_id, Bulletin().next(StudyPublished(study=STUDIES[study_id])))
        bulletin = self.bulletins[study_id]
        self.append(study_id, bulletin.next(publication(study_id, len(bulletin.rounds) + 1, parts, cohort)))

    @precondition(lambda self: self.model.states)
    @rule(which=small, user=users_, outcome=outcomes_)
    def report(self, which: int, user: int, outcome: int) -> None:
        self.send(pick(list(self.model.states), which), [(user, outcome)])

    @precondition(lambda self: self.model.states)
    @rule(which=small, reports=st.lists(st.tuples(users_, outcomes_), min_size=1, max_size=10))
    def report_in_a_group(self, which: int, reports: list[tuple[int, int]]) -> None:
        self.send(pick(list(self.model.states), which), reports)

    @precondition(lambda self: self.model.states)
    @rule(which=small, outcome=outcomes_)
    def report_of_everybody(self, which: int, outcome: int) -> None:
        """In ascending order, each once, as a gateway sends them."""
        self.send(pick(list(self.model.states), which), [(user, outcome) for user in range(len(self.model.caps) + 1)])

    @precondition(lambda self: any(self.model.reports.values()))
    @rule(which=small, turn=small)
    def retry(self, which: int, turn: int) -> None:
        id_ = pick([id_ for id_, reports in self.model.reports.items() if reports], which)
        before = pick(list(self.model.reports[id_].items()), turn)
        assert self.send(id_, [before]) == [Verdict.REPEATED]

    @precondition(lambda self: any(self.model.reports.values()))
    @rule(which=small, turn=small)
    def conflict(self, which: int, turn: int) -> None:
        id_ = pick([id_ for id_, reports in self.model.reports.items() if reports], which)
        user, outcome = pick(list(self.model.reports[id_].items()), turn)
        assert self.send(id_, [(user, 1 - min(outcome, 1))]) == [Verdict.CONFLICT]

    @precondition(lambda self: self.model.caps)
    @rule(user=small)
    def exhaust_the_budget(self, user: int) -> None:
        user %= len(self.model.caps)
        for id_ in self.rounds(RoundState.OPEN):
            self.send(id_, [(user, 0)])

    @precondition(lambda self: self.rounds(RoundState.OPEN))
    @rule(which=small, reason=st.sampled_from(("target", "deadline", "operator")))
    def close(self, which: int, reason: Literal["target", "deadline", "operator"]) -> None:
        id_ = pick(self.rounds(RoundState.OPEN), which)
        notice = RoundClosed(round=id_, reason=reason, received=len(self.model.reports[id_]))
        study_id = ROUNDS[id_].spec.study
        self.append(study_id, self.bulletins[study_id].next(notice))

    @precondition(lambda self: self.rounds(RoundState.CLOSED))
    @rule(which=small)
    def answer(self, which: int) -> None:
        id_ = pick(self.rounds(RoundState.CLOSED), which)
        notice = RoundAnswered(round=id_, tallies=tuple(tally.to_rows() for tally in self.ledger.tallies(id_)))
        study_id = ROUNDS[id_].spec.study
        self.append(study_id, self.bulletins[study_id].next(notice))

    @precondition(lambda self: len(self.rounds(RoundState.OPEN)) > 2)
    @rule(which=small)
    def end_a_study(self, which: int) -> None:
        running = [id_ for id_, bulletin in self.bulletins.items() if bulletin.state.value == "running"]
        study_id = pick(running, which)
        self.append(study_id, self.bulletins[study_id].next(StudyEnded(state="cancelled", reason="enough")))

    @precondition(lambda self: len(self.rounds(RoundState.OPEN)) < len(self.model.states) and self.model.caps)
    @rule(which=small, user=small)
    def report_late(self, which: int, user: int) -> None:
        late = [id_ for id_, state in self.model.states.items() if state is not RoundState.OPEN]
        self.send(pick(late, which), [(user % len(self.model.caps), 1)])

    @precondition(lambda self: self.model.caps)
    @rule(user=small, shown=st.sampled_from((None, 0, 1, 2)))
    def revoke(self, user: int, shown: int | None) -> None:
        user %= len(self.model.caps)
        epoch = self.model.epochs.get(user, 0)
        if shown not in {None, epoch}:
            assert refused(lambda: self.ledger.revoke(user, shown), StaleEpochError)
            return
        self.model.epochs[user] = epoch + 1
        assert self.ledger.revoke(user, shown) == epoch + 1

    @rule()
    def restart(self) -> None:
        assert self.ledger.verify() == []
        self.ledger.close()
        self.ledger = self.open()
        self.checked.clear()

    # --------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def users_stand_as_in_the_model(self) -> None:
        users = range(len(self.model.caps))
        assert self.ledger.enrolled() == len(users)
        for ticket in TICKETS:
            assert self.ledger.let_in(ticket.id) == self.model.used[ticket.id] <= ticket.users
        for user in users:
            standing = self.ledger.standing(user)
            assert standing == self.model.standing(user)
            assert sum(charge.micro_epsilon for charge in standing.charges) == standing.account.spent
            assert standing.account.spent <= standing.account.cap
            assert self.ledger.epoch(user) == self.model.epochs.get(user, 0)
        everybody = range(len(users) + 1)
        for charge in (MICRO, 2 * MICRO):
            affords = [self.model.standing(user).account.affords(charge) for user in users]
            assert self.ledger.affording(everybody, charge).tolist() == [*affords, False]
            real = [kind is UserKind.REAL for kind in self.model.kinds]
            found = self.ledger.affording(everybody, charge, {UserKind.REAL}).tolist()
            assert found == [*map(all, zip(affords, real, strict=True)), False]
        with pytest.raises(NotFoundError):
            self.ledger.standing(len(users))

    @invariant()
    def rounds_stand_as_in_the_model(self) -> None:
        for id_, reports in self.model.reports.items():
            assert self.ledger.state(id_) is self.model.states[id_]
            assert self.ledger.received(id_) == len(reports)
            # A tally costs more than all the rest: one that was compared is looked at again when it must differ.
            if self.checked.get(id_) == reports:
                continue
            self.checked[id_] = dict(reports)
            users, outcomes = np.array(list(reports), np.uint64), np.array(list(reports.values()), np.uint32)
            expected = [tally.to_rows() for tally in tally_round(ROUNDS[id_], users, outcomes)]
            assert [tally.to_rows() for tally in self.ledger.tallies(id_)] == expected

    @invariant()
    def bulletins_stand_as_in_the_model(self) -> None:
        assert self.ledger.studies() == list(self.bulletins)
        for id_, bulletin in self.bulletins.items():
            assert self.ledger.bulletin(id_) == bulletin

    def teardown(self) -> None:
        assert self.ledger.verify() == []
        for id_, entries in self.entries.items():
            assert self.ledger.entries(id_) == entries
        self.ledger.close()


# ------------------------------------------------------------------------------------------------ where ledgers live


def live(fresh: Callable[[], Opener], runs: int, *, shrink: bool = True) -> Counter[str]:
    """Run that many lives of 50 steps; how often each verdict was met."""
    seen: Counter[str] = Counter()
    run_state_machine_as_test(
        partial(LedgerMachine, fresh, seen),  # pyright: ignore[reportArgumentType] - it is only called
        settings=settings(
            max_examples=runs,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    return seen


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for embedded ledgers, in memory where there is one: here nobody pulls the plug."""
    # What is the same bytes is the same entry: lives are many, and each is opened often.
    monkeypatch.setattr(base, "read_entry", read_once)
    # Else no life is long enough for a checkpoint.
    monkeypatch.setattr(sqlite, "CHECKPOINT_AFTER", 3)
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "ledger"
        return
    with tempfile.TemporaryDirectory(prefix="askance-machine-", dir=memory) as folder:
        yield Path(folder) / "ledger"


def embedded(directory: Path, kind: type[SqliteLedger] = SqliteLedger) -> Opener:
    """A new embedded ledger in the place of the one before."""
    shutil.rmtree(directory, ignore_errors=True)
    return partial(kind.open, directory)


def assert_all_verdicts(seen: Counter[str]) -> None:
    """A machine that never meets a verdict proves nothing about it."""
    assert set(seen) == {verdict.name for verdict in Verdict}, seen


# ------------------------------------------------------------------------------------------------------- the tests


@pytest.mark.slow
def test_the_embedded_ledger_is_the_model_whatever_is_done_to_it(directory: Path) -> None:
    assert_all_verdicts(live(partial(embedded, directory), RUNS))


@pytest.mark.slow
def test_the_ledger_in_memory_is_the_model_whatever_is_done_to_it() -> None:
    """It is never opened again: `restart` audits it and goes on with it."""

    def fresh() -> Opener:
        ledger = MemoryLedger()
        return lambda: ledger

    assert_all_verdicts(live(fresh, MEMORY_RUNS))


@pytest.mark.slow
def test_the_postgres_ledger_is_the_model_whatever_is_done_to_it(postgres_server: str) -> None:
    numbers = count()
    with closing(psycopg.connect(postgres_server.format("postgres"), autocommit=True)) as admin:

        def fresh() -> Opener:
            name = f"machine_{next(numbers)}"
            admin.execute(f"CREATE DATABASE {name} TEMPLATE template".encode())
            return partial(PostgresLedger.open, postgres_server.format(name))

        assert_all_verdicts(live(fresh, POSTGRES_RUNS))


class ChargingRetries(SqliteLedger):
    """Charges a report again when it is sent again."""

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        verdicts = super().charge(id_, users, outcomes)
        again = users[verdicts == Verdict.REPEATED]
        self._spending.spent[again] += self.round(id_).charge
        return verdicts


class ForgettingTheLastGroup(SqliteLedger):
    """Reads its log up to the last group but one when it is opened."""

    @classmethod
    def open(cls, directory: Path) -> SqliteLedger:
        if (directory / FILE).exists():
            with closing(sqlite3.connect(directory / FILE, isolation_level=None)) as db:
                db.execute("DELETE FROM report_groups WHERE id = (SELECT max(id) FROM report_groups)")
                # Else it would not open at all.
                counted = "(SELECT count(*) FROM report_groups)"
                db.execute(f"UPDATE seals SET rows = {counted} WHERE name = 'report_groups'")
        return super().open(directory)


class AcceptingLateReports(SqliteLedger):
    """Forgets that a round is closed."""

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        self._states[id_] = RoundState.OPEN
        return super().charge(id_, users, outcomes)


class ForgettingTickets(SqliteLedger):
    """Does not keep what a ticket has let in."""

    def _keep_ticket(self, db: sqlite3.Connection, ticket: Ticket, used: int) -> None: ...


class TakingEverybody(SqliteLedger):
    """Asks simulated users in studies of real ones."""

    def charge(self, id_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        kept, self._kinds = self._kinds, UserKinds()
        try:
            return super().charge(id_, users, outcomes)
        finally:
            self._kinds = kept


@pytest.mark.parametrize(
    "twin", [ChargingRetries, ForgettingTheLastGroup, AcceptingLateReports, ForgettingTickets, TakingEverybody]
)
def test_the_machine_finds_a_planted_fault(directory: Path, twin: type[SqliteLedger]) -> None:
    with pytest.raises(AssertionError):
        live(partial(embedded, directory, twin), runs=30, shrink=False)
