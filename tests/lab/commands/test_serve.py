"""`askance serve`: it announces itself, moves on from a busy port, and ends with the code for how it ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from askance_lab.commands.shared.exit_codes import Exit
from tests.harness.marks import SECONDS

# The service itself is tested elsewhere: here it is a stand-in that does what the line says.
STAND_IN = """
import os, sys, threading, time, types
from contextlib import asynccontextmanager
from fastapi import FastAPI
from askance_lab import cli

def create_app(settings, *, stop=None):
    @asynccontextmanager
    async def lifespan(app):
        {opening}
        yield
        print("closed in good order", file=sys.stderr)
    app = FastAPI(lifespan=lifespan)
    @app.get("/healthz")
    def healthz(): return {{"port": settings.port}}
    return app

sys.modules["askance_server.app"] = types.SimpleNamespace(create_app=create_app)
cli.main()
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        monkeypatch.delenv(name)
    return tmp_path


@contextmanager
def serving(*options: str, opening: str = "pass", **environ: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", STAND_IN.format(opening=opening), "serve", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environ}) as process:
        try:
            yield process
        finally:
            process.kill()


def stopped(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=SECONDS)
    return process.returncode, errors


def test_serve_moves_on_from_a_busy_port_says_so_answers_and_stops_in_good_order(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        url = "postgresql://ask:s3cret@db/x"
        with serving("--port", str(port), "--json", ASKANCE_DATABASE=url, ASKANCE_PROT="1") as process:
            assert process.stdout is not None
            announced = json.loads(process.stdout.readline())
            answer = httpx.get(announced["url"] + "/healthz", trust_env=False)
            code, errors = stopped(process)

    assert announced["schema_version"] == 1
    assert announced["asked_port"] == port == answer.json()["port"]
    assert f"http://127.0.0.1:{port}" < announced["url"]
    assert announced["operator_token_file"] == str(directory / "askance-data" / "operator.token")
    assert announced["database"] == "postgresql://ask:…@db/x"
    assert announced["pid"] == process.pid
    assert (code, "closed in good order" in errors) == (Exit.OK, True)
    assert f"port {port} is taken" in errors
    assert "ASKANCE_PROT is no setting" in errors
    assert "s3cret" not in errors
    assert "server" not in answer.headers


def test_serve_says_in_one_line_where_it_is_and_ctrl_c_ends_it_well(directory: Path) -> None:
    with serving("--port", "0", "--database", "data") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        code, errors = stopped(process, signal.SIGINT)

    assert line.startswith("Askance serves http://127.0.0.1:")
    assert str(directory / "data") in line
    assert str(directory / "data" / "operator.token") in line
    assert (code, "closed in good order" in errors) == (Exit.OK, True)
    assert "Traceback" not in errors


def test_a_stop_while_the_ledger_is_still_being_read_is_a_good_end_and_announces_nothing() -> None:
    opening = "print('opening', file=sys.stderr, flush=True); time.sleep(1)"
    with serving("--port", "0", opening=opening) as process:
        assert process.stderr is not None
        while "opening" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        printed, errors = process.communicate(timeout=SECONDS)

    assert (process.returncode, printed) == (Exit.OK, "")
    assert "closed in good order" in errors


def test_a_start_that_fails_is_an_internal_error_and_announces_nothing() -> None:
    with serving("--port", "0", opening="raise RuntimeError('user.AAAAAAAA.BBBBBBBBBBBB')") as process:
        printed, errors = process.communicate(timeout=SECONDS)

    assert (process.returncode, printed) == (Exit.INTERNAL, "")
    assert "did not start" in errors
    assert "BBBBBBBBBBBB" not in errors


def test_a_server_whose_log_cannot_be_written_ends_with_an_error() -> None:
    with serving("--port", "0", opening="threading.Timer(0.3, stop).start()") as process:
        _, errors = process.communicate(timeout=SECONDS)

    assert process.returncode == Exit.INTERNAL
    assert "closed in good order" in errors
    assert "had to stop" in errors


def test_a_bad_setting_is_a_usage_error_that_names_its_source() -> None:
    with serving(ASKANCE_PORT="x") as process:
        printed, errors = process.communicate(timeout=SECONDS)

    assert (process.returncode, printed) == (Exit.USAGE, "")
    assert errors.startswith("askance: ASKANCE_PORT: ")
