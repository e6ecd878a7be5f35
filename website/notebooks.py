"""Notebooks, read and run without a kernel, and as pages of the site with what their cells show.

Theory of operation
-------------------
A notebook is JSON. Its code is run here cell after cell in one namespace, as Jupyter would: what a last expression
gives is shown, by its SVG if it has one; a line `!askance …` is that command, in this process. A kernel would take
seconds to start, each time, and would be one more thing to install.

A notebook is committed without outputs, so its page is made with each build: words as they stand, code as code, what a
cell prints below it, and a picture as a file beside the page, with its table for those who do not see it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.lesson.picture import Picture
from website.text import block

FOLDER: Final = Path(__file__).parents[1] / "docs" / "notebooks"
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
    """What running a notebook showed, by the id of the cell."""

    printed: dict[str, str] = field(default_factory=dict[str, str])
    drawn: dict[str, Picture] = field(default_factory=dict[str, Picture])


def run(notebook: Notebook) -> Shown:
    """Run all code, from top to bottom."""
    names: dict[str, Any] = {"__name__": "__main__", "_shell": shell}
    shown = Shown()
    for cell in notebook.cells:
        if isinstance(cell, CodeCell):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                last = evaluate(cell, names)
                if isinstance(last, Picture):
                    shown.drawn[cell.id] = last
                elif last is not None:
                    print(repr(last))  # noqa: T201 - as a notebook shows it, and into the text above
            shown.printed[cell.id] = printed.getvalue()
    return shown


def evaluate(cell: CodeCell, names: dict[str, Any]) -> Any:
    """Run a cell; returns what its last expression gives."""
    tree = ast.parse(re.sub(r"^!(.*)$", lambda line: f"_shell({line[1]!r})", cell.text, flags=re.MULTILINE), cell.id)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell.id, "exec"), names)  # noqa: S102 - a notebook of this repository
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), cell.id, "eval"), names)  # noqa: S307 - the same
    return None


def shell(line: str) -> None:
    """Run `askance …` in this process, and print what it prints."""
    askance, *words = shlex.split(line)
    if askance != "askance":
        raise ValueError(f"a notebook calls {askance}")
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "100", "NO_COLOR": "1"}, standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    print(ran.output, end="")  # noqa: T201 - into what the cell prints


def as_json(notebook: Notebook) -> str:
    """Text of a notebook, as it is committed."""
    return json.dumps(notebook.model_dump(exclude_unset=True), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


# ------------------------------------------------------------------------------------------------------- as a page


@cache
def pages() -> dict[str, str]:
    """Every file of the site that is made of notebooks, by its path: a page each, and its pictures."""
    made = dict[str, str]()
    for path in PATHS:
        notebook = form(path)
        shown = run(notebook)
        made[f"notebooks/{path.stem}.md"] = page(path.name, notebook, shown)
        for cell, picture in shown.drawn.items():
            made[f"notebooks/{cell}.svg"] = picture._repr_svg_()  # pyright: ignore[reportPrivateUsage] - Jupyter's own name for it
    return made


def page(name: str, notebook: Notebook, shown: Shown) -> str:
    """A notebook as a document."""
    parts = list[str]()
    for cell in notebook.cells:
        if isinstance(cell, MarkdownCell):
            parts.append(f"{cell.text}\n\n")
        else:
            parts.append(f"{_code(cell.text, shown.printed[cell.id])}{_picture(cell.id, shown)}")
    parts.insert(1, f"[This notebook]({name}), to run it yourself; [what it needs](../notebooks.md).\n\n")
    return "".join(parts)


def _code(text: str, printed: str) -> str:
    """Code, and what it has printed: a command with its output, as a terminal has them."""
    if text.startswith("!") and "\n" not in text:
        return block(f"$ {text.removeprefix('!')}\n{printed}", "console")
    return block(text, "python") + (block(printed) if printed.strip() else "")


def _picture(cell: str, shown: Shown) -> str:
    """The picture that a cell ends with, and its table."""
    if (picture := shown.drawn.get(cell)) is None:
        return ""
    about = " ".join((type(picture).__doc__ or "").split("\n\n", maxsplit=1)[0].split())
    return f'![{about}]({cell}.svg)\n\n??? twin "The same as a table"\n\n{_indented(block(picture.table()))}\n'


def _indented(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))
