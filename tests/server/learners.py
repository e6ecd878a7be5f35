"""Examples, exact answers and small strategies that several tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare
from askance_protocol.queries.language import Bit, Constant
from askance_protocol.rounds import StudySpec
from askance_protocol.schema import BitsField, Schema
from askance_server.core.run import Run
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Learnt, Strategy
from askance_server.core.study import study_of
from askance_server.strategies.masked_parity import MASKED_PARITY

Lie = Callable[[int], float]
"""The error of the answer to the k-th query of a round, in tolerances."""


def exact(ask: Ask, columns: Columns) -> Answer:
    """The expectation over users who are equally likely; for a cell query, that of each cell."""
    answers = prepare(ask.query, columns.schema).answers(columns)
    match ask.query:
        case BooleanQuery():
            return float(answers.mean())
        case RealQuery(denominator=denominator):
            return float(answers.mean()) / denominator
        case CellQuery(cells=cells):
            signs = np.sign(answers).astype(float)
            return np.bincount(np.abs(answers), weights=signs, minlength=cells + 1)[1:] / len(columns)


def learn(
    strategy: Strategy, parameters: Mapping[str, Any], columns: Columns, lie: Lie = lambda _: 0.0
) -> tuple[Hypothesis, list[Sequence[Ask]]]:
    """Run a strategy against an SQ oracle (KLNRS11, Def. 5.4): what it learned, and all that it asked."""
    run, asked = Run(strategy, parameters), list[Sequence[Ask]]()
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        asked.append(said)
        said = run.step([exact(ask, columns) + lie(k) * ask.tolerance for k, ask in enumerate(said)])
    return said, asked


def expectation(ask: Ask, columns: Columns) -> float:
    """The exact answer to a query that has one number for an answer."""
    answer = exact(ask, columns)
    assert isinstance(answer, float)
    return answer


def shares(ask: Ask, columns: Columns) -> NDArray[np.float64]:
    """The exact answer to a cell query."""
    answer = exact(ask, columns)
    assert isinstance(answer, np.ndarray)
    return answer


def value_of(learned: Hypothesis) -> Learnt:
    """What was learned, as the JSON that it is."""
    return learned.value


# ------------------------------------------------------------------------------------------------- masked parity


def concepts(d: int) -> Iterator[tuple[str, int]]:
    """All (r, a)."""
    return (("".join(r), a) for r in product("01", repeat=d) for a in (0, 1))


def label(r: str, a: int, x: NDArray[np.int64], i: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """c_{r,a}: (−1)^{r·x + a} where b = 0, (−1)^{r_i} where b = 1. KLNRS11, §5.3."""
    bits = np.array([int(bit) for bit in r])
    return 1 - 2 * np.where(b == 0, (x @ bits + a) % 2, bits[i])


def masked(d: int, r: str, a: int, users: int | None = None) -> Columns:
    """The whole domain, or that many users drawn from it."""
    whole = (grid.ravel() for grid in np.meshgrid(np.arange(2**d), np.arange(d), np.arange(2), indexing="ij"))
    source = np.random.default_rng(1)
    drawn = (source.integers(0, high, users or 0) for high in (2**d, d, 2))
    number, i, b = drawn if users else whole
    x = number[:, None] >> np.arange(d) & 1
    arrays = {"x": x, "i": i, "b": b[:, None], "y": label(r, a, x, i, b)}
    return Columns.of(MASKED_PARITY.schema({"d": d}), arrays)


# ------------------------------------------------------------------------------------------------ small strategies

COIN = Schema(fields=(BitsField(name="x", width=4),))
TRUE = BooleanQuery(test=Constant(truth=True))


def bit(index: int) -> BooleanQuery:
    """x_index = 1."""
    return BooleanQuery(test=Bit(field="x", index=index))


def strategy_of(run: Callable[..., Asking], *, interactive: bool = True, rounds: int = 3) -> Strategy:
    """A strategy over four bits."""
    return Strategy("small", "for a test", interactive, rounds, schema=lambda _: COIN, run=run)


def study(strategy: Strategy, **parameters: int | bool | str) -> StudySpec:
    """A study that runs it."""
    return study_of(
        {strategy.name: strategy},
        strategy=strategy.name,
        parameters=parameters,
        title="A study",
        nonce="0123456789abcdef" * 2,
        simulated=True,
    )
