"""What a room is asked: a question in words, with its choices or its scale; from the call, or several from a file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from askance_protocol.budget import limit_from_text
from askance_protocol.errors import DataError, ProtocolError, UsageError
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_protocol.text import printable, quoted

MOST: Final = 16
"""Questions of one evening."""
MOST_WORDS: Final = 200
"""Characters of a question: what the title of a study has room for."""
FIELD: Final = "answer"
_SCALE: Final = re.compile(r"(-?[0-9]{1,6})-(-?[0-9]{1,6})", re.ASCII)
_MEMBERS: Final = frozenset({"ask", "choices", "scale", "epsilon"})


@dataclass(frozen=True, slots=True)
class RoomQuestion:
    """A question, what can be answered, and what an answer costs."""

    words: str
    example: Schema
    epsilon: str

    @property
    def micro_epsilon(self) -> int:
        """What an answer costs, in micro-ε."""
        return limit_from_text(self.epsilon)


def question_of(words: str, choices: str | None, scale: str | None, epsilon: str) -> RoomQuestion:
    """The question of a call."""
    if (choices is None) == (scale is None):
        what = "is missing" if choices is None else "exclude each other"
        raise UsageError(what, where="--choices, --scale", remedy="say what can be answered: --choices yes,no")
    values = None if choices is None else [each.strip() for each in choices.split(",")]
    return _made(words, values, scale, epsilon, FIELD, "--choices" if scale is None else "--scale")


def _made(
    words: str, choices: list[str] | None, scale: str | None, epsilon: str, name: str, where: str
) -> RoomQuestion:
    if not 1 <= len(words.strip()) <= MOST_WORDS:
        raise UsageError(f"has not 1 to {MOST_WORDS} characters", where="question", remedy="ask it in fewer words")
    try:
        limit_from_text(epsilon)
    except ProtocolError as error:
        raise UsageError(error.what, where="--epsilon", remedy=error.remedy) from None
    try:
        field = (
            CategoryField(name=name, values=tuple(choices), gap=True)
            if choices is not None
            else _scale(scale, name, where)
        )
    except ValueError:
        remedy = "give two or more different answers of 1 to 64 characters: yes,no"
        raise UsageError("are not different answers", where=where, remedy=remedy) from None
    return RoomQuestion(words.strip(), Schema(fields=(field,)), epsilon)


def _scale(text: str | None, name: str, where: str) -> IntegerField:
    found = _SCALE.fullmatch(text or "")
    if found is None or not int(found[1]) < int(found[2]):
        raise UsageError(f"{quoted(text or '')} is no scale", where=where, remedy="write it as 1-10")
    return IntegerField(name=name, low=int(found[1]), high=int(found[2]), gap=True)


def questions_in(path: Path, epsilon: str) -> list[RoomQuestion]:
    """The questions of a file: [[question]] with `ask`, `choices` or `scale`, and perhaps an `epsilon` of its own."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        raise DataError("cannot be read", where=str(path), remedy="name a file of questions: --file FILE") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"is not TOML: {printable(str(error))}", where=str(path), remedy="write [[question]]") from None
    rows = document.get("question")
    if document.keys() != {"question"} or not isinstance(rows, list) or not 1 <= len(cast("list[Any]", rows)) <= MOST:
        remedy = f'write 1 to {MOST} tables [[question]], each with ask = "…" and choices = ["yes", "no"]'
        raise DataError("has no questions, or something else", where=str(path), remedy=remedy)
    asked = enumerate(cast("list[Any]", rows), 1)
    # Of different names, so that one person can say what she may be asked in all.
    return [_row(each, epsilon, f"{FIELD}{number}", f"{path}, question {number}") for number, each in asked]


def _row(row: object, epsilon: str, name: str, where: str) -> RoomQuestion:
    given: Mapping[str, Any] = cast("Mapping[str, Any]", row) if isinstance(row, dict) else {}
    choices, scale, words = given.get("choices"), given.get("scale"), given.get("ask")
    listed = isinstance(choices, list) and all(isinstance(each, str) for each in cast("list[object]", choices))
    if (
        not given.keys() <= _MEMBERS
        or not isinstance(words, str)
        or (choices is None) == (scale is None)
        or not (choices is None or listed)
        or not isinstance(scale, str | None)
        or not isinstance(given.get("epsilon", epsilon), str)
    ):
        remedy = 'give ask = "…", choices = ["yes", "no"] or scale = "1-10", and perhaps epsilon = "0.5"'
        raise DataError("is no question", where=where, remedy=remedy)
    return _made(words, cast("list[str] | None", choices), scale, given.get("epsilon", epsilon), name, where)
