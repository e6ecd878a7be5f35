"""A place in memory for files that outlive the processes that write them, and no cut of the power."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_DISK: Final = "TESTS_ON_DISK"
"""The variable that names where temporary files lie by themselves; workers have it from whoever starts them."""


def in_memory() -> str | None:
    """A folder in memory, if there is one with enough room.

    What tests kill is processes, and what these have written outlives them. To sync it to a disk would take most of the
    time of a test, and a database or a browser that does not sync at all is not the one that people have.
    """
    memory = Path("/dev/shm")
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    return str(memory) if roomy and not os.statvfs(memory).f_flag & os.ST_NOEXEC else None


def keep_in_memory() -> None:
    """Have `tmp_path`, and what this process and its children ask `tempfile` for, in memory, if nobody has said where.

    A commit to a disk takes some milliseconds, a new ledger or wallet ten times as many, and tests make thousands.
    """
    os.environ.setdefault(_DISK, tempfile.gettempdir())
    if (memory := in_memory()) is not None:
        for name in ("PYTEST_DEBUG_TEMPROOT", "TMPDIR"):
            os.environ.setdefault(name, memory)
        tempfile.tempdir = None  # It is looked for anew.


@pytest.fixture(name="tmp_path")
def on_disk() -> Iterator[Path]:
    """A folder on a disk, for tests that import this: in memory a write is over before it can be interrupted."""
    with tempfile.TemporaryDirectory(prefix="askance-on-disk-", dir=os.environ[_DISK]) as folder:
        yield Path(folder)
