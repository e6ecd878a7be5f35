"""The pages in a real browser: live from a study's creation to its result, for whoever looks, however she looks."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness import barriers
from tests.harness.browser import Pages
from tests.harness.marks import SECONDS
from tests.harness.ports import lasting_port
from tests.harness.servers import Json, ServerProcess
from tests.server.dashboard import played

expect.set_options(timeout=SECONDS * 1000)
pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Generator[ServerProcess]:
    made = ServerProcess(tmp_path / "ledger", "--cap", "3", port=lasting_port())
    made.start()
    yield made
    made.stop()


def shown(server: ServerProcess) -> list[str]:
    """A server with something on every page; the addresses."""
    played.enrol(server)
    done = played.create(server, "Do you come by bus?")
    played.answer(server, done, done["gateway_token"])
    asking = played.create(server, "Which of sixteen?", "masked-parity", d=4)
    played.answer(server, asking, asking["gateway_token"])
    return [
        "/",
        f"/studies/{done['id']}",
        f"/studies/{asking['id']}",
        "/budget",
        "/separation",
        "/new",
        "/sign-in",
        "/nothing",
        "/docs",
    ]


def violations(page: Page) -> list[str]:
    """What axe finds."""
    return [each["id"] for each in barriers.violations(page)]


def test_no_page_has_a_barrier_and_none_is_wider_than_its_window(server: ServerProcess, pages: Pages) -> None:
    pages.watched.expect("404")
    addresses = shown(server)
    for width, dark in ((360, False), (360, True), (1280, False), (1280, True)):
        page = pages.open(server.url + "/sign-in", width=width, dark=dark)
        for address in addresses:
            page.goto(server.url + address)
            assert violations(page) == [], (address, width, dark)
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (address, width)
        page.context.close()


def test_control_a_barrier_is_found(server: ServerProcess, pages: Pages) -> None:
    page = pages.open(server.url + "/sign-in")
    page.evaluate("() => { document.querySelector('label').remove() }")
    assert "label" in violations(page)


def test_a_study_live_from_its_creation_to_its_result_while_the_server_is_killed(
    server: ServerProcess, pages: Pages
) -> None:
    # While it is away, the browser says on its console that nobody answers.
    pages.watched.expect(
        "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET"
    )
    played.enrol(server, 300)
    page = pages.open(server.url)
    study = played.create(server, "Which of sixteen?", "masked-parity", d=4)
    page.reload()
    page.get_by_role("link", name="Which of sixteen?").click()
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#known")).to_contain_text("Nothing is known yet")

    played.answer(server, study, study["gateway_token"])
    expect(page.locator("#rounds")).to_contain_text("Round 2")
    expect(page.locator("#estimates")).to_contain_text("share(i = 0")
    before = server.get(f"/v1/studies/{study['id']}").json()["head"]

    server.kill()
    expect(page.locator("#connection")).to_contain_text("restarts")
    server.start()
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#bulletin li").last).to_have_attribute("data-digest", before)

    played.answer(server, study, study["gateway_token"], share=0.9)
    expect(page.locator("#connection")).to_have_text("ended")
    result: Json = server.get(f"/v1/studies/{study['id']}/result").json()
    expect(page.locator("#known")).to_contain_text(f"Learned: {result['text']}")
    head = server.get(f"/v1/studies/{study['id']}").json()["head"]
    expect(page.locator("#bulletin li").last).to_have_attribute("data-digest", head)


def test_an_empty_list_becomes_a_list_by_itself(server: ServerProcess, pages: Pages) -> None:
    page = pages.open(server.url)
    expect(page.get_by_role("heading")).to_have_text("Ask a room something")
    played.enrol(server, 40)
    played.create(server, "Which of sixteen?", "masked-parity", d=4)
    expect(page.get_by_role("heading")).to_have_text("Studies")
    expect(page.get_by_role("table").get_by_role("link", name="Which of sixteen?")).to_be_visible()


def test_an_operator_signs_in_and_closes_and_cancels_and_nobody_else_is_offered_it(
    server: ServerProcess, pages: Pages
) -> None:
    pages.watched.expect("401")
    played.enrol(server, 100)
    study = played.create(server, "A study")
    address = f"{server.url}/studies/{study['id']}"
    watcher = pages.open(address)
    expect(watcher.get_by_role("button", name="Cancel study …")).to_be_hidden()

    page = pages.open(server.url + "/sign-in")
    page.get_by_label("Operator's token").fill("no such token")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no token")
    page.get_by_label("Operator's token").fill(server.enrolment + "x")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("There is no valid token")
    page.get_by_label("Operator's token").fill(server.operator)
    page.keyboard.press("Enter")
    expect(page.locator("#who")).to_contain_text("sign out")
    assert page.context.cookies() == []
    assert page.evaluate("() => localStorage.length") == 0

    page.goto(address)
    played.answer(server, study, study["gateway_token"], part=0.5)
    page.get_by_role("button", name="Close round").click()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#known")).to_contain_text("Learned")
    expect(watcher.locator("#known")).to_contain_text("Learned")

    other = played.create(server, "Another")
    page.goto(f"{server.url}/studies/{other['id']}")
    page.get_by_role("button", name="Cancel study …").click()
    page.get_by_role("button", name="Leave it").click()
    page.get_by_role("button", name="Cancel study …").click()
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#known")).to_contain_text("cancelled by the operator")
    page.get_by_role("button", name="sign out").click()
    expect(page.locator("#who")).to_contain_text("sign in")


def test_every_page_says_the_same_without_javascript(server: ServerProcess, pages: Pages) -> None:
    pages.watched.expect("404")
    page = pages.open(server.url, java_script_enabled=False)
    for address in shown(server):
        page.goto(server.url + address)
        assert page.locator("h1").inner_text()
        assert page.locator("main").inner_text().strip()
    page.goto(server.url)
    page.get_by_role("link", name="Do you come by bus?").click()
    assert "Learned" in page.locator("#known").inner_text()
    assert page.locator("#bulletin li").count() == 5


def test_a_browser_verifies_a_bulletin_by_itself_and_finds_what_was_changed(
    server: ServerProcess, pages: Pages
) -> None:
    played.enrol(server, 100)
    study = played.create(server, "A study")
    played.answer(server, study, study["gateway_token"])
    page = pages.open(f"{server.url}/studies/{study['id']}")
    page.get_by_role("button", name="Verify here").click()
    expect(page.locator("#verified")).to_contain_text("5 entries verified here")
    expect(page.locator("#bulletin li.ok")).to_have_count(5)

    def lying(old: str, new: str) -> None:
        page.unroute("**/bulletin*")
        page.route(
            "**/bulletin*",
            lambda route: route.fulfill(
                body=route.fetch().text().replace(old, new, 1), content_type="application/json"
            ),
        )

    # The control: one report more than there were.
    lying('"received":100', '"received":101')
    page.get_by_role("button", name="Verify again").click()
    expect(page.locator("#verified")).to_contain_text("does not follow")
    # And a page that shows another digest than the bulletin has.
    page.unroute("**/bulletin*")
    page.evaluate("() => { document.querySelector('#bulletin li:last-child').dataset.digest = '0' }")
    page.get_by_role("button", name="Verify again").click()
    expect(page.locator("#verified")).to_contain_text("another one here")


def test_an_operator_starts_a_study_from_its_plan(server: ServerProcess, pages: Pages) -> None:
    played.enrol(server, 400)
    page = pages.open(server.url + "/sign-in")
    page.get_by_label("Operator's token").fill(server.operator)
    page.keyboard.press("Enter")
    expect(page.locator("#who")).to_contain_text("sign out")
    page.goto(server.url + "/new")
    page.get_by_label("Question, or title").fill("Do you come by bus?")
    page.get_by_label("The users are made up").check()
    expect(page.locator("#planned")).to_contain_text("It would wait for 400 reports")
    page.get_by_role("button", name="Start: publish and ask").click()
    expect(page.get_by_role("heading", name="Do you come by bus?")).to_be_visible()
    expect(page.locator("#rounds")).to_contain_text("0 of 400 reports")
