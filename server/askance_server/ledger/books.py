"""Books of rounds: who has reported what, by user number.

Theory of operation
-------------------
*The book of an open round* is asked with every group of reports, and grows by it. With few reports it is two columns,
in the order of users: a thousand rounds that few have answered yet take no more than their reports. From `FEW` on it is
an array over all users, in which each report is found at once.

*The book of a round that takes no more reports* is asked by late and repeated reports and by accounts, seldom, and
never changes. So it leaves memory: its columns are written in blocks to a file without a name (`Shelf`), which is gone
with the process, and the first user of each block is what is kept. A look at one user reads one block.

*The log is the truth.* A book that is not there is read from the log.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers
from askance_server.ledger.base import OutcomeColumn, Users

FEW: Final = 1 << 15
"""Reports up to which the book of an open round is columns: to put a group in between takes as long as there are."""
BLOCK: Final = 1 << 12
"""Reports of a block on the shelf."""
_REMAINDERS: Final = 1 << 10
_TOLD_APART: Final = 1 << 9
"""Reports of a closed book up to which the remainders of users' numbers tell most of them apart."""
_PIECE: Final = 1 << 18
"""Users of an array who are looked at in one go: what is done in one go keeps other threads waiting."""

Marks = NDArray[np.unsignedinteger[Any]]
"""Outcome + 1 for each of some users, and 0 for who has not reported."""
Item = TypeVar("Item", bound=np.generic)


@dataclass(slots=True)
class OpenBook:
    """The reports of a round that takes more."""

    width: type[np.unsignedinteger[Any]]
    """The type that holds an outcome + 1."""
    received: int = 0
    _users: Users = field(default_factory=lambda: np.zeros(0, np.uint64))
    """Few reports: those who have reported, ascending."""
    _marks: Marks = field(default_factory=lambda: np.zeros(0, np.uint8))
    _all: Marks | None = None
    """Many: by user number. It is longer than there are users (`lengthen`)."""

    @classmethod
    def of(cls, outcomes: int) -> OpenBook:
        """A book without reports, for outcomes below this number, in the narrowest type."""
        width = np.uint8 if outcomes < 1 << 8 else np.uint16 if outcomes < 1 << 16 else np.uint32
        return cls(width, _marks=np.zeros(0, width))

    def found(self, users: Users) -> Marks:
        """What each of these users has reported."""
        if self._all is not None:
            return self._all[users.astype(np.intp)]
        return _matched(users, self._users, self._marks)

    def has(self, user: int) -> bool:
        """Whether this user has reported."""
        if self._all is not None:
            return user < len(self._all) and bool(self._all[user])
        place = int(np.searchsorted(self._users, np.uint64(user)))
        return place < len(self._users) and int(self._users[place]) == user

    def lengthen(self, enrolled: int) -> None:
        """Have room for so many users."""
        if self._all is not None:
            self._all = lengthened(self._all, enrolled)

    @property
    def beyond(self) -> int:
        """A number above those of all who have reported."""
        return len(self._all) if self._all is not None else int(self._users[-1]) + 1 if len(self._users) else 0

    def adding(self, users: Users, outcomes: OutcomeColumn, enrolled: int) -> Callable[[], None]:
        """Note reports of users who have not reported, each once: what is left to do allocates nothing."""
        marks, rows = (outcomes + 1).astype(self.width), users.astype(np.intp)
        received = self.received + len(users)
        if self._all is None and received <= FEW:
            order = np.argsort(users, kind="stable")
            places = np.searchsorted(self._users, users[order])
            columns = np.insert(self._users, places, users[order]), np.insert(self._marks, places, marks[order])

            def put() -> None:
                self._users, self._marks = columns
                self.received = received

            return put
        if self._all is not None:
            array = self._all
        else:
            array = np.zeros(enrolled, self.width)
            array[self._users.astype(np.intp)] = self._marks
        none = np.zeros(0, np.uint64), np.zeros(0, self.width)

        def mark() -> None:
            array[rows] = marks
            self._all = array
            self._users, self._marks = none
            self.received = received

        return mark

    def columns(self) -> Iterator[tuple[Users, Marks]]:
        """Who has reported, ascending, and what: some at a time."""
        if self._all is None:
            yield self._users, self._marks
            return
        for first in range(0, len(self._all), _PIECE):
            some = self._all[first : first + _PIECE]
            rows = np.flatnonzero(some)
            if len(rows):
                yield rows.astype(np.uint64) + np.uint64(first), some[rows]


