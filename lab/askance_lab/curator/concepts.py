"""The concept classes that a curator learns: their databases, and the form of their hypotheses.

A mechanism names two records of this file. Its `ConceptClass` says where its examples come from: made-up ones on which
the wanted error matters (`data.problems`), or the rows of one's own table. Its `AnswerForm` says how what it finds is
written as JSON, shown to a person, and, where it is a hypothesis, how it labels examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from askance_client.population import Population
from askance_lab.curator.databases import (
    BitSample,
    LabelledSample,
    masked_examples,
    packed,
)
from askance_lab.curator.own_rows import OwnRows, bit_rows, number_rows
from askance_lab.data import problems
from askance_lab.data.problems import HypothesisValue, Maker
from askance_protocol.arrays import Truths
from askance_protocol.examples import Columns


class AnyDatabase(Protocol):
    """A database of any kind: examples of d bits each, and their number."""

    @property
    def d(self) -> int:
        """The number of bits of an example."""
        ...

    @property
    def labels(self) -> Truths | tuple[bool, ...]:
        """A label for each example."""
        ...

    def __len__(self) -> int: ...


Database = TypeVar("Database", bound=AnyDatabase)
Answer = TypeVar("Answer")


class Names(NamedTuple):
    """Names of bits and numbers in a user's own table; made-up examples have bits x_i and plain numbers."""

    features: tuple[str, ...] = ()
    number: Callable[[int], str] = str

    def bit(self, place: int) -> str:
        """Name of a bit."""
        return self.features[place] if self.features else f"x_{place}"


@dataclass(frozen=True, slots=True)
class ConceptClass(Generic[Database]):
    """A concept class, which determines the form of a database."""

    name: str
    problem: Maker
    """Made-up examples on which the wanted error makes a difference."""
    database: Callable[[Columns], Database]
    """The database of such examples."""
    own_rows: Callable[[Population, str | None], OwnRows[Database]] | None
    """The database of a table's rows, given the option --column; None: this class is not learned from tables."""


@dataclass(frozen=True, slots=True)
class AnswerForm(Generic[Database, Answer]):
    """How an answer is written and shown, and how it labels examples."""

    to_json: Callable[[Answer, int], HypothesisValue]
    """From an answer and d: written as strategies and populations write hypotheses."""
    text: Callable[[Answer, int, Names], str]
    """For a person, in the names of the table."""
    labels: Callable[[Answer, Database], Truths] | None = None
    """The label that a hypothesis gives to each example; None: the answer is no hypothesis."""


# ------------------------------------------------------------------------------------------------- concept classes

PARITY: Final = ConceptClass(
    "PARITY",
    problems.parity,
    BitSample.of_odd,
    lambda rows, _: bit_rows(rows, BitSample.of_odd),
)
"""KLNRS11, §4: the label is −1 where r·x is odd."""
MASKED_PARITY: Final = ConceptClass("MASKED-PARITY", problems.masked_parity, masked_examples, None)
"""KLNRS11, §5.3, as PARITY in d + 1 bits."""
CONJUNCTION: Final = ConceptClass(
    "conjunctions",
    problems.conjunctions,
    BitSample.of_positive,
    # A monotone conjunction cannot ask whether a bit is 0: so the opposites are bits as well.
    lambda rows, _: bit_rows(rows, BitSample.of_positive, opposites=True),
)
"""BB-notes, Thm 5: the label is +1 where all its variables are 1."""
POINT: Final = ConceptClass("POINT", problems.point, LabelledSample.of_columns, number_rows)
"""BNS13, §3.1: c_j(x) = 1 where x = j."""
INTERVAL: Final = ConceptClass("INTERVAL", problems.interval, LabelledSample.of_columns, number_rows)
"""BNS13, §3.2: c_j(x) = 1 where x < j."""

# ------------------------------------------------------------------------------------------------------ hypotheses


def ones(r: int) -> tuple[int, ...]:
    """Positions of the bits of r that are 1."""
    return tuple(i for i in range(r.bit_length()) if r >> i & 1)


def _bit_string(r: int, d: int) -> str:
    """Parity as a bit string as strategies write it, the first bit first."""
    return "".join(str(r >> i & 1) for i in range(d))


def _row(places: tuple[int, ...], database: BitSample) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    row = np.zeros((1, database.d), np.uint8)
    row[0, list(places)] = 1
    return packed(row)


def _odd(r: int, database: BitSample) -> Truths:
    return np.bitwise_count(database.words & _row(ones(r), database)).sum(axis=1) % 2 == 1


def _all_ones(variables: tuple[int, ...], database: BitSample) -> Truths:
    wanted = _row(variables, database)
    return (database.words & wanted == wanted).all(axis=1)


def _masked(found: int, d: int) -> dict[str, str | int]:
    return {"r": _bit_string(found, d), "a": found >> d}


A_PARITY: Final[AnswerForm[BitSample, int]] = AnswerForm(
    lambda r, d: {"r": _bit_string(r, d)},
    lambda r, _, names: "odd " + (" ⊕ ".join(map(names.bit, ones(r))) or "0"),
    _odd,
)
"""A parity is r as a number, bit i = r_i."""
A_MASKED_PARITY: Final[AnswerForm[BitSample, int]] = AnswerForm(
    _masked,
    lambda found, d, _: "r = {r}, a = {a}".format(**_masked(found, d)),
    _odd,
)
"""A masked parity is a parity in d + 1 bits: r, and a as the last bit."""
A_CONJUNCTION: Final[AnswerForm[BitSample, tuple[int, ...]]] = AnswerForm(
    lambda variables, _: {"variables": list(variables)},
    lambda variables, _, names: " ∧ ".join(map(names.bit, variables)) or "true",
    _all_ones,
)
"""A conjunction is the tuple of its variables, in order."""
A_POINT: Final[AnswerForm[LabelledSample, int]] = AnswerForm(
    lambda j, _: {"point": j},
    lambda j, _, names: f"x = {names.number(j)}",
    lambda j, database: np.array([x == j for x in database.points]),
)
"""A point is the j of c_j."""
A_THRESHOLD: Final[AnswerForm[LabelledSample, int]] = AnswerForm(
    lambda j, _: {"threshold": j},
    lambda j, _, names: f"x < {names.number(j)}",
    lambda j, database: np.array([x < j for x in database.points]),
)
"""A threshold is the j of c_j."""

# ---------------------------------------------------------------------------------- answers that are no hypotheses

_EXACT: Final = 1 << 53
"""A JSON number above it may be read as another, so it is written as a string."""


def exact_value(value: object) -> object:
    """Value with all numbers that JSON would not keep exactly as strings, at any depth."""
    if isinstance(value, Mapping):
        return {str(key): exact_value(each) for key, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, int | float):
        return value if abs(value) < _EXACT else str(value)
    return value


A_NUMBER: Final[AnswerForm[LabelledSample, float]] = AnswerForm(
    lambda number, _: {"answer": number}, lambda number, _, __: str(exact_value(number))
)
COUNTS: Final[AnswerForm[LabelledSample, Mapping[int, int]]] = AnswerForm(
    lambda counts, _: {"answer": counts}, lambda counts, _, __: str(exact_value(counts))
)
"""How many entries there are at each point."""
