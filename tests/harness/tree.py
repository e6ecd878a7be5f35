"""The files of this project: what git has and what is new, or all where a source distribution was unpacked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_MADE: Final = {".hypothesis", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__", "build", "dist"}
"""What tools make in a tree; .gitignore names the same."""


def project_files() -> list[Path]:
    """Every file that belongs to the project, also before it is committed; not what git ignores."""
    if not (ROOT / ".git").exists():  # a folder, or the file of a second work tree
        files = (path for path in ROOT.rglob("*") if not _MADE & set(path.relative_to(ROOT).parts))
        return sorted(path for path in files if path.is_file() and path.name != "PKG-INFO")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for path in {ROOT / name for name in listed.split("\0") if name} if path.is_file())
