"""A results file that is written as results arrive, so that an interrupted measurement can continue."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final, Self

from askance_protocol.errors import DataError

EVERY: Final = 1.0
"""Seconds between two writes. A process that is killed loses the results of these; one that is interrupted, none."""


class Checkpoint:
    """Results by key, read from a file and written back. Without a file they are kept in memory."""

    def __init__(self, path: Path | None = None, part: str = "results", schema_version: int = 1) -> None:
        self.path, self.part, self.schema_version = path, part, schema_version
        self.results: dict[str, Any] = self._read()
        self._written = time.monotonic()
        self._changed = False

    def keep(self, key: str, result: Any) -> None:
        """Store a result, which JSON must be able to hold."""
        self.results[key] = result
        self._changed = True
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def write(self) -> None:
        """Write the changes to a temporary file and rename it, so that the file is always complete."""
        if self.path is not None and self._changed:
            document = {"schema_version": self.schema_version, self.part: self.results}
            beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            beside.write_text(json.dumps(document, indent=1), "utf-8")
            beside.replace(self.path)
        self._written = time.monotonic()
        self._changed = False

    def _read(self) -> dict[str, Any]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            document = json.loads(self.path.read_text("utf-8"))
            if document["schema_version"] == self.schema_version:
                return dict(document[self.part])
        except (ValueError, TypeError, KeyError):
            pass
        raise DataError(
            f"is not a file of {self.part} of version {self.schema_version}",
            where=str(self.path),
            remedy="give another --out, or delete it to measure anew",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()
