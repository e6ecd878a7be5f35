"""What tests of damage share: a ledger with something in every table, and every small change to a row of it.

Which changes there are is read from the tables. How a hand makes them, past all that would stop it, differs by keeper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np

from askance_protocol.budget import MICRO
from askance_protocol.rounds import RoundAnswered, StudyEnded
from askance_server.ledger import Ledger, Ticket, UserKind
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

ENDED, RUNNING = study(nonce="a" * 32), study(nonce="b" * 32, live=10)


def fill(ledger: Ledger) -> None:
    """Something in every table, two rows where there can be two."""
    ledger.enrol(50, 2 * MICRO, UserKind.REAL, ticket=Ticket("0f" * 16, 60))
    ledger.enrol(50, 3 * MICRO, UserKind.SIMULATED, ticket=Ticket("a1" * 16, 60))
    ledger.revoke(3)
    ledger.revoke(60)
    ledger.check_writable()
    for spec in (ENDED, RUNNING):
        publish(ledger, spec, round_of(part(), of=spec))
        (id_, _), *_ = ledger.bulletin(spec.digest()).rounds
        for first in (0, 40):
            users = np.arange(first, first + 20, dtype=np.uint64)
            ledger.charge(id_, users, (users % np.uint64(2)).astype(np.uint32))
    (id_, _), *_ = ledger.bulletin(ENDED.digest()).rounds
    bulletin = ledger.close_round(id_, "operator")
    tallies = tuple(tally.to_rows() for tally in ledger.tallies(id_))
    bulletin = ledger.append(ENDED.digest(), bulletin.next(RoundAnswered(round=id_, tallies=tallies)))
    ledger.append(ENDED.digest(), bulletin.next(StudyEnded(state="finished", reason="")))


class TakenError(Exception):
    """Another row has this value already, where no two may have it."""


class Hand(ABC):
    """Changes rows of one ledger, past every constraint but that no two rows are named alike."""

    @abstractmethod
    def columns(self, table: str) -> list[str]:
        """The columns of a table."""

    @abstractmethod
    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Its rows: where each stands, which `change` and `delete` take, and its values."""

    @abstractmethod
    def change(self, table: str, column: str, place: Any, value: Any) -> None:
        """Give a row another value; raises `TakenError`."""

    @abstractmethod
    def delete(self, table: str, place: Any = None) -> None:
        """Delete a row, or all of them."""

    @abstractmethod
    def insert(self, table: str, values: list[Any]) -> None:
        """Insert a row."""


Damage = Callable[[Hand], object]


def damages(hand: Hand, table: str) -> list[tuple[str, Damage]]:
    """Each column of the first and the last row changed, rows deleted, and a row inserted."""
    return list(_damages(hand, table))


def _damages(hand: Hand, table: str) -> Iterator[tuple[str, Damage]]:
    names, rows = hand.columns(table), hand.rows(table)
    for which, (place, *row) in (("first", rows[0]), ("last", rows[-1])):
        for name, value in zip(names, row, strict=True):
            yield f"{name} of the {which} row", partial(_change, table=table, column=name, place=place, value=value)
        yield f"the {which} row deleted", lambda hand, place=place: hand.delete(table, place)
    yield "all rows deleted", lambda hand: hand.delete(table)
    # What identifies a row may not come twice: each value another one, and numbers far away.
    new = [far(value) for value in rows[-1][1:]]
    yield "a row inserted", lambda hand: hand.insert(table, new)


def _change(hand: Hand, table: str, column: str, place: Any, value: Any) -> None:
    """Change a value; where the next one is another row's already, by more."""
    try:
        hand.change(table, column, place, other(value))
    except TakenError:
        hand.change(table, column, place, far(value))


def other(value: Any) -> Any:
    """A value that differs by as little as can be."""
    match value:
        case int() | Decimal():
            return value + 1
        case datetime():
            return value + timedelta(microseconds=1)
        case str():
            return ("b" if value[:1] == "a" else "a") + value[1:]
        case _:
            return bytes([value[0] ^ 1]) + value[1:]


def far(value: Any) -> Any:
    """A value that no row has."""
    return value + FAR if isinstance(value, int) else other(value)


FAR: Final = 1_000
