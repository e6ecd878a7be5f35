"""A user and the real server: she answers, once; a retry is the same bytes; nothing but the outcome depends on her."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar, cast

import httpx
import pytest

import askance_client
from askance_client import (
    Answered,
    BulletinReader,
    Identity,
    NotEnrolledError,
    Patience,
    Problem,
    Reason,
    Refusal,
    ReportState,
    Result,
    Server,
    Unanswered,
    UnreachableError,
    User,
    Wallet,
    count,
)
from askance_client.wallet.records import StoredReport
from askance_protocol.budget import MICRO
from askance_protocol.examples import Example
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.rounds import Cohort, GeometricSpec, Part
from askance_protocol.schema import RealField, Schema
from tests.client.liar import Liar
from tests.client.people import HERS, OTHERS, SECONDS, Words, answers, enrolled, reasons, run, wallet_at
from tests.harness.servers import Json, Service
from tests.protocol.studies import PARTS, SCHEMA, part
from tests.protocol.studies import study as study_of

T = TypeVar("T")

ATTEMPTS = 4

ROOT = Path(__file__).parent.parent.parent
URL = "http://askance.test"
VALUE = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=1000),))
ALL: Json = {"users": "all", "tolerance": "0.3"}


class Line(httpx.AsyncBaseTransport):
    """The way to the service: remembers what goes over it, and fails where it is told to."""

    def __init__(self, service: Service) -> None:
        self._inner = httpx.ASGITransport(service.app)
        self.requests: list[httpx.Request] = []
        self.loses: list[str] = []
        """A request whose path ends so is answered, and the answer is lost; each once."""
        self.busy: list[str] = []
        """A request whose path ends so is not even taken; each once."""
        self.down = False

    @property
    def bodies(self) -> list[bytes]:
        """What was reported."""
        return [request.content for request in self.requests if request.url.path.endswith("/reports")]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry it."""
        await request.aread()
        self.requests.append(request)
        if self.down:
            raise httpx.ConnectError("refused")
        if taken(self.busy, request):
            return httpx.Response(503, headers={"Retry-After": "0"})
        response = await self._inner.handle_async_request(request)
        await asyncio.sleep(0.001)  # As on a network: others go on meanwhile.
        if taken(self.loses, request):
            raise httpx.ReadError("reset")
        return response


def taken(endings: list[str], request: httpx.Request) -> bool:
    """Whether this request is one of those; it is so once."""
    for ending in endings:
        if request.url.path.endswith(ending):
            endings.remove(ending)
            return True
    return False


class World:
    """A service, and people with wallets who take part in it."""

    def __init__(self, service: Service, path: Path, stack: ExitStack) -> None:
        self.service, self._path, self._stack = service, path, stack
        self.line = Line(service)
        self._people = 0

    def on_line(self, work: Callable[[Server], Awaitable[T]]) -> T:
        """With a connection, on the loop of the service."""

        async def once() -> T:
            patience = Patience(attempts=ATTEMPTS, first=0.001, longest=0.01)
            async with Server(URL, patience=patience, transport=self.line) as server:
                return await asyncio.wait_for(work(server), timeout=SECONDS)

        return self.service._runner.run(once())

    def wallet(self, cap: int = 10 * MICRO) -> Wallet:
        self._people += 1
        wallet = Wallet.open(self._path / f"wallet {self._people}", cap=cap)
        self._stack.callback(wallet.close)
        return wallet

    def user(self, value: float = 0.5, *, cap: int = 10 * MICRO, **how: Any) -> User:
        """A new user, with a number."""
        user = User(Example.of(VALUE, {"value": value}), self.wallet(cap), **how)
        identity = self.on_line(lambda server: user.enrol(server, self.service.enrolment))
        assert isinstance(identity, Identity)
        return user

    def study(self, **more: Any) -> str:
        """A study of everybody."""
        id_: str = self.service.study(parameters=ALL, **more)["id"]
        return id_

    def take_part(self, user: User, study: str) -> list[Result]:
        return self.on_line(lambda server: user.take_part(server, study))

    def follow(self, study: str, *users: User) -> list[list[Result]]:
        """All of them, to the end."""
        return self.on_line(lambda server: asyncio.gather(*(user.follow(server, study, every=0.01) for user in users)))

    def account(self, user: User) -> Json:
        """What the server has charged her."""
        assert user.wallet.identity is not None
        account: Json = self.service.get("/v1/me", token=user.wallet.identity.token).json()
        return account


