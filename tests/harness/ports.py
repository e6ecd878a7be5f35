"""Ports that nobody takes meanwhile.

A port that the operating system chose, and that is free for a moment, is chosen again for whoever asks next: another
test's server would answer there.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Final

_PER_PROCESS: Final = 100
_FIRST: Final = 20_000


@contextlib.contextmanager
def nobody() -> Generator[str]:
    """The address of a port that is bound and not listened on: connections to it are refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def lasting_port() -> int:
    """A free port below those that the operating system chooses: whoever gives it up for a while finds it again."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    # Workers of one run have ranges of their own; those of another run on this machine have others, as a rule.
    first = _FIRST + (10 * worker + os.getpid() % 10) % 100 * _PER_PROCESS
    for port in range(first, min(first + _PER_PROCESS, lowest)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError(f"no port is free from {first}")
