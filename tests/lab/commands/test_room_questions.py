"""What a room is asked, from a call and from a file, to the letter; and which of several is no question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from askance_lab.commands.shared.room_questions import RoomQuestion, question_of, questions_in
from askance_protocol.errors import AskanceError
from askance_protocol.schema import CategoryField, IntegerField, Schema


def category(*values: str, name: str = "answer") -> Schema:
    return Schema(fields=(CategoryField(name=name, values=values, gap=True),))


def whole(low: int, high: int, name: str = "answer") -> Schema:
    return Schema(fields=(IntegerField(name=name, low=low, high=high, gap=True),))


def test_a_question_of_a_call_is_what_was_said() -> None:
    asked = question_of(" Tea? ", " yes,no ", None, "0.5")
    assert asked == RoomQuestion("Tea?", category("yes", "no"), "0.5")
    assert asked.micro_epsilon == 500_000
    assert question_of("How far?", None, "-3-4", "1").example == whole(-3, 4)
    assert question_of("How far?", None, "0-1", "1").example == whole(0, 1)
    assert question_of("x" * 200, "a,b", None, "1").words == "x" * 200
    assert question_of("x", "a,b", None, "1").words == "x"


@pytest.mark.parametrize(
    ("given", "where", "what"),
    [
        (("Tea?", None, None, "1"), "--choices, --scale", "is missing"),
        (("Tea?", "a,b", "1-3", "1"), "--choices, --scale", "exclude each other"),
        (("Tea?", "a,a", None, "1"), "--choices", "are not different answers"),
        (("Tea?", None, "3-3", "1"), "--scale", "'3-3' is no scale"),
        (("Tea?", None, "", "1"), "--scale", "'' is no scale"),
        (("  ", "a,b", None, "1"), "question", "has not 1 to 200 characters"),
        (("x" * 201, "a,b", None, "1"), "question", "has not 1 to 200 characters"),
        (("Tea?", "a,b", None, "much"), "--epsilon", ""),
    ],
)
def test_what_is_no_question_of_a_call_is_told_with_its_option(given: Any, where: str, what: str) -> None:
    with pytest.raises(AskanceError) as raised:
        question_of(*given)
    assert raised.value.where == where
    assert what in raised.value.what


def told(folder: Path, *tables: str) -> list[RoomQuestion]:
    file = folder / "questions.toml"
    file.write_text("".join(f"[[question]]\n{table}\n" for table in tables), "utf-8")
    return questions_in(file, "2")


TEA = 'ask = "Tea?"\nchoices = ["yes", "no"]'


def test_questions_of_a_file_have_names_of_their_own_and_perhaps_a_price(tmp_path: Path) -> None:
    assert told(tmp_path, TEA, 'ask = "Tired?"\nscale = "1-5"\nepsilon = "0.25"') == [
        RoomQuestion("Tea?", category("yes", "no", name="answer1"), "2"),
        RoomQuestion("Tired?", whole(1, 5, "answer2"), "0.25"),
    ]
    assert len(told(tmp_path, *[TEA] * 16)) == 16


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        ([], ""),
        ([TEA] * 17, ""),
        ([TEA, 'ask = "Tired?"'], ", question 2"),
        ([f'{TEA}\nscale = "1-3"'], ", question 1"),
        ([TEA, f'{TEA}\ncolour = "red"'], ", question 2"),
        ([TEA, 'ask = "Tea?"\nchoices = ["yes", 3]'], ", question 2"),
        (['ask = "Tea?"\nchoices = "yes,no"'], ", question 1"),
        (['ask = "Tired?"\nscale = 3'], ", question 1"),
        (['choices = ["yes", "no"]'], ", question 1"),
        ([f"{TEA}\nepsilon = 1"], ", question 1"),
        ([TEA, 'ask = "Tired?"\nscale = "5-1"'], ", question 2"),
    ],
)
def test_of_several_that_which_is_no_question_is_named(tables: list[str], where: str, tmp_path: Path) -> None:
    with pytest.raises(AskanceError) as raised:
        told(tmp_path, *tables)
    assert raised.value.where == f"{tmp_path / 'questions.toml'}{where}"


def test_a_table_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "questions.toml"
    with pytest.raises(AskanceError, match="cannot be read"):
        questions_in(file, "1")
    others = {text: str(file) for text in ("question = 3", "question = []", "x = 1", "[[question]\n")}
    for text, where in {"question = [3]": f"{file}, question 1", **others}.items():
        file.write_text(text)
        with pytest.raises(AskanceError) as raised:
            questions_in(file, "1")
        assert raised.value.where == where
