"""A histogram: the share of every cell of a partition, from one pooled query.

The papers would ask k boolean queries of k disjoint portions of the users (KLNRS11, Thm 5.7). As cells of one query
they share all the users: docs/theory.md#one-pooled-round.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.queries.query import MAX_CELLS
from askance_protocol.schema import IntegerField, Schema
from askance_server.core.strategy import Ask, Asking, Hypothesis, Learnt, Parameters, Strategy


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
    [answer] = yield [Ask(CellQuery(cells=cells, cell=FieldValue(field="cell")), tolerance)]
    shares = np.asarray(answer, np.float64)
    largest = int(shares.argmax())
    text = f"cell {largest} of {cells} has the largest share, {shares[largest]:.6g}, asked to within {tolerance:g}"
    return Hypothesis(text, {"shares": shares.tolist(), "tolerance": tolerance})


def error(learned: Learnt, truth: Learnt) -> float:
    """Largest absolute error of any share."""
    return float(np.abs(np.subtract(learned["shares"], truth["shares"])).max())


def promise(parameters: Parameters) -> float:
    """Every share within the tolerance."""
    return float(read.decimal(parameters, "tolerance", below=1, default="0.05"))


HISTOGRAM: Final = Strategy(
    name="histogram",
    summary="The share of every cell",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    promise=promise,
    error=error,
    examples="histogram",
    small={"cells": 4},
)