@pytest.fixture
def world(tmp_path: Path) -> Generator[World]:
    with ExitStack() as stack:
        service = stack.enter_context(Service(tmp_path / "data", cap="2"))
        yield World(service, tmp_path, stack)


# --------------------------------------------------------------------------------------------------------- taking part


def test_a_user_enrols_answers_and_both_sides_account_for_it(world: World) -> None:
    user = world.user()
    study = world.study()
    [result] = world.take_part(user, study)

    assert isinstance(result, Answered)
    assert result.charged == MICRO
    assert user.wallet.spending.charges == {result.round: MICRO}
    account = world.account(user)
    assert account["spent_micro_epsilon"] == MICRO
    assert account["charges"] == [{"round": result.round, "micro_epsilon": MICRO}]
    assert world.service.get(f"/v1/rounds/{result.round}").json()["received"] == 1


def test_users_who_follow_a_study_see_its_end(world: World) -> None:
    users = [world.user(value / 10) for value in range(-4, 5)]
    study = world.study()
    results = world.follow(study, *users)

    assert [count(each) for each in results] == [{"answered": 1}] * 9
    assert world.service.get(f"/v1/studies/{study}").json()["state"] == "finished"
    # Unbiased, so not within [-1, 1]: at ε = 1 a report counts for (e + 1)/(e − 1).
    assert abs(world.service.get(f"/v1/studies/{study}/result").json()["hypothesis"]["mean"]) < 2.17
    assert len(world.line.bodies) == 9


def test_one_who_takes_part_again_sends_nothing_again(world: World) -> None:
    user, _ = world.user(), world.user()
    study = world.study()
    first = world.take_part(user, study)

    assert world.take_part(user, study) == world.take_part(user, study) == first
    assert len(world.line.bodies) == 1


def test_users_who_share_a_watch_read_a_study_at_once_and_find_no_lie(world: World) -> None:
    async def at_once(server: Server) -> list[list[Result]]:
        reader = BulletinReader(server, study)
        return await asyncio.gather(*(user.answer(reader) for user in users))

    users = [world.user() for _ in range(6)]
    study = world.study()

    assert [count(each) for each in world.on_line(at_once)] == [{"answered": 1}] * 6


def test_one_who_takes_part_twice_at_once_reports_once(world: World) -> None:
    user = world.user(cap=MICRO)
    study = world.study()
    both = world.on_line(lambda server: asyncio.gather(*(user.take_part(server, study) for _ in range(3))))

    assert both[0] == both[1] == both[2]
    assert [type(each) for each in both[0]] == [Answered]
    assert len(set(world.line.bodies)) == 1
    assert user.wallet.spending.spent == MICRO


def test_two_studies_at_once_do_not_spend_the_same_budget(world: World) -> None:
    user = world.user(cap=MICRO)
    studies = [world.study(), world.study()]
    results = world.on_line(lambda server: asyncio.gather(*(user.take_part(server, study) for study in studies)))

    assert sorted(type(result).__name__ for [result] in results) == ["Answered", "Refusal"]
    assert [reason for each in results for reason in reasons(each)] == [Reason.BEYOND_CAP]
    assert len(world.line.bodies) == 1
    assert user.wallet.spending.spent == MICRO


def test_one_who_has_no_number_is_told_to_enrol(world: World) -> None:
    world.user()  # There is somebody to ask.
    user = User(Example.of(VALUE, {"value": 0}), world.wallet())
    study = world.study()
    with pytest.raises(NotEnrolledError, match="enrol first"):
        world.take_part(user, study)


