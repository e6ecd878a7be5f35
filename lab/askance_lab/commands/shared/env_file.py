"""A file for a shell to read, `. ./env`: where a server is, and where its tokens lie."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from askance_protocol.errors import DataError

_HEAD: Final = "# Written by askance serve, for a shell to read."
_PID: Final = "SERVER_PID={}"


@dataclass(frozen=True, slots=True)
class EnvFile:
    """The file of a server that is about to start."""

    path: Path

    def write(self, url: str, operator_token: Path, enrolment_token: Path | None) -> None:
        """Say where the server is, all at once: who waits for the file reads it as soon as it is there."""
        values = {
            "ASKANCE_SERVER": url,
            "ASKANCE_OPERATOR_TOKEN_FILE": str(operator_token),
            "ASKANCE_ENROLMENT_TOKEN_FILE": "" if enrolment_token is None else str(enrolment_token),
        }
        said = [f"{name}={shlex.quote(value)}" for name, value in values.items() if value]
        lines = [_HEAD, *(f"export {each}" for each in (*said, _PID.format(os.getpid()))), ""]
        self.beside.write_text("\n".join(lines), "utf-8")
        self.beside.replace(self.path)

    def remove(self) -> None:
        """Remove it, unless another server has taken its place."""
        if self.path.exists() and _PID.format(os.getpid()) in self.path.read_text("utf-8", errors="replace").split():
            self.path.unlink(missing_ok=True)

    @property
    def beside(self) -> Path:
        """Where it is written before it takes its name."""
        return self.path.with_name(f"{self.path.name}.{os.getpid()}")


@contextmanager
def env_file(path: Path | None) -> Generator[EnvFile | None]:
    """The file that was asked for, if one was, from before the start of the server to its end.

    What an earlier server has left there goes first, since it leads nowhere. A file of another kind is never touched.
    """
    if path is None:
        yield None
        return
    file = EnvFile(path.absolute())
    try:
        _take_place_of(file)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise DataError(what, where=str(path), remedy="name a file in a directory of yours") from None
    try:
        yield file
    finally:
        file.remove()


def _take_place_of(file: EnvFile) -> None:
    if file.path.exists():
        if not file.path.read_text("utf-8", errors="replace").startswith(_HEAD):
            raise DataError("is another file", where=str(file.path), remedy="name a file that does not exist yet")
        file.path.unlink()
    # Where nothing can be written is found before anything is started.
    file.beside.touch()
    file.beside.unlink()
