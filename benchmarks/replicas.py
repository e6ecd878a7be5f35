"""Three servers on one PostgreSQL behind a balancer: how fast beside one and beside the embedded ledger; one killed.

*Throughput*: single reports over 128 connections and batches of 10,000 over 4, in turns, of one server on the embedded
ledger, of one on PostgreSQL, of the same behind the balancer, and of three behind the balancer. Every run has a study
of its own, and its tally has to be what was acknowledged. `busy` says how many processors servers, database, balancer
and load generator had of those that there are: where they had all, more servers are no faster.

*Kills*: clients report, and with them a fleet of real users; one replica after the other is killed with SIGKILL and
started again. Every receipt of the clients has to be in the database and in the tally, once, and nobody may be told of
an error. `--planted deleted` takes an acknowledged report out of the database, `--planted lying` has the balancer
acknowledge one by itself: both have to be found.

    python benchmarks/replicas.py [--turns N] [--planted NAME] [--kills | --throughput]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
from loadgen import drive, request
from measuring import Arguments, Figure, Work, in_turns, tell

sys.path.append(str(Path(__file__).parents[1]))

from askance_protocol.reports import ReportBatch, encode_raw, encode_report
from askance_server.auth import KEY_FILE, UserToken
from tests.harness.balancer import Balancer
from tests.harness.postgres import started
from tests.harness.replicas import LyingBalancer, Record, record_of, report, wrong
from tests.harness.servers import ServerProcess, serving

REPLICAS: Final = 3
USERS: Final = 100_000
SINGLES: Final = 4_000
CONNECTIONS: Final = 128
BATCH: Final = 10_000
BATCHES: Final = 10
RAW: Final = "application/octet-stream"
PAYERS: Final = 30_000
"""Users of the kills who are run by raw clients."""
FLEET: Final = 300
"""Users of the kills with wallets."""
GOALS: Final = {"singles": 0.5, "batches": 0.8}
"""Three servers beside one on PostgreSQL, where both have the same two processors."""
SIDES: Final = {
    "embedded": "one, embedded ledger",
    "one": "one, PostgreSQL",
    "balanced": "the same, behind the balancer",
    "three": "three, behind the balancer",
}
PARTS: Final = ("servers", "postgres", "balancer", "load")
TICK: Final = os.sysconf("SC_CLK_TCK")
PLANTED: Final = ("three singles", "three batches", "deleted", "lying")
BALANCER: Final = Path(__file__).parents[1] / "tests" / "harness" / "balancer.py"


@dataclass(frozen=True, slots=True)
class Given(Arguments):
    """What this benchmark is told besides."""

    kills: bool
    throughput: bool


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--planted", choices=PLANTED)
    parser.add_argument("--kills", action="store_true", help="the kills only")
    parser.add_argument("--throughput", action="store_true", help="the throughput only")
    given = Given(**vars(parser.parse_args()))
    figures, more = dict[str, Figure](), dict[str, Any]()
    with tempfile.TemporaryDirectory(prefix="askance-replicas-") as folder, started() as (database, url):
        if not given.kills:
            more |= throughput(Path(folder), Postgres(database, url), given, figures)
        if not given.throughput:
            more |= kills(Path(folder), Postgres(database, url), given, figures)
    return tell(figures, **more)


# ----------------------------------------------------------------------------------------------------- what runs here


@dataclass(frozen=True, slots=True)
class Postgres:
    """The database, and its processes."""

    server: Any
    url: str

    def new(self) -> str:
        """The URL of a database with nothing in it."""
        name = f"replicas_{secrets.token_hex(4)}"
        with psycopg.connect(self.url.format("postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
        return self.url.format(name)

    def used(self) -> float:
        """Seconds of processor that it has had."""
        first = int((Path(self.server.pgdata) / "postmaster.pid").read_text().partition("\n")[0])
        others = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return used(first, ended=True) + sum(used(int(each)) for each in others)


def used(process: int, *, ended: bool = False) -> float:
    """Seconds of processor that a process has had; and those that have ended of its own."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(int(each) for each in fields[11 : 15 if ended else 13]) / TICK


@contextlib.contextmanager
def replicas(folder: Path, database: str) -> Generator[list[ServerProcess]]:
    """Three processes of `askance serve` with one key."""
    with contextlib.ExitStack() as stack:
        servers: list[ServerProcess] = []
        for number in range(REPLICAS):
            mine = folder / f"replica-{number}-{secrets.token_hex(2)}"
            if servers:
                mine.mkdir(mode=0o700)
                shutil.copy(servers[0].directory / KEY_FILE, mine / KEY_FILE)
            options = ("--database", database, "--data-directory", str(mine), "--cap", "1000")
            servers.append(stack.enter_context(serving(mine, *options)))
        yield servers


