"""Dask: a cluster that is running, by its address, or one of this machine's own, which ends with the engine.

A function that carries much is a result of its own in the cluster: a worker gets it once, from another one that has it,
and where all that had it are gone, the scheduler has it made again. One that carries little goes along with each
portion of tasks, and a worker unpacks it once. A task is a few bytes, and so is its result. The cluster of this machine
listens on the loopback only, and speaks TLS with a certificate that nobody else has: what reaches a Dask scheduler runs
code as its user. One worker without a cluster is a thread of this process.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final, TypeVar

from askance_lab.engines.shared.workers import ATTEMPTS, IN_FLIGHT, LostWorkerError, WorkerPool
from askance_protocol.errors import AskanceError, Code, MissingExtraError, UsageError

T = TypeVar("T")
Task = TypeVar("Task")

_PATIENCE: Final = 10.0
"""Seconds in which a cluster has to answer."""
_COUNTED_EVERY: Final = 5.0
"""Seconds between two looks at how many workers a cluster has: they come and go."""
_SMALL: Final = 1 << 16
"""Bytes of a function up to which it goes along with each portion: to wait for it costs more than to send it."""
_PORTIONS: Final = 3
"""Portions of what is left that each worker may have: fewer are cheaper, more let a slow worker have less."""
TOGETHER: Final = 8
"""Tasks of a portion, at most: what a worker loses that is killed."""
_PRELOAD: Final = "askance_lab.engines.shared.dask_worker"
_SETTINGS: Final[Mapping[str, Any]] = {
    "distributed.admin.large-graph-warning-threshold": "1TB",  # a population of rows is sent on purpose
    "distributed.comm.timeouts.connect": f"{_PATIENCE}s",
    "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.worker-saturation": "inf",  # the engine itself sends no more than a few tasks ahead
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}


class ClusterError(AskanceError):
    """A cluster that cannot be used."""

    code = Code.UNREACHABLE


class OtherVersionError(ClusterError):
    """A cluster that may give other numbers than this installation."""

    code = Code.VERSION_MISMATCH


class Dask(WorkerPool):
    """Engine that keeps a few tasks for each worker on their way."""

    has_clusters = True

    def __init__(self, workers: int, cluster: str | None = None) -> None:
        super().__init__(workers)
        self.cluster = cluster
        self._open = ExitStack()
        self._client: Any = None
        self._counted = float("-inf")

    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Results as the cluster completes them."""
        distributed, client = _distributed(), self._connected()
        carried: Any = pickle.dumps(function, pickle.HIGHEST_PROTOCOL)
        if len(carried) > _SMALL:
            carried = client.submit(_unpacked, carried, pure=False)
        waiting: dict[Any, int] = {}
        flow = distributed.as_completed(with_results=True)
        begin = 0
        try:
            while begin < len(tasks):
                while len(waiting) >= IN_FLIGHT * self._size():
                    yield from _next(flow, waiting)
                end = begin + portion(len(tasks) - begin, self._size())
                some = [tasks[index] for index in range(begin, end)]
                # They are one opaque value: Dask would look into containers for more tasks.
                future = client.submit(_done, carried, pickle.dumps(some), pure=False)
                waiting[future] = begin
                begin = end
                flow.add(future)
            while waiting:
                yield from _next(flow, waiting)
        except distributed.KilledWorker:
            raise LostWorkerError.again_and_again() from None
        except distributed.client.FutureCancelledError:
            raise ClusterError("has gone away", where=self._where, remedy="start it again") from None
        finally:
            if waiting:
                client.cancel(list(waiting))

    def close(self) -> None:
        """Leave the cluster; end it if it is this engine's own."""
        self._client = None
        self._open.close()

    # ---------------------------------------------------------------------------------------------------- the cluster

    @property
    def _where(self) -> str:
        return self.cluster or "the cluster of this machine"

    def _size(self) -> int:
        """Number of threads that work."""
        if self.cluster is None:
            return self.workers
        now = time.monotonic()
        if now - self._counted >= _COUNTED_EVERY:
            self._counted = now
            self.workers = max(1, sum(self._connected().nthreads().values()))
        return self.workers

    def _connected(self) -> Any:
        if self._client is None:
            distributed = _distributed()
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            self._open.enter_context(_dask_config().set(_SETTINGS))
            try:
                if self.cluster is None:
                    self._client = self._open.enter_context(distributed.Client(self._own(distributed)))
                else:
                    self._client = self._open.enter_context(_joined(distributed, self.cluster))
                    _check(self._client, self.cluster)
            except BaseException:
                self.close()
                raise
        return self._client

    def _own(self, distributed: Any) -> Any:
        """A cluster of this machine. Its own memory limits would end a worker: the system's do that, as everywhere."""
        several = self.workers > 1
        of_processes = {"host": "127.0.0.1", "security": True, "preload": [_PRELOAD]} if several else {}
        return self._open.enter_context(
            distributed.LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                processes=several,
                dashboard_address=None,
                # Without a dashboard, too, it has a port for pages, of which there are none: not the one of all others.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                **of_processes,
            )
        )


