"""`askance completion`: let a shell complete commands, options and names, by the tabulator key."""

from __future__ import annotations

import os
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_lab.commands.shared.completion import words
from askance_lab.commands.shared.options import examples
from askance_protocol.errors import UsageError
from askance_protocol.text import quoted

_NAME: Final = "askance"
_VARIABLE: Final = "_ASKANCE_COMPLETE"
"""Set by the script where it asks what could stand next; `askance_lab.cli` answers then, and runs nothing."""

app = typer.Typer()


class Shell(StrEnum):
    """A shell whose script is known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(
    epilog=examples(
        "askance completion bash",
        "askance completion zsh --install",
        "askance completion --install",
    )
)
def completion(
    shell: Annotated[
        str | None,
        typer.Argument(
            metavar="bash|zsh|fish",
            help="Shell to write the script for.  [default: that of $SHELL]",
            autocompletion=words(*Shell),
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Write it where the shell finds it at its next start, and say where.")
    ] = False,
) -> None:
    """Print the script by which a shell completes commands, options, and the names of strategies, columns and more.

    For this session alone: eval "$(askance completion bash)".
    """
    chosen = _shell(shell)
    typers: Any = import_module("typer.completion")  # typer's own scripts, whose module has no types for us
    given = {"prog_name": _NAME, "complete_var": _VARIABLE, "shell": chosen.value}
    if not install:
        typer.echo(typers.get_completion_script(**given))
        return
    _, path = typers.install(**given)
    typer.echo(f"written to {path}: {chosen} reads it when it is started next")


def _shell(given: str | None) -> Shell:
    """The shell that was named, or the one that the environment says this user has."""
    name = Path(os.environ.get("SHELL", "")).name if given is None else given
    if name in set(Shell):
        return Shell(name)
    what = f"{quoted(name)} is no shell that is known here" if name else "is not known from the environment"
    raise UsageError(what, where="shell", remedy="askance completion bash, zsh or fish")
