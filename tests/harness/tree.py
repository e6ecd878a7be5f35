"""The files of this project: as git lists them, or all there are where a source distribution was unpacked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_MADE: Final = {".hypothesis", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__", "build", "dist"}
"""What tools make in a tree; .gitignore names the same."""


def committed() -> list[Path]:
    """Every file that belongs to the project."""
    if not (ROOT / ".git").exists():  # a folder, or the file of a second work tree
        files = (path for path in ROOT.rglob("*") if not _MADE & set(path.relative_to(ROOT).parts))
        return sorted(path for path in files if path.is_file() and path.name != "PKG-INFO")
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name]
