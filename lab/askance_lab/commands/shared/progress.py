"""Progress of a long command on standard error: a bar with the time left on a terminal, JSON lines elsewhere.

Results go to standard output, and never through here. A `quiet` bar is for what is often done before anybody looks: it
appears after half a second, goes when the work is done, and leaves nothing elsewhere than on a terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Final, Self, TextIO, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar as DrawnBar
from rich.table import Table
from rich.text import Text

from askance_lab.commands.shared.colours import REST_OF_A_BAR
from askance_lab.engines import Engine

_DRAWN_PER_SECOND: Final = 8
_SECONDS_BEFORE_A_QUIET_ONE: Final = 0.5
_SECONDS_ELSEWHERE: Final = 2.0
_LONGEST_BAR, _SHORTEST_BAR, _SHORTEST_LABEL = 40, 6, 8

Result = TypeVar("Result")
Task = TypeVar("Task")


@dataclass(slots=True)
class ProgressBar:
    """Shows how much of a total is done, and the time left. Use it in a `with` statement: it gives the terminal back.

    Without a total, or before anything is done, it shows the time since it began, and what is done so far.
    """

    label: str
    total: int = 0
    out: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    done: int = 0
    _counts: Mapping[str, int] = field(init=False, default_factory=dict[str, int])
    _told: float = field(init=False, default=float("-inf"))
    _first: tuple[float, int] | None = field(init=False, default=None)
    """When it was first told how much is done, and how much: what was kept from an earlier run took no time now."""
    _due: float | None = field(init=False, default=None)
    """When all will be done, at the pace so far."""
    _live: Live | None = field(init=False, default=None)
    _timer: Timer | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    def __enter__(self) -> Self:
        if self.out.isatty():
            self._live = Live(
                console=Console(file=self.out),
                get_renderable=self.line,
                refresh_per_second=_DRAWN_PER_SECOND,
                transient=self.quiet,
                redirect_stdout=False,  # results go where they go
            )
            if self.quiet:
                self._timer = Timer(_SECONDS_BEFORE_A_QUIET_ONE, self._live.start)
                self._timer.daemon = True
                self._timer.start()
            else:
                self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._live is not None:
            self._live.stop()

    def begin(self, label: str, total: int = 0) -> None:
        """Begin another part of the work, with a pace and a time of its own."""
        self.label, self.total, self.done = label, total, 0
        self.begun, self._first, self._due = self.clock(), None, None

    def tell(self, part: str, done: int, total: int) -> None:
        """Note how much of a part of the work is done. A part that is new has a pace and a time of its own."""
        if part != self.label:
            self.begin(part)
        self.total = max(0, total)  # Also where the number comes from a ledger that is damaged.
        self.at(done)

    def at(self, done: int, counts: Mapping[str, int] | None = None) -> None:
        """Note how much is done; it is shown now and then."""
        now = self.clock()
        self.done, self._counts = done, counts or {}
        if self._first is None or done < self._first[1]:
            self._first = now, done
        since, before = self._first
        self._due = now + (now - since) * (self.total - done) / (done - before) if done > before else None
        if self._live is None and now - self._told >= _SECONDS_ELSEWHERE:
            self._tell()

    def end(self, counts: Mapping[str, int] | None = None) -> None:
        """Show the last state, which stays."""
        self._counts = counts or {}
        if self._live is None:
            self._tell()

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.begun

    @property
    def rate(self) -> float:
        """How much was done in a second, on average."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all is done, at the pace so far; None: nothing is known of it."""
        if not self.total or self._due is None:
            return None
        # Between two steps the time runs down, as a clock does; what is overdue may end at any moment.
        return max(0.0, self._due - self.clock())

    def line(self, width: int | None = None) -> RenderableType:
        """What is drawn: one line in so many columns, in which what matters least goes first."""
        width = Console(file=self.out).width if width is None else width
        known = self.total > 0
        left = None if self.done >= self.total else self.seconds_left
        shown = [_hours(self.seconds) if left is None else f"{_hours(left)} left"]
        room = width - 2 - len(shown[0])
        amount = self._amount()
        if amount and room - 1 - len(amount) >= min(_SHORTEST_LABEL, cell_len(self.label)):
            shown.insert(0, amount)
            room -= 1 + len(amount)
        label = self.label if cell_len(self.label) <= room else f"{set_cell_size(self.label, max(room - 1, 0))}…"
        room -= cell_len(label)
        more = [] if self.quiet or not known else [f"{self.rate:,.0f}/s", *self._named_counts()]
        for text in more:
            if room - 1 - len(text) <= _SHORTEST_BAR:
                break
            shown.append(text)
            room -= 1 + len(text)
        cells: list[RenderableType] = [Text(label), *map(Text, shown)]
        if known and room > _SHORTEST_BAR:
            cells.insert(1, bar_of(self.done, self.total, min(_LONGEST_BAR, room - 1)))
        grid = Table.grid(padding=(0, 1, 0, 0))
        for _ in cells:
            grid.add_column(no_wrap=True)
        grid.add_row(*cells)
        return grid

    def _amount(self) -> str:
        """What is done of the total; where that is not known, what is done so far."""
        if not self.total:
            return f"{self.done:,}" if self.done else ""
        if self.quiet:
            return f"{min(100, 100 * self.done // self.total)} %"
        return f"{self.done:,}/{self.total:,}"

    def _named_counts(self) -> list[str]:
        return [f"{name} {number:,}" for name, number in self._counts.items()]

    def _tell(self) -> None:
        """Write a line, where nothing is drawn."""
        self._told = self.clock()
        if self.quiet:
            return
        news = {"event": "progress", "what": self.label, "done": self.done, "of": self.total}
        with suppress(OSError):  # A log on a disk that is full ends no long work.
            self.out.write(json.dumps({**news, "per_second": round(self.rate, 1), **self._counts}) + "\n")
            self.out.flush()


