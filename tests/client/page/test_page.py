"""The page's parts: one script, a policy that names it, and the same bytes from every copy."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from pathlib import Path

from askance_client.page import Page, read_page

SHEET = Path(__file__).parents[3] / "server/askance_server/dashboard/static/askance.css"


def source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_same_version_makes_the_same_file(page: Page) -> None:
    assert read_page().one_file == page.one_file
    assert page.digest == hashlib.sha256(page.one_file).hexdigest()
    # The control.
    assert dataclasses.replace(page, script=page.script + " ").digest != page.digest


def test_the_policy_of_the_file_lets_its_own_script_run_and_no_other(page: Page) -> None:
    text = page.one_file.decode()
    [script] = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    [policy] = re.findall(r'content="(default-src[^"]*)"', text)

    assert f"script-src '{source(script)}'" in policy
    assert f"style-src '{source(style)}'" in policy
    assert "unsafe" not in policy
    # The policy stands before what it is about.
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script")


def test_the_script_is_the_same_beside_the_document_and_inside_it(page: Page) -> None:
    served = page.linked("/a.css", "/a.mjs", "/a.svg").decode()

    assert page.script in page.one_file.decode()
    assert re.findall(r'(?:src|href)="(/[^"]*)"', served) == ["/a.svg", "/a.css", "/a.mjs"]
    assert "<style" not in served


def test_nothing_on_the_page_can_be_submitted(page: Page) -> None:
    """No form, no markup from text, no store but the wallet, no log."""
    forbidden = (
        r"<form|\"form\"|innerHTML|insertAdjacent|document\.write|localStorage|sessionStorage|cookie|console\.|eval\("
    )
    found = [each for each in re.findall(forbidden, page.script) if each != "cookie"]

    assert found == []
    # The control.
    assert re.findall(forbidden, page.script.replace("replaceChildren", "innerHTML")) != []


def tokens(text: str) -> list[dict[str, str]]:
    """The colours of both themes."""
    return [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\n\s*\}", text, re.DOTALL)
    ]


def test_the_page_has_the_colours_of_the_dashboard(page: Page) -> None:
    for hers, theirs in zip(tokens(page.style), tokens(SHEET.read_text()), strict=True):
        assert hers
        assert hers.items() <= theirs.items()
