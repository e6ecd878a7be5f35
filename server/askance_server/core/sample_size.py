"""How many reports a part needs: the planners of `bounds.planners`, by the numbers of the part's own channel."""

from __future__ import annotations

import numpy as np

from askance_protocol.channels import BinaryResponse, Channel, KaryResponse
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.rounds import PreparedPart
from askance_server.core import planners
from askance_server.core.estimators import Floats, scores, targets

_WORD = 2.0**64


def reports_needed(part: PreparedPart, tolerance: float, failure: float) -> int:
    """Reports until every estimate of the part is within `tolerance`, with probability 1 − `failure`.

    For two-valued scores by exact binomial tails, for others by Bernstein's inequality. Tolerance is on what is
    estimated: a frequency, a mean in [−1, 1], the signed share of a cell. Cells share the failure evenly.
    """
    match part.query.query, part.channel:
        case BooleanQuery(), BinaryResponse(keep=keep):
            return planners.users_bit(keep / _WORD, tolerance, failure)
        case RealQuery(), BinaryResponse(keep=keep):
            return planners.users_binary(keep / _WORD, tolerance, failure)
        case CellQuery(cells=cells), BinaryResponse(keep=keep):
            return planners.users_hadamard(keep / _WORD, cells, tolerance, failure)
        case CellQuery(cells=cells, negative=None), KaryResponse(truth=truth, lie=lie):
            return planners.users_kary(truth / _WORD, lie / _WORD, tolerance, failure / cells)
        case query, channel:
            wanted = targets(query, channel.inputs)
            return max(_bounded(channel, target, tolerance, failure / len(wanted)) for target in wanted)


def _bounded(channel: Channel, target: Floats, tolerance: float, failure: float) -> int:
    """Bernstein, for the score of one target: Var f ≤ E(f − c)² for every c, and no mixture exceeds the worst input."""
    score = scores(channel, target)
    centred = (score - (target.max() + target.min()) / 2) ** 2
    table = np.array([[float(weight) for weight in row] for row in channel.table()]) / _WORD
    return planners.users_bounded(float((table @ centred).max()), float(np.ptp(score)), tolerance, failure)
