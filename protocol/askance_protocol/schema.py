"""What an example is made of: named fields with closed domains.

Every field turns what a person writes into one Python integer, and back: bits become the integer whose bit i is
x_i, a category its index, a bounded real the numerator over a declared denominator, a label ±1. From here on
there are only integers, so queries are exact and mean the same in every language.

A gap is a value, too: a field that declares `"gap": true` holds one integer more, one above its largest, for a user who
has nothing there. She takes part like everybody, because that somebody does not answer would tell; what her gap counts
as is up to the question (`FieldValue.gap`), which says it in public. Written by a person it is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from askance_protocol.errors import ProtocolError
from askance_protocol.text import listed, quoted
from askance_protocol.values import Name, Value

MAX_WIDTH: Final = 4096
MAX_FIELDS: Final = 256
MAX_CATEGORIES: Final = 4096
MAX_MAGNITUDE: Final = 1 << 40


def _true(value: object) -> object:
    if value is not True:
        raise ValueError("is not true; leave it out where there are no gaps")
    return value


Gap: TypeAlias = Annotated[Literal[True], BeforeValidator(_true)] | None
"""Whether a field may be empty: true, or absent. Two ways to write the same would be two digests."""


class _Field(Value):
    """A field that holds one integer from `least` to `most`, or, where it may be empty, `empty`."""

    name: Name

    @property
    def least(self) -> int:
        """The smallest integer that this field holds."""
        raise NotImplementedError

    @property
    def most(self) -> int:
        """The largest integer that this field holds."""
        raise NotImplementedError

    @property
    def empty(self) -> int | None:
        """The integer that stands for a gap, one above the largest; None where the field has always a value."""
        return None

    def parse(self, value: object) -> int:
        """The integer for what a person wrote."""
        raise NotImplementedError

    def show(self, held: int) -> str | int | float | None:
        """What a person would write for the integer."""
        raise NotImplementedError

    def refuse(self, what: str, remedy: str) -> ProtocolError:
        """An error at this field. It never repeats the value: that is the user's own."""
        return ProtocolError(what, where=f"field {self.name!r}", remedy=remedy)

    def hold(self, value: int) -> int:
        """`value`, if this field holds it."""
        if not self.least <= value <= self.most:
            raise self.refuse("is out of range", f"give a whole number from {self.least} to {self.most}")
        return value


class _GapField(_Field):
    """A field that may be declared to have gaps."""

    gap: Gap = None

    @property
    def empty(self) -> int | None:
        """One above the largest, where gaps are declared."""
        return self.most + 1 if self.gap else None

    def is_gap(self, value: object) -> bool:
        """Whether a person wrote that there is nothing, where that is declared."""
        return value is None and self.gap is True


class BitsField(_Field):
    """x ∈ {0, 1}^width, written as a string of 0 and 1, x_0 first."""

    kind: Literal["bits"] = "bits"
    width: Annotated[int, Field(ge=1, le=MAX_WIDTH)]

    @property
    def least(self) -> int:
        """Zero: no bit is set."""
        return 0

    @property
    def most(self) -> int:
        """The integer of which all bits are set."""
        return (1 << self.width) - 1

    def parse(self, value: object) -> int:
        """Read the string; its first character is x_0, the lowest bit."""
        if type(value) is not str or len(value) != self.width or value.strip("01"):
            raise self.refuse(
                "is not a bit string of the declared width", f'give a text of {self.width} times "0" or "1"'
            )
        return int(value[::-1], 2)

    def show(self, held: int) -> str:
        """The bits as text, x_0 first."""
        return f"{held:0{self.width}b}"[::-1]


