"""The REST interface, endpoint by endpoint: shapes, status codes, problem documents, and a report's life."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
import schemathesis
from prometheus_client.parser import text_string_to_metric_families

from askance_protocol import canonical
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Constant
from askance_protocol.reports import ReportBatch, encode_raw
from askance_protocol.rounds.bulletin import Bulletin, read_entry
from askance_protocol.schema import BitsField, Schema
from askance_server.api import studies, version
from askance_server.auth import GatewayToken, UserToken
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters
from askance_server.dashboard.assets import assets
from askance_server.problems import MEDIA_TYPE, PROBLEMS
from askance_server.public_answers import PublicAnswer, PublicAnswers
from askance_server.strategies.registry import registry
from tests.harness.marks import SECONDS
from tests.harness.servers import Json, ServerProcess, Service, bearer, is_problem, prepared, serving

NOTHING = "0" * 64
MEAN_OF_ALL: Json = {"users": "all", "tolerance": "0.3"}
TINY: dict[str, Any] = {"body_limit": 1024}


@pytest.fixture
def api(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="1") as service:
        yield service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """A real process, for what only a socket shows."""
    with serving(tmp_path_factory.mktemp("server") / "data", "--cap", "1") as process:
        yield process


def opened(api: Service, users: int = 3, **more: Any) -> tuple[list[str], Json, str]:
    """Users, and a study of all of them: the tokens, the study, and the id of its open round."""
    tokens = api.enrol(users)
    study = api.study(parameters=MEAN_OF_ALL, **more)
    return tokens, study, study["rounds"][0]["id"]


def me(api: Service, token: str) -> Json:
    account: Json = api.get("/v1/me", token=token).json()
    return account


# ------------------------------------------------------------------------------------------------------ upkeep


def test_health_says_the_versions_and_readiness_commits_to_the_ledger(api: Service) -> None:
    alive, ready = api.get("/healthz"), api.get("/readyz")

    assert alive.status_code == ready.status_code == 200
    assert alive.json()["status"] == "alive"
    assert ready.json()["status"] == "ready"
    assert alive.json()["protocol"] == 1


def test_metrics_are_prometheus_text_and_count_what_happened(api: Service) -> None:
    tokens, _, round_ = opened(api)
    for token in (tokens[0], tokens[0], tokens[1]):
        api.report(round_, token)
    response = api.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    samples = {
        (sample.name, *sample.labels.values()): sample.value for each in families.values() for sample in each.samples
    }

    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert samples["askance_reports_total", "accepted"] == 2
    assert samples["askance_reports_total", "repeated"] == 0, "of so few nothing is told"
    assert samples["askance_users",] == 3
    assert samples["askance_studies", "sealed"] == 1
    assert samples["askance_rounds", "open"] == 1
    assert samples["askance_commit_seconds_count",] == 3


def test_the_page_of_the_endpoints_needs_no_network_and_no_other_host(api: Service) -> None:
    page = api.get("/docs")

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"https?:|@import|url\(|//[a-z]", page.text)
    assert set(re.findall(r'src="([^"]+)"', page.text)) <= set(map(assets().address, assets().files))
    assert page.text.count('<tr role="row"><th scope="row"') == sum(
        len(ops) for ops in api.app.openapi()["paths"].values()
    )
    assert "/v1/rounds/{round_}/reports" in page.text


def test_the_openapi_document_is_valid_and_carries_every_problem_as_an_example(api: Service) -> None:
    document = api.get("/openapi.json").json()
    schemathesis.openapi.from_dict(document).validate()
    shown = {
        example["value"]["type"]
        for operations in document["paths"].values()
        for operation in operations.values()
        for response in operation["responses"].values()
        for example in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {}).values()
    }
    everywhere = {example["value"]["type"] for example in document["components"]["examples"].values()}
    # This one is no operation's: a method that a path lacks.
    elsewhere = {PROBLEMS["method-not-allowed"].type}

    assert everywhere == {problem.type for problem in PROBLEMS.values()}
    assert shown == everywhere - elsewhere


def test_the_openapi_document_has_every_path_of_the_contract(api: Service) -> None:
    described = {
        (method.upper(), re.sub(r"\{\w+\}", "{id}", path))
        for path, operations in api.get("/openapi.json").json()["paths"].items()
        for method in operations
    }

    assert described == {
        ("POST", "/v1/studies"),
        ("GET", "/v1/studies"),
        ("GET", "/v1/studies/{id}"),
        ("GET", "/v1/studies/{id}/bulletin"),
        ("GET", "/v1/studies/{id}/events"),
        ("GET", "/v1/studies/{id}/result"),
        ("POST", "/v1/studies/{id}/cancel"),
        ("POST", "/v1/enrolments"),
        ("POST", "/v1/enrolment-tokens"),
        ("POST", "/v1/enrolment-codes"),
        ("GET", "/v1/users"),
        ("GET", "/v1/me"),
        ("POST", "/v1/users/{id}/token"),
        ("GET", "/v1/rounds/{id}"),
        ("POST", "/v1/rounds/{id}/reports"),
        ("POST", "/v1/rounds/{id}/batches"),
        ("POST", "/v1/rounds/{id}/close"),
        ("GET", "/v1/rounds/{id}/tally"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
    }


# --------------------------------------------------------------------------------------------- what holds everywhere


@pytest.mark.parametrize("version", [None, "1"])
def test_the_version_that_is_spoken_passes_and_every_answer_names_it(api: Service, version: str | None) -> None:
    headers = {} if version is None else {"Askance-Protocol": version}
    tokens, _, round_ = opened(api)
    answers = [
        api.get("/healthz", headers=headers),
        api.get("/v1/nothing", headers=headers),
        api.report(round_, tokens[0], headers=headers),
        api.report(round_, None, headers=headers),
    ]

    assert [answer.status_code for answer in answers] == [200, 404, 200, 401]
    assert {answer.headers["askance-protocol"] for answer in answers} == {"1"}


@pytest.mark.parametrize("version", ["2", "0", "01", "1.0", "", "<b>", "9" * 1000])
def test_another_version_is_refused_before_anything_is_done_and_both_are_named(api: Service, version: str) -> None:
    tokens, _, round_ = opened(api)
    headers = {"Askance-Protocol": version}
    refused = [
        api.get("/healthz", headers=headers),
        api.post("/v1/enrolments", token=api.enrolment, headers=headers),
        api.report(round_, tokens[0], headers=headers),
    ]
    details = {is_problem(each, "version-mismatch")["detail"] for each in refused}
    named = version if version in {"2", "0", "01"} else "something else" if not version.isalnum() else version[:16]

    assert details == {f"this server speaks Askance-Protocol 1, the request {named}"}
    assert me(api, tokens[0])["spent_micro_epsilon"] == 0
    assert api.enrol(1)[0] == api.keys.mint(UserToken(3, 0))


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/studies", "GET, POST"),
        ("GET", f"/v1/rounds/{NOTHING}/reports", "POST"),
        ("PUT", f"/v1/rounds/{NOTHING}/batches", "POST"),
        ("POST", "/healthz", "GET"),
        ("HEAD", "/v1/me", "GET"),
    ],
)
def test_a_method_that_a_path_lacks_is_refused_with_all_that_it_has(
    api: Service, method: str, path: str, allowed: str
) -> None:
    response = api.request(method, path)

    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert method == "HEAD" or is_problem(response, "method-not-allowed")


@pytest.mark.parametrize("id_", [NOTHING, "x", "0" * 63, "A" * 64, "%00", NOTHING + "%0A", "é"])
def test_what_is_not_there_is_a_problem_document_at_every_path(api: Service, id_: str) -> None:
    token = api.keys.mint(GatewayToken(NOTHING, 0, 1))
    [user] = api.enrol(1)
    answers = [api.get(f"/v1/studies/{id_}{tail}") for tail in ("", "/bulletin", "/result", "/events")]
    answers += [api.get(f"/v1/rounds/{id_}{tail}") for tail in ("", "/tally")]
    answers += [api.post(f"/v1/studies/{id_}/cancel", token=api.operator)]
    answers += [api.post(f"/v1/rounds/{id_}/close", token=api.operator)]
    answers += [api.batch(id_, token, [0], [0]), api.report(id_, user), api.get(f"/v1/{id_}"), api.get(f"/{id_}")]

    for answer in answers:
        is_problem(answer, "not-found")
        assert len(id_) < 3 or id_ not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {"title": "t", "strategy": "mean", "sekret": 1},
        {"title": "t", "strategy": "mean", "cap": 1000},
        {"title": "t"},
        {"title": "", "strategy": "mean"},
        {"title": "t" * 201, "strategy": "mean"},
        {"title": 7, "strategy": "mean"},
        {"title": "t", "strategy": "mean", "simulated": "true"},
        {"title": "t", "strategy": "mean", "simulated": 1},
        {"title": "t", "strategy": "mean", "parameters": {"tolerance": 0.5}},
        {"title": "t", "strategy": "mean", "parameters": {"tolerance": None}},
        {"title": "t", "strategy": "mean", "parameters": {"tolerance": "0.sekret"}},
        {"title": "t", "strategy": "mean", "parameters": {"tolerance": "1"}},
        {"title": "t", "strategy": "mean", "parameters": {"epsilon": 1}},
        {"title": "t", "strategy": "mean", "parameters": {"epsilon": "0"}},
        {"title": "t", "strategy": "mean", "parameters": {"users": "sekret"}},
        {"title": "t", "strategy": "mean", "parameters": {"beta": "2"}},
        {"title": "t", "strategy": "mean", "parameters": {"Sekret!": 1}},
        {"title": "t", "strategy": "mean", "parameters": {"denominator": 1 << 60}},
        {"title": "t", "strategy": "masked-parity", "parameters": {"d": 3}},
        {"title": "t", "strategy": "masked-parity"},
        {"title": "t", "strategy": "sekret/../mean"},
        {"title": "t", "strategy": "no-such-strategy"},
        ["sekret"],
        "sekret",
        None,
        {},
    ],
)
def test_a_study_that_is_not_exactly_of_the_form_is_refused_and_not_repeated(api: Service, body: object) -> None:
    refused = api.post("/v1/studies", token=api.operator, json=body)
    document = is_problem(refused, "invalid-request")

    assert document["detail"]
    assert "sekret" not in refused.text.lower()
    assert api.get("/v1/studies").json() == []


@pytest.mark.parametrize(
    "body", [b"{", b"[" * 16_000, b"\xff\xfe", b'{"users": NaN}', b'{"users":' + b"1" * 5000 + b"}", b"sekret"]
)
def test_a_body_that_is_not_json_is_refused_and_not_repeated(api: Service, body: bytes) -> None:
    for path, token in (("/v1/enrolments", api.enrolment), ("/v1/studies", api.operator)):
        refused = api.post(path, token=token, content=body, headers={"Content-Type": "application/json"})

        is_problem(refused, "invalid-request")
        assert "sekret" not in refused.text


@pytest.mark.parametrize("users", ["3", 3.0, True, None, 0, -1, 10_000_001, [3], {"count": 3}])
def test_an_enrolment_takes_a_whole_number_and_coerces_nothing(api: Service, users: object) -> None:
    is_problem(api.post("/v1/enrolments", token=api.enrolment, json={"users": users}), "invalid-request")
    assert "askance_users 0.0" in api.get("/metrics").text


def test_a_body_of_another_kind_is_415_and_one_without_a_kind_is_json(api: Service) -> None:
    tokens, study, round_ = opened(api, simulated=True)
    posts = [
        ("/v1/studies", api.operator, b'{"title":"t","strategy":"mean","parameters":{"users":"all"}}', 201),
        ("/v1/enrolments", api.enrolment, b'{"users":1}', 201),
        (f"/v1/rounds/{round_}/batches", study["gateway_token"], b'{"users":[],"outcomes":[]}', 200),
        (f"/v1/rounds/{round_}/reports", tokens[0], b'{"outcome":1}', 200),
    ]
    for path, token, body, status in posts:
        for kind in ("text/plain", "application/xml", "application/jsonx", "multipart/form-data", ""):
            refused = api.post(path, token=token, content=body, headers={"Content-Type": kind})
            is_problem(refused, "unsupported-media-type")
        for kinds in ({}, {"Content-Type": "application/json; charset=utf-8"}, {"Content-Type": "Application/JSON"}):
            assert api.post(path, token=token, content=body, headers=kinds).status_code == status


def test_a_body_over_the_limit_is_413_whether_its_length_is_announced_or_not(tmp_path: Path) -> None:
    async def pieces() -> Any:
        for _ in range(3):
            yield b" " * 512

    with Service(tmp_path / "data", **TINY) as api:
        tokens, study, round_ = opened(api, simulated=True)
        posts = [
            ("/v1/studies", api.operator),
            ("/v1/enrolments", api.enrolment),
            (f"/v1/rounds/{round_}/batches", study["gateway_token"]),
            (f"/v1/rounds/{round_}/reports", tokens[0]),
        ]
        for path, token in posts:
            for body in (b" " * 1025, pieces()):
                refused = api.post(path, token=token, content=body, headers={"Content-Type": "application/json"})
                is_problem(refused, "body-too-large")
                assert refused.headers["connection"] == "close"


LENGTHS: Final[dict[str, str]] = {
    # As it comes, and what it means: a length, or a request that cannot be read.
    "12": "12",
    " 12": "12",
    "12 ": "12",
    "\t12 \t": "12",
    "0012": "12",
    "0" * 5_000 + "12": "12",
    "1 2": "",
    "-1": "",
    "+12": "",
    "": "",
    " ": "",
    "0x10": "",
    "12,12": "",
    "1e1": "",
    "9" * 5_000: "99999999999999999999",
}


def lengths_read(api: Service, study: Json) -> dict[str, dict[str, int]]:
    """The status of each length on each path, by each kind of body."""
    [round_] = study["rounds"]
    raw = {"Content-Type": "application/octet-stream"}
    paths: dict[str, tuple[str, str, str, dict[str, str], str]] = {
        "studies": ("POST", "/v1/studies", api.operator, {}, "{}"),
        "enrolments": ("POST", "/v1/enrolments", api.enrolment, {}, '{"users":-1}'),
        "reports": ("POST", f"/v1/rounds/{round_['id']}/reports", api.enrol(1)[0], {}, '{"outcome":9}'),
        "batches": ("POST", f"/v1/rounds/{round_['id']}/batches", study["gateway_token"], {}, "[]          "),
        "raw batches": ("POST", f"/v1/rounds/{round_['id']}/batches", study["gateway_token"], raw, "too short"),
        "account": ("GET", "/v1/me", api.enrol(1)[0], {}, ""),
        "page": ("GET", "/", api.operator, {}, ""),
    }
    return {
        name: {
            length: api.request(
                method, path, token=token, content=body, headers={**more, "Content-Length": length}
            ).status_code
            for length in LENGTHS
        }
        for name, (method, path, token, more, body) in paths.items()
    }


def wrong_lengths(read: dict[str, dict[str, int]]) -> list[tuple[str, str]]:
    """Paths and lengths that are not read as what they mean."""
    due = {"12": "12", "": "1 2", "99999999999999999999": "9" * 5_000}
    return [
        (name, length)
        for name, statuses in read.items()
        for length, meaning in LENGTHS.items()
        if statuses[length] != statuses[due[meaning]] or (statuses[length] == 400) != (meaning == "")
    ]


def test_a_length_is_read_alike_by_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(tmp_path / "data", cap="9") as api:
        api.enrol(3)
        study = api.study(simulated=True)
        read = lengths_read(api, study)
        assert wrong_lengths(read) == []
        assert {statuses["9" * 5_000] for statuses in read.values()} == {413}
        # The control: a reader that takes what it cannot read for no length.
        monkeypatch.setattr(version, "_digits", lambda length: length[:20] if length.isdigit() else b"0")
        assert wrong_lengths(lengths_read(api, study)) != []


@pytest.mark.parametrize("announced", [True, False])
def test_after_a_413_the_server_hangs_up_without_reading_the_rest(server: ServerProcess, announced: bool) -> None:
    head = "POST /v1/enrolments HTTP/1.1\r\nHost: askance\r\nContent-Type: application/json\r\n"
    length = f"Content-Length: {1 << 40}\r\n\r\n" if announced else "Transfer-Encoding: chunked\r\n\r\n"
    token = f"Authorization: Bearer {server.enrolment}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
        connection.sendall((head + token + length).encode())
        for _ in range(0 if announced else 16):
            connection.sendall(b"400\r\n" + b" " * (1 << 10) + b"\r\n")
        # The first byte too many is the last one sent: what is left unread would reset the connection.
        connection.sendall(b"" if announced else b"1\r\n \r\n")
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "urn:askance:problem:body-too-large"


def test_an_error_of_the_server_itself_says_nothing_of_its_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("sekret")

    with Service(tmp_path / "data", raising=False) as api:
        monkeypatch.setattr(type(api.app.state.aggregator.ledger), "studies", fails)
        failed = api.get("/v1/studies")
        monkeypatch.undo()

    is_problem(failed, "internal")
    assert "sekret" not in failed.text
    assert "ZeroDivision" not in failed.text


# ------------------------------------------------------------------------------------------------------- users


def test_enrolments_give_the_next_numbers_and_a_token_each_where_they_are_few(api: Service) -> None:
    alone = api.post("/v1/enrolments", token=api.enrolment)
    several = api.post("/v1/enrolments", token=api.enrolment, json={"users": 3})
    many = api.post("/v1/enrolments", token=api.enrolment, json={"users": 10_001})
    mint = api.keys.mint

    assert [each.status_code for each in (alone, several, many)] == [201, 201, 201]
    assert alone.json() == {
        "user": 0,
        "users": 1,
        "cap_micro_epsilon": 1_000_000,
        "token": mint(UserToken(0, 0)),
        "tokens": [],
    }
    assert several.json()["user"] == 1
    assert several.json()["token"] is None
    assert several.json()["tokens"] == [mint(UserToken(user, 0)) for user in (1, 2, 3)]
    assert (many.json()["user"], many.json()["users"], many.json()["tokens"]) == (4, 10_001, [])


def test_no_more_users_enrol_than_the_server_has_room_for(tmp_path: Path) -> None:
    with Service(tmp_path / "data", user_limit=5) as api:
        api.enrol(3)
        is_problem(api.post("/v1/enrolments", token=api.enrolment, json={"users": 3}), "invalid-request")
        api.enrol(2)
        is_problem(api.post("/v1/enrolments", token=api.enrolment), "invalid-request")


def test_an_account_shows_cap_spending_and_charges(api: Service) -> None:
    tokens, _, round_ = opened(api)
    before = me(api, tokens[1])
    api.report(round_, tokens[1])
    after = me(api, tokens[1])

    assert before == {
        "user": 1,
        "cap_micro_epsilon": 1_000_000,
        "spent_micro_epsilon": 0,
        "remaining_micro_epsilon": 1_000_000,
        "charges": [],
    }
    assert (after["spent_micro_epsilon"], after["remaining_micro_epsilon"]) == (1_000_000, 0)
    assert after["charges"] == [{"round": round_, "micro_epsilon": 1_000_000}]
    assert me(api, tokens[0])["spent_micro_epsilon"] == 0


def test_a_token_of_a_user_unknown_to_the_ledger_is_not_valid(api: Service) -> None:
    _, _, round_ = opened(api)
    stranger = api.keys.mint(UserToken(99, 0))

    is_problem(api.get("/v1/me", token=stranger), "unauthorized")
    is_problem(api.report(round_, stranger), "unauthorized")


# ----------------------------------------------------------------------------------------------------- studies


def test_a_new_study_is_sealed_or_running_with_its_first_round_open(api: Service) -> None:
    api.enrol(10)
    created = api.post(
        "/v1/studies",
        token=api.operator,
        json={"title": "Émile's", "strategy": "mean", "parameters": MEAN_OF_ALL},
    )
    study = created.json()
    interactive = api.study("masked-parity", {"d": 4, "users": "all"})

    assert created.status_code == 201
    assert study["study"]["title"] == "Émile's"
    assert (study["state"], interactive["state"]) == ("sealed", "running")
    assert (study["length"], [each["state"] for each in study["rounds"]]) == (2, ["open"])
    assert study["rounds"][0]["received"] == 0
    # A reader gets the documents that the ids name.
    assert prepared(study).id == study["rounds"][0]["id"]
    assert prepared(study).study.digest() == study["id"]


def test_studies_are_listed_in_order_and_read_one_by_one(api: Service) -> None:
    api.enrol(10)
    studies = [api.study(parameters={"users": "all", "epsilon": "0.25"}) for _ in range(3)]

    assert api.get("/v1/studies").json() == studies
    assert [api.get(f"/v1/studies/{study['id']}").json() for study in studies] == studies
    assert len({study["id"] for study in studies}) == 3


def test_only_the_answer_to_who_creates_a_simulated_study_holds_a_gateway_token(api: Service) -> None:
    api.enrol(10)
    real, simulated = api.study(), api.study(simulated=True)
    listed = api.get("/v1/studies").text + api.get(f"/v1/studies/{simulated['id']}").text

    assert real["gateway_token"] is None
    assert api.keys.read(simulated["gateway_token"], GatewayToken).study == simulated["id"]
    assert "gateway." not in listed


@pytest.mark.parametrize("simulated", [False, True])
def test_a_study_that_would_have_too_few_users_is_refused_and_says_how_many_it_needs(
    api: Service, simulated: bool
) -> None:
    api.enrol(5)
    asked = {"title": "t", "strategy": "mean", "parameters": {"tolerance": "0.3"}, "simulated": simulated}
    refused = is_problem(api.post("/v1/studies", token=api.operator, json=asked), "too-few-users")

    assert re.match(r"round 1: needs [\d,]+ users who can still pay ε = 1, and 5 are left", refused["detail"])
    assert api.get("/v1/studies").json() == []
    # The control: with as many as it says, the same study is opened.
    api.enrol(int(refused["detail"].split()[3]) - 5)
    assert api.post("/v1/studies", token=api.operator, json=asked).json()["state"] == "sealed"


def silent(_: Parameters) -> Asking:
    """A strategy that fails before it asks anything."""
    raise ValueError("no column of that name")
    yield []


def too_exact(_: Parameters) -> Asking:
    """A strategy that asks for what no number of users gives."""
    yield [Ask(BooleanQuery(test=Constant(truth=True)), 1e-300)]
    return Hypothesis("", {})


def changing(parameters: Parameters) -> Schema:
    """A schema that is another one each time."""
    return Schema(fields=(BitsField(name="x", width=next(WIDTHS)),))


WIDTHS = count(1)
FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "raises at once": ({"run": silent}, "raised ValueError: no column of that name"),
    "asks for too much": ({"run": too_exact}, "round 1: asks[0].tolerance: cannot be met"),
    "returns no hypothesis": ({"run": lambda _: (yield from ())}, "returned a NoneType, not a Hypothesis"),
    "has another schema each time": ({"schema": changing, "over": None}, "schema"),
}


@pytest.mark.parametrize("fault", FAILING)
def test_a_study_whose_strategy_fails_at_its_first_step_is_refused_with_the_reason(api: Service, fault: str) -> None:
    api.enrol(5)
    more, reason = FAILING[fault]
    faulty = replace(registry()["mean"], name="faulty", **more)
    api.app.state.aggregator.strategies = api.app.state.aggregator.driver.strategies = {"faulty": faulty, **registry()}
    asked = {"title": "t", "strategy": "faulty", "parameters": {"users": "all"}}
    answer = api.post("/v1/studies", token=api.operator, json=asked)

    assert answer.status_code == 422
    assert reason in answer.json()["detail"]
    assert api.get("/v1/studies").json() == []
    # The control: the strategy that it was made from is opened.
    assert api.study()["state"] == "sealed"


def test_no_more_studies_run_than_the_server_allows(tmp_path: Path) -> None:
    with Service(tmp_path / "data", study_limit=2) as api:
        api.enrol(3)
        first, _ = api.study(), api.study()
        asked = {"title": "t", "strategy": "mean", "parameters": {"users": "all"}}
        is_problem(api.post("/v1/studies", token=api.operator, json=asked), "too-many-studies")
        assert len(api.get("/v1/studies").json()) == 2
        api.post(f"/v1/studies/{first['id']}/cancel", token=api.operator)
        api.study()


def test_a_strategy_of_more_rounds_than_the_server_allows_is_refused(tmp_path: Path) -> None:
    with Service(tmp_path / "data", round_limit=1) as api:
        api.enrol(3)
        asked = {"title": "t", "strategy": "masked-parity", "parameters": {"d": 4}}
        document = is_problem(api.post("/v1/studies", token=api.operator, json=asked), "invalid-request")
        assert "2 rounds" in document["detail"]
        assert api.get("/v1/studies").json() == []


@pytest.mark.parametrize(("epsilon", "status"), [("0.000001", 422), ("0.009999", 422), ("0.01", 201)])
def test_a_study_that_no_client_would_answer_is_not_opened(tmp_path: Path, epsilon: str, status: int) -> None:
    """The last is the control: the least that is answered."""
    with Service(tmp_path / "data") as api:
        api.enrol(3)
        asked = {"title": "t", "strategy": "mean", "parameters": {"users": "all", "epsilon": epsilon}}
        answer = api.post("/v1/studies", token=api.operator, json=asked)

        assert answer.status_code == status
        if status == 422:
            detail = is_problem(answer, "invalid-request")["detail"]
            assert detail.startswith("parameters.epsilon: ")
            assert detail.endswith("(give 0.01 or more)")
            assert api.get("/v1/studies").json() == []


def test_the_bulletin_is_a_chain_that_a_reader_can_check_and_take_up_anywhere(api: Service) -> None:
    _, study, _ = opened(api)
    api.post(f"/v1/studies/{study['id']}/cancel", token=api.operator)
    path = f"/v1/studies/{study['id']}/bulletin"
    whole = api.get(path).json()
    entries = [read_entry(json.dumps(entry)) for entry in whole["entries"]]
    followed = Bulletin().extend(entries)

    assert (followed.head, followed.length) == (whole["head"], whole["length"])
    assert [entry.notice.kind for entry in entries] == ["study", "round", "ended"]
    assert api.get(path, params={"after": -1}).json() == whole
    assert api.get(path, params={"after": 0}).json()["entries"] == whole["entries"][1:]
    assert api.get(path, params={"after": 2}).json()["entries"] == []
    assert api.get(path, params={"after": 1 << 53}).json()["entries"] == []
    for wrong in ("-2", "x", "1.5", "", str(1 << 60)):
        is_problem(api.get(path, params={"after": wrong}), "invalid-request")


def pieces_of(api: Service, path: str) -> list[Json]:
    """The answers until there is nothing more to read."""
    pieces, after = [api.get(path).json()], 0
    while pieces[-1]["entries"]:
        after = pieces[-1]["entries"][-1]["sequence"]
        pieces.append(api.get(path, params={"after": after}).json())
    return pieces[:-1]


@pytest.mark.parametrize(("piece", "count"), [(1, 3), (1200, 2)])
def test_a_long_bulletin_comes_in_pieces_each_of_which_is_a_bulletin(
    api: Service, monkeypatch: pytest.MonkeyPatch, piece: int, count: int
) -> None:
    _, study, _ = opened(api)
    api.post(f"/v1/studies/{study['id']}/cancel", token=api.operator)
    path = f"/v1/studies/{study['id']}/bulletin"
    [whole] = pieces_of(api, path)
    monkeypatch.setattr("askance_server.api.studies._PIECE", piece)
    aggregator = api.app.state.aggregator
    aggregator.answers = PublicAnswers(aggregator.answers.workers)  # One that remembers nothing yet.
    pieces = pieces_of(api, path)

    assert len(pieces) == count
    assert are_a_bulletin(pieces, whole)

    # The control: pieces that name the head of all there is, which the entries in them do not lead to; and pieces
    # that begin one entry too late.
    answer = studies._bulletin_answer
    for fault in (of_the_whole, too_late):
        aggregator.answers = PublicAnswers(aggregator.answers.workers)
        with monkeypatch.context() as patch:
            patch.setattr(studies, "_bulletin_answer", lambda *asked, fault=fault: fault(answer(*asked), whole))
            assert not are_a_bulletin(pieces_of(api, path), whole)


def are_a_bulletin(pieces: list[Json], whole: Json) -> bool:
    """Whether these pieces are a bulletin, and each is the beginning of it as far as one has read."""
    if [entry for each in pieces for entry in each["entries"]] != whole["entries"]:
        return False
    bulletin, seen = Bulletin(), list[tuple[str, int]]()
    for each in pieces:
        bulletin = bulletin.extend(read_entry(json.dumps(entry)) for entry in each["entries"])
        seen.append((bulletin.head, bulletin.length))
    return seen == [(each["head"], each["length"]) for each in pieces] and seen[-1] == (whole["head"], whole["length"])


def of_the_whole(answer: PublicAnswer, whole: Json) -> PublicAnswer:
    said = {**json.loads(answer.body), "head": whole["head"], "length": whole["length"]}
    return replace(answer, body=json.dumps(said).encode())


def too_late(answer: PublicAnswer, _: Json) -> PublicAnswer:
    said = json.loads(answer.body)
    return replace(answer, body=json.dumps({**said, "entries": said["entries"][1:]}).encode())


def test_what_has_a_digest_is_shown_in_the_very_form_that_was_digested(api: Service) -> None:
    """A histogram's cell query leaves a member out; a null in its place would be another document."""
    api.enrol(3)
    study = api.study("histogram", {"cells": 3, "users": "all"})
    entries = api.get(f"/v1/studies/{study['id']}/bulletin").json()["entries"]
    [round_] = study["rounds"]

    assert canonical.digest(study["study"]) == study["id"]
    assert canonical.digest(round_["round"]) == round_["id"]
    assert canonical.digest(entries[-1]) == study["head"]
    assert [read_entry(canonical.dumps(entry)).sequence for entry in entries] == [0, 1]
    assert canonical.digest(api.get(f"/v1/rounds/{round_['id']}").json()["round"]) == round_["id"]


