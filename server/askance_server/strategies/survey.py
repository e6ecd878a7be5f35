"""A survey: many questions about mixed columns in one round, as telemetry asks them; the answer is a table.

    mean(minutes, 0, 120)      share(country)      histogram(version)      share(plan = 'pro' and minutes > 30)

Theory of operation
-------------------
*Splitting users or splitting ε.* m questions can be asked of n users in two ways. Each user answers one, chosen by the
public coin, at her whole ε; or all of them, each at ε/m. With C(ε) = (e^ε + 1)/(e^ε − 1), an answer to one question is
estimated with variance (m/n)·C(ε)² in the first way and C(ε/m)²/n in the second, but for terms that the reports share.
For small ε that is 4m/(nε²) against 4m²/(nε²): to split the users is m times as exact. Two questions a user win only
where 2·C(ε)² > C(ε/2)², from ε = 3.06 on (`gain`). So the users are split.

*Once is enough.* Questions that ask the same, as `share(country)` and `histogram(country)` do, are asked once, of the
users of both.

*Channels.* A share and a mean are one bit each; cells are asked through whichever channel estimates them best
(`Ask.channel`). The users are dealt so that the intervals of all questions come out about equally wide: of a mean,
measured against its range.

*The mean of a field with gaps* is the quotient N/D of the mean of the value, which counts 0 for a gap on [−1, 1], and
the share D of users who have one: two questions. Its interval holds whenever both of theirs do. So N's may fail with
two thirds of the probability and D's with one third, which makes the quotient's about the narrowest for means in the
middle of the range; and its ends are the least and the greatest quotient of what they hold.

*At once.* `simultaneous` shares the probability of failure evenly among all numbers of the table, so that all intervals
hold together (by the union bound, whatever depends on what).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import NormalDist
from typing import Final, TypeVar

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.telemetry import Measure, TelemetryQuestion, compile_question, fields_asked
from askance_protocol.schema import BitsField, CategoryField, IntegerField, Schema
from askance_server.core.strategy import (
    LEVEL,
    Answer,
    Ask,
    Asking,
    Estimate,
    Estimating,
    Hypothesis,
    Parameters,
    Strategy,
)

T = TypeVar("T")

MAX_QUESTIONS: Final = 64
_PLANNED: Final = 0.05
"""With what probability a plan may fail, unless a study says it: a strategy does not know. It changes no answer."""
_ASK: Final = re.compile(r"ask[1-9][0-9]{0,2}", re.ASCII)
VALUE_FAILS: Final = 2 / 3
"""Of the failure of a quotient's interval, the part that its numerator's has."""

COLUMNS: Final = Schema(
    fields=(
        CategoryField(name="country", values=("at", "ch", "de", "es", "fr", "it", "nl", "pl")),
        CategoryField(name="plan", values=("free", "pro", "team"), gap=True),
        CategoryField(name="version", values=("1.8", "1.9", "2.0", "2.1", "2.2"), gap=True),
        IntegerField(name="minutes", low=0, high=120, gap=True),
        IntegerField(name="crashes", low=0, high=9),
        BitsField(name="dark", width=1),
    )
)
"""What it asks about where nobody says what there is: six columns of an app's telemetry, three of them with gaps."""


def texts(parameters: Parameters) -> list[str]:
    """The questions as they were asked: parameters ask1, ask2, …"""
    count = sum(map(bool, map(_ASK.fullmatch, parameters)))
    if not 1 <= count <= MAX_QUESTIONS:
        remedy = f'give 1 to {MAX_QUESTIONS}: ask1, ask2, …, such as "mean(minutes, 0, 120)"'
        raise read.refused("ask1", f"{count} questions are asked", remedy)
    found = list[str]()
    for number in range(1, count + 1):
        text = parameters.get(f"ask{number}")
        if not isinstance(text, str):
            raise read.refused(f"ask{number}", "is no question", "number the questions from ask1 on, each a text")
        found.append(text.strip())
    return found


def fields(parameters: Parameters) -> tuple[str, ...]:
    """Fields that the questions name."""
    named = [_of(number, partial(fields_asked, text)) for number, text in enumerate(texts(parameters), 1)]
    return tuple(dict.fromkeys(name for names in named for name in names))


def questions(parameters: Parameters, example: Schema) -> list[TelemetryQuestion]:
    """The questions, compiled for these examples."""
    asked = texts(parameters)
    for number, text in enumerate(asked, 1):
        if text in asked[: number - 1]:
            raise read.refused(f"ask{number}", f"{text!r} is asked twice", "ask it once: its answer is one number")
    return [_of(number, partial(compile_question, text, example)) for number, text in enumerate(asked, 1)]


def _of(number: int, reading: Callable[[], T]) -> T:
    try:
        return reading()
    except ProtocolError as error:
        raise read.refused(f"ask{number}", f"{error.where}: {error.what}", error.remedy) from None


def over(example: Schema) -> Strategy:
    """The survey over these examples."""

    def schema(parameters: Parameters) -> Schema:
        read.only(parameters, *filter(_ASK.fullmatch, parameters), "width", "simultaneous")
        _width(parameters)
        _simultaneous(parameters)
        questions(parameters, example)
        return example

    def run(parameters: Parameters) -> Asking:
        asked = questions(parameters, example)
        asks = asks_of(asked, _width(parameters), simultaneous=_simultaneous(parameters))
        answers = dict(zip((ask.query for ask in asks), (yield asks), strict=True))
        rows = [row for question in asked for row in _rows(question, [answers[query] for query in question.queries])]
        text = "; ".join(f"{name} = {value:.4g}" for name, value in rows)
        return Hypothesis(text, {"answers": [{"name": name, "estimate": value} for name, value in rows]})

    def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
        asked = questions(parameters, example)
        return list(_table(asked, estimating, _failure(asked, simultaneous=_simultaneous(parameters))))

    return Strategy(
        name="survey",
        summary="Many questions about mixed columns, answered in a table",
        interactive=False,
        rounds=1,
        schema=schema,
        run=run,
        over=over,
        fields=fields,
        estimates=estimates,
        examples="telemetry",
        small={
            "ask1": "mean(minutes, 0, 120)",
            "ask2": "histogram(plan)",
            "ask3": "share(plan = 'pro' and minutes > 30)",
        },
    )


