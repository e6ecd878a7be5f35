"""So many users as `askance plan` says suffice: no round is refused, and what a strategy promises is kept.

Whether a round is refused follows from the numbers of users in its slots, which are multinomial: so the server's own
plan is made over drawn slots, for every strategy, whatever its parameters and however many users. Whether a promise
is kept is looked at in whole studies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
import pytest
from scipy import stats

from askance_client.simulation.population import over_schema
from askance_lab.data.made_up import made_up, split_parameters
from askance_lab.evaluation.error import error_of
from askance_lab.evaluation.exact import is_kept
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.experiments.enrolment import fullest_slot, users_to_enrol
from askance_lab.experiments.planned_users import plan_study
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.local import learned_by, study_for
from askance_lab.run_study import run_study
from askance_protocol.channels import BinaryResponse
from askance_protocol.coins import MAX_USER
from askance_protocol.rounds import Cause
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.core import planning
from askance_server.core.planners import worst_proportion
from askance_server.core.planning import SLOTS, RoundPosition, TooFewUsersError, with_spare
from askance_server.core.run import Run
from askance_server.core.strategy import Ask, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import MASKED_PARITY
from askance_server.strategies.registry import registry

Mode = Literal["needed", "all"]
MODES: Final[tuple[Mode, ...]] = ("needed", "all")
STRATEGIES: Final = registry()
LARGEST: Final = MAX_USER
"""More users are in no cohort."""


# --------------------------------------------------------------------------------------- whatever the parameters are

Draw = Callable[[np.random.Generator], dict[str, Any]]


def decimal(source: np.random.Generator, low: float, high: float) -> str:
    """A decimal between two, as often small as large."""
    return f"{np.exp(source.uniform(np.log(low), np.log(high))):.5f}"


def power(source: np.random.Generator) -> int:
    return 2 ** int(source.integers(1, 7))


OWN: Final[Mapping[str, Draw]] = {
    "conjunction": lambda s: {"d": int(s.integers(1, 65)), "alpha": decimal(s, 0.001, 0.99)},
    "conjunction-checked": lambda s: {"d": int(s.integers(1, 65)), "alpha": decimal(s, 0.01, 0.99)},
    "decision-list": lambda s: {"d": int(s.integers(1, 17)), "alpha": decimal(s, 0.01, 0.99)},
    "decision-list-checked": lambda s: {"d": int(s.integers(1, 9)), "alpha": decimal(s, 0.05, 0.99)},
    "decision-tree-checked": lambda s: {"d": int(s.integers(1, 9)), "alpha": decimal(s, 0.05, 0.99)},
    "decision-tree": lambda s: {
        "d": int(s.integers(2, 9)),
        "depth": int(s.integers(1, 5)),
        "tolerance": decimal(s, 0.001, 0.5),
    },
    "histogram": lambda s: {"cells": int(s.integers(2, 500)), "tolerance": decimal(s, 0.001, 0.9)},
    "heavy-hitters": lambda s: {"d": int(s.integers(1, 65)), "share": decimal(s, 0.1, 0.9)},
    "heavy-hitters-at-once": lambda s: {"d": int(s.integers(1, 25)), "share": decimal(s, 0.1, 0.9)},
    "kmeans": lambda s: {"d": 2, "k": int(s.integers(2, 5)), "tolerance": decimal(s, 0.005, 0.9)},
    "masked-parity": lambda s: {"d": power(s)},
    "masked-parity-noninteractive": lambda s: {"d": power(s)},
    "masked-parity-pooled": lambda s: {"d": power(s)},
    "masked-parity-two-rounds": lambda s: {"d": power(s)},
    "masked-parity-until-sure": lambda s: {"d": power(s)},
    "masked-parity-weak": lambda s: {"d": power(s)},
    "mean": lambda s: {"tolerance": decimal(s, 0.0005, 0.95)},
    "parity": lambda s: {"d": int(s.integers(1, 8))},
    "perceptron": lambda s: {"d": int(s.integers(1, 9)), "tolerance": decimal(s, 0.005, 0.5)},
    "poll": lambda _: {},
    "quantile": lambda s: {"cells": int(s.integers(2, 500)), "tolerance": decimal(s, 0.005, 0.9)},
    "quantile-at-once": lambda s: {"cells": int(s.integers(2, 100)), "tolerance": decimal(s, 0.02, 0.9)},
    "survey": lambda s: {
        "ask1": "mean(minutes, 0, 120)",
        "ask2": "share(country)",
        **({"ask3": "share(plan = 'pro')"} if s.integers(2) else {}),
        "width": decimal(s, 0.01, 0.9),
    },
}
POLLED: Final = (
    Schema(fields=(CategoryField(name="answer", values=("yes", "no"), gap=True),)),
    Schema(fields=(CategoryField(name="answer", values=("a", "b", "c", "d", "e")),)),
    Schema(fields=(IntegerField(name="answer", low=1, high=10, gap=True),)),
    Schema(fields=(IntegerField(name="answer", low=-3, high=400),)),
)
"""What a poll asks about."""


def example_of(name: str, number: int) -> Schema | None:
    """The examples of a case, where they are not told by its parameters."""
    return POLLED[number % len(POLLED)] if name == "poll" else None


EXTREMES: Final = [("0.01", "0.000001"), ("16", "0.99"), ("16", "0.000001"), ("0.01", "0.99"), ("1", "0.05")]


def cases(name: str) -> list[Parameters]:
    """Random parameters within the domain of a strategy, at ε and β of the ends and between them."""
    source = np.random.default_rng([12, *name.encode()])
    between = [(decimal(source, 0.02, 10), decimal(source, 1e-4, 0.9)) for _ in range(2)]
    return [{**OWN[name](source), "epsilon": epsilon, "beta": beta} for epsilon, beta in [*EXTREMES, *between]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A strategy at some parameters, and what it asks of users of a seed."""

    parameters: Parameters
    portion: Callable[[int], Any]
    demands: tuple[planning.Demand, ...]


