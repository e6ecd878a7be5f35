"""A person is killed at any time while she enrols, and is the same user when she is started again.

The child is killed before each line of her client's modules and each statement of her wallet, or some of them, while a
real server answers; and the programs that people start are killed at each moment between asking and storing.
`ASKANCE_TORTURE=1` kills at every step.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from askance_client import Identity, Server, Wallet, enrol
from askance_client import user as user_module
from askance_client.transport import server as transport
from askance_client.wallet import file as file_module
from askance_client.wallet import wallet as wallet_module
from askance_protocol.budget import MICRO
from askance_protocol.schema import RealField, Schema
from tests.client.stepwise import KILLS, kill_everywhere
from tests.harness import warm
from tests.harness.servers import ServerProcess, serving
from tests.harness.tree import ROOT

MODULES: Final = (user_module, transport, file_module, wallet_module)


@pytest.fixture
def server(tmp_path: Path) -> Generator[ServerProcess]:
    with serving(tmp_path / "data") as started:
        yield started


class Enrolling:
    """Wallets that are enrolled one after the other, each after a kill."""

    def __init__(self, server: ServerProcess) -> None:
        self.server, self.token = server, server.enrolment
        self.known = 1
        """Number of users: the work is done once as a whole."""
        self.between = 0
        """Kills after the server had enrolled her, and before her wallet knew."""
        self.numbers: list[int] = []

    def enrol(self, place: Path) -> Identity:
        """What a program does that is started."""

        async def once(wallet: Wallet) -> Identity:
            async with Server(self.server.url) as server:
                identity = await enrol(wallet, server, self.token)
                assert isinstance(identity, Identity)
                return identity

        with closing(Wallet.open(place / "wallet", cap=MICRO)) as wallet:
            return asyncio.run(once(wallet))

    @property
    def users(self) -> int:
        """How many the server has enrolled."""
        counted: int = self.server.get("/v1/users", token=self.server.operator).json()["users"]
        return counted

    def check(self, place: Path) -> list[str]:
        """Start again what was killed, twice; she is one user, by the token that her wallet has."""
        there = self.users > self.known
        if (place / "wallet").exists():
            with closing(Wallet.open(place / "wallet")) as wallet:
                self.between += there and wallet.identity is None
        first, again = self.enrol(place), self.enrol(place)
        known, self.known = self.known, self.users
        self.numbers.append(first.user)
        me = self.server.get("/v1/me", token=first.token).json()
        wrong = ["another identity"] if first != again or me.get("user") != first.user else []
        return wrong if self.known == known + 1 else [*wrong, f"{self.known - known} users"]

    def kill(self, folder: Path, kills: int) -> Counter[str]:
        """Kill at so many places; what comes of it."""
        (folder / "kills").mkdir()
        return kill_everywhere(folder / "kills", self.enrol, self.check, kills=kills, modules=MODULES)


@pytest.mark.slow
def test_a_person_who_is_killed_while_she_enrols_is_the_same_user_afterwards(
    server: ServerProcess, tmp_path: Path
) -> None:
    enrolling = Enrolling(server)
    found = enrolling.kill(tmp_path, max(KILLS, 80))

    print(f"kills: {found}, {enrolling.between} between the server's enrolment and the wallet's")
    assert found.keys() == {"whole"}
    assert sorted(enrolling.numbers) == list(range(1, 1 + found.total()))
    # The harness hits what matters.
    assert enrolling.between >= 10


def forgets(wallet: Wallet, server: str) -> str:
    """No key, as in version 0.1."""
    return ""


def stores_late(wallet: Wallet, server: str) -> str:
    """A key that is not on disk before it is shown."""
    return secrets.token_hex(16)


@pytest.mark.slow
@pytest.mark.parametrize("twin", [forgets, stores_late])
def test_a_client_that_stores_no_key_before_it_asks_is_found(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twin: object
) -> None:
    """The control."""
    monkeypatch.setattr(Wallet, "enrolment_key", twin)
    enrolling = Enrolling(server)

    found = enrolling.kill(tmp_path, 80)
    assert found["2 users"] >= enrolling.between >= 5


# --------------------------------------------------------------------------------------------- what people start

DIES: Final = """
import os, signal, sys, runpy

from askance_client import Server, Wallet

when, control, program, *sys.argv[1:] = sys.argv[1:]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
ask, store, key = Server.enrol, Wallet.enrolled, Wallet.enrolment_key

async def asks(self, *told, **more):
    if when == "before she asks":
        die()
    answer = await ask(self, *told, **more)
    if when == "before she reads the answer":
        die()
    return answer

def stores(self, identity):
    if when == "before she stores":
        die()
    with self._file.transaction():
        store(self, identity)
        if when == "before that is on disk":
            die()
    if when == "when it is stored":
        die()

Server.enrol, Wallet.enrolled = asks, stores
if control:
    Wallet.enrolment_key = lambda self, server: ""
if program == "askance":
    from askance_lab.cli import main
    main()
runpy.run_path(program, run_name="__main__")
"""
"""A program that is killed at one of its moments."""

MOMENTS: Final = {
    "before she asks": 0,
    "before she reads the answer": 1,
    "before she stores": 1,
    "before that is on disk": 1,
    "when it is stored": 0,
}
"""And how many users each leaves behind who has no key."""


@pytest.mark.slow
@pytest.mark.parametrize("control", [False, True], ids=["as it is", "control"])
@pytest.mark.parametrize("program", ["askance", "take_part.py"])
def test_a_program_that_is_killed_while_it_enrols_goes_on_as_the_same_user(
    server: ServerProcess, tmp_path: Path, program: str, control: bool
) -> None:
    token = server.directory / "enrolment.token"
    (tmp_path / "me.csv").write_text("value\n0.25\n")
    fields = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=1000),))
    (tmp_path / "fields.json").write_bytes(fields.to_bytes())
    taking: list[object] = [str(ROOT / "examples" / "take_part.py"), server.url, token.read_text().strip()]
    if program == "askance":
        taking = ["askance", "client", "--server", server.url, "--data", tmp_path / "me.csv", "--cap", 1, "--wait", 0]
        taking += ["--schema", tmp_path / "fields.json", "--yes", "--enrolment-token", token, "--wallet", "anna.wallet"]

    def run(when: str, folder: Path) -> int:
        arguments = [when, "control" if control else "", *map(str, taking)]
        return warm.run(arguments, DIES, cwd=folder).returncode

    left = 0
    for number, (moment, behind) in enumerate(MOMENTS.items()):
        folder = tmp_path / f"place-{number}"
        folder.mkdir()
        assert run(moment, folder) == -signal.SIGKILL
        # With no study to answer, the command ends so; it has enrolled her.
        assert run("never", folder) == (2 if program == "askance" else 0)
        left += behind if control else 0
        with closing(Wallet.open(folder / "anna.wallet")) as wallet:
            assert wallet.identity is not None
            assert server.get("/v1/me", token=wallet.identity.token).json()["user"] == wallet.identity.user
        counted = server.get("/v1/users", token=server.operator).json()
        assert counted["kinds"]["real"] == counted["users"] == number + 1 + left
