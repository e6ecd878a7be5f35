"""Who may do what: every kind of token at every endpoint, and tokens that are none."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from askance_server.auth import EnrolmentToken, GatewayToken, Keys, OperatorToken, Token, UserToken
from tests.harness.servers import Json, Service, is_problem

OTHER_KEY: Final = bytes(range(32))


@dataclass(frozen=True)
class Scene:
    """A service with three users, a simulated study that waits for them, and one of real users."""

    api: Service
    study: Json
    real: Json
    users: list[str]

    @property
    def round(self) -> str:
        return str(self.study["rounds"][0]["id"])

    @property
    def real_round(self) -> str:
        return str(self.real["rounds"][0]["id"])

    def token(self, role: str) -> str | None:
        """A genuine token of each role; `stranger's` is a gateway's for the study of real users."""
        return {
            "nobody": None,
            "user": self.users[0],
            "enrolment": self.api.enrolment,
            "operator": self.api.operator,
            "gateway": str(self.study["gateway_token"]),
            "gateway elsewhere": self.api.keys.mint(GatewayToken(str(self.real["id"]), 0, 3)),
        }[role]


@pytest.fixture
def scene(tmp_path: Path) -> Generator[Scene]:
    with Service(tmp_path / "data", cap="2") as api:
        users = api.enrol(3)
        parameters = {"users": "all", "tolerance": "0.3"}
        yield Scene(api, api.study(parameters=parameters, simulated=True), api.study(parameters=parameters), users)


Call = Callable[[Scene, str | None], httpx.Response]
NEW: Final[Json] = {"title": "t", "strategy": "mean", "parameters": {"users": "all", "epsilon": "0.1"}}

GUARDED: Final[dict[str, tuple[str, int, Call]]] = {
    "POST /v1/studies": ("operator", 201, lambda s, t: s.api.post("/v1/studies", token=t, json=NEW)),
    "POST /v1/studies/{id}/cancel": (
        "operator",
        200,
        lambda s, t: s.api.post(f"/v1/studies/{s.study['id']}/cancel", token=t),
    ),
    "POST /v1/enrolments": ("enrolment", 201, lambda s, t: s.api.post("/v1/enrolments", token=t)),
    "POST /v1/enrolment-tokens": (
        "operator",
        201,
        lambda s, t: s.api.post("/v1/enrolment-tokens", token=t, json={"users": 2, "seconds": 60}),
    ),
    "POST /v1/enrolment-codes": (
        "operator",
        201,
        lambda s, t: s.api.post("/v1/enrolment-codes", token=t, json={"codes": 2, "seconds": 60}),
    ),
    "GET /v1/users": ("operator", 200, lambda s, t: s.api.get("/v1/users", token=t)),
    "POST /v1/users/{id}/token": ("operator", 200, lambda s, t: s.api.post("/v1/users/2/token", token=t)),
    "GET /v1/me": ("user", 200, lambda s, t: s.api.get("/v1/me", token=t)),
    "POST /v1/rounds/{id}/reports": ("user", 200, lambda s, t: s.api.report(s.round, t)),
    "POST /v1/rounds/{id}/batches": (
        "gateway",
        200,
        lambda s, t: s.api.post(f"/v1/rounds/{s.round}/batches", token=t, json={"users": [1], "outcomes": [0]}),
    ),
    "POST /v1/rounds/{id}/close": ("operator", 200, lambda s, t: s.api.post(f"/v1/rounds/{s.round}/close", token=t)),
}
"""What asks for a token: of which role, what it answers, and how it is called."""

OPEN: Final[dict[str, Callable[[Scene], str]]] = {
    "GET /v1/studies": lambda s: "/v1/studies",
    "GET /v1/studies/{id}": lambda s: f"/v1/studies/{s.study['id']}",
    "GET /v1/studies/{id}/bulletin": lambda s: f"/v1/studies/{s.study['id']}/bulletin",
    "GET /v1/studies/{id}/result": lambda s: f"/v1/studies/{s.study['id']}/result",
    "GET /v1/studies/{id}/events": lambda s: f"/v1/studies/{s.study['id']}/events",
    "GET /v1/rounds/{id}": lambda s: f"/v1/rounds/{s.round}",
    "GET /v1/rounds/{id}/tally": lambda s: f"/v1/rounds/{s.round}/tally",
    "GET /healthz": lambda s: "/healthz",
    "GET /readyz": lambda s: "/readyz",
    "GET /metrics": lambda s: "/metrics",
}
"""What is public, so that everybody who takes part can check it."""

ROLES: Final = ("nobody", "user", "enrolment", "operator", "gateway", "gateway elsewhere")


def test_the_matrix_has_every_endpoint_that_the_service_describes(scene: Scene) -> None:
    described = {
        f"{method.upper()} {path.replace('{study}', '{id}').replace('{round_}', '{id}').replace('{user}', '{id}')}"
        for path, operations in scene.api.app.openapi()["paths"].items()
        for method in operations
    }

    assert described == GUARDED.keys() | OPEN.keys()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", GUARDED)
