"""The `askance` command. It imports its rooms lazily, so that each call loads what it needs and no more."""

from __future__ import annotations

import sys
from enum import IntEnum
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from askance_lab import channel_command, server_command
from askance_protocol.errors import ProtocolError


class Exit(IntEnum):
    """What an exit code of the command means."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    UNREACHABLE = 3
    VERSION_MISMATCH = 4
    BUDGET_REFUSED = 5
    CHECK_FAILED = 6
    TOO_FEW_USERS = 7
    INTERRUPTED = 130


app = typer.Typer(
    name="askance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(channel_command.app, name="channel")
app.add_typer(server_command.app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"askance {installed_version('askance')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Ask a population anything; learn no one's answer."""


def main() -> None:
    """Run the command; say a refusal in one line, and what to do next."""
    try:
        app()
    except ProtocolError as error:
        typer.echo(f"askance: {error}", err=True)
        sys.exit(Exit.USAGE)
