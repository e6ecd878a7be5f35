"""`askance health`: ask a server whether it is alive, ready and of this version."""

from __future__ import annotations

import json
import time
from typing import Annotated, Final

import typer

from askance_lab.commands.shared.ask_server import NotWellError, ServerState, ask_server
from askance_lab.commands.shared.exit_codes import Exit, say
from askance_lab.commands.shared.options import A_YEAR, DEFAULT_SERVER, JsonOption, ServerOption, examples
from askance_lab.commands.shared.urls import without_password

SCHEMA_VERSION: Final = 1

app = typer.Typer()


_EXIT_OF_STATE: Final = {
    ServerState.OK: Exit.OK,
    ServerState.UNREACHABLE: Exit.UNREACHABLE,
    ServerState.VERSION_MISMATCH: Exit.VERSION_MISMATCH,
    ServerState.NOT_READY: Exit.CHECK_FAILED,
}


@app.command(
    epilog=examples(
        "askance health",
        "askance health --server http://127.0.0.1:9000 --timeout 1",
        "askance health --json",
    )
)
def health(
    server: ServerOption = DEFAULT_SERVER,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, max=A_YEAR, help="Seconds to wait for an answer.")
    ] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Ask a server whether it is alive and ready.

    The exit code tells: 0 ready, 3 unreachable, 4 another version of the protocol, 6 alive but not ready.
    """
    state, detail = ServerState.OK, "alive and ready"
    begin = time.perf_counter()
    try:
        ask_server(server, timeout)
    except NotWellError as error:
        state, detail = error.state, str(error)
    code = _EXIT_OF_STATE[state]
    if as_json:
        milliseconds = round(1000 * (time.perf_counter() - begin), 1)
        shown = without_password(server)
        answer = {"schema_version": SCHEMA_VERSION, "server": shown, "state": state, "detail": detail}
        typer.echo(json.dumps({**answer, "milliseconds": milliseconds}, ensure_ascii=False))
    elif code is Exit.OK:
        typer.echo(f"{without_password(server)}: {detail}")
    else:
        say(f"{without_password(server)}: {detail}")
    raise typer.Exit(code)
