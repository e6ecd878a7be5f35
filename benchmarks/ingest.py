"""How fast the aggregator takes reports, as ratios to FastAPI's own no-op and to the same work without HTTP.

Prints one JSON object. The no-op is the least that a FastAPI application can do, on the same uvicorn without guards,
with the same requests in the same run. Runs are interleaved, every run's ratio is taken within it, and each figure is
the median, so that whatever else the machine does meets both sides alike. Every run has a study of its own; its tally
must be exactly what was acknowledged. Server and load generator get a core each where there are two. Exits 6 where a
figure misses its goal: with `--planted singles` or `--planted batches`, everything of that kind is sent ten times
while it is measured once.

    python benchmarks/ingest.py [--quick] [--planted singles|batches]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvicorn
from fastapi import FastAPI
from loadgen import HOST, drive, request
from measuring import MISSED, PLANTED

from askance_protocol.reports import MAX_BATCH, ReportBatch, decode_raw, encode_raw, encode_report
from askance_protocol.rounds import read_entry
from askance_server import ledger
from askance_server.app import create_app
from askance_server.auth import Keys, UserToken, open_keys
from askance_server.hosting import uvicorn_config
from askance_server.settings import Settings

FEW, MANY = 10_000, 10_000_000
CONNECTIONS: Final = (32, 128)
BATCH: Final = 10_000
RAW: Final = "application/octet-stream"
CAP: Final = 1_000_000_000
"""Micro-ε: enough for a study a run."""
SECONDS: Final = 230
GOALS_AT_LEAST: Final = {
    "singles_32": 0.65,
    "singles_128": 0.78,
    "batches": 0.35,
    "batch_reports_per_second": 10_000_000,
    "singles_32_many_to_few": 0.9,
    "singles_128_many_to_few": 0.9,
}
GOALS_AT_MOST: Final = {"resident_megabytes": 300, "resident_megabytes_closed": 300}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    runs: int
    many: int
    singles: int
    batches: int


FULL: Final = Sizes(runs=5, many=MANY, singles=8_000, batches=300)
QUICK: Final = Sizes(runs=3, many=1_000_000, singles=4_000, batches=100)


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for development: its figures are rough")
    parser.add_argument("--planted", choices=("singles", "batches"), help="a miss that has to be found")
    parser.add_argument("--serve", metavar="DIR", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        return serve(given.serve)
    # The last resort: whatever hangs, the servers below are ended and the caller gets an answer.
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    figures = measure(QUICK if given.quick else FULL, given.planted)
    missed = [name for name, goal in GOALS_AT_LEAST.items() if figures[name] < goal]
    missed += [name for name, goal in GOALS_AT_MOST.items() if figures[name] > goal]
    goals = {"at_least": GOALS_AT_LEAST, "at_most": GOALS_AT_MOST}
    print(json.dumps({"schema_version": 1, "quick": given.quick, **figures, "goals": goals, "missed": missed}))
    return MISSED if missed else 0


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"the benchmark took longer than {SECONDS} seconds")


# --------------------------------------------------------------------------------------------------- the two servers


def serve(where: str) -> int:
    """A server process: FastAPI's no-op on uvicorn as it is, or ours on this directory, as `askance serve` has it."""
    _pin(0)
    listener = socket.create_server((HOST, 0), backlog=2048)
    if where == "noop":
        quiet: dict[str, Any] = {
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "proxy_headers": False,
        }
        config = uvicorn.Config(noop(), loop="uvloop", http="httptools", lifespan="on", ws="none", **quiet)
    else:
        settings = Settings(database=where, cap=CAP, open_limit=10 * MANY)
        config = uvicorn_config(create_app(settings), settings.connection_limit)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(config).run([listener])
    return 0


def noop() -> FastAPI:
    """As little as a FastAPI application can do."""
    app = FastAPI()

    # Without a model: FastAPI would check and convert the answer by the annotation.
    @app.post("/noop", response_model=None)
    async def nothing() -> dict[str, int]:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
        return {}

    return app


def _pin(number: int) -> None:
    """Keep to one core, if each side can have one."""
    if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(0, {cores[number]})


