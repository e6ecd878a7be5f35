"""The notebooks of docs/notebooks: they run from top to bottom, and say nothing that their cells do not bear out."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pydantic
import pytest

from askance_lab import lesson
from tests.harness.notebooks import faults, numbers
from tests.harness.tree import ROOT
from website.notebooks import FOLDER, PATHS, Notebook, Shown, as_json, form, page, run, shell

COMPOSITION = FOLDER / "3-composition.ipynb"


@cache
def ran(path: Path) -> Shown:
    """What a notebook shows, run once."""
    return run(form(path))


def changed(path: Path, old: str, new: str) -> Notebook:
    """The notebook with one text in place of another, which stands in it once."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1, old
    return Notebook.model_validate_json(text.replace(old, new))


# ----------------------------------------------------------------------------------------------------------- the form


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_jupyter_writes_it_and_without_outputs(path: Path) -> None:
    assert path.read_text("utf-8") == as_json(form(path)), "clear all outputs (Edit > Clear Outputs) and save"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"execution_count": null,\n   "id": "3-composition-02"', '"execution_count": 1,\n   "id": "3-composition-02"'),
        (
            '"tags": [\n     "parameters"\n    ]\n   },\n   "outputs": []',
            '"tags": [\n     "parameters"\n    ]\n   },\n   "outputs": [{}]',
        ),
        ('"id": "3-composition-05"', '"id": "3-composition-06"'),
        ('"id": "3-composition-05"', '"id": "a b"'),
        ('"nbformat_minor": 5', '"nbformat_minor": 4'),
        ('"name": "python"\n', '"name": "python", "version": "3.12.1"\n'),
        ('"parameters"', '"parameter"'),
    ],
)
def test_a_notebook_of_another_form_is_refused(old: str, new: str) -> None:
    """The control: an execution count, an output, an id twice, an id that is none, another format, a version, a tag."""
    with pytest.raises(pydantic.ValidationError):
        changed(COMPOSITION, old, new)


def test_lines_that_were_joined_are_refused() -> None:
    cell: dict[str, Any] = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# A\nand more"]}
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": [cell], "metadata": about | {"language_info": {"name": "python"}}}

    Notebook.model_validate({**whole, "nbformat": 4, "nbformat_minor": 5})
    cell["source"] = ["# A", "and more"]
    with pytest.raises(pydantic.ValidationError, match="split into lines"):
        Notebook.model_validate({**whole, "nbformat": 4, "nbformat_minor": 5})


# ------------------------------------------------------------------------------------------------------ what they say


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_each_sentence_and_number_of_it_holds(path: Path) -> None:
    shown = ran(path)
    printed = "".join(shown.printed.values())

    assert faults(form(path), shown) == []
    assert printed.count("✓") >= 5
    assert len(shown.drawn) >= 2
    assert all("<svg" in picture._repr_svg_() for picture in shown.drawn.values())


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("is right in 99% of all", "is right in 98% of all", "3-composition-03: 98 is nowhere shown"),
        ("it answers 3, and then", "it answers 4, and then", "4 is nowhere shown"),
        ("answered == 3", "answered == 4", "✗ with these numbers it does not hold: With a cap of 1"),
        ("**Ask the class:** Who should", "Who should", "3-composition-07: no question to the class at its end"),
    ],
)
def test_a_wrong_claim_that_is_planted_is_found(old: str, new: str, found: str) -> None:
    """The control: a wrong number in the text, a sentence that is not true, a part without a question."""
    planted = changed(COMPOSITION, old, new)

    assert found in "\n".join(faults(planted, run(planted)))


OTHERS = {
    "1-randomized-response": 'epsilon, share, crowds, seed = "2", 0.9, [10, 20, 30, 40, 50], 3',
    "2-float-laplace": 'epsilon, reports, seed = "0.1", 200, 3',
    "3-composition": 'epsilon, cap, price, people = "0.2", "2", "0.7", 50',
    "4-separation": "d, users, runs = 4, [200], 2",
    "5-plan-a-study": 'tolerance, epsilon, studies = "0.3", "3", 5',
}
"""Numbers that a class might try, with which some sentences do not hold."""


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_with_other_numbers_a_notebook_runs_to_its_end_and_says_what_does_not_hold(path: Path) -> None:
    notebook = form(path)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = [OTHERS[path.stem]]
    shown = run(notebook)

    assert list(shown.printed) == list(ran(path).printed)
    if path.stem != "5-plan-a-study":
        assert any(fault.startswith("✗") for fault in faults(notebook, shown))


def test_numbers_in_code_links_and_names_are_no_claims() -> None:
    text = "`k = 7`, [a](6.md), $x_8$, KLNRS11, §5.3, 2⁶⁴, x2: but 1, −2, 3.5, 7,590 and 40 %."

    assert numbers(text) == {"1", "−2", "3.5", "7,590", "40"}


def test_every_picture_stands_in_a_notebook_and_every_part_has_its_parameters_before_it() -> None:
    code = {path: "\n".join(cell.text for cell in form(path).cells if cell.cell_type == "code") for path in PATHS}

    assert [name for name in lesson.__all__ if not any(f"{name}(" in text for text in code.values())] == []
    assert len(PATHS) == 5
    for path in PATHS:
        first = next(cell for cell in form(path).cells if cell.cell_type == "code")
        assert first.metadata.tags == ["parameters"], path.name


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_page_of_the_site_has_all_that_a_notebook_says_and_shows(path: Path) -> None:
    made = page(path.name, form(path), ran(path))

    for cell in form(path).cells:
        assert cell.text.removeprefix("!") in made, cell.id
    for cell_id, printed in ran(path).printed.items():
        assert printed.rstrip() in made, cell_id
    for cell_id, picture in ran(path).drawn.items():
        assert f"({cell_id}.svg)" in made
        assert all(line.strip() in made for line in picture.table().splitlines())
    # The control: a notebook that prints something else.
    other = ran(path).printed[form(path).cells[-2].id] + "and more"
    assert other not in made


def test_links_of_the_notebooks_lead_to_files() -> None:
    for path in PATHS:
        for link in re.findall(r"\]\(([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / link).is_file(), link


def unnamed(page: str) -> list[str]:
    """Notebooks that a page does not link, and pictures that it does not list."""
    links = {path.name: f"(notebooks/{path.name})" for path in PATHS}
    listed = {name: f"| `{name}` |" for name in lesson.__all__ if name != "holds"}
    return [name for name, there in (links | listed).items() if there not in page]


def test_the_page_names_every_notebook_and_every_picture() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text("utf-8")

    assert unnamed(page) == []
    # The control.
    assert unnamed(page.replace("| `ruled_out` |", "").replace("notebooks/5", "")) == [
        "5-plan-a-study.ipynb",
        "ruled_out",
    ]


def test_a_command_that_fails_ends_the_notebook() -> None:
    with pytest.raises(Exception, match="No such command"):
        shell("askance nonsense")
    with pytest.raises(ValueError, match="calls rm"):
        shell("rm x")
