"""The one column of a population that a strategy asks about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

from askance_protocol import parameters as read
from askance_protocol.parameters import Parameters
from askance_protocol.schema import LabelField, Schema
from askance_server.core.strategy import Asking, Estimate, Estimating, Strategy


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


def rows_of(learned: Mapping[str, object]) -> list[tuple[str, float]]:
    """Names and estimates in what a survey has learned."""
    rows = cast("Sequence[Mapping[str, Any]]", learned["answers"])
    return [(row["name"], row["estimate"]) for row in rows]


def answering(
    asking: Strategy,
    strategy: Strategy,
    question: Callable[[Parameters], Parameters],
    run: Callable[[Parameters], Asking],
) -> Strategy:
    """A strategy whose answer is a survey's of the `question` that its parameters make: no error of it is known."""
    told = asking.estimates

    def schema(parameters: Parameters) -> Schema:
        return asking.schema(question(parameters))

    def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
        return () if told is None else told(question(parameters), estimating)

    return replace(strategy, schema=schema, run=run, estimates=estimates, promise=None, error=None, examples=None)


def with_defaults(strategy: Strategy, defaults: Parameters) -> Strategy:
    """The strategy with these parameters where a study gives none."""

    def schema(parameters: Parameters) -> Schema:
        return strategy.schema({**defaults, **parameters})

    def run(parameters: Parameters) -> Asking:
        return strategy.run({**defaults, **parameters})

    return replace(strategy, schema=schema, run=run)
