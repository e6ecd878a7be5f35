"""The `askance` command. It imports its rooms lazily, so that each call loads what it needs and no more."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from askance_lab.commands import channel as channel_command
from askance_lab.commands import curator as curator_command
from askance_lab.commands import demo as demo_command
from askance_lab.commands import fleet as fleet_command
from askance_lab.commands import landscape as landscape_command
from askance_lab.commands import load as load_command
from askance_lab.commands import plan as plan_command
from askance_lab.commands import run as run_command
from askance_lab.commands import separation as separation_command
from askance_lab.commands import server as server_command
from askance_lab.commands import theory as theory_command
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import ProtocolError

app = typer.Typer(
    name="askance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(channel_command.app, name="channel")
app.add_typer(server_command.app)
app.add_typer(fleet_command.app)
app.add_typer(load_command.app)
app.add_typer(run_command.app)
app.add_typer(plan_command.app)
app.add_typer(separation_command.app)
app.add_typer(curator_command.app)
app.add_typer(landscape_command.app)
app.add_typer(demo_command.app)
app.add_typer(theory_command.app)


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
