"""The pictures of the documents: made by a real browser, of pages as they are, and looked at.

With `ASKANCE_PICTURES=1` they are made anew. Else those that are there are compared by their sizes: pixels differ each
time, since digests, hours and ports do, and a picture that changes with every run would be in every commit.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from PIL import Image
from playwright.sync_api import Page, Route, expect

from tests.client.page.person import Person
from tests.client.page.test_answering import ALWAYS
from tests.harness.browser import Pages
from tests.harness.servers import Json, ServerProcess, serving
from tests.server.dashboard.test_hostile_words import room
from tests.server.dashboard.test_in_browser import server, shown

__all__ = ["server"]

PICTURES: Final = Path(__file__).parents[3] / "docs" / "pages"
LARGEST: Final = 60_000
"""Bytes of a picture: whoever clones the repository has them all."""
QUESTION: Final = "Have you ever copied homework?"


def colours(page: Page, data: bytes) -> int:
    """Number of different colours of a picture, as the browser reads it."""
    program = """async (text) => {
      const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes]));
      const drawn = new OffscreenCanvas(image.width, image.height).getContext("2d");
      drawn.drawImage(image, 0, 0);
      return new Set(new Uint32Array(drawn.getImageData(0, 0, image.width, image.height).data.buffer)).size;
    }"""
    return int(page.evaluate(program, base64.b64encode(data).decode()))


def small(data: bytes) -> bytes:
    """The same picture with a palette, a third of its size. Pillow is there with what the lab draws its plots by."""
    made = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").quantize(
        128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    ).save(made, "PNG", optimize=True)
    return made.getvalue()


def pictured(page: Page, name: str) -> None:
    """Look at a page, and compare what the documents have of it; or, if so asked, make it anew."""
    data = small(page.screenshot())
    assert colours(page, data) > 20
    assert len(data) < LARGEST
    there = PICTURES / f"{name}.png"
    if os.environ.get("ASKANCE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        there.write_bytes(data)
    assert there.stat().st_size < LARGEST
    assert there.read_bytes()[16:24] == data[16:24], "width and height"


def unlike(folder: Path, documents: Sequence[Path]) -> set[str]:
    """Pictures of a folder that no document shows, and those that a document shows and are not there."""
    found = re.findall(rf"{folder.name}/([a-z-]+\.png)[)\"]", "".join(each.read_text("utf-8") for each in documents))
    return set(found) ^ {each.name for each in folder.glob("*.png")}


def test_each_picture_stands_in_a_document_and_each_that_stands_there_exists(tmp_path: Path) -> None:
    documents = [*PICTURES.parent.glob("*.md"), PICTURES.parents[1] / "README.md"]

    assert unlike(PICTURES, documents) == set()
    # The control: a document without its last picture.
    less = tmp_path / "server.md"
    less.write_text((PICTURES.parent / "server.md").read_text("utf-8").replace("pages/study.png", ""), "utf-8")
    others = [each for each in documents if each.name != less.name]
    assert unlike(PICTURES, [*others, less]) == {"study.png"}


@pytest.mark.slow
def test_control_a_blank_picture_is_found(pages: Pages) -> None:
    page = pages.open("about:blank")
    assert colours(page, page.screenshot()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "dark"), [("study", 2, False), ("separation", 4, True)])
def test_pictures_of_the_dashboard(server: ServerProcess, pages: Pages, name: str, number: int, dark: bool) -> None:
    address = shown(server)[number]
    page = pages.open(server.url + address, width=1100, height=960 if name == "study" else 900, dark=dark)
    if name == "study":
        expect(page.locator("#connection")).to_have_text("live")
    pictured(page, name)


@pytest.mark.slow
def test_pictures_of_taking_part(pages: Pages, tmp_path: Path) -> None:
    """The question; the coin, while it is in the air; and what has left."""
    with serving(tmp_path / "data", "--cap", "3") as server:
        study = room(server, QUESTION, ["yes", "no"])
        context = pages.context(viewport={"width": 360, "height": 740})
        context.add_init_script(ALWAYS.format(word=0))
        person = Person(context.new_page())
        person.tab.goto(f"{server.url}/take-part#study={study['id']}&join={server.enrolment}")
        person.tab.locator("#send").wait_for()
        person.chooses("Yes")
        # Whoever looks at the picture sees no answer, as whoever looks at the screen after it.
        person.tab.get_by_label("Yes", exact=True).evaluate("(each) => { each.checked = false }")
        pictured(person.tab, "take-part-question")
        person.tab.get_by_label("Yes", exact=True).evaluate("(each) => { each.checked = true }")
        held = list[Route]()
        # Once: the server's account, which is asked for before the draw, is waited for.
        person.tab.route(re.compile("/v1/me"), lambda route: held.append(route), times=1)  # noqa: PLW0108 - it is marked
        person.sends()
        person.sees("The coin is in the air")
        while not held:
            person.tab.wait_for_timeout(20)
        pictured(person.tab, "take-part-coin")
        held[0].continue_()
        person.sees(re.compile("Received and kept"))
        pictured(person.tab, "take-part-sent")
        person.tab.close()


def answers(server: ServerProcess, study: Json, outcomes: Sequence[int]) -> None:
    """These outcomes, in this order, each of another person."""
    for token, outcome in zip(server.enrol(len(outcomes)), outcomes, strict=True):
        assert server.report(study["rounds"][0]["id"], token, outcome).status_code == 200


@pytest.mark.slow
def test_a_picture_of_the_wall(pages: Pages, tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--cap", "1") as server:
        study = room(server, QUESTION, ["yes", "no"], 300)
        answers(server, study, [int(number % 20 < 9) for number in range(243)])
        wall = pages.open(f"{server.url}/wall?study={study['id']}#join=kelp-otter-27", width=1280, height=720)
        wall.locator("#code svg").wait_for()
        wall.get_by_text("kelp-otter-27").wait_for()
        pictured(wall, "wall")
        wall.close()
