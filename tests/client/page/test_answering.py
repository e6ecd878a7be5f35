"""A person answers on the page: one draw, stored before it is sent, the same bytes again, and her answer nowhere."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import BrowserContext, Route

from askance_client.page import Page, read_page
from tests.client.liar import ENROLMENT, TOKEN, Liar
from tests.client.page.hosted import PageHost, page_host, planted
from tests.client.page.person import Person, answer_at_once
from tests.client.page.questions import HOMEWORK, asking, one_of, scale, yes_or_no
from tests.harness.browser import Pages
from tests.protocol.studies import part as any_part
from tests.protocol.studies import study

PHONE: Final = {"width": 360, "height": 740}
ALWAYS: Final = "crypto.getRandomValues = (array) => array.fill({word});"
"""A word that is drawn each time, so that two people who answer otherwise send the same: 0 gives outcome 1."""


def opened(context: BrowserContext, host: PageHost, link: str | None = None) -> Person:
    """The page in a new tab."""
    tab = context.new_page()
    tab.goto(link or host.link(ENROLMENT))
    return Person(tab)


@pytest.fixture
def context(pages: Pages) -> BrowserContext:
    """One browser."""
    made = pages.context(viewport=PHONE)
    made.set_default_timeout(20_000)
    return made


def received(person: Person) -> None:
    """Wait for the receipt."""
    person.sees(re.compile("Received and kept"))


def test_one_person_answers_once(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.answers("Yes")
    received(person)
    [body] = host.liar.bodies
    [report] = person.wallet()["reports"]

    assert body in (b'{"outcome":0}', b'{"outcome":1}')
    assert report["body"].encode() == body
    assert report["state"] == "acknowledged"
    assert person.heading == f"One bit left: {['no', 'yes'][int(body[-2:-1])]}"
    assert "Wallet: 2 of 3 left" in person.text


def test_the_sentence_has_the_probability_of_this_rounds_channel(pages: Pages, host: PageHost) -> None:
    for epsilon, kept, turned in ((1_000_000, "73", "27"), (2_000_000, "88", "12"), (20_000, "50.5", "49.5")):
        host.liar = asking(yes_or_no(epsilon))
        person = opened(pages.context(viewport=PHONE), host)
        person.sees(re.compile("That is what ε"))

        assert f"your answer with {kept}\u00a0%, the other one with {turned}\u00a0%" in person.text


def test_nothing_is_sent_before_one_is_chosen(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.sends()
    person.sees(re.compile("Choose one first"))

    assert host.liar.bodies == []


def test_what_the_coin_did_is_shown_when_she_asks_and_covered_again(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.answers("Yes")
    received(person)
    assert "Your answer was" not in person.text
    person.tab.get_by_role("button", name="Show what my coin did").click()
    assert "Your answer was Yes" in person.text
    person.tab.get_by_role("button", name="Cover my answer").click()
    assert "Your answer was" not in person.text


def test_a_page_that_is_loaded_again_knows_what_left_and_not_what_was_answered(
    context: BrowserContext, host: PageHost
) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.answers("No")
    received(person)
    before = person.heading
    person.tab.reload()
    received(person)

    assert person.heading == before
    assert "Your answer is not known to this page any more" in person.text
    assert len(host.liar.bodies) == 1


def test_killed_between_store_and_send_the_same_bytes_are_sent(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    context.route("**/reports", hold)
    person = opened(context, host)
    person.answers("Yes")
    while not held:
        person.tab.wait_for_timeout(20)
    stored = person.wallet()["reports"]
    body = held[0].request.post_data
    person.tab.close()
    context.unroute_all(behavior="ignoreErrors")
    again = opened(context, host)
    received(again)

    assert [each["body"] for each in stored] == [body]
    assert set(host.liar.bodies) == {str(body).encode()}


def test_a_network_that_is_gone_is_waited_for(context: BrowserContext, host: PageHost, pages: Pages) -> None:
    pages.watched.expect("Failed to load resource")
    host.liar = asking(yes_or_no())
    host.deaf = True
    person = opened(context, host)
    person.answers("No")
    person.sees("Drawn and kept. Not yet received.")
    host.deaf = False
    person.tab.get_by_role("button", name="Try now").click()
    received(person)

    assert len(host.liar.bodies) >= 2
    assert len(set(host.liar.bodies)) == 1
    assert len(host.liar.charges) == 1


def drawn_in_two_tabs(pages: Pages, host: PageHost) -> tuple[set[bytes], list[Person]]:
    """Two tabs of one browser have the question open, and both are answered: what left, and the tabs.

    Each has a coin of its own that falls always alike, and otherwise than that of the other: two draws are two bodies.
    """
    host.liar = asking(yes_or_no())
    context = pages.context(viewport=PHONE)
    tabs = list[Person]()
    for word in (0, 0xFFFFFFFF):
        tab = context.new_page()
        tab.add_init_script(ALWAYS.format(word=word))
        tab.goto(host.link(ENROLMENT))
        tabs.append(Person(tab))
    answer_at_once(*tabs)
    for each in tabs:
        each.sees(re.compile("Received and kept|Both were seen"))
    return set(host.liar.bodies), tabs


def test_two_tabs_at_once_draw_once(pages: Pages, host: PageHost) -> None:
    """The tab whose answer was not looked at says so, and tells nothing of a coin that it did not flip."""
    for _ in range(4):
        bodies, tabs = drawn_in_two_tabs(pages, host)
        knowing = [each.tab.get_by_role("button", name="Show what my coin did").count() for each in tabs]
        told = ["in another tab. What you chose in this one was not looked at" in each.text for each in tabs]

        assert len(bodies) == 1
        assert tabs[0].heading == tabs[1].heading
        assert [report["charge"] for report in tabs[0].wallet()["reports"]] == [1_000_000]
        assert sorted(knowing) == [0, 1]
        assert told == [not each for each in knowing]


TWICE: Final = {
    "if (before) return before;": "",
    "stores.reports.add(report);": "stores.reports.put(report);",
}
"""What keeps a second tab from drawing, inside the wallet's transaction."""


