"""Learners that check what they learned: their promise, against the worst answers and over hostile users."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import pytest

from askance_client.simulation.population import synthetic
from askance_lab.oracles.local import LocalReports, study_for
from askance_protocol.concepts import DecisionListConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, prepare
from askance_server.core.planning import TooFewUsersError, strategy_parameters
from askance_server.core.strategy import Hypothesis, Learnt, Strategy
from askance_server.strategies.conjunction_checked import CONJUNCTION_CHECKED
from askance_server.strategies.decision_list_checked import DECISION_LIST_CHECKED, in_runs
from askance_server.strategies.decision_tree_checked import DECISION_TREE_CHECKED, positive
from askance_server.strategies.shared import lists
from askance_server.strategies.shared.checked import FIRST, portions, tolerances
from tests.server.learners import Lie, learn, value_of

LEARNERS: Final = (CONJUNCTION_CHECKED, DECISION_LIST_CHECKED, DECISION_TREE_CHECKED)
LIES: Final[list[Lie]] = [lambda _: 0.0, lambda _: 1.0, lambda _: -1.0, lambda k: (-1.0) ** k]
every = pytest.mark.parametrize("strategy", LEARNERS, ids=lambda strategy: strategy.name)


def wrong(strategy: Strategy, learned: Hypothesis, columns: Columns) -> float:
    """Share of the labels that a hypothesis does not give."""
    assert strategy.predict is not None
    return float((strategy.predict(value_of(learned), columns) != (columns["y"] == 1)).mean())


def hostile(seed: int, rows: int = 400, d: int = 5) -> Columns:
    """Bits that copy each other or hardly ever are 1, with labels that some hypothesis fits, or none."""
    source = np.random.default_rng(seed)
    x = (source.random((rows, d)) < source.choice([0.05, 0.3, 0.5, 0.95], d)).astype(int)
    copies = source.random(d) < 0.5
    x[:, copies] = x[:, [0]]
    chosen = source.choice(d, int(source.integers(0, 4)), replace=False)
    labels = [x[:, chosen].all(axis=1), x[:, chosen].sum(axis=1) % 2 == 0, source.random(rows) < 0.3]
    y = np.where(labels[seed % len(labels)], 1, -1)
    return Columns.of(CONJUNCTION_CHECKED.schema({"d": d}), {"x": x, "y": y})


@every
def test_what_is_checked_is_right_whatever_the_users_and_the_answers_within_tolerance(strategy: Strategy) -> None:
    counted = {True: 0, False: 0}
    for seed, lie in product(range(30), LIES):
        columns = hostile(seed)
        learned, asked = learn(strategy, {"d": 5, "alpha": "0.15"}, columns, lie)
        checked = value_of(learned)["checked"]
        counted[checked] += 1

        assert not checked or wrong(strategy, learned, columns) <= 0.15
        assert ("not checked" in learned.text) is not checked
        assert len(asked) <= strategy.planned({"d": 5, "alpha": "0.15"}).rounds

    assert min(counted.values()) >= 10, "labels that some hypothesis fits, and labels that none does"


@every
def test_control_answers_beyond_their_tolerance_pass_what_is_wrong(strategy: Strategy) -> None:
    wrongly = 0
    for seed in range(30):
        columns = hostile(seed)
        learned, _ = learn(strategy, {"d": 5, "alpha": "0.15"}, columns, lambda _: -8.0)
        wrongly += value_of(learned)["checked"] and wrong(strategy, learned, columns) > 0.15

    assert wrongly


@pytest.mark.parametrize("lie", LIES)
def test_a_conjunction_is_learned_to_its_error_whatever_the_distribution(lie: Lie) -> None:
    """BB-notes, Thm 5, at the end: whether it was checked or not."""
    for seed in range(0, 60, 3):
        columns = hostile(seed)
        learned, _ = learn(CONJUNCTION_CHECKED, {"d": 5, "alpha": "0.1"}, columns, lie)

        assert wrong(CONJUNCTION_CHECKED, learned, columns) <= 0.1


def test_a_list_is_learned_to_its_error_whatever_the_distribution() -> None:
    """At the end with the guarantee of decision-list, for labels that change less than four times along the list."""
    source = np.random.default_rng(5)
    for seed in range(20):
        columns = hostile(seed)
        rules = tuple((int(i), int(source.integers(2)), int(source.choice([-1, 1]))) for i in source.permutation(5)[:3])
        y = np.where(DecisionListConcept(rules, 1).positive(columns.arrays), 1, -1)
        labelled = Columns(columns.schema, {**columns.arrays, "y": y}, len(columns))
        learned, _ = learn(DECISION_LIST_CHECKED, {"d": 5, "alpha": "0.1"}, labelled)

        assert wrong(DECISION_LIST_CHECKED, learned, labelled) <= 0.1


def test_a_list_and_a_tree_are_asked_about_as_they_label() -> None:
    """The question of whether a hypothesis says +1 is what it predicts, for each x."""
    d = 4
    x = np.array(list(product((0, 1), repeat=d)))
    columns = Columns.of(CONJUNCTION_CHECKED.schema({"d": d}), {"x": x, "y": np.ones(16, int)})
    source = np.random.default_rng(2)
    for _ in range(50):
        rules = [(int(i), int(source.integers(2)), int(source.choice([-1, 1]))) for i in source.permutation(d)[:3]]
        value: Learnt = {"rules": rules, "otherwise": int(source.choice([-1, 1]))}
        asked = prepare(BooleanQuery(test=lists.positive(d, rules, value["otherwise"])), columns.schema)
        assert DECISION_LIST_CHECKED.predict is not None
        assert (asked.answers(columns) == DECISION_LIST_CHECKED.predict(value, columns)).all()
    tree: Learnt = {"bit": 1, "one": {"bit": 0, "one": -1, "zero": 1}, "zero": -1}
    assert DECISION_TREE_CHECKED.predict is not None
    for each in (tree, 1, -1):
        asked = prepare(BooleanQuery(test=positive(each)), columns.schema)
        assert (asked.answers(columns) == DECISION_TREE_CHECKED.predict({"tree": each}, columns)).all()


def test_a_list_of_more_runs_than_a_question_has_room_for_ends_earlier() -> None:
    rules = [(i, 1, 1 - 2 * (i % 2)) for i in range(60)]

    assert in_runs(rules) == rules[:40]
    assert in_runs([(i, 1, 1) for i in range(60)]) == [(i, 1, 1) for i in range(60)]


@pytest.mark.parametrize(("last", "most"), [(0.01, 16), (1e-5, 6), (0.12, 16), (0.5, 6)])
def test_tolerances_get_smaller_by_one_step_down_to_the_last(last: float, most: int) -> None:
    found = tolerances(last, 1.5, most)
    steps = [a / b for a, b in pairwise(found)]

    assert found[-1] == pytest.approx(last)
    assert found[0] == pytest.approx(max(last, FIRST)) if last < FIRST else found == (last,)
    assert len(found) <= most
    assert max(steps, default=1) / min(steps, default=1) == pytest.approx(1)


def test_each_attempt_takes_half_of_the_users_of_the_one_before_down_to_a_floor() -> None:
    assert portions(8, (3, 1))[::2] == (96, 48, 24, 12, 6, 3, 3, 3)
    assert all(ask == 3 * check for ask, check in zip(portions(8, (3, 1))[::2], portions(8, (3, 1))[1::2], strict=True))


# ------------------------------------------------------------------------------------------------------------ users


def studied(
    strategy: Strategy, parameters: dict[str, Any], own: dict[str, Any], users: int, seeds: Sequence[int]
) -> list[tuple[Learnt, float]]:
    """What is learned from users whose bits copy each other, and how wrong it is of fresh ones."""
    found = list[tuple[Learnt, float]]()
    for seed in seeds:
        population = synthetic("copied-bits", {"d": parameters["d"], **own}, seed)
        study = study_for(strategy, parameters, seed)
        learned = LocalReports(study, strategy, population, users, seed).learn(
            strategy, strategy_parameters(parameters)
        )
        fresh = population.columns(range(10**9, 10**9 + 20_000))
        found.append((learned.hypothesis.value, wrong(strategy, learned.hypothesis, fresh)))
    return found


HOSTILE: Final[dict[str, dict[str, Any]]] = {
    "copies": {"copied": "0.9", "bias": "0.7"},
    "rare": {"bias": "0.2", "copied": "0.1"},
    "no hypothesis": {"labels": "parity", "relevant": 4, "copied": "0.1"},
    "a longer list": {"labels": "list", "relevant": 6, "copied": "0.2", "bias": "0.3"},
}


@every
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("users", ["needed", "all"])
def test_users_who_are_drawn_to_hurt_are_learned_from_or_the_hypothesis_says_that_it_is_not_checked(
    strategy: Strategy, name: str, users: str
) -> None:
    """β = 1 in 1000: not one of these may be checked and wrong."""
    parameters = {"d": 6, "alpha": "0.15", "users": users, "beta": "0.001", "epsilon": "4"}
    count = {"needed": 250_000, "all": 6_000}[users]
    try:
        found = studied(strategy, parameters, HOSTILE[name], count, range(2))
    except TooFewUsersError:
        return  # Refused: then nothing is promised.
    for value, error in found:
        assert not value["checked"] or error <= 0.16
