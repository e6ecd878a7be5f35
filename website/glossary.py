"""Words of the field: where a page uses one first, the site links it to the glossary, and tells its meaning on hover.

The glossary is docs/glossary.md: a heading a term, the names that it also has below it in one line, and its meaning in
sentences, of which the first stands by itself.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

PAGE: Final = "glossary.md"
WITHOUT: Final = re.compile(r"glossary\.md|changelog\.md|reference/.*")
"""Pages whose words are not linked."""
BY_HAND: Final = frozenset({"At once", "Example", "Round", "Vector"})
"""Terms that are everyday words, too (the wrong way round, for example): authors alone link them."""
_ENTRY: Final = re.compile(r"^### (?P<term>.+)\n\n(?:Also: (?P<also>.+)\.\n\n)?(?P<meaning>(?:.+\n)+)", re.MULTILINE)
_TAG: Final = re.compile(r"""(<(?:"[^"]*"|'[^']*'|[^>"'])*>)""")
_NAME: Final = re.compile(r"</?([a-z0-9]+)")
_CLOSED: Final = frozenset(
    {"a", "abbr", "button", "code", "pre", "script", "style", "svg", *(f"h{n}" for n in range(1, 7))}
)
"""Elements in whose text no word is linked."""
_MARKDOWN: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)|[*`]")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the field, in all its forms."""

    name: str
    also: tuple[str, ...]
    meaning: str

    @property
    def anchor(self) -> str:
        """Where it is on the page."""
        return re.sub(r"[^\w -]", "", self.name.lower()).replace(" ", "-")

    @property
    def sentence(self) -> str:
        """Its meaning in one sentence, as plain text."""
        plain = _MARKDOWN.sub(lambda found: found[1] or "", " ".join(self.meaning.split()))
        return re.split(r"(?<=\.) ", plain)[0]

    @property
    def forms(self) -> Iterator[str]:
        """Its names, each in the singular and in the plural."""
        for name in (self.name, *self.also):
            yield name
            yield f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def terms(text: str) -> list[Term]:
    """The terms of a glossary."""
    return [
        Term(each["term"], tuple(filter(None, re.split(r", ", each["also"] or ""))), each["meaning"])
        for each in _ENTRY.finditer(text)
    ]


@cache
def by_form(text: str) -> Mapping[str, Term]:
    """The terms of a glossary by every form, in small letters."""
    return {form.lower(): term for term in terms(text) for form in term.forms}


@cache
def pattern(text: str) -> re.Pattern[str]:
    """Finds every form, the longest first; but for terms that only an author can tell from everyday words."""
    forms = sorted((form for form, term in by_form(text).items() if term.name not in BY_HAND), key=len, reverse=True)
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, forms))})(?![\w-])", re.IGNORECASE)


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the first use of each term; MkDocs calls it with each page's HTML."""
    if WITHOUT.fullmatch(page.file.src_uri) or (found := files.get_file_from_path(PAGE)) is None:
        return content
    return linked(content, (Path(config.docs_dir) / PAGE).read_text("utf-8"), found.url_relative_to(page.file))


def linked(content: str, glossary: str, address: str) -> str:
    """HTML in which the first use of each term is a link."""
    known, find = by_form(glossary), pattern(glossary)
    places = {f'href="{address}#{term.anchor}"': term for term in known.values()}
    inside, parts, met = 0, list[str](), set[Term]()

    def link(found: re.Match[str]) -> str:
        term = known[html.unescape(found[0]).lower()]
        if term in met:
            return found[0]
        met.add(term)
        title = html.escape(term.sentence, quote=True)
        return f'<a class="term" href="{address}#{term.anchor}" title="{title}">{found[0]}</a>'

    for number, part in enumerate(_TAG.split(content)):
        if number % 2:
            name = _NAME.match(part)
            closed = name is not None and name[1] in _CLOSED and not part.endswith("/>")
            inside += (-1 if part.startswith("</") else 1) if closed else 0
            met |= {term for place, term in places.items() if place in part}  # a link that its author has set
            parts.append(part)
        else:
            parts.append(part if inside else find.sub(link, part))
    return "".join(parts)