def portion(left: int, workers: int) -> int:
    """How many tasks go out as one: many while many are left, and one by one in the end, so that all end together.

    What Dask spends on a thing that it sends, some milliseconds of the scheduler and of the worker, is the same for
    many tasks as for one.
    """
    return min(TOGETHER, max(1, left // (_PORTIONS * workers)))


def _next(flow: Any, waiting: dict[Any, int]) -> Iterator[tuple[int, Any]]:
    future, results = next(flow)
    yield from enumerate(results, waiting.pop(future))


def _joined(distributed: Any, cluster: str) -> Any:
    try:
        return distributed.Client(cluster, timeout=_PATIENCE)
    except (OSError, TimeoutError, AssertionError):  # the last where a host has no address
        remedy = "start one: dask scheduler, and dask worker with its address"
        raise ClusterError("does not answer", where=cluster, remedy=remedy) from None
    except ValueError:
        remedy = "give it as tcp://HOST:PORT"
        raise UsageError("is no address of a cluster", where=f"--cluster {cluster}", remedy=remedy) from None


def _check(client: Any, cluster: str) -> None:
    """Refuse a cluster without workers, or with another version than this one: it would give other numbers."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
        found = set(client.run(_version).values())
    except TimeoutError:
        raise ClusterError("has no workers", where=cluster, remedy=f"start some: dask worker {cluster}") from None
    except ModuleNotFoundError as error:
        raise ClusterError(f"cannot load {error.name}", where=cluster, remedy="install askance there") from None
    if found != {_version()}:
        raise OtherVersionError(
            f"has askance {', '.join(sorted(found))}", where=cluster, remedy=f"install {_version()} there, as here"
        )


def _distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415 - belongs to an extra, and is slow to load
    except ImportError:
        raise MissingExtraError.of("distributed", "dask") from None
    untyped: Any = distributed
    return untyped


def _dask_config() -> Any:
    import dask.config  # noqa: PLC0415 - belongs to an extra

    untyped: Any = dask.config
    return untyped


# ------------------------------------------------------------------------------------------------------ in a worker


def _unpacked(function: bytes) -> Callable[[Any], Any]:
    return pickle.loads(function)  # noqa: S301 - from the process whose cluster this is


@lru_cache(maxsize=4)
def _remembered(function: bytes) -> Callable[[Any], Any]:
    return _unpacked(function)


def _done(carried: bytes | Callable[[Any], Any], tasks: bytes) -> list[Any]:
    function = _remembered(carried) if isinstance(carried, bytes) else carried
    return list(map(function, pickle.loads(tasks)))  # noqa: S301 - as above


def _version() -> str:
    return version("askance")


ENGINE: Final = Dask
