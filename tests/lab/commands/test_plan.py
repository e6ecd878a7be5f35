"""`askance plan`: the papers' users beside ours."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.commands.plan import call_of
from askance_lab.experiments.planned_users import plan_study, planned_rounds
from askance_lab.theory.local import users_sq_simulation_repaired
from askance_lab.theory.shuffling import shuffled_epsilon_binary
from askance_protocol.errors import ProtocolError, UsageError
from benchmarks import users
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


def test_proved_exact_and_measured_are_told_apart() -> None:
    answer = planned("mean")

    assert answer["proved"]["users"] == answer["users"]["repaired"]
    assert answer["exact"] == {
        "users": answer["users"]["planned"],
        "enrol": answer["enrol"],
        "by": "the server's plan, by exact binomial tails",
        "holds": "for every run",
    }
    assert answer["measured"] is None
    assert answer["rounds"][0]["channels"] == ["binary"]


def test_a_plan_of_an_adaptive_strategy_has_its_longest_run_and_a_typical_one() -> None:
    answer = planned("decision-list", "--d", "3", "--alpha", "0.3")

    assert answer["worst"] == {"users": answer["enrol"], "holds": "for every run", "tried": None}
    assert answer["typical"]["populations"] == 5
    assert len(answer["rounds"]) > answer["typical"]["rounds"]
    assert answer["typical"]["users"] < answer["users"]["planned"] < answer["enrol"]
    text = " ".join(invoke("plan", "decision-list", "--d", "3", "--alpha", "0.3").split())
    assert f"A typical study takes {answer['typical']['users']:,} of them" in text
    assert "whatever the answers are" in text


def test_a_strategy_that_is_tried_out_says_so() -> None:
    answer = planned("masked-parity-pooled", "--d", "4")

    assert answer["worst"]["tried"] > 10
    assert answer["worst"]["holds"] == f"for the {answer['worst']['tried']} runs that were tried"
    assert "nobody has proved" in " ".join(invoke("plan", "masked-parity-pooled", "--d", "4").split())


def test_users_there_are_are_told_what_they_meet() -> None:
    assert planned("mean", "--users", "5000")["accuracy"] == {
        "users": 5000,
        "parameter": "tolerance",
        "value": "0.0616",
        "enrol": 4981,
        "met": True,
    }
    assert "meet tolerance = 0.0616" in invoke("plan", "mean", "--users", "5000")
    assert "cannot meet any alpha" in invoke("plan", "conjunction", "--d", "8", "--users", "50")


def test_several_epsilons_are_a_row_each() -> None:
    answer = planned("mean", "--epsilon", "0.5, 2", "--users", "5000")

    assert [each["epsilon"] for each in answer["epsilons"]] == ["0.5", "2"]
    assert [each["enrol"] for each in answer["epsilons"]] == [
        planned("mean", "--epsilon", epsilon)["enrol"] for epsilon in ("0.5", "2")
    ]
    lines = invoke("plan", "mean", "--epsilon", "0.5,2").splitlines()
    assert len(lines) == 4
    assert not any("tolerance" in line for line in lines)
    assert all(
        "tolerance = " in line
        for line in invoke("plan", "mean", "--epsilon", "1,2", "--users", "5000").splitlines()[2:]
    )
    with pytest.raises(UsageError, match="measures one ε"):
        invoke("plan", "mean", "--epsilon", "1,2", "--measure")


def test_what_a_shuffler_would_add_is_told_and_that_there_is_none() -> None:
    [one_bit, several] = (planned(*call)["shuffled"] for call in (("mean",), ("histogram", "--set", "cells=10")))

    assert one_bit["epsilon"] == pytest.approx(
        shuffled_epsilon_binary(users=one_bit["users"], epsilon=1, delta=1e-6), rel=0.01
    )
    assert (one_bit["method"], several["method"], one_bit["exists"]) == ("blanket", "clones", False)
    assert planned("mean", "--delta", "0.001")["shuffled"]["epsilon"] < one_bit["epsilon"]
    assert "There is none here" in " ".join(invoke("plan", "mean").split())
    for wrong in ("2", "0", "small", "nan"):
        with pytest.raises(UsageError, match="--delta"):
            invoke("plan", "mean", "--delta", wrong)


def test_what_was_measured_is_shown_again(tmp_path: Path) -> None:
    call = ("plan", "mean", "--set", "tolerance=0.3", "--epsilon", "2", "--out", str(tmp_path / "kept"))
    first = json.loads(invoke(*call, "--measure", "--seeds", "5", "--json"))["measured"]

    assert first["seeds"] == 5
    assert first["bound"] is False
    assert json.loads(invoke(*call, "--json"))["measured"] == first
    assert "no bound" in " ".join(invoke(*call).split())
    assert "Measured" not in invoke(*call, "--beta", "0.1")
    with pytest.raises(UsageError, match="promises nothing"):
        invoke("plan", "kmeans", "--measure", "--out", str(tmp_path))


def test_noise_of_labels_is_planned_for() -> None:
    clean, noisy = (planned("conjunction", "--d", "4", *more)["enrol"] for more in ([], ["--eta", "0.1"]))
    assert noisy > 1.5 * clean
    assert noisy == planned("conjunction", "--d", "4", "--set", "eta=0.1")["enrol"]


# ------------------------------------------------------------------------------------------------- tables in documents

DOCS = Path(__file__).parents[3] / "docs"
ENROL: list[dict[str, Any]] = json.loads((DOCS / "plan" / "enrol.json").read_text("utf-8"))["rows"]
CALL = re.compile(r"`(askance plan [^`]+)`")


def calls(page: str) -> list[str]:
    """Each call in a table or a list of a page."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    return [call for line in lines if line.startswith(("|", "- ")) for call in CALL.findall(line)]


