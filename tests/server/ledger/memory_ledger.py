"""The ledger in memory with what tests of studies need of it, and one that stops at an append, for tests of crashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from askance_protocol.examples import Columns
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import Bulletin, Entry, PreparedRound
from askance_server.ledger import memory
from askance_server.ledger.base import Ledger
from tests.server.ledger.ledgers import Keeper


class MemoryLedger(memory.MemoryLedger):
    """The ledger in memory, whose users answer when they are told to."""

    @property
    def spent(self) -> list[int]:
        """Micro-ε that each user has spent."""
        return self._spending.spent[: self.enrolled()].tolist()

    @spent.setter
    def spent(self, spent: Sequence[int]) -> None:
        self._spending.spent[: self.enrolled()] = spent

    @property
    def rounds(self) -> dict[str, PreparedRound]:
        """All rounds, in the order of publication."""
        return {id_: self.round(id_) for id_ in self._published}

    @property
    def reports(self) -> dict[str, dict[int, int]]:
        """The outcome that each user reported, for each round."""
        return {
            id_: {
                user: outcome
                for users, outcomes in self._logged(id_)
                for user, outcome in zip(users.tolist(), outcomes.tolist(), strict=True)
            }
            for id_ in self._published
        }

    def answer(self, id_: str, columns: Columns, *, most: int | None = None, seed: int = 7) -> int:
        """Let the users of a round's cohort who can pay report, user u with row u; how many did."""
        round_, everybody = self.round(id_), range(self.enrolled())
        users = np.flatnonzero(round_.asked(everybody) & self.affording(everybody, round_.charge))[:most]
        reports = round_.respond_all(users, columns.take(users), SimulatedRandom(seed))
        verdicts = self.charge(id_, users.astype(np.uint64), reports.outcomes)
        assert not verdicts.any()
        return len(users)

    def assert_nothing_spent(self) -> None:
        """Nobody has paid for anything."""
        assert not any(self.spent)


class MemoryKeeper(Keeper):
    """A ledger in memory is never opened again: it would be another one."""

    def __init__(self) -> None:
        self.memory = MemoryLedger()
        super().__init__()

    def open(self) -> Ledger:
        return self.memory

    def plant_overspend(self, user: int) -> None:
        """One more report of hers in the log, to a round that she has not answered."""
        answered = {charge.round for charge in self.memory.standing(user).charges}
        id_ = next(id_ for id_ in self.memory.rounds if id_ not in answered)
        self.memory._keep_group(id_, np.array([user], np.uint64), np.array([0], np.uint32))


class Crash(Exception):
    """The process is gone."""


class CrashingLedger(MemoryLedger):
    """Stops at its `at`-th append, before the entry is stored or after."""

    def __init__(self, at: int, *, stored: bool) -> None:
        super().__init__()
        self.left = at
        self.stores = stored

    def append(self, study: str, entry: Entry) -> Bulletin:
        self.left -= 1
        if self.left:
            return super().append(study, entry)
        if self.stores:
            super().append(study, entry)
        raise Crash
