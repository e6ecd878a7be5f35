"""haproxy for tests: found or, for root on Debian, installed; skipped where neither can be, unless `CI` is true.

A module may use the fixture and import from here as well: PYTEST_DONT_REWRITE keeps pytest from warning of that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.marks import SECONDS

_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin"
_INSTALL: Final = ["apt-get", "-o", f"DPkg::Lock::Timeout={SECONDS}", "-qq", "-y", "--no-install-recommends", "install"]


@pytest.fixture(scope="session")
def haproxy() -> str:
    """Where the program is."""
    if found := shutil.which("haproxy", path=_PATH) or installed():
        return found
    if os.environ.get("CI") == "true":
        pytest.fail("no haproxy here, and it cannot be installed")
    pytest.skip("no haproxy here: install it")


def installed() -> str | None:
    """The haproxy of Debian, installed by the first worker that needs it; None where that cannot be."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    with (Path(tempfile.gettempdir()) / "askance-tests-haproxy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := shutil.which("haproxy", path=_PATH)) is None:
            for command in (["apt-get", "update", "-qq"], [*_INSTALL, "haproxy"]):
                subprocess.run(command, check=False, capture_output=True, timeout=10 * SECONDS)
            found = shutil.which("haproxy", path=_PATH)
    return found


def refused(program: str, text: str, folder: Path) -> str:
    """What it says against a configuration; nothing, if it takes it without a word."""
    config = folder / "checked.cfg"
    config.write_text(text)
    run = subprocess.run([program, "-c", "-f", config], capture_output=True, text=True, check=False)
    return run.stderr if run.returncode or "WARNING" in run.stderr else ""


@contextlib.contextmanager
def balancing(program: str, text: str, port: int, folder: Path) -> Generator[Path]:
    """It runs, and takes connections at this port; the file that it writes to."""
    config, log = folder / "haproxy.cfg", folder / "haproxy.log"
    config.write_text(text)
    with log.open("wb") as out, subprocess.Popen([program, "-db", "-f", config], stdout=out, stderr=out) as process:
        try:
            end = time.monotonic() + SECONDS
            while not _listens(port):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end
                time.sleep(0.02)
            yield log
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
