"""What a browser, a person or another tab does to the page: nothing leaves that is not stored, and nothing hangs.

Each has a control: the page with one line changed, for which the same is found.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from askance_client.page import Page
from askance_client.page.page import page_modules
from askance_protocol import canonical, javascript
from askance_protocol.budget import MICRO
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.rounds import BinarySpec, Part, StudySpec
from askance_protocol.schema import CategoryField, RealField
from tests.client.liar import ENROLMENT, Liar
from tests.client.page.hosted import PageHost, page_host, planted
from tests.client.page.person import Person
from tests.client.page.questions import HOMEWORK, asking, room, yes_or_no
from tests.harness.browser import Pages

pytestmark = pytest.mark.slow

Changes = dict[str, str]
PHONE: Final = {"width": 360, "height": 740}


@contextmanager
def question(
    pages: Pages, page: Page, asked: tuple[StudySpec, Part] | None = None, changes: Changes | None = None, **init: str
) -> Generator[tuple[Person, PageHost]]:
    """A person who has a question before her, at a page of which some lines are others; `init`: run before it."""
    context = pages.context(viewport=PHONE)
    context.set_default_timeout(20_000)
    for script in init.values():
        context.add_init_script(script)
    with page_host(planted(page, changes or {})) as host:
        host.liar = asking(asked or yes_or_no())
        tab = context.new_page()
        tab.goto(host.link(ENROLMENT))
        tab.locator("#send, h1:has-text('Nothing is asked here')").first.wait_for()
        yield Person(tab), host
        context.close()


def sent(host: PageHost) -> list[bytes]:
    """What has left."""
    assert host.liar is not None
    return host.liar.bodies


# ------------------------------------------------------------------------------------------------------ the store

FORGET: Final = """async () => {
  const [{ name }] = await indexedDB.databases();
  await new Promise((done) => { indexedDB.deleteDatabase(name).onsuccess = done; });
}"""
NEWER: Final = """async () => {
  const [{ name }] = await indexedDB.databases();
  await new Promise((done) => { indexedDB.open(name, 2).onsuccess = ({ target }) => done(target.result.close()); });
}"""


FULL: Final = """() => {
  const { add } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.add = function (value) {
    add.call(this, value);
    this.transaction.abort();
  };
}"""
"""What a browser does that has no room any more: it gives up the transaction, whose steps had all gone well."""


STORES: Final[dict[str, tuple[str, str]]] = {
    "there is no room": (FULL, "This browser stores nothing"),
    "forgotten in another tab": (FORGET, "was forgotten, or taken over by a newer version"),
    "a newer page in another tab": (NEWER, "was forgotten, or taken over by a newer version"),
}


def answered_without_a_store(pages: Pages, page: Page, name: str, changes: Changes) -> tuple[list[bytes], str]:
    """What leaves where nothing can be stored any more, and what she is told."""
    happens, _ = STORES[name]
    with question(pages, page, changes=changes) as (person, host):
        person.tab.evaluate(happens)
        person.answers("Yes")
        person.tab.locator("h1", has_text=re.compile("Nothing is asked here|One bit left")).wait_for()
        return sent(host), person.text


@pytest.mark.parametrize("name", STORES)
def test_what_cannot_be_stored_is_not_sent_and_she_is_told_why(pages: Pages, page: Page, name: str) -> None:
    bodies, text = answered_without_a_store(pages, page, name, {})

    assert bodies == []
    assert STORES[name][1] in text


def test_control_a_page_that_sends_before_it_has_stored_is_found(pages: Pages, page: Page) -> None:
    early = {
        "transaction.onabort = () => reject(": "let made;\n    transaction.onabort = () => resolve(made) ?? reject(",
        "const result = work(stores);": "const result = (made = work(stores));",
    }
    bodies, _ = answered_without_a_store(pages, page, "there is no room", early)

    assert bodies


NO_STORE: Final = {
    "none": ("Object.defineProperty(self, 'indexedDB', { value: undefined })", "This browser stores nothing"),
    "denied": (
        "indexedDB.open = () => { throw new DOMException('denied', 'SecurityError'); }",
        "This browser stores nothing",
    ),
    "that of a newer page": (
        "const open = indexedDB.open.bind(indexedDB);"
        "indexedDB.open = (name, version) => { open(name, 2); return open(name, version); }",
        "A newer version of this page keeps the wallet",
    ),
}


@pytest.mark.parametrize("name", NO_STORE)
def test_without_a_store_nothing_is_asked_and_she_is_told_why(pages: Pages, page: Page, name: str) -> None:
    store, words = NO_STORE[name]
    with question(pages, page, store=store) as (person, host):
        assert words in person.text
        assert host.heads == []


def test_a_store_that_gives_no_answer_is_not_waited_for_for_ever(pages: Pages, page: Page) -> None:
    sooner = {"const MOST_SECONDS = 20;": "const MOST_SECONDS = 0.2;"}
    with question(pages, page, changes=sooner, store="indexedDB.open = () => ({});") as (person, host):
        assert "store gives no answer" in person.text
        assert host.heads == []
    # The control.
    with page_host(
        planted(page, {**sooner, "setTimeout(() => reject(new WalletError(": "setTimeout(() => void (("})
    ) as host:
        host.liar = asking(yes_or_no())
        tab = pages.context(viewport=PHONE).new_page()
        tab.add_init_script("indexedDB.open = () => ({});")
        tab.goto(host.link(ENROLMENT))
        tab.wait_for_timeout(1000)
        assert Person(tab).heading == "One moment"


def test_what_fails_while_it_is_stored_changes_nothing(pages: Pages, page: Page) -> None:
    """A transaction of which one step throws is given up whole."""
    changes = {"stores.reports.add(report);": "stores.reports.add(report);\n      throw new TypeError('planted');"}
    with question(pages, page, changes=changes) as (person, host):
        person.answers("Yes")
        person.sees("Nothing is asked here")

        assert person.wallet()["reports"] == []
        assert sent(host) == []


# ------------------------------------------------------------------------------------------------------- two tabs


def told_apart(pages: Pages, host: PageHost, changes: Changes) -> list[str | None]:
    """For what each of two tabs refuses a study of which each was told another past."""
    place = "tests/client/page/pieces.mjs"
    modules = {**page_modules(), place: (Path(__file__).parent / "pieces.mjs").read_text("utf-8")}
    script = javascript.bundled(modules, place)
    for old, new in changes.items():
        assert script.count(old) == 1
        script = script.replace(old, new)
    asked, pasts = yes_or_no(), list[Liar]()
    for target in (10, 11):
        pasts.append(Liar.of(asked[0]))
        pasts[-1].ask(asked[1], target=target)
    bulletins = [
        canonical.dumps({"head": past.head, "length": len(past.entries), "entries": past.entries}).decode()
        for past in pasts
    ]
    tab = pages.open(f"{host.url}/page.css")
    tab.evaluate(f"() => {{ {script} }}")
    return tab.evaluate("toldApart", {"study": pasts[0].id, "bulletins": bulletins})


def test_of_two_tabs_that_are_told_two_pasts_at_once_one_refuses(pages: Pages, host: PageHost) -> None:
    assert sorted(told_apart(pages, host, {}), key=str) == [None, "two-histories"]
    # The control: it goes by what was noted before both began.
    noted = "const read = await this.wallet.pin(this.history.id);"
    assert told_apart(pages, host, {noted: "const read = null;"}) == [None, None]


# ----------------------------------------------------------------------------------------- a page that is kept as it is


def left_standing(pages: Pages, page: Page, changes: Changes, *, uncovered: bool) -> tuple[str, int]:
    """What stands on a page that the browser keeps, to show it again: its words, and how many answers are chosen."""
    with question(pages, page, changes=changes) as (person, _):
        tab = person.tab
        person.chooses("Yes")
        if uncovered:
            person.sends()
            tab.get_by_role("button", name="Show what my coin did").click()
            assert "Your answer was Yes" in person.text
        tab.evaluate("() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
        return person.text, tab.locator("input:checked").count()


WIPED: Final = 'page.show(loadingScreen("Reading the study, and checking it here."), { focus: false });\n});'


@pytest.mark.parametrize("uncovered", [False, True], ids=["chosen", "uncovered"])
def test_a_page_that_is_left_has_no_answer_on_it(pages: Pages, page: Page, *, uncovered: bool) -> None:
    text, chosen = left_standing(pages, page, {}, uncovered=uncovered)
    assert "Your answer was Yes" not in text
    assert chosen == 0
    # The control.
    text, chosen = left_standing(pages, page, {WIPED: "});"}, uncovered=uncovered)
    assert ("Your answer was Yes" in text) if uncovered else chosen == 1


# ------------------------------------------------------------------------------------------------------------ waiting


def sent_while_she_looks_into_her_wallet(pages: Pages, page: Page, changes: Changes, looks: int) -> int:
    """How often the same bytes were sent, by themselves, while she looked into her wallet: the page waits less."""
    pages.watched.expect("Failed to load resource")
    sooner = {"[FIRST_PAUSE, LONGEST_PAUSE] = [1, 30]": "[FIRST_PAUSE, LONGEST_PAUSE] = [0.2, 6]"}
    with question(pages, page, changes=sooner | changes) as (person, host):
        tab = person.tab
        host.deaf = True
        person.answers("Yes")
        person.sees("Drawn and kept. Not yet received.")
        tab.get_by_role("button", name="Your wallet").click()
        person.sees("What has left")
        before = len(sent(host))
        for _ in range(looks):
            tab.wait_for_timeout(100)
            if len(sent(host)) > before + 1:
                break
        assert "What has left" in person.text
        return len(sent(host)) - before


def test_it_goes_on_sending_while_she_looks_into_her_wallet(pages: Pages, page: Page) -> None:
    assert sent_while_she_looks_into_her_wallet(pages, page, {}, 600) >= 2


def test_control_a_page_that_waits_for_its_own_countdown_is_found(pages: Pages, page: Page) -> None:
    by_what_is_shown = {
        "const timer = setTimeout(again, 1000 * seconds);": "let timer;",
"if (shown) shown.textContent = rest() > 0": "if (rest() <= 0) again();\n if (shown) shown.textContent = rest() > 0",
    }  # fmt: skip

    assert sent_while_she_looks_into_her_wallet(pages, page, by_what_is_shown, 20) == 0


# -------------------------------------------------------------------------------------------------- what a server says

TURNED: Final = "\u202e"


def steered(pages: Pages, page: Page, changes: Changes) -> str:
    """All that the page shows of a study whose texts would turn what stands beside them."""
    field = CategoryField(name="answer", values=(f"{TURNED}yes", "\u200bno"), gap=True)
    _, part = yes_or_no()
    with question(pages, page, (room(field, f"{HOMEWORK}{TURNED}"), part), changes) as (person, _):
        person.tab.get_by_text("What exactly is asked").click()
        shown = person.tab.locator("html").inner_html() + person.tab.title()
        person.tab.locator("input[type=radio]").first.check()
        person.sends()
        person.sees(re.compile("Received and kept"))
        person.tab.get_by_role("button", name=re.compile("Your wallet")).click()
        person.sees("Seen by this page")
        return shown + person.tab.locator("html").inner_html() + person.tab.title()


def test_a_servers_text_steers_nothing(pages: Pages, page: Page) -> None:
    shown = steered(pages, page, {})
    assert not {TURNED, "\u200b"} & set(shown)
    assert "\\u202e" in shown
    # The control.
    as_it_is = {"const shown = text.slice(0, most).replace(HARMFUL, escaped);": "const shown = text.slice(0, most);"}
    assert TURNED in steered(pages, page, as_it_is)


def test_an_answer_of_many_choices_is_no_answer(pages: Pages, page: Page) -> None:
    """Of the statuses that name no place to go to: it is over, as for the Python client, and not waited for."""
    pages.watched.expect("Failed to load resource")
    many = "&& response.status >= 400"
    for changes, heading in (({}, "This page did not answer"), ({many: ""}, "The server gives no answer")):
        context = pages.context(viewport=PHONE)
        with page_host(planted(page, changes)) as host:
            host.liar = asking(yes_or_no())
            host.liar.says["me"] = lambda _: httpx.Response(300)
            tab = context.new_page()
            tab.goto(host.link(ENROLMENT))
            assert Person(tab).settled() == heading
            context.close()


def test_each_request_says_which_version_is_spoken(pages: Pages, page: Page) -> None:
    with question(pages, page) as (_, host):
        said = {headers.get("askance-protocol") for _, _, headers in host.heads}

    assert said == {"1"}


# ------------------------------------------------------------------------------------------------------- what she types

CITIES: Final = ("Orle\u0301ans", *(f"City {number}" for number in range(80)))
BY_NAME: Final = (
    room(CategoryField(name="city", values=CITIES), "Where do you live?"),
    Part(
        query=CellQuery(cells=len(CITIES), cell=FieldValue(field="city")),
        channel=BinarySpec(micro_epsilon=MICRO),
        charge=MICRO,
        share=1,
    ),
)
BY_NUMBER: Final = (
    room(RealField(name="mood", low=-1, high=1, denominator=10), "How are you?"),
    Part(
        query=RealQuery(numerator=FieldValue(field="mood"), denominator=10),
        channel=BinarySpec(micro_epsilon=MICRO),
        charge=MICRO,
        share=1,
    ),
)


def typed(pages: Pages, page: Page, asked: tuple[StudySpec, Part], text: str, changes: Changes) -> bool:
    """Whether it is taken for an answer."""
    with question(pages, page, asked, changes) as (person, host):
        person.tab.locator("main input[type=text]").fill(text)
        person.sends()
        person.tab.get_by_text(re.compile("Choose one first|Received and kept")).first.wait_for()
        return bool(sent(host))


@pytest.mark.parametrize(
    ("asked", "text", "changes"),
    [
        (BY_NAME, "Orl\u00e9ans", {"value.normalize(\"NFC\").trim() === text.normalize(\"NFC\")": "value === text"}),
        (BY_NUMBER, "\u22120,5", {"([.,][0-9]{1,15})?$/": "(\\.[0-9]{1,15})?$/"}),
    ],
    ids=["an accent that is written in another way", "a comma"],
)  # fmt: skip
def test_what_she_types_is_read_as_she_means_it(
    pages: Pages, page: Page, asked: tuple[StudySpec, Part], text: str, changes: Changes
) -> None:
    assert typed(pages, page, asked, text, {})
    assert not typed(pages, page, asked, text + "x", {})
    # The control.
    assert not typed(pages, page, asked, text, changes)


def test_a_keyboard_that_has_no_sign_is_not_asked_for_where_one_is_needed(pages: Pages, page: Page) -> None:
    with question(pages, page, BY_NUMBER) as (person, _):
        assert person.tab.locator("main input[type=text]").get_attribute("inputmode") == "text"


def test_from_the_wallet_she_comes_back_to_what_her_new_cap_allows(pages: Pages, page: Page) -> None:
    with question(pages, page) as (person, _):
        person.tab.get_by_role("button", name=re.compile("Your cap is 3")).click()
        person.tab.get_by_label("The most that you will ever spend here").fill("0,5")
        person.tab.get_by_role("button", name="Set the cap").click()
        person.sees("Stored.")
        person.tab.get_by_role("button", name="Back").click()

        person.sees("Refused: beyond your cap")
