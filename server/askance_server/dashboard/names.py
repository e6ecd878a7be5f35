"""What the name of an estimate says to a page: the choice that it is about, and what it can be at all."""

from __future__ import annotations

import ast
import re
from typing import Final

from askance_protocol.schema import IntegerField, RealField, Schema

_MISSING: Final = "missing"
"""How estimates name the cell of those who say nothing."""
_MEAN: Final = re.compile(r"mean\((?P<field>[a-z0-9_]+)(?:, (?P<low>-?[0-9.]+), (?P<high>-?[0-9.]+))?\)")
_SHARE: Final = re.compile(r"share\([a-z0-9_]+ = '((?:[^']|'')*)'\)")
"""How a poll of two choices names its share: a quotation mark of a choice stands there twice."""
_CELL: Final = re.compile(r"""histogram\(.*\): ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
"""How the cell of a choice is named: the choice as Python writes it."""
_SHARES: Final = ("share(", "histogram(")


def choice(name: str) -> str:
    """The choice that an estimate is about, as it was written."""
    if (share := _SHARE.fullmatch(name)) is not None:
        return share[1].replace("''", "'")
    if (cell := _CELL.fullmatch(name)) is not None:
        label: str = ast.literal_eval(cell[1])
        return label
    label = name.rpartition(": ")[2]
    return "will not say" if label == _MISSING else label


def ends_of_mean(name: str, example: Schema) -> tuple[float, float] | None:
    """The ends of a mean: as it was asked, else those of its field. None of what is no mean of a field."""
    if (found := _MEAN.fullmatch(name)) is None:
        return None
    if found["low"] is not None:
        return float(found["low"]), float(found["high"])
    field = example.field(found["field"])
    return (field.low, field.high) if isinstance(field, IntegerField | RealField) else (0.0, 1.0)


def bounds(name: str, example: Schema) -> tuple[float, float, bool] | None:
    """Between what an estimate can be at all, and whether it is a share of users; None where its name does not say."""
    if (ends := ends_of_mean(name, example)) is not None:
        return *ends, False
    return (0.0, 1.0, True) if name.startswith(_SHARES) else None
