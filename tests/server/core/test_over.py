"""A strategy that takes whatever examples there are runs over those of its study; other strategies take none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from askance_client.simulation.population.over_schema import over_schema
from askance_lab.run_study import run_study
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Compare, FieldValue, Integer
from askance_protocol.schema import IntegerField, Schema
from askance_server.core.run import StrategyError, guarded
from askance_server.core.strategy import Ask, Asking, Hypothesis, Strategy
from askance_server.core.study import check_study, study_of
from askance_server.strategies.conjunction import CONJUNCTION

DEFAULT: Final = Schema(fields=(IntegerField(name="x", low=0, high=1),))
OTHER: Final = Schema(fields=(IntegerField(name="age", low=0, high=9),))


def above(example: Schema) -> Strategy:
    """The share of the users whose first field is above its middle, whatever the field is."""
    field = example.fields[0]

    def schema(_: Mapping[str, Any]) -> Schema:
        if field.name == "unasked":
            raise ProtocolError("is not asked about", where="example")
        return example

    def run(_: Mapping[str, Any]) -> Asking:
        middle = (field.least + field.most) // 2
        test = Compare(left=FieldValue(field=field.name), relation=">", right=Integer(of=middle))
        [answer] = yield [Ask(BooleanQuery(test=test), 0.1)]
        return Hypothesis("", {"above": float(answer)})

    return Strategy("above", "", interactive=False, rounds=1, schema=schema, run=run, over=above)


ABOVE: Final = above(DEFAULT)


def study_over(strategy: Strategy, example: Schema | None, **parameters: Any) -> Any:
    named = {strategy.name: strategy}
    whole = {"users": "all", **parameters}
    return study_of(
        named, strategy=strategy.name, parameters=whole, title="x", nonce="0" * 32, simulated=True, example=example
    )


@pytest.mark.parametrize("strategy", [ABOVE, guarded(ABOVE)])
@pytest.mark.parametrize(("example", "schema"), [(None, DEFAULT), (DEFAULT, DEFAULT), (OTHER, OTHER)])
def test_a_study_may_name_the_examples_that_a_strategy_runs_over(
    strategy: Strategy, example: Schema | None, schema: Schema
) -> None:
    study = study_over(strategy, example)
    view = run_study(study, strategy, over_schema(schema, 1), 4000, 1)
    learned = view.replay.output

    assert study.example == schema
    check_study(study, {strategy.name: strategy})
    assert isinstance(learned, Hypothesis)
    assert abs(learned.value["above"] - 0.5) < 0.1  # type: ignore[operator]


def test_a_strategy_with_examples_of_its_own_takes_no_others() -> None:
    own = CONJUNCTION.schema({"d": 4})

    assert study_over(CONJUNCTION, own, d=4) == study_over(CONJUNCTION, None, d=4)
    with pytest.raises(ProtocolError, match="examples of its own"):
        study_over(CONJUNCTION, OTHER, d=4)


def test_what_a_strategy_says_of_examples_that_it_cannot_ask_about_is_the_error() -> None:
    with pytest.raises(ProtocolError, match="is not asked about"):
        study_over(guarded(ABOVE), Schema(fields=(IntegerField(name="unasked", low=0, high=9),)))


def test_over_and_fields_of_another_package_are_looked_at() -> None:
    """What they return or raise that cannot be used is told as the strategy's fault."""
    broken: Any = replace(ABOVE, over=lambda _: "a strategy", fields=lambda _: [3])
    raising: Any = replace(ABOVE, over=lambda _: 1 / 0, fields=lambda _: "age")

    strategy: Any
    for strategy in map(guarded, (broken, raising)):
        with pytest.raises(StrategyError, match="over"):
            strategy.on(OTHER)
        with pytest.raises(StrategyError, match="fields"):
            strategy.fields({})
    assert guarded(replace(ABOVE, fields=lambda _: ["age"])).fields({}) == ("age",)  # type: ignore[misc]
