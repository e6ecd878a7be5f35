"""The page of performance is what was kept; what runs the benchmarks tells one that fails from one that is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench
from benchmarks.measuring import MISSED

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text("utf-8")
KEPT = bench.read(ROOT / "docs" / "performance" / "measured.json")

GOOD = {"schema_version": 1, "figures": {"speed": {"median": 2.5, "least": 2, "most": 3, "at_least": 2}}, "missed": []}
BAD = GOOD | {"figures": {"speed": {"median": 1.5, "least": 1, "most": 3, "at_least": 2}}, "missed": ["speed"]}


# ------------------------------------------------------------------------------------------------------------- the page


def test_the_page_is_what_was_kept() -> None:
    assert bench.remade(PAGE, KEPT) == PAGE
    # The control: one digit of one exponent.
    curve, figure = next(iter(KEPT["growth"]["said"]["figures"].items()))
    planted = json.loads(json.dumps(KEPT))
    planted["growth"]["said"]["figures"][curve]["median"] = figure["median"] + 0.01
    assert bench.remade(PAGE, planted) != PAGE


def test_the_plot_has_each_curve_that_was_kept() -> None:
    plot = (ROOT / "docs" / "performance" / "growth.svg").read_text("utf-8")

    assert [name for name in KEPT["growth"]["said"]["curves"] if f">{name}<" not in plot] == []


def test_what_was_kept_says_of_each_goal_whether_it_was_met() -> None:
    for name, run in KEPT.items():
        figures, missed = bench.figures_of(run["said"]), run["said"]["missed"]
        wrong = [
            key
            for key, each in figures.items()
            if not each.get("at_least", each["median"]) <= each["median"] <= each.get("at_most", each["median"])
        ]
        if "figures" in run["said"]:
            assert sorted(wrong) == sorted(missed), name
        assert run["status"] == (MISSED if missed else 0), name


def test_each_program_that_is_kept_is_there_and_together_they_take_twenty_minutes() -> None:
    listed = {each.name: each for each in bench.LISTED}

    assert [name for name in KEPT if not (ROOT / "benchmarks" / f"{name}.py").exists()] == []
    assert set(KEPT) <= set(listed)
    assert sum(each.seconds for each in bench.LISTED) <= 60 * bench.MINUTES


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="growth"):
        bench.remade(PAGE.replace("<!-- growth -->", ""), KEPT)


@pytest.mark.parametrize(
    ("value", "number", "seconds"),
    [
        (0.00001234, "1.234e-05", "12.3 µs"),
        (0.0432, "0.0432", "43.2 ms"),
        (2.0, "2", "2 s"),
        (1234.5, "1,234", "1,230 s"),
    ],
)
def test_how_numbers_and_times_are_written(value: float, number: str, seconds: str) -> None:
    assert bench.number(value) == number
    assert bench.seconds(value) == seconds


@pytest.mark.parametrize(("size", "text"), [(30, "30"), (30_000, "30,000"), (10**6, "10⁶"), (3 * 10**11, "3·10¹¹")])
def test_how_sizes_are_written(size: int, text: str) -> None:
    assert bench.whole(size) == text


def test_sizes_without_time_are_named() -> None:
    assert bench.without([]) == ""
    assert bench.without([1000, 10**8]) == " (no time for 1,000, 10⁸)"


def test_a_program_that_prints_no_figures_shows_its_numbers() -> None:
    said: dict[str, Any] = {"schema_version": 1, "ratios": {"a": 1.5}, "goals": {"a": 1}, "ok": True, "worst": 3}

    assert bench.figures_of(said) == {"ratios.a": {"median": 1.5}, "worst": {"median": 3}}


# ----------------------------------------------------------------------------------------------------------- the runner


def program(folder: Path, code: str) -> bench.Listed:
    (folder / "fake.py").write_text(code)
    return bench.Listed("fake", 30, "A fake", "nothing")


def printing(said: dict[str, Any], status: int) -> str:
    return f"import sys; print('progress'); print({json.dumps(json.dumps(said))}); sys.exit({status})"


@pytest.mark.parametrize(
    ("code", "status", "kept"),
    [
        (printing(GOOD, 0), 0, GOOD),
        (printing(BAD, MISSED), MISSED, BAD),
        # The controls: what fails, and what prints nothing that can be kept.
        (printing(GOOD, 1), bench.FAILED, None),
        ("raise SystemExit('no')", bench.FAILED, None),
        ("print('[1]')", bench.FAILED, None),
        ("", bench.FAILED, None),
    ],
)
def test_how_a_program_ends_is_how_the_run_ends(
    tmp_path: Path, code: str, status: int, kept: dict[str, Any] | None
) -> None:
    before = {"fake": {"status": 0, "seconds": 1, "said": {"old": 1}}}
    run = dict(before)

    assert bench.run_all([program(tmp_path, code)], run, tmp_path) == status
    assert run == before if kept is None else run["fake"]["said"] == kept


def test_a_program_that_is_not_there_is_passed_over_and_one_that_hangs_is_stopped(tmp_path: Path) -> None:
    hanging = replace(program(tmp_path, "import time; time.sleep(60)"), seconds=0.5)
    missing = replace(hanging, name="not_there")

    assert bench.run_all([missing], {}, tmp_path) == 0
    assert bench.run_all([missing, hanging], {}, tmp_path) == bench.FAILED


def test_a_failure_outranks_a_miss(tmp_path: Path) -> None:
    failing = program(tmp_path, "raise SystemExit(3)")
    (tmp_path / "bad.py").write_text(printing(BAD, MISSED))

    assert bench.run_all([failing, replace(failing, name="bad")], {}, tmp_path) == bench.FAILED
    assert bench.run_all([replace(failing, name="bad")], {}, tmp_path) == MISSED


def test_a_section_says_what_was_missed_and_how_far_the_turns_are_apart() -> None:
    listed = bench.Listed("fake", 30, "A fake", "nothing")
    [*_, good] = bench.table(listed, {"seconds": 3, "said": GOOD})
    [*_, bad] = bench.table(listed, {"seconds": 3, "said": BAD})

    assert good == "| speed | 2.5 | 2 to 3 | ≥ 2: met |"
    assert bad == "| speed | 1.5 | 1 to 3 | ≥ 2: missed |"


def test_remade_from_a_file_without_measuring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of another machine: the command writes what the file says, and nothing is run."""
    page, kept = tmp_path / "page.md", tmp_path / "kept" / "measured.json"
    page.write_text(PAGE, "utf-8")

    assert bench.main(["--remake", "--keep", str(kept), "--page", str(page)]) == 0
    assert page.read_text("utf-8").count("not measured here") == len(bench.LISTED)
    assert f"{page} is made anew" in capsys.readouterr().err
