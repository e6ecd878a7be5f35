"""The pictures of the documents that are drawn: `python -m website.pictures` writes them into docs/pictures.

Every number on them is computed here. One file serves light and dark, because it asks what the reader's system prefers.
Each is drawn twice: as wide as a column of text, and, with NARROW in its name, as wide as a phone, where nothing may be
too small to read. Hatched stays on the phone; solid accent leaves it; grey is public. In rounds ● and at once ■ have
shapes of their own, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from operator import attrgetter
from pathlib import Path
from typing import Final

from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments.separation.users import DIMENSIONS, shown, table
from askance_protocol import BinaryResponse
from askance_server.dashboard.charts import Axis

NARROW: Final = "-narrow"
PHONE: Final = 360
"""Width of a drawing for a phone."""
FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"
CHANNEL: Final = BinaryResponse(1_000_000)
STYLE: Final = """
text{font:15px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#16171b}
.b{font-weight:650}.q{fill:#55575f;font-size:14px}.big{font-size:42px;font-weight:700}.on{fill:#fff;font-weight:700}
.t{font-size:18px;font-weight:650}.m{text-anchor:middle}.e{text-anchor:end}
.box{fill:#fff;stroke:#16171b;stroke-width:2}.soft{fill:#fff;stroke:#7d7d75;stroke-width:1.5}
.stay{fill:url(#h);stroke:#7d7d75;stroke-width:1.5;stroke-dasharray:5 4}.h{stroke:#a5a59c;stroke-width:2.4}
.same{fill:#2345d3;opacity:.3}.turned{fill:#2345d3;opacity:.62}.bit{fill:#2345d3}
.way{fill:none;stroke:#2345d3;stroke-width:2.5;stroke-dasharray:1 7;stroke-linecap:round}
.arrow{fill:none;stroke:#55575f;stroke-width:2}.head{fill:#55575f}
.line{fill:none;stroke:#2345d3;stroke-width:2.5}.once{fill:none;stroke:#b04c08;stroke-width:2.5}
.onceb{fill:#b04c08}.oncet{fill:#b04c08;font-weight:650}.roundt{fill:#2345d3;font-weight:650}
.grid{stroke:#dcdcd6}.axis{stroke:#7d7d75}.past{stroke:#7d7d75;stroke-width:3;stroke-linecap:round}.pastb{fill:#7d7d75}
.now{stroke:#2345d3;stroke-width:9;stroke-linecap:round;opacity:.45}
@media (prefers-color-scheme:dark){text{fill:#eceef2}.q{fill:#a9afbb}.on{fill:#0d1433}
.box{fill:#1a1d23;stroke:#eceef2}.soft{fill:#1a1d23;stroke:#7c8392}.stay{stroke:#7c8392}.h{stroke:#6a707d}
.same,.turned,.bit{fill:#a3b5ff}.way,.line,.now{stroke:#a3b5ff}.arrow{stroke:#a9afbb}.head{fill:#a9afbb}
.once{stroke:#ffab6b}.onceb{fill:#ffab6b}.oncet{fill:#ffab6b}.roundt{fill:#a3b5ff}
.grid{stroke:#30353f}.axis{stroke:#7c8392}.past{stroke:#7c8392}.pastb{fill:#7c8392}}
"""
_HATCH: Final = (
    '<defs><pattern id="h" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line class="h" y2="7"/></pattern></defs>'
)


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A drawing."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    style = STYLE.strip().replace("\n", "")
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{style}</style>", _HATCH, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:g}" y="{y:g}"' + (f' class="{kind}"' if kind else "") + f">{escape(words)}</text>"


def bit(x: float, y: float, value: int, radius: float = 22) -> str:
    """A bit that has left."""
    size = round(radius * 1.14)
    return (
        f'<circle class="bit" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>'
        f'<text x="{x:g}" y="{y + radius * 0.41:g}" class="on m" style="font-size:{size}px">{value}</text>'
    )


def phone(x: float, y: float, width: float, value: int) -> str:
    """A phone with an answer that stays, and a bit that leaves."""
    height, inner = width * 1.8, width * 0.72
    left, above, deep = x + (width - inner) / 2, y + width * 0.26, width * 0.6
    return (
        f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{width / 7:g}"/>'
        f'<rect class="stay" x="{left:g}" y="{above:g}" width="{inner:g}" height="{deep:g}" rx="{width / 14:g}"/>'
        + bit(x + width / 2, y + height - width * 0.4, value, width * 0.18)
    )


def band(x: float, width: float, start: float, end: float, thick: float, kind: str) -> str:
    """What goes from one side to the other."""
    middle = x + width / 2
    upper = f"M{x:g} {start:g}C{middle:g} {start:g} {middle:g} {end:g} {x + width:g} {end:g}"
    below = f"V{end + thick:g}C{middle:g} {end + thick:g} {middle:g} {start + thick:g} {x:g} {start + thick:g}Z"
    return f'<path class="{kind}" d="{upper}{below}"/>'


def coin(x: float, y: float, width: float) -> str:
    """Both answers, and what becomes of them: as thick as they are likely."""
    turned, true = (float(CHANNEL.probability(outcome, 1)) for outcome in (0, 1))
    whole, gap = 100.0, 28.0
    same, other = whole * true, whole * turned
    low = y + whole + gap
    return "".join(
        [
            band(x, width, y, y, same, "same"),
            band(x, width, y + same + 2, low, other, "turned"),
            band(x, width, low, y + same + 2, other, "turned"),
            band(x, width, low + other + 2, low + other + 2, same, "same"),
            text(x + 12, y + same / 2 + 6, percent(true), "b"),
            text(x + 12, y + same + other / 2 + 8, percent(turned), "b"),
            text(x + 12, low + other / 2 + 6, percent(turned), "b"),
            text(x + 12, low + other + same / 2 + 8, percent(true), "b"),
            text(x - 10, y + whole / 2 + 6, "yes", "e"),
            text(x - 10, low + whole / 2 + 6, "no", "e"),
            bit(x + width + 32, y + whole / 2, 1),
            bit(x + width + 32, low + whole / 2, 0),
        ]
    )


def _ways(x: float, first: float, second: float, end: float) -> str:
    """Two ways that meet."""
    turn, meet = (x + end) / 2, (first + second) / 2
    return "".join(
        f'<path class="way" d="M{x:g} {start:g}C{turn:g} {start:g} {turn:g} {meet:g} {end:g} {meet:g}"/>'
        for start in (first, second)
    )


def poll(users: int, share: float) -> tuple[float, float, float]:
    """The share that a poll finds, and its interval, where as many bits say yes as are expected of this share."""
    bits = share * float(CHANNEL.probability(1, 1)) + (1 - share) * float(CHANNEL.probability(1, 0))
    said = Proportion(round(users * bits), users)
    found, low, high = (
        min(1.0, max(0.0, (1 + float(CHANNEL.scale) * (2 * part - 1)) / 2)) for part in said.with_interval
    )
    return found, low, high


def percent(part: float) -> str:
    """A share in whole per cent."""
    return f"{100 * part:.0f} %"


def intervals(x: float, y: float, width: float, rows: Mapping[int, tuple[float, float, float]]) -> str:
    """A row for each number of people, the last one as what stands now."""
    axis, parts = Axis(0, 1, x, x + width), list[str]()
    for number, (users, (share, low, high)) in enumerate(rows.items()):
        last, at = number == len(rows) - 1, y + 28 * number
        line, dot, radius = ("now", "bit", 8) if last else ("past", "pastb", 4.5)
        parts += [
            text(x - 18, at + 5, f"{users:,}", "b e" if last else "q e"),
            f'<line class="{line}" x1="{axis.at(low):g}" x2="{axis.at(high):g}" y1="{at:g}" y2="{at:g}"/>',
            f'<circle class="{dot}" cx="{axis.at(share):g}" cy="{at:g}" r="{radius}"/>',
        ]
    end = y + 28 * len(rows) + 6
    return "".join([*parts, text(x, end, "0 %", "q"), text(x + width, end, "100 %", "q e")])


def one_bit_leaves() -> str:
    """What all of it is, on the first page."""
    small = [(168, 84, 0), (226, 84, 0), (168, 194, 1), (226, 194, 0)]
    return picture(
        1000,
        316,
        "One bit leaves the phone",
        [
            text(20, 30, "Your answer stays.", "t"),
            text(20, 54, "what is hatched never leaves", "q"),
            text(312, 30, "A coin may turn it.", "t"),
            text(312, 54, f"each, with {percent(float(CHANNEL.probability(0, 1)))}", "q"),
            text(660, 30, "The share appears.", "t"),
            text(660, 54, "with its interval; nobody's answer does", "q"),
            phone(20, 80, 122, 0),
            *(phone(x, y, 46, value) for x, y, value in small),
            coin(346, 72, 180),
            _ways(584, 122, 250, 652),
            _poll_card(660, 80, 320),
        ],
    )


def one_bit_leaves_narrow() -> str:
    """The same on a phone: one part below the other."""
    small = [(168, 72, 0), (234, 72, 0), (300, 72, 1), (168, 176, 1), (234, 176, 0), (300, 176, 0)]
    return picture(
        PHONE,
        920,
        "One bit leaves the phone",
        [
            text(8, 26, "Your answer stays.", "t"),
            text(8, 50, "what is hatched never leaves", "q"),
            phone(8, 70, 110, 0),
            *(phone(x, y, 46, value) for x, y, value in small),
            text(8, 318, "A coin may turn it.", "t"),
            text(8, 342, f"each, with {percent(float(CHANNEL.probability(0, 1)))}", "q"),
            coin(52, 360, 220),
            _down(PHONE / 2, 598, 624),
            text(8, 654, "The share appears.", "t"),
            text(8, 678, "with its interval; nobody's answer does", "q"),
            _poll_card(1, 696, PHONE - 2),
        ],
    )


def _poll_card(x: float, y: float, width: float) -> str:
    """What a poll shows: the share, its interval, and how that narrowed."""
    rows = {users: poll(users, 0.3) for users in (10, 30, 60, 120)}
    share, low, high = rows[120]
    return "".join(
        [
            f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="222" rx="12"/>',
            text(x + 24, y + 58, percent(share), "big"),
            text(x + 162, y + 42, "yes, between", "q"),
            text(x + 162, y + 62, f"{math.floor(100 * low)} % and {math.ceil(100 * high)} %", "q"),
            intervals(x + 78, y + 96, width - 100, rows),
        ]
    )


def _down(x: float, start: float, end: float) -> str:
    """An arrow downwards."""
    head = f'<path class="head" d="M{x - 5:g} {end - 10:g}l5 10l5 -10z"/>'
    return f'<path class="arrow" d="M{x:g} {start:g}V{end - 10:g}"/>{head}'


def one_coin() -> str:
    """What a coin does with an answer."""
    parts = [
        text(20, 28, "what she means", "q"),
        text(410, 28, "what leaves", "q"),
        coin(70, 44, 300),
        _ways(428, 94, 222, 520),
        text(532, 154, "anybody may see it,", ""),
        text(532, 174, "and nobody can tell", ""),
        text(532, 194, "whether it was turned", ""),
    ]
    return picture(720, 290, "A coin turns an answer with 27 percent", parts)


def one_coin_narrow() -> str:
    """The same on a phone."""
    parts = [
        text(8, 26, "what she means", "q"),
        text(PHONE - 8, 26, "what leaves", "q e"),
        coin(52, 42, 220),
        _down(PHONE / 2, 286, 310),
        text(PHONE / 2, 334, "anybody may see it, and nobody can", "m"),
        text(PHONE / 2, 356, "tell whether it was turned", "m"),
    ]
    return picture(PHONE, 372, "A coin turns an answer with 27 percent", parts)


def more_people(width: int = 720, edge: int = 20) -> str:
    """How an interval narrows."""
    rows = {users: poll(users, 0.5) for users in (100, 1000, 10_000, 100_000)}
    start = edge + 100 if width > PHONE else 92
    parts = [
        text(edge, 28, "people", "q"),
        text(start, 28, "the share of yes, and its interval", "q"),
        intervals(start, 58, width - start - 2 * edge, rows),
    ]
    return picture(width, 190, "Intervals of four polls", parts)


def _arrow(path: str, x: float, y: float) -> str:
    """A path that ends at a head that points right."""
    return f'<path class="arrow" d="{path}"/><path class="head" d="M{x:g} {y - 5:g}l10 5l-10 5z"/>'


def _bits(word: str, x: int, y: int, side: int, step: int) -> str:
    """A bit a square, beside each other."""
    return "".join(
        f'<rect class="soft" x="{x + step * k}" y="{y}" width="{side}" height="{side}" rx="6"/>'
        + text(x + side // 2 + step * k, y + side // 2 + 6, value, "b m")
        for k, value in enumerate(word)
    )


def two_rounds() -> str:
    """Who holds what of the two secrets, and what can be asked when."""
    word = "0110"
    cells = _bits(word, 170, 92, 36, 40)
    return picture(
        760,
        330,
        "Two secrets, two kinds of people",
        [
            text(20, 30, "Half of them hold a hint", "t"),
            text(20, 54, "each one bit of r, at a place that she knows", "q"),
            text(140, 116, "r =", "b e"),
            cells,
            text(20, 190, "The others hold a puzzle", "t"),
            text(20, 214, "a parity under r, and a turns all of them or none", "q"),
            text(140, 266, "label =", "b e"),
            '<rect class="soft" x="170" y="242" width="196" height="36" rx="6"/>',
            text(268, 266, "parity of x under r, turned by a", "q m").replace("<text", '<text textLength="184"'),
            '<rect class="box" x="470" y="80" width="270" height="60" rx="10"/>',
            text(486, 105, "● first round", "roundt"),
            text(486, 127, "which bits has r?", ""),
            '<rect class="box" x="470" y="230" width="270" height="60" rx="10"/>',
            text(486, 255, "● second round", "roundt"),
            text(486, 277, f"is it the parity under {word}?", ""),
            _arrow("M340 110H454", 452, 110),
            _arrow("M376 260H454", 452, 260),
            '<path class="arrow" d="M605 142V216"/><path class="head" d="M600 214l5 10l5 -10z"/>',
            text(618, 184, "it takes r to ask it", "q"),
        ],
    )


def two_rounds_narrow() -> str:
    """The same on a phone: what is asked below what is held."""
    word = "0110"
    cells = _bits(word, 70, 66, 38, 44)
    return picture(
        PHONE,
        452,
        "Two secrets, two kinds of people",
        [
            text(8, 26, "Half of them hold a hint", "t"),
            text(8, 50, "each one bit of r, at a place that she knows", "q"),
            text(58, 91, "r =", "b e"),
            cells,
            _down(PHONE / 2, 108, 132),
            f'<rect class="box" x="1" y="136" width="{PHONE - 2}" height="62" rx="10"/>',
            text(16, 162, "● first round", "roundt"),
            text(16, 184, "which bits has r?", ""),
            _down(24, 199, 380),
            text(42, 226, "it takes r to ask the second", "q"),
            text(42, 270, "The others hold a puzzle", "t"),
            text(42, 294, "a parity under r, and a turns all or none", "q"),
            text(94, 334, "label =", "b e"),
            '<rect class="soft" x="104" y="310" width="254" height="38" rx="6"/>',
            text(231, 334, "parity of x under r, turned by a", "q m"),
            _down(231, 352, 380),
            f'<rect class="box" x="1" y="384" width="{PHONE - 2}" height="62" rx="10"/>',
            text(16, 410, "● second round", "roundt"),
            text(16, 432, f"is it the parity under {word}?", ""),
        ],
    )


def needed(width: int = 840) -> str:
    """People needed in two rounds, in more and in one, by the number of bits."""
    rows, narrow = table(DIMENSIONS, "1"), width == PHONE
    left, right, edge = (52, 344, 8) if narrow else (90, 540, 20)
    across, up = Axis(8, 64, left, right, logarithmic=True), Axis(1e3, 1e21, 320, 40, logarithmic=True)
    grid = [
        f'<line class="grid" x1="{left}" x2="{right}" y1="{up.at(10.0**k):g}" y2="{up.at(10.0**k):g}"/>'
        + text(left - 10, up.at(10.0**k) + 5, f"10{_power(k)}", "q e")
        for k in range(3, 22, 3)
    ]
    words = [text(across.at(each.d), 344, str(each.d), "q m") for each in rows]
    two, more = (
        [(across.at(each.d), up.at(found.users), found.users) for each in rows if (found := taken(each))]
        for taken in (attrgetter("two_rounds"), attrgetter("measured"))
    )
    once = [(across.at(each.d), up.at(each.at_once_proved), each.at_once_proved) for each in rows]
    lines = [
        f'<path class="{kind}" d="{_path(points)}"/>'
        for kind, points in (("once", once), ("line", two), ("line", more))
    ]
    marks = [f'<rect class="onceb" x="{x - 5:g}" y="{y - 5:g}" width="10" height="10"/>' for x, y, _ in once]
    marks += [f'<circle class="bit" cx="{x:g}" cy="{y:g}" r="5.5"/>' for x, y, _ in two]
    marks += [f'<path class="bit" d="M{x:g} {y - 6:g}l6 11h-12z"/>' for x, y, _ in more]
    (_, top, most), (_, low, fewest), (_, _, fewer) = once[-1], two[-1], more[-1]
    place, top, low = (edge, 400, 450) if narrow else (556, top + 5, low - 45)
    least = max(each.measured.rounds for each in rows if each.measured)
    of = f", {rows[-1].d} bits" if narrow else ""
    names = [
        text(place, top, f"■ one round, proved{of}:", "oncet"),
        text(place, top + 20, f"nobody does with fewer than {shown(most)}", "q"),
        text(place, low, f"● two rounds, measured{of}:", "roundt"),
        text(place, low + 20, f"{shown(fewest)} were enough", "q"),
        text(place, low + 45, f"▲ up to {least} rounds{of}:", "roundt"),
        text(place, low + 65, f"{shown(fewer)} were enough", "q"),
    ]
    head = [text(edge, 22, "people needed", "q"), text((left + right) / 2, 368, "bits of the secret r", "q m")]
    height = 530 if narrow else 380
    return picture(
        width, height, "People needed in two rounds, in more and in one", [*head, *grid, *words, *lines, *marks, *names]
    )


def _path(points: list[tuple[float, float, int]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y, _ in points)


def _power(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "phone.svg": one_bit_leaves,
    "phone-narrow.svg": one_bit_leaves_narrow,
    "coin.svg": one_coin,
    "coin-narrow.svg": one_coin_narrow,
    "interval.svg": more_people,
    "interval-narrow.svg": partial(more_people, PHONE, 8),
    "masked-parity.svg": two_rounds,
    "masked-parity-narrow.svg": two_rounds_narrow,
    "separation.svg": needed,
    "separation-narrow.svg": partial(needed, PHONE),
}


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
