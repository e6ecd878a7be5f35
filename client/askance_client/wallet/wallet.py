"""One owner's wallet: her identity, her spending, and her reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from askance_client.consent import Spending
from askance_client.history import Pin
from askance_client.wallet.errors import WalletError
from askance_client.wallet.file import WalletFile
from askance_client.wallet.records import Identity, ReportState, StoredReport
from askance_protocol.budget import to_text
from askance_protocol.schema import Schema
from askance_protocol.values import read

T = TypeVar("T")


class Wallet:
    """The wallet of one owner in a file. `Wallet.open` for one that has a file of its own."""

    @classmethod
    def open(cls, path: Path | str, *, cap: int | None = None) -> Wallet:
        """Open the wallet in a file, or create it with this cap, in micro-ε, if it is new."""
        file = WalletFile.open(path)
        try:
            with file.transaction():  # Of two processes that open a new wallet, one makes it.
                if not file.owners():
                    file.add_all([(0, _required(cap, file.path), None)])
                return _requiring(cls(file, 0), cap, file.path)
        except BaseException:
            file.close()
            raise

    def __init__(self, file: WalletFile, owner: int) -> None:
        row = file.row("SELECT cap FROM owners WHERE id = ?", (owner,))
        if row is None:
            raise WalletError(f"has no owner {owner}", where=str(file.path), remedy="add her, or open another file")
        self._file, self._owner = file, owner
        self.cap: int = row[0]
        """Micro-ε that she will ever spend."""

    def close(self) -> None:
        """Close the file, and with it all wallets that are in it."""
        self._file.close()

    # ---------------------------------------------------------------------------------------------------- identity

    @property
    def identity(self) -> Identity | None:
        """Her number and token at her server; None before she has enrolled."""
        row = self._file.row("SELECT server, user_number, token FROM owners WHERE id = ?", (self._owner,))
        if row is None or row[0] is None:
            return None
        return Identity(*row)

    def enrolled(self, identity: Identity) -> None:
        """Store the identity that a server has given her. Her number never changes; her token may."""
        before = self.identity
        if before is not None and before.user != identity.user:
            raise WalletError(
                f"is of user {before.user}", where=str(self._file.path), remedy="use a wallet of its own for each user"
            )
        with self._file.transaction() as db:
            row = (identity.server, identity.user, identity.token, self._owner)
            db.execute("UPDATE owners SET server = ?, user_number = ?, token = ? WHERE id = ?", row)

    def moved(self, server: str) -> None:
        """Change the address of her server: it is found elsewhere now. Her token will be shown there."""
        if self.identity is not None:
            self.enrolled(replace(self.identity, server=server.rstrip("/")))

    # ---------------------------------------------------------------------------------------------------- declared

    @property
    def declared(self) -> Schema | None:
        """The fields that she has declared to have; None before she has."""
        row = self._file.row("SELECT declared FROM owners WHERE id = ?", (self._owner,))
        return None if row is None or row[0] is None else read(Schema, row[0], limit=len(row[0]))

    def declare(self, schema: Schema) -> None:
        """Store which fields she has, for good: a study that asks about others is refused, whatever it says."""
        with self._file.transaction() as db:
            before = self.declared
            if before is not None and before != schema:
                what = f"was made for the fields {_names(before)}, and is to be used for others: {_names(schema)}"
                remedy = "use the data that it was made for, or a wallet of its own for the other fields"
                raise WalletError(what, where=str(self._file.path), remedy=remedy)
            if before is None:
                update = "UPDATE owners SET declared = ? WHERE id = ?"
                db.execute(update, (schema.to_bytes().decode("utf-8"), self._owner))

    # --------------------------------------------------------------------------------------------- what is stored

    @property
    def spending(self) -> Spending:
        """Her spending, by round."""
        row = self._file.row("SELECT elsewhere FROM owners WHERE id = ?", (self._owner,))
        charges = self._file.rows("SELECT round, charge FROM reports WHERE owner = ?", (self._owner,))
        heard = self._file.rows("SELECT round, charge FROM heard WHERE owner = ?", (self._owner,))
        return Spending(self.cap, dict(charges), row[0] if row else 0, dict(heard))

    def pin(self, study: str) -> Pin | None:
        """How much of a study's history she has seen; None if nothing."""
        row = self._file.row("SELECT length, head FROM pins WHERE owner = ? AND study = ?", (self._owner, study))
        return None if row is None else Pin(row[0], row[1])

    def stored(self, round_: str) -> StoredReport | None:
        """Her report to a round, if she has drawn one."""
        query = "SELECT round, charge, body, state FROM reports WHERE owner = ? AND round = ?"
        row = self._file.row(query, (self._owner, round_))
        return None if row is None else StoredReport(row[0], row[1], row[2], ReportState(row[3]))

    # -------------------------------------------------------------------------------------------- what is changed

    def note_history(self, study: str, pin: Pin, elsewhere: int) -> None:
        """Store how far she has read, and what copies of this wallet have spent."""
        with self._file.transaction() as db:
            self._note_history(db, study, pin, elsewhere)

    def note_heard(self, rounds: Mapping[str, int]) -> None:
        """Store the rounds that copies of this wallet have answered, and the cost of each."""
        insert = "INSERT OR IGNORE INTO heard VALUES (?, ?, ?)"
        with self._file.transaction() as db:
            db.executemany(insert, [(self._owner, round_, charge) for round_, charge in rounds.items()])

    def draw_and_store(
        self, study: str, pin: Pin, elsewhere: int, round_: str, charge: int, draw: Callable[[], bytes]
    ) -> StoredReport:
        """Draw a report and store it with its charge, on disk when this returns; or the one that is there already."""
        with self._file.transaction() as db:
            before = self.stored(round_)
            if before is not None:
                return before
            self._note_history(db, study, pin, elsewhere)
            body = draw()
            insert = "INSERT INTO reports (owner, round, charge, body) VALUES (?, ?, ?, ?)"
            db.execute(insert, (self._owner, round_, charge, body))
        return StoredReport(round_, charge, body, ReportState.STORED)

    async def group_commit(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """Run this in one transaction with other owners' requests: see `WalletFile.group_commit`."""
        return await self._file.group_commit(work, durable=durable)

    def settle(self, round_: str, state: ReportState) -> None:
        """Store the result of a report. An acknowledgement is never taken back."""
        with self._file.transaction() as db:
            update = "UPDATE reports SET state = ? WHERE owner = ? AND round = ? AND state <> 'acknowledged'"
            db.execute(update, (state.value, self._owner, round_))

    def _note_history(self, db: sqlite3.Connection, study: str, pin: Pin, elsewhere: int) -> None:
        longer = (
            "ON CONFLICT DO UPDATE SET length = excluded.length, head = excluded.head WHERE excluded.length > length"
        )
        db.execute(f"INSERT INTO pins VALUES (?, ?, ?, ?) {longer}", (self._owner, study, pin.length, pin.head))  # noqa: S608
        more = "UPDATE owners SET elsewhere = ? WHERE id = ? AND elsewhere < ?"
        db.execute(more, (elsewhere, self._owner, elsewhere))


def _names(schema: Schema) -> str:
    return ", ".join(field.name for field in schema.fields)


def _required(cap: int | None, path: Path) -> int:
    if cap is None:
        raise WalletError("is new and has no cap", where=str(path), remedy="say what it may spend: cap=1_000_000")
    return cap


def _requiring(wallet: Wallet, cap: int | None, path: Path) -> Wallet:
    """This wallet, if it has this cap: a lifetime's is not renewed by asking for another one."""
    if cap not in {None, wallet.cap}:
        what = f"has a cap of ε = {to_text(wallet.cap)}, and is to be used with another"
        raise WalletError(what, where=str(path), remedy="leave the cap out: it is for a lifetime")
    return wallet
