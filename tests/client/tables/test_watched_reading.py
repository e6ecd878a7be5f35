"""While a table is read, whoever watches is told how much of it has been: bytes of text, rows of what is typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from askance_client.tables import count_rows, from_file, infer_schema
from askance_client.tables.csv_table import CsvTable
from askance_protocol.progress import Tell
from askance_protocol.schema import IntegerField, LabelField, Schema

ROWS = 140_000
"""More than two batches of any format."""
DECLARED = Schema(fields=(IntegerField(name="age", low=0, high=120), LabelField(name="ill")))

Reading = Callable[[Path, Tell], object]
READINGS: dict[str, tuple[Reading, int]] = {
    "a schema": (lambda path, tell: infer_schema(path, columns=("age",), tell=tell), 1),
    "rows that are counted": (count_rows, 1),
    "rows as declared": (lambda path, tell: from_file(path, schema=DECLARED, tell=tell), 1),
    "rows, and what they may hold": (lambda path, tell: from_file(path, columns=("age", "ill"), tell=tell), 2),
    "rows, and what their label is": (lambda path, tell: from_file(path, schema=DECLARED, label="ill", tell=tell), 2),
}
"""Ways to read a table, and how often each reads all rows."""


def columns() -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    users = np.arange(ROWS)
    return {"age": users % 121, "ill": 2 * (users % 2) - 1}


@pytest.fixture(scope="module", params=["csv", "quoted.csv", "npz", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A table of some format, and its size."""
    path, held = tmp_path_factory.mktemp("tables") / f"people.{request.param}", columns()
    if path.suffix == ".csv":
        rows = [f"{age},{ill},x" for age, ill in zip(*(column.tolist() for column in held.values()), strict=True)]
        if "quoted" in path.name:
            # A row on two lines, from which on rows are read one by one.
            rows[ROWS // 2] = '7,1,"x\ny"'
        path.write_text("\n".join(["age,ill,says", *rows, ""]))
        return path, path.stat().st_size
    if path.suffix == ".npz":
        np.savez(path, age=held["age"], ill=held["ill"])
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(held), path)
    return path, ROWS


def told_wrongly(path: Path, reading: Reading, size: int, times: int) -> str | None:
    """What is wrong with what is told while a table is read; None if nothing is."""
    told = list[tuple[str, int, int]]()
    reading(path, lambda *news: told.append(news))
    done = [each for _, each, _ in told]
    if {(part, of) for part, _, of in told} != {(f"reading {path.name}", times * size)}:
        return "another part, or another end"
    if done != sorted(done) or done[0] != 0 or done[-1] != times * size:
        return f"from {done[0]} to {done[-1]} of {times * size}"
    middle = [each for each in done if 0 < each < times * size]
    return None if len(set(middle)) >= 2 * times else "nothing between beginning and end"


@pytest.mark.parametrize("how", READINGS)
def test_it_is_told_how_much_of_a_table_has_been_read(table: tuple[Path, int], how: str) -> None:
    path, size = table
    reading, times = READINGS[how]
    assert told_wrongly(path, reading, size, times) is None


def test_an_end_that_is_not_the_tables_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    path, (reading, times) = tmp_path / "people.csv", READINGS["a schema"]
    path.write_text("\n".join(["age", *map(str, columns()["age"].tolist()), ""]))
    size = path.stat().st_size
    assert told_wrongly(path, reading, size, times) is None

    monkeypatch.setattr(CsvTable, "size", property(lambda _: size + 1))
    assert told_wrongly(path, reading, size + 1, times) is not None
    monkeypatch.setattr(CsvTable, "size", property(lambda _: size))
    monkeypatch.setattr("askance_client.tables.csv_table._ROWS", ROWS)
    assert told_wrongly(path, reading, size, times) == "nothing between beginning and end"
