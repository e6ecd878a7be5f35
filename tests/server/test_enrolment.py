"""Enrolment tokens of limited number and time, and kinds of users: nobody acts for another.

What ledgers promise of both is in `ledger/test_ledger_contract.py`, races over replicas in `ledger/test_races.py`.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from askance_protocol.errors import ProtocolError
from askance_server.api.users import MAX_TOKENS
from askance_server.auth import EnrolmentToken, Keys, TokenFiles
from askance_server.ledger import Ticket, UserKinds
from askance_server.ledger.projections import ProjectedLedger
from tests.harness.marks import SECONDS
from tests.harness.servers import Json, Service, is_problem

TICKET: Final = "0f" * 16


@pytest.fixture
def api(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="2") as service:
        yield service


def limited(api: Service, users: int, seconds: int = 60, **more: Any) -> str:
    """A token that the operator has made."""
    made = api.post("/v1/enrolment-tokens", token=api.operator, json={"users": users, "seconds": seconds, **more})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


def enrol(api: Service, token: str, **members: Any) -> httpx.Response:
    return api.post("/v1/enrolments", token=token, json=members)


def kinds(api: Service) -> dict[str, int]:
    """How many users of each kind, those that there are."""
    counted = api.get("/v1/users", token=api.operator).json()
    assert counted["users"] == sum(counted["kinds"].values()) == api.app.state.aggregator.ledger.enrolled()
    return {kind: count for kind, count in counted["kinds"].items() if count}


def claims(token: str) -> Json:
    """What a token says of itself."""
    payload = token.split(".")[1]
    said: Json = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return said


# ------------------------------------------------------------------------------------------------- limited tokens


def test_an_operator_makes_tokens_that_say_their_number_and_their_time(api: Service) -> None:
    before = int(time.time())
    made = api.post("/v1/enrolment-tokens", token=api.operator, json={"users": 3, "seconds": 600}).json()

    assert made.keys() == {"token", "id", "users", "expires", "simulated"}
    assert before + 600 <= made["expires"] <= int(time.time()) + 600
    assert claims(made["token"]) == {
        "label": "ticket",
        "expires": made["expires"],
        "id": made["id"],
        "users": 3,
        "simulated": False,
    }
    assert made["id"] != claims(limited(api, 3))["id"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"users": 3},
        {"seconds": 3},
        {"users": 0, "seconds": 3},
        {"users": 3, "seconds": 0},
        {"users": "3", "seconds": 3},
    ],
)
def test_a_token_without_limits_is_not_made(api: Service, wrong: Json) -> None:
    is_problem(api.post("/v1/enrolment-tokens", token=api.operator, json=wrong), "invalid-request")


def test_a_limited_token_enrols_its_number_and_is_then_a_problem_that_says_what_to_do(api: Service) -> None:
    token = limited(api, 3)

    assert enrol(api, token, users=2).status_code == 201
    too_many = is_problem(enrol(api, token, users=2), "enrolment-over")
    assert too_many["detail"] == "this enrolment token: admits 3 users, and 1 is left"
    assert "operator" in too_many["next"]
    assert api.post("/v1/enrolments", token=token).status_code == 201
    assert is_problem(api.post("/v1/enrolments", token=token), "enrolment-over")["detail"].endswith("all have come")
    # Others are not concerned, and the file goes on to work.
    assert enrol(api, limited(api, 1)).status_code == 201
    assert api.post("/v1/enrolments", token=api.enrolment).status_code == 201
    assert kinds(api) == {"real": 5}


def together(api: Service, token: str, clients: int) -> int:
    """How many of so many clients who come at once are let in."""
    answers = api.together([("POST", "/v1/enrolments", token, {})] * clients)
    assert {answer.status_code for answer in answers} <= {201, 403}
    return [answer.status_code for answer in answers].count(201)


def test_of_many_who_come_at_once_the_number_is_let_in(api: Service) -> None:
    assert together(api, limited(api, 5), 30) == 5
    assert kinds(api) == {"real": 5}


def test_more_are_let_in_where_the_use_is_not_counted_with_the_users(
    api: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a ticket that never counts."""
    monkeypatch.setattr(Ticket, "used", lambda self, before, count: count)

    assert together(api, limited(api, 5), 30) == 30


