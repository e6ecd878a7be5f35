"""`askance serve`, `health` and `doctor`: start the aggregator, ask how it is, look at what it stands on.

The server's packages belong to an extra and take a while to load: each command imports them for itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, cast

import typer

from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    import socket

    import httpx

    from askance_server.settings import Settings

SCHEMA_VERSION: Final = 1
VERSION_HEADER: Final = "Askance-Protocol"

_GRACE: Final = 10
_GIB: Final = 1 << 30
_LITTLE_DISK: Final = _GIB
_NO_DISK: Final = _GIB // 10
_OLDEST_PYTHON: Final = (3, 11)
_YEAR_2025: Final = 1_735_689_600
_YEAR_2100: Final = 4_102_444_800
_DAY: Final = 86_400

app = typer.Typer()

DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", metavar="URL|PATH", help="A directory (./askance-data), or a PostgreSQL URL."),
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="A settings file (askance.toml, if there is one).")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


# ------------------------------------------------------------------------------------------------------- serve


@app.command()
def serve(
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port (8080); the next free one if it is taken.")] = None,
    database: DatabaseOption = None,
    data_directory: Annotated[
        Path | None, typer.Option("--data-directory", help="Where key and token files lie (the database's directory).")
    ] = None,
    cap: Annotated[str | None, typer.Option("--cap", help="ε that a user may spend over her lifetime (1).")] = None,
    log_level: Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error (info).")] = None,
    log_format: Annotated[str | None, typer.Option("--log-format", help="auto, json or text (auto).")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the aggregator until it is told to stop."""
    _require("server", "fastapi", "uvicorn", "scipy")
    from askance_server import logs  # noqa: PLC0415 - the server's extra
    from askance_server import settings as settings_  # noqa: PLC0415

    flags = {
        "host": host,
        "port": port,
        "database": database,
        "data_directory": data_directory,
        "cap": cap,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = settings_.read_settings(flags, config=config)
    if settings.is_postgres:
        _require("postgres", "psycopg")
    # From here on a stop is a good end, also while the ledger is being read.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    logs.configure(settings.log_level, settings.log_format)
    with settings_.bind(settings.host, settings.port) as listener:
        url = settings_.url_of(listener)
        _warn(settings, listener)
        _run(settings, listener, lambda: typer.echo(_announcement(settings, url, as_json=as_json)))


def _run(settings: Settings, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve on the socket until a signal. `announce` is called once requests are answered."""
    import uvicorn  # noqa: PLC0415 - the server's extra

    from askance_server.app import create_app  # noqa: PLC0415

    class AnnouncingServer(uvicorn.Server):
        gave_up = False

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:  # a signal may have come while the ledger was read
                announce()

        def give_up(self) -> None:
            """The application's own end: its log cannot be written, so nothing more may be acknowledged."""
            self.gave_up = self.should_exit = True

    server = AnnouncingServer(
        uvicorn.Config(
            create_app(settings, stop=lambda: server.give_up()),  # noqa: PLW0108 - it does not exist yet
            lifespan="on",
            ws="none",
            log_config=None,  # everything goes through our filter
            access_log=False,  # who reported when is nobody's business, and it halves the throughput
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE,
        )
    )
    try:
        server.run([listener])
    except SystemExit:
        # uvicorn's own code for a start that failed is 3, which here means something else.
        if server.started or not server.lifespan.should_exit:
            raise
    if not server.started:
        _fail("did not start")
    if server.gave_up:
        _fail("had to stop")


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def _fail(how: str) -> NoReturn:
    typer.echo(f"askance: the server {how} (the log above says why; askance doctor looks for it)", err=True)
    raise typer.Exit(Exit.INTERNAL)


def _announcement(settings: Settings, url: str, *, as_json: bool) -> str:
    from askance_server.auth import TokenFiles  # noqa: PLC0415 - the server's extra

    files, directory = TokenFiles.of(settings.directory.resolve()), settings.directory.resolve()
    if not as_json:
        return f"Askance serves {url} · data in {directory} · operator token in {files.operator}"
    described = {
        "schema_version": SCHEMA_VERSION,
        "url": url,
        "asked_port": settings.port,
        "pid": os.getpid(),
        "database": settings.shown_database,
        "data_directory": str(directory),
        "operator_token_file": str(files.operator),
        "enrolment_token_file": str(files.enrolment),
    }
    return json.dumps(described, ensure_ascii=False)


def _warn(settings: Settings, listener: socket.socket) -> None:
    """What whoever starts a server should know before it runs."""
    from askance_server.settings import unknown_variables  # noqa: PLC0415 - the server's extra

    host, port = cast("tuple[str, int]", listener.getsockname()[:2])
    if port != settings.port != 0:
        typer.echo(f"askance: port {settings.port} is taken: took {port}", err=True)
    if not _is_loopback(host):
        typer.echo(f"askance: {host} is open to other machines: put TLS in front, tokens travel in the clear", err=True)
    for name in unknown_variables(os.environ):
        typer.echo(f"askance: {name} is no setting and is not read", err=True)


def _is_loopback(host: str) -> bool:
    return host in {"localhost", "::1"} or host.startswith("127.")


def _require(extra: str, *packages: str) -> None:
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        remedy = f"pip install 'askance[{extra}]'"
        raise ProtocolError(f"not installed: {', '.join(missing)}", where="packages", remedy=remedy)


# ------------------------------------------------------------------------------------------------------ health


class _HealthError(Exception):
    """Why a server is not well, and the exit code for it."""

    def __init__(self, state: str, code: int, what: str, remedy: str) -> None:
        super().__init__(f"{what} ({remedy})")
        self.state, self.code = state, code


@app.command()
def health(
    server: Annotated[
        str, typer.Option("--server", envvar="ASKANCE_SERVER", help="The server's URL.")
    ] = "http://127.0.0.1:8080",
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Ask a server whether it is alive and ready."""
    state, code, detail = "ok", 0, "alive and ready"
    begin = time.perf_counter()
    try:
        _ask(server, timeout)
    except _HealthError as error:
        state, code, detail = error.state, error.code, str(error)
    if as_json:
        milliseconds = round(1000 * (time.perf_counter() - begin), 1)
        answer = {"schema_version": SCHEMA_VERSION, "server": _shown(server), "state": state, "detail": detail}
        typer.echo(json.dumps({**answer, "milliseconds": milliseconds}, ensure_ascii=False))
    else:
        typer.echo(f"{_shown(server)}: {detail}", err=code != 0)
    raise typer.Exit(code)


def _ask(server: str, timeout: float) -> None:
    """Return if the server is alive, speaks our version and is ready; else say which of these fails first."""
    import httpx  # noqa: PLC0415 - takes a while

    url = _url(server)
    # A proxy of the environment leads away from this machine.
    with httpx.Client(base_url=url, timeout=timeout, trust_env=not _is_loopback(url.host)) as client:
        try:
            alive, ready = (client.get(path, headers={VERSION_HEADER: _version()}) for path in ("/healthz", "/readyz"))
        except httpx.HTTPError as error:
            what = "does not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
            remedy = "start it: askance serve; or name another: --server URL"
            raise _HealthError("unreachable", Exit.UNREACHABLE, what, remedy) from None
    _check_version(alive)
    if not alive.is_success:
        remedy = "see its log, or name another: --server URL"
        raise _HealthError("unreachable", Exit.UNREACHABLE, f"answers with status {alive.status_code}", remedy)
    if not ready.is_success:
        remedy = "wait; if it stays so, see its log and askance doctor"
        raise _HealthError("not-ready", Exit.CHECK_FAILED, "is alive but not ready", remedy)


def _url(server: str) -> httpx.URL:
    import httpx  # noqa: PLC0415 - takes a while

    with suppress(httpx.InvalidURL):
        url = httpx.URL(server)
        if url.scheme in {"http", "https"} and url.host:
            return url
    raise ProtocolError("is not an http or https URL", where="--server", remedy="give one as http://127.0.0.1:8080")


def _check_version(answer: httpx.Response) -> None:
    spoken = answer.headers.get(VERSION_HEADER)
    if spoken is None:
        remedy = "check the URL: --server URL"
        raise _HealthError("unreachable", Exit.UNREACHABLE, "answers, but is no Askance server", remedy)
    if spoken != _version():
        what = f"speaks version {spoken[:20]!r} of the protocol, this side {_version()!r}"
        raise _HealthError("version-mismatch", Exit.VERSION_MISMATCH, what, "install the same version on both sides")


def _version() -> str:
    from askance_protocol.rounds.spec import VERSION  # noqa: PLC0415 - `--help` needs no protocol

    return str(VERSION)


def _shown(url: str) -> str:
    """A URL less its password."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2] if separator else url


# ------------------------------------------------------------------------------------------------------ doctor


class CheckOutcome(StrEnum):
    """What a check came to."""

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


@app.command()
def doctor(database: DatabaseOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check what a server needs: Python, settings, keys, ledger, disk, clock."""
    checks = list(examine(database, config))
    well = all(check.outcome is not CheckOutcome.FAILED for check in checks)
    if as_json:
        report = {"schema_version": SCHEMA_VERSION, "ok": well, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        typer.echo(_table(checks))
    raise typer.Exit(Exit.OK if well else Exit.CHECK_FAILED)


def examine(database: str | None, config: Path | None) -> Iterator[Check]:
    """All checks. Where the settings cannot be read, there is nothing to check the others with."""
    yield _python()
    try:
        _require("server", "fastapi", "uvicorn", "scipy")
        from askance_server.settings import read_settings  # noqa: PLC0415 - the server's extra

        settings = read_settings({"database": database}, config=config)
        if settings.is_postgres:
            _require("postgres", "psycopg")
    except ProtocolError as error:
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
    from askance_server.settings import unknown_variables  # noqa: PLC0415 - the server's extra

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
    from askance_server import auth  # noqa: PLC0415 - the server's extra

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
    except ProtocolError as error:
        return _failed(name, error)
    return Check(name, CheckOutcome.OK, f"{path} is private")


def _ledger(settings: Settings) -> Check:
    from askance_server.ledger import LedgerBusyError, LedgerError, open_ledger  # noqa: PLC0415 - the server's extra

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
    said = f"{free / _GIB:.1f} GiB free"
    if free < _NO_DISK:
        return Check("disk", CheckOutcome.FAILED, said, "make room: a ledger that cannot be written stops the server")
    if free < _LITTLE_DISK:
        return Check("disk", CheckOutcome.WARNING, said, "make room soon")
    return Check("disk", CheckOutcome.OK, said)


def _clock(directory: Path) -> Check:
    """Rounds close by the clock: it must be of this century, and not behind what was written already."""
    now = time.time()
    said = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    written = max((file.stat().st_mtime for file in directory.glob("*")), default=now) if directory.is_dir() else now
    if not _YEAR_2025 < now < _YEAR_2100:
        return Check("clock", CheckOutcome.FAILED, said, "set the clock: rounds have deadlines")
    if written > now + _DAY:
        return Check("clock", CheckOutcome.FAILED, f"{said}, but {directory} has files from later", "set the clock")
    return Check("clock", CheckOutcome.OK, said)


def _nearest(path: Path) -> Path:
    """The path, or the nearest above it that exists."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def _failed(name: str, error: ProtocolError) -> Check:
    detail = ": ".join(part for part in (error.where, error.what) if part)
    return Check(name, CheckOutcome.FAILED, detail, error.remedy)


def _table(checks: list[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for check in checks:
        lines.append(f"{check.outcome.value:8} {check.name:{width}}  {check.detail}")
        if check.outcome is not CheckOutcome.OK and check.next:
            lines.append(f"{'':8} {'':{width}}  → {check.next}")
    return "\n".join(lines)
