"""A ledger in which there is some of everything: what happens to it, what it tells of itself, and how it goes on.

Spoken to as any program may that stays with REST: so this is the same for each version. What the ledger cannot be
brought to from outside, a strategy that fails and a checkpoint after few reports, is planted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args
from unittest.mock import patch

from askance_protocol.rounds import Cause, CloseReason, RoundState, StudyState
from askance_server import app
from askance_server.auth import Keys, UserToken
from askance_server.core.strategy import Ask, Asking, Parameters
from askance_server.ledger import UserKind
from askance_server.ledger.sqlite import ledger as embedded
from askance_server.strategies.registry import Registry, registry
from tests.harness.servers import Json, Service, is_problem, prepared
from tests.releases.certain import Surroundings
from tests.server.learners import TRUE, strategy_of

KEY: Final = bytes(range(32))
YEARS: Final = 10**9
"""Seconds until a round's deadline, where it is not to pass."""
SOON: Final = 60
RENEWED: Final = 3
"""The user whose first token is void."""
ENROLMENT: Final = "5e" * 16
"""The key of an enrolment that may be repeated."""
PEOPLE: Final = 60
LIVES: Final = tuple(StudyState)[1:]
"""All but the first, which no study is seen in: its first round is published with it."""
FATES: Final = (RoundState.OPEN, RoundState.ANSWERED, RoundState.ABANDONED)
"""The others last for a moment of the server's."""


def service_at(place: Path, cap: str, database: str = "") -> Service:
    """A server with this ledger: of a folder, or of PostgreSQL."""
    return Service(place, database=database or str(place), cap=cap, server_key=KEY.hex())


# ----------------------------------------------------------------------------------------------------- what happens


def live(place: Path, surroundings: Surroundings, database: str = "") -> Json:
    """Let it happen to a new ledger; what is told of it, and what is needed to go on."""
    with patch.object(embedded, "CHECKPOINT_AFTER", 20), patch.object(app, "registry", with_a_broken_one):
        with service_at(place, "4", database) as service:
            needed = _people(service)
            _studies(service, surroundings)
        with service_at(place, "1", database) as service:
            assert service.get("/readyz").status_code == 200
            _simulated(service)
            return {**needed, "told": told(service)}