class Shelf:
    """Where the books of closed rounds are: a file without a name in this directory; in memory where there is none."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._descriptor: int | None = None
        self._kept: dict[int, bytes] = {}
        """What has no place in the file, by where it would begin."""
        self._end = 0
        self._alone = threading.Lock()
        self._give_back: Callable[[], object] = lambda: None

    def close(self) -> None:
        """Give the file back. From then on its number may be that of another."""
        self._directory = self._descriptor = None
        self._give_back()

    def put(self, block: bytes) -> int:
        """Put a block away; the place where it is."""
        with self._alone:
            place, self._end = self._end, self._end + len(block)
            if not self._written(block, place):
                self._kept[place] = block
            return place

    def _written(self, block: bytes, place: int) -> bool:
        """Whether the block is in the file. If the disk is full, say, what is at stake is memory, and no report."""
        if self._directory is None:
            return False
        try:
            if self._descriptor is None:
                with tempfile.TemporaryFile(dir=self._directory) as file:
                    self._descriptor = os.dup(file.fileno())
                self._give_back = weakref.finalize(self, os.close, self._descriptor)
            return os.pwrite(self._descriptor, block, place) == len(block)
        except OSError:
            return False

    def get(self, place: int, size: int) -> bytes:
        """A block."""
        kept = self._kept.get(place)
        if kept is None and self._descriptor is not None:
            kept = os.pread(self._descriptor, size, place)
        return kept or b""


@dataclass(frozen=True, slots=True, eq=False)
class ClosedBook:
    """The reports of a round that takes no more."""

    shelf: Shelf
    received: int
    width: type[np.unsignedinteger[Any]]
    """The type of a mark."""
    firsts: Users
    """The first user of each block."""
    places: Integers
    """Where each block is."""
    sizes: Integers
    """Reports of each block."""
    of_a_user: str
    """The type of a user's number."""
    among: int = -1
    """A bit for each remainder of their numbers, of few: most of those who have not reported are told by it alone."""

    @classmethod
    def of(cls, book: OpenBook, shelf: Shelf) -> ClosedBook:
        """Put a book away to which nothing is added any more."""
        firsts, places, sizes = list[int](), list[int](), list[int]()
        of_a_user, among = "<u8" if book.beyond > 1 << 32 else "<u4", 0
        for users, marks in book.columns():
            if book.received <= _TOLD_APART:
                remainders = np.zeros(_REMAINDERS, np.bool)
                remainders[users % np.uint64(_REMAINDERS)] = True
                among |= int.from_bytes(np.packbits(remainders, bitorder="little").tobytes(), "little")
            for begin in range(0, len(users), BLOCK):
                mine, told = users[begin : begin + BLOCK], marks[begin : begin + BLOCK]
                firsts.append(int(mine[0]))
                places.append(shelf.put(mine.astype(of_a_user).tobytes() + told.tobytes()))
                sizes.append(len(mine))
        columns = np.array(firsts, np.uint64), np.array(places, np.int64), np.array(sizes, np.int64)
        few = book.received <= _TOLD_APART
        return cls(shelf, book.received, book.width, *columns, of_a_user, among if few else -1)

    def found(self, users: Users) -> Marks:
        """What each of these users has reported."""
        marks = np.zeros(len(users), self.width)
        blocks = np.searchsorted(self.firsts, users, side="right") - 1
        order = np.argsort(blocks, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
            block = int(blocks[mine[0]]) if len(mine) else -1
            if block >= 0:
                marks[mine] = _matched(users[mine], *self._block(block))
        return marks

    def has(self, user: int) -> bool:
        """Whether this user has reported."""
        if not self.among >> user % _REMAINDERS & 1:
            return False
        block = int(np.searchsorted(self.firsts, np.uint64(user), side="right")) - 1
        if block < 0:
            return False
        users, _ = self._block(block)
        place = int(np.searchsorted(users, np.uint64(user)))
        return place < len(users) and int(users[place]) == user

    def _block(self, number: int) -> tuple[Users, Marks]:
        size, of_a_user = int(self.sizes[number]), np.dtype(self.of_a_user)
        data = self.shelf.get(int(self.places[number]), size * (of_a_user.itemsize + np.dtype(self.width).itemsize))
        users = np.frombuffer(data, of_a_user, size).astype(np.uint64)
        return users, np.frombuffer(data, self.width, size, size * of_a_user.itemsize)


def _matched(users: Users, known: Users, marks: Marks) -> Marks:
    """The marks of these users in two columns, of which the first ascends."""
    if not len(known):
        return np.zeros(len(users), marks.dtype)
    places = np.searchsorted(known, users).clip(max=len(known) - 1)
    return np.where(known[places] == users, marks[places], 0).astype(marks.dtype, copy=False)


def lengthened(array: NDArray[Item], length: int) -> NDArray[Item]:
    """An array of at least this length, padded with zeros; its length doubles if it has to grow."""
    if len(array) >= length:
        return array
    longer = np.zeros(max(length, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
