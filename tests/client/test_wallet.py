"""The wallet: for its owner's eyes only, a cap for a lifetime, one report a round, and never another one."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import pytest

from askance_client import (
    Answered,
    BeyondCapError,
    DamagedWalletError,
    Identity,
    Pin,
    Reason,
    ReportState,
    Unanswered,
    UnreachableError,
    User,
    Wallet,
    WalletError,
    WalletFile,
    WalletInUseError,
)
from askance_client.simulation.fleet import FleetShard, shards_of
from askance_client.wallet import SCHEMA_VERSION
from askance_client.wallet import file as wallet_file
from askance_client.wallet.records import Owner, OwnerAccount, StoredReport
from askance_client.wallet.tables import REPORTS
from askance_protocol.budget import LARGEST, MICRO
from askance_protocol.errors import Code, ProtocolError
from askance_protocol.schema import LabelField, Schema
from tests.client.liar import Liar, instead_of_an_answer, problem
from tests.client.people import CAP, HERS, OTHERS, SECONDS, answers, enrolled, reasons, run, wallet_at
from tests.protocol.studies import FAR, SCHEMA, part, study

ROOT = Path(__file__).parent.parent.parent
STUDY = "a" * 64
HEAD = "b" * 64
HEADS = ("c" * 64, HEAD)
PIN = Pin(2, HEAD)
CHECKSUM = f"x'{'00' * 16}'"


@pytest.fixture
def wallet(tmp_path: Path) -> Generator[Wallet]:
    opened = wallet_at(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def liar() -> Liar:
    asked = Liar.of(study(simulated=False, cap=4 * MICRO))
    asked.ask(part())
    return asked


def id_of(number: int) -> str:
    return f"{number:064x}"


def keep(wallet: Wallet, round_: int = 1, charge: int = MICRO, body: bytes = b"drawn", elsewhere: int = 0) -> bytes:
    wallet.note_elsewhere(elsewhere, {})
    return wallet.draw_and_store(STUDY, id_of(round_), charge, lambda: body).body


def never() -> bytes:
    raise AssertionError("nothing is drawn here")


def spent(wallet: Wallet) -> int:
    return wallet.spending.spent


def by_hand(path: Path, statement: str, *parameters: object) -> None:
    """Another program writes to the file."""
    with closing(sqlite3.connect(path / "wallet")) as db, db:
        db.execute(statement, parameters)


# ------------------------------------------------------------------------------------------------- who may read it


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_wallet_and_all_that_sqlite_puts_beside_it_are_for_their_owner_alone(tmp_path: Path) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        keep(wallet)
        found = {each.name: mode(each) for each in tmp_path.iterdir()}

    assert found == dict.fromkeys(("wallet", "wallet-wal", "wallet-shm"), 0o600)


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602, 0o644, 0o777, 0o610])
def test_a_wallet_that_others_can_open_is_refused_with_the_command_that_repairs_it(tmp_path: Path, bits: int) -> None:
    wallet_at(tmp_path).close()
    (tmp_path / "wallet").chmod(bits)

    with pytest.raises(WalletError, match=f"can be read by others .*chmod 600 {tmp_path}/wallet"):
        wallet_at(tmp_path)


def test_a_token_and_a_body_have_no_readable_form(wallet: Wallet) -> None:
    wallet.enrolled(Identity("http://askance.test", 3, "sekret"))
    keep(wallet, body=b"sekret")

    assert "sekret" not in f"{wallet.identity!r} {wallet.stored(id_of(1))!r} {wallet!r}"


# ----------------------------------------------------------------------------------------------------- for a lifetime


def test_a_cap_is_for_a_lifetime(tmp_path: Path) -> None:
    wallet_at(tmp_path, 5).close()
    for cap in (None, 5):
        with closing(wallet_at(tmp_path, cap)) as wallet:
            assert wallet.cap == 5
    for cap in (4, 6):
        with pytest.raises(WalletError, match="leave the cap out: it is for a lifetime"):
            wallet_at(tmp_path, cap)


@pytest.mark.parametrize("cap", [0, -1, 1.0, True, "1", LARGEST + 1])
def test_a_cap_is_a_whole_number_of_millionths(tmp_path: Path, cap: Any) -> None:
    with pytest.raises(ProtocolError, match="cap"):
        wallet_at(tmp_path, cap)
    with closing(wallet_at(tmp_path, 5)) as wallet:
        assert wallet.cap == 5


def test_a_new_wallet_needs_a_cap(tmp_path: Path) -> None:
    with pytest.raises(WalletError, match=r"has no cap .*say what it may spend"):
        wallet_at(tmp_path, None)


def test_what_is_kept_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        wallet.enrolled(Identity("http://askance.test", 3, "token"))
        wallet.note_history(STUDY, HEADS)
        keep(wallet, elsewhere=5)
        wallet.settle(id_of(1), ReportState.ACKNOWLEDGED)
    with closing(wallet_at(tmp_path)) as wallet:
        kept = wallet.stored(id_of(1))

        assert wallet.identity == Identity("http://askance.test", 3, "token")
        assert wallet.pin(STUDY) == PIN
        assert spent(wallet) == MICRO + 5
        assert kept is not None
        assert (kept.body, kept.charge, kept.state) == (b"drawn", MICRO, ReportState.ACKNOWLEDGED)


def test_one_who_has_a_number_keeps_it(wallet: Wallet) -> None:
    wallet.enrolled(Identity("http://askance.test", 3, "token"))
    wallet.enrolled(Identity("http://askance.test", 3, "a new token"))
    with pytest.raises(WalletError, match="is of user 3"):
        wallet.enrolled(Identity("http://askance.test", 4, "token"))
    wallet.moved("http://elsewhere.test/")

    assert wallet.identity == Identity("http://elsewhere.test", 3, "a new token")


def test_the_key_of_an_enrolment_is_on_disk_before_it_is_shown_and_gone_when_she_has_her_number(tmp_path: Path) -> None:
    here, there = "http://askance.test", "http://elsewhere.test"
    with closing(wallet_at(tmp_path)) as wallet:
        key = wallet.enrolment_key(here)
        shutil.copytree(tmp_path, copy := tmp_path.with_name(f"{tmp_path.name}-copied"))
        assert wallet.identity is None
    with closing(wallet_at(tmp_path)) as wallet, closing(wallet_at(copy)) as cut:
        assert re.fullmatch("[0-9a-f]{32}", key)
        assert {wallet.enrolment_key(here), cut.enrolment_key(here), cut.enrolment_key(here)} == {key}
        wallet.moved(f"{there}/")
        assert wallet.enrolment_key(there) == key
        wallet.enrolled(Identity(there, 3, "token"))
        assert wallet.enrolment_key(there) == wallet.enrolment_key(here) == ""
        assert wallet.identity == Identity(there, 3, "token")
    assert key.encode() not in (tmp_path / "wallet").read_bytes()


def test_each_server_and_each_wallet_has_another_key(tmp_path: Path) -> None:
    """Whoever was shown one cannot ask another server for her number; and copies that were made before are others."""
    wallet_at(tmp_path).close()
    shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copied"))
    keys = list[str]()
    for place in (tmp_path, tmp_path.with_name(f"{tmp_path.name}-copied")):
        with closing(wallet_at(place)) as wallet:
            keys += [wallet.enrolment_key(f"http://{host}.test") for host in "abc"]

    assert len(set(keys)) == 6


def test_what_she_declared_is_stored_for_good(tmp_path: Path) -> None:
    other = Schema(fields=(LabelField(name="y"),))
    with closing(wallet_at(tmp_path)) as wallet:
        assert wallet.declared is None
        wallet.declare(SCHEMA)
        wallet.declare(SCHEMA)
        with pytest.raises(WalletError, match=r"was made for the fields x, .*others: y .*a wallet of its own"):
            wallet.declare(other)
    with closing(wallet_at(tmp_path)) as wallet:
        assert wallet.declared == SCHEMA


def test_an_owner_is_shown_without_her_token() -> None:
    assert repr(Owner(7, MICRO, token="her token")) == "Owner(7, …)"


class Busy:
    """A database that another process opens, too: at the first of its statements it is not free yet."""

    def __init__(self, times: int) -> None:
        self.left, self.asked = times, 0

    def execute(self, statement: str) -> None:
        assert statement == "PRAGMA journal_mode = WAL"
        self.asked += 1
        if self.asked <= self.left:
            raise sqlite3.OperationalError("database is locked")


def test_a_file_that_several_processes_open_at_once_is_asked_again_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, for_good, clock = Busy(2), Busy(10**6), itertools.count(1000, 20)
    monkeypatch.setattr("askance_client.wallet.file.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("askance_client.wallet.file.time.sleep", lambda _: None)
    wallet_file._write_ahead(cast("sqlite3.Connection", busy))
    with pytest.raises(sqlite3.OperationalError):
        wallet_file._write_ahead(cast("sqlite3.Connection", for_good))

    assert (busy.asked, for_good.asked) == (3, 4)


def test_a_report_is_of_an_owner_who_is_there(tmp_path: Path) -> None:
    with closing(WalletFile.open(tmp_path / "wallet", first=[Owner(0, CAP)])) as file:
        account = file.account(0)
        assert account is not None
        nobody = account.owner._replace(id=1)
        report = StoredReport(id_of(1), MICRO, b"drawn", ReportState.STORED, STUDY)
        with pytest.raises(WalletError), file.transaction():
            file.insert(REPORTS, (nobody.id, report.round, report.study, report.charge, report.body, "kept"))
        # The control: the same of her who is there.
        with file.transaction():
            file.add_report(account, report)


# ----------------------------------------------------------------------------------------------------- randomize once


def test_keeping_twice_gives_the_first_bytes_and_draws_nothing(wallet: Wallet) -> None:
    assert keep(wallet, body=b"first") == b"first"
    again = wallet.draw_and_store(STUDY, id_of(1), 5 * MICRO, never)

    assert again.body == b"first"
    assert again.charge == MICRO
    assert spent(wallet) == MICRO


def test_two_programs_with_one_wallet_keep_one_report(tmp_path: Path) -> None:
    with closing(wallet_at(tmp_path)) as one, closing(wallet_at(tmp_path)) as other:
        assert keep(one, body=b"one") == keep(other, body=b"other") == b"one"
        assert spent(one) == spent(other) == MICRO


def test_what_does_not_fit_is_not_kept_and_the_last_millionth_does(wallet: Wallet) -> None:
    keep(wallet, 1, 4 * MICRO, elsewhere=MICRO)
    with pytest.raises(BeyondCapError, match="nothing was drawn") as refused:
        keep(wallet, 2, 5 * MICRO + 1)
    keep(wallet, 3, 5 * MICRO)
    with pytest.raises(BeyondCapError):
        keep(wallet, 4, 1)

    assert refused.value.code is Code.OVER_BUDGET
    assert spent(wallet) == CAP
    assert wallet.stored(id_of(2)) is wallet.stored(id_of(4)) is None


def test_an_error_while_drawing_keeps_nothing(wallet: Wallet) -> None:
    with pytest.raises(AssertionError, match="nothing is drawn"):
        wallet.draw_and_store(STUDY, id_of(1), MICRO, never)

    assert wallet.stored(id_of(1)) is None
    assert wallet.pin(STUDY) is None
    assert spent(wallet) == 0


def test_what_was_acknowledged_stays_so(wallet: Wallet) -> None:
    keep(wallet)
    for state in (ReportState.DECLINED, ReportState.ACKNOWLEDGED, ReportState.DECLINED, ReportState.STORED):
        wallet.settle(id_of(1), state)
    kept = wallet.stored(id_of(1))

    assert kept is not None
    assert kept.state is ReportState.ACKNOWLEDGED


def test_a_pin_only_grows(wallet: Wallet) -> None:
    heads = [id_of(length) for length in range(1, 5)]
    assert [wallet.note_history(STUDY, heads[:length]) for length in (1, 3, 2, 3)] == [True, True, False, True]

    assert wallet.pin(STUDY) == Pin(3, id_of(3))


def test_a_history_that_does_not_go_on_with_what_was_read_is_not_stored(wallet: Wallet) -> None:
    heads = [id_of(length) for length in range(1, 5)]
    wallet.note_history(STUDY, heads[:2])
    other = [*heads[:1], *map(id_of, range(12, 16))]

    assert not wallet.note_history(STUDY, other)
    assert wallet.pin(STUDY) == Pin(2, id_of(2))
    assert wallet.note_history("d" * 64, other)
    assert wallet.note_history(STUDY, heads)


# ----------------------------------------------------------------------------------------- what the file itself forbids

_COPY = "SELECT owner, round, study, charge, x'00', state, checksum FROM reports"


def _added(charge: int, *, round_: str = id_of(9), state: str = "kept", checksum: str = CHECKSUM) -> str:
    return f"INSERT INTO reports VALUES (0, '{round_}', NULL, {charge}, x'00', '{state}', {checksum})"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE reports SET body = x'00'", "never changed"),
        ("UPDATE reports SET charge = 1", "never changed"),
        (f"UPDATE reports SET round = '{id_of(9)}'", "never changed"),
        ("UPDATE reports SET owner = 1", "never changed"),
        (f"INSERT OR REPLACE INTO reports {_COPY}", "never changed"),
        (f"INSERT OR IGNORE INTO reports {_COPY}", "never changed"),
        (f"INSERT INTO reports {_COPY} WHERE true ON CONFLICT DO UPDATE SET body = excluded.body", "never changed"),
        ("UPDATE OR REPLACE reports SET body = x'00'", "never changed"),
        ("DELETE FROM reports", "never forgotten"),
        (_added(CAP - MICRO - 4), "beyond the cap"),
        (_added(CAP).replace("INSERT", "INSERT OR REPLACE"), "beyond the cap"),
        (_added(0), "CHECK"),
        (_added(-1), "CHECK"),
        (_added(1, round_="short"), "CHECK"),
        (_added(1, state="lost"), "CHECK"),
        (_added(1, checksum="x'00'"), "CHECK"),
        (_added(1, checksum="NULL"), "NOT NULL"),
        ("UPDATE owners SET report_count = 0", "stays spent"),
        ("UPDATE owners SET heard_count = heard_count - 1", "CHECK|stays spent"),
        ("DELETE FROM heads", "stays read"),
        (f"UPDATE heads SET head = '{id_of(9)}'", "stays read"),
        ("INSERT OR REPLACE INTO heads SELECT * FROM heads", "stays read"),
        ("UPDATE owners SET elsewhere = 4", "stays spent"),
        ("UPDATE owners SET elsewhere = elsewhere - 1", "stays spent"),
        ("UPDATE owners SET cap = cap + 1", "for a lifetime"),
        ("UPDATE owners SET cap = cap - 1", "for a lifetime"),
        ("UPDATE owners SET id = 1", "for a lifetime"),
        ("DELETE FROM owners", "for a lifetime"),
        (f"INSERT OR REPLACE INTO owners (id, cap) VALUES (0, {LARGEST})", "there already"),
        ("UPDATE reports SET state = 'lost'", "CHECK"),
    ],
)
def test_no_program_makes_the_file_forget_what_was_spent(tmp_path: Path, statement: str, why: str) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        wallet.note_history(STUDY, HEADS)
        keep(wallet, elsewhere=5)
    with pytest.raises(sqlite3.IntegrityError, match=why):
        by_hand(tmp_path, statement)
    with closing(wallet_at(tmp_path)) as wallet:
        assert keep(wallet, body=b"another") == b"drawn"
        assert wallet.cap == CAP
        assert spent(wallet) == MICRO + 5


def test_what_another_program_writes_without_its_checksum_is_noticed_and_nothing_is_drawn(tmp_path: Path) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        by_hand(tmp_path, _added(CAP))
        with pytest.raises(DamagedWalletError, match="not as it was written"):
            keep(wallet)


# ------------------------------------------------------------------------------------------------- copies and old files


@pytest.mark.parametrize("how", ["an old copy is restored", "the wallet was cloned"])
def test_a_wallet_that_does_not_know_what_it_sent_sends_no_second_body(tmp_path: Path, liar: Liar, how: str) -> None:
    """Either file may have answered; the other learns of it from the server, and answers the next round at most."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with closing(wallet_at(tmp_path / "a", 2 * MICRO)) as wallet:
        enrolled(User(HERS, wallet), liar)
    shutil.copy(tmp_path / "a" / "wallet", tmp_path / "b" / "wallet")
    with closing(wallet_at(tmp_path / "a", None)) as wallet:
        assert [type(each) for each in answers(User(HERS, wallet), liar)] == [Answered]
    if how == "an old copy is restored":
        shutil.rmtree(tmp_path / "a")
    with closing(wallet_at(tmp_path / "b", None)) as wallet:
        user = User(OTHERS, wallet)
        assert reasons(answers(user, liar)) == [Reason.HEARD_ALREADY]
        assert wallet.spending.elsewhere == MICRO
        assert len(liar.bodies) == 1

        # What the other copy has spent stays spent, even where the server forgets it.
        liar.says["me"] = lambda said: said.update(spent_micro_epsilon=0, charges=[])
        for _ in range(2):
            liar.ask(part())
        assert reasons(answers(user, liar)) == [Reason.HEARD_ALREADY, Reason.BEYOND_CAP]
        assert len(liar.bodies) == len(liar.heard) == 2
        assert spent(wallet) == 2 * MICRO


