"""The parameters of a survey: its questions ask1, ask2, …, and how sure their answers should be."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from askance_protocol import parameters as read
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters
from askance_protocol.queries.telemetry import TelemetryQuestion, compile_question, fields_asked
from askance_protocol.schema import Schema

T = TypeVar("T")

MAX_QUESTIONS: Final = 64
ASK: Final = re.compile(r"ask[1-9][0-9]{0,2}", re.ASCII)


def texts(parameters: Parameters) -> list[str]:
    """The questions as they were asked: parameters ask1, ask2, …"""
    count = sum(map(bool, map(ASK.fullmatch, parameters)))
    if not 1 <= count <= MAX_QUESTIONS:
        remedy = f'give 1 to {MAX_QUESTIONS}: ask1, ask2, …, such as "mean(minutes, 0, 120)"'
        raise read.refused("ask1", f"{count} questions are asked", remedy)
    found = list[str]()
    for number in range(1, count + 1):
        text = parameters.get(f"ask{number}")
        if not isinstance(text, str):
            raise read.refused(f"ask{number}", "is no question", "number the questions from ask1 on, each a text")
        found.append(text.strip())
    return found


def fields(parameters: Parameters) -> tuple[str, ...]:
    """Fields that the questions name."""
    named = [_of(number, partial(fields_asked, text)) for number, text in enumerate(texts(parameters), 1)]
    return tuple(dict.fromkeys(name for names in named for name in names))


def questions(parameters: Parameters, example: Schema) -> list[TelemetryQuestion]:
    """The questions, compiled for these examples."""
    asked = texts(parameters)
    for number, text in enumerate(asked, 1):
        if text in asked[: number - 1]:
            raise read.refused(f"ask{number}", f"{text!r} is asked twice", "ask it once: its answer is one number")
    return [_of(number, partial(compile_question, text, example)) for number, text in enumerate(asked, 1)]


def _of(number: int, reading: Callable[[], T]) -> T:
    try:
        return reading()
    except ProtocolError as error:
        raise read.refused(f"ask{number}", f"{error.where}: {error.what}", error.remedy) from None


def width_of(parameters: Parameters) -> float | None:
    """How wide all intervals should be: of shares, and of means as a part of their range. None: nobody says."""
    return float(read.decimal(parameters, "width", below=1, default="")) if "width" in parameters else None


def is_simultaneous(parameters: Parameters) -> bool:
    """Whether all intervals should hold at once."""
    given = parameters.get("simultaneous", False)
    if not isinstance(given, bool):
        raise read.refused("simultaneous", "is neither true nor false", "give one of them")
    return given
