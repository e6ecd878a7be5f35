"""A damaged wallet behaves as before or says that it is damaged: no bit that flips makes it send other bytes.

`ASKANCE_TORTURE=1` flips ten times as many bits.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import pytest

from askance_client import (
    BeyondCapError,
    DamagedWalletError,
    Identity,
    ReportState,
    Wallet,
)
from askance_client.wallet.tables import FILE, HEADS, HEARD, OWNERS, REPORTS, CheckedTable
from askance_protocol.budget import MICRO
from tests.client.people import CAP
from tests.protocol.studies import SCHEMA

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
BITS: Final = 4000 if TORTURE else 300
STUDIES: Final = ("a" * 64, "c" * 64)
ROUNDS: Final = range(1, 9)
STATES: Final = {
    1: ReportState.ACKNOWLEDGED,
    2: ReportState.ACKNOWLEDGED,
    3: ReportState.DECLINED,
    4: ReportState.CONFLICT,
}


def id_of(number: int) -> str:
    return f"{number * 7919:064x}"


def filled(path: Path) -> bytes:
    """The bytes of a wallet with something in each table."""
    with closing(Wallet.open(path, cap=CAP)) as wallet:
        wallet.enrolled(Identity("http://askance.test", 3, "user.token.3"))
        wallet.declare(SCHEMA)
        for study in STUDIES:
            wallet.note_history(study, [id_of(100 + at) for at in range(5)])
        for number in ROUNDS:
            body = b'{"outcome":%d}' % (number % 2)
            wallet.draw_and_store(STUDIES[number % 2], id_of(number), MICRO // 2, lambda body=body: body)
        for number, state in STATES.items():
            wallet.settle(id_of(number), state)
        wallet.note_elsewhere(7, {id_of(20): 5, id_of(21): 2})
    return path.read_bytes()


def behaviour(path: Path) -> tuple[object, ...]:
    """All that a wallet says and does: the last two are the bytes that it sends, and how much it has spent then."""
    with closing(Wallet.open(path)) as wallet:
        knows = (
            wallet.cap,
            wallet.identity,
            wallet.declared,
            wallet.spending,
            [wallet.pin(study) for study in STUDIES],
        )
        held = [(each.round, each.study, each.charge, each.body, each.state) for each in wallet.reports.values()]
        left = wallet.cap - wallet.spending.spent
        sends = [wallet.draw_and_store(STUDIES[0], id_of(each), 1, lambda: b"other").body for each in ROUNDS]
        wallet.draw_and_store(STUDIES[0], id_of(50), left, lambda: b"new")
        with suppress(BeyondCapError):
            wallet.draw_and_store(STUDIES[0], id_of(51), 1, lambda: b"beyond")
        return (*knows, sorted(held), sends, wallet.spending.spent)


class Bench:
    """A place for one wallet file, written again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "wallet"
        self.whole = filled(self.path)
        self.same = self.outcome(self.whole)

    def outcome(self, data: bytes) -> object:
        """What a wallet of these bytes does, or "damaged", or the error that it must not end with."""
        for each in self.folder.iterdir():
            each.unlink()
        self.path.write_bytes(data)
        self.path.chmod(0o600)
        try:
            return behaviour(self.path)
        except DamagedWalletError as error:
            said = f"{error}"
            one_line = "\n" not in said and "user.token.3" not in said and "docs/client.md" in error.remedy
            return "damaged" if one_line else f"the error says {said!r}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def kinds(self, damaged: Iterable[bytes]) -> Counter[str]:
        """How often a damaged wallet does what."""
        counted = Counter[str]()
        for data in damaged:
            outcome = self.outcome(data)
            if isinstance(outcome, str):
                counted["damaged" if outcome == "damaged" else "another error"] += 1
            else:
                counted["the same" if outcome == self.same else "something else"] += 1
        return counted

    def flips(self, number: int, dice: random.Random) -> Iterable[bytes]:
        """The file with one bit flipped: half of them anywhere, half of them where something is written."""
        written = [place for place, byte in enumerate(self.whole) if byte]
        for at in range(number):
            flipped = bytearray(self.whole)
            flipped[dice.choice(written) if at % 2 else dice.randrange(len(flipped))] ^= 1 << dice.randrange(8)
            yield bytes(flipped)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_flipped_bit_changes_nothing_or_is_noticed(bench: Bench) -> None:
    kinds = bench.kinds(bench.flips(BITS, random.Random(7)))

    print(f"{BITS} bits flipped: {dict(kinds)}")
    assert kinds.keys() <= {"the same", "damaged"}
    # The harness hits what matters.
    assert min(kinds["the same"], kinds["damaged"]) * 10 > BITS