def test_copies_that_answer_different_rounds_spend_one_cap(tmp_path: Path, liar: Liar) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with closing(wallet_at(tmp_path / "a", 2 * MICRO)) as wallet:
        enrolled(User(HERS, wallet), liar)
    shutil.copy(tmp_path / "a" / "wallet", tmp_path / "b" / "wallet")
    with closing(wallet_at(tmp_path / "a", None)) as a, closing(wallet_at(tmp_path / "b", None)) as b:
        first, second = User(HERS, a), User(HERS, b)
        answers(first, liar)
        answers(second, liar)
        liar.ask(part())
        assert [type(each) for each in answers(second, liar)][-1:] == [Answered]
        liar.ask(part())

        assert reasons(answers(first, liar)) == [Reason.HEARD_ALREADY, Reason.BEYOND_CAP]
        assert reasons(answers(second, liar)) == [Reason.HEARD_ALREADY, Reason.BEYOND_CAP]
        assert len(liar.bodies) == len(set(liar.heard)) == 2
        assert a.spending.elsewhere == b.spending.elsewhere == MICRO


def test_a_crash_before_sending_costs_nothing_more_and_the_same_bytes_are_sent(tmp_path: Path, liar: Liar) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet)
        enrolled(user, liar)
        liar.says["receipt"] = instead_of_an_answer
        with pytest.raises(UnreachableError):
            answers(user, liar)
        [(round_, body)] = liar.heard.items()
        before = wallet.stored(round_)
        assert before is not None
        assert before.state is ReportState.STORED
    liar.heard.clear()
    liar.charges.clear()
    liar.says.clear()
    with closing(wallet_at(tmp_path)) as wallet:
        assert answers(User(OTHERS, wallet), liar) == [Answered(round_, MICRO)]
        assert liar.heard == {round_: body}
        assert len(set(liar.bodies)) == 1
        assert spent(wallet) == MICRO


