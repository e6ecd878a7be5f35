"""What a study has learned, as the last entry of its bulletin holds it.

A document of the protocol has no floats, and a hypothesis is full of them. So its data travel as one JSON text inside a
string: any reader of JSON gets every number back to the last bit, and the digest is of a text that nobody prints again.
It is written in one way: members sorted, no white space, ASCII, and each float as the shortest decimal that reads back
as the same double (Python's `repr`), with a point or an exponent where it is a float. A reader takes any sound JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from askance_protocol import canonical
from askance_protocol.errors import ProtocolError
from askance_protocol.values import Value

MAX_TEXT: Final = 1 << 16
"""Characters of the text for people; what is longer is cut."""
MAX_DATA: Final = 1 << 20
"""Characters of the data's JSON text."""


class TooLargeError(ProtocolError):
    """A hypothesis that no bulletin takes."""


class LearnedHypothesis(Value):
    """A hypothesis that stands on a bulletin: it needs no strategy any more, to be read or to predict by."""

    text: Annotated[str, Field(max_length=MAX_TEXT)]
    """For a person."""
    data: Annotated[str, Field(max_length=MAX_DATA)]
    """For a program: the JSON text of an object."""

    @classmethod
    def of(cls, text: str, value: Mapping[str, object]) -> Self:
        """The form in which this is published. Refuses values that are not JSON, or too large."""
        whole = text.encode("utf-8", "replace").decode()
        return cls(text=whole if len(whole) <= MAX_TEXT else whole[: MAX_TEXT - 1] + "…", data=_text_of(value))

    @property
    def value(self) -> Mapping[str, Any]:
        """The data: floats are the doubles that were learned."""
        return _read(self.data)

    @model_validator(mode="after")
    def _sound_data(self) -> Self:
        _read(self.data)
        return self


def _text_of(value: Mapping[str, object]) -> str:
    try:
        text = json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ProtocolError("holds what is not JSON, or no finite number", where="data") from None
    if len(text) > MAX_DATA:
        raise TooLargeError(f"has {len(text)} characters, over the limit of {MAX_DATA}", where="data")
    return text


def _read(text: str) -> dict[str, Any]:
    """Read the data strictly: floats and large integers are all that they may hold beyond a document."""
    try:
        value: object = canonical.loads_with_fractions(text, limit=4 * MAX_DATA)
    except ProtocolError as error:
        raise ProtocolError(error.what, where=error.where or "data") from None
    if not isinstance(value, dict):
        raise ProtocolError("is not an object", where="data")
    return value  # pyright: ignore[reportUnknownVariableType] - an object of JSON has text for keys
