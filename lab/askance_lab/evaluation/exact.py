"""What a strategy itself says of a hypothesis: its exact error by formula, and whether its promise was kept.

Apart from `error`, because this needs no statistics: whoever conducts a demo needs the formulas alone.
"""

from __future__ import annotations

from askance_server.core.strategy import Learnt, Parameters, Strategy


def exact_error(strategy: Strategy, learned: Learnt, truth: Learnt, *, uniform: bool = True) -> float | None:
    """By the strategy's own formula; None where it has none, or where its examples are not those of the formula."""
    labels = strategy.predict is not None
    if strategy.error is None or not learned or not truth or (labels and not uniform):
        return None
    error = strategy.error(learned, truth)
    return None if error is None else float(error)


def is_kept(strategy: Strategy, parameters: Parameters, error: float | None) -> bool | None:
    """Whether a strategy's promise was kept; None: it promises nothing, or nobody knows the error."""
    if strategy.promise is None or error is None:
        return None
    # An oracle that is wrong by exactly τ may be a rounding error beyond it.
    return error <= strategy.promise(parameters) * (1 + 1e-9)
