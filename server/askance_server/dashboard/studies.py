"""The list of studies: a row each, collected from the ledger by a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from askance_protocol.rounds import ENDED, Bulletin, RoundState, StudyEnded, StudyState
from askance_server.aggregator import Aggregator
from askance_server.dashboard.templates import rendered
from askance_server.ledger import NotFoundError
from askance_server.public_answers import PublicAnswer

A_PAGE: Final = 50
"""Studies on a page of the list."""
_SHORT: Final = 300
"""Characters of a reason that the list shows."""


@dataclass(frozen=True, slots=True)
class StudyList:
    """A page of the list of studies, newest first."""

    studies: list[str]
    first: int
    """How many are newer, and one."""
    newer: str | None
    """The address of the page before this one: of newer studies."""
    older: str | None


def page_of_list(known: Sequence[str], page: int = 1, before: str = "") -> StudyList:
    """The studies that were created before one of them; without it, by the number of a page. `known` is oldest first.

    The number of a page is out of date as soon as a study is created, so pages lead to each other by studies.
    """
    end = (
        known.index(before)
        if before in known
        else len(known) - A_PAGE * min(page - 1, max(0, len(known) - 1) // A_PAGE)
    )
    begin, newer = max(0, end - A_PAGE), end + A_PAGE
    return StudyList(
        studies=list(known[begin:end][::-1]),
        first=len(known) - end + 1,
        newer=None if end == len(known) else "/" if newer >= len(known) else f"/?before={known[newer]}",
        older=f"/?before={known[begin]}" if begin else None,
    )


@dataclass(frozen=True, slots=True)
class StudyRow:
    """Where a study stands."""

    id: str
    title: str
    strategy: str
    state: str
    """Which shape tells it: planned, asking, paused, or how it ended."""
    says: str
    received: int
    expected: int
    """Reports of the rounds that were published so far."""
    cap: int
    simulated: bool
    reason: str
    """Why it ended as it did, if not well, or why it is paused."""

    @property
    def part(self) -> float:
        """Part of the reports that came."""
        return min(1.0, self.received / self.expected) if self.expected else 0.0


def row_of(aggregator: Aggregator, study: str) -> StudyRow:
    """The row of one study."""
    bulletin = aggregator.ledger.bulletin(study)
    spec = bulletin.study
    if spec is None:
        raise NotFoundError(study)
    paused = aggregator.driver.paused(study)
    state, says = state_of(aggregator, bulletin, paused)
    reason = end_of(aggregator, study, bulletin)
    return StudyRow(
        id=study,
        title=spec.title,
        strategy=spec.strategy,
        state=state,
        says=says,
        received=sum(aggregator.ledger.received(id_) for id_, _ in bulletin.rounds),
        expected=sum(aggregator.ledger.round(id_).spec.target for id_, _ in bulletin.rounds),
        cap=spec.cap,
        simulated=spec.simulated,
        reason=paused or (reason.reason[:_SHORT] if reason is not None and reason.state != "finished" else ""),
    )


def state_of(aggregator: Aggregator, bulletin: Bulletin, paused: str | None) -> tuple[str, str]:
    """The state of a study: its shape, and the words beside it."""
    if bulletin.state in ENDED:
        return bulletin.state.value, bulletin.state.value
    if paused is not None:
        return "paused", "paused"
    if bulletin.state is StudyState.CREATED or not bulletin.rounds:
        return "planned", "planned"
    number, strategy = (
        len(bulletin.rounds),
        aggregator.strategies.get(bulletin.study.strategy if bulletin.study else ""),
    )
    most = 1 if strategy is None else strategy.rounds
    last = bulletin.rounds[-1][1]
    doing = "asking" if last is RoundState.OPEN else "planning"
    return "asking", doing if most == 1 else f"{doing}, round {number} of at most {max(most, number)}"


def end_of(aggregator: Aggregator, study: str, bulletin: Bulletin) -> StudyEnded | None:
    """The last entry of a study that has ended."""
    if bulletin.state not in ENDED:
        return None
    notice = aggregator.ledger.entries(study, bulletin.length - 2)[-1].notice
    return notice if isinstance(notice, StudyEnded) else None


def row_answer(aggregator: Aggregator, study: str) -> PublicAnswer:
    """The row as HTML. That of a study that has ended stays as it is."""
    row = row_of(aggregator, study)
    ended = aggregator.ledger.bulletin(study).state in ENDED
    return PublicAnswer.of(rendered("study_row.html", row=row), final=ended)
