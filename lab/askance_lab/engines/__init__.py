"""Engines: run tasks in this process, in several, or with Dask. An engine is a file here, found by its name.

Theory of operation
-------------------
A task is a value, and the function that runs it belongs to a module, so that both can be sent to another process. What
a task draws comes from a stream that the task itself names (by a seed, or a round and a block of users), never from the
worker. So a seed gives the same numbers whatever the engine, the number of workers and the order in which they finish.

Worker processes start by spawn, when they get their first tasks, and once: they serve every call until the engine is
closed. An engine is therefore opened for a whole run:

    with engine("local", workers=4) as workers:
        for tally in workers(count, blocks):
            ...

What a function carries (a partial's arguments, the fields of an object that is called) is sent to each worker once, and
each task when it is due: so what all tasks share belongs to the function. Only some tasks for each worker are on their
way at a time. A worker that is killed changes nothing: its tasks are done again, by the streams that they name.

An engine file ends with `ENGINE`, which builds its `WorkerPool` from their number and, where it says that it has
clusters, the address of one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

from askance_lab.engines.shared.workers import Engine, LostWorkerError, WorkerPool
from askance_protocol import discovery
from askance_protocol.errors import UsageError
from askance_protocol.text import one_of, quoted

__all__ = ["MOST_WORKERS", "Engine", "LostWorkerError", "WorkerPool", "engine", "engine_names"]

MOST_WORKERS = 256


def engine_names() -> list[str]:
    """Names of all engines: the files of this folder."""
    return discovery.names(sys.modules[__name__])


def engine(name: str = "local", workers: int = 1, cluster: str | None = None) -> WorkerPool:
    """Engine of this name, with workers of its own or those of a cluster that is running.

    Its processes start with the first tasks; leave its `with` block to end them.
    """
    if name not in engine_names():
        remedy = one_of(name, engine_names())
        raise UsageError(f"{quoted(name)} is not an engine", where="engine", remedy=remedy)
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageError(f"{workers} is not from 1 to {MOST_WORKERS}", where="workers", remedy="give fewer")
    build: Callable[..., WorkerPool] = import_module(f"{__name__}.{name}").ENGINE
    if cluster is None:
        return build(workers)
    if not getattr(build, "has_clusters", False):
        raise UsageError("is not for this engine", where="--cluster", remedy="use --engine dask")
    return build(workers, cluster)