def test_exactly_the_role_that_an_endpoint_asks_for_passes(scene: Scene, endpoint: str, role: str) -> None:
    wanted, status, call = GUARDED[endpoint]
    before = state(scene)
    response = call(scene, scene.token(role))

    if role == wanted:
        assert response.status_code == status
    else:
        is_problem(response, "unauthorized" if role == "nobody" else "forbidden")
        assert state(scene) == before


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("endpoint", OPEN)
def test_what_is_public_is_the_same_for_everybody(scene: Scene, endpoint: str, role: str) -> None:
    scene.api.post(f"/v1/studies/{scene.study['id']}/cancel", token=scene.api.operator)

    assert scene.api.get(OPEN[endpoint](scene), token=scene.token(role)).status_code == 200


def state(scene: Scene) -> list[Any]:
    """All that a request could change."""
    accounts = [scene.api.get("/v1/me", token=user).json() for user in scene.users]
    studies = scene.api.get("/v1/studies").json()
    return [accounts, studies, scene.api.app.state.aggregator.ledger.enrolled()]


# ------------------------------------------------------------------------------------------------ tokens that are none


def spoilt(genuine: str) -> Iterator[tuple[str, str]]:
    """Every way to spoil a token."""
    role, payload, tag = genuine.split(".")
    flipped = "A" if tag[0] != "A" else "B"
    yield "no tag", f"{role}.{payload}"
    yield "an empty tag", f"{role}.{payload}."
    yield "a tag cut short", genuine[:-1]
    yield "half of it", genuine[: len(genuine) // 2]
    yield "a letter more", genuine + "A"
    yield "padding", genuine + "="
    yield "another tag", f"{role}.{payload}.{flipped}{tag[1:]}"
    yield "another spelling of the tag's last bits", genuine[:-1] + chr(ord(genuine[-1]) + 1)
    yield "another payload", f"{role}.{payload[:-1]}{'A' if payload[-1] != 'A' else 'B'}.{tag}"
    yield "an empty payload", f"{role}..{tag}"
    yield "no role", f".{payload}.{tag}"
    yield "upper case", f"{role.upper()}.{payload}.{tag}"
    yield "a role of nobody", f"root.{payload}.{tag}"
    yield "a dot more", f"{role}.{payload}.{tag}."
    for other in {"user", "enrolment", "operator", "gateway"} - {role}:
        yield f"as {other}", f"{other}.{payload}.{tag}"
    yield "very long", genuine + "A" * 5000
    yield "nothing", "."


@pytest.mark.parametrize("endpoint", GUARDED)
def test_a_token_that_was_tampered_with_is_none_and_nothing_tells_why(scene: Scene, endpoint: str) -> None:
    wanted, _, call = GUARDED[endpoint]
    genuine = scene.token(wanted)
    assert genuine is not None
    before = state(scene)
    answers = {
        how: call(scene, token) for how, token in [*spoilt(genuine), ("another server's", of_another_server(genuine))]
    }

    for how, answer in answers.items():
        assert answer.status_code == 401, how
        is_problem(answer, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="askance"'
    assert len({answer.content for answer in answers.values()}) == 1
    assert state(scene) == before


def of_another_server(genuine: str) -> str:
    """The same claims under another key."""
    payload = genuine.partition(".")[2].partition(".")[0]
    tokens: list[Token] = [
        UserToken(0, 0),
        OperatorToken("operator"),
        EnrolmentToken("enrolment"),
    ]
    ours = {Keys(OTHER_KEY).mint(token) for token in tokens}
    same = [token for token in ours if token.split(".")[1] == payload]
    return same[0] if same else Keys(OTHER_KEY).mint(GatewayToken("0" * 64, 0, 3))


def test_after_a_revocation_the_old_tokens_of_this_user_are_void_and_a_new_one_holds(scene: Scene) -> None:
    old, others = scene.users[1], scene.users[2]
    scene.api.report(scene.round, old)
    new = scene.api.post("/v1/users/1/token", token=scene.api.operator).json()["token"]

    is_problem(scene.api.get("/v1/me", token=old), "unauthorized")
    is_problem(scene.api.report(scene.round, old), "unauthorized")
    is_problem(scene.api.get("/v1/me", token=scene.api.keys.mint(UserToken(1, 2))), "unauthorized")
    assert scene.api.get("/v1/me", token=new).json()["user"] == 1
    # What she spent before is not forgotten.
    assert scene.api.get("/v1/me", token=new).json()["spent_micro_epsilon"] == 1_000_000
    assert scene.api.get("/v1/me", token=others).status_code == 200


def test_nobody_gets_a_token_for_a_number_that_nobody_has(scene: Scene) -> None:
    is_problem(scene.api.post("/v1/users/3/token", token=scene.api.operator), "not-found")
    is_problem(scene.api.post("/v1/users/x/token", token=scene.api.operator), "not-found")


def test_a_revocation_outlives_a_restart(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as api:
        [token] = api.enrol(1)
        assert api.post("/v1/users/0/token", token=api.operator).status_code == 200
    with Service(tmp_path / "data") as api:
        is_problem(api.get("/v1/me", token=token), "unauthorized")


def test_an_enrolment_token_ends_with_its_time(scene: Scene) -> None:
    mint, post = scene.api.keys.mint, scene.api.post

    is_problem(post("/v1/enrolments", token=mint(EnrolmentToken("old", 1_000_000_000))), "enrolment-over")
    assert post("/v1/enrolments", token=mint(EnrolmentToken("new", 4_000_000_000))).status_code == 201


# ------------------------------------------------------------------------------------------- nobody acts for another


def takes_over(scene: Scene, thief: str) -> bool:
    """Whether a token of somebody else gets a token of user 2."""
    stolen = scene.api.post("/v1/users/2/token", token=thief)
    return stolen.status_code == 200 and scene.api.get("/v1/me", token=stolen.json()["token"]).json()["user"] == 2


def test_nobody_but_her_and_the_operator_gets_a_token_of_a_user(scene: Scene) -> None:
    for thief in (scene.api.enrolment, scene.users[0], str(scene.study["gateway_token"])):
        assert not takes_over(scene, thief)
    assert scene.api.get("/v1/me", token=scene.users[2]).status_code == 200
    # The control: what is looked for is found where it is allowed.
    assert takes_over(scene, scene.api.operator)


def test_a_user_renews_her_token_by_showing_it_and_only_once(scene: Scene) -> None:
    path, old = "/v1/users/1/token", scene.users[1]
    new = scene.api.post(path, token=old).json()["token"]

    is_problem(scene.api.post(path, token=old), "unauthorized")
    is_problem(scene.api.get("/v1/me", token=old), "unauthorized")
    assert scene.api.get("/v1/me", token=new).json()["user"] == 1


def test_a_report_is_of_the_user_of_the_token_whatever_else_is_said(scene: Scene) -> None:
    path = f"/v1/rounds/{scene.round}/reports"
    token = scene.users[1]

    is_problem(scene.api.post(path, token=token, json={"outcome": 1, "user": 0}), "invalid-report")
    for more in ({"params": {"user": 0}}, {"headers": {"X-User": "0"}}):
        assert scene.api.post(path, token=token, json={"outcome": 1}, **more).json()["user"] == 1
    assert scene.api.get("/v1/me", token=token, params={"user": 0}).json()["user"] == 1
    assert scene.api.get("/v1/me", token=scene.users[0]).json()["spent_micro_epsilon"] == 0


def test_an_operator_reports_for_no_one_in_any_form(scene: Scene) -> None:
    for round_ in (scene.round, scene.real_round):
        is_problem(scene.api.report(round_, scene.api.operator), "forbidden")
        is_problem(scene.api.batch(round_, scene.api.operator, [0], [1]), "forbidden")


@pytest.mark.parametrize(
    ("first", "count", "users", "passes"),
    [
        (0, 3, [0, 1, 2], True),
        (1, 1, [1], True),
        (1, 1, [1, 1], True),
        (1, 0, [], True),
        (1, 0, [1], False),
        (1, 1, [0], False),
        (1, 1, [2], False),
        (1, 2, [1, 2, 0], False),
        (1, 2, [2, 3], True),  # There is no user 3, which the verdict says.
        (1, 1, [2, 3], False),
        (0, 1 << 48, [0, (1 << 48) - 1], True),
    ],
)
def test_a_gateway_speaks_for_its_range_of_its_simulated_study(
    scene: Scene, first: int, count: int, users: list[int], passes: bool
) -> None:
    mint = scene.api.keys.mint
    outcomes = [1] * len(users)
    here = scene.api.batch(scene.round, mint(GatewayToken(str(scene.study["id"]), first, count)), users, outcomes)
    in_real = scene.api.batch(
        scene.real_round, mint(GatewayToken(str(scene.real["id"]), first, count)), users, outcomes
    )

    is_problem(in_real, "forbidden")
    if passes:
        assert here.status_code == 200
    else:
        is_problem(here, "forbidden")
        assert scene.api.get(f"/v1/rounds/{scene.round}").json()["received"] == 0


def test_no_token_and_no_key_shows_in_any_answer_or_in_any_file_that_others_can_read(scene: Scene) -> None:
    secrets = [scene.api.operator, scene.api.enrolment, *scene.users, str(scene.study["gateway_token"])]
    texts = [
        scene.api.get(path(scene), token=scene.api.operator).text
        for path in OPEN.values()
        if "events" not in path(scene)
    ]
    texts += [call(scene, token).text for _, _, call in GUARDED.values() for token in secrets[:2]]
    files = [file for file in scene.api.directory.iterdir() if file.suffix in {".token", ".key"}]

    assert not [secret for secret in secrets for text in texts if secret in text]
    assert [file.stat().st_mode & 0o077 for file in files] == [0, 0, 0]
    assert scene.api.directory.stat().st_mode & 0o077 == 0
