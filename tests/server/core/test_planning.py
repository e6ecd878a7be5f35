"""Planning: parameters, shares, targets, cohorts, and what they promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from askance_protocol.budget import MICRO
from askance_protocol.coins import MAX_CHOICES
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import Constant, FieldValue, Integer, Slice
from askance_protocol.rounds import RoundSpec, StudySpec, prepare_round
from askance_server.core import planning
from askance_server.core.planning import (
    Demand,
    RoundPosition,
    TooFewUsersError,
    demand,
    payers,
    plan_round,
    reports_until,
    shares_of,
)
from askance_server.core.sample_size import reports_needed
from askance_server.core.strategy import Ask, Hypothesis
from tests.server.learners import TRUE, bit, strategy_of, study
from tests.server.ledger.memory_ledger import MemoryLedger

CELLS = CellQuery(cells=8, cell=Slice(field="x", first=0, width=3))
REAL = RealQuery(numerator=Integer(of=3), denominator=5)


def nothing(_):
    return Hypothesis("nothing", {})
    yield


SMALL = strategy_of(nothing)
ONLY = RoundPosition(1, Fraction(1), 0)


def planned(
    asks: list[Ask], *, place: RoundPosition = ONLY, rounds: int = 1, users: int = 1_000_000, **parameters
) -> RoundSpec:
    """A round over users who can all pay."""
    spec = study(SMALL, **parameters)
    asked = demand(spec, asks, rounds)
    return plan_round(spec, asked, place, users, everybody(spec, asked, users), now=100)


def everybody(spec: StudySpec, asked: Demand, users: int) -> planning.Slots:
    return payers(spec, users, asked.charge, lambda some, _: np.ones(len(some), np.bool))


# ------------------------------------------------------------------------------------------------------ parameters


def test_the_defaults_are_those_of_the_documents() -> None:
    terms = planning.terms_of({})

    assert (terms.epsilon, terms.beta, terms.users, terms.deadline_seconds) == (MICRO, 0.05, "needed", 3600)


def test_parameters_are_read() -> None:
    given = {"epsilon": "0.25", "beta": "0.1", "users": "all", "deadline_seconds": 5, "d": 4, "alpha": "0.2"}
    terms = planning.terms_of(given)

    assert (terms.epsilon, terms.beta, terms.users, terms.deadline_seconds) == (250_000, 0.1, "all", 5)
    assert planning.strategy_parameters(given) == {"d": 4, "alpha": "0.2"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 1),
        ("epsilon", "0"),
        ("epsilon", "-1"),
        ("epsilon", "much"),
        ("epsilon", "0.2500009"),
        ("beta", "0"),
        ("beta", "1"),
        ("beta", "5%"),
        ("beta", 1),
        ("users", "some"),
        ("users", 0),
        ("users", True),
        ("deadline_seconds", 0),
        ("deadline_seconds", "3600"),
        ("deadline_seconds", True),
        ("deadline_seconds", 10**10),
    ],
)
def test_a_wrong_parameter_is_named(name: str, value: int | bool | str) -> None:
    with pytest.raises(ProtocolError) as caught:
        planning.terms_of({name: value})

    assert caught.value.where == f"parameters.{name}"


# ------------------------------------------------------------------------------------------------- shares and target


@pytest.mark.parametrize(
    ("needs", "shares"),
    [
        ([7], [1]),
        ([5, 5, 5], [1, 1, 1]),
        ([100, 50], [2, 1]),
        ([3, 7], [3, 7]),
    ],
)
def test_small_shares_are_exact(needs: list[int], shares: list[int]) -> None:
    assert shares_of(needs) == shares


@pytest.mark.parametrize("needs", [[10**9 + 7, 3], [10**15 + 37, 10**15 + 91, 1], [2**20 + 7, 2**19 + 1]])
def test_large_shares_stay_within_what_the_coin_deals(needs: list[int]) -> None:
    shares = shares_of(needs)

    assert min(shares) >= 1
    assert sum(shares) <= MAX_CHOICES
    assert shares == pytest.approx([need * MAX_CHOICES / sum(needs) for need in needs], abs=len(needs) + 1)


@pytest.mark.parametrize("needs", [[1, 1], [1, 1000], [40, 60, 900], [2668] * 4, [500] * 64])
@pytest.mark.parametrize("failure", [0.1, 1e-3, 1e-9])
def test_at_the_target_no_part_is_short(needs: list[int], failure: float) -> None:
    """By exact binomial tails and the union bound; and the margin is not much more than it takes."""
    shares = shares_of(needs)
    target = reports_until(needs, shares, failure)
    chances = [share / sum(shares) for share in shares]

    def short(reports: int) -> float:
        return sum(float(binom.cdf(need - 1, reports, q)) for need, q in zip(needs, chances, strict=True))

    assert short(target) <= failure
    if min(needs) >= 500:
        excess = target - sum(needs)
        assert short(target - excess // 2) > failure


def test_control_without_a_margin_parts_are_short() -> None:
    assert binom.cdf(2667, 4 * 2668, 0.25) > 0.4


def test_one_part_needs_no_margin() -> None:
    [need] = demand(study(SMALL, beta="0.1"), [Ask(bit(0), 0.1)], 2).needs
    spec = planned([Ask(bit(0), 0.1)], rounds=2, beta="0.1")

    part = prepare_round(study(SMALL, beta="0.1"), spec).parts[0]
    assert spec.target == need == reports_needed(part, 0.1, 0.05)


def test_failure_is_split_over_rounds_answers_and_the_dealing() -> None:
    """β over the declared rounds; in a round, over t answers and one dealing."""
    asks = [Ask(bit(0), 0.1), Ask(REAL, 0.2), Ask(CELLS, 0.15)]
    spec = study(SMALL, beta="0.08", epsilon="2")
    asked = demand(spec, asks, rounds=4)
    parts = prepare_round(spec, planned(asks, rounds=4, beta="0.08", epsilon="2")).parts

    failure = 0.08 / 4 / 4
    assert list(asked.needs) == [reports_needed(p, ask.tolerance, failure) for p, ask in zip(parts, asks, strict=True)]
    assert asked.target == reports_until(asked.needs, shares_of(asked.needs), failure)
    assert sum(asked.needs) < asked.target < 1.3 * sum(asked.needs)


def test_users_are_dealt_as_the_strategy_says_and_are_enough_for_each_ask() -> None:
    asks = [Ask(bit(0), 0.1), Ask(REAL, 0.1)]
    alike = demand(study(SMALL), [Ask(ask.query, ask.tolerance, share=3) for ask in asks], 1)
    as_needed = demand(study(SMALL), asks, 1)

    # The mean needs four times the reports of the bit.
    assert alike.needs == as_needed.needs
    assert 3 < alike.needs[1] / alike.needs[0] < 5
    assert [part.share for part in alike.parts] == [3, 3]
    assert alike.target > 2 * alike.needs[1]
    assert as_needed.target < alike.target


def test_each_ask_is_a_part_and_cells_are_pooled() -> None:
    spec = planned([Ask(bit(0), 0.1), Ask(CELLS, 0.1), Ask(REAL, 0.1)], epsilon="0.5")
    prepared = prepare_round(study(SMALL, epsilon="0.5"), spec)

    assert [part.part.query for part in prepared.parts] == [bit(0), CELLS, REAL]
    assert [part.rows for part in prepared.parts] == [1, 8, 1]
    assert [part.pooled for part in prepared.parts] == [False, True, False]
    assert {part.part.charge for part in prepared.parts} == {500_000}
    assert all(part.channel.certified_micro_epsilon <= 500_000 for part in prepared.parts)


def test_the_demand_of_64_like_asks_is_64_times_that_of_one() -> None:
    asked = demand(study(SMALL), [Ask(bit(k % 4), 1 / 257) for k in range(64)], 2)

    assert len(set(asked.needs)) == 1
    assert {part.share for part in asked.parts} == {1}


@pytest.mark.parametrize(
    ("asks", "where"),
    [
        ([], "round"),
        ([Ask(TRUE, 0.1)] * 4097, "round"),
        ([Ask(TRUE, 1.0)], "asks[0].tolerance"),
        ([Ask(TRUE, 0.1), Ask(TRUE, 2.5)], "asks[1].tolerance"),
        ([Ask(TRUE, 1e-200)], "asks[0].tolerance"),
        ([Ask(TRUE, 5e-324)], "asks[0].tolerance"),
        ([Ask(bit(4), 0.1)], "parts[0].bit"),
        ([Ask(TRUE, 0.1), Ask(RealQuery(numerator=FieldValue(field="u"), denominator=1), 0.1)], "parts[1].schema"),
        ([Ask(CellQuery(cells=1 << 16, cell=Integer(of=0)), 0.1)] * 5, "round"),
    ],
)
def test_what_cannot_be_asked_is_refused(asks: list[Ask], where: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        demand(study(SMALL), asks, 1)

    assert caught.value.where == where


def test_a_round_too_large_to_publish_is_refused() -> None:
    query = BooleanQuery(test=Constant(truth=True))
    large = RealQuery.model_validate(
        {
            "numerator": {"op": "lookup", "index": {"op": "integer", "of": 0}, "table": (10**12,) * 8000},
            "denominator": 1,
        }
    )
    demand(study(SMALL), [Ask(query, 0.1)] * 100, 1)

    with pytest.raises(ProtocolError, match="too large to be published"):
        demand(study(SMALL), [Ask(large, 0.1)] * 100, 1)


# ----------------------------------------------------------------------------------------------------------- cohort


def test_the_cohort_is_the_least_run_of_slots_that_suffices() -> None:
    """Counted by what clients and ledger will say: `asked` and `affording`."""
    ledger = MemoryLedger()
    ledger.enrol(3000, MICRO // 2)
    ledger.enrol(7000, MICRO)
    spec, place = study(SMALL), RoundPosition(2, Fraction(1, 2), 5000)
    asked = demand(spec, [Ask(bit(0), 0.1)], 3)
    opened = plan_round(spec, asked, place, 10_000, payers(spec, 10_000, asked.charge, ledger.affording), now=100)

    def able(round_: RoundSpec) -> int:
        users = range(10_000)
        return int((prepare_round(spec, round_).asked(users) & ledger.affording(users, asked.charge)).sum())

    wanted = asked.target + -(-asked.target // 20)
    assert able(opened) >= wanted
    cohort = opened.cohort
    smaller = cohort.model_copy(update={"slot_count": cohort.slot_count - 1})
    assert able(opened.model_copy(update={"cohort": smaller})) < wanted
    assert (opened.number, cohort.first_slot, cohort.slots) == (2, 5000, planning.SLOTS)
    assert opened.deadline == 100 + 3600


@pytest.mark.parametrize("portion", [Fraction(1, 3), Fraction(1)])
def test_where_a_study_takes_all_its_target_is_everybody_in_the_cohort_and_nobody_else(portion: Fraction) -> None:
    spec = study(SMALL, users="all")
    slots = np.random.default_rng(1).integers(1, 9, planning.SLOTS)
    opened = plan_round(spec, demand(spec, [Ask(bit(0), 0.1)], 1), RoundPosition(1, portion, 100), 10**6, slots, now=0)
    cohort = opened.cohort
    left = int(slots[100:].sum())

    assert opened.target == slots[100 : 100 + cohort.slot_count].sum()
    assert 0 <= opened.target - left * portion < 9
    assert (cohort.slot_count == planning.SLOTS - 100) is (portion == 1)


def test_payers_are_counted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = study(SMALL)
    whole = payers(spec, 1000, 1, lambda users, _: np.arange(users.start, users.stop) % 3 == 0)
    monkeypatch.setattr(planning, "_CHUNK", 7)
    pieces = payers(spec, 1000, 1, lambda users, _: np.arange(users.start, users.stop) % 3 == 0)

    assert whole.sum() == 334
    assert (whole == pieces).all()


def test_too_few_users_are_told_with_the_numbers() -> None:
    need = demand(study(SMALL), [Ask(bit(0), 0.1)], 1).target

    with pytest.raises(TooFewUsersError) as caught:
        planned([Ask(bit(0), 0.1)], users=need - 1)

    assert (caught.value.needed, caught.value.available) == (need, need - 1)
    assert f"round 1: needs {need:,} users who can still pay ε = 1, and {need - 1:,} are left" in str(caught.value)


def test_users_without_any_margin_are_enough() -> None:
    need = demand(study(SMALL), [Ask(bit(0), 0.1)], 1).target
    spec = planned([Ask(bit(0), 0.1)], users=need)

    assert spec.target == need


def test_the_number_of_slots_stays_what_it_was() -> None:
    """A study that runs over an upgrade counts on it."""
    assert planning.SLOTS == 65_536


@pytest.mark.parametrize("users", ["needed", "all"])
@pytest.mark.parametrize(("enrolled", "first_slot"), [(0, 0), (1000, planning.SLOTS)])
def test_where_nobody_is_left_no_round_opens(users: str, enrolled: int, first_slot: int) -> None:
    with pytest.raises(TooFewUsersError) as caught:
        plan_for(users, enrolled, first_slot)

    assert caught.value.available == 0


def plan_for(users: str, enrolled: int, first_slot: int) -> RoundSpec:
    spec = study(SMALL, users=users)
    asked = demand(spec, [Ask(bit(0), 0.1)], 1)
    return plan_round(
        spec, asked, RoundPosition(1, Fraction(1), first_slot), enrolled, everybody(spec, asked, enrolled), now=0
    )


def test_an_impossible_tolerance_asks_for_more_users_than_there_can_be() -> None:
    with pytest.raises(TooFewUsersError) as caught:
        planned([Ask(bit(0), 1e-9)])

    assert caught.value.needed > 2**53


def test_all_users_are_split_evenly_over_the_rounds_that_are_left() -> None:
    """Far below what the bound asks for; every user is in exactly one round."""
    spec = study(SMALL, users="all")
    asked = demand(spec, [Ask(bit(0), 1e-4), Ask(bit(1), 1e-4)], 3)
    can_pay = everybody(spec, asked, 1000)
    first_slot, sizes, times = 0, list[int](), np.zeros(1000, int)
    for number in (1, 2, 3):
        opened = plan_round(
            spec, asked, RoundPosition(number, Fraction(1, 4 - number), first_slot), 1000, can_pay, now=0
        )
        first_slot += opened.cohort.slot_count
        sizes.append(opened.target)
        times += prepare_round(spec, opened).asked(range(1000))

    assert sizes == pytest.approx([333, 333, 333], abs=2)
    assert (times == 1).all()
