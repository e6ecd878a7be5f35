"""Progress and tables: drawn on a terminal, plain and machine-readable elsewhere."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from askance_lab.commands import curator as curator_command
from askance_lab.commands import plan as plan_command
from askance_lab.commands import run as run_command
from askance_lab.commands import schema as schema_command
from askance_lab.commands import study as study_command
from askance_lab.commands.shared.export_files import write_export
from askance_lab.commands.shared.progress import CountedEngine, ProgressBar
from askance_lab.commands.shared.tables import echo_table
from askance_lab.data.made_up import made_up
from askance_lab.run_study import run_study
from askance_protocol.parameters import Parameters
from askance_server.core.export import export_files
from askance_server.core.study import study_of
from askance_server.strategies.registry import registry
from tests.harness.told import Told
from tests.lab.commands.calls import invoke
from tests.lab.commands.terminals import on_terminal


class Terminal(io.StringIO):
    """A stream that says that it is one."""

    def isatty(self) -> bool:
        return True


def test_off_a_terminal_progress_is_json_lines() -> None:
    out = io.StringIO()
    with ProgressBar("load", 10, out) as bar:
        bar.at(4, {"accepted": 3})
        bar.at(10)
        bar.end({"accepted": 9})
    lines = [json.loads(line) for line in out.getvalue().splitlines()]

    assert [(each["event"], each["what"], each["of"]) for each in lines] == [("progress", "load", 10)] * len(lines)
    assert (lines[0]["done"], lines[0]["accepted"]) == (4, 3)
    assert (lines[-1]["done"], lines[-1]["accepted"]) == (10, 9)
    assert all(isinstance(each["per_second"], float) for each in lines)


def test_on_a_terminal_progress_is_a_bar_that_ends_with_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    with ProgressBar("concepts [all]", 2000, out) as bar:
        bar.at(2000)
        bar.end({"learned": 1200})

    assert "concepts [all]" in out.getvalue()
    assert "2,000/2,000" in out.getvalue()
    assert "learned 1,200" in out.getvalue()
    assert "\x1b[?25h" in out.getvalue(), "the cursor is given back"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured: list[bool] = []
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        out = Terminal()
        with ProgressBar("x", 2, out) as bar:
            bar.at(1)
            bar.end()
        coloured.append("\x1b[38;5" in out.getvalue())

    assert coloured == [True, False]


def drawn(bar: ProgressBar, width: int) -> str:
    """The one line that is drawn in a window so wide."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(bar.line(width))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert len(lines) == 1, lines
    assert len(lines[0]) < width
    return re.sub(r"[━╸╺ ]+", " ", lines[0])


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def left_of(line: str) -> int:
    """Seconds left, as the line says them."""
    found = re.search(r"(\d+):(\d\d):(\d\d) left", line)
    assert found, line
    hours, minutes, seconds = map(int, found.groups())
    return 3600 * hours + 60 * minutes + seconds


def shown_while(paces: Sequence[float], kept: int, width: int = 80) -> Iterator[tuple[int, float]]:
    """What is said of the time left, and what is true, where each step takes so many seconds; some were kept."""
    clock = Clock()
    bar = ProgressBar("separation", kept + len(paces), io.StringIO(), clock=clock)
    bar.at(kept)
    for number, seconds in enumerate(paces, 1):
        clock.now += seconds
        bar.at(kept + number)
        if number < len(paces):
            yield left_of(drawn(bar, width)), sum(paces[number:])


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("kept", [0, 500])
def test_the_time_left_is_near_the_truth_also_where_much_was_kept_from_before(kept: int, width: int) -> None:
    paces = [3.0, 2.0, 4.0, 3.0] * 25
    assert all(abs(said - true) <= 2 + true / 2 for said, true in shown_while(paces, kept, width))


