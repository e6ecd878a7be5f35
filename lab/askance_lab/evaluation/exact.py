"""Exact error by a strategy's own formula, and whether its promise was kept.

Apart from `error`, because this needs no statistics: the command that conducts a demo needs the formulas alone.
"""

from __future__ import annotations

from askance_server.core.strategy import Learnt, Parameters, Strategy


def exact_error(strategy: Strategy, learned: Learnt, truth: Learnt, *, uniform: bool = True) -> float | None:
    """Error by the strategy's own formula; None without a formula, or if it does not apply to the examples."""
    labels = strategy.predict is not None
    if strategy.error is None or not learned or not truth or (labels and not uniform):
        return None
    error = strategy.error(learned, truth)
    return None if error is None else float(error)


def is_kept(strategy: Strategy, parameters: Parameters, error: float | None) -> bool | None:
    """Whether a strategy's promise was kept; None if it promises nothing or the error is unknown."""
    if strategy.promise is None or error is None:
        return None
    # An oracle that is wrong by exactly τ may be a rounding error beyond it.
    return error <= strategy.promise(parameters) * (1 + 1e-9)
