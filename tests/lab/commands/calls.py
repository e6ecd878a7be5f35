"""Ways for tests to call the command: as a process of its own, or in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from askance_lab.cli import app, main
from askance_protocol.errors import AskanceError
from tests.harness import warm
from tests.harness.servers import ServerProcess

COMMAND: Final = (sys.executable, "-W", "error", "-m", "askance_lab")


def askance(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it."""
    return warm.run([*map(str, arguments)])


def at_home(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The command as a person runs it, with its errors told, in this process: exit code, output and errors."""
    capsys.readouterr()
    before, sys.argv = sys.argv, ["askance", *map(str, arguments)]
    try:
        main()
        code: object = 0
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    said = capsys.readouterr()
    assert isinstance(code, int)
    return code, said.out, said.err


def json_of(*arguments: object) -> Any:
    """What `--json` prints; the command has to succeed."""
    run = askance(*arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def invoke(*arguments: object, code: int = 0) -> str:
    """Standard output of the command in this process; its refusals are raised."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(result.exception, AskanceError):
        raise result.exception
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def token_options(server: ServerProcess) -> list[object]:
    """The options that name the tokens of a server."""
    folder = server.directory
    return ["--operator-token", folder / "operator.token", "--enrolment-token", folder / "enrolment.token"]
