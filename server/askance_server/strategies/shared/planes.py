"""Planes through 0 that few points are on the wrong side of: what is asked about one, and how the next one is found.

Theory of operation
-------------------
*The start.* Round 1 asks for E[y·x] and, in few dimensions, for E[x·xᵀ]: two columns that say nearly the same, or one
that hardly moves, would hold every step up. So steps are taken where E[x·xᵀ] is the identity, but for what an
answer may be off by: no smaller spread is told from none. There the first plane is E[y·x], that of least squares.

*A step.* With w of length 1, g(w) = −E[y·x; w mislabels x] is the slope of E[max(0, −y·(w·x))], which the perceptron
brings down (Rosenblatt 1958). Its part along w changes nothing and is left out. How far to go, the slopes of the rounds
before say: the update of Broyden, Fletcher, Goldfarb and Shanno (Nocedal and Wright 2006, eq. 6.17), with no step
longer than `LONGEST`, for answers have errors.

*The choice.* Each of these rounds also asks for the share that its plane mislabels, and the plane with the least share
is the hypothesis (the pocket algorithm, Gallant 1990, IEEE Trans. Neural Networks 1(2)). Shares are told to within τ: a
plane far from the first has to be better by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import (
    Affine,
    AnyNumber,
    AnyTest,
    Clamp,
    Compare,
    Constant,
    If,
    Integer,
    Label,
    Term,
    Xor,
)
from askance_protocol.queries.query import MAX_DENOMINATOR
from askance_server.strategies.shared.points import form

UNIT: Final = 10_000  # weights are whole numbers, so that queries can carry them
LONGEST: Final = 0.5
"""A step's angle at most."""
FAR: Final = 4.0
"""A plane has to be better than the first one by the angle between them over this, up to τ."""
_MOST_PIECES: Final = 14
"""Of half a square: a query has a limit."""


def pieces_of(one: int, tolerance: float) -> int:
    """Number of straight pieces of each half of a square, for `product`; 0: values are too fine for as few as two.

    Between them it is off by a quarter of a piece squared at most: by half the tolerance, if a query has room for that.
    """
    wanted = math.ceil(math.sqrt(1 / (2 * tolerance)))
    pieces = min(max(wanted, 2), _MOST_PIECES, MAX_DENOMINATOR // (2 * one) - 1)
    return pieces if pieces > 1 else 0


def product(j: int, k: int, one: int, pieces: int) -> RealQuery:
    """x_j·x_k = ((x_j + x_k)² − (x_j − x_k)²)/4, each square by straight pieces between the multiples of a width h.

    Σ (2i + 1)·(how far t is within piece i) is t²/h at the multiples of h, and between them above it by h/4 at most.
    """
    width = -(-2 * one // pieces)
    plus, above = _square(form({j: 2} if j == k else {j: 1, k: 1}), width, one, 1)
    minus, below = _square(form({j: 1, k: -1}), width, one, -1) if j != k else ((), 0)
    return RealQuery(
        numerator=Affine(constant=above + below, terms=(*plus, *minus)), denominator=-(-4 * one * one // width)
    )


def _square(of: AnyNumber, width: int, one: int, sign: int) -> tuple[tuple[Term, ...], int]:
    """Terms and a constant of t²/h."""
    terms, constant = list[Term](), 0
    for i in range(-(-2 * one // width)):
        for low, slope in ((i * width, 2 * i + 1), (-(i + 1) * width, -2 * i - 1)):
            terms.append(Term(weight=sign * slope, of=Clamp(of=of, low=low, high=low + width)))
            constant -= sign * slope * (low if slope > 0 else low + width)
    return tuple(terms), constant


def mistaken(w: list[int]) -> AnyTest:
    """Whether y·(w·x) ≤ 0. Once there is an answer, w·x = 0 counts as −1."""
    if not any(w):
        return Constant(truth=True)
    return Xor(of=(Label(sign=1), Compare(left=form(dict(enumerate(w))), relation=">", right=Integer(of=0))))


def pull(j: int, wrong: AnyTest, one: int) -> RealQuery:
    """y·x_j if w mislabels the point, else 0."""
    signed = If(test=Label(sign=1), then=form({j: 1}), otherwise=form({j: -1}))
    return RealQuery(numerator=If(test=wrong, then=signed, otherwise=Integer(of=0)), denominator=one)


def whole(w: Floats) -> list[int]:
    """Weights as whole numbers, the largest of which is UNIT."""
    return np.rint(UNIT * w / np.abs(w).max()).astype(int).tolist()


def unmixing(moments: Floats, d: int, tau: float) -> Floats:
    """R with RᵀE[x·xᵀ]R the identity, but that something is added to E[x·xᵀ]: what its answers may be off by.

    It has no eigenvalue below 0. If its answers have, they are off by as much at least, and tell nothing finer.
    """
    full = np.zeros((d, d))
    full[np.tril_indices(d)] = moments
    values, vectors = np.linalg.eigh(full + np.tril(full, -1).T)
    return vectors / np.sqrt(values.clip(0, None) + max(tau * math.sqrt(d), -4 * float(values[0])))


def fewest(tried: list[tuple[list[int], float]], tau: float) -> list[int]:
    """The plane with the fewest mistakes. The farther it is from the first, the more it has to be better, up to τ."""
    first = np.array(tried[0][0], np.float64)

    def mistakes(one: tuple[list[int], float]) -> float:
        w = np.array(one[0], np.float64)
        cosine = first @ w / (np.linalg.norm(first) * np.linalg.norm(w))
        return one[1] + min(tau, math.acos(min(1.0, max(-1.0, cosine))) / FAR)

    return min(tried, key=mistakes)[0]


@dataclass(slots=True)
class PlaneSteps:
    """Quasi-Newton steps on the sphere: u of length 1, and what slopes say of the inverse of the curvature."""

    u: Floats
    least: float
    """A slope no steeper than this is not told from none."""
    inverse: Floats = field(init=False)
    before: tuple[Floats, Floats] | None = None

    @classmethod
    def along(cls, pulled: Floats, back: Floats, tolerance: float) -> PlaneSteps:
        """Steps from the plane of least squares, where `back` makes columns that have nothing to do with each other."""
        return cls(back.T @ pulled, tolerance * float(np.linalg.norm(back)))

    def __post_init__(self) -> None:
        length = float(np.linalg.norm(self.u))
        # For x uniform on a cube the curvature is about half of |E[y·x]|.
        self.inverse, self.u = np.eye(len(self.u)) * 2 / length, self.u / length

    def step(self, pulled: Floats) -> bool:
        """Go on, given E[y·x] over what u mislabels; False: there is nowhere to go."""
        slope = (pulled @ self.u) * self.u - pulled
        if float(np.linalg.norm(slope)) <= self.least:
            return False
        if self.before is not None:
            self._learn(self.u - self.before[0], slope - self.before[1])
        self.before = self.u, slope
        along = -self.inverse @ slope
        along -= (along @ self.u) * self.u
        angle = float(np.linalg.norm(along))
        if not angle:
            return False
        turned = self.u + along * min(1.0, LONGEST / angle)
        self.u = turned / np.linalg.norm(turned)
        return True

    def _learn(self, moved: Floats, changed: Floats) -> None:
        """Nocedal and Wright 2006, eq. 6.17; a slope that does not rise along the step tells nothing."""
        rise = float(moved @ changed)
        if rise > 1e-12:
            left = np.eye(len(moved)) - np.outer(moved, changed) / rise
            self.inverse = left @ self.inverse @ left.T + np.outer(moved, moved) / rise
