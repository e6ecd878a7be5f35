"""What extends the system is one file: dropped into a copy of the rooms, it is found, and nothing else is touched.

Channels and the curator's mechanisms have such tests of their own, with all that they promise
(`tests/protocol/test_new_channel.py`, `tests/lab/curator/test_mechanism.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("protocol", "client", "server", "lab")

STRATEGY = '''
    """The share of users who are in the even cells."""

    from askance_protocol.queries import BooleanQuery
    from askance_protocol.queries.language import Compare, FieldValue, Integer
    from askance_protocol.schema import IntegerField, Schema
    from askance_server.core.strategy import Ask, Hypothesis, Strategy


    def schema(parameters):
        return Schema(fields=(IntegerField(name="cell", low=0, high=1),))


    def run(parameters):
        zero = Compare(left=FieldValue(field="cell"), relation="=", right=Integer(of=0))
        [share] = yield [Ask(BooleanQuery(test=zero), 0.1)]
        return Hypothesis(f"{share:.2f}", {"share": share})


    EVEN = Strategy("even-share", "The share of the even cells", False, 1, schema=schema, run=run)
'''

ORACLE = '''
    """Half of everything: an oracle that has never looked."""

    from askance_lab.oracles.shared.oracle import Spent, SQOracle
    from askance_lab.oracles.shared.setting import OracleKind


    class Half(SQOracle):
        spent = Spent()

        def answer(self, asks):
            return [0.5 for _ in asks]


    ORACLE = OracleKind("half", "one half, whatever is asked", lambda setting: Half(), asks_users=False)
'''

COMMAND = '''
    """`askance hello`: say hello."""

    import typer

    app = typer.Typer()


    @app.command()
    def hello() -> None:
        """Say hello."""
        typer.echo("hello")
'''

ENGINE = '''
    """This process, and nothing else."""

    from askance_lab.engines.local import ENGINE as LOCAL


    def ENGINE(workers):
        return LOCAL(1)
'''


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the four rooms, with one file more for each thing."""
    folder = tmp_path_factory.mktemp("rooms")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in {
        "server/askance_server/strategies/even_share.py": STRATEGY,
        "lab/askance_lab/oracles/half.py": ORACLE,
        "lab/askance_lab/commands/hello.py": COMMAND,
        "lab/askance_lab/engines/alone.py": ENGINE,
    }.items():
        (folder / path).write_text(textwrap.dedent(text).lstrip())
    return folder


def askance(rooms: Path, *arguments: object) -> str:
    """What the command of the copy prints."""
    path = os.pathsep.join(str(rooms / room) for room in ROOMS)
    command = [sys.executable, "-m", "askance_lab", *map(str, arguments)]
    ran = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_strategy_is_one_file(rooms: Path) -> None:
    ran = json.loads(askance(rooms, "run", "even-share", "--users", 20_000, "--epsilon", 4, "--json"))

    assert ran["hypothesis"]["share"] == pytest.approx(0.5, abs=0.1)
    assert ran["success"] is None


def test_an_oracle_is_one_file(rooms: Path) -> None:
    assert "half" in askance(rooms, "run", "--help")
    ran = json.loads(askance(rooms, "run", "even-share", "--oracle", "half", "--json"))

    assert (ran["hypothesis"], ran["oracle"]) == ({"share": 0.5}, "half")


def test_a_command_is_one_file(rooms: Path) -> None:
    assert "say hello." in askance(rooms, "--help")
    assert askance(rooms, "hello") == "hello\n"


def test_an_engine_is_one_file(rooms: Path) -> None:
    ran = json.loads(askance(rooms, "run", "even-share", "--users", 5000, "--engine", "alone", "--json"))

    assert ran["engine"] == "alone"


def test_control_nothing_of_this_is_there_without_the_files() -> None:
    from askance_lab.engines import engine_names
    from askance_lab.oracles.shared.registry import oracle_names
    from askance_server.strategies.registry import registry

    assert "even-share" not in registry()
    assert "half" not in oracle_names()
    assert "alone" not in engine_names()


def test_the_contracts_import_lines_run() -> None:
    """DESIGN's contract: what other tools import."""
    program = """if True:
        from askance_protocol import BinaryResponse, Bulletin, Schema, prepare_round
        from askance_client import User, Wallet
        from askance_server import create_app
        assert callable(create_app) and User and Wallet and BinaryResponse and Bulletin and Schema and prepare_round
    """
    ran = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
