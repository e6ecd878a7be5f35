"""A learner learns the same from examples whose fields have other names; and is asked about no other examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from askance_client.population import Population
from askance_lab.data.made_up import made_up
from askance_lab.run_study import run_study
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import AnyField, BitsField, IntegerField, LabelField, Schema
from askance_server.core.renaming import names_between
from askance_server.core.strategy import Strategy
from askance_server.core.study import study_of
from askance_server.strategies.registry import registry

LEARNERS = {
    "conjunction": {"d": 4, "alpha": "0.3"},
    "conjunction-checked": {"d": 4, "alpha": "0.3"},
    "decision-list": {"d": 4, "alpha": "0.4"},
    "decision-list-checked": {"d": 4, "alpha": "0.4"},
    "decision-tree-checked": {"d": 4, "alpha": "0.4"},
    "decision-tree": {"d": 4, "depth": 2, "tolerance": "0.1"},
    "parity": {"d": 4},
    "masked-parity": {"d": 4},
    "masked-parity-noninteractive": {"d": 4},
    "perceptron": {"d": 2, "tolerance": "0.2"},
    "kmeans": {"d": 2, "k": 2, "tolerance": "0.2"},
}


@dataclass(frozen=True, eq=False)
class Called(Population):
    """The same users, whose fields have other names."""

    of: Population

    def columns(self, users: range) -> Columns:
        """Rename."""
        found = self.of.columns(users)
        arrays = {
            other.name: found[own.name] for own, other in zip(self.of.schema.fields, self.schema.fields, strict=True)
        }
        return Columns(self.schema, arrays, len(found))


def other_names(schema: Schema) -> Schema:
    return Schema(fields=tuple(field.model_copy(update={"name": f"my_{field.name}"}) for field in schema.fields))


def hypothesis(
    strategy: Strategy, population: Population, parameters: Mapping[str, Any], example: Schema | None
) -> Any:
    study = study_of(
        {strategy.name: strategy},
        strategy=strategy.name,
        parameters={"users": "all", "epsilon": "4", **parameters},
        title="x",
        nonce="0" * 32,
        simulated=True,
        example=example,
    )
    return run_study(study, strategy, population, 20_000, seed=1).replay.output


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_learns_as_well_under_other_names(name: str) -> None:
    """The coins are others, as the study is; so the hypotheses are compared where the target leaves no doubt."""
    strategy, parameters = registry()[name], LEARNERS[name]
    people = made_up(strategy, {"epsilon": "4", **parameters}, 1)
    called = Called(people.name, other_names(people.schema), None, people.truth, people.summary, people)

    found = hypothesis(strategy, called, parameters, called.schema)

    assert found.value.keys() == hypothesis(strategy, people, parameters, None).value.keys()
    if name in {"conjunction", "parity", "masked-parity"} and strategy.error is not None:
        assert strategy.error(found.value, people.truth) == 0


X, Y = BitsField(name="x", width=4), LabelField(name="y")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ((X, Y), {"x": "x", "y": "y"}),
        ((BitsField(name="genes", width=4), LabelField(name="ill")), {"x": "genes", "y": "ill"}),
        ((LabelField(name="x"), BitsField(name="y", width=4)), {"x": "y", "y": "x"}),
        ((BitsField(name="genes", width=5), Y), None),
        ((X,), None),
        ((X, Y, IntegerField(name="z", low=0, high=1)), None),
        ((IntegerField(name="x", low=0, high=15), Y), None),
    ],
)
def test_fields_stand_for_those_of_their_kind_and_range(
    fields: tuple[AnyField, ...], names: dict[str, str] | None
) -> None:
    assert names_between(Schema(fields=(X, Y)), Schema(fields=fields)) == names


def test_of_other_examples_a_study_is_refused() -> None:
    """The control: what is no renaming is not learned from."""
    conjunction = registry()["conjunction"]
    wider = Schema(fields=(BitsField(name="genes", width=5), LabelField(name="ill")))

    with pytest.raises(ProtocolError, match="example"):
        study_of(
            {"conjunction": conjunction},
            strategy="conjunction",
            parameters={"users": "all", "d": 4},
            title="x",
            nonce="0" * 32,
            simulated=True,
            example=wider,
        )
