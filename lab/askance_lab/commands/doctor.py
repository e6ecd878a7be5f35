"""`askance doctor`: check what a server stands on: Python, settings, keys, ledger, disk, clock."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import typer

from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import ConfigOption, DatabaseOption, JsonOption, examples
from askance_lab.commands.shared.tables import echo_table
from askance_protocol.errors import AskanceError
from askance_server import auth
from askance_server.ledger import LedgerBusyError, LedgerError, open_ledger
from askance_server.settings import Settings, read_settings, unknown_variables

SCHEMA_VERSION: Final = 1

_GIB: Final = 1 << 30
_LITTLE_DISK: Final = _GIB
_NO_DISK: Final = _GIB // 10
_OLDEST_PYTHON: Final = (3, 11)
_YEAR_2025: Final = 1_735_689_600
_YEAR_2100: Final = 4_102_444_800
_DAY: Final = 86_400

app = typer.Typer()


class CheckOutcome(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `next` says what to do where it is not well."""

    name: str
    outcome: CheckOutcome
    detail: str
    next: str = ""


@app.command(
    epilog=examples(
        "askance doctor", "askance doctor --database ./study", "askance doctor --config askance.toml --json"
    )
)
def doctor(database: DatabaseOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check what a server stands on: Python, settings, keys, ledger, disk, clock.

    It changes nothing, and ends with exit code 6 if a check failed.
    """
    checks = list(examine(database, config))
    well = all(check.outcome is not CheckOutcome.FAILED for check in checks)
    if as_json:
        report = {"schema_version": SCHEMA_VERSION, "ok": well, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        rows = [[each.outcome.value, each.name, each.detail, _next(each)] for each in checks]
        echo_table(_table(checks), ["", "check", "finding", "next"], rows)
    raise typer.Exit(Exit.OK if well else Exit.CHECK_FAILED)


def examine(database: str | None, config: Path | None) -> Iterator[Check]:
    """All checks. Where the settings cannot be read, there is nothing to check the others with."""
    yield _python()
    try:
        settings = read_settings({"database": database}, config=config)
        if settings.is_postgres:
            require("psycopg")
    except AskanceError as error:
        yield _failed("settings", error)
        return
    yield _settings()
    yield _directory(settings.directory)
    yield from _secrets(settings)
    yield _ledger(settings)
    yield _disk(settings.directory)
    yield _clock(settings.directory)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        return Check("python", CheckOutcome.FAILED, version, "install Python 3.11 or later")
    return Check("python", CheckOutcome.OK, version)


def _settings() -> Check:
    if unknown := unknown_variables(os.environ):
        return Check("settings", CheckOutcome.WARNING, "nothing reads " + ", ".join(unknown), "unset or correct them")
    return Check("settings", CheckOutcome.OK, "all are known and in range")


def _directory(directory: Path) -> Check:
    there = _nearest(directory)
    if not there.is_dir():
        return Check("directory", CheckOutcome.FAILED, f"{there} is no directory", "choose another with --database")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return Check("directory", CheckOutcome.FAILED, f"{there} is not writable", "run as the user who owns it")
    if not directory.exists():
        return Check("directory", CheckOutcome.OK, f"{directory} will be made at the first start")
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o022:
        return Check("directory", CheckOutcome.FAILED, f"others can write to {directory}", f"chmod 700 {directory}")
    if mode & 0o055:
        return Check("directory", CheckOutcome.WARNING, f"others can look into {directory}", f"chmod 700 {directory}")
    return Check("directory", CheckOutcome.OK, f"{directory} belongs to this user alone")


def _secrets(settings: Settings) -> Iterator[Check]:
    """The key and the two tokens: each for its owner's eyes only."""
    if settings.server_key_bytes is not None:
        yield Check("key", CheckOutcome.OK, "given as a setting")
    else:
        yield _private("key", settings.directory / auth.KEY_FILE, auth.read_key)
    files = auth.TokenFiles.of(settings.directory)
    yield _private("operator token", files.operator, auth.check_private)
    yield _private("enrolment token", files.enrolment, auth.check_private)


def _private(name: str, path: Path, check: Callable[[Path], object]) -> Check:
    if not path.exists():
        return Check(name, CheckOutcome.OK, f"{path} will be made at the first start")
    try:
        check(path)
    except AskanceError as error:
        return _failed(name, error)
    return Check(name, CheckOutcome.OK, f"{path} is private")


def _ledger(settings: Settings) -> Check:
    if not settings.is_postgres and not Path(settings.database).exists():
        return Check("ledger", CheckOutcome.OK, "will be made at the first start")
    begin = time.perf_counter()
    try:
        ledger = open_ledger(settings.database)
        try:
            faults, users = ledger.verify(), ledger.enrolled()
        finally:
            ledger.close()
    except LedgerBusyError as error:
        return Check(
            "ledger", CheckOutcome.WARNING, str(error), "a server that has it open answers for it: askance health"
        )
    except LedgerError as error:
        return Check("ledger", CheckOutcome.FAILED, str(error), "restore a backup")
    except Exception as error:  # a broken ledger breaks in its own ways, and this is the command that looks for them
        what = f"cannot be read: {type(error).__name__}"
        return Check("ledger", CheckOutcome.FAILED, what, "keep a copy of the files, then restore a backup")
    if faults:
        first = f"{len(faults)} faults, the first at {faults[0].where}: {faults[0].what}"
        return Check("ledger", CheckOutcome.FAILED, first, "stop the server and restore a backup")
    seconds = time.perf_counter() - begin
    return Check("ledger", CheckOutcome.OK, f"{users} users, every sum agrees with the log ({seconds:.1f} s)")


def _disk(directory: Path) -> Check:
    free = shutil.disk_usage(_nearest(directory)).free
    shown = f"{free / _GIB:.1f} GiB free"
    if free < _NO_DISK:
        return Check("disk", CheckOutcome.FAILED, shown, "make room: a ledger that cannot be written stops the server")
    if free < _LITTLE_DISK:
        return Check("disk", CheckOutcome.WARNING, shown, "make room soon")
    return Check("disk", CheckOutcome.OK, shown)


def _clock(directory: Path) -> Check:
    """Rounds close by the clock: it must be of this century, and not behind what was written already."""
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    written = max((file.stat().st_mtime for file in directory.glob("*")), default=now) if directory.is_dir() else now
    if not _YEAR_2025 < now < _YEAR_2100:
        return Check("clock", CheckOutcome.FAILED, shown, "set the clock: rounds have deadlines")
    if written > now + _DAY:
        return Check("clock", CheckOutcome.FAILED, f"{shown}, but {directory} has files from later", "set the clock")
    return Check("clock", CheckOutcome.OK, shown)


def _nearest(path: Path) -> Path:
    """The path, or the nearest above it that exists."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def _failed(name: str, error: AskanceError) -> Check:
    detail = ": ".join(part for part in (error.where, error.what) if part)
    return Check(name, CheckOutcome.FAILED, detail, error.remedy)


def _next(check: Check) -> str:
    return "" if check.outcome is CheckOutcome.OK else check.next


def _table(checks: Sequence[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for check in checks:
        lines.append(f"{check.outcome.value:8} {check.name:{width}}  {check.detail}")
        if step := _next(check):
            lines.append(f"{'':8} {'':{width}}  → {step}")
    return "\n".join(lines)