def test_an_enrolment_that_is_refused_is_a_value(world: World) -> None:
    user = User(Example.of(VALUE, {"value": 0}), world.wallet())
    refused = world.on_line(lambda server: user.enrol(server, "not.a.token"))

    assert isinstance(refused, Problem)
    assert refused.name == "unauthorized"
    assert user.wallet.identity is None


def test_a_study_that_is_not_there_is_a_refusal_and_may_still_come(world: World) -> None:
    user = world.user()
    assert reasons(world.take_part(user, "1" * 64)) == [Reason.UNREADABLE]
    assert [type(each) for each in world.take_part(user, world.study())] == [Answered]


def test_a_real_user_is_not_in_a_simulated_study_and_a_simulated_one_is(world: World) -> None:
    real, simulated = world.user(), world.user(simulated=True)
    study = world.study(simulated=True)

    assert reasons(world.take_part(real, study)) == [Reason.SIMULATED]
    assert [type(each) for each in world.take_part(simulated, study)] == [Answered]


# ---------------------------------------------------------------------------------------------------- what goes wrong


def test_an_answer_that_is_lost_is_asked_for_with_the_same_bytes(world: World) -> None:
    """The server has stored the report and charged it; the second request gets the receipt of the first."""
    user = world.user()
    study = world.study()
    world.line.loses = ["/reports", "/reports"]
    [result] = world.take_part(user, study)

    assert isinstance(result, Answered)
    assert len(world.line.bodies) == 3
    assert len(set(world.line.bodies)) == 1
    assert world.account(user)["spent_micro_epsilon"] == user.wallet.spending.spent == MICRO


def test_a_server_that_is_gone_for_long_gets_the_stored_bytes_when_it_is_back(world: World) -> None:
    user, _ = world.user(), world.user()
    study = world.study()
    world.line.loses = ["/reports"] * 4
    with pytest.raises(UnreachableError):
        world.take_part(user, study)
    [round_] = user.wallet.spending.charges
    kept = user.wallet.stored(round_)
    assert kept is not None
    assert kept.state is ReportState.STORED

    assert world.take_part(user, study) == [Answered(round_, MICRO)]
    assert set(world.line.bodies) == {kept.body}
    assert len(world.line.bodies) == 5
    assert world.account(user)["spent_micro_epsilon"] == MICRO


def test_a_busy_server_is_asked_again(world: World) -> None:
    user = world.user()
    study = world.study()
    world.line.busy = ["/bulletin", "/me", "/reports", "/reports"]

    assert [type(each) for each in world.take_part(user, study)] == [Answered]
    assert len(set(world.line.bodies)) == 1
    assert len(world.line.bodies) == 3


def test_one_who_follows_outlasts_a_server_that_is_down(world: World) -> None:
    async def down_for_a_while(server: Server) -> list[Result]:
        world.line.down, tried = True, len(world.line.requests)
        following = asyncio.ensure_future(user.follow(server, study, every=0.01))
        # Once its patience has ended, and once more.
        while len(world.line.requests) < tried + 2 * ATTEMPTS:
            assert not following.done()
            await asyncio.sleep(0.001)
        world.line.down = False
        return await following

    user = world.user()
    study = world.study()

    assert count(world.on_line(down_for_a_while)) == {"answered": 1}


def test_a_round_that_has_closed_declines_the_report_and_its_charge_stays(world: World) -> None:
    user, _ = world.user(), world.user()
    study = world.study()
    world.line.busy = ["/reports"] * 4
    with pytest.raises(UnreachableError):
        world.take_part(user, study)
    [round_] = user.wallet.spending.charges
    world.service.post(f"/v1/rounds/{round_}/close", token=world.service.operator)

    assert world.take_part(user, study) == [Unanswered(round_, "round-not-open", final=True)]
    assert world.take_part(user, study) == [Unanswered(round_, "declined", final=True)]
    assert len(world.line.bodies) == 5
    assert user.wallet.spending.spent == MICRO
    assert world.account(user)["spent_micro_epsilon"] == 0


