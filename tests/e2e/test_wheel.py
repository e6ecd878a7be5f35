"""What a package index would hold: the wheel runs every command where nothing but its requirements is installed, and
the source distribution passes its own tests.
"""

from __future__ import annotations

import email
import email.message
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from askance_lab.commands.shared.exit_codes import Exit
from tests.harness.tree import ROOT, project_files

TORTURE = bool(os.environ.get("ASKANCE_TORTURE"))
ROOMS = ("protocol", "client", "server", "lab")
NAMES = """
import json
from askance_lab.cli import CommandModules
modules = CommandModules()
inner = {name: getattr(modules[name], "commands", {"": None}) for name in modules}
print(json.dumps([f"{name} {word}".rstrip() for name in inner for word in inner[name]]))
"""

# Each call as `askance` gets it, and how it ends. {url} is a server with nothing to do, {operator} and {enrolment} the
# files of its tokens. A new command gets a line here: the shortest call that does something.
CALLS: list[tuple[str, int]] = [
    ("ask Tea? --choices yes,no --until 1s --server {url} --operator-token {operator} --out answers", 7),
    ("audit --kind binary --epsilon 1 --samples 2000", 0),
    ("backup --database {data} --out backup", 0),
    ("channel describe --kind binary --epsilon 1", 0),
    ("channel sample --kind kary --epsilon 1 --k 3 --input 1 --n 5", 0),
    ("channel compare --cells 4 --epsilon 1", 0),
    ("client --data me.csv --cap 1 --server {url} --enrolment-token {enrolment} --study " + 64 * "0" + " --yes", 2),
    ("completion bash", 0),
    ("converse --kind kary --k 3 --epsilon 1 --reports 50", 0),
    ("curator list", 0),
    ("curator parity --d 4", 0),
    ("demo --epsilon 0 --json", 2),
    ("doctor", 0),
    ("fleet --users 2 --share 3/2 --server {url} --enrolment-token {enrolment}", 2),
    ("health --server {url}", 0),
    ("health --server http://127.0.0.1:9", 3),
    ("landscape --classes NONE", 2),
    ("load --users 20 --server {url} --operator-token {operator} --enrolment-token {enrolment}", 0),
    ("oracles --users 100", 0),
    ("plan mean", 0),
    ("plan masked-parity-pooled --d 64 --json", 0),
    ("refutation --d 2", 0),
    ("run mean --users 200", 0),
    ("run mean --users 200 --server {url} --operator-token {operator} --enrolment-token {enrolment}", 0),
    ("schema me.csv", 0),
    ("page --json", 0),
    ("restore backup --database restored --accept-loss", 0),
    ("upgrade --check --database restored", 0),
    ("separation --d 3", 2),
    ("serve --host nowhere.invalid", 2),
    ("serve --certificate none.pem --key none.pem", 2),
    ("study list --server {url}", 0),
    ("survey --ask share(country) --users 500", 0),
    ("theory", 0),
    ("theory parity", 0),
    ("users count --server {url} --operator-token {operator}", 0),
    ("users enrol 3 --out users.csv --server {url} --operator-token {operator}", 0),
    ("users invite 3 --out invitation.token --server {url} --operator-token {operator}", 0),
    ("users codes 3 --out codes.txt --server {url} --operator-token {operator}", 0),
    ("users renew 0 --out renewed.csv --server {url} --operator-token {operator}", 0),
    ("study create mean --server {url} --operator-token {operator}", 0),
    ("study show --server {url}", 0),
    ("study result --server {url}", 7),
    ("study watch 0000 --server {url}", 2),
    ("study close 0000 --server {url} --operator-token {operator}", 2),
    ("study cancel 0000 --yes --server {url} --operator-token {operator}", 2),
    ("study export 0000 --out export --server {url}", 2),
    ("study verify export", 2),
    ("wallet show none.wallet", 2),
    ("wallet heads none.wallet", 2),
]