def test_of_those_who_close_or_cancel_at_once_one_does(api: Service) -> None:
    api.enrol(4)
    study = api.study()
    close = ("POST", f"/v1/rounds/{study['rounds'][0]['id']}/close", api.operator, {})
    told = api.together([close] * 5)
    assert sorted(answer.status_code for answer in told) == [200, 409, 409, 409, 409]
    for answer in told:
        if answer.status_code != 200:
            is_problem(answer, "round-not-open")

    other = api.study(parameters={"users": "all", "epsilon": "0.5"})
    told = api.together([("POST", f"/v1/studies/{other['id']}/cancel", api.operator, {})] * 5)
    assert sorted(answer.status_code for answer in told) == [200, 409, 409, 409, 409]
    for answer in told:
        if answer.status_code != 200:
            is_problem(answer, "study-over")


def test_a_study_is_cancelled_once_and_its_round_takes_nothing_more(api: Service) -> None:
    tokens, study, round_ = opened(api)
    first = api.report(round_, tokens[0])
    cancelled = api.post(f"/v1/studies/{study['id']}/cancel", token=api.operator)

    assert cancelled.status_code == 200
    assert cancelled.json()["state"] == "cancelled"
    assert cancelled.json()["rounds"][0]["state"] == "abandoned"
    is_problem(api.post(f"/v1/studies/{study['id']}/cancel", token=api.operator), "study-over")
    is_problem(api.post(f"/v1/rounds/{round_}/close", token=api.operator), "round-not-open")
    is_problem(api.report(round_, tokens[1]), "round-not-open")
    assert api.report(round_, tokens[0]).content == first.content
    assert me(api, tokens[0])["spent_micro_epsilon"] == 1_000_000
    assert api.get(f"/v1/rounds/{round_}/tally").json()["tallies"] == []


