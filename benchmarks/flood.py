"""What 200 flooding connections without a token leave of a server for those who behave.

Prints one JSON object. Well-behaved clients send single reports with tokens, first alone and then beside the flood, in
turns; each turn's ratio is taken within it, and the figure is the median. `flooding.py` says what the flood is. The
control is the same server with uvicorn's own protocol and without a gate before the endpoints: under the same flood it
has to miss the goal, or the flood is none. The server has 256 descriptors. Exits 6 where the goal is missed.

`questions` is the same beside a flood of 400 questions a second that anybody may ask: readiness, studies, a bulletin of
60 kB, a result, the tally of 200,000 reports. Its control is a server that remembers no answer.

    python benchmarks/flood.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import uvicorn
from fastapi.routing import APIRoute

from askance_protocol.reports import ReportBatch, encode_raw, encode_report
from askance_server import aggregator, public_answers
from askance_server.api import gate
from askance_server.app import create_app, open_resources
from askance_server.auth import UserToken, open_keys
from askance_server.hosting import uvicorn_config
from askance_server.settings import Settings

HOST: Final = "127.0.0.1"
GOAL: Final = 0.7
"""Of the reports a second that are answered without a flood."""
FLOOD: Final = 200
DESCRIPTORS: Final = 256
CONNECTIONS: Final = 16
USERS: Final = 2_000
ANSWERED: Final = 200_000
"""Users more, who have answered the study that is asked about."""
QUESTIONERS: Final = 50
"""Connections from which questions come."""
SECONDS: Final = 400
PATIENCE: Final = 5.0
"""Seconds that a well-behaved client waits for an answer."""


@dataclass(frozen=True)
class Flood:
    """A flood that is going on; once it is over, how often each kind was connected."""

    opened: Counter[str]
    _said: IO[str]

    def came_again(self) -> None:
        """Wait until one who was cut off has connected once more."""
        if self._said.readline() != "again\n":
            raise AssertionError("nobody came again")


@contextlib.contextmanager
def flooding(port: int, connections: int = FLOOD, paths: Sequence[str] = ()) -> Generator[Flood]:
    """The flood, from a process of its own, while a `with` block runs."""
    command = [sys.executable, str(Path(__file__).with_name("flooding.py")), str(port), str(connections), *paths]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)  # noqa: S603 - our own program
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
    flood = Flood(Counter(), process.stdout)
    try:
        if process.stdout.readline() != "flooding\n":
            raise AssertionError("the flood did not come about")
        yield flood
        process.stdin.close()
        flood.opened.update(json.loads(process.stdout.read().removeprefix("again\n")))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# ---------------------------------------------------------------------------------------------------------- the server


def serve(where: str, *, guarded: bool, forgetful: bool) -> int:
    """A server process with few descriptors; without its guards, it is what version 0.1 was."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    listener = socket.create_server((HOST, 0), backlog=2048)
    if not guarded:
        # The endpoint's own handler, which reads a body before it looks for a token.
        gate.GatedRoute.get_route_handler = _ungated  # pyright: ignore[reportAttributeAccessIssue] - that is the control
    if forgetful:
        aggregator.READY_FOR = 0.0  # pyright: ignore[reportConstantRedefinition] - that is the control
        public_answers.PublicAnswers.remember = _forget
    settings = Settings(database=where)
    app = create_app(settings, opened=open_resources(settings))
    config = uvicorn_config(app, 10_000)
    if not guarded:
        config.http, config.backlog = "httptools", 2048
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(config).run([listener])
    return 0


def _forget(self: object, question: object, answer: object) -> None:
    del self, question, answer


def _ungated(route: gate.GatedRoute) -> Any:
    handle = APIRoute.get_route_handler(route)

    async def late(request: Any) -> Any:
        await request.json()
        for mark in route.dependant.dependencies:
            if isinstance(mark.call, gate.TokenGate):
                await mark.call.check(request)
        return await handle(request)

    return late if "POST" in (route.methods or ()) else handle


