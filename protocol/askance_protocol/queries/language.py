"""The closed language that questions are asked in: every test (true or false) and every number (an integer).

`nodes` says what all expressions have in common. Import the expressions from here.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from askance_protocol.arrays import Integers, Truths
from askance_protocol.queries.nodes import (
    MAX_ENTRIES,
    BaseNumber,
    BaseTest,
    Bounds,
    Expression,
)
from askance_protocol.queries.numbers import Affine, Clamp, Dot, FieldValue, If, Integer, Lookup, Slice, Term
from askance_protocol.queries.tests import And, Bit, Compare, Constant, Is, Label, Not, Or, Parity, Xor

__all__ = [
    "MAX_ENTRIES",
    "Affine",
    "And",
    "AnyNumber",
    "AnyTest",
    "BaseNumber",
    "BaseTest",
    "Bit",
    "Bounds",
    "Clamp",
    "Compare",
    "Constant",
    "Dot",
    "Expression",
    "FieldValue",
    "If",
    "Integer",
    "Integers",
    "Is",
    "Label",
    "Lookup",
    "Not",
    "Or",
    "Parity",
    "Slice",
    "Term",
    "Truths",
    "Xor",
]

AnyTest: TypeAlias = Annotated[
    Constant | Bit | Parity | Is | Label | Not | And | Or | Xor | Compare, Field(discriminator="op")
]
AnyNumber: TypeAlias = Annotated[
    Integer | FieldValue | Slice | Dot | Affine | Lookup | If | Clamp, Field(discriminator="op")
]

_UNIONS: Final = {"AnyTest": AnyTest, "AnyNumber": AnyNumber}
for _recursive in (Not, And, Or, Xor, Compare, Term, Affine, Lookup, If, Clamp):
    _recursive.model_rebuild(_types_namespace=_UNIONS)
