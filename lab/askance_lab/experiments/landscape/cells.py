"""Which learner stands for which class and model, by which theorem, and how many users that theorem asks for.

A bound is the theorem's own, with the constants that are proved (`protocol.bounds`, THEORY.md, §2). It holds for every
distribution and with proof; what is measured holds for one distribution, and is what a learner really takes there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import log
from typing import Final

from askance_lab.curator import generic, interval, point, retry
from askance_lab.experiments.landscape.queries import users_dyadic
from askance_lab.theory import central, local, masked_parity
from askance_lab.theory.targets import Targets
from askance_protocol import checks


class Model(Enum):
    """Whom a user has to trust."""

    AT_ONCE = "local, at once"
    IN_ROUNDS = "local, in rounds"
    CURATOR = "curator"
    NOBODY = "not private"


Bound = Callable[[int, Targets], int]
"""Users, from d."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A learner of a class in a model."""

    problem: str
    model: Model
    learner: str
    privacy: str
    theorem: str
    bound: Bound
    start: Callable[[int], float]
    """About how many users it takes: where the search begins."""
    dimensions: tuple[int, ...]
    """Where it is measured, unless it is said otherwise; elsewhere the bound is shown."""

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{self.problem} · {self.model.value} · {self.learner}"

    @property
    def measured_as(self) -> str:
        """A learner that stands for two models is the same in both: it is measured as the first."""
        return next(c.key for c in CELLS if (c.problem, c.learner) == (self.problem, self.learner))


LOCAL: Final = "ε each"
PURE: Final = "ε"
APPROXIMATE: Final = "ε, δ"
NONE: Final = "–"


def _sq(queries: Callable[[int], int], tolerance: Callable[[int, float], float]) -> Bound:
    """KLNRS11, Thm 5.7, as repaired: a fresh portion of users for each query."""

    def bound(d: int, terms: Targets) -> int:
        return local.users_sq_simulation_repaired(
            queries=queries(d),
            bound=1,
            tolerance=tolerance(d, terms.alpha),
            epsilon=float(terms.epsilon),
            failure=terms.beta,
        )

    return bound


def _generic(hypotheses: Callable[[int], int]) -> Bound:
    """KLNRS11, Thm 3.4, where some hypothesis fits all examples, by the shorter proof of `curator.generic`."""
    return lambda d, terms: generic.examples_realizable_sharp(
        hypotheses=hypotheses(d), epsilon=float(terms.epsilon), error=terms.alpha, failure=terms.beta
    )


def _insistent(extra: int) -> Bound:
    """KLNRS08, Thm 3.8, without a limit on the tries (`curator.retry`)."""
    return lambda d, terms: (
        retry.examples_insist(
            dimension=d + extra, epsilon=float(terms.epsilon), error=terms.alpha, failure=terms.beta
        ).examples
    )


def _sulq(queries: Callable[[int], int], tolerance: Callable[[int, float], float]) -> Bound:
    """BB-notes, Thm 7, as repaired."""
    return lambda d, terms: central.examples_sulq_repaired(
        queries=queries(d), tolerance=tolerance(d, terms.alpha), epsilon=float(terms.epsilon), failure=terms.beta
    )


def _occam(hypotheses: Callable[[int], int]) -> Bound:
    """Any hypothesis that fits: |H|(1 − α)^n ≤ β (Blumer, Ehrenfeucht, Haussler and Warmuth 1987)."""
    return lambda d, terms: checks.whole((log(hypotheses(d)) - log(terms.beta)) / terms.alpha)


def _both(one: Bound, other: Bound) -> Bound:
    return lambda d, terms: one(d, terms) + other(d, terms)


def _masked_rounds(d: int, terms: Targets) -> int:
    return masked_parity.users_masked_parity_repaired(
        dimension=d, epsilon=float(terms.epsilon), failure=terms.beta
    ).total


