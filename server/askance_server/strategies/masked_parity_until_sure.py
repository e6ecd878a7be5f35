"""A_MP that enrols until it is sure: nearly half of the users, then small groups until one concept stands out.

The search is that of `masked_parity_pooled`. Users who were never asked have spent nothing, so what counts is how many
are asked: at d = 64 and ε = 1 some 2.3·10⁵ on average, of 3.3·10⁵ who stand by (docs/masked-parity.md).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from askance_protocol.rounds import MOST_ROUNDS
from askance_server.core.strategy import Asking, Parameters, Reports, Strategy
from askance_server.strategies.masked_parity import dimension, error, predict, promise, schema
from askance_server.strategies.masked_parity_pooled import search
from askance_server.strategies.shared.posterior import UNKNOWN, WhatReportsTell

PORTIONS: Final = (80, *[1] * (MOST_ROUNDS - 1))
"""Of the users: those who only show bits of r, then groups who also look for it among the likeliest."""
SURE: Final = 0.9
"""Where it stops. What it has learned is surer on average: the last group takes it beyond."""


def run(parameters: Parameters, told: WhatReportsTell = UNKNOWN) -> Asking:
    """Estimate the bits of r; then ask about the likeliest r, group by group, until one is sure enough."""
    return (yield from search(dimension(parameters), PORTIONS, SURE, told))


def at(reports: Reports) -> Strategy:
    """The search where ε is known."""
    return replace(MASKED_PARITY_UNTIL_SURE, at=None, run=partial(run, told=WhatReportsTell.by(reports)))


MASKED_PARITY_UNTIL_SURE: Final = Strategy(
    name="masked-parity-until-sure",
    summary="A_MP that asks group after group until it is sure",
    interactive=True,
    rounds=MOST_ROUNDS,
    schema=schema,
    run=run,
    at=at,
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
    portions=PORTIONS,
)
