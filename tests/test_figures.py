"""The harness that compares the documents' long figures with what commands print."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import coverage, figures, points, survey

ROOT = Path(__file__).parents[1]
COMMAND = "askance separation --d 4 --users 300 --seeds 2"


def document(path: Path, *lines: str) -> Path:
    path.write_text(f"`{COMMAND}`, in a moment:\n\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n")
    return path


def test_a_printed_line_passes_and_a_planted_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "   d      users  learner                      rounds    right  95 %          error"
    planted = "   4        300  masked-parity-pooled            2–6      2/1  [0.00, 1.00]   0.000"
    # What the command prints is the same both times, and takes seconds.
    monkeypatch.setattr(figures, "run", cache(figures.run))

    def compared(name: str, *lines: str) -> tuple[int, dict[str, object]]:
        monkeypatch.setattr(sys, "argv", ["figures.py", str(document(tmp_path / name, *lines))])
        return figures.main(), json.loads(capsys.readouterr().out)

    counted = {"documents": 1, "commands": 1, "lines": 1}
    assert compared("right.md", head) == (0, {"schema_version": 1, **counted, "missing": []})
    code, told = compared("wrong.md", head, planted)
    assert (code, told["missing"]) == (6, [{"command": COMMAND, "line": planted}])


def test_a_benchmark_that_a_document_names_is_run_too() -> None:
    shown = "`python benchmarks/curator_users.py --table`, as it is:\n\n```text\n| learner | examples |\n```\n"

    [(command, line)] = figures.lines_of(shown)
    assert line in figures.run(command)


def test_the_documents_have_such_figures() -> None:
    found = {path.name: len(list(figures.lines_of(path.read_text("utf-8")))) for path in figures.pages()}

    assert found["separation.md"] >= 15
    # All that there are: a page in a folder of docs is looked at as well.
    assert {"README.md", "CONTRIBUTING.md", "tutorial-1-coin.md", "one-bit.md", "rest.md"} <= set(found)


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of all tables below a heading of docs/masked-parity.md."""
    section = text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [line for line in lines if line[0] not in ("learner", "form")]


def test_the_users_that_masked_parity_takes_are_what_the_benchmark_printed() -> None:
    printed = json.loads((ROOT / "docs" / "masked-parity" / "measured.json").read_text("utf-8"))
    told = rows((ROOT / "docs" / "masked-parity.md").read_text("utf-8"), "What was measured")

    assert told == [
        [
            each["strategy"].removeprefix("masked-parity-").replace("-", " ") + ("" if each["tallied"] else ", drawn"),
            str(each["d"]),
            str(each["most_rounds"]),
            f"{each['users']:,}",
            f"{each['seeds']:,}",
            f"{each['rate']:.3f}",
            "{:.3f}–{:.3f}".format(*each["interval"]),
            f"{each['mean_asked']:,}",
            f"{each['mean_rounds']:.1f}",
        ]
        for name in ("goals", "again", "curve", "small", "compared", "two_rounds")
        for each in printed[name]
    ]
    # On seeds that nothing was tuned on.
    assert [(each["first_seed"], each["seeds"]) for each in printed["goals"]] == [(20_000, 1000)] * 2


def test_what_the_forms_of_it_gave_is_what_the_benchmark_printed() -> None:
    printed = json.loads((ROOT / "docs" / "masked-parity" / "tried.json").read_text("utf-8"))["tried"]
    told = rows((ROOT / "docs" / "masked-parity.md").read_text("utf-8"), "What was tried, and what each gave")

    assert told == [
        [
            each["variant"],
            f"{each['users']:,}",
            f"{each['rate']:.3f}",
            "{:.3f}–{:.3f}".format(*each["interval"]),
            f"{each['mean_rounds']:.1f}",
        ]
        for each in printed
    ]


SURVEY = ROOT / "docs" / "telemetry" / "measured.json"


def test_the_errors_of_a_survey_are_what_the_benchmark_printed() -> None:
    printed = json.loads(SURVEY.read_text("utf-8"))
    told = (ROOT / "docs" / "telemetry.md").read_text("utf-8")

    assert "\n".join(survey.markdown(printed["table"])) in told
    assert [row["question"] for row in printed["table"]] == list(survey.ASKS)
    assert (printed["worse"], printed["users"], printed["epsilon"]) == ([], survey.USERS, survey.EPSILON)
    assert printed["repetitions"] >= 200


def test_users_at_once_and_in_rounds_are_what_the_benchmark_printed() -> None:
    printed = json.loads((ROOT / "docs" / "telemetry" / "rounds.json").read_text("utf-8"))
    pairs = zip(printed["rows"][::2], printed["rows"][1::2], strict=True)

    told = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
    for rounds, once in pairs:
        ratio = once["users"] / rounds["users"]
        numbers = f"{rounds['users']:,} | {rounds['mean_rounds']:.1f} | {once['users']:,} | {ratio:.2f}"
        assert rounds["question"] == once["question"]
        assert f"| {rounds['question']} | {numbers} |" in told
    assert len(printed["rows"]) == 12


