"""The page of a study: its rounds, what they ask in words, what is known so far, and its bulletin."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

import numpy as np

from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.notation import Questions, questions
from askance_protocol.rounds import ENDED, Bulletin, PreparedPart, PreparedRound, RoundState
from askance_protocol.tally import Tally
from askance_server.aggregator import Aggregator
from askance_server.core.estimates import MOST_ESTIMATES, FirstEstimates, count_of, estimates_of
from askance_server.core.estimators import estimate
from askance_server.core.strategy import Estimate
from askance_server.dashboard import charts, words
from askance_server.dashboard.download import can_be_downloaded
from askance_server.dashboard.names import bounds
from askance_server.dashboard.running import RunningEstimate, running_estimate
from askance_server.dashboard.studies import StudyRow, end_of, row_of
from askance_server.dashboard.templates import rendered

MOST_ROWS: Final = 24
"""Estimates of a round that the page shows; the result has more."""
_ASKED: Final = 3
"""Questions of a round that are told in words."""
MOST_ROUNDS: Final = 8
"""Rounds that the page shows, the last ones; of those before, how many there were."""
_ENTRIES: Final = 30
"""Entries of the bulletin that the page shows."""
_PIECE: Final = 1 << 20
_DRAWN: Final = charts.Axis(0.0, 1.0, 8.0, 292.0)
_STEPS: Final = (1, 2, 5, 10, 20, 35, 50, 70, 85, 100)
"""Hundredths of a round's target at which the width of its interval is told."""


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """One estimate with its interval, in words and as a drawing on the range that the question can have."""

    name: str
    value: str
    """Nothing where the interval says too little for a number."""
    low: str
    high: str
    reports: int
    drawn: tuple[float, float, float]
    """Where estimate, low and high are, on a line from 8 to 292."""


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round: what it asks, and how many have answered."""

    number: int
    id: str
    state: str
    says: str
    asked: tuple[str, ...]
    more: int
    """Number of further questions."""
    received: int
    target: int
    charge: int
    estimates: tuple[EstimateRow, ...]
    left_out: int

    @property
    def where(self) -> tuple[str, str]:
        """The address of what has all estimates, and its name: a result has the first ones of very many."""
        return (
            ("tally", f"/v1/rounds/{self.id}/tally") if self.left_out > MOST_ESTIMATES - MOST_ROWS else ("result", "")
        )


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry of the bulletin."""

    sequence: int
    digest: str
    says: str


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How wide the interval of a question is after so many reports, at worst: it follows from numbers alone."""

    name: str
    number: int
    points: tuple[tuple[int, float], ...]
    share: bool
    now: int
    """Reports that are there."""
    target: int

    def told(self, width: float) -> str:
        """Half a width in words."""
        return f"±{width * 50:.1f} points" if self.share else f"±{width / 2:.3g}"


def study_page(aggregator: Aggregator, study: str) -> bytes:
    """The page, rendered. For a thread."""
    row, bulletin = row_of(aggregator, study), aggregator.ledger.bulletin(study)
    before = max(0, len(bulletin.rounds) - MOST_ROUNDS)
    # The last ones: of a thousand rounds, each would be counted and estimated to be thrown away.
    last = list(enumerate(bulletin.rounds, 1))[before:]
    rounds = [_round(aggregator, study, number, *each) for number, each in last]
    running = _running(aggregator, study, bulletin)
    end = end_of(aggregator, study, bulletin)
    return rendered(
        "study.html",
        row=row,
        live=None if bulletin.study is None else bulletin.study.live,
        bulletin=bulletin,
        ended=bulletin.state in ENDED,
        download=can_be_downloaded(aggregator, study),
        rounds=rounds,
        before=before,
        asked=len(bulletin.rounds),
        to_come=_to_come(aggregator, row, bulletin),
        end=end,
        learned=None if end is None or end.hypothesis is None else end.hypothesis.text,
        entries=list(_entries(aggregator, study, bulletin)),
        running=running,
        narrowing=None if running else _drawn(_narrowing(aggregator, bulletin)),
        pace=None if bulletin.state in ENDED else _pace(aggregator),
        open_round=next((each for each in rounds if each.state == RoundState.OPEN.value), None),
    )


def _to_come(aggregator: Aggregator, row: StudyRow, bulletin: Bulletin) -> int:
    """Number of rounds that may still come."""
    strategy = aggregator.strategies.get(row.strategy)
    if bulletin.state in ENDED or strategy is None:
        return 0
    return max(0, strategy.rounds - len(bulletin.rounds))


# ------------------------------------------------------------------------------------------------------------- rounds


def _round(aggregator: Aggregator, study: str, number: int, id_: str, state: RoundState) -> RoundRow:
    prepared = aggregator.ledger.round(id_)
    asked = [_in_words(part) for part in prepared.parts[:_ASKED]]
    if isinstance(words_ := prepared.study.parameters.get("ask"), str):
        # A poll's question is its own words: what its query computes is how it is answered.
        asked = [words_]
    known, left_out = _as_told(aggregator, study, prepared) or _as_counted(aggregator, prepared, state)
    says = {RoundState.OPEN: "asking", RoundState.CLOSED: "closed", RoundState.ABANDONED: "given up"}
    return RoundRow(
        number=number,
        id=id_,
        state=state.value,
        says=says.get(state, state.value),
        asked=tuple(asked),
        more=max(0, len(prepared.parts) - _ASKED),
        received=aggregator.ledger.received(id_),
        target=prepared.spec.target,
        charge=max(part.charge for part in prepared.spec.parts),
        estimates=known,
        left_out=left_out,
    )


def _as_counted(
    aggregator: Aggregator, round_: PreparedRound, state: RoundState
) -> tuple[tuple[EstimateRow, ...], int]:
    # Of an open round whole steps are told where its study said so from the beginning, else nothing.
    is_answered = state is RoundState.ANSWERED
    counted = aggregator.driver.answered(round_.id) if is_answered else aggregator.driver.live.of(round_.id)
    return _estimates(round_, counted) if counted else ((), 0)


def _as_told(aggregator: Aggregator, study: str, round_: PreparedRound) -> tuple[tuple[EstimateRow, ...], int] | None:
    """The first estimates as their strategy tells them, and the number of the others.

    None where a strategy asks more than one round, of which each has its own, or where a name says no range.
    """
    strategy = aggregator.strategies.get(round_.study.strategy)
    if strategy is None or strategy.rounds != 1 or strategy.over is None:
        return None
    now, example = aggregator.driver.told(study), round_.study.example
    found = aggregator.driver.estimates(study) if now is None else FirstEstimates(now.estimates, now.left_out)
    ranges = [bounds(each.name, example) for each in found.records]
    known = [range_ for range_ in ranges if range_ is not None]
    if not 0 < len(known) == len(ranges):
        return None
    rows = tuple(map(_estimate_row, found.records[:MOST_ROWS], known))
    return rows, found.left_out + len(known) - len(rows)


def _running(aggregator: Aggregator, study: str, bulletin: Bulletin) -> RunningEstimate | None:
    """The first number of the open round, if it is told while it runs."""
    told = aggregator.driver.told(study)
    if told is None or not bulletin.rounds:
        return None
    return running_estimate(aggregator, aggregator.ledger.round(told.round), told.estimates[0])


def _pace(aggregator: Aggregator) -> str | None:
    """Reports a second that this server accepted in its last whole ten seconds; None before there were any."""
    seconds = aggregator.metrics.pace.seconds()
    return f"{seconds[-1][1]:.1f}" if seconds else None


def _in_words(part: PreparedPart) -> str:
    """The question of a part; of cells the first two, and how many there are."""
    asked = questions(part.query)
    if asked.count <= 2:
        return ", ".join(asked.name(each) for each in range(asked.count))
    return f"{asked.name(0)}, {asked.name(1)}, … ({asked.count} cells)"


def _estimates(round_: PreparedRound, tallies: Sequence[Tally]) -> tuple[tuple[EstimateRow, ...], int]:
    """The first estimates of a round, and the number of the others."""
    parts = [part for part, tally in zip(round_.parts, tallies, strict=True) if tally.received][:MOST_ROWS]
    asked = [questions(part.query) for part in parts]
    ranges = chain.from_iterable(repeat(_range(each), each.count) for each in asked)
    rows = tuple(map(_estimate_row, estimates_of(round_, tallies, most=MOST_ROWS), ranges))
    return rows, count_of(round_, tallies) - len(rows)


def _range(asked: Questions) -> tuple[float, float, bool]:
    """What the answers of a question can be at all, and whether they are shares of the users."""
    query = asked.query
    if isinstance(query, RealQuery):
        low, high = sorted((asked.told(-1.0), asked.told(1.0)))
        return low, high, False
    signed = isinstance(query, CellQuery) and query.negative is not None
    return -1.0 if signed else 0.0, 1.0, True


def _estimate_row(record: Estimate, bounds: tuple[float, float, bool]) -> EstimateRow:
    least, most, share = bounds
    low, high = words.outward(record.low, record.high, share=share)
    number = words.number(record.estimate, record.low, record.high, share=share)
    told = [words.value(each, share=share) for each in (number, low, high)]
    drawn = [_DRAWN.at((each - least) / (most - least)) for each in told]
    narrow = record.high - record.low < words.WIDEST * (most - least)
    return EstimateRow(
        name=record.name,
        value=number if narrow else "",
        low=low,
        high=high,
        reports=record.reports,
        drawn=(drawn[0], drawn[1], drawn[2]),
    )


# ---------------------------------------------------------------------------------------------------------- narrowing


def _narrowing(aggregator: Aggregator, bulletin: Bulletin) -> Narrowing | None:
    """How the interval of the last round's first question narrows. None where its reports are not of one public row."""
    if not bulletin.rounds:
        return None
    id_, _ = bulletin.rounds[-1]
    round_ = aggregator.ledger.round(id_)
    part, shares = round_.parts[0], [each.share for each in round_.spec.parts]
    if not drawable(part):
        return None
    least, most, share = _range(questions(part.query))
    target = round_.spec.target
    counts = sorted({max(2, target * each // 100) for each in _STEPS})
    points = [(count, (most - least) * width_of(part, max(2, count * shares[0] // sum(shares)))) for count in counts]
    name = questions(part.query).name(0)
    return Narrowing(name, len(bulletin.rounds), tuple(points), share, aggregator.ledger.received(id_), target)


def drawable(part: PreparedPart) -> bool:
    """Whether the width of its interval follows from the number of its reports: they are one bit each, of one row."""
    return part.rows == 1 and part.channel.outcomes == 2


def width_of(part: PreparedPart, reports: int) -> float:
    """Width of the interval, as part of what the answer could be, when each outcome is reported as often."""
    counts = np.full(part.channel.outcomes, reports // part.channel.outcomes, np.int64)
    counts[: reports % len(counts)] += 1
    found = estimate(part, Tally(counts[np.newaxis]))
    whole = 2.0 if isinstance(part.query.query, RealQuery) else 1.0
    return float((found.high - found.low).max()) / whole


def _drawn(narrowing: Narrowing | None) -> dict[str, object] | None:
    """The chart: the interval around nothing in particular, from few reports to all."""
    if narrowing is None:
        return None
    most = max(width for _, width in narrowing.points)
    across = charts.Axis(0, narrowing.target, 72.0, 588.0)
    up = charts.Axis(-most / 2, most / 2, 256.0, 16.0)
    upper = [(across.at(count), up.at(width / 2)) for count, width in narrowing.points]
    lower = [(x, up.at(-width / 2)) for (x, _), (_, width) in zip(upper, narrowing.points, strict=True)]
    told = charts.ticks(-most / 2, most / 2, 4)
    return {
        "of": narrowing,
        "band": charts.band(upper, lower),
        "edges": (charts.line(upper), charts.line(lower)),
        "across": [(across.at(each), f"{each:,.0f}") for each in charts.ticks(0, narrowing.target, 4)],
        "up": [(up.at(each), _signed(each * 100 if narrowing.share else each)) for each in told],
        "now": across.at(narrowing.now),
        "middle": up.at(0.0),
    }


def _signed(value: float) -> str:
    return f"{value:+g}".replace("-", "−") if value else "0"


# ---------------------------------------------------------------------------------------------------------- bulletin


def _entries(aggregator: Aggregator, study: str, bulletin: Bulletin) -> Iterator[EntryRow]:
    """The last entries, what each says, and its digest."""
    numbers = {id_: number for number, (id_, _) in enumerate(bulletin.rounds, 1)}
    after = max(-1, bulletin.length - 1 - _ENTRIES)
    while after + 1 < bulletin.length:
        stored = [
            each for each in aggregator.ledger.stored_entries(study, after, _PIECE) if each.sequence < bulletin.length
        ]
        if not stored:
            return
        for entry in stored:
            yield EntryRow(entry.sequence, entry.digest, _says(json.loads(entry.body)["notice"], numbers))
        after = stored[-1].sequence


def _says(notice: dict[str, object], numbers: dict[str, int]) -> str:
    """What an entry says, in three words."""
    match notice["kind"]:
        case "study":
            return "Study opened"
        case "round":
            spec = notice["round"]
            assert isinstance(spec, dict)  # noqa: S101 - told the type checker: the ledger holds what it has checked
            return f"Round {spec['number']} asked"
        case "closed":
            return f"Round {numbers[str(notice['round'])]} closed"
        case "answers":
            return f"Round {numbers[str(notice['round'])]} answered"
        case _:
            return f"Study {notice['state']}"
