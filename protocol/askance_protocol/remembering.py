"""What is worked out once and remembered, within a bound on memory.

`functools.lru_cache` bounds how many results are kept. But who publishes rounds chooses what a client has to work out,
and each result may have megabytes: so here their sizes count.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """A function of one value whose results are kept: so many bytes of them, those that were asked for last."""

    def __init__(self, work: Callable[[K], V], size: Callable[[V], int], most: int) -> None:
        self._work, self._size, self._most = work, size, most
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._held = 0
        self._alone = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes of what is kept."""
        return self._held

    def __call__(self, key: K) -> V:
        """The result, as it is kept, or worked out. One that is larger than the bound is not kept."""
        with self._alone:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        # Outside the lock: it may take long, and twice does no harm.
        made = self._work(key)
        size = self._size(made)
        with self._alone:
            if size <= self._most and key not in self._kept:
                self._kept[key] = made
                self._held += size
                while self._held > self._most:
                    _, gone = self._kept.popitem(last=False)
                    self._held -= self._size(gone)
        return made
