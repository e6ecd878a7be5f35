"""A hypothesis that is an estimate says how sure it is: in its text and in its JSON, wherever reports answered it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_lab.data.made_up import made_up
from askance_lab.run_study import run_study
from askance_protocol.rounds import LearnedHypothesis
from askance_server.core.estimates import estimates_of
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.replay import Replay
from askance_server.core.strategy import Estimate, Hypothesis, Parameters
from askance_server.core.study import study_of
from askance_server.strategies import histogram
from askance_server.strategies.registry import registry
from askance_server.strategies.shared import survey_answers
from askance_server.strategies.shared.sure import interval_members, interval_text, outward

STRATEGIES = registry()
USUAL = Estimate("share(plan = 'pro')", 0.2, 0.19286, 0.20749, 0.95, 12_345)


def finished(name: str, users: int, **parameters: Any) -> tuple[StudyInMemory, LearnedHypothesis]:
    asked: Parameters = {"users": "all", **parameters}
    spec = study_of(STRATEGIES, strategy=name, parameters=asked, title="T", nonce="0" * 32, simulated=True)
    strategy = STRATEGIES[name]
    view = run_study(spec, strategy, made_up(strategy, asked, 1, {}, None), users, seed=1)
    assert view.end.hypothesis is not None
    return view, view.end.hypothesis


def test_a_mean_has_its_interval_and_its_reports() -> None:
    view, learned = finished("mean", 2000)
    [[round_, tallies]] = [(view.rounds[id_], view.counted[id_]) for id_ in view.rounds]
    [found], value = estimates_of(round_, tallies), learned.value

    assert set(value) == {"mean", "tolerance", "low", "high", "level", "reports"}
    assert (value["mean"], value["level"], value["reports"]) == (found.estimate, 0.95, 2000)
    assert found.low - 1e-5 < value["low"] <= found.low < found.high <= value["high"] < found.high + 1e-5
    assert learned.text == f"the mean is {found.estimate:.6g} ({interval_text(found)})"
    assert "asked to within" not in learned.text


def test_a_mean_of_one_report_is_no_number_that_no_mean_can_be() -> None:
    _, learned = finished("mean", 1)

    assert (abs(learned.value["mean"]), learned.value["low"], learned.value["high"]) == (1, -1, 1)
    assert learned.text.endswith("(-1 to 1 at 95 %, 1 report)")


def test_the_shares_of_a_histogram_lie_in_their_intervals_at_once() -> None:
    """The largest is chosen by its estimate: it would miss an interval of its own more often than one in twenty."""
    view, learned = finished("histogram", 2000, cells=4)
    [[round_, tallies]] = [(view.rounds[id_], view.counted[id_]) for id_ in view.rounds]
    each, value = estimates_of(round_, tallies), learned.value

    assert (value["level"], value["reports"], len(value["low"]), len(value["high"])) == (0.95, 2000, 4, 4)
    for low, alone, high in zip(value["low"], each, value["high"], strict=True):
        assert low < alone.low < alone.high < high
    assert learned.text.startswith("cell ")
    assert learned.text.endswith(" at 95 %, 2,000 reports)")


def test_the_intervals_of_very_many_cells_are_left_to_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histogram, "MOST_INTERVALS", 3)
    _, learned = finished("histogram", 2000, cells=4)

    assert set(learned.value) == {"shares", "tolerance"}
    assert learned.text.endswith(", asked to within 0.05")


@pytest.mark.parametrize("cells", [histogram.MOST_INTERVALS, 1 << 15])
def test_what_many_cells_say_fits_on_a_bulletin(cells: int) -> None:
    """The widest numbers that there are: a hypothesis that is too large would end a study that has learned."""
    shares = [-1.2345678901234567e-05] * cells
    said = [replace(USUAL, low=-1.23456e-05, high=1.23457e-05)] * (cells if cells <= histogram.MOST_INTERVALS else 0)

    LearnedHypothesis.of("", {"shares": shares, "tolerance": 0.05, **interval_members(said)})


def test_a_study_of_version_0_1_says_what_it_said() -> None:
    """Of such a study the bulletin has the text alone, and what is learned again has to match it."""
    view, _ = finished("mean", 2000)
    replay = Replay(view.study, view.strategy, view.rounds.__getitem__, bare=True)
    replay.hear(entry.notice for entry in view.entries)

    assert isinstance(replay.output, Hypothesis)
    assert replay.output.text.endswith(", asked to within 0.05")
    assert set(replay.output.value) == {"mean", "tolerance"}


def test_an_interval_in_words() -> None:
    assert interval_text(USUAL) == "0.1928 to 0.2075 at 95 %, 12,345 reports"
    assert interval_text(replace(USUAL, reports=1)) == "0.1928 to 0.2075 at 95 %, 1 report"


@given(st.floats(-1e6, 1e6), st.integers(1, 8))
def test_an_end_is_rounded_outwards_and_hardly(end: float, digits: int) -> None:
    down, up = outward(end, digits, up=False), outward(end, digits, up=True)

    assert down <= end <= up
    assert up - down <= abs(end) * 10.0 ** (1 - digits) * 1.000001 + 5e-324
    assert float(f"{down:.{digits}g}") == down
    assert float(f"{up:.{digits}g}") == up


def test_a_survey_has_the_intervals_of_its_table_in_its_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"ask1": "mean(minutes, 0, 120)", "ask2": "share(plan = 'pro')"}
    _, learned = finished("survey", 4000, **asked)
    rows = learned.value["answers"]

    assert [row["name"] for row in rows] == list(asked.values())
    for row in rows:
        assert list(row) == ["estimate", "high", "level", "low", "name", "reports"]
        assert (row["low"] < row["estimate"] < row["high"], row["level"], row["reports"] > 100) == (True, 0.95, True)
    # Very many are left to the result.
    monkeypatch.setattr(survey_answers, "MOST_INTERVALS", 1)
    assert [list(row) for row in finished("survey", 4000, **asked)[1].value["answers"]] == [["estimate", "name"]] * 2
