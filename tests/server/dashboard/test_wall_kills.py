"""The wall while its server is killed and started again: it says so, goes on by itself, and no number goes back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import Pages
from tests.harness.marks import SECONDS
from tests.harness.ports import lasting_port
from tests.harness.servers import ServerProcess
from tests.server.dashboard.test_wall import opened

expect.set_options(timeout=SECONDS * 1000)
pytestmark = pytest.mark.slow

PEOPLE: Final = 40
LIVES: Final = 4
AWAY: Final = "Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|EventSource"
"""What a browser says on its console while nobody answers."""
NOTE: Final = """() => {
  window.seen = [];
  const text = (id) => document.getElementById(id).innerText;
  const note = () => window.seen.push([text("now"), text("progress")]);
  note();
  new MutationObserver(note).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
"""From now on everything that the wall shows is noted."""


@pytest.fixture
def server(tmp_path: Path) -> Generator[ServerProcess]:
    made = ServerProcess(tmp_path / "ledger", "--cap", "1", port=lasting_port())
    made.start()
    yield made
    made.stop()


def numbers(page: Page) -> tuple[list[int], list[int]]:
    """What was shown, one after the other: of how many answers something was told, and how many there were."""
    told, received = list[int](), list[int]()
    for now, progress in page.evaluate("() => window.seen"):
        told += [int(count) for count in re.findall(r"([0-9]+) of [0-9]+ answers counted", now)]
        received += [int(count) for count in re.findall(r"([0-9]+) answers?", progress)]
    return told, received


def follow(server: ServerProcess, pages: Pages, between: Callable[[int], None]) -> tuple[list[int], list[int]]:
    """A room that answers over some lives of its server; what its wall has shown."""
    pages.watched.expect(AWAY)
    study = opened(server)
    round_, tokens = study["rounds"][0]["id"], server.enrol(PEOPLE)
    page = pages.open(f"{server.url}/wall?study={study['id']}")
    expect(page.locator("#code svg")).to_be_visible()
    page.evaluate(NOTE)
    share = PEOPLE // LIVES
    for life in range(LIVES):
        for number in range(life * share, life * share + share):
            assert server.report(round_, tokens[number], number % 3 // 2).status_code in {200, 422}
        received: Any = server.get(f"/v1/studies/{study['id']}").json()["rounds"][0]["received"]
        expect(page.locator("#progress")).to_contain_text(f"{received} answers")
        if life < LIVES - 1:
            server.kill()
            expect(page.locator("#connection")).to_contain_text("No word from the server since")
            between(life)
            server.start()
            expect(page.locator("#connection")).to_be_empty()
    shown = numbers(page)
    page.close()
    return shown


def goes_back(shown: tuple[list[int], list[int]]) -> bool:
    return any(late < soon for counts in shown for soon, late in pairwise(counts))


def test_a_wall_whose_server_is_killed_says_so_and_goes_on_and_shows_no_older_number(
    server: ServerProcess, pages: Pages
) -> None:
    shown = follow(server, pages, lambda _: None)

    told, received = shown
    assert not goes_back(shown)
    # Each life has told more than the one before, and was seen.
    assert {4, 16, 24} <= set(told)
    assert {10, 20, 30, PEOPLE} <= set(received)


def test_control_a_server_that_has_forgotten_is_found(server: ServerProcess, pages: Pages, tmp_path: Path) -> None:
    """Its ledger is put back to what it was when it was killed for the first time."""
    kept = tmp_path / "kept"

    def put_back(life: int) -> None:
        if not life:
            shutil.copytree(server.directory, kept)
        else:
            shutil.rmtree(server.directory)
            shutil.copytree(kept, server.directory)

    assert goes_back(follow(server, pages, put_back))
