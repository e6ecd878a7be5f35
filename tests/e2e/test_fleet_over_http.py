"""Thousands of real users, each with a wallet, against a server process; and a gateway that speaks for a million."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from askance_client import BulletinReader, Server, Wallet, WalletFile
from askance_client.population import Population
from askance_client.simulation.fleet import FleetProgress, FleetShard, enrol_shard, run_fleet, run_shard, shards_of
from askance_client.simulation.gateway import Gateway, SentBatches
from askance_client.simulation.population import synthetic
from askance_client.transport import Patience
from askance_protocol.budget import MICRO
from askance_protocol.errors import UsageError
from askance_protocol.tally import Tally
from askance_server.core.estimators import estimate
from askance_server.ledger.sqlite import SqliteLedger
from tests.harness import warm
from tests.harness.marks import SECONDS
from tests.harness.ports import lasting_port
from tests.harness.servers import Json, ServerProcess, is_problem, prepared, serving

COMMAND = (sys.executable, "-c", "from askance_lab.cli import main; main()")
SURE = 1 - 1e-6


def crew_of(server: ServerProcess, users: int, folder: Path, **more: Any) -> FleetShard:
    return FleetShard(server.url, range(users), folder / "crew.wallets", MICRO, server.enrolment, **more)


def tally_of(server: ServerProcess, study: Json) -> Tally:
    [[rows]] = [server.get(f"/v1/rounds/{study['rounds'][0]['id']}/tally").json()["tallies"]]
    return Tally.of(rows)


def assert_estimated(server: ServerProcess, study: Json, population: Population, users: int) -> None:
    """The mean of these very users lies in its interval."""
    held = population.columns(range(users))["value"].mean() / 1000
    found = estimate(prepared(study).parts[0], tally_of(server, study), SURE)

    assert found.received == users
    assert found.low[0] <= held <= found.high[0]
    assert found.high[0] - found.low[0] < 25 / users**0.5


@pytest.mark.slow
def test_ten_thousand_users_finish_a_round_and_the_tally_is_what_they_were_acknowledged(tmp_path: Path) -> None:
    users, population = 10_000, synthetic("mean", {}, seed=5)
    with serving(tmp_path / "data") as server:
        crews = shards_of(replace(crew_of(server, users, tmp_path), wallets=tmp_path / "wallets"), 2)
        for crew in crews:
            asyncio.run(enrol_shard(crew))
        study = server.study(simulated=True)
        told: list[FleetProgress] = []
        came = run_fleet(crews, study["id"], population, told.append)

        assert came.results == Counter(answered=users)
        assert (came.users, came.spent, len(came.latencies)) == (users, MICRO, users)
        assert [progress.results.total() for progress in told] == sorted(p.results.total() for p in told)
        assert server.get(f"/v1/studies/{study['id']}").json()["state"] == "finished"
        assert_estimated(server, study, population, users)


HELD = """
import asyncio, sys
from pathlib import Path

from askance_client.simulation import fleet
from askance_lab.cli import main

most, mark = int(sys.argv.pop(1)), Path(sys.argv.pop(1))
sent, send = 0, fleet.TimedServer.send

async def held(self, *report):
    global sent
    answer = await send(self, *report)
    sent += 1
    if sent >= most:
        mark.touch()
        await asyncio.Event().wait()
    return answer

