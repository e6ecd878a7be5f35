"""Studies for the pages to show, the same ones each time: made-up users who answer as a table says."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.rounds import PreparedRound
from tests.harness.servers import Api, Json, prepared

USERS: Final = 1200
_CODE: Final = 2654435761
"""Knuth's multiplier: it spreads consecutive numbers evenly, so that shares come out as wanted."""


def enrol(api: Api, users: int = USERS) -> None:
    """Made-up users."""
    answer = api.post("/v1/enrolments", token=api.enrolment, json={"users": users, "simulated": True})
    assert answer.status_code == 201, answer.text


def create(api: Api, title: str, strategy: str = "mean", **parameters: Any) -> Json:
    """A new study of made-up users."""
    asked = {"title": title, "strategy": strategy, "parameters": {"users": "all", **parameters}, "simulated": True}
    created = api.post("/v1/studies", token=api.operator, json=asked)
    assert created.status_code == 201, created.text
    study: Json = created.json()
    return study


def outcomes(users: NDArray[np.uint64], share: float) -> list[int]:
    """An outcome of 0 or 1 for each user, 1 for about this share of them."""
    return [int(user * _CODE % 1000 < share * 1000) for user in users.tolist()]


def cohort(round_: PreparedRound, enrolled: int = USERS) -> NDArray[np.uint64]:
    """The users who are asked in a round."""
    users = np.arange(enrolled, dtype=np.uint64)
    return users[round_.asked(users)]


def answer(api: Api, study: Json, token: str, *, share: float = 0.4, part: float = 1.0) -> None:
    """Let some of those who are asked in the open round report."""
    now = api.get(f"/v1/studies/{study['id']}").json()
    round_ = prepared(now)
    users = cohort(round_)
    users = users[: max(1, int(len(users) * part))]
    answered = api.batch(now["rounds"][-1]["id"], token, users.tolist(), outcomes(users, share))
    assert answered.status_code == 200, answered.text
