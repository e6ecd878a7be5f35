"""ε is counted in whole millionths, exactly, and rounding favours the user."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_protocol.budget import (
    LARGEST,
    MICRO,
    Account,
    BudgetExceededError,
    charge_from_text,
    limit_from_text,
    to_text,
    whole_micro,
)
from askance_protocol.errors import ProtocolError

micros = st.integers(min_value=1, max_value=LARGEST)


@given(micros)
def test_text_and_micro_epsilon_are_two_ways_to_write_one_number(micro: int) -> None:
    assert charge_from_text(to_text(micro)) == limit_from_text(to_text(micro)) == micro


@given(st.decimals(min_value="0.000001", max_value="1000000", allow_nan=False, allow_infinity=False))
def test_an_epsilon_is_read_exactly_or_refused(value: Decimal) -> None:
    exact = value * MICRO
    for read in (charge_from_text, limit_from_text):
        if exact == exact.to_integral_value():
            assert read(str(value)) == exact
        else:
            with pytest.raises(ProtocolError, match="has more than six decimals"):
                read(str(value))


@pytest.mark.parametrize(
    ("text", "near"),
    [("0.12345678", "0.123456"), ("1.0000001", "1"), ("1.9999999", "1.999999"), ("12345678e-8", "0.123456")],
)
def test_an_epsilon_of_more_than_millionths_is_refused_with_the_next_below(text: str, near: str) -> None:
    with pytest.raises(
        ProtocolError,
        match=re.escape(f'ε: {text} has more than six decimals (ε is counted in millionths: write "{near}")'),
    ):
        limit_from_text(text)
    assert limit_from_text(near) <= Decimal(text) * MICRO


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("1", MICRO),
        ("0.5", 500_000),
        ("1e-3", 1000),
        ("+2", 2 * MICRO),
        ("1.000000", MICRO),
        ("0.12345600", 123_456),
        ("12345600e-8", 123_456),
    ],
)
def test_charges_are_read_from_decimal_text(text: str, micro: int) -> None:
    assert charge_from_text(text) == micro


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0.0",
        "-1",
        "nan",
        "NaN",
        "inf",
        "1e999",
        "5e-324",
        "0.0000001",
        "1,5",
        "1_000",
        "0x1",
        " 1",
        "1 ",
        "٣",
        "1" * 65,
        "1.",
        ".5",
    ],
)
def test_what_is_not_a_positive_decimal_is_refused_as_a_limit(text: str) -> None:
    with pytest.raises(ProtocolError, match="ε"):
        limit_from_text(text)


@pytest.mark.parametrize("text", ["0", "0.0", "0.0000009", "1e-9"])
def test_what_is_too_small_is_named_so_and_not_rounded_to_nothing(text: str) -> None:
    with pytest.raises(ProtocolError, match=f"{text} is below one micro-ε"):
        limit_from_text(text)


def test_a_text_is_read_up_to_64_characters() -> None:
    assert charge_from_text("1." + "0" * 62) == MICRO
    with pytest.raises(ProtocolError, match="not a positive decimal"):
        charge_from_text("1." + "0" * 63)


def test_the_largest_number_is_the_last_power_of_ten_that_every_json_reader_has_exactly() -> None:
    assert LARGEST < 2**53 < 10 * LARGEST
    assert limit_from_text("1000000000") == LARGEST
    with pytest.raises(ProtocolError, match="out of range"):
        limit_from_text("1000000000.000001")


@pytest.mark.parametrize("value", [1, 1.0, None, b"1", True])
def test_only_text_is_read(value: object) -> None:
    with pytest.raises(ProtocolError, match="not text"):
        charge_from_text(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1.0, True, "1", None, -1, LARGEST + 1, float("nan")])
def test_only_an_integer_in_range_is_a_number_of_micro_epsilon(value: object) -> None:
    with pytest.raises(ProtocolError):
        whole_micro(value)


@given(micros, st.lists(micros, max_size=30))
def test_an_account_never_exceeds_its_cap_and_counts_exactly(cap: int, charges: list[int]) -> None:
    account, accepted = Account(cap), 0
    for charge in charges:
        if accepted + charge <= cap:
            account, accepted = account.charged(charge), accepted + charge
        else:
            with pytest.raises(BudgetExceededError):
                account.charged(charge)
        assert account.spent == accepted <= cap
        assert account.spent + account.remaining == cap


def test_a_cap_that_is_spent_to_the_last_micro_epsilon_affords_nothing() -> None:
    spent = Account(MICRO).charged(MICRO - 1).charged(1)
    assert spent.remaining == 0
    assert not spent.affords(1)


def test_a_refused_charge_says_what_is_asked_and_what_is_left() -> None:
    with pytest.raises(BudgetExceededError, match=r"ε = 0\.5 is asked and 0\.25 of 1 is left"):
        Account(MICRO, 750_000).charged(500_000)


@pytest.mark.parametrize("value", [0.5, True, -1, LARGEST + 1])
def test_an_account_holds_whole_numbers_in_range_only(value: Any) -> None:
    with pytest.raises(ProtocolError, match="cap"):
        Account(value)
    with pytest.raises(ProtocolError, match="spent"):
        Account(LARGEST, value)


def test_an_account_that_has_overspent_cannot_be_made() -> None:
    with pytest.raises(BudgetExceededError):
        Account(1, 2)
