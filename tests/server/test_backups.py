"""Backups: whole when they are made, looked at again before they are used, and never half there after a kill."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from askance_protocol.budget import MICRO
from askance_protocol.errors import AskanceError, Code, DataError, UsageError
from askance_server import auth, backups
from askance_server.app import open_resources
from askance_server.backups import (
    MANIFEST,
    Backup,
    DamagedBackupError,
    KnownLoss,
    check_backup,
    make_backup,
    read_backup,
    restore_backup,
)
from askance_server.ledger import Fault, LedgerAwayError, LedgerBusyError, Verdict, audit_ledger
from askance_server.ledger.sqlite import COMMITS_FILE, FILE, SqliteLedger, copying
from askance_server.settings import Settings
from tests.client.stepwise import TORTURE, kill_everywhere
from tests.server.ledger.ledgers import publish
from tests.server.ledger.test_backup import ID, ROUND, STUDY, report, writing
from tests.server.ledger.test_upgrade import of_schema_3, old_at

KILLS = 300 if TORTURE else 12


def settings_of(directory: Path, **more: str) -> Settings:
    return Settings(database=str(directory), **more)  # pyright: ignore[reportArgumentType] - texts are read


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a server that has stopped, with five reports."""
    opened = open_resources(settings_of(tmp_path / "data"))
    with closing(opened.ledger) as ledger:
        ledger.enrol(20, MICRO)
        publish(ledger, STUDY, ROUND)
        assert isinstance(ledger, SqliteLedger)
        report(ledger, range(5))
    return tmp_path / "data"


@pytest.fixture
def backup(data: Path, tmp_path: Path) -> Backup:
    return make_backup(settings_of(data), tmp_path / "backup")


def received(directory: Path) -> int:
    with closing(SqliteLedger.open(directory)) as ledger:
        return ledger.received(ID)


# ----------------------------------------------------------------------------------------------------------- the making


def test_backups_of_a_ledger_that_takes_reports_are_whole_and_have_all_that_was_acknowledged(tmp_path: Path) -> None:
    opened = open_resources(settings_of(tmp_path / "data"))
    with closing(opened.ledger) as ledger:
        assert isinstance(ledger, SqliteLedger)
        ledger.enrol(100_000, MICRO)
        publish(ledger, STUDY, ROUND)
        with writing(ledger) as acknowledged:
            before = len(acknowledged)
            made = [make_backup(settings_of(tmp_path / "data"), tmp_path / f"backup-{number}") for number in range(3)]
    for number, each in enumerate(made):
        check_backup(read_backup(each.folder))
        restored = tmp_path / f"restored-{number}"
        assert restore_backup(each, settings_of(restored), accept_loss=True) == KnownLoss(None)
        assert audit_ledger(str(restored), opened.keys.fingerprint) == []
        with closing(SqliteLedger.open(restored)) as ledger:
            assert ledger.received(ID) >= before > 0
            assert report(ledger, range(before)) == [Verdict.REPEATED] * before


def test_a_backup_is_as_private_as_the_directory_and_needs_nothing_beside_its_files(backup: Backup) -> None:
    names = sorted(each.name for each in backup.folder.iterdir())
    assert names == sorted([MANIFEST, FILE, COMMITS_FILE, auth.KEY_FILE])
    assert {each.stat().st_mode & 0o777 for each in backup.folder.iterdir()} == {0o600}
    assert backup.folder.stat().st_mode & 0o777 == 0o700
    assert read_backup(backup.folder) == backup
    check_backup(backup)
    assert sorted(each.name for each in backup.folder.iterdir()) == names  # To look has left nothing beside them.


def test_a_key_that_is_a_setting_is_not_in_the_backup_and_is_told_by_its_fingerprint(tmp_path: Path) -> None:
    key = bytes(range(32))
    settings = settings_of(tmp_path / "data", server_key=key.hex())
    open_resources(settings).ledger.close()
    made = make_backup(settings, tmp_path / "backup")
    assert (made.has_key, made.manifest.key_fingerprint) == (False, auth.Keys(key).fingerprint)
    assert key.hex() not in "".join(each.read_text("latin-1") for each in made.folder.iterdir())


