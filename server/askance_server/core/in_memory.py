"""A study whose bulletin is kept in memory: for running the whole protocol in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from askance_protocol.rounds import (
    Bulletin,
    Entry,
    Notice,
    PreparedRound,
    RoundPublished,
    StudyEnded,
    StudyPublished,
    StudySpec,
    prepare_round,
)
from askance_protocol.tally import Tally
from askance_server.core import planning
from askance_server.core.replay import Replay
from askance_server.core.strategy import Strategy


@dataclass(slots=True)
class StudyInMemory:
    """A `StudyView` over users who have paid for nothing yet, and the bulletin of their study."""

    study: StudySpec
    strategy: Strategy
    enrolled: int
    clock: Callable[[], int] = lambda: 0
    """Read once a round, from which its deadline is counted: nobody is late in memory. A deadline is a part of the
    round's digest, and so of its coins."""
    slots: Callable[[], planning.Slots] | None = None
    """Counts all users by their slots, where others than this process do; asked once."""
    bulletin: Bulletin = field(default_factory=Bulletin)
    entries: list[Entry] = field(default_factory=list[Entry])
    rounds: dict[str, PreparedRound] = field(default_factory=dict[str, PreparedRound])
    counted: dict[str, list[Tally]] = field(default_factory=dict[str, "list[Tally]"])
    """By round: the tally of each part."""
    _replay: Replay = field(init=False, repr=False)
    _payers: planning.Slots | None = field(default=None, repr=False)
    _times: list[int] = field(default_factory=list[int], repr=False)

    def __post_init__(self) -> None:
        self._replay = Replay(self.study, self.strategy, self.round)

    def append(self, notice: Notice) -> None:
        """Add a notice to the bulletin, which refuses what may not follow."""
        entry = self.bulletin.next(notice)
        self.bulletin = self.bulletin.append(entry)
        self.entries.append(entry)
        if isinstance(notice, RoundPublished):
            round_ = prepare_round(self.study, notice.round)
            self.rounds[round_.id] = round_
            self.counted[round_.id] = [
                Tally(np.zeros(shape, np.int64)) for shape in zip(round_.rows, round_.limits, strict=True)
            ]

    def publish(self) -> None:
        """Begin the bulletin with the study itself."""
        self.append(StudyPublished(study=self.study))

    def count(self, id_: str, more: Sequence[Tally]) -> None:
        """Add reports to a round's tallies."""
        self.counted[id_] = [tally + some for tally, some in zip(self.counted[id_], more, strict=True)]

    def pass_time(self, deadline: int) -> None:
        """Let the deadline come: all have answered who will."""
        self._times[-1] = deadline

    @property
    def replay(self) -> Replay:
        """Replay of the strategy, caught up with the bulletin."""
        self._replay.hear(entry.notice for entry in self.entries[self._replay.heard :])
        return self._replay

    @property
    def end(self) -> StudyEnded:
        """Last entry of the ended study."""
        notice = self.entries[-1].notice
        assert isinstance(notice, StudyEnded)  # noqa: S101 - told the type checker: asked of ended studies only
        return notice

    @property
    def now(self) -> int:
        """The time at which the current round was planned, or its deadline when that has come."""
        if len(self._times) == self._replay.answered:
            self._times.append(self.clock())
        return self._times[-1]

    def payers(self, charge: int) -> planning.Slots:
        """All users of each slot: each of them can pay, whatever it is."""
        del charge
        if self._payers is None:
            count = self.slots or partial(planning.slots_of, self.study, range(self.enrolled))
            self._payers = count()
        return self._payers

    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared."""
        return self.rounds[id_]

    def received(self, id_: str) -> int:
        """Number of reports counted."""
        return sum(tally.received for tally in self.counted[id_])

    def tallies(self, id_: str) -> Sequence[Tally]:
        """The tally of each part."""
        return self.counted[id_]