# ---------------------------------------------------------------------------------------------- the life of a report


def test_the_same_report_again_gets_the_same_bytes_and_is_charged_once(api: Service) -> None:
    tokens, _, round_ = opened(api)
    path = f"/v1/rounds/{round_}/reports"
    spellings = [b'{"outcome":1}', b'{"outcome":1}', b' { "outcome" : 1 } ', b'{"outcome":         1}']
    receipts = [api.post(path, token=tokens[0], content=body) for body in spellings]

    assert {receipt.status_code for receipt in receipts} == {200}
    assert len({receipt.content for receipt in receipts}) == 1
    assert receipts[0].json() == {"charged": 1_000_000, "round": round_, "user": 0}
    assert receipts[0].headers["content-type"] == "application/json"
    assert me(api, tokens[0])["spent_micro_epsilon"] == 1_000_000
    assert api.get(f"/v1/rounds/{round_}").json()["received"] == 1


def test_another_report_of_the_same_user_is_a_conflict_and_changes_nothing(api: Service) -> None:
    tokens, _, round_ = opened(api)
    receipt = api.report(round_, tokens[0], 1)

    is_problem(api.report(round_, tokens[0], 0), "conflict")
    assert api.report(round_, tokens[0], 1).content == receipt.content
    assert me(api, tokens[0])["spent_micro_epsilon"] == 1_000_000


