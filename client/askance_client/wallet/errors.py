"""Errors of wallets, each with a class of its own, and the one place that reads what SQLite reports."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from askance_protocol.errors import AskanceError, Code

BEYOND_THE_CAP: Final = "beyond the cap"
"""What the trigger `within_the_cap` of schema.sql raises, in every wallet file that there is."""

_IN_USE: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# The statements are always the same, so one that SQLite cannot read or run (ERROR) is the fault of the file's tables.
_DAMAGED: Final = frozenset(
    {
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_TOOBIG,
    }
)
_NO_TEXT: Final = "a text in it is not UTF-8"
_REMEDY: Final = (
    "nothing was sent, and it is not mended; to begin anew, or to restore a copy, has a price: "
    "see 'Backups, copies, and how to begin anew' in docs/client.md"
)


FROM_SQLITE: Final = (sqlite3.Error, UnicodeDecodeError, MemoryError)
"""What the module raises: the last two where SQLite's message is no text, and where it has run out of memory."""


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


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Raise what SQLite reports of a wallet file as an error of this module."""
    try:
        yield
    except FROM_SQLITE as error:
        raise wallet_error(path, error) from None


def wallet_error(path: Path, error: Exception) -> WalletError:
    """Translate an error that comes out of SQLite, by its code."""
    if isinstance(error, UnicodeDecodeError):
        return damaged(path, _NO_TEXT)  # A name of the file stands in SQLite's message.
    if isinstance(error, MemoryError):
        return unwritable(path, "there is not enough memory")
    return _by_code(path, str(error), getattr(error, "sqlite_errorcode", None), type(error))


def _by_code(path: Path, what: str, extended: int | None, kind: type[Exception]) -> WalletError:
    if extended is None and kind is sqlite3.OperationalError:
        return damaged(path, _NO_TEXT)  # The module's own, for a column; it quotes it, and that may be the token.
    # An extended code holds its primary code in the lowest byte.
    primary, where = (extended or 0) & 0xFF, str(path)
    if extended == sqlite3.SQLITE_CONSTRAINT_TRIGGER and what == BEYOND_THE_CAP:
        return beyond_cap(path)
    if primary in _IN_USE:
        return WalletInUseError(what, where=where, remedy="another process uses it: wait until that one has ended")
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return WalletError(what, where=where, remedy="the wallet's own rules forbid it: nothing was changed")
    if primary in _DAMAGED or (primary == sqlite3.SQLITE_READONLY and _may_be_written(path)):
        return damaged(path, what)
    return unwritable(path, what)


def _may_be_written(path: Path) -> bool:
    """Whether the system lets it be written, so that it is the file's own header that forbids it."""
    return os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK)


def beyond_cap(path: Path) -> BeyondCapError:
    """A report costs more than is left."""
    remedy = "nothing was drawn and nothing is sent: what is left does not cover it"
    return BeyondCapError(BEYOND_THE_CAP, where=str(path), remedy=remedy)


def damaged(path: Path, what: str) -> DamagedWalletError:
    """The file is not as this program has left it."""
    return DamagedWalletError(f"is damaged, or no wallet: {what}", where=str(path), remedy=_REMEDY)


def unwritable(path: Path, what: str) -> WalletError:
    """The file cannot be read or written, for a reason of the system."""
    return WalletError(what, where=str(path), remedy="nothing was sent; see that the disk can be written")
