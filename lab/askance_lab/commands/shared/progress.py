"""Progress of a long command on standard error: a bar on a terminal, JSON lines elsewhere.

Results go to standard output, and never through here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_ON_TERMINAL: Final = 0.1
_SECONDS_ELSEWHERE: Final = 2.0


@dataclass(slots=True)
class ProgressBar:
    """Shows how much of a total is done. Use it in a `with` statement, which gives the terminal back."""

    label: str
    total: int
    out: TextIO = field(default_factory=lambda: sys.stderr)
    begun: float = field(default_factory=time.monotonic)
    done: int = 0
    _shown: float = 0.0
    _bar: Progress | None = None

    def __enter__(self) -> Self:
        if self.out.isatty():
            self._bar = _bar_on(self.out)
            self._bar.add_task(self.label, total=self.total, rate="", counts="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int, counts: Mapping[str, int] | None = None) -> None:
        """Note how much is done; it is shown now and then."""
        self.done = done
        seconds = _SECONDS_ELSEWHERE if self._bar is None else _SECONDS_ON_TERMINAL
        if time.monotonic() - self._shown >= seconds:
            self._show(counts or {})

    def end(self, counts: Mapping[str, int] | None = None) -> None:
        """Show the last state, which stays."""
        self._show(counts or {})

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.begun

    @property
    def rate(self) -> float:
        """How much was done in a second, on average."""
        return self.done / self.seconds if self.seconds else 0.0

    def _show(self, counts: Mapping[str, int]) -> None:
        self._shown = time.monotonic()
        if self._bar is None:
            news = {"event": "progress", "what": self.label, "done": self.done, "of": self.total}
            with suppress(OSError):  # A log on a disk that is full ends no long work.
                self.out.write(json.dumps({**news, "per_second": round(self.rate, 1), **counts}) + "\n")
                self.out.flush()
            return
        words = " ".join(f"{name} {number:,}" for name, number in counts.items())
        [task] = self._bar.task_ids
        self._bar.update(task, completed=self.done, rate=f"{self.rate:,.0f}/s", counts=words, refresh=True)


def _bar_on(out: TextIO) -> Progress:
    """A bar that is drawn when it is told to, by no thread of its own. Rich honours NO_COLOR."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[counts]}", markup=False),
        console=Console(file=out),
        auto_refresh=False,
    )
