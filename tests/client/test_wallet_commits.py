"""While a thread waits for the disk, others go on: nobody is told of what is not on disk; a refusal takes it back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from askance_client import Wallet, WalletError, WalletFile
from askance_protocol.budget import MICRO
from tests.client.people import CAP, SECONDS, run

STUDY, ROUND, OTHER = "a" * 64, "b" * 64, "c" * 64


class SlowDisk:
    """A connection whose commits, in whichever thread, wait until they may go on, or fail."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.fails = False

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and threading.current_thread() is not threading.main_thread():
            self.begun.set()
            assert self.goes_on.wait(SECONDS)
            if self.fails:
                self.fails = False
                raise sqlite3.OperationalError("disk I/O error")
        return self.db.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)


@pytest.fixture
def file(tmp_path: Path) -> Generator[WalletFile]:
    with closing(WalletFile.open(tmp_path / "wallets")) as opened:
        opened.add_all([(owner, CAP, None) for owner in range(3)])
        yield opened


def slow(file: WalletFile) -> SlowDisk:
    disk = SlowDisk(file._db)
    file._db = disk  # pyright: ignore[reportAttributeAccessIssue]
    return disk


def drawn(wallet: Wallet, round_: str = ROUND) -> Callable[[], bytes]:
    return lambda: wallet.draw_and_store(STUDY, round_, MICRO, lambda: b"drawn").body


async def at_the_disk(disk: SlowDisk, wallet: Wallet) -> asyncio.Task[bytes]:
    """A report that is on its way to the disk."""
    task = asyncio.create_task(wallet.group_commit(drawn(wallet)))
    await asyncio.to_thread(disk.begun.wait, SECONDS)
    return task


def seen_meanwhile(file: WalletFile) -> tuple[bool, bool]:
    """Whether her report is known before it is on disk, and whether another owner's account has to wait for it."""
    file.read_accounts([0, 1])
    disk, first, second = slow(file), Wallet(file, 0), Wallet(file, 1)

    async def look() -> tuple[bool, bool]:
        task = await at_the_disk(disk, first)
        threading.Timer(0.2, disk.goes_on.set).start()
        waited = second.account.spent != 0 or disk.goes_on.is_set()
        known = first.stored(ROUND) is not None and not disk.goes_on.is_set()
        assert not task.done()
        assert await task == b"drawn"
        return known, waited

    return run(look())


def test_what_is_not_on_disk_is_not_known_and_others_need_not_wait_for_it(file: WalletFile) -> None:
    assert seen_meanwhile(file) == (False, False)


def test_what_is_not_on_disk_would_be_known_if_nobody_looked_whose_it_is(
    file: WalletFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the note of who is changed, her own other tasks would send what a crash may undo."""
    monkeypatch.setattr(WalletFile, "_change", WalletFile._hold)
    assert seen_meanwhile(file) == (True, False)


def test_a_commit_that_fails_is_told_to_all_of_its_group_and_to_nobody_else(file: WalletFile) -> None:
    disk, first, second = slow(file), Wallet(file, 0), Wallet(file, 1)
    disk.fails = True

    async def both() -> tuple[bytes | BaseException, bytes | BaseException]:
        task = await at_the_disk(disk, first)
        behind = asyncio.create_task(second.group_commit(drawn(second)))
        await asyncio.sleep(0)
        disk.goes_on.set()
        return await asyncio.gather(task, behind, return_exceptions=True)

    failed, done = run(both())

    assert isinstance(failed, WalletError)
    assert done == b"drawn"
    assert first.stored(ROUND) is None
    assert (first.account.spent, second.account.spent) == (0, MICRO)
    assert run(first.group_commit(drawn(first))) == b"drawn"


def test_what_comes_meanwhile_is_one_group(file: WalletFile) -> None:
    disk, wallets = slow(file), [Wallet(file, owner) for owner in range(3)]
    said = list[str]()

    async def all_of_them() -> None:
        task = await at_the_disk(disk, wallets[0])
        behind = [asyncio.create_task(wallet.group_commit(drawn(wallet, OTHER))) for wallet in wallets]
        await asyncio.sleep(0.01)
        disk.set_trace_callback(said.append)
        disk.goes_on.set()
        await asyncio.gather(task, *behind)

    run(all_of_them())

    assert said.count("BEGIN IMMEDIATE") == 1
    assert [wallet.account.spent for wallet in wallets] == [2 * MICRO, MICRO, MICRO]


def test_who_closes_the_file_waits_for_the_disk(tmp_path: Path) -> None:
    file = WalletFile.open(tmp_path / "wallets")
    file.add_all([(0, CAP, None)])
    disk, wallet = slow(file), Wallet(file, 0)

    async def closed() -> None:
        task = await at_the_disk(disk, wallet)
        threading.Timer(0.05, disk.goes_on.set).start()
        file.close()
        assert await task == b"drawn"

    run(closed())

    with closing(WalletFile.open(tmp_path / "wallets")) as again:
        assert Wallet(again, 0).stored(ROUND) is not None


def test_a_transaction_of_the_same_process_waits_for_the_disk(file: WalletFile) -> None:
    disk, first, second = slow(file), Wallet(file, 0), Wallet(file, 1)

    async def beside() -> None:
        task = await at_the_disk(disk, first)
        threading.Timer(0.05, disk.goes_on.set).start()
        drawn(second)()
        assert await task == b"drawn"

    run(beside())

    assert (first.account.spent, second.account.spent) == (MICRO, MICRO)
