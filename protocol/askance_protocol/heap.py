"""What this process asks of the C library's heap (glibc): to keep what is given back, and to be one for all threads.

Another C library has no such function, or no such parameter, and then nothing is changed.
"""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""The numbers of these parameters of `mallopt`."""
_KEPT: Final = 1 << 24
"""Bytes of an array, up to which its memory is kept for the next one."""


@cache
def keep_memory() -> None:
    """Keep what a block's arrays give back for those of the next block: some 10 MB.

    Else each array is returned to the system, which hands it out again page by page, wiped. That takes longer than
    everything that is done with them.
    """
    _set(_M_MMAP_THRESHOLD, _KEPT)
    _set(_M_TRIM_THRESHOLD, 2 * _KEPT)


def share_one_heap() -> None:
    """Let all threads that start from now on take memory from one heap, where each would have one of its own.

    A thread's own heap keeps what it has freed for that thread: each of those that decode batches of reports, or tally
    10⁷ of them, held on to tens of megabytes. Python's own small objects are not allocated there. Nor does it heed
    `keep_memory`: what a thread's own heap gives back goes to the system.
    """
    _set(_M_ARENA_MAX, 1)


def _set(parameter: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)