class CategoryField(_GapField):
    """One of several named values."""

    kind: Literal["category"] = "category"
    values: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(min_length=2, max_length=MAX_CATEGORIES)
    ]

    @model_validator(mode="after")
    def _distinct(self) -> CategoryField:
        if len(set(self.values)) < len(self.values):
            raise ValueError("a category stands twice among the values; name each once")
        return self

    @property
    def least(self) -> int:
        """Zero, the index of the first category."""
        return 0

    @property
    def most(self) -> int:
        """The index of the last category."""
        return len(self.values) - 1

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The integer that each value is held as."""
        return {value: index for index, value in enumerate(self.values)}

    def parse(self, value: object) -> int:
        """The index of the category that a person named."""
        if self.is_gap(value):
            return self.most + 1
        if type(value) is not str or value not in self.index:
            raise self.refuse("is not one of the declared values", f"give one of {listed(map(quoted, self.values))}")
        return self.index[value]

    def show(self, held: int) -> str | None:
        """The name of the category."""
        return None if held == self.empty else self.values[held]


class IntegerField(_GapField):
    """A whole number from `low` to `high`."""

    kind: Literal["integer"] = "integer"
    low: Annotated[int, Field(ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)]
    high: Annotated[int, Field(ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)]

    @model_validator(mode="after")
    def _ordered(self) -> IntegerField:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

    @property
    def least(self) -> int:
        """The declared low end."""
        return self.low

    @property
    def most(self) -> int:
        """The declared high end."""
        return self.high

    def parse(self, value: object) -> int:
        """The whole number that a person wrote, if it is in range."""
        if self.is_gap(value):
            return self.most + 1
        if type(value) is not int:
            raise self.refuse("is not a whole number", f"give a whole number from {self.low} to {self.high}")
        return self.hold(value)

    def show(self, held: int) -> int | None:
        """The number itself."""
        return None if held == self.empty else held


class RealField(_GapField):
    """A real from `low` to `high`, kept to the nearest multiple of 1/denominator."""

    kind: Literal["real"] = "real"
    low: Annotated[int, Field(ge=-(1 << 20), le=1 << 20)]
    high: Annotated[int, Field(ge=-(1 << 20), le=1 << 20)]
    denominator: Annotated[int, Field(ge=1, le=1 << 20)]

    @model_validator(mode="after")
    def _ordered(self) -> RealField:
        if self.low >= self.high:
            raise ValueError("low is not below high")
        return self

    @property
    def least(self) -> int:
        """The numerator of the low end."""
        return self.low * self.denominator

    @property
    def most(self) -> int:
        """The numerator of the high end."""
        return self.high * self.denominator

    def parse(self, value: object) -> int:
        """Round to the nearest numerator, in double precision, as the column of many does."""
        if self.is_gap(value):
            return self.most + 1
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if not self.low <= number <= self.high:
            raise self.refuse("is not a number in the declared range", f"give a number from {self.low} to {self.high}")
        return math.floor(float(number) * self.denominator + 0.5)

    def show(self, held: int) -> float | None:
        """The nearest double to the held fraction."""
        return None if held == self.empty else held / self.denominator


class LabelField(_Field):
    """The label y ∈ {+1, −1}."""

    kind: Literal["label"] = "label"

    @property
    def least(self) -> int:
        """−1, the smaller label."""
        return -1

    @property
    def most(self) -> int:
        """+1, the larger label."""
        return 1

    def parse(self, value: object) -> int:
        """The label that a person wrote, if it is +1 or −1."""
        if type(value) is not int or value not in {-1, 1}:
            raise self.refuse("is not a label", "give 1 or -1")
        return value

    def show(self, held: int) -> int:
        """The label itself."""
        return held


AnyField: TypeAlias = Annotated[
    BitsField | CategoryField | IntegerField | RealField | LabelField, Field(discriminator="kind")
]


class Schema(Value):
    """The fields of one example, in their order. At most one is the label."""

    fields: Annotated[tuple[AnyField, ...], Field(min_length=1, max_length=MAX_FIELDS)]

    @model_validator(mode="after")
    def _consistent(self) -> Schema:
        names = [field.name for field in self.fields]
        if len(set(names)) < len(names):
            raise ValueError("two fields have the same name; name each once")
        if sum(isinstance(field, LabelField) for field in self.fields) > 1:
            raise ValueError("two fields are labels; an example has one at most")
        return self

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of each field, by name."""
        return {field.name: position for position, field in enumerate(self.fields)}

    @cached_property
    def label(self) -> LabelField | None:
        """The label's field, if examples carry one."""
        return next((field for field in self.fields if isinstance(field, LabelField)), None)

    def field(self, name: str) -> AnyField:
        """The field of this name."""
        if name not in self.position:
            raise ProtocolError(
                f"there is no field {quoted(name)}", where="schema", remedy=f"use one of {listed(self.position)}"
            )
        return self.fields[self.position[name]]

    def parse(self, record: Mapping[str, object] | Sequence[tuple[str, Any]]) -> tuple[int, ...]:
        """The integers for a record that names every field once."""
        given = dict(record)
        if len(given) < len(record):
            raise ProtocolError("names a field twice", where="example", remedy="give every field once")
        for name in given.keys() - self.position.keys():
            raise ProtocolError(
                f"has a field {quoted(name)} that the schema does not", where="example", remedy="leave it out"
            )
        for name in self.position:
            if name not in given:
                raise ProtocolError(
                    f"lacks the field {name!r}", where="example", remedy="give every field of the schema"
                )
        return tuple(field.parse(given[field.name]) for field in self.fields)
