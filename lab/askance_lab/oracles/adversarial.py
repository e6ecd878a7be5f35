"""Adversarial oracles: their answers are as wrong as the tolerance allows.

`HidesMask` is O of KLNRS11, Thm 5.16(2). With g(x, i, b, y) the query, C_g its label-free part and f_g its label part,
split by b into f⁰ and f¹ (the text's equations 6 and 7),

    E[g(x, i, b, c_{r,a}(x, i, b))] = C_g + ⟨f⁰_g, c⁰_{r,a}⟩ + ⟨f¹_g, c¹_{r,a}⟩,

and only the middle term depends on the mask a: it changes its sign with it. So with E₀ and E₁ the expectations under
the two masks, the others are (E₀ + E₁)/2 and the middle term is ±(E₀ − E₁)/2: nothing about g has to be known but its
expectation under both concepts. O(g, τ) = (E₀ + E₁)/2 where |E₀ − E₁|/2 < τ, the truth otherwise.

The theorem is about learners whose tolerances are all at least 2^{−d/3}, for queries with values in [−1, 1]. The
strongest noninteractive learner asks for less, and O must then tell it the truth. `least` holds a learner to the
premise: a tolerance below it is taken for it. A {0, 1}-valued query is half as wide, so its least tolerance is half as
large (docs/theory.md#smaller: ±1 against {0, 1}).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from askance_lab.evaluation.weighted import AnyQuery, WeightedExamples
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.shared.oracle import Oracle, Spent, SQOracle
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.arrays import Floats
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.schema import BitsField
from askance_server.core.strategy import Answer, Ask

LieDirection: TypeAlias = Literal["up", "down", "alternating"]


@dataclass(frozen=True, slots=True)
class HidesMask(SQOracle):
    """O of KLNRS11, Thm 5.16(2): hides the mask bit from learners that did not know r when they asked."""

    examples: WeightedExamples
    least: float = 0.0
    """The least tolerance that is honoured, for queries with values in [−1, 1]; 2^{−d/3} is the theorem's."""
    told: list[bool] = field(default_factory=list[bool])
    """For each query so far, whether its answer depends on the mask: the complement of the proof's event Good."""

    @classmethod
    def of_theorem(cls, examples: WeightedExamples) -> HidesMask:
        """The oracle under the theorem's premise: tolerances of at least 2^{−d/3}."""
        return cls(examples, 2 ** (-_dimension(examples) / 3))

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Answer without the mask bit a wherever the tolerance allows."""
        where = self.examples.columns["b"][0] == 0
        truth, other = Exact(self.examples), Exact(self.examples.flipped(where))
        return [self._hide(ask, truth.expectation(ask), other.expectation(ask)) for ask in asks]

    def _hide(self, ask: Ask, truth: Answer, other: Answer) -> Answer:
        right: Floats = np.array(truth, np.float64, ndmin=1)
        middle = (right - np.atleast_1d(other)) / 2  # ⟨f⁰_g, c⁰_{r,a}⟩
        hidden = np.abs(middle) < self.tolerance(ask)
        # KLNRS11, proof of Thm 5.16: "C_g + ⟨f¹_g, c¹⟩ if |⟨f⁰_g, c⁰⟩| < τ", the expectation otherwise.
        said = np.asarray(right - np.where(hidden, middle, 0.0), np.float64)
        self.told.append(bool((~hidden & (middle != 0)).any()))
        return said if isinstance(ask.query, CellQuery) else float(said[0])

    def tolerance(self, ask: Ask) -> float:
        """Tolerance within which the answer will be."""
        return max(ask.tolerance, self.least * width(ask.query) / 2)

    @property
    def spent(self) -> Spent:
        """Nothing: no user is asked."""
        return Spent()


def width(query: AnyQuery) -> float:
    """Width of the range of a query's values: 2 for [−1, 1], 1 for {0, 1}."""
    narrow = isinstance(query, BooleanQuery) or (isinstance(query, CellQuery) and query.negative is None)
    return 1.0 if narrow else 2.0


@dataclass(slots=True)
class WorstCase(SQOracle):
    """Another oracle's answers, each wrong by exactly its tolerance (KLNRS11, Def. 5.4: *any* answer within ±τ)."""

    of: SQOracle
    lie: LieDirection = "alternating"
    _lies: int = 0

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Answers that are too high, too low, or alternately both; the cells of a query in turn."""
        return [
            self._wrong(ask, answer, np.size(answer)) for ask, answer in zip(asks, self.of.answer(asks), strict=True)
        ]

    def _wrong(self, ask: Ask, answer: Answer, several: int) -> Answer:
        turns = self._lies + np.arange(several)
        self._lies += several
        signs: dict[LieDirection, Floats] = {
            "up": np.ones(several),
            "down": np.full(several, -1.0),
            "alternating": np.where(turns % 2, -1.0, 1.0),
        }
        said: Floats = np.array(answer, np.float64, ndmin=1)
        said += signs[self.lie] * ask.tolerance
        return said if isinstance(ask.query, CellQuery) else float(said[0])

    @property
    def spent(self) -> Spent:
        """Cost of the other oracle's answers; the errors add none."""
        return self.of.spent


def hides(examples: WeightedExamples) -> bool:
    """Whether these are examples of MASKED-PARITY."""
    fields = examples.columns.schema.position.keys()
    return {"x", "i", "b", "y"} == set(fields)


def _dimension(examples: WeightedExamples) -> int:
    schema = examples.columns.schema
    x = schema.field("x") if hides(examples) else None
    if not isinstance(x, BitsField):
        raise ProtocolError(
            "are not those of masked parity", where="examples", remedy="use WorstCase, which lies about any query"
        )
    return x.width


def _adversarial(setting: OracleSetting) -> Oracle:
    examples = setting.distribution
    return HidesMask.of_theorem(examples) if hides(examples) else WorstCase(Exact(examples))


ORACLE: Final = OracleKind(
    "adversarial", "answers as wrong as each query's tolerance allows", _adversarial, asks_users=False
)