def test_a_budget_that_does_not_cover_the_charge_refuses_the_report_for_good(api: Service) -> None:
    [token] = api.enrol(1)
    parameters = {"users": "all", "epsilon": "0.6"}
    # Both are opened while she can afford either.
    first, second = (api.study(parameters=parameters)["rounds"][0]["id"] for _ in range(2))
    receipt = api.report(first, token)

    for _ in range(2):
        is_problem(api.report(second, token), "budget-exceeded")
    assert me(api, token)["spent_micro_epsilon"] == 600_000
    assert api.get(f"/v1/rounds/{second}").json()["received"] == 0
    # A retry is no new charge.
    assert api.report(first, token).content == receipt.content


def test_who_is_not_asked_cannot_report(api: Service) -> None:
    tokens = api.enrol(40)
    round_ = prepared(api.study("masked-parity", {"d": 4, "users": "all"}))
    asked = round_.asked(range(40))
    outside, inside = int(np.flatnonzero(~asked)[0]), int(np.flatnonzero(asked)[0])

    is_problem(api.report(round_.id, tokens[outside]), "not-in-cohort")
    assert api.report(round_.id, tokens[inside]).status_code == 200
    assert me(api, tokens[outside])["spent_micro_epsilon"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"outcome":2}',
        b'{"outcome":-1}',
        b'{"outcome":4294967296}',
        b'{"outcome":1.0}',
        b'{"outcome":true}',
        b'{"outcome":"1"}',
        b'{"outcome":null}',
        b'{"outcome":[1]}',
        b'{"outcome":01}',
        b'{"outcome":1,"outcome":1}',
        b'{"outcome":1,"user":7}',
        b'{"outcome":1,"sekret":7}',
        b'{"sekret":1}',
        b"[1]",
        b"1",
        b"{}",
        b"",
        b"{",
        b"\xff",
        b'{"outcome":NaN}',
        b'{"outcome":1}{',
    ],
)
def test_what_is_not_exactly_a_report_is_refused_and_not_repeated(api: Service, body: bytes) -> None:
    tokens, _, round_ = opened(api)
    refused = api.post(f"/v1/rounds/{round_}/reports", token=tokens[0], content=body)

    assert is_problem(refused, "invalid-report")["detail"]
    assert "sekret" not in refused.text
    assert me(api, tokens[0])["spent_micro_epsilon"] == 0


