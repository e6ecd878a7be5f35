"""The one column of a population that a strategy asks about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar, cast

from askance_protocol import parameters as read
from askance_protocol.parameters import Parameters
from askance_protocol.schema import LabelField, Schema
from askance_protocol.text import counted
from askance_server.core.strategy import Asking, Estimate, Estimating, Hypothesis, Strategy
from askance_server.strategies import survey


def column(parameters: Parameters, example: Schema) -> str:
    """Name of the field that is asked about: that of the parameter `column`, or the only one beside the label."""
    names = [field.name for field in example.fields if not isinstance(field, LabelField)] or list(example.position)
    name = parameters.get("column", names[0] if len(names) == 1 else None)
    if not isinstance(name, str) or name not in example.position:
        what = "is missing, and there are several" if name is None else "is no field of the examples"
        raise read.refused("column", what, f"name one of {', '.join(example.position)}")
    return name


def decimal_text(number: Fraction) -> str:
    """A decimal as a parameter has it."""
    return f"{Decimal(number.numerator) / Decimal(number.denominator):f}"


Told: TypeAlias = Mapping[str, Any]
"""One number that a survey has learned: name, estimate and, of reports, its interval, level and number of reports."""


def sure_members(rows: Sequence[Told]) -> dict[str, Any]:
    """Members of a hypothesis for the intervals of some numbers; none where the answers are not made from reports."""
    if not all("low" in row for row in rows):
        return {}
    ends = {end: [row[end] for row in rows] for end in ("low", "high")}
    return {**ends, "level": rows[0]["level"], "reports": rows[0]["reports"]}


def row_text(row: Told) -> str:
    """A number with its interval, if it has one."""
    if "low" not in row:
        return f"{row['estimate']:.6g}"
    ends = f"{row['low']:.4g} to {row['high']:.4g}"
    return f"{row['estimate']:.4g} ({ends} at {100 * row['level']:g} %, {counted(row['reports'], 'report')})"


def answering(
    asking: Strategy,
    strategy: Strategy,
    question: Callable[[Parameters], Parameters],
    hypothesis: Callable[[Sequence[Told]], Hypothesis],
) -> Strategy:
    """A strategy whose answer is a survey's of the `question` that its parameters make: no error of it is known."""
    told = asking.estimates

    def schema(parameters: Parameters) -> Schema:
        return asking.schema(question(parameters))

    def run(parameters: Parameters) -> Asking:
        learned = yield from asking.run(question(parameters))
        return hypothesis(cast("Sequence[Told]", learned.value["answers"]))

    def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
        return () if told is None else told(question(parameters), estimating)

    return replace(strategy, schema=schema, run=run, estimates=estimates, promise=None, error=None, examples=None)


def mean_of(example: Schema, strategy: Strategy) -> Strategy:
    """The mean of a column, over the users who have a value there."""
    asking = survey.over(example)

    def question(parameters: Parameters) -> Parameters:
        read.only(parameters, "tolerance", "column")
        tolerance = read.decimal(parameters, "tolerance", below=1, default="0.05")
        return {"ask1": f"mean({column(parameters, example)})", "width": decimal_text(tolerance)}

    def hypothesis(rows: Sequence[Told]) -> Hypothesis:
        [row] = rows
        sure = {name: row[name] for name in ("low", "high", "level", "reports") if name in row}
        return Hypothesis(f"{row['name']} is {row_text(row)}", {"mean": row["estimate"], **sure})

    return answering(asking, strategy, question, hypothesis)


def histogram_of(example: Schema, strategy: Strategy) -> Strategy:
    """The share of every value of a column, and of gaps."""
    asking = survey.over(example)

    def question(parameters: Parameters) -> Parameters:
        read.only(parameters, "tolerance", "column", "cuts")
        # A share is asked to within half the width; its interval holds together with those of the other cells.
        width = min(2 * read.decimal(parameters, "tolerance", below=1, default="0.05"), Fraction(99, 100))
        cuts = f", {parameters['cuts']}" if "cuts" in parameters else ""
        return {
            "ask1": f"histogram({column(parameters, example)}{cuts})",
            "width": decimal_text(width),
            "simultaneous": True,
        }

    def hypothesis(rows: Sequence[Told]) -> Hypothesis:
        largest = max(rows, key=lambda row: row["estimate"])
        cells, shares = [row["name"] for row in rows], [row["estimate"] for row in rows]
        text = f"{largest['name']} is the largest of {len(rows)}: {row_text(largest)}"
        return Hypothesis(text, {"cells": cells, "shares": shares, **sure_members(rows)})

    return answering(asking, strategy, question, hypothesis)


Wanted = TypeVar("Wanted")
"""What is wanted to be known of a column, as a strategy reads it from its parameters."""


def running(ask: Callable[[Wanted], Asking], wanted: Callable[[Parameters], Wanted]) -> Callable[[Parameters], Asking]:
    """Ask for what the parameters want."""
    return lambda parameters: ask(wanted(parameters))


def sharing(
    portions: Callable[[Wanted], tuple[int, ...]] | None, wanted: Callable[[Parameters], Wanted]
) -> Callable[[Parameters], tuple[int, ...]] | None:
    """The portions of the rounds that this takes, where they are known."""
    return None if portions is None else lambda parameters: portions(wanted(parameters))


def asking_of(
    strategy: Strategy,
    example: Schema,
    ask: Callable[[Wanted], Asking],
    portions: Callable[[Wanted], tuple[int, ...]] | None,
    wanted: Callable[[Parameters], Wanted],
) -> Strategy:
    """The strategy about a column of these examples: no error of it is known."""

    def schema(parameters: Parameters) -> Schema:
        wanted(parameters)
        return example

    run, shared = running(ask, wanted), sharing(portions, wanted)
    return replace(strategy, schema=schema, run=run, portions_for=shared, error=None, examples=None)
