"""A clock and random numbers that are the same in each run: so what is written to be kept can be written again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from askance_protocol.randomness import keystream

BEGIN = 1_800_000_000.0
"""The second at which all that is kept was written, by its own clock."""


@dataclass
class Surroundings:
    """What the operating system would say, and what goes on from there."""

    now: float = BEGIN
    drawn: int = field(default=0, init=False)

    def time(self) -> float:
        """The clock: it stands until somebody sets it."""
        return self.now

    def bytes(self, count: int | None = None) -> bytes:
        """The next random bytes."""
        length = 32 if count is None else count
        self.drawn += length
        return keystream(bytes(32), self.drawn - length, length).tobytes()

    def hex(self, count: int | None = None) -> str:
        """The next random bytes, in digits."""
        return self.bytes(count).hex()


@contextmanager
def certain(now: float = BEGIN) -> Generator[Surroundings]:
    """All of this process asks these surroundings."""
    given = Surroundings(now)
    with ExitStack() as patches:
        patches.enter_context(patch("time.time", given.time))
        patches.enter_context(patch("os.urandom", given.bytes))
        patches.enter_context(patch("secrets.token_bytes", given.bytes))
        patches.enter_context(patch("secrets.token_hex", given.hex))
        yield given