def test_a_report_of_more_than_64_bytes_is_not_read(api: Service) -> None:
    tokens, _, round_ = opened(api)
    path = f"/v1/rounds/{round_}/reports"

    assert api.post(path, token=tokens[0], content=b'{"outcome":1}'.ljust(64)).status_code == 200
    too_large = api.post(path, token=tokens[0], content=b'{"outcome":1}'.ljust(65))
    is_problem(too_large, "body-too-large")
    assert too_large.headers["connection"] == "close"


def test_after_a_round_is_closed_a_retry_gets_its_receipt_and_a_late_report_none(api: Service) -> None:
    tokens, study, round_ = opened(api)
    receipt = api.report(round_, tokens[0])
    closed = api.post(f"/v1/rounds/{round_}/close", token=api.operator)

    assert closed.status_code == 200
    assert (closed.json()["state"], closed.json()["received"]) == ("answered", 1)
    assert api.report(round_, tokens[0]).content == receipt.content
    is_problem(api.report(round_, tokens[0], 0), "conflict")
    is_problem(api.report(round_, tokens[1]), "round-not-open")
    is_problem(api.post(f"/v1/rounds/{round_}/close", token=api.operator), "round-not-open")
    reason = api.get(f"/v1/studies/{study['id']}/result").json()["reason"]
    assert reason.endswith("(fewer reports than planned: round 1 had 1 of 3 reports)")


