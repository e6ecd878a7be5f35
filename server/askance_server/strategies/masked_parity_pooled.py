"""A_MP with a pooled first round and a search as the second; docs/masked-parity.md derives each step.

At d = 64 and ε = 1 some 3.6·10⁵ users do; one pooled round takes 7·10⁵, fresh portions 4.6·10⁹ (docs/theory.md).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import And, FieldValue, If, Integer, Not, Parity, Xor
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import MINUS, SHOWN, dimension, error, predict, promise, schema
from askance_server.strategies.shared.posterior import Candidate, Posterior

PORTIONS: Final = (60, 10, 10, 8, 7, 5)
"""Of the users: those who only show bits of r, then those who also look for it among the likeliest."""


def searched(d: int, candidate: int) -> CellQuery:
    """Cell i where b = 1, as in step 1; where b = 0 cell d, signed by y·χ_r̂(x), whose mean reveals a if r̂ = r.

    Every user serves both halves: her own b says which. The cells beyond d are empty, and show the noise.
    """
    parity = And(of=(Not(of=SHOWN), Parity(field="x", mask=f"{candidate:x}")))
    cell = If(test=SHOWN, then=FieldValue(field="i"), otherwise=Integer(of=d))
    return CellQuery(cells=max(2 * d, 64), cell=cell, negative=Xor(of=(MINUS, parity)))


def run(parameters: Parameters) -> Asking:
    """Estimate the bits of r; then ask about the likeliest r until one stands out."""
    d = dimension(parameters)
    posterior = Posterior(d)
    # Any tolerance below the mean's 1/(2d) tells its sign.
    answers = yield [Ask(searched(d, 0), 1 / (2 * d + 1))]
    noise = posterior.hear([Candidate(0)], [np.atleast_1d(answers[0])])
    for portion in PORTIONS[1:]:
        trials = posterior.worth(portion / PORTIONS[0] / noise)
        # Step 2(c): 1/5, for the likeliest. Users go as 1/tolerance².
        most = trials[0].weight
        answers = yield [Ask(searched(d, trial.r), (most / trial.weight) ** 0.5 / 5) for trial in trials]
        posterior.hear(trials, [np.atleast_1d(answer) for answer in answers])
        if posterior.best().sure:
            break
    best = posterior.best()
    return Hypothesis(f"c_(r,a) with r = {best.r}, a = {best.a}", {"r": best.r, "a": best.a})


MASKED_PARITY_POOLED: Final = Strategy(
    name="masked-parity-pooled",
    summary="A_MP from one bit a user: r softly, then a search for it",
    interactive=True,
    rounds=len(PORTIONS),
    schema=schema,
    run=run,
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
    portions=PORTIONS,
)
