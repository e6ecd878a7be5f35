"""The page on which people answer is given away as it was handed over, and by no server that was handed none."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from askance_client.page import Page, read_page
from askance_server.dashboard.take_part import TakePart
from tests.harness.servers import Service


@pytest.fixture(scope="module")
def page() -> Page:
    return read_page()


@pytest.fixture
def client(tmp_path: Path, page: Page) -> Generator[Service]:
    with Service(tmp_path) as service:
        service.app.state.take_part = TakePart.of(page)
        yield service


def parts(client: Service) -> list[str]:
    """The addresses that the document names."""
    return re.findall(r'(?:src|href)="(/take-part/[^"]*)"', client.get("/take-part").text)


def test_the_page_is_what_was_handed_over(client: Service, page: Page) -> None:
    style, script = (client.get(each) for each in parts(client))

    assert style.text == page.style
    assert script.text == page.script
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]


def test_nothing_inline_is_allowed_to_run(client: Service) -> None:
    answer = client.get("/take-part")

    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "<script>" not in answer.text
    assert "<style" not in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_first_view_is_at_most_100_kilobytes(client: Service) -> None:
    asked = ["/take-part", *parts(client)]
    sizes = [int(client.get(each, headers={"Accept-Encoding": "gzip"}).headers["content-length"]) for each in asked]

    assert sum(sizes) <= 100_000
    # The control: as they are, they would be more.
    plain = [int(client.get(each, headers={"Accept-Encoding": "identity"}).headers["content-length"]) for each in asked]
    assert sum(plain) > 100_000


@pytest.mark.parametrize(
    ("said", "packed"),
    [
        ("gzip", True),
        ("br;q=1, GZIP;q=0.5", True),
        ("gzip;q=0.01", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
    ],
)
def test_a_script_is_packed_for_whoever_takes_it_so(client: Service, said: str, packed: bool) -> None:
    answer = client.get(parts(client)[1], headers={"Accept-Encoding": said})

    assert ("content-encoding" in answer.headers) is packed
    assert answer.text.startswith("//") or "import" in answer.text or "const" in answer.text


def test_what_is_typed_leads_to_the_page(client: Service) -> None:
    answer = client.get("/t")

    assert answer.status_code == 302
    assert answer.headers["location"] == "/take-part"


@pytest.mark.parametrize("path", ["/take-part/0123456789abcdef/page.mjs", "/take-part/x/../../etc"])
def test_there_is_nothing_else_below_it(client: Service, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_server_that_was_handed_none_says_so(tmp_path: Path) -> None:
    with Service(tmp_path) as client:
        answer = client.get("/take-part")

    assert answer.status_code == 404
    assert "started without the page" in answer.json()["detail"]
