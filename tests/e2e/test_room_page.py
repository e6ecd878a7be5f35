"""A room answers on the page: twelve browsers, one study, one server, and everything that can happen to a phone.

One is killed between store and send, one is loaded again, one is offline for a while, one joins late. The tally is what
left, and each phone has sent one body, however often.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import BrowserContext, Request, Route

from askance_client.page import read_page
from tests.client.page.person import Person, answer_at_once
from tests.harness.browser import Pages
from tests.harness.servers import ServerProcess, serving

pytestmark = pytest.mark.slow

PHONES: Final = 12
KILLED, RELOADED, OFFLINE, LATE, TWICE = range(5)
QUESTION: Final = "Have you ever copied homework?"
FIELD: Final = {"kind": "category", "name": "answer", "values": ["yes", "no"], "gap": True}


@dataclass
class Phone:
    """One browser, and the bodies that have left it."""

    context: BrowserContext
    link: str
    answer: str
    bodies: list[str] = field(default_factory=list[str])
    tokens: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.context.on("request", self._seen)

    def _seen(self, request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/reports"):
            self.bodies.append(str(request.post_data))
            self.tokens.add(request.headers["authorization"])

    def opens(self) -> Person:
        """The page, in a new tab."""
        tab = self.context.new_page()
        tab.goto(self.link)
        return Person(tab)

    def answers(self) -> Person:
        """Open, choose, send."""
        person = self.opens()
        person.answers(self.answer)
        return person


def received(person: Person) -> None:
    """Wait for the receipt."""
    person.sees(re.compile("Received and kept"))


def calmly(phone: Phone) -> None:
    """Nothing happens."""
    received(phone.answers())


def killed(phone: Phone) -> None:
    """The report is stored, and its first attempt leaves with the tab."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    phone.context.route("**/reports", hold)
    person = phone.answers()
    while not held:
        person.tab.wait_for_timeout(20)
    phone.context.new_page()
    person.tab.close()
    phone.context.unroute_all(behavior="ignoreErrors")
    received(phone.opens())


def reloaded(phone: Phone) -> None:
    """As soon as it has left, and again."""
    person = phone.answers()
    person.tab.wait_for_timeout(300)
    for _ in range(3):
        person.tab.reload()
    received(person)


def offline(phone: Phone) -> None:
    """From before she sends until she has waited for a while."""
    person = phone.opens()
    person.tab.locator("#send").wait_for()
    phone.context.set_offline(True)
    person.chooses(phone.answer)
    person.sends()
    person.sees(re.compile("Waiting for the network"))
    person.tab.wait_for_timeout(1500)
    phone.context.set_offline(False)
    received(person)


def twice(phone: Phone) -> None:
    """In two tabs, with two answers."""
    one, other = phone.opens(), phone.opens()
    answer_at_once(one, other)
    received(one)
    received(other)


HAPPENS: Final[dict[int, Callable[[Phone], None]]] = {
    KILLED: killed,
    RELOADED: reloaded,
    OFFLINE: offline,
    TWICE: twice,
}


def opened(server: ServerProcess, title: str = QUESTION) -> tuple[str, str]:
    """A study of one question, and what lets people in."""
    study = server.post(
        "/v1/studies",
        token=server.operator,
        json={
            "title": title,
            "strategy": "poll",
            "parameters": {"ask": QUESTION, "users": PHONES, "epsilon": "1", "deadline_seconds": 3600},
            "example": {"fields": [FIELD]},
            "live": 2,
        },
    )
    assert study.status_code == 201, study.text
    token = server.post("/v1/enrolment-tokens", token=server.operator, json={"users": PHONES, "seconds": 3600})
    return study.json()["id"], token.json()["token"]


def test_twelve_phones_send_one_body_each_and_the_tally_is_what_left(pages: Pages, tmp_path: Path) -> None:
    pages.watched.expect("Failed to load resource")
    with serving(tmp_path / "data", "--cap", "3", "--enrolment", "limited") as server:
        study, token = opened(server)
        link = f"{server.url}/take-part#study={study}&join={token}"
        phones = [
            Phone(pages.context(viewport={"width": 360, "height": 740}), link, ("Yes", "No", "I cannot")[number % 3])
            for number in range(PHONES)
        ]
        for number in [*range(LATE), *range(LATE + 1, PHONES)]:
            HAPPENS.get(number, calmly)(phones[number])
        received_before = server.get(f"/v1/studies/{study}").json()["rounds"][0]["received"]
        calmly(phones[LATE])
        result = finished(server, study)
        [round_] = server.get(f"/v1/studies/{study}").json()["rounds"]
        tally = server.get(f"/v1/rounds/{round_['id']}/tally").json()["tallies"]

    assert received_before == PHONES - 1
    assert {len(set(phone.bodies)) for phone in phones} == {1}
    assert len({token for phone in phones for token in phone.tokens}) == PHONES
    sent = [json.loads(phone.bodies[0])["outcome"] for phone in phones]
    assert tally == [[[sent.count(0), sent.count(1)]]]
    assert result["state"] == "finished"


def test_a_link_of_two_questions_is_answered_one_after_the_other(pages: Pages, tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--cap", "3", "--enrolment", "limited") as server:
        (first, token), (second, _) = opened(server), opened(server, "Did you sleep less than 7 hours?")
        link = f"{server.url}/take-part#study={first}&study={second}&join={token}"
        phone = Phone(pages.context(viewport={"width": 360, "height": 740}), link, "Yes")
        person = phone.answers()
        received(person)
        person.tab.get_by_role("button", name="Next question").click()
        person.sees("Did you sleep less than 7 hours?")
        person.answers("No")
        person.sees(re.compile("Wallet: 1 of 3 left"))
        received(person)
        person.tab.wait_for_timeout(100)
        counts = [server.get(f"/v1/studies/{each}").json()["rounds"][0]["received"] for each in (first, second)]
        person.tab.close()

    assert counts == [1, 1]
    assert len(phone.bodies) == 2
    assert len(phone.tokens) == 1


def test_a_page_from_a_file_answers_as_one_that_was_served(pages: Pages, tmp_path: Path) -> None:
    """Its code came from elsewhere; the server lets it speak."""
    file = tmp_path / "take-part.html"
    file.write_bytes(read_page().one_file)
    with serving(tmp_path / "data", "--cap", "3", "--enrolment", "limited") as server:
        study, token = opened(server)
        link = f"{file.as_uri()}#server={server.url}&study={study}&join={token}"
        phone = Phone(pages.context(viewport={"width": 360, "height": 740}), link, "Yes")
        person = phone.answers()
        received(person)
        count = server.get(f"/v1/studies/{study}").json()["rounds"][0]["received"]
        assert "is a saved copy" not in person.text
        person.tab.close()

    assert count == len(phone.bodies) == 1


def finished(server: ServerProcess, study: str) -> dict[str, Any]:
    """What the study has come to."""
    for _ in range(600):
        result = server.get(f"/v1/studies/{study}/result").json()
        if result["state"] not in {"created", "running", "sealed"}:
            return result
        time.sleep(0.1)
    raise AssertionError("the study does not end")
