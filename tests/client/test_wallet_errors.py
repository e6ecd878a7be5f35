"""What SQLite reports of a wallet, by its code: each an error with what, where and what to do next."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from askance_client.wallet.errors import (
    BEYOND_THE_CAP,
    BeyondCapError,
    DamagedWalletError,
    WalletError,
    WalletInUseError,
    translated,
    wallet_error,
)
from askance_client.wallet.tables import HEADS, OWNERS, CheckedTable

PATH = Path("folder") / "wallet.sqlite"


def reported(
    code: int | None, text: str = "as SQLite says it", kind: type[sqlite3.Error] = sqlite3.DatabaseError
) -> sqlite3.Error:
    error = kind(text)
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (reported(sqlite3.SQLITE_BUSY), WalletInUseError, "wait until that one has ended"),
        (reported(sqlite3.SQLITE_BUSY_SNAPSHOT), WalletInUseError, "another process uses it"),
        (reported(sqlite3.SQLITE_LOCKED), WalletInUseError, "another process uses it"),
        (
            reported(sqlite3.SQLITE_CONSTRAINT_UNIQUE),
            WalletError,
            "the wallet's own rules forbid it: nothing was changed",
        ),
        (reported(sqlite3.SQLITE_CONSTRAINT_TRIGGER), WalletError, "the wallet's own rules forbid it"),
        (reported(sqlite3.SQLITE_CONSTRAINT_TRIGGER, BEYOND_THE_CAP), BeyondCapError, "nothing was drawn"),
        (reported(sqlite3.SQLITE_CONSTRAINT_UNIQUE, BEYOND_THE_CAP), WalletError, "the wallet's own rules forbid it"),
        (reported(sqlite3.SQLITE_CORRUPT), DamagedWalletError, "is damaged, or no wallet: as SQLite says it"),
        (reported(sqlite3.SQLITE_CORRUPT_INDEX), DamagedWalletError, "is damaged"),
        (reported(sqlite3.SQLITE_NOTADB), DamagedWalletError, "is damaged"),
        (reported(sqlite3.SQLITE_FORMAT), DamagedWalletError, "is damaged"),
        (reported(sqlite3.SQLITE_ERROR), DamagedWalletError, "is damaged"),
        (reported(sqlite3.SQLITE_MISMATCH), DamagedWalletError, "is damaged"),
        (reported(sqlite3.SQLITE_TOOBIG), DamagedWalletError, "is damaged"),
        (reported(sqlite3.SQLITE_FULL), WalletError, "see that the disk can be written"),
        (reported(sqlite3.SQLITE_IOERR_WRITE), WalletError, "see that the disk can be written"),
        (reported(None), WalletError, "see that the disk can be written"),
        (MemoryError(), WalletError, "there is not enough memory"),
    ],
    ids=lambda each: f"{each}-{getattr(each, 'sqlite_errorcode', '')}" if isinstance(each, Exception) else "",
)
def test_what_is_reported_says_what_to_do_next(error: Exception, kind: type[WalletError], said: str) -> None:
    found = wallet_error(PATH, error)

    assert type(found) is kind
    assert str(found).startswith(f"{PATH}: ")
    assert said in str(found)


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xffSesame", 0, 1, "is Sesame"),
        reported(None, "Could not decode to UTF-8 column 'token' with text 'Sesame'", sqlite3.OperationalError),
    ],
    ids=["a name", "a column"],
)
def test_a_text_that_is_none_is_damage_and_is_not_repeated(error: Exception) -> None:
    """It may be a token, or a piece of one."""
    found = wallet_error(PATH, error)

    assert type(found) is DamagedWalletError
    assert "a text in it is not UTF-8" in str(found)
    assert "Sesame" not in str(found)


@pytest.mark.parametrize(
    ("refused", "kind"),
    [((), DamagedWalletError), (("wallet.sqlite",), WalletError), (("folder",), WalletError)],
    ids=str,
)
def test_a_file_that_says_it_is_read_only_is_damaged_if_nothing_else_forbids_to_write_it(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...], kind: type[WalletError]
) -> None:
    """A header with one bit flipped says so. Of the folder it is enough to write: nobody lists it."""

    def access(path: Path, mode: int) -> bool:
        return path.name not in refused and mode == (os.W_OK if path.name == "folder" else os.R_OK | os.W_OK)

    monkeypatch.setattr(os, "access", access)
    assert type(wallet_error(PATH, reported(sqlite3.SQLITE_READONLY))) is kind


def test_what_is_not_of_sqlite_goes_its_way() -> None:
    with pytest.raises(DamagedWalletError), translated(PATH):
        raise reported(sqlite3.SQLITE_CORRUPT)
    with pytest.raises(KeyError), translated(PATH):
        raise KeyError


def test_a_row_is_found_by_its_key_alone_and_only_what_changes_is_written() -> None:
    table = CheckedTable("things", ("id", "size", "colour"), changes=("colour",))

    assert table.select == "SELECT id, size, colour, checksum FROM things"
    assert table.insert == "INSERT INTO things (id, size, colour, checksum) VALUES (?, ?, ?, ?)"
    assert table.update == "UPDATE things SET colour = ?, checksum = ? WHERE id = ?"
    *changed, checksum, key = table.updated(b"file", [7, 3, "red"])
    assert (changed, checksum, key) == (["red"], table.checksum(b"file", [7, 3, "red"]), 7)
    assert table.inserted(b"file", [7, 3, "red"]) == [7, 3, "red", checksum]
    assert OWNERS.update.endswith(" WHERE id = ?")
    assert CheckedTable("pairs", ("a", "b", "c"), key=2).update.endswith(" WHERE a = ? AND b = ?")


def test_a_checksum_is_of_one_row_of_one_table_of_one_file() -> None:
    checksum = HEADS.checksum(b"file", ["study", 1, b"head"])
    others = [
        HEADS.checksum(b"other", ["study", 1, b"head"]),
        OWNERS.checksum(b"file", ["study", 1, b"head"]),
        HEADS.checksum(b"file", ["study", "1", b"head"]),
        HEADS.checksum(b"file", ["study", 1, "head"]),
        HEADS.checksum(b"file", ["study", 2, b"head"]),
    ]

    assert len({checksum, *others}) == 6
    assert {len(each) for each in (checksum, *others)} == {16}
    assert checksum == HEADS.checksum(b"file", ("study", 1, b"head"))
