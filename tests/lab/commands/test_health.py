"""`askance health`: each state of a server has an exit code of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import UsageError
from tests.harness.marks import SECONDS
from tests.harness.ports import nobody
from tests.lab.commands.calls import invoke


@pytest.fixture(autouse=True)
def no_server_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASKANCE_SERVER", raising=False)


def called(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


class Answer(BaseHTTPRequestHandler):
    """Answers every path with what the test put here."""

    statuses: dict[str, int]
    version: str | None
    may_go_on: threading.Event

    def do_GET(self) -> None:
        self.may_go_on.wait(SECONDS)
        self.send_response(self.statuses.get(self.path, 200))
        if self.version is not None:
            self.send_header("Askance-Protocol", self.version)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        pass


@contextmanager
def answering(
    statuses: dict[str, int] | None = None, version: str | None = "1", *, silent: bool = False
) -> Iterator[str]:
    go_on = threading.Event()
    if not silent:
        go_on.set()
    kind = type("Now", (Answer,), {"statuses": statuses or {}, "version": version, "may_go_on": go_on})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        go_on.set()
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
        result = called("health", "--server", url, "--json")
        assert called("health", "--server", url)[0] == code

    assert result[0] == code
    answer = json.loads(result[1])
    assert (answer["schema_version"], answer["state"], answer["server"]) == (1, state, url)


def test_health_of_a_server_that_is_not_there_or_too_slow_is_unreachable() -> None:
    with nobody() as url:
        code, printed = called("health", "--server", url.replace("//", "//name:s3cret@"))
    assert code == Exit.UNREACHABLE
    assert "askance serve" in printed
    assert "s3cret" not in printed
    with answering(silent=True) as url:
        code, printed = called("health", "--server", url, "--timeout", "0.1")
    assert (code, "in time" in printed) == (Exit.UNREACHABLE, True)


def test_health_takes_its_server_from_the_environment_and_ignores_proxies_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:1")
    with answering() as url:
        monkeypatch.setenv("ASKANCE_SERVER", url)
        assert called("health")[0] == Exit.OK


@pytest.mark.parametrize("server", ["localhost:8080", "ftp://a", "http://", "http://[::1", ""])
def test_what_is_no_url_is_a_usage_error(server: str) -> None:
    with pytest.raises(UsageError, match="--server: is not an http"):
        invoke("health", "--server", server)
