"""`make pythons`: the tests that finish soon, in each Python that the package says it is for and this machine has.

Looked for are, of each version: what `PYTHONS` names (paths, with blanks between), `python3.x` of the path, those that
pyenv and uv have installed. One that is not to be had is named at the end; nothing is downloaded but what the lock
names, into an environment of its own below `build/pythons`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.harness.tree import ROOT

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""As the classifiers of pyproject.toml say."""
SUBSET: Final = (
    "README.md",
    "tests/protocol",
    "tests/vectors",
    "tests/client",
    "tests/server/core",
    "tests/server/strategies",
    "tests/server/test_rest.py",
    "tests/server/ledger/test_ledger_contract.py",
    "tests/lab/theory",
    "tests/lab/engines",
    "tests/lab/commands/test_cli.py",
    "tests/snapshots",
    "tests/releases",
)
"""What depends on the interpreter most: documents and their bytes, keepers, loop, processes, signatures, typer."""
HANGS: Final = 600
"""Seconds of one test."""
_ASK: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


def places(version: str, environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Where an interpreter of a version may be; not each is there, or is what its name says."""
    yield from map(Path, environment.get("PYTHONS", "").split())
    if found := shutil.which(f"python{version}", path=environment.get("PATH")):
        yield Path(found)
    pyenv = Path(environment.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)
    if uv := shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])):
        command = [uv, "python", "find", "--no-python-downloads", "--no-project", "--system", version]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        yield from map(Path, said.stdout.split("\n")[:-1])


def version_of(interpreter: Path) -> str:
    """What an interpreter is; empty if it does not start."""
    try:
        said = subprocess.run([interpreter, "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return said.stdout.strip()


def found(
    version: str, candidates: Callable[[str], Iterator[Path]] = places, ask: Callable[[Path], str] = version_of
) -> Path | None:
    """The first interpreter of a version that starts."""
    return next((each for each in candidates(version) if ask(each) == version), None)


def prepared(version: str, interpreter: Path) -> Path:
    """The interpreter of an environment with the lock and this tree; made once for each lock."""
    folder = ROOT / "build" / "pythons" / version
    python, stamp = folder / "bin" / "python", folder / "installed"
    lock = hashlib.sha256((ROOT / "constraints.txt").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text("utf-8") != lock:
        quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, *quiet, "--require-hashes", "-r", "constraints.txt"], cwd=ROOT, check=True)
        subprocess.run([python, *quiet, "--no-deps", "--no-build-isolation", "--editable", "."], cwd=ROOT, check=True)
        stamp.write_text(lock, "utf-8")
    return python


def tried(python: Path, tests: Sequence[str]) -> str:
    """How the tests went in an environment: pytest's last line."""
    # One that hangs says where.
    options = ["-q", "-m", "not slow", "-n", "2", "--dist", "loadfile", "-o", f"faulthandler_timeout={HANGS}"]
    command = [python, "-m", "pytest", *options, *tests]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        print(run.stdout, file=sys.stderr)
    return ("passed: " if run.returncode == 0 else "FAILED: ") + run.stdout.strip().rpartition("\n")[2]


def told(results: Mapping[str, str]) -> str:
    """A line for each version."""
    return "\n".join(f"Python {version:5} {results.get(version) or 'is not on this machine'}" for version in PYTHONS)


def main(tests: Sequence[str]) -> int:
    """Try each; 6 if one fails. One that is not to be had fails nothing, and is named."""
    results = dict[str, str]()
    for version in PYTHONS:
        if interpreter := found(version):
            results[version] = tried(prepared(version, interpreter), tests or SUBSET)
    print(told(results))
    return 6 if any(each.startswith("FAILED") for each in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