def test_without_checksums_the_same_harness_finds_wallets_that_do_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(CheckedTable, "checksum", lambda *_: bytes(16))
    bench = Bench(tmp_path)

    assert bench.kinds(bench.flips(BITS // 3, random.Random(7)))["something else"] > 0


@pytest.mark.parametrize("where", range(0, 100, 4) if not TORTURE else range(100))
def test_a_header_with_another_byte_changes_nothing_or_is_noticed(bench: Bench, where: int) -> None:
    def others() -> Iterable[bytes]:
        for value in (0, 1, 3, 5, 255):
            other = bytearray(bench.whole)
            other[where] = value
            yield bytes(other)

    assert bench.kinds(others()).keys() <= {"the same", "damaged"}


def test_a_file_that_was_cut_or_zeroed_is_damaged_at_every_length(bench: Bench) -> None:
    size = len(bench.whole)
    lengths = {0, 1, 15, 16, 99, 100, 511, 512, 513, *range(0, size, 4096), *range(4095, size, 4096), size - 1}
    lengths |= {random.Random(7).randrange(size) for _ in range(40)}
    kinds = bench.kinds(bench.whole[:length] for length in sorted(lengths - {size}))
    assert kinds.keys() == {"damaged"}, kinds
    zeroed = (bench.whole[:at] + bytes(512) + bench.whole[at + 512 :] for at in range(0, size, 512))

    assert bench.kinds(zeroed).keys() <= {"the same", "damaged"}


def test_a_cut_wallet_does_not_come_with_a_fresh_cap(bench: Bench) -> None:
    for length in (0, 1, 100):
        bench.path.write_bytes(bench.whole[:length])
        with pytest.raises(DamagedWalletError, match=f"{length} bytes"):
            Wallet.open(bench.path, cap=CAP)

        assert bench.path.stat().st_size == length


# --------------------------------------------------------------------------------------------- rows that are gone


def lose(path: Path, statement: str, *, counted: bool) -> None:
    """Delete rows as if nothing forbade it. `counted`: and correct the counts, as this program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement)
        if counted:
            ((file_id,),) = db.execute("SELECT id FROM file")
            numbers = [db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("owners", "heads")]
            db.execute(FILE.update, FILE.updated(file_id, (1, file_id, *numbers)))
            for row in db.execute(OWNERS.select).fetchall():
                tables = ("reports", "heard")
                query = "SELECT count(*) FROM {} WHERE owner = ?"
                numbers = [db.execute(query.format(name), row[:1]).fetchone()[0] for name in tables]
                db.execute(OWNERS.update, OWNERS.updated(file_id, (*row[:-3], *numbers)))
        for _, sql in triggers:
            db.execute(sql)


GONE: Final = {
    "a report": "DELETE FROM reports WHERE round = (SELECT max(round) FROM reports)",
    "all reports": "DELETE FROM reports",
    "a round of a copy": "DELETE FROM heard WHERE charge = 5",
    "the last entry that was read": "DELETE FROM heads WHERE length = 5",
    "all that was read": "DELETE FROM heads",
    "a report that is another owner's": "UPDATE reports SET owner = 1 WHERE round = (SELECT max(round) FROM reports)",
    "an owner beside her": "INSERT INTO owners SELECT 1, cap, 0, NULL, NULL, NULL, NULL, 0, 0, checksum FROM owners",
}


@pytest.mark.parametrize("name", GONE)
def test_a_row_that_is_gone_is_noticed(bench: Bench, name: str) -> None:
    bench.path.write_bytes(bench.whole)
    lose(bench.path, GONE[name], counted=False)
    with pytest.raises(DamagedWalletError, match="rows are gone"):
        behaviour(bench.path)


@pytest.mark.parametrize("name", [name for name in GONE if "owner" not in name])
def test_it_is_the_counts_that_notice(bench: Bench, name: str) -> None:
    """The control: where the counts are corrected too, nothing is noticed."""
    bench.path.write_bytes(bench.whole)
    lose(bench.path, GONE[name], counted=True)

    assert bench.outcome(bench.path.read_bytes()) not in (bench.same, "damaged")


def test_without_its_owner_or_its_first_row_a_file_is_damaged(bench: Bench) -> None:
    for statement in ("DELETE FROM owners", "DELETE FROM file"):
        bench.path.write_bytes(bench.whole)
        lose(bench.path, statement, counted=False)
        with pytest.raises(DamagedWalletError):
            Wallet.open(bench.path, cap=CAP)


def test_a_row_of_another_wallet_does_not_pass(tmp_path: Path, bench: Bench) -> None:
    """Each row is bound to its file: the other wallet has drawn something else for the same round."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    filled(other / "wallet")
    bench.path.write_bytes(bench.whole)
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as db:
        db.execute("ATTACH ? AS other", (str(other / "wallet"),))
        db.execute(
            "UPDATE reports SET checksum = (SELECT o.checksum FROM other.reports o WHERE o.round = reports.round)"
        )
    with pytest.raises(DamagedWalletError, match="a row of reports"):
        behaviour(bench.path)


@pytest.mark.parametrize("table", [FILE, OWNERS, HEADS, REPORTS, HEARD], ids=lambda table: table.name)
def test_every_column_of_every_table_is_covered(bench: Bench, table: CheckedTable) -> None:
    for column in (*table.columns, "checksum"):
        bench.path.write_bytes(bench.whole)
        with closing(sqlite3.connect(bench.path, isolation_level=None)) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            another = (
                f"CASE typeof({column}) WHEN 'integer' THEN {column} + 1000 WHEN 'blob' THEN zeroblob(16) ELSE 'x' END"
            )
            one = f"checksum = (SELECT max(checksum) FROM {table.name})"
            assert db.execute(f"UPDATE {table.name} SET {column} = {another} WHERE {one}").rowcount == 1
            for _, sql in triggers:
                db.execute(sql)

        assert bench.outcome(bench.path.read_bytes()) == "damaged", column