# What only an extra brings, and the line that names it.
MISSING = [
    ("separation --d 4 --users 100 --seeds 1", "matplotlib", "lab"),
    ("landscape --classes POINT --seeds 10", "matplotlib", "lab"),
    ("run mean --data people.parquet", "pyarrow", "lab"),
    ("run mean --users 100 --engine dask", "distributed", "dask"),
    ("serve --database postgresql://127.0.0.1/none", "psycopg", "postgres"),
    ("doctor --database postgresql://127.0.0.1/none", "psycopg", "postgres"),
]

# In one process, as starting one takes most of a second.
PROGRAM = """
import io, json, sys
from askance_lab.cli import main

def ended(arguments):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    sys.argv, sys.stdout, sys.stderr = ["askance", *arguments], *streams
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException as error:
        code = repr(error)
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return {"code": code, **dict(zip(("out", "err"), (each.buffer.getvalue().decode() for each in streams)))}

for arguments in json.loads(sys.stdin.read()):
    print(json.dumps(ended(arguments)), flush=True)
"""


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path

    def metadata(self) -> email.message.Message:
        """The wheel's, as an index reads it."""
        import zipfile

        with zipfile.ZipFile(self.wheel) as archive:
            [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
            return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


def required(wheel: Built) -> set[str]:
    """Names of all distributions that the wheel needs without an extra, and what these need."""
    found = set[str]()
    # Each requirement with the extra for which it was looked up.
    left = [(Requirement(each), "") for each in wheel.metadata().get_all("Requires-Dist") or []]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            needs = [] if name in found else [Requirement(each) for each in importlib.metadata.requires(name) or []]
            left += [(each, wanted) for each in needs for wanted in {"", *requirement.extras}]
            found.add(name)
    return found


class Installed:
    """The wheel in an environment of its own, in which nothing can be found but what it requires."""

    def __init__(self, folder: Path, built: Built) -> None:
        self.folder = folder
        venv.create(folder / "environment", with_pip=False)
        self.python = folder / "environment" / "bin" / "python"
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        site = folder / "environment" / "lib" / version / "site-packages"
        for name in required(built):
            distribution = importlib.metadata.distribution(name)
            tops = {path.parts[0] for path in distribution.files or [] if ".." not in path.parts}
            for top in tops - {"__pycache__"}:
                if not (site / top).exists():
                    (site / top).symlink_to(Path(str(distribution.locate_file(top))))
        quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", *quiet, str(built.wheel)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        (folder / "work").mkdir()
        (folder / "work" / "me.csv").write_text("value\n0.5\n")
        (folder / "work" / "people.parquet").write_bytes(b"PAR1PAR1")
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "PYTHON"))
        }

    def command(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """`askance`, as its script starts it, in an empty folder."""
        command = [str(self.python.with_name("askance")), *map(str, arguments)]
        where = {"cwd": self.folder / "work", "env": self._environment, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **where, **options)

    def python_prints(self, program: str, given: str = "") -> str:
        """What a program prints that runs in this environment."""
        command = [str(self.python), "-c", program]
        where = {"cwd": self.folder / "work", "env": self._environment, "text": True, "timeout": 550}
        return subprocess.run(command, input=given, capture_output=True, check=True, **where).stdout

    def ended(self, calls: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Exit code and output of each call."""
        return [json.loads(line) for line in self.python_prints(PROGRAM, json.dumps(calls)).splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, built: Built) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), built)


@pytest.fixture(scope="module")
def served(installed: Installed) -> Iterator[dict[str, str]]:
    """`askance serve` of the wheel, and what a call needs to reach it."""
    process = installed.command("serve", "--json", "--port", 0, "--database", installed.folder / "data")
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line, process.communicate()
        found = json.loads(line)
        tokens = {"operator": found["operator_token_file"], "enrolment": found["enrolment_token_file"]}
        yield {"url": found["url"], "data": str(installed.folder / "data"), **tokens}
    finally:
        process.terminate()
        process.communicate(timeout=120)


def faults(code: object, text: str) -> list[str]:
    """What no person should see of a call that ended so: a traceback, an error of the program, an odd end."""
    found = [pattern for pattern in ("Traceback", "a fault of this program", "Warning:") if pattern in text]
    return found if code in set(Exit) and code != Exit.INTERNAL else [*found, f"ended with {code}"]


def said(text: str) -> list[str]:
    """The lines of standard error that are no progress."""
    return [line for line in text.splitlines() if line and not line.startswith('{"event"')]


def uncalled(names: Sequence[str]) -> list[str]:
    """Commands, and commands of groups, of which no call is in the table."""
    calls = [call.split() for call, _ in CALLS]
    return [name for name in names if name.split() not in [call[: len(name.split())] for call in calls]]


def test_there_is_nothing_but_what_the_wheel_requires(installed: Installed, built: Built) -> None:
    """The control of all that follows: this environment has not the packages of the tests."""
    looked = ["numpy", "fastapi", "scipy", "matplotlib", "pyarrow", "psycopg", "dask", "pytest", "askance_protocol"]
    program = f"import importlib.util as u; print(*(name for name in {looked} if u.find_spec(name)))"

    assert installed.python_prints(program).split() == ["numpy", "fastapi", "askance_protocol"]
    assert not required(built) & {"scipy", "matplotlib", "pyarrow", "psycopg", "dask", "pytest"}
    assert str(ROOT) not in installed.python_prints("import askance_lab; print(askance_lab.__file__)")


def test_the_wheel_has_the_protocol_in_javascript(installed: Installed) -> None:
    """Each module of the tree, where a server and a page look for it."""
    program = "import json; from askance_protocol import javascript; print(json.dumps(dict(javascript.modules())))"
    tree = {path.name: path.read_text("utf-8") for path in (ROOT / "protocol" / "web").glob("*.mjs")}

    assert json.loads(installed.python_prints(program)) == tree
    assert "index.mjs" in tree


@pytest.mark.slow
def test_every_command_runs(installed: Installed, served: dict[str, str]) -> None:
    """Each command's help, a wrong option, and a call that does something: no traceback, and the right exit code."""
    names = json.loads(installed.python_prints(NAMES))
    assert not uncalled(names), f"write the shortest call of {uncalled(names)} into CALLS"
    helped = [[*name.split(), "--help"] for name in names]
    wrong = [[*name.split(), "--no-such-option"] for name in names]
    calls = [call.format_map(served).split() for call, _ in CALLS]
    expected = [0] * len(helped) + [2] * len(wrong) + [code for _, code in CALLS]

    ended = installed.ended([*helped, *wrong, *calls])
    for call, code, each in zip([*helped, *wrong, *calls], expected, ended, strict=True):
        assert not faults(each["code"], each["err"] + each["out"]), (call, each)
        assert each["code"] == code, (call, each)
        assert code or each["out"], call
        # Of a room that did not answer it is said how it went.
        assert code in {Exit.OK, Exit.TOO_FEW_USERS} or len(said(each["err"])) == 1, (call, each)


@pytest.mark.slow
def test_what_an_extra_brings_is_asked_for_in_one_line_before_anything_is_done(
    installed: Installed, served: dict[str, str]
) -> None:
    ended = installed.ended([call.format_map(served).split() for call, _, _ in MISSING])
    for (call, package, extra), each in zip(MISSING, ended, strict=True):
        # The doctor's findings are what it prints, and one of them has failed.
        assert each["code"] == (Exit.CHECK_FAILED if call.startswith("doctor") else Exit.USAGE), (call, each)
        text = each["err"] + each["out"]
        assert not faults(each["code"], text), (call, each)
        # The doctor has what to do next in a line of its own, behind an arrow.
        named = rf"{package}: is not installed\s+[(→]\s*pip install 'askance\[{extra}\]'"
        assert len(re.findall(named, text)) == 1, (call, each)
        assert len(each["err"].splitlines()) <= 1, (call, each)
    for folder in ("askance-separation", "askance-landscape"):
        assert not (installed.folder / "work" / folder).exists(), "nothing was measured"


def test_control_a_traceback_is_found() -> None:
    assert faults(1, "Traceback (most recent call last):\n") == ["Traceback", "ended with 1"]
    assert faults("ImportError('scipy')", "") == ["ended with ImportError('scipy')"]
    assert not faults(2, "askance: --d: must be a power of two")


def test_control_a_command_that_is_not_called_is_found() -> None:
    assert uncalled(["study list", "study show", "plan"]) == []
    assert uncalled(["study list", "study burn", "dance"]) == ["study burn", "dance"]


@pytest.mark.slow
def test_the_demo_runs_without_the_repository(installed: Installed) -> None:
    """Its server, its clients and its learners are processes of the wheel."""
    process = installed.command("demo", "--users", 600, "--clients", 2, "--port", 0, "--json")
    out, err = process.communicate(timeout=550)

    assert process.returncode == 0, err
    assert not faults(process.returncode, err)
    assert len(json.loads(out)["learners"]) >= 2


# ------------------------------------------------------------------------------------------------ what is distributed


def test_the_source_distribution_is_the_project(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        inside = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert {path.relative_to(ROOT) for path in project_files()} == inside - {Path("PKG-INFO")}


@pytest.mark.slow
def test_the_source_distribution_passes_its_own_tests(built: Built, tmp_path: Path) -> None:
    """A part of them, in moments; with ASKANCE_TORTURE=1 all that are not slow."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.iterdir()
    some = ["tests/test_ground.py", "tests/test_names.py", "tests/vectors", "tests/protocol/test_coins.py", "README.md"]
    chosen = ["tests", "docs", "README.md"] if TORTURE else [*some, "-k", "not layers"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "PYTEST_"))}
    environment["PYTHONPATH"] = os.pathsep.join(str(unpacked / room) for room in ROOMS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not slow", *chosen]
    run = subprocess.run(command, cwd=unpacked, env=environment, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\d\d+ passed", run.stdout)


def test_the_wheel_says_what_it_is(built: Built) -> None:
    metadata = built.metadata()
    assert metadata["Name"] == "askance"
    assert metadata["License-Expression"] == "MIT"
    assert set(metadata.get_all("Provides-Extra") or []) == {
        "dask",
        "dev",
        "docs",
        "lab",
        "notebooks",
        "postgres",
        "server",
    }
    assert str(metadata.get_payload()).startswith("# Askance")


RELATIVE = re.compile(r"\]\((?!https://|#)[^)]*\)")


def test_no_link_of_the_wheel_leads_nowhere(built: Built) -> None:
    """A page of an index has no files beside it. Where the project can be read is not invented."""
    metadata = built.metadata()
    assert RELATIVE.search((ROOT / "README.md").read_text()), "the repository's own links are relative"
    assert not RELATIVE.search(str(metadata.get_payload()))
    assert "the wire format (docs/protocol.md)" in str(metadata.get_payload())
    assert "<img" not in str(metadata.get_payload())
    assert metadata.get_all("Project-URL") is None


def test_a_release_says_where_the_project_is(tmp_path: Path) -> None:
    """One setting gives the metadata its URLs, and makes the links absolute: each leads to a file of the project."""
    base = "https://example.org/askance"
    metadata = released(tmp_path, base + "/").metadata()
    assert f"Homepage, {base}" in (metadata.get_all("Project-URL") or [])
    named = re.findall(rf"{base}/([^)\s#\"]+)", str(metadata))
    assert {"CHANGELOG.md", "docs/protocol.md", "docs/architecture.md", "docs/pages/separation.png"} <= set(named)
    assert all((ROOT / name).exists() for name in named)
    assert not RELATIVE.search(str(metadata.get_payload()))


def test_control_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        released(tmp_path, "example.org/askance")
    assert b"is not an address that begins with https://" in refused.value.stderr + refused.value.stdout


def released(folder: Path, address: str) -> Built:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = {**os.environ, "ASKANCE_PROJECT_URL": address}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=300)
    [wheel] = folder.glob("*.whl")
    return Built(wheel, wheel)
