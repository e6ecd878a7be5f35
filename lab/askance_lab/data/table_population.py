"""A user's own table as a population: one row for each user, with its columns or with features of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from askance_client.population import Population
from askance_client.tables import FromFile
from askance_lab.data.features import featured
from askance_lab.data.table_file import TableFile
from askance_protocol.errors import ProtocolError
from askance_protocol.schema import Schema
from askance_server.core.strategy import Parameters, Strategy


@dataclass(frozen=True, slots=True)
class OwnTable:
    """Users made from rows, and the meaning of the strategy's fields."""

    population: Population
    inferred: bool
    """Whether the rows were looked into for what their columns may hold, or for what their label is."""
    parameters: Mapping[str, int | bool | str]
    """The strategy's, with the dimension that the table has."""
    features: tuple[str, ...] = ()
    """Bit by bit, or real by real; empty where the table was taken as it is."""
    read: Callable[[str], str] = str
    """What the strategy says, in the names of the table."""
    clamped: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many numbers of a column are beyond its range. It tells about the rows: of a simulation only."""


def table_population(table: TableFile, strategy: Strategy, parameters: Parameters, seed: int) -> OwnTable:
    """Read a table for a strategy. Its rows come in an order of the seed's, since a file may be sorted."""
    if strategy.over is not None and not _is_plain(table, strategy, parameters):
        return _as_asked(table, strategy, parameters, seed)
    if (schema := _asked(strategy, parameters)) is not None and set(schema.position) <= set(table.names()):
        same = table.label if schema.label is not None and schema.label.name == table.label else None
        if table.schema is not None and table.positive is None:
            same = None
        looked = same is not None and table.positive is None
        rows = table.rows_as(schema, same)
        return OwnTable(shuffled(rows, seed), looked, parameters, clamped=_clamped(rows))
    rows = table.rows()
    made = featured(strategy, shuffled(rows, seed), parameters)
    for name, value in made.parameters.items():
        if parameters.get(name, value) != value:
            raise ProtocolError(
                f"is {parameters[name]}, and the table makes it {value}", where=name, remedy="leave it out"
            )
    whole = {**parameters, **made.parameters}
    if strategy.schema(whole) != made.schema:
        raise ProtocolError(
            f"makes no examples that {strategy.name!r} learns from",
            where=str(table.path),
            remedy="use another strategy",
        )
    names = tuple(feature.name for feature in made.features)
    return OwnTable(made, table.schema is None, whole, names, made.read, _clamped(rows))


def _is_plain(table: TableFile, strategy: Strategy, parameters: Parameters) -> bool:
    """Whether the table has the one column that is asked about where none is named, and nothing is declared of it."""
    own = _asked(strategy, parameters)
    if own is None or len(own.fields) > 1 or table.columns is not None or table.schema is not None:
        return False
    named = () if strategy.fields is None else tuple(strategy.fields(parameters))
    return named == tuple(own.position) and set(named) <= set(table.names())


def _as_asked(table: TableFile, strategy: Strategy, parameters: Parameters, seed: int) -> OwnTable:
    """The columns that a strategy asks about, for one that takes whatever there are. No other is looked at."""
    named = table.columns or (None if strategy.fields is None else tuple(strategy.fields(parameters)))
    rows = (table if named is None else table.only(named)).rows()
    if strategy.on(rows.schema).schema(parameters) != rows.schema:
        what = f"declares other examples than {strategy.name!r} has with these parameters"
        raise ProtocolError(what, where=str(table.path), remedy="give its parameters by --set, or rename the column")
    return OwnTable(shuffled(rows, seed), table.schema is None, parameters, clamped=_clamped(rows))


def _clamped(population: Population) -> Mapping[str, int]:
    return population.clamped if isinstance(population, FromFile) else {}


def shuffled(population: Population, seed: int) -> Population:
    """The rows in an order that the seed determines."""
    if not isinstance(population, FromFile):
        return population
    order = np.random.default_rng([seed, 4]).permutation(len(population.rows))
    rows = population.rows.take(order)
    return replace(population, size=len(rows), rows=rows)


def _asked(strategy: Strategy, parameters: Parameters) -> Schema | None:
    """Schema of the strategy, unless a parameter for it is missing."""
    try:
        return strategy.schema(parameters)
    except ProtocolError:
        return None
