"""What a room reads: who can answer where, how many have, and what is known, the interval first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from askance_lab.commands.shared.estimates_text import numbers_text
from askance_protocol.text import printable

MOST_OF_A_RANGE: Final = 0.5
"""Of what a number can be, the width of an interval from which on no number is shown beside it."""
_MEAN: Final = "mean("
EXPOSED: Final = (
    "without TLS, who reads this network sees who takes part, and her token, with which somebody else could answer in"
    " her name; never her answer, of which one randomized report leaves her device"
)


def number_line(estimate: Mapping[str, Any], spread: float) -> str:
    """One number: its interval, rounded outward; and itself, where the interval is narrower than half of the range."""
    name, low, high = printable(str(estimate["name"]), 120), float(estimate["low"]), float(estimate["high"])
    middle = float(estimate["estimate"])
    if name.startswith(_MEAN):
        told, least, most = numbers_text(middle, low, high)
    else:
        told, least, most = f"{100 * middle:.0f} %", f"{math.floor(100 * low)} %", f"{math.ceil(100 * high)} %"
    return f"{name}: {least} to {most}" + (f", about {told}" if high - low < MOST_OF_A_RANGE * spread else "")


def question_lines(words: str, study: Mapping[str, Any], result: Mapping[str, Any], spread: float) -> Iterator[str]:
    """A question, how many have answered, and what is known of it by now."""
    yield printable(words)
    round_ = study["rounds"][-1]
    received, target = int(round_["received"]), int(round_["round"]["target"])
    over = study["state"] in {"finished", "failed", "cancelled"}
    yield f"  {received:,} answer{'' if received == 1 else 's'}" if over else f"  {received:,} of {target:,} answers"
    known: Sequence[Mapping[str, Any]] = result["estimates"] if over else result["live"]
    if known:
        yield f"  of {'all' if over else 'the first'} {known[0]['reports']:,}, at {100 * known[0]['level']:g} %:"
    for each in known:
        wide = spread if str(each["name"]).startswith(_MEAN) else 1.0
        yield f"    {number_line(each, wide)}"
    if over and study["state"] != "finished":
        yield f"  {printable(str(result['reason']))}"
