"""`askance audit`: our channels pass, and what spends more than it claims is caught."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import AskanceError, UsageError
from tests.lab.commands.calls import invoke


def audited(*arguments: object, code: int = 0) -> Any:
    return json.loads(invoke("audit", *arguments, "--seed", 1, "--json", code=code))


@pytest.mark.parametrize(
    "options",
    [
        ["--kind", "binary", "--epsilon", 1],
        ["--kind", "kary", "--epsilon", 2, "--k", 5, "--inputs", "1,3"],
        ["--kind", "geometric", "--epsilon", 1, "--range", 4],
        ["--kind", "laplace", "--epsilon", 2],
    ],
)
def test_a_channel_of_ours_keeps_to_its_certified_epsilon(options: list[object]) -> None:
    found = audited(*options)

    assert found["verdict"] == "consistent"
    # Not by blindness: most of what it spends is seen.
    assert 0.7 * found["claimed_micro_epsilon"] < 1e6 * found["epsilon_lower_bound"] <= found["claimed_micro_epsilon"]
    assert found["reports_counted"] == 320_000


def test_a_channel_that_claims_less_than_it_spends_is_caught() -> None:
    """The planted fault: 1.15 claimed as 1."""
    found = audited("--kind", "binary", "--epsilon", "1.15", "--claim", 1, code=Exit.CHECK_FAILED)

    assert (found["verdict"], found["claimed_micro_epsilon"]) == ("violated", 1_000_000)
    assert 1 < found["epsilon_lower_bound"] <= 1.15
    assert audited("--kind", "binary", "--epsilon", "1.15", "--claim", "1.15")["verdict"] == "consistent"


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_the_papers_float_laplace_is_caught(epsilon: str) -> None:
    found = audited("--float", "--epsilon", epsilon, "--samples", 20_000, code=Exit.CHECK_FAILED)

    assert (found["randomizer"], found["verdict"], found["event"]) == ("float-laplace", "violated", [1])
    assert found["epsilon_lower_bound"] > 5
    assert math.isfinite(found["epsilon_lower_bound"])
    shown = invoke("audit", "--float", "--epsilon", epsilon, "--samples", 20_000, code=Exit.CHECK_FAILED)
    assert "impossible under the neighbour" in shown
    assert "VIOLATED" in shown


def test_without_a_seed_the_operating_systems_randomness_is_drawn() -> None:
    first, second = (invoke("audit", "--kind", "binary", "--epsilon", 1, "--samples", 5000, "--json") for _ in range(2))

    assert json.loads(first)["epsilon_lower_bound"] != json.loads(second)["epsilon_lower_bound"]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ([], "--kind"),
        (["--float", "--kind", "laplace"], "--kind"),
        (["--float", "--range", 3], "--range"),
        (["--float", "--inputs", "0,1"], "--inputs"),
        (["--kind", "binary", "--inputs", "0"], "--inputs"),
        (["--kind", "binary", "--inputs", "1,1"], "--inputs"),
        (["--kind", "binary", "--k", 3], "--k"),
    ],
)
def test_what_does_not_go_together_is_refused(options: list[object], where: str) -> None:
    with pytest.raises(UsageError) as refused:
        invoke("audit", "--epsilon", 1, *options)

    assert refused.value.where == where
    assert refused.value.remedy


@pytest.mark.parametrize("options", [["--inputs", "0,2"], ["--failure", "0"], ["--claim", "none"]])
def test_what_the_audit_cannot_use_is_refused(options: list[object]) -> None:
    with pytest.raises(AskanceError):
        invoke("audit", "--kind", "binary", "--epsilon", 1, *options)
