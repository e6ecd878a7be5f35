"""Three replicas on one PostgreSQL behind a balancer, one of them killed under load: clients go on, nothing is lost.

`benchmarks/replicas.py` does the same with the processes of `askance serve`, for longer.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import uvicorn

from askance_client.simulation.fleet import FleetProgress, FleetShard, enrol_shard, run_shard
from askance_client.simulation.population import synthetic
from askance_protocol.budget import MICRO
from askance_server.app import create_app
from askance_server.auth import TokenFiles
from askance_server.hosting import uvicorn_config
from askance_server.ledger.postgres import PostgresLedger
from askance_server.settings import Settings
from tests.harness.balancer import Balancer
from tests.harness.kills import ForkServer, serve_forks, until
from tests.harness.marks import SECONDS
from tests.harness.replicas import LyingBalancer, Record, record_of, report, wrong
from tests.harness.wire import Connection

pytest_plugins = ("tests.harness.postgres",)
pytestmark = pytest.mark.slow

REPLICAS = 3
USERS = 600
FLEET = 60
LOST = "1 reports were acknowledged and are not stored as they were sent"


# ------------------------------------------------------------------------------------------------------- the servers


def program(database: str, folder: str) -> None:
    """Fork a replica for each order, which is its number."""

    def start(order: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        app = create_app(Settings(database=database, data_directory=Path(folder) / "data", port=0))
        place = Path(folder) / f"port-{order}"
        place.with_suffix(".new").write_text(str(listener.getsockname()[1]), "ascii")
        place.with_suffix(".new").rename(place)
        uvicorn.Server(uvicorn_config(app, 1000)).run([listener])

    serve_forks(start)


@dataclass
class Service:
    """Replicas, and the balancer in front of them."""

    forks: ForkServer
    folder: Path
    port: int
    pids: list[int]
    ports: list[int]

    async def ask(self, path: str, body: Any = None, *, role: str = "operator") -> Any:
        """One request of the operator, or of who enrols; without a body, of anybody."""
        line = Connection(self.port)
        if body is None:
            status, answer = await line.get(path)
        else:
            token = getattr(TokenFiles.of(self.folder / "data"), role).read_text("ascii").strip()
            status, answer = await line.post(path, token, json.dumps(body).encode())
        await line.close()
        assert status in {200, 201}, answer
        return json.loads(answer)

    async def kill(self, number: int) -> None:
        """One replica, at once."""
        await self.forks.kill(self.pids[number])


@asynccontextmanager
async def replicas(database: str, folder: Path) -> AsyncGenerator[Service]:
    """Three of them at work."""
    (folder / "data").mkdir(mode=0o700)
    module, log = "tests.server.test_balancer", folder / "replicas.log"
    async with ForkServer.open(module, database, str(folder), log=log) as forks:
        # The first makes the key that all have.
        pids: list[int] = []
        for number in range(REPLICAS):
            place = folder / f"port-{number}"
            pids.append(await forks.start(str(number)))
            await until(place.exists, f"replica {number} does not start: see {log}")
        ports = [int((folder / f"port-{number}").read_text("ascii")) for number in range(REPLICAS)]
        balancer = Balancer(ports)
        async with balancer.listening() as port:
            await until(lambda: all(each.ready for each in balancer.replicas), "a replica is not ready")
            yield Service(forks, folder, port, pids, ports)


# ------------------------------------------------------------------------------------------------------ what happens


async def kill_one(service: Service, record: Record) -> None:
    """When a third of those without wallets have receipts."""
    await until(lambda: len(record.acknowledged) > USERS // 3, "no report is acknowledged")
    await service.kill(1)
    assert len(record.acknowledged) < USERS, "it was no kill under load"


async def reported(
    service: Service, port: int, users: int, meanwhile: Callable[[str, Record], Awaitable[object]]
) -> tuple[Record, str]:
    """New users report to a new study; what they know of it, and its round."""
    enrolled = await service.ask("/v1/enrolments", {"users": users, "simulated": True}, role="enrolment")
    study = {"title": "Replicas", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True}
    made = await service.ask("/v1/studies", study)
    tokens = dict(enumerate(enrolled["tokens"], enrolled["user"]))
    record, round_ = Record({user: user % 3 % 2 for user in tokens}), made["rounds"][0]["id"]
    await asyncio.gather(report(port, round_, tokens, record, 24), meanwhile(made["id"], record))
    return record, round_


async def tally_of(service: Service, round_: str) -> bytes:
    """The tally of a round that is about to close: a server that hears of reports by the database looks each second."""
    end = time.monotonic() + SECONDS
    while not (told := await service.ask(f"/v1/rounds/{round_}/tally"))["tallies"] and time.monotonic() < end:
        await asyncio.sleep(0.1)
    return json.dumps(told).encode()


async def a_kill(service: Service, folder: Path) -> tuple[FleetProgress, Record, str, bytes]:
    """A replica is killed while clients report, and a fleet of real users with them."""
    enrolment = TokenFiles.of(folder / "data").enrolment.read_text("ascii").strip()
    url, wallets = f"http://127.0.0.1:{service.port}", folder / "wallets"
    shard = FleetShard(url, range(FLEET), wallets, MICRO, enrolment, connections=4)
    await enrol_shard(shard)
    came: list[FleetProgress] = []

    async def meanwhile(study: str, record: Record) -> None:
        fleet = asyncio.create_task(run_shard(shard, study, synthetic("mean", {}, seed=3)))
        await kill_one(service, record)
        came.append(await fleet)

    record, round_ = await reported(service, service.port, USERS, meanwhile)
    persons = record_of(wallets, round_)
    together = Record({**record.outcomes, **persons.outcomes}, {**record.acknowledged, **persons.acknowledged})
    together.broke, together.surprises = record.broke, record.surprises
    return came[0], together, round_, await tally_of(service, round_)


async def a_lie(service: Service) -> tuple[Record, str, bytes]:
    """Clients report through a balancer that keeps one report to itself."""

    async def nothing(_: str, __: Record) -> None:
        """Nobody is killed."""

    async with LyingBalancer(service.ports).listening() as port:
        record, round_ = await reported(service, port, 100, nothing)
        await service.ask(f"/v1/rounds/{round_}/close", {})
        return record, round_, await tally_of(service, round_)


def test_a_replica_that_is_killed_under_load_loses_nothing_and_nobody_notices(database: str, tmp_path: Path) -> None:
    async def all_of_it() -> tuple[tuple[FleetProgress, Record, str, bytes], tuple[Record, str, bytes]]:
        async with replicas(database, tmp_path) as service:
            return await a_kill(service, tmp_path), await a_lie(service)

    (came, record, round_, tally), (lied_to, lie, told) = asyncio.run(all_of_it())

    assert wrong(record, database, round_, tally) == []
    assert record.acknowledged == dict.fromkeys(range(USERS + FLEET), 1)
    assert came.results == Counter(answered=FLEET)
    assert record.broke, "the replica was at nothing when it was killed"
    assert "Traceback" not in (tmp_path / "replicas.log").read_text()
    with closing(PostgresLedger.open(database)) as ledger:
        assert ledger.verify() == []
    # The controls: a balancer that gives a receipt itself, and a report that is lost after its receipt.
    found = wrong(lied_to, database, lie, told)
    assert [each.partition(":")[0] for each in found if "acknowledged" in each] == [LOST]
    assert any(each.startswith("the tally is") for each in found)
    with closing(psycopg.connect(database, autocommit=True)) as link:
        link.execute("SET session_replication_role = replica")
        link.execute("DELETE FROM reports WHERE user_number = 7")
    assert wrong(record, database, round_, tally) == [f"{LOST}: user 7, …"]


if __name__ == "__main__":
    program(*sys.argv[1:])
