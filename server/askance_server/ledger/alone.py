"""One call at a time: the lock of a ledger that answers from arrays in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Lockable(Protocol):
    """A ledger that has a lock, which a thread may take again while it holds it."""

    @property
    def alone(self) -> threading.RLock:
        """Held while the arrays are read or changed."""
        ...


L = TypeVar("L", bound=Lockable)


def one_at_a_time(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """Let a method run only while no other thread is in one of its object's methods that are marked so."""

    @wraps(method)
    def call(self: L, *arguments: P.args, **named: P.kwargs) -> R:
        with self.alone:
            return method(self, *arguments, **named)

    return call
