"""What a hypothesis says of examples, and how wrong it is: exactly where the domain allows, else on fresh examples.

A hypothesis is the JSON value that a strategy returned, or the truth of a population: both are written alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol.concepts import (
    ConjunctionConcept,
    DecisionListConcept,
    MaskedParityConcept,
    ParityConcept,
    SeparatorConcept,
    bit,
)
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField, RealField, Schema

HypothesisValue: TypeAlias = Mapping[str, Any]
Truths: TypeAlias = NDArray[np.bool]
Labels: TypeAlias = NDArray[np.int64]

# ------------------------------------------------------------------------------------------------ what it says


def predict(strategy: str, value: HypothesisValue, columns: Columns) -> Labels:
    """The label, +1 or −1, that the hypothesis of a strategy gives to each example."""
    if strategy not in SAYS:
        known = ", ".join(SAYS)
        raise ProtocolError(f"{strategy!r} labels no examples", where="strategy", remedy=f"use one of {known}")
    return np.where(SAYS[strategy](value, columns), np.int64(1), np.int64(-1))


def _masked_parity(value: HypothesisValue, columns: Columns) -> Truths:
    return MaskedParityConcept(value["r"], value["a"]).positive(columns.arrays)


def _masked_parity_weak(value: HypothesisValue, columns: Columns) -> Truths:
    """Where b = 1 the bit of r; where b = 0 another parity."""
    shown = MaskedParityConcept(value["r"], 0).positive(columns.arrays)
    return np.where(columns["b"][0] == 1, shown, ParityConcept(value["guess"]).positive(columns.arrays))


def _tree(node: HypothesisValue | int, columns: Columns) -> Truths:
    """A leaf is its label, a node asks a bit."""
    if isinstance(node, int):
        return np.full(len(columns), node == 1)
    one, zero = _tree(node["one"], columns), _tree(node["zero"], columns)
    return np.where(bit(columns["x"], node["bit"]), one, zero)


SAYS: Final[Mapping[str, Callable[[HypothesisValue, Columns], Truths]]] = {
    "masked-parity": _masked_parity,
    "masked-parity-two-rounds": _masked_parity,
    "masked-parity-pooled": _masked_parity,
    "masked-parity-noninteractive": _masked_parity,
    "masked-parity-weak": _masked_parity_weak,
    "parity": lambda value, columns: ParityConcept(value["r"]).positive(columns.arrays),
    "conjunction": lambda value, columns: ConjunctionConcept(tuple(value["variables"])).positive(columns.arrays),
    "decision-list": lambda value, columns: _list_of(value).positive(columns.arrays),
    "decision-tree": lambda value, columns: _tree(value["tree"], columns),
    # On the plane itself the perceptron says −1: there the separator, which looks from the other side, says +1.
    "perceptron": lambda value, columns: (
        ~SeparatorConcept(tuple(-w for w in value["weights"]), "0").positive(columns.arrays)
    ),
}


def _list_of(value: HypothesisValue) -> DecisionListConcept:
    return DecisionListConcept(tuple((i, v, label) for i, v, label in value["rules"]), value["otherwise"])


def cost(value: HypothesisValue, columns: Columns) -> float:
    """The mean square of the distance from the nearest centre: what k-means makes small."""
    centres = np.array(value["centres"], np.float64)
    scales = [field.denominator for field in columns.schema.fields if isinstance(field, RealField)]
    points = np.stack([columns[f"x{j}"] / scales[j] for j in range(centres.shape[1])], axis=1)
    return float(np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0).mean())


# -------------------------------------------------------------------------------------------- on fresh examples


class MeasuredError(NamedTuple):
    """The share of some examples that are labelled wrongly, and where the share of all lies."""

    error: float
    low: float
    high: float


def error_on(strategy: str, value: HypothesisValue, columns: Columns, confidence: float = 0.95) -> MeasuredError:
    """The error on labelled examples that the hypothesis was not learned from, with Clopper and Pearson's interval."""
    # Here, because it brings scipy: whoever conducts a demo needs the formulas alone.
    from askance_server.core.estimators import clopper_pearson  # noqa: PLC0415

    label = columns.schema.label
    if label is None or not len(columns):
        raise ProtocolError("are not labelled examples", where="columns", remedy="give some, each with its label")
    wrong = np.array([(predict(strategy, value, columns) != columns[label.name]).sum()])
    low, high = clopper_pearson(wrong, len(columns), confidence)
    return MeasuredError(int(wrong[0]) / len(columns), float(low[0]), float(high[0]))


