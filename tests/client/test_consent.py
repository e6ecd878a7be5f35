"""What a user answers is a function of public facts; each limit holds to the last micro-ε, second and round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from askance_client.consent import (
    CLOCK_SKEW,
    AccountStatement,
    PublicFacts,
    Spending,
    decide,
    is_asked,
    refuse_late,
    refuse_study,
    undeclared_fields,
)
from askance_client.history import LONG_OVER, History, Pin
from askance_client.refusals import Reason, Refusal
from askance_protocol.budget import LARGEST, MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    LEAST_CHARGE,
    MOST_ROUNDS,
    BinarySpec,
    Cohort,
    Entry,
    Notice,
    Part,
    PreparedRound,
    RoundClosed,
    RoundPublished,
    RoundSpec,
    StudyPublished,
    StudySpec,
)
from askance_protocol.schema import BitsField, IntegerField, Schema
from tests.client.test_history import entries_of
from tests.protocol.studies import SCHEMA, part, round_of, study

USER = 7
STUDY = study(simulated=False, cap=2 * MICRO)
FACTS = PublicFacts(USER, SCHEMA, simulated=False)


def costing(charge: int) -> Part:
    """A part whose channel is as private as it costs."""
    return part(channel=BinarySpec(micro_epsilon=charge), charge=charge)


def history_of(*specs: RoundSpec, of: StudySpec = STUDY) -> History:
    """A study of which these rounds were run, all but the last closed."""
    notices: list[Notice] = [StudyPublished(study=of)]
    for spec in specs:
        if len(notices) > 1:
            before = specs[(len(notices) - 2) // 2]
            notices.append(RoundClosed(round=before.digest(), reason="target", received=10))
        notices.append(RoundPublished(round=spec))
    entries, previous = list[Entry](), "0" * 64
    for sequence, notice in enumerate(notices):
        entries.append(Entry(sequence=sequence, previous=previous, notice=notice))
        previous = entries[-1].digest()
    read = History(of.digest()).extended(entries)
    assert isinstance(read, History)
    return read


def asked(charge: int, *, of: StudySpec = STUDY, **changes: Any) -> tuple[History, str]:
    """A study with one round that costs so much, and its id."""
    spec = round_of(costing(charge), of=of, **changes)
    return history_of(spec, of=of), spec.digest()


def decided(
    history: History, id_: str, spending: Spending, charges: Mapping[str, int] | None = None, user: int = USER
) -> Reason | None:
    """Why she refuses; None if she answers."""
    statement = AccountStatement(user, sum((charges or {}).values()), charges or {})
    said = decide(history, id_, FACTS, spending, statement)
    assert isinstance(said, PreparedRound if not isinstance(said, Refusal) else Refusal)
    return said.reason if isinstance(said, Refusal) else None


# ------------------------------------------------------------------------------------------------------------ charges


@pytest.mark.parametrize(("charge", "reason"), [(LEAST_CHARGE, None), (LEAST_CHARGE - 1, Reason.BELOW_FLOOR)])
def test_the_least_charge_is_answered_and_one_micro_epsilon_less_is_not(charge: int, reason: Reason | None) -> None:
    assert decided(*asked(charge), Spending(MICRO, {}, 0)) is reason


def test_the_least_of_all_parts_is_what_counts() -> None:
    spec = round_of(costing(MICRO), costing(LEAST_CHARGE - 1), of=STUDY)

    assert decided(history_of(spec), spec.digest(), Spending(MICRO, {}, 0)) is Reason.BELOW_FLOOR


@pytest.mark.parametrize(
    "spending",
    [
        Spending(MICRO, {"other": MICRO // 2}, 0),
        Spending(MICRO, {}, MICRO // 2),
        Spending(MICRO, {"a": MICRO // 4, "b": MICRO // 8}, MICRO // 8),
        Spending(MICRO, {"a": MICRO // 4}, 0, again={"a": MICRO // 4}),
    ],
)
def test_a_charge_up_to_the_cap_is_answered_and_one_micro_epsilon_more_is_not(spending: Spending) -> None:
    half = MICRO // 2

    assert spending.spent == half
    assert decided(*asked(half), spending) is None
    assert decided(*asked(half + 1), spending) is Reason.BEYOND_CAP


@pytest.mark.parametrize("kept", ["charges", "heard", "statement", "again", "all"])
def test_what_a_study_promised_at_most_holds_over_its_rounds_whoever_remembers_them(kept: str) -> None:
    """A round counts once, by the highest account of it, and a second time where two draws were seen."""
    first = round_of(costing(MICRO), of=STUDY, number=1)
    own = {"charges": {first.digest(): MICRO}}
    spending = {
        "charges": Spending(LARGEST, {first.digest(): MICRO}, 0),
        "heard": Spending(LARGEST, {}, MICRO, heard={first.digest(): MICRO}),
        "statement": Spending(LARGEST, {}, 0),
        "again": Spending(LARGEST, {first.digest(): MICRO // 2}, 0, again={first.digest(): MICRO // 2}),
        "all": Spending(LARGEST, {first.digest(): MICRO}, 0),
    }[kept]
    charges = own["charges"] if kept in {"statement", "all"} else {}
    for charge, reason in ((MICRO, None), (MICRO + 1, Reason.BEYOND_STUDY_CAP)):
        second = round_of(costing(charge), of=STUDY, number=2, cohort=Cohort(first_user=0, users=1000))
        assert decided(history_of(first, second), second.digest(), spending, charges) is reason

    # The control: rounds of other studies are not in this one's promise.
    elsewhere = Spending(LARGEST, {"0" * 64: 2 * MICRO}, 0)
    second = round_of(costing(MICRO), of=STUDY, number=2)
    assert decided(history_of(first, second), second.digest(), elsewhere) is None


def test_what_is_left_is_said_and_never_below_nothing() -> None:
    history, id_ = asked(MICRO)
    statement = AccountStatement(USER, 0, {})
    said = decide(history, id_, FACTS, Spending(MICRO, {"a": MICRO // 4}, 2 * MICRO), statement)
    assert isinstance(said, Refusal)

    assert "ε = 1 is asked, 0 is left" in said.detail
    # Her own reports would have let her refuse too: nobody's claim is to blame.
    assert "claimed" not in said.detail


@pytest.mark.parametrize(("said", "left"), [(MICRO, "1"), (2 * MICRO - 1, "0.000001"), (3 * MICRO, "0")])
def test_what_is_left_of_a_studys_promise_is_said_and_never_below_nothing(said: int, left: str) -> None:
    first, second = (round_of(costing(MICRO + 1), of=STUDY, number=number) for number in (1, 2))
    statement = AccountStatement(USER, said, {first.digest(): said})
    refusal = decide(history_of(first, second), second.digest(), FACTS, Spending(LARGEST, {}, 0), statement)
    assert isinstance(refusal, Refusal)

    assert f", {left} is left of the 2 that the study promised" in refusal.detail


@pytest.mark.parametrize(("own", "blamed"), [(MICRO // 2, True), (MICRO // 2 + 1, False)])
def test_a_claim_is_blamed_where_nothing_else_keeps_her_from_answering(own: int, blamed: bool) -> None:
    history, id_ = asked(MICRO // 2)
    said = decide(history, id_, FACTS, Spending(MICRO, {"a": own}, MICRO), AccountStatement(USER, 0, {}))
    assert isinstance(said, Refusal)

    assert ("its server has claimed that ε = 1 more was spent in your name" in said.detail) is blamed


# ------------------------------------------------------------------------------------------------- claims of a server


def test_a_higher_figure_is_believed_a_lower_one_never() -> None:
    own = Spending(MICRO, {"a": 100}, 50)

    assert own.after(AccountStatement(USER, 0, {})).spent == 150
    assert own.after(AccountStatement(USER, 150, {})).spent == 150
    assert own.after(AccountStatement(USER, 151, {})).elsewhere == 51
    assert own.after(AccountStatement(USER, 10 * LARGEST, {})).elsewhere == LARGEST


def test_rounds_that_another_copy_answered_are_counted_by_the_highest_cost_and_not_answered_again() -> None:
    history, id_ = asked(MICRO // 2)
    own = Spending(MICRO, {"a": 100}, 0, heard={id_: 30, "b": 40})
    after = own.after(AccountStatement(USER, 0, {"a": 500, id_: 20, "b": 60, "c": 7}))

    assert after.heard == {id_: 30, "b": 60, "c": 7}
    assert after.elsewhere == 97
    assert decided(history, id_, after) is Reason.HEARD_ALREADY
    assert decided(history, id_, replace(after, heard={})) is None


def test_a_statement_about_somebody_else_is_refused() -> None:
    assert decided(*asked(MICRO), Spending(MICRO, {}, 0), user=USER + 1) is Reason.OTHER_USER


# ---------------------------------------------------------------------------------------------------------- the study


def refused(history: History, facts: PublicFacts = FACTS, pin: Pin | None = None) -> Reason | None:
    said = refuse_study(history, pin, facts)
    return None if said is None else said.reason


def test_a_study_has_so_many_rounds_and_not_one_more() -> None:
    rounds = [round_of(costing(LEAST_CHARGE), of=STUDY, number=number) for number in range(1, MOST_ROUNDS + 2)]

    assert refused(history_of(*rounds[:-1])) is None
    assert refused(history_of(*rounds)) is Reason.TOO_MANY_ROUNDS


def test_a_simulated_study_is_for_simulated_users() -> None:
    made_up = history_of(of=study(simulated=True))

    assert refused(made_up) is Reason.SIMULATED
    assert refused(made_up, replace(FACTS, simulated=True)) is None
    assert refused(history_of(), replace(FACTS, simulated=True)) is None


def test_a_field_is_declared_with_its_values_or_it_is_not() -> None:
    here, other = IntegerField(name="i", low=0, high=7), IntegerField(name="i", low=0, high=8)
    asked_for = Schema(fields=(here, BitsField(name="x", width=1)))

    assert undeclared_fields(asked_for, None) == []
    assert undeclared_fields(asked_for, Schema(fields=(*asked_for.fields, BitsField(name="more", width=1)))) == []
    assert undeclared_fields(asked_for, Schema(fields=(other, BitsField(name="z", width=1)))) == ["i", "x"]
    assert refused(history_of(), replace(FACTS, declared=SCHEMA)) is None
    assert refused(history_of(), replace(FACTS, declared=Schema(fields=(here,)))) is Reason.OTHER_SCHEMA
    assert refused(history_of(), replace(FACTS, schema=asked_for)) is Reason.OTHER_SCHEMA


def test_a_history_goes_on_from_what_was_read_of_it() -> None:
    entries = entries_of(1, STUDY)
    history = History(STUDY.digest()).extended(entries)
    assert isinstance(history, History)
    heads = [entry.digest() for entry in entries]

    for length, head in enumerate(heads, 1):
        assert history.continues(Pin(length, head))
        assert refused(history, pin=Pin(length, head)) is None
        assert refused(history, pin=Pin(length, heads[length % len(heads)])) is Reason.TWO_HISTORIES
    assert history.pin == Pin(len(heads), heads[-1])
    for nowhere in (0, -1, len(heads) + 1):
        assert not history.continues(Pin(nowhere, heads[-1]))


# -------------------------------------------------------------------------------------------------------------- times


def test_a_round_is_answered_as_long_after_its_deadline_as_clocks_differ_and_no_longer() -> None:
    history, id_ = asked(MICRO, deadline=1000)
    round_ = history.rounds[id_]

    assert refuse_late(round_, 1000 + CLOCK_SKEW) is None
    late = refuse_late(round_, 1001 + CLOCK_SKEW)
    assert late is not None
    assert (late.reason, late.detail.split(" seconds")[0]) == (
        Reason.DEADLINE_PASSED,
        f"its deadline passed {CLOCK_SKEW + 1}",
    )
    # Kerberos' five minutes, RFC 4120, 8.2.
    assert CLOCK_SKEW == 5 * 60


def test_a_study_is_over_long_after_the_last_of_its_deadlines() -> None:
    first, second = (
        round_of(costing(MICRO), of=STUDY, number=number, deadline=deadline)
        for number, deadline in ((1, 5000), (2, 1000))
    )
    history = history_of(first, second)

    assert history.deadline == 5000
    assert not history.long_over(5000 + LONG_OVER)
    assert history.long_over(5001 + LONG_OVER)
    assert not history_of().long_over(10**12)


# ------------------------------------------------------------------------------------------------------- the question


def test_a_round_asks_its_cohort_and_an_unsound_one_asks_everybody() -> None:
    spec = round_of(costing(MICRO), of=STUDY, cohort=Cohort(first_user=USER, users=1))
    unsound = round_of(part(channel=BinarySpec(micro_epsilon=MICRO), charge=MICRO - 1), of=STUDY)

    assert [is_asked(history_of(spec), spec.digest(), user) for user in (USER - 1, USER, USER + 1)] == [
        False,
        True,
        False,
    ]
    assert decided(history_of(unsound), unsound.digest(), Spending(MICRO, {}, 0)) is Reason.UNSOUND_ROUND


def test_a_history_tells_its_open_rounds_and_nothing_of_a_study_that_was_not_read() -> None:
    first, second = (round_of(costing(MICRO), of=STUDY, number=number) for number in (1, 2))
    history = history_of(first, second)

    assert history.open_rounds() == [second.digest()]
    assert list(history.rounds) == [first.digest(), second.digest()]
    assert history.study == STUDY
    assert history.extended([]) is history
    with pytest.raises(ProtocolError, match="bulletin"):
        _ = History("0" * 64).study
    with_other_name = History("0" * 64).extended(entries_of(0, STUDY))
    assert isinstance(with_other_name, Refusal)
    assert with_other_name.reason is Reason.OTHER_STUDY
    torn = history.extended(entries_of(1, STUDY)[:1])
    assert isinstance(torn, Refusal)
    assert torn.reason is Reason.BROKEN_CHAIN
