"""A table is checked to its last row and outcome: whichever row leaks, its certificate says so, in both languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from askance_protocol.channels import tabulated
from askance_protocol.channels.channel import extremes
from askance_protocol.channels.tabulated import TabulatedChannel
from askance_protocol.errors import ProtocolError
from askance_protocol.hadamard import rows_for
from tests.protocol.odd_rows import LIMIT, OddRow, faults, leaks
from tests.protocol.web.scripts import planted, run

TABLES: Final = [*leaks(), *faults()]
Found = list[int | str]


def is_cut(channel: TabulatedChannel, given: int) -> bool:
    """Whether the words of an input are cut where the weights of its row say."""
    ends = [0, *accumulate(channel.rows[given])]
    return all(
        channel.choose(given, begin) == channel.choose(given, end - 1) == outcome
        for outcome, (begin, end) in enumerate(pairwise(ends))
    )


def in_python(tables: Sequence[OddRow]) -> Found:
    """What each costs, or where it is refused."""

    def found(table: OddRow) -> int | str:
        try:
            channel = TabulatedChannel(table.table)
        except ProtocolError as error:
            return error.where
        by_rows = all(is_cut(channel, given) for given in (0, table.odd, table.rows - 1))
        return channel.certified_micro_epsilon if by_rows else "it draws otherwise"

    return list(map(found, tables))


def in_javascript(folder: Path, tables: Sequence[OddRow], changes: dict[str, str] | None = None) -> Found:
    """The same, by the modules that a page runs."""
    job = [table.to_json() for table in tables]
    if changes is None:
        return run("tables.mjs", job, folder)
    return run("tables.mjs", job, folder, modules=planted(folder, "channels.mjs", changes))


def wrong(found: Found) -> list[OddRow]:
    """The tables of which something else was found than there is."""
    return [table for table, what in zip(TABLES, found, strict=True) if what != table.expected]


def test_each_row_of_every_size_is_once_the_one_that_leaks() -> None:
    sizes = range(3, LIMIT + 1)

    assert {(each.rows, each.odd) for each in leaks()} == {(rows, odd) for rows in sizes for odd in range(rows)}


def test_python_finds_the_row_that_leaks_and_the_row_that_is_none() -> None:
    assert wrong(in_python(TABLES)) == []


def test_javascript_finds_the_row_that_leaks_and_the_row_that_is_none(tmp_path: Path) -> None:
    assert wrong(in_javascript(tmp_path, TABLES)) == []


Columns = Iterator[Sequence[int]]
LOOKS: Final[dict[str, Callable[[Columns], Iterator[tuple[int, int]]]]] = {
    "at the first two rows": lambda columns: extremes(column[:2] for column in columns),
    "at all rows but the last": lambda columns: extremes(column[:-1] for column in columns),
    "at all rows but the middle one": lambda columns: extremes(
        (*column[: len(column) // 2], *column[len(column) // 2 + 1 :]) for column in columns
    ),
    "at the first two outcomes": lambda columns: extremes(iter(list(columns)[:2])),
    "at all outcomes but the last": lambda columns: extremes(iter(list(columns)[:-1])),
    "at the minimum alone": lambda columns: ((min(column), column[0]) for column in columns),
    "at the maximum alone": lambda columns: ((column[0], max(column)) for column in columns),
}


@pytest.mark.parametrize("looks", LOOKS)
def test_control_python_that_looks_no_further_is_found(monkeypatch: pytest.MonkeyPatch, looks: str) -> None:
    monkeypatch.setattr(tabulated, "extremes", LOOKS[looks])
    missed = wrong(in_python(TABLES))

    assert missed
    if looks == "at the first two rows":
        assert missed == [table for table in leaks() if table.odd >= 2]


@pytest.mark.parametrize("last", [2, LIMIT - 1])
def test_control_python_that_checks_the_first_rows_only_is_found(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    check: Any = tabulated._check_row

    def first_ones(row: Sequence[object], length: int, where: str) -> None:
        if int(where.removeprefix("weights[").removesuffix("]")) < last:
            check(row, length, where)

    monkeypatch.setattr(tabulated, "_check_row", first_ones)
    # Rows of other lengths make no array, and numbers beyond 64 bits neither: what is left is of the right form.
    formed = [table for table in faults() if table.name.endswith("sums to one less")]

    assert [table for table, what in zip(formed, in_python(formed), strict=True) if what != table.expected] == [
        table for table in formed if table.odd >= last
    ]


_COLUMN: Final = "const column = rows.map((row) => row[outcome]);"
_CHECKED: Final = "const rows = weights.map((row, input) => checkedRow(row, outcomes, `weights[${input}]`));"
PLANTED: Final = {
    "at the first two rows": {_COLUMN: "const column = rows.slice(0, 2).map((row) => row[outcome]);"},
    "at all rows but the last": {_COLUMN: "const column = rows.slice(0, -1).map((row) => row[outcome]);"},
    "at the first two outcomes": {"certified: certified(extremes),\n    weights: (/** @type {number} */ input) => {\n"
    "      checkInput(input, inputs);\n      return rows[input];": "certified: certified(extremes.slice(0, 2)),\n"
    "    weights: (/** @type {number} */ input) => {\n      return rows[input];"},
    "at the maximum alone": {"column.reduce((a, b) => (b < a ? b : a))": "column[0]"},
    "at the minimum alone": {"column.reduce((a, b) => (b > a ? b : a))": "column[0]"},
    "where it cuts the first two rows": {"rows.flatMap((row) => {": "rows.slice(0, 2).flatMap((row) => {"},
    "for whole rows among the first two": {
        _CHECKED: "const rows = weights.map((row, input) => "
        "input < 2 ? checkedRow(row, outcomes, `weights[${input}]`) : row.map(BigInt));"
    },
}  # fmt: skip


@pytest.mark.parametrize("looks", PLANTED)
def test_control_javascript_that_looks_no_further_is_found(tmp_path: Path, looks: str) -> None:
    # Those that have the form of a channel: a planted fault may stumble over the others by itself.
    formed = [table for table in TABLES if len(table.row) == len(table.table[table.odd - 1])]
    found = in_javascript(tmp_path, formed, PLANTED[looks])

    assert [table for table, what in zip(formed, found, strict=True) if what != table.expected]


def test_both_languages_have_as_many_rows_for_as_many_cells(tmp_path: Path) -> None:
    counts = [*range(1, 70), *(2**power + more for power in range(7, 16) for more in (-1, 0, 1)), 1 << 16]

    assert run("rows.mjs", counts, tmp_path) == [rows_for(cells) for cells in counts]
