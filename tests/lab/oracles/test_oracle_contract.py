"""One contract for every oracle that the registry finds: its counts, its seed, and how it refuses and fails.

A new oracle gets all of this by being there. Each check is a function of an `OracleKind`, so that the same check is run
against oracles in which a fault is planted, at the end of this file.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pytest

from askance_client.population import Population
from askance_lab.data.made_up import made_up
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.fresh import Fresh, fresh
from askance_lab.oracles.shared.crowds import People
from askance_lab.oracles.shared.oracle import Learned, Oracle, Spent, run
from askance_lab.oracles.shared.portions import evenly
from askance_lab.oracles.shared.registry import oracle_named, oracle_names
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.budget import MICRO
from askance_protocol.errors import AskanceError
from askance_protocol.examples import Columns
from askance_protocol.rounds import PreparedRound
from askance_server.core.planning import TooFewUsersError
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.registry import registry

STRATEGIES = registry()
SETTINGS: dict[str, Parameters] = {
    "masked-parity": {"d": 4},
    "conjunction": {"d": 4},
    "mean": {"tolerance": "0.1"},
    "histogram": {"cells": 4},
}
EPSILON = 4
USERS = 3001
"""A number that neither queries nor cells nor rounds divide."""

ORACLES = [pytest.param(name, marks=pytest.mark.slow) if name == "http" else name for name in oracle_names()]
ASKING = [name for name in oracle_names() if oracle_named(name).asks_users]
REPEATABLE = [name for name in oracle_names() if name != "http"]
"""Over HTTP the server draws a nonce for each study, and so other coins: `test_oracles` shows that under the same nonce
the users send the same reports as in process."""


# ----------------------------------------------------------------------------------------------------- the settings


@dataclass(frozen=True, eq=False)
class Watched(Population):
    """A population that notes whose examples are looked at."""

    of: Population
    looked: list[range] = field(default_factory=list[range])

    def columns(self, users: range) -> Columns:
        self.check(users)
        self.looked.append(users)
        return self.of.columns(users)


def watched(strategy: Strategy, parameters: Parameters, size: int | None = None) -> Watched:
    """Made-up users for a strategy; with a size, as many as a table has rows."""
    users = made_up(strategy, parameters, 1)
    return Watched(users.name, users.schema, size, users.truth, users.summary, users)


def setting_of(
    strategy: Strategy, parameters: Parameters, users: int = USERS, size: int | None = None
) -> tuple[OracleSetting, Watched]:
    population = watched(strategy, parameters, size)
    study = {"users": "all", "epsilon": str(EPSILON), **parameters}
    return OracleSetting(strategy, study, population, users), population


def counted(strategy: Strategy) -> tuple[Strategy, list[int]]:
    """The same strategy, which notes how many queries it asks in each round."""
    sizes: list[int] = []

    def counting(parameters: Parameters) -> Asking:
        sizes.clear()
        asking = strategy.run(parameters)
        try:
            asks = next(asking)
            while True:
                sizes.append(len(asks))
                asks = asking.send((yield asks))
        except StopIteration as learned:
            return learned.value

    return replace(strategy, run=counting), sizes


@runtime_checkable
class Planned(Protocol):
    """An oracle that plans rounds as a server does: it goes through all users, and asks a round's cohort."""

    @property
    def rounds(self) -> Sequence[PreparedRound]: ...


def times_asked(oracle: Oracle, population: Watched, users: int) -> np.ndarray:
    """How many times each user was asked."""
    times = np.zeros(users, np.int64)
    if isinstance(oracle, Planned):
        return sum((round_.asked(range(users)).astype(np.int64) for round_ in oracle.rounds), times)
    for some in population.looked:
        times[some.start : some.stop] += 1
    return times


# ------------------------------------------------------------------------------------------------------- the checks


def check_counts(kind: OracleKind, name: str) -> None:
    """What an oracle says that it took is what the strategy asked and what its users were asked."""
    strategy, sizes = counted(STRATEGIES[name])
    setting, population = setting_of(strategy, SETTINGS[name])
    with kind.open(setting) as oracle:
        learned = run(strategy, setting.own, oracle)
        spent, received, times = oracle.spent, tuple(oracle.received), times_asked(oracle, population, USERS)

    assert learned.hypothesis.text
    assert json.loads(json.dumps(dict(learned.hypothesis.value))) == learned.hypothesis.value
    assert (learned.rounds, learned.queries) == (len(sizes), sum(sizes))
    assert 1 <= learned.rounds <= strategy.rounds
    assert spent == Spent(learned.users, learned.max_spent_micro_epsilon)
    assert received == learned.received
    if not kind.asks_users:
        assert (learned.users, learned.received) == (0, ())
        assert learned.max_spent_micro_epsilon == 0
        return
    assert len(learned.received) == learned.rounds
    assert min(learned.received) > 0
    assert sum(learned.received) == learned.users == times.sum()
    assert times.max() == 1
    if kind.local or learned.max_spent_micro_epsilon is not None:
        assert learned.max_spent_micro_epsilon is not None
        assert 0 < learned.max_spent_micro_epsilon <= EPSILON * MICRO


