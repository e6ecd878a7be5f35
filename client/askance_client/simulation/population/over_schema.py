"""Users drawn over a schema."""

from __future__ import annotations

from askance_client.simulation.population.synthetic import Synthetic
from askance_protocol.schema import Schema


def over_schema(schema: Schema, seed: int) -> Synthetic:
    """Every field uniform and independent of the others."""
    raise NotImplementedError(schema, seed)
