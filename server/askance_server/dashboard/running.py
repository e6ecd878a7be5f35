"""An estimate as it runs: what was told of an open round after fewer reports, up to now, and its chart.

All of it is what anybody who looked then has seen: only rounds of one row are looked back on, where what is told are
the first reports (`core.live`), and a study that is not live tells nothing before its round closes.
"""

from __future__ import annotations

from dataclasses import dataclass

from askance_protocol.rounds import PreparedRound
from askance_server.aggregator import Aggregator
from askance_server.core.estimates import study_estimates
from askance_server.core.live import MOST_LOOKED_BACK
from askance_server.core.strategy import Estimate
from askance_server.dashboard import charts, words
from askance_server.dashboard.names import bounds


def earlier(aggregator: Aggregator, round_: PreparedRound, looks: int) -> list[list[Estimate]]:
    """The estimates of an open round after fewer reports than are told now, so many looks with that of now."""
    telling = aggregator.driver.live.telling(round_.id)
    if telling is None or not telling.looks_back or telling.told > MOST_LOOKED_BACK:
        return []
    strategy, told, step = aggregator.strategies.get(round_.study.strategy), telling.told, telling.step
    counts = {step * (told * part // (looks * step)) for part in range(1, looks)} - {0, told}
    return [
        study_estimates(round_.study, strategy, [(round_, telling.after(count))], vacuous=True)
        for count in sorted(counts)
    ]


@dataclass(frozen=True, slots=True)
class Look:
    """One estimate after so many reports, in words and in the chart."""

    reports: int
    low: str
    high: str
    value: str
    """Nothing where the interval says too little for a number."""
    x: float
    top: float
    middle: float
    bottom: float


@dataclass(frozen=True, slots=True)
class RunningEstimate:
    """The first number of an open round, from the first look to that of now."""

    name: str
    target: int
    received: int
    looks: tuple[Look, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]


def running_estimate(
    aggregator: Aggregator, round_: PreparedRound, now: Estimate | None, looks: int = 10
) -> RunningEstimate | None:
    """The chart of a round's first number as it is told; None where nothing is, or its name says no range."""
    if now is None or (range_ := bounds(now.name, round_.study.example)) is None:
        return None
    low, high, share = range_
    told = [found[0] for found in earlier(aggregator, round_, looks) if found] + [now]
    across = charts.Axis(0, round_.spec.target, 72.0, 588.0)
    up = charts.Axis(low, high, 256.0, 16.0)

    def look(each: Estimate) -> Look:
        least, most = words.outward(each.low, each.high, share=share)
        number = words.number(each.estimate, each.low, each.high, share=share)
        top, middle, bottom = (up.at(words.value(told, share=share)) for told in (most, number, least))
        narrow = each.high - each.low < words.WIDEST * (high - low)
        return Look(each.reports, least, most, number if narrow else "", across.at(each.reports), top, middle, bottom)

    return RunningEstimate(
        name=now.name,
        target=round_.spec.target,
        received=aggregator.ledger.received(round_.id),
        looks=tuple(map(look, told)),
        across=tuple((across.at(each), f"{each:,.0f}") for each in charts.ticks(0, round_.spec.target, 4)),
        up=tuple((up.at(each), f"{100 * each:g} %" if share else f"{each:g}") for each in charts.ticks(low, high, 4)),
    )
