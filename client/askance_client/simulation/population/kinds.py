"""Which populations there are, and which of them each strategy learns from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population import boolean, heart, numeric
from askance_protocol import parameters as read
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters


@dataclass(frozen=True, slots=True)
class PopulationKind:
    """A way to make up users."""

    summary: str
    parameters: Mapping[str, str]
    """Their names, and what each says."""
    build: Callable[[Parameters, int], Population]


_ETA: Final = {"eta": "the chance that a label is flipped, below 0.5"}
_BITS: Final = {"d": "how many bits x has", "bias": "the chance that a bit of x is 1", **_ETA}
_FINE: Final = {"denominator": "reals are multiples of one over this"}

KINDS: Final[Mapping[str, PopulationKind]] = {
    "masked-parity": PopulationKind(
        "(x, i, b) and the parity of some bits of x, masked: KLNRS11, 5.3",
        {**_BITS, "r": "the bits of x that count", "a": "the mask bit"},
        boolean.masked_parity,
    ),
    "parity": PopulationKind(
        "the parity of some bits of x: KLNRS11, 4", {**_BITS, "r": "the bits of x that count"}, boolean.parity
    ),
    "conjunction": PopulationKind(
        "whether some bits of x are all 1: BB-notes, Thm 5",
        {**_BITS, "relevant": "how many bits are asked for", "variables": "which, as a bit string"},
        boolean.conjunction,
    ),
    "decision-list": PopulationKind(
        "the first test of a bit of x that holds",
        {**_BITS, "length": "how many tests", "list": 'the list, as "3=1:+ 0=0:- else:+"'},
        boolean.decision_list,
    ),
    "point": PopulationKind(
        "whether x is one point: POINT_d of BNS13, 3.1",
        {**_BITS, "mass": "the chance to be put on the point", "point": "the point, as a bit string"},
        boolean.point,
    ),
    "threshold": PopulationKind(
        "whether a number is below a threshold: INTERVAL_d of BNS13, 3.2",
        {
            "domain": "numbers are 0 .. domain - 1",
            "threshold": "the first number that is not below",
            "skew": "x is the least of so many draws",
            **_ETA,
        },
        numeric.threshold,
    ),
    "separator": PopulationKind(
        "the side of a plane that reals are on",
        {"d": "how many reals", "margin": "no example is nearer to the plane", **_FINE, **_ETA},
        numeric.separator,
    ),
    "clusters": PopulationKind(
        "normal clouds around some centres",
        {
            "d": "how many reals",
            "k": "how many centres",
            "spread": "the standard deviation",
            "zipf": "cluster j has a share in proportion to 1/j^zipf",
            **_FINE,
        },
        numeric.clusters,
    ),
    "heart": PopulationKind("made-up patients: categories, numbers, a bit and a label", {**_ETA}, heart.heart),
    "mean": PopulationKind(
        "a value in [-1, 1] with a known mean",
        {"mean": "a multiple of 1/denominator", "shape": "uniform or extremes", **_FINE},
        numeric.mean,
    ),
    "histogram": PopulationKind(
        "a cell",
        {"cells": "how many cells", "zipf": "cell j has a share in proportion to 1/j^zipf"},
        numeric.histogram,
    ),
}

FOR_STRATEGY: Final[Mapping[str, str]] = {
    "mean": "mean",
    "histogram": "histogram",
    "conjunction": "conjunction",
    "masked-parity": "masked-parity",
    "masked-parity-pooled": "masked-parity",
    "masked-parity-noninteractive": "masked-parity",
    "masked-parity-two-rounds": "masked-parity",
    "masked-parity-weak": "masked-parity",
    "parity": "parity",
    "decision-list": "decision-list",
    "decision-tree": "decision-list",
    "perceptron": "separator",
    "kmeans": "clusters",
}
"""The kind whose examples a strategy of the server learns from."""


def synthetic(name: str, parameters: Parameters, seed: int) -> Population:
    """A population of this kind. The seed draws its target, where the parameters do not give it, and its users."""
    if name not in KINDS:
        raise ProtocolError("is not a kind of population", where="population", remedy=f"use one of {', '.join(KINDS)}")
    read.only(parameters, *KINDS[name].parameters)
    return KINDS[name].build(parameters, seed)


def for_strategy(strategy: str, study: Parameters, own: Parameters, seed: int) -> Population:
    """Users for a study: what its parameters say about examples, and more that is the population's own.

    A study's other parameters (α, say) are its learner's: the server has checked them.
    """
    if strategy not in FOR_STRATEGY:
        raise ProtocolError(
            "is not a strategy with users of its own",
            where="strategy",
            remedy=f"use one of {', '.join(FOR_STRATEGY)}, or choose a population by its kind",
        )
    kind = FOR_STRATEGY[strategy]
    shared = {name: value for name, value in study.items() if name in KINDS[kind].parameters}
    return synthetic(kind, {**shared, **own}, seed)
