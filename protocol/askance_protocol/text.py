"""Text from outside, made harmless for a terminal, a log and a page: it can be read there, and steers nothing."""

from __future__ import annotations

import unicodedata
from typing import Final

LONGEST: Final = 4096
"""Characters of one text that are shown: a name may be as long as the document that it stands in."""

_JOINERS: Final = frozenset("\u200c\u200d")
"""They have no width, move nothing, and are needed to spell Persian, Hindi and others."""


def printable(text: str, most: int = LONGEST) -> str:
    r"""Escape every character that moves, hides or turns what is beside it: `\x1b[2J`, `\u202e`, `\n`.

    Whatever a server or a file says may be quoted in a message, and a terminal obeys what it prints: a name can clear
    the screen, forge a line of ours, or, by a bidirectional override or by characters without width, read otherwise
    than it is. So all of Unicode's control, format, surrogate, private and unassigned characters and its separators
    of lines are written as Python writes them. Letters, marks, signs and spaces of every script stay. What is longer
    than `most` characters is cut. A text that went through this once is not changed by going through it again.
    """
    if len(text) <= most and text.isprintable():
        return text
    shown = "".join(map(_visible, text[:most]))
    return shown if len(shown) <= most and len(text) <= most else shown[: most - 1] + "…"


def _visible(character: str) -> str:
    # "Printable" is to Python all but these and every space except the usual one.
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs":
        return character
    return ascii(character)[1:-1]