@contextlib.contextmanager
def balanced(ports: Sequence[int]) -> Generator[tuple[int, int]]:
    """A balancer in a process of its own: where it listens, and its number."""
    command = [sys.executable, str(BALANCER), *map(str, ports)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - a file of this tree
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            port = int(process.stdout.readline())
            time.sleep(1)  # By then it has seen that all are ready.
            yield port, process.pid
        finally:
            process.terminate()


# ------------------------------------------------------------------------------------------------------- throughput


@dataclass(slots=True)
class Side:
    """One way to take reports: who is told of studies, where reports are sent, and who works."""

    server: ServerProcess
    port: int
    work: dict[str, Callable[[], float]]
    """For each part the seconds of processor that it has had so far."""
    ready: dict[str, list[tuple[str, str, list[bytes]]]] = field(
        default_factory=lambda: defaultdict(list[tuple[str, str, list[bytes]]])
    )
    """Studies that nobody has reported to, and what will be sent to each, by kind."""
    busy: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list[float]))
    )
    """Processors that each part had, run by run."""

    def prepare(self, kind: str) -> None:
        """Make a study, and render what will be sent to it."""
        study = self.server.study(simulated=True)
        round_ = study["rounds"][0]["id"]
        if kind == "singles":
            keys, users = self.server.keys, np.random.default_rng(1).permutation(USERS)[:SINGLES].tolist()
            posts = [
                request(f"/v1/rounds/{round_}/reports", encode_report(user & 1, 2), keys.mint(UserToken(user, 0)))
                for user in users
            ]
        else:
            posts = [
                request(f"/v1/rounds/{round_}/batches", batch_of(number), study["gateway_token"], RAW)
                for number in range(BATCHES)
            ]
        self.ready[kind].append((study["id"], round_, posts))

    def take(self, kind: str) -> None:
        """One run."""
        if not self.ready[kind]:
            self.prepare(kind)
        _, round_, posts = self.ready[kind].pop()
        before, begin = {name: work() for name, work in self.work.items()}, time.perf_counter()
        load = drive(self.port, posts, CONNECTIONS if kind == "singles" else 4, timeout=60)
        seconds = time.perf_counter() - begin
        for name, work in self.work.items():
            self.busy[kind][name].append((work() - before[name]) / seconds)
        if load.statuses.keys() != {200}:
            raise AssertionError(f"the answers were {dict(load.statuses)}")
        self.check(round_, len(posts) * (1 if kind == "singles" else BATCH))

    def check(self, round_: str, reports: int) -> None:
        """The tally must be what was acknowledged. A round that everybody has answered has closed by itself."""
        if self.server.get(f"/v1/rounds/{round_}").json()["state"] == "open":
            closed = self.server.post(f"/v1/rounds/{round_}/close", token=self.server.operator)
            if closed.status_code not in {200, 409}:
                raise AssertionError(closed.text)
        [[row]] = self.server.get(f"/v1/rounds/{round_}/tally").json()["tallies"]
        if sum(row) != reports:
            raise AssertionError(f"{reports} were acknowledged, {sum(row)} counted")


def batch_of(number: int) -> bytes:
    """A run of users, as a gateway delivers them."""
    users = np.arange(number * BATCH, (number + 1) * BATCH, dtype=np.uint64)
    return encode_raw(
        ReportBatch(users, np.random.default_rng(number).integers(0, 2, BATCH, np.uint32), simulated=True)
    )