def test_a_report_is_on_disk_before_a_byte_of_it_is_sent(tmp_path: Path, liar: Liar) -> None:
    def seen(_: object) -> None:
        with closing(sqlite3.connect(tmp_path / "wallet")) as db:
            on_disk.extend(db.execute("SELECT round, charge, body, state FROM reports").fetchall())

    on_disk: list[tuple[object, ...]] = []
    liar.says["receipt"] = seen
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet)
        enrolled(user, liar)
        answers(user, liar)

    assert on_disk == [(*liar.charges.popitem(), liar.bodies[0], "kept")]


@pytest.mark.parametrize("name", ["conflict", "budget-exceeded", "round-not-open", "not-in-cohort", "invalid-report"])
def test_what_the_server_will_never_take_stays_spent_and_is_not_sent_again(
    tmp_path: Path, liar: Liar, name: str
) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet)
        enrolled(user, liar)
        liar.says["receipt"] = lambda said: problem(409, name)
        [result] = answers(user, liar)
        round_ = next(iter(liar.heard))
        assert result == Unanswered(round_, name, final=True)
        liar.says.clear()
        liar.heard.clear()

        other_draw = name == "conflict"
        assert answers(user, liar) == [Unanswered(round_, name if other_draw else "declined", final=True)]
        assert len(liar.bodies) == 1
        assert spent(wallet) == (2 * MICRO if other_draw else MICRO)


