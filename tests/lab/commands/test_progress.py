"""Progress and tables: drawn on a terminal, plain and machine-readable elsewhere."""

from __future__ import annotations

import io
import json
import sys

import pytest

from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.tables import echo_table


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
