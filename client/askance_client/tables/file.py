"""Your own table as a population: each row is the example of one user."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as member
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from askance_client.population import Population
from askance_client.tables.array_table import ArrayTable
from askance_client.tables.csv_table import CsvTable
from askance_client.tables.parquet_table import ParquetTable
from askance_client.tables.reading import AS_IT_IS, PLAIN, Repairs, Signs, read_columns
from askance_client.tables.schema_inference import infer, infer_signs
from askance_client.tables.table import Batch, Table
from askance_protocol.errors import DataError, ProtocolError, UsageError
from askance_protocol.examples import Columns
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from askance_protocol.text import counted, printable, quoted
from askance_protocol.values import Name

FORMATS: Final[Mapping[str, Callable[[Path], Table]]] = {
    ".csv": CsvTable.open,
    ".npy": ArrayTable.open,
    ".npz": ArrayTable.open,
    ".parquet": ParquetTable.open,
    ".tsv": CsvTable.open,
}
_NAME: Final = TypeAdapter[str](Name)
_SHOWN: Final = 6
_LONGEST_NAME: Final = 40
_NAMES_FIRST: Final = (
    "begin the file with a row of names, separated by commas, each of up to 64 letters and digits, and beginning "
    "with a letter"
)


@dataclass(frozen=True, eq=False)
class FromFile(Population):
    """A population from a file: its rows, held as columns of integers."""

    rows: Columns
    clamped: Mapping[str, int] = member(default_factory=dict[str, int])
    """How many numbers of a column are beyond its range and count as the nearer end. For simulations only."""

    def columns(self, users: range) -> Columns:
        """The rows of these users, as a view. User 0 is the first."""
        self.check(users)
        return self.rows.part(users.start, users.stop)


def from_file(
    path: str | Path,
    *,
    schema: Schema | None = None,
    label: str | None = None,
    positive: str | None = None,
    columns: Sequence[str] | None = None,
    repairs: Repairs = AS_IT_IS,
    row: int | None = None,
    tell: Tell = tell_nobody,
) -> Population:
    """Read CSV (UTF-8, with a header), NumPy (.npz with a column an array, .npy structured) or Parquet.

    `label` names the column that becomes the label: of its two values the smaller, or the first in alphabetical
    order, is read as −1, the other as +1; `summary` shows which. With `positive`, this value is read as +1 and every
    other as −1, which looks at no row. Columns that a given schema does not name are left out, and not looked at; so
    are those that are not among `columns`, if these are given: they and the label. `repairs` says what is read in place
    of gaps, and of numbers that are too large. `tell` hears how much has been read. With `row`, from 1, the population
    is that row alone: what stands in the others is not looked at.

    Without a schema one is inferred, a field a column. An inferred schema looks at the data: bounds and categories
    taken from the rows are not private. For examples of real people declare it, from what is publicly known.
    """
    # What is inferred, a schema or the two values of a label, is looked for in all rows before they are read.
    inferred = schema is None or (label is not None and positive is None)
    with opened(path) as whole:
        table = whole if row is None else _OneRow(whole, row)
        return _read(_WatchedTable(table, tell, 1 + inferred), schema, label, positive, columns, repairs)


@dataclass(slots=True)
class _InPlaceOf:
    """Stands in place of a table: all of it is the same but its rows."""

    table: Table

    @property
    def path(self) -> Path:
        return self.table.path

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    @property
    def size(self) -> int:
        return self.table.size


@dataclass(slots=True)
class _OneRow(_InPlaceOf):
    """One row of a table. Those before it are passed over, and those behind it are not read."""

    row: int
    """Its number, from 1."""

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """The row."""
        last = 0
        for batch in self.table.batches(names):
            at, last = self.row - batch.first, batch.first - 1 + len(batch.columns[names[0]])
            if self.row <= last:
                columns = {name: cells[at : at + 1] for name, cells in batch.columns.items()}
                yield Batch(self.row, columns, batch.lines[at : at + 1], self.size)
                return
        raise DataError(f"has {counted(last, 'row')}, and no row {self.row}", where=str(self.path), remedy="give --row")


@dataclass(slots=True)
class _WatchedTable(_InPlaceOf):
    """A table whose reading somebody watches: of all its rows, as often as they are read."""

    tell: Tell
    times: int = 1
    """How often all rows are read."""
    _before: int = 0
    """How often they were."""

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """The rows of the table; how much of it was read is told when they have been looked at."""
        size, part = self.size, f"reading {printable(self.path.name, _LONGEST_NAME)}"
        before, self._before = self._before * size, self._before + 1
        self.tell(part, before, self.times * size)
        for batch in self.table.batches(names):
            yield batch
            self.tell(part, before + batch.read, self.times * size)


@dataclass(frozen=True, slots=True)
class _NamedTable:
    """A table whose columns are called as fields can be: "Movie Rating" is `movie_rating`. Others keep their names."""

    table: Table
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> _NamedTable:
        """The same table. A name that another column has already is not given to a second one."""
        own = table.names
        made = [name if _is_name(name) else field_name(name) for name in own]
        return cls(
            table,
            tuple(
                new if new is not None and (new == old or (new not in own and made.count(new) == 1)) else old
                for old, new in zip(own, made, strict=True)
            ),
        )

    @property
    def path(self) -> Path:
        return self.table.path

    @property
    def size(self) -> int:
        return self.table.size

    @property
    def own(self) -> Mapping[str, str]:
        """The columns that are called otherwise: by what they are called here, how the file calls them."""
        pairs = zip(self.names, self.table.names, strict=True)
        return {name: own for name, own in pairs if name != own}

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Read all rows, with these columns only."""
        own = self.own
        for batch in self.table.batches([own.get(name, name) for name in names]):
            columns = {name: batch.columns[own.get(name, name)] for name in names}
            yield Batch(batch.first, columns, batch.lines, batch.read)


