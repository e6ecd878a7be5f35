"""The site of `docs/`: it builds without a warning, every link leads somewhere, and it asks no other host.

It is built once for all tests of this file, as `make docs` does. Each check is a function of what it looks at, and is
shown a planted fault.
"""

from __future__ import annotations

import functools
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import redirect_stdout, suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import codespell_lib
import pytest
from axe_playwright_python.sync_playwright import Axe
from mkdocs.structure.files import Files
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as NotInTime

from askance_lab.cli import CommandModules
from askance_lab.theory.theorem import theorems
from askance_server import create_app
from tests.harness.browser import Pages
from tests.harness.marks import SECONDS
from website import glossary, hooks, notebooks, pictures, python_names

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
DOCUMENTS: Final = [
    *sorted(DOCS.glob("**/*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
]
TUTORIAL: Final = sorted(DOCS.glob("tutorial*.md"))


def build(config: Path, site: Path) -> tuple[int, str]:
    """How a build ends, and what it says. Not with --quiet, which counts no warnings."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, which was built without a warning."""
    made = tmp_path_factory.mktemp("site")
    code, said = build(ROOT / "mkdocs.yml", made)
    assert (code, "WARNING" in said) == (0, False), said
    return made


def test_a_dead_link_a_dead_anchor_and_a_page_that_is_in_no_line_are_warnings_that_fail(tmp_path: Path) -> None:
    """The control of the build."""
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("# Start\n\n[gone](gone.md) [here](#nowhere)\n")
    (pages / "left-out.md").write_text("# Left out\n")
    config = tmp_path / "mkdocs.yml"
    theme = ROOT / "website" / "theme"
    own = ["docs_dir: docs", "nav: [index.md]", "hooks: []", f"theme: {{ custom_dir: {theme} }}"]
    config.write_text("\n".join([f"INHERIT: {ROOT / 'mkdocs.yml'}", *own]))

    code, said = build(config, tmp_path / "site")

    assert code != 0
    assert "left-out.md" in said
    assert "gone.md" in said
    assert "#nowhere" in said


def test_a_pattern_of_the_navigation_stands_for_the_pages_that_it_finds(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    for name in ("operate-2.md", "operate-1.md", "decisions/one-bit.md"):
        (tmp_path / name).touch()

    nav = ["index.md", {"How to": ["operate*.md", {"None": "none.md"}]}, "decisions/*.md", "stable*.md"]
    made = [{"How to": ["operate-1.md", "operate-2.md", {"None": "none.md"}]}, "decisions/one-bit.md"]
    assert hooks.expanded(nav, tmp_path) == ["index.md", *made]


def test_a_link_out_of_the_documents_leads_to_a_page_of_the_site_or_is_text() -> None:
    text = "[a](../README.md#b) [c](../examples/askance-stump) [d](server.md#e) [f](../CHANGELOG.md)"

    made = hooks.relinked(text, "decisions/one.md", Files([]))

    assert made == "[a](../index.md#b) `examples/askance-stump` [d](server.md#e) [f](../changelog.md)"


# --------------------------------------------------------------------------------------------------- links and hosts


class Read(HTMLParser):
    """A page: ids that can be linked to, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.links, self.loads = set[str](), list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in {"canonical", "prev", "next"}:
            self.loads.append(given.get("href", ""))
        else:
            self.loads += [given[name] for name in ("src", "srcset", "poster", "data") if name in given]


@functools.cache
def page_of(path: Path) -> Read:
    return Read(path.read_text("utf-8"))


def dead(site: Path) -> Iterator[str]:
    """Links within a site that lead nowhere, and assets that are not there."""
    for path in sorted(site.rglob("*.html")):
        read = page_of(path)
        for link in (*read.links, *read.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            there = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            there = there / "index.html" if there.is_dir() else there
            ids = page_of(there).ids if there.suffix == ".html" and there.is_file() else set[str]()
            if not there.is_file() or (parts.fragment and unquote(parts.fragment) not in ids):
                yield f"{path.name}: {link}"


_IN_STYLE: Final = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]+)""")


def foreign(site: Path) -> Iterator[str]:
    """What a site loads from elsewhere: by its pages, its styles and its drawings."""
    for path in sorted(site.rglob("*.html")):
        yield from (each for each in page_of(path).loads if re.match(r"(https?:)?//", each))
    for path in (*site.rglob("*.css"), *site.rglob("*.html"), *site.rglob("*.svg")):
        yield from _IN_STYLE.findall(path.read_text("utf-8"))


def test_every_link_and_every_anchor_of_the_site_exists(site: Path) -> None:
    assert list(dead(site)) == []
    assert sum(len(page_of(path).links) for path in site.rglob("*.html")) > 5000, "the check looks at something"


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    assert list(foreign(site)) == []


def test_control_a_dead_link_and_an_asset_of_another_host_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text(
        '<h2 id="a">A</h2><a href="two.html">x</a><a href="#b">x</a><a href="one.html#a">x</a>'
        '<script src="https://192.0.2.1/x.js"></script><a href="https://192.0.2.1">may be</a>'
    )
    (tmp_path / "site.css").write_text("@import '//192.0.2.1/font.css';")

    assert list(dead(tmp_path)) == ["one.html: two.html", "one.html: #b"]
    assert list(foreign(tmp_path)) == ["https://192.0.2.1/x.js", "//192.0.2.1/font.css"]


# ---------------------------------------------------------------------------------------------------------- spelling


def misspelled(paths: Iterable[Path]) -> list[str]:
    """Words that are misspelled, or spelled as elsewhere: here is Oxford's way, British with -ize."""
    said = io.StringIO()
    words = ROOT / "website" / "words.txt"
    with redirect_stdout(said):
        codespell_lib.main("--builtin", "clear,rare,en_to_en-OX", "-I", str(words), *map(str, paths))
    return [line.rsplit(": ", 1)[1] for line in said.getvalue().splitlines()]


def words_of(path: Path) -> str:
    """What a notebook says in words."""
    return "\n\n".join(cell.text for cell in notebooks.form(path).cells if cell.cell_type == "markdown")


def test_every_document_is_spelled_as_the_others(tmp_path: Path) -> None:
    assert misspelled(DOCUMENTS) == []
    lessons = [tmp_path / f"{path.stem}.md" for path in notebooks.PATHS]
    for lesson, path in zip(lessons, notebooks.PATHS, strict=True):
        lesson.write_text(words_of(path), "utf-8")
    assert misspelled(lessons) == []
    # The control of what is read of a notebook.
    lessons[0].write_text(words_of(notebooks.PATHS[0]).replace("people", "poeple"), "utf-8")
    assert {each.split()[0] for each in misspelled(lessons)} == {"poeple"}
    # The control: a slip, an American word, and one with -ise.
    (tmp_path / "a.md").write_text("Teh colors are randomised, and so are the sanitizers.")
    assert [each.split()[0] for each in misspelled([tmp_path / "a.md"])] == ["Teh", "colors", "randomised"]


# ---------------------------------------------------------------------------------------------------------- glossary


GLOSSARY: Final = (DOCS / "glossary.md").read_text("utf-8")
_ELEMENT: Final = re.compile(r"<(pre|code|h[1-6]|title|nav|script|style)\b.*?</\1>", re.DOTALL)
_ANCHOR: Final = re.compile(r"<a\b[^>]*>.*?</a>", re.DOTALL)


def unexplained(page: str, text: str) -> Iterator[str]:
    """Terms that a page uses for the first time without a link to the glossary."""
    [article] = re.findall(r"<article\b.*?</article>", page, re.DOTALL)
    prose = _ELEMENT.sub(" ", article)
    explained = set[str]()
    for piece in re.split(r"(<a\b[^>]*>.*?</a>)", prose, flags=re.DOTALL):
        if _ANCHOR.fullmatch(piece):
            explained |= set(re.findall(r"glossary\.html#([^\"]+)\"", piece))
            continue
        for found in glossary.pattern(text).finditer(re.sub(r"<[^>]+>", " ", piece)):
            term = glossary.by_form(text)[found[0].lower()]
            if term.anchor not in explained:
                yield term.name
                explained.add(term.anchor)


def test_each_page_of_the_tutorial_explains_a_word_where_it_uses_it_first(site: Path) -> None:
    found = {path.stem: (site / f"{path.stem}.html").read_text("utf-8") for path in TUTORIAL}
    for name, page in found.items():
        assert list(unexplained(page, GLOSSARY)) == [], name
    # The control: a page without its links.
    bare = re.sub(r"</?a\b[^>]*>", "", found["tutorial-5-separation"])
    assert "separation" in {each.lower() for each in unexplained(bare, GLOSSARY)}


def test_each_term_of_the_glossary_has_a_meaning_and_a_place_of_its_own(site: Path) -> None:
    terms = glossary.terms(GLOSSARY)
    headings = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)

    assert [each.name for each in terms] == headings, "one that is written in another way would not be found"
    assert len({each.anchor for each in terms}) == len(terms) == len({each.sentence for each in terms})
    assert {each.name for each in terms} >= glossary.BY_HAND
    assert {each.anchor for each in terms} <= page_of(site / "glossary.html").ids
    assert all(each.sentence.endswith(".") or "](" in each.meaning for each in terms)
    forms = [form.lower() for each in terms for form in each.forms]
    assert len(forms) == len(set(forms)), "a word stands for one thing"


def test_a_word_is_linked_once_and_never_in_code_or_in_another_link() -> None:
    page = "<h2>Wallet</h2><code>wallet</code> <a href='x'>wallet</a> A <b>wallet</b>, wallets; wallet-like."
    made = glossary.linked(page, "### Wallet\n\nIt *pays*. And more.\n", "glossary.html")

    link = '<a class="term" href="glossary.html#wallet" title="It pays.">wallet</a>'
    assert made == page.replace("<b>wallet</b>", f"<b>{link}</b>")


# ---------------------------------------------------------------------------------------------------- made from code


def lacking(site: Path, page: str, wanted: Iterable[str]) -> list[str]:
    """Places that a page should have and has not."""
    return [each for each in wanted if each not in page_of(site / "reference" / page).ids]


def test_the_reference_has_every_command_endpoint_name_and_theorem(site: Path) -> None:
    modules = CommandModules()
    inner = [f"askance-{name}-{word}" for name in modules for word in getattr(modules[name], "commands", {})]
    operations = [(method, path) for path, each in create_app().openapi()["paths"].items() for method in each]
    endpoints = [f"{method}-{path.strip('/').replace('/', '-')}" for method, path in operations]

    assert lacking(site, "command-line.html", [*(f"askance-{name}" for name in modules), *inner]) == []
    assert lacking(site, "rest.html", [re.sub(r"[{}]", "", each) for each in endpoints]) == []
    assert lacking(site, "python.html", [each.replace(".", "") for each in python_names.packages()]) == []
    assert lacking(site, "python.html", ["askance_protocol.Channel", "askance_client.User"]) == []
    assert lacking(site, "theorems.html", theorems()) == []
    # The control.
    assert lacking(site, "theorems.html", ["no-such-theorem"]) == ["no-such-theorem"]


def stale(folder: Path) -> list[str]:
    """Pictures that are not as they would be drawn now."""
    return [name for name, draw in pictures.PICTURES.items() if (folder / name).read_text("utf-8") != draw()]


def test_the_pictures_are_as_they_are_drawn_now(tmp_path: Path) -> None:
    assert stale(pictures.FOLDER) == [], "make pictures"
    assert {path.name for path in pictures.FOLDER.iterdir()} == set(pictures.PICTURES)
    # The control: one number, by one.
    for name in pictures.PICTURES:
        text = (pictures.FOLDER / name).read_text("utf-8")
        (tmp_path / name).write_text(text.replace("312,000", "312,001"), "utf-8")
    assert stale(tmp_path) == ["separation.svg", "separation-narrow.svg"]


INSTALL = 'python3 -m venv .venv\n. .venv/bin/activate\npip install "askance[lab]"\n'


def unrun(text: str) -> list[str]:
    """Blocks of a page that no test runs."""
    kinds = re.findall(r"^```(\S*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [body for kind, body in kinds if kind not in {"console", "python"}]


def test_every_step_of_the_tutorial_is_run() -> None:
    assert [body for path in TUTORIAL for body in unrun(path.read_text("utf-8"))] == [INSTALL]
    # The control.
    assert unrun("```text\naskance demo\n```\n") == ["askance demo\n"]


def not_installed(page: str, install: str) -> list[str]:
    """Commands of a page that refuse to begin with what was installed, because they could not draw."""
    drawn = re.findall(r"^\$ (.*\baskance (?:separation(?! --table)|landscape)\b.*)$", page, re.MULTILINE)
    return [] if "askance[lab]" in install else drawn


def test_what_is_installed_suffices_for_the_pages_that_follow() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for path in (*TUTORIAL, ROOT / "docs" / "teach.md", ROOT / "README.md"):
        page = path.read_text("utf-8")
        assert not_installed(page, INSTALL) + not_installed(page, readme) == [], path
    # The control: what the pages said to install before.
    teach = (ROOT / "docs" / "teach.md").read_text("utf-8")
    assert len(not_installed(teach, "pip install askance")) == 1


# ----------------------------------------------------------------------------------------------------- in a browser


@pytest.fixture
def served(site: Path) -> Generator[str]:
    """The site, from this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name for it
            """Nothing."""

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def violations(page: Page) -> list[str]:
    """What axe finds."""
    return [each["id"] for each in Axe().run(page).response["violations"]]


def pages_of(site: Path) -> list[str]:
    """All pages, by their addresses in the site."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")


def barriers(page: Page, address: str) -> list[str]:
    """What axe finds on a page, and whether it is wider than its window."""
    page.goto(address)
    page.evaluate("() => new Promise(done => setTimeout(done, 100))")
    wide = not page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    return [*violations(page), *(["wider than its window"] if wide else [])]


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_page_has_a_barrier_or_is_wider_than_its_window(
    pages: Pages, served: str, site: Path, width: int, *, dark: bool
) -> None:
    """Some pages in each of the four ways, and each page in one of them, in turns."""
    page = pages.open(f"{served}/index.html", width=width, dark=dark)
    turn = 2 * dark + (width == 360)
    always = {"index.html", "tutorial-5-separation.html", "notebooks/1-randomized-response.html"}
    for number, name in enumerate([*pages_of(site), "404.html"]):
        if name in always or number % 4 == turn:
            assert barriers(page, f"{served}/{name}") == [], name
    # Light and dark differ, and the control of axe.
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(18, 20, 24)" if dark else "rgb(250, 250, 248)")
    page.evaluate("() => document.querySelector('.md-search__input').removeAttribute('aria-label')")
    page.evaluate("() => document.querySelector('.md-search__input').removeAttribute('placeholder')")
    assert "label" in violations(page)


@pytest.mark.slow
def test_control_a_page_that_is_too_wide_is_found(pages: Pages, tmp_path: Path) -> None:
    (tmp_path / "wide.html").write_text(
        "<!doctype html><html lang=en><title>A</title><main><h1>A</h1><p style=width:500px>B</main>"
    )
    page = pages.open("about:blank", width=360)
    assert barriers(page, (tmp_path / "wide.html").as_uri()) == ["wider than its window"]


def drawings(page: Page, address: str) -> list[tuple[str, bool]]:
    """The drawings of a page as they are shown: the file, and whether all of its width is seen at once."""
    page.goto(address)
    shown = """() => [...document.querySelectorAll("img[src*='pictures/']")].map(each => {
        const box = each.getBoundingClientRect()
        return [each.currentSrc.split("/").pop(), box.left >= 0 && box.right <= innerWidth && each.complete]
    })"""
    return [(name, whole) for name, whole in page.evaluate(shown)]


@pytest.mark.slow
def test_a_phone_gets_drawings_of_its_own_which_are_seen_whole(pages: Pages, served: str, site: Path) -> None:
    phone, desk = (pages.open(f"{served}/index.html", width=width) for width in (360, 1280))
    every = list[tuple[str, bool]]()
    for name in (each for each in pages_of(site) if 'src="pictures/' in (site / each).read_text("utf-8")):
        found = drawings(phone, f"{served}/{name}")
        # The control: where there is room, it is the other one.
        wide = [file.replace(pictures.NARROW, "") for file, _ in found]
        assert [file for file, _ in drawings(desk, f"{served}/{name}")] == wide
        every += found
    assert {name for name, _ in every} == {name for name in pictures.PICTURES if pictures.NARROW in name}
    assert all(whole for _, whole in every)


def test_a_picture_is_suited_to_a_phone_or_to_the_dark_or_left_as_it_is() -> None:
    def made(source: str) -> str:
        return hooks._IMAGE.sub(hooks.suited, f'<p><img alt="a" src="{source}" /></p>')

    assert '<source media="(max-width: 44em)" srcset="../pictures/coin-narrow.svg">' in made("../pictures/coin.svg")
    assert 'class="plot wide"' in made("landscape/landscape.svg")
    assert 'class="plot"' in made("1-randomized-response-05.svg")
    for other in ("architecture/rooms.svg", "pages/wall.png", "pictures/none.svg"):
        assert made(other) == f'<p><img alt="a" src="{other}" /></p>'


# ----------------------------------------------------------------------------------------------------------- search


def unindexed(site: Path, index: str) -> list[str]:
    """Pages that a search could not find: no section of theirs is in the index."""
    there = {each["location"].partition("#")[0] for each in json.loads(index)["docs"] if each["text"] or each["title"]}
    return [name for name in pages_of(site) if name not in there]


def test_every_page_is_in_the_index_of_the_search(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text("utf-8")
    assert unindexed(site, index) == []
    # The control: an index with a page left out.
    read = json.loads(index)
    read["docs"] = [each for each in read["docs"] if not each["location"].startswith("tutorial-3-wallet.html")]
    assert unindexed(site, json.dumps(read)) == ["tutorial-3-wallet.html"]
    # What is read from the disk is the same.
    on_disk = (site / "search" / "search_index.js").read_text("utf-8")
    assert json.loads(on_disk[on_disk.index("{") : on_disk.rindex("}") + 1]) == json.loads(index)


def looked_for(page: Page, words: str) -> str:
    """What the search says of some words."""
    field, meta = page.locator(".md-search__input"), page.locator(".md-search-result__meta")
    for _ in range(SECONDS):
        field.fill("")
        field.press_sequentially(words)
        # Until the index is read, what is typed waits for the next key.
        with suppress(NotInTime):
            page.locator(".md-search-result__meta", has_text="match").wait_for(timeout=1000)
            break
    return meta.inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [False, True], ids=["served", "on disk"])
def test_a_word_is_found_without_another_host(pages: Pages, served: str, site: Path, *, on_disk: bool) -> None:
    """What `pages` watches: no request leaves this machine, and nothing stands on the console."""
    start = f"{site.as_uri() if on_disk else served}/index.html"
    page = pages.open(start)
    assert re.match(r"\d+ matching", looked_for(page, "wallet refuses"))
    assert "allet" in page.locator(".md-search-result__item").first.inner_text()
    # The control: a word that is on no page.
    nowhere = "qzxvwk"
    assert not any(nowhere in (site / name).read_text("utf-8") for name in pages_of(site))
    page = pages.open(start)
    assert looked_for(page, nowhere) == "No matching documents"
    assert page.locator(".md-search-result__item").count() == 0
