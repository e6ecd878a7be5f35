"""What is told of a round while it is open: counts in steps of `k` reports, where its study says so (`StudySpec.live`).

Theory of operation
-------------------
A spectator sees the number of reports go up by one, looks around, and reads a count that has changed by one: then she
has read one person's bit. So counts change by `k` reports at a time, whatever is asked, whenever, and of whom.

*What is told* is a function of the order of acceptance alone (`Ledger.first_reports`). Of n reports the first
N = k·⌊n/k⌋ are looked at. A part's reports are counted row by row, and who knows a user's number knows her part and her
row, which a public coin says; so it is rows that are told in steps: of each row of a part the first k·j reports, where
j is one less than the number of whole steps that its rarest row has among the N. All rows of a part have as many, so
that estimates are made of them as of a round that is closed.

*One step less*, because the round may close at any moment, and then all of it is told: what had not been told of a row
is k reports or more. So any two counts of a row that are ever told, by any server, before or after a restart, are the
same or differ by k reports at least; where nothing was told before the end, the end is the first that anybody sees.

*What it does not do.* The reports are ε-private as they are, and a count of k says something of each. Who sends k − 1
of them herself, or knows them, reads the last one. And the aggregator, who takes the reports, sees each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Truths
from askance_protocol.rounds import PreparedRound
from askance_protocol.tally import Tally, tally_round


def looked_at(received: int, step: int) -> int:
    """Number of reports of so many that are looked at: those of whole steps."""
    return step * (received // step)


def told_tallies(
    round_: PreparedRound, users: NDArray[np.uint64], outcomes: NDArray[np.uint32], step: int
) -> list[Tally]:
    """The tallies that are told where these reports came, in this order: one for each part, perhaps an empty one."""
    told = np.zeros(len(users), np.bool)
    parts, rows = round_.questions(users)
    for part, count in enumerate(round_.rows):
        mine = np.flatnonzero(parts == part)
        told[mine] = _told_of_part(rows[mine], count, step)
    return tally_round(round_, users[told], outcomes[told])


def _told_of_part(rows: NDArray[np.integer[Any]], count: int, step: int) -> Truths:
    """Which reports of a part are told, by the row of each: of every row as many, from its first on."""
    steps = int(np.bincount(rows, minlength=count).min()) // step - 1
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    # The place of each report among those of its row.
    places = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    told = np.zeros(len(rows), np.bool)
    told[order] = places < max(steps, 0) * step
    return told
