"""A strategy of somebody else's package, which gives six things and no more, works everywhere.

The package of examples/ is built and installed into an environment of its own, beside the askance that is tested. What
runs there is the command, as a person would type it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.oracles.shared.registry import oracle_names

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "askance-stump"
USERS = 20_000
pytestmark = pytest.mark.slow


class Environment:
    """A virtual environment with the packages of this one, and one more."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.python = folder / "bin" / "python"
        venv.create(folder, with_pip=False)
        site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        here = sysconfig.get_path("purelib")
        (site / "of_the_tests.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        self._install(folder, package)

    def _install(self, folder: Path, package: Path) -> None:
        copy = folder / "package"
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        quiet = ["--quiet", "--disable-pip-version-check"]
        alone = ["--no-deps", "--no-index", "--no-build-isolation"]
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", *quiet, *alone, str(copy)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """The command in this environment."""
        command = [str(self.python), "-m", "askance_lab", *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)

    def outcomes(self, calls: Sequence[Sequence[object]]) -> list[dict[str, Any]]:
        """Exit code and output of several commands, in one process: starting one takes a second."""
        program = """if True:
            import json, sys
            from typer.testing import CliRunner
            from askance_lab.cli import app
            from askance_lab.commands.shared.exit_codes import report
            for arguments in json.loads(sys.stdin.read()):
                ended = CliRunner().invoke(app, arguments)
                code, printed = ended.exit_code, ended.output
                if ended.exception is not None and not isinstance(ended.exception, SystemExit):
                    code = int(report(ended.exception))
                    printed += str(ended.exception)
                print(json.dumps({"code": code, "printed": printed}))
        """
        texts = json.dumps([[str(each) for each in arguments] for arguments in calls])
        command = [str(self.python), "-c", program]
        ran = subprocess.run(command, input=texts, capture_output=True, text=True, timeout=600, check=True)
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def json(self, *arguments: object) -> Any:
        """What `--json` prints; the command has to succeed."""
        ran = self.run(*arguments, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def stump(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("stump") / "environment", EXAMPLE)


def test_control_without_the_package_there_is_no_such_strategy() -> None:
    command = [sys.executable, "-m", "askance_lab", "run", "stump", "--d", "4", "--users", "100"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert ran.returncode == 2
    assert "there is no 'stump' here" in ran.stderr


def test_it_runs_on_every_oracle_over_its_schema(stump: Environment) -> None:
    """Its users are drawn over its schema, so nothing is true of them; error and success are unknown, not false."""
    command = ("run", "stump", "--d", 4, "--users", USERS, "--json", "--oracle")
    for oracle, ended in zip(
        oracle_names(), stump.outcomes([(*command, each) for each in oracle_names()]), strict=True
    ):
        assert ended["code"] == 0, (oracle, ended)
        ran = json.loads(ended["printed"])
        assert ran["state"] == "finished"
        assert ran["hypothesis"]["bit"] in range(4)
        assert (ran["error"], ran["success"], ran["target"]) == (None, None, {})


def test_it_learns_from_users_of_a_kind_that_is_asked_for(stump: Environment) -> None:
    """Of a conjunction of one bit, that bit is the best; what the strategy lacks to say so is null."""
    for bits, target in (("0010", 2), ("1000", 0)):
        options = ("--population", "conjunction", "--set", f"variables={bits}", "--oracle")
        calls = [("run", "stump", "--d", 4, "--users", USERS, "--json", *options, each) for each in ("exact", "local")]
        for ended in stump.outcomes(calls):
            assert ended["code"] == 0, ended
            ran = json.loads(ended["printed"])
            assert ran["hypothesis"] == {"bit": target}
            assert ran["target"] == {"variables": [target]}
            assert (ran["error"], ran["success"]) == (None, None)


def test_it_is_planned(stump: Environment) -> None:
    planned = stump.json("plan", "stump", "--d", 8, "--epsilon", 2)

    assert planned["rounds"][0]["queries"] == 8
    assert 0 < planned["users"]["planned"] < planned["users"]["repaired"]


def test_it_is_a_row_of_the_table_of_oracles(stump: Environment) -> None:
    rows = stump.json("oracles", "--users", 5000)["rows"]

    assert rows["stump"]["exact"] == {"error": None, "learned": None, "reason": ""}
    assert rows["stump"]["local"]["reason"] == ""


def test_it_learns_from_a_table(stump: Environment, tmp_path: Path) -> None:
    """Its schema says what it looks like: columns become bits, in whose names it speaks."""
    source = np.random.default_rng(1)
    coffee, tea, ill = (source.integers(0, 2, 3000) for _ in range(3))
    lines = [f"{c},{t},{'yes' if i else 'no'},{i}" for c, t, i in zip(coffee, tea, ill, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["coffee,tea,fever,ill", *lines]) + "\n")
    ran = stump.json("run", "stump", "--data", tmp_path / "people.csv", "--label", "ill", "--oracle", "samples")

    assert ran["text"] == "y = +1 where fever = yes = 1"


def test_real_clients_take_part_in_its_study(stump: Environment, tmp_path: Path) -> None:
    """A server that knows it, a fleet of users with wallets, and a study that is opened over REST."""
    with serving(stump, tmp_path) as found:
        token = Path(found["operator_token_file"]).read_text().strip()
        fleet_options = ("--server", found["url"], "--enrolment-token", found["enrolment_token_file"])
        command = [str(stump.python), "-m", "askance_lab", "fleet", "--users", "60", *fleet_options, "--json"]
        fleet = subprocess.Popen([*command, "--wallets", str(tmp_path / "wallets")], stdout=subprocess.PIPE, text=True)
        opened = open_study(found["url"], token, users=60)
        out, _ = fleet.communicate(timeout=300)

    [study] = json.loads(out)["studies"]
    assert study["study"] == opened
    assert study["strategy"] == "stump"
    assert study["results"] == {"answered": 60}


class serving:
    """`askance serve` of an environment, as long as the block lasts."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        options = ["serve", "--json", "--port", "0", "--database", str(folder / "data")]
        command = [str(environment.python), "-m", "askance_lab", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


def open_study(url: str, token: str, users: int) -> str:
    """Once so many users are enrolled, open a study of the strategy."""
    import time

    import httpx

    with httpx.Client(base_url=url, headers={"Askance-Protocol": "1"}, trust_env=False, timeout=30) as client:
        for _ in range(1000):
            if f"askance_users {float(users)}" in client.get("/metrics").text:
                break
            time.sleep(0.1)
        asked = {
            "title": "Which bit?",
            "strategy": "stump",
            "parameters": {"d": 2, "users": "all", "epsilon": "1"},
            "simulated": True,
        }
        answer = client.post("/v1/studies", json=asked, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


# ----------------------------------------------------------------------------------------------- a strategy that fails

BROKEN = """
    from askance_protocol.schema import BitsField, LabelField, Schema
    from askance_server.strategies import Ask, Hypothesis, Strategy


    def schema(parameters):
        if parameters.get("fails") == "schema":
            raise ZeroDivisionError("in its schema")
        return Schema(fields=(BitsField(name="x", width=2), LabelField(name="y")))


    def run(parameters):
        if parameters.get("fails") == "run":
            raise KeyError("in its run")
        yield 3 if parameters.get("fails") == "asks" else [] if parameters.get("fails") == "nothing" else [None]


    def predict(value, columns):
        raise ValueError("in its prediction")


    BROKEN = Strategy("broken", "It breaks", False, 1, schema=schema, run=run)
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(EXAMPLE, folder / "package", ignore=shutil.ignore_patterns("__pycache__", "askance_stump.py"))
    (folder / "package" / "askance_broken.py").write_text(textwrap.dedent(BROKEN))
    project = (folder / "package" / "pyproject.toml").read_text()
    project = project.replace("askance-stump", "askance-broken").replace("askance_stump", "askance_broken")
    (folder / "package" / "pyproject.toml").write_text(project.replace("stump", "broken").replace("STUMP", "BROKEN"))
    return Environment(folder / "environment", folder / "package")


FAULTS = [
    ("schema", "broken.schema: the strategy raised ZeroDivisionError: in its schema"),
    ("run", "broken: failed: the strategy raised KeyError: 'in its run'"),
    ("asks", "broken: failed: round 1 is not a list of one or more asks"),
    ("nothing", "broken: failed: round 1 is not a list of one or more asks"),
    ("none", "broken: failed: ask 0 of round 1 is a NoneType, not an Ask"),
]


def test_what_its_code_does_wrong_is_one_line_that_names_it(broken: Environment) -> None:
    for oracle in ("exact", "local"):
        command = ("run", "broken", "--users", 100, "--oracle", oracle)
        ended = broken.outcomes([(*command, "--set", f"fails={fails}") for fails, _ in FAULTS])
        for (_, said), each in zip(FAULTS, ended, strict=True):
            assert each["code"] == Exit.CHECK_FAILED, each
            assert said in each["printed"]
            assert len(each["printed"].strip().splitlines()) == 1


def test_nobody_sees_a_traceback(broken: Environment) -> None:
    ran = broken.run("run", "broken", "--users", 100, "--set", "fails=schema")

    assert ran.returncode == Exit.CHECK_FAILED
    assert ran.stderr.startswith("askance: broken.schema: the strategy raised ZeroDivisionError")
    assert len((ran.stdout + ran.stderr).strip().splitlines()) == 1
