"""Estimates as text: a line for each question, in 80 columns, the ends of intervals rounded outwards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size

from askance_protocol.queries.notation import CUT
from askance_server.core.estimates import MOST_ESTIMATES
from askance_server.core.strategy import Estimate, Strategy
from askance_server.strategies.shared.sure import ends_text

WIDTH: Final = 80
MOST_DECIMALS: Final = 8
"""Numbers that need more, or have as many digits before the point, are shown by their digits."""
MOST_LINES: Final = 12
"""Estimates that are shown; --json has the others."""
MOST_OF_A_LEARNER: Final = 4
"""Of a learner, whose hypothesis is something else."""
_LEAST_OF_A_NAME: Final = 10


def estimate_lines(
    estimates: Sequence[Estimate],
    *,
    most: int = MOST_LINES,
    width: int = WIDTH,
    left_out: int = 0,
    rest: str = "--json has them",
) -> list[str]:
    """A table of estimates with their intervals: its head, a line for each, and how many were left out.

    `left_out` more are known of, `rest` says where they all are. In a narrow window the number of reports goes first.
    """
    if not estimates:
        return []
    # A line that counts one more is as long as the one more.
    most = len(estimates) if len(estimates) == most + 1 and not left_out else most
    levels = sorted({each.level for each in estimates})
    head = ("question", "estimate", "from", f"to ({' or '.join(f'{100 * level:g}' for level in levels)} %)", "reports")
    # The cells of one question stand in line, too, and all shares do: as exact as the widest of them.
    widest = dict[str, float]()
    for each in estimates:
        widest[_asked(each)] = max(widest.get(_asked(each), 0.0), each.high - each.low)
    rows = [head, *(_row(each, widest[_asked(each)]) for each in estimates[:most])]
    widths = [max(len(row[column]) for row in rows) for column in range(1, len(head))]
    if width - sum(widths) - 2 * len(widths) < _LEAST_OF_A_NAME:
        widths = widths[:-1]
    room = max(width - sum(widths) - 2 * len(widths), _LEAST_OF_A_NAME)
    left = min(room, max(cell_len(row[0]) for row in rows))
    lines = [
        line
        for names, (_, *cells) in zip(_within([row[0] for row in rows], room), rows, strict=True)
        for line in (
            "  ".join([set_cell_size(names[0], left), *map(str.rjust, cells, widths)]),
            *names[1:],
        )
    ]
    more = max(0, len(estimates) - most) + left_out
    return [*lines, f"{CUT} and {more:,} more: {rest}"] if more else lines


def most_estimates(strategy: Strategy | None) -> int:
    """How many estimates of a strategy are shown; None is one that is not installed here."""
    if strategy is None:
        return MOST_LINES
    if strategy.predict is not None or strategy.cost is not None:
        return MOST_OF_A_LEARNER
    return MOST_ESTIMATES if strategy.estimates else MOST_LINES


def _asked(each: Estimate) -> str:
    """What is shown as exactly as this: other cells of the question, or other shares, which all are parts of 1."""
    measure, question = each.name.partition("(")[0], each.name.partition(": ")[0]
    return "share" if measure in {"share", "histogram"} else question


def _row(each: Estimate, width: float) -> tuple[str, ...]:
    return each.name, *numbers_text(each.estimate, each.low, each.high, width), f"{each.reports:,}"


def numbers_text(estimate: float, low: float, high: float, width: float | None = None) -> tuple[str, str, str]:
    """An estimate and its ends, as exact as its interval or another is wide: of that, three digits.

    The ends are rounded outwards, as wherever they are shown.
    """
    width = high - low if width is None else width
    if not 10.0**-MOST_DECIMALS < width < 10.0**MOST_DECIMALS:
        return (f"{estimate:.4g}", *ends_text(low, high))
    decimals = max(0, 2 - math.floor(math.log10(width)))
    unit = Decimal(1).scaleb(-decimals)
    rounded = (
        Decimal(repr(float(value))).quantize(unit, how)
        for value, how in ((estimate, ROUND_HALF_EVEN), (low, ROUND_FLOOR), (high, ROUND_CEILING))
    )
    nearest, least, most = (f"{value + 0:f}" for value in rounded)
    return nearest, least, most


def _within(names: Sequence[str], room: int) -> list[list[str]]:
    """The names in so much room, each in one line. Those that would then be alike are whole, in several."""
    for tail in (None, room // 2, room - 4):
        cut = [_cut(name, room, tail) for name in names]
        if len(set(cut)) == len(set(names)):
            break
    alike = {each for each, count in Counter(cut).items() if count > 1}
    return [
        chop_cells(name, room) if short in alike and cell_len(name) > room else [short]
        for name, short in zip(names, cut, strict=True)
    ]


def _cut(name: str, room: int, tail: int | None = None) -> str:
    """A name in so much room: its beginning and its end.

    Where it was cut before, its end stays, which says of which question it is.
    """
    if cell_len(name) <= room:
        return name
    if tail is None:
        tail = len(name) - max(name.rfind(" ("), len(name) - room // 2) if CUT in name else 1
    return f"{name[: room - tail - 1]}{CUT}{name[-tail:]}"
