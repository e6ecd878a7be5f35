"""What every page is built on: policy, assets, templates, and the page for what is not there."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from pathlib import Path

import httpx
import pytest

from askance_server.dashboard.assets import Assets, assets
from askance_server.dashboard.responses import POLICY
from tests.harness.servers import Service, is_problem

ROOT = Path(__file__).parents[3]
TEMPLATES = sorted((ROOT / "server/askance_server/dashboard/templates").rglob("*.html"))
STATIC = ROOT / "server/askance_server/dashboard/static"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
MOST_LINES = 200


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "ledger") as made:
        yield made


def is_page(response: httpx.Response, status: int = 200) -> str:
    """The text of a page under the policy."""
    assert response.status_code == status
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in response.headers
    return response.text


@pytest.mark.parametrize("path", ["/nothing", "/studies/nothing", f"/studies/{'0' * 64}", "/assets/0/askance.css"])
def test_who_follows_a_wrong_address_with_a_browser_gets_a_page_and_a_program_a_problem(
    service: Service, path: str
) -> None:
    assert "There is no such thing" in is_page(service.get(path, headers=BROWSER), 404)
    is_problem(service.get(path), "not-found")


def test_a_path_of_the_interface_answers_with_a_problem_whoever_asks(service: Service) -> None:
    is_problem(service.get("/v1/nothing", headers=BROWSER), "not-found")
    is_problem(service.get("/v1/studies/nothing", headers=BROWSER), "not-found")


def test_assets_are_kept_for_ever_and_their_address_changes_with_any_of_them(service: Service) -> None:
    for name in assets().files:
        response = service.get(assets().address(name))
        assert response.status_code == 200
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.content == assets().files[name]
        again = service.get(assets().address(name), headers={"If-None-Match": response.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    before = Assets.of({"a.css": b"x", "b.js": b"y"})

    assert before.digest != Assets.of({"a.css": b"x", "b.js": b"z"}).digest
    assert before.digest != Assets.of({"a.css": b"xb.js", "": b"y"}).digest
    with pytest.raises(KeyError):
        before.address("c.js")


def test_assets_are_of_a_kind_that_a_browser_takes(service: Service) -> None:
    kinds = {name.rpartition(".")[2]: service.get(assets().address(name)).headers for name in assets().files}

    assert kinds["css"]["content-type"] == "text/css; charset=utf-8"
    assert kinds["svg"]["content-type"] == "image/svg+xml"
    assert kinds["css"]["x-content-type-options"] == "nosniff"


# ----------------------------------------------------------------------------------------- nothing inline, nowhere else

INLINE = re.compile(
    r"<style|\sstyle\s*=|<script(?![^>]*\bsrc=)|\son[a-z]+\s*=|javascript:|https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#)",
    re.IGNORECASE,
)


def inline(texts: Iterable[str]) -> list[str]:
    """What a strict policy would not let pass: style and script in a page, and other hosts."""
    return [found[0] for text in texts for found in INLINE.finditer(text)]


def test_no_template_and_no_asset_has_inline_style_or_script_or_names_a_host() -> None:
    texts = [path.read_text("utf-8") for path in TEMPLATES]
    texts += [path.read_text("utf-8") for path in STATIC.rglob("*") if path.suffix in {".css", ".js", ".svg"}]

    assert len(texts) > 4
    assert inline(texts) == []


@pytest.mark.parametrize(
    "planted",
    [
        '<p style="color: red">',
        "<style>p {}</style>",
        "<script>1</script>",
        '<button onclick="go()">',
        '<a href="javascript:go()">',
        '<script src="https://cdn.example/x.js"></script>',
        "@import 'other.css';",
        "background: url(//cdn.example/x.png)",
    ],
)
def test_control_what_is_inline_is_found(planted: str) -> None:
    assert inline([planted])


def test_a_script_is_short() -> None:
    long = [path.name for path in STATIC.rglob("*.js") if len(path.read_text("utf-8").splitlines()) > MOST_LINES]
    assert long == []
