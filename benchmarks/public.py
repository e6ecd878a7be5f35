"""What a stranger without a token costs: every page and public endpoint at the largest study, and beside 200 sockets.

Prints one JSON object. `table` has a row for each public route of the application at each of the largest studies: the
processor seconds of the server at the first and at the second request, the bytes of the answer, and how many megabytes
the server grew. The routes come from the application itself, so a new page is measured or stops the benchmark.
`sockets` has a row for each route that 200 sockets ask over and over: how many times its quiet median a device's
bulletin and its account take meanwhile, measured in turns within one run. Exits 6 where a goal is missed.

    python benchmarks/public.py [--users N] [--cells N] [--rounds N] [--only table|sockets] [--planted page|sockets]

`--planted page` has the wall take a second, `--planted sockets` begins all requests as they come: misses to be found.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvicorn
from fastapi.routing import APIRoute
from flood import FLOOD, HOST
from measuring import MISSED, machine

from askance_client.page import read_page
from askance_protocol.budget import MICRO
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Bit
from askance_protocol.schema import BitsField, Schema
from askance_server import app, turns
from askance_server.api.gate import TokenGate
from askance_server.app import create_app, open_resources
from askance_server.auth import UserToken, open_keys
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.core.study import study_of
from askance_server.dashboard import wall_pages
from askance_server.driver import Driver
from askance_server.hosting import keep_what_is_there, uvicorn_config
from askance_server.ledger import UserKind
from askance_server.settings import Settings
from askance_server.strategies.registry import Registry, registry

CPU: Final = 0.2
"""Processor seconds of a page, once."""
AGAIN: Final = 0.02
"""Of the same again, where the study has ended."""
TIMES: Final = 4.0
"""Times its quiet median that a device's request takes beside the sockets."""
FEW: Final = 5_000
"""Users who answer the study of many rounds."""
TAKEN: Final = 60
"""Requests of a device at a time."""
_MOST_ROUNDS: Final = 10_000
_FEWEST: Final = 25


def _asking(parameters: Parameters) -> Asking:
    del parameters
    for _ in range(int(os.environ.get("ASKANCE_BENCHMARK_ROUNDS", "1000"))):
        yield [Ask(BooleanQuery(test=Bit(field="x", index=0)), 0.5)]
    return Hypothesis("asked", {})


MANY: Final = Strategy(
    name="many-rounds",
    summary="One bit, again and again",
    interactive=True,
    rounds=_MOST_ROUNDS,
    schema=lambda _: Schema(fields=(BitsField(name="x", width=1),)),
    run=_asking,
)


def strategies() -> Registry:
    """Those that are installed, and one of many rounds."""
    return Registry({**registry(), MANY.name: MANY}, {})


# ---------------------------------------------------------------------------------------------------- what there is


def build(directory: Path, users: int, cells: int) -> dict[str, str]:
    """The largest studies of a server: by name, their ids."""
    settings = Settings(database=str(directory), data_directory=directory, cap=1000 * MICRO)
    ledger, chosen = open_resources(settings).ledger, strategies()
    driver, made = Driver(ledger, chosen), dict[str, str]()

    def opened(name: str, strategy: str, parameters: Parameters) -> None:
        spec = study_of(
            chosen,
            strategy=strategy,
            parameters=parameters,
            title=name,
            nonce=f"{len(made):032x}",
            simulated=True,
            example=None,
            live=None,
        )
        made[name] = driver.open(spec, int(time.time()))

    def answered(name: str, most: int) -> bool:
        """Whether another round follows on this one."""
        id_ = ledger.bulletin(made[name]).rounds[-1][0]
        round_, coins = ledger.round(id_), np.random.default_rng(1)
        for begin in range(0, most, 1 << 20):
            some = np.arange(begin, min(begin + (1 << 20), most), dtype=np.uint64)
            some = some[round_.asked(some)]
            ledger.charge(id_, some, coins.integers(0, 2, len(some)).astype(np.uint32))
        with contextlib.suppress(Exception):  # With the last report it has closed by itself.
            driver.close(id_)
        driver.advance(made[name], int(time.time()))
        return ledger.bulletin(made[name]).rounds[-1][0] != id_

    ledger.enrol(FEW, settings.cap, UserKind.SIMULATED)
    opened("rounds", MANY.name, {"users": "all"})
    while answered("rounds", FEW):
        pass
    ledger.enrol(users - FEW, settings.cap, UserKind.SIMULATED)
    opened("cells", "histogram", {"cells": cells, "users": "all"})
    answered("cells", users)
    opened("questions", "conjunction", {"d": 4096, "users": "all"})
    answered("questions", users)
    opened("other", "mean", {"users": "all"})
    ledger.close()
    return made


