"""Mechanisms of the trusted curator: the frozen record that each of their files ends with.

`registry` finds the records by going through the package's modules. So a new mechanism is one new file: its module ends
with `MECHANISM: Final = Mechanism(...)`, and the command, the landscape and the benchmarks can name it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Generic, Literal, TypeAlias, TypedDict

from askance_lab.curator.concepts import Answer, AnswerForm, ConceptClass, Database
from askance_lab.curator.draws import Below
from askance_lab.curator.privacy import Paid
from askance_lab.theory.targets import Targets

LAST: Final = 1000


def pure(targets: Targets, _d: int) -> Paid:
    """Price ε alone."""
    return Paid(targets.epsilon)


def approximate(targets: Targets, _d: int) -> Paid:
    """Price (ε, δ)."""
    return Paid(targets.epsilon, targets.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism(Generic[Database, Answer]):
    """A mechanism, a learner or a sanitizer: from a database to an answer, at a price."""

    name: str
    """What the command calls it."""
    summary: str
    by: str
    """The text and the theorem."""
    concepts: ConceptClass[Database]
    """What is learned, and so what a database looks like."""
    answers: AnswerForm[Database, Answer]
    """How an answer is written and shown, and how it labels examples."""
    run: Callable[[Database, Targets, Below], Answer | None]
    """Private: all its randomness is the draw's. None is ⊥."""
    needed: Callable[[int, Targets], int]
    """How many users its bound asks for at this d. Refuses a d that the theorem is not about."""
    agnostic: Callable[[int, Targets], int] | None = None
    """The same where no concept may fit the examples, as with real rows; None: nothing is proved then."""
    paid: Callable[[Targets, int], Paid] = pure
    """What it really spends at this d."""
    protects: Literal["examples", "labels"] = "examples"
    """What the price is for: one example replaced, or one label, where all the rest of an example is public."""
    off: Callable[[Answer, Database], float] | None = None
    """How far its answer is from the truth about this database; None: a learner, whose hypothesis has an error."""
    d: int = 16
    """If no other is given. Some are slow, or need very many users, at more bits."""
    alpha: float = 0.1
    """The error to aim at if no other is given."""
    place: int = LAST
    """Where it is listed: in the order in which the texts build one on another, else last."""


AnyMechanism: TypeAlias = Mechanism[Any, Any]
"""One whose database and answer are its own affair: Python has no existential types."""


def sure(mechanism: AnyMechanism, d: int, targets: Targets) -> int | None:
    """Number of users that suffice for real rows, which no concept may fit; None: no bound is known."""
    # What is no hypothesis is as near to the truth on any database.
    bound = mechanism.agnostic if mechanism.off is None else mechanism.needed
    return None if bound is None else bound(d, targets)


class ExactParameters(TypedDict):
    """Parameters of (ε,δ)-private constructions, as fractions."""

    epsilon: Fraction
    delta: Fraction
    error: Fraction
    failure: Fraction


class BoundParameters(TypedDict):
    """Parameters of bounds, as floats."""

    epsilon: float
    error: float
    failure: float


def exactly(targets: Targets) -> ExactParameters:
    """ε, δ, α and β as fractions."""
    return {
        "epsilon": targets.epsilon,
        "delta": targets.delta,
        "error": targets.error,
        "failure": targets.failure,
    }


def roughly(targets: Targets) -> BoundParameters:
    """ε, α and β as floats."""
    return {"epsilon": float(targets.epsilon), "error": targets.alpha, "failure": targets.beta}
