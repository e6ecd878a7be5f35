"""The file that wallets are in: opening and checking it, and what is known of its owners and of bulletins."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from askance_client.history import Pin
from askance_client.wallet.errors import damaged, translated
from askance_client.wallet.layout import (
    SCHEMA_VERSION,
    check_file,
    check_tables,
    create,
    upgrade,
)
from askance_client.wallet.records import Identity, Owner, OwnerAccount, ReportState, StoredReport
from askance_client.wallet.tables import FILE, HEADS, HEARD, OWNERS, REPORTS, SqlValue
from askance_client.wallet.transactions import Transactions
from askance_protocol.budget import whole_micro

_SECONDS: Final = 60.0
"""How long to wait for another process that writes."""
_HELD: Final = 1024
"""Number of accounts that are held in memory: of the owners that are being visited."""

_KEY: Final = b"askance enrolment of wallets 1 "

_STATES: Final = {state.value: state for state in ReportState}


class WalletFile(Transactions):
    """A file of wallets. Open one with `WalletFile.open`."""

    @classmethod
    def open(cls, path: Path | str, *, first: Sequence[Owner] = ()) -> WalletFile:
        """Open a file, or create it, with its `first` owners and readable by its owner only, if it is not there."""
        path = Path(path)
        if not path.exists():
            create(path, first)
        check_file(path)
        with translated(path):
            # One thread at a time: see `_at_disk`.
            db = sqlite3.connect(path, timeout=_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                _prepare(db, path)
                file = cls(path, db)
                file.check()
            except BaseException:
                db.close()
                raise
        return file

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        super().__init__(path, db)
        self._changed: set[int] = set()
        """The owners whose accounts the group changes that the disk is at."""
        self._accounts: OrderedDict[int, OwnerAccount] = OrderedDict()
        self._pins: dict[str, Pin] = {}
        self._noted: dict[str, Pin] = {}
        """What was read and found whole, as long as no other program writes to the file. `_noted`: studies of which the
        file holds the digest of each entry up to this one, and of no other history."""

    # --------------------------------------------------------------------------------------------------- what it holds

    def check(self) -> None:
        """Look at all that is there once: the pages, the counts of owners, and what was read of bulletins."""
        with self._one_state():
            if self.rows("PRAGMA quick_check(1)") != [("ok",)]:
                raise damaged(self.path, "its pages do not fit together")
            ids = self.rows("SELECT id FROM file")
            if len(ids) != 1 or not isinstance(ids[0][0], bytes):
                raise damaged(self.path, "it does not say which file it is")
            ((self._id,),) = ids
            counted = self.read(FILE)
            ((owners,),) = self.rows("SELECT count(*) FROM owners")
            if counted != [(1, self._id, owners, len(self.read(HEADS)))]:
                raise damaged(self.path, "rows are gone")

    def _forget(self) -> None:
        self._accounts.clear()
        self._pins.clear()
        self._noted.clear()

    def _group_ended(self) -> None:
        self._changed.clear()

    def account(self, id_: int) -> OwnerAccount | None:
        """All that is known of an owner's spending, and that nothing of it is missing; None if she is not here."""
        self._look_again()
        if id_ in self._changed:
            self._wait()  # What is not on disk yet is not known.
        if id_ in self._accounts:
            return self._accounts[id_]
        with self._one_state():
            account = self._read_account(id_)
        if account is not None:
            self._hold(account)
        return account

    def read_accounts(self, ids: Sequence[int]) -> None:
        """Read the accounts of these owners, who are visited next, at once: one by one costs more than their visits."""
        self._look_again()
        missing = [id_ for id_ in ids if id_ not in self._accounts]
        with self._one_state():
            accounts = self._read_accounts(missing)
        for account in accounts:
            self._hold(account)

    def _read_account(self, id_: int) -> OwnerAccount | None:
        return next(iter(self._read_accounts([id_])), None)

    def _read_accounts(self, ids: Sequence[int]) -> list[OwnerAccount]:
        """The accounts of those who are here, each with all that belongs to it."""
        these = (json.dumps(ids),)
        among = "IN (SELECT value FROM json_each(?))"
        owners = [Owner(*row) for row in self.read(OWNERS, f"WHERE id {among}", these)]
        reports = {owner.id: dict[str, StoredReport]() for owner in owners}
        heard = {owner.id: dict[str, int]() for owner in owners}
        for owner, round_, study, charge, body, state in self.read(REPORTS, f"WHERE owner {among}", these):
            reports[owner][round_] = StoredReport(round_, charge, body, _STATES[state], study)
        # No need to look for rounds of which none was heard.
        if any(owner.heard_count for owner in owners):
            for owner, round_, charge in self.read(HEARD, f"WHERE owner {among}", these):
                heard[owner][round_] = charge
        if any(
            (len(reports[owner.id]), len(heard[owner.id])) != (owner.report_count, owner.heard_count)
            for owner in owners
        ):
            raise damaged(self.path, "rows are gone")
        return [OwnerAccount(owner, reports[owner.id], heard[owner.id]) for owner in owners]

    def _hold(self, account: OwnerAccount) -> None:
        if len(self._accounts) >= _HELD:
            self._accounts.popitem(last=False)
        self._accounts[account.owner.id] = account

    def _change(self, account: OwnerAccount) -> None:
        self._changed.add(account.owner.id)
        self._hold(account)

    # What follows changes an account within a transaction that is open, and goes from what was read in it.

    def add_report(self, account: OwnerAccount, report: StoredReport) -> None:
        """Add a report; the table's triggers refuse one beyond the cap."""
        self.insert(REPORTS, _report_row(account.owner, report))
        owner = account.owner._replace(report_count=account.owner.report_count + 1)
        self.update(OWNERS, owner)
        self._change(OwnerAccount(owner, {**account.reports, report.round: report}, account.heard))

    def change_report(self, account: OwnerAccount, report: StoredReport) -> None:
        """Change the state of a report."""
        self.update(REPORTS, _report_row(account.owner, report))
        self._change(OwnerAccount(account.owner, {**account.reports, report.round: report}, account.heard))

    def change_owner(self, account: OwnerAccount, owner: Owner, heard: Mapping[str, int] | None = None) -> None:
        """Change what is known of an owner, and add rounds that she has heard of; what was heard first stays."""
        new = {round_: charge for round_, charge in (heard or {}).items() if round_ not in account.heard}
        owner = owner._replace(heard_count=owner.heard_count + len(new))
        if owner != account.owner:
            for round_, charge in new.items():
                self.insert(HEARD, (owner.id, round_, charge))
            self.update(OWNERS, owner)
            self._change(OwnerAccount(owner, account.reports, {**account.heard, **new}))

    # ----------------------------------------------------------------------------------- what was read of bulletins

    def pin(self, study: str) -> Pin | None:
        """How much of a study's history was read with this file; None if nothing."""
        self._look_again()
        if study not in self._pins:
            rows = self.read(HEADS, "WHERE study = ? ORDER BY length DESC LIMIT 1", (study,))
            if not rows:
                return None
            self._pins[study] = Pin(*rows[0][1:])
        return self._pins[study]

    def heads(self, study: str) -> dict[int, str]:
        """The digest of each entry of a study that was read, by the number of entries up to it."""
        return {length: head for _, length, head in self.read(HEADS, "WHERE study = ?", (study,))}

    def studies(self) -> list[str]:
        """The studies of which anything was read with this file."""
        return sorted({row[0] for row in self.read(HEADS)})

    def note_heads(self, study: str, heads: Sequence[str]) -> bool:
        """Note the digest of each entry of a history; False, and nothing is noted, if another one was read before.

        What was compared once is not read again for each further entry: a digest names all that is before it.
        """
        with self.transaction():
            noted = self._noted.get(study)
            if noted is not None:
                if noted.length > len(heads) or heads[noted.length - 1] != noted.head:
                    return False
                new = list(enumerate(heads[noted.length :], noted.length + 1))
            else:
                known = self.heads(study)
                if any(length > len(heads) or heads[length - 1] != head for length, head in known.items()):
                    return False
                new = [(length, head) for length, head in enumerate(heads, 1) if length not in known]
            for length, head in new:
                self.insert(HEADS, (study, length, head))
            if new:
                ((one, id_, owners, count),) = self.read(FILE)
                self.update(FILE, (one, id_, owners, count + len(new)))
            self._pins.pop(study, None)
            if heads:
                self._noted[study] = Pin(len(heads), heads[-1])
        return True

    # ------------------------------------------------------------------------------------------------- its owners

    def owners(self) -> list[int]:
        """The owners whose wallets are in this file."""
        return [row[0] for row in self.read(OWNERS, "ORDER BY id")]

    def add_all(self, owners: Sequence[tuple[int, int, Identity | None]]) -> None:
        """Add wallets: for each the owner, the cap in micro-ε, and the identity if she has enrolled. All or none."""
        rows = [new_owner(*each) for each in owners]
        with self.transaction():
            for row in rows:
                self.insert(OWNERS, row)
            ((one, id_, count, heads),) = self.read(FILE)
            self.update(FILE, (one, id_, count + len(rows), heads))

    def enrolment_key(self, what: str) -> str:
        """A secret by which a server knows an enrolment of this file again: the same one whenever it is asked for.

        It comes from what the file has held on disk from its first moment, so nothing is stored for it.
        """
        return hashlib.sha256(_KEY + self._id + what.encode()).hexdigest()[:32]

    def moved(self, server: str) -> None:
        """Change the address of the server that knows all owners: it is found elsewhere now."""
        with self.transaction():
            for row in self.read(OWNERS, "WHERE server <> ?", (server,)):
                self.update(OWNERS, Owner(*row)._replace(server=server))
            self._accounts.clear()

    def numbers(self) -> list[int]:
        """Each owner's number at the server."""
        return [Owner(*row).user_number or 0 for row in self.read(OWNERS, "ORDER BY id")]

    def reported(self) -> dict[str, list[int]]:
        """By round, the owners who need not be asked again: the server has accepted or refused their report to it."""
        reported: dict[str, list[int]] = {}
        for round_, owner in self.rows("SELECT round, owner FROM reports WHERE state <> 'kept'"):
            reported.setdefault(round_, []).append(owner)
        return reported

    def waiting(self) -> list[int]:
        """Owners who have a report that is not acknowledged yet."""
        return [owner for (owner,) in self.rows("SELECT DISTINCT owner FROM reports WHERE state = 'kept'")]

    def most_spent(self) -> int:
        """The most that one of the owners has spent with reports of her own and in conflict with them, in micro-ε."""
        spent = "SELECT sum(charge * (1 + (state = 'conflict'))) AS spent FROM reports GROUP BY owner"
        ((most,),) = self.rows(f"SELECT coalesce(max(spent), 0) FROM ({spent})")  # noqa: S608 -- the line above
        return int(most)


def new_owner(id_: int, cap: int, identity: Identity | None = None) -> Owner:
    """An owner who has spent nothing yet, with what she will ever spend in micro-ε."""
    owner = Owner(id_, whole_micro(cap, where="cap", least=1))
    if identity is None:
        return owner
    return owner._replace(server=identity.server, user_number=identity.user, token=identity.token)


def _report_row(owner: Owner, report: StoredReport) -> tuple[SqlValue, ...]:
    return (owner.id, report.round, report.study, report.charge, report.body, report.state.value)


# ----------------------------------------------------------------------------------------------- opening and checking


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check the file, make it durable, and bring it to this version. Another program's file stays as it is."""
    version = check_tables(db, path)
    _write_ahead(db)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    if version < SCHEMA_VERSION:
        db.execute("BEGIN IMMEDIATE")
        if check_tables(db, path) < SCHEMA_VERSION:  # Another process may have been first.
            upgrade(db, path)
        db.execute("COMMIT")


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. Where several processes do so at once, SQLite may refuse for now: ask again."""
    begin = time.monotonic()
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() - begin > _SECONDS:
                raise
            time.sleep(0.01)
        else:
            return
