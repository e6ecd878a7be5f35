"""Studies and rounds that several tests use."""

from __future__ import annotations

from typing import Any, Final

from askance_protocol.budget import MICRO
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import And, Bit, Clamp, FieldValue, If, Integer, Label
from askance_protocol.rounds import (
    BinarySpec,
    Cohort,
    GeometricSpec,
    HashSpec,
    KarySpec,
    LaplaceSpec,
    Part,
    PreparedRound,
    RoundSpec,
    StudySpec,
    TableSpec,
    prepare_round,
)
from askance_protocol.schema import BitsField, IntegerField, LabelField, RealField, Schema

D = 8
FAR: Final = 4_000_000_000
"""A deadline that no run of the tests comes to see, in the year 2096."""
SCHEMA = Schema(
    fields=(
        BitsField(name="x", width=D),
        IntegerField(name="i", low=0, high=D - 1),
        BitsField(name="b", width=1),
        RealField(name="height", low=-1, high=1, denominator=10),
        LabelField(name="y"),
    )
)

MASKED_BIT = BooleanQuery(test=And(of=(Bit(field="b", index=0), Label(sign=-1))))
HEIGHT = RealQuery(numerator=FieldValue(field="height"), denominator=10)
MASKED_CELL = CellQuery(
    cells=D,
    cell=If(test=Bit(field="b", index=0), then=FieldValue(field="i"), otherwise=Integer(of=-1)),
    negative=Label(sign=-1),
)
WHICH = CellQuery(cells=D, cell=FieldValue(field="i"))
SOME = CellQuery(cells=D - 3, cell=FieldValue(field="i"))
WHICH_SIGNED = CellQuery(cells=D, cell=Clamp(of=FieldValue(field="i"), low=0, high=D - 1), negative=Label(sign=-1))

# A table for a boolean question, which keeps the truth for three words of four: ε = ln 3.
TABLE = TableSpec(weights=((str(3 << 62), str(1 << 62)), (str(1 << 62), str(3 << 62))))
LN_3 = 1_098_613


def wrong(value: object) -> Any:
    """A value of a type that a type checker would refuse, for tests that it is refused at run time too."""
    return value


def part(query: Any = MASKED_BIT, channel: Any = None, charge: int = MICRO, share: int = 1) -> Part:
    return Part(query=query, channel=channel or BinarySpec(micro_epsilon=MICRO), charge=charge, share=share)


PARTS = {
    "boolean, binary": part(MASKED_BIT),
    "boolean, table": part(MASKED_BIT, TABLE, LN_3),
    "real, binary": part(HEIGHT),
    "real, geometric": part(HEIGHT, GeometricSpec(micro_epsilon=MICRO)),
    "real, laplace": part(HEIGHT, LaplaceSpec(micro_epsilon=MICRO)),
    "cell, Hadamard": part(MASKED_CELL),
    "cell, Hadamard, unsigned": part(WHICH),
    "cell, hash": part(WHICH, HashSpec(micro_epsilon=MICRO, bits=2)),
    "cell, hash, some": part(SOME, HashSpec(micro_epsilon=2 * MICRO, bits=2), 2 * MICRO),
    "cell, hash, signed": part(WHICH_SIGNED, HashSpec(micro_epsilon=2 * MICRO, bits=3), 2 * MICRO),
    "cell, hash, signed, some": part(MASKED_CELL, HashSpec(micro_epsilon=2 * MICRO, bits=2), 2 * MICRO),
    "cell, kary": part(WHICH, KarySpec(micro_epsilon=MICRO)),
    "cell, kary, signed": part(WHICH_SIGNED, KarySpec(micro_epsilon=MICRO)),
}


def study(**changes: Any) -> StudySpec:
    members: dict[str, Any] = {
        "title": "A study",
        "nonce": "0123456789abcdef" * 2,
        "example": SCHEMA,
        "strategy": "masked-parity-pooled",
        "parameters": {"d": D, "alpha": "0.1"},
        "interactive": True,
        "simulated": True,
        "cap": 2 * MICRO,
    }
    return StudySpec(**(members | changes))


def round_of(*parts: Part, of: StudySpec | None = None, **changes: Any) -> RoundSpec:
    members: dict[str, Any] = {
        "study": (of or study()).digest(),
        "number": 1,
        "parts": parts,
        "cohort": Cohort(users=1_000_000),
        "target": 1000,
        "deadline": FAR,
    }
    return RoundSpec(**(members | changes))


def prepared(*parts: Part, of: StudySpec | None = None, **changes: Any) -> PreparedRound:
    return prepare_round(of or study(), round_of(*parts, of=of, **changes))
