"""Names that outlive a power cut: a file that is synced is lost all the same if the directory that names it is not."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_names(directory: Path) -> None:
    """Put on disk which files and directories stand in a directory."""
    # As SQLite does: where directories cannot be opened or synced, the file system has to keep names by itself.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Make a directory, and those above it that are missing; their names are on disk. One that is there is left so."""
    if directory.is_dir():
        # Who made it, a shell or a server that was killed, may not have synced its name.
        sync_names(directory.absolute().parent)
        return
    if not directory.parent.exists():
        make_directory(directory.parent, 0o777)
    directory.mkdir(mode, exist_ok=True)
    sync_names(directory.parent)
