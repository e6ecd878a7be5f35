"""The accuracy that users there are can meet: the plan, read the other way; and what a run says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from askance_lab.experiments import accuracy, plan_of_run
from askance_lab.experiments.accuracy import UnmetValue, accuracy_parameter, accuracy_with
from askance_lab.experiments.plan_of_run import plan_of_run as planned
from askance_lab.experiments.planned_users import plan_enrolment
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters
from askance_server.strategies.registry import registry

STRATEGIES: Final = registry()
CASES: Final[Mapping[str, tuple[Parameters, int, str]]] = {
    "conjunction": ({"d": 4}, 50_000, "alpha"),
    "decision-list": ({"d": 2}, 300_000, "alpha"),
    "heavy-hitters": ({"d": 6}, 12_000, "share"),
    "histogram": ({"cells": 4}, 3_000, "tolerance"),
    "masked-parity": ({"d": 2}, 2_000, "beta"),
    "mean": ({}, 2_500, "tolerance"),
    "quantile": ({"cells": 8}, 20_000, "tolerance"),
}


def just_below(value: str) -> str:
    """The next of the grid of three digits."""
    exponent = len(value) - 2 if len(value.lstrip("0.")) >= 3 else len(value) - 2 + 3 - len(value.lstrip("0."))
    return f"{float(value) - 10**-exponent:.{exponent}f}"


@pytest.mark.parametrize("name", CASES)
def test_so_many_users_meet_it_and_nothing_sharper(name: str) -> None:
    parameters, users, parameter = CASES[name]
    found = accuracy_with(STRATEGIES[name], parameters, users)

    assert found is not None
    assert (found.parameter, found.met) == (parameter, True)
    assert found.enrol == plan_enrolment(name, {**parameters, parameter: found.value}) <= users
    assert plan_enrolment(name, {**parameters, parameter: just_below(found.value)}) > users


def test_too_few_users_for_anything_are_told_the_fewest() -> None:
    found = accuracy_with(STRATEGIES["conjunction"], {"d": 8}, 1_000)

    assert found is not None
    assert (found.met, found.value) == (False, "0.999")
    assert found.enrol == plan_enrolment("conjunction", {"d": 8, "alpha": "0.999"}) > 1_000


def test_what_cannot_be_planned_at_all_is_none() -> None:
    assert accuracy_with(STRATEGIES["masked-parity"], {"d": 5}, 1_000) is None


@pytest.mark.parametrize("users", [900, 2_500, 7_000])
def test_beyond_a_value_the_same_is_found_with_fewer_plans(users: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[Any]()
    monkeypatch.setattr(accuracy, "plan_enrolment", lambda *given: (tried.append(given), plan_enrolment(*given))[1])
    whole = accuracy_with(STRATEGIES["mean"], {"tolerance": "0.05"}, users, digits=2)
    many = len(tried)
    beyond = UnmetValue(0.05, plan_enrolment("mean", {"tolerance": "0.05"}))

    assert accuracy_with(STRATEGIES["mean"], {"tolerance": "0.05"}, users, digits=2, beyond=beyond) == whole
    assert len(tried) - many <= 5 < many


def test_the_parameter_is_the_one_that_the_strategy_reads() -> None:
    assert accuracy_parameter(STRATEGIES["mean"], {}) == "tolerance"
    assert accuracy_parameter(STRATEGIES["masked-parity"], {"d": 4}) == "beta"


# --------------------------------------------------------------------------------------------------- beside a run


def test_a_run_with_fewer_users_than_planned_says_what_they_meet() -> None:
    found = planned(STRATEGIES["mean"], {"tolerance": "0.05", "epsilon": "1"}, 1_000)

    assert found is not None
    assert found.sentence == f"Planned for {found.enrol:,} users: 1,000 meet tolerance = 0.14."
    assert found.to_json() == {
        "enrol": plan_enrolment("mean", {}),
        "enough": False,
        "meets": {"parameter": "tolerance", "value": "0.14"},
    }


def test_a_run_with_enough_users_says_nothing() -> None:
    found = planned(STRATEGIES["mean"], {"epsilon": "1"}, 10_000)

    assert found is not None
    assert (found.sentence, found.to_json()["enough"], found.to_json()["meets"]) == ("", True, None)


def test_a_run_with_too_few_for_anything_says_the_fewest() -> None:
    found = planned(STRATEGIES["conjunction"], {"d": 8, "epsilon": "1"}, 500)

    assert found is not None
    assert "500 are below the 21," in found.sentence
    assert found.to_json()["meets"] is None


def test_what_has_to_be_tried_out_is_not_planned_beside_a_run() -> None:
    assert planned(STRATEGIES["masked-parity-pooled"], {"d": 4, "epsilon": "1"}, 1_000) is None


def test_a_run_is_never_failed_by_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise ProtocolError("cannot be planned")

    monkeypatch.setattr(plan_of_run, "plan_enrolment", refuse)
    assert planned(STRATEGIES["mean"], {"epsilon": "1"}, 1_000) is None
