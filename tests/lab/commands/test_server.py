"""`askance serve`, `health` and `doctor`, each to its exit code."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import askance_server.ledger
from askance_lab.cli import Exit
from askance_lab.commands import server as server_command
from askance_protocol.errors import ProtocolError
from askance_server import auth
from askance_server.ledger.base import Fault, LedgerBusyError, LedgerError

# The service itself is tested elsewhere: here it is a stand-in that does what the line says.
STAND_IN = """
import os, sys, threading, time, types
from contextlib import asynccontextmanager
from fastapi import FastAPI
from askance_lab import cli
from askance_lab.commands import server as server_command

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
cli.app.add_typer(server_command.app)
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
    _, said = process.communicate(timeout=20)
    return process.returncode, said


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(server_command.app, arguments)
    if isinstance(result.exception, ProtocolError):
        raise result.exception
    return result.exit_code, result.output


# ------------------------------------------------------------------------------------------------------ serve


def test_serve_moves_on_from_a_busy_port_says_so_answers_and_stops_in_good_order(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        url = "postgresql://ask:s3cret@db/x"
        with serving("--port", str(port), "--json", ASKANCE_DATABASE=url, ASKANCE_PROT="1") as process:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            answer = httpx.get(said["url"] + "/healthz", trust_env=False)
            code, errors = stopped(process)

    assert said["schema_version"] == 1
    assert said["asked_port"] == port == answer.json()["port"]
    assert f"http://127.0.0.1:{port}" < said["url"]
    assert said["operator_token_file"] == str(directory / "askance-data" / "operator.token")
    assert said["database"] == "postgresql://ask:…@db/x"
    assert said["pid"] == process.pid
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
        printed, errors = process.communicate(timeout=20)

    assert (process.returncode, printed) == (Exit.OK, "")
    assert "closed in good order" in errors


def test_a_start_that_fails_is_an_internal_error_and_announces_nothing() -> None:
    with serving("--port", "0", opening="raise RuntimeError('user.AAAAAAAA.BBBBBBBBBBBB')") as process:
        printed, errors = process.communicate(timeout=20)

    assert (process.returncode, printed) == (Exit.INTERNAL, "")
    assert "did not start" in errors
    assert "BBBBBBBBBBBB" not in errors


def test_a_server_whose_log_cannot_be_written_ends_with_an_error() -> None:
    with serving("--port", "0", opening="threading.Timer(0.3, stop).start()") as process:
        _, errors = process.communicate(timeout=20)

    assert process.returncode == Exit.INTERNAL
    assert "closed in good order" in errors
    assert "had to stop" in errors


def test_a_bad_setting_is_a_usage_error_that_names_its_source() -> None:
    with serving(ASKANCE_PORT="x") as process:
        printed, errors = process.communicate(timeout=20)

    assert (process.returncode, printed) == (Exit.USAGE, "")
    assert errors.startswith("askance: ASKANCE_PORT: ")


# ----------------------------------------------------------------------------------------------------- health


class Answer(BaseHTTPRequestHandler):
    """Answers every path with what the test put here."""

    statuses: dict[str, int]
    version: str | None
    pause: float

    def do_GET(self) -> None:
        time.sleep(self.pause)
        self.send_response(self.statuses.get(self.path, 200))
        if self.version is not None:
            self.send_header("Askance-Protocol", self.version)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def answering(statuses: dict[str, int] | None = None, version: str | None = "1", pause: float = 0) -> Iterator[str]:
    kind = type("Now", (Answer,), {"statuses": statuses or {}, "version": version, "pause": pause})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("server", "code", "state"),
    [
        ({}, Exit.OK, "ok"),
        ({"statuses": {"/readyz": 503}}, Exit.CHECK_FAILED, "not-ready"),
        ({"statuses": {"/healthz": 500}}, Exit.UNREACHABLE, "unreachable"),
        ({"version": "2"}, Exit.VERSION_MISMATCH, "version-mismatch"),
        ({"version": "2", "statuses": {"/healthz": 409, "/readyz": 409}}, Exit.VERSION_MISMATCH, "version-mismatch"),
        ({"version": None}, Exit.UNREACHABLE, "unreachable"),
    ],
)
def test_health_tells_each_state_by_its_exit_code(server: dict[str, Any], code: Exit, state: str) -> None:
    with answering(**server) as url:
        result = invoke("health", "--server", url, "--json")
        assert invoke("health", "--server", url)[0] == code

    assert result[0] == code
    answer = json.loads(result[1])
    assert (answer["schema_version"], answer["state"], answer["server"]) == (1, state, url)


def test_health_of_a_server_that_is_not_there_or_too_slow_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    code, said = invoke("health", "--server", f"http://name:s3cret@127.0.0.1:{port}")
    assert code == Exit.UNREACHABLE
    assert "askance serve" in said
    assert "s3cret" not in said
    with answering(pause=0.3) as url:
        code, said = invoke("health", "--server", url, "--timeout", "0.1")
    assert (code, "in time" in said) == (Exit.UNREACHABLE, True)


def test_health_takes_its_server_from_the_environment_and_ignores_proxies_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:1")
    with answering() as url:
        monkeypatch.setenv("ASKANCE_SERVER", url)
        assert invoke("health")[0] == Exit.OK


