"""Every figure of every document is held by something that prints it, and a figure that is not is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.documents import scanning
from tests.documents.holding import PAGES, RULES, Said, agrees, looked_at, said, whole, wrong
from tests.documents.printed import PRINTED
from tests.harness.tree import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_each_figure_of_a_page_is_held(name: str) -> None:
    """Where one is not: `python -m tests.documents` says which; `holding.py` says in which ways one can be."""
    _, faults = whole(name)

    assert faults == []


@pytest.mark.parametrize("name", PAGES)
def test_control_a_figure_that_is_planted_is_found(name: str) -> None:
    page = (ROOT / name).read_text("utf-8")
    planted = "\nIt took 37.53 ms, and 47,113 users.\n\n| what | how much |\n|---|---|\n| a wait | 8.371 s |\n"

    _, faults = looked_at(name, page + planted)

    assert [fault.split()[3] for fault in faults] == ["37.53", "47,113", "8.371"]


def changed(page: str, number: scanning.Number) -> str:
    """A page in which the last digit of a figure is one more."""
    coefficient = number.text.partition("·")[0].partition("e")[0]
    at = number.start + max((place for place, each in enumerate(coefficient) if each.isdecimal()), default=0)
    return f"{page[:at]}{(int(page[at]) + 1) % 10}{page[at + 1 :]}"


def some(name: str, most: int) -> Iterator[tuple[str, bool]]:
    """Figures of a page, evenly spread: by which way each is held, and whether it is found once it is changed."""
    page = (ROOT / name).read_text("utf-8")
    held, _ = whole(name)
    for way in set(held.values()):
        numbers = sorted((number for number, each in held.items() if each == way), key=lambda each: each.start)
        for number in numbers[:: max(1, len(numbers) // most)]:
            yield way, looked_at(name, changed(page, number))[1] != []


@pytest.mark.slow
def test_control_a_figure_that_is_changed_in_its_last_digit_is_found() -> None:
    found = Counter[str]()
    tried = Counter[str]()
    for name in PAGES:
        for way, is_found in some(name, 6):
            tried[way] += 1
            found[way] += is_found

    for way in ("kept", "worked out", "repeated", "declared"):
        assert found[way] == tried[way] > 15, way
    # By value alone: one that becomes another number of the same page, or the same code, is missed.
    assert found["run"] > 0.85 * tried["run"] > 50
    assert found["rules"] > 0.3 * tried["rules"] > 1


def test_what_is_declared_is_little_and_each_has_its_reason() -> None:
    declared = [(page, each) for page, rows in said().items() for each in rows if each.because]

    assert set(said()) | set(PRINTED) | set(RULES) <= set(PAGES)
    assert all(len(each.because.split()) >= 2 for _, each in declared)
    assert len(declared) <= 20, "what can be printed or worked out is not declared"


# ------------------------------------------------------------------------------------------------------------- scanning


def found_in(page: str) -> list[str]:
    return [number.text for number in scanning.numbers(page)]


@pytest.mark.parametrize(
    "text",
    [
        "It took 3.1 s.",
        "1,234 users",
        "some 4.6·10⁹ of them",
        "in 7 % of the runs",
        "2 times as many",
        "9 of 10 were right",
        "| a | 12 |",
        "- 17 kills",
        "> 250 pages a second",
        "half of them, 0.5, were",
        "up to ε = 1.345",
        "a factor of 10¹⁵ times",
        "1e+09 reports",
        "```text\n2,400 reports\n```",
        "from 31 to 35 dB",
    ],
)
def test_a_figure_is_seen(text: str) -> None:
    assert found_in(f"{text}\n") != []


@pytest.mark.parametrize(
    "text",
    [
        "KLNRS11, Thm 5.7, and Lemmas 3.2, 4.2; Def. 5.1–5.3; §5.3; p. 27",
        "at ε = 1 and d = 8, 16 and 32, with α = β = .1 and δ = 10⁻⁶",
        "two rounds, 2 rounds, 3 of a kind",
        "`--users 3000` and [here](plan.md#12) and <img width='230'>",
        "the answer is 404, or 503 with a header",
        "on 2026-11-20 at 14:32, and in 1965",
        "### 12. A title",
        "12. an item",
        "2^d − 1 of 2⁶⁴, 2^{−d/3}, 4d²C², n/(8C²), (4.5/α²)ln 2, 33/α, 5α/16, 1/32 of it",
        "AES-128, SHA-256, CC0-1.0, Python 3.11 to 3.14, RFC 8785; 127.0.0.1:8080",
        "<!-- 12 of them -->",
        "```yaml\nscrape_interval: 15\n```",
        "words of 64 bits",
    ],
)
def test_what_is_no_figure_is_passed_over(text: str) -> None:
    assert found_in(f"{text}\n") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234", 1234),
        ("4.6·10⁹", 4.6e9),
        ("4.2 · 10²⁰", 4.2e20),
        ("−2", -2),
        ("3e+12", 3e12),
        (".95", 0.95),
        ("10⁻³", 1e-3),
    ],
)
def test_what_a_number_is_however_it_is_written(text: str, value: float) -> None:
    assert scanning.value(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("figure", "number", "same"),
    [
        ("4.6·10⁹", 4_629_648_064, True),
        ("4.7·10⁹", 4_629_648_064, False),
        ("73", 0.731, True),
        ("74", 0.731, False),
        ("10¹⁵", 1.4e15, True),
        ("10¹⁴", 1.4e15, False),
        ("1,200", 1200, True),
        ("1,200", 1201, False),
    ],
)
def test_a_figure_agrees_with_what_it_is_rounded_from(figure: str, number: float, same: bool) -> None:
    assert agrees(figure, number) is same


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (Said(says="took 12 s", of="a.md", stands="12.4 s"), None),
        (Said(says="took 13 s", of="a.md", stands="12.4 s"), "13 is not what"),
        (Said(says="took 12 s", of="a.md", stands="12.5 s"), "does not have"),
        (Said(says="took 14 s", of="a.md", stands="12.4 s"), "does not say"),
        (Said(says="took 12 s"), "neither a place nor a reason"),
        (Said(says="took 12 s", of="a.md", stands="12.4 s", because="both"), "or both"),
    ],
)
def test_words_that_a_page_repeats_stand_where_they_are_from(row: Said, fault: str | None) -> None:
    faults = list(wrong(row, "It took 12 s, or it took 13 s.", "all of it: 12.4 s"))

    assert bool(faults) == (fault is not None)
    assert fault is None or fault in faults[0]