def test_a_round_that_is_closed_without_any_report_fails_its_study(api: Service) -> None:
    _, study, round_ = opened(api)
    closed = api.post(f"/v1/rounds/{round_}/close", token=api.operator)
    result = api.get(f"/v1/studies/{study['id']}/result").json()

    assert closed.json()["state"] == "abandoned"
    assert result["state"] == "failed"
    assert result["reason"] == "round 1: closed at 0 of 3 reports, and 1 of its 1 part had none"


def test_the_last_report_closes_the_round_and_ends_the_study_with_a_result(api: Service) -> None:
    tokens, study, round_ = opened(api)
    receipts = [api.report(round_, token, outcome) for token, outcome in zip(tokens, (1, 1, 0), strict=True)]
    result = api.get(f"/v1/studies/{study['id']}/result").json()
    # Keeping a bit with probability e/(1 + e), a share of 2/3 ones in [−1, 1] is (1/3)·(e + 1)/(e − 1).
    mean = (np.e + 1) / (np.e - 1) / 3

    assert {receipt.status_code for receipt in receipts} == {200}
    assert result["state"] == "finished"
    assert result["hypothesis"]["mean"] == pytest.approx(mean, abs=1e-9)
    assert result["text"] in result["reason"]
    assert api.get(f"/v1/rounds/{round_}").json()["state"] == "answered"


def test_the_tally_is_hidden_while_the_round_is_open_and_shown_afterwards(api: Service) -> None:
    tokens, study, round_ = opened(api)
    path = f"/v1/rounds/{round_}/tally"
    api.report(round_, tokens[0], 1)
    api.report(round_, tokens[1], 0)
    hidden = api.get(path).json()
    everything = "".join(
        api.get(each).text for each in (f"/v1/studies/{study['id']}", f"/v1/rounds/{round_}", "/v1/studies")
    )
    api.post(f"/v1/rounds/{round_}/close", token=api.operator)

    assert hidden == {"round": round_, "state": "open", "received": 2, "told": 0, "tallies": [], "estimates": []}
    assert "tallies" not in everything
    shown = api.get(path).json()
    [estimates] = shown.pop("estimates")
    assert shown == {"round": round_, "state": "answered", "received": 2, "told": 2, "tallies": [[[1, 1]]]}
    # One of two said yes, so the mean is estimated as 0, and might be anything: 2 users, ε = 1.
    liars = estimates.pop("liars")
    assert estimates == {"values": [0.0], "low": [-1.0], "high": [1.0], "confidence": 0.95}
    # Five times as many liars move an estimate five times as far; how far is `core.liars`' part.
    assert [each["share"] for each in liars] == [0.01, 0.05]
    assert liars[1]["shift"] == pytest.approx(5 * liars[0]["shift"])


