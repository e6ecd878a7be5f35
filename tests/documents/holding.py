"""What holds the figures of a document, and which of them nothing holds.

A figure is held in one of these ways. It stands in a block that a test runs, or in lines that `benchmarks/figures.py`
compares, of the same page (*run*). It is in words that are printed from a kept file (*kept*), or worked out (*worked
out*; both in `printed.py`). It repeats what stands in another place, such as the output on another page or a constant
of the code (*repeated*), or it is *declared*, with a reason (both in `said.toml`). On the page that defines the
protocol it is a number of the code that does the same (*rules*). Held words have to be on the page; a figure that is in
no such words has nothing that would notice if it were wrong.

A figure is known by its value here. So one of a block that is changed into another one of the same block is not found:
that is the price of asking nobody to repeat in a list what a page repeats from its own output.
"""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from benchmarks import figures
from tests.documents import scanning
from tests.documents.printed import PRINTED
from tests.harness.tree import ROOT

PAGES: Final = [path.relative_to(ROOT).as_posix() for path in figures.pages()]
SAID: Final = Path(__file__).parent / "said.toml"
WAYS: Final = ("run", "kept", "worked out", "repeated", "rules", "declared")


class Said(BaseModel):
    """Words of a page, and where their figures stand, or why they stand nowhere else."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: Annotated[str, Field(min_length=1)]
    of: str = ""
    stands: str | list[str] = Field(default_factory=list[str])
    because: str = ""

    @property
    def places(self) -> list[str]:
        """What stands there."""
        return [self.stands] if isinstance(self.stands, str) else self.stands


@cache
def said() -> dict[str, list[Said]]:
    """What pages repeat or declare, by page."""
    return {page: [Said(**each) for each in rows] for page, rows in tomllib.loads(SAID.read_text("utf-8")).items()}


def flat(text: str) -> str:
    """A text with single spaces, and without the marks with which a document quotes."""
    return " ".join(re.sub(r"^> ?", "", text, flags=re.MULTILINE).split())


# ------------------------------------------------------------------------------------------------------------ repeated


def figures_of(text: str) -> list[str]:
    """All numbers of some words, small ones too."""
    return [each.text for each in scanning.numbers(text)]


def agrees(figure: str, number: float) -> bool:
    """Whether a figure is a number, or that number rounded, or in per cent; 10^k stands for its order of magnitude."""
    wanted = scanning.value(figure)
    if re.fullmatch(r"10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", figure):
        return number > 0 and math.floor(math.log10(number)) == math.log10(wanted)
    digits = len(re.sub(r"e.*|·.*|[^\d]", "", figure).lstrip("0")) or 1
    return any(math.isclose(float(f"{number * scale:.{digits}g}"), wanted, rel_tol=1e-12) for scale in (1, 100))


def wrong(each: Said, page: str, elsewhere: str) -> Iterator[str]:
    """What is not as one row says, if anything."""
    if flat(each.says) not in flat(page):
        yield f"the page does not say “{each.says}”"
    if bool(each.because) == bool(each.of):
        yield f"“{each.says}” has neither a place nor a reason, or both"
    if not each.of:
        return
    missing = [place for place in each.places if flat(place) not in elsewhere]
    yield from (f"{each.of} does not have “{place}”" for place in missing)
    there = [number for place in each.places for number in scanning.every_value(place)]
    for figure in figures_of(each.says):
        if not any(agrees(figure, number) for number in there):
            yield f"“{each.says}”: {figure} is not what {each.of} has"


@cache
def contents(path: str) -> str:
    """A file of the repository, flat."""
    return flat((ROOT / path).read_text("utf-8"))


RULES: Final = {"docs/protocol.md": "protocol/askance_protocol"}
"""A page that defines something, and the code that has its numbers."""


@cache
def constants(folder: str) -> set[float]:
    """The numbers of the code in a folder, those of its patterns, and what it writes as powers."""
    found = set[float]()
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                found.add(float(node.value))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.Pow):
                with suppress(ValueError):
                    base, above = ast.literal_eval(node.left), ast.literal_eval(node.right)
                    found.add(float(base << above if isinstance(node.op, ast.LShift) else base**above))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Of patterns: [0-9a-f]{64}.
                found |= {
                    float(each) for pair in re.findall(r"\{(\d+)(?:,(\d+))?\}", node.value) for each in pair if each
                }
    return found


# ---------------------------------------------------------------------------------------------------------------- held


def spans(page: str, words: str) -> list[tuple[int, int]]:
    """Where a page has these words: whole numbers only, as 14 is not held by words that end with 1."""
    pattern = re.compile(r"\s+(?:> )?".join(map(re.escape, words.split())))
    return [
        found.span()
        for found in pattern.finditer(page)
        if not (page[found.end() - 1].isdecimal() and re.match(r"[.,]?\d", page[found.end() : found.end() + 2]))
        and not (page[found.start()].isdecimal() and re.search(r"\d[.,]?$", page[: found.start()][-2:]))
    ]


def looked_at(name: str, page: str) -> tuple[dict[scanning.Number, str], list[str]]:
    """The figures of a page that are held, each with the way, and all that is wrong with the page."""
    left, held, faults = list(scanning.numbers(page)), dict[scanning.Number, str](), list[str]()

    def hold(way: str, words: str) -> None:
        places = spans(page, words)
        if not places:
            faults.append(f"{way}, but the page does not say: {words}")
        inside = [number for number in left if any(start <= number.start < end for start, end in places)]
        for number in inside:
            left.remove(number)
            held[number] = way

    for source in PRINTED.get(name, []):
        if source.named not in flat(page):
            faults.append(f"the page does not name `{source.named}`")
        for words in source.texts():
            hold("kept" if source.named else "worked out", words)
    for each in said().get(name, []):
        faults += wrong(each, page, contents(each.of) if each.of and each.of != name else flat(page))
        hold("repeated" if each.of else "declared", each.says)
    run, rules = scanning.printed(page), constants(RULES[name]) if name in RULES else set[float]()
    for number in left:
        if held_by_run(number.text, run):
            held[number] = "run"
        elif scanning.value(number.text) in rules:
            held[number] = "rules"
        else:
            faults.append(f"nothing holds {number}")
    return held, faults


def held_by_run(figure: str, printed: Iterable[float]) -> bool:
    """Whether a block of the page has this number; or one that it is rounded from, if it has three digits or more."""
    wanted = abs(scanning.value(figure))
    digits = len(re.sub(r"e.*|·.*|[^\d]", "", figure).lstrip("0"))
    return any(
        math.isclose(wanted, number, rel_tol=1e-12)
        or (digits >= 3 and "." in figure and math.isclose(float(f"{number:.{digits}g}"), wanted, rel_tol=1e-12))
        for number in printed
    )


def whole(name: str) -> tuple[dict[scanning.Number, str], list[str]]:
    """The same of a page as it is."""
    return looked_at(name, (ROOT / name).read_text("utf-8"))
