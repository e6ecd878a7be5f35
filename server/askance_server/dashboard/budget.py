"""The page of the budget: what is left of all caps, what was refused and why, and how fast reports come.

What it may tell
----------------
Nobody is named, and no count is of few: users are counted in steps of `STEP`, and of a bar with fewer the users count
with the next one. Still, who looks again and again while one person reports could see two bars change, and learn how
much she had spent before. So users are counted once in `EVERY` seconds, for all who look, and refusals are told as
`metrics` tells them. None of it says what anybody has answered: spending follows from who was asked, which is public.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import State

from askance_protocol.budget import MICRO
from askance_server.aggregator import Aggregator
from askance_server.dashboard import charts
from askance_server.dashboard.templates import rendered
from askance_server.ledger import Ledger, Verdict
from askance_server.metrics import EVERY, STEP, in_steps

_PARTS: Final = 4
"""Into how many parts the cap is cut."""
_REASONS: Final = {
    Verdict.OVER_BUDGET: ("Budget exceeded", "her cap does not cover the charge"),
    Verdict.NOT_OPEN: ("Round not open", "came after it closed"),
    Verdict.NOT_ASKED: ("Not in cohort", "was not asked in that round"),
    Verdict.CONFLICT: ("Conflict", "another report than the first; a copied wallet"),
    Verdict.OUTSIDE: ("Not valid", "an outcome that her question does not have"),
    Verdict.UNKNOWN_USER: ("Unknown user", "enrolled at another server, or not at all"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """Users by what they have left: from `low` to less than `high` micro-ε; None: and more."""

    low: int
    high: int | None
    users: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """What is left of all caps."""

    enrolled: int
    cap: int
    spent_out: int
    """Users who cannot pay for anything any more."""
    can_pay_one: int | None
    """Users who can still pay ε = 1; None where no cap covers it."""
    bars: tuple[Bar, ...]
    until: float = 0.0
    """For how long it is told, by the clock that never goes back."""


def joined(bars: list[Bar]) -> tuple[Bar, ...]:
    """Bars of which each has no users, or so many that nobody stands out: one with fewer is joined to the next."""
    done = list[Bar]()
    for bar in bars:
        if done and 0 < done[-1].users < STEP:
            bar = Bar(done[-1].low, bar.high, done.pop().users + bar.users)  # noqa: PLW2901 - it takes the last one in
        done.append(bar)
    while len(done) > 1 and 0 < done[-1].users < STEP:
        last = done.pop()
        done[-1] = Bar(done[-1].low, last.high, done[-1].users + last.users)
    return tuple(done)


def budgets(ledger: Ledger, cap: int) -> Budgets:
    """Count the users by what they have left. For a thread: it asks about all of them."""
    enrolled = ledger.enrolled()
    edges = sorted({max(1, cap * each // _PARTS) for each in range(1, _PARTS + 1)})
    able, one, *counts = ledger.able([1, MICRO, *edges])
    # Users may have enrolled since they were counted: none of them has spent anything.
    counts = [enrolled, *(min(count, enrolled) for count in counts)]
    lows, highs = [0, *edges], [*edges, None]
    each = [
        Bar(low, high, count - after)
        for low, high, count, after in zip(lows, highs, counts, [*counts[1:], 0], strict=True)
    ]
    return Budgets(
        enrolled=enrolled,
        cap=cap,
        spent_out=max(0, enrolled - able),
        can_pay_one=one if cap >= MICRO else None,
        bars=joined(each),
        until=time.monotonic() + EVERY,
    )


def budget_page(aggregator: Aggregator, state: State) -> bytes:
    """The page, rendered. For a thread: if the last count is too old, it counts all users."""
    counted: Budgets | None = getattr(state, "budgets", None)
    if counted is None or counted.until < time.monotonic():
        counted = state.budgets = budgets(aggregator.ledger, aggregator.settings.cap)
    return rendered(
        "budget.html",
        budgets=counted,
        step=STEP,
        told=in_steps,
        few=counted.enrolled < STEP,
        bars=_drawn(counted),
        refused=_refused(aggregator),
        pace=_pace(aggregator.metrics.pace.seconds()),
        waiting=aggregator.committer.depth,
        accepted=aggregator.metrics.accepted,
    )


def _drawn(counted: Budgets) -> list[dict[str, object]]:
    most = max([STEP, *(in_steps(bar.users) for bar in counted.bars)])
    up, width = charts.Axis(0, most, 208.0, 26.0), 524 / len(counted.bars)
    return [
        {
            "bar": bar,
            "x": round(8 + number * width + 6, 1),
            "width": round(width - 12, 1),
            "y": up.at(in_steps(bar.users)),
            "height": round(208 - up.at(in_steps(bar.users)), 1),
            "middle": round(8 + (number + 0.5) * width, 1),
        }
        for number, bar in enumerate(counted.bars)
    ]


def _refused(aggregator: Aggregator) -> list[dict[str, object]]:
    """Refusals by reason, the most first, as `/metrics` tells them too: `metrics` says how, and why."""
    counts = {verdict: aggregator.metrics.refusals.told(verdict) for verdict in _REASONS}
    most = max([STEP, *counts.values()])
    return [
        {
            "reason": _REASONS[verdict][0],
            "why": _REASONS[verdict][1],
            "count": count,
            "width": round(count / most * 300, 1),
        }
        for verdict, count in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _pace(seconds: list[tuple[int, float]]) -> dict[str, object] | None:
    """The chart of reports a second; None before there are two points."""
    if len(seconds) < 2:
        return None
    most = max(1.0, *(rate for _, rate in seconds))
    across, up = charts.Axis(-seconds[0][0], 0, 56.0, 504.0), charts.Axis(0, most, 146.0, 24.0)
    return {
        "line": charts.line((across.at(-ago), up.at(rate)) for ago, rate in seconds),
        "up": [(up.at(each), f"{each:g}") for each in charts.ticks(0, most, 3)],
        "since": _ago(seconds[0][0]),
        "rows": [(_ago(ago), f"{rate:.1f}") for ago, rate in seconds],
    }


def _ago(seconds: int) -> str:
    return f"{seconds // 60} min {seconds % 60:02d} s"
