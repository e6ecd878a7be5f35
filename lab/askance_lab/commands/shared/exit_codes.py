"""What an exit code of the command means, and which error ends with which: one table, read by `askance_lab.cli.main`.

Nothing here, and nothing in a command, decides by the words of a message.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
from collections.abc import Mapping, Set
from contextlib import suppress
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import typer

from askance_lab.commands.shared.extras import missing_extra
from askance_protocol.errors import AskanceError, Code
from askance_protocol.text import LONGEST, printable


class Exit(IntEnum):
    """How a command may end."""

    OK = 0
    INTERNAL = 1
    """A fault of this program, or of what it runs on."""
    USAGE = 2
    """An option, a file or a parameter that cannot be used."""
    UNREACHABLE = 3
    VERSION_MISMATCH = 4
    BUDGET_REFUSED = 5
    CHECK_FAILED = 6
    """A threshold, a promise or a comparison does not hold."""
    TOO_FEW_USERS = 7
    """More users, reports or time would have helped."""
    INTERRUPTED = 130


EXIT_OF: Final[Mapping[Code, Exit]] = {
    Code.INTERNAL: Exit.INTERNAL,
    Code.INVALID: Exit.USAGE,
    Code.USAGE: Exit.USAGE,
    Code.DATA: Exit.USAGE,
    Code.MISSING_EXTRA: Exit.USAGE,
    Code.NOT_FOUND: Exit.USAGE,
    Code.UNAUTHORIZED: Exit.USAGE,
    Code.FORBIDDEN: Exit.USAGE,
    Code.ENROLMENT_OVER: Exit.USAGE,
    Code.OVER_BUDGET: Exit.BUDGET_REFUSED,
    Code.ROUND_NOT_OPEN: Exit.USAGE,
    Code.STUDY_OVER: Exit.USAGE,
    Code.TOO_FEW_USERS: Exit.TOO_FEW_USERS,
    Code.STRATEGY: Exit.CHECK_FAILED,
    Code.CHECK_FAILED: Exit.CHECK_FAILED,
    Code.REMOTE: Exit.USAGE,
    Code.UNREACHABLE: Exit.UNREACHABLE,
    Code.VERSION_MISMATCH: Exit.VERSION_MISMATCH,
    Code.WALLET: Exit.USAGE,
    Code.LEDGER: Exit.INTERNAL,
    Code.LEDGER_BUSY: Exit.USAGE,
    Code.LEDGER_AWAY: Exit.UNREACHABLE,
    Code.QUEUE_FULL: Exit.UNREACHABLE,
}
"""Every code has its exit code."""

_EXIT_OF_CAUSE: Final[Mapping[str, Exit]] = {
    "learned": Exit.OK,
    "too-few-users": Exit.TOO_FEW_USERS,
    "too-few-reports": Exit.TOO_FEW_USERS,
    "strategy": Exit.CHECK_FAILED,
    "cancelled": Exit.CHECK_FAILED,
}

_OF_OPTIONS: Final = frozenset({Code.USAGE, Code.INVALID, Code.DATA, Code.NOT_FOUND})
"""What a command's help may help with, where an error knows no better."""

_NOT_TYPED: Final = frozenset(
    {Code.REMOTE, Code.UNREACHABLE, Code.VERSION_MISMATCH, Code.UNAUTHORIZED, Code.TOO_FEW_USERS, Code.STRATEGY}
)
"""Errors of who is asked, not of what was typed: the place that they name is no option, though it may be called so."""

_NEXT: Final[Mapping[Code, str]] = {
    Code.UNREACHABLE: "start a server: askance serve; or name another: --server URL",
    Code.VERSION_MISMATCH: "install the same version on both sides",
    Code.CHECK_FAILED: "export it anew; if that says the same, trust none of it, and compare heads with a friend's: "
    "askance wallet heads --compare",
}
"""What to do about errors whose own room cannot know it."""

_STUDY_OPTIONS: Final = frozenset({"--d", "--epsilon", "--alpha", "--beta", "--eta", "--tolerance"})
"""Parameters of a study that most commands have an option for; the others are given by --set."""
_PARAMETER: Final = re.compile(r"parameters\.(\w+)")
_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "ε": ("epsilon", "cap", "claim"),
    "dimension": ("d",),
    "failure": ("beta",),
    "error": ("alpha",),
    "micro_epsilon": ("epsilon",),
}
"""Names that a formula or a document has for what a command has an option for."""

_FILE_REMEDY: Final[Mapping[int, str]] = {
    errno.ENOENT: "check the path: it, or a folder of it, is not there",
    errno.EISDIR: "name a file, not a folder",
    errno.ENOTDIR: "a part of the path is a file: name another",
    errno.EEXIST: "name another, or move it away",
    errno.EACCES: "name another, or let its owner do it",
    errno.EPERM: "name another, or let its owner do it",
    errno.EROFS: "name one on a disk that can be written",
    errno.ENOSPC: "free some space, then run it again",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "its links lead in a circle: name another",
}


def exit_of_cause(cause: str | None, *, finished: bool) -> Exit:
    """The exit code for how a study ended; a study of version 0.1 names no cause."""
    if cause is None:
        return Exit.OK if finished else Exit.CHECK_FAILED
    return _EXIT_OF_CAUSE[cause]


