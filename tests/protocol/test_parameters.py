"""Parameters of studies and populations are read by one reader, whose errors name the parameter."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from askance_protocol import parameters as read
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters


@pytest.mark.parametrize(
    ("given", "value"), [({}, "0.05"), ({"a": "0.5"}, "0.5"), ({"a": "0.000000000000000001"}, "1e-18")]
)
def test_a_decimal_below_an_end(given: Parameters, value: str) -> None:
    assert read.decimal(given, "a", below=1, default="0.05") == Fraction(value)


@pytest.mark.parametrize(
    ("given", "value"), [({}, "0"), ({"a": "-1"}, "-1"), ({"a": 1}, "1"), ({"a": "-0.25"}, "-0.25"), ({"a": "1"}, "1")]
)
def test_a_decimal_in_a_range_with_its_ends(given: Parameters, value: str) -> None:
    """A whole number is taken as it is; text is read exactly."""
    assert read.decimal(given, "a", "0", least="-1", most="1") == Fraction(value)


@pytest.mark.parametrize("given", ["0", "1", "1.5", "-0.5", "", "0.5 ", ".5", "1e-3", "½", "0." + "1" * 19, True, 0, 1])
def test_what_is_not_such_a_decimal_is_refused(given: str | int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read.decimal({"a": given}, "a", below=1, default="0.05")

    assert (caught.value.where, caught.value.what) == ("parameters.a", "is not such a number")
    assert caught.value.remedy == 'give a decimal above 0 and below 1, as text: "0.05"'


@pytest.mark.parametrize("given", ["-1.01", "1.01", "", "NaN", True, 2])
def test_what_is_beyond_a_range_is_refused(given: str | int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read.decimal({"a": given}, "a", "0", least="-1", most="1")

    assert caught.value.remedy == 'give a decimal from -1 to 1, as text: "0"'


def test_whole_numbers_bits_and_words() -> None:
    given: Parameters = {"d": 8, "r": "0110", "kind": "last"}

    assert read.whole(given, "d", 1, 8) == 8
    assert read.whole(given, "k", 1, 8, default=3) == 3
    assert (read.bits(given, "r", 4), read.bits(given, "absent", 4)) == ("0110", None)
    assert (read.word(given, "kind", "first", "last"), read.word(given, "absent", "first", "last")) == ("last", "first")


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("d", lambda: read.whole({"d": 9}, "d", 1, 8)),
        ("d", lambda: read.whole({"d": True}, "d", 0, 8)),
        ("d", lambda: read.whole({}, "d", 1, 8)),
        ("r", lambda: read.bits({"r": "012"}, "r", 3)),
        ("r", lambda: read.bits({"r": "01"}, "r", 3)),
        ("kind", lambda: read.word({"kind": "other"}, "kind", "first", "last")),
        ("misspelt", lambda: read.only({"d": 1, "misspelt": 2}, "d", "alpha")),
    ],
)
def test_an_error_names_the_parameter(name: str, reader: Callable[[], object]) -> None:
    with pytest.raises(ProtocolError) as caught:
        reader()

    assert caught.value.where == f"parameters.{name}"
    assert caught.value.remedy
