"""A backup of a running server's ledger is whole; restored, it says what it has lost, and the lost is not spent twice.

tests/server/test_backups.py has `askance backup` and `restore`, which are made of this.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from askance_client import Reason, User
from askance_client.pace import AT_ONCE
from askance_protocol.budget import MICRO
from askance_server.ledger import LedgerError, Verdict, audit_ledger
from askance_server.ledger.sqlite import FILE, SqliteLedger
from askance_server.ledger.sqlite.seals import COMMITS_FILE
from tests.client.liar import Liar
from tests.client.people import HERS, answers, enrolled, reasons, wallet_at
from tests.harness.marks import SECONDS
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

STUDY = study()
ROUND = round_of(part(), of=STUDY)
ID = ROUND.digest()


def report(ledger: SqliteLedger, users: range) -> list[int]:
    numbers = np.array(users, np.uint64)
    return ledger.charge(ID, numbers, np.ones(len(numbers), np.uint32)).tolist()


def back_up(directory: Path, place: Path) -> Path:
    """As the document says: by SQLite's own backup, whatever the server is doing."""
    place.mkdir(mode=0o700)
    source = sqlite3.connect(f"file:{directory / FILE}?mode=ro", uri=True)
    with closing(source), closing(sqlite3.connect(place / FILE)) as target:
        source.backup(target)
    return place


@contextmanager
def writing(ledger: SqliteLedger) -> Iterator[list[int]]:
    """Reports come in, one group after the other, while the block runs; the users who have receipts."""
    acknowledged: list[int] = []
    enough, stop = threading.Event(), threading.Event()

    def write() -> None:
        for first in range(0, 100_000, 10):
            if stop.is_set():
                return
            assert report(ledger, range(first, first + 10)) == [Verdict.ACCEPTED] * 10
            acknowledged.extend(range(first, first + 10))
            if first >= 200:
                enough.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert enough.wait(SECONDS)
        yield acknowledged
    finally:
        stop.set()
        thread.join()


def test_a_backup_of_a_ledger_that_is_written_is_whole_and_has_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    with closing(SqliteLedger.open(tmp_path / "data")) as ledger:
        ledger.enrol(100_000, MICRO)
        publish(ledger, STUDY, ROUND)
        with writing(ledger) as acknowledged:
            before = len(acknowledged)
            copies = [back_up(tmp_path / "data", tmp_path / f"copy-{number}") for number in range(5)]
    for copy in copies:
        assert audit_ledger(str(copy)) == [missing_count(copy)]
        with closing(SqliteLedger.open(copy)) as restored:
            assert restored.received(ID) >= before > 0
            assert report(restored, range(before)) == [Verdict.REPEATED] * before
        assert audit_ledger(str(copy)) == []


def missing_count(copy: Path) -> object:
    """The one finding of a backup that no server has opened yet."""
    (found,) = [fault for fault in audit_ledger(str(copy)) if fault.where == str(copy / COMMITS_FILE)]
    assert "an older copy of the ledger cannot be told" in found.what
    return found


def test_a_copy_of_the_file_alone_is_no_backup(tmp_path: Path) -> None:
    """The control: what is in the write-ahead log is not in the file, and the copy is found out."""
    with closing(SqliteLedger.open(tmp_path / "data")) as ledger:
        ledger.enrol(10, MICRO)
        publish(ledger, STUDY, ROUND)
        report(ledger, range(10))
        shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    with pytest.raises(LedgerError, match="has lost"):
        SqliteLedger.open(tmp_path / "copy")


def test_a_backup_in_place_of_a_newer_ledger_is_refused_until_the_loss_is_accepted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with closing(SqliteLedger.open(data)) as ledger:
        ledger.enrol(20, MICRO)
        publish(ledger, STUDY, ROUND)
        report(ledger, range(5))
        copy = back_up(data, tmp_path / "copy")
        report(ledger, range(5, 15))
    shutil.copyfile(copy / FILE, data / FILE)

    with pytest.raises(LedgerError, match=r"has lost 1 of \d+ commits.*delete .*ledger\.commits"):
        SqliteLedger.open(data)
    assert any("has lost 1 of" in fault.what for fault in audit_ledger(str(data)))

    (data / COMMITS_FILE).unlink()
    with closing(SqliteLedger.open(data)) as ledger:
        # What it has forgotten: ten reports and their charges. Users send them again, byte for byte, and pay once.
        assert ledger.received(ID) == 5
        assert report(ledger, range(15)) == [Verdict.REPEATED] * 5 + [Verdict.ACCEPTED] * 10
        assert [ledger.standing(user).account.spent for user in (0, 14, 15)] == [MICRO, MICRO, 0]
    assert audit_ledger(str(data)) == []


def test_a_wallet_remembers_what_a_restored_server_has_forgotten(tmp_path: Path) -> None:
    """The server says that nothing was spent and shows a shorter history: she neither spends twice nor goes on."""
    server = Liar.of(study(simulated=False, cap=2 * MICRO))
    server.ask(part())
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, server)
        answers(user, server)
        stored, sent = dict(wallet.reports), len(server.bodies)
        assert (len(stored), sent) == (1, 1)
        del server.entries[1:]
        server.charges.clear()

        assert reasons(answers(user, server)) == [Reason.TWO_HISTORIES]
        assert (dict(wallet.reports), len(server.bodies)) == (stored, sent)
