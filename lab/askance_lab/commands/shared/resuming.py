"""Measurements that take minutes: what is kept of them, and that it can be gone on with, is said while they run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from askance_lab.commands.shared.exit_codes import say
from askance_lab.commands.shared.progress import ProgressBar


@contextmanager
def measuring(label: str, total: int, out: Path, *, resume: bool) -> Generator[Callable[[int], None]]:
    """A bar, and what tells it how much is done: at first, what an earlier call with the same parameters has left."""
    with ProgressBar(label, total) as bar:

        def at(done: int) -> None:
            if resume and not told:
                other = "" if done else ": what else is there has other parameters, and is kept"
                say(f"{out} has {done:,} of {total:,} measurements already{other}")
            told.append(done)
            bar.at(done)

        told = list[int]()
        try:
            yield at
        except KeyboardInterrupt:
            say(f"{out} keeps what was measured: go on with --resume")
            raise
        bar.end()