def public_routes() -> list[tuple[str, str]]:
    """Method and path of each route that takes no token, from the application itself."""
    with tempfile.TemporaryDirectory() as folder:
        made = create_app(Settings(database=folder, data_directory=Path(folder)))
    found, routes = list[tuple[str, str]](), list[Any](made.routes)
    for route in routes:
        # Newer frameworks keep what was included apart.
        routes += getattr(getattr(route, "original_router", None), "routes", ())
        path: str = getattr(route, "path", "")
        if isinstance(route, APIRoute) and any(isinstance(mark, TokenGate) for mark in _marks(route)):
            continue
        found += [(method, path) for method in sorted(getattr(route, "methods", None) or ()) if method != "HEAD"]
    if len(found) < _FEWEST:
        raise AssertionError(f"the application has {len(found)} public routes: look for the others")
    return sorted(found)


def _marks(route: APIRoute) -> list[object]:
    waiting, marks = [route.dependant], list[object]()
    while waiting:
        one = waiting.pop()
        marks.append(one.call)
        waiting += one.dependencies
    return marks


def requests(server: Running) -> dict[str, bytes]:
    """Every request that a stranger can make of the largest studies, by what it is called."""
    made = dict[str, bytes]()
    for method, path in public_routes():
        for name in ("cells", "questions", "rounds"):
            study, round_ = server.studies[name], server.rounds[name]
            values = {"{study}": study, "{round_}": round_, "{digest}/{name:path}": "0/a.css", "{digest}/{name}": "0/a"}
            at = path
            for each, value in values.items():
                at = at.replace(each, value)
            if "{" in at:
                raise AssertionError(f"{path}: say in benchmarks/public.py what stands there")
            at += f"?study={study}" if path.startswith("/wall") and method == "GET" else ""
            told = f"{method} {path}" + (f" {name}" if at != path or method == "POST" else "")
            body = json.dumps({"link": f"http://{HOST}/t#study={study}"}).encode() if method == "POST" else b""
            head = f"{method} {at} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            made[told] = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    for method, path in (("GET", "/v1/me"), ("POST", "/v1/studies"), ("GET", "/nothing")):
        made[f"{method} {path} without a token"] = f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    return made


# ---------------------------------------------------------------------------------------------------------- the server


def keep_to(place: int) -> None:
    """Stay on one processor, if there are two: strangers and devices have machines of their own, not the server's."""
    if len(mine := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(0, {mine[place]})


def serve(where: str, planted: str) -> int:
    """A server process; `planted` says what is wrong with it."""
    keep_to(0)
    app.registry = strategies
    if planted == "page":
        found = wall_pages.wall_of

        def slow(*arguments: Any) -> Any:
            end = time.thread_time() + 1
            while time.thread_time() < end:
                pass
            return found(*arguments)

        wall_pages.wall_of = slow
    if planted == "sockets":

        async def passed(self: Any, scope: Any, receive: Any, send: Any) -> None:
            await self._app(scope, receive, send)

        turns.Turns.__call__ = passed
    settings = Settings(database=where, data_directory=Path(where), cap=1000 * MICRO)
    made = create_app(settings, opened=open_resources(settings), take_part=read_page())
    listener = socket.create_server((HOST, 0), backlog=2048)
    config = uvicorn_config(made, 10_000)
    keep_what_is_there()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(config).run([listener])
    return 0


@dataclass(frozen=True, slots=True)
class Running:
    """A server process with the largest studies."""

    pid: int
    port: int
    directory: Path
    studies: dict[str, str]
    rounds: dict[str, str]

    def seconds(self) -> float:
        """Processor seconds so far: the clock of another process, by its number (clock_getres(2))."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def megabytes(self) -> int:
        """Resident now."""
        lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS:"))

    def ask(self, method: str, path: str) -> Any:
        """A document."""
        with contextlib.closing(http.client.HTTPConnection(HOST, self.port, timeout=300)) as connection:
            connection.request(method, path)
            return json.loads(connection.getresponse().read())


@contextlib.contextmanager
def running(directory: Path, studies: dict[str, str], planted: str) -> Generator[Running]:
    """A server process, ended by its number."""
    command = [sys.executable, __file__, "--serve", str(directory), "--planted", planted]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603 - this file
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        server = Running(process.pid, int(process.stdout.readline()), directory, studies, {})
        for name, study in studies.items():
            server.rounds[name] = server.ask("GET", f"/v1/studies/{study}")["rounds"][-1]["id"]
        yield server
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


# ----------------------------------------------------------------------------------------------------------- measuring


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, int]:
    """Status and bytes of one answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = 0
    if b"transfer-encoding: chunked" in head.lower():
        while piece := int((await reader.readline()).strip(), 16):
            size += piece
            await reader.readexactly(piece + 2)
        await reader.readline()
    elif b"content-length:" in head.lower():
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        await reader.readexactly(size)
    return int(head.split(b" ", 2)[1]), size


async def table(server: Running) -> list[dict[str, Any]]:
    """A row for each request: what it costs once, and again."""
    rows = list[dict[str, Any]]()
    for told, request in requests(server).items():
        connection, before, took = await asyncio.open_connection(HOST, server.port), server.megabytes(), list[float]()
        status, size = 0, 0
        for _ in range(2):
            begin = server.seconds()
            status, size = await answer(*connection, request)
            took.append(round(server.seconds() - begin, 4))
        connection[1].close()
        grown = server.megabytes() - before
        rows.append({"what": told, "status": status, "cpu": took[0], "again": took[1], "bytes": size, "grown": grown})
    return rows


async def device(server: Running, seconds: float) -> dict[str, float]:
    """The median milliseconds of a bulletin and of an account, on a connection that is kept, as clients do."""
    token = open_keys(server.directory).mint(UserToken(7, 0))
    asked = {
        "me": f"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode(),
        "bulletin": f"GET /v1/studies/{server.studies['other']}/bulletin HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    }
    connection = await asyncio.open_connection(HOST, server.port)
    took: dict[str, list[float]] = {name: [] for name in asked}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, took.values())) < TAKEN // 4:
        for name, request in asked.items():
            begin = time.perf_counter()
            async with asyncio.timeout(120):
                status, _ = await answer(*connection, request)
            if status != 200:
                raise AssertionError(f"{name} was answered with {status}")
            took[name].append(time.perf_counter() - begin)
            await asyncio.sleep(0.01)
    connection[1].close()
    return {name: 1000 * statistics.median(each) for name, each in took.items()}


