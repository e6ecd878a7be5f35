"""The answers of a survey: a row for each number of its table, with the interval of a quotient where there are gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from askance_protocol.queries.telemetry import Measure, TelemetryQuestion
from askance_protocol.text import counted
from askance_server.core.strategy import LEVEL, Answer, Estimate, Estimating, Hypothesis
from askance_server.strategies.shared.sure import interval_members
from askance_server.strategies.shared.survey_groups import Asked, Group, sums_of_groups

MOST_INTERVALS: Final = 2048
"""Numbers whose intervals stand in the hypothesis, too: the last entry of a bulletin has room for so many."""
VALUE_FAILS: Final = 2 / 3
"""Of the failure of a quotient's interval, the part that its numerator's has."""


def rows_of(question: TelemetryQuestion, answers: Sequence[Answer]) -> Iterator[tuple[str, float]]:
    """Each number of an answer, with its name."""
    if question.measure is Measure.MEAN:
        value = float(answers[0])
        if len(answers) > 1:
            value = _quotient(value, float(answers[1]))
        yield question.text, _in_range(question, value)
        return
    shares = np.atleast_1d(np.asarray(answers[0], np.float64)).clip(0, 1).tolist()
    yield from zip(question.names, shares, strict=True)


def hypothesis_of(
    asked: Sequence[TelemetryQuestion], answers: Mapping[Asked, Answer], sure: Callable[[], Sequence[Estimate]] | None
) -> Hypothesis:
    """The answers by name, each with its interval where it was made from reports."""
    rows = [row for question in asked for row in rows_of(question, [answers[query] for query in question.queries])]
    text = f"{rows[0][0]} = {rows[0][1]:.4g}" if len(rows) == 1 else _counts(len(rows), len(asked))
    told = [{"name": name, "estimate": value} for name, value in rows]
    if sure is not None and len(rows) <= MOST_INTERVALS:
        told = [row | interval_members([each], one=True) for row, each in zip(told, sure(), strict=True)]
    return Hypothesis(text, {"answers": told})


def _counts(rows: int, questions: int) -> str:
    """What a table holds, which is shown beside it."""
    return f"{counted(rows, 'estimate')}, for {counted(questions, 'question')}"


def _quotient(value: float, known: float) -> float:
    """N/D within [−1, 1], where it lies; 0, the middle, where nobody seems to have a value."""
    return 0.0 if known <= 0 else min(max(value / known, -1.0), 1.0)


def _in_range(question: TelemetryQuestion, value: float) -> float:
    """A value in [−1, 1] in the units of its field."""
    low, high = float(question.low), float(question.high)
    return low + (high - low) * (min(max(value, -1.0), 1.0) + 1) / 2


def answers_by_query(groups: Sequence[Group], given: Sequence[Answer]) -> Mapping[Asked, Answer]:
    """The answer to each query, of those to groups of them."""
    return {
        query: answer
        for group, all_ in zip(groups, given, strict=True)
        for query, answer in zip(group.members, group.answers(all_), strict=True)
    }


def estimates_table(
    asked: Sequence[TelemetryQuestion], groups: Sequence[Group], estimating: Estimating, failure: float
) -> Iterator[Estimate]:
    """A row for each number, whose interval fails with this probability."""
    sums = sums_of_groups(groups)
    quotients = any(len(question.queries) == 2 for question in asked)
    parts = (1.0, VALUE_FAILS, 1 - VALUE_FAILS) if quotients else (1.0,)
    at = {part: _by_query(groups, estimating(1 - failure * part, sums)) for part in parts}
    for question in asked:
        if len(question.queries) == 2:
            value, known = question.queries
            yield _mean_of_some(question, at[VALUE_FAILS][value][0], at[1 - VALUE_FAILS][known][0])
            continue
        for name, found in zip(question.names, at[1.0][question.queries[0]], strict=True):
            yield Estimate(name, found.estimate, found.low, found.high, LEVEL, found.reports)


def _by_query(groups: Sequence[Group], estimates: Sequence[Estimate]) -> Mapping[Asked, Sequence[Estimate]]:
    """The estimates of each query; those of the groups come one after the other."""
    found, begin = dict[Asked, Sequence[Estimate]](), 0
    for group in groups:
        end = begin + sum(group.numbers)
        found.update(zip(group.members, group.estimates(estimates[begin:end]), strict=True))
        begin = end
    return found


def _mean_of_some(question: TelemetryQuestion, value: Estimate, known: Estimate) -> Estimate:
    """The mean over the users who have a value, from what all were asked."""
    low, high = quotient_interval((value.low, value.high), (known.low, known.high))
    middle = _quotient(value.estimate, known.estimate)
    return Estimate(
        question.text,
        _in_range(question, middle),
        _in_range(question, low),
        _in_range(question, high),
        LEVEL,
        value.reports + known.reports,
    )


def quotient_interval(value: tuple[float, float], known: tuple[float, float]) -> tuple[float, float]:
    """The least and the greatest N/D in [−1, 1] of all N and D > 0 between these ends."""
    least, most = max(known[0], 0.0), known[1]
    if most <= 0:
        return -1.0, 1.0

    def end(of: float, *, up: bool) -> float:
        if not of:
            return 0.0
        # Far from 0 by the smallest D, near to it by the largest.
        by = least if (of > 0) == up else most
        return math.copysign(1.0, of) if by <= abs(of) else of / by

    low, high = end(value[0], up=False), end(value[1], up=True)
    return max(low, -1.0), min(high, 1.0)