def code_of(error: Exception) -> Code:
    """Code of an error: this project's own, or that of a file or an internal error."""
    match error:
        case AskanceError():
            return error.code
        case OSError(filename=str()) | OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            return Code.DATA
        case _:
            return Code.INTERNAL


def report(error: Exception, command: str = "", options: Set[str] = _STUDY_OPTIONS) -> Exit:
    """Say in one line on standard error what went wrong and what to do next; the exit code for it.

    `command` and `options`: what was called, such as `askance study create`, and the options that it has.
    """
    if isinstance(error, ModuleNotFoundError):
        error = missing_extra(error) or error
    if isinstance(error, _Mistyped):
        return _report_mistyped(error, command)
    code = code_of(error)
    # The texts of our own errors are printable already; the names of files and others' texts are not.
    say(printable(_line(error, code, command, options), 4 * LONGEST))
    if code is Code.INTERNAL and sys.flags.dev_mode:
        traceback.print_exception(error)
    return EXIT_OF[code]


@runtime_checkable
class _Mistyped(Protocol):
    """What typer raises of words that it cannot read; its classes are not public."""

    message: str
    exit_code: int

    def format_message(self) -> str: ...


def _report_mistyped(error: _Mistyped, command: str) -> Exit:
    """Say what of the command line cannot be read. A group that is called by its name alone shows its help."""
    ctx: Any = getattr(error, "ctx", None)
    words, parameter = error.message, getattr(error, "param", None)
    if ctx is not None and words == ctx.get_help():
        typer.echo(words, err=True)
        return Exit.USAGE
    remedy = f"see {command} --help" if command else "see --help"
    where = str(getattr(error, "option_name", "") or (parameter and _shown(parameter)) or "")
    if possible := getattr(error, "possibilities", None):
        remedy = f"did you mean {possible[0]}?"
    elif ". Did you mean " in words:
        words, _, meant = words.partition(". Did you mean ")
        remedy = f"did you mean {meant}"
    if parameter is not None and not words:
        words, remedy = "is missing", f"give it: {parameter.help.rstrip('.')}" if parameter.help else remedy
    elif hasattr(error, "possibilities"):
        words = "is no option here"
    # What pydantic says of a number, without its own view of texts.
    words = words.removeprefix(f"Option {where!r} ").removeprefix("Input ").partition(", unable to parse")[0]
    words = words[:1].lower() + words[1:].rstrip(".")
    say(printable(f"{where}: {words} ({remedy})" if where else f"{words} ({remedy})"))
    return Exit.USAGE


def _shown(parameter: Any) -> str:
    """An option as it is typed, an argument as the usage shows it."""
    name: str = parameter.opts[0]
    return name if name.startswith("-") else str(parameter.metavar or name)


def say(what: str) -> None:
    """Say this in one line on standard error. A log on a disk that is full changes nothing else."""
    with suppress(OSError):
        typer.echo(f"askance: {what}", err=True)


def _line(error: Exception, code: Code, command: str, options: Set[str]) -> str:
    match error:
        case AskanceError():
            where = error.where if code in _NOT_TYPED else as_typed(error.where, options)
            what, remedy = ": ".join(part for part in (where, error.what) if part), error.remedy
        case OSError(filename=str(path)):
            what = f"{path}: {error.strerror}"
            remedy = _FILE_REMEDY.get(error.errno or 0, "name another file or folder")
        case OSError(strerror=str(why)) if code is Code.DATA:
            # The text of a system call on a file that was open already, standard output for one.
            what, remedy = f"what was to be written could not be: {why}", "free some space, then run it again"
        case _ if code is Code.INTERNAL:
            # Its own text may quote an example, and is nothing that a user can act on.
            what = f"{type(error).__name__} {_place(error)}".rstrip()
            remedy = "a fault of this program: please report it; python -X dev -m askance_lab … shows where"
        case _:
            what, remedy = str(error), ""
    remedy = remedy or _NEXT.get(code, "") or (f"see {command} --help" if command and code in _OF_OPTIONS else "")
    return f"{what} ({remedy})" if remedy else what


def as_typed(where: str, options: Set[str] = _STUDY_OPTIONS) -> str:
    """A place in the input as it is typed: `parameters.d` as `--d`, `parameters.cells` as `--set cells`."""
    if found := _PARAMETER.fullmatch(where):
        if found[1].startswith("ask") and found[1][3:].isdecimal():
            return f"--ask, number {found[1][3:]}"
        option = "--" + found[1].replace("_", "-")
        return option if option in options else f"--set {found[1]}"
    typed = {word.partition("=")[0] for word in sys.argv[1:]}
    given = {word.partition("=")[0] for option, word in pairwise(sys.argv) if option == "--set"}
    for name in (where, *_SAME.get(where.rpartition(".")[2], ())):
        if (option := "--" + name.replace("_", "-")) in typed:
            return option
        if name in given:
            return f"--set {name}"
    return where


def _place(error: Exception) -> str:
    """The last line of ours that the error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "askance_" in frame.filename]
    return f"in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
