"""How many users a fleet brings through a round over HTTP, beside a bare loop that sends the same requests.

Prints one JSON object; exits 6 where a figure misses its goal. All of it in one run, in turns, against one server:
`loop` sends what each user sends (`GET /v1/me`, then her report) and looks at nothing but the status; `one`, `two` and
`four` are real users with wallets in as many processes; `httpx` is one process without bare connections, as it was
before; `account` is `GET /v1/me` alone, of users with one report, `noop` as many requests to FastAPI's no-op on a
server of its own. `gateway` speaks for a million users.

The server has a share of the same processors, and the loop shows the most that it can do. So `one_alone` and
`two_alone` are beside a stand-in that computes nothing (`standin.py`), as a server on a machine of its own would be.
The goals are those of both ways. What a fleet's process computes for a user is `client`: users a second of its own
processor time.

    python benchmarks/fleet.py [--turns N] [--planted NAME]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import Final, cast

from loadgen import HOST, drive, request
from measuring import Figure, arguments, in_turns, tell
from standin import Known, stand_in

from askance_client import Server, WalletFile
from askance_client.simulation.fleet import FleetShard, enrol_shard, run_here
from askance_client.simulation.population import synthetic
from askance_client.transport import bare
from askance_client.wallet import Identity
from askance_lab.remote.local_server import LocalServer, local_server
from askance_lab.remote.study_client import create, unwrap
from askance_protocol.budget import charge_from_text

USERS: Final = 2_000
ASKED: Final = 4_000
CONNECTIONS: Final = 32
CAP: Final = "100"
EPSILON: Final = "0.1"
GOALS: Final = {"of_the_loop": 0.35, "of_httpx": 3.68, "account_of_noop": 0.6, "two_of_one": 1.6}
MILLION: Final = 1_000_000
GATEWAY_SECONDS: Final = 10
WANTED: Final = 3_000
"""Users a second, of one process with a processor to itself."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker process does: bring the users of a shard through a study."""

    shard: FleetShard
    study: str
    bare: bool


def work(pipe: Connection) -> None:
    """A process of a fleet: one order after the other, and for each the seconds that it computed."""
    while (order := pipe.recv()) is not None:
        bare.INSTALLED = order.bare
        begin = process_time()
        done = run_here(order.shard, order.study, synthetic("mean", {}, 1))
        assert done.results == {"answered": len(order.shard.rows)}, done.results  # noqa: S101 - what is measured is the whole work
        pipe.send(process_time() - begin)


