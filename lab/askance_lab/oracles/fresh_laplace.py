"""Fresh users for each query, who answer with the papers' Laplace noise over the reals: KLNRS11, Thm 5.7.

Not private in floats (`experiments.float_laplace`), and therefore in the lab only.
"""

from __future__ import annotations

from typing import Final

from askance_lab.oracles.fresh import Randomizer, fresh
from askance_lab.oracles.shared.oracle import Oracle
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting


def _fresh_laplace(setting: OracleSetting) -> Oracle:
    return fresh(setting, Randomizer.PAPER)


ORACLE: Final = OracleKind(
    "fresh-laplace",
    "the papers' Laplace noise, fresh users for each query",
    _fresh_laplace,
    local=True,
)
