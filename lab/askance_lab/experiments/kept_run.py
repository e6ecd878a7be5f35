"""A study of so many users that it takes hours: its tallies are kept as they come, so that it goes on after any end.

Tallies add up, and a block of users draws from a stream of its own. So of each round it is enough to keep how many
users have been counted, and the sum. Who goes on counts that sum first and then the others, and has the tallies that
the study would have had. Rounds are kept by their ids, which name the study, its questions and its coins; of what no id
names (who the users are, and the seed of their noise) the file keeps a document, and refuses to go on with another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from askance_lab.engines import Engine
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.run_study import Collection
from askance_protocol.errors import UsageError
from askance_protocol.tally import Tally

SCHEMA_VERSION: Final = 1
_RUN: Final = "run"

Blocks = list[list[Tally]]
T = TypeVar("T")


class KeptRun:
    """An engine for one study, whose tallies are kept in a file."""

    def __init__(self, engine: Engine, path: Path, run: Mapping[str, Any]) -> None:
        self.engine = engine
        self.checkpoint = Checkpoint(path, "counted", SCHEMA_VERSION)
        if self.checkpoint.results.get(_RUN, run) != run:
            remedy = "give the options that it was begun with, or another file"
            raise UsageError("keeps another run", where=f"--keep {path}", remedy=remedy)
        self.checkpoint.keep(_RUN, dict(run))

    def __call__(self, function: Callable[[range], T], tasks: Sequence[range]) -> Iterator[T | Blocks]:
        """A result for each task. What is no round is done anew: it takes a hundredth of one."""
        return self._round(function, tasks) if isinstance(function, Collection) else iter(self.engine(function, tasks))

    def _round(self, function: Collection, tasks: Sequence[range]) -> Iterator[Blocks]:
        """Of tasks that are counted already the last one's result is the sum, others' are empty."""
        id_ = function.round.digest()
        users, summed = self._counted(id_)
        left = [task for task in tasks if task.start >= users]
        if users:
            yield from ([] for _ in tasks[len(left) + 1 :])
            yield [summed]
        for task, blocks in zip(left, self.engine(function, left), strict=True):
            yield blocks
            # Only now: of a task within which the round has ended, the rest does not count.
            for tallies in blocks:
                summed = [old + new for old, new in zip(summed, tallies, strict=True)] if summed else tallies
            self.checkpoint.keep(id_, {"users": task.stop, "tallies": [tally.to_rows() for tally in summed]})

    def _counted(self, id_: str) -> tuple[int, list[Tally]]:
        kept: Mapping[str, Any] = self.checkpoint.results.get(id_, {"users": 0, "tallies": []})
        return kept["users"], [Tally.of(rows) for rows in kept["tallies"]]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.checkpoint.write()
