"""How the application is run: what threads free, the process has again, and not each thread for itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

HEAPS: Final = """
import ctypes, sys, threading
from fastapi import FastAPI
from askance_server import hosting

if sys.argv[1] == "control":
    hosting.share_one_heap = lambda: None
hosting.uvicorn_config(FastAPI(), 10)

library = ctypes.CDLL(None)
library.malloc.restype = library.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(4)

def take():
    together.wait()
    library.malloc(1000)
    together.wait()

threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
"""
"""Four threads take memory at the same time; then the C library writes down which heaps it has."""


def heaps(how: str) -> int:
    command = [sys.executable, "-c", HEAPS, how]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return told.count("<heap nr=")


def test_all_threads_of_a_server_share_one_heap() -> None:
    # Each thread's own kept what it had freed: 413 MB after a round of 10⁷ reports, and not 256.
    assert heaps("as it is") == 1
    assert heaps("control") > 1
