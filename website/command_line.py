"""The page of the command line: what `--help` of each command says, and how a command ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from askance_lab.cli import CommandModules
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit
from website.text import block, cell, code, paragraphs, table


def page() -> str:
    """The page."""
    modules = CommandModules()
    commands = "".join(part for name in modules for part in _command(f"askance {name}", modules[name]))
    return _list(modules) + "## Exit codes\n\n" + _exit_codes() + commands


def _list(modules: CommandModules) -> str:
    return table(
        ["command", "what it does"], ([f"[`{name}`](#askance-{name})", cell(modules.summary(name))] for name in modules)
    )


def _exit_codes() -> str:
    causes = defaultdict[Exit, list[str]](list)
    for cause, ended in EXIT_OF.items():
        causes[ended].append(f"`{cause.value}`")
    rows = ([str(each.value), each.name.lower().replace("_", " "), ", ".join(causes[each])] for each in Exit)
    return table(["code", "how it ended", "codes of errors"], rows)


def _command(path: str, command: Any, level: int = 2) -> Iterator[str]:
    context: Any = command.make_context(path, [], resilient_parsing=True)
    yield f"{'#' * level} {path}\n\n{paragraphs(command.help)}"
    inner: dict[str, Any] = getattr(command, "commands", {})
    if not inner:
        yield block(" ".join([path, *command.collect_usage_pieces(context)]))
    records = (each.get_help_record(context) for each in command.params)
    yield table(["option", "what it says"], ([code(left), cell(right)] for left, right in filter(None, records)))
    if command.epilog:
        yield block(_examples(command.epilog), "console")
    for name, each in inner.items():
        yield from _command(f"{path} {name}", each, level + 1)


def _examples(epilog: str) -> str:
    """The examples of a help, as they are typed."""
    lines = [line.strip() for line in epilog.strip().splitlines()[1:]]
    return "\n".join(f"$ {line}" if line.startswith("askance") else f"    {line}" for line in lines)
