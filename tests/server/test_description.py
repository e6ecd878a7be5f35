"""The service against its own description: whatever is sent, it answers as /openapi.json says, and never fails.

Requests are generated from the description, those that fit it and those that do not, and most are then given the
token that their operation asks for and the id of something that exists, so that they get past the door. Chains of
them follow the links of the description. `ASKANCE_TORTURE=1` sends ten times as many, each tenth to a new service.
"""

# Schemathesis leaves the type arguments of its own classes open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
import requests
import schemathesis
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from schemathesis import checks as general
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.generation.stateful import run_state_machine_as_test
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi import checks
from starlette.types import ASGIApp, Receive, Scope, Send

from askance_protocol.rounds import StudyState
from askance_server.problems import MEDIA_TYPE, PROBLEMS, responses
from tests.harness.servers import Json, Service, bearer

Case = schemathesis.Case[Any]
Operation = APIOperation[Any, Any, Any, Any]

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
# A service for each: what it lists grows with every study, so one service for all would be slow in the end.
TURNS: Final = range(10 if TORTURE else 1)
# Together 5,000; how long chains get is drawn, so there are some more.
REQUESTS: Final = 3_500
IN_CHAINS: Final = 1_500
CHAINS: Final = 150
STEPS: Final = 12
USERS: Final = 30
BASE: Final = "http://askance.test"
SEED: Final = 20110411