def asked(name: str, parameters: Parameters, seed: int, example: Schema | None = None) -> Asked:
    """What a strategy asks if its answers are off by noise that stays within their tolerance."""
    mine, own = split_parameters(STRATEGIES[name], parameters, None)
    population = made_up(STRATEGIES[name], mine, seed, own, None) if example is None else over_schema(example, seed)
    strategy = STRATEGIES[name].on(population.schema).planned(planning.strategy_parameters(mine))
    study, source = study_for(strategy, mine, seed, population.schema), np.random.default_rng(seed)
    oracle = Exact(WeightedExamples(population.columns(range(4000))))
    run, demands = Run(strategy, planning.strategy_parameters(mine)), list[planning.Demand]()
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        demands.append(planning.demand(study, said, strategy.rounds))
        said = run.step([off(ask, answer, source) for ask, answer in zip(said, oracle.answer(said), strict=True)])
    return Asked(mine, strategy.portion, tuple(demands))


def off(ask: Ask, answer: Any, source: np.random.Generator) -> Any:
    noise = source.normal(0, ask.tolerance / 4, np.shape(answer)).clip(-ask.tolerance, ask.tolerance)
    return answer + (noise if np.ndim(answer) else float(noise))


def refused(case: Asked, users: int, mode: Mode, seed: int) -> str | None:
    """Why the server would refuse a round of this study with so many users, or give it less than it needs."""
    strategy_parameters = {**case.parameters, "users": mode}
    study = study_for(MASKED_PARITY, {"d": 2, "users": mode, "epsilon": "1"}, seed)
    payers = np.random.default_rng([seed, 5]).multinomial(users, np.full(SLOTS, 1 / SLOTS))
    first = 0
    for number, demand in enumerate(case.demands, 1):
        place = RoundPosition(number, case.portion(number), first)
        try:
            spec = planning.plan_round(study, demand, place, users, payers, 0)
        except TooFewUsersError as error:
            return str(error)
        first += spec.cohort.slot_count
        has = int(payers[spec.cohort.first_slot : first].sum())
        if has < demand.target:
            return f"round {number} of {strategy_parameters}: {has} users, and needs {demand.target}"
    return None


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_round_is_refused_and_none_is_short_whatever_the_parameters_are(name: str) -> None:
    for number, parameters in enumerate(cases(name)):
        example = example_of(name, number)
        enrol = plan_study(name, parameters, example=example).enrol
        if enrol > LARGEST:
            continue
        for seed in (1, 2):
            case = asked(name, parameters, seed, example)
            for mode in MODES:
                assert refused(case, enrol, mode, seed) is None, (number, parameters, enrol)