def test_a_key_that_lies_elsewhere_comes_back_there(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "data", data_directory=str(tmp_path / "keys"))
    opened = open_resources(settings)
    opened.ledger.close()
    made = make_backup(settings, tmp_path / "backup")
    assert made.has_key

    new = settings_of(tmp_path / "new", data_directory=str(tmp_path / "new keys"))
    restore_backup(made, new, accept_loss=True)
    assert not (tmp_path / "new" / auth.KEY_FILE).exists()
    again = open_resources(new)
    again.ledger.close()
    assert again.keys.fingerprint == opened.keys.fingerprint
    # One that is there, and another one, is no part of it.
    other = settings_of(tmp_path / "other", data_directory=str(tmp_path / "other keys"))
    auth.open_keys(tmp_path / "other keys")
    with pytest.raises(DataError, match="is not the key of this backup"):
        restore_backup(made, other, accept_loss=True)
    assert not (tmp_path / "other").exists()


def test_a_folder_of_any_name_is_made(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("[a-z] *", "a/b/c"):
        check_backup(make_backup(settings_of(data), tmp_path / name))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_backup(settings_of(data), Path())
    check_backup(read_backup(tmp_path / "here"))


def test_a_backup_overwrites_nothing(data: Path, backup: Backup) -> None:
    before = (backup.folder / MANIFEST).read_bytes()
    with pytest.raises(DataError, match="is there already"):
        make_backup(settings_of(data), backup.folder)
    assert (backup.folder / MANIFEST).read_bytes() == before


def test_a_damaged_ledger_is_not_taken_for_a_backup(data: Path, tmp_path: Path) -> None:
    damages = {
        "UPDATE enrolments SET cap = cap + 1": r"table enrolments: [^()]*\(nothing was kept of it; keep the backups",
        "DELETE FROM report_groups": r"the ledger is damaged: .* \(and [1-9]\d* more findings?\) \(nothing was kept",
    }
    for damage, found in damages.items():
        with closing(sqlite3.connect(data / FILE, isolation_level=None)) as db:
            db.execute(damage)
        with pytest.raises(DamagedBackupError, match=found):
            make_backup(settings_of(data), tmp_path / "backup")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_a_full_disk_leaves_nothing(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    connect = sqlite3.connect

    def limited(path: object, **more: object) -> sqlite3.Connection:
        db = connect(path, **more)  # type: ignore[arg-type, call-overload] - as it was called
        db.execute("PRAGMA max_page_count = 3")
        return db

    monkeypatch.setattr(sqlite3, "connect", limited)
    with pytest.raises(OSError, match="No space"):
        make_backup(settings_of(data), tmp_path / "backup")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def not_on_disk(make: Callable[[], Backup], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of what belongs to a backup and was not on disk when it got its name, or not even afterwards."""
    synced, named = list[Path](), list[int]()
    fsync, rename = os.fsync, Path.rename

    def noting(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def naming(draft: Path, place: Path) -> Path:
        named.append(len(synced))
        return rename(draft, place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", noting)
        patch.setattr(Path, "rename", naming)
        made = make()
    [until] = named
    before = {path.name for path in synced[:until] if path.parent.name.startswith(f".{made.folder.name}.")}
    missing = {each.name for each in made.folder.iterdir()} - before
    missing |= set() if any(path.name.startswith(f".{made.folder.name}.") for path in synced[:until]) else {"folder"}
    return missing | (set() if made.folder.parent in synced[until:] else {"name"})


def test_a_backup_is_on_disk_before_it_has_its_name_and_so_is_its_name_afterwards(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not_on_disk(lambda: make_backup(settings_of(data), tmp_path / "backup"), monkeypatch) == set()
    # The controls.
    monkeypatch.setattr(backups, "_to_disk", lambda _: None)
    lost = not_on_disk(lambda: make_backup(settings_of(data), tmp_path / "not synced"), monkeypatch)
    assert lost >= {MANIFEST, auth.KEY_FILE}
    monkeypatch.setattr(backups, "sync_names", lambda _: None)
    assert "name" in not_on_disk(lambda: make_backup(settings_of(data), tmp_path / "not named"), monkeypatch)


def test_another_error_of_the_disk_is_told_as_it_is(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(sqlite3.Connection):
        def execute(self, sql: str, /, *more: Any) -> sqlite3.Cursor:
            if "journal_mode = DELETE" in sql:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error
            return super().execute(sql, *more)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Failing))
    with pytest.raises(LedgerAwayError, match="disk I/O error"):
        make_backup(settings_of(data), tmp_path / "backup")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_a_copy_overwrites_no_ledger_and_counts_the_commits_of_each_schema_that_does(
    data: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileExistsError):
        copying.copy_ledger(data, data)
    assert copying.moment_of(data).commits == int((data / COMMITS_FILE).read_text("ascii"))
    assert copying.moment_of(of_schema_3(tmp_path / "three")).commits is not None
    assert copying.moment_of(old_at(tmp_path / "two")).commits is None


def test_what_is_wrong_is_told_with_how_much_more_there_is() -> None:
    faults = [Fault(f"table {number}", "is gone") for number in range(3)]
    for count, more in ((1, ""), (2, " (and 1 more finding)"), (3, " (and 2 more findings)")):
        error = backups._unfit("data", faults[:count], "use another backup")
        assert str(error) == f"data: the ledger is damaged: table 0: is gone{more} (use another backup)"
        assert error.code is Code.CHECK_FAILED


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open_and_each_step_is_told(data: Path, tmp_path: Path) -> None:
    told, before = list[tuple[str, int, int]](), descriptors()
    made = make_backup(settings_of(data), tmp_path / "backup", lambda *step: told.append(step))
    check_backup(made, lambda *step: told.append(step))
    names = (FILE, COMMITS_FILE, auth.KEY_FILE)
    assert {("copying the ledger", 0, 0), *((f"reading {name}", 0, 0) for name in names)} <= set(told)
    assert made.manifest.files.keys() == set(names)
    told.clear()
    restored = settings_of(tmp_path / "new")
    restore_backup(made, restored, accept_loss=True, tell=lambda *step: told.append(step))
    assert {(f"copying {name}", 0, 0) for name in names} <= set(told)
    assert descriptors() == before


def test_a_backup_says_whether_its_ledger_has_to_be_brought_up_to_date(backup: Backup, tmp_path: Path) -> None:
    assert backup.is_older is False
    assert make_backup(settings_of(of_schema_3(tmp_path / "three")), tmp_path / "older").is_older is True


def test_a_place_that_cannot_be_taken_is_named_and_another_error_is_told_as_it_is(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume of a container, for instance: its directory cannot be replaced."""

    def failing(number: int) -> None:
        def rename(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "rename", rename)

    for number in (errno.EBUSY, errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST):
        failing(number)
        with pytest.raises(DataError) as refused:
            make_backup(settings_of(data), tmp_path / "backup")
        reason = os.strerror(number)
        assert str(refused.value) == (
            f"{tmp_path / 'backup'}: cannot be made: {reason} (name a folder in it that is not there yet)"
        )
    failing(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        make_backup(settings_of(data), tmp_path / "backup")
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_where_there_is_no_ledger_there_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not there"):
        make_backup(settings_of(tmp_path / "data"), tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------------------------------- the restoring


def test_a_restore_without_loss_needs_no_consent_and_the_directory_goes_on(data: Path, backup: Backup) -> None:
    old = data.rename(data.with_name("old"))
    assert restore_backup(backup, settings_of(data), replaced=old) == KnownLoss(0)
    assert {each.name for each in data.iterdir()} == {FILE, COMMITS_FILE, auth.KEY_FILE}
    opened = open_resources(settings_of(data))
    opened.ledger.close()
    assert opened.keys.fingerprint == backup.manifest.key_fingerprint
    assert received(data) == 5


def test_what_came_after_the_backup_has_to_be_accepted(data: Path, backup: Backup, tmp_path: Path) -> None:
    with closing(SqliteLedger.open(data)) as ledger:
        report(ledger, range(5, 9))
    old = data.rename(tmp_path / "old")

    for replaced, lost in ((old, "lost: 1 commit"), (None, "is not known")):
        with pytest.raises(UsageError, match=rf"{lost}.*forgotten.*wallet remembers.*--accept-loss"):
            restore_backup(backup, settings_of(data), replaced=replaced)
        assert not data.exists()
    assert restore_backup(backup, settings_of(data), replaced=old, accept_loss=True) == KnownLoss(1)
    assert received(data) == 5


def test_a_directory_of_another_key_shows_nothing_of_what_is_lost(backup: Backup, tmp_path: Path) -> None:
    other = tmp_path / "other"
    open_resources(settings_of(other)).ledger.close()
    with pytest.raises(UsageError, match="is not known"):
        restore_backup(backup, settings_of(tmp_path / "new"), replaced=other)
    # Neither does one that has come further.
    with closing(SqliteLedger.open(other)) as ledger:
        for _ in range(40):
            ledger.enrol(1, MICRO)
    assert int((other / COMMITS_FILE).read_text("ascii")) > (backup.manifest.commits or 0)
    assert lost_by(backup, other) is None
    # The control: with the backup's own key it would.
    shutil.copyfile(backup.folder / auth.KEY_FILE, other / auth.KEY_FILE)
    assert (lost_by(backup, other) or 0) > 0


def lost_by(backup: Backup, replaced: Path) -> int | None:
    return backups.known_loss(backup, replaced).commits


def test_what_is_known_of_a_loss_is_what_both_the_ledger_and_its_count_say(data: Path, backup: Backup) -> None:
    count, ledger = data / COMMITS_FILE, data / FILE
    assert lost_by(backup, data) == 0
    made = int(count.read_text("ascii"))

    # A count that fell behind in a power cut, beside a ledger that goes on.
    with closing(SqliteLedger.open(data)) as opened:
        report(opened, range(5, 9))
    assert lost_by(backup, data) == 1
    count.write_text(f"{made:020}\n", "ascii")
    assert lost_by(backup, data) == 1
    # One that knows less than the backup shows nothing.
    count.write_text(f"{made - 1:020}\n", "ascii")
    assert lost_by(backup, data) is None
    # Where the ledger cannot be read, the count is what is known.
    ledger.write_bytes(b"none" * 999)
    for commits, lost in ((made, 0), (made + 2, 2)):
        count.write_text(f"{commits:020}\n", "ascii")
        assert lost_by(backup, data) == lost
    ledger.unlink()
    (data / auth.KEY_FILE).write_text("damaged")
    assert lost_by(backup, data) == 2
    count.unlink()
    assert lost_by(backup, data) is None


def beat(directory: Path, times: int) -> None:
    """As a monitor does, which asks whether the server is ready."""
    with closing(SqliteLedger.open(directory)) as ledger:
        for _ in range(times):
            ledger.check_writable()


def test_heartbeats_are_no_loss(data: Path, tmp_path: Path) -> None:
    beat(data, 2)
    made = make_backup(settings_of(data), tmp_path / "backup")
    beat(data, 3)
    assert int((data / COMMITS_FILE).read_text("ascii")) == (made.manifest.commits or 0) + 3
    assert lost_by(made, data) == 0
    with closing(SqliteLedger.open(data)) as ledger:
        report(ledger, range(5, 9))
    beat(data, 1)
    assert lost_by(made, data) == 1
    # What cannot be read may have been anything.
    ledger_bytes = (data / FILE).read_bytes()
    (data / FILE).write_bytes(b"none" * 999)
    assert lost_by(made, data) == 5
    # Neither is it known where the count is of another moment.
    (data / FILE).write_bytes(ledger_bytes)
    (data / COMMITS_FILE).write_text(f"{(made.manifest.commits or 0) + 4:020}\n", "ascii")
    assert lost_by(made, data) == 4


def test_heartbeats_do_not_hide_another_history(data: Path, backup: Backup, tmp_path: Path) -> None:
    """Two ledgers went on from one copy, one with a report, the other with another and a heartbeat."""
    shutil.copytree(data, tmp_path / "other")
    for directory, users in ((data, range(5, 6)), (tmp_path / "other", range(9, 10))):
        with closing(SqliteLedger.open(directory)) as ledger:
            report(ledger, users)
    later = make_backup(settings_of(data), tmp_path / "later")
    assert lost_by(later, data) == 0
    beat(tmp_path / "other", 1)
    assert lost_by(later, tmp_path / "other") is None
    with pytest.raises(UsageError, match="is not known"):
        restore_backup(later, settings_of(tmp_path / "new"), replaced=tmp_path / "other")


def test_a_ledger_with_as_many_commits_and_another_content_shows_nothing(data: Path, backup: Backup) -> None:
    """Its directory went back to an older copy, and went on from there."""
    shutil.copyfile(backup.folder / FILE, data / FILE)
    with closing(SqliteLedger.open(data)) as ledger:
        report(ledger, range(5, 9))
    with closing(SqliteLedger.open(data)):
        pass
    later = make_backup(settings_of(data), data.with_name("later"))
    shutil.copyfile(backup.folder / FILE, data / FILE)
    (data / COMMITS_FILE).unlink()
    with closing(SqliteLedger.open(data)) as ledger:
        report(ledger, range(9, 13))
    assert int((data / COMMITS_FILE).read_text("ascii")) == later.manifest.commits
    assert lost_by(later, data) is None


def test_nothing_is_overwritten_and_a_running_server_is_named(data: Path, backup: Backup, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is there already"):
        restore_backup(backup, settings_of(data), accept_loss=True)
    with closing(SqliteLedger.open(data)):
        with pytest.raises(LedgerBusyError, match=f"in use by process {os.getpid()}"):
            restore_backup(backup, settings_of(data), accept_loss=True)
        # What it goes on to acknowledge would be missing.
        with pytest.raises(LedgerBusyError, match="in use by process"):
            restore_backup(backup, settings_of(tmp_path / "new"), replaced=data, accept_loss=True)
    assert not (tmp_path / "new").exists()


def test_an_empty_directory_is_taken(backup: Backup, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    restore_backup(backup, settings_of(tmp_path / "new"), accept_loss=True)
    assert received(tmp_path / "new") == 5


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def spend_less(path: Path) -> None:
    """A row changed by hand, and the manifest made to fit."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE enrolments SET cap = cap + 1")
    forge(path)


def forge(path: Path) -> None:
    manifest = path.with_name(MANIFEST)
    before = read_backup(path.parent).manifest
    files = {**before.files, path.name: backups._described(path)}
    manifest.write_text(before.model_copy(update={"files": files}).model_dump_json(), "utf-8")


def older(path: Path) -> None:
    """The count of an earlier commit, and the manifest made to fit."""
    path.write_text(f"{1:020}\n", "ascii")
    forge(path)
    manifest = path.with_name(MANIFEST)
    manifest.write_text(manifest.read_text("utf-8").replace('"commits":', '"commits":1'), "utf-8")


def another(path: Path) -> None:
    """Another key, and the manifest made to fit."""
    path.write_text("0" * 64 + "\n", "ascii")
    forge(path)


@pytest.mark.parametrize(
    ("file", "damage", "found"),
    [
        *((file, cut, f"{file} is not what was backed up") for file in (FILE, COMMITS_FILE, auth.KEY_FILE)),
        *((file, flip, f"{file} is not what was backed up") for file in (FILE, COMMITS_FILE, auth.KEY_FILE)),
        *((file, Path.unlink, f"{file} is gone") for file in (FILE, COMMITS_FILE, auth.KEY_FILE)),
        (MANIFEST, Path.unlink, "is no backup"),
        (MANIFEST, cut, "manifest.json is damaged"),
        (auth.KEY_FILE, another, "its server.key is not the one"),
        (FILE, spend_less, "table enrolments"),
        (COMMITS_FILE, older, "its ledger is not the one"),
    ],
)
def test_a_planted_fault_of_a_backup_is_found_and_nothing_is_restored(
    backup: Backup, tmp_path: Path, file: str, damage: Callable[[Path], object], found: str
) -> None:
    damage(backup.folder / file)
    with pytest.raises(AskanceError, match=found):
        check_backup(read_backup(backup.folder))
    with pytest.raises(AskanceError, match=found):
        restore_backup(read_backup(backup.folder), settings_of(tmp_path / "new"), accept_loss=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup", "data"]


def test_a_manifest_that_names_no_ledger_or_a_file_elsewhere_is_refused(backup: Backup) -> None:
    manifest = backup.folder / MANIFEST
    text = manifest.read_text("utf-8")
    for damage in ((f'"{COMMITS_FILE}"', '"../ledger.commits"'), ('"sqlite"', '"postgres"')):
        manifest.write_text(text.replace(*damage), "utf-8")
        with pytest.raises(DamagedBackupError):
            read_backup(backup.folder)


def test_a_backup_of_a_newer_schema_is_for_a_newer_program(backup: Backup) -> None:
    manifest = backup.folder / MANIFEST
    manifest.write_text(manifest.read_text("utf-8").replace('"ledger_schema": 4', '"ledger_schema": 99'), "utf-8")
    with pytest.raises(DataError, match=r"schema 99.*use a newer askance"):
        read_backup(backup.folder)


# --------------------------------------------------------------------------------------------------------------- kills


@contextmanager
def in_place(place: Path) -> Generator[Path]:
    """The control: a folder that has its name from the beginning."""
    place.mkdir(mode=0o700)
    yield place


def half_backups(source: Path, folder: Path) -> dict[str, int]:
    """Make backups that are killed at many places; what was left, by what is wrong with it."""

    def made(place: Path) -> None:
        make_backup(settings_of(source), place / "backup")

    def half(place: Path) -> list[str]:
        try:
            if (place / "backup").exists():
                check_backup(read_backup(place / "backup"))
            else:
                made(place)
        except AskanceError as error:
            return [type(error).__name__]
        return [] if [each.name for each in place.iterdir()] == ["backup"] else ["left behind"]

    folder.mkdir()
    return kill_everywhere(folder, made, half, kills=KILLS, modules=[backups, copying])


def test_a_backup_that_is_killed_is_whole_or_not_there(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert half_backups(data, tmp_path / "kills").keys() == {"whole"}
    # The control.
    monkeypatch.setattr(backups, "draft_of", in_place)
    assert half_backups(data, tmp_path / "planted")["DataError"] > 0


def half_restores(source: Backup, folder: Path) -> dict[str, int]:
    """Restore a backup, and be killed at many places; what was left, by what is wrong with it."""

    def restored(place: Path) -> None:
        restore_backup(source, settings_of(place / "data"), accept_loss=True)

    def half(place: Path) -> list[str]:
        if not (place / "data").exists():
            restored(place)
        if [each.name for each in place.iterdir()] != ["data"]:
            return ["left behind"]
        # A server that starts meets all of it: what it makes anew, a ledger or a key, would be another one.
        return [] if {each.name for each in (place / "data").iterdir()} >= source.manifest.files.keys() else ["half"]

    folder.mkdir()
    found = kill_everywhere(folder, restored, half, kills=KILLS, modules=[backups])
    check_backup(source)
    return found


def test_a_restore_that_is_killed_leaves_a_whole_directory_or_none(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert half_restores(backup, tmp_path / "kills").keys() == {"whole"}
    # The control.
    monkeypatch.setattr(backups, "draft_of", in_place)
    assert half_restores(backup, tmp_path / "planted")["half"] > 0


def test_what_another_process_is_making_is_not_swept_away(data: Path, tmp_path: Path) -> None:
    with backups.draft_of(tmp_path / "backup") as theirs:
        make_backup(settings_of(data), tmp_path / "other")
        backups._sweep(tmp_path / "backup")
        assert theirs.exists()
        (theirs / "a file").write_text("")
    assert (tmp_path / "backup" / "a file").exists()
    # The control: nobody holds it.
    left = shutil.copytree(tmp_path / "backup", tmp_path / f".backup.{'0' * 16}.new")
    backups._sweep(tmp_path / "backup")
    assert not left.exists()
