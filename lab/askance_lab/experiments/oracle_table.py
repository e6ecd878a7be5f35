"""Every strategy against every oracle on small examples: the papers' equivalences as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from askance_client.population import Population
from askance_client.simulation.population import KINDS
from askance_lab.data.made_up import made_up
from askance_lab.experiments.single_run import SingleRun, run_once
from askance_lab.oracles.shared.registry import oracle_named
from askance_lab.oracles.shared.setting import OracleSetting
from askance_protocol.errors import AskanceError
from askance_protocol.parameters import Parameters
from askance_server.core import planning
from askance_server.core.strategy import Strategy
from askance_server.strategies.registry import registry

NOISE: Final = "0.3"
"""The share of wrong labels in the columns that have noise."""
CLOSE: Final = 0.05
"""An error that counts as learned where a strategy promises nothing."""
_FOUR: Final[Parameters] = {"d": 4}
"""What a strategy is given that names no small example of its own."""


@dataclass(frozen=True, slots=True)
class OracleColumn:
    """One column of the table: an oracle, and whether labels are noisy."""

    oracle: str
    noisy: bool = False
    corrected: bool = False
    """Whether the oracle knows of the noise."""


COLUMNS: Final[Mapping[str, OracleColumn]] = {
    "exact": OracleColumn("exact"),
    "adversarial": OracleColumn("adversarial"),
    "samples": OracleColumn("samples"),
    "noisy samples": OracleColumn("samples", noisy=True, corrected=True),
    "the same, naive": OracleColumn("samples", noisy=True),
    "curator": OracleColumn("curator"),
    "fresh": OracleColumn("fresh"),
    "fresh-laplace": OracleColumn("fresh-laplace"),
    "local": OracleColumn("local"),
    "http": OracleColumn("http"),
}


@dataclass(frozen=True, slots=True)
class TableEntry:
    """Result of one strategy with one oracle."""

    outcome: Literal["ran", "no labels", "cannot"]
    error: float | None = None
    learned: bool | None = None
    """Whether its promise was kept; where it makes none, whether the error is close to 0."""
    reason: str = ""

    def __str__(self) -> str:
        if self.outcome != "ran":
            return self.outcome
        if self.error is None:
            return "ran"
        if self.learned and self.error <= CLOSE:
            return "learned"
        return f"error {self.error:.2g}" + (" as promised" if self.learned else "")

    def to_json(self) -> dict[str, Any]:
        """JSON form of the entry."""
        return {"error": self.error, "learned": self.learned, "reason": self.reason}


def rows(columns: Sequence[str], epsilon: str, users: int, seed: int) -> Iterator[tuple[str, dict[str, TableEntry]]]:
    """One row for each installed strategy."""
    for name, strategy in registry().items():
        own = _FOUR if strategy.small is None else strategy.small
        parameters = {"users": "all", "epsilon": epsilon, **_accepted(strategy, own)}
        yield name, {column: entry(COLUMNS[column], strategy, parameters, users, seed) for column in columns}


def _accepted(strategy: Strategy, own: Parameters) -> Parameters:
    """Parameters of the small example; none if the strategy names no small example and refuses these."""
    try:
        strategy.schema(own)
    except AskanceError:
        return {} if strategy.small is None else own
    return own


def entry(column: OracleColumn, strategy: Strategy, parameters: Parameters, users: int, seed: int) -> TableEntry:
    """One entry: the worst result over the populations of its column."""
    try:
        if column.noisy and strategy.schema(planning.strategy_parameters(parameters)).label is None:
            return TableEntry("no labels", reason="examples: have no labels")
        eta = float(NOISE) if column.corrected else 0.0
        settings = [
            OracleSetting(strategy, parameters, population, users, seed, eta)
            for population in _populations(column, strategy, parameters, seed)
        ]
        runs = [run_once(setting, oracle_named(column.oracle)) for setting in settings]
    except AskanceError as error:
        return TableEntry("cannot", reason=str(error))
    return max((_entry(run) for run in runs), key=lambda each: (each.outcome != "ran", each.error or 0.0))


def _entry(run: SingleRun) -> TableEntry:
    if run.state != "finished":
        return TableEntry("cannot", reason=run.reason)
    error = run.error.value
    learned = run.success if run.success is not None or error is None else error <= CLOSE
    return TableEntry("ran", error, learned)


def _populations(column: OracleColumn, strategy: Strategy, parameters: Parameters, seed: int) -> list[Population]:
    """One population; for an adversary one for each mask bit, as a guess is right for one of two."""
    own: dict[str, int | bool | str] = {"eta": NOISE} if column.noisy else {}
    kind = strategy.examples or ""
    masked = kind in KINDS and "a" in KINDS[kind].parameters
    several = [{**own, "a": a} for a in (0, 1)] if masked and column.oracle == "adversarial" else [own]
    return [made_up(strategy, parameters, seed, each) for each in several]
