"""A ledger in memory, for tests and for studies that run in one process. It is lost when the process ends.

It decides as the embedded ledger does, by the same projections; its log is a list of the groups as they came.
"""

from __future__ import annotations

from collections.abc import Iterator

from askance_protocol.rounds import Bulletin, Entry
from askance_server.ledger.base import OutcomeColumn, StoredEntry, Ticket, UserRun, Users, up_to
from askance_server.ledger.projections import ProjectedLedger


class MemoryLedger(ProjectedLedger):
    """A ledger whose log lives in this process only."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, list[Entry]] = {}
        self._tickets: dict[str, tuple[Ticket, int]] = {}
        self._log: dict[str, list[tuple[Users, OutcomeColumn]]] = {}

    def entries(self, study: str, after: int = -1) -> list[Entry]:
        """Entries of a study whose sequence is larger than `after`."""
        self._check_study(study)
        return self._entries[study][max(after + 1, 0) :]

    def stored_entries(self, study: str, after: int, most: int) -> list[StoredEntry]:
        """The first of the entries behind `after`."""
        rows = ((entry.sequence, entry.digest(), entry.to_bytes()) for entry in self.entries(study, after))
        return up_to(most, rows)

    def check_writable(self) -> None:
        """Do nothing: memory is always writable, but for a ledger that has stopped."""
        self._check_whole()

    def close(self) -> None:
        """Do nothing: no files or connections are open."""

    def _keep_users(self, run: UserRun) -> None:
        """Store the tickets only: the projections hold the users."""
        for ticket, used in run.tickets:
            before, _ = self._tickets.get(ticket.id, (ticket, 0))
            self._tickets[ticket.id] = before, used

    def _kept_ticket(self, id_: str) -> tuple[Ticket, int] | None:
        return self._tickets.get(id_)

    def _keep_epoch(self, user: int, epoch: int) -> None:
        """Store nothing: the projections hold the epochs."""

    def _keep_entry(self, study: str, entry: Entry, after: Bulletin) -> None:  # noqa: ARG002 - the parent's signature
        self._entries.setdefault(study, []).append(entry)

    def _keep_group(self, id_: str, users: Users, outcomes: OutcomeColumn) -> None:
        # Copied: the arrays are the caller's, who may go on writing into them.
        self._log.setdefault(id_, []).append((users.copy(), outcomes.copy()))

    def _kept_entry(self, study: str, sequence: int) -> Entry:
        return self._entries[study][sequence]

    def _count_logged(self, id_: str) -> int:
        return sum(len(users) for users, _ in self._logged(id_))

    def _logged_behind(self, id_: str, mark: int) -> Iterator[tuple[int, Users, OutcomeColumn]]:
        return ((behind, *group) for behind, group in enumerate(self._log.get(id_, [])[mark:], mark + 1))
