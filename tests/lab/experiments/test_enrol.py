"""Exactly so many users as a plan says suffice: a small sample of benchmarks/enrol.py, with its controls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from benchmarks import enrol

DOCS = Path(__file__).parents[3] / "docs"
SEEDS = 12
TERMS = {"epsilon": "2", "beta": "0.1"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = enrol.main([*arguments, "--seeds", str(SEEDS), *(f"--{name}={value}" for name, value in TERMS.items())])
    return code, json.loads(capsys.readouterr().out)


def case(name: str, size: int = 4) -> enrol.Case:
    found = [each for each in enrol.cases([name], TERMS) if isinstance(each, enrol.Case)]
    return next(each for each in found if f"= {size}" in each.size or not each.size)


def successes(of: enrol.Case, users: int, takes: str) -> int:
    return sum(enrol.trial(enrol.Point(of, users, takes), seed) for seed in range(SEEDS))


@pytest.mark.parametrize("takes", ["needed", "all"])
@pytest.mark.parametrize(
    "name", ["conjunction", "heavy-hitters", "histogram", "masked-parity", "mean", "quantile", "survey"]
)
def test_exactly_so_many_suffice(name: str, takes: str) -> None:
    of = case(name)
    failed = SEEDS - successes(of, of.plan.enrol, takes)
    assert stats.binom.sf(failed - 1, SEEDS, float(TERMS["beta"])) > 1e-6


def test_labels_that_are_wrong_with_a_known_probability_are_planned_for() -> None:
    [of, *_] = (each for each in enrol.cases(["conjunction"], {**TERMS, "eta": "0.1"}) if isinstance(each, enrol.Case))
    assert successes(of, of.plan.enrol, "needed") >= SEEDS - 3
    # The control: the plan for right labels, of which a study that undoes noise is refused.
    assert successes(of, case("conjunction").plan.enrol, "needed") == 0


@pytest.mark.parametrize("name", ["masked-parity", "masked-parity-two-rounds"])
def test_control_the_plan_without_the_spare_fails(name: str) -> None:
    of = case(name)
    assert successes(of, of.numbers["without_spare"], "needed") == 0


def test_half_of_them_do_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    code, found = run(capsys, "--only", "masked-parity", "--most", "1000000", "--keep", str(kept))
    [small, *_] = found["rows"]

    assert (code, found["missed"]) == (0, [])
    assert (small["enough"], small["half_fails"], small["control_fails"]) == (True, True, True)
    # What is too large is left out, with the number; and what was measured is not measured again.
    assert [each["parameters"]["d"] for each in found["left_out"]] == [16]
    assert "reports" in found["left_out"][0]["why"]
    before = kept.read_bytes()
    assert run(capsys, "--only", "masked-parity", "--most", "1000000", "--keep", str(kept)) == (0, found)
    assert kept.read_bytes() == before


def test_control_a_plan_of_too_few_is_missed() -> None:
    of = case("mean")
    found = enrol.row(of, {"enrol": 6, "half": 0}, SEEDS)
    assert (found["enough"], found["half_fails"]) == (False, True)
    found = enrol.row(of, {"enrol": SEEDS, "half": SEEDS}, SEEDS)
    assert (found["enough"], found["half_fails"]) == (True, False)
    # And a plan that is not tight does not claim that half fails.
    loose = replace(of, plan=replace(of.plan, enrol=10 * of.plan.enrol))
    assert enrol.row(loose, {"enrol": SEEDS, "half": SEEDS}, SEEDS)["half_fails"] is None


def test_the_page_has_what_the_benchmark_printed() -> None:
    printed = json.loads((DOCS / "plan" / "enrol.json").read_text("utf-8"))
    page = (DOCS / "plan.md").read_text("utf-8")

    assert "\n".join(enrol.table(printed)) in page
    assert (printed["missed"], printed["seeds"]) == ([], 200)
