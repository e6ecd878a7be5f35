"""Text from outside, made harmless for a terminal, a log and a page: it can be read there, and steers nothing."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 4096
"""Characters of one text that are shown: a name may be as long as the document that it stands in."""

QUOTED: Final = 64
"""Characters that a message shows of what it refuses."""

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


def quoted(text: str, most: int = QUOTED) -> str:
    """A text from outside as a message quotes it: between quotation marks, printable, and cut to a few characters.

    What is refused may be as long as its document, and private; a few characters tell its author which it is.
    """
    # As Python writes a text, which escapes the marks inside too: nobody can end a quotation early.
    shown = repr(text[:most])
    return shown if len(text) <= most and len(shown) <= most + 2 else f"{shown[:most]}…{shown[0]}"


def listed(names: Iterable[str], most: int = 4 * QUOTED) -> str:
    """Names with commas between them, as many as have room, and how many more there are."""
    names, shown = list(names), list[str]()
    for name in names:
        most -= len(name) + 2
        if most < 0 and shown:
            return f"{', '.join(shown)} and {len(names) - len(shown)} more"
        shown.append(printable(name, QUOTED + 2))
    return ", ".join(shown)


def counted(number: int, one: str, more: str = "") -> str:
    """A number and what it counts: "1 round", "2,000 rounds"; `more` is a plural that has not just an s."""
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def are(number: int) -> str:
    """The beginning of what is said of so many: "1 is", "2,000 are"."""
    return f"{number:,} {'is' if number == 1 else 'are'}"


def one_of(name: str, known: Iterable[str], lead: str = "use one of") -> str:
    """What to do about a name that is not known: the known one that it is like, or else all that there are."""
    every = list(known)
    close = difflib.get_close_matches(name, every, 1)
    return f"did you mean {printable(close[0], QUOTED)}?" if close else f"{lead} {', '.join(every)}"


def shortened(place: str, most: int) -> str:
    """A place in a document, without its middle where it is long: where it begins and where it ends tell most."""
    return place if len(place) <= most else f"{place[: most // 2 - 1]}…{place[-(most // 2) :]}"


def _visible(character: str) -> str:
    # "Printable" is to Python all but these and every space except the usual one.
    if character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs":
        return character
    return ascii(character)[1:-1]
