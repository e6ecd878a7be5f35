"""The wallet: one user's spending, and the exact bytes that she sends. A SQLite file that only its owner can read.

Theory of operation
-------------------
*Randomize once.* `Wallet.draw_and_store` stores a report and its charge in one transaction that is on disk when it
ends, and only then may the report be sent. Whatever happens afterwards, the same bytes are sent again; fresh noise
would spend twice. Where a report is there already, by whatever process, that one is given back and nothing is drawn.

*What the file itself forbids.* Triggers (`schema.sql`) refuse a report that would exceed the cap, and any change of a
stored report: the promise holds for every program that writes to the file, not only for this one.

*Copies.* A copy or an old version of a wallet does not know what the other has sent. The server does, and is asked
before each decision (`askance_client.consent`); what is learned from it is stored here for good: what was spent
`elsewhere`, and on which rounds.

*Many owners.* A fleet of simulated users may have its wallets in one file: an owner is a number in the file. Owners
share nothing but the way to the disk: what several of them store in one turn of the event loop is one transaction
(`group_commit`).
"""

from askance_client.wallet.errors import (
    BeyondCapError,
    DamagedWalletError,
    NotEnrolledError,
    WalletError,
    WalletInUseError,
)
from askance_client.wallet.file import WalletFile
from askance_client.wallet.layout import SCHEMA_VERSION
from askance_client.wallet.records import Identity, ReportState, StoredReport
from askance_client.wallet.upgrading import try_upgrade, wallet_version
from askance_client.wallet.wallet import Wallet

__all__ = [
    "SCHEMA_VERSION",
    "BeyondCapError",
    "DamagedWalletError",
    "Identity",
    "NotEnrolledError",
    "ReportState",
    "StoredReport",
    "Wallet",
    "WalletError",
    "WalletFile",
    "WalletInUseError",
    "try_upgrade",
    "wallet_version",
]