@contextmanager
def workers(count: int) -> Generator[list[Connection]]:
    """Processes that have been started, and have loaded what they need."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(count)]
    running = [context.Process(target=work, args=(theirs,), daemon=True) for _, theirs in pipes]
    for each in running:
        each.start()
    yield cast("list[Connection]", [ours for ours, _ in pipes])
    for ours, _ in pipes:
        ours.send(None)
    for each in running:
        each.join()


class Fleet:
    """Users of some shards, each with a number and a wallet, and a new study for them whenever they are run."""

    def __init__(
        self, server: LocalServer, folder: Path, processes: Sequence[Connection], *, bare: bool = True
    ) -> None:
        self._server, self._processes, self._bare = server, processes, bare
        each = USERS // len(processes)
        self.computed = list[float]()
        folder.mkdir(exist_ok=True)
        self.shards = [
            FleetShard(
                server.url,
                range(k * each, (k + 1) * each),
                folder / f"{len(processes)}-{k}-{bare}",
                charge_from_text(CAP),
                server.enrolment,
                CONNECTIONS,
            )
            for k in range(len(processes))
        ]
        for shard in self.shards:
            asyncio.run(enrol_shard(shard))

    def at(self, url: str) -> None:
        """Let its users find their server at another address from now on."""
        self.shards = [replace(shard, url=url) for shard in self.shards]

    @property
    def identities(self) -> list[Identity]:
        """Who its users are at the server."""
        found = list[Identity]()
        for shard in self.shards:
            file = WalletFile.open(shard.wallets)
            accounts = [file.account(owner) for owner in file.owners()]
            found += [each.owner.identity for each in accounts if each is not None and each.owner.identity is not None]
            file.close()
        return found

    def study(self) -> str:
        """A new study of all users."""
        return asyncio.run(self._study())

    async def _study(self) -> str:
        async with Server(self._server.url) as server:
            study = await create(server, self._server.operator, "mean", {"users": "all", "epsilon": EPSILON}, "Fleet")
            return study.id

    def __call__(self) -> None:
        """Bring all users through a study."""
        study = self.study()
        for pipe, shard in zip(self._processes, self.shards, strict=True):
            pipe.send(Order(shard, study, self._bare))
        self.computed.append(sum(pipe.recv() for pipe in self._processes))


class Loop:
    """The same requests, of users who have tokens and nothing else."""

    def __init__(self, server: LocalServer, fleet: Fleet) -> None:
        self._server, self._fleet = server, fleet
        self._port = int(server.url.rpartition(":")[2])
        self._tokens = [identity.token for identity in fleet.identities]

    def __call__(self) -> None:
        """What all users send in a study."""
        round_ = asyncio.run(self._round(self._fleet.study()))
        path = f"/v1/rounds/{round_}/reports"
        pairs = [(asked(token), request(path, b'{"outcome":1}', token)) for token in self._tokens]
        drive(self._port, [each for pair in pairs for each in pair], CONNECTIONS).check()

    def account(self) -> None:
        """Accounts alone."""
        tokens = (self._tokens * (ASKED // len(self._tokens) + 1))[:ASKED]
        drive(self._port, [asked(token) for token in tokens], CONNECTIONS).check()

    async def _round(self, study: str) -> str:
        async with Server(self._server.url) as server:
            rounds = unwrap(await server.document(f"/v1/studies/{study}"))["rounds"]
            return str(rounds[0]["id"])


def asked(token: str) -> bytes:
    """One `GET /v1/me`, as it goes over the wire."""
    return f"GET /v1/me HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


@contextmanager
def noop() -> Generator[Callable[[], object]]:
    """As many requests to FastAPI's no-op."""
    command = [sys.executable, str(Path(__file__).with_name("ingest.py")), "--serve", "noop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own command
        assert process.stdout is not None  # noqa: S101 - told the type checker: it was asked for
        port = int(process.stdout.readline())
        requests = [request("/noop", b"{}", "none")] * ASKED
        yield lambda: drive(port, requests, CONNECTIONS)
        process.terminate()


def gateway(server: LocalServer) -> None:
    """A gateway speaks for a million users: from the reading of the study to the last acknowledgement, and a start."""
    tokens = [
        argument
        for role in ("operator", "enrolment")
        for argument in (f"--{role}-token", str(server.directory / f"{role}.token"))
    ]
    code = "from askance_lab.cli import main; main()"
    options = ["--server", server.url, *tokens, "--users", str(MILLION), "--batch", "100000", "--json"]
    subprocess.run([sys.executable, "-c", code, "load", *options], stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own command


def main() -> int:
    """Measure, print, compare with the goals."""
    names = ["loop", "one", "two", "four", "one_alone", "two_alone", "httpx", "account", "noop", "gateway"]
    given = arguments(__doc__, names, turns=3)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-fleet-")))
        server = stack.enter_context(local_server(folder / "server", CAP))
        pipes = stack.enter_context(workers(4))
        one, two, four = (Fleet(server, folder, pipes[:many]) for many in (1, 2, 4))
        one_alone, two_alone = (Fleet(server, folder / "alone", pipes[:many]) for many in (1, 2))
        before = Fleet(server, folder, pipes[:1], bare=False)
        loop = Loop(server, Fleet(server, folder / "loop", pipes[:1]))
        once = Loop(server, Fleet(server, folder / "once", pipes[:1]))
        once()
        users = {each.token.encode(): each.user for fleet in (one_alone, two_alone) for each in fleet.identities}
        known = Known(int(server.url.rpartition(":")[2]), users, charge_from_text(CAP), charge_from_text(EPSILON))
        url = stack.enter_context(stand_in(known))
        one_alone.at(url)
        two_alone.at(url)
        timed = in_turns(
            {
                "loop": loop,
                "one": one,
                "two": two,
                "four": four,
                "one_alone": one_alone,
                "two_alone": two_alone,
                "httpx": before,
                "account": once.account,
                "noop": stack.enter_context(noop()),
                "gateway": lambda: gateway(server),
            },
            given,
        )
    turns = len(timed.seconds["one"])
    repeated = len(one.computed) // (turns + 1)
    computed = [sum(one.computed[k * repeated : (k + 1) * repeated]) for k in range(1, turns + 1)]
    figures = {
        "of_the_loop": timed.ratio("loop", "one", at_least=GOALS["of_the_loop"]),
        "of_httpx": timed.ratio("httpx", "one", at_least=GOALS["of_httpx"]),
        "two_of_one": timed.ratio("one", "two", at_least=GOALS["two_of_one"]),
        "two_of_one_alone": timed.ratio("one_alone", "two_alone", at_least=GOALS["two_of_one"]),
        "four_of_one_beside_the_server": timed.ratio("one", "four"),
        "gateway_seconds": Figure(tuple(timed.seconds["gateway"]), at_most=GATEWAY_SECONDS),
        "account_of_noop": timed.ratio("noop", "account", at_least=GOALS["account_of_noop"]),
        "client": Figure(tuple(USERS / seconds for seconds in computed)),
        "users_a_second": timed.rate("one", USERS, at_least=WANTED),
        "users_a_second_of_two": timed.rate("two", USERS),
        "users_a_second_alone": timed.rate("one_alone", USERS, at_least=WANTED),
        "users_a_second_of_two_alone": timed.rate("two_alone", USERS),
        "users_a_second_by_httpx": timed.rate("httpx", USERS),
        "users_a_second_of_the_loop": timed.rate("loop", USERS),
    }
    return tell(figures, users=USERS, connections=CONNECTIONS)


if __name__ == "__main__":
    sys.exit(main())