def bar_of(done: int, total: int, width: int) -> DrawnBar:
    """A bar for light windows and dark ones."""
    return DrawnBar(total, min(done, total), width=width, style=REST_OF_A_BAR)


def _hours(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@dataclass(slots=True)
class CountedEngine:
    """An engine whose tasks, or the users in them, are shown on a bar.

    Each call of it is a round, which may need fewer tasks than it has. A function that has a `label` is none: it is
    shown by that name, where it takes long.
    """

    engine: Engine
    bar: ProgressBar
    rounds: int
    """Number of calls that are expected."""
    _round: int = 0

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """As the engine does, and count."""
        amounts = [len(task) if isinstance(task, range) else 1 for task in tasks]
        if label := getattr(function, "label", ""):
            yield from self._apart(label, function, tasks, amounts)
            return
        done, self._round = self._round * sum(amounts), self._round + 1
        label, total = f"round {self._round}", max(self.rounds, self._round) * sum(amounts)
        # One task by itself tells nothing of the time that it takes.
        self.bar.label, self.bar.total = label, total if max(self.rounds, self._round) * len(tasks) > 1 else 0
        self.bar.at(done)
        for amount, result in zip(amounts, self.engine(function, tasks), strict=False):
            done += amount
            if result == []:
                # Counted by an earlier call: that took no time now.
                self.bar.begin(label, total)
            self.bar.at(done)
            yield result

    def _apart(
        self, label: str, function: Callable[[Task], Result], tasks: Sequence[Task], amounts: Sequence[int]
    ) -> Iterator[Result]:
        """What is no round: shown where it takes long, and nowhere else."""
        begin, done = self.bar.clock(), 0
        for amount, result in zip(amounts, self.engine(function, tasks), strict=False):
            done += amount
            if self.bar.clock() - begin >= _SECONDS_ELSEWHERE:
                if self.bar.label != label:
                    self.bar.begin(label, sum(amounts))
                self.bar.at(done)
            yield result
