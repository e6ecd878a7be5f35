"""A table on standard output: drawn on a terminal; elsewhere plain text, which documents and scripts compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def echo_table(
    plain: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", below: Sequence[str] = ()
) -> None:
    """Print `plain` where nobody looks; on a terminal the same as a table, with the lines that stand below it.

    A column whose cells are all numbers is set to the right.
    """
    if not sys.stdout.isatty():
        typer.echo(plain)
        return
    console = Console()
    table = Table(title=Text(title, "bold") if title else None, title_justify="left")
    for number, name in enumerate(columns):
        cells = [row[number] for row in rows if row[number]]
        table.add_column(Text(name), justify="right" if cells and all(_is_number(cell) for cell in cells) else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for line in below:
        console.print(line, markup=False, highlight=False)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.lstrip("[-ε= ")[:1].isdigit()
