"""Text of the code as Markdown of the site."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Final

_CODE: Final = re.compile(r"(`[^`\n]+`)")
_SPECIAL: Final = re.compile(r"([*_\[\]<>|\\])")
_UNDERLINED: Final = re.compile(r"^(.+)\n[-=]{3,}$", re.MULTILINE)
"""A heading within a docstring, which is none on the page."""


def escaped(text: str) -> str:
    """A text whose code stays code, and in which nothing else is taken for Markdown."""
    parts = _CODE.split(text)
    return "".join(part if number % 2 else _SPECIAL.sub(r"\\\1", part) for number, part in enumerate(parts))


def cell(text: str) -> str:
    """A text on one line, for a table."""
    return escaped(" ".join(text.split()))


def code(text: str) -> str:
    """A text as code, for a table: a bar would end the cell."""
    return f"<code>{text.replace('&', '&amp;').replace('<', '&lt;').replace('|', '&#124;')}</code>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown; nothing, where it would have no row."""
    body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body, "", ""]) if body else ""


def block(text: str, language: str = "text") -> str:
    """Lines as they are."""
    return f"```{language}\n{text.rstrip()}\n```\n\n"


def paragraphs(text: str | None) -> str:
    """A docstring: its paragraphs, and as they stand those lines that are indented."""
    made = list[str]()
    for part in _UNDERLINED.sub(r"\1.", inspect.cleandoc(text or "")).split("\n\n"):
        made.append(block(part) if part.startswith("    ") else f"{escaped(part)}\n\n")
    return "".join(made)
