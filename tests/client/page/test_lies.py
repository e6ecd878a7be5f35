"""The page refuses every lie that the Python client refuses: no report leaves it, and nothing is charged."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Page as Tab

from askance_client.page import Page
from tests.client.liar import ENROLMENT, TOKEN, Liar
from tests.client.lies import LIES, Lie
from tests.client.page.hosted import PageHost, page_host
from tests.client.page.person import Person
from tests.client.people import HERS
from tests.harness.browser import Pages
from tests.protocol.studies import part, study

pytestmark = pytest.mark.slow

NUMBERS: Final = itertools.count()
NO_ANSWER: Final = "The server gives no answer"
ANSWERED: Final = "One bit left"

OTHERWISE: Final[dict[str, str]] = {
    # A page has no example before it is given one: what it may be asked is the study that she named, by its digest.
    "a study of other examples than hers": "answered",
    # A browser unpacks what it is sent, however often, before a page sees it; the bounds count what was unpacked.
    "bulletin is packed twice": "answered",
    "me is packed twice": "answered",
    # And what it cannot unpack, or not find, is no answer at all.
    "bulletin is not packed as it says": NO_ANSWER,
    "me is not packed as it says": NO_ANSWER,
}
"""Where a browser is another thing than a Python program, what is to be seen instead, and why."""


def expected(lie: Lie) -> str:
    """What the page shows."""
    return OTHERWISE.get(lie.name, NO_ANSWER if lie.reason is None else lie.reason)


LEFT: Final = """async () => {
  globalThis.fetch = () => new Promise(() => {});
  for (const { name } of await indexedDB.databases()) {
    await new Promise((done) => { indexedDB.deleteDatabase(name).onsuccess = done; });
  }
}"""
"""The page that is open asks nothing any more, and its wallet is forgotten."""


def fresh(tab: Tab, host: PageHost, liar: Liar) -> Person:
    """A person without a wallet, at a page that this double serves; anew, though all but the number is the same."""
    if tab.url != "about:blank":
        tab.evaluate(LEFT)
    host.liar = liar
    link = host.link(ENROLMENT).replace("#", f"?{next(NUMBERS)}#")
    tab.goto(link, wait_until="commit")
    return Person(tab)


def filled(person: Person) -> None:
    """Whatever is asked of what she holds, she gives."""
    tab = person.tab
    for legend in tab.locator("fieldset").all():
        legend.locator("input").first.check()
    for box in tab.locator("main input[type=text]").all():
        box.fill(
            {"x": str(HERS.record()["x"]), "height": "0.3"}.get(box.locator("xpath=../label").inner_text().lower(), "5")
        )


SEEN: Final = """async () => {
  const passing = /One moment|in the air/;
  const heading = () => document.querySelector("h1")?.innerText ?? "One moment";
  for (let left = 4000; passing.test(heading()); left--) {
    if (!left) throw new Error(`it stays at: ${heading()}`);
    await new Promise((done) => setTimeout(done, 10));
  }
  if (heading() !== "This page did not answer") return [heading(), document.querySelector("#send") !== null];
  const press = (label) => [...document.querySelectorAll("button")].find((each) => each.textContent === label).click();
  const said = document.querySelector("p.lead").innerText;
  press("All reasons for which this page refuses");
  const terms = [...document.querySelectorAll("dt")].filter((each) => each.querySelector("b").innerText === said);
  const [name, ...others] = terms.map((each) => each.querySelector("code").innerText);
  press("Back");
  if (others.length) throw new Error(`a reason that stands several times: ${said}`);
  return [name, false];
}"""
"""The heading of a screen that stays, or a refusal's reason by its name in the list of all; and whether it asks."""


def outcome(person: Person) -> str:
    """What comes of it: a reason, no answer, or a report."""
    said, asks = person.tab.evaluate(SEEN)
    if asks:
        filled(person)
        person.sends()
        said, _ = person.tab.evaluate(SEEN)
    return "answered" if said.startswith(ANSWERED) else said


@pytest.fixture
def tab(pages: Pages) -> Tab:
    """A tab that may meet answers that are none."""
    pages.watched.expect("Failed to load resource")
    # The browser's own account of a redirect has its target; `test_a_redirect_leads_nowhere` asks the target itself.
    pages.watched.expect("another host: http://(evil|askance)[.]test")
    return pages.context(viewport={"width": 360, "height": 740}).new_page()


def charges(person: Person) -> list[Any]:
    """What her wallet has charged."""
    return [] if person.tab.locator("noscript").count() else person.wallet()["reports"]


def told(tab: Tab, host: PageHost, lie: Lie) -> tuple[str, Person, Liar]:
    """What she sees of a lie."""
    liar = Liar.of(study(simulated=False))
    lie.plant(liar)
    person = fresh(tab, host, liar)
    return outcome(person), person, liar


def test_the_honest_double_gets_a_report_and_a_charge(tab: Tab, host: PageHost) -> None:
    seen, person, liar = told(tab, host, Lie("none", None, lambda liar: liar.ask(part())))

    assert seen == "answered"
    assert liar.bodies in ([b'{"outcome":0}'], [b'{"outcome":1}'])
    [report] = person.wallet()["reports"]
    assert report["body"].encode() == liar.bodies[0]
    assert {report["round"]: report["charge"]} == liar.charges


def chunks(lies: list[Lie], size: int) -> Iterator[list[Lie]]:
    """Some at a time: a test each would open a browser for each."""
    for at in range(0, len(lies), size):
        yield lies[at : at + size]


@pytest.mark.parametrize("lies", list(chunks(LIES, 25)), ids=lambda lies: lies[0].name)
def test_a_lie_is_refused_and_nothing_is_sent_or_charged(tab: Tab, host: PageHost, lies: list[Lie]) -> None:
    wrong = list[str]()
    for lie in lies:
        seen, person, liar = told(tab, host, lie)
        innocent = expected(lie) == "answered"
        if seen != expected(lie) or (not innocent and (liar.bodies or charges(person))):
            wrong.append(f"{lie.name}: {seen}, not {expected(lie)}; {len(liar.bodies)} bodies")
        assert {token for _, token in liar.tokens} <= {ENROLMENT, TOKEN}

    assert wrong == []


def test_what_a_browser_sees_otherwise_is_named_as_lies_are() -> None:
    assert set(OTHERWISE) <= {lie.name for lie in LIES}


TRUSTING: Final = {
    "an account of another user": ("if (statement.user !== user)", "if (false)"),
    "that it has heard her on the open round": ("if (spending.heard.has(id))", "if (false)"),
    "a round for one micro-ε": ("if (least < LEAST_CHARGE)", "if (false)"),
    "a simulated study for a real user": ("if (study.simulated && !simulated)", "if (false)"),
    "a round that charges a millionth less than binary response costs": (
        "if (part.charge < channel.certified)",
        "if (false)",
    ),
}
"""A check of the page's script that is taken away, and the lie that it is for."""


@pytest.mark.parametrize("name", TRUSTING)
def test_a_page_that_does_not_check_one_thing_is_caught_sending(tab: Tab, page: Page, name: str) -> None:
    """The control."""
    old, new = TRUSTING[name]
    assert page.script.count(old) == 1
    trusting = dataclasses.replace(page, script=page.script.replace(old, new))
    [lie] = [lie for lie in LIES if lie.name == name]
    with page_host(trusting) as host:
        seen, person, liar = told(tab, host, lie)

    assert seen == "answered"
    assert len(liar.bodies) == 1
    assert person.tab.locator("#uncover").count()