@pytest.mark.parametrize("server", ["localhost:8080", "ftp://a", "http://", "http://[::1", ""])
def test_what_is_no_url_is_a_usage_error(server: str) -> None:
    with pytest.raises(ProtocolError, match="--server: is not an http"):
        invoke("health", "--server", server)


# ----------------------------------------------------------------------------------------------------- doctor


class FakeLedger:
    faults: tuple[Fault, ...] = ()
    closed = 0

    def verify(self) -> list[Fault]:
        return [*self.faults]

    def enrolled(self) -> int:
        return 12

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def started(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory as a first start leaves it, with a stand-in for its ledger."""
    data = directory / "data"
    auth.write_tokens(data, auth.open_keys(data))
    monkeypatch.setattr(askance_server.ledger, "open_ledger", lambda database: FakeLedger(), raising=False)
    return data


def doctor(data: Path | str) -> tuple[int, dict[str, dict[str, str]]]:
    code, said = invoke("doctor", "--database", str(data), "--json")
    report = json.loads(said)
    assert report["schema_version"] == 1
    assert report["ok"] == (code == Exit.OK)
    return code, {check["name"]: check for check in report["checks"]}


def test_doctor_finds_a_started_server_well_and_closes_its_ledger(started: Path) -> None:
    before = FakeLedger.closed

    code, checks = doctor(started)

    assert (code, {check["outcome"] for check in checks.values()}) == (Exit.OK, {"ok"})
    assert set(checks) == {
        *("python", "settings", "directory", "key", "operator token", "enrolment token", "ledger", "disk", "clock")
    }
    assert "12 users" in checks["ledger"]["detail"]
    assert FakeLedger.closed == before + 1


def test_doctor_makes_nothing_where_nothing_was_started(directory: Path) -> None:
    code, _ = doctor(directory / "new")
    assert code == Exit.OK
    assert not (directory / "new").exists()


def test_doctor_prints_a_table_with_the_next_step_below_what_is_not_well(started: Path) -> None:
    (started / "server.key").chmod(0o644)

    code, said = invoke("doctor", "--database", str(started))

    assert code == Exit.CHECK_FAILED
    failed, step = next((a, b) for a, b in zip(said.splitlines(), said.splitlines()[1:], strict=False) if "failed" in a)
    assert "0644" in failed
    assert f"→ chmod 600 {started / 'server.key'}" in step


@pytest.mark.parametrize("name", ["operator.token", "enrolment.token", "server.key"])
def test_doctor_fails_on_a_secret_that_others_can_read(started: Path, name: str) -> None:
    (started / name).chmod(0o640)
    code, checks = doctor(started)
    assert code == Exit.CHECK_FAILED
    assert [check["next"] for check in checks.values() if check["outcome"] == "failed"] == [
        f"chmod 600 {started / name}"
    ]


@pytest.mark.parametrize(("mode", "outcome"), [(0o700, "ok"), (0o755, "warning"), (0o777, "failed")])
def test_doctor_looks_at_who_may_enter_the_directory(started: Path, mode: int, outcome: str) -> None:
    started.chmod(mode)
    assert doctor(started)[1]["directory"]["outcome"] == outcome


def test_doctor_reports_the_faults_of_a_ledger(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLedger, "faults", (Fault("user 7", "spent more than her reports cost"),))
    code, checks = doctor(started)
    assert code == Exit.CHECK_FAILED
    assert "1 faults, the first at user 7: spent more" in checks["ledger"]["detail"]


@pytest.mark.parametrize(
    ("error", "said"),
    [(LedgerError("group 2 is damaged"), "group 2 is damaged"), (KeyError("x"), "cannot be read: KeyError")],
)
def test_doctor_survives_a_ledger_that_does_not_open(
    started: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def broken(database: str) -> FakeLedger:
        raise error

    monkeypatch.setattr(askance_server.ledger, "open_ledger", broken, raising=False)
    code, checks = doctor(started)
    assert (code, checks["ledger"]["outcome"]) == (Exit.CHECK_FAILED, "failed")
    assert said in checks["ledger"]["detail"]


def test_doctor_warns_where_a_server_has_the_ledger_open(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(database: str) -> FakeLedger:
        raise LedgerBusyError("data is in use by process 5")

    monkeypatch.setattr(askance_server.ledger, "open_ledger", busy)
    code, checks = doctor(started)
    assert (code, checks["ledger"]["outcome"]) == (Exit.OK, "warning")
    assert "in use by process 5" in checks["ledger"]["detail"]


def test_doctor_sees_a_full_disk_and_a_clock_that_went_back(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(started / "server.key", (time.time() + 10**6,) * 2)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    _, checks = doctor(started)
    assert (checks["clock"]["outcome"], checks["disk"]["outcome"]) == ("failed", "failed")


def test_doctor_warns_of_variables_that_nothing_reads(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_PROT", "1")
    code, checks = doctor(started)
    assert (code, checks["settings"]["outcome"]) == (Exit.OK, "warning")


def test_doctor_reports_settings_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_PORT", "x")
    code, checks = doctor("data")
    assert code == Exit.CHECK_FAILED
    assert checks["settings"]["detail"].startswith("ASKANCE_PORT: ")
    assert set(checks) == {"python", "settings"}
