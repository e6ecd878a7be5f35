"""Errors of wallets, each with a class of its own, and the one place that reads what SQLite reports."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from askance_protocol.errors import AskanceError, Code

BEYOND_THE_CAP: Final = "beyond the cap"
"""What the trigger `within_the_cap` of schema.sql raises, in every wallet file that there is."""

_IN_USE: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})


class WalletError(AskanceError):
    """A file that cannot be used as a wallet, or something that a wallet refuses."""

    code = Code.WALLET


class BeyondCapError(WalletError):
    """A report that costs more than is left. Nothing was drawn, and nothing is sent."""

    code = Code.OVER_BUDGET


class WalletInUseError(WalletError):
    """Another process is writing to the file, and did not come to an end in time."""


class DamagedWalletError(WalletError):
    """The file is damaged, or has never been a wallet."""


class NotEnrolledError(WalletError):
    """The wallet's owner has no number at the server that is asked."""


def wallet_error(path: Path, error: sqlite3.Error) -> WalletError:
    """Translate an error of SQLite, by its code."""
    # An extended code holds its primary code in the lowest byte; errors of the module itself have none.
    extended: int = getattr(error, "sqlite_errorcode", 0)
    primary = extended & 0xFF
    what, where = str(error), str(path)
    if extended == sqlite3.SQLITE_CONSTRAINT_TRIGGER and what == BEYOND_THE_CAP:
        remedy = "nothing was drawn and nothing is sent: what is left does not cover it"
        return BeyondCapError(what, where=where, remedy=remedy)
    if primary in _IN_USE:
        return WalletInUseError(what, where=where, remedy="another process uses it: wait until that one has ended")
    if primary in _DAMAGED:
        remedy = "it is damaged, or no wallet: restore a copy; the server knows what you have spent"
        return DamagedWalletError(what, where=where, remedy=remedy)
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return WalletError(what, where=where, remedy="the wallet's own rules forbid it: nothing was changed")
    return unwritable(path, what)


def unwritable(path: Path, what: str) -> WalletError:
    """The file cannot be read or written, for a reason of the system."""
    return WalletError(what, where=str(path), remedy="nothing was sent; see that the disk can be written")