def test_users_who_drop_out_do_not_stop_the_others(world: World) -> None:
    users = [world.user() for _ in range(6)]
    study = world.study()
    for user in users[:4]:
        assert count(world.take_part(user, study)) == {"answered": 1}
    [round_] = users[0].wallet.spending.charges
    world.service.post(f"/v1/rounds/{round_}/close", token=world.service.operator)
    results = world.follow(study, *users)

    assert [count(each) for each in results] == [{"answered": 1}] * 4 + [{}] * 2
    assert [user.wallet.spending.spent for user in users] == [MICRO] * 4 + [0] * 2


def test_her_own_cap_binds_where_the_server_has_more_for_her(world: World) -> None:
    user = world.user(cap=MICRO)
    first, second = world.study(), world.study()

    assert count(world.take_part(user, first)) == {"answered": 1}
    assert reasons(world.take_part(user, second)) == [Reason.BEYOND_CAP]
    assert len(world.line.bodies) == 1


def test_a_token_that_was_renewed_is_used_from_then_on(world: World) -> None:
    user = world.user()
    study = world.study()
    identity = user.wallet.identity
    assert identity is not None
    renewed = world.service.post(f"/v1/users/{identity.user}/token", token=world.service.operator).json()
    assert reasons(world.take_part(user, study)) == [Reason.UNREADABLE]
    user.wallet.enrolled(Identity(identity.server, identity.user, renewed["token"]))

    assert count(world.take_part(user, study)) == {"answered": 1}


# ------------------------------------------------------------------------------------ what depends on her, and what not


def visited(example: Example, asked: list[Any], path: Path, words: Words, *, cap: int) -> tuple[Any, list[bytes]]:
    """All that an onlooker sees of somebody with this example, but for the outcomes; and the bodies."""
    liar = Liar.of(study_of(simulated=False, cap=100 * MICRO))
    path.mkdir()
    wallet = wallet_at(path, cap)
    user, before = User(example, wallet), words.drawn
    enrolled(user, liar)
    for each in asked:
        liar.ask(each)
    results = answers(user, liar)
    wallet.close()
    requests = [(r.method, r.url, sorted(r.headers.items()), len(r.content)) for r in liar.requests]
    return (results, requests, words.drawn - before), liar.bodies


@pytest.mark.parametrize("cap", [100 * MICRO, 3 * MICRO])
def test_all_but_the_outcome_is_alike_whatever_she_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: int
) -> None:
    """Same requests, same lengths, same refusals, and one word for each report: of every query with every channel."""
    words = Words(monkeypatch)
    asked = [*PARTS.values(), part(charge=MICRO - 1), part()]
    examples = [
        HERS,
        OTHERS,
        *(Example.of(SCHEMA, {"x": "1" * 8, "i": i, "b": b, "height": 1, "y": 1}) for i in (0, 7) for b in "01"),
    ]
    seen = [visited(each, asked, tmp_path / str(n), words, cap=cap) for n, each in enumerate(examples)]
    (results, _, drawn), bodies = seen[0]

    assert all(each[0] == seen[0][0] for each in seen)
    assert drawn == len(bodies) == sum(isinstance(each, Answered) for each in results)
    assert count(results)["unsound-round"] == 1
    assert (count(results)["beyond-cap"] > 0) == (cap == 3 * MICRO)


WIDE = part(RealQuery(numerator=FieldValue(field="i"), denominator=400), GeometricSpec(micro_epsilon=MICRO))


@pytest.mark.parametrize("asked", [*PARTS.values(), WIDE], ids=[*PARTS, "real, 801 outcomes"])
def test_all_reports_of_a_round_have_one_length(tmp_path: Path, asked: Part) -> None:
    def body(number: int) -> bytes:
        liar = Liar.of(study_of(simulated=False))
        liar.ask(asked)
        record = {"x": "0" * 8, "i": number % 8, "b": "1", "height": number / 15, "y": 1}
        with closing(Wallet.open(tmp_path / f"wallet {number}", cap=10 * MICRO)) as wallet:
            user = User(Example.of(SCHEMA, record), wallet)
            enrolled(user, liar)
            assert count(answers(user, liar)) == {"answered": 1}
        [sent] = liar.bodies
        return sent

    assert len({len(body(number)) for number in range(8)}) == 1