def test_a_pace_that_counts_what_was_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the planted pace takes what lay there already for work of this run."""

    def planted(self: ProgressBar) -> float:
        return (self.total - self.done) * self.seconds / self.done

    monkeypatch.setattr(ProgressBar, "seconds_left", property(planted))
    said = list(shown_while([3.0] * 100, 500))
    assert any(abs(told - true) > 2 + true / 2 for told, true in said)


def test_between_two_steps_the_time_runs_down_to_zero_and_never_below() -> None:
    clock = Clock()
    bar = ProgressBar("x", 3, io.StringIO(), clock=clock)
    bar.at(0)
    assert "left" not in drawn(bar, 80), "nothing is known before the first step"
    clock.now += 10
    bar.at(1)
    told = list[int]()
    for _ in range(5):
        told.append(left_of(drawn(bar, 80)))
        clock.now += 7

    assert told == [20, 13, 6, 0, 0]
    bar.at(3)
    assert "0:00:45" in drawn(bar, 80), "at the end the time that it took"


def test_another_part_has_a_pace_of_its_own_and_what_cannot_be_known_shows_the_time_so_far() -> None:
    clock = Clock()
    bar = ProgressBar("reading", out=io.StringIO(), quiet=True, clock=clock)
    clock.now += 65
    assert drawn(bar, 40) == "reading 0:01:05"
    bar.begin("round 1", 10)
    bar.at(0)
    clock.now += 1
    bar.at(5)
    assert drawn(bar, 60) == "round 1 50 % 0:00:01 left"


@pytest.mark.parametrize("width", range(20, 130, 5))
def test_one_line_fits_any_window_and_what_matters_least_goes_first(width: int) -> None:
    clock = Clock()
    bar = ProgressBar("masked-parity-noninteractive", 1_000_000, io.StringIO(), clock=clock)
    bar.at(0)
    clock.now += 50
    bar.at(250_000, {"accepted": 249_990, "repeated": 10})
    line = drawn(bar, width)

    assert "0:02:30 left" in line
    assert ("250,000/1,000,000" in line) == (width >= 40)
    assert ("repeated 10" in line) == (width >= 105)


def test_a_quiet_bar_says_nothing_off_a_terminal() -> None:
    out = io.StringIO()
    with ProgressBar("x", 2, out, quiet=True) as bar:
        bar.at(1)
        bar.at(2)
    assert out.getvalue() == ""


ON_A_TERMINAL = """
import sys, time
from askance_lab.commands import run as run_command
from askance_lab.commands.shared.progress import ProgressBar
with ProgressBar("reading people.csv", 30, quiet=True) as bar:
    for number in range(31):
        bar.at(number)
        time.sleep(float(sys.argv[1]))
print("the result")
"""


def on_a_terminal(seconds: float, columns: int) -> tuple[str, str]:
    """Standard output, and what came to a terminal of so many columns that standard error is."""
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    run = on_terminal(
        [sys.executable, "-c", ON_A_TERMINAL, seconds],
        columns=columns,
        out_elsewhere=True,
        environment={**environment, "TERM": "xterm-256color"},
    )
    return run.out, run.shown


@pytest.mark.parametrize("columns", [40, 80])
def test_on_a_real_terminal_a_quiet_bar_comes_fits_and_goes(columns: int) -> None:
    out, told = on_a_terminal(0.06, columns)
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part) for part in re.split(r"[\r\n]", told)]

    assert out == "the result\n"
    assert any("left" in frame and "reading" in frame for frame in frames)
    assert all(len(frame) < columns for frame in frames)
    assert told.count("\n") <= 1, "it is one line, drawn anew"
    # What is done last: the line is gone, and the cursor is back.
    assert told.rindex("\x1b[2K") > told.rindex("reading")
    assert "\x1b[?25h" in told


def test_on_a_real_terminal_what_is_done_at_once_shows_no_bar() -> None:
    out, told = on_a_terminal(0.0, 80)
    assert (out, "reading" in told) == ("the result\n", False)


def test_rounds_are_counted_by_the_tasks_of_an_engine_and_begin_anew() -> None:
    clock = Clock()
    bar = ProgressBar("users", out=io.StringIO(), quiet=True, clock=clock)
    told = list[str]()

    def work(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        for task in tasks:
            clock.now += 2
            yield function(task)

    counted = CountedEngine(work, bar, rounds=2)
    for needed in (3, 4):  # the first round has enough after three of its four tasks
        for done, _ in enumerate(counted(abs, range(4)), 1):
            told.append(drawn(bar, 60))
            if done == needed:
                break

    assert told[0] == "round 1 12 % 0:00:14 left"
    assert told[3].startswith("round 2 62 % 0:00:0")
    assert told[-1] == "round 2 100 % 0:00:14"


def test_work_with_a_name_of_its_own_is_no_round() -> None:
    clock = Clock()
    bar = ProgressBar("users", out=io.StringIO(), quiet=True, clock=clock)

    class Named:
        label = "users by slots"

        def __call__(self, task: range) -> int:
            clock.now += 2
            return len(task)

    def work(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        return map(function, tasks)

    counted, told = CountedEngine(work, bar, rounds=1), list[str]()
    for function in (Named(), len):
        for _ in counted(function, [range(10), range(10, 20)]):
            told.append(drawn(bar, 60))

    assert told[0].startswith("users by slots 50 %")
    assert told[1].startswith("users by slots 100 %")
    assert told[2].startswith("round 1 50 %")
    assert told[3].startswith("round 1 100 %")


def test_work_with_a_name_of_its_own_is_not_shown_where_it_is_short() -> None:
    bar = ProgressBar("users", out=io.StringIO(), quiet=True, clock=Clock())

    class Named:
        label = "users by slots"

        def __call__(self, task: range) -> int:
            return len(task)

    def work(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        return map(function, tasks)

    list(CountedEngine(work, bar, rounds=1)(Named(), [range(10), range(10, 20)]))

    assert bar.label == "users"


def test_what_is_told_of_another_part_begins_anew_and_what_has_no_end_shows_what_is_done() -> None:
    clock = Clock()
    bar = ProgressBar("verifying", out=io.StringIO(), quiet=True, clock=clock)
    bar.tell("checking pages", 0, 0)
    clock.now += 65
    assert drawn(bar, 60) == "checking pages 0:01:05"
    bar.tell("verifying reports", 0, 200)
    clock.now += 3
    bar.tell("verifying reports", 50, 200)
    assert drawn(bar, 60) == "verifying reports 25 % 0:00:09 left"
    bar.tell("trying a number of users", 0, 0)
    clock.now += 2
    bar.tell("trying a number of users", 12_800, 0)
    assert drawn(bar, 60) == "trying a number of users 12,800 0:00:02", "no end, and none is made up"
    # What a damaged ledger says of itself.
    bar.tell("verifying seals", 7, -5)
    assert drawn(bar, 60) == "verifying seals 7 0:00:00"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A study that was exported."""
    parameters: Parameters = {"users": "all"}
    strategy = registry()["mean"]
    spec = study_of(registry(), strategy="mean", parameters=parameters, title="T", nonce="0" * 32, simulated=True)
    view = run_study(spec, strategy, made_up(strategy, parameters, 1), 1000, seed=1)
    write_export(tmp_path / "export", export_files(view.entries, registry()))
    return tmp_path / "export"


