"""Features of a table: its columns become the bits or the reals that a strategy learns from.

- Bits: a bit is itself; of a category each value is a bit, of two values one; a number is compared with cuts. Where a
  strategy cannot ask whether a bit is 0, as the learner of monotone conjunctions cannot, the opposites are bits, too.
- Reals: numbers are scaled to [−1, 1]; bits and categories are ±1; and one real is always 1, so that a plane need not
  go through 0.

Ranges, values and cuts come from the schema and from the options of the study, never from the rows: so each user can
make the features of her own row, and they tell nothing. (A schema that was inferred from rows tells about these: see
`from_file`.) Every bit is a test of the query language, and keeps the column's name for people to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.tables import FromFile
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.parameters import Parameters
from askance_protocol.queries.language import AnyTest, Bit, Compare, FieldValue, Integer, Is, Not
from askance_protocol.schema import (
    MAX_FIELDS,
    MAX_WIDTH,
    AnyField,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)
from askance_protocol.text import counted, quoted
from askance_server.core.strategy import Features, Strategy

CUTS: Final = 3
"""With how many numbers the numbers of a column are compared, unless it is said with which."""
DENOMINATOR: Final = 1000
_VARIABLE: Final = re.compile(r"(¬?)\bx_?([0-9]+)\b")

Cuts: TypeAlias = Mapping[str, Sequence[int | float]]
"""By column: what its numbers are compared with."""


@dataclass(frozen=True, slots=True)
class BitFeature:
    """A bit, with names for its values 1 and 0."""

    name: str
    opposite: str
    test: AnyTest

    def column(self, columns: Columns) -> NDArray[Any]:
        """Ones and zeros."""
        return self.test.column(columns).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class SignFeature:
    """A bit as ±1."""

    of: BitFeature

    @property
    def name(self) -> str:
        """Name of the bit, in Iverson's brackets."""
        return f"[{self.of.name}]"

    def column(self, columns: Columns) -> NDArray[Any]:
        """+1 and −1."""
        return 2.0 * self.of.column(columns) - 1


@dataclass(frozen=True, slots=True)
class ScaledFeature:
    """A number, scaled from [least, most] to [−1, 1]."""

    field: IntegerField | RealField

    @property
    def name(self) -> str:
        """Name of the column, with its range."""
        return f"{self.field.name}({self.field.show(self.field.least)}..{self.field.show(self.field.most)})"

    def column(self, columns: Columns) -> NDArray[Any]:
        """Reals in [−1, 1]."""
        reach = (self.field.most - self.field.least) / 2 or 1.0
        return ((columns[self.field.name] - self.field.least) / reach - 1).clip(-1, 1)


@dataclass(frozen=True, slots=True)
class ConstantFeature:
    """The constant 1: its weight is a plane's distance from 0."""

    name: str = "1"

    def column(self, columns: Columns) -> NDArray[Any]:
        """Array of ones."""
        return np.ones(len(columns))


TableFeature: TypeAlias = BitFeature | SignFeature | ScaledFeature | ConstantFeature


@dataclass(frozen=True, eq=False)
class Featured(Population):
    """Population whose users hold the features of their own rows."""

    rows: Population
    features: tuple[TableFeature, ...]

    def columns(self, users: range) -> Columns:
        """Compute the features of these users."""
        rows = self.rows.columns(users)
        made = [feature.column(rows) for feature in self.features]
        arrays = (
            {"x": np.stack(made, axis=1)}
            if isinstance(self.schema.fields[0], BitsField)
            else {f"x{j}": column for j, column in enumerate(made)}
        )
        label = self.rows.schema.label
        labels = {} if label is None or self.schema.label is None else {self.schema.label.name: rows[label.name]}
        return Columns.of(self.schema, {**arrays, **labels})

    @property
    def parameters(self) -> Mapping[str, int]:
        """Parameters that a study over these users has."""
        reals = isinstance(self.schema.fields[0], RealField)
        return {"d": len(self.features), **({"denominator": DENOMINATOR} if reals else {})}

    def read(self, text: str) -> str:
        """Hypothesis text with x_3 or x3 replaced by the table's names."""
        return _VARIABLE.sub(lambda found: self._name(int(found[2]), found[1]), text)

    def _name(self, index: int, negation: str) -> str:
        feature = self.features[index]
        return feature.opposite if negation and isinstance(feature, BitFeature) else negation + feature.name


# ------------------------------------------------------------------------------------------------------- the makers


def bits(rows: Population, cuts: Cuts | None = None, *, opposites: bool = False) -> Featured:
    """Population of labelled bits; with opposites, each bit is followed by its opposite."""
    _check_cuts(rows.schema, cuts or {})
    found = [each for field in rows.schema.fields for each in _bit_features(field, cuts or {})]
    if opposites:
        pairs = ((each, BitFeature(each.opposite, each.name, Not(of=each.test))) for each in found)
        found = [each for pair in pairs for each in pair]
    if not 0 < len(found) <= MAX_WIDTH:
        raise _unfit(f"makes {counted(len(found), 'bit')}", f"keep columns that make 1 to {MAX_WIDTH}")
    return _featured(rows, tuple(found), (BitsField(name="x", width=len(found)), _label(rows)))