def _masked_at_once(d: int, terms: Targets) -> int:
    return masked_parity.users_masked_parity_noninteractive(
        dimension=d, epsilon=float(terms.epsilon), failure=terms.beta / 2
    )


def _masked_pooled(d: int, terms: Targets) -> int:
    return masked_parity.users_masked_parity_pooled(dimension=d, epsilon=float(terms.epsilon), failure=terms.beta / 2)


def _point(d: int, terms: Targets) -> int:
    return point.examples_needed(d, epsilon=terms.epsilon, delta=terms.delta, error=terms.error, failure=terms.failure)


def _rec(d: int, terms: Targets) -> int:
    return interval.examples_needed(
        d, epsilon=terms.epsilon, delta=terms.delta, error=terms.error, failure=terms.failure
    )


def _dyadic(d: int, terms: Targets) -> int:
    return users_dyadic(d, float(terms.epsilon), terms.alpha, terms.beta)


def _size(d: int) -> int:
    return 2**d


_T57: Final = "KLNRS11 Thm 5.7"
_GENERIC: Final = "KLNRS11 Thm 3.4"
_OCCAM: Final = "Occam's razor"

_PARITY_SQ: Final = _sq(_size, lambda _, alpha: alpha / 2)
_CONJUNCTION_SQ: Final = _sq(lambda d: d, lambda d, alpha: alpha / (2 * d))
_POINT_SQ: Final = _sq(lambda d: d, lambda _, alpha: alpha)

