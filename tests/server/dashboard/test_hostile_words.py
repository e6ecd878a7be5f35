"""What people write, long, turned or meant as markup, is text on every page, and breaks none of them."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page

from askance_server.dashboard import templates
from askance_server.dashboard.responses import problem_page
from askance_server.problems import ProblemOccurrence
from tests.harness import barriers
from tests.harness.browser import Pages
from tests.harness.servers import Api, Json, Service, serving
from tests.server.dashboard import played
from tests.server.dashboard.test_base import BROWSER

MARKUP: Final = "\"'><img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
TURNED: Final = "copied\u202eyes"
"""A character that turns what is behind it."""
LONG: Final = (
    "Have you ever copied homework 🙈 هل نسخت واجبك المنزلي من قبل؟ "
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft " + "and more words " * 10
)[:200]
CHOICES: Final = ["yes", *(f"choice {number} {'Beamtengesellschaft' * (number % 3)}" for number in range(29))]


def room(api: Api, title: str, values: list[str], users: int = 90) -> Json:
    """A question to so many people, with these choices."""
    study = api.post(
        "/v1/studies",
        token=api.operator,
        json={
            "title": title,
            "strategy": "poll",
            "parameters": {"ask": title, "users": users, "epsilon": "1"},
            "example": {"fields": [{"kind": "category", "name": "answer", "values": values, "gap": True}]},
            "live": 4,
        },
    )
    assert study.status_code == 201, study.text
    made: Json = study.json()
    return made


def answered(api: Api, study: Json, users: int) -> None:
    """So many answer, three of five the one and two of five the other."""
    for number, token in enumerate(api.enrol(users)):
        assert api.report(study["rounds"][0]["id"], token, (0, 1, 0, 0, 1)[number % 5]).status_code == 200


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path) as made:
        yield made


def addresses(study: Json) -> list[str]:
    """Where its words stand."""
    return ["/", f"/studies/{study['id']}", f"/wall?study={study['id']}", f"/wall/now?study={study['id']}"]


def markup(service: Service, study: Json) -> list[str]:
    """Pages on which what somebody wrote has become markup, or turns what is beside it."""
    found = list[str]()
    for path in addresses(study):
        text = service.get(path, headers=BROWSER).text
        if re.search(r"<img|onerror=document[^&]*>|<script>|\u202e", text.replace("&lt;", "")) is not None:
            found.append(path)
    return found


def test_words_are_text_wherever_they_stand(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    study = room(service, MARKUP, [MARKUP[:50], TURNED, "</script>"])
    answered(service, study, 64)
    other = room(service, TURNED, ["yes", TURNED])
    answered(service, other, 12)

    assert "&lt;img src=x" in service.get(f"/studies/{study['id']}", headers=BROWSER).text
    assert markup(service, study) == []
    assert markup(service, other) == []
    # The control: templates that do not escape.
    made = templates.environment.__wrapped__()
    made.autoescape = False
    monkeypatch.setattr(templates, "environment", lambda: made)
    assert markup(service, study) == addresses(study)


def test_what_a_form_or_an_address_says_is_text_in_what_it_is_answered(service: Service) -> None:
    form = {"title": MARKUP, "strategy": "mean", "epsilon": MARKUP[:20], "users": "all", "parameters": MARKUP}
    answers = [service.post("/new/plan", token=service.operator, json=form)]
    paths = (f"/studies/{MARKUP}", f"/separation?d={MARKUP}", f"/?page={MARKUP}", f"/wall?study={MARKUP}"[:90])
    answers += [service.get(path, headers=BROWSER) for path in (*paths, "/assets/0/../../../etc/passwd")]

    for answer in answers:
        assert "<img" not in answer.text
        assert "<script>" not in answer.text
        # Of one asker, or of one moment: nobody on the way keeps it.
        assert answer.headers["cache-control"] == "no-store", answer.url
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_a_page_that_refuses_hides_what_a_problem_document_hides(service: Service) -> None:
    token = service.enrol(1)[0]
    answer = problem_page(ProblemOccurrence("internal", f"asked with {token}"))

    assert token not in bytes(answer.body).decode()
    assert "asked with" in bytes(answer.body).decode(), "the control: the rest is said"


# --------------------------------------------------------------------------------------------------- in a real browser


def beyond(page: Page) -> list[str]:
    """What stands beyond the right end of the window, though it is in nothing that scrolls."""
    return page.evaluate(
        """() => [...document.querySelectorAll('body *')]
          .filter((each) => !each.closest('.scroll, .skip, .only-heard, svg, select'))
          .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
          .map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`)"""
    )


@pytest.mark.slow
def test_long_words_and_many_choices_break_no_page(pages: Pages, tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--cap", "60") as server:
        studies = [room(server, LONG, ["yes", "no"]), room(server, "Which of thirty?", CHOICES)]
        for study in studies:
            answered(server, study, 64)
        played.enrol(server, 40)
        played.create(server, LONG)
        paths = [path for study in studies for path in addresses(study)[:3]]
        for width, dark in ((360, True), (1280, False)):
            page = pages.open(server.url + "/sign-in", width=width, height=720, dark=dark)
            for path in paths:
                page.goto(server.url + path)
                assert beyond(page) == [], (path, width)
                assert barriers.violations(page) == [], (path, width)
            page.context.close()
        # The wall of thirty choices shows its code without scrolling, and does so further down.
        wall = pages.open(server.url + f"/wall?study={studies[1]['id']}#join=kelp-otter-27", height=720)
        wall.locator("#code svg").wait_for()
        seen = "() => document.querySelector('#code').getBoundingClientRect().bottom <= innerHeight"
        assert wall.evaluate(seen)
        wall.mouse.wheel(0, 400)
        assert wall.evaluate(seen)
        wall.context.close()

        # The control: a title that cannot be broken.
        page = pages.open(server.url + paths[1], width=360)
        page.evaluate("() => { document.querySelector('h1').style.whiteSpace = 'nowrap' }")
        assert beyond(page) != []
        # A page that still asks when its server ends would tell an error that is none.
        page.context.close()