def throughput(folder: Path, postgres: Postgres, given: Given, figures: dict[str, Figure]) -> dict[str, Any]:
    """Fill in the figures; what each part worked."""
    with contextlib.ExitStack() as stack:
        embedded = stack.enter_context(serving(folder / "embedded", "--cap", "1000"))
        servers = stack.enter_context(replicas(folder, postgres.new()))
        one_port, one_balancer = stack.enter_context(balanced([servers[0].port]))
        three_port, three_balancer = stack.enter_context(balanced([server.port for server in servers]))
        for server in (embedded, servers[0]):
            enrolled = server.post("/v1/enrolments", token=server.enrolment, json={"users": USERS, "simulated": True})
            if enrolled.status_code != 201:
                raise AssertionError(enrolled.text)
        sides = {
            "embedded": Side(embedded, embedded.port, work_of([embedded])),
            "one": Side(servers[0], servers[0].port, work_of(servers[:1], postgres)),
            "balanced": Side(servers[0], one_port, work_of(servers[:1], postgres, one_balancer)),
            "three": Side(servers[0], three_port, work_of(servers, postgres, three_balancer)),
        }
        work: dict[str, Work] = {}
        for name, side in sides.items():
            for kind in ("singles", "batches"):
                work[f"{name} {kind}"] = lambda side=side, kind=kind: side.take(kind)
        timed = in_turns(work, given)
    for kind, count in (("singles", SINGLES), ("batches", BATCHES * BATCH)):
        for name in sides:
            figures[f"{name}_{kind}_a_second"] = timed.rate(f"{name} {kind}", count)
        figures[f"{kind}_three_beside_one"] = timed.ratio(f"one {kind}", f"three {kind}", at_least=GOALS[kind])
        figures[f"{kind}_three_beside_embedded"] = timed.ratio(f"embedded {kind}", f"three {kind}")
        figures[f"{kind}_one_beside_embedded"] = timed.ratio(f"embedded {kind}", f"one {kind}")
        figures[f"{kind}_balanced_beside_one"] = timed.ratio(f"one {kind}", f"balanced {kind}")
    busy = {
        f"{name} {kind}": {part: round(statistics.median(shares[1:]), 2) for part, shares in parts.items()}
        for name, side in sides.items()
        for kind, parts in side.busy.items()
    }
    return {"busy": busy}


def work_of(
    servers: Sequence[ServerProcess], postgres: Postgres | None = None, balancer: int | None = None
) -> dict[str, Callable[[], float]]:
    """The processor that each part has had."""
    pids = [server.pid for server in servers]
    work: dict[str, Callable[[], float]] = {"servers": lambda: sum(map(used, pids)), "load": time.process_time}
    if postgres is not None:
        work["postgres"] = postgres.used
    if balancer is not None:
        work["balancer"] = lambda: used(balancer)
    return work


# ------------------------------------------------------------------------------------------------------------ kills


def kills(folder: Path, postgres: Postgres, given: Given, figures: dict[str, Figure]) -> dict[str, Any]:
    """Kill each replica once, under load; fill in what became of the reports."""
    database = postgres.new()
    with replicas(folder, database) as servers:
        return asyncio.run(_kills(folder, database, servers, given, figures))


async def _kills(
    folder: Path, database: str, servers: list[ServerProcess], given: Given, figures: dict[str, Figure]
) -> dict[str, Any]:
    kind = LyingBalancer if given.planted == "lying" else Balancer
    balancer = kind([server.port for server in servers])
    async with balancer.listening() as port:
        url = f"http://127.0.0.1:{port}"
        tokens = [
            token
            for _ in range(PAYERS // 3_000)
            for token in (
                await asyncio.to_thread(
                    lambda: servers[0].post(
                        "/v1/enrolments", token=servers[0].enrolment, json={"users": 3_000, "simulated": True}
                    )
                )
            ).json()["tokens"]
        ]
        fleet = [sys.executable, "-c", "from askance_lab.cli import main; main()", "fleet", "--server", url]
        fleet += ["--users", str(FLEET), "--rate", "40", "--connections", "8", "--wallets", str(folder / "wallets")]
        fleet += ["--enrolment-token", str(servers[0].directory / "enrolment.token"), "--json"]
        errors = (folder / "fleet.log").open("wb")
        people = await asyncio.create_subprocess_exec(*fleet, stdout=subprocess.PIPE, stderr=errors)
        while (await asyncio.to_thread(lambda: count_users(servers[0]))) < PAYERS + FLEET:
            await asyncio.sleep(0.1)
        study = await asyncio.to_thread(lambda: servers[0].study(simulated=True))
        round_ = study["rounds"][0]["id"]
        record = Record({user: user % 3 % 2 for user in range(PAYERS)})
        numbered = dict(enumerate(tokens))
        last = {PAYERS - 1: numbered.pop(PAYERS - 1)}
        killing = asyncio.create_task(_kill_each(servers, balancer, record))
        await asyncio.gather(report(port, round_, numbered, record, 48), killing)
        if given.planted == "deleted":
            delete_one(database)
        await report(port, round_, last, record, 1)
        said, _ = await people.communicate()
        tally = (await asyncio.to_thread(lambda: closed(servers[0], round_))).encode()
    errors.close()
    persons = record_of(next((folder / "wallets").glob("*.wallets")), round_)
    everybody = Record({**record.outcomes, **persons.outcomes}, {**record.acknowledged, **persons.acknowledged})
    everybody.surprises = record.surprises
    found = wrong(everybody, database, round_, tally)
    # The last report was kept back until all were killed.
    silences = np.diff(np.sort(record.moments)[:-1])
    under_load = sum(each < PAYERS - 1 for each in killing.result())
    figures["faults"] = Figure((float(len(found)),), at_most=0)
    figures["receipts_missing"] = Figure((float(len(everybody.outcomes) - len(everybody.acknowledged)),), at_most=0)
    figures["fleet_exit_code"] = Figure((float(people.returncode or 0),), at_most=0)
    figures["kills_under_load"] = Figure((float(under_load),), at_least=REPLICAS)
    figures["longest_wait_seconds"] = Figure((max(record.seconds),), at_most=10)
    figures["longest_silence_seconds"] = Figure((float(silences.max()),), at_most=5)
    figures["median_wait_seconds"] = Figure((statistics.median(record.seconds),))
    return {
        "kills": REPLICAS,
        "reports": len(everybody.acknowledged),
        "connections_broken": record.broke,
        "killed_when": killing.result(),
        "found": found,
        "fleet": json.loads(said.splitlines()[-1]) if said else None,
    }


async def _kill_each(servers: list[ServerProcess], balancer: Balancer, record: Record) -> list[int]:
    """Kill one after the other, each when an eighth more has receipts and all are there; start it again."""
    when: list[int] = []
    for number, server in enumerate(servers):
        while len(record.acknowledged) < PAYERS * (number + 1) // 8 or not all(
            replica.ready for replica in balancer.replicas
        ):
            await asyncio.sleep(0.005)
        when.append(len(record.acknowledged))
        port = server.port
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start, port)
    return when


