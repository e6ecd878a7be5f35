"""ε, δ, α and β of a learner in the central model, as they are written on a command line."""

from __future__ import annotations

from fractions import Fraction

from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.budget import MICRO, limit_from_text
from askance_protocol.errors import ProtocolError
from askance_protocol.text import quoted


def read_targets(epsilon: str, delta: str, alpha: float, beta: float) -> Targets:
    """Read the accuracy that a learner should reach and the privacy that it may spend."""
    checks.between("alpha", alpha, 0.001, 0.2)
    checks.between("beta", beta, 0.01, 0.5)
    try:
        delta_ = Fraction(delta)
    except (ValueError, ZeroDivisionError):
        raise ProtocolError(f"{quoted(delta)} is not a number", where="--delta", remedy="write it as 1e-6") from None
    checks.open_unit("delta", float(delta_))
    return Targets(Fraction(checks.count("epsilon", limit_from_text(epsilon)), MICRO), delta_, alpha, beta)
