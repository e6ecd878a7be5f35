"""The `askance` command: a group that imports a command's module when that command is used, and not before.

A command is a module of `askance_lab.commands` that has a `typer.Typer` named `app`. The group lists the directory for
names, and reads a summary off the first line of a module without importing it: "`askance NAME`: summary." So a new
command is one new file, and `askance --help` loads no command at all.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

_DIRECTORY: Final = Path(__file__).with_name("commands")
COMPLETE: Final = "_ASKANCE_COMPLETE"
"""Set by a shell that asks what could stand next; see `askance completion`."""
_FIRST_LINE: Final = re.compile(r'"""`askance (?P<name>[a-z-]+)`: (?P<summary>[^"]+)')


def _module(name: str) -> str:
    return name.replace("-", "_")


class CommandModules(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __iter__(self) -> Iterator[str]:
        files = (path.stem for path in _DIRECTORY.glob("*.py"))
        return iter(sorted(name.replace("_", "-") for name in files if not name.startswith("_")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(name)
        found: Any = import_module(f"askance_lab.commands.{_module(name)}").app
        # As the group has it: typer reads both of each app.
        found.rich_markup_mode, found._add_completion = None, False  # noqa: SLF001 - its only way from outside
        return get_command(found)

    def summary(self, name: str) -> str:
        """What a command is for, off the first line of its file."""
        with (_DIRECTORY / f"{_module(name)}.py").open(encoding="utf-8") as file:
            found = _FIRST_LINE.match(file.readline())
        return found["summary"].strip() if found and found["name"] == name else ""


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """A command as a shell completes it, with the members that typer reads."""

    value: str
    help: str
    type: str = "plain"


class LazyGroup(TyperGroup):
    """A group of the commands that lie in the directory."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.modules = CommandModules()
        untyped: Any = self.modules
        self.commands = untyped  # typer reads it, for a lookup and for what a mistyped name may have meant

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - typer's interface
        """The names, without an import."""
        return list(self.modules)

    def format_commands(self, ctx: object, formatter: Any) -> None:  # noqa: ARG002 - typer's interface
        """Write the section of `--help` that lists the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.modules.summary(name)) for name in self.modules])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What a shell may complete: the commands, without an import, and the group's own options."""
        options: Any = super(TyperGroup, self)  # not TyperGroup's own, which loads every command for its summary
        found = [CompletedCommand(name, self.modules.summary(name)) for name in self.modules]
        return [each for each in found if each.value.startswith(incomplete)] + [
            *options.shell_complete(ctx, incomplete)
        ]


app = typer.Typer(
    name="askance",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,  # `askance completion` has it, so that no help is longer by it
    context_settings={"help_option_names": ["-h", "--help"]},  # every command takes it over
    rich_markup_mode=None,  # plain help: rich alone is 60 modules more
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - 46 modules, of which no other call needs any

        typer.echo(f"askance {version('askance')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Ask a population anything; learn no one's answer."""


def main() -> None:
    """Run the command; turn an error into one line and its exit code."""
    _prepare_streams()
    try:
        if COMPLETE in os.environ:
            untyped: Any = import_module("typer.completion")  # its scripts have no types for us
            untyped.completion_init()
        ended: Any = app(prog_name="askance", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except Exception as error:  # this is where every error of every command ends
        if COMPLETE in os.environ:
            sys.exit(1)  # nothing is completed; a message would stand in the midst of a line that is typed
        from askance_lab.commands.shared.exit_codes import report  # noqa: PLC0415 - it loads the protocol, for the codes

        sys.exit(report(error, *_called(sys.argv[1:])))
    sys.exit(ended if isinstance(ended, int) else 0)


def _prepare_streams() -> None:
    """Let ε be printed where the locale has no such letter, as an escape; and let a closed stream be an empty one."""
    # In order, as each takes the lowest number that is free: no file or socket gets the number of a closed stream.
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, closefd=False))
    out: Any = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")


def _called(words: Sequence[str]) -> tuple[str, frozenset[str]]:
    """The command that was called, with the words of its groups, and its options. It has been imported by then."""
    path, command = ["askance"], get_command(app)
    with suppress(ImportError):  # of a module whose packages are not installed, which is told already
        for word in words:
            inner: Mapping[str, Any] = getattr(command, "commands", {})
            if word not in inner:
                break
            command = inner[word]
            path.append(word)
    return " ".join(path), frozenset(option for parameter in command.params for option in parameter.opts)
