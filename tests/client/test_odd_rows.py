"""A server asks through a table of many rows, of which one tells more than is charged: no report leaves a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from askance_client import Answered, Reason, Refusal, User, Wallet
from askance_protocol.channels import tabulated
from askance_protocol.channels.channel import extremes
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Clamp, FieldValue
from askance_protocol.rounds import TableSpec
from tests.client.liar import Liar
from tests.client.people import HERS, answers, enrolled, wallet_at
from tests.protocol.odd_rows import COST, OddRow, faults, leaks
from tests.protocol.studies import part, study
from tests.protocol.web.scripts import planted, run
from tests.protocol.web.test_web_lies import case

SIZES: Final = (3, 8, 64)
LEAKY: Final = [table for table in leaks() if table.rows in SIZES and "again" not in table.name]
FAULTY: Final = [table for table in faults() if table.rows == 4]


def asking(table: OddRow, charge: int) -> Liar:
    """A server that asks through this table; a study of its own, so that one wallet may meet them all."""
    cell = Clamp(of=FieldValue(field="i"), low=0, high=table.rows - 1)
    spec = TableSpec(weights=tuple(tuple(map(str, row)) for row in table.table))
    liar = Liar.of(study(simulated=False, title=table.name))
    liar.ask(part(CellQuery(cells=table.rows, cell=cell), spec, charge))
    return liar


def sent(path: Path, tables: Sequence[OddRow], charge: int = COST - 1) -> list[OddRow]:
    """The tables that a user has answered through; nothing else has left or is charged."""
    answered = list[OddRow]()
    wallet: Wallet = wallet_at(path)
    user = User(HERS, wallet)
    enrolled(user, Liar.of(study(simulated=False)))
    for table in tables:
        liar = asking(table, charge)
        [result] = answers(user, liar)
        if isinstance(result, Answered):
            answered.append(table)
        else:
            assert isinstance(result, Refusal)
            assert result.reason is Reason.UNSOUND_ROUND
        assert len(liar.bodies) == isinstance(result, Answered)
    assert len(wallet.spending.charges) == len(answered)
    wallet.close()
    return answered


def test_a_table_whose_one_row_tells_more_than_is_charged_is_not_answered(tmp_path: Path) -> None:
    assert sent(tmp_path, [*LEAKY, *FAULTY]) == []


def test_the_same_table_is_answered_for_what_it_costs(tmp_path: Path) -> None:
    """The innocent twin."""
    tables = LEAKY[:8]

    assert sent(tmp_path, tables, COST) == tables


def test_control_a_user_who_looks_at_two_rows_is_caught_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_two(columns: Iterator[Sequence[int]]) -> Iterator[tuple[int, int]]:
        return extremes(column[:2] for column in columns)

    monkeypatch.setattr(tabulated, "extremes", first_two)
    tables = [table for table in LEAKY if table.rows == 8]
    # What was certified is remembered; the control must not find what the tests above have left, nor leave its own.
    monkeypatch.setattr(tabulated, "_tabulated", tabulated._tabulated_of)

    assert sent(tmp_path, tables) == [table for table in tables if table.odd >= 2]


def told(folder: Path, tables: Sequence[OddRow], charge: int, changes: dict[str, str] | None = None) -> list[object]:
    """What a page says to the same."""
    cases = list[dict[str, object]]()
    for table in tables:
        entries = asking(table, charge)

        def plant(liar: Liar, entries: Liar = entries) -> None:
            liar.study, liar.entries = entries.study, entries.entries

        cases.append(case(plant))
    if changes is None:
        return run("judging.mjs", cases, folder)
    return run("judging.mjs", cases, folder, modules=planted(folder, "channels.mjs", changes))


def test_a_page_refuses_the_same_tables(tmp_path: Path) -> None:
    tables = [*LEAKY, *FAULTY]

    assert told(tmp_path, tables, COST - 1) == [["unsound-round"]] * len(tables)


def test_a_page_answers_the_same_tables_for_what_they_cost(tmp_path: Path) -> None:
    answered = {"charge": COST, "certified": COST, "part": 0}

    assert told(tmp_path, LEAKY[:8], COST) == [[answered]] * 8


def test_control_a_page_that_looks_at_two_rows_is_found(tmp_path: Path) -> None:
    column = "const column = rows.map((row) => row[outcome]);"
    changes = {column: column.replace("rows.map", "rows.slice(0, 2).map")}
    tables = [table for table in LEAKY if table.rows == 8]
    found = told(tmp_path, tables, COST - 1, changes)

    assert [table for table, what in zip(tables, found, strict=True) if what != ["unsound-round"]] == [
        table for table in tables if table.odd >= 2
    ]
