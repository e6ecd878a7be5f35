"""`askance theory`: the theorems, and their numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.theory.local import users_sq_simulation_repaired
from askance_lab.theory.theorem import theorems
from askance_protocol.errors import Code, UsageError


def printed(*arguments: str) -> str:
    run = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["theory", *arguments])
    assert run.exit_code == 0, run.output
    return run.stdout


def described(*arguments: str) -> dict[str, Any]:
    return json.loads(printed(*arguments, "--json"))


def refused(*arguments: str) -> UsageError:
    error = CliRunner().invoke(app, ["theory", *arguments]).exception
    assert isinstance(error, UsageError)
    assert error.code is Code.USAGE
    return error


def test_without_a_name_all_theorems_are_listed() -> None:
    lines, listed = printed().splitlines(), described()

    assert lines[0].split() == ["name", "what", "it", "says", "(where)"]
    assert max(map(len, lines)) <= 120
    assert [each["name"] for each in listed["theorems"]] == list(theorems())
    assert {line.split()[0] for line in lines[1:] if not line.startswith(" ")} == set(theorems())
    assert listed["schema_version"] == 1


def test_a_theorem_shows_its_forms_side_by_side() -> None:
    text = printed("sq-simulation", "--set", "t=8", "--set", "tau=1/33", "--set", "beta=0.025")

    assert "KLNRS11, Thm 5.7" in text
    assert "queries (t) = 8" in text
    assert "docs/theory.md#trap-2" in text
    users = users_sq_simulation_repaired(queries=8, bound=1, tolerance=1 / 33, epsilon=1, failure=0.025)
    header, row = (line.split() for line in text.splitlines()[-2:])
    assert header == ["stated", "repaired"]
    assert row[0] == "users"
    assert row[2] == f"{users:,}"


def test_as_json_it_is_one_object() -> None:
    found = described("masked-parity", "--set", "d=16")
    values = {each["name"]: each["value"] for each in found["parameters"]}
    repaired = found["formulas"]["repaired"]

    assert found["schema_version"] == 1
    assert values == {"dimension": 16, "epsilon": 1.0, "failure": 0.05, "constant": 1.0}
    assert repaired["function"] == "users_masked_parity_repaired"
    assert repaired["fields"]["total"] == repaired["fields"]["first"] + repaired["fields"]["second"]
    assert repaired["refused"] is None


def test_where_one_form_refuses_the_others_are_printed_and_the_reason_is() -> None:
    text = printed("parity-train-test")

    assert "stated refuses these: failure: A* asks for -10 candidates" in text
    assert described("parity-train-test")["formulas"]["stated"]["refused"].startswith("failure")


@pytest.mark.parametrize("name", theorems())
def test_every_theorem_prints_lines_that_fit(name: str) -> None:
    text = printed(name)

    assert theorems()[name].citation in text
    assert max(map(len, text.splitlines())) <= 130


def test_what_is_not_a_theorem_a_parameter_or_a_number_is_refused_by_name() -> None:
    assert refused("no-such-thing").where == "no-such-thing"
    assert "one of" in refused("parit").remedy
    assert refused("point", "--set", "gamma=1").where == "gamma"
    assert refused("point", "--set", "d=").where == "dimension"
    assert refused("point", "--set", "d=many").where == "dimension"
    assert refused("--set", "d=1").where == "--set"