def test_what_learners_take_is_what_the_benchmark_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    # A script, which imports what lies beside it.
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    learners = import_module("learners")
    printed = json.loads((ROOT / "docs" / "learners" / "learners.json").read_text("utf-8"))
    told = (ROOT / "docs" / "learners.md").read_text("utf-8")

    for rows in (learners.table(printed["learners"]), learners.endings(printed["hostile"])):
        assert "\n".join(rows) in told
    assert [row["learner"] for row in printed["learners"]] == [each.name for each in learners.LEARNERS]
    assert all(row["asked"]["rate"] == 1 for row in printed["learners"] if row["asked"])
    assert sum(row["broken"] for row in printed["hostile"]) == 0
    assert [row["limit"] for row in printed["learners"]] == [learners.limit(each) for each in learners.LEARNERS]


COVERED = json.loads((ROOT / "docs" / "intervals" / "measured.json").read_text("utf-8"))


def test_what_intervals_cover_is_what_the_benchmark_printed() -> None:
    told = (ROOT / "docs" / "intervals.md").read_text("utf-8")

    assert coverage.summary(COVERED["rows"]) in told
    for table in "\n".join(coverage.markdown(COVERED["rows"])).split("\n\n"):
        assert table in told
    assert COVERED["faults"] == coverage.faults(COVERED["rows"]) == []
    assert {row["runs"] for row in COVERED["rows"]} <= {2000, 20_000}
    assert len(COVERED["rows"]) == (len(coverage.KINDS) + 1) * len(coverage.SHARES) * len(coverage.USERS)


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ({"coverage": 0.93}, "too few: "),
        ({"coverage": 0.985, "continuous": True}, "too many: "),
        ({"control": 0.99}, "intervals a tenth shorter are not found: "),
    ],
)
def test_a_planted_fault_of_an_interval_is_found(planted: dict[str, object], fault: str) -> None:
    rows = [row for row in COVERED["rows"] if row["kind"] == "share, binary" and row["users"] == 100_000]
    spoiled = [row | planted for row in rows]

    assert coverage.faults(rows) == []
    assert coverage.faults(spoiled)[0].startswith(fault)


def test_intervals_cover_as_it_was_printed() -> None:
    """Again, with fewer runs: one kind of few values and one of many."""
    for kind in (7, 9):
        row = coverage.measured(coverage.KINDS[kind], 0.1, 300, 200, (0,))
        assert row["coverage"] >= coverage.least(200)
        assert row["width"] < row["before"]


@pytest.mark.slow
def test_a_survey_has_the_errors_that_were_printed() -> None:
    """Again, with fewer repetitions; a standard error of a mean of so many squares is about 4 % of it."""
    errors, shares = survey.our_errors(1000)
    printed = {row["question"]: row for row in json.loads(SURVEY.read_text("utf-8"))["table"]}

    for question, found in errors.items():
        assert found["survey"][0] == pytest.approx(printed[question]["survey"], rel=0.3)
        # None is worse than it would be of a cohort of its own, by more than five standard errors.
        (mine, off), (alone, alone_off) = found["survey"], found["own cohort"]
        assert mine < alone + 5 * math.hypot(off, alone_off)
    assert set(shares) == {question for question in survey.ASKS if not question.startswith("mean")}
    # The control: dealt for one width, a share has far larger errors than of a cohort of its own.
    alike = survey.simulated(survey.surveyed(survey.ASKS, width="0.1"), survey.USERS, 300, 5)
    assert alike["share(dark)"][0] > 1.5 * errors["share(dark)"]["own cohort"][0]


# ----------------------------------------------------------------------------------------------- clusters and planes


def test_the_costs_of_clusters_and_planes_are_what_the_benchmark_printed() -> None:
    printed = json.loads((ROOT / "docs" / "points" / "measured.json").read_text("utf-8"))
    told = [line for line in (ROOT / "docs" / "points.md").read_text("utf-8").splitlines() if line.startswith("|")]

    assert told == points.markdown(printed["table"])
    assert {each["population"] for each in printed["table"]} == {case.name for case in points.all_cases()}
    assert printed["missed"] == []
    assert max(each["ratio"] for each in printed["table"]) <= printed["goal"] == points.GOAL


def test_control_a_cost_beyond_the_goal_is_one() -> None:
    case = replace(points.clusters()[0], users=None)

    assert points.row(case, theirs=0.002)["ratio"] > points.GOAL
    assert points.row(case, theirs=0.00251)["ratio"] <= points.GOAL