# ------------------------------------------------------------------------------------------------ files that there are

# The tables as version 0.1 wrote them, to the letter: such files exist, and stay as they are.
_TABLES_OF_0_1 = """
    CREATE TABLE owners (
        id INTEGER PRIMARY KEY,                                   -- whose wallet this is; 0 where there is one
        cap INTEGER NOT NULL CHECK (cap > 0),                     -- what she will ever spend, in micro-epsilon
        elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere >= 0), -- spent by other copies of this wallet
        server TEXT,                                              -- the server that knows her
        user_number INTEGER CHECK (user_number >= 0),             -- her number there
        token TEXT                                                -- proves it
    );
    CREATE TABLE pins (
        owner INTEGER NOT NULL REFERENCES owners (id),
        study TEXT NOT NULL CHECK (length(study) = 64),           -- digest of the study
        length INTEGER NOT NULL CHECK (length > 0),               -- how many entries of its bulletin she has seen
        head TEXT NOT NULL CHECK (length(head) = 64),             -- digest of the last of them
        PRIMARY KEY (owner, study)
    ) WITHOUT ROWID;
    CREATE TABLE reports (
        owner INTEGER NOT NULL REFERENCES owners (id),
        round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of the round
        charge INTEGER NOT NULL CHECK (charge > 0),               -- what it cost, in micro-epsilon
        body BLOB NOT NULL,                                       -- what is sent, and sent again
        state TEXT NOT NULL DEFAULT 'kept'                        -- see State
            CHECK (state IN ('kept', 'acknowledged', 'declined')),
        PRIMARY KEY (owner, round)
    ) WITHOUT ROWID;
    CREATE TABLE heard (
        owner INTEGER NOT NULL REFERENCES owners (id),
        round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of a round that a copy has answered
        charge INTEGER NOT NULL CHECK (charge >= 0),              -- what it cost, as the server said
        PRIMARY KEY (owner, round)
    ) WITHOUT ROWID;
    CREATE TRIGGER within_the_cap BEFORE INSERT ON reports
    WHEN new.charge + (SELECT coalesce(sum(charge), 0) FROM reports WHERE owner = new.owner)
        > (SELECT cap - elsewhere FROM owners WHERE id = new.owner)
    BEGIN SELECT raise(ABORT, 'beyond the cap'); END;
    CREATE TRIGGER reports_stay BEFORE UPDATE OF owner, round, charge, body ON reports
    BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
    -- REPLACE deletes without asking the triggers of a deletion.
    CREATE TRIGGER reports_are_not_replaced BEFORE INSERT ON reports
    WHEN EXISTS (SELECT 1 FROM reports WHERE owner = new.owner AND round = new.round)
    BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
    CREATE TRIGGER reports_are_not_forgotten BEFORE DELETE ON reports
    BEGIN SELECT raise(ABORT, 'a report is never forgotten'); END;
    CREATE TRIGGER caps_stay BEFORE UPDATE OF id, cap ON owners
    BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
    CREATE TRIGGER caps_are_not_replaced BEFORE INSERT ON owners
    WHEN EXISTS (SELECT 1 FROM owners WHERE id = new.id)
    BEGIN SELECT raise(ABORT, 'this owner is there already'); END;
    CREATE TRIGGER caps_are_not_forgotten BEFORE DELETE ON owners
    BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
    CREATE TRIGGER nothing_is_unspent BEFORE UPDATE OF elsewhere ON owners WHEN new.elsewhere < old.elsewhere
    BEGIN SELECT raise(ABORT, 'what was spent stays spent'); END;
"""


