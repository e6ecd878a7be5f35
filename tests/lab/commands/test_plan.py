"""`askance plan`: the papers' users beside ours."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from askance_lab.experiments.planned_users import planned_rounds
from askance_lab.theory.local import users_sq_simulation_repaired
from askance_protocol.errors import ProtocolError
from tests.lab.commands.calls import invoke


def planned(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(invoke("plan", *arguments, "--json"))
    return answer


def test_a_mp_is_planned_round_by_round_as_the_papers_and_we_would() -> None:
    answer = planned("masked-parity", "--d", "8")
    first, second = answer["rounds"]

    assert (first["queries"], second["queries"]) == (8, 1)
    assert (first["tolerance"], second["tolerance"]) == (1 / 33, 1 / 5)
    for name in ("stated", "repaired", "planned"):
        assert answer["users"][name] == first[name] + second[name]
        # Thousands of times fewer than what is proved of the papers' own protocol.
        assert first["planned"] * 50 < first["repaired"]
    assert first["repaired"] == users_sq_simulation_repaired(
        queries=8, bound=1, tolerance=1 / 33, epsilon=1, failure=0.025
    )


def test_it_says_how_many_have_to_enrol() -> None:
    answer = planned("masked-parity", "--d", "8")

    assert answer["users"]["planned"] < answer["enrol"] < 1.2 * answer["users"]["planned"]
    assert f"Enrol {answer['enrol']:,} users: so many suffice" in invoke("plan", "masked-parity", "--d", "8")


def test_a_cell_counts_as_a_query_of_the_papers() -> None:
    [only] = planned("histogram", "--set", "cells=10")["rounds"]

    assert only["queries"] == 10


def test_what_liars_could_do_stands_beside_the_users() -> None:
    first, second = planned("masked-parity", "--d", "8")["rounds"]
    # Boolean questions at ε = 1, a share in [0, 1]: the scores lie between −1/(e − 1) and e/(e − 1).
    weight = math.e / (math.e - 1)

    for each in (first, second):
        assert [one["share"] for one in each["liars"]] == [0.01, 0.05]
        assert [one["shift"] for one in each["liars"]] == pytest.approx([0.01 * weight, 0.05 * weight], rel=1e-6)
    # Asking more privately gives each lie more weight; asking more users does not give it less.
    [private] = planned("mean", "--epsilon", "0.25")["rounds"]
    [public] = planned("mean", "--epsilon", "2", "--beta", "0.0001")["rounds"]
    assert private["liars"][0]["shift"] > 3 * public["liars"][0]["shift"]
    assert "1 % of them by up to 0.0158" in " ".join(invoke("plan", "masked-parity", "--d", "8").split())


@pytest.mark.parametrize("more", [["--epsilon", "2"], ["--beta", "0.2"], ["--set", "tolerance=0.1"]])
def test_users_are_fewer_where_less_is_asked(more: list[str]) -> None:
    assert planned("mean", *more)["users"]["planned"] < planned("mean")["users"]["planned"]


def test_what_cannot_be_planned_says_why() -> None:
    with pytest.raises(ProtocolError, match="there is no"):
        planned_rounds("no-such-thing", {})
    with pytest.raises(ProtocolError, match=r"parameters\.d"):
        planned_rounds("masked-parity", {"d": 6})