def test_reports_beyond_the_queue_are_turned_away_before_anything_is_done(tmp_path: Path) -> None:
    with Service(tmp_path / "data", queue_limit=4) as api:
        tokens, study, round_ = opened(api, users=20)
        path = f"/v1/rounds/{round_}/reports"
        answers = api.together([("POST", path, token, {"json": {"outcome": 1}}) for token in tokens])
        refused = [token for token, answer in zip(tokens, answers, strict=True) if answer.status_code != 200]
        accounts = [me(api, token)["spent_micro_epsilon"] for token in refused]

        assert len(refused) == 16
        assert accounts == [0] * 16
        assert api.get(f"/v1/rounds/{round_}").json()["received"] == 4
        for answer in answers:
            if answer.status_code != 200:
                is_problem(answer, "queue-full")
                assert int(answer.headers["retry-after"]) >= 1
        # It is full for a moment only.
        assert [api.report(round_, token).status_code for token in refused] == [200] * 16
        assert api.get(f"/v1/studies/{study['id']}/result").json()["state"] == "finished"


def test_reports_that_arrive_at_once_share_a_commit_and_each_gets_its_own_receipt(api: Service) -> None:
    tokens, _, round_ = opened(api, users=50)
    path = f"/v1/rounds/{round_}/reports"
    answers = api.together([("POST", path, token, {"json": {"outcome": 1}}) for token in [*tokens, *tokens]])
    commits = re.search(r"askance_commit_seconds_count (\S+)", api.get("/metrics").text)

    assert [answer.json()["user"] for answer in answers] == [*range(50), *range(50)]
    assert commits is not None
    assert float(commits[1]) == 1
    assert api.get(f"/v1/rounds/{round_}").json()["received"] == 50


# ----------------------------------------------------------------------------------------------------- batches


def raw(users: list[int], outcomes: list[int]) -> bytes:
    return encode_raw(ReportBatch(np.array(users, np.uint64), np.array(outcomes, np.uint32), simulated=True))


def test_a_batch_counts_what_became_of_its_reports(api: Service) -> None:
    tokens, study, round_ = opened(api, users=6, simulated=True)
    api.report(round_, tokens[0], 1)
    api.report(round_, tokens[1], 1)
    verdicts = api.batch(round_, study["gateway_token"], [0, 1, 2, 3, 2, 4, 99], [1, 0, 1, 2, 1, 0, 0])

    assert verdicts.status_code == 200
    assert verdicts.json() == {
        "accepted": 2,
        "repeated": 2,
        "refused": {"conflict": 1, "invalid-report": 1, "unauthorized": 1},
        "first_refused": {"conflict": 1, "invalid-report": 3, "unauthorized": 6},
    }
    assert api.get(f"/v1/rounds/{round_}").json()["received"] == 4


def test_raw_columns_are_the_same_batch_as_json_columns(api: Service) -> None:
    _, study, round_ = opened(api, users=6, simulated=True)
    path, token = f"/v1/rounds/{round_}/batches", study["gateway_token"]
    kind = {"Content-Type": "application/octet-stream"}
    as_raw = api.post(path, token=token, content=raw([0, 1, 2], [1, 0, 1]), headers=kind)
    as_json = api.batch(round_, token, [0, 1, 2], [1, 0, 1])

    assert as_raw.json() == {"accepted": 3, "repeated": 0, "refused": {}, "first_refused": {}}
    assert as_json.json() == {"accepted": 0, "repeated": 3, "refused": {}, "first_refused": {}}


def test_an_empty_batch_changes_nothing(api: Service) -> None:
    _, study, round_ = opened(api, simulated=True)

    assert api.batch(round_, study["gateway_token"], [], []).json()["accepted"] == 0


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'{"users":[0],"outcomes":[]}'),
        ("application/json", b'{"users":[0]}'),
        ("application/json", b'{"users":[0],"outcomes":[0],"sekret":[]}'),
        ("application/json", b'{"users":[true],"outcomes":[0]}'),
        ("application/json", b'{"users":["sekret"],"outcomes":[0]}'),
        ("application/json", b'{"users":[0.0],"outcomes":[0]}'),
        ("application/json", b'{"users":[-1],"outcomes":[0]}'),
        ("application/json", b'{"users":[281474976710656],"outcomes":[0]}'),
        ("application/json", b'{"users":[0],"outcomes":[NaN]}'),
        ("application/json", b'{"users":[0],"outcomes":[4294967296]}'),
        ("application/json", b'{"users":' + b"[" * 50_000),
        ("application/json", b'{"users":[' + b"1" * 5000 + b'],"outcomes":[0]}'),
        ("application/json", b"[]"),
        ("application/json", b""),
        ("application/octet-stream", b""),
        ("application/octet-stream", b"sekret" * 10),
        ("application/octet-stream", raw([0], [0])[:-1]),
        ("application/octet-stream", raw([0], [0]) + b"\0"),
        ("application/octet-stream", b"ASKB\2" + raw([0], [0])[5:]),
    ],
)
def test_a_batch_that_is_not_exactly_of_the_form_is_refused_whole(api: Service, kind: str, body: bytes) -> None:
    _, study, round_ = opened(api, simulated=True)
    path = f"/v1/rounds/{round_}/batches"
    refused = api.post(path, token=study["gateway_token"], content=body, headers={"Content-Type": kind})

    assert is_problem(refused, "invalid-request")["detail"]
    assert "sekret" not in refused.text
    assert api.get(f"/v1/rounds/{round_}").json()["received"] == 0


def test_a_gateway_reports_in_its_study_and_for_its_range_only(api: Service) -> None:
    _, study, round_ = opened(api, users=6, simulated=True)
    _, other, _ = opened(api, simulated=True)
    api.enrol(1)
    mint = api.keys.mint

    for users in ([1, 2], [2, 5], [4, 3, 2, 9]):
        refused = api.batch(round_, mint(GatewayToken(study["id"], 2, 3)), users, [1] * len(users))
        assert is_problem(refused, "forbidden")["detail"].endswith("users 2 .. 4, and no others")
    is_problem(api.batch(round_, other["gateway_token"], [2], [1]), "forbidden")
    assert api.get(f"/v1/rounds/{round_}").json()["received"] == 0
    assert api.batch(round_, mint(GatewayToken(study["id"], 2, 3)), [2, 4], [1, 1]).json()["accepted"] == 2


def test_a_study_names_the_users_its_gateway_may_report_for(api: Service) -> None:
    api.enrol(6)
    parameters = {"users": "all", "tolerance": "0.3"}
    asked = {"title": "t", "strategy": "mean", "parameters": parameters, "simulated": True}
    asked["gateway"] = {"first_user": 2, "users": 3}
    study = api.post("/v1/studies", token=api.operator, json=asked).json()
    round_ = study["rounds"][0]["id"]

    is_problem(api.batch(round_, study["gateway_token"], [1, 2], [1, 1]), "forbidden")
    assert api.batch(round_, study["gateway_token"], [2, 4], [1, 1]).json()["accepted"] == 2


