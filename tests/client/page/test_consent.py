"""What the page says is asked is what `askance client` says, word for word, of every kind of question."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import BrowserContext

from askance_client.consent import Spending
from askance_client.history import History
from askance_client.page import Page
from askance_client.transport.documents import read_tail
from askance_lab.commands.shared.consent_text import consent_text
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.rounds import Part, StudySpec
from tests.client.liar import ENROLMENT, USER, Liar
from tests.client.page.hosted import PageHost, page_host, planted
from tests.client.page.questions import asking, one_of, scale, yes_or_no
from tests.harness.browser import Pages
from tests.protocol.studies import PARTS, study

pytestmark = pytest.mark.slow

ROOM: Final = {"yes or no": yes_or_no(), "one of three": one_of(["never", "it's", "mostly"]), "a scale": scale()}
ASKED: Final[dict[str, tuple[StudySpec, Part]]] = {
    **ROOM,
    **{name: (study(simulated=False), part) for name, part in PARTS.items()},
}


def read_by_a_client(liar: Liar) -> str:
    """All that `askance client` shows before she answers."""
    tail = canonical.dumps({"head": liar.head, "length": len(liar.entries), "entries": liar.entries})
    history = History(liar.id).extended(read_tail(tail).entries)
    assert isinstance(history, History)
    return consent_text(history, USER, Spending(3 * MICRO, {}, 0))


def unlike(context: BrowserContext, host: PageHost, asked: tuple[StudySpec, Part]) -> list[str]:
    """What stands on the page of one question and in no line of what a client shows."""
    liar = asking(asked)
    host.liar = liar
    tab = context.new_page()
    tab.goto(host.link(ENROLMENT))
    tab.get_by_text("What exactly is asked").click()
    said, fields = (tab.locator(f"dt:text-is('{name}') + dd").inner_text() for name in ("Asked", "Fields"))
    tab.close()
    shown = read_by_a_client(liar)
    lines = [line[11:] for line in shown.splitlines()]
    told = [line for line in lines if line.endswith(f": {said}")]
    return ([] if len(told) == 1 else [said]) + [field for field in fields.splitlines() if field and field not in lines]


def test_every_kind_of_question_is_asked_in_the_same_words(pages: Pages, host: PageHost) -> None:
    found = dict[str, list[str]]()
    for name, asked in ASKED.items():
        # A wallet for each: a study of the same name would be a second history.
        context = pages.context(viewport={"width": 360, "height": 740})
        found[name] = unlike(context, host, asked)
        context.close()

    assert {name: words for name, words in found.items() if words} == {}
    assert {part.query.kind for _, part in ASKED.values()} == {"boolean", "real", "cell"}


def test_control_a_page_with_words_of_its_own_is_found(pages: Pages, page: Page) -> None:
    for changes in ({", from -1 to 1`": "`"}, {", or nothing": ", or none"}):
        with page_host(planted(page, changes)) as host:
            context = pages.context(viewport={"width": 360, "height": 740})
            assert unlike(context, host, ROOM["yes or no"])
            context.close()