ROLES: Final = {
    "POST /v1/studies": "operator",
    "POST /v1/studies/{study}/cancel": "operator",
    "POST /v1/rounds/{round_}/close": "operator",
    "POST /v1/enrolments": "enrolment",
    "POST /v1/enrolment-tokens": "operator",
    "POST /v1/enrolment-codes": "operator",
    "GET /v1/users": "operator",
    "POST /v1/users/{user}/token": "operator",
    "GET /v1/me": "user",
    "POST /v1/rounds/{round_}/reports": "user",
    "POST /v1/rounds/{round_}/batches": "gateway",
}
CHECKS: Final[list[Any]] = [
    general.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
EVERYBODY: Final = {"users": "all", "epsilon": "1", "tolerance": "0.5"}
TELLING: Final[dict[str, Json]] = {
    "POST /v1/studies": {"title": "A chain", "strategy": "mean", "parameters": EVERYBODY, "simulated": True},
    "POST /v1/rounds/{round_}/reports": {"outcome": 1},
    "POST /v1/rounds/{round_}/batches": {"users": [0, 1], "outcomes": [1, 0]},
}
"""Bodies that change something. Most that are drawn do not: they name strategies, outcomes and users that are not."""

KINDS: Final = {problem.type: problem for problem in PROBLEMS.values()}
# The service keeps state, and what does not fit a description is found by trying.
UNCHECKED: Final = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
QUIET: Final = settings(
    database=None, deadline=None, phases=[Phase.generate], suppress_health_check=UNCHECKED, print_blob=False
)


class Watch:
    """Notes what is raised through the application: once an answer has begun, no status tells of it any more."""

    def __init__(self, app: ASGIApp, raised: list[Exception]) -> None:
        self._app, self._raised = app, raised

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            self._raised.append(error)
            raise


# What it holds is long, and hypothesis would write it out with every strategy.
@dataclass(repr=False)
class World:
    """A service with things in it: users, an open study of either kind, and one that has ended."""

    api: Service
    users: list[str] = field(default_factory=list[str])
    studies: dict[str, Json] = field(default_factory=dict[str, Json])
    gateways: dict[str, str] = field(default_factory=dict[str, str])
    """The token for each round that was asked in a simulated study."""
    raised: list[Exception] = field(default_factory=list[Exception])
    answered: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    def __post_init__(self) -> None:
        self.api.app.add_middleware(Watch, raised=self.raised)

    def furnish(self) -> None:
        """Whatever has been ended by the requests is there again."""
        self.users = self.users or self.api.enrol(USERS)
        for kind in ("ended", "real", "simulated"):
            if kind not in self.studies:
                self.studies[kind] = self.api.study(parameters=EVERYBODY, simulated=kind == "simulated")
                self.remember(self.studies[kind])
                if kind == "ended":
                    self.api.post(f"/v1/studies/{self.studies[kind]['id']}/cancel", token=self.api.operator)

    def remember(self, study: Json) -> None:
        """Only the operator who creates a study is shown the token of its gateway."""
        if study["gateway_token"] is not None:
            self.gateways |= {round_["id"]: study["gateway_token"] for round_ in study["rounds"]}

    def settle(self, case: Case, kind: str, door: str, user: int, media_type: str | None = None) -> Case:
        """Give a request an id and a token that there are, and perhaps another media type."""
        label = case.operation.label
        # The events of an open study do not end.
        kind = "ended" if label.endswith("/events") and kind != "drawn" else kind
        if kind != "drawn":
            study = self.studies[kind]
            known = {"study": study["id"], "round_": study["rounds"][0]["id"], "user": user}
            case.path_parameters.update({name: known[name] for name in case.path_parameters})
        if door == "right":
            # Most headers that do not fit the description are another version, which is refused at once.
            case.headers.pop("askance-protocol", None)
            case.headers.update(bearer(self.token(ROLES[label], case, user) if label in ROLES else None))
        elif door == "wrong":
            role = list(ROLES.values())[user % len(ROLES)]
            case.headers.update(bearer(self.token(role, case, user)))
        if media_type is not None and case.operation.body:
            case.headers["Content-Type"] = media_type
        return case

    def token(self, role: str, case: Case, user: int) -> str:
        """A genuine token of a role; a gateway's is for the round that is asked, where there is one."""
        if role == "user":
            return self.users[user]
        if role == "gateway":
            simulated: str = self.studies["simulated"]["gateway_token"]
            return self.gateways.get(str(case.path_parameters.get("round_")), simulated)
        return self.api.operator if role == "operator" else self.api.enrolment

    def send(self, case: Case) -> httpx.Response:
        """Put a request through the application, as its bytes would arrive."""
        prepared = requests.Request(**_of_requests(case.as_transport_kwargs(base_url=BASE))).prepare()
        assert prepared.method is not None
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
        headers = {name: _bytes(value) for name, value in prepared.headers.items()}
        url = str(prepared.url).removeprefix(BASE)
        self.raised.clear()
        response = self.api.request(prepared.method, url, headers=headers, content=body)
        self.answered[case.operation.label, response.status_code] += 1
        if response.is_success:
            self.follow(case.operation.label, response)
        return response

    def follow(self, label: str, response: httpx.Response) -> None:
        """Keep up with what a request has changed."""
        if label == "POST /v1/studies":
            self.remember(response.json())
        elif label == "POST /v1/users/{user}/token":
            renewed = response.json()
            # Others, whom the requests have enrolled, are never asked.
            if renewed["user"] < USERS:
                self.users[renewed["user"]] = renewed["token"]
        elif label.endswith(("/cancel", "/close")):
            kept = {kind: study for kind, study in self.studies.items() if kind == "ended" or not self.has_ended(study)}
            self.studies = kept
            self.furnish()

    def has_ended(self, study: Json) -> bool:
        state: str = self.api.get(f"/v1/studies/{study['id']}").json()["state"]
        return state not in {"sealed", "running"}

    def hold(self, case: Case, response: httpx.Response) -> None:
        """Hold an answer against the description."""
        spoilt = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
        # What is wrong elsewhere was put right by `settle`, or is a query that nobody reads.
        spoilt_body = spoilt is not None and spoilt.mode.is_negative and response.status_code != 413
        refused: list[Any] = [checks.negative_data_rejection] if spoilt_body else []
        case.validate_response(response, checks=[*CHECKS, *refused])
        assert not self.raised, self.raised
        if response.status_code >= 400:
            check_problem(response)

    @property
    def statuses(self) -> Counter[int]:
        """How often each was answered."""
        return Counter(status for _, status in self.answered.elements())

    @property
    def sent(self) -> Counter[str]:
        """How often each operation was asked."""
        return Counter(label for label, _ in self.answered.elements())

    def report(self) -> None:
        """What was sent and answered; pytest shows it of a test that fails."""
        print(f"{self.answered.total()} requests; answers: {dict(sorted(self.statuses.items()))}")
        for label in self.sent:
            told = {status: count for (asked, status), count in sorted(self.answered.items()) if asked == label}
            print(f"  {label}: {told}")


def check_problem(response: httpx.Response) -> None:
    """Every refusal is a problem document of the closed table."""
    document = response.json()

    assert response.headers["content-type"] == MEDIA_TYPE
    assert KINDS[document["type"]].status == document["status"] == response.status_code
    assert response.headers["askance-protocol"] == "1"


def _of_requests(arguments: dict[str, Any]) -> dict[str, Any]:
    """What is sent; not how the connection would be."""
    wanted = ("method", "url", "headers", "files", "data", "json", "params", "auth", "cookies")
    return {name: arguments[name] for name in wanted if name in arguments}


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


@contextmanager
def furnished(directory: Path, plant: Callable[[FastAPI], object] = lambda _: None) -> Generator[World]:
    """A service with things in it, and with a fault if one is planted."""
    load_all_checks()
    # A fixed key, so that the same tokens are drawn in each run; and room for few users, so that studies stay small.
    service = Service(directory, raising=False, server_key="0f" * 32, cap="1000", user_limit=1000)
    plant(service.app)
    world = World(service)
    with service:
        world.furnish()
        yield world


@pytest.fixture
def world(tmp_path: Path) -> Generator[World]:
    with furnished(tmp_path / "data") as world:
        yield world


def described(world: World) -> BaseSchema:
    """What the service says of itself."""
    return schemathesis.openapi.from_dict(world.api.get("/openapi.json").json())


def operations(world: World) -> list[Operation]:
    """The operations that it describes."""
    results: list[Any] = [*described(world).get_all_operations()]
    assert all(isinstance(result, Ok) for result in results), results
    return [result.ok() for result in results]


def cases(world: World, operation: Operation) -> st.SearchStrategy[Case]:
    """Requests to an operation: half of them fit its description, most have a token and an id that there are."""
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    drawn: list[st.SearchStrategy[Case]] = [
        operation.as_strategy(generation_mode=mode) for mode in (modes if takes_input(operation) else modes[:1])
    ]
    if operation.label == "POST /v1/studies":
        drawn.append(st.builds(_planned, drawn[0], plans()))
    kinds = st.sampled_from(["simulated", "real", "ended", "simulated", "drawn"])
    doors = st.sampled_from(["right", "right", "right", "wrong", "drawn"])
    media_types = st.sampled_from([None, None, None, None, "text/plain", "application/xml; charset=utf-8"])
    return st.builds(world.settle, st.one_of(drawn), kinds, doors, st.integers(0, USERS - 1), media_types)


def plans() -> st.SearchStrategy[Json]:
    """Strategies that there are, with parameters that they might have: which ones, the description does not say."""
    sizes: list[Json] = [{}, {"d": 2}, {"d": 9}, {"d": 64}, {"d": 300}, {"cells": 5}, {"cells": 1 << 16}]
    fitting = {"mean": sizes[:1], "masked-parity": sizes[1:4], "conjunction": sizes[1:5], "histogram": sizes[5:]}
    pairs = st.sampled_from([(strategy, size) for strategy, each in fitting.items() for size in each])
    texts = st.sampled_from(["0.000001", "0.05", "0.5", "0.999999", "1", "1000"])
    terms = st.fixed_dictionaries(
        {"users": st.sampled_from(["all", "all", "needed", "none"])},
        optional=dict.fromkeys(("epsilon", "beta", "tolerance", "alpha"), texts),
    )
    return st.builds(_plan, pairs, terms)


def _plan(pair: tuple[str, Json], terms: Json) -> Json:
    return {"strategy": pair[0], "parameters": {**terms, **pair[1]}}


def _planned(case: Case, plan: Json) -> Case:
    case.body = {**cast("Json", case.body), **plan}
    return case


def takes_input(operation: Operation) -> bool:
    """Whether there is something to send wrongly."""
    return any(True for _ in operation.iter_parameters()) or bool(operation.body)


def fuzz(world: World, operation: Operation, examples: int, number: int) -> None:
    """Send that many requests to an operation, or fewer where there are no more different ones."""

    @seed(number)
    @settings(QUIET, max_examples=examples)
    @given(case=cases(world, operation))
    def each(case: Case) -> None:
        world.hold(case, world.send(case))

    each()


def chain(world: World, number: int) -> None:
    """Requests that feed on what earlier ones were told, each with the right token."""
    schema = described(world)
    # Only the links that the description has. Guessed ones begin at the list of all studies, which tells what other
    # chains have left, and then the same chain is not the same again.
    schema.config.phases.stateful.inference.algorithms = []

    class Chains(schema.as_state_machine()):
        def call(self, case: Case, **_: Any) -> Response:
            label = case.operation.label
            if label in TELLING and case.meta is not None and case.meta.generation.mode.is_positive:
                case.body, case.media_type = TELLING[label], "application/json"
            kind = "ended" if label.endswith("/events") else "drawn"
            self.told = world.send(world.settle(case, kind, "right", world.answered.total() % USERS))
            return Response.from_any(self.told)

        def validate_response(self, response: Response, case: Case, *_: Any, **__: Any) -> None:
            world.hold(case, self.told)

    steps = settings(QUIET, max_examples=CHAINS, stateful_step_count=STEPS)
    run_state_machine_as_test(seed(number)(Chains), settings=steps)


@pytest.mark.slow
@pytest.mark.parametrize("turn", TURNS)
def test_whatever_is_sent_is_answered_as_described_and_never_with_a_failure(world: World, turn: int) -> None:
    all_of_them = operations(world)
    number = SEED + 1000 * turn
    while world.answered.total() < REQUESTS:
        # Operations with little to send run out of different requests, and the others take their share.
        share = max(20, (REQUESTS - world.answered.total()) // len(all_of_them))
        for operation in all_of_them:
            fuzz(world, operation, share, number)
        number += 1
    world.report()

    assert world.sent.keys() == {operation.label for operation in all_of_them}
    assert min(world.sent.values()) >= 20
    assert world.answered.total() >= REQUESTS
    assert max(world.statuses) < 500
    # They got past the door: a fuzzer that is always refused proves nothing.
    assert sum(count for status, count in world.statuses.items() if status < 300) > REQUESTS // 5
    assert {200, 201, 401, 403, 404, 409, 415, 422} <= set(world.statuses)


@pytest.mark.slow
@pytest.mark.parametrize("turn", TURNS)
def test_chains_of_requests_that_feed_on_earlier_answers_are_answered_as_described(world: World, turn: int) -> None:
    chain(world, SEED + turn)
    world.report()
    linked = {each.label for each in operations(world) if "{study}" in each.path or "{round_}" in each.path}

    assert world.answered.total() >= IN_CHAINS
    assert max(world.statuses) < 500
    # Every link leads on.
    assert {label for label, status in world.answered if status < 300} == {"POST /v1/studies"} | linked
    assert sum(count for status, count in world.statuses.items() if status < 300) > world.answered.total() // 2


def test_every_operation_that_asks_for_a_token_is_sent_one(world: World) -> None:
    guarded = {each.label for each in operations(world) if each.definition.raw.get("security")}

    assert guarded == ROLES.keys()


# --------------------------------------------------------------------------------- controls: what is wrong is found


class Planted(BaseModel):
    """The body of an endpoint that has a fault."""

    count: int
    name: str = ""


async def fails(body: Planted) -> dict[str, int]:
    return {"left": 1 // (0 if body.count > 1000 else 1)}


async def answers_in_another_form(body: Planted) -> dict[str, Any]:
    return {"left": "none"} if body.name else {"left": 1}


async def refuses_in_its_own_words(body: Planted) -> Any:
    return JSONResponse({"error": "no"}, 404) if body.count < 0 else {"left": 1}


async def breaks_off(body: Planted) -> StreamingResponse:
    async def numbers() -> AsyncIterator[bytes]:
        yield b'{"left": 1}'
        yield b"\n" * (1 // (0 if body.count > 1000 else 1))

    return StreamingResponse(numbers(), media_type="application/json")


async def fails_after_the_end(study: str, request: Request) -> dict[str, int]:
    ended = request.app.state.aggregator.ledger.bulletin(study).state is StudyState.CANCELLED
    return {"left": 1 // (0 if ended else 1)}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (fails, "Server error"),
        (answers_in_another_form, "Response violates schema"),
        (refuses_in_its_own_words, "Undocumented Content-Type"),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, fault: Callable[[Planted], Any], found: str) -> None:
    with planted(tmp_path, "/v1/planted", fault) as world, pytest.raises(FailureGroup) as caught:
        fuzz(world, the_planted(world), 200, SEED)

    assert found in {failure.title for failure in caught.value.exceptions}


def test_an_answer_that_breaks_off_is_found(tmp_path: Path) -> None:
    with (
        planted(tmp_path, "/v1/planted", breaks_off) as world,
        pytest.raises(AssertionError, match="ZeroDivisionError"),
    ):
        fuzz(world, the_planted(world), 200, SEED)


def test_a_fault_that_only_a_chain_reaches_is_found(tmp_path: Path) -> None:
    # Which requests a seed draws changes with every change of the description; one of a few gets there step by step.
    for turn in range(6):
        with (
            planted(tmp_path / str(turn), "/v1/studies/{study}/planted", fails_after_the_end) as world,
            pytest.raises(FailureGroup) as caught,
        ):
            chain(world, SEED + turn)

        assert "Server error" in {failure.title for failure in caught.value.exceptions}
        if world.answered["GET /v1/studies/{study}/planted", 200]:
            return
    pytest.fail("no chain met the planted fault later than at once")


def planted(tmp_path: Path, path: str, fault: Callable[..., Any]) -> AbstractContextManager[World]:
    """A service with one endpoint more, which has a fault."""
    told: dict[int | str, dict[str, Any]] = {
        200: {"model": dict[str, int]},
        **responses("not-found", "invalid-request"),
    }

    def plant(app: FastAPI) -> None:
        method = "GET" if fault is fails_after_the_end else "POST"
        app.add_api_route(path, fault, methods=[method], response_model=None, responses=told)

    return furnished(tmp_path / "data", plant)


def the_planted(world: World) -> Operation:
    [found] = [each for each in operations(world) if each.label == "POST /v1/planted"]
    return found
