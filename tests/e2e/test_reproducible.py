"""Whoever builds this tree gets the same bytes: wheel and source distribution, wherever, whenever and by whom."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.tree import ROOT, project_files

HERE = {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
ELSEWHERE = {"PYTHONHASHSEED": "2", "TZ": "Pacific/Auckland", "LC_ALL": "C"}
LATER = 1_000_000
"""Seconds between the dates of the files in the one tree and in the other."""


def copied(folder: Path, *, backwards: bool, umask: int) -> Path:
    """A tree with the committed files, made in this order, under this umask, and with dates that tell which."""
    before = os.umask(umask)
    try:
        for path in sorted(project_files(), reverse=backwards):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            target.chmod((0o777 if os.access(path, os.X_OK) else 0o666) & ~umask)
            os.utime(target, (LATER * backwards, LATER * backwards))
    finally:
        os.umask(before)
    return folder


def built(tree: Path, out: Path, environment: Mapping[str, str], umask: int = 0o022, *only: str) -> dict[str, str]:
    """The digest of each distribution, or of `only` some, by its name."""
    cleared = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "SOURCE_DATE"))}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *only]
    more = {"env": {**cleared, **environment}, "cwd": tree, "umask": umask}
    subprocess.run(command, check=True, capture_output=True, timeout=300, **more)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A tree as most have it, and what is built from it."""
    folder = tmp_path_factory.mktemp("first")
    tree = copied(folder / "tree", backwards=False, umask=0o022)
    return tree, built(tree, folder / "dist", HERE)


def test_the_bytes_depend_on_the_tree_alone(first: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """Not on folder, day, hash seed, time zone, language, umask, or the order in which a disk lists its files."""
    tree = copied(tmp_path / "another place" / "of another length", backwards=True, umask=0o077)

    assert built(tree, tmp_path / "dist", ELSEWHERE, umask=0o077) == first[1]
    assert {name.rpartition(".")[2] for name in first[1]} == {"whl", "gz"}


@pytest.mark.parametrize("planted", ["a byte", "a day"])
def test_control_what_is_another_tree_is_another_wheel(
    planted: str, first: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    tree, digests = first
    environment = dict(HERE)
    module = tree / "protocol" / "askance_protocol" / "errors.py"
    sound = module.read_text("utf-8")
    if planted == "a byte":
        module.write_text(sound + "\n", "utf-8")
    else:
        environment["SOURCE_DATE_EPOCH"] = "1500000000"
    try:
        [(name, digest)] = built(tree, tmp_path / "dist", environment, 0o022, "-t", "wheel").items()
    finally:
        module.write_text(sound, "utf-8")

    assert digest != digests[name]