@pytest.mark.parametrize("mode", MODES)
def test_control_the_sum_of_what_the_rounds_need_is_found_to_be_too_few(mode: Mode) -> None:
    """What `plan` told before there was another number: 62,704,833 at d = 64, and 1,660 at d = 2."""
    for d in (2, 64):
        planned = sum(each.planned for each in plan_study("masked-parity", {"d": d}).rounds)
        found = refused(asked("masked-parity", {"d": d}, 1), planned, mode, 1)
        assert found is not None


def test_a_plan_that_is_not_adaptive_asks_little_more_than_its_target() -> None:
    for name, parameters in (("mean", {}), ("conjunction", {"d": 4}), ("masked-parity-weak", {"d": 8})):
        plan = plan_study(name, parameters)
        assert plan.rounds[0].planned < plan.enrol <= plan.rounds[0].planned * 1.06


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4", "16"])
@pytest.mark.parametrize("beta", ["0.001", "0.5"])
@pytest.mark.parametrize("tolerance", ["0.02", "0.3", "0.95"])
def test_exactly_so_many_reports_are_within_the_tolerance(tolerance: str, beta: str, epsilon: str) -> None:
    """By exact tails at the worst mean: a number of reports above the least that suffices need not suffice."""
    parameters = {"tolerance": tolerance, "epsilon": epsilon, "beta": beta}
    enrol = plan_study("mean", parameters).enrol
    table = BinaryResponse(round(1e6 * float(epsilon))).table()
    keep = int(table[1][1]) / 2**64
    worst = worst_proportion(enrol, float(tolerance) * (2 * keep - 1) / 2, 1 - keep, keep)
    assert worst.failure <= float(beta)


def test_no_slot_is_fuller() -> None:
    source = np.random.default_rng(1)
    for users in (1, 1000, 65536, 10**7, 10**12, MAX_USER):
        fullest = source.multinomial(users, np.full(SLOTS, 1 / SLOTS), size=5).max()
        assert users / SLOTS < fullest <= fullest_slot(users)
        # And it is no loose bound.
        assert fullest_slot(users) < fullest + 10 + 6 * (users / SLOTS) ** 0.5


def test_the_more_rounds_the_more_users() -> None:
    assert users_to_enrol(MASKED_PARITY, [900]) < users_to_enrol(MASKED_PARITY, [900, 100])
    assert users_to_enrol(MASKED_PARITY, [900, 100]) < users_to_enrol(MASKED_PARITY, [900, 100], [900, 400])


def chernoff(users: int, more: int) -> float:
    """Logarithm of the bound for a slot to have so many more users than the mean, or still more."""
    mean = users / SLOTS
    return more - (mean + more) * math.log1p(more / mean)


@pytest.mark.parametrize("users", [1, 5, 900, 65_536, 10**6, 123_456_789, 10**12])
def test_the_fullest_slot_is_the_least_number_that_the_bound_gives(users: int) -> None:
    found, rare = fullest_slot(users), math.log(2.0**-40 / SLOTS)
    more = next(each for each in range(1, 10**6) if chernoff(users, each) <= rare)

    assert found == math.ceil(users / SLOTS + more)
    # A slot holds as many with no greater probability than the bound says, by the exact tail.
    assert stats.binom.logsf(found - 1, users, 1 / SLOTS) <= rare


def suffices(strategy: Strategy, targets: Sequence[int], users: int) -> dict[Mode, bool]:
    """Whether so many users are enough where every round takes as many more than it asks for as a slot may have."""
    beyond = fullest_slot(users) - 1
    left: dict[Mode, int] = dict.fromkeys(MODES, users)
    enough: dict[Mode, bool] = dict.fromkeys(MODES, True)
    for number, target in enumerate(targets, 1):
        taken: dict[Mode, int] = {"needed": with_spare(target), "all": int(left["all"] * strategy.portion(number))}
        enough["needed"] &= taken["needed"] <= left["needed"]
        enough["all"] &= taken["all"] >= target
        for mode in MODES:
            left[mode] -= taken[mode] + beyond
    return enough


TARGETS: Final = [[1], [20], [900], [900, 100], [100, 900], [40_000, 7, 7], [5_000_000, 2_000_000], [300] * 7]


@pytest.mark.parametrize("targets", TARGETS, ids=str)
def test_so_many_users_are_the_least_that_suffice_whichever_way_rounds_take_them(targets: list[int]) -> None:
    rounds = len(targets)
    for portions in ((), (9, *([1] * (rounds - 1))), (1,) * rounds):
        strategy = replace(MASKED_PARITY, rounds=rounds, portions=portions)
        enrol = users_to_enrol(strategy, targets)

        assert all(suffices(strategy, targets, enrol).values())
        # The control, and no user more than has to be.
        assert not all(suffices(strategy, targets, enrol - 1).values())


