"""A cell, the j-th with a share in proportion to a power of 1/j."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.features import TabledFeature
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import unlabelled
from askance_protocol import parameters as read
from askance_protocol.parameters import Parameters
from askance_protocol.queries.query import MAX_CELLS
from askance_protocol.schema import IntegerField


def histogram(parameters: Parameters, seed: int) -> Population:
    """A cell, the j-th with a share in proportion to 1/j^zipf: uniform, where zipf is 0."""
    cells = read.whole(parameters, "cells", 2, MAX_CELLS)
    exponent = read.decimal(parameters, "zipf", "0", least="0", most="4")
    source = Source(seed, "histogram", "cell")
    table = draws.zipf(cells, exponent)
    ends = [0, *table.tolist(), 1 << 64]
    truth = {"shares": [(ends[j + 1] - ends[j]) / (1 << 64) for j in range(cells)]}
    feature = TabledFeature(source, IntegerField(name="cell", low=0, high=cells - 1), table)
    return unlabelled(source, (feature,), truth, f"{cells} cells, Zipf with exponent {float(exponent):g}")


KIND: Final = PopulationKind(
    "histogram",
    "a cell",
    {"cells": "how many cells", "zipf": "cell j has a share in proportion to 1/j^zipf"},
    histogram,
)
