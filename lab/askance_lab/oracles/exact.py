"""The exact oracle: E[g] itself, over a known distribution or over all the examples there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from askance_lab.evaluation.weighted import WeightedExamples, histogram, mean
from askance_lab.oracles.shared.oracle import Oracle, Spent, SQOracle
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.queries import prepare
from askance_server.core.strategy import Answer, Ask


@dataclass(frozen=True, slots=True)
class Exact(SQOracle):
    """KLNRS11, Def. 5.4, without any error. Without weights each row is equally likely."""

    examples: WeightedExamples

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Exact expectations of the queries."""
        return [self.expectation(ask) for ask in asks]

    def expectation(self, ask: Ask) -> Answer:
        """Exact expectation of one query."""
        query = prepare(ask.query, self.examples.columns.schema)
        return mean(ask.query, histogram(query, self.examples))

    @property
    def spent(self) -> Spent:
        """Nothing: no user is asked."""
        return Spent()


def _exact(setting: OracleSetting) -> Oracle:
    return Exact(setting.distribution)


ORACLE: Final = OracleKind("exact", "the expectation itself, without any error", _exact, asks_users=False)
