"""Options of commands whose work can be shared: who does it, and where."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from askance_lab.commands.shared.completion import words
from askance_lab.engines import WorkerPool, engine_names
from askance_lab.engines import engine as engine_of
from askance_protocol.errors import UsageError

EngineOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        autocompletion=words(*engine_names()),
        help=f"What shares the work: {', '.join(engine_names())}. No number depends on it.",
    ),
]
WorkersOption: TypeAlias = Annotated[
    int, typer.Option("--workers", min=1, max=256, help="Number of processes that share the work on this machine.")
]
ClusterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Scheduler of a running cluster, such as tcp://10.0.0.1:8786, for --engine dask: its workers share the "
        "work.  [default: a cluster of --workers processes on this machine]",
    ),
]


def shared_work(engine: str, workers: int, cluster: str | None) -> WorkerPool:
    """The engine of these options, to be used in a `with` statement."""
    if cluster is not None and workers > 1:
        raise UsageError("has workers of its own", where="--cluster", remedy="leave out --workers")
    return engine_of(engine, workers, cluster)
