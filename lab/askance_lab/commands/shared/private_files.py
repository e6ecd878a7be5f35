"""Files that hold what only their owner may read: made anew, with mode 0600, before there is anything to write."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from askance_protocol.errors import DataError


@dataclass(slots=True)
class PrivateFile:
    """A new file that only its owner can read. What is written is on disk when `write` returns."""

    path: Path
    _file: TextIO

    @classmethod
    def new(cls, path: Path) -> Self:
        """Make the file, before anything is done that could not be kept; one that is there is never written over."""
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise DataError("is there already", where=str(path), remedy="name another file, or move it away") from None
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise DataError(what, where=str(path), remedy="name a file in a directory of yours") from None
        return cls(path, os.fdopen(descriptor, "w", encoding="ascii"))

    def write(self, text: str) -> None:
        """Append text, and put it on disk."""
        self._file.write(text)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; one in which nothing stands goes."""
        empty = not self._file.tell()
        self._file.close()
        if empty:
            self.path.unlink(missing_ok=True)
