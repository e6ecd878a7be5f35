"""A server for one command: `askance serve` as a child process on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from askance_client import RemoteError
from askance_lab.remote.child import COMMAND

_COMMAND: Final = (*COMMAND, "serve", "--json")
_FILES: Final = ("operator_token_file", "enrolment_token_file")
_SECONDS: Final = 15
"""How long it may take to stop, before it is made to."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """URL of a server, its data directory, and the tokens of its operator and for enrolment."""

    url: str
    directory: Path
    operator: str = field(repr=False)
    enrolment: str = field(repr=False)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False, compare=False)
    """The server itself, where it was started here."""

    @property
    def end(self) -> str | None:
        """How it has ended, with the last line of its log; None while it runs."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        return f"has ended {how(code)}: {_last_words(self.directory / 'server.log')}"


def how(code: int) -> str:
    """How a process has ended, by its exit code."""
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


@contextmanager
def local_server(
    directory: Path, cap: str, port: int = 0, *, keep: Sequence[int] = (), more: Sequence[str] = ()
) -> Generator[LocalServer]:
    """Run a server on a data directory during a `with` block; its log is `server.log` there.

    `keep`: descriptors that it holds as long as it lives; `more`: further options of `askance serve`.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = directory / "server.log"
    options = ("--database", str(directory), "--cap", cap, "--port", str(port), *more)
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*_COMMAND, *options], stdout=subprocess.PIPE, stderr=errors, env=_environment(), pass_fds=keep
        )
    try:
        yield _announced(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _announced(process: subprocess.Popen[bytes], log: Path) -> LocalServer:
    assert process.stdout is not None  # noqa: S101 - told the type checker: it was asked for
    line = process.stdout.readline()
    if not line:
        # Its folder is often a temporary one, which is gone when somebody reads this.
        raise RemoteError(
            f"did not start: {_last_words(log)}", where="server", remedy="askance doctor looks for the cause"
        )
    announced = json.loads(line)
    # There is no enrolment token without limits where the server takes none.
    operator, enrolment = (
        Path(announced[name]).read_text("ascii").strip() if announced[name] else "" for name in _FILES
    )
    return LocalServer(announced["url"], Path(announced["data_directory"]), operator, enrolment, process)


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    return lines[-1] if lines else "its log is empty"


def _environment() -> dict[str, str]:
    """Environment without settings meant for another server. A simulation enrols as many users as it has."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}
    return others | {"ASKANCE_OPEN_LIMIT": str(1 << 40)}
