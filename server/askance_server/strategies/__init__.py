"""Strategies: learning algorithms as generators that ask statistical queries (KLNRS11, Def. 5.5).

    answers = yield [Ask(query, tolerance), …]

One `yield` is one round; a noninteractive strategy yields once. An answer is a float for a boolean or real query
and an array of floats for a cell query. What the generator returns is the hypothesis. Strategies are pure and
deterministic given their parameters: a server that comes back from a crash replays the answers that it has stored.

Every module here but `registry` is one strategy, whole, found by its file name; `shared` has what several need,
`former` what studies go on with that began before a strategy was changed. Other packages add theirs through the
entry-point group `askance.strategies`: each entry point names one `Strategy`. What they are written with is named here.
"""

from __future__ import annotations

from askance_server.core.run import Run, StrategyError
from askance_server.core.strategy import (
    Answer,
    Ask,
    Asking,
    Features,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
    Truths,
)

__all__ = [
    "Answer",
    "Ask",
    "Asking",
    "Features",
    "Hypothesis",
    "Learnt",
    "Parameters",
    "Run",
    "Strategy",
    "StrategyError",
    "Truths",
]