def test_a_limited_token_is_used_up_after_a_restart_as_well(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as api:
        token = limited(api, 2)
        assert enrol(api, token, users=2).status_code == 201
    with Service(tmp_path / "data") as api:
        is_problem(enrol(api, token), "enrolment-over")


# ---------------------------------------------------------------------------------------------------- one-time codes


def codes(api: Service, number: int, seconds: int = 60, **more: Any) -> list[str]:
    made = api.post("/v1/enrolment-codes", token=api.operator, json={"codes": number, "seconds": seconds, **more})
    assert made.status_code == 201, made.text
    return list(made.json()["codes"])


def test_each_code_lets_in_one_user_once_whoever_comes_first(tmp_path: Path) -> None:
    """Also over a restart, and where all come at once; the same browser, by its key, is who has come already."""
    with Service(tmp_path / "data") as api:
        made = codes(api, 5)
        assert len(set(made)) == 5
        for code in made:
            assert together(api, code, 6) == 1
        is_problem(enrol(api, made[0]), "enrolment-over")
        is_problem(enrol(api, codes(api, 1)[0], users=2), "enrolment-over")
        last = codes(api, 1)[0]
        hers = enrol(api, last, key=KEY)
        assert hers.status_code == 201
        assert kinds(api) == {"real": 6}
    with Service(tmp_path / "data") as api:
        is_problem(enrol(api, made[3]), "enrolment-over")
        is_problem(enrol(api, last, key="5f" * 16), "enrolment-over")
        assert enrol(api, last, key=KEY).json() == hers.json()
        assert kinds(api) == {"real": 6}


def test_control_a_code_that_never_counts_lets_in_everybody(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ticket, "used", lambda self, before, count: count)

    assert together(api, codes(api, 1)[0], 6) == 6


def test_a_code_ends_with_its_time_and_says_what_it_is_for(api: Service) -> None:
    over = api.keys.mint(EnrolmentToken("code", int(time.time()) - 1, TICKET, 1, False))
    is_problem(enrol(api, over), "enrolment-over")
    assert enrol(api, codes(api, 1, simulated=True)[0]).status_code == 201
    assert kinds(api) == {"simulated": 1}
    for wrong in (
        {"codes": 0, "seconds": 3},
        {"codes": 3},
        {"codes": 10_001, "seconds": 3},
        {"codes": 3, "seconds": 0},
    ):
        is_problem(api.post("/v1/enrolment-codes", token=api.operator, json=wrong), "invalid-request")


def test_no_code_can_be_read_from_a_ledger_whether_it_was_used_or_not(tmp_path: Path) -> None:
    """The control: the id of one that was used, from which no code can be made, stands there."""
    with Service(tmp_path / "data") as api:
        used, kept = codes(api, 2)
        assert enrol(api, used).status_code == 201
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name.startswith("ledger"))

    assert claims(used)["id"].encode() in stored
    assert claims(kept)["id"].encode() not in stored
    assert not [code for code in (used, kept) if code.encode() in stored or code.split(".")[2].encode() in stored]


# ------------------------------------------------------------------------------------------------------------- keys

KEY: Final = "5e" * 16


def test_an_enrolment_with_a_key_is_answered_to_the_same_key_again(tmp_path: Path) -> None:
    """Also after a restart, and by a token that is used up. The control: the same requests without a key."""
    with Service(tmp_path / "data") as api:
        token = limited(api, 3, simulated=True)
        first = enrol(api, token, users=3, key=KEY)
        assert first.status_code == 201
        assert enrol(api, token, users=3, key=KEY).json() == enrol(api, token, users=1, key=KEY).json() == first.json()
        is_problem(enrol(api, token, users=3), "enrolment-over")
        is_problem(enrol(api, token, users=3, key="5f" * 16), "enrolment-over")
    with Service(tmp_path / "data") as api:
        assert enrol(api, api.enrolment, users=2, key=KEY).json() == first.json()
        assert kinds(api) == {"simulated": 3}
        assert api.get("/v1/me", token=first.json()["tokens"][2]).json()["user"] == 2
        assert [enrol(api, api.enrolment, users=2).json()["user"] for _ in range(2)] == [3, 5]


