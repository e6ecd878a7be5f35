"""The harness that compares the documents' long figures with what commands print."""

from __future__ import annotations

import json
import math
import sys
from functools import cache
from pathlib import Path

import pytest

from benchmarks import figures, survey

ROOT = Path(__file__).parents[1]
COMMAND = "separation --d 4 --users 300 --seeds 2"


def document(path: Path, *lines: str) -> Path:
    path.write_text(
        f"`askance {COMMAND}`, in a moment:\n\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"
    )
    return path


def test_a_printed_line_passes_and_a_planted_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "   d       users  learner            right  95 %           mean error"
    planted = "   4         300  in rounds          2/1  [0.00, 1.00]       0.000"
    # What the command prints is the same both times, and takes seconds.
    monkeypatch.setattr(figures, "run", cache(figures.run))

    def compared(name: str, *lines: str) -> tuple[int, dict[str, object]]:
        monkeypatch.setattr(sys, "argv", ["figures.py", str(document(tmp_path / name, *lines))])
        return figures.main(), json.loads(capsys.readouterr().out)

    assert compared("right.md", head) == (0, {"schema_version": 1, "commands": 1, "lines": 1, "missing": []})
    code, told = compared("wrong.md", head, planted)
    assert (code, told["missing"]) == (6, [{"command": COMMAND, "line": planted}])


def test_the_documents_have_such_figures() -> None:
    assert len(list(figures.lines_of((ROOT / "docs" / "separation.md").read_text("utf-8")))) >= 15


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
        for name in ("goals", "again", "curve", "small", "compared")
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