def count_users(server: ServerProcess) -> int:
    """Number of users."""
    return int(server.get("/v1/users", token=server.operator).json()["users"])


def closed(server: ServerProcess, round_: str) -> str:
    """The tally, once the round has closed: by its last report, or by the operator."""
    if server.get(f"/v1/rounds/{round_}").json()["state"] == "open":
        server.post(f"/v1/rounds/{round_}/close", token=server.operator)
    return server.get(f"/v1/rounds/{round_}/tally").text


def delete_one(database: str) -> None:
    """Take one report out of the database and its count, as if it had never been stored."""
    with psycopg.connect(database, autocommit=True) as link:
        link.execute("SET session_replication_role = replica")
        link.execute("DELETE FROM reports WHERE user_number = 7")
        link.execute(
            "UPDATE received SET reports = reports - 1"
            " WHERE (round, shard) = (SELECT round, shard FROM received WHERE reports > 0 LIMIT 1)"
        )


# ------------------------------------------------------------------------------------------------------------ table


def markdown(printed: Mapping[str, Any]) -> list[str]:
    """The throughput as docs/server.md has it: reports a second, and what each part had of the processors."""
    head = ("servers", "singles a second", "busy", "in batches, a second", "busy")
    lines = [head, ("---",) * len(head)]
    for side, name in SIDES.items():
        cells = [
            each
            for kind in ("singles", "batches")
            for each in (
                spread(printed["figures"][f"{side}_{kind}_a_second"]),
                parts(printed["busy"][f"{side} {kind}"]),
            )
        ]
        lines.append((name, *cells))
    return [f"| {' | '.join(line)} |" for line in lines]


def sentence(printed: Mapping[str, Any]) -> str:
    """What became of the reports while replicas were killed."""
    figures = {name: figure["median"] for name, figure in printed["figures"].items()}
    lost, longest, silence = len(printed["found"]), figures["longest_wait_seconds"], figures["longest_silence_seconds"]
    return (
        f"Killed: {printed['kills']}. Reports with a receipt: {printed['reports']:,}; connections that broke:"
        f" {printed['connections_broken']}; lost, stored twice or beyond a cap: {lost}. Longest wait of a report:"
        f" {longest:.2f} s; longest time without a receipt to anybody: {silence:.2f} s."
    )


def spread(figure: Mapping[str, float]) -> str:
    """The median, and the least and the most."""
    return "{:,.0f} ({:,.0f} to {:,.0f})".format(*(figure[name] for name in ("median", "least", "most")))


def parts(busy: Mapping[str, float]) -> str:
    """The processors that each part had."""
    return ", ".join(f"{part} {busy[part]:.2f}" for part in PARTS if part in busy)


if __name__ == "__main__":
    sys.exit(main())
