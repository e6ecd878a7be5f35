"""What each process of a Dask cluster of this machine loads when it starts; for others there is `--preload`."""

from __future__ import annotations

import signal

from askance_protocol.heap import share_one_heap


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask calls it so
    """Leave Ctrl-C to the process that ends the cluster: here it would print where the work was interrupted.

    And share one heap, before there is the thread that works: its own would wipe each array's memory again.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share_one_heap()
