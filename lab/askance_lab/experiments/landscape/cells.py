"""Which learner represents which class and model, by which theorem, and the number of users of its bound.

A cell holds its learner: a strategy, a curator's mechanism, or a plain rule. A bound is the theorem's own, with the
constants that are proved (`askance_lab.theory`). It holds for every distribution and with proof; what is measured holds
for one distribution, and is what a learner really takes there. So the two stand in tables of their own, and a lower
limit for every learner, where one is proved, in its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import log
from typing import Final

from askance_lab.curator import (
    generic_conjunction,
    generic_interval,
    generic_masked_parity,
    generic_parity,
    generic_point,
    insist,
    interval,
    point,
)
from askance_lab.curator.concepts import A_MASKED_PARITY, MASKED_PARITY, Answer, Database
from askance_lab.curator.mechanism import Mechanism
from askance_lab.experiments.landscape import learners, queries
from askance_lab.experiments.landscape.learners import Learner, strategy
from askance_lab.theory import central, limits, local, masked_parity
from askance_lab.theory.targets import Targets
from askance_protocol import checks


class Model(Enum):
    """Whom a user has to trust."""

    AT_ONCE = "local, at once"
    IN_ROUNDS = "local, in rounds"
    CURATOR = "curator"
    NOBODY = "not private"


Bound = Callable[[int, Targets], int]
"""The number of users, from d and the targets."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A learner of a class in a model."""

    problem: str
    model: Model
    learner: str
    """What the learner is called in tables and among the results."""
    learn: Learner
    privacy: str
    theorem: str
    bound: Bound
    start: Callable[[int], float]
    """About how many users it takes: where the search begins."""
    dimensions: tuple[int, ...]
    """The d at which it is measured if no other are given."""
    bounded: str = ""
    """The learner of the bound, where that is another one."""

    @property
    def key(self) -> str:
        """Name of the cell among the results."""
        return f"{self.problem} · {self.model.value} · {self.learner}"

    @property
    def measured_as(self) -> str:
        """Cell whose measurement it shares: a learner that represents two models is measured once."""
        return next(c.key for c in CELLS if (c.problem, c.learner) == (self.problem, self.learner))


LOCAL: Final = "ε each"
PURE: Final = "ε"
APPROXIMATE: Final = "ε, δ"
NONE: Final = "–"


def _sq(queries: Callable[[int], int], tolerance: Callable[[int, float], float]) -> Bound:
    """Bound a strategy of statistical queries, each with a fresh portion of users: KLNRS11, Thm 5.7, as repaired."""

    def bound(d: int, targets: Targets) -> int:
        return local.users_sq_simulation_repaired(
            queries=queries(d),
            bound=1,
            tolerance=tolerance(d, targets.alpha),
            epsilon=float(targets.epsilon),
            failure=targets.beta,
        )

    return bound


def _sulq(queries: Callable[[int], int], tolerance: Callable[[int, float], float]) -> Bound:
    """Bound a strategy whose queries a curator answers: BB-notes, Thm 7, as repaired."""
    return lambda d, targets: central.examples_sulq_repaired(
        queries=queries(d), tolerance=tolerance(d, targets.alpha), epsilon=float(targets.epsilon), failure=targets.beta
    )


def _occam(hypotheses: Callable[[int], int]) -> Bound:
    """Bound for any consistent hypothesis: |H|(1 − α)^n ≤ β (Blumer, Ehrenfeucht, Haussler and Warmuth 1987)."""
    return lambda d, targets: checks.whole((log(hypotheses(d)) - log(targets.beta)) / targets.alpha)


def _both(one: Bound, other: Bound) -> Bound:
    return lambda d, targets: one(d, targets) + other(d, targets)


def _masked_rounds(d: int, targets: Targets) -> int:
    return masked_parity.users_masked_parity_repaired(
        dimension=d, epsilon=float(targets.epsilon), failure=targets.beta
    ).total


