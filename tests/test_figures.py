"""The harness that compares the documents' long figures with what commands print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from figures import lines_of
    finally:
        sys.path.pop(0)

    assert len(list(lines_of((ROOT / "docs" / "separation.md").read_text("utf-8")))) >= 15
