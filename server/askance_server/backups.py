"""Backups: a ledger at one moment and the key that goes with it, in one folder that says what both have to be.

Theory of operation
-------------------
*What belongs together* is the ledger, the count of its commits, and the server's key. Tokens of operator and enrolment
are made anew from the key. `manifest.json` has the digest and the length of each file, and how far the ledger had come.
A backup is as secret as the directory that it is of: who has its key can speak for every user.

*Whole or not there.* A backup, and a directory that is restored, is made beside its place under another name, looked at
as `askance doctor --deep` does, put on disk, and only then gets its name. Nothing takes the name of what is there. What
a kill leaves has a name that nothing reads, and goes when the same is made again.

*What is lost.* An older ledger has forgotten what was spent since: its server would ask those users again, as if they
had that budget. So a restore says what is known to be missing, and wants to be told that this is accepted, unless the
directory that is replaced shows that nothing was written since. Each person's wallet has an account of its own and
keeps to her cap; of made-up users without one nothing else remembers.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from askance_protocol.errors import AskanceError, Code, DataError, UsageError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.text import counted
from askance_server import auth
from askance_server.durable import make_directory, sync_names
from askance_server.ledger import Fault, audit_ledger
from askance_server.ledger.schemas import Database, migrations
from askance_server.ledger.sqlite import (
    COMMITS_FILE,
    FILE,
    LedgerMoment,
    copy_ledger,
    moment_of,
    read_commits,
    refuse_in_use,
)
from askance_server.settings import Settings

MANIFEST: Final = "manifest.json"
DUMP_FILE: Final = "ledger.dump"

BackupFileName: TypeAlias = Literal["ledger.sqlite", "ledger.commits", "ledger.dump", "server.key"]
_NAMES: Final[tuple[BackupFileName, ...]] = (FILE, COMMITS_FILE, DUMP_FILE, auth.KEY_FILE)

_BLOCK: Final = 1 << 20


class DamagedBackupError(AskanceError):
    """A backup that is not what was made, or a ledger that is not fit to be one."""

    code = Code.CHECK_FAILED


class StoredFile(BaseModel):
    """What a file of a backup has to be."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """What a backup is of, and what belongs to it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: Literal[1] = 1
    askance: str
    """The version that made it."""
    made_at: str
    """In UTC, by the clock of the machine that made it."""
    ledger: Database
    ledger_schema: int
    commits: int | None
    """How far an embedded ledger had come; None of one that does not count."""
    key_fingerprint: str | None
    """Tells the key from another one, and nothing else of it; None: there was none to be found."""
    files: Mapping[BackupFileName, StoredFile]


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup whose manifest was read."""

    folder: Path
    manifest: Manifest

    @property
    def has_key(self) -> bool:
        """Whether the server's key is in it; else it was given to the server as a setting."""
        return auth.KEY_FILE in self.manifest.files

    @property
    def is_older(self) -> bool:
        """Whether its ledger has to be brought up to date."""
        return self.manifest.ledger_schema < max(migrations(self.manifest.ledger))


# ------------------------------------------------------------------------------------------------------------ to make


@dataclass(frozen=True, slots=True)
class _Taken:
    """What was taken of a ledger: how far it had come, and what is wrong with it."""

    schema: int
    commits: int | None
    faults: Sequence[Fault]


