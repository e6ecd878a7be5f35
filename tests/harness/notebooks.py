"""Notebooks, read and run without a kernel: their cells in one namespace, their commands in this process.

Theory of operation
-------------------
A notebook is JSON. Its code is run here cell after cell, as Jupyter would: what a last expression gives is shown, by
its SVG if it has one; a line `!askance …` is that command. A kernel would take seconds to start, each time.

What a notebook says in words is held against what its cells print. `askance_lab.lesson.holds` prints a sentence with ✓,
or with ✗ where it is not true. So a notebook is wrong where a ✗ is printed; and where the text of a part has a number
that no true sentence of that part has. Numbers in code, in links and in names (KLNRS11, 2⁶⁴, §5.3) are no claims.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from typer.testing import CliRunner

from askance_lab.cli import app
from tests.harness.tree import ROOT

FOLDER: Final = ROOT / "docs" / "notebooks"
PATHS: Final = sorted(FOLDER.glob("*.ipynb"))

# ----------------------------------------------------------------------------------------------------------- the form


class Strict(BaseModel):
    """A part of a notebook: the members that nbformat 4.5 asks for, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Tags(Strict):
    """What is said about a cell."""

    tags: list[Literal["parameters"]] = Field(default_factory=list)


class CellForm(Strict):
    """What every cell has. Nobody commits a number that counts executions, or an output."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")]
    metadata: Tags
    source: list[str]

    @field_validator("source")
    @classmethod
    def lines(cls, source: list[str]) -> list[str]:
        """Lines that all but the last one end, as Jupyter writes them: so that a change is a line of a diff."""
        if any(line.endswith("\n") == (number == len(source)) for number, line in enumerate(source, 1)):
            raise ValueError("is not split into lines")
        return source

    @property
    def text(self) -> str:
        """What stands in the cell."""
        return "".join(self.source)


class MarkdownCell(CellForm):
    """Words."""

    cell_type: Literal["markdown"]


class CodeCell(CellForm):
    """Code that has not been run."""

    cell_type: Literal["code"]
    execution_count: None
    outputs: Annotated[list[Any], Field(max_length=0)]


class Kernel(Strict):
    """The kernel that every installation of Jupyter has."""

    display_name: Literal["Python 3"]
    language: Literal["python"]
    name: Literal["python3"]


class Language(Strict):
    """No version: it would change with whoever saves the notebook."""

    name: Literal["python"]


class About(Strict):
    """What is said about a notebook."""

    kernelspec: Kernel
    language_info: Language


class Notebook(Strict):
    """A notebook as it is committed: a part of what nbformat 4.5 allows."""

    cells: Annotated[list[Annotated[MarkdownCell | CodeCell, Field(discriminator="cell_type")]], Field(min_length=1)]
    metadata: About
    nbformat: Literal[4]
    nbformat_minor: Literal[5]

    @field_validator("cells")
    @classmethod
    def told_apart(cls, cells: list[Any]) -> list[Any]:
        """Cells whose ids differ."""
        if len({cell.id for cell in cells}) < len(cells):
            raise ValueError("two cells have one id")
        return cells


def form(path: Path) -> Notebook:
    """Read a notebook; whatever is not as it should be committed is an error that says where."""
    return Notebook.model_validate_json(path.read_bytes())


# -------------------------------------------------------------------------------------------------------- running it


@dataclass(slots=True)
class Shown:
    """What running a notebook showed."""

    printed: dict[str, str] = field(default_factory=dict)
    """By the id of the cell."""
    pictures: list[str] = field(default_factory=list)
    """SVG, in the order of the cells."""


def run(notebook: Notebook) -> Shown:
    """Run all code, from top to bottom."""
    names: dict[str, Any] = {"__name__": "__main__", "_shell": shell}
    shown = Shown()
    for cell in notebook.cells:
        if isinstance(cell, CodeCell):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                last = evaluate(cell, names)
                if last is not None:
                    drawn = getattr(last, "_repr_svg_", None)
                    shown.pictures += [] if drawn is None else [drawn()]
                    print(repr(last) if drawn is None else "")
            shown.printed[cell.id] = printed.getvalue()
    return shown


def evaluate(cell: CodeCell, names: dict[str, Any]) -> Any:
    """Run a cell; returns what its last expression gives."""
    tree = ast.parse(re.sub(r"^!(.*)$", lambda line: f"_shell({line[1]!r})", cell.text, flags=re.MULTILINE), cell.id)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell.id, "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), cell.id, "eval"), names)
    return None


def shell(line: str) -> None:
    """Run `askance …` in this process, and print what it prints."""
    askance, *words = shlex.split(line)
    assert askance == "askance", f"a notebook calls {askance}"
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "100", "NO_COLOR": "1"}, standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    print(ran.output, end="")


# ------------------------------------------------------------------------------------------------------ what it says

_NUMBER: Final = re.compile(r"(?<![\w.,§])[+−-]?\d+(?:[.,]\d+)*(?![\w⁰¹²³⁴-⁹])")
_NO_CLAIM: Final = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|\$[^$]*\$", re.DOTALL)


def numbers(text: str) -> set[str]:
    """Numbers that a text states."""
    return set(_NUMBER.findall(_NO_CLAIM.sub(" ", text)))


def parts(notebook: Notebook) -> Iterator[list[MarkdownCell | CodeCell]]:
    """The cells of each part: from one heading to the next."""
    part: list[MarkdownCell | CodeCell] = []
    for cell in notebook.cells:
        if isinstance(cell, MarkdownCell) and cell.text.startswith("#") and part:
            yield part
            part = []
        part.append(cell)
    yield part


def faults(notebook: Notebook, shown: Shown) -> list[str]:
    """Sentences that are not true, numbers of a text that no true sentence of its part has, parts without question."""
    found: list[str] = []
    for part in parts(notebook):
        printed = "\n".join(shown.printed.get(cell.id, "") for cell in part).splitlines()
        found += [line for line in printed if line.startswith("✗")]
        true = "\n".join(line for line in printed if line.startswith("✓"))
        text = "\n".join(cell.text for cell in part if isinstance(cell, MarkdownCell))
        found += [f"{part[0].id}: {number} is nowhere shown" for number in sorted(numbers(text) - numbers(true))]
        is_part = part[0].text.startswith("## ")
        if is_part and not re.search(r"^\*\*Ask the class:\*\* .*\?", part[-1].text, re.MULTILINE):
            found.append(f"{part[0].id}: no question to the class at its end")
    return found


def as_json(notebook: Notebook) -> str:
    """Text of a notebook, as it is committed."""
    return json.dumps(notebook.model_dump(exclude_unset=True), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
