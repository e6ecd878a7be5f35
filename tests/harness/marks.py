"""Bytes in shared memory in which a process notes where it is, and which outlive it.

The process that is to be killed writes them, the one that kills it reads them: after the end they say where the kill
landed, which is no estimate. The killer may also ask for a stop at one of the points that the process passes.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import Final

SECONDS: Final = 120
"""What takes longer is stuck, even on a slow machine with much else to do. Nothing else goes by the clock."""


class Marks:
    """A byte for each place of which a process gives notice, mapped from a file by it and by its killer."""

    _HOLD, _HELD, _PLACES = range(3)

    def __init__(self, path: Path, places: int) -> None:
        with path.open("a+b") as file:
            file.truncate(self._PLACES + places)
            self._bytes = mmap.mmap(file.fileno(), 0)

    def __getitem__(self, place: int) -> int:
        return self._bytes[self._PLACES + place]

    def __setitem__(self, place: int, value: int) -> None:
        self._bytes[self._PLACES + place] = value

    def clear(self) -> None:
        """Forget everything, before the next process starts."""
        self._bytes[:] = bytes(len(self._bytes))

    def hold(self, points: int) -> None:
        """Ask the process to stop at this many points from now."""
        self._bytes[self._HOLD] = points

    @property
    def held(self) -> bool:
        """Whether the process has stopped at a point and waits to be killed."""
        return bool(self._bytes[self._HELD])

    def point(self) -> None:
        """Stop here if asked to; called by the process."""
        if self._bytes[self._HOLD]:
            self._bytes[self._HOLD] -= 1
            if not self._bytes[self._HOLD]:
                self._bytes[self._HELD] = 1
                time.sleep(SECONDS)

    def close(self) -> None:
        """Unmap the memory."""
        self._bytes.close()
