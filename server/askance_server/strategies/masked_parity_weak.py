"""MASKED-PARITY in one round with error exactly ¼: the nonadaptive weak learner of KLNRS11, p. 27."""

from __future__ import annotations

from typing import Final

from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import dimension, schema
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
    # parity is constant there. Any parity but r's own agrees with it, masked or not, on half of all x (THEORY.md, 10).
    guess = other(r)
    text = f"(-1)^(r_i) where b = 1, with r = {r}, and (-1)^(s.x) where b = 0, with s = {guess}: error 1/4"
    return Hypothesis(text, {"r": r, "guess": guess})


MASKED_PARITY_WEAK: Final = Strategy(
    name="masked-parity-weak",
    summary="r from one round, and error exactly 1/4: the mask bit stays unknown",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
)