def check_seed(kind: OracleKind, name: str) -> None:
    """The same seed gives the same, in all that was learned."""
    setting, _ = setting_of(STRATEGIES[name], SETTINGS[name])
    learned = list[Learned]()
    for _ in range(2):
        with kind.open(setting) as oracle:
            learned.append(run(setting.strategy, setting.own, oracle))

    assert learned[0] == learned[1]


def check_table(kind: OracleKind) -> None:
    """More users than a table has rows are refused, and no row has been looked at."""
    setting, population = setting_of(STRATEGIES["mean"], SETTINGS["mean"], USERS, USERS - 1)
    with pytest.raises(AskanceError) as refused, kind.open(setting) as oracle:
        run(setting.strategy, setting.own, oracle)

    assert refused.value.where == "users"
    assert not population.looked


def check_too_few(kind: OracleKind) -> None:
    """One user cannot answer several queries."""
    setting, _ = setting_of(STRATEGIES["masked-parity"], {"d": 4}, users=1)
    with kind.open(setting) as oracle, pytest.raises(TooFewUsersError):
        run(setting.strategy, setting.own, oracle)


def check_raising(kind: OracleKind, strategy: Strategy) -> None:
    """What a strategy raises ends its run, in one kind of error that says what it was."""
    setting, _ = setting_of(strategy, {})
    with kind.open(setting) as oracle, pytest.raises(StrategyError, match="raised ZeroDivisionError: mine"):
        run(strategy, setting.own, oracle)


def check_name(kind: OracleKind, name: str) -> None:
    assert kind.name == name
    assert kind.summary


# ------------------------------------------------------------------------------------------------------ the contract


