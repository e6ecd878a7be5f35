"""MASKED-PARITY in one round with error exactly ¼: the nonadaptive weak learner of KLNRS11, p. 27."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from askance_protocol.arrays import Truths
from askance_protocol.concepts import MaskedParityConcept, ParityConcept
from askance_protocol.examples import Columns
from askance_server.core.strategy import (
    Ask,
    Asking,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
)
from askance_server.strategies.masked_parity import different_bits, dimension, schema
from askance_server.strategies.masked_parity_two_rounds import cells, signs


def other(r: str) -> str:
    """The parity r ⊕ e₁, which is never r."""
    return str(1 - int(r[0])) + r[1:]


def run(parameters: Parameters) -> Asking:
    """Step 1 of A_MP, which finds r; the half where b = 0 stays hidden behind the mask."""
    d = dimension(parameters)
    [shares] = yield [Ask(cells(d), 1 / (2 * d + 1))]
    r = signs(shares)
    # KLNRS11, p. 27, says "error exactly 1/4" and not how. A constant on b = 0 has error 0, ¼ or ½ where r = 0, as the
    # parity is constant there. Any parity but r's own agrees with it, masked or not, on half of x (theory.md#trap-10).
    guess = other(r)
    text = f"(-1)^(r_i) where b = 1, with r = {r}, and (-1)^(s.x) where b = 0, with s = {guess}: error 1/4"
    return Hypothesis(text, {"r": r, "guess": guess})


def predict(value: Learnt, columns: Columns) -> Truths:
    """Bit of r where b = 1; label of another parity where b = 0."""
    shown = MaskedParityConcept(value["r"], 0).positive(columns.arrays)
    return np.where(columns["b"][0] == 1, shown, ParityConcept(value["guess"]).positive(columns.arrays))


def error(learned: Learnt, truth: Learnt) -> Fraction:
    """Exactly ¼ if r is right. KLNRS11, p. 27."""
    shown = Fraction(different_bits(learned["r"], truth["r"]), len(truth["r"]))
    # The guess is some parity: right or wrong everywhere if it is r's own, on half of all x if it is not.
    masked = Fraction(truth["a"]) if learned["guess"] == truth["r"] else Fraction(1, 2)
    return (shown + masked) / 2


def promise(_: Parameters) -> float:
    """KLNRS11, p. 27: "error exactly 1/4"."""
    return 0.25


MASKED_PARITY_WEAK: Final = Strategy(
    name="masked-parity-weak",
    summary="r from one round, and error exactly 1/4: the mask bit stays unknown",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
)