def make_backup(settings: Settings, place: Path, tell: Tell = tell_nobody) -> Backup:
    """Make a backup of the ledger that the settings name, and of the key. Servers may run, and take reports."""
    fingerprint = fingerprint_of(settings)
    with draft_of(place) as folder:
        if settings.server_key is None and fingerprint is not None:
            _copy_file(settings.directory / auth.KEY_FILE, folder / auth.KEY_FILE)
        taken = (_dumped if settings.is_postgres else _copied)(settings.database, folder, fingerprint, tell)
        if taken.faults:
            raise _unfit(settings.shown_database, taken.faults, "nothing was kept of it; keep the backups from before")
        manifest = Manifest(
            askance=version("askance"),
            made_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            ledger="postgres" if settings.is_postgres else "sqlite",
            ledger_schema=taken.schema,
            commits=taken.commits,
            key_fingerprint=fingerprint,
            files={name: _described(folder / name) for name in _NAMES if (folder / name).exists()},
        )
        (folder / MANIFEST).touch(mode=0o600)
        (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n", "utf-8")
    return Backup(place, manifest)


def _copied(database: str, folder: Path, fingerprint: str | None, tell: Tell) -> _Taken:
    if not (source := Path(database) / FILE).exists():
        raise DataError("is not there", where=str(source), remedy="name the server's directory: --database DIR")
    tell("copying the ledger", 0, 0)
    moment = copy_ledger(Path(database), folder)
    return _Taken(moment.schema, moment.commits, _faults(folder, moment.schema, fingerprint, tell))


def _dumped(database: str, folder: Path, fingerprint: str | None, tell: Tell) -> _Taken:
    from askance_server.ledger.postgres.dumping import check_dump, open_snapshot  # noqa: PLC0415 - of an extra

    with open_snapshot(database) as moment:
        faults = moment.audit(fingerprint, tell)
        tell("dumping the database", 0, 0)
        moment.dump(folder / DUMP_FILE)
    check_dump(folder / DUMP_FILE)
    # Of an older version nothing is looked at; the one finding says so.
    return _Taken(moment.schema, None, faults if moment.schema == max(migrations("postgres")) else ())


def fingerprint_of(settings: Settings) -> str | None:
    """The fingerprint of the server's key; None where there is none, as beside a ledger that was brought here alone."""
    given, path = settings.server_key_bytes, settings.directory / auth.KEY_FILE
    if given is None and not path.exists():
        return None
    return auth.Keys(auth.read_key(path) if given is None else given).fingerprint


# ----------------------------------------------------------------------------------------------------------- to check


def read_backup(folder: Path) -> Backup:
    """Read what a backup says of itself."""
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        what = f"is no backup: {MANIFEST} cannot be read: {error.strerror}"
        raise DataError(what, where=str(folder), remedy="name the folder that `askance backup` made") from None
    except ValidationError:
        what, remedy = f"its {MANIFEST} is damaged, or of a newer askance", "use another backup, or a newer askance"
        raise DamagedBackupError(what, where=str(folder), remedy=remedy) from None
    if not _needed(manifest) <= manifest.files.keys():
        missing = ", ".join(sorted(_needed(manifest) - manifest.files.keys()))
        raise _damaged(folder, f"its {MANIFEST} does not name {missing}")
    if manifest.ledger_schema > max(migrations(manifest.ledger)):
        what = f"has schema {manifest.ledger_schema}, this program knows {max(migrations(manifest.ledger))}"
        raise DataError(what, where=str(folder), remedy="use a newer askance")
    return Backup(folder, manifest)


def check_backup(backup: Backup, tell: Tell = tell_nobody) -> None:
    """Compare each file with what it has to be, and look at the ledger as `askance doctor --deep` does."""
    for name, stored in backup.manifest.files.items():
        tell(f"reading {name}", 0, 0)
        _compare(backup, name, _described_or_gone(backup.folder / name), stored)
    _check_key(backup, backup.folder)
    if backup.manifest.ledger == "postgres":
        from askance_server.ledger.postgres.dumping import check_dump  # noqa: PLC0415 - of an extra

        check_dump(backup.folder / DUMP_FILE)
    else:
        _check_ledger(backup, backup.folder, tell)


def _check_key(backup: Backup, folder: Path) -> None:
    """Look whether the key of a backup is the one that its ledger goes with."""
    if not backup.has_key or not (folder / auth.KEY_FILE).exists():
        return
    if auth.Keys(auth.read_key(folder / auth.KEY_FILE)).fingerprint != backup.manifest.key_fingerprint:
        raise _damaged(backup.folder, f"its {auth.KEY_FILE} is not the one that {MANIFEST} is about")


def _check_ledger(backup: Backup, folder: Path, tell: Tell) -> None:
    """Look at the ledger of a backup, where it lies or where it was brought."""
    manifest = backup.manifest
    if faults := _faults(folder, manifest.ledger_schema, manifest.key_fingerprint, tell):
        raise _unfit(str(backup.folder), faults, "use another backup")
    moment = moment_of(folder)
    if (moment.schema, moment.commits) != (manifest.ledger_schema, manifest.commits):
        raise _damaged(backup.folder, f"its ledger is not the one that {MANIFEST} is about")


def _faults(folder: Path, schema: int, fingerprint: str | None, tell: Tell) -> Sequence[Fault]:
    """What is wrong with an embedded ledger."""
    faults = audit_ledger(str(folder), fingerprint, tell)
    # Of an older version only the pages are looked at; the last finding says so.
    return faults if schema == max(migrations("sqlite")) else faults[:-1]


def _needed(manifest: Manifest) -> set[str]:
    if manifest.ledger == "postgres":
        return {DUMP_FILE}
    return {FILE} if manifest.commits is None else {FILE, COMMITS_FILE}


def _described_or_gone(path: Path) -> StoredFile | None:
    try:
        return _described(path)
    except FileNotFoundError:
        return None


def _compare(backup: Backup, name: str, found: StoredFile | None, stored: StoredFile) -> None:
    if found is None:
        raise _damaged(backup.folder, f"{name} is gone")
    if found != stored:
        raise _damaged(backup.folder, f"{name} is not what was backed up")


def _damaged(folder: Path, what: str) -> DamagedBackupError:
    return DamagedBackupError(f"is damaged: {what}", where=str(folder), remedy="use another backup")


def _unfit(where: str, faults: Sequence[Fault], remedy: str) -> DamagedBackupError:
    first, more = faults[0], f" (and {counted(len(faults) - 1, 'more finding')})" if len(faults) > 1 else ""
    return DamagedBackupError(f"the ledger is damaged: {first.where}: {first.what}{more}", where=where, remedy=remedy)


# --------------------------------------------------------------------------------------------------------- to restore


@dataclass(frozen=True, slots=True)
class KnownLoss:
    """What a ledger had that its backup has not."""

    commits: int | None
    """None: nothing is known of what came after the backup."""

    @property
    def is_none(self) -> bool:
        """Whether it is known that nothing was written since."""
        return self.commits == 0

    @property
    def told(self) -> str:
        """For people."""
        if self.commits is None:
            return "what was written after the backup is not known, and is lost"
        return (
            f"lost: {counted(self.commits, 'commit')} that followed on the backup" if self.commits else "nothing lost"
        )


def known_loss(backup: Backup, replaced: Path | None) -> KnownLoss:
    """What is lost by going on with a backup in place of a directory, whatever has become of the ledger in it."""
    if replaced is None:
        return KnownLoss(None)
    if backup.manifest.ledger == "postgres":
        remedy = "leave it out: nothing beside a database shows what came after its backup"
        raise UsageError("is of no use for a database", where="--replaces", remedy=remedy)
    refuse_in_use(replaced)
    made, kept = read_commits(replaced / COMMITS_FILE), backup.manifest.commits
    if made is None or kept is None or made < kept or _has_another_key(replaced, backup):
        return KnownLoss(None)
    there, then = _moment_if_readable(replaced), _moment_if_readable(backup.folder)
    if made == kept and there is not None and there != then:
        # What its ledger says goes before the count, which may lag behind after a power cut.
        more = (there.commits or 0) - kept
        return KnownLoss(more if more > 0 else None)
    if there is None or then is None or there.commits != made:
        return KnownLoss(made - kept)
    # A monitor asks each second whether a server is ready: of these heartbeats nobody misses one.
    more = made - kept - (there.beats - then.beats)
    return KnownLoss(more if more > 0 else 0 if there.kept == then.kept else None)


def _has_another_key(directory: Path, backup: Backup) -> bool:
    """Whether a directory is of another server; of a key that is gone or damaged nothing follows."""
    with suppress(AskanceError):
        return auth.Keys(auth.read_key(directory / auth.KEY_FILE)).fingerprint != backup.manifest.key_fingerprint
    return False


def _moment_if_readable(directory: Path) -> LedgerMoment | None:
    """How far the ledger in a directory has come; None where it is gone or damaged."""
    with suppress(AskanceError, OSError):
        return moment_of(directory) if (directory / FILE).exists() else None
    return None


def restore_backup(
    backup: Backup,
    settings: Settings,
    *,
    replaced: Path | None = None,
    accept_loss: bool = False,
    tell: Tell = tell_nobody,
) -> KnownLoss:
    """Put a backup where the settings say that a ledger is to be, and nothing is; what was lost by that."""
    if (backup.manifest.ledger == "postgres") != settings.is_postgres:
        what = f"holds a ledger of {'a directory' if settings.is_postgres else 'PostgreSQL'}"
        remedy = "name such a place: --database postgresql://… or --database DIR"
        raise UsageError(what, where=str(backup.folder), remedy=remedy)
    if not settings.is_postgres:
        _refuse_place(Path(settings.database))
    loss = known_loss(backup, replaced)
    if not (loss.is_none or accept_loss):
        what = (
            f"it is of {backup.manifest.made_at}; {loss.told}. What users have spent since is forgotten there, and they"
            " would be asked again; a person's own wallet remembers, a made-up user has nothing that does"
        )
        remedy = "put newer files back if there are any; else accept it: --accept-loss"
        raise UsageError(what, where=str(backup.folder), remedy=remedy)
    key_is_apart = settings.is_postgres or settings.directory != Path(settings.database)
    _refuse_other_key(backup, settings)
    (_load if settings.is_postgres else _place)(backup, settings, tell)
    # In this order: without its ledger a key would be that of a new one, in which nobody has spent anything.
    if key_is_apart and backup.has_key and settings.server_key is None:
        _place_key(backup, settings.directory / auth.KEY_FILE)
    return loss


def _place(backup: Backup, settings: Settings, tell: Tell) -> None:
    """Copy a backup to where no directory is, or an empty one."""
    with draft_of(Path(settings.database)) as folder:
        for name, stored in backup.manifest.files.items():
            if name != auth.KEY_FILE or settings.directory == Path(settings.database):
                tell(f"copying {name}", 0, 0)
                _bring(backup, name, stored, folder / name)
        _check_key(backup, folder)
        _check_ledger(backup, folder, tell)


def _load(backup: Backup, settings: Settings, tell: Tell) -> None:
    """Load a backup into an empty database."""
    from askance_server.ledger.postgres.dumping import load, refuse_tables  # noqa: PLC0415 - of an extra

    refuse_tables(settings.database)
    check_backup(backup, tell)
    tell("loading the database", 0, 0)
    load(backup.folder / DUMP_FILE, settings.database)
    faults = audit_ledger(settings.database, backup.manifest.key_fingerprint, tell)
    if faults and not backup.is_older:
        raise _unfit(settings.shown_database, faults, "drop this database, and use another backup")


def _refuse_other_key(backup: Backup, settings: Settings) -> None:
    """Refuse a place whose servers have another key: it would not be replaced, and their tokens would be refused."""
    fingerprint = fingerprint_of(settings)
    if fingerprint is not None and fingerprint != backup.manifest.key_fingerprint:
        what, remedy = "is not the key of this backup", "move it away, or give another --data-directory"
        raise DataError(what, where=str(settings.directory / auth.KEY_FILE), remedy=remedy)


def _place_key(backup: Backup, key: Path) -> None:
    """Put the key of a backup where it is not yet: all of it, or nothing."""
    if key.exists():
        return
    make_directory(key.parent)
    fresh = key.with_name(f".{key.name}.{secrets.token_hex(8)}")
    try:
        _bring(backup, auth.KEY_FILE, backup.manifest.files[auth.KEY_FILE], fresh)
        _to_disk(fresh)
        key.hardlink_to(fresh)
    finally:
        fresh.unlink(missing_ok=True)
    sync_names(key.parent)


def _bring(backup: Backup, name: str, stored: StoredFile, to: Path) -> None:
    try:
        _copy_file(backup.folder / name, to)
    except FileNotFoundError:
        raise _damaged(backup.folder, f"{name} is gone") from None
    _compare(backup, name, _described(to), stored)


# -------------------------------------------------------------------------------------------------- folders and files


@contextmanager
def draft_of(place: Path) -> Generator[Path]:
    """A private folder that gets the name of `place` when the block has ended well, all on disk; else it is gone."""
    place = Path(os.path.abspath(place))  # noqa: PTH100 - with a name of its own, and no link followed
    parent = place.parent
    make_directory(parent)
    _refuse_taken(place)
    _sweep(place)
    folder = parent / f".{place.name}.{secrets.token_hex(8)}.new"
    folder.mkdir(0o700)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # For as long as this process lives: by this, another one tells it from what was left by a kill.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
        for file in folder.iterdir():
            _to_disk(file)
        os.fsync(descriptor)
        _refuse_taken(place)
        # Takes the place of an empty directory, and of nothing else.
        folder.rename(place)
        sync_names(parent)
    except OSError as error:
        if error.errno not in {errno.EBUSY, errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST}:
            raise
        remedy = "name a folder in it that is not there yet"
        raise DataError(f"cannot be made: {error.strerror}", where=str(place), remedy=remedy) from None
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_place(directory: Path) -> None:
    """Refuse a data directory that is there, and say so first if a server has it open."""
    if directory.is_dir():
        refuse_in_use(directory)
    _refuse_taken(directory)


def _refuse_taken(place: Path) -> None:
    if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
        remedy = "name another place, or move it away: nothing is overwritten"
        raise DataError("is there already", where=str(place), remedy=remedy)


def _sweep(place: Path) -> None:
    """Remove what earlier tries at the same place left behind when they were killed."""
    for left in place.absolute().parent.glob(f".{escape(place.name)}.{'[0-9a-f]' * 16}.new"):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(descriptor)


def _copy_file(source: Path, target: Path) -> None:
    target.touch(mode=0o600, exist_ok=False)
    shutil.copyfile(source, target)


def _described(path: Path) -> StoredFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return StoredFile(bytes=path.stat().st_size, sha256=digest.hexdigest())


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
