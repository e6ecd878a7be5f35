"""What each process of a Dask cluster of this machine loads when it starts: Ctrl-C is for the one that started it."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask calls it so
    """Leave Ctrl-C to the process that ends the cluster: here it would print where the work was interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
