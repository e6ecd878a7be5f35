"""Made-up users for a strategy: those it names, those that are asked for, and those drawn over its schema."""

from __future__ import annotations

from typing import Any

import pytest

from askance_client.simulation.population import KINDS
from askance_lab.data.made_up import made_up, split_parameters
from askance_protocol.errors import AskanceError, ProtocolError, UsageError
from askance_protocol.schema import BitsField, IntegerField, LabelField, RealField, Schema
from askance_server.core.strategy import Strategy
from askance_server.strategies.registry import registry

STRATEGIES = registry()
X = RealField(name="x0", low=-1, high=1, denominator=1000)
LABEL = LabelField(name="y")


@pytest.mark.parametrize(
    ("strategy", "study", "fields"),
    [
        ("mean", {"tolerance": "0.05", "denominator": 10}, (RealField(name="value", low=-1, high=1, denominator=10),)),
        ("histogram", {"cells": 5, "tolerance": "0.1"}, (IntegerField(name="cell", low=0, high=4),)),
        ("conjunction", {"d": 9, "alpha": "0.1"}, (BitsField(name="x", width=9), LABEL)),
        (
            "masked-parity-pooled",
            {"d": 8},
            (
                BitsField(name="x", width=8),
                IntegerField(name="i", low=0, high=7),
                BitsField(name="b", width=1),
                LABEL,
            ),
        ),
        ("perceptron", {"d": 1}, (X, LABEL)),
    ],
)
def test_a_strategys_users_have_the_examples_that_it_asks_about(
    strategy: str, study: dict[str, Any], fields: tuple[Any, ...]
) -> None:
    assert made_up(STRATEGIES[strategy], study, 1).schema == Schema(fields=fields)


def test_strategies_learn_from_kinds_that_there_are() -> None:
    # A poll asks whoever is in a room.
    assert {each.examples for each in STRATEGIES.values()} - {STRATEGIES["poll"].examples} <= set(KINDS)
    assert STRATEGIES["poll"].examples is None


def test_a_populations_own_parameters_go_with_those_of_the_study() -> None:
    population = made_up(STRATEGIES["masked-parity"], {"d": 4}, 1, {"r": "0110", "a": 1, "eta": "0.1"})

    assert population.truth == {"r": "0110", "a": 1}
    assert "flipped with chance 0.1" in population.summary


MINE = Strategy("mine", "somebody else's", False, 1, schema=STRATEGIES["parity"].schema, run=STRATEGIES["parity"].run)


def test_a_strategy_that_names_no_users_gets_them_over_its_schema() -> None:
    population = made_up(MINE, {"d": 5}, 1)

    assert population.schema == STRATEGIES["parity"].schema({"d": 5})
    assert population.truth == {}
    with pytest.raises(UsageError, match="names no kind of users"):
        made_up(MINE, {"d": 5}, 1, {"eta": "0.1"})


def test_other_users_can_be_asked_for() -> None:
    assert made_up(MINE, {"d": 5}, 1, kind="parity").truth.keys() == {"r"}
    assert made_up(STRATEGIES["parity"], {"d": 5}, 1, kind="conjunction").truth.keys() == {"variables"}
    with pytest.raises(UsageError, match="have other examples than 'mine' learns from"):
        made_up(MINE, {"d": 5}, 1, kind="mean")
    with pytest.raises(AskanceError, match="is not a kind of population"):
        made_up(MINE, {"d": 5}, 1, kind="nobody")


@pytest.mark.parametrize(
    ("strategy", "given", "kind", "expected"),
    [
        ("conjunction", {"d": 4, "relevant": 2}, None, ({"d": 4}, {"relevant": 2})),
        ("conjunction", {"d": 4, "alpha": "0.2"}, None, ({"d": 4, "alpha": "0.2"}, {})),
        ("parity", {"d": 4, "relevant": 2, "bias": "0.1"}, "conjunction", ({"d": 4}, {"relevant": 2, "bias": "0.1"})),
        # How noisy labels are is the study's to know, and the users' to have.
        ("parity", {"d": 4, "eta": "0.1"}, "conjunction", ({"d": 4, "eta": "0.1"}, {})),
    ],
)
def test_what_the_strategy_refuses_and_its_users_have_is_theirs(
    strategy: str, given: dict[str, Any], kind: str | None, expected: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    assert split_parameters(STRATEGIES[strategy], given, kind) == expected


def test_a_wrong_value_of_what_both_know_is_refused_as_the_strategy_refuses_it() -> None:
    """Not as missing, which it is only after it was given to the users."""
    with pytest.raises(ProtocolError, match=r"parameters\.d: is not a power of two"):
        split_parameters(STRATEGIES["masked-parity"], {"d": 3}, None)


def test_what_neither_knows_is_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match=r"parameters\.mass: is not a parameter here"):
        split_parameters(STRATEGIES["parity"], {"d": 4, "mass": "0.1"}, None)
