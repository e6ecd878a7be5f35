"""`python -m askance_lab.remote.child …`: the command, as a process that ends when the one that started it has.

Who is ended by `SIGKILL` can end nobody else. On Linux the kernel does it; elsewhere such a process goes on.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

COMMAND: Final = (sys.executable, "-m", "askance_lab.remote.child")


def end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process once its parent has ended."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:  # it ended just before
            sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    end_with_parent()
    runpy.run_module("askance_lab", run_name="__main__", alter_sys=True)
