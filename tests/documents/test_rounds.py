"""No sentence says "two rounds" of a learner that was measured with more: tests/documents/rounds.py reads them all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from askance_lab import cli
from askance_lab.cli import app
from askance_lab.experiments.second_round import LEARNERS, ConceptTask, learn_in_process
from tests.documents import rounds
from tests.documents.rounds import Measured, faults, listed, of_rows, stale
from tests.harness.tree import ROOT
from website.notebooks import FOLDER, form

PAGES = (
    "README.md",
    "docs/teach.md",
    "docs/rounds.md",
    "docs/separation.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("tutorial*.md"))),
)
NOTEBOOK = "docs/notebooks/4-separation.ipynb"
HELP = "help"


def printed(*call: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(CliRunner().invoke(app, [*call, "--json"], catch_exceptions=False).stdout)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Measured]:
    """The rounds in the JSON rows of `separation --table`, of a `separation` that is run, and of the demo."""
    table = printed("separation", "--table")["rows"]
    own = {"masked-parity-pooled": 6, "masked-parity-two-rounds": 2}
    kept = [row | {"held": row["most_rounds"] != own[row["strategy"]]} for row in table]
    out = tmp_path_factory.mktemp("separation") / "out"
    run = printed("separation", "--d", "4", "--users", "200,3000", "--seeds", "4", "--out", str(out))["points"]
    learned = [learn_in_process(ConceptTask(4, "1", 600), learner, 1, 1) for learner in LEARNERS]
    demo = [{"strategy": each.learner, "rounds": each.rounds} for each in learned]
    return of_rows([*kept, *run, *demo])


def help_of(command: Any, name: str) -> list[str]:
    """Every text of a command and of those below it: a paragraph each."""
    texts = [f"`{name}`: {command.help or ''}", *(f"{getattr(each, 'help', '') or ''}" for each in command.params)]
    below = getattr(command, "commands", {})
    return [*texts, *(text for each, other in below.items() for text in help_of(other, f"{name} {each}"))]


def helps() -> str:
    """The help of every command, a section each."""
    group: Any = cli.get_command(cli.app)
    context = group.make_context("askance", [], resilient_parsing=True)
    texts = list[str]()
    for name in group.list_commands(context):
        below = help_of(group.get_command(context, name), name)
        texts.append("\n\n".join([f"## {name}", cli.CommandModules().summary(name), *below]))
    return "\n\n".join(texts)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """All that is read."""
    read = {name: (ROOT / name).read_text("utf-8") for name in PAGES}
    notebook = form(FOLDER / Path(NOTEBOOK).name)
    words = "\n\n".join(cell.text for cell in notebook.cells if cell.cell_type == "markdown")
    return {**read, NOTEBOOK: words, HELP: helps()}


def test_rounds_are_measured_of_each_learner_that_is_named(measured: Mapping[str, Measured]) -> None:
    assert measured["masked-parity-two-rounds"] == Measured(2, 2)
    assert measured["masked-parity-pooled rounds=2"] == Measured(2, 2)
    assert measured["masked-parity-noninteractive"] == Measured(1, 1)
    assert measured["masked-parity-pooled"].most == 6


def test_every_sentence_about_rounds_is_borne_out_or_listed(
    texts: dict[str, str], measured: Mapping[str, Measured]
) -> None:
    assert [fault for name, text in texts.items() for fault in faults(name, text, measured, listed())] == []
    assert stale(texts, listed()) == []
    # It reads them: there are claims in each kind of text.
    for name in ("README.md", "docs/tutorial-4-rounds.md", "docs/teach.md", NOTEBOOK, HELP):
        found = [each for each in rounds.sentences(texts[name]) if rounds.CLAIM.search(each.text)]
        assert found, name


@pytest.mark.parametrize(
    "planted",
    [
        # Version 1.0 said this of a learner with up to six rounds.
        "With two rounds `masked-parity-pooled` is right nearly always.",
        "A second round makes `masked-parity-pooled` right in 188 of 200.",
        "`masked-parity-two-rounds` takes two rounds, `masked-parity-pooled` two rounds.",
        "`masked-parity-noninteractive` takes two rounds.",
        "`masked-parity-two-rounds` takes up to six rounds.",
        "`masked-parity-pooled` takes one round.",
        "`masked-parity-pooled` takes 6 rounds.",
        # Nobody says of whom, or of how many.
        "In two rounds 3,400 users are enough.",
        "Asking twice is worth more.",
        "Rounds are worth it.",
        "![With two rounds the error falls to zero](pages/separation.png)",
        "| learned in two rounds | yes |",
    ],
)
def test_control_a_false_or_unclassified_sentence_is_found(planted: str, measured: Mapping[str, Measured]) -> None:
    page = f"# A page\n\nSome words.\n\n## A part\n\n{planted}\n"

    assert len(faults("page", page, measured, {})) == 1
    # Once it is listed with a reason, it is not.
    words = next(each.text for each in rounds.sentences(page) if rounds.TRIGGER.search(each.text))
    assert faults("page", page, measured, {"page": {words: "planted"}}) == []


@pytest.mark.parametrize(
    "true",
    [
        "`masked-parity-two-rounds` takes two rounds, `masked-parity-noninteractive` one round.",
        "In a second round, `masked-parity-two-rounds` asks for a.",
        "`masked-parity-pooled` takes up to 6 rounds, and held to two rounds it takes more users.",
        "`masked-parity-two-rounds` asks for r.\nIts second round asks for a.",
        "No learner in one round is right with fewer users.",
    ],
)
def test_control_a_true_sentence_passes(true: str, measured: Mapping[str, Measured]) -> None:
    assert faults("page", f"# A page\n\n## A part\n\n{true}\n", measured, {}) == []


def test_control_what_is_listed_and_stands_nowhere_is_found() -> None:
    assert stale({"page": "Two commands."}, {"page": {"Two commands": "", "Three commands": ""}}) == [
        "page: Three commands"
    ]


def test_control_a_learner_whose_rounds_change_makes_its_sentences_false(texts: dict[str, str]) -> None:
    """The rows of a demo whose two rounds were six."""
    rows = [
        {"strategy": "masked-parity-two-rounds", "rounds": 6},
        {"strategy": "masked-parity-noninteractive", "rounds": 1},
    ]
    found = faults("docs/teach.md", texts["docs/teach.md"], of_rows(rows), listed())

    assert any("“two rounds” was not measured of masked-parity-two-rounds" in each for each in found)
