"""Whether the figures in the documents that take minutes are still what their commands print.

A document names a command of `askance` or of `benchmarks/`, in a line that ends with a colon, and shows lines of its
output in a block of text: each of these lines has to be printed. Prints one JSON object; exits 6 where a line is not.
What is printed in seconds is no matter of this program: the tests run it with the document. Figures that are read from
a kept file are compared by tests/documents, which finds every figure of every document, and what holds it.

    python benchmarks/figures.py [document ...]
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SHOWN: Final = re.compile(
    r"^`(?P<command>(?:askance|python benchmarks/\w+\.py) [^`]+)`[^\n]*:\n\n```text\n(?P<lines>.*?)```",
    re.MULTILINE | re.DOTALL,
)


def main() -> int:
    """Compare each document, or those that are named."""
    documents = [Path(name) for name in sys.argv[1:]] or pages()
    shown = [(command, line) for path in documents for command, line in lines_of(path.read_text("utf-8"))]
    printed = {command: run(command) for command in dict.fromkeys(command for command, _ in shown)}
    missing = [{"command": command, "line": line} for command, line in shown if line not in printed[command]]
    counted = {"documents": len(documents), "commands": len(printed), "lines": len(shown)}
    print(json.dumps({"schema_version": 1, **counted, "missing": missing}))
    return 6 if missing else 0


def pages() -> list[Path]:
    """Every document: the README, how to contribute, and all that is in docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a document, each with a line that the document says it prints."""
    for found in SHOWN.finditer(text):
        for line in found["lines"].splitlines():
            yield found["command"], line


def run(command: str) -> set[str]:
    """The lines that a command prints. It leaves its files in a folder that is thrown away."""
    program, *rest = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        if program == "askance":
            whole = [str(Path(sys.executable).parent / program), *rest, "--out", f"{folder}/out"]
        else:
            whole = [sys.executable, str(ROOT / rest[0]), *rest[1:]]
        # The command's own progress is seen: it takes minutes.
        print(command, file=sys.stderr)
        done = subprocess.run(whole, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - as documents say
    return set(done.stdout.splitlines())


if __name__ == "__main__":
    sys.exit(main())
