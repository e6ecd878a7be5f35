"""The service for tests: in this process and on its event loop, or as a process of its own on a free port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx
from fastapi import FastAPI

from askance_protocol.rounds import PreparedRound, RoundSpec, StudySpec, prepare_round
from askance_server.app import create_app
from askance_server.auth import KEY_FILE, Keys, TokenFiles, read_key
from askance_server.problems import MEDIA_TYPE, PROBLEMS
from askance_server.settings import Settings
from tests.harness import warm
from tests.harness.marks import SECONDS

Json = dict[str, Any]

COMMAND: Final = (sys.executable, "-W", "error", "-c", "from askance_lab.cli import main; main()", "serve")
"""`askance serve` with the interpreter of the tests."""


def bearer(token: str | None) -> dict[str, str]:
    """The header that carries a token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class Api:
    """The endpoints, as a person would call them. Subclasses say what carries the requests."""

    directory: Path

    def request(self, method: str, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        """One request."""
        raise NotImplementedError

    def get(self, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, token=token, **more)

    def post(self, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", path, token=token, **more)

    @property
    def operator(self) -> str:
        """The token that the server wrote for its operator."""
        return TokenFiles.of(self.directory).operator.read_text("ascii").strip()

    @property
    def enrolment(self) -> str:
        """The token that the server wrote for enrolling users."""
        return TokenFiles.of(self.directory).enrolment.read_text("ascii").strip()

    @property
    def keys(self) -> Keys:
        """The server's own keys: with them a test makes tokens that the server does not hand out."""
        return Keys(read_key(self.directory / KEY_FILE))

    def enrol(self, users: int) -> list[str]:
        """New users; their tokens, where they are few."""
        enrolled = self.post("/v1/enrolments", token=self.enrolment, json={"users": users})
        assert enrolled.status_code == 201, enrolled.text
        one: str | None = enrolled.json()["token"]
        return enrolled.json()["tokens"] if one is None else [one]

    def study(
        self, strategy: str = "mean", parameters: Mapping[str, Any] | None = None, *, simulated: bool = False
    ) -> Json:
        """A new study: of `mean`, over all users, if not told otherwise."""
        chosen = {"users": "all"} if parameters is None else dict(parameters)
        asked = {"title": "A study", "strategy": strategy, "parameters": chosen, "simulated": simulated}
        created = self.post("/v1/studies", token=self.operator, json=asked)
        assert created.status_code == 201, created.text
        study: Json = created.json()
        return study

    def report(self, round_: str, token: str | None, outcome: object = 1, **more: Any) -> httpx.Response:
        """One user's report."""
        return self.post(f"/v1/rounds/{round_}/reports", token=token, json={"outcome": outcome}, **more)

    def batch(self, round_: str, token: str, users: Sequence[int], outcomes: Sequence[int]) -> httpx.Response:
        """A gateway's batch, as JSON columns."""
        columns = {"users": list(users), "outcomes": list(outcomes)}
        return self.post(f"/v1/rounds/{round_}/batches", token=token, json=columns)


class Service(Api):
    """The application in this process. Its event loop runs only while a request does, so nothing happens unasked."""

    def __init__(self, directory: Path, *, raising: bool = True, **settings: Any) -> None:
        self.directory = directory
        self.stops: list[None] = []
        where = {"database": str(directory), "data_directory": directory, **settings}
        self.app: FastAPI = create_app(Settings(**where), stop=lambda: self.stops.append(None))
        self._raising = raising

    def __enter__(self) -> Service:
        self._runner = asyncio.Runner()
        self._lifespan = self.app.router.lifespan_context(self.app)
        self._runner.run(self._lifespan.__aenter__())
        # What a start continues in the background is done before the first request.
        self._runner.run(self.app.state.aggregator.settled())
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=self._raising)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://askance.test")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.run(self._lifespan.__aexit__(None, None, None))
        self._runner.close()

    def request(self, method: str, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        """One request, to its end."""
        [response] = self.together([(method, path, token, more)])
        return response

    def together(self, requests: Sequence[tuple[str, str, str | None, Mapping[str, Any]]]) -> list[httpx.Response]:
        """Requests that arrive at once."""

        async def all_of_them() -> list[httpx.Response]:
            return await asyncio.gather(*(self._send(*request) for request in requests))

        return self._runner.run(all_of_them())

    async def _send(self, method: str, path: str, token: str | None, more: Mapping[str, Any]) -> httpx.Response:
        headers = {**bearer(token), **more.get("headers", {})}
        response = await self._client.request(method, path, **{**more, "headers": headers})
        # A report is acknowledged before the round is closed that it completes.
        await self.app.state.aggregator.settled()
        return response


class ServerProcess(Api):
    """`askance serve` on a port that the operating system chose, or on one that it is to have again."""

    def __init__(self, directory: Path, *options: str, port: int = 0, trust: ssl.SSLContext | bool = True) -> None:
        self.directory = directory
        self._trust = trust
        self._command = [*COMMAND, "--port", str(port), "--database", str(directory), "--json", *options]

    def start(self, port: int | None = None) -> None:
        """Start it, perhaps at a port that it has had, and wait until it answers."""
        command = self._command if port is None else [*self._command, "--port", str(port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}
        self._log = (self.directory.parent / f"{self.directory.name}.log").open("ab")
        how = {"cwd": self.directory.parent, "env": environment, "stdout": subprocess.PIPE, "stderr": self._log}
        ordinary = tuple(command[: len(COMMAND)]) == COMMAND
        self._process = warm.start(command[len(COMMAND) - 1 :], **how) if ordinary else subprocess.Popen(command, **how)
        assert self._process.stdout is not None
        announced = self._process.stdout.readline()
        if not announced:
            self.stop()
            raise AssertionError(Path(self._log.name).read_text("utf-8"))
        self.announced: Json = json.loads(announced)
        self.url: str = self.announced["url"]
        # To read what this machine trusts takes longer than some tests.
        trust = self._trust if self.url.startswith("https:") else False
        self._client = httpx.Client(base_url=self.url, timeout=SECONDS, trust_env=False, verify=trust)

    @property
    def client(self) -> httpx.Client:
        """Speaks to the server."""
        return self._client

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    def request(self, method: str, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        """One request over the loopback."""
        headers = {**bearer(token), **more.pop("headers", {})}
        return self._client.request(method, path, headers=headers, **more)

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._end(signal.SIGKILL)
        assert self._process.returncode == -signal.SIGKILL

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self._end(signal.SIGTERM)
        return self._process.returncode

    def _end(self, number: signal.Signals) -> None:
        if hasattr(self, "_client"):
            self._client.close()
        try:
            if self._process.poll() is None:
                self._process.send_signal(number)
            self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._log.close()


@contextlib.contextmanager
def serving(directory: Path, *options: str, trust: ssl.SSLContext | bool = True) -> Generator[ServerProcess]:
    """A server process that is gone afterwards, whatever happens."""
    server = ServerProcess(directory, *options, trust=trust)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def prepared(study: Json, number: int = -1) -> PreparedRound:
    """A round of a study, as a client prepares it from what the server says."""
    spec = StudySpec.model_validate_json(json.dumps(study["study"]))
    return prepare_round(spec, RoundSpec.model_validate_json(json.dumps(study["rounds"][number]["round"])))


def is_problem(response: httpx.Response, name: str) -> Json:
    """The document, if it is this problem and a sound document."""
    document: Json = response.json()
    kind = PROBLEMS[name]
    assert document.get("type") == f"urn:askance:problem:{name}", response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    assert document["status"] == response.status_code == kind.status
    assert document["title"] == kind.title
    assert document["next"]
    assert set(document) <= {"type", "title", "status", "detail", "next"}
    return document
