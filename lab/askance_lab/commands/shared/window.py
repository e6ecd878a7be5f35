"""Lines that fit the window: 80 columns where there is none, and 120 at most, beyond which the eye loses its row."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

NARROW: Final = 80
_NARROWEST, _WIDEST = 40, 120
_TIE: Final = "\ue000"
"""A space at which no line ends, while lines are made: private, so that no text that is shown has it."""


def window_width() -> int:
    """Columns that a line may have."""
    return max(_NARROWEST, min(_WIDEST, get_terminal_size((NARROW, 24)).columns))


def tied(words: str) -> str:
    """Words that stay in one line, a command for one."""
    return words.replace(" ", _TIE)


def wrapped(text: str, label: str = "", width: int | None = None) -> list[str]:
    """A text in lines that fit, the first behind its label, the others under it; "ε = 1" stays in one line."""
    room = max((window_width() if width is None else width) - cell_len(label), _NARROWEST // 2)
    lines = Text(text.replace(" = ", tied(" = "))).wrap(Console(width=room), room) or [Text()]
    heads = [label, *[" " * cell_len(label)] * (len(lines) - 1)]
    return [(head + line.plain.replace(_TIE, " ")).rstrip() for head, line in zip(heads, lines, strict=True)]
