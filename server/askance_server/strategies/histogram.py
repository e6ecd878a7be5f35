"""A histogram: the share of every cell of a partition, from one pooled query.

The papers would ask k boolean queries of k disjoint portions of the users (KLNRS11, Thm 5.7). As cells of one query
they share all the users: docs/theory.md#one-pooled-round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.queries.query import MAX_CELLS
from askance_protocol.schema import IntegerField, Schema
from askance_server.core.strategy import LEVEL, Ask, Asking, Hypothesis, Learnt, Parameters, Strategy, estimates_in
from askance_server.strategies.shared.column import histogram_of
from askance_server.strategies.shared.sure import interval_members, interval_text

MOST_INTERVALS: Final = 4096
"""Cells whose intervals stand in the hypothesis: a bulletin's last entry has room for so many."""

DECIMALS: Final = 9
"""Decimals of the shares of more cells than that: far below the error of any number of users."""


def schema(parameters: Parameters) -> Schema:
    """Schema of a user: the cell that she is in."""
    read.only(parameters, "cells", "tolerance")
    read.decimal(parameters, "tolerance", below=1, default="0.05")
    cells = read.whole(parameters, "cells", 2, MAX_CELLS)
    return Schema(fields=(IntegerField(name="cell", low=0, high=cells - 1),))


def run(parameters: Parameters) -> Asking:
    """Ask for all cells at once."""
    tolerance = float(read.decimal(parameters, "tolerance", below=1, default="0.05"))
    cells = read.whole(parameters, "cells", 2, MAX_CELLS)
    answers = yield [Ask(CellQuery(cells=cells, cell=FieldValue(field="cell")), tolerance)]
    shares = np.asarray(answers[0], np.float64)
    largest = int(shares.argmax())
    text = f"cell {largest} of {cells} has the largest share, {shares[largest]:.6g}, asked to within {tolerance:g}"
    # The largest was chosen by its estimate, so its interval has to hold together with all others: the union bound.
    found = estimates_in(answers, 1 - (1 - LEVEL) / cells) if cells <= MOST_INTERVALS else ()
    if found:
        share = f"{found[largest].estimate:.4g} ({interval_text(found[largest])})"
        text = f"cell {largest} of {cells} is the largest: {share}"
    # A bulletin takes 2²⁰ characters of data: with all digits the largest histograms ended as failed.
    told = shares if cells <= MOST_INTERVALS else shares.round(DECIMALS)
    return Hypothesis(text, {"shares": told.tolist(), "tolerance": tolerance, **interval_members(found)})


def error(learned: Learnt, truth: Learnt) -> float:
    """Largest absolute error of any share."""
    return float(np.abs(np.subtract(learned["shares"], truth["shares"])).max())


def promise(parameters: Parameters) -> float:
    """Every share within the tolerance."""
    return float(read.decimal(parameters, "tolerance", below=1, default="0.05"))


def over(example: Schema) -> Strategy | None:
    """The share of every value of a field of these examples; who has a gap there is in a cell of her own.

    `column` names the field, if there are more; `cuts` are numbers with commas between them: the cells of many numbers.
    """
    [field, *others] = example.fields
    own = isinstance(field, IntegerField) and (field.name, field.low, field.gap) == ("cell", 0, None)
    return None if own and not others else histogram_of(example, HISTOGRAM)


def fields(parameters: Parameters) -> Sequence[str]:
    """The field that is asked about."""
    return (str(parameters.get("column", "cell")),)


HISTOGRAM: Final = Strategy(
    name="histogram",
    summary="The share of every cell",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    over=over,
    fields=fields,
    promise=promise,
    error=error,
    examples="histogram",
    small={"cells": 4},
)
