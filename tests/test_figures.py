"""The harness that compares the documents' long figures with what commands print."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks import figures

ROOT = Path(__file__).parents[1]
COMMAND = "separation --d 4 --users 300 --seeds 2"


def document(path: Path, *lines: str) -> Path:
    path.write_text(
        f"`askance {COMMAND}`, in a moment:\n\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"
    )
    return path


def test_a_printed_line_passes_and_a_planted_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "   d       users  learner            right  95 %           mean error"
    planted = "   4         300  in rounds          2/1  [0.00, 1.00]       0.000"
    # What the command prints is the same both times, and takes seconds.
    monkeypatch.setattr(figures, "run", cache(figures.run))

    def compared(name: str, *lines: str) -> tuple[int, dict[str, object]]:
        monkeypatch.setattr(sys, "argv", ["figures.py", str(document(tmp_path / name, *lines))])
        return figures.main(), json.loads(capsys.readouterr().out)

    assert compared("right.md", head) == (0, {"schema_version": 1, "commands": 1, "lines": 1, "missing": []})
    code, told = compared("wrong.md", head, planted)
    assert (code, told["missing"]) == (6, [{"command": COMMAND, "line": planted}])


def test_the_documents_have_such_figures() -> None:
    assert len(list(figures.lines_of((ROOT / "docs" / "separation.md").read_text("utf-8")))) >= 15


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of all tables below a heading of docs/masked-parity.md."""
    section = text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [line for line in lines if line[0] not in ("learner", "form")]


def test_the_users_that_masked_parity_takes_are_what_the_benchmark_printed() -> None:
    printed = json.loads((ROOT / "docs" / "masked-parity" / "measured.json").read_text("utf-8"))
    told = rows((ROOT / "docs" / "masked-parity.md").read_text("utf-8"), "What was measured")
    measured = [each for name in ("goals", "compared", "searched") for each in printed[name]]

    assert sorted(told) == sorted(
        [
            each["strategy"].removeprefix("masked-parity-").replace("-", " "),
            str(each["d"]),
            f"{each['users']:,}",
            f"{each['rate']:.3f}",
            "{:.3f}–{:.3f}".format(*each["interval"]),
            f"{each['mean_asked']:,}",
            f"{each['mean_rounds']:.1f}",
        ]
        for each in measured
    )
    assert printed["missed"] == []


def test_what_the_forms_of_it_gave_is_what_the_benchmark_printed() -> None:
    printed = json.loads((ROOT / "docs" / "masked-parity" / "tried.json").read_text("utf-8"))["tried"]
    told = rows((ROOT / "docs" / "masked-parity.md").read_text("utf-8"), "What was tried, and what each gave")

    assert told == [
        [
            each["variant"],
            f"{each['users']:,}",
            f"{each['rate']:.3f}",
            "{:.3f}–{:.3f}".format(*each["interval"]),
            f"{each['mean_rounds']:.1f}",
        ]
        for each in printed
    ]