@dataclass(frozen=True, slots=True)
class Running:
    """A server process, and where it listens."""

    pid: int
    port: int
    directory: Path

    def descriptors(self) -> int:
        """Descriptors that are open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def megabytes(self) -> int:
        """The most memory that was resident so far."""
        lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM:"))


@contextlib.contextmanager
def running(directory: Path, *, guarded: bool, forgetful: bool = False) -> Generator[Running]:
    """A server process, ended by its number."""
    lacks = [*([] if guarded else ["--unguarded"]), *(["--forgetful"] if forgetful else [])]
    command = [sys.executable, __file__, "--serve", str(directory), *lacks]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603 - this file
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        yield Running(process.pid, int(process.stdout.readline()), directory)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


# ------------------------------------------------------------------------------------------------- those who behave


@dataclass(slots=True)
class Goodput:
    """What became of well-behaved requests in some seconds."""

    seconds: float
    answered: int = 0
    failed: int = 0
    """Requests without an answer, after which the client opened another connection."""


async def behave(port: int, requests: list[bytes], seconds: float) -> Goodput:
    """Send these over and over, each client one after the other on a connection that it opens again when it must."""
    went = Goodput(seconds)
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        at, connection = number, None
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(PATIENCE):
                    connection = connection or await asyncio.open_connection(HOST, port)
                    await _ask(*connection, requests[at % len(requests)])
                went.answered += 1
                at += CONNECTIONS
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                went.failed += 1
                if connection is not None:
                    connection[1].close()
                connection = None
                await asyncio.sleep(0.01)
        if connection is not None:
            connection[1].close()

    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))
    return went


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]))
    if not head.startswith(b"HTTP/1.1 200 "):
        raise AssertionError(f"a report was answered with {head[:40]!r}")


def command(port: int, path: str, token: str, document: object) -> Any:
    """An operator's request, or a gateway's batch in bytes."""
    raw = isinstance(document, bytes)
    body, kind = (document, "octet-stream") if raw else (json.dumps(document).encode(), "json")
    with socket.create_connection((HOST, port), timeout=60) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def reports(server: Running) -> list[bytes]:
    """A report of each user to a study of her own server; sent again, it gets the same receipt."""
    keys = open_keys(server.directory)
    operator, enrolment = (
        (server.directory / f"{name}.token").read_text("ascii").strip() for name in ("operator", "enrolment")
    )
    command(server.port, "/v1/enrolments", enrolment, {"users": USERS})
    asked = {"title": "flood", "strategy": "mean", "parameters": {"users": "all"}}
    study = command(server.port, "/v1/studies", operator, asked)
    path, body = f"/v1/rounds/{study['rounds'][0]['id']}/reports", encode_report(0, 2)
    return [
        b"POST %b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (path.encode(), keys.mint(UserToken(user, 0)).encode(), len(body), body)
        for user in range(USERS - 1)  # With the last one the round would close.
    ]


def questions(server: Running) -> list[str]:
    """What anybody may ask, of a study that many have answered and that has ended."""
    operator, enrolment = (
        (server.directory / f"{name}.token").read_text("ascii").strip() for name in ("operator", "enrolment")
    )
    command(server.port, "/v1/enrolments", enrolment, {"users": ANSWERED})
    asked = {"title": "flood", "strategy": "conjunction", "parameters": {"d": 256, "users": "all"}, "simulated": True}
    study = command(server.port, "/v1/studies", operator, asked)
    one, round_ = f"/v1/studies/{study['id']}", f"/v1/rounds/{study['rounds'][0]['id']}"
    # Those who report while this is measured keep their budget for that.
    users = np.arange(USERS, USERS + ANSWERED, dtype=np.uint64)
    batch = encode_raw(ReportBatch(users, np.zeros(len(users), np.uint32), simulated=True))
    command(server.port, f"{round_}/batches", study["gateway_token"], batch)
    command(server.port, f"{round_}/close", operator, {})
    return ["/readyz", "/v1/studies", one, f"{one}/bulletin", f"{one}/result", round_, f"{round_}/tally"]


# ----------------------------------------------------------------------------------------------------------- measuring


def measure(
    *, guarded: bool, turns: int, seconds: float, asks: bool = False, forgetful: bool = False
) -> dict[str, Any]:
    """Goodput with and without the flood, in turns."""
    ratios, most, failed, went = list[float](), 0, 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="askance-flood-") as folder:
        directory = Path(folder) / "data"
        with running(directory, guarded=guarded, forgetful=forgetful) as server:
            requests, counted = reports(server), Counter[str]()
            paths = questions(server) if asks else []
            asyncio.run(behave(server.port, requests, seconds))  # what is done once
            before = server.megabytes()
            for _ in range(turns):
                alone = asyncio.run(behave(server.port, requests, seconds))
                with flooding(server.port, QUESTIONERS if asks else FLOOD, paths) as flood:
                    beside = asyncio.run(behave(server.port, requests, seconds))
                    most = max(most, server.descriptors())
                counted += flood.opened
                ratios.append(beside.answered / max(1, alone.answered))
                failed += beside.failed
                went.update(alone=alone.answered, beside=beside.answered)
            grown = server.megabytes() - before
    return {
        "goodput_ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "reports_per_second": {name: round(count / turns / seconds) for name, count in went.items()},
        **({"questions_per_second": round(counted.total() / turns / seconds)} if asks else {}),
        "failed": failed,
        "megabytes_grown": grown,
        "descriptors": most,
    }


def main() -> int:
    """Measure, print, compare with the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for development: its figures are rough")
    parser.add_argument("--serve", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--unguarded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--forgetful", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        return serve(given.serve, guarded=not given.unguarded, forgetful=given.forgetful)
    # The last resort: whatever hangs, the servers below are ended and the caller gets an answer.
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    turns, seconds = (2, 3.0) if given.quick else (5, 6.0)
    figures = {
        "guarded": measure(guarded=True, turns=turns, seconds=seconds),
        "control": measure(guarded=False, turns=1 if given.quick else 2, seconds=seconds),
        "questions": measure(guarded=True, turns=turns, seconds=seconds, asks=True),
        "questions_control": measure(guarded=True, turns=1, seconds=seconds, asks=True, forgetful=True),
    }
    missed = [name for name, each in figures.items() if (each["goodput_ratio"] < GOAL) != name.endswith("control")]
    load = [round(each, 2) for each in os.getloadavg()]
    shown = {"schema_version": 1, "quick": given.quick, "flood": FLOOD, "goal": GOAL, "machine_load": load}
    print(json.dumps({**shown, **figures, "missed": missed}))
    return 6 if missed else 0


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"the benchmark took longer than {SECONDS} seconds")


if __name__ == "__main__":
    sys.exit(main())
