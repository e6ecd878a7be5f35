"""The generic agnostic private learner: the exponential mechanism over a finite class, score −(mistakes).

KLNRS08, Thm 3.7; KLNRS11, Thm 3.4. One example changes every score by 1 at most, so it is ε-private on any database,
and its error is within α of the best in the class.

How many examples: the texts' proofs do not show what they state (traps 4 and 5). Here is one that does. For h with
error above OPT + α and the best concept g, D_i = 1[h errs on i] − 1[g errs on i] is in [−1, 1], of mean above α. So

    Pr[h is chosen] ≤ E min(1, e^{−(ε/2)ΣD_i}) ≤ (E e^{−tD_1})^n ≤ e^{−n(tα − t²/2)} for every 0 ≤ t ≤ ε/2

(Hoeffding's lemma; g's weight bounds the normaliser). At t = min(ε/2, α) the exponent is at least n·min(εα/4, α²/2).
Summed over H: max{4/εα, 2/α²}·ln(|H|/β) examples do at every OPT, less than either text states or Thm 3.4 needs as
repaired. Where OPT = 0, ΣD_i is h's own mistakes, and Pr ≤ E e^{−(ε/2)ΣD_i} ≤ (1 − α(1 − e^{−ε/2}))^n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.exponential import choose, probabilities
from askance_lab.curator.mechanism import roughly
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.arrays import Integers

Mistakes: TypeAlias = Integers | NDArray[np.int32]
ScoreTable: TypeAlias = NDArray[np.int32]

_MOST_EXAMPLES: Final = (1 << 20) - 1
"""An exact draw is among 0 .. n mistakes, and `draws.draw_exponential` takes 2^20 levels."""
_BLOCK: Final = 1 << 20

Example = TypeVar("Example")
Hypothesis = TypeVar("Hypothesis")
Data_contra = TypeVar("Data_contra", bound=Sized, contravariant=True)
Hypothesis_co = TypeVar("Hypothesis_co", covariant=True)


class FiniteClass(Protocol[Data_contra, Hypothesis_co]):
    """A class of numbered hypotheses that are scored all at once."""

    def __len__(self) -> int:
        """The number of hypotheses."""
        ...

    def mistakes(self, database: Data_contra) -> Mistakes:
        """Number of examples that each hypothesis labels wrongly."""
        ...

    def hypothesis(self, index: int) -> Hypothesis_co:
        """The hypothesis with this number."""
        ...


def learn(
    hypotheses: FiniteClass[Data_contra, Hypothesis_co], database: Data_contra, *, epsilon: Fraction, draw: Below
) -> Hypothesis_co:
    """Draw hypothesis h with probability in proportion to e^{−ε·mistakes(h)/2}. KLNRS08, Thm 3.7; KLNRS11, Thm 3.4."""
    examples = public_size(database)
    return hypotheses.hypothesis(selected(hypotheses.mistakes(database), examples=examples, epsilon=epsilon, draw=draw))


def generic_distribution(
    hypotheses: FiniteClass[Data_contra, Hypothesis], database: Data_contra, *, epsilon: Fraction
) -> Distribution[Hypothesis]:
    """Exact distribution of the learned hypothesis."""
    public_size(database)
    chances = probabilities(-hypotheses.mistakes(database).astype(np.int64), epsilon=epsilon)
    return {hypotheses.hypothesis(index): chance for index, chance in enumerate(chances)}


def paid(epsilon: Fraction) -> Paid:
    """Price: ε on any database, for one exponential mechanism. KLNRS11, Lemma 3.3."""
    return checked(epsilon)


def selected(mistakes: Mistakes, *, examples: int, epsilon: Fraction, draw: Below) -> int:
    """Choose a number of mistakes, then one of the hypotheses that make as many."""
    counts = np.zeros(examples + 1, np.int64)
    for block in _blocks(mistakes):
        counts += np.bincount(block, minlength=examples + 1)
    # Δ = 1: one example replaced changes the mistakes of any h by 1 at most.
    found = choose(-np.arange(examples + 1), epsilon=epsilon, draw=draw, multiplicities=counts.tolist())
    return _ranked(mistakes, found, draw(int(counts[found])))


def _ranked(mistakes: Mistakes, wanted: int, rank: int) -> int:
    """Index of the rank-th hypothesis with this number of mistakes."""
    begin = 0
    for block in _blocks(mistakes):
        places = np.flatnonzero(block == wanted)
        if rank < len(places):
            return begin + int(places[rank])
        rank, begin = rank - len(places), begin + len(block)
    raise AssertionError("a rank is below the count it was drawn from")


def _blocks(values: Mistakes) -> Iterator[Mistakes]:
    for begin in range(0, len(values), _BLOCK):
        yield values[begin : begin + _BLOCK]


def public_size(database: Sized) -> int:
    """Number of examples; refuses an empty or too large database."""
    size = len(database)
    remedy = f"give 1 to {_MOST_EXAMPLES} examples"
    checks.require(1 <= size <= _MOST_EXAMPLES, "has no such size", where="database", remedy=remedy)
    return size


# --- Classes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ListedConcepts(Generic[Example, Hypothesis]):
    """A class as a list of hypotheses, each scored separately. A database is (example, label) pairs."""

    hypotheses: Sequence[Hypothesis]
    says: Callable[[Hypothesis, Sequence[Example]], ArrayLike]
    """The labels that a hypothesis gives to the examples."""

    def __post_init__(self) -> None:
        checks.require(len(self.hypotheses) > 0, "are none", where="hypotheses", remedy="give at least one")

    def __len__(self) -> int:
        return len(self.hypotheses)

    def mistakes(self, database: Sequence[tuple[Example, bool | int]]) -> Mistakes:
        """Number of mistakes of each hypothesis, example by example."""
        examples = [example for example, _ in database]
        labels = np.array([bool(label) for _, label in database])
        said = (np.asarray(self.says(each, examples), np.bool) for each in self.hypotheses)
        return np.array([np.count_nonzero(each != labels) for each in said], np.int64)

    def hypothesis(self, index: int) -> Hypothesis:
        """Hypothesis as it was given."""
        return self.hypotheses[index]


def signed_histogram(database: BitSample, d: int) -> ScoreTable:
    """For each x, the number of examples labelled 0 less that of those labelled 1."""
    remedy = "give examples of as many bits as the class has"
    checks.require(database.d == d, f"is not of {d} bits", where="database", remedy=remedy)
    table = np.zeros(1 << d, np.int32)
    np.add.at(table, database.words[:, 0].astype(np.intp), np.where(database.labels, -1, 1).astype(np.int32))
    return table


def butterflies(table: ScoreTable, step: Callable[[ScoreTable, ScoreTable], None]) -> None:
    """Apply for each bit a step to all pairs of entries (bit 0, bit 1), in place. Table size 2^d.

    As a square: first the bits that number its rows, then, turned, the others. So a step's runs are never short.
    """
    d = len(table).bit_length() - 1
    square = table.reshape(1 << (d - d // 2), 1 << d // 2)
    _by_rows(square, step)
    turned = np.ascontiguousarray(square.T)
    _by_rows(turned, step)
    square[...] = turned.T


def _by_rows(square: ScoreTable, step: Callable[[ScoreTable, ScoreTable], None]) -> None:
    rows, columns = square.shape
    width = 1
    while width < rows:
        pairs = square.reshape(rows // (2 * width), 2, width * columns)
        step(pairs[:, 0], pairs[:, 1])
        width *= 2


# --- Examples: the module docstring's bound ----------------------------------------------------------------------


def failure_sharp(*, examples: int, hypotheses: int, epsilon: float, error: float) -> float:
    """Bound on the failure: |H|·e^{−n(tα − t²/2)}, t = min(ε/2, α): error above OPT + α. May exceed 1."""
    return checks.exp(_log(hypotheses) - checks.count("examples", examples) * _exponent(epsilon, error))


def examples_sharp(*, hypotheses: int, epsilon: float, error: float, failure: float) -> int:
    """Number of examples for failure at most β: never more than max{4/εα, 2/α²}·ln(|H|/β)."""
    return _needed(hypotheses, _exponent(epsilon, error), failure)


def failure_realizable_sharp(*, examples: int, hypotheses: int, epsilon: float, error: float) -> float:
    """Bound on the failure: |H|·(1 − α(1 − e^{−ε/2}))^n: error above α where OPT = 0. May exceed 1."""
    return checks.exp(_log(hypotheses) - checks.count("examples", examples) * _exponent_realizable(epsilon, error))


def examples_realizable_sharp(*, hypotheses: int, epsilon: float, error: float, failure: float) -> int:
    """Number of examples for which that is at most β."""
    return _needed(hypotheses, _exponent_realizable(epsilon, error), failure)


def needed(hypotheses: Callable[[int], int]) -> Callable[[int, Targets], int]:
    """Number of users for a `Mechanism` with this number of hypotheses at d, one of them consistent."""
    return lambda d, targets: examples_realizable_sharp(hypotheses=hypotheses(d), **roughly(targets))


def needed_agnostic(hypotheses: Callable[[int], int]) -> Callable[[int, Targets], int]:
    """The same where the best hypothesis may err, too: the error is within α of its."""
    return lambda d, targets: examples_sharp(hypotheses=hypotheses(d), **roughly(targets))


def _needed(hypotheses: int, exponent: float, failure: float) -> int:
    return checks.whole((_log(hypotheses) - math.log(checks.open_unit("failure", failure))) / exponent, "examples")


def _exponent(epsilon: float, error: float) -> float:
    alpha = checks.open_unit("error", error)
    t = min(checks.positive("epsilon", epsilon) / 2, alpha)
    return t * alpha - t**2 / 2


def _exponent_realizable(epsilon: float, error: float) -> float:
    return -math.log1p(checks.open_unit("error", error) * math.expm1(-checks.positive("epsilon", epsilon) / 2))


def _log(hypotheses: int) -> float:
    return math.log(checks.count("hypotheses", hypotheses))
