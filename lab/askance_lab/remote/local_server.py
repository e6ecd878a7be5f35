"""A server of one's own: `askance serve` as a process beside this one, on the loopback, gone when it is not needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from askance_protocol.errors import ProtocolError

_COMMAND: Final = (sys.executable, "-c", "from askance_lab.cli import main; main()", "serve", "--json")
_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Where it is, and what opens its doors."""

    url: str
    directory: Path
    operator: str = field(repr=False)
    enrolment: str = field(repr=False)


@contextmanager
def local_server(directory: Path, cap: str, port: int = 0) -> Generator[LocalServer]:
    """Run a server over a data directory as long as the block lasts. What it logs lies in the directory."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = directory / "server.log"
    options = ("--database", str(directory), "--cap", cap, "--port", str(port))
    with log.open("ab") as errors:
        process = subprocess.Popen([*_COMMAND, *options], stdout=subprocess.PIPE, stderr=errors, env=_environment())  # noqa: S603 - our own command
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
        lines = log.read_text("utf-8", "replace").splitlines()
        said = lines[-1] if lines else "it said nothing"
        raise ProtocolError(f"did not start: {said}", where="server", remedy=f"see {log}")
    said_ = json.loads(line)
    operator, enrolment = (Path(said_[name]).read_text("ascii").strip() for name in _FILES)
    return LocalServer(said_["url"], Path(said_["data_directory"]), operator, enrolment)


_FILES: Final = ("operator_token_file", "enrolment_token_file")


def _environment() -> dict[str, str]:
    """Settings of another server are not for this one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}