fleet.TimedServer.send = held
main()
"""
"""The command, which leaves a mark when the server has acknowledged so many reports, and takes no receipt from then on.
So whoever kills it then kills it in the middle of its run."""


@pytest.mark.slow
def test_a_fleet_that_is_killed_goes_on_with_its_wallets_and_nobody_sends_another_report(tmp_path: Path) -> None:
    users, connections, sends = 300, 8, 80
    with serving(tmp_path / "data") as server:
        # A user who does not report keeps the round open.
        server.post("/v1/enrolments", token=server.enrolment, json={"simulated": True})
        arguments = ["fleet", "--server", server.url, "--users", users, "--wallets", tmp_path / "fleet"]
        arguments += ["--enrolment-token", tmp_path / "data" / "enrolment.token", "--wait", SECONDS, "--json"]
        arguments += ["--connections", connections]
        study, before, received, ends, mark, said = None, 0, 0, list[int](), tmp_path, b""
        # The control is the last one: nothing holds it, it leaves no mark, and ends by itself.
        for run, most in enumerate((sends, sends, 10**9)):
            mark = tmp_path / f"mark{run}"
            command = [sys.executable, "-c", HELD, str(most), str(mark), *map(str, arguments)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            try:
                if study is None:
                    wait_until(lambda: f"askance_users {users + 1}" in server.get("/metrics").text)
                    study = server.study(simulated=True)
                round_ = study["rounds"][0]["id"]
                if most < users:
                    wait_until(mark.exists)
                    assert process.poll() is None
                    process.send_signal(signal.SIGKILL)
                said, _ = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
                process.wait()
            ends.append(process.returncode)
            before, received = received, server.get(f"/v1/rounds/{round_}").json()["received"]
            # Each was killed with reports behind it and before it: what was on its way when it was held comes again.
            assert before + sends - connections <= received <= before + sends + connections or most > users

        assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0]
        assert not mark.exists()
        # All but those whose receipts an earlier fleet had seen.
        [last] = json.loads(said)["studies"]
        assert set(last["results"]) <= {"answered"}
        assert received == users
        assert 'verdict="accepted"} 300.0' in server.get("/metrics").text
        # The one that was killed before it had taken no notice of at least one receipt: that report came again.
        assert last["results"]["answered"] > received - before


DIES = """
import os, signal, sys

from askance_client.simulation.fleet import WalletFile
from askance_client.transport import Server
from askance_lab.cli import main

what = sys.argv.pop(1)
if "dies" in what:
    WalletFile.add_all = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if "forgets" in what:
    enrol = Server.enrol
    Server.enrol = lambda self, *told, key="", **more: enrol(self, *told, **more)
