"""One user's example, and columns of many: the same integers both ways.

Bits are packed: bit i of a vector is bit i of one Python integer, and bit i mod 64 of word i // 64 in a column.

A Python integer is as long as its value is large, and so is the time to shift, add or multiply it. So an example also
holds each value in a form whose size the schema says: an int64 for a number, a byte for each bit of a vector. They are
made once, with the example; queries look at these alone (see `queries/nodes`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.errors import ProtocolError
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from askance_protocol.text import listed, quoted

Column = NDArray[np.uint64] | Integers
Bits = NDArray[np.uint8]

_WORD_BITS: Final = 64


@dataclass(frozen=True, slots=True, repr=False)
class Example:
    """What one user holds and never sends. It has no readable form, so that no log can show it."""

    schema: Schema
    values: tuple[int, ...]
    _bits: Mapping[str, Bits] = dataclasses.field(init=False, compare=False)
    _numbers: Mapping[str, np.int64] = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.values) != len(self.schema.fields):
            raise ProtocolError("does not have one value for each field", where="example")
        bits, numbers = dict[str, Bits](), dict[str, np.int64]()
        for part, value in zip(self.schema.fields, self.values, strict=True):
            if type(value) is not int or not _holds(part, value):
                raise part.refuse("is not a value of this field", "read examples with Example.of")
            if isinstance(part, BitsField):
                bits[part.name] = bits_of(value, part.width)
            else:
                numbers[part.name] = np.int64(value)
        object.__setattr__(self, "_bits", bits)
        object.__setattr__(self, "_numbers", numbers)

    @classmethod
    def of(cls, schema: Schema, record: Mapping[str, object]) -> Example:
        """Read an example from what a person wrote."""
        return cls(schema, schema.parse(record))

    def __getitem__(self, name: str) -> int:
        return self.values[self.schema.position[name]]

    def bits(self, name: str) -> Bits:
        """The bits of a vector, a byte each: as many whatever they are."""
        return self._bits[name]

    def number(self, name: str) -> np.int64:
        """What a field holds that is no vector, in 64 bits whatever it is."""
        return self._numbers[name]

    def __reduce__(self) -> tuple[type[Example], tuple[Schema, tuple[int, ...]]]:
        return Example, (self.schema, self.values)

    def __repr__(self) -> str:
        return f"Example({len(self.values)} private values)"

    def record(self) -> dict[str, str | int | float | None]:
        """The example as a person would write it: for the user herself."""
        return {field.name: field.show(value) for field, value in zip(self.schema.fields, self.values, strict=True)}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Columns:
    """Many examples, a column a field: bits as words × users of uint64, all else as int64."""

    schema: Schema
    arrays: Mapping[str, Column]
    count: int

    @classmethod
    def of(cls, schema: Schema, arrays: Mapping[str, NDArray[Any]]) -> Columns:
        """Check and pack arrays: bits as users × width of 0 and 1, categories as text or index, reals as floats.

        A gap is what a masked array masks; of a real also NaN, of a category None.
        """
        if set(arrays) != set(schema.position):
            odd = sorted(set(arrays) ^ set(schema.position))
            raise ProtocolError(
                f"do not have the fields of the schema: they differ in {listed(map(quoted, odd))}",
                where="columns",
                remedy="give each field once",
            )
        for field in schema.fields:
            _refuse_shape(field, arrays[field.name])
        counts = {len(array) for array in arrays.values()}
        if len(counts) != 1:
            raise ProtocolError(
                "are not of one length", where="columns", remedy="give every user a value in every column"
            )
        return cls(schema, {field.name: _pack(field, arrays[field.name]) for field in schema.fields}, counts.pop())

    @classmethod
    def of_examples(cls, schema: Schema, examples: Iterable[Example]) -> Columns:
        """The columns of these examples."""
        rows = [_of_schema(schema, example).values for example in examples]
        arrays = {field.name: _column_of(field, [row[at] for row in rows]) for at, field in enumerate(schema.fields)}
        return cls(schema, arrays, len(rows))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> Column:
        return self.arrays[name]

    def __repr__(self) -> str:
        return f"Columns({self.count} private examples)"

    def example(self, row: int) -> Example:
        """The example in one row."""
        return Example(self.schema, tuple(_value_of(self.arrays[field.name], row) for field in self.schema.fields))

    def part(self, begin: int, end: int) -> Columns:
        """Rows `begin` .. `end`, without a copy."""
        arrays = {name: array[..., begin:end] for name, array in self.arrays.items()}
        return Columns(self.schema, arrays, len(range(self.count)[begin:end]))

    def take(self, rows: NDArray[np.intp]) -> Columns:
        """These rows, in this order."""
        arrays = {name: _frozen(array.take(rows, axis=-1)) for name, array in self.arrays.items()}
        return Columns(self.schema, arrays, len(rows))


def words_for(width: int) -> int:
    """The number of 64-bit words that hold this many bits."""
    return -(-width // _WORD_BITS)


def words_of(value: int, width: int) -> list[int]:
    """A bit vector's words, lowest first."""
    return [value >> _WORD_BITS * word & (1 << _WORD_BITS) - 1 for word in range(words_for(width))]