def test_a_ledger_does_not_tell_the_keys_of_its_enrolments(tmp_path: Path) -> None:
    """A copy of it is worth no tokens. The control: the id of a ticket, which brings none, stands there."""
    with Service(tmp_path / "data") as api:
        ticket = claims(token := limited(api, 2))["id"]
        assert enrol(api, token, users=2, key=KEY).status_code == 201
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name.startswith("ledger"))

    assert ticket.encode() in kept
    assert KEY.encode() not in kept


@pytest.mark.parametrize("wrong", ["", "5e" * 15, "5E" * 16, "5e" * 17, "5e" * 15 + "zz", 7, "5e" * 16 + "\n"])
def test_what_is_no_key_is_refused(api: Service, wrong: object) -> None:
    is_problem(enrol(api, api.enrolment, users=2, key=wrong), "invalid-request")
    assert kinds(api) == {}


def test_a_key_alone_takes_nobody_s_number_over(api: Service) -> None:
    """It goes with an enrolment token, names whom it enrolled and nobody else, and is void with her token."""
    [other] = api.enrol(1)
    mine = enrol(api, api.enrolment, key=KEY).json()

    for shown, told in ((None, "unauthorized"), (other, "forbidden"), (mine["token"], "forbidden")):
        is_problem(api.post("/v1/enrolments", token=shown, json={"key": KEY}), told)
    assert {enrol(api, api.enrolment, key=f"{KEY[:-1]}{digit}").json()["user"] for digit in range(3)} == {2, 3, 4}

    renewed = api.post(f"/v1/users/{mine['user']}/token", token=mine["token"]).json()["token"]
    again = enrol(api, api.enrolment, key=KEY).json()
    assert again["user"] == mine["user"]
    is_problem(api.get("/v1/me", token=again["token"]), "unauthorized")
    assert api.get("/v1/me", token=renewed).json()["user"] == mine["user"]


