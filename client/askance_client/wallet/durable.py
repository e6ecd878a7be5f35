"""Folders of wallets that outlive a power cut: a wallet is lost with the folder whose name was never synced.

Then the next one would come with a fresh cap. The server has the same for its directory; neither room sees the other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_names(directory: Path) -> None:
    """Put on disk which files and folders stand in a folder."""
    # As SQLite does: where folders cannot be opened or synced, the file system has to keep names by itself.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and those above it that are missing; its name is on disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700 if each == folder else 0o777, exist_ok=True)
        sync_names(each.parent)
    # Also of one that is there: who made it may have been killed before the sync.
    sync_names(folder.absolute().parent)
