"""What a command that speaks to a server says where that fails, and its exit code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from askance_lab.commands.shared.exit_codes import Exit


@contextmanager
def reaching() -> Generator[None]:
    """Unreachable, another version, too few users: each has an exit code of its own."""
    from askance_client import UnreachableError  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import StudyTooFewUsersError, VersionError  # noqa: PLC0415

    try:
        yield
    except UnreachableError as error:
        _end(f"{error} (start a server: askance serve; or name another: --server URL)", Exit.UNREACHABLE)
    except VersionError as error:
        _end(str(error), Exit.VERSION_MISMATCH)
    except StudyTooFewUsersError as error:
        _end(str(error), Exit.TOO_FEW_USERS)


def _end(what: str, code: Exit) -> None:
    typer.echo(f"askance: {what}", err=True)
    raise typer.Exit(code)
