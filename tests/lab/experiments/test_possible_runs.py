"""What a strategy may ask at the most: what it declares holds of every run that is tried, and a false one is found."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from askance_lab.data.made_up import made_up
from askance_lab.experiments.planned_users import plan_enrolment, plan_study
from askance_lab.experiments.possible_runs import RoundTargets, asked, possible_runs
from askance_lab.oracles.local import study_for
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import Bit
from askance_protocol.schema import BitsField, Schema
from askance_server.core import planning
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Answer, Answering, Ask, Hypothesis, Parameters, Strategy
from askance_server.strategies.registry import registry

STRATEGIES: Final = registry()
SMALL: Final[Mapping[str, Sequence[Parameters]]] = {
    "conjunction-checked": [{"d": 4, "alpha": "0.2"}, {"d": 9, "alpha": "0.1"}],
    "decision-list": [{"d": 3, "alpha": "0.3"}, {"d": 6}],
    "decision-tree": [{"d": 3, "tolerance": "0.05"}, {"d": 5, "depth": 2}],
    "heavy-hitters": [{"d": 30, "share": "0.3"}, {"d": 17}],
    "heavy-hitters-at-once": [{"d": 8}],
    "kmeans": [{"d": 2, "k": 3}],
    "masked-parity": [{"d": 4}],
    "masked-parity-two-rounds": [{"d": 8}],
    "quantile": [
        {"cells": 256},
        {"cells": 37, "q": "0.9", "tolerance": "0.3"},
        {"cells": 100, "q": "0.05", "tolerance": "0.125"},
        {"cells": 9, "q": "0.97", "tolerance": "0.4"},
        {"cells": 2, "tolerance": "0.01"},
    ],
    "quantile-at-once": [{"cells": 16}],
}
"""Parameters of the strategies that declare their longest run."""


def answers(seed: int) -> Iterator[Answering]:
    """All kinds of answers, drawn anew for each run: near one value, wild, or about what a quarter of users say."""
    source = np.random.default_rng(seed)
    for spread in (0.0, 0.01, 0.1, 1.0):
        for centre in (0.0, 0.05, 0.5, 0.9, 1.0):
            yield drawn(source, centre, spread)


def drawn(source: np.random.Generator, centre: float, spread: float) -> Answering:
    def one(ask: Ask) -> Answer:
        if isinstance(ask.query, CellQuery):
            return centre + spread * source.normal(size=ask.query.cells)
        return float(centre + spread * source.normal())

    return lambda asks: [one(ask) for ask in asks]


def longer(strategy: Strategy, parameters: Parameters, seed: int = 1) -> str | None:
    """A run in which some round takes more than the same round of the run that is declared to be the longest."""
    population = made_up(strategy, parameters, seed)
    study = study_for(strategy, parameters, seed, population.schema)
    own = planning.strategy_parameters(parameters)
    runs = strategy.on(population.schema).planned(own)
    most = possible_runs(study, runs, lambda _: population, lambda *_: None, typical=False)
    targets = RoundTargets(study, runs.rounds)
    assert not most.tried
    for answer in answers(seed):
        try:
            found = [targets.of(asks) for asks in asked(runs, own, answer)]
        except StrategyError:
            continue
        if len(found) > len(most.targets) or any(map(int.__gt__, found, most.targets)):
            return f"{parameters}: {found} against {most.targets}"
    return None


@pytest.mark.parametrize("name", SMALL)
def test_no_run_asks_for_more_than_the_longest_that_is_declared(name: str) -> None:
    for parameters in SMALL[name]:
        assert longer(STRATEGIES[name], parameters) is None


def test_every_declaration_is_looked_at() -> None:
    assert {name for name, each in STRATEGIES.items() if each.longest is not None} == set(SMALL)


def test_control_a_false_declaration_is_found() -> None:
    """To a quantile the answer 1 bisects at once, and the tolerance is never halved."""
    assert longer(replace(STRATEGIES["quantile"], longest="ones"), {"cells": 256}) is not None


# ------------------------------------------------------------------------------------------- a strategy that says less

EXAMPLE: Final = Schema(fields=(BitsField(name="x", width=2),))


def searching(longest: Any = None, rounds: int = 5) -> Strategy:
    """Asks again, twice as sharply, as long as the answer is 0.3 or more: the truth is a half."""

    def run(parameters: Parameters) -> Generator[Sequence[Ask], Sequence[Answer], Hypothesis]:
        assert not parameters
        tolerance = 0.2
        for _ in range(3):
            [answer] = yield [Ask(BooleanQuery(test=Bit(field="x", index=0)), tolerance)]
            if float(np.max(answer)) < 0.3:
                break
            tolerance /= 2
        return Hypothesis("done", {})

    return Strategy("searching", "looks closer", True, rounds, lambda _: EXAMPLE, run, longest=longest)


def runs_of(strategy: Strategy) -> Any:
    study = study_for(strategy, {}, 1)
    return possible_runs(study, strategy, lambda seed: made_up(strategy, {}, seed), lambda *_: None)


def test_what_is_not_declared_is_tried_and_rounds_that_none_came_to_count_as_the_largest() -> None:
    found, targets = runs_of(searching()), RoundTargets(study_for(searching(), {}, 1), 5)
    [first, second, third] = (
        targets.of([Ask(BooleanQuery(test=Bit(field="x", index=0)), tolerance)]) for tolerance in (0.2, 0.1, 0.05)
    )

    assert found.tried > 10
    assert found.targets == (first, second, third, third, third)
    assert found.typical[0] == (first, second, third)


def test_what_is_declared_is_taken() -> None:
    found = runs_of(searching("ones"))
    assert (found.tried, len(found.targets)) == (0, 3)

    shorter = runs_of(searching(lambda _: lambda asks: [0.0 for _ in asks]))
    assert (shorter.tried, len(shorter.targets)) == (0, 1)


@pytest.mark.parametrize(
    "longest", [lambda _: 1 / 0, lambda _: lambda _: 1 / 0, lambda _: lambda _: [], lambda _: lambda _: None]
)
def test_a_declaration_that_cannot_be_used_is_an_error_that_names_it(longest: Any) -> None:
    with pytest.raises(StrategyError, match=r"searching\.longest"):
        runs_of(searching(longest))


def test_a_median_population_stands_for_a_typical_one() -> None:
    plan = plan_study("decision-list", {"d": 4, "alpha": "0.3"})
    assert plan.typical is not None
    assert (plan.typical.populations, plan.tried) == (5, 0)
    assert plan.typical.users < 0.8 * plan.enrol
    assert len(plan.rounds) == STRATEGIES["decision-list"].planned({"d": 4}).rounds


@pytest.mark.parametrize("name", ["mean", "masked-parity-pooled", "quantile"])
def test_the_number_alone_is_the_plans(name: str) -> None:
    parameters = {"masked-parity-pooled": {"d": 4}, "quantile": {"cells": 16}}.get(name, {})
    assert plan_enrolment(name, parameters) == plan_study(name, parameters).enrol
