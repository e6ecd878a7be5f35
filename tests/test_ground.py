"""Rules that hold for every room: what may import what, what a small install loads, what is never committed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.harness.tree import ROOT, project_files

ROOMS = ["protocol", "client", "server", "lab"]


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy of the rooms."""
    path = ":".join(str(tree / room) for room in ROOMS)
    # PYTHONPATH comes before what is installed: the copy is looked at.
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--config", str(tree / "pyproject.toml")],
        cwd=tree,
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_layers_hold(tree: Path) -> None:
    run = lint_imports(tree)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("module", "planted"),
    [
        ("protocol/askance_protocol/planted.py", "import askance_client"),
        ("protocol/askance_protocol/planted.py", "import fastapi"),
        ("protocol/askance_protocol/planted.py", "import httpx"),
        ("protocol/askance_protocol/planted.py", "import sqlite3"),
        ("protocol/askance_protocol/planted.py", "import asyncio"),
        ("protocol/askance_protocol/rounds/planted.py", "from socket import socket"),
        ("client/askance_client/planted.py", "import askance_server"),
        ("server/askance_server/planted.py", "import askance_client"),
        ("server/askance_server/ledger/planted.py", "import askance_server.api.models"),
        ("server/askance_server/auth/planted.py", "import askance_server.aggregator"),
        ("server/askance_server/api/planted.py", "import askance_server.dashboard.words"),
        ("client/askance_client/planted.py", "import askance_lab"),
        ("client/askance_client/wallet/planted.py", "from askance_client.simulation import fleet"),
        ("client/askance_client/transport/planted.py", "import askance_client.tables"),
        ("protocol/askance_protocol/planted.py", "import matplotlib"),
        ("lab/askance_lab/curator/planted.py", "import scipy.stats"),
        ("server/askance_server/core/planted.py", "import time"),
        ("server/askance_server/core/planted.py", "import askance_server.ledger.base"),
        ("server/askance_server/strategies/planted.py", "import askance_server.core.planning"),
        ("lab/askance_lab/theory/planted.py", "import askance_lab.data.problems"),
        ("lab/askance_lab/data/planted.py", "import askance_lab.evaluation.error"),
        ("lab/askance_lab/evaluation/planted.py", "import askance_lab.oracles.exact"),
        ("lab/askance_lab/curator/planted.py", "import askance_lab.experiments.trials"),
        ("lab/askance_lab/experiments/planted.py", "import askance_lab.commands.run"),
    ],
)
def test_control_a_planted_violation_of_the_layers_fails(tree: Path, module: str, planted: str) -> None:
    (tree / module).write_text(f'"""Planted."""\n\n{planted}\n')
    run = lint_imports(tree)
    assert run.returncode == 1
    assert "BROKEN" in run.stdout


def asked_for(group: str) -> set[str]:
    """Names of what the project asks for: `base`, a dependency group, or an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = {
        "base": project["project"]["dependencies"],
        **project["dependency-groups"],
        **project["project"]["optional-dependencies"],
    }
    return {re.split(r"[^a-z0-9-]", requirement, maxsplit=1)[0] for requirement in lists[group]}


def loaded(modules: str) -> set[str]:
    """The packages that these modules load."""
    program = f"import sys, {modules}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(run.stdout.split())


MORE = {
    "dask",
    "fastapi",
    "httptools",
    "jinja2",
    "matplotlib",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "scipy",
    "segno",
}
MORE |= {"starlette", "uvicorn", "uvloop"}


def test_a_device_needs_a_part_of_the_base_and_loads_no_server() -> None:
    """A phone-sized client imports its room and the protocol, and neither a web framework nor what is for tables."""
    assert asked_for("device") < asked_for("base")
    assert {name.replace("-", "_") for name in asked_for("base") - asked_for("device")} <= MORE
    device = "askance_client.user, askance_client.bulletin_reader, askance_client.wallet, askance_protocol.rounds"
    assert not loaded(device) & MORE
    assert loaded("askance_server.app") & MORE, "the control is found"


def test_the_base_runs_every_command_without_an_extra() -> None:
    """No module of a command loads what only an extra brings; each is tried in tests/e2e/test_wheel.py."""
    names = [path.stem for path in (ROOT / "lab/askance_lab/commands").glob("*.py") if path.stem != "__init__"]
    extras = {"dask", "matplotlib", "psycopg", "pyarrow", "scipy"}
    assert not loaded(", ".join(f"askance_lab.commands.{name}" for name in names)) & extras
    assert loaded("askance_server.ledger.postgres.ledger") & extras, "the control is found"


# Written in two halves, so that this file does not name what it looks for.
HOSTS = re.compile(
    "|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.org", "deb" + r"\.debian\.org"])
)


def hosts_in(text: str) -> bool:
    return HOSTS.search(text) is not None


def test_no_committed_file_names_a_package_index() -> None:
    named = [path.name for path in project_files() if path.is_file() and hosts_in(path.read_text(errors="replace"))]
    assert named == []
    assert hosts_in("https://" + "py" + "pi.org/simple"), "the control is found"


def test_every_locked_requirement_is_pinned_and_hashed() -> None:
    text = (ROOT / "constraints.txt").read_text()
    requirements = re.split(r"\n(?=[a-z0-9])", text)
    for requirement in requirements:
        assert re.match(r"[a-z0-9._-]+(\[[a-z0-9,-]+\])?==[^ ]+ ", requirement), requirement[:60]
        assert "--hash=sha256:" in requirement, requirement[:60]
    assert len(requirements) > 20
