"""A wallet that version 0.1 made goes on with this version; and a crash while one is made or upgraded leaves it whole.

`fixtures/wallet_of_0_1` was made by version 0.1 (commit ac6be6c) with `fixtures/make_wallet_of_0_1.py`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from askance_client import (
    Answered,
    BeyondCapError,
    DamagedWalletError,
    Identity,
    Pin,
    Reason,
    Unanswered,
    User,
    Wallet,
    WalletError,
    WalletFile,
    bulletin_reader,
)
from askance_client.pace import AT_ONCE
from askance_client.wallet import file as file_module
from askance_client.wallet import layout
from askance_client.wallet.records import Owner
from askance_protocol.budget import MICRO
from tests.client.liar import Liar
from tests.client.people import CAP, OTHERS, Words, answers, reasons
from tests.client.stepwise import kill_everywhere

FIXTURES: Final = Path(__file__).with_name("fixtures")
INSIDE: Final[dict[str, Any]] = json.loads((FIXTURES / "wallet_of_0_1.json").read_text("utf-8"))
ROWS: Final[dict[str, list[list[Any]]]] = INSIDE["rows"]
A, B = INSIDE["bulletins"]
TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the wallet of version 0.1, alone in its folder."""
    return old_at(tmp_path)


@pytest.fixture(autouse=True)
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose clock stands before the deadlines of the rounds in the fixture."""
    monkeypatch.setattr(bulletin_reader, "time", SimpleNamespace(time=lambda: 1_790_000_000.0))


def old_at(folder: Path) -> Path:
    path = folder / "wallet"
    shutil.copyfile(FIXTURES / "wallet_of_0_1", path)
    path.chmod(0o600)
    return path


def liar_of(study: str) -> Liar:
    """The server as it was when the wallet was last used."""
    entries = INSIDE["bulletins"][study]
    liar = Liar(entries[0]["notice"]["study"], entries=list(entries))
    assert liar.id == study
    return liar


def whole(path: Path) -> list[str]:
    """What is not in a wallet as it was in version 0.1; nothing, if it is whole."""
    with closing(Wallet.open(path)) as wallet:
        ((owner, cap, elsewhere, server, number, token),) = ROWS["owners"]
        reports = {round_: (charge, body.encode(), state) for owner, round_, charge, body, state in ROWS["reports"]}
        pairs = {
            "cap": (wallet.cap, cap),
            "identity": (wallet.identity, Identity(server, number, token)),
            "elsewhere": (wallet.spending.elsewhere, elsewhere),
            "heard": (wallet.spending.heard, {round_: charge for _, round_, charge in ROWS["heard"]}),
            "spent": (wallet.spending.spent, sum(row[2] for row in ROWS["reports"]) + elsewhere),
            "pins": ([wallet.pin(row[1]) for row in ROWS["pins"]], [Pin(*row[2:]) for row in ROWS["pins"]]),
            "reports": (
                {each.round: (each.charge, each.body, each.state) for each in wallet.reports.values()},
                reports,
            ),
        }
    assert owner == 0
    return [name for name, (found, expected) in pairs.items() if found != expected]


# ------------------------------------------------------------------------------------------------- a real old wallet


def test_a_wallet_of_version_0_1_opens_with_all_that_was_in_it(old: Path) -> None:
    assert whole(old) == []
    # And once more, now that it is of this version.
    assert whole(old) == []
    with closing(sqlite3.connect(old)) as db:
        assert db.execute("PRAGMA user_version").fetchall() == [(layout.SCHEMA_VERSION,)]
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_check_finds_a_wallet_with_another_byte(old: Path) -> None:
    """The control."""
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("DROP TRIGGER reports_stay")
        db.execute("UPDATE reports SET body = x'00' WHERE state = 'kept'")
        for sql in OLD_TRIGGERS(FIXTURES / "wallet_of_0_1"):
            if "reports_stay" in sql:
                db.execute(sql)

    assert whole(old) == ["reports"]


def OLD_TRIGGERS(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as db:
        return [sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")]


def test_it_sends_the_same_bytes_again_and_draws_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, liar = Words(monkeypatch), liar_of(A)
    liar.charges = {row[1]: row[2] for row in ROWS["reports"] if row[4] == "acknowledged"}
    [(round_, body)] = [(row[1], row[3].encode()) for row in ROWS["reports"] if row[4] == "kept"]
    with closing(Wallet.open(old)) as wallet:
        results = answers(User(OTHERS, wallet, pace=AT_ONCE), liar)
        spent = wallet.spending.spent

    assert liar.bodies == [body] == [INSIDE["sent"][round_].encode()]
    assert Counter(type(each) for each in results) == {Answered: 2, Unanswered: 1}
    assert words.drawn == 0
    assert spent == 4 * MICRO


def test_it_remembers_what_it_has_read_and_what_a_copy_has_answered(old: Path) -> None:
    liar = liar_of(B)
    with closing(Wallet.open(old)) as wallet:
        user = User(OTHERS, wallet, pace=AT_ONCE)
        assert reasons(answers(user, liar)) == [Reason.HEARD_ALREADY, Reason.BEYOND_STUDY_CAP]
        liar.rewrite(1, lambda notice: notice["round"].update(target=11))
        assert reasons(answers(user, liar)) == [Reason.TWO_HISTORIES]
        with pytest.raises(BeyondCapError):
            wallet.draw_and_store(B, "0" * 64, 6 * MICRO + 1, lambda: b"beyond")


def test_entries_before_a_pin_of_version_0_1_are_noted_when_they_are_read_again(old: Path) -> None:
    liar = liar_of(A)
    with closing(Wallet.open(old)) as wallet:
        assert list(wallet.heads(A)) == [4]
        liar.publish({"kind": "ended", "state": "finished", "reason": ""})
        answers(User(OTHERS, wallet, pace=AT_ONCE), liar)

        assert list(wallet.heads(A)) == [1, 2, 3, 4, 5]


# --------------------------------------------------------------------------------------------- odd ones of version 0.1


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def test_a_wallet_whose_copies_have_spent_beyond_its_cap_is_upgraded_and_shut(old: Path) -> None:
    changed(old, f"UPDATE owners SET elsewhere = {CAP}")
    with closing(Wallet.open(old)) as wallet:
        assert wallet.spending.spent == CAP + 3 * MICRO
        with pytest.raises(BeyondCapError):
            wallet.draw_and_store(A, "0" * 64, 1, lambda: b"beyond")


def test_a_fleet_of_version_0_1_is_upgraded_and_each_owner_keeps_what_is_hers(old: Path) -> None:
    """Where two had read different histories, what the first one read counts for the file: the other was lied to."""
    changed(
        old,
        f"INSERT INTO owners VALUES (1, {CAP}, 0, 'http://askance.test', 4, 'user.token.4')",
        f"INSERT INTO pins SELECT 1, study, length, '{'9' * 64}' FROM pins WHERE study = '{A}'",
        "INSERT INTO reports SELECT 1, round, charge, x'ff', 'kept' FROM reports WHERE state = 'declined'",
    )
    with closing(WalletFile.open(old)) as file:
        hers, others = (Wallet(file, owner) for owner in (0, 1))

        assert file.owners() == [0, 1]
        assert file.numbers() == [3, 4]
        assert file.waiting() == [0, 1]
        assert [each.body for each in others.reports.values()] == [b"\xff"]
        assert hers.spending.spent == 4 * MICRO
        assert others.spending.spent == MICRO
        assert hers.pin(A) == Pin(*next(row[2:] for row in ROWS["pins"] if row[1] == A))


def test_an_old_wallet_with_a_flipped_bit_ends_in_no_raw_error(old: Path) -> None:
    """It has no checksums, so a bit may go unnoticed; but it is a wallet or it is refused."""
    dice, data = random.Random(7), old.read_bytes()
    written = [place for place, byte in enumerate(data) if byte]
    for _ in range(1000 if TORTURE else 100):
        flipped = bytearray(data)
        flipped[dice.choice(written)] ^= 1 << dice.randrange(8)
        for each in old.parent.iterdir():
            each.unlink()
        old.write_bytes(flipped)
        old.chmod(0o600)
        with suppress(WalletError):
            whole(old)


COLUMNS: Final = [(table, column) for table, columns in {
    "owners": ("cap", "elsewhere", "server", "user_number", "token"),
    "pins": ("owner", "study", "length", "head"),
    "reports": ("owner", "round", "charge", "body", "state"),
    "heard": ("owner", "round", "charge"),
}.items() for column in columns]  # fmt: skip
OTHER_KIND: Final = "CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) WHEN 'blob' THEN 'text' ELSE 'x' || {0} END"


def of_another_kind(path: Path, table: str, column: str) -> None:
    """Make values of a column another kind of value, as a bit does that flips in the head of a row."""
    triggers = OLD_TRIGGERS(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        for trigger in triggers:
            db.execute(f"DROP TRIGGER {trigger.split()[2]}")
        db.execute(f"UPDATE {table} SET {column} = {OTHER_KIND.format(column)}")
        for trigger in triggers:
            db.execute(trigger)


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_an_old_wallet_with_a_value_of_another_kind_is_refused(old: Path, table: str, column: str) -> None:
    of_another_kind(old, table, column)
    with pytest.raises(DamagedWalletError):
        WalletFile.open(old)


def test_a_charge_that_is_a_text_would_be_nothing_spent(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: SQLite adds a text as zero, so what the triggers count is less than what was spent."""
    monkeypatch.setattr(layout, "_check_kinds", lambda *_: None)
    of_another_kind(old, "reports", "charge")
    with closing(WalletFile.open(old)) as file:
        assert file.most_spent() == 0
        with pytest.raises(TypeError):
            assert Wallet(file, 0).spending.spent