def test_a_key_is_told_by_no_log_and_no_answer(api: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Neither one that was taken nor one that was refused. The control: a path is in the log."""
    # The second: an aggregator that ran in this process may have told it to be quiet.
    with caplog.at_level("DEBUG"), caplog.at_level("DEBUG", logger="httpx"):
        answers = [enrol(api, api.enrolment, key=each) for each in (KEY, KEY, f"{KEY}ff", KEY.upper())]
        answers += [enrol(api, token, key=KEY) for token in ("no.such.token", api.operator)]
        answers.append(api.get(f"/v1/studies/{'0' * 64}"))

    assert [answer.status_code for answer in answers] == [201, 201, 422, 422, 401, 403, 404]
    assert "/v1/enrolments" in caplog.text
    assert not [told for told in (caplog.text, *(answer.text for answer in answers)) if KEY in told.lower()]


def test_a_limited_token_ends_with_its_time_whether_it_was_used_or_not(api: Service) -> None:
    over = api.keys.mint(EnrolmentToken("ticket", int(time.time()) - 1, TICKET, 5, False))

    told = is_problem(enrol(api, over), "enrolment-over")
    assert told["detail"] == "the enrolment token has expired"
    assert api.app.state.aggregator.ledger.let_in(TICKET) == 0


@pytest.mark.parametrize("member", ["users", "expires", "id", "simulated", "label"])
def test_the_limits_of_a_token_are_signed(api: Service, member: str) -> None:
    role, _, tag = limited(api, 1).split(".")
    said: Json = claims(limited(api, 1)) | {
        member: {"users": 99, "expires": 1 << 40, "simulated": True}.get(member, "f" * 32)
    }
    payload = base64.urlsafe_b64encode(json.dumps(said, separators=(",", ":"), sort_keys=True).encode()).decode()

    is_problem(enrol(api, f"{role}.{payload.rstrip('=')}.{tag}"), "unauthorized")


@pytest.mark.parametrize(
    "members",
    [
        {"id": TICKET},
        {"users": 3},
        {"id": TICKET, "users": 3},
        {"id": "F" * 32, "users": 3, "simulated": False},
        {"id": TICKET, "users": -1, "simulated": False},
        {"id": TICKET, "users": True, "simulated": False},
        {"id": TICKET, "users": 3, "simulated": 1},
    ],
)
def test_a_token_has_all_of_its_limits_or_none(members: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        EnrolmentToken("ticket", 4_000_000_000, **members)


def test_where_enrolment_is_limited_there_is_no_token_without_a_number(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with Service(directory) as api:
        unlimited = api.enrolment
    with Service(directory, enrolment="limited") as api:
        assert not TokenFiles.of(directory).enrolment.exists()
        is_problem(enrol(api, unlimited), "enrolment-over")
        is_problem(enrol(api, api.keys.mint(EnrolmentToken("field work", 4_000_000_000))), "enrolment-over")
        assert enrol(api, limited(api, 1)).status_code == 201
    with Service(directory) as api:
        assert api.enrolment == unlimited
        assert enrol(api, unlimited).status_code == 201


def test_users_who_come_at_once_do_not_exceed_the_limit_of_the_server(tmp_path: Path) -> None:
    with Service(tmp_path / "data", user_limit=5) as api:
        answers = api.together([("POST", "/v1/enrolments", api.enrolment, {"json": {"users": 2}})] * 6)

        assert sorted(answer.status_code for answer in answers) == [201, 201, 422, 422, 422, 422]
        assert kinds(api) == {"unknown": 4}


def test_a_token_without_a_number_enrols_up_to_the_limit_and_the_operator_enrols_more(tmp_path: Path) -> None:
    with Service(tmp_path / "data", open_limit=5) as api:
        over = is_problem(enrol(api, api.enrolment, users=6), "enrolment-over")
        assert over["detail"].startswith("a token without a number enrols up to 5 users here, and 0 are there")
        assert "askance users token N; or raise ASKANCE_OPEN_LIMIT" in over["detail"]
        first = enrol(api, api.enrolment, users=5, key=KEY)
        assert first.status_code == 201
        is_problem(enrol(api, api.enrolment), "enrolment-over")
        # A client that asks again gets the answer to its first request.
        assert enrol(api, api.enrolment, users=5, key=KEY).json() == first.json()
        assert enrol(api, limited(api, 20), users=20).json()["user"] == 5
        is_problem(enrol(api, api.enrolment), "enrolment-over")
    # The control: the setting is what refuses.
    with Service(tmp_path / "data", open_limit=26) as api:
        assert enrol(api, api.enrolment).status_code == 201
        is_problem(enrol(api, api.enrolment), "enrolment-over")


def test_many_requests_at_once_do_not_exceed_the_limit_of_the_open_token(tmp_path: Path) -> None:
    with Service(tmp_path / "data", open_limit=5) as api:
        answers = api.together([("POST", "/v1/enrolments", api.enrolment, {"json": {"users": 2}})] * 6)

        assert sorted(answer.status_code for answer in answers) == [201, 201, 403, 403, 403, 403]


def test_by_default_an_open_token_takes_little_memory(api: Service) -> None:
    """Ten requests for ten million users took 705 MB: eight bytes a user."""
    answers = [enrol(api, api.enrolment, users=10_000_000).status_code for _ in range(3)]

    assert answers == [201, 403, 403]
    assert api.app.state.aggregator.ledger.enrolled() * 8 < 100 << 20


# --------------------------------------------------------------------------------------------------------- renewals


def test_who_enrols_alone_has_a_token_and_of_several_each_has_one(api: Service) -> None:
    alone, some = enrol(api, api.enrolment).json(), enrol(api, api.enrolment, users=3).json()
    many = enrol(api, api.enrolment, users=MAX_TOKENS + 1).json()

    given = (alone["token"], *some["tokens"])
    assert [api.get("/v1/me", token=each).json()["user"] for each in given] == [0, 1, 2, 3]
    assert (alone["tokens"], some["token"]) == ([], None)
    # Of so many nobody would read them.
    assert (many["user"], many["users"], many["token"], many["tokens"]) == (4, MAX_TOKENS + 1, None, [])


def test_a_user_renews_nobody_else_s_token(api: Service) -> None:
    hers, other = api.enrol(2)

    is_problem(api.post("/v1/users/1/token", token=hers), "forbidden")
    assert api.get("/v1/me", token=other).json()["user"] == 1
    assert api.post("/v1/users/0/token", token=hers).status_code == 200


def test_of_two_renewals_by_one_token_at_once_one_succeeds(api: Service) -> None:
    for user in range(10):
        [old] = api.enrol(1)
        answers = api.together([("POST", f"/v1/users/{user}/token", old, {})] * 4)

        assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401]
        [new] = [answer.json()["token"] for answer in answers if answer.status_code == 200]
        assert api.get("/v1/me", token=new).json()["user"] == user
        is_problem(api.get("/v1/me", token=old), "unauthorized")
        assert len({answer.content for answer in answers if answer.status_code == 401}) == 1


def test_both_succeed_where_the_ledger_does_not_compare(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the gate looks at both tokens before one is renewed, and the ledger is not told of them."""
    ledger = api.app.state.aggregator.ledger
    revoke, both = ledger.revoke, threading.Barrier(2, timeout=SECONDS)

    def compare_nothing(user: int, expected: int | None = None) -> int:
        both.wait()
        return revoke(user)

    monkeypatch.setattr(ledger, "revoke", compare_nothing)
    [old] = api.enrol(1)

    answers = api.together([("POST", "/v1/users/0/token", old, {})] * 2)
    assert [answer.status_code for answer in answers] == [200, 200]


# ------------------------------------------------------------------------------------------------------------ kinds


def test_who_enrols_alone_is_a_person_unless_she_says_otherwise_and_of_many_nobody_knows(api: Service) -> None:
    enrolments: list[Json] = [{}, {"users": 1}, {"simulated": False}, {"users": 3, "simulated": False}]
    for members in enrolments:
        assert enrol(api, api.enrolment, **members).status_code == 201
    assert kinds(api) == {"real": 6}
    assert api.post("/v1/enrolments", token=api.enrolment).json()["user"] == 6
    enrol(api, api.enrolment, users=2)
    enrol(api, api.enrolment, users=5, simulated=True)
    enrol(api, api.enrolment, simulated=True)
    assert kinds(api) == {"real": 7, "unknown": 2, "simulated": 6}


@pytest.mark.parametrize("simulated", [False, True])
def test_a_limited_token_is_for_users_of_its_kind(api: Service, simulated: bool) -> None:
    token = limited(api, 10, simulated=simulated)
    wanted = "simulated" if simulated else "real"

    assert enrol(api, token, users=2).status_code == 201
    assert enrol(api, token, simulated=simulated).status_code == 201
    is_problem(enrol(api, token, simulated=not simulated), "forbidden")
    assert kinds(api) == {wanted: 3}


def study(api: Service, *, simulated: bool, **more: Any) -> Json:
    """A study of all users, by the mean."""
    asked = {"title": "t", "strategy": "mean", "parameters": {"users": "all"}, "simulated": simulated, **more}
    made = api.post("/v1/studies", token=api.operator, json=asked)
    assert made.status_code == 201, made.text
    answer: Json = made.json()
    return answer


def test_a_gateway_is_for_the_simulated_users_that_there_are_and_not_for_everybody(api: Service) -> None:
    person = enrol(api, api.enrolment).json()["token"]
    enrol(api, api.enrolment, users=3, simulated=True)
    enrol(api, api.enrolment, users=2)
    made = study(api, simulated=True)
    round_, token = made["rounds"][0]["id"], made["gateway_token"]
    enrol(api, api.enrolment, users=2, simulated=True)

    assert claims(token) == {"study": made["id"], "first": 1, "count": 3}
    assert api.batch(round_, token, [1, 2, 3], [1, 0, 1]).json()["accepted"] == 3
    for others in ([0], [4], [6], [1, 0]):
        is_problem(api.batch(round_, token, others, [1] * len(others)), "forbidden")
    assert api.get("/v1/me", token=person).json()["spent_micro_epsilon"] == 0


def test_where_nobody_has_said_a_gateway_is_for_those_of_unknown_kind(api: Service) -> None:
    """A tool of version 0.1 enrols several at once, and speaks for them."""
    enrol(api, api.enrolment, users=3)
    made = study(api, simulated=True)

    assert claims(made["gateway_token"]) == {"study": made["id"], "first": 0, "count": 3}
    assert api.batch(made["rounds"][0]["id"], made["gateway_token"], [0, 2], [1, 0]).json()["accepted"] == 2


def test_no_gateway_speaks_for_a_person_whatever_its_range(api: Service) -> None:
    tokens = [enrol(api, api.enrolment, simulated=simulated).json()["token"] for simulated in (True, False, True)]
    made = study(api, simulated=True, gateway={"first_user": 0})
    round_, token = made["rounds"][0]["id"], made["gateway_token"]

    told = is_problem(api.batch(round_, token, [0, 1, 2], [1, 1, 1]), "forbidden")
    assert told["detail"] == "user 1 is a real user, who reports for herself: no gateway speaks for her"
    # Who is not enrolled is told so; what else is in the batch counts.
    some = api.batch(round_, token, [0, 9, 2], [1, 1, 1]).json()
    assert (some["accepted"], some["refused"]) == (2, {"unauthorized": 1})
    assert [api.get("/v1/me", token=token).json()["spent_micro_epsilon"] for token in tokens] == [10**6, 0, 10**6]


def test_a_gateway_would_speak_for_a_person_if_the_ledger_did_not_know_her(
    api: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same batch where all are of unknown kind."""
    enrol(api, api.enrolment)
    made = study(api, simulated=True, gateway={"first_user": 0})
    monkeypatch.setattr(ProjectedLedger, "kinds", lambda _: UserKinds())

    assert api.batch(made["rounds"][0]["id"], made["gateway_token"], [0], [1]).json()["accepted"] == 1


def test_who_enrols_between_the_look_and_the_commit_is_not_spoken_for(
    api: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch names a number that nobody has yet; while it is on its way a person is given it."""
    enrol(api, api.enrolment, simulated=True)
    made = study(api, simulated=True, gateway={"first_user": 0})
    aggregator = api.app.state.aggregator
    submit = aggregator.committer.submit_batch

    def late(*given: Any) -> object:
        aggregator.ledger.enrol(1, 2_000_000)
        return submit(*given)

    monkeypatch.setattr(aggregator.committer, "submit_batch", late)
    told = api.batch(made["rounds"][0]["id"], made["gateway_token"], [0, 1], [1, 1]).json()

    assert (told["accepted"], told["refused"]) == (1, {"unauthorized": 1})
    assert aggregator.ledger.standing(1).account.spent == 0


def test_a_simulated_user_takes_no_part_in_a_study_of_real_users(api: Service) -> None:
    made_up = enrol(api, api.enrolment, users=4, simulated=True).json()["tokens"]
    people = enrol(api, api.enrolment, users=2, simulated=False).json()["tokens"]
    made = study(api, simulated=False)
    round_ = made["rounds"][0]["id"]

    # The round waits for people alone.
    assert made["rounds"][0]["round"]["target"] == 2
    is_problem(api.report(round_, made_up[0]), "not-in-cohort")
    assert api.get("/v1/me", token=made_up[0]).json()["spent_micro_epsilon"] == 0
    assert [api.report(round_, token).status_code for token in people] == [200, 200]
    assert api.get(f"/v1/rounds/{round_}").json()["state"] == "answered"


def test_a_study_of_real_users_has_too_few_where_all_are_simulated(api: Service) -> None:
    enrol(api, api.enrolment, users=4, simulated=True)

    asked = {"title": "t", "strategy": "mean", "parameters": {"users": "all"}, "simulated": False}
    refused = is_problem(api.post("/v1/studies", token=api.operator, json=asked), "too-few-users")
    assert "0 are left" in refused["detail"]


def test_a_simulated_study_waits_for_no_person_unless_there_is_nobody_else(api: Service) -> None:
    alone = enrol(api, api.enrolment).json()["token"]
    first = study(api, simulated=True)
    assert first["rounds"][0]["round"]["target"] == 1
    # She takes part herself, as in version 0.1: her client asks her.
    assert api.report(first["rounds"][0]["id"], alone).status_code == 200

    enrol(api, api.enrolment, users=3, simulated=True)
    second = study(api, simulated=True)
    assert second["rounds"][0]["round"]["target"] == 3


def test_a_limited_token_and_its_id_stay_out_of_what_others_see(api: Service) -> None:
    token = limited(api, 1)
    enrol(api, token)

    seen = [api.get(path).text for path in ("/metrics", "/v1/studies", "/openapi.json")]
    assert not [text for text in seen if token in text or claims(token)["id"] in text]
    assert Keys(bytes(32)).mint(EnrolmentToken("ticket", 1, TICKET, 1, False)) != token
