"""One owner's wallet: her identity, her spending, and her reports."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from askance_client.consent import Spending
from askance_client.history import Pin
from askance_client.wallet.errors import WalletError, beyond_cap, damaged
from askance_client.wallet.file import WalletFile, new_owner
from askance_client.wallet.records import Identity, OwnerAccount, ReportState, StoredReport
from askance_protocol.budget import to_text
from askance_protocol.schema import Schema

_KEY_BYTES: Final = 16

T = TypeVar("T")


class Wallet:
    """The wallet of one owner in a file. `Wallet.open` for one that has a file of its own."""

    @classmethod
    def open(cls, path: Path | str, *, cap: int | None = None) -> Wallet:
        """Open the wallet in a file, or create it with this cap, in micro-ε, if there is no such file."""
        path = Path(path)
        if cap is not None:
            owner = new_owner(0, cap)
        elif path.exists():
            owner = None
        else:
            raise WalletError("is new and has no cap", where=str(path), remedy="say what it may spend: cap=1_000_000")
        file = WalletFile.open(path, first=[] if owner is None else [owner])
        try:
            file.owners()  # One whose number is damaged is no other owner.
            return _requiring(cls(file, 0), cap, path)
        except BaseException:
            file.close()
            raise

    def __init__(self, file: WalletFile, owner: int) -> None:
        found = file.account(owner)
        if found is None:
            raise WalletError(f"has no owner {owner}", where=str(file.path), remedy="add her, or open another file")
        self._file, self._owner = file, owner
        self.cap = found.owner.cap
        """Micro-ε that she will ever spend."""

    def close(self) -> None:
        """Close the file, and with it all wallets that are in it."""
        self._file.close()

    @property
    def account(self) -> OwnerAccount:
        """What the file knows of her now, all of it read at one time."""
        found = self._file.account(self._owner)
        if found is None:
            raise damaged(self._file.path, f"owner {self._owner} is gone")
        return found

    # ---------------------------------------------------------------------------------------------------- identity

    @property
    def identity(self) -> Identity | None:
        """Her number and token at her server; None before she has enrolled."""
        return self.account.owner.identity

    def enrolment_key(self, server: str) -> str:
        """Draw a secret by which this server knows her enrolment again: on disk when this returns, before it is shown.

        Until she has enrolled it is the same one whenever it is asked for, by whatever process; then there is none, "".
        Each server gets another one, and each file: nobody to whom it was shown, and no copy, can have her number.
        """
        with self._file.transaction():
            account = self.account
            owner = account.owner
            if owner.identity is not None:
                return ""
            if owner.token is not None and owner.server == server:
                return owner.token
            key = secrets.token_hex(_KEY_BYTES)
            self._file.change_owner(account, owner._replace(server=server, token=key))
        return key

    def enrolled(self, identity: Identity) -> None:
        """Store the identity that a server has given her. Her number never changes; her token may."""
        with self._file.transaction():
            account = self.account
            before, owner = account.owner.identity, account.owner
            if before is not None and before.user != identity.user:
                what, remedy = f"is of user {before.user}", "use a wallet of its own for each user"
                raise WalletError(what, where=str(self._file.path), remedy=remedy)
            owner = owner._replace(server=identity.server, user_number=identity.user, token=identity.token)
            self._file.change_owner(account, owner)

    def moved(self, server: str) -> None:
        """Change the address of her server: it is found elsewhere now. Her token will be shown there."""
        with self._file.transaction():
            account = self.account
            # Also where she has asked for a number, and the answer was lost.
            if account.owner.server is not None:
                self._file.change_owner(account, account.owner._replace(server=server.rstrip("/")))

    # ---------------------------------------------------------------------------------------------------- declared

    @property
    def declared(self) -> Schema | None:
        """The fields that she has declared to have; None before she has."""
        return self.account.owner.declared_fields

    def declare(self, schema: Schema) -> None:
        """Store which fields she has, for good: a study that asks about others is refused, whatever it says."""
        with self._file.transaction():
            before = self.declared
            if before is not None and before != schema:
                what = f"was made for the fields {_names(before)}, and is to be used for others: {_names(schema)}"
                remedy = "use the data that it was made for, or a wallet of its own for the other fields"
                raise WalletError(what, where=str(self._file.path), remedy=remedy)
            if before is None:
                account = self.account
                owner = account.owner._replace(declared=schema.to_bytes().decode("utf-8"))
                self._file.change_owner(account, owner)

    # --------------------------------------------------------------------------------------------- what is stored

    @property
    def spending(self) -> Spending:
        """Her spending, by round."""
        account = self.account
        charges = {round_: report.charge for round_, report in account.reports.items()}
        return Spending(self.cap, charges, account.owner.elsewhere, account.heard, account.again)

    @property
    def reports(self) -> Mapping[str, StoredReport]:
        """All reports that she has drawn, by their rounds' ids; that none is missing has been checked."""
        return self.account.reports

    def stored(self, round_: str) -> StoredReport | None:
        """Her report to a round, if she has drawn one."""
        return self.reports.get(round_)

    def pin(self, study: str) -> Pin | None:
        """How much of a study's history she has read; None if nothing."""
        return self._file.pin(study)

    def studies(self) -> list[str]:
        """The studies of which anything was read with this file."""
        return self._file.studies()

    def heads(self, study: str) -> Mapping[int, str]:
        """The digest of each entry of a study that she has read, by the number of entries up to it, in order."""
        return self._file.heads(study)

    # -------------------------------------------------------------------------------------------- what is changed

    def note_history(self, study: str, heads: Sequence[str]) -> bool:
        """Store the digest of each entry that she has read; False if they do not go on with what she read before."""
        return self._file.note_heads(study, heads)

    def note_elsewhere(self, elsewhere: int, heard: Mapping[str, int]) -> None:
        """Store what copies of this wallet have spent, and the rounds that they have answered with the cost of each."""
        with self._file.transaction():
            account = self.account
            owner = account.owner._replace(elsewhere=max(elsewhere, account.owner.elsewhere))
            self._file.change_owner(account, owner, heard)

    def draw_and_store(self, study: str, round_: str, charge: int, draw: Callable[[], bytes]) -> StoredReport:
        """Draw a report and store it with its charge, on disk when this returns; or the one that is there already."""
        with self._file.transaction():
            account = self.account
            before = account.reports.get(round_)
            if before is not None:
                return before
            # The file's triggers forbid it too, to every program; this one goes by rows that were found whole.
            if charge > account.owner.cap - account.spent:
                raise beyond_cap(self._file.path)
            report = StoredReport(round_, charge, draw(), ReportState.STORED, study)
            self._file.add_report(account, report)
        return report

    async def group_commit(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """Run this in one transaction with other owners' requests: see `WalletFile.group_commit`."""
        return await self._file.group_commit(work, durable=durable)

    def settle(self, round_: str, state: ReportState) -> None:
        """Store the result of a report. An acknowledgement is never taken back, and neither is a conflict."""
        with self._file.transaction():
            account = self.account
            before = account.reports.get(round_)
            if before is not None and before.state not in {state, ReportState.ACKNOWLEDGED, ReportState.CONFLICT}:
                self._file.change_report(account, StoredReport(round_, before.charge, before.body, state, before.study))


def _names(schema: Schema) -> str:
    return ", ".join(field.name for field in schema.fields)


def _requiring(wallet: Wallet, cap: int | None, path: Path) -> Wallet:
    """This wallet, if it has this cap: a lifetime's is not renewed by asking for another one."""
    if cap not in {None, wallet.cap}:
        what = f"has a cap of ε = {to_text(wallet.cap)}, and is to be used with another"
        raise WalletError(what, where=str(path), remedy="leave the cap out: it is for a lifetime")
    return wallet
