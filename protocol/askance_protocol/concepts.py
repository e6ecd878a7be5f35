"""Target concepts: the functions from examples to labels that learners are tested on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Truths
from askance_protocol.examples import Column, words_of


class Concept(Protocol):
    """A concept: which examples are labelled +1, and what it is called."""

    @property
    def truth(self) -> Mapping[str, object]:
        """The concept, as JSON."""
        ...

    def __str__(self) -> str:
        """The concept, for a person."""
        ...

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Which examples are labelled +1 if there is no noise."""
        ...


@dataclass(frozen=True, slots=True)
class ParityConcept:
    """c_r(x) = (−1)^{r·x}. KLNRS11, §4: PARITY, with labels ±1."""

    r: str

    @property
    def truth(self) -> Mapping[str, object]:
        """The mask r, x_0 first."""
        return {"r": self.r}

    def __str__(self) -> str:
        return f"y = (-1)^(r.x) with r = {self.r}"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether an even number of the masked bits is 1, for each example."""
        return ~odd(columns["x"], self.r)


@dataclass(frozen=True, slots=True)
class MaskedParityConcept:
    """c_{r,a}(x, i, b) = (−1)^{r·x + a} where b = 0, (−1)^{r_i} where b = 1. KLNRS11, §5.3."""

    r: str
    a: int

    @property
    def truth(self) -> Mapping[str, object]:
        """The mask r and the offset a, in the form that its learners return."""
        return {"r": self.r, "a": self.a}

    def __str__(self) -> str:
        return f"y = (-1)^(r.x + a) where b = 0, (-1)^(r_i) where b = 1, with r = {self.r}, a = {self.a}"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether the exponent is even, for each example."""
        shown = np.array([bit == "1" for bit in self.r], np.bool).take(columns["i"].astype(np.intp, copy=False))
        masked = odd(columns["x"], self.r) ^ bool(self.a)
        # One of the two by b, without a branch: which one it is nobody guesses, neither does a processor.
        return ~(masked ^ (columns["b"][0] == 1) & (masked ^ shown))


@dataclass(frozen=True, slots=True)
class ConjunctionConcept:
    """A monotone conjunction: +1 where all of these bits are 1 (BB-notes, Thm 5)."""

    variables: tuple[int, ...]

    @property
    def truth(self) -> Mapping[str, object]:
        """The variables, in the form that its learner returns."""
        return {"variables": list(self.variables)}

    def __str__(self) -> str:
        return "y = +1 where " + (" and ".join(f"x_{i}" for i in self.variables) or "true")

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether all of the bits are 1, for each example."""
        x = columns["x"].view(np.uint64)
        wanted = mask(sum(1 << i for i in self.variables), 64 * len(x))
        return ((x & wanted) == wanted).all(axis=0)


@dataclass(frozen=True, slots=True)
class DecisionListConcept:
    """A decision list: the first rule (i, v, label) with x_i = v decides; if none does, the last label."""

    rules: tuple[tuple[int, int, int], ...]
    otherwise: int

    @property
    def truth(self) -> Mapping[str, object]:
        """The rules in order, and the last label."""
        return {"rules": [list(rule) for rule in self.rules], "otherwise": self.otherwise}

    def __str__(self) -> str:
        tests = "".join(f"if x_{i} = {v} then {label:+d}, else " for i, v, label in self.rules)
        return f"y: {tests}{self.otherwise:+d}"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Apply the rules from the last to the first: each overrides those after it."""
        truths = np.full(columns["x"].shape[1], self.otherwise == 1)
        for i, v, label in reversed(self.rules):
            truths[bit(columns["x"], i) == (v == 1)] = label == 1
        return truths


@dataclass(frozen=True, slots=True)
class PointConcept:
    """c_j(x) = 1 where x = j: POINT_d of BNS13, §3.1."""

    point: str

    @property
    def truth(self) -> Mapping[str, object]:
        """The point that is labelled +1."""
        return {"point": self.point}

    def __str__(self) -> str:
        return f"y = +1 where x = {self.point}"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether all bits are those of the point, for each example."""
        return (columns["x"] == mask(int(self.point[::-1], 2), len(self.point))).all(axis=0)


@dataclass(frozen=True, slots=True)
class ThresholdConcept:
    """c_j(x) = 1 where x < j: INTERVAL_d of BNS13, §3.2."""

    end: int

    @property
    def truth(self) -> Mapping[str, object]:
        """The threshold j."""
        return {"threshold": self.end}

    def __str__(self) -> str:
        return f"y = +1 where x < {self.end}"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether x is below the threshold, for each example."""
        return columns["x"] < self.end


@dataclass(frozen=True, slots=True)
class SeparatorConcept:
    """The sign of w·x, with all examples at a distance from where it changes."""

    weights: tuple[int, ...]
    margin: str

    @property
    def truth(self) -> Mapping[str, object]:
        """The weights, up to a factor, and the margin that examples keep."""
        return {"weights": list(self.weights), "margin": self.margin}

    def __str__(self) -> str:
        weights = ", ".join(map(str, self.weights))
        return f"y = sign(w.x) with w = ({weights}), |w.x| at least {self.margin} of the sum of |w_j|"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether w·x ≥ 0, computed in the fields' own numerators."""
        total = np.zeros(len(columns["x0"]), np.int64)
        for j, weight in enumerate(self.weights):
            total += np.int64(weight) * columns[f"x{j}"].astype(np.int64, copy=False)
        return total >= 0


def bit(words: Column, index: int) -> Truths:
    """Bit `index` of every example."""
    return (words[index // 64].view(np.uint64) >> np.uint64(index % 64) & np.uint64(1)).astype(np.bool)


def odd(words: Column, r: str) -> Truths:
    """Whether r·x is odd, for each example."""
    chosen = words.view(np.uint64) & mask(int(r[::-1], 2), len(r))
    # An odd number of bits in all words: in their sum without carries.
    folded = chosen[0] if len(chosen) == 1 else np.bitwise_xor.reduce(chosen, axis=0)
    return (np.bitwise_count(folded) & np.uint8(1)).view(np.bool)


def mask(value: int, width: int) -> NDArray[np.uint64]:
    """The words of one bit vector, as a column that broadcasts over columns of many examples."""
    return np.array(words_of(value, width), np.uint64)[:, None]