# ------------------------------------------------------------------------------------------------------ killed


def upgraded(place: Path) -> None:
    WalletFile.open(old_at(place)).close()


def old_or_new(place: Path) -> list[str]:
    if not (place / "wallet").exists():
        return []
    try:
        return whole(place / "wallet")
    except WalletError as error:
        return [type(error).__name__]


def piecemeal(db: sqlite3.Connection, path: Path) -> None:
    """An upgrade that is no transaction."""
    db.execute("COMMIT")
    layout.upgrade(db, path)
    db.execute("BEGIN")


@pytest.mark.slow
def test_a_kill_in_the_middle_of_an_upgrade_leaves_the_old_wallet_or_the_new_one(tmp_path: Path) -> None:
    found = kill_everywhere(tmp_path, upgraded, old_or_new)

    print(f"kills: {found}")
    assert found.keys() == {"whole"}
    assert found["whole"] >= 30


@pytest.mark.slow
def test_an_upgrade_that_is_no_transaction_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(file_module, "upgrade", piecemeal)

    assert kill_everywhere(tmp_path, upgraded, old_or_new)["DamagedWalletError"] > 0


def made(place: Path) -> None:
    Wallet.open(place / "wallet", cap=CAP).close()


def nothing_or_whole(place: Path) -> list[str]:
    try:
        if (place / "wallet").exists():
            Wallet.open(place / "wallet").close()
        with closing(Wallet.open(place / "wallet", cap=CAP)) as wallet:
            return [] if wallet.spending.spent == 0 else ["spent"]
    except WalletError as error:
        return [type(error).__name__]


def in_place(path: Path, owners: list[Owner]) -> None:
    """A creation that begins with the file's name."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    layout._fill(path, owners)


@pytest.mark.slow
def test_a_kill_while_a_wallet_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    found = kill_everywhere(tmp_path, made, nothing_or_whole)

    print(f"kills: {found}")
    assert found.keys() == {"whole"}
    assert found["whole"] >= 30


@pytest.mark.slow
def test_a_creation_that_begins_with_the_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(file_module, "create", in_place)

    assert kill_everywhere(tmp_path, made, nothing_or_whole)["DamagedWalletError"] > 0


def test_a_journal_that_is_left_of_another_wallet_is_not_read_into_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "wallet"
    with closing(Wallet.open(path, cap=CAP)) as wallet:
        wallet.draw_and_store(A, "0" * 64, MICRO, lambda: b"drawn")
        left = (tmp_path / "wallet-wal").read_bytes()
    path.unlink()
    (tmp_path / "wallet-wal").write_bytes(left)

    with pytest.raises(DamagedWalletError, match="wallet-wal is left of it"):
        Wallet.open(path, cap=CAP)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["wallet-wal"]