def test_a_longer_run_counts_where_each_round_takes_what_it_needs() -> None:
    longer = users_to_enrol(MASKED_PARITY, [900], [900, 400])

    assert suffices(MASKED_PARITY, [900, 400], longer)["needed"]
    assert not suffices(MASKED_PARITY, [900, 400], longer - 1)["needed"]
    # Of all, a tenth is left for the second round: it has that, and nobody enrols more for it.
    assert not suffices(MASKED_PARITY, [900, 400], longer)["all"]


# -------------------------------------------------------------------------------------------------- what is promised

BETA: Final = "0.2"
MISSES_ALLOWED: Final = 1e-6
SEEDS: Final = 30
SMALL: Final[Mapping[str, Parameters]] = {
    "conjunction": {"d": 2, "alpha": "0.6", "epsilon": "2"},
    "conjunction-checked": {"d": 2, "alpha": "0.6", "epsilon": "2"},
    "decision-list": {"d": 1, "alpha": "0.9", "epsilon": "4"},
    "decision-list-checked": {"d": 1, "alpha": "0.9", "epsilon": "4"},
    "decision-tree-checked": {"d": 1, "alpha": "0.9", "epsilon": "4"},
    "heavy-hitters": {"d": 3, "share": "0.4"},
    "heavy-hitters-at-once": {"d": 2, "share": "0.6", "epsilon": "2"},
    "histogram": {"cells": 3, "tolerance": "0.1"},
    "masked-parity": {"d": 2},
    "masked-parity-noninteractive": {"d": 2},
    "masked-parity-pooled": {"d": 2, "epsilon": "2"},
    "masked-parity-two-rounds": {"d": 4},
    "masked-parity-until-sure": {"d": 2, "epsilon": "2"},
    "masked-parity-weak": {"d": 4},
    "mean": {"tolerance": "0.1"},
    "parity": {"d": 2},
    "quantile": {"cells": 4, "tolerance": "0.2"},
    "quantile-at-once": {"cells": 4, "tolerance": "0.2"},
}


@cache
def enrolment(name: str) -> int:
    return plan_study(name, {**SMALL[name], "beta": BETA}).enrol


def broken(name: str, users: int, mode: Mode) -> int:
    """Of studies with so many users, those that were refused or broke the strategy's promise."""
    return sum(not kept(name, users, mode, seed) for seed in range(SEEDS))


def kept(name: str, users: int, mode: Mode, seed: int) -> bool:
    strategy, parameters = STRATEGIES[name], {"users": mode, "epsilon": "1", **SMALL[name], "beta": BETA}
    population = made_up(strategy, parameters, seed)
    view = run_study(study_for(strategy, parameters, seed), strategy, population, users, seed)
    if view.end.cause is not Cause.LEARNED:
        return False
    error = error_of(strategy, learned_by(view).value, population, users)
    found = is_kept(strategy, planning.strategy_parameters(parameters), error.value)
    assert found is not None
    return found


def too_many(failures: int) -> bool:
    """Whether so many of the studies fail with probability 10⁻⁶ at most, if one fails with probability β."""
    return bool(stats.binom.sf(failures - 1, SEEDS, float(BETA)) < MISSES_ALLOWED)


def promising() -> Sequence[str]:
    return [name for name, strategy in STRATEGIES.items() if strategy.promise is not None]


def test_every_promise_is_looked_at() -> None:
    assert set(promising()) == set(SMALL)
    assert set(OWN) == set(STRATEGIES)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SMALL)
def test_whoever_enrols_so_many_is_promised_what_the_strategy_promises(name: str, mode: Mode) -> None:
    assert not too_many(broken(name, enrolment(name), mode))


@pytest.mark.parametrize("name", ["masked-parity", "mean"])
def test_control_one_in_forty_of_them_is_found_to_be_too_few(name: str) -> None:
    assert too_many(broken(name, enrolment(name) // 40, "all"))


def test_control_one_user_less_than_a_round_needs_is_refused() -> None:
    needed = sum(each.planned for each in plan_study("masked-parity", {**SMALL["masked-parity"], "beta": BETA}).rounds)
    assert broken("masked-parity", needed - 1, "needed") == SEEDS
