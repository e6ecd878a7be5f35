"""`askance converse`: the simulation stays within the claim's distance and tries, or the command fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from askance_lab.commands import converse as converse_command
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.experiments.converse import LIE_SCHEDULES
from askance_protocol.errors import UsageError
from tests.lab.commands.calls import invoke

KARY = ("--kind", "kary", "--epsilon", 1, "--k", 4)


def simulated(*arguments: object, code: int = 0) -> Any:
    return json.loads(invoke("converse", *arguments, "--json", code=code))


@pytest.mark.parametrize("lie", LIE_SCHEDULES)
def test_distance_and_tries_are_within_the_claim_whatever_the_oracle_says(lie: str) -> None:
    found = simulated(*KARY, "--lie", lie, "--t", 4, "--beta", 0.2)

    assert found["distance"] <= found["distance_allowed"] == 0.05
    assert found["tries"] <= found["tries_allowed"]
    assert (found["inputs"], found["outcomes"], found["sampled"]) == (4, 4, None)
    assert (found["distance"] < 1e-9) is (lie == "none")
    # The rest of what is allowed is for candidates that all fail.
    assert found["distance"] < found["distance_at_once"] <= 0.05
    assert found["candidates_at_once"] == 8


def test_reports_that_are_drawn_are_as_near_as_the_exact_figures_say() -> None:
    found = simulated(*KARY, "--reports", 4000, "--seed", 3)

    assert found["sampled"]["reports"] == 4000
    # Statistical, with a seed: 4 outcomes and 4,000 reports are off by some 0.02.
    assert found["sampled"]["distance"] < found["distance"] + 0.06
    assert found["sampled"]["tries"] == pytest.approx(found["tries"], abs=0.3)
    assert found["sampled"]["queries"] == round(found["sampled"]["tries"] * 4000)
    assert "sampled: 4,000 reports" in invoke("converse", *KARY, "--reports", 4000, "--seed", 3)


def test_an_oracle_that_lies_beyond_its_tolerance_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: lies of eighty tolerances."""
    beyond = {**LIE_SCHEDULES, "up-down": lambda k: 80 * (-1.0) ** k}
    monkeypatch.setattr(converse_command, "LIE_SCHEDULES", beyond)
    found = simulated(*KARY, "--shares", "1,0,0,0", code=Exit.CHECK_FAILED)

    assert found["distance"] > found["distance_allowed"]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["--lie", "sometimes"], "--lie"),
        (["--shares", "0.5,0.5"], "--shares"),
        (["--shares", "a,b,c,d"], "--shares"),
        (["--shares", "1,-1,1,1"], "--shares"),
        (["--shares", "0,0,0,0"], "--shares"),
        (["--shares", "nan,1,1,1"], "--shares"),
        (["--range", 3], "--range"),
    ],
)
def test_what_cannot_be_is_refused(options: list[object], where: str) -> None:
    with pytest.raises(UsageError) as refused:
        invoke("converse", *KARY, *options)

    assert refused.value.where == where