# ------------------------------------------------------------------------------------------------------ exactly

_LISTED: Final = 14
"""Bits of which all values are gone through."""


def masked_parity(learned: HypothesisValue, truth: HypothesisValue) -> Fraction:
    """KLNRS11, §5.3: b shows bit i of r in one half, and masks the parity by a in the other."""
    wrong = _different(learned["r"], truth["r"])
    # Two parities of different r differ on half of all x; of the same r, everywhere or nowhere.
    masked = Fraction(1, 2) if wrong else Fraction(int(learned["a"] != truth["a"]))
    return (Fraction(wrong, len(truth["r"])) + masked) / 2


def masked_parity_weak(learned: HypothesisValue, truth: HypothesisValue) -> Fraction:
    """KLNRS11, p. 27: exactly ¼, where r is right."""
    masked = masked_parity({"r": learned["guess"], "a": 0}, truth) * 2
    masked -= Fraction(_different(learned["guess"], truth["r"]), len(truth["r"]))
    return (Fraction(_different(learned["r"], truth["r"]), len(truth["r"])) + masked) / 2


def parity(learned: HypothesisValue, truth: HypothesisValue) -> Fraction:
    """Two parities are the same, or differ on half of all x."""
    return Fraction(int(learned["r"] != truth["r"]), 2)


def conjunction(learned: HypothesisValue, truth: HypothesisValue) -> Fraction:
    """One holds, and not both: 2^−|A| + 2^−|B| − 2·2^−|A ∪ B|."""
    mine, right = set(learned["variables"]), set(truth["variables"])
    return Fraction(1, 2 ** len(mine)) + Fraction(1, 2 ** len(right)) - Fraction(2, 2 ** len(mine | right))


def decision_list(learned: HypothesisValue, truth: HypothesisValue) -> Fraction | None:
    """All values of the bits that either looks at, where these are few."""
    return _listed("decision-list", learned, {*_asked(learned), *_asked(truth)}, truth)


def decision_tree(learned: HypothesisValue, truth: HypothesisValue) -> Fraction | None:
    """A tree beside the list that is true."""
    return _listed("decision-tree", learned, {*_bits(learned["tree"]), *_asked(truth)}, truth)


def mean(learned: HypothesisValue, truth: HypothesisValue) -> Fraction:
    """By how much the estimate is off."""
    return abs(Fraction(learned["mean"]) - Fraction(truth["mean"]))


ERRORS: Final[Mapping[str, Callable[[HypothesisValue, HypothesisValue], Fraction | None]]] = {
    "masked-parity": masked_parity,
    "masked-parity-two-rounds": masked_parity,
    "masked-parity-pooled": masked_parity,
    "masked-parity-noninteractive": masked_parity,
    "masked-parity-weak": masked_parity_weak,
    "parity": parity,
    "conjunction": conjunction,
    "decision-list": decision_list,
    "decision-tree": decision_tree,
    "mean": mean,
}


def error_of(strategy: str, learned: HypothesisValue, truth: HypothesisValue, *, uniform: bool = True) -> float | None:
    """The share of examples that a hypothesis labels wrongly, or how far an estimate is off; None: nobody knows.

    For labels that is so over uniform examples. Where they are not, `uniform` has to say so.
    """
    if strategy not in ERRORS or not learned or not truth or not (uniform or strategy == "mean"):
        return None
    error = ERRORS[strategy](learned, truth)
    return None if error is None else float(error)


def _different(one: str, other: str) -> int:
    return sum(mine != right for mine, right in zip(one, other, strict=True))


def _asked(value: HypothesisValue) -> Iterator[int]:
    """The bits that a decision list looks at."""
    return (rule[0] for rule in value["rules"])


def _bits(node: HypothesisValue | int) -> Iterator[int]:
    """The bits that a decision tree looks at."""
    if not isinstance(node, int):
        yield node["bit"]
        yield from _bits(node["one"])
        yield from _bits(node["zero"])


def _listed(strategy: str, learned: HypothesisValue, bits: set[int], truth: HypothesisValue) -> Fraction | None:
    if len(bits) > _LISTED:
        return None
    x = np.zeros((2 ** len(bits), max(bits, default=0) + 1), np.uint8)
    for place, index in enumerate(sorted(bits)):
        x[:, index] = np.arange(len(x)) >> place & 1
    columns = Columns.of(Schema(fields=(BitsField(name="x", width=x.shape[1]),)), {"x": x})
    wrong = predict(strategy, learned, columns) != predict("decision-list", truth, columns)
    return Fraction(int(wrong.sum()), len(x))
