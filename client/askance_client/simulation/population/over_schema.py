"""Users drawn uniformly over any schema, for strategies that name no population of their own."""

from __future__ import annotations

from fractions import Fraction

from askance_client.simulation.population import draws
from askance_client.simulation.population.features import BitsFeature, Feature, TwoPoint, UniformFeature
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import Synthetic
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, LabelField, RealField, Schema

_HALF = Fraction(1, 2)


def over_schema(schema: Schema, seed: int) -> Synthetic:
    """Users whose fields are independent and uniform: fair bits, each category, number and gap as likely, fair labels.

    There is nothing in them to be learned: `truth` is empty.
    """
    source = Source(seed, "over-schema", "")
    features = tuple(_feature(source.of(field.name), field) for field in schema.fields)
    summary = f"users with seed {seed}, uniform over {len(features)} fields: {', '.join(schema.position)}"
    return Synthetic(source.kind, schema, None, {}, summary, features, None)


def _feature(source: Source, field: AnyField) -> Feature:
    match field:
        case BitsField():
            return BitsFeature(source, field, draws.planes(_HALF))
        case CategoryField() | IntegerField() | RealField():
            return UniformFeature(source, field, field.least, field.most if field.empty is None else field.empty)
        case LabelField():
            return TwoPoint(source, field, _HALF)