def field_name(name: str) -> str | None:
    """What a column is called as a field: lower-case letters, digits and _; None where nothing of its name is left."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    made = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    return made if _is_name(made) else None


def own_names(path: str | Path) -> Mapping[str, str]:
    """The columns that are called otherwise than in the file: by what they are called here, their own names."""
    with opened(path) as table:
        return table.own


@contextmanager
def opened(path: str | Path) -> Generator[_NamedTable]:
    """A table in a file of a known format. What cannot be read of it is an error that names the file."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DataError("is of no known format", where=str(path), remedy=f"give a file in {', '.join(FORMATS)}")
    try:
        # Tried here, because the libraries word it differently if there is no such file.
        path.open("rb").close()
        yield _NamedTable.of(FORMATS[path.suffix.lower()](path))
    except OSError as error:
        reason = (error.strerror or "it seems damaged").lower()
        raise DataError(f"cannot be read: {reason}", where=str(path), remedy="check the file") from None


def column_names(path: str | Path) -> tuple[str, ...]:
    """Names of a table's columns, as they are written; no row is read."""
    with opened(path) as table:
        return table.names


def values_of(path: str | Path, name: str, *, most: int = _SHOWN) -> tuple[str, ...]:
    """The different values of a column, as they are written, and "…" where there are more than so many."""
    with opened(path) as table:
        seen = dict[str, None]()
        for batch in table.batches([name]):
            cells = batch.columns[name]
            seen |= dict.fromkeys(cells if isinstance(cells, list) else map(str, cells.tolist()))
            if len(seen) > most:
                return (*sorted(seen)[:most], "…")
        return tuple(sorted(seen))


