"""Sequences and mappings that only grow: a longer one shares what it has in common with the one before.

A history that is copied for each of its entries takes a time that grows with its square. Here what is appended is
copied, and nothing else; and each stays what it was, whatever is appended to it later, by whichever thread. Where two
go on from the same one, the second copies it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")
Key = TypeVar("Key")

_ALONE: Final = threading.Lock()


class Grown(Sequence[T]):
    """A sequence; `plus` makes a longer one."""

    __slots__ = ("_length", "_shared")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._shared = list(items)
        self._length = len(self._shared)

    def plus(self, items: Iterable[T]) -> Grown[T]:
        """These, and behind them those."""
        new, longer = list(items), Grown[T]()
        with _ALONE:
            longer._shared = self._shared if len(self._shared) == self._length else self._shared[: self._length]
            longer._shared += new
            longer._length = len(longer._shared)
        return longer

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return self._shared[: self._length][index] if index.step else self._shared[slice(*index.indices(len(self)))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._shared[index if index >= 0 else index + self._length]

    def __iter__(self) -> Iterator[T]:
        return islice(self._shared, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grown) and list(self) == list(other)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- compared item by item, whatever they are

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Grown({list(self)!r})"


class GrownMapping(Mapping[Key, T]):
    """A mapping in the order of its keys; `plus` makes one with more of them."""

    __slots__ = ("_length", "_shared")

    def __init__(self, items: Mapping[Key, T] | None = None) -> None:
        self._shared = {key: (place, item) for place, (key, item) in enumerate((items or {}).items())}
        self._length = len(self._shared)

    def plus(self, items: Mapping[Key, T]) -> GrownMapping[Key, T]:
        """These, and those of other keys."""
        longer = GrownMapping[Key, T]()
        with _ALONE:
            shared = self._shared
            if len(shared) != self._length or not shared.keys().isdisjoint(items):
                shared = dict(islice(shared.items(), self._length))
            for key, item in items.items():
                shared[key] = (shared[key][0] if key in shared else len(shared), item)
            longer._shared, longer._length = shared, len(shared)
        return longer

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: Key) -> T:
        place, item = self._shared[key]
        if place >= self._length:
            raise KeyError(key)
        return item

    def __iter__(self) -> Iterator[Key]:
        return iter([*islice(self._shared, self._length)])

    def __repr__(self) -> str:
        return f"GrownMapping({dict(self)!r})"


NOTHING: Final[Grown[Any]] = Grown()
