"""A place in memory for files that outlive the processes that write them, and no cut of the power."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def in_memory() -> str | None:
    """A folder in memory, if there is one with enough room.

    What tests kill is processes, and what these have written outlives them. To sync it to a disk would take most of the
    time of a test, and a database or a browser that does not sync at all is not the one that people have.
    """
    memory = Path("/dev/shm")
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    return str(memory) if roomy else None