def count_rows(path: str | Path, tell: Tell = tell_nobody) -> int:
    """Number of a table's rows: they are counted, and no cell is looked at."""
    with opened(path) as table:
        rows = _WatchedTable(table, tell).batches(table.names[:1])
        return sum(len(next(iter(batch.columns.values()))) for batch in rows)


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a table was found to hold."""

    schema: Schema
    left_out: Mapping[int, str]
    """Numbers of the columns that no field can hold, from 1, and why."""


def infer_schema(
    path: str | Path,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    repairs: Repairs = AS_IT_IS,
    tell: Tell = tell_nobody,
) -> Inferred:
    """Infer a schema to be looked at and edited: of these columns, or of all that a field can hold."""
    with opened(path) as table:
        wanted = _wanted(table, columns, label)
        faults: dict[str, DataError] = {}
        unnamed = dict(_unnamed(table)) if columns is None else {}
        names = [name for number, name in enumerate(table.names, 1) if number not in unnamed and name in wanted]
        if columns is not None:
            _check_names(table, wanted)
        if not names:
            raise DataError(
                "has no column with a name that a field can have", where=str(table.path), remedy=_NAMES_FIRST
            )
        left_out = faults if columns is None else None
        schema, _ = infer(_WatchedTable(table, tell), label, columns=names, repairs=repairs, left_out=left_out)
        reasons = {table.names.index(name) + 1: error.what for name, error in faults.items()}
        return Inferred(schema, dict(sorted({**unnamed, **reasons}.items())))


def _unnamed(table: Table) -> Iterator[tuple[int, str]]:
    """Columns with a name that no field can have, or that another column has, too."""
    for number, name in enumerate(table.names, 1):
        try:
            _check_name(name, "")
        except DataError as error:
            yield number, error.what
        else:
            others = [other for other, same in enumerate(table.names, 1) if same == name and other != number]
            if others:
                yield number, f"has the name of column {others[0]}"


def _wanted(table: Table, columns: Sequence[str] | None, label: str | None) -> Sequence[str]:
    """Names of the columns that are read."""
    named = {*(columns or ()), *(() if label is None else (label,))}
    for name in named:
        if name not in table.names:
            raise _no_column(table, name)
    return table.names if columns is None else [name for name in table.names if name in named]


def _read(
    table: Table,
    schema: Schema | None,
    label: str | None,
    positive: str | None,
    columns: Sequence[str] | None,
    repairs: Repairs,
) -> Population:
    if positive is not None and label is None:
        raise UsageError("names a value of no label", where="positive", remedy="name the column that is the label")
    if schema is not None and columns is not None:
        schema = chosen(schema, columns)
    wanted = _wanted(table, columns, label)
    if schema is None:
        _check_names(table, frozenset(wanted))
        fitting, signs = infer(table, label, positive, columns=wanted, repairs=repairs)
    else:
        fitting = repaired(schema, repairs)
        signs = _declared(table, schema, label, positive)
    clamped = Counter[str]()
    rows = read_columns(table, fitting, signs, repairs, clamped)
    summary = _summary(table, fitting, signs, len(rows), inferred=schema is None)
    return FromFile(
        table.path.name, fitting, len(rows), {}, summary, rows, {name: n for name, n in clamped.items() if n}
    )


def chosen(schema: Schema, columns: Sequence[str]) -> Schema:
    """The fields of these names, and the label, in the schema's order."""
    for name in columns:
        schema.field(name)
    return Schema(
        fields=tuple(field for field in schema.fields if field.name in columns or isinstance(field, LabelField))
    )


def repaired(schema: Schema, repairs: Repairs) -> Schema:
    """The schema after these repairs. A value that stands for gaps has to be one of each field that may have them."""
    for field in schema.fields:
        if repairs.missing is not None and isinstance(field, CategoryField | IntegerField | RealField) and field.gap:
            _check_stand_in(repairs.of(field), repairs.missing)
    return Schema(fields=tuple(map(repairs.of, schema.fields)))