ALWAYS_ITS_OWN: Final = {"situation.isDrawn ? labelOf(meaning, values) : null": "labelOf(meaning, values)"}


def test_control_a_wallet_that_does_not_look_before_it_draws_is_caught_with_two_bodies(
    pages: Pages, page: Page
) -> None:
    pages.watched.expect("409")
    with page_host(planted(page, TWICE)) as host:
        bodies, tabs = drawn_in_two_tabs(pages, host)

        assert len(bodies) == 2
        assert "Both were seen, so both are booked: 2." in "".join(each.text for each in tabs)
        for each in tabs:
            each.tab.close()


def test_control_a_tab_that_takes_the_others_draw_for_its_own_is_found(pages: Pages, page: Page) -> None:
    with page_host(planted(page, ALWAYS_ITS_OWN)) as host:
        bodies, tabs = drawn_in_two_tabs(pages, host)

        assert len(bodies) == 1
        assert [each.tab.get_by_role("button", name="Show what my coin did").count() for each in tabs] == [1, 1]
        for each in tabs:
            each.tab.close()


def test_one_browser_is_one_number_whatever_is_lost(context: BrowserContext, host: PageHost, pages: Pages) -> None:
    """Its key is stored before it asks, so an answer that is lost is asked for again."""
    pages.watched.expect("Failed to load resource")
    host.liar = asking(yes_or_no())
    lost: list[str] = []

    def lose(route: Route) -> None:
        lost.append(str(route.request.post_data))
        route.abort()

    context.route("**/v1/enrolments", lose, times=1)
    person = opened(context, host)
    person.tab.locator("#send").wait_for()
    [asked] = [r for r in host.liar.requests if r.url.path == "/v1/enrolments"]

    assert [json.loads(each) for each in lost] == [json.loads(asked.content)]
    assert re.fullmatch("[0-9a-f]{32}", json.loads(asked.content)["key"])
    assert person.wallet()["owner"][0]["key"] == json.loads(asked.content)["key"]


