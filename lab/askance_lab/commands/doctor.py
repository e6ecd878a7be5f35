"""`askance doctor`: check what a server stands on: Python, settings, port, keys, ledger, disk, clock.

`--deep` looks from outside at everything that the ledger holds, also while a server has it open, and names what is not
as it was written: what, where, and what to do next. Only damage is answered with a backup: what is merely away, because
it is locked, unreachable or another user's, is to be reached again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from askance_lab.commands.shared.ask_server import NotWellError, ServerState, ask_server
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import ConfigOption, DatabaseOption, JsonOption, examples
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.tables import echo_table
from askance_protocol.errors import AskanceError
from askance_protocol.text import counted
from askance_server import auth
from askance_server.certificate import read_certificate
from askance_server.ledger import (
    LedgerAwayError,
    LedgerBusyError,
    LedgerError,
    audit_ledger,
    older_schema,
    open_ledger,
)
from askance_server.ledger.sqlite import FILE
from askance_server.settings import Settings, bind, read_settings, unknown_variables

SCHEMA_VERSION: Final = 1
RESTORE: Final = "stop the server, keep a copy of what there is, then restore a backup (docs/operate.md)"
LEDGER_FILES: Final = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.commits", "lock")
"""Files that are in a directory once a ledger was opened there."""

_GIB: Final = 1 << 30
_LITTLE_DISK: Final = _GIB
_NO_DISK: Final = _GIB // 10
_OLDEST_PYTHON: Final = (3, 11)
_YEAR_2025: Final = 1_735_689_600
_YEAR_2100: Final = 4_102_444_800
_DAY: Final = 86_400
_LAST_PORT: Final = 65_535
_SECONDS_FOR_AN_ANSWER: Final = 2.0

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
    where: str = ""
    """File, table, study, round or user, where a finding has a place."""


DeepOption: TypeAlias = Annotated[
    bool,
    typer.Option("--deep", help="Compare everything that the ledger holds with what was written; a server may run."),
]


@app.command(
    epilog=examples(
        "askance doctor", "askance doctor --deep --database ./study", "askance doctor --config askance.toml --json"
    )
)
def doctor(
    database: DatabaseOption = None,
    config: ConfigOption = None,
    deep: DeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check what a server stands on: Python, settings, port, keys, ledger, disk, clock.

    It changes nothing, and ends with exit code 6 if a check failed.
    """
    checks = list(examine(database, config, deep=deep))
    well = all(check.outcome is not CheckOutcome.FAILED for check in checks)
    if as_json:
        report = {"schema_version": SCHEMA_VERSION, "ok": well, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        rows = [[each.outcome.value, each.name, _finding(each), _next(each)] for each in checks]
        echo_table(_table(checks), ["", "check", "finding", "next"], rows)
    raise typer.Exit(Exit.OK if well else Exit.CHECK_FAILED)


def examine(database: str | None, config: Path | None, *, deep: bool = False) -> Iterator[Check]:
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
    yield _port(settings)
    yield _directory(settings.directory)
    yield from _secrets(settings)
    yield from _certificate(settings)
    yield from _deep(settings) if deep else [_ledger(settings)]
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


def _port(settings: Settings) -> Check:
    """Who listens where a server would: nobody, one of ours, or somebody else. Nothing is sent but two questions."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - what we replace
    shown = f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}"
    if settings.port == 0:
        return Check("port", CheckOutcome.OK, "0: a server takes any free one")
    if not _listens(host, settings.port):
        return _free(settings, shown)
    url, trust = f"http://{shown}", None
    with suppress(AskanceError):  # What is wrong with a certificate is a check of its own.
        if (certificate := read_certificate(settings.certificate, settings.key)) is not None:
            url, trust = f"https://{shown}", certificate.trusted_alone()
    try:
        ask_server(url, _SECONDS_FOR_AN_ANSWER, trust)
    except NotWellError as error:
        # What health advises is for those who look for a server; here it is the port that was to be had.
        steps = {
            ServerState.VERSION_MISMATCH: error.remedy,
            ServerState.NOT_READY: "wait; if it stays so, see that server's log",
        }
        step = steps.get(
            error.state, f"stop what listens there, or choose another: askance serve --port {_another(settings.port)}"
        )
        return Check("port", CheckOutcome.WARNING, f"{shown} is taken: what listens there {error.what}", step)
    return Check("port", CheckOutcome.OK, f"an Askance server of this version answers at {url}")


def _free(settings: Settings, shown: str) -> Check:
    """Whether a server could listen there."""
    try:
        with bind(settings.host, settings.port) as listener:
            if listener.getsockname()[1] == settings.port:
                return Check("port", CheckOutcome.OK, f"{shown} is free: no server runs there")
    except AskanceError as error:
        return _failed("port", error)
    step = f"askance serve takes the next free one, and says so; or choose one: --port {_another(settings.port)}"
    return Check("port", CheckOutcome.WARNING, f"{shown} is taken, and nothing answers there", step)


def _another(port: int) -> int:
    return port + 1 if port < _LAST_PORT else port - 1


def _listens(host: str, port: int) -> bool:
    with suppress(OSError, UnicodeError), socket.create_connection((host, port), _SECONDS_FOR_AN_ANSWER):
        return True
    return False


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
    key, files = settings.directory / auth.KEY_FILE, auth.TokenFiles.of(settings.directory)
    if settings.server_key_bytes is not None:
        yield Check("key", CheckOutcome.OK, "given as a setting")
    elif not key.exists() and _was_opened(settings):
        what = "it is gone: the next start would make another one, and every token that was given out would be void"
        yield Check("key", CheckOutcome.FAILED, what, f"put {key} back from a backup before the next start", str(key))
    else:
        yield _private("key", key, auth.read_key)
    yield _private("operator token", files.operator, auth.check_private)
    if settings.enrolment == "open":
        yield _private("enrolment token", files.enrolment, auth.check_private)


def _certificate(settings: Settings) -> Iterator[Check]:
    """Whether a server could speak TLS with what the settings name; nothing, where they name nothing."""
    try:
        certificate = read_certificate(settings.certificate, settings.key)
    except AskanceError as error:
        yield _failed("certificate", error)
        return
    if certificate is None:
        return
    until = f"{certificate.expires:%Y-%m-%d}"
    if certificate.is_near_its_end:
        step = "renew it, then start the server again: it reads it at its start"
        yield Check("certificate", CheckOutcome.WARNING, f"{certificate.file} expires on {until}", step)
        return
    yield Check("certificate", CheckOutcome.OK, f"{certificate.file} has its key, and holds until {until}")


def _was_opened(settings: Settings) -> bool:
    """Whether there is, or was, a server that used this directory: it leaves these files."""
    files = auth.TokenFiles.of(settings.directory)
    left = (files.operator, files.enrolment) if settings.is_postgres else (settings.directory / f for f in LEDGER_FILES)
    return any(file.exists() for file in left)


def _private(name: str, path: Path, check: Callable[[Path], object]) -> Check:
    if not path.exists():
        return Check(name, CheckOutcome.OK, f"{path} will be made at the first start")
    try:
        check(path)
    except AskanceError as error:
        return _failed(name, error)
    return Check(name, CheckOutcome.OK, f"{path} is private")


def _ledger(settings: Settings) -> Check:
    begin = time.perf_counter()
    try:
        if (absent := _absent(settings)) is not None:
            return absent
        if (version := older_schema(settings.database)) == 0:
            return Check("ledger", CheckOutcome.OK, "will be made at the first start")
        if version is not None:
            what = f"it has schema {version}, of an older version"
            step = "bring it up to date: askance upgrade"
            return Check("ledger", CheckOutcome.WARNING, what, step)
        ledger = open_ledger(settings.database)
        try:
            with ProgressBar("verifying", quiet=True) as bar:
                faults, users = ledger.verify(bar.tell), ledger.enrolled()
        finally:
            ledger.close()
    except Exception as error:  # a broken ledger breaks in its own ways, and this is the command that looks for them
        return replace(_unread(error), where=_place(settings))
    if faults:
        first = f"{len(faults)} faults, the first at {faults[0].where}: {faults[0].what}"
        return Check("ledger", CheckOutcome.FAILED, first, "see all of them: askance doctor --deep", faults[0].where)
    seconds = time.perf_counter() - begin
    return Check(
        "ledger", CheckOutcome.OK, f"{counted(users, 'user')}, every sum agrees with the log ({seconds:.1f} s)"
    )


def _deep(settings: Settings) -> Iterator[Check]:
    """Each finding of the ledger's audit as a check of its own."""
    begin = time.perf_counter()
    try:
        if (absent := _absent(settings)) is not None:
            yield absent
            return
        with ProgressBar("looking at all that the ledger holds", quiet=True) as bar:
            faults = audit_ledger(settings.database, _fingerprint(settings), bar.tell)
    except Exception as error:  # as above
        yield replace(_unread(error), where=_place(settings))
        return
    for fault in faults:
        yield Check("ledger", CheckOutcome.FAILED, fault.what, fault.next or RESTORE, fault.where)
    if not faults:
        seconds = time.perf_counter() - begin
        what = f"everything is as it was written, and every sum agrees with the log ({seconds:.1f} s)"
        yield Check("ledger", CheckOutcome.OK, what)


def _absent(settings: Settings) -> Check | None:
    """What to say where there is no embedded ledger: it is gone, or was never made."""
    path = Path(settings.database) / FILE
    if settings.is_postgres or path.exists():
        return None
    if _was_opened(settings):
        what = "it is gone: what was spent would be forgotten"
        return Check("ledger", CheckOutcome.FAILED, what, RESTORE, str(path))
    return Check("ledger", CheckOutcome.OK, "will be made at the first start")


def _fingerprint(settings: Settings) -> str | None:
    """The fingerprint of the server's key, if it can be read; that it cannot is a check of its own."""
    with suppress(AskanceError, OSError):
        return auth.Keys(settings.server_key_bytes or auth.read_key(settings.directory / auth.KEY_FILE)).fingerprint
    return None


def _place(settings: Settings) -> str:
    """Where the ledger is; what is said of a database names it by itself, without its password."""
    return "the database" if settings.is_postgres else str(Path(settings.database) / FILE)


def _unread(error: Exception) -> Check:
    """What to say of a ledger that could not be read, and whether a backup is of any use."""
    outcome, what, step = CheckOutcome.FAILED, str(error), RESTORE
    match error:
        case LedgerBusyError():
            # Its remedy is for a server that would start here; this one is to go on.
            outcome, what = CheckOutcome.WARNING, error.what
            step = "a server has it open: askance health asks it, and askance doctor --deep looks beside it"
        case LedgerAwayError():
            step = "reach it again, then look again: nothing is damaged"
        case PermissionError():
            what = f"{error.filename or 'a file'} cannot be opened: {error.strerror}"
            step = "run as the user who owns it"
        case LedgerError():
            pass
        case OSError() if error.errno != errno.EIO:
            # Too many open files, a share or a disk that is not there now: all but what the disk itself cannot read.
            what = f"cannot be read: {error.strerror or type(error).__name__}"
            step = "see to that, then look again: nothing is known to be damaged"
        case MemoryError():
            what, step = "cannot be read: there is too little memory", "end other programs, then look again"
        case _:
            what = f"cannot be read: {type(error).__name__}"
    return Check("ledger", outcome, what, step)


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


def _finding(check: Check) -> str:
    """The detail, after its place unless it names it."""
    return check.detail if check.where in check.detail else f"{check.where}: {check.detail}"


def _next(check: Check) -> str:
    return "" if check.outcome is CheckOutcome.OK else check.next


def _table(checks: Sequence[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for check in checks:
        lines.append(f"{check.outcome.value:8} {check.name:{width}}  {_finding(check)}")
        if step := _next(check):
            lines.append(f"{'':8} {'':{width}}  → {step}")
    return "\n".join(lines)