def beside(server: Running, told: str, request: bytes, seconds: float) -> dict[str, Any]:
    """A device's requests alone, and beside 200 sockets that ask this over and over from a process of their own."""
    quiet = asyncio.run(device(server, seconds / 2))
    command = [sys.executable, __file__, "--sockets", str(server.port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - this file
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
    try:
        process.stdin.write(request.hex().encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        loud = asyncio.run(device(server, seconds))
        process.stdin.close()
        counted = json.loads(process.stdout.read())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    times = {name: round(loud[name] / quiet[name], 2) for name in quiet}
    return {"what": told, **times, "quiet_ms": {name: round(each, 2) for name, each in quiet.items()}, **counted}


async def sockets(port: int) -> dict[str, int]:
    """200 sockets that ask for one thing until the input ends; how often each status came."""
    loop, counted, stop = asyncio.get_running_loop(), dict[str, int](), asyncio.Event()
    request = bytes.fromhex((await loop.run_in_executor(None, sys.stdin.readline)).strip())

    async def one() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                connection = await asyncio.open_connection(HOST, port)
                try:
                    while not stop.is_set():
                        status, _ = await answer(*connection, request)
                        counted[str(status)] = counted.get(str(status), 0) + 1
                finally:
                    connection[1].transport.abort()

    tasks = [asyncio.create_task(one()) for _ in range(FLOOD)]
    await asyncio.sleep(0.5)
    print("asking", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    stop.set()
    for task in tasks:
        task.cancel()
    return counted


def missed(rows: Sequence[dict[str, Any]], floods: Sequence[dict[str, Any]]) -> list[str]:
    """What is beyond its goal."""
    slow = [row["what"] for row in rows if row["cpu"] > CPU or row["again"] > CPU]
    return slow + [f"sockets: {row['what']}" for row in floods if max(row["bulletin"], row["me"]) > TIMES]


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--cells", type=int, default=1 << 16)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each kind of sockets asks")
    parser.add_argument("--only", choices=["table", "sockets"])
    parser.add_argument("--matching", default="", help="only what has this in its name")
    parser.add_argument("--planted", choices=["page", "sockets", ""], default="", help="a miss that must be found")
    parser.add_argument("--directory", type=Path, help="where the studies are, or are put")
    parser.add_argument("--serve", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--sockets", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["ASKANCE_BENCHMARK_ROUNDS"] = str(given.rounds)
    if given.serve is not None:
        return serve(given.serve, given.planted)
    if given.sockets is not None:
        os.nice(19)  # A device that is measured is not to wait for the processor of the strangers beside it.
        print(json.dumps(asyncio.run(sockets(given.sockets))))
        return 0
    with tempfile.TemporaryDirectory(prefix="askance-public-") as folder:
        directory = given.directory or Path(folder) / "data"
        kept = directory.with_suffix(".studies")
        if not kept.exists():
            kept.write_text(json.dumps(build(directory, given.users, given.cells)))
        rows, floods = list[dict[str, Any]](), list[dict[str, Any]]()
        with running(directory, json.loads(kept.read_text()), given.planted) as server:
            if given.only != "sockets":
                rows = [row for row in asyncio.run(table(server)) if given.matching in row["what"]]
            if given.only != "table":
                keep_to(1)
                asked = {told: request for told, request in requests(server).items() if given.matching in told}
                floods = [beside(server, told, request, given.seconds) for told, request in asked.items()]
    found = missed(rows, floods)
    told = {"schema_version": 1, "machine": machine(), "users": given.users, "cells": given.cells}
    print(json.dumps({**told, "planted": given.planted, "table": rows, "sockets": floods, "missed": found}))
    return MISSED if found else 0


if __name__ == "__main__":
    sys.exit(main())
