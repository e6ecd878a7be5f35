"""Kinds of users: who is a person, who is made up, and of whom nobody has said.

A user's kind is said when she enrols and never changes. It is kept as runs of consecutive numbers, because users who
enrol together are of one kind; users before the first run, of version 0.1, are of unknown kind.

*What follows.* A simulated user takes no part in a study of real users: what is learned there is not made up. A gateway
speaks for nobody who is real. A real user may answer in a simulated study herself, with her own token, where her client
has asked her (`askance client --simulated`); but no round waits for her there, unless there is nobody else. Users of
unknown kind take part in either, and gateways may speak for them, as they did in version 0.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Truths


class UserKind(Enum):
    """Whether a user is a person. The value is what ledgers and answers name it."""

    REAL = "real"
    SIMULATED = "simulated"
    UNKNOWN = "unknown"

    @classmethod
    def named(cls, name: object) -> UserKind:
        """The kind that a ledger calls so; a name that is none is damage, which seals tell, and makes nobody real."""
        return next((kind for kind in cls if kind.value == name), cls.UNKNOWN)

    @property
    def code(self) -> int:
        """Its place in this list, for arrays."""
        return _KINDS.index(self)


_KINDS: Final = tuple(UserKind)
_OTHERS: Final = frozenset({UserKind.SIMULATED, UserKind.UNKNOWN})
_PERSONS: Final = frozenset({UserKind.REAL, UserKind.UNKNOWN})


@dataclass(frozen=True, slots=True, eq=False)
class UserKinds:
    """The kind of every user, by user number."""

    _starts: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1, np.uint64))
    """The first user of each run; the first run begins at 0."""
    _codes: NDArray[np.uint8] = field(default_factory=lambda: np.array([UserKind.UNKNOWN.code], np.uint8))

    @property
    def last(self) -> UserKind:
        """The kind of the last run: to enrol another user of it begins no new one."""
        return _KINDS[int(self._codes[-1])]

    def extended(self, first: int, kind: UserKind) -> UserKinds:
        """These, and users of this kind from `first` on."""
        if kind is self.last:
            return self
        # The run at 0 may have nobody: then the new one is in its place.
        before = slice(0, int(np.searchsorted(self._starts, first)))
        starts, codes = self._starts[before], self._codes[before]
        return UserKinds(np.append(starts, np.uint64(first)), np.append(codes, np.uint8(kind.code)))

    def _codes_of(self, users: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """The code of the kind of each of these users."""
        return self._codes[np.searchsorted(self._starts, users, side="right") - 1]

    def are(self, users: NDArray[np.uint64], kinds: Set[UserKind]) -> Truths:
        """Truths for these users: whether each is of one of these kinds."""
        wanted = np.array([kind in kinds for kind in _KINDS], np.bool)
        there = wanted[self._codes]
        if there.all() or not there.any():
            # Whoever they are: most ledgers have users of one kind, and a group of reports is in a hurry.
            return np.broadcast_to(there[0], len(users))
        return wanted[self._codes_of(users)]

    def runs(self, enrolled: int) -> Iterator[tuple[range, UserKind]]:
        """The runs that have users, in ascending order."""
        starts: list[int] = self._starts.tolist()
        for first, end, code in zip(starts, [*starts[1:], enrolled], self._codes.tolist(), strict=True):
            if first < min(end, enrolled):
                yield range(first, min(end, enrolled)), _KINDS[code]

    def counts(self, enrolled: int) -> Mapping[UserKind, int]:
        """Number of users of each kind."""
        counts = dict.fromkeys(UserKind, 0)
        for users, kind in self.runs(enrolled):
            counts[kind] += len(users)
        return counts

    def spoken_for(self, enrolled: int) -> range:
        """The least range with all users for whom a gateway is there: simulated ones, else those of unknown kind."""
        counts = self.counts(enrolled)
        kind = UserKind.SIMULATED if counts[UserKind.SIMULATED] else UserKind.UNKNOWN
        runs = [users for users, of in self.runs(enrolled) if of is kind]
        return range(runs[0].start, runs[-1].stop) if runs else range(0)

    def waited_for(self, enrolled: int, *, simulated: bool) -> Set[UserKind]:
        """The kinds of users whom a round of a study counts on."""
        if not simulated:
            return _PERSONS
        counts = self.counts(enrolled)
        return _OTHERS if any(counts[kind] for kind in _OTHERS) else frozenset(UserKind)


def admitted(*, simulated: bool) -> Set[UserKind]:
    """The kinds of users whose reports a study takes."""
    return frozenset(UserKind) if simulated else _PERSONS
