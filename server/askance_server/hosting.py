"""How the application is run: uvicorn with guarded connections, one heap, as many descriptors as there may be.

And how the program that keeps it running hears that it answers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
import ssl
import sys
from typing import Final

import uvicorn
from fastapi import FastAPI

from askance_protocol.heap import share_one_heap
from askance_server.api.connections import ConnectionLimits, guarded

GRACE: Final = 2
"""Seconds that requests have to end when the server is told to stop. Streams of events end at once."""

SWITCH: Final = 0.0002
"""Seconds after which a thread that has work to do lets another one go on; Python's own are 25 times as many."""
_FILES: Final = 48
"""Descriptors kept for all that is no connection: the ledger, its log, keys, what a library opens."""
_MOST_DESCRIPTORS: Final = 1 << 16
_BACKLOG: Final = 2048


def uvicorn_config(app: FastAPI, connections: int, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    """The configuration of `askance serve`: quiet, without what is not used, with at most this many connections.

    TLS, where it is spoken, is not told to uvicorn, which would count no connection before its handshake is over.
    """
    share_one_heap()
    # A device's answer passes from thread to thread: beside one that draws pages, each step waits for so long.
    sys.setswitchinterval(SWITCH)
    descriptors = raise_descriptors()
    # Those that wait to be accepted are accepted all at once, before any of them can be refused; over TLS each has two
    # descriptors for a moment.
    backlog = min(_BACKLOG, descriptors // (4 if tls is None else 8))
    accepted = backlog if tls is None else 2 * backlog
    limits = ConnectionLimits(connections=max(1, min(connections, descriptors - accepted - _FILES)))
    return uvicorn.Config(
        app,
        http=guarded(limits, tls),
        lifespan="on",
        ws="none",
        backlog=backlog,
        log_config=None,  # everything goes through our filter
        access_log=False,  # who reported when is nobody's business, and it halves the throughput
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
    )


def notify(state: str) -> None:
    """Tell the program that started this one how it goes, if that is systemd and wants to hear it: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # Whoever does not listen any more is no reason to take no reports.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


def raise_descriptors() -> int:
    """Raise this process's limit of descriptors as far as it may; the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def keep_what_is_there() -> None:
    """Have Python look for garbage only among what comes from now on. For a process that is a server and nothing else.

    The search goes through all that is there, with the interpreter held: what a server is made of, modules, models and
    routes, took it a seventh of a second each time, for which every report waited.
    """
    gc.collect()
    gc.freeze()