@pytest.mark.parametrize("strategy", SETTINGS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_what_an_oracle_counts_is_what_was_asked(oracle: str, strategy: str) -> None:
    check_counts(oracle_named(oracle), strategy)


@pytest.mark.parametrize("strategy", SETTINGS)
@pytest.mark.parametrize("oracle", REPEATABLE)
def test_the_same_seed_gives_the_same_hypothesis(oracle: str, strategy: str) -> None:
    check_seed(oracle_named(oracle), strategy)


@pytest.mark.parametrize("oracle", oracle_names())
def test_too_many_users_for_a_table_are_refused_before_anybody_is_asked(oracle: str) -> None:
    check_table(oracle_named(oracle))


@pytest.mark.parametrize("oracle", [each for each in ORACLES if each in ASKING or not isinstance(each, str)])
def test_too_few_users_are_an_error_of_their_own(oracle: str) -> None:
    check_too_few(oracle_named(oracle))


RAISING = """
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Bit
from askance_protocol.schema import BitsField, Schema
from askance_server.core.strategy import Ask, Strategy


def run(parameters):
    yield [Ask(BooleanQuery(test=Bit(field="x", index=0)), 0.1)]
    raise ZeroDivisionError("mine")


RAISING = Strategy(
    "raising", "raises after a round", True, 2, schema=lambda _: Schema(fields=(BitsField(name="x", width=4),)), run=run
)
"""


@pytest.fixture
def raising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Strategy:
    """A strategy of an installed package: a server in another process finds it too."""
    module = tmp_path / "raising_strategy.py"
    module.write_text(RAISING)
    package = tmp_path / "raising_strategy-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: raising-strategy\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[askance.strategies]\nraising = raising_strategy:RAISING\n")
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    spec = importlib.util.spec_from_file_location("raising_strategy", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.RAISING


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_strategy_that_raises_ends_in_a_strategy_error(oracle: str, raising: Strategy) -> None:
    check_raising(oracle_named(oracle), raising)


@pytest.mark.parametrize("oracle", oracle_names())
def test_an_oracle_has_the_name_of_its_file(oracle: str) -> None:
    check_name(oracle_named(oracle), oracle)


# ------------------------------------------------------------------------------------------------ controls: counts

MISCOUNTS: dict[str, Callable[[Learned], Learned]] = {
    "a round too many": lambda seen: replace(seen, rounds=seen.rounds + 1),
    "a query too few": lambda seen: replace(seen, queries=seen.queries - 1),
    "a user too few": lambda seen: replace(seen, users=seen.users - 1),
    "a round without its users": lambda seen: replace(seen, received=seen.received[:-1]),
    "a user moved between rounds": lambda seen: replace(seen, received=(0, sum(seen.received))),
    "more than the study's epsilon": lambda seen: replace(seen, max_spent_micro_epsilon=EPSILON * MICRO + 1),
    "nothing spent": lambda seen: replace(seen, max_spent_micro_epsilon=0),
    "examples seen in the clear": lambda seen: replace(seen, max_spent_micro_epsilon=None),
    "no words": lambda seen: replace(seen, hypothesis=Hypothesis("", seen.hypothesis.value)),
}


@dataclass(slots=True)
class Forged(Oracle):
    """An oracle that learns as another does, and says something else about it, wherever it is asked."""

    of: Oracle
    forge: Callable[[Learned], Learned]
    said: Learned | None = None

    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:
        self.said = self.forge(self.of.learn(strategy, parameters))
        return self.said

    @property
    def spent(self) -> Spent:
        return self.of.spent if self.said is None else Spent(self.said.users, self.said.max_spent_micro_epsilon)

    @property
    def received(self) -> Sequence[int]:
        return self.of.received if self.said is None else self.said.received


def planted(
    build: Callable[[OracleSetting], Oracle | AbstractContextManager[Oracle]],
    *,
    asks_users: bool = True,
    name: str = "planted",
) -> OracleKind:
    return OracleKind(name, "has a fault", build, local=asks_users, asks_users=asks_users)


def opened(setting: OracleSetting) -> Oracle:
    """The oracle that the faults are planted in."""
    return fresh(setting)


def test_without_a_fault_the_planted_oracle_keeps_the_contract(raising: Strategy) -> None:
    kind = planted(lambda setting: Forged(opened(setting), lambda seen: seen))

    check_counts(kind, "masked-parity")
    check_seed(kind, "masked-parity")
    check_table(kind)
    check_too_few(kind)
    check_raising(kind, raising)
    check_name(kind, "planted")


@pytest.mark.parametrize("fault", MISCOUNTS)
def test_control_an_oracle_that_miscounts_is_found(fault: str) -> None:
    kind = planted(lambda setting: Forged(opened(setting), MISCOUNTS[fault]))

    with pytest.raises(AssertionError):
        check_counts(kind, "masked-parity")


def test_control_users_of_an_oracle_that_asks_nobody_are_found() -> None:
    kind = planted(
        lambda setting: Forged(Exact(setting.distribution), lambda seen: replace(seen, users=1)), asks_users=False
    )

    with pytest.raises(AssertionError):
        check_counts(kind, "mean")


class Forgetful(People):
    """A crowd that begins with its first users for each query, and counts as if they were others."""

    def _portion(self, users: range) -> Iterator[WeightedExamples]:
        return People._portion(self, range(len(users)))


def test_control_an_oracle_that_asks_a_user_twice_is_found() -> None:
    def build(setting: OracleSetting) -> Oracle:
        return Fresh(
            Forgetful(setting.population, setting.users), evenly(setting.strategy), micro_epsilon=setting.micro_epsilon
        )

    with pytest.raises(AssertionError):
        check_counts(planted(build), "masked-parity")


# ------------------------------------------------------------------------------------------------- controls: the rest


def test_control_an_oracle_with_a_seed_of_its_own_is_found() -> None:
    seeds = count()

    with pytest.raises(AssertionError):
        check_seed(planted(lambda setting: opened(replace(setting, seed=next(seeds)))), "mean")


def test_control_an_oracle_that_takes_the_rows_there_are_is_found() -> None:
    def build(setting: OracleSetting) -> Oracle:
        return opened(replace(setting, users=min(setting.users, setting.population.size or setting.users)))

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_table(planted(build, asks_users=False))


def test_control_an_oracle_that_refuses_after_it_has_looked_is_found() -> None:
    def build(setting: OracleSetting) -> Oracle:
        setting.population.columns(range(1))
        return opened(setting)

    with pytest.raises(AssertionError):
        check_table(planted(build, asks_users=False))


@dataclass(slots=True)
class Guessing(Fresh):
    """An oracle that answers 0 where nobody is left."""

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        try:
            return Fresh.answer(self, asks)
        except TooFewUsersError:
            return [0.0 for _ in asks]


def test_control_an_oracle_that_guesses_without_users_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_too_few(planted(lambda setting: Guessing(setting.people, evenly(setting.strategy))))


@dataclass(slots=True)
class Unguarded(Forged):
    """An oracle that runs a strategy without guarding it."""

    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:
        asking = strategy.run(parameters)
        asks = next(asking)
        while True:
            asks = asking.send([0.0 for _ in asks])


def test_control_an_oracle_that_lets_a_strategys_error_through_is_found(raising: Strategy) -> None:
    with pytest.raises(ZeroDivisionError):
        check_raising(planted(lambda setting: Unguarded(opened(setting), lambda seen: seen)), raising)


def test_control_an_oracle_of_another_name_is_found() -> None:
    with pytest.raises(AssertionError):
        check_name(planted(opened, name="another"), "planted")