def _width(parameters: Parameters) -> float:
    """How wide the intervals should be: of shares, and of means as a part of their range."""
    return float(read.decimal(parameters, "width", below=1, default="0.1"))


def _simultaneous(parameters: Parameters) -> bool:
    given = parameters.get("simultaneous", False)
    if not isinstance(given, bool):
        raise read.refused("simultaneous", "is neither true nor false", "give one of them")
    return given


def asks_of(asked: Sequence[TelemetryQuestion], width: float, *, simultaneous: bool) -> list[Ask]:
    """What is asked, once each; the tolerances are such that all intervals come out about as wide.

    A plan keeps an estimate within τ but with probability f: τ = z(f)·σ, where σ is the standard error. An interval of
    this width has width/2 = z(g)·σ, where g is the probability with which it may fail. So τ is z(f)/z(g) of its half.
    A mean is asked on [−1, 1], where the same is twice as much; but the two errors of a quotient add up.
    """
    reach = {query: width / 2 for question in asked for query in question.queries}
    for question in asked:
        if question.measure is Measure.MEAN and len(question.queries) == 1:
            reach[question.queries[0]] = width
    planned = _PLANNED / (len(reach) + 1 if len(reach) > 1 else 1)
    own = _z(_failure(asked, simultaneous=simultaneous))
    return [Ask(query, min(half * _z(planned / _numbers(query)) / own, 0.99), "best") for query, half in reach.items()]


def gain(micro_epsilon: int, many: int) -> float:
    """How many times as many users it takes if each answers one question at ε, and not `many` at ε/`many`.

    n users give m questions n/m answers each of variance C(ε)², or `many`·n/m answers of variance C(ε/`many`)². That is
    the largest variance of a bit; reports do not share it with what the users differ by.
    """
    whole, part = (1 / math.tanh(share * micro_epsilon / 2e6) for share in (1.0, 1 / many))
    return many * (whole / part) ** 2


def _failure(asked: Sequence[TelemetryQuestion], *, simultaneous: bool) -> float:
    """With what probability the interval of one number may fail."""
    return (1 - LEVEL) / (sum(len(question.names) for question in asked) if simultaneous else 1)


def _numbers(query: BooleanQuery | RealQuery | CellQuery) -> int:
    return query.cells if isinstance(query, CellQuery) else 1


def _z(failure: float) -> float:
    """How many standard errors a normal variable leaves, on one side or the other, with this probability."""
    return NormalDist().inv_cdf(1 - failure / 2)


# ------------------------------------------------------------------------------------------------------------- answers


def _rows(question: TelemetryQuestion, answers: Sequence[Answer]) -> Iterator[tuple[str, float]]:
    """Each number of an answer, with its name."""
    if question.measure is Measure.MEAN:
        value = float(answers[0])
        if len(answers) > 1:
            value = _quotient(value, float(answers[1]))
        yield question.text, _in_range(question, value)
        return
    shares = np.atleast_1d(np.asarray(answers[0], np.float64)).clip(0, 1).tolist()
    yield from zip(question.names, shares, strict=True)


def _quotient(value: float, known: float) -> float:
    """N/D within [−1, 1], where it lies; 0, the middle, where nobody seems to have a value."""
    return 0.0 if known <= 0 else min(max(value / known, -1.0), 1.0)


def _in_range(question: TelemetryQuestion, value: float) -> float:
    """A value in [−1, 1] in the units of its field."""
    low, high = float(question.low), float(question.high)
    return low + (high - low) * (min(max(value, -1.0), 1.0) + 1) / 2


def _table(asked: Sequence[TelemetryQuestion], estimating: Estimating, failure: float) -> Iterator[Estimate]:
    """A row for each number, whose interval fails with this probability."""
    at = {part: _by_query(asked, estimating(1 - failure * part)) for part in (1.0, VALUE_FAILS, 1 - VALUE_FAILS)}
    for question in asked:
        if len(question.queries) == 2:
            value, known = question.queries
            yield _mean_of_some(question, at[VALUE_FAILS][value][0], at[1 - VALUE_FAILS][known][0])
            continue
        for name, found in zip(question.names, at[1.0][question.queries[0]], strict=True):
            yield Estimate(name, found.estimate, found.low, found.high, LEVEL, found.reports)


def _by_query(asked: Sequence[TelemetryQuestion], estimates: Sequence[Estimate]) -> Mapping[object, Sequence[Estimate]]:
    """The estimates of each query, which come one after the other."""
    found, begin = dict[object, Sequence[Estimate]](), 0
    for ask in asks_of(asked, 0.5, simultaneous=False):
        count = _numbers(ask.query)
        found[ask.query] = estimates[begin : begin + count]
        begin += count
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
        by = least if (of > 0) is up else most
        return math.copysign(1.0, of) if by <= abs(of) else of / by

    low, high = end(value[0], up=False), end(value[1], up=True)
    return max(low, -1.0), min(high, 1.0)


SURVEY: Final = over(COLUMNS)
