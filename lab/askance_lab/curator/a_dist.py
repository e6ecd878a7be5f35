"""The mechanism A_dist on a database: its most frequent example, if it leads by enough. BNS13, Prop. 2.

`distance` is the algorithm, which learners use on scores of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from askance_lab.curator import distance, point
from askance_lab.curator.choosing import behind
from askance_lab.curator.concepts import A_NUMBER, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism, approximate, exactly
from askance_lab.theory.targets import Targets


def most_frequent(sample: LabelledSample, targets: Targets, draw: Below) -> int | None:
    """The most frequent example, or ⊥ if its lead is too small."""
    counts = Counter(sample.points)
    ahead = distance.ahead(counts, others=len(counts) < 1 << sample.d)
    found = distance.choose(ahead.gap, epsilon=targets.epsilon, delta=targets.delta, draw=draw)
    return ahead.best if found else None


MECHANISM: Final = Mechanism(
    name="a-dist",
    summary="the most frequent example, if it is so by far",
    by="BNS13 Prop. 2",
    concepts=POINT,
    answers=A_NUMBER,
    run=most_frequent,
    needed=lambda d, targets: point.examples_needed(d, **exactly(targets)),
    paid=approximate,
    off=behind,
    place=3,
)
