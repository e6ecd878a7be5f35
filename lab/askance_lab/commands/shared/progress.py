"""What a long command shows while it runs: one line over and over on a terminal, JSON lines off it; on standard error.

Results go to standard output, and never through here.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TextIO

_EVERY_ON_TERMINAL: Final = 0.1
_EVERY_ELSEWHERE: Final = 2.0
_BAR: Final = 24


@dataclass(slots=True)
class ProgressBar:
    """How far something is that will be `whole`."""

    label: str
    whole: int
    quiet: bool = False
    out: TextIO = field(default_factory=lambda: sys.stderr)
    begun: float = field(default_factory=time.monotonic)
    _said: float = 0.0
    _done: int = 0

    def at(self, done: int, more: Mapping[str, int] | None = None) -> None:
        """It is so far now."""
        self._done = done
        every = _EVERY_ON_TERMINAL if self._terminal else _EVERY_ELSEWHERE
        if not self.quiet and time.monotonic() - self._said >= every:
            self._say(more or {})

    def end(self, more: Mapping[str, int] | None = None) -> None:
        """It is over, and its last line stays."""
        if not self.quiet:
            self._say(more or {})
            if self._terminal:
                self.out.write("\n")

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.begun

    @property
    def rate(self) -> float:
        """So many a second."""
        return self._done / self.seconds if self.seconds else 0.0

    @property
    def _terminal(self) -> bool:
        return self.out.isatty()

    def _say(self, more: Mapping[str, int]) -> None:
        self._said = time.monotonic()
        if self._terminal:
            columns = shutil.get_terminal_size().columns
            self.out.write("\r" + self._line(more)[: columns - 1].ljust(columns - 1))
        else:
            news = {"event": "progress", "what": self.label, "done": self._done, "of": self.whole}
            self.out.write(json.dumps({**news, "per_second": round(self.rate, 1), **more}) + "\n")
        self.out.flush()

    def _line(self, more: Mapping[str, int]) -> str:
        share = min(self._done / self.whole, 1.0) if self.whole else 1.0
        bar = "█" * round(_BAR * share) + "·" * (_BAR - round(_BAR * share))
        left = (
            f"{(self.whole - self._done) / self.rate:.0f} s left"
            if self.rate and share < 1
            else f"{self.seconds:.1f} s"
        )
        counts = " ".join(f"{name} {number:,}" for name, number in more.items())
        return f"{self.label} {bar} {self._done:,}/{self.whole:,} {self.rate:,.0f}/s {left} {counts}"