def bits_of(value: int, width: int) -> Bits:
    """A bit vector with a byte for each bit, the lowest first."""
    packed = np.frombuffer(value.to_bytes(-(-width // 8), "little"), np.uint8)
    return _frozen(np.unpackbits(packed, count=width, bitorder="little"))


def _holds(field: AnyField, value: int) -> bool:
    """Whether a field holds this integer."""
    if isinstance(field, LabelField):
        return value in {-1, 1}
    return field.least <= value <= field.most or value == field.empty


def _column_of(field: AnyField, values: list[int]) -> Column:
    if not isinstance(field, BitsField):
        return _frozen(np.array(values, np.int64))
    words = np.array([words_of(value, field.width) for value in values], np.uint64)
    return _frozen(np.ascontiguousarray(words.reshape(len(values), words_for(field.width)).T))


def _value_of(array: Column, row: int) -> int:
    if array.ndim == 1:
        return int(array[row])
    return sum(int(word) << _WORD_BITS * place for place, word in enumerate(array[:, row]))


def _pack(field: AnyField, array: NDArray[Any]) -> Column:
    """The column that holds these values, or an error that names the first row that it cannot hold."""
    if not isinstance(field, BitsField) and (gaps := _gaps(field, array)) is not None:
        return _pack_gaps(field, array, gaps)
    match field:
        case BitsField():
            return _pack_bits(field, array)
        case CategoryField() if array.dtype.kind in "UO":
            # None or 1 among objects is no text: as in a record, "None" or "1" has to be written out.
            found = [field.index.get(value, -1) if isinstance(value, str) else -1 for value in array]
            return _pack(field, np.array(found, np.int64))
        case RealField():
            return _pack_reals(field, array)
        case CategoryField() | IntegerField() | LabelField():
            wrong = _not_of_kind(array, "iu")
            if wrong is None:
                bad = (array < field.least) | (array > field.most)
                wrong = bad | (array == 0) if isinstance(field, LabelField) else bad
            _refuse_rows(field, wrong)
            return _frozen(array.astype(np.int64))


def _gaps(field: AnyField, array: NDArray[Any]) -> Truths | None:
    """Which rows say that there is nothing; None where none of them does."""
    if isinstance(array, np.ma.MaskedArray):
        gaps = np.ma.getmaskarray(cast("np.ma.MaskedArray[Any, Any]", array))
    elif isinstance(field, RealField) and array.dtype.kind == "f":
        gaps = np.isnan(array)
    elif isinstance(field, CategoryField) and array.dtype.kind == "O":
        gaps = np.array([value is None for value in array], np.bool)
    else:
        return None
    return gaps if gaps.any() else None


def _pack_gaps(field: AnyField, array: NDArray[Any], gaps: Truths) -> Column:
    """The column with gaps. Where there is nothing, the smallest value stands in while the others are checked."""
    if field.empty is None:
        _refuse_rows(field, gaps)
    packed = _pack(field, np.where(gaps, _least(field, array), np.asarray(array)))
    return _frozen(np.where(gaps, np.int64(field.empty or 0), packed))


def _least(field: AnyField, array: NDArray[Any]) -> NDArray[Any]:
    """The smallest value of a field as an array of this type writes it."""
    if array.dtype.kind not in "iu":
        return np.array(field.show(field.least))
    type_ = np.iinfo(cast("Any", array.dtype))
    least = field.low if isinstance(field, RealField) else field.least
    return np.array(min(max(least, type_.min), type_.max), array.dtype)


def _pack_bits(field: BitsField, array: NDArray[Any]) -> Column:
    wrong = _not_of_kind(array, "biu")
    _refuse_rows(field, ((array != 0) & (array != 1)).any(axis=1) if wrong is None else wrong)
    packed = np.zeros((len(array), 8 * words_for(field.width)), np.uint8)
    packed[:, : -(-field.width // 8)] = np.packbits(array.astype(np.uint8), axis=1, bitorder="little")
    return _frozen(np.ascontiguousarray(packed.view("<u8").T).astype(np.uint64, copy=False))


def _pack_reals(field: RealField, array: NDArray[Any]) -> Column:
    if array.dtype.kind not in "iuf":
        raise field.refuse("is not a column of numbers", "give an array of floats")
    numbers = array.astype(np.float64)
    with np.errstate(invalid="ignore"):
        _refuse_rows(field, ~((numbers >= field.low) & (numbers <= field.high)))
    return _frozen(np.floor(numbers * field.denominator + 0.5).astype(np.int64))


def _of_schema(schema: Schema, example: Example) -> Example:
    if example.schema is not schema and example.schema != schema:
        raise ProtocolError("is of another schema", where="example", remedy="read every example with one schema")
    return example


def _refuse_shape(field: AnyField, array: NDArray[Any]) -> None:
    each, remedy = (
        ((field.width,), f"users × {field.width} bits") if isinstance(field, BitsField) else ((), "one value a user")
    )
    if array.ndim == 0 or array.shape[1:] != each:
        raise field.refuse(f"has shape {array.shape}", f"give an array of {remedy}")


def _not_of_kind(array: NDArray[Any], kinds: str) -> Truths | None:
    """Which rows are of a wrong type: all of them, or None where the type is right."""
    return None if array.dtype.kind in kinds else np.ones(len(array), np.bool)


def _refuse_rows(field: AnyField, wrong: Truths) -> None:
    if wrong.any():
        first = int(wrong.argmax())
        raise ProtocolError(
            f"is not a value of this field ({int(wrong.sum())} such rows)",
            where=f"field {field.name!r}, row {first}",
            remedy=f"the field is {field.kind}: see its declaration in the schema",
        )


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array