class Server:
    """One server process, and what is asked of it outside the measurements."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        self.pid = process.pid
        self.port = int(process.stdout.readline())

    def ask(self, method: str, path: str, body: object = None, token: str = "") -> Any:
        """One request, none of those that are measured."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        with contextlib.closing(connection), connection.getresponse() as response:
            text = response.read()
            if response.status >= 300:
                raise AssertionError(f"{method} {path} was answered with {response.status}: {text!r}")
            return json.loads(text)

    def megabytes(self) -> dict[str, int]:
        """Resident memory: `VmRSS` now, `VmHWM` at most so far."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        fields = (line.split() for line in lines)
        return {name.rstrip(":"): int(rest[0]) >> 10 for name, *rest in fields if name in {"VmRSS:", "VmHWM:"}}


@contextlib.contextmanager
def running(where: str) -> Generator[Server]:
    """A server process, ended by its number."""
    command = [sys.executable, __file__, "--serve", where]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very file
    try:
        server = Server(process)
        deadline = time.monotonic() + 30
        while True:
            # The socket listens before the application runs: the first answer says that it does.
            try:
                server.ask("GET", "/openapi.json")
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Ours:
    """Our server with its users."""

    def __init__(self, server: Server, directory: Path, users: int) -> None:
        self.server, self.users = server, users
        self.keys: Keys = open_keys(directory)
        self._operator = (directory / "operator.token").read_text().strip()
        enrolment = (directory / "enrolment.token").read_text().strip()
        server.ask("POST", "/v1/enrolments", {"users": users}, enrolment)

    def study(self) -> Study:
        """A new study that asks everybody in its one round."""
        wanted = {"title": "ingest", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True}
        made = self.server.ask("POST", "/v1/studies", wanted, self._operator)
        if [round_["state"] for round_ in made["rounds"]] != ["open"]:
            raise AssertionError(f"the study is {made['state']}, its rounds are {made['rounds']}")
        return Study(made["id"], made["rounds"][0]["id"], made["gateway_token"])

    def require(self, study: Study, reports: int) -> None:
        """The tally of the round must be what was acknowledged."""
        path = f"/v1/rounds/{study.round}"
        if self.server.ask("GET", path)["state"] == "open":
            self.server.ask("POST", f"{path}/close", token=self._operator)
        tally = self.server.ask("GET", f"{path}/tally")
        counted = sum(sum(row) for part in tally["tallies"] for row in part)
        if not tally["received"] == counted == reports:
            raise AssertionError(f"{reports} were acknowledged, {tally['received']} received, {counted} counted")


@dataclass(frozen=True, slots=True)
class Study:
    """A study, its one round, and who may deliver batches to it."""

    id: str
    round: str
    gateway_token: str

    @property
    def reports(self) -> str:
        """Where its single reports go."""
        return f"/v1/rounds/{self.round}/reports"

    @property
    def batches(self) -> str:
        """Where its batches go."""
        return f"/v1/rounds/{self.round}/batches"


# --------------------------------------------------------------------------------------------------------- measuring


def measure(sizes: Sizes, planted: str | None) -> dict[str, Any]:
    """All figures."""
    before = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-ingest-")))
        nothing = stack.enter_context(running("noop"))
        few, many = (
            Ours(stack.enter_context(running(str(directory / str(users)))), directory / str(users), users)
            for users in (FEW, sizes.many)
        )
        _pin(1)
        figures = memory(many)
        figures |= singles(nothing, few, many, sizes, PLANTED if planted == "singles" else 1)
        figures |= batches(many, directory / "own", sizes, PLANTED if planted == "batches" else 1)
        figures |= {
            "users": [FEW, sizes.many],
            "runs": sizes.runs,
            # Without cores and a disk to itself, the absolute figures say more of the neighbours than of the server.
            "disk_milliseconds": disk(directory),
            "machine_load": [round(load, 2) for load in (before, os.getloadavg()[0])],
            "resident_megabytes_after_all_runs": many.server.megabytes()["VmRSS"],
        }
        return figures


def disk(directory: Path) -> float:
    """Milliseconds until the disk confirms as many bytes as a batch has, of which each batch waits for one at least."""
    taken = list[float]()
    with (directory / "confirmed").open("wb", buffering=0) as file:
        for _ in range(200):
            begin = time.perf_counter()
            file.write(bytes(5 * BATCH))
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begin)
            file.seek(0)
    return round(1000 * statistics.median(taken), 3)


def memory(many: Ours) -> dict[str, Any]:
    """Resident memory when all have enrolled, when all have reported, and when their round has closed.

    Memory that was never written is not resident, so a round without reports would flatter.
    """
    study = many.study()
    enrolled = many.server.megabytes()["VmRSS"]
    size = min(MAX_BATCH, many.users // 10)
    users = np.arange(size, dtype=np.uint64)
    # One report is left out: with the last one the round would close by itself.
    for first in range(0, many.users, size):
        mine = (users + np.uint64(first))[: many.users - 1 - first]
        batch = ReportBatch(mine, np.zeros(len(mine), np.uint32), simulated=True)
        post = request(study.batches, encode_raw(batch), study.gateway_token, RAW)
        drive(many.server.port, [post], connections=1).speed()
    reported = many.server.megabytes()["VmRSS"]
    many.require(study, many.users - 1)
    closed = many.server.megabytes()
    return {
        "resident_megabytes": reported,
        "resident_megabytes_enrolled": enrolled,
        "resident_megabytes_closed": closed["VmRSS"],
        "resident_megabytes_peak": closed["VmHWM"],
    }


def singles(nothing: Server, few: Ours, many: Ours, sizes: Sizes, times: int) -> dict[str, Any]:
    """Single reports at every number of connections."""
    speeds: dict[str, list[float]] = defaultdict(list)
    rng = np.random.default_rng(1)
    for _ in range(sizes.runs + 1):
        for connections in CONNECTIONS:
            speeds[f"noop_{connections}"].append(_noop_speed(nothing, few, sizes.singles, connections))
            for name, ours in (("few", few), ("many", many)):
                users = rng.choice(ours.users, sizes.singles, replace=False)
                speeds[f"{name}_{connections}"].append(_single_speed(ours, users.tolist(), connections, times))
    figures: dict[str, Any] = {}
    for at in CONNECTIONS:
        figures[f"singles_{at}"] = _ratio(speeds[f"few_{at}"], speeds[f"noop_{at}"])
        figures[f"singles_{at}_many"] = _ratio(speeds[f"many_{at}"], speeds[f"noop_{at}"])
        figures[f"singles_{at}_many_to_few"] = _ratio(speeds[f"many_{at}"], speeds[f"few_{at}"])
    return {**figures, "requests_per_second": {name: _median(taken) for name, taken in speeds.items()}}


def _noop_speed(nothing: Server, ours: Ours, count: int, connections: int) -> float:
    """The very requests of the other runs, but for the path."""
    post = request("/noop", encode_report(0, 2), ours.keys.mint(UserToken(0, 0)))
    return drive(nothing.port, [post] * count, connections).speed()


def _single_speed(ours: Ours, users: Sequence[int], connections: int, times: int) -> float:
    study = ours.study()
    posts = [request(study.reports, encode_report(user & 1, 2), ours.keys.mint(UserToken(user, 0))) for user in users]
    speed = drive(ours.server.port, posts * times, connections).speed() / times
    ours.require(study, len(posts))
    return speed


def batches(many: Ours, directory: Path, sizes: Sizes, times: int) -> dict[str, Any]:
    """Batches over HTTP, and the same bytes decoded and charged in this process, on this core."""
    speeds: dict[str, list[float]] = defaultdict(list)
    count = min(sizes.batches, sizes.many // BATCH)
    rng = np.random.default_rng(2)
    bodies = [encode_raw(_batch(rng, sizes.many // count * number)) for number in range(count)]
    own = ledger.open_ledger(str(directory))
    own.enrol(sizes.many, CAP)
    for _ in range(sizes.runs + 1):
        study = many.study()
        for entry in many.server.ask("GET", f"/v1/studies/{study.id}/bulletin")["entries"]:
            own.append(study.id, read_entry(json.dumps(entry)))
        posts = [request(study.batches, body, study.gateway_token, RAW) for body in bodies]
        speeds["http"].append(BATCH * drive(many.server.port, posts * times, connections=1).speed() / times)
        many.require(study, BATCH * count)
        speeds["in_process"].append(_in_process_speed(own, study.round, bodies))
    own.close()
    return {
        "batches": _ratio(speeds["http"], speeds["in_process"]),
        "batch_reports_per_second": _median(speeds["http"]),
        "in_process_reports_per_second": _median(speeds["in_process"]),
    }


def _batch(rng: np.random.Generator, first: int) -> ReportBatch:
    """A run of users, as a gateway delivers them."""
    users = np.arange(first, first + BATCH, dtype=np.uint64)
    return ReportBatch(users, rng.integers(0, 2, BATCH, np.uint32), simulated=True)


def _in_process_speed(own: ledger.Ledger, round_: str, bodies: Sequence[bytes]) -> float:
    begin = time.perf_counter()
    for body in bodies:
        batch = decode_raw(body)
        own.charge(round_, batch.users, batch.outcomes)
    seconds = time.perf_counter() - begin
    if own.received(round_) != BATCH * len(bodies):
        raise AssertionError(f"{own.received(round_)} reports were accepted of {BATCH * len(bodies)}")
    return BATCH * len(bodies) / seconds


# The first run of each warms caches, and opens what is opened once.


def _ratio(ours: Sequence[float], base: Sequence[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(ours[1:], base[1:], strict=True)), 3)


def _median(speeds: Sequence[float]) -> int:
    return round(statistics.median(speeds[1:]))


if __name__ == "__main__":
    sys.exit(main())