def test_a_retry_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Words(monkeypatch)
    liar = Liar.of(study_of(simulated=False))
    liar.ask(part())
    wallet = wallet_at(tmp_path)
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.says["receipt"] = lambda said: said.update(charged=0)
    for _ in range(3):
        assert reasons(answers(user, liar)) == [Reason.WRONG_RECEIPT]
    wallet.close()

    assert words.drawn == 1
    assert len(liar.bodies) == 3
    assert len(set(liar.bodies)) == 1


def test_one_who_is_not_asked_draws_nothing_and_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Words(monkeypatch)
    liar = Liar.of(study_of(simulated=False))
    liar.ask(part(), cohort=Cohort(first_user=4, users=10))
    wallet = wallet_at(tmp_path)
    user = User(HERS, wallet)
    enrolled(user, liar)

    assert answers(user, liar) == []
    assert words.drawn == 0
    assert [request.url.path.rpartition("/")[2] for request in liar.requests] == ["enrolments", "bulletin"]
    wallet.close()


def test_her_example_is_looked_at_after_she_has_decided_and_in_no_refusal(tmp_path: Path) -> None:
    class Watched(Example):
        """Says so where it is looked at."""

        def __getitem__(self, name: str) -> int:
            raise AssertionError("she has not decided yet")

    liar = Liar.of(study_of(simulated=False))
    liar.ask(part(charge=MICRO - 1))
    liar.ask(part())
    with ExitStack() as stack:
        wallet = wallet_at(tmp_path, MICRO - 1)
        stack.callback(wallet.close)
        user = User(Watched(SCHEMA, HERS.values), wallet)
        enrolled(user, liar)

        assert reasons(answers(user, liar)) == [Reason.UNSOUND_ROUND, Reason.BEYOND_CAP]


def test_what_is_refused_on_the_way_is_a_refusal_of_that_round_for_that_reason(tmp_path: Path) -> None:
    report = StoredReport("ab" * 32, MICRO, b"bytes", ReportState.STORED)

    class Server:
        async def send(self, *_: object) -> Refusal:
            return Refusal(Reason.UNREADABLE, "no document")

    with closing(wallet_at(tmp_path)) as wallet:
        user, anything = User(HERS, wallet), cast("Any", Server())
        said = asyncio.run(user._send(anything, report, Identity("http://127.0.0.1", 7, "token")))

    assert said == Refusal(Reason.UNREADABLE, "no document", report.round)


def test_results_are_counted_by_their_kind() -> None:
    results: list[Result] = [
        Answered("1", 1),
        Answered("2", 1),
        Unanswered("3", "conflict", final=True),
        Refusal(Reason.BEYOND_CAP, "", "4"),
    ]

    assert count(results) == {"answered": 2, "conflict": 1, "beyond-cap": 1}


# ------------------------------------------------------------------------------------------------------- a small client


def test_a_client_needs_nothing_of_the_server() -> None:
    """Neither the framework nor what statistics needs: a phone has neither."""
    script = "import json, sys; from askance_client import User, Wallet; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    modules = set(json.loads(said.stdout))
    rooms = {name.partition(".")[0] for name in modules}

    assert "askance_client" in rooms
    assert rooms.isdisjoint(
        {"fastapi", "starlette", "uvicorn", "scipy", "prometheus_client", "psycopg", "askance_server", "askance_lab"}
    )
    assert modules.isdisjoint({"askance_client.simulation", "askance_client.tables"})


def test_every_module_that_a_device_runs_is_held_to_the_contract_of_imports() -> None:
    """A module that is new is a device's, unless it is in the rooms that stand apart."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [contract] = [each for each in contracts if "askance_client.user" in each.get("source_modules", ())]
    modules = {f"askance_client.{module.name}" for module in iter_modules(askance_client.__path__)}

    assert set(contract["source_modules"]) | set(contract["forbidden_modules"]) == modules


def test_run_ends_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper of these tests, and the reason why a hang fails."""

    async def hangs() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tests.client.people.SECONDS", 0.01)
    with pytest.raises(TimeoutError):
        run(hangs())