main()
"""
"""The command, killed when the server has enrolled its users and before their wallets are on disk; or as it was in
version 0.1, which named no key."""


@pytest.mark.slow
@pytest.mark.parametrize("forgets", [False, True], ids=["as it is", "control"])
def test_a_fleet_that_is_killed_while_it_enrols_leaves_nobody_behind(tmp_path: Path, forgets: bool) -> None:
    """A round of all users waits for nobody who lost her number. The next fleet is asked to be larger, too."""
    more = "forgets" if forgets else ""
    with serving(tmp_path / "data") as server:
        token = tmp_path / "data" / "enrolment.token"
        told = ["fleet", "--server", server.url, "--wallets", tmp_path / "fleet", "--enrolment-token", token, "--json"]

        def run(what: str, *arguments: object) -> subprocess.CompletedProcess[str]:
            return warm.run([what + more, *map(str, [*told, *arguments])], DIES)

        killed = [run("dies", "--users", 40) for _ in range(2)]
        assert [each.returncode for each in killed] == [-signal.SIGKILL] * 2
        with closing(WalletFile.open(tmp_path / "fleet" / "crew-0-of-1.wallets")) as file:
            assert file.owners() == []
        enrolled = server.get("/v1/users", token=server.operator).json()["users"]
        assert enrolled == (80 if forgets else 40)

        nobody = run("", "--users", 60, "--wait", 0)
        assert (nobody.returncode, "no study appeared" in nobody.stderr) == (2, True)
        study = server.study(simulated=True)
        came = run("", "--users", 60, "--study", study["id"][:8])

        assert json.loads(came.stdout)["studies"][0]["results"] == {"answered": 60}
        there = server.get(f"/v1/studies/{study['id']}").json()
        assert there["rounds"][0]["round"]["target"] == (140 if forgets else 60)
        assert (there["state"] == "finished") is not forgets


def wait_until(condition: Any, seconds: float = SECONDS) -> None:
    """Wait; what takes longer is stuck."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_with_a_rate_each_visit_waits_for_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still: the visit after k others waits k / rate seconds."""
    from askance_client.simulation import fleet

    users, rate = 40, 400
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with serving(tmp_path / "data") as server:
        crew = crew_of(server, users, tmp_path, connections=1, rate=float(rate))
        asyncio.run(enrol_shard(crew))
        study = server.study(simulated=True)
        monkeypatch.setattr(fleet, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: 0.0}))
        monkeypatch.setattr(fleet, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
        came = asyncio.run(run_shard(crew, study["id"], synthetic("mean", {}, seed=4)))

    assert came.results == Counter(answered=users)
    assert waits[:users] == [visited / rate for visited in range(users)]


@pytest.mark.slow
def test_users_outlast_a_server_that_is_killed_and_started_again(tmp_path: Path) -> None:
    users, population = 600, synthetic("mean", {}, seed=6)
    patient = Patience(attempts=60, first=0.05, longest=0.5)
    # On the same port, so that it is found again.
    port = str(lasting_port())
    with serving(tmp_path / "data", "--port", port) as server:
        crew = crew_of(server, users, tmp_path, patience=patient)
        asyncio.run(enrol_shard(crew))
        study = server.study(simulated=True)
        killed: list[int] = []

        def tell(progress: FleetProgress) -> None:
            if progress.results.total() >= 200 and not killed:
                killed.append(server.port)
                server.kill()
                again.start()

        again = ServerProcess(tmp_path / "data", "--port", port)
        try:
            came = asyncio.run(run_shard(crew, study["id"], population, tell))
            assert killed
            assert came.results == Counter(answered=users)
            assert_estimated(again, study, population, users)
        finally:
            again.stop()


def test_a_gateway_speaks_for_a_million_and_again_with_the_same_reports(tmp_path: Path) -> None:
    users, population = 1_000_000, synthetic("mean", {}, seed=7)
    with serving(tmp_path / "data") as server:
        first = server.post("/v1/enrolments", token=server.enrolment, json={"users": users}).json()["user"]
        study = server.study(simulated=True)

        async def speak(block: int) -> Counter[str]:
            async with Server(server.url) as line:
                with closing(SentBatches(tmp_path / "book")) as book:
                    numbers = range(first, first + users)
                    gateway = Gateway(line, study["gateway_token"], population, numbers, book, block=block)
                    watch = BulletinReader(line, study["id"])
                    assert await watch.refresh() is None
                    assert await gateway.answer(watch) is None
                    return gateway.verdicts

        assert asyncio.run(speak(100_000))["accepted"] == users
        # The round has closed, so nothing is asked; and the book does not let itself be cut otherwise.
        assert asyncio.run(speak(50_000)).total() == 0
        assert_estimated(server, study, population, users)


def test_a_gateway_that_was_interrupted_sends_the_bytes_that_it_has_stored(tmp_path: Path) -> None:
    population = synthetic("mean", {}, seed=8)
    with serving(tmp_path / "data") as server:
        server.post("/v1/enrolments", token=server.enrolment, json={"users": 1_001})
        study = server.study(simulated=True)
        sent: list[bytes] = []

        class Deaf(Server):
            """Loses the answer to the first batch."""

            async def deliver(self, round_: str, token: str, body: bytes) -> Any:
                sent.append(body)
                answer = await super().deliver(round_, token, body)
                if len(sent) == 1:
                    raise ConnectionError
                return answer

        async def speak(block: int = 500) -> Counter[str]:
            async with Deaf(server.url) as line:
                with closing(SentBatches(tmp_path / "book")) as book:
                    gateway = Gateway(line, study["gateway_token"], population, range(1_000), book, block=block)
                    watch = BulletinReader(line, study["id"])
                    assert await watch.refresh() is None
                    assert await gateway.answer(watch) is None
                    return gateway.verdicts

        with pytest.raises(ConnectionError):
            asyncio.run(speak())
        with pytest.raises(UsageError, match="blocks of another size"):
            asyncio.run(speak(block=250))
        assert asyncio.run(speak()) == Counter(accepted=500, repeated=500)
        assert sent[1] == sent[0]
        assert asyncio.run(speak()).total() == 0


def test_wallets_of_a_fleet_and_the_servers_ledger_say_the_same(tmp_path: Path) -> None:
    users, population = 300, synthetic("histogram", {"cells": 6}, seed=9)
    with serving(tmp_path / "data", "--cap", "2") as server:
        crew = replace(crew_of(server, users, tmp_path), cap=2 * MICRO)
        asyncio.run(enrol_shard(crew))
        for _ in range(2):
            study = server.study("histogram", {"cells": 6, "users": "all"}, simulated=True)
            assert asyncio.run(run_shard(crew, study["id"], population)).results == Counter(answered=users)
        asked = {"title": "t", "strategy": "histogram", "parameters": {"cells": 6, "users": "all"}, "simulated": True}
        is_problem(server.post("/v1/studies", token=server.operator, json=asked), "too-few-users")
    with closing(WalletFile.open(crew.wallets)) as file, closing(SqliteLedger.open(tmp_path / "data")) as ledger:
        for owner, number in enumerate(file.numbers()):
            charges = {charge.round: charge.micro_epsilon for charge in ledger.standing(number).charges}
            assert Wallet(file, owner).spending.charges == charges
            assert sum(charges.values()) == 2 * MICRO