def asked_by(call: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    """Strategy and parameters that a call plans. Nothing is planned."""

    def stop(strategy: str, terms: dict[str, Any], *_: object) -> None:
        raise UsageError("is not planned here", where=json.dumps([strategy, {k: str(v) for k, v in terms.items()}]))

    monkeypatch.setattr("askance_lab.commands.plan.plan_study", stop)
    error = CliRunner().invoke(app, shlex.split(call)[1:]).exception
    assert isinstance(error, UsageError)
    strategy, terms = json.loads(str(error.where))
    return strategy, terms


def rows_of(page: str) -> list[tuple[str, dict[str, str]]]:
    if page == "users.md":
        return [(each.strategy, {**each.parameters, "epsilon": "1", "beta": "0.05"}) for each in users.QUESTIONS]
    if page == "learners.md":
        learners = json.loads((DOCS / "learners" / "learners.json").read_text("utf-8"))["learners"]
        own = [
            {name: each["measured"][name] for name in ("d", "alpha") if name in each["measured"]} for each in learners
        ]
        return [
            (each["now"], {**mine, "epsilon": "1", "beta": "0.05"}) for each, mine in zip(learners, own, strict=True)
        ]
    found = json.loads((DOCS / "plan" / "enrol.json").read_text("utf-8"))
    too_many = [each for each in found["left_out"] if "reports" in each]
    refused = [each for each in found["left_out"] if "reports" not in each]
    return [(each["strategy"], each["parameters"]) for each in [*found["rows"], *too_many, *refused]]


@pytest.mark.parametrize("page", ["plan.md", "users.md", "learners.md"])
def test_every_row_of_a_table_names_the_call_that_plans_it(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [asked_by(call, monkeypatch) for call in calls(page)]
    rows = [(name, {key: str(value) for key, value in terms.items()}) for name, terms in rows_of(page)]

    assert found == rows
    # The control: the bare command, as the table of version 1.0 suggested, is another plan.
    bare = asked_by("askance plan conjunction --d 8", monkeypatch)
    assert bare not in rows
    assert {name for name, _ in rows} & {"conjunction", "conjunction-checked"}


@pytest.mark.parametrize("row", ENROL, ids=lambda row: call_of(row["strategy"], row["parameters"]))
def test_every_row_of_the_page_is_planned_so_today(row: dict[str, Any]) -> None:
    assert plan_study(row["strategy"], row["parameters"]).enrol == row["users"]["enrol"]


def test_a_plan_says_what_it_was_made_with() -> None:
    said = invoke("plan", "histogram", "--tolerance", "0.1", "--set", "cells=4")

    assert said.startswith("histogram --tolerance 0.1 --set cells=4 at ε = 1, β = 0.05: users needed")
