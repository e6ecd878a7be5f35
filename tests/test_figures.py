"""The harness that compares the documents' long figures with what commands print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import lines_of

ROOT = Path(__file__).parents[1]
COMMAND = "separation --d 4 --users 300 --seeds 2"


def figures(document: Path) -> tuple[int, dict[str, object]]:
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "figures.py"), str(document)],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, json.loads(run.stdout)


def document(path: Path, *lines: str) -> Path:
    path.write_text(
        f"`askance {COMMAND}`, in a moment:\n\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"
    )
    return path


def test_a_printed_line_passes_and_a_planted_one_is_found(tmp_path: Path) -> None:
    head = "   d       users  learner            right  95 %           mean error"
    planted = "   4         300  in rounds          2/1  [0.00, 1.00]       0.000"

    assert figures(document(tmp_path / "right.md", head)) == (
        0,
        {"schema_version": 1, "commands": 1, "lines": 1, "missing": []},
    )
    code, said = figures(document(tmp_path / "wrong.md", head, planted))
    assert (code, said["missing"]) == (6, [{"command": COMMAND, "line": planted}])


def test_the_documents_have_such_figures() -> None:
    assert len(list(lines_of((ROOT / "docs" / "separation.md").read_text("utf-8")))) >= 15


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
