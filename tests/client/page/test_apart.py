"""The one-file page, served by others over plain HTTP: it asks for nothing but itself and the server of its link."""

from __future__ import annotations

import dataclasses
from urllib.parse import unquote, urlencode, urlsplit

import pytest
from playwright.sync_api import BrowserContext

from tests.client.liar import ENROLMENT
from tests.client.page.hosted import PageHost, PlainHost, plain_host
from tests.client.page.person import Person
from tests.client.page.questions import asking, yes_or_no
from tests.harness.browser import Pages

PHONE = {"width": 360, "height": 740}


def link(plain: PlainHost, host: PageHost) -> str:
    assert host.liar is not None
    return f"{plain.url}#{urlencode({'server': host.url, 'study': host.liar.id, 'join': ENROLMENT})}"


def answered(context: BrowserContext, address: str) -> Person:
    """A person who has answered."""
    tab = context.new_page()
    tab.goto(address)
    person = Person(tab)
    person.answers("Yes")
    person.tab.get_by_text("Received and kept").wait_for()
    return person


@pytest.fixture
def context(pages: Pages) -> BrowserContext:
    return pages.context(viewport=PHONE)


def test_it_asks_for_itself_and_nothing_else(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    hosts = set[str]()
    context.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    with plain_host(host.page.one_file) as plain:
        person = answered(context, link(plain, host))
        # A browser asks for the picture of a tab when it has time to.
        person.tab.wait_for_timeout(500)
        person.tab.close()
        asked = list(plain.asked)

    assert ICON in host.page.one_file.decode()
    assert asked == [("GET", "/copies/take-part.html")]
    assert {netloc for netloc in hosts if netloc} == {urlsplit(plain.url).netloc, urlsplit(host.url).netloc}
    assert {path.split("/")[1] for _, path, _ in host.heads} == {"v1"}


OPEN = ("default-src 'none'", "default-src 'self'"), ("img-src data:; ", "")
ICON = '<link rel="icon" href="data:,">'
FAULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "no picture for the tab, and nothing that forbids to ask for one": (*OPEN, (ICON, "")),
    "a picture beside it": (*OPEN, (ICON, '<link rel="icon" href="mark.svg">')),
    "something else": (*OPEN, (ICON, '<link rel="preload" as="fetch" href="/more">')),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_control_a_page_that_asks_for_more_is_found(
    context: BrowserContext, host: PageHost, pages: Pages, fault: str
) -> None:
    pages.watched.expect("Failed to load resource|preload")
    text = host.page.one_file.decode()
    for old, new in FAULTS[fault]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    host.liar = asking(yes_or_no())
    with plain_host(text.encode()) as plain:
        person = answered(context, link(plain, host))
        person.tab.wait_for_timeout(500)
        person.tab.close()
        asked = list(plain.asked)

    assert len(asked) > 1


def test_its_server_stays_in_the_address_and_the_page_says_where_it_came_from(
    context: BrowserContext, host: PageHost
) -> None:
    """Loaded again it speaks to the same server: that of its link, and not where it came from."""
    host.liar = asking(yes_or_no())
    with plain_host(host.page.one_file) as plain:
        tab = context.new_page()
        tab.goto(link(plain, host))
        person = Person(tab)
        tab.locator("#send").wait_for()
        here, there = urlsplit(plain.url).netloc, urlsplit(host.url).netloc
        assert f"came from {here} over plain HTTP, and speaks to {there}." in person.text
        assert ENROLMENT not in tab.url
        tab.reload()
        person.answers("No")
        tab.get_by_text("Received and kept").wait_for()
        tab.close()

    assert len(host.liar.bodies) == 1


def test_control_an_address_that_forgets_the_server_is_found(context: BrowserContext, host: PageHost) -> None:
    named = "if (server !== from) kept.set("
    assert host.page.script.count(named) == 1
    forgetting = dataclasses.replace(host.page, script=host.page.script.replace(named, "if (false) kept.set("))
    host.liar = asking(yes_or_no())
    with plain_host(forgetting.one_file) as plain:
        tab = context.new_page()
        tab.goto(link(plain, host))
        tab.locator("#send").wait_for()
        tab.close()
        address = tab.url

    assert host.url not in unquote(address)