def _people(service: Service) -> Json:
    """Users, by each kind of token; what is still needed of these."""

    def made(where: str, **asked: Any) -> Json:
        return _done(service.post(f"/v1/{where}", token=service.operator, json=asked))

    def came(token: str, **asked: Any) -> Json:
        return _done(service.post("/v1/enrolments", token=token, json=asked))

    came(service.enrolment, users=PEOPLE, simulated=False)
    came(service.enrolment, key=ENROLMENT)
    ticket = made("enrolment-tokens", users=5, seconds=YEARS // 5)["token"]
    came(ticket, users=2)
    used, unused = made("enrolment-codes", codes=2, seconds=YEARS // 5)["codes"]
    came(used)
    renewed = made(f"users/{RENEWED}/token")["token"]
    return {"ticket": ticket, "used": used, "unused": unused, "renewed": renewed}


def _studies(service: Service, surroundings: Surroundings) -> None:
    def opened(strategy: str, live: int | None = None, **parameters: Any) -> str:
        chosen = {"users": "all", "deadline_seconds": YEARS, "epsilon": "0.25", **parameters}
        asked = {"title": f"A study: {strategy}", "strategy": strategy, "parameters": chosen, "live": live}
        return _done(service.post("/v1/studies", token=service.operator, json=asked))["id"]

    def closed(study: str) -> None:
        _done(service.post(f"/v1/rounds/{_last_round(service, study)['id']}/close", token=service.operator))
        _advance(service, study)

    learned = opened("mean", epsilon="1")
    answer(service, learned)
    stopped = opened("mean", live=2)
    answer(service, stopped, most=9)
    closed(stopped)
    late = opened("mean", deadline_seconds=SOON)
    answer(service, late, most=9)
    surroundings.now += SOON
    _advance(service, late)
    cancelled = opened("mean")
    answer(service, cancelled, most=3)
    _done(service.post(f"/v1/studies/{cancelled}/cancel", token=service.operator))
    silent = opened("mean")
    closed(silent)
    broken = opened("broken")
    answer(service, broken)
    sealed = opened("histogram", live=2, cells=4, tolerance="0.5")
    answer(service, sealed, most=7)
    running = opened("masked-parity", d=2)
    answer(service, running)
    answer(service, running, most=2)


def _simulated(service: Service) -> None:
    """Made-up users, for whom a gateway speaks, and users of whom nobody has said what they are.

    Whoever is not asked by the first round of their study spends all she has in another one, so that there is nobody
    for the second.
    """
    kinds = ({"users": 24, "simulated": True}, {"users": 4})
    first, unknown = (
        _done(service.post("/v1/enrolments", token=service.enrolment, json=asked))["user"] for asked in kinds
    )
    chosen = {"users": "all", "deadline_seconds": YEARS, "epsilon": "1"}
    left = service.study("masked-parity", {**chosen, "d": 2}, simulated=True)
    other = service.study("mean", chosen, simulated=True)
    asked = {user for user in asked_of(left) if user >= first}
    for study, users in ((other, set(asked_of(other)) - asked), (left, asked)):
        round_ = prepared(study).id
        spoken_for = sorted(users & set(range(first, unknown)))
        _done(service.batch(round_, study["gateway_token"], spoken_for, [user % 2 for user in spoken_for]))
        for user in sorted(users - set(range(unknown))):
            _done(service.report(round_, token_of(user), user % 2))
    _advance(service, left["id"])


def answer(service: Service, study: str, most: int = 1000) -> None:
    """Let those who are asked by the last round, or as many of them as are to be, answer it."""
    document = _done(service.get(f"/v1/studies/{study}"))
    for user in asked_of(document)[:most]:
        told = service.report(prepared(document).id, token_of(user), user % 2)
        # Where users were made up since, the coin asks them too; of persons' studies they are no part.
        assert told.status_code == 200 or is_problem(told, "not-in-cohort"), told.text


def asked_of(study: Json) -> list[int]:
    """The users whom the last round of a study asks."""
    cohort = prepared(study).spec.cohort
    return [user for user in range(cohort.first_user, cohort.first_user + cohort.users) if prepared(study).asks(user)]


def token_of(user: int, epoch: int | None = None) -> str:
    """A user's token: the one that counts, unless it is said otherwise."""
    return Keys(KEY).mint(UserToken(user, int(user == RENEWED) if epoch is None else epoch))


def raises(_: Parameters) -> Asking:
    """Ask one question, and fail on the answer."""
    yield [Ask(TRUE, 0.5)]
    raise RuntimeError("the answer is not understood")


def with_a_broken_one() -> Registry:
    """The strategies, and one that fails."""
    found = registry()
    return Registry({**found.usable, "broken": replace(strategy_of(raises), name="broken")}, found.broken)


def _last_round(service: Service, study: str) -> Json:
    return _done(service.get(f"/v1/studies/{study}"))["rounds"][-1]


def _advance(service: Service, study: str) -> None:
    async def once() -> None:
        await service.app.state.aggregator.advance(study)

    service._runner.run(once())


def _done(response: Any) -> Any:
    assert response.status_code in {200, 201}, response.text
    return response.json()


# ----------------------------------------------------------------------------------------------------- what it tells


def told(service: Service) -> Json:
    """All that a ledger tells of itself."""
    listed = _done(service.get("/v1/studies"))
    users = _done(service.get("/v1/users", token=service.operator))
    rounds = [round_["id"] for study in listed for round_ in study["rounds"] if round_["state"] == "answered"]
    return {
        "users": users,
        "accounts": [_done(service.get("/v1/me", token=token_of(user))) for user in range(users["users"])],
        "studies": listed,
        "bulletins": [_done(service.get(f"/v1/studies/{study['id']}/bulletin")) for study in listed],
        "results": [
            _done(service.get(f"/v1/studies/{study['id']}/result")) if study["state"] == "finished" else None
            for study in listed
        ],
        "tallies": [_done(service.get(f"/v1/rounds/{round_}/tally")) for round_ in rounds],
    }


def lacking(told: Json) -> Iterator[str]:
    """What of everything a ledger has none of, by what it tells."""
    notices = [entry["notice"] for bulletin in told["bulletins"] for entry in bulletin["entries"]]
    there = {
        "users": {name for name, count in told["users"]["kinds"].items() if count},
        "studies": {study["state"] for study in told["studies"]},
        "rounds": {round_["state"] for study in told["studies"] for round_ in study["rounds"]},
        "closings": {notice["reason"] for notice in notices if notice["kind"] == "closed"},
        "ends": {notice["cause"] for notice in notices if notice["kind"] == "ended"},
    }
    wanted = {
        "users": [each.value for each in UserKind],
        "studies": [each.value for each in LIVES],
        "rounds": [each.value for each in FATES],
        "closings": get_args(CloseReason),
        "ends": [each.value for each in Cause],
    }
    return (f"{name}: {each}" for name, all_ in wanted.items() for each in all_ if each not in there[name])


# ---------------------------------------------------------------------------------------------------- how it goes on


def go_on(service: Service, kept: Json) -> None:
    """What was begun ends; what was spent, void or used stays so; and there is room for what is new."""
    told = kept["told"]
    *_, sealed, running, _, _ = [study["id"] for study in told["studies"]]
    # A token that was void before, one that was used up, one that is not, and an enrolment that is asked for again.
    assert service.get("/v1/me", token=kept["renewed"]).status_code == 200
    assert service.get("/v1/me", token=token_of(RENEWED, 0)).status_code == 401
    enrolled = told["users"]["users"]

    def comes(token: str, **asked: Any) -> Json:
        return service.post("/v1/enrolments", token=token, json=asked).json()

    assert comes(service.enrolment, key=ENROLMENT)["user"] == PEOPLE
    assert comes(kept["used"])["type"] == comes(kept["ticket"], users=4)["type"] == "urn:askance:problem:enrolment-over"
    assert comes(kept["ticket"], users=3)["user"] == enrolled
    assert comes(kept["unused"])["user"] == enrolled + 3
    # Whoever has answered sends the same again, and pays nothing; another answer is refused.
    accounts = _done(service.get("/v1/me", token=token_of(0)))
    [document] = [each for each in told["studies"] if each["id"] == sealed]
    first = asked_of(document)[0]
    round_ = prepared(document).id
    assert service.report(round_, token_of(first), first % 2).status_code == 200
    assert service.report(round_, token_of(first), 1 - first % 2).status_code == 409
    assert _done(service.get("/v1/me", token=token_of(0))) == accounts
    for study in (sealed, running):
        for _ in range(20):
            if _done(service.get(f"/v1/studies/{study}"))["state"] == "finished":
                break
            answer(service, study)
            _advance(service, study)
        assert _done(service.get(f"/v1/studies/{study}/result"))["hypothesis"] is not None
    assert service.study("mean", {"users": "all", "epsilon": "0.25"})["state"] == "sealed"
    assert service.get("/readyz").status_code == 200
