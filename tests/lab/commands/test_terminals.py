"""The terminal of the tests: it types, interrupts, and waits no longer than it is told."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.lab.commands.terminals import Typist, on_terminal

ASKS = """
import os, sys
print(os.get_terminal_size(2).columns, os.isatty(1))
print("sure? [y/N]: ", end="", file=sys.stderr, flush=True)
print("heard", input(), file=sys.stderr)
"""
WAITS = """
import os, sys, time
print("pid", os.getpid(), "waits", file=sys.stderr, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_answers_are_typed_and_output_may_go_elsewhere(elsewhere: bool) -> None:
    run = on_terminal([sys.executable, "-c", ASKS], Typist(answers=["y"]), columns=97, out_elsewhere=elsewhere)

    assert run.code == 0
    assert "heard y" in run.shown
    assert f"97 {not elsewhere}" in (run.out if elsewhere else run.shown)
    assert ("97" in run.shown) is not elsewhere


def test_an_interrupt_is_sent_when_something_is_shown() -> None:
    run = on_terminal([sys.executable, "-c", WAITS], Typist(interrupt_at="waits"))
    assert run.code == -signal.SIGINT


def test_what_never_ends_is_ended_and_told() -> None:
    """The control: without a limit this would wait for ten minutes."""
    with pytest.raises(TimeoutError, match=r"after 1 s, and has shown 'pid \d+ waits") as caught:
        on_terminal([sys.executable, "-c", WAITS], Typist(interrupt_at="what it never shows"), seconds=1)

    pid = int(str(caught.value).split("pid ")[1].split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
