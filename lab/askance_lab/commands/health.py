"""`askance health`: ask a server whether it is alive, ready and of this version."""

from __future__ import annotations

import json
import time
from typing import Annotated, Final

import httpx
import typer

from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.options import DEFAULT_SERVER, JsonOption, ServerOption, examples
from askance_lab.commands.shared.urls import is_loopback, read_url, without_password
from askance_protocol.rounds.spec import VERSION
from askance_protocol.text import quoted

SCHEMA_VERSION: Final = 1
VERSION_HEADER: Final = "Askance-Protocol"

app = typer.Typer()


class _HealthError(Exception):
    """Why a server is not well, and the exit code for it."""

    def __init__(self, state: str, code: Exit, what: str, remedy: str) -> None:
        super().__init__(f"{what} ({remedy})")
        self.state, self.code = state, code


@app.command(
    epilog=examples(
        "askance health",
        "askance health --server http://127.0.0.1:9000 --timeout 1",
        "askance health --json",
    )
)
def health(
    server: ServerOption = DEFAULT_SERVER,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Ask a server whether it is alive and ready.

    The exit code tells: 0 ready, 3 unreachable, 4 another version of the protocol, 6 alive but not ready.
    """
    state, code, detail = "ok", Exit.OK, "alive and ready"
    begin = time.perf_counter()
    try:
        _ask(server, timeout)
    except _HealthError as error:
        state, code, detail = error.state, error.code, str(error)
    if as_json:
        milliseconds = round(1000 * (time.perf_counter() - begin), 1)
        shown = without_password(server)
        answer = {"schema_version": SCHEMA_VERSION, "server": shown, "state": state, "detail": detail}
        typer.echo(json.dumps({**answer, "milliseconds": milliseconds}, ensure_ascii=False))
    else:
        typer.echo(f"{without_password(server)}: {detail}", err=code is not Exit.OK)
    raise typer.Exit(code)


def _ask(server: str, timeout: float) -> None:
    """Return if the server is alive, speaks our version and is ready; else say which of these fails first."""
    url, headers = read_url(server), {VERSION_HEADER: str(VERSION)}
    # A proxy of the environment leads away from this machine.
    with httpx.Client(base_url=url, timeout=timeout, trust_env=not is_loopback(url.host)) as client:
        try:
            alive, ready = (client.get(path, headers=headers) for path in ("/healthz", "/readyz"))
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


def _check_version(answer: httpx.Response) -> None:
    spoken = answer.headers.get(VERSION_HEADER)
    if spoken is None:
        remedy = "check the URL: --server URL"
        raise _HealthError("unreachable", Exit.UNREACHABLE, "answers, but is no Askance server", remedy)
    if spoken != str(VERSION):
        what = f"speaks version {quoted(spoken, 20)} of the protocol, this side {str(VERSION)!r}"
        raise _HealthError("version-mismatch", Exit.VERSION_MISMATCH, what, "install the same version on both sides")