@pytest.mark.parametrize(
    ("command", "arguments", "with_end", "without"),
    [
        (schema_command, ("schema", "people.csv"), ["reading people.csv"], set[str]()),
        (run_command, ("run", "mean", "--data", "people.csv"), ["reading people.csv"], set[str]()),
        (
            curator_command,
            ("curator", "generic-point", "--data", "people.csv", "--label", "ill", "--column", "age"),
            ["reading people.csv"],
            {"running generic-point", "measuring its error"},
        ),
        (
            curator_command,
            ("curator", "generic-parity", "--users", 500),
            [],
            {"making up 500 users", "running generic-parity", "measuring its error"},
        ),
        (plan_command, ("plan", "masked-parity", "--d", 4), ["asking rounds", "planning rounds"], set[str]()),
        (
            plan_command,
            ("plan", "survey", "--ask", "share(plan = 'pro')"),
            ["asking rounds", "planning rounds"],
            {"working out intervals"},
        ),
        (
            study_command,
            ("study", "verify", "export"),
            ["verifying entries"],
            {"verifying tallies.json", "verifying result.json"},
        ),
    ],
)
def test_what_may_take_long_tells_how_far_it_is(
    command: ModuleType,
    arguments: Sequence[object],
    with_end: list[str],
    without: set[str],
    export: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (export.parent / "people.csv").write_text("value,age,ill\n" + "0.5,30,1\n0.25,41,-1\n" * 200)
    monkeypatch.chdir(export.parent)
    heard = Told()

    class Recorded(ProgressBar):
        def at(self, done: int, counts: Mapping[str, int] | None = None) -> None:
            super().at(done, counts)
            heard(self.label, self.done, self.total)

    monkeypatch.setattr(command, "ProgressBar", Recorded)
    invoke(*arguments)
    assert heard.fault(*with_end) is None
    assert {part for part, _, of in heard.news if not of} >= without


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ([("reading", 0, 10), ("reading", 5, 10)], "reading: it is not told to its end"),
        ([("reading", 0, 10), ("reading", 11, 10)], "reading: it goes beyond its end"),
        ([("reading", 6, 10), ("reading", 5, 10), ("reading", 10, 10)], "reading: it goes back"),
        ([("reading", 0, 9), ("reading", 10, 11)], "reading: its end moves"),
        ([("writing", 10, 10)], "reading: it is not told to its end"),
    ],
)
def test_what_is_told_wrongly_is_found(planted: list[tuple[str, int, int]], fault: str) -> None:
    """The control."""
    assert Told([("reading", 0, 10), ("reading", 10, 10)]).fault("reading") is None
    assert Told(planted).fault("reading") == fault


def test_a_run_shows_its_rounds_with_the_time_left_and_a_run_over_http_its_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = list[tuple[str, int, int]]()

    class Recorded(ProgressBar):
        def at(self, done: int, counts: Mapping[str, int] | None = None) -> None:
            super().at(done, counts)
            told.append((self.label, self.done, self.total))

    monkeypatch.setattr(run_command, "ProgressBar", Recorded)
    invoke("run", "mean", "--users", 250_000, "--seed", 1)
    assert told == [("round 1", done, 250_000) for done in (0, 100_000, 200_000, 250_000)]

    told.clear()
    invoke("run", "mean", "--users", 300, "--oracle", "http")
    assert told == [("reports", 300, 300)]


ROWS = (("mean", "1,200", "[0.10, 0.20]"), ("k-ary", "-", "learned"))


def test_a_table_off_a_terminal_is_the_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    echo_table("plain\ntext", ("name", "users", "interval"), ROWS)
    assert capsys.readouterr().out == "plain\ntext\n"


def test_a_table_on_a_terminal_shows_every_cell_and_reads_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdout", out)
    echo_table("plain", ("name", "users", "interval"), ROWS, title="Users [all]", below=["report: x [1]"])
    shown = out.getvalue()

    for cell in ("name", "mean", "1,200", "[0.10, 0.20]", "Users [all]", "report: x [1]"):
        assert cell in shown
    assert "plain" not in shown
