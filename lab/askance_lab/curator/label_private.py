"""A learner that protects labels only: one concept for each labelling of the public examples.

BNS13, Def. 13 and Thm 7: x_1 … x_m are public, and two neighbours have the same x's and one label different. The text
gives no construction. This one: H has a concept for each way in which the class labels the distinct x's, at most
(em/VC)^VC of them; then the exponential mechanism on the labels. H depends on what is public only, so what is paid is ε
*for a label*. Whoever changes an x changes H, and nothing is promised about that: the price is not that of a
curator's other learners (KLNRS11, Def. 2.1).

So ln|H| = VC·ln(em/VC), with no |X| in it, and the examples needed do not grow with d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from askance_lab.curator import generic
from askance_lab.curator.concepts import A_THRESHOLD, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.exponential import probabilities
from askance_lab.curator.generic_interval import interval_runs
from askance_lab.curator.generic_point import point_runs
from askance_lab.curator.mechanism import Mechanism, roughly
from askance_lab.curator.piecewise import Runs
from askance_lab.curator.privacy import Paid, checked
from askance_lab.curator.sauer import Dichotomies, dichotomies
from askance_lab.theory import central
from askance_protocol import checks

Example = TypeVar("Example")
Concept = TypeVar("Concept")
Concepts: TypeAlias = Callable[[Sequence[Example]], Iterable[Concept]]
"""Lists concepts that label the given x's in every way in which the class does; it never sees a label."""
LabelsOfConcept: TypeAlias = Callable[[Concept, Sequence[Example]], ArrayLike]
"""The labels that a concept gives to examples."""


def learn(
    xs: Sequence[Example],
    labels: Sequence[bool | int],
    concepts: Concepts[Example, Concept],
    labels_of: LabelsOfConcept[Concept, Example],
    *,
    epsilon: Fraction,
    draw: Below,
) -> Concept:
    """Learn a concept from public examples and private labels."""
    return generic.learn(of_public(xs, concepts, labels_of), _pairs(xs, labels), epsilon=epsilon, draw=draw)


def label_private_distribution(
    xs: Sequence[Example],
    labels: Sequence[bool | int],
    concepts: Concepts[Example, Concept],
    labels_of: LabelsOfConcept[Concept, Example],
    *,
    epsilon: Fraction,
) -> Distribution[Concept]:
    """Exact distribution of the learned concept."""
    return generic.generic_distribution(of_public(xs, concepts, labels_of), _pairs(xs, labels), epsilon=epsilon)


def of_public(
    xs: Sequence[Example],
    concepts: Concepts[Example, Concept],
    labels_of: LabelsOfConcept[Concept, Example],
) -> Dichotomies[Example, Concept]:
    """Class H to choose from: it depends on the public x's alone."""
    distinct = list(dict.fromkeys(xs))
    return dichotomies(distinct, concepts(distinct), labels_of)


def _pairs(xs: Sequence[Example], labels: Sequence[bool | int]) -> list[tuple[Example, bool | int]]:
    remedy = "give each public example its label"
    checks.require(len(xs) == len(labels), "are not as many as the examples", where="labels", remedy=remedy)
    return list(zip(xs, labels, strict=True))


def learn_interval(sample: LabelledSample, *, epsilon: Fraction, draw: Below) -> int:
    """Learn a threshold of INTERVAL_d, at any d: among one for each cut between the public x's."""
    return _chosen(interval_runs(sample), sample, epsilon, draw)


def learn_point(sample: LabelledSample, *, epsilon: Fraction, draw: Below) -> int:
    """Learn a point of POINT_d, at any d: a public x, or a point outside them."""
    return _chosen(_one_unseen(point_runs(sample), sample), sample, epsilon, draw)


def interval_distribution(sample: LabelledSample, *, epsilon: Fraction) -> Distribution[int]:
    """Exact distribution of the learned threshold, at any d."""
    return _distribution(interval_runs(sample), epsilon)


def point_distribution(sample: LabelledSample, *, epsilon: Fraction) -> Distribution[int]:
    """Exact distribution of the learned point, at any d."""
    return _distribution(_one_unseen(point_runs(sample), sample), epsilon)


def paid(epsilon: Fraction) -> Paid:
    """Price: ε for one *label* replaced. BNS13, Def. 13. For one example replaced there is no finite price."""
    return checked(epsilon)


def _one_unseen(runs: Runs, sample: LabelledSample) -> Runs:
    """First unseen point: all points not seen label the x's alike."""
    seen = set(sample.points)
    unseen = [run for run in runs if run.start not in seen]
    return [run for run in runs if run.start in seen] + unseen[:1]


# A run is one labelling of the x's, so its first solution stands for all of it: each run counts once, not by its size.


def _chosen(runs: Runs, sample: LabelledSample, epsilon: Fraction, draw: Below) -> int:
    mistakes = np.array([run.mistakes for run in runs], np.int64)
    return runs[generic.selected(mistakes, examples=len(sample), epsilon=epsilon, draw=draw)].start


def _distribution(runs: Runs, epsilon: Fraction) -> Distribution[int]:
    chances = probabilities([-run.mistakes for run in runs], epsilon=epsilon)
    return {run.start: chance for run, chance in zip(runs, chances, strict=True)}


MECHANISM: Final = Mechanism(
    name="label-private",
    summary="INTERVAL, where labels alone are private",
    by="BNS13 Thm 7",
    concepts=INTERVAL,
    answers=A_THRESHOLD,
    run=lambda sample, targets, draw: learn_interval(sample, epsilon=targets.epsilon, draw=draw),
    needed=lambda _, targets: central.examples_label_private(vc=1, **roughly(targets)),
    protects="labels",
    d=64,
    place=32,
)
