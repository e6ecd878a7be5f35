"""`/v1/studies/{id}/result`: how sure a study is of what it found, while it runs and when it has ended."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from askance_protocol.remembering import Remembered
from askance_server import app, driver
from askance_server.core.estimates import FirstEstimates
from askance_server.core.estimators import clopper_pearson
from askance_server.core.strategy import Estimate, Estimating, Parameters, Strategy
from askance_server.strategies.registry import Registry, registry
from tests.harness.servers import Json, Service

USERS: Json = {"users": "all", "tolerance": "0.3"}


@pytest.fixture
def api(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="1") as service:
        yield service


def result(api: Service, study: Json) -> Json:
    found: Json = api.get(f"/v1/studies/{study['id']}/result").json()
    return found


def test_a_result_has_the_interval_of_each_estimate(api: Service) -> None:
    tokens = api.enrol(20)
    study = api.study(parameters=USERS)
    empty = result(api, study)
    for number, token in enumerate(tokens):
        api.report(study["rounds"][0]["id"], token, int(number < 13))
    found = result(api, study)
    [estimate] = found["estimates"]
    low, high = (end.item() for end in clopper_pearson(np.array([13]), 20, 0.95))
    scale = (np.e + 1) / (np.e - 1)

    assert (empty["state"], empty["estimates"], empty["estimates_left_out"]) == ("sealed", [], 0)
    assert (found["state"], found["estimates_left_out"]) == ("finished", 0)
    assert list(estimate) == ["name", "estimate", "low", "high", "level", "reports"]
    assert (estimate["name"], estimate["level"], estimate["reports"]) == ("mean(value, -1, 1)", 0.95, 20)
    assert estimate["estimate"] == pytest.approx(scale * 0.3)
    assert estimate["low"] == pytest.approx(max(-1, scale * (2 * low - 1)), abs=1e-6)
    assert estimate["high"] == pytest.approx(min(1, scale * (2 * high - 1)), abs=1e-6)


def test_a_running_study_tells_what_was_answered_so_far(api: Service) -> None:
    tokens = api.enrol(20)
    study = api.study("masked-parity-two-rounds", {"users": "all", "d": 4})
    before = result(api, study)["estimates"]
    for token in tokens:
        api.report(study["rounds"][0]["id"], token, 1)
    running = result(api, study)
    again = result(api, study)
    api.post(f"/v1/studies/{study['id']}/cancel", token=api.operator)
    cancelled = result(api, study)

    assert before == []
    assert running["state"] == "running"
    cells = [f"share(cell {i} of (i if b = 1 else -1), minus where y = -1)" for i in range(4)]
    assert [each["name"] for each in running["estimates"]] == cells
    assert again == running
    assert (cancelled["state"], cancelled["estimates"]) == ("cancelled", running["estimates"])


def test_of_very_many_estimates_some_are_told_and_the_others_counted(
    api: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "MOST_ESTIMATES", 3)
    [token] = api.enrol(1)
    study = api.study("histogram", {"users": "all", "cells": 8})
    api.report(study["rounds"][0]["id"], token, 1)
    found = result(api, study)

    assert [each["name"] for each in found["estimates"]] == [f"share(cell = {cell})" for cell in range(3)]
    assert found["estimates_left_out"] == 5


# ---------------------------------------------------------------------------------------------- as the strategy tells


def named(_: Parameters, at: Estimating) -> list[Estimate]:
    return [replace(each, name="how high") for each in at(0.95)]


def failing(_: Parameters, at: Estimating) -> list[Estimate]:
    raise RuntimeError(len(at(0.95)))


MEAN = registry()["mean"]


@pytest.mark.parametrize(
    ("strategies", "name"),
    [
        ({"mean": replace(MEAN, estimates=named)}, "how high"),
        ({"mean": replace(MEAN, estimates=failing)}, "mean(value, -1, 1)"),
        ({}, "mean(value, -1, 1)"),
    ],
    ids=["by its own name", "one that fails", "one that is gone"],
)
def test_estimates_are_as_the_strategy_tells_them_or_else_as_they_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategies: dict[str, Strategy], name: str
) -> None:
    with Service(tmp_path / "data", cap="1") as api:
        [token] = api.enrol(1)
        study = api.study(parameters=USERS)
        api.report(study["rounds"][0]["id"], token, 1)
    monkeypatch.setattr(app, "registry", lambda: Registry(strategies, {}))
    with Service(tmp_path / "data", cap="1") as api:
        assert [each["name"] for each in result(api, study)["estimates"]] == [name]


def test_a_strategy_that_cannot_tell_its_estimates_is_logged_once_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "registry", lambda: Registry({"mean": replace(MEAN, estimates=failing)}, {}))
    with Service(tmp_path / "data", cap="2") as api:
        [token] = api.enrol(1)
        driver = api.app.state.aggregator.driver

        def looked_at(study: str) -> FirstEstimates:
            """As somebody sees it who looks after another one was forgotten."""
            driver._estimated = Remembered(driver._estimate, lambda _: 1, 1)
            return driver.estimates(study)

        for study in (api.study(parameters=USERS), api.study(parameters=USERS)):
            api.report(study["rounds"][0]["id"], token, 1)
            for _ in range(3):
                assert [each.name for each in looked_at(study["id"]).records] == ["mean(value, -1, 1)"]
        said = [record for record in caplog.records if "told by its queries" in record.message]
        assert len(said) == 2
        # The control: a driver that forgets what it said says it again.
        driver._told_by_queries.clear()
        looked_at(api.get("/v1/studies").json()[0]["id"])
        assert len([record for record in caplog.records if "told by its queries" in record.message]) == 3


@pytest.mark.parametrize("live", [None, 2])
def test_looks_at_a_running_survey_say_nothing_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, live: int | None
) -> None:
    survey = registry()["survey"]
    with Service(tmp_path / "data", cap="2") as api:
        tokens = api.enrol(12)
        parameters = {"users": "all", **(survey.small or {})}
        asked = {"title": "A", "strategy": "survey", "parameters": parameters, "live": live, "simulated": False}
        study = api.post("/v1/studies", token=api.operator, json=asked).json()
        driver = api.app.state.aggregator.driver
        for token in tokens[:8]:
            assert driver.estimates(study["id"]).records == []
            driver.told(study["id"])
            api.report(study["rounds"][0]["id"], token, 0)
        result(api, study)
        api.get(f"/studies/{study['id']}")
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []
