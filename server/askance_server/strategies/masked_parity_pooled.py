"""A_MP with a pooled first round, and a search in the others; docs/masked-parity.md derives each step.

At d = 64 and ε = 1 some 3.4·10⁵ users do in six rounds, and 3.1·10⁵ in a hundred (`rounds`); one pooled round takes
7·10⁵, fresh portions 4.6·10⁹ (docs/theory.md).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import And, FieldValue, If, Integer, Not, Parity, Xor
from askance_protocol.rounds import MOST_ROUNDS
from askance_protocol.schema import Schema
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Reports, Strategy
from askance_server.strategies import masked_parity
from askance_server.strategies.masked_parity import MINUS, SHOWN, dimension, error, predict, promise
from askance_server.strategies.shared.posterior import UNKNOWN, Candidate, Posterior, WhatReportsTell

MOST_QUERIES: Final = 4096
"""No study asks more, over all its rounds."""
SURE: Final = 0.999


def schema(parameters: Parameters) -> Schema:
    """The examples of A_MP."""
    read.only(parameters, "d", "rounds")
    portions(parameters)
    return masked_parity.schema({"d": dimension(parameters)})


def portions(parameters: Parameters) -> tuple[int, ...]:
    """Of the users: those who only show bits of r, then those who also look for it among the likeliest.

    The more rounds, the fewer users. Tuned: benchmarks/masked_parity_tried.py.
    """
    rounds = read.whole(parameters, "rounds", 2, MOST_ROUNDS, default=6)
    first = 0.4 + 1 / rounds
    later = [(rounds / (rounds + 3)) ** place for place in range(rounds - 1)]
    return tuple(round(10**6 * each) for each in (first, *((1 - first) * each / sum(later) for each in later)))


def searched(d: int, candidate: int, cells: int = 2) -> CellQuery:
    """Cell i where b = 1, as in step 1; where b = 0 cell d, signed by y·χ_r̂(x), whose mean reveals a if r̂ = r.

    Every user serves both halves: her own b says which. The cells beyond d are empty, and show the noise.
    """
    parity = And(of=(Not(of=SHOWN), Parity(field="x", mask=f"{candidate:x}")))
    cell = If(test=SHOWN, then=FieldValue(field="i"), otherwise=Integer(of=d))
    return CellQuery(cells=max(cells * d, 64), cell=cell, negative=Xor(of=(MINUS, parity)))


def run(parameters: Parameters, told: WhatReportsTell = UNKNOWN) -> Asking:
    """Estimate the bits of r; then ask about the likeliest r until one stands out."""
    return (yield from search(dimension(parameters), portions(parameters), SURE, told))


def search(d: int, shares: tuple[int, ...], sure: float, told: WhatReportsTell) -> Asking:
    """Search with these portions of the users, until one candidate has this probability."""
    by = told.channel
    posterior, left = Posterior(d, told.c), MOST_QUERIES - 1
    # Any tolerance below the mean's 1/(2d) tells its sign; the more cells, the better is the noise known.
    answers = yield [Ask(searched(d, 0, 4), 1 / (2 * d + 1), by)]
    noise = posterior.hear([Candidate(0)], [np.atleast_1d(answers[0])])
    for number, share in enumerate(shares[1:], 1):
        # The fewer rounds, the fewer candidates, and each looked at well.
        most, depth = left // (len(shares) - number), max(1.0, min(3.0, 20 / len(shares)))
        trials = posterior.worth(share / shares[0] / noise, most, depth)
        left -= len(trials)
        answers = yield [Ask(searched(d, each.r), tolerance(each, trials), by, each.weight) for each in trials]
        posterior.hear(trials, [np.atleast_1d(answer) for answer in answers])
        if posterior.best().probability > sure:
            break
    best = posterior.best()
    return Hypothesis(f"c_(r,a) with r = {best.r}, a = {best.a}", {"r": best.r, "a": best.a})


def tolerance(trial: Candidate, trials: list[Candidate]) -> float:
    """Step 2(c): 1/5, for a candidate that is alone. Users go as 1/tolerance²: several share those that one has."""
    return min((sum(each.weight for each in trials) / trial.weight) ** 0.5 / 5, 0.99)


def at(reports: Reports) -> Strategy:
    """The search where ε is known: then it knows how few users a candidate may be asked of, and by which channel."""
    return replace(MASKED_PARITY_POOLED, at=None, run=partial(run, told=WhatReportsTell.by(reports)))


MASKED_PARITY_POOLED: Final = Strategy(
    name="masked-parity-pooled",
    summary="A_MP from one bit a user: r softly, then a search for it",
    interactive=True,
    rounds=MOST_ROUNDS,
    schema=schema,
    run=run,
    at=at,
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
    # For who does not plan it by its parameters: as in six rounds.
    portions=(*portions({}), *[1] * (MOST_ROUNDS - 6)),
    portions_for=portions,
)
