"""How the page looks: nothing that a checker of accessibility finds, nothing beyond the screen, and pictures.

`ASKANCE_LOOKS=DIR` keeps the pictures.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page as Tab

from tests.client.liar import ENROLMENT
from tests.client.page.hosted import PageHost
from tests.client.page.person import Person
from tests.client.page.questions import LONG, asking, one_of, scale, yes_or_no
from tests.client.page.test_answering import ALWAYS
from tests.harness import barriers
from tests.harness.browser import Pages

pytestmark = pytest.mark.slow

WIDTHS: Final = (360, 1280)


def violations(tab: Tab) -> list[str]:
    """What axe finds."""
    return [f"{each['id']}: {node['html'][:120]}" for each in barriers.violations(tab) for node in each["nodes"]]


def beyond(tab: Tab) -> int:
    """Pixels by which the page is wider than its screen."""
    return tab.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")


class Looked:
    """Looks at each screen of one width and theme, and keeps its picture."""

    def __init__(self, tab: Tab, folder: Path, name: str) -> None:
        self._tab, self._folder, self._name = tab, folder, name
        self.faults = list[str]()

    def at(self, screen: str) -> None:
        """One screen."""
        self.faults += [f"{screen}: {each}" for each in violations(self._tab)]
        if wide := beyond(self._tab):
            self.faults.append(f"{screen}: {wide} pixels beyond the screen")
        self._tab.screenshot(path=self._folder / f"{screen}-{self._name}.png", full_page=True)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_screen_in_both_themes_and_widths(
    pages: Pages, host: PageHost, tmp_path: Path, width: int, *, dark: bool
) -> None:
    pages.watched.expect("Failed to load resource")
    folder = Path(os.environ.get("ASKANCE_LOOKS") or tmp_path)
    asked = yes_or_no()
    host.liar = asking(asked)
    context = pages.context(viewport={"width": width, "height": 740}, color_scheme="dark" if dark else "light")
    context.add_init_script(ALWAYS.format(word=0))
    context.set_default_timeout(40_000)
    person = Person(context.new_page())
    tab = person.tab
    looked = Looked(tab, folder, f"{width}-{'dark' if dark else 'light'}")

    tab.goto(f"{host.url}/take-part#study={host.liar.id}")
    person.sees("The code, please")
    looked.at("code")
    tab.get_by_label("Code").fill(ENROLMENT)
    tab.get_by_role("button", name="Take part").click()
    tab.locator("#send").wait_for()
    tab.get_by_text("What exactly is asked").click()
    looked.at("question")
    host.deaf = True
    person.answers("Yes")
    person.sees("Drawn and kept. Not yet received.")
    looked.at("waiting")
    host.deaf = False
    tab.get_by_role("button", name="Try now").click()
    person.sees(re.compile("Received and kept"))
    looked.at("left")
    tab.locator("#uncover").click()
    looked.at("uncovered")
    tab.get_by_role("button", name=re.compile("Your wallet")).click()
    person.sees("What has left")
    looked.at("wallet")
    host.liar.entries.pop()
    host.liar.ask(asked[1], target=9)
    tab.reload()
    person.sees("Refused: two histories")
    looked.at("refused")
    tab.get_by_text("All reasons for which this page refuses").click()
    looked.at("reasons")

    assert looked.faults == []


@pytest.mark.parametrize(
    "asked",
    [
        one_of(["never", "sometimes", "mostly"]),
        scale(),
        one_of(["never", *(f"choice {number} {'Beamtengesellschaft' * 2}" for number in range(29))], title=LONG),
    ],
    ids=["choices", "scale", "long words, many choices"],
)
def test_other_questions(pages: Pages, host: PageHost, tmp_path: Path, asked: object) -> None:
    folder = Path(os.environ.get("ASKANCE_LOOKS") or tmp_path)
    host.liar = asking(asked)  # type: ignore[arg-type]
    context = pages.context(viewport={"width": 360, "height": 740})
    person = Person(context.new_page())
    looked = Looked(person.tab, folder, re.sub("[^a-z]+", "-", host.liar.study["title"][:9].lower()))
    person.tab.goto(host.link(ENROLMENT))
    person.tab.locator("#send").wait_for()
    looked.at("question")
    person.tab.locator("input[type=radio]").nth(1).check()
    person.sends()
    person.sees(re.compile("Received and kept"))
    looked.at("left")

    assert looked.faults == []


def test_a_fault_of_accessibility_is_found(pages: Pages, host: PageHost) -> None:
    """The control."""
    host.liar = asking(yes_or_no())
    tab = pages.open(host.link(ENROLMENT))
    tab.locator("#send").wait_for()
    assert violations(tab) == []
    tab.evaluate("() => { document.querySelector('h1').insertAdjacentHTML('afterend', '<input type=text>'); }")

    assert [each for each in violations(tab) if each.startswith("label")]


def test_nothing_moves_where_motion_is_unwanted(pages: Pages, host: PageHost) -> None:
    """And where it is not, the coin moves alike whatever it says: the screen that moves is made before it is thrown."""
    host.liar = asking(yes_or_no())
    tab = pages.open(host.link(ENROLMENT))
    tab.locator("#send").wait_for()
    rule = """() => {
      const box = document.body.appendChild(document.createElement("div"));
      box.className = "flipping";
      box.innerHTML = "<svg class=coin></svg>";
      return getComputedStyle(box.firstChild).animationName;
    }"""
    assert tab.evaluate(rule) == "none"
    tab.emulate_media(reduced_motion="no-preference")
    assert tab.evaluate(rule) == "flip"