CELLS: Final[tuple[Cell, ...]] = (
    # PARITY: no SQ learner, so no local one (KLNRS11, §5.2); a curator learns it with some d users.
    *(
        Cell(
            "PARITY",
            model,
            "all 2^d parities",
            LOCAL,
            f"{_T57}; none with 2^(d/3) queries (§5.2)",
            _PARITY_SQ,
            lambda d: 2.0**d * 1000,
            (2, 4, 6),
        )
        for model in (Model.AT_ONCE, Model.IN_ROUNDS)
    ),
    Cell("PARITY", Model.CURATOR, "generic", PURE, _GENERIC, _generic(_size), lambda d: 20 * d, (4, 8, 12, 16)),
    Cell(
        "PARITY",
        Model.CURATOR,
        "A*, insistent",
        PURE,
        "KLNRS08 Thm 3.8",
        _insistent(0),
        lambda d: 30 * d,
        (4, 8, 16, 32, 64),
    ),
    Cell("PARITY", Model.NOBODY, "elimination", NONE, _OCCAM, _occam(_size), lambda d: 6 * d, (4, 8, 16, 32, 64)),
    # MASKED-PARITY: polynomial in rounds, exponential at once (KLNRS11, Thm 5.16, Prop. 5.18).
    Cell(
        "MASKED-PARITY",
        Model.AT_ONCE,
        "masked-parity-noninteractive",
        LOCAL,
        "KLNRS11 Thm 5.16: exponential",
        _both(_masked_at_once, _masked_pooled),
        lambda d: 2.0**d * 55,
        (4, 8),
    ),
    Cell(
        "MASKED-PARITY",
        Model.IN_ROUNDS,
        "masked-parity-pooled",
        LOCAL,
        "KLNRS11 Prop. 5.18, Thm 5.7",
        _masked_rounds,
        lambda d: 60 * d * d,
        (4, 8, 16, 32),
    ),
    Cell(
        "MASKED-PARITY",
        Model.CURATOR,
        "generic",
        PURE,
        _GENERIC,
        _generic(lambda d: 2 ** (d + 1)),
        lambda d: 10 * d,
        (4, 8, 16),
    ),
    Cell(
        "MASKED-PARITY",
        Model.CURATOR,
        "A*, insistent",
        PURE,
        "KLNRS08 Thm 3.8",
        _insistent(1),
        lambda d: 30 * d,
        (4, 8, 16, 32, 64),
    ),
    Cell(
        "MASKED-PARITY",
        Model.NOBODY,
        "elimination",
        NONE,
        _OCCAM,
        _occam(lambda d: 2 ** (d + 1)),
        lambda d: 3 * d,
        (4, 8, 16, 32, 64),
    ),
    # Conjunctions: d nonadaptive queries, so every model learns them.
    *(
        Cell(
            "conjunctions",
            model,
            "conjunction",
            LOCAL,
            f"BB-notes Thm 5, {_T57}",
            _CONJUNCTION_SQ,
            lambda d: 3000.0 * d**3,
            (4, 8),
        )
        for model in (Model.AT_ONCE, Model.IN_ROUNDS)
    ),
    Cell("conjunctions", Model.CURATOR, "generic", PURE, _GENERIC, _generic(_size), lambda d: 15 * d, (8, 12, 16)),
    Cell(
        "conjunctions",
        Model.CURATOR,
        "SuLQ",
        PURE,
        "BB-notes Thm 5, 7",
        _sulq(lambda d: d, lambda d, alpha: alpha / (2 * d)),
        lambda d: 60.0 * d * d,
        (8, 16, 32, 64),
    ),
    Cell(
        "conjunctions",
        Model.NOBODY,
        "all that is never 0",
        NONE,
        _OCCAM,
        _occam(_size),
        lambda d: 10 * log(d) + 10,
        (8, 16, 32, 64),
    ),
    # POINT and INTERVAL: everybody learns them; what δ > 0 buys is that d no longer counts.
    *(
        Cell("POINT", model, "point-bits", LOCAL, _T57, _POINT_SQ, lambda d: 2500.0 * d, (8, 16, 32))
        for model in (Model.AT_ONCE, Model.IN_ROUNDS)
    ),
    Cell("POINT", Model.CURATOR, "generic", PURE, _GENERIC, _generic(_size), lambda d: 15 * d, (8, 16, 32, 64, 256)),
    Cell("POINT", Model.CURATOR, "A_dist", APPROXIMATE, "BNS13 Lemma 1", _point, lambda _: 400, (8, 16, 32, 64, 256)),
    Cell(
        "POINT",
        Model.NOBODY,
        "any positive example",
        NONE,
        "VC dimension 1",
        lambda _, terms: checks.whole(log(1 / terms.beta) / terms.alpha),
        lambda _: 25,
        (8, 16, 32, 64, 256),
    ),
    Cell(
        "INTERVAL",
        Model.AT_ONCE,
        "all dyadic intervals",
        LOCAL,
        "KLNRS11 §5 (NASQ)",
        _dyadic,
        lambda d: 3000.0 * d**2,
        (4, 8, 12),
    ),
    Cell(
        "INTERVAL",
        Model.IN_ROUNDS,
        "bisection",
        LOCAL,
        _T57,
        _sq(lambda d: d + 1, lambda _, alpha: alpha / 2),
        lambda d: 8000.0 * d,
        (4, 8, 16, 32),
    ),
    Cell(
        "INTERVAL",
        Model.CURATOR,
        "generic",
        PURE,
        _GENERIC,
        _generic(lambda d: 2**d + 1),
        lambda d: 15 * d,
        (8, 16, 32, 64, 256, 1024),
    ),
    Cell(
        "INTERVAL", Model.CURATOR, "Rec", APPROXIMATE, "BNS13 Thm 2", _rec, lambda _: 1500, (8, 16, 32, 64, 256, 1024)
    ),
    Cell(
        "INTERVAL",
        Model.NOBODY,
        "the last positive example",
        NONE,
        "VC dimension 1",
        lambda _, terms: checks.whole(log(1 / terms.beta) / terms.alpha),
        lambda _: 25,
        (8, 16, 32, 64, 256, 1024),
    ),
)

BY_KEY: Final[Mapping[str, Cell]] = {cell.key: cell for cell in CELLS}
