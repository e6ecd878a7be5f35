"""A ledger in memory, for tests of what stands on a ledger; and one that stops at an append, for tests of crashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_protocol.budget import Account
from askance_protocol.examples import Columns
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import (
    Bulletin,
    Entry,
    PreparedRound,
    RoundPublished,
    RoundState,
    prepare_round,
)
from askance_protocol.tally import Tally, tally_round
from askance_server.ledger.base import (
    Charge,
    Fault,
    Ledger,
    NotFoundError,
    Outcomes,
    Standing,
    Users,
    Verdict,
    Verdicts,
)


class MemoryLedger(Ledger):
    """Everything in dictionaries."""

    def __init__(self) -> None:
        self.caps: list[int] = []
        self.spent: list[int] = []
        self.epochs: list[int] = []
        self.bulletins: dict[str, Bulletin] = {}
        self.stored: dict[str, list[Entry]] = {}
        self.rounds: dict[str, PreparedRound] = {}
        self.reports: dict[str, dict[int, int]] = {}

    def enrol(self, count: int, cap: int) -> range:
        first = len(self.caps)
        self.caps += [cap] * count
        self.spent += [0] * count
        self.epochs += [0] * count
        return range(first, first + count)

    def enrolled(self) -> int:
        return len(self.caps)

    def standing(self, user: int) -> Standing:
        charges = tuple(
            Charge(id_, self._charge(id_, user)) for id_, reports in self.reports.items() if user in reports
        )
        return Standing(Account(self.caps[user], self.spent[user]), charges)

    def affording(self, users: range, charge: int) -> NDArray[np.bool]:
        left = np.array(self.caps[users.start : users.stop]) - np.array(self.spent[users.start : users.stop])
        return left >= charge

    def epoch(self, user: int) -> int:
        return self.epochs[user] if user < len(self.epochs) else -1

    def revoke(self, user: int) -> int:
        self.epochs[user] += 1
        return self.epochs[user]

    def append(self, study: str, entry: Entry) -> Bulletin:
        after = self.bulletins.get(study, Bulletin()).append(entry)
        self.bulletins[study] = after
        self.stored.setdefault(study, []).append(Entry.model_validate_json(entry.to_bytes()))
        if isinstance(entry.notice, RoundPublished):
            assert after.study is not None
            prepared = prepare_round(after.study, entry.notice.round)
            self.rounds[prepared.id] = prepared
            self.reports[prepared.id] = {}
        return after

    def studies(self) -> list[str]:
        return list(self.bulletins)

    def bulletin(self, study: str) -> Bulletin:
        if study not in self.bulletins:
            raise NotFoundError("there is no such study")
        return self.bulletins[study]

    def entries(self, study: str, after: int = -1) -> list[Entry]:
        return [entry for entry in self.stored[study] if entry.sequence > after]

    def round(self, id_: str) -> PreparedRound:
        if id_ not in self.rounds:
            raise NotFoundError("there is no such round")
        return self.rounds[id_]

    def state(self, id_: str) -> RoundState:
        return dict(self.bulletins[self.round(id_).spec.study].rounds)[id_]

    def charge(self, id_: str, users: Users, outcomes: Outcomes) -> Verdicts:
        pairs = zip(users.tolist(), outcomes.tolist(), strict=True)
        return np.array([self._decide(id_, user, outcome) for user, outcome in pairs], np.uint8)

    def _decide(self, id_: str, user: int, outcome: int) -> Verdict:  # noqa: PLR0911 - one return for each verdict
        reports, round_ = self.reports[id_], self.rounds[id_]
        if not 0 <= user < len(self.caps):
            return Verdict.UNKNOWN_USER
        if user in reports:
            return Verdict.REPEATED if reports[user] == outcome else Verdict.CONFLICT
        if not round_.asks(user):
            return Verdict.NOT_ASKED
        if not 0 <= outcome < round_.parts[round_.question(user).part].channel.outcomes:
            return Verdict.OUTSIDE
        if self.state(id_) is not RoundState.OPEN:
            return Verdict.NOT_OPEN
        if self.spent[user] + self._charge(id_, user) > self.caps[user]:
            return Verdict.OVER_BUDGET
        reports[user] = outcome
        self.spent[user] += self._charge(id_, user)
        return Verdict.ACCEPTED

    def _charge(self, id_: str, user: int) -> int:
        round_ = self.rounds[id_]
        return round_.parts[round_.question(user).part].part.charge

    def received(self, id_: str) -> int:
        return len(self.reports[id_])

    def tallies(self, id_: str) -> list[Tally]:
        reports = self.reports[id_]
        users = np.fromiter(reports.keys(), np.uint64, len(reports))
        return tally_round(self.rounds[id_], users, np.fromiter(reports.values(), np.uint32, len(reports)))

    def verify(self) -> list[Fault]:
        wrong = [user for user, spent in enumerate(self.spent) if spent > self.caps[user]]
        return [Fault(f"user {user}", "has spent more than her cap") for user in wrong]

    def check_writable(self) -> None:
        pass

    def close(self) -> None:
        pass

    # ------------------------------------------------------------------------------------------------- for tests

    def answer(self, id_: str, columns: Columns, *, most: int | None = None, seed: int = 7) -> int:
        """Let the users of a round's cohort who can pay report, user u with row u; how many did."""
        round_ = self.rounds[id_]
        everybody = range(len(self.caps))
        users = np.flatnonzero(round_.asked(everybody) & self.affording(everybody, round_.charge))[:most]
        reports = round_.respond_all(users, columns.take(users), SimulatedRandom(seed)).outcomes
        # All are in the cohort and can pay, so this is `charge` without asking about each.
        self.reports[id_].update(zip(users.tolist(), reports.tolist(), strict=True))
        for user in users.tolist():
            self.spent[user] += round_.charge
        return len(users)

    def assert_nothing_spent(self) -> None:
        """Nobody has paid for anything."""
        assert not any(self.spent)


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
