"""A table on standard output: drawn on a terminal; elsewhere plain text, which documents and scripts compare."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_NUMBER: Final = re.compile(r"-|(ε = )?-?\d{1,3}(,\d{3})*(\.\d+)?(e[+-]\d+)?(/\d{1,3}(,\d{3})*| %)?", re.ASCII)
"""Numbers as tables have them. An id is none, though it may have no letter."""


def echo_table(
    plain: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", below: Sequence[str] = ()
) -> None:
    """Print `plain` where nobody looks; on a terminal the same as a table, with the lines that stand below it.

    It has no rules: what stands under a bold head needs none, and they would take the room of three letters a column.
    A column whose cells are all numbers is set to the right.
    """
    if not sys.stdout.isatty():
        typer.echo(plain)
        return
    console = Console()
    if title:
        console.print(Text(title, "bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        cells = [row[number] for row in rows if row[number]]
        table.add_column(Text(name), justify="right" if cells and all(map(_NUMBER.fullmatch, cells)) else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for line in below:
        console.print(line, markup=False, highlight=False)