def test_nobody_reports_in_batches_in_a_study_of_real_users(api: Service) -> None:
    _, study, round_ = opened(api)
    forged = api.keys.mint(GatewayToken(study["id"], 0, 3))

    is_problem(api.batch(round_, forged, [0], [1]), "forbidden")
    is_problem(api.batch(round_, forged, [], []), "forbidden")
    assert api.get(f"/v1/rounds/{round_}").json()["received"] == 0


# ------------------------------------------------------------------------------------------------------ events


def events_of(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Events as the WHATWG standard frames them."""
    event: dict[str, str] = {}
    for line in lines:
        if not line and event:
            yield event
            event = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(":")
            event[name] = value.removeprefix(" ")


def test_an_ended_studys_events_are_its_bulletin_and_then_the_stream_ends(api: Service) -> None:
    tokens, study, round_ = opened(api)
    for token in tokens:
        api.report(round_, token)
    stream = api.get(f"/v1/studies/{study['id']}/events")
    events = list(events_of(iter(stream.text.splitlines())))
    bulletin = api.get(f"/v1/studies/{study['id']}/bulletin").json()

    assert stream.headers["content-type"].startswith("text/event-stream")
    assert [event["event"] for event in events] == ["study", "round", "closed", "answers", "ended"]
    assert [event["id"] for event in events] == ["0", "1", "2", "3", "4"]
    assert Bulletin().extend([read_entry(event["data"]) for event in events]).head == bulletin["head"]


@pytest.mark.parametrize(
    ("last", "rest"),
    [("0", 2), ("1", 1), ("2", 0), ("999999999", 0), ("", 3), ("-1", 3), ("x", 3), ("²", 3), ("1" * 5000, 3)],
)
def test_last_event_id_resumes_and_nonsense_begins_anew(api: Service, last: str, rest: int) -> None:
    _, study, _ = opened(api)
    api.post(f"/v1/studies/{study['id']}/cancel", token=api.operator)
    headers = {"Last-Event-ID": last.encode("latin-1")}
    stream = api.get(f"/v1/studies/{study['id']}/events", headers=headers)

    assert stream.status_code == 200
    assert [int(event["id"]) for event in events_of(iter(stream.text.splitlines()))] == list(range(3 - rest, 3))


def test_a_watcher_sees_reports_counted_and_the_study_end_and_can_reconnect(server: ServerProcess) -> None:
    tokens = server.enrol(3)
    study = server.study(parameters=MEAN_OF_ALL)
    round_ = study["rounds"][0]["id"]
    path = f"/v1/studies/{study['id']}/events"
    seen: list[tuple[str, str]] = []
    with httpx.Client(base_url=server.url, timeout=SECONDS, trust_env=False) as watcher:
        with watcher.stream("GET", path) as stream:
            for event in events_of(stream.iter_lines()):
                seen.append((event["event"], event.get("id", "")))
                if event["event"] == "received":
                    break
        last = seen[-2][1]
        with watcher.stream("GET", path, headers={"Last-Event-ID": last}) as stream:
            for event in events_of(stream.iter_lines()):
                seen.append((event["event"], event.get("id", "")))
                if event["event"] == "received" and tokens:
                    assert server.report(round_, tokens.pop()).status_code == 200

    kept = [each for each in seen if each[0] != "received"]
    assert kept == [("study", "0"), ("round", "1"), ("closed", "2"), ("answers", "3"), ("ended", "4")]
    assert not tokens


# ----------------------------------------------------------------------------------------------- whole studies


def test_a_noninteractive_study_of_many_parts_learns_its_conjunction_from_one_round(tmp_path: Path) -> None:
    with Service(tmp_path / "data", cap="8") as api:
        parameters = {"d": 3, "alpha": "0.5", "epsilon": "8"}
        api.enrol(2000)
        study = api.study("conjunction", parameters, simulated=True)
        round_ = prepared(study)
        asked = np.flatnonzero(round_.asked(range(2000)))[: round_.spec.target]
        # The concept is x_0 ∧ x_2, and everybody's example is positive with x_1 = 0: φ_1 alone is ever 1.
        parts = np.array([round_.question(int(user)).part for user in asked])
        outcomes = (parts == 1).astype(int)
        verdicts = api.batch(round_.id, study["gateway_token"], asked.tolist(), outcomes.tolist())
        result = api.get(f"/v1/studies/{study['id']}/result").json()
        tallies = api.get(f"/v1/rounds/{round_.id}/tally").json()["tallies"]

        assert study["state"] == "sealed"
        assert len(round_.parts) == 3
        assert verdicts.json()["accepted"] == round_.spec.target
        assert [sum(part[0]) for part in tallies] == [int((parts == part).sum()) for part in range(3)]
        assert (result["text"], result["hypothesis"]) == ("x_0 ∧ x_2", {"variables": [0, 2]})
        assert len(api.get(f"/v1/studies/{study['id']}").json()["rounds"]) == 1


def test_a_service_over_the_same_directory_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    with Service(tmp_path / "data", cap="1") as api:
        tokens, study, round_ = opened(api)
        receipt = api.report(round_, tokens[0])
        before = [api.get(path).json() for path in (f"/v1/studies/{study['id']}", f"/v1/rounds/{round_}/tally")]
        operator = api.operator
    with Service(tmp_path / "data", cap="1") as api:
        after = [api.get(path).json() for path in (f"/v1/studies/{study['id']}", f"/v1/rounds/{round_}/tally")]

        assert after == before
        assert api.operator == operator
        assert api.report(round_, tokens[0]).content == receipt.content
        is_problem(api.report(round_, tokens[0], 0), "conflict")
        assert [api.report(round_, token).status_code for token in tokens[1:]] == [200, 200]
        assert api.get(f"/v1/studies/{study['id']}/result").json()["state"] == "finished"


def test_a_process_that_is_told_to_stop_ends_in_good_order_and_frees_its_directory(tmp_path: Path) -> None:
    for _ in range(2):
        process = ServerProcess(tmp_path / "data")
        process.start()
        try:
            assert process.get("/readyz").status_code == 200
        finally:
            code = process.stop()
        assert code == 0


def test_a_bearer_header_is_read_as_http_means_it(api: Service) -> None:
    [token] = api.enrol(1)
    headers = [
        f"bearer {token}",
        f"BEARER  {token}",
        f"Basic {token}",
        f"Bearer {token} x",
        token,
        "Bearer",
        "Bearer é",
    ]
    answers = [api.get("/v1/me", headers={"Authorization": each.encode("latin-1")}).status_code for each in headers]

    assert answers == [200, 200, 401, 401, 401, 401, 401]
    assert api.get("/v1/me", headers=bearer(token)).status_code == 200