def reals(rows: Population) -> Featured:
    """Population of labelled reals, the last of which is always 1."""
    found = [each for field in rows.schema.fields for each in _real(field)]
    return _featured(rows, (*found, ConstantFeature()), (*_cube(len(found) + 1), _label(rows)))


def points(rows: Population) -> Featured:
    """Population of the numbers alone, which have distances."""
    found = tuple(ScaledFeature(field) for field in rows.schema.fields if isinstance(field, IntegerField | RealField))
    return _featured(rows, found, _cube(len(found)))


MAKERS: Final[Mapping[Features, Callable[[Population], Featured]]] = {
    Features.BITS: bits,
    Features.BITS_AND_OPPOSITES: lambda rows: bits(rows, opposites=True),
    Features.REALS: reals,
    Features.POINTS: points,
}


def featured(strategy: Strategy, rows: Population, parameters: Parameters) -> Featured:
    """Population of a table with the features that a strategy learns from: those it names, or the first that fit."""
    if strategy.features is not None:
        return MAKERS[strategy.features](rows)
    for make in MAKERS.values():
        try:
            made = make(rows)
            if strategy.schema({**parameters, **made.parameters}) == made.schema:
                return made
        except ProtocolError:
            # These features cannot be made of this table, or the strategy refuses them: perhaps others.
            continue
    raise _unfit(f"makes no examples that {strategy.name!r} learns from", "use another strategy")


def split(rows: Population, held: int, seed: int) -> tuple[FromFile, FromFile]:
    """Two parts of the rows, independent of their order: one to learn from, and `held` rows to measure on."""
    if rows.size is None or not 0 < held < rows.size:
        raise _unfit(f"has {rows.size} rows, of which {held} cannot be held back", "hold back some, and not all")
    columns, order = rows.columns(range(rows.size)), np.random.default_rng(seed).permutation(rows.size)
    parts = (columns.take(np.sort(chosen)) for chosen in (order[held:], order[:held]))
    learn, measure = (
        FromFile(rows.name, rows.schema, len(part), rows.truth, f"{rows.summary}\n  {len(part)} of its rows", part)
        for part in parts
    )
    return learn, measure


# ----------------------------------------------------------------------------------------------- column by column


def _bit_features(field: AnyField, cuts: Cuts) -> Iterator[BitFeature]:
    """Bits that a column makes."""
    name = field.name
    match field:
        case BitsField(width=width):
            for index in range(width):
                bit = name if width == 1 else f"{name}[{index}]"
                yield BitFeature(bit, f"not {bit}", Bit(field=name, index=index))
        case CategoryField(values=(first, second)):
            yield BitFeature(f"{name} = {second}", f"{name} = {first}", Is(field=name, category=second))
        case CategoryField(values=values):
            for value in values:
                yield BitFeature(f"{name} = {value}", f"{name} != {value}", Is(field=name, category=value))
        case IntegerField() | RealField():
            for cut in _cuts(field, cuts.get(name)):
                test = Compare(left=FieldValue(field=name), relation=">=", right=Integer(of=cut))
                yield BitFeature(f"{name} >= {field.show(cut)}", f"{name} < {field.show(cut)}", test)
        case LabelField():
            pass


def _cuts(field: IntegerField | RealField, given: Sequence[int | float] | None) -> list[int]:
    """Numerators to cut at: the given ones, or some that cut the range into equal parts."""
    spaced = (field.least - (field.least - field.most) * place // (CUTS + 1) for place in range(1, CUTS + 1))
    return sorted({*(spaced if given is None else map(field.parse, given))} - {field.least})


def _real(field: AnyField) -> Iterator[TableFeature]:
    """Reals that a column makes."""
    if isinstance(field, IntegerField | RealField):
        yield ScaledFeature(field)
    else:
        yield from map(SignFeature, _bit_features(field, {}))


def _cube(d: int) -> tuple[RealField, ...]:
    if not 0 < d < MAX_FIELDS:
        raise _unfit(f"makes {d} reals", f"keep columns that make 1 to {MAX_FIELDS - 1}")
    return tuple(RealField(name=f"x{j}", low=-1, high=1, denominator=DENOMINATOR) for j in range(d))


def _label(rows: Population) -> LabelField:
    if rows.schema.label is None:
        raise _unfit("has no label", "name the column that is: --label COL")
    return LabelField(name="y")


def _featured(rows: Population, features: tuple[TableFeature, ...], fields: tuple[AnyField, ...]) -> Featured:
    names = ", ".join(feature.name for feature in features)
    summary = f"{rows.summary}\n{len(features)} features: {names}"
    return Featured(rows.name, Schema(fields=fields), rows.size, {}, summary, rows, features)


def _check_cuts(schema: Schema, cuts: Cuts) -> None:
    for name in cuts:
        if not isinstance(schema.field(name), IntegerField | RealField):
            raise _unfit(f"has no numbers in {quoted(name)} to compare", "give cuts for columns of numbers")


def _unfit(what: str, remedy: str) -> ProtocolError:
    return ProtocolError(what, where="table", remedy=remedy)
