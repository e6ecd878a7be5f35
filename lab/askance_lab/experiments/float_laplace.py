"""The papers' Laplace randomizer in IEEE doubles, and the attack that reads it. NOT PRIVATE: for comparison only.

R(u) = g(u) + Lap(2b/ε), KLNRS11 §5.1.1, is ε-locally private over the reals. Its textbook implementation is not:
Mironov, "On significance of the least significant bits for differential privacy" (CCS 2012), shows that the doubles
it can return are a porous set, and a different one under every input. Often a single report rules an input out.
Nothing here may answer a user's query; the lab keeps it to compare accuracies, and keeps the attack beside it.

Theory of operation. A report is fl(v ± fl(s·|log U|)) with U = k·2⁻⁵³, k in 1..2⁵³: a value v, a scale s, one sign
and one integer. `possible_reports` finds for each report and sign a range of k outside which nothing can give that
report, then evaluates *the randomizer itself* on all of the range. A yes is therefore a witness, exact by
construction; a no is right because the range is wide enough. With t = −ln U and the unit roundoff η = 2⁻⁵³:

1. numpy's log is off by at most `ULPS` = 4 units in the last place, relatively by 8η, and the product by η more.
   numpy checks its own log and exp of doubles to 1 (numpy/_core/tests/data/umath-validation-set-*.csv), glibc
   documents 1; so the noise's magnitude is s·t·(1 + a) with |a| ≤ 10η.
2. Addition rounds to nearest: that magnitude is within h = spacing(r)/2 of m = ±(r − v), spacing(r) being the wider
   of the gaps beside r. (Where it is the smallest double, sums are exact, and h, rounded to 0, is right.)
3. So t lies between (m − h)/s and (m + h)/s up to 10η·t; computing these ends rounds three times more, and since
   h ≤ 2⁻⁴²·s by the precondition |v| ≤ 2¹⁰·s, what |m| and h differ by adds less than 2⁻⁹⁰. Together: 16η·t.
4. k = 2⁵³·exp(−t) moves by at most 2⁵³·(t·exp(−t))·16η ≤ 16/e < 6 for that, and by 8 for 4 units in exp.

Hence 14 grid points on either side suffice; `MARGIN` is more than twice that. Verdicts are about the numpy and the
processor they are computed on: another log has another porous support.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from askance_protocol.arrays import Floats, Integers, Truths
from askance_protocol.errors import ProtocolError

Samplers: TypeAlias = tuple[Callable[[int], Integers], Callable[[int], Integers]]

GRID = 2**53
"""U is a multiple of 1/GRID: the grid of numpy's and Python's `random()`, and the one Mironov attacks."""

ULPS = 4
"""Largest error of log and exp that the proof above allows, in units in the last place."""

MARGIN = 32
"""Grid points evaluated beyond each computed end of the range; 14 are needed (theory of operation, step 4)."""

_SCALES = (2.0**-256, 2.0**256)  # no product or quotient below can leave the normal doubles
_REACH = 2.0**10  # largest |value|/scale, that is ε/2 in the papers' Lap(2b/ε)
_FARTHEST = 64.0  # no noise exceeds 53·ln 2 < 37 scales: a report farther off is impossible


def leaky_laplace(values: Floats, scale: float, generator: np.random.Generator) -> Floats:
    """One report value + Lap(scale) for each value, in doubles: NOT PRIVATE (KLNRS11 §5.1.1 as commonly programmed)."""
    _require(values, scale)
    signs = 2 * generator.integers(0, 2, values.shape) - 1
    uniforms = generator.integers(1, GRID, values.shape, endpoint=True)
    return _reports(values, signs, uniforms, scale)


def possible_reports(reports: Floats, value: float, scale: float) -> Truths:
    """Truths for the reports: whether some sign and some U on the grid give exactly this double from `value`."""
    _require(np.asarray([value]), scale)
    if not np.isfinite(reports).all():
        raise ProtocolError("a report is not a finite number", where="reports")
    found = np.zeros(reports.shape, dtype=np.bool_)
    near = np.abs(reports - value) <= _FARTHEST * scale
    for sign in (1, -1):
        found[near] |= _possible_with_sign(reports[near], value, scale, sign)
    return found


def possible(report: float, value: float, scale: float) -> bool:
    """`possible_reports` for a single report."""
    return bool(possible_reports(np.asarray([report]), value, scale)[0])


def impossible_fraction(
    value: float, neighbour: float, scale: float, samples: int, generator: np.random.Generator
) -> float:
    """Share of reports under `value` that cannot come from `neighbour`: 0 if the channel were private."""
    if samples < 1:
        raise ProtocolError("need at least one sample", where="samples")
    reports = leaky_laplace(np.full(samples, value), scale, generator)
    return float(np.mean(~possible_reports(reports, neighbour, scale)))


def witness_samplers(value: float, neighbour: float, scale: float, generator: np.random.Generator) -> Samplers:
    """Samplers for an audit, under the value and its neighbour: 1 if the neighbour cannot have sent the report.

    Under the neighbour that never happens, so any share of it under the value bounds ε from below.
    """

    def under(given: float) -> Callable[[int], Integers]:
        def sample(samples: int) -> Integers:
            reports = leaky_laplace(np.full(samples, given), scale, generator)
            return (~possible_reports(reports, neighbour, scale)).astype(np.int64)

        return sample

    return under(value), under(neighbour)


def _noise(uniforms: Integers, scale: float) -> Floats:
    """The magnitude of the noise for U = uniforms/GRID; the quotient is exact."""
    return scale * -np.log(uniforms / GRID)


def _reports(values: Floats | float, signs: Integers | int, uniforms: Integers, scale: float) -> Floats:
    """The randomizer as a function of its coins; the attack evaluates this very function."""
    return values + signs * _noise(uniforms, scale)


def _possible_with_sign(reports: Floats, value: float, scale: float, sign: int) -> Truths:
    first, last = _range(sign * (reports - value), np.spacing(np.abs(reports)) / 2, scale)
    return _search(lambda uniforms: _reports(value, sign, uniforms, scale), reports, first, last)


def _range(magnitudes: Floats, half_widths: Floats, scale: float) -> tuple[Integers, Integers]:
    """First and last k whose noise may lie within half_widths of the magnitudes (theory of operation, 2 to 4)."""
    most = GRID * np.exp(-np.maximum(magnitudes - half_widths, 0) / scale)
    least = GRID * np.exp(-np.maximum(magnitudes + half_widths, -scale) / scale)
    first = np.maximum(np.floor(least).astype(np.int64) - MARGIN, 1)
    last = np.minimum(np.ceil(most).astype(np.int64) + MARGIN, GRID)
    return first, last


def _search(report_of: Callable[[Integers], Floats], reports: Floats, first: Integers, last: Integers) -> Truths:
    """Truths for the reports: whether some k in first..last gives it. An empty range (first > last) finds nothing."""
    found = np.zeros(reports.shape, dtype=np.bool_)
    for offset in range(int((last - first).max(initial=-1)) + 1):
        uniforms = first + offset
        found |= (uniforms <= last) & (report_of(np.minimum(uniforms, GRID)) == reports)
    return found


def _require(values: Floats, scale: float) -> None:
    if not (math.isfinite(scale) and _SCALES[0] <= scale <= _SCALES[1]):
        raise ProtocolError("the scale is not a positive number of ordinary size", where="scale")
    if not (np.abs(values) <= _REACH * scale).all():  # also refuses NaN
        raise ProtocolError("a value is not finite, or beyond 2^10 scales", where="values", remedy="enlarge the scale")
