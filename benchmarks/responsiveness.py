"""How long `/healthz` takes at worst while the server does what takes long: plans, large counts, a frozen database.

Prints one JSON object; each figure is the longest of all answers, in milliseconds, on a connection that is kept, asked
again as soon as it has answered. Exits 6 where one is above the goal. `--plant` does all work on the event loop, as
version 0.1 did: the miss that has to be found. `--postgres URL` is an empty database on this machine.

    python benchmarks/responsiveness.py [--users N] [--postgres URL] [--plant]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import numpy as np

from askance_protocol.reports import MAX_BATCH, ReportBatch, encode_raw, encode_report
from askance_server.auth import UserToken, open_keys

GOAL: Final = 250
"""Milliseconds."""
STALL_GOAL: Final = 20
"""Milliseconds that nobody waits longer for, while a study is created over all users or a round of one is published."""
STALLS: Final = ("create", "create_reports", "publish", "publish_reports")
STOP_GOAL: Final = 5.0
"""Seconds in which a server that is told to stop has ended."""
SECONDS: Final = 120

_SERVE: Final = "from askance_lab.cli import main; main()"
_ON_THE_LOOP: Final = """
from askance_server.workers import Workers
async def run(self, work):
    return work()
Workers.run = run
"""


class Server:
    """One server process."""

    def __init__(self, directory: Path, database: str, plant: str = "") -> None:
        """Start it as `askance serve` does; `plant` is code that runs before, a miss to be found."""
        self.directory = directory
        code = plant + _SERVE
        options = ["--port", "0", "--json", "--cap", "1000", "--database", database, "--data-directory", str(directory)]
        self.process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-c", code, "serve", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"ASKANCE_OPEN_LIMIT": str(1 << 40)},
        )
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        self.port = int(json.loads(self.process.stdout.readline())["url"].rpartition(":")[2])

    def token(self, role: str) -> str:
        """The token of a role, from its file."""
        return (self.directory / f"{role}.token").read_text().strip()

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        """One request that has to succeed."""
        raw = isinstance(body, bytes)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream" if raw else "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request(method, path, body if raw or body is None else json.dumps(body), headers)
        with contextlib.closing(connection), connection.getresponse() as response:
            text = response.read()
            if response.status >= 300:
                raise AssertionError(f"{method} {path} was answered with {response.status}: {text[:300]!r}")
            return json.loads(text)

    def study(self, strategy: str = "mean", **parameters: Any) -> Any:
        """A new simulated study."""
        wanted = {"title": "t", "strategy": strategy, "parameters": {"users": "all", **parameters}, "simulated": True}
        return self.ask("POST", "/v1/studies", wanted, self.token("operator"))

    def enrol(self, users: int) -> None:
        """New users."""
        self.ask("POST", "/v1/enrolments", {"users": users}, self.token("enrolment"))

    def worst(
        self, work: Callable[[], Any], other: Callable[[http.client.HTTPConnection], None] | None = None
    ) -> float:
        """The longest answer of `/healthz`, or of another request, while this is done, in milliseconds."""
        over, ready = threading.Event(), threading.Event()
        taken: list[float] = []

        def look() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
            while not over.is_set():
                begin = time.perf_counter()
                if other is None:
                    connection.request("GET", "/healthz")
                else:
                    other(connection)
                connection.getresponse().read()
                taken.append(time.perf_counter() - begin)
                ready.set()
                time.sleep(0.005)
            connection.close()

        thread = threading.Thread(target=look)
        thread.start()
        ready.wait(SECONDS)
        try:
            work()
        finally:
            over.set()
            thread.join()
        return round(max(taken) * 1000, 1)

    def stop(self) -> float:
        """Tell it to stop; seconds until it has ended."""
        begin = time.perf_counter()
        self.process.terminate()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
        return round(time.perf_counter() - begin, 2)


def embedded(directory: Path, users: int, *, plant: bool) -> dict[str, float]:
    """The figures of the embedded ledger."""
    server = Server(directory, str(directory), _ON_THE_LOOP if plant else "")
    try:
        figures = {"idle": server.worst(lambda: time.sleep(1))}
        server.enrol(min(users, 10_000_000))
        figures["conjunction_4096"] = server.worst(lambda: server.study("conjunction", d=4096))
        figures["parity_12"] = server.worst(lambda: server.study("parity", d=12))
        figures["studies"] = server.worst(lambda: server.ask("GET", "/v1/studies"))
        figures |= stalls(server, directory)
        study = server.study()
        path = f"/v1/rounds/{study['rounds'][0]['id']}"

        def deliver() -> None:
            # All but one: with the last report the round would close by itself.
            for first in range(0, users - 1, MAX_BATCH):
                some = np.arange(first, min(first + MAX_BATCH, users - 1), dtype=np.uint64)
                body = encode_raw(ReportBatch(some, np.zeros(len(some), np.uint32), simulated=True))
                server.ask("POST", f"{path}/batches", body, study["gateway_token"])

        figures["batches"] = server.worst(deliver)
        figures["close"] = server.worst(lambda: server.ask("POST", f"{path}/close", token=server.token("operator")))
        figures["tally"] = server.worst(lambda: server.ask("GET", f"{path}/tally"))
    finally:
        figures_stop = server.stop()
    return {**figures, "stop_seconds": figures_stop}


def stalls(server: Server, directory: Path) -> dict[str, float]:
    """How long others wait while a study is created over all users, and while a round of one is published."""
    open_round = server.study(epsilon="0.1")["rounds"][0]["id"]
    keys, users = open_keys(directory), iter(range(1_000_000))

    def report(connection: http.client.HTTPConnection) -> None:
        headers = {
            "Authorization": f"Bearer {keys.mint(UserToken(next(users), 0))}",
            "Content-Type": "application/json",
        }
        connection.request("POST", f"/v1/rounds/{open_round}/reports", encode_report(1, 2), headers)

    def publish() -> Callable[[], Any]:
        study = server.study("masked-parity-two-rounds", d=4, epsilon="0.1")
        [round_] = [each["id"] for each in study["rounds"]]
        some = np.arange(2_000_000, 2_100_000, dtype=np.uint64)
        body = encode_raw(ReportBatch(some, np.zeros(len(some), np.uint32), simulated=True))
        server.ask("POST", f"/v1/rounds/{round_}/batches", body, study["gateway_token"])
        return lambda: server.ask("POST", f"/v1/rounds/{round_}/close", token=server.token("operator"))

    return {
        "create": server.worst(lambda: server.study(epsilon="0.1")),
        "create_reports": server.worst(lambda: server.study(epsilon="0.1"), report),
        "publish": server.worst(publish()),
        "publish_reports": server.worst(publish(), report),
    }


def shared(directory: Path, url: str, *, plant: bool) -> dict[str, float]:
    """The figures of PostgreSQL."""
    server = Server(directory, url, _ON_THE_LOOP if plant else "")
    try:
        figures = {"postgres_enrol_1000000": server.worst(lambda: server.enrol(1_000_000))}
        with frozen(url):
            figures["postgres_frozen"] = server.worst(lambda: unanswered(server))
            stop = server.stop()
    finally:
        server.process.kill()
    return {**figures, "stop_seconds_frozen": stop}


def unanswered(server: Server) -> None:
    """Ask for what needs the database, and wait in vain for two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=2)
    with contextlib.suppress(TimeoutError):
        connection.request("GET", "/v1/studies")
        connection.getresponse()
    connection.close()


@contextlib.contextmanager
def frozen(url: str) -> Generator[None]:
    """The processes of this database, stopped for a while."""
    import psycopg  # noqa: PLC0415 - only with --postgres

    with psycopg.connect(url, autocommit=True) as link:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        processes = [pid for (pid,) in link.execute(query).fetchall()]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def main() -> int:
    """Measure, print, compare with the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--plant", action="store_true", help="do all work on the event loop: the miss to be found")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="askance-responsiveness-") as directory:
        figures = embedded(Path(directory) / "embedded", given.users, plant=given.plant)
        if given.postgres is not None:
            (Path(directory) / "shared").mkdir()
            figures |= shared(Path(directory) / "shared", given.postgres, plant=given.plant)
    goals = {name: STALL_GOAL if name in STALLS else STOP_GOAL if name.startswith("stop") else GOAL for name in figures}
    missed = [name for name, value in figures.items() if value > goals[name]]
    load = [round(value, 2) for value in (before, os.getloadavg()[0])]
    told = {"schema_version": 1, "users": given.users, "planted": given.plant, "machine_load": load}
    print(json.dumps({**told, **figures, "goal": GOAL, "goal_of_stalls": STALL_GOAL, "missed": missed}))
    return 6 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