def test_the_code_stands_in_the_address_only_until_she_has_a_number(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.tab.locator("#send").wait_for()

    assert ENROLMENT not in person.tab.url
    assert person.tab.url == f"{host.url}/take-part#study={host.liar.id}"
    # Nor was it ever sent but as what it is: in the header of the one request.
    shown = [path for _, path, headers in host.heads if ENROLMENT in json.dumps([path, headers])]
    assert shown == ["/v1/enrolments"]


def test_without_a_code_she_is_asked_for_it(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host, f"{host.url}/take-part#study={host.liar.id}")
    person.sees("The code, please")
    person.tab.get_by_label("Code").fill(ENROLMENT)
    person.tab.get_by_label("Code").press("Enter")
    person.answers("No")
    received(person)


def test_by_keyboard_alone(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.tab.locator("#send").wait_for()
    keys = person.tab.keyboard
    for _ in range(12):
        keys.press("Tab")
        if person.tab.evaluate("() => document.activeElement.type") == "radio":
            break
    keys.press("ArrowDown")
    for _ in range(12):
        keys.press("Tab")
        if person.tab.evaluate("() => document.activeElement.id") == "send":
            break
    keys.press("Enter")
    received(person)

    assert len(host.liar.bodies) == 1
    assert person.tab.evaluate("() => document.activeElement.tagName") == "H1"


def test_where_there_is_no_crypto_subtle_and_no_lock(context: BrowserContext, host: PageHost) -> None:
    """As on a page that came over plain HTTP from another machine."""
    context.add_init_script(
        "Object.defineProperty(Crypto.prototype, 'subtle', { get: () => undefined });"
        "Object.defineProperty(Navigator.prototype, 'locks', { get: () => undefined });"
        "Object.defineProperty(Navigator.prototype, 'storage', { get: () => undefined });"
    )
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    assert person.tab.evaluate("() => crypto.subtle") is None
    person.answers("Yes")
    received(person)


def test_a_browser_that_stores_nothing_asks_nothing(context: BrowserContext, host: PageHost) -> None:
    context.add_init_script("indexedDB.open = () => { throw new DOMException('denied', 'SecurityError'); };")
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.sees("Nothing is asked here")

    assert host.liar.requests == []


def test_a_receipt_for_another_report_is_not_believed(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    host.liar.says["receipt"] = lambda said: said.update(charged=1)
    person = opened(context, host)
    person.answers("Yes")
    person.sees("Drawn and kept. Not yet received.")
    host.liar.says.clear()
    person.tab.get_by_role("button", name="Try now").click()
    received(person)

    assert len(set(host.liar.bodies)) == 1


def test_a_second_history_is_refused_with_both_digests(context: BrowserContext, host: PageHost) -> None:
    asked = yes_or_no()
    host.liar = asking(asked)
    person = opened(context, host)
    person.answers("Yes")
    received(person)
    host.liar.entries.pop()
    host.liar.ask(asked[1], target=9)
    person.tab.reload()
    person.sees("Refused: two histories")

    assert len(host.liar.bodies) == 1
    shown = person.tab.locator("table .digest").all_inner_texts()
    assert len(set(shown)) == 2


def test_a_cap_is_chosen_before_the_first_answer_and_holds_for_good(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.tab.get_by_role("button", name=re.compile("Your cap is 3")).click()
    person.tab.get_by_label("The most that you will ever spend here").fill("0.5")
    person.tab.get_by_role("button", name="Set the cap").click()
    person.sees("Stored.")
    person.tab.reload()
    person.sees("Refused: beyond your cap")
    assert host.liar.bodies == []

    person.tab.get_by_role("button", name="Wallet", exact=True).click()
    person.tab.get_by_label("The most that you will ever spend here").fill("1")
    person.tab.get_by_role("button", name="Set the cap").click()
    person.sees("Stored.")
    person.tab.reload()
    person.answers("Yes")
    received(person)
    person.tab.get_by_role("button", name=re.compile("Your wallet")).click()
    person.sees("1 of 1 spent")
    assert person.tab.get_by_role("button", name="Set the cap").count() == 0


@pytest.mark.parametrize("asked", [one_of(["never", "sometimes", "mostly"]), scale()], ids=["choices", "a scale"])
def test_other_questions_are_answered_alike(context: BrowserContext, host: PageHost, asked: Any) -> None:
    host.liar = asking(asked)
    person = opened(context, host)
    person.tab.locator("#send").wait_for()
    person.tab.locator("input[type=radio]").nth(1).check()
    person.sends()
    received(person)

    assert len(host.liar.bodies) == 1


# ------------------------------------------------------------------------------------ her answer is nowhere

ANSWERS: Final = ("Yes", "No", "I cannot or will not say")


def traces(pages: Pages, answer: str, *, leaks: bool = False) -> dict[str, Any]:
    """All that one person leaves behind: every request, the address, the title, the log, and every store."""
    with page_host(read_page()) as host:
        host.liar = asking(yes_or_no())
        context = pages.context(viewport=PHONE)
        context.add_init_script(ALWAYS.format(word=0))
        said: list[str] = []
        context.on("console", lambda message: said.append(message.text))
        person = opened(context, host)
        person.answers(answer)
        received(person)
        if leaks:
            person.tab.evaluate("(answer) => { document.title = answer; }", answer)
        stored = json.dumps(person.wallet(), sort_keys=True)
        tab = person.tab
        # She looks for further questions by and by: when, is by the clock.
        sent = next(at for at, r in enumerate(host.liar.requests) if r.url.path.endswith("/reports"))
        left = {
            "requests": [
                (
                    r.method,
                    re.sub("[0-9]{5}", "", str(r.url)),
                    r.content,
                    {name: re.sub(":[0-9]{5}", "", value) for name, value in r.headers.items()},
                )
                for r in host.liar.requests[: sent + 1]
            ],
            "address": re.sub("[0-9]{5}", "", tab.url),
            "title": tab.title(),
            "console": said,
            "wallet": re.sub(r'"(drawn|read)": \d+', "", stored),
            "others": tab.evaluate(
                "async () => [document.cookie, name, ...[localStorage, sessionStorage].map((s) => JSON.stringify(s)),"
                " JSON.stringify(history.state), (await indexedDB.databases()).length]"
            ),
            "forms": tab.locator("form, input").count(),
            "screen": re.sub(r"\d\d:\d\d:\d\d", "", re.sub("[0-9]{5}", "", person.text)),
        }
        context.close()
        return left


def test_whatever_she_answers_she_leaves_the_same_traces(pages: Pages) -> None:
    """The coin is made to fall alike: then every byte outside this page's memory is the same for every answer."""
    one, other, nothing = (traces(pages, answer) for answer in ANSWERS)

    assert one == other == nothing
    assert one["forms"] == 0
    # The control.
    assert traces(pages, "Yes", leaks=True) != traces(pages, "No", leaks=True)


def test_her_token_is_sent_to_this_server_alone(context: BrowserContext, host: PageHost) -> None:
    host.liar = asking(yes_or_no())
    person = opened(context, host)
    person.answers("Yes")
    received(person)

    assert {token for _, token in host.liar.tokens} == {ENROLMENT, TOKEN}
    assert TOKEN not in person.tab.content()


def test_a_redirect_leads_nowhere(context: BrowserContext, host: PageHost, pages: Pages) -> None:
    """The target is asked itself: a browser tells of it either way."""
    with page_host(host.page) as elsewhere:
        elsewhere.liar = Liar.of(yes_or_no()[0])
        host.liar = asking(yes_or_no())
        target = f"{elsewhere.url}/v1/me"
        host.liar.says["me"] = lambda _: httpx.Response(307, headers={"Location": target})
        person = opened(context, host)
        person.sees("Refused: not readable")

        assert elsewhere.liar.requests == []


def test_a_study_of_many_fields_is_asked_field_by_field(context: BrowserContext, host: PageHost) -> None:
    host.liar = Liar.of(study(simulated=False))
    host.liar.ask(any_part())
    person = opened(context, host)
    person.sees(re.compile("What exactly is asked"))

    # The question looks at two of five fields, and no others are asked for.
    assert person.tab.locator("fieldset").count() == 2
    assert HOMEWORK not in person.text