def bounds_nothing(schema: Schema, repairs: Repairs) -> bool:
    """Whether the bounds of these repairs lie beyond the range of each number: they would silently mean nothing."""
    numbers = [each for each in schema.fields if isinstance(each, IntegerField | RealField)]
    low, high = repairs.low, repairs.high
    beyond = [(low is None or low <= each.low) and (high is None or high >= each.high) for each in numbers]
    return repairs.bounded and all(beyond)


def _check_stand_in(field: AnyField, value: str) -> None:
    what, remedy = f"is no value of {field.name!r}", "give one that its field declares, or ask about other columns"
    try:
        field.parse(value if isinstance(field, CategoryField) else _number(value))
    except (ProtocolError, ValueError):
        raise UsageError(what, where="missing", remedy=remedy) from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _declared(table: Table, schema: Schema, label: str | None, positive: str | None) -> Signs:
    """The values that stand for the label of a declared schema."""
    _check_names(table, schema.position.keys())
    for name in schema.position:
        if name not in table.names:
            raise _no_column(table, name)
    if label is None:
        return PLAIN
    if schema.label is None or schema.label.name != label:
        raise UsageError(
            f"does not declare {quoted(label)} as its label",
            where="schema",
            remedy="declare it, or name the field that is",
        )
    return infer_signs(table, label) if positive is None else Signs(None, positive)


def _check_names(table: Table, wanted: Collection[str]) -> None:
    """Refuse wanted names that no field can have, or that come twice. Errors do not repeat them: without a header the
    names are somebody's data.
    """
    names: dict[str, int] = {}
    for number, name in enumerate(table.names, 1):
        place = f"{table.path}, column {number}"
        if name in names:
            what, remedy = f"has the name of column {names[name]}", "give every column a name of its own"
            raise DataError(what, where=place, remedy=remedy)
        if name in wanted:
            names[name] = number
            _check_name(name, place)


def _is_name(name: str) -> bool:
    try:
        _NAME.validate_python(name)
    except ValidationError:
        return False
    return True


def _check_name(name: str, place: str) -> None:
    if not _is_name(name):
        raise DataError(
            "has a name that no field can have" if name.strip() else "has no name", where=place, remedy=_NAMES_FIRST
        )


def _no_column(table: Table, name: str) -> DataError:
    here = field_name(name)
    remedy = f"it is called {here} here" if here in table.names else "name a column as the first row of the file does"
    return DataError(f"has no column {quoted(name)}", where=str(table.path), remedy=remedy)


def _summary(table: Table, schema: Schema, signs: Signs, count: int, *, inferred: bool) -> str:
    left_out = len(table.names) - len(schema.fields)
    head = f"{table.path.name}: {counted(count, 'user')}, {counted(len(schema.fields), 'field')}" + (
        f", {counted(left_out, 'column')} left out" if left_out else ""
    )
    lines = [head, *(f"  {field.name}: {_describe(field, signs)}" for field in schema.fields)]
    if inferred:
        lines.append(
            "This schema was inferred from the rows, so it tells about them: it is not private. "
            "For real users declare a schema from what is publicly known."
        )
    return "\n".join(lines)


def _describe(field: AnyField, signs: Signs) -> str:
    return _holds(field, signs) + ("" if field.empty is None else ", or nothing")


def _holds(field: AnyField, signs: Signs) -> str:
    match field:
        case BitsField():
            return "one bit" if field.width == 1 else f"{field.width} bits"
        case CategoryField():
            more = ", …" if len(field.values) > _SHOWN else ""
            return f"one of {len(field.values)} categories: {', '.join(field.values[:_SHOWN])}{more}"
        case IntegerField():
            return f"a whole number from {field.low} to {field.high}"
        case RealField():
            return f"a real from {field.low} to {field.high}, in steps of 1/{field.denominator}"
        case LabelField():
            return f"the label, {_value(signs.minus)} read as -1, {_value(signs.plus)} as +1"


def _value(value: str | float | None) -> str:
    if value is None:
        return "every other value"
    return repr(value) if isinstance(value, str) else f"{value:g}"
