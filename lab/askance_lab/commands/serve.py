"""`askance serve`: run the aggregator until it is told to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, NoReturn, cast

import typer
import uvicorn

from askance_client.page import read_page
from askance_lab.commands.shared.completion import words
from askance_lab.commands.shared.env_file import env_file
from askance_lab.commands.shared.exit_codes import Exit, say
from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import (
    CertificateOption,
    ConfigOption,
    DatabaseOption,
    DataDirectoryOption,
    JsonOption,
    KeyOption,
    examples,
)
from askance_lab.commands.shared.urls import is_loopback, read_url
from askance_server import logs
from askance_server.app import create_app, open_resources
from askance_server.auth import TokenFiles
from askance_server.certificate import Certificate, read_certificate
from askance_server.hosting import keep_what_is_there, notify, uvicorn_config
from askance_server.settings import Settings, bind, read_settings, unknown_variables, url_of

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance serve",
        "askance serve --port 9000 --database ./study --cap 2 --env ./env",
        "askance serve --host 192.168.1.20 --certificate room.pem --key room-key.pem",
        "askance serve --database postgresql://user:password@host/name --json",
    )
)
def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on.  [default: 127.0.0.1, this machine only]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port to listen on; the next free one if it is taken.  [default: 8080]"),
    ] = None,
    database: DatabaseOption = None,
    data_directory: DataDirectoryOption = None,
    cap: Annotated[
        str | None, typer.Option("--cap", help="ε that one user may spend in her lifetime.  [default: 1]")
    ] = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    enrolment: Annotated[
        str | None,
        typer.Option(
            "--enrolment",
            autocompletion=words("open", "limited"),
            help="Who may enrol: open, as many as come with enrolment.token; limited, only by tokens of limited number "
            "and time.  [default: open]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            "--log-level",
            help="Least level to log: debug, info, warning, error.  [default: info]",
            autocompletion=words("debug", "info", "warning", "error"),
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            help="Form of the log: json, text, or auto: text on a terminal.  [default: auto]",
            autocompletion=words("json", "text", "auto"),
        ),
    ] = None,
    env: Annotated[
        Path | None,
        typer.Option(
            "--env",
            metavar="FILE",
            help="Write where this server is and where its tokens lie, for other commands in your shell: . FILE",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the aggregator until it is told to stop.

    Each setting may also be given as an ASKANCE_… variable or in askance.toml; an option comes first.
    """
    flags = {
        "host": host,
        "port": port,
        "database": database,
        "data_directory": data_directory,
        "cap": cap,
        "certificate": certificate,
        "key": key,
        "enrolment": enrolment,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = read_settings(flags, config=config)
    if settings.is_postgres:
        require("psycopg")
    shown = read_certificate(settings.certificate, settings.key)
    # From here on a stop is a good end, also while the ledger is being read.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    logs.configure(settings.log_level, settings.log_format)
    with env_file(env) as named, bind(settings.host, settings.port) as listener:
        url = url_of(listener) if shown is None else shown.url(listener)
        _warn(settings, listener, url, shown)

        def announce() -> None:
            try:
                if named is not None:
                    named.write(url, *_token_files(settings))
                typer.echo(_announcement(settings, url, as_json=as_json))
            except OSError as error:
                # Where it goes may be full, or gone. That is no reason to take no reports.
                where = "standard output" if error.filename is None else error.filename
                say(f"serves {url}, and nobody reads so: {where} cannot be written: {error.strerror}")

        _run(settings, listener, None if shown is None else shown.context, announce)


def _run(settings: Settings, listener: socket.socket, tls: ssl.SSLContext | None, announce: Callable[[], None]) -> None:
    """Serve on the socket until a signal. `announce` is called once requests are answered."""

    class AnnouncingServer(uvicorn.Server):
        gave_up = False

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            keep_what_is_there()
            if not self.should_exit:  # a signal may have come while the ledger was read
                announce()
                notify("READY=1")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            notify("STOPPING=1")
            # Streams of events would go on until nobody waits for them any more.
            if (aggregator := getattr(application.state, "aggregator", None)) is not None:
                aggregator.end_streams()
            await super().shutdown(sockets)

        def give_up(self) -> None:
            """The application's own end: its log cannot be written, so nothing more may be acknowledged."""
            self.gave_up = self.should_exit = True

    # Opened here and not in the application's own start, which would end in many lines of the web server's log.
    opened = open_resources(settings)
    application = create_app(
        settings,
        stop=lambda: server.give_up(),  # noqa: PLW0108 - no server yet
        opened=opened,
        take_part=read_page(),
    )
    server = AnnouncingServer(uvicorn_config(application, settings.connection_limit, tls))
    try:
        server.run([listener])
    except SystemExit:
        # uvicorn's own code for a start that failed is 3, which here means something else. Who is stopped before it has
        # begun to start has no lifespan yet.
        lifespan = getattr(server, "lifespan", None)
        if server.started or lifespan is None or not lifespan.should_exit:
            raise
    if not server.started:
        _fail("did not start")
    if server.gave_up:
        _fail("had to stop")


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def _fail(how: str) -> NoReturn:
    say(f"the server {how} (the log above says why; askance doctor looks for it)")
    raise typer.Exit(Exit.INTERNAL)


def _announcement(settings: Settings, url: str, *, as_json: bool) -> str:
    directory = settings.directory.resolve()
    operator, enrolment = _token_files(settings)
    if not as_json:
        return f"Askance serves {url} · data in {directory} · operator token in {operator}"
    described = {
        "schema_version": SCHEMA_VERSION,
        "url": url,
        "asked_port": settings.port,
        "pid": os.getpid(),
        "database": settings.shown_database,
        "data_directory": str(directory),
        "operator_token_file": str(operator),
        "enrolment_token_file": None if enrolment is None else str(enrolment),
    }
    return json.dumps(described, ensure_ascii=False)


def _token_files(settings: Settings) -> tuple[Path, Path | None]:
    """The operator's token, and that of enrolment, if everybody may enrol."""
    files = TokenFiles.of(settings.directory.resolve())
    return files.operator, files.enrolment if settings.enrolment == "open" else None


def _warn(settings: Settings, listener: socket.socket, url: str, shown: Certificate | None) -> None:
    """Tell the person who starts a server what may surprise her: another port, an open address, an unknown variable."""
    host, port = cast("tuple[str, int]", listener.getsockname()[:2])
    if port != settings.port != 0:
        say(f"port {settings.port} is taken: took {port}")
    if shown is not None:
        for warning in shown.warnings(read_url(url).host):
            say(warning)
    elif not is_loopback(host):
        say(f"{host} is open to other machines, and tokens travel in the clear: give --certificate and --key")
    for name in unknown_variables(os.environ):
        say(f"{name} is no setting and is not read")
