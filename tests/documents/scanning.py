"""The figures of a document: every number in its words, lists and tables that may be wrong.

Theory of operation
-------------------
A document is text in which everything that is no claim is replaced by spaces, so that places stay what they are: code,
links, and comments; then names that have a number (theorems, sections, versions, standards, statuses of HTTP), dates,
what a parameter is set to (ε = 1, d = 8 and 16), and formulas. What is left are figures, but for whole numbers below
ten with nothing to be measured in: they are words. Blocks of code that a test runs, or whose lines
`benchmarks/figures.py` compares, are what figures are held by; blocks that nobody runs are read like words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from benchmarks import figures

FENCE: Final = re.compile(r"^```(?P<kind>[\w-]*)[^\n]*\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)
RUN: Final = frozenset({"console", "python"})
READ: Final = frozenset({"", "text"})
"""Kinds of blocks that are read: the others are code that somebody writes into a file."""

_DIGITS: Final = r"(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?"
_POWER: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"
NUMBER: Final = re.compile(
    rf"(?<![\w.,^{{{_POWER}])(?<![A-Za-z]-)(?<![A-Z]\d-)[+−-]?(?=[.\d]){_DIGITS}(?<=\d)(?:e[+−-]?\d+)?"
    rf"(?P<times>\s?·\s?10[⁻{_POWER}]+)?(?P<power>[⁻{_POWER}]+)?(?![\w^(]|[.,]\d)"
)
UNIT: Final = re.compile(
    r"\s?(?:%|‰|×|ns\b|µs\b|ms\b|s\b|[kKMGT]i?B\b|bytes?\b|bits?\b|nats?\b|per cent|percent|seconds?\b|minutes?\b"
    r"|hours?\b|days?\b|times\b|points?\b|a second|of \d|pages?\b)"
)
_LETTER: Final = r"[A-Za-zα-ωΑ-Ω]"
_SYMBOL: Final = r"(?:(?<![A-Za-z])[A-Za-zα-ωΑ-Ω]m?(?![A-Za-z]))"
"""A letter by itself."""
_STATUSES: Final = "|".join(str(status.value) for status in HTTPStatus if status.value >= 300 and status.value % 100)
NO_CLAIM: Final = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"<!--.*?-->", re.DOTALL),
        (r"``.+?``|`[^`]+`", re.DOTALL),
        (r"(?<=\])\([^)\s]*\)", 0),
        (r"<[a-z/][^>]*>", re.DOTALL),
        (r"\$[^$\n]+\$", 0),
        (r"https?://\S+", 0),
        (r"\bU\+[0-9A-F]{4}\b", 0),
        # Names. A list of numbers after one belongs to it.
        (
            r"(?:\b(?:Thms?|Theorems?|Lemmas?|Def|Definitions?|Cor|Corollary|Prop|Propositions?|Claims?|Remark|Fig|Figure"
            r"|[Ss]teps?|[Tt]raps?|Annex|Appendix|footnote|pp?|pages?|section|Python(?: from)?|[Vv]ersions?|RFC|SHA|AES"
            r"|MIT|notes|FOCS|Comput|PATCH|exit code|code|level|sequence|users?)|§)"
            r"[\s.-]{0,2}(?:§|[A-Z]\.)?\d+(?:\.\d+)*(?:\([iv]+\))?"
            r"(?:(?:,? (?:and|or|to) |, |–)(?:§|[A-Z]\.)?\d+(?:\.\d+)*)*(?![\w,]*\d)",
            0,
        ),
        (rf"(?<![\d.,])(?:{_STATUSES})(?![\d.,%]*\d)", 0),
        (r"\b(?:19|20)\d\d(?:-\d\d-\d\d)?\b(?!\s?%)", 0),
        (r"\b\d\d:\d\d(?::\d\d)?\b", 0),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", 0),
        (r"^#+ .*$", re.MULTILINE),
        (r"^\s*\d+\.(?=\s)", re.MULTILINE),
        (r"^\|[\s:|-]+\|$", re.MULTILINE),
        (r"^\| \d+ (?=\|)", re.MULTILINE),
        # Formulas: a number over, under or before a letter; a power of two; a machine's words.
        (rf"\d+(?:\.\d+)?(?=\s?[/·]\s?(?:\d*{_SYMBOL}|ln\b|[(|√⌈⌊]))", 0),
        (r"(?<![A-Za-z])(?:\d*[α-ωΑ-Ω]|\d*[a-zA-Z])m?/\d+(?:\.\d+)?", 0),
        (rf"(?<![\w.,])2[⁻{_POWER}]+|\b1/\d+\b", 0),
        (r"\b(?:8|16|32|64|128)(?:-bit\b| bits\b)", 0),
    )
)
"""What is no claim, whatever number it has."""
SET_TO: Final = re.compile(
    rf"(?<![\w{_POWER}])(?:{_LETTER}{{1,2}}['′]?|cells|users a pair|log T)(?:\s?[=]\s?{_LETTER}['′]?)*\s?[=∼]\s?"
    rf"(?P<values>(?:(?=\.?\d){_DIGITS}[⁻{_POWER}]*(?:, and | and | or | to |, )?)+)"
)
"""A parameter and what it is set to; several, one after the other."""


@dataclass(frozen=True, slots=True)
class Number:
    """A figure, and where it is."""

    text: str
    start: int
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.line}: {self.text} in “{self.words}”"


def spaces(found: re.Match[str]) -> str:
    """As many of them, with the ends of lines where they were."""
    return re.sub(r"[^\n]", " ", found[0])


def bare(page: str, *, blocks: bool = True) -> str:
    """A document in which only claims are left, each where it was."""
    long = {found.span() for found in figures.SHOWN.finditer(page)}
    text = FENCE.sub(lambda found: _block(found, long) if blocks else spaces(found), page)
    for pattern in NO_CLAIM:
        text = pattern.sub(spaces, text)
    return SET_TO.sub(lambda found: spaces(found) if plain(found["values"]) else found[0], text)


def _block(found: re.Match[str], long: set[tuple[int, int]]) -> str:
    held = any(start <= found.start() and found.end() <= end for start, end in long)
    if held or found["kind"] not in READ:
        return spaces(found)
    lines = [re.sub(r".", " ", line) for line in (found[0].splitlines()[0], "```")]
    return "\n".join([lines[0], found["body"] + lines[1]])


def plain(values: str) -> bool:
    """Whether what a parameter is set to is a choice: two digits at most, and then noughts, or a power of two."""
    return all(
        len(each.replace(",", "").replace(".", "").strip("0")) <= 2 or _power_of_two(each)
        for each in re.findall(r"[\d.,]*\d", re.sub(rf"10[⁻{_POWER}]+", "", values))
    )


def _power_of_two(text: str) -> bool:
    whole = text.replace(",", "")
    return whole.isdecimal() and int(whole) > 0 and int(whole) & (int(whole) - 1) == 0


def numbers(page: str) -> Iterator[Number]:
    """The figures of a document."""
    seen = bare(page)
    for found in NUMBER.finditer(seen):
        if not _word(found, seen):
            line = page.count("\n", 0, found.start()) + 1
            words = " ".join(page[max(0, found.start() - 40) : found.end() + 30].split())
            yield Number(found[0], found.start(), line, words)


def _word(found: re.Match[str], text: str) -> bool:
    """Whether a number is no figure: a small whole number, or a power by itself, that counts in no unit."""
    small = found[0].lstrip("+-−").isdecimal() and int(found[0].lstrip("+-−")) < 10
    power = found["power"] is not None and found["times"] is None
    return (small or power) and UNIT.match(text, found.end()) is None


# ------------------------------------------------------------------------------------------------------ what is printed

_ANY: Final = re.compile(rf"(?:\d[\d_,]*\d|\d|(?=\.\d))(?:\.\d+)?(?:e[+-]?\d+|\s?·\s?10[⁻{_POWER}]+)?")


def value(text: str) -> float:
    """What a number is, however it is written."""
    bare_ = text.replace(",", "").replace("−", "-").replace("_", "")
    coefficient, times, power = bare_.partition("·")
    if not times and (found := re.fullmatch(rf"([\d.+-]+?)([⁻{_POWER}]+)", bare_)):
        return float(found[1]) ** exponent(found[2])
    return float(coefficient) * (10.0 ** exponent(power.strip().removeprefix("10")) if times else 1)


def exponent(text: str) -> int:
    """What stands above the line."""
    return int(text.translate(str.maketrans("⁻" + _POWER, "-0123456789")))


def every_value(text: str) -> set[float]:
    """The numbers that stand in a text, as a program or its output has them."""
    return {value(found[0]) for found in _ANY.finditer(text)}


def printed(page: str) -> set[float]:
    """The numbers of the blocks that are run, or compared: what they call, and what they show."""
    bodies = [found["body"] for found in FENCE.finditer(page) if found["kind"] in RUN]
    bodies += [found[group] for found in figures.SHOWN.finditer(page) for group in ("command", "lines")]
    return {number for body in bodies for number in every_value(body)}
