"""No text from outside can steer a terminal, whatever is in it, and every script can still be read."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from askance_protocol.errors import AskanceError, DataError, ProtocolError
from askance_protocol.text import LONGEST, listed, printable, quoted, shortened
from askance_server.auth.files import KeyFileError
from askance_server.settings import SettingsError

ALL = [chr(point) for point in range(sys.maxunicode + 1)]
JOINERS = "\u200c\u200d"


def steers(text: str) -> list[str]:
    """Characters that move, hide or turn what is beside them."""
    return [
        each for each in text if unicodedata.category(each) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and each not in JOINERS
    ]


def test_of_all_characters_none_comes_through_that_steers() -> None:
    everything = "".join(ALL)

    assert steers(printable(everything, 12 * len(everything))) == []
    # The control: what was shown before stands there as it is.
    assert len(steers(everything)) > 2000


def test_letters_marks_signs_and_spaces_of_every_script_stay() -> None:
    kept = [each for each in ALL if unicodedata.category(each)[0] in "LMNPS" or unicodedata.category(each) == "Zs"]
    texts = [
        "ما می\u200cخواهیم",
        "क्\u200dष",
        "ε ≤ ½ · 2⁶⁴",
        "日本\u3000語",
        "e\u0301",
        "1\u00a0000",
        "\\x1b is text",
        "",
    ]

    assert [each for each in kept if printable(each) != each] == []
    assert [each for each in texts if printable(each) != each] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("\x9b31m", r"\x9b31m"),
        ("one\naskance: all is well", r"one\naskance: all is well"),
        ("\r", r"\r"),
        ("user\u202eresu", r"user\u202eresu"),
        ("\u2066\u2069\u200f\u061c", r"\u2066\u2069\u200f\u061c"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\u2028", r"\u2028"),
    ],
)
def test_what_steers_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["x" * 100, "\x1b" * 100, "x" * 9 + "\x1b", "x" * 10, "\x1b\x1bx", "x\u202e" * 10_000])
def test_a_long_text_is_cut_and_once_is_enough(text: str) -> None:
    shown = printable(text, 10)

    assert len(shown) <= 10
    assert printable(shown, 10) == shown
    assert shown.endswith("…") == (len(ascii(text)[1:-1]) > 10)


def test_an_error_holds_nothing_that_steers_whoever_wrote_its_texts() -> None:
    error = AskanceError("is \x1b]0;mine\x07", where="a\x1b[2Jb" * 10_000, remedy="\u202ees olc")

    assert steers("".join((str(error), error.what, error.where, error.remedy, str(error.at("[0]\n"))))) == []
    assert len(error.where) == LONGEST


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "''"),
        ("town", "'town'"),
        ("0123456789", "'0123456789'"),
        ("01234567890", "'012345678…'"),
        ("it's", '"it\'s"'),
        ("'\"", "'\\'\"'"),
        ("a\\b", r"'a\\b'"),
        ("\x1b[2J", r"'\x1b[2J'"),
        ("\x1b" * 9, r"'\x1b\x1b\…'"),
    ],
)
def test_what_is_quoted_stands_between_marks_and_is_cut(text: str, shown: str) -> None:
    assert quoted(text, 10) == shown
    assert len(quoted(text * 1_000)) <= 66


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c", "d"], "a, b, c, d"),
        (["a", "b", "c", "d", "e"], "a, b, c, d and 1 more"),
        (["a" * 100, "b"], f"{'a' * 65}… and 1 more"),
    ],
)
def test_of_many_names_those_are_listed_for_which_there_is_room(names: list[str], shown: str) -> None:
    assert listed(names, 12) == shown


def test_a_long_place_loses_its_middle() -> None:
    assert shortened("parts[0].query", 14) == "parts[0].query"
    assert shortened("parts[0].query.test", 14) == "parts[…ry.test"


def test_what_refuses_a_document_is_short_whoever_wrote_its_words() -> None:
    error = ProtocolError("w" * 10_000, where="a" + "\x1b" * 1_000 + "z", remedy="r" * 10_000)

    assert (len(error.what), len(error.where), len(error.remedy)) == (256, 128, 512)
    assert error.where[0] + error.where[-1] == "az"
    assert len(str(error.at("x" * 10_000).at("y" * 10_000))) < 1_000


def test_the_path_of_a_file_is_never_cut() -> None:
    path = f"/{'directory/' * 400}server.key"

    for kind in (DataError, SettingsError, KeyFileError):
        assert kind("is not yours", where=path, remedy=f"chmod 600 {path}").where == path