def wallet_of_0_1(path: Path) -> Path:
    """A wallet file as version 0.1 made it: user 3 has a report to round 1, and a copy has spent 5."""
    path.touch(0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in _TABLES_OF_0_1.split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {0x41534B57}")
        db.execute("PRAGMA user_version = 1")
        db.execute("INSERT INTO owners VALUES (0, ?, 5, 'http://askance.test', 3, 'token')", (CAP,))
        db.execute("INSERT INTO pins VALUES (0, ?, 2, ?)", (STUDY, HEAD))
        db.execute("INSERT INTO reports VALUES (0, ?, ?, ?, 'kept')", (id_of(1), MICRO, b"drawn"))
        db.execute("INSERT INTO heard VALUES (0, ?, 5)", (id_of(2),))
    return path


def test_a_wallet_of_version_0_1_opens_with_all_that_is_in_it_and_refuses_the_same(tmp_path: Path) -> None:
    with closing(Wallet.open(wallet_of_0_1(tmp_path / "wallet"))) as wallet:
        report = wallet.stored(id_of(1))

        assert wallet.identity == Identity("http://askance.test", 3, "token")
        assert wallet.pin(STUDY) == PIN
        assert wallet.spending.heard == {id_of(2): 5}
        assert spent(wallet) == MICRO + 5
        assert report is not None
        assert (report.body, report.charge, report.state) == (b"drawn", MICRO, ReportState.STORED)
        assert keep(wallet, body=b"another") == b"drawn"
        with pytest.raises(BeyondCapError):
            keep(wallet, 3, CAP - MICRO - 4)
        assert keep(wallet, 3, CAP - MICRO - 5) == b"drawn"
        wallet.settle(id_of(1), ReportState.ACKNOWLEDGED)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        by_hand(tmp_path, "UPDATE reports SET body = x'00'")


def test_the_tables_are_in_the_wheel(tmp_path: Path) -> None:
    """Where the package is installed, there is no repository to read them from."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        schema = archive.read("askance_client/wallet/schema.sql").decode()

    assert schema.count("CREATE TRIGGER") == 12


def test_a_new_wallet_has_the_tables_of_one_of_version_0_1_that_was_opened(tmp_path: Path) -> None:
    def tables(path: Path) -> dict[str, str]:
        """Each table and trigger as it was declared, without comments and spaces."""
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        return {name: "".join(re.sub("--[^\n]*", "", sql).split()) for name, sql in rows}

    wallet_at(tmp_path).close()
    Wallet.open(wallet_of_0_1(tmp_path / "old")).close()

    assert tables(tmp_path / "wallet") == tables(tmp_path / "old")


# ------------------------------------------------------------------------------------------------ what is no wallet


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE mine (x)")


def stamped(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA application_id = 5")


def newer(path: Path) -> None:
    Wallet.open(path, cap=CAP).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE more (x)")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def misnumbered(path: Path) -> None:
    Wallet.open(path, cap=CAP).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def mislabelled(path: Path) -> None:
    Wallet.open(path, cap=CAP).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA application_id = 0")


def without_its_triggers(path: Path) -> None:
    Wallet.open(path, cap=CAP).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TRIGGER within_the_cap")


def never_filled(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE mine (x)")
        db.execute("DROP TABLE mine")


def nobodys(path: Path) -> None:
    WalletFile.open(path).close()


def overwritten(path: Path) -> None:
    Wallet.open(path, cap=CAP).close()
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("My shopping list, which is longer than the header of a database"), "damaged"),
        (lambda path: path.write_bytes(b"\0" * 4096), "damaged"),
        (foreign, "is no wallet .*name another file"),
        (stamped, "is no wallet .*name another file"),
        (lambda path: path.touch(), "damaged.* 0 bytes"),
        (lambda path: path.write_bytes(b"S"), "damaged.* 1 bytes"),
        (never_filled, "damaged.*empty database"),
        (misnumbered, "damaged.*tables are not those of its version"),
        (mislabelled, "damaged.*tables are not those of its version"),
        (without_its_triggers, "damaged.*tables are not those of its version"),
        (nobodys, "has no owner 0"),
        (newer, f"is of version {SCHEMA_VERSION + 1}.*update askance"),
        (overwritten, "damaged"),
    ],
)
def test_what_is_no_wallet_of_this_program_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    path = tmp_path / "wallet"
    make(path)
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(WalletError, match=why):
        Wallet.open(path, cap=CAP)

    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["wallet"]


@pytest.mark.parametrize("look", [lambda w: w.spending, lambda w: w.stored(id_of(1)), lambda w: keep(w, 9)])
def test_a_damaged_page_is_an_error_that_says_so_and_nothing_is_drawn(
    tmp_path: Path, look: Callable[[Wallet], object]
) -> None:
    path = tmp_path / "wallet"
    with closing(wallet_at(tmp_path)) as wallet:
        for number in range(1, 200):
            keep(wallet, number, 1)
    with closing(sqlite3.connect(path)) as db:
        ((size,),) = db.execute("PRAGMA page_size")
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'reports'")
    damaged = bytearray(path.read_bytes())
    damaged[size * (root - 1) : size * root] = b"\xff" * size
    path.write_bytes(damaged)

    with pytest.raises(DamagedWalletError, match="damaged"), closing(wallet_at(tmp_path)) as wallet:
        look(wallet)


def test_a_folder_and_a_place_that_is_not_there_are_no_wallets(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for path in (tmp_path, tmp_path / "nowhere" / "wallet"):
        with pytest.raises(WalletError, match=str(path)):
            Wallet.open(path, cap=CAP)


def test_a_folder_of_wallets_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shard = FleetShard("http://127.0.0.1:1", range(1), tmp_path / "file" / "wallets", CAP)

    with pytest.raises(WalletError, match=r"file/wallets: Not a directory"):
        shards_of(shard, 1)


def test_an_owner_that_is_not_there_and_one_that_is_there_twice_are_refused(tmp_path: Path) -> None:
    with closing(WalletFile.open(tmp_path / "wallets")) as file:
        file.add_all([(5, CAP, None)])
        with pytest.raises(WalletError, match="has no owner 4"):
            Wallet(file, 4)
        with pytest.raises(WalletError, match="there already"):
            file.add_all([(6, CAP, None), (5, CAP, None)])

        assert file.owners() == [5]


def test_an_error_of_sqlite_is_told_by_its_code_and_not_by_its_words(wallet: Wallet) -> None:
    """A check or another trigger that fails is not taken for the cap, and a closed file is no damaged one."""
    with pytest.raises(WalletError) as check:
        wallet.draw_and_store(STUDY, "beyond the cap", 1, lambda: b"drawn")  # No id of a round has 14 letters.
    wallet.close()
    with pytest.raises(WalletError) as closed:
        wallet.stored(id_of(1))

    assert type(check.value) is type(closed.value) is WalletError
    assert check.value.code is Code.WALLET


# ------------------------------------------------------------------------------------------------ several at a time


def _opens(path: Path, barrier: Barrier, said: Any) -> None:
    barrier.wait()
    try:
        wallet = Wallet.open(path, cap=CAP)
        body = keep(wallet, body=f"{multiprocessing.current_process().name}".encode())
        wallet.close()
    except BaseException as error:
        said.put(repr(error))
    else:
        said.put(body)


def test_processes_that_open_a_new_wallet_at_once_share_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(8):
        path, barrier, said = tmp_path / f"wallet {attempt}", context.Barrier(4), context.Queue()
        processes = [context.Process(target=_opens, args=(path, barrier, said)) for _ in range(4)]
        for process in processes:
            process.start()
        bodies = [said.get(timeout=SECONDS) for _ in processes]
        for process in processes:
            process.join(SECONDS)

        assert len(set(bodies)) == 1
        assert isinstance(bodies[0], bytes)
        with closing(Wallet.open(path)) as wallet:
            assert spent(wallet) == MICRO


def test_what_is_done_together_is_one_commit(tmp_path: Path) -> None:
    async def all_of_them() -> list[bytes]:
        works = [Wallet(file, owner).group_commit(lambda owner=owner: keep(Wallet(file, owner))) for owner in range(50)]
        return await asyncio.gather(*works)

    with closing(WalletFile.open(tmp_path / "wallets")) as file:
        file.add_all([(owner, CAP, None) for owner in range(50)])
        said: list[str] = []
        file._db.set_trace_callback(said.append)
        assert run(all_of_them()) == [b"drawn"] * 50
        file._db.set_trace_callback(None)

    assert said.count("COMMIT") == said.count("BEGIN IMMEDIATE") == 1


@pytest.mark.parametrize(
    ("fails", "error"),
    [
        (lambda wallet: keep(wallet, 7, CAP + 1), BeyondCapError),
        (lambda wallet: wallet.note_history("short", HEADS), WalletError),
        (lambda wallet: wallet.note_elsewhere(1 << 70, {id_of(7): 1}), OverflowError),
        (lambda wallet: wallet.draw_and_store(STUDY, id_of(7), 1, never), AssertionError),
    ],
)
def test_one_work_that_fails_does_not_take_the_others_back(
    wallet: Wallet, fails: Callable[[Wallet], object], error: type[Exception]
) -> None:
    async def three() -> list[object]:
        works: list[Callable[[], object]] = [lambda: keep(wallet, 1), lambda: fails(wallet), lambda: keep(wallet, 2)]
        return await asyncio.gather(*(wallet.group_commit(work) for work in works), return_exceptions=True)

    first, failed, last = run(three())

    assert first == last == b"drawn"
    assert isinstance(failed, error)
    assert wallet.stored(id_of(7)) is None
    assert spent(wallet) == 2 * MICRO


def test_where_the_file_cannot_be_written_all_are_told(tmp_path: Path, wallet: Wallet) -> None:
    async def two() -> list[object]:
        works = [wallet.group_commit(lambda number=number: keep(wallet, number)) for number in (1, 2)]
        return await asyncio.gather(*works, return_exceptions=True)

    wallet._file._db.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(tmp_path / "wallet", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        said = run(two())

    assert [type(each) for each in said] == [WalletInUseError] * 2
    assert run(two()) == [b"drawn"] * 2


def test_who_no_longer_waits_does_not_disturb_the_others(wallet: Wallet) -> None:
    async def one_of_two() -> bytes:
        gone = asyncio.ensure_future(wallet.group_commit(lambda: keep(wallet, 1)))
        stays = asyncio.ensure_future(wallet.group_commit(lambda: keep(wallet, 2)))
        await asyncio.sleep(0)
        gone.cancel()
        return await stays

    assert run(one_of_two()) == b"drawn"


# -------------------------------------------------------------------------------------------------------- no clock


def test_a_clock_that_jumps_renews_nothing(tmp_path: Path, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that anybody can set says which deadlines have passed, and nothing else: before them it has no effect."""
    times = itertools.cycle((0.0, 3e9))

    def jumps(*_: object) -> float:
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        assert asking == "askance_client.bulletin_reader" or not asking.startswith("askance_"), asking
        return next(times)

    liar.ask(part(), deadline=FAR + 1)
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, jumps)
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet)
        enrolled(user, liar)
        results = answers(user, liar)
    monkeypatch.undo()

    assert [type(result) for result in results] == [Answered, Answered]


def test_an_account_has_spent_its_reports_those_in_conflict_twice_and_what_was_spent_elsewhere() -> None:
    states = {
        "a": ReportState.STORED,
        "b": ReportState.ACKNOWLEDGED,
        "c": ReportState.DECLINED,
        "d": ReportState.CONFLICT,
    }
    reports = {
        round_: StoredReport(round_, 10**place, b"", state) for place, (round_, state) in enumerate(states.items())
    }
    account = OwnerAccount(Owner(0, MICRO, elsewhere=50_000), reports, {"e": 7})

    assert account.again == {"d": 1000}
    assert account.spent == 1111 + 1000 + 50_000


def test_a_folder_in_a_wallets_place_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "wallet").mkdir(mode=0o700)

    with pytest.raises(WalletError, match="is no file"):
        Wallet.open(tmp_path / "wallet", cap=MICRO)
