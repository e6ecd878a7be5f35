"""Whether a wallet is older, and whether it can be upgraded, is found out on a copy; the file stays as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from askance_client import DamagedWalletError, Wallet, WalletError
from askance_client.wallet import SCHEMA_VERSION, WalletFile, try_upgrade, upgrading, wallet_version
from tests.client.people import CAP
from tests.client.test_wallet_upgrade import of_another_kind, old_at


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_an_older_wallet_is_tried_on_a_copy(tmp_path: Path, scratch: Path) -> None:
    old = old_at(tmp_path)
    before = old.read_bytes()

    assert wallet_version(old) == 1
    try_upgrade(old, scratch)
    assert (wallet_version(scratch / "wallet"), wallet_version(old)) == (SCHEMA_VERSION, 1)
    assert old.read_bytes() == before
    with pytest.raises(FileExistsError):
        try_upgrade(old, scratch)


def test_a_wallet_of_today_is_current_and_no_wallet_is_refused(tmp_path: Path) -> None:
    Wallet.open(tmp_path / "new", cap=CAP).close()
    assert wallet_version(tmp_path / "new") == SCHEMA_VERSION
    (tmp_path / "none").touch(mode=0o600)
    with pytest.raises(WalletError):
        wallet_version(tmp_path / "none")
    (tmp_path / "new").chmod(0o644)
    with pytest.raises(WalletError, match="can be read by others"):
        wallet_version(tmp_path / "new")


def test_what_cannot_be_upgraded_is_found_on_the_copy(tmp_path: Path, scratch: Path) -> None:
    old = old_at(tmp_path)
    of_another_kind(old, "reports", "charge")
    before = old.read_bytes()
    with pytest.raises(DamagedWalletError):
        try_upgrade(old, scratch)
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    "forget",
    [
        "DELETE FROM heard",
        "UPDATE owners SET cap = cap + 1",
        "UPDATE owners SET elsewhere = elsewhere + 1",
        "DELETE FROM reports WHERE round = (SELECT min(round) FROM reports)",
    ],
)
def test_an_upgrade_that_forgets_spending_is_found(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, forget: str
) -> None:
    """The control."""

    class Forgetting:
        @staticmethod
        def open(path: Path) -> WalletFile:
            WalletFile.open(path).close()
            with closing(sqlite3.connect(path)) as db, db:
                for (trigger,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                    db.execute(f"DROP TRIGGER {trigger}")
                assert db.execute(forget).rowcount
            return WalletFile(path, sqlite3.connect(path))

    monkeypatch.setattr(upgrading, "WalletFile", Forgetting)
    with pytest.raises(DamagedWalletError, match="what was spent is not the same"):
        try_upgrade(old_at(tmp_path), scratch)
