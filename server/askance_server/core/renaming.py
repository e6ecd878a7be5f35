"""A strategy over examples whose fields have other names: one population answers many studies.

A learner names its fields as its text does: x and y. A study may name examples of its own, with fields of the same
kinds and ranges in the same order; then the learner's queries are asked with the study's names. So a table with bits
`genes` and a label `ill` answers a study of conjunctions as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from askance_protocol.canonical import dumps
from askance_protocol.parameters import Parameters
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, read_query
from askance_protocol.queries.language import AnyTest
from askance_protocol.schema import LabelField, Schema
from askance_server.core.strategy import Ask, Asking, Learnt, Strategy


def renamed(strategy: Strategy, example: Schema) -> Strategy:
    """The strategy over these examples, where they are its own under other names; otherwise as it is.

    What it predicts from stays its own: whoever measures a hypothesis names the columns as the learner does.
    """

    def schema(parameters: Parameters) -> Schema:
        own = strategy.schema(parameters)
        return own if names_between(own, example) is None else example

    def run(parameters: Parameters) -> Asking:
        names = names_between(strategy.schema(parameters), example) or {}
        asking = strategy.run(parameters)
        return asking if all(own == name for own, name in names.items()) else _asking(asking, names)

    return replace(strategy, schema=schema, run=run, positive=_positive(strategy, example))


def _positive(strategy: Strategy, example: Schema) -> Callable[[Parameters, Learnt], AnyTest] | None:
    own = strategy.positive
    if own is None:
        return None

    def positive(parameters: Parameters, learned: Learnt) -> AnyTest:
        names = names_between(strategy.schema(parameters), example) or {}
        return cast("BooleanQuery", query_about(BooleanQuery(test=own(parameters, learned)), names)).test

    return positive


def names_between(own: Schema, example: Schema) -> Mapping[str, str] | None:
    """For each field of a learner the one that stands for it, in their order; None where kinds or ranges differ."""
    if len(own.fields) != len(example.fields):
        return None
    pairs = list(zip(_label_last(own), _label_last(example), strict=True))
    if any(field.model_copy(update={"name": other.name}) != other for field, other in pairs):
        return None
    return {field.name: other.name for field, other in pairs}


def _label_last(schema: Schema) -> list[Any]:
    return sorted(schema.fields, key=lambda field: isinstance(field, LabelField))


def _asking(asking: Asking, names: Mapping[str, str]) -> Asking:
    """The same questions, about fields of other names. What is none of these is for the guard of strategies to find."""
    try:
        asks = next(asking)
        while True:
            answers = yield [_renamed(ask, names) for ask in cast("Sequence[object]", asks)]
            asks = asking.send(answers)
    except StopIteration as end:
        return end.value
    finally:
        asking.close()


def _renamed(ask: object, names: Mapping[str, str]) -> Ask:
    return replace(ask, query=query_about(ask.query, names)) if isinstance(ask, Ask) else cast("Ask", ask)


def query_about(
    query: BooleanQuery | RealQuery | CellQuery, names: Mapping[str, str]
) -> BooleanQuery | RealQuery | CellQuery:
    """The query about the fields of these names."""
    return read_query(dumps(_about(query.to_json(), names)))


def _about(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        return {
            name: names.get(value, value) if name == "field" else _about(value, names)
            for name, value in members.items()
        }
    return [_about(each, names) for each in cast("list[Any]", node)] if isinstance(node, list) else node