def _masked_at_once(d: int, targets: Targets) -> int:
    return masked_parity.users_mask_bit_enough(dimension=d, epsilon=float(targets.epsilon), failure=targets.beta / 2)


def _masked_pooled(d: int, targets: Targets) -> int:
    return masked_parity.users_masked_parity_pooled(
        dimension=d, epsilon=float(targets.epsilon), failure=targets.beta / 2
    )


def _dyadic(d: int, targets: Targets) -> int:
    return queries.users_dyadic(d, float(targets.epsilon), targets.alpha, targets.beta)


def _size(d: int) -> int:
    return 2**d


def _curated(
    mechanism: Mechanism[Database, Answer], learner: str, start: Callable[[int], float], dimensions: tuple[int, ...]
) -> Cell:
    """Cell of a curator's mechanism, with its class, theorem, bound and price."""
    return Cell(
        mechanism.concepts.name,
        Model.CURATOR,
        learner,
        learners.curated(mechanism),
        APPROXIMATE if mechanism.paid(Targets(), mechanism.d).delta else PURE,
        mechanism.by,
        mechanism.needed,
        start,
        dimensions,
    )


_T57: Final = "KLNRS11 Thm 5.7"
_GENERIC: Final = "KLNRS11 Thm 3.4"
_INSISTENT: Final = "KLNRS08 Thm 3.8"
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
            learners.local(strategy("parity")),
            LOCAL,
            _T57,
            _PARITY_SQ,
            lambda d: 2.0**d * 1000,
            (2, 4, 6),
        )
        for model in (Model.AT_ONCE, Model.IN_ROUNDS)
    ),
    _curated(generic_parity.MECHANISM, "generic", lambda d: 20 * d, (4, 8, 12, 16)),
    replace(
        _curated(insist.MECHANISM, "A*, insistent", lambda d: 30 * d, (4, 8, 16, 32, 64)),
        theorem=_INSISTENT,
    ),
    Cell(
        "PARITY",
        Model.NOBODY,
        "elimination",
        learners.openly(learners.eliminate),
        NONE,
        _OCCAM,
        _occam(_size),
        lambda d: 6 * d,
        (4, 8, 16, 32, 64),
    ),
    # MASKED-PARITY: polynomial in rounds, exponential at once (KLNRS11, Thm 5.16, Prop. 5.18).
    Cell(
        "MASKED-PARITY",
        Model.AT_ONCE,
        "masked-parity-noninteractive",
        learners.local(strategy("masked-parity-noninteractive")),
        LOCAL,
        "Hoeffding",
        _both(_masked_at_once, _masked_pooled),
        lambda d: 2.0**d * 55,
        (4, 8),
        bounded="one bent query, one pooled round",
    ),
    Cell(
        "MASKED-PARITY",
        Model.IN_ROUNDS,
        "masked-parity-pooled",
        learners.local(strategy("masked-parity-pooled")),
        LOCAL,
        "KLNRS11 Prop. 5.18, Thm 5.7",
        _masked_rounds,
        lambda d: 60 * d * d,
        (4, 8, 16, 32),
        bounded="A_MP, fresh users a query",
    ),
    replace(
        _curated(generic_masked_parity.MECHANISM, "generic", lambda d: 10 * d, (4, 8, 16)),
        theorem=_GENERIC,
    ),
    # A masked parity is a parity in d + 1 bits.
    Cell(
        "MASKED-PARITY",
        Model.CURATOR,
        "A*, insistent",
        learners.curated_on(insist.MECHANISM, MASKED_PARITY, A_MASKED_PARITY),
        PURE,
        _INSISTENT,
        lambda d, targets: insist.MECHANISM.needed(d + 1, targets),
        lambda d: 30 * d,
        (4, 8, 16, 32, 64),
    ),
    Cell(
        "MASKED-PARITY",
        Model.NOBODY,
        "elimination",
        learners.openly(learners.eliminate_masked),
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
            learners.local(strategy("conjunction"), "alpha"),
            LOCAL,
            f"BB-notes Thm 5, {_T57}",
            _CONJUNCTION_SQ,
            lambda d: 3000.0 * d**3,
            (4, 8),
        )
        for model in (Model.AT_ONCE, Model.IN_ROUNDS)
    ),
    _curated(generic_conjunction.MECHANISM, "generic", lambda d: 15 * d, (8, 12, 16)),
    Cell(
        "conjunctions",
        Model.CURATOR,
        "SuLQ",
        learners.sulq(strategy("conjunction"), "alpha"),
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
        learners.openly(learners.never_missing),
        NONE,
        _OCCAM,
        _occam(_size),
        lambda d: 10 * log(d) + 10,
        (8, 16, 32, 64),
    ),
    # POINT and INTERVAL: everybody learns them; what δ > 0 buys is that d no longer counts.
    *(
        Cell(
            "POINT",
            model,
            queries.POINT.name,
            learners.local(queries.POINT, "alpha"),
            LOCAL,
            _T57,
            _POINT_SQ,
            lambda d: 2500.0 * d,
            (8, 16, 32),
        )
        for model in (Model.AT_ONCE, Model.IN_ROUNDS)
    ),
    _curated(generic_point.MECHANISM, "generic", lambda d: 15 * d, (8, 16, 32, 64, 256)),
    _curated(point.MECHANISM, "A_dist", lambda _: 400, (8, 16, 32, 64, 256)),
    Cell(
        "POINT",
        Model.NOBODY,
        "any positive example",
        learners.openly(learners.any_positive),
        NONE,
        "VC dimension 1",
        lambda _, targets: checks.whole(log(1 / targets.beta) / targets.alpha),
        lambda _: 25,
        (8, 16, 32, 64, 256),
    ),
    Cell(
        "INTERVAL",
        Model.AT_ONCE,
        "all dyadic intervals",
        learners.local(queries.DYADIC, "alpha"),
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
        learners.local(queries.bisection, "alpha"),
        LOCAL,
        _T57,
        _sq(lambda d: d + 1, lambda _, alpha: alpha / 2),
        lambda d: 8000.0 * d,
        (4, 8, 16, 32),
    ),
    _curated(generic_interval.MECHANISM, "generic", lambda d: 15 * d, (8, 16, 32, 64, 256, 1024)),
    _curated(interval.MECHANISM, "Rec", lambda _: 1500, (8, 16, 32, 64, 256, 1024)),
    Cell(
        "INTERVAL",
        Model.NOBODY,
        "the last positive example",
        learners.openly(learners.last_positive),
        NONE,
        "VC dimension 1",
        lambda _, targets: checks.whole(log(1 / targets.beta) / targets.alpha),
        lambda _: 25,
        (8, 16, 32, 64, 256, 1024),
    ),
)


@dataclass(frozen=True, slots=True)
class Limit:
    """Lower limit for every learner of a class in a model: with fewer users none succeeds."""

    problem: str
    model: Model
    theorem: str
    """Name of the record that proves it."""
    users: Bound


LIMITS: Final = (
    Limit(
        "MASKED-PARITY",
        Model.AT_ONCE,
        "at-once-proved",
        lambda d, targets: limits.users_at_once_proved(
            dimension=d, epsilon=float(targets.epsilon), failure=targets.beta
        ),
    ),
)
"""Those that are proved with nothing assumed. To err less than ¼ on MASKED-PARITY is to know the mask bit."""

BY_KEY: Final[Mapping[str, Cell]] = {cell.key: cell for cell in CELLS}
LEARNERS: Final[dict[str, Learner]] = {cell.key: cell.learn for cell in CELLS if cell.measured_as == cell.key}
"""The learners that are measured, by the keys of their cells."""
