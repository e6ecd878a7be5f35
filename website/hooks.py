"""What MkDocs calls while it builds the site: the order of the pages, and what is made from the code.

Documents name files of the repository that are not below docs/: a page of the site takes the place of those that have
one, and of the others the name stays, as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import command_line, notebooks, pictures, python_names, rest, theorem_records

ROOT: Final = Path(__file__).parents[1]
FROM_CODE: Final[Mapping[str, Callable[[], str]]] = {
    "reference/command-line.md": command_line.page,
    "reference/rest.md": rest.page,
    "reference/python.md": python_names.page,
    "reference/theorems.md": theorem_records.page,
}
"""Pages of which only the beginning is committed: the rest is made with each build, and cannot grow old."""
FROM_REPOSITORY: Final[Mapping[str, Callable[[], str]]] = {
    "contributing.md": lambda: (ROOT / "CONTRIBUTING.md").read_text("utf-8").replace("](docs/", "]("),
    "changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "]("),
}
"""Files of the repository that are pages of the site."""
ELSEWHERE: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that have a page of another name."""
NOTEBOOKS: Final = "notebooks.md"
"""The page that lists the notebooks: in the repository by their files, here by their pages."""
_IMAGE: Final = re.compile(r'<img [^>]*src="(?P<folder>(?:[^"]*/)?)(?P<name>[^"/]+)\.svg"[^>]*>')
WIDE: Final = 700
"""A plot of more points has several panels beside each other, and is not made as narrow as the text."""
_PLOT: Final = re.compile(r'<svg [^>]*width="(?P<width>[\d.]+)pt"')
_CORNER: Final = re.compile(r"<th([^>]*)></th>")
_OUTSIDE: Final = re.compile(r"\[(?P<name>[^\]]+)\]\((?:\.\./)*(?P<path>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that a pattern of the navigation finds in its place."""
    pages = cast("list[Any] | None", config.nav)  # pyright: ignore[reportUnknownMemberType] - untyped there
    config.nav = expanded(pages, Path(config.docs_dir)) if pages else None
    return config


def expanded(entries: list[Any], folder: Path) -> list[Any]:
    """The navigation, with the pages of each pattern; an entry of several pages that has none is left out."""
    return list(_expanded(entries, folder))


def _expanded(entries: list[Any], folder: Path) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, str) and "*" in entry:
            found = (path.relative_to(folder) for path in sorted(folder.glob(entry)))
            # A notebook has a page that is made of it.
            yield from (path.with_suffix(".md").as_posix() for path in found)
        elif isinstance(entry, dict):
            [(title, inner)] = cast("dict[str, Any]", entry).items()
            yield {title: inner if isinstance(inner, str) else expanded(inner, folder)}
        else:
            yield entry


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere in the repository."""
    for path, page in FROM_REPOSITORY.items():
        files.append(File.generated(config, path, content=page()))
    for path, content in notebooks.pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - its caller names it
    """Add what is made from the code, and let links out of docs/ lead to their pages, or to nothing."""
    if made := FROM_CODE.get(page.file.src_uri):
        return f"{markdown}\n{made()}"
    return relinked(markdown, page.file.src_uri, files).replace("\n<BLANKLINE>\n", "\n\n")


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the same
    """Let an empty corner of a table be no heading, which a screen reader would read out as one, and suit pictures."""
    return _IMAGE.sub(suited, _CORNER.sub(r"<td\1></td>", content))


def suited(found: re.Match[str]) -> str:
    """A picture with its drawing for phones, where it has one; a plot with its classes, which the style looks for."""
    image, folder, name = found[0], found["folder"], found["name"]
    if f"{name}{pictures.NARROW}.svg" in pictures.PICTURES and folder.endswith("pictures/"):
        source = f'<source media="(max-width: 44em)" srcset="{folder}{name}{pictures.NARROW}.svg">'
        return f"<picture>{source}{image}</picture>"
    width = plots().get(f"{folder.rpartition('/')[0]}/{name}")
    if width is None:
        return image
    return image.replace("<img", f'<img class="{"plot wide" if width > WIDE else "plot"}"', 1)


@cache
def plots() -> Mapping[str, float]:
    """How wide each plot is, in points, by its folder's name and its own. They are drawn on white, by matplotlib."""
    drawn = {f"{path.parent.name}/{path.stem}": path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.svg")}
    made = {f"/{Path(path).stem}": text for path, text in notebooks.pages().items() if path.endswith(".svg")}
    found = {name: _PLOT.search(text[:2000]) for name, text in (drawn | made).items()}
    return {name: float(each["width"]) for name, each in found.items() if each}


def relinked(markdown: str, source: str, files: Files) -> str:
    """A document in which no link leads out of the site by a path."""
    up = "../" * source.count("/")

    def link(found: re.Match[str]) -> str:
        name, path, anchor = found["name"], found["path"], found["anchor"] or ""
        if source == NOTEBOOKS and path.endswith(".ipynb"):
            return f"[{name}]({path.removesuffix('ipynb')}md)"
        if path in ELSEWHERE:
            return f"[{name}]({up}{ELSEWHERE[path]}{anchor})"
        outside = not files.get_file_from_path(path) and (ROOT / path).exists()
        return f"`{path}`" if outside else found[0]

    return _OUTSIDE.sub(link, markdown)
