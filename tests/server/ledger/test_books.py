"""Books of rounds say what a dictionary says, with few reports and many, open and put away; closed ones leave memory.

The definition is a dictionary from users to outcomes. Late and repeated reports are answered alike before a round is
closed, after, and after a start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.rounds import Bulletin, Cause, RoundAnswered, RoundPublished, RoundState, StudyEnded
from askance_server.ledger import MemoryLedger, Verdict, books, projections
from askance_server.ledger.books import ClosedBook, OpenBook, Shelf
from askance_server.ledger.outlines import StudyOutline
from askance_server.ledger.sqlite import SqliteLedger
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

BLOCK = 64
USERS = 10 * BLOCK + 7
STUDY = study()
ID = STUDY.digest()
ROUND = round_of(part(), of=STUDY)
A = ROUND.digest()

Book = OpenBook | ClosedBook


def filled(reports: dict[int, int], outcomes: int, group: int) -> OpenBook:
    """A book into which these reports came, so many at a time."""
    book, users = OpenBook.of(outcomes), list(reports)
    for first in range(0, len(users), group):
        some = np.array(users[first : first + group], np.uint64)
        book.adding(some, np.array([reports[user] for user in some.tolist()], np.uint32), USERS)()
    return book


def differences(book: Book, reports: dict[int, int]) -> list[int]:
    """Users of whom a book says another thing than the dictionary, asked for together and one by one."""
    users = np.random.default_rng(2).permutation(USERS).astype(np.uint64)
    marks: list[int] = book.found(users).tolist()
    wrong = [user for user, mark in zip(users.tolist(), marks, strict=True) if mark != reports.get(user, -1) + 1]
    return wrong + [user for user in users[:50].tolist() if book.has(user) is not (user in reports)]


@pytest.mark.parametrize("outcomes", [2, 300, 70_000])
@pytest.mark.parametrize("count", [0, 1, 5, 99, 100, 101, 2 * BLOCK, USERS])
def test_a_book_says_what_a_dictionary_says(
    count: int, outcomes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "FEW", 100)
    monkeypatch.setattr(books, "BLOCK", BLOCK)
    monkeypatch.setattr(books, "_REMAINDERS", 100)
    rng = np.random.default_rng(count)
    reports = {int(user): int(user) % outcomes for user in rng.permutation(USERS)[:count]}

    opened = filled(reports, outcomes, 60)
    shelf = Shelf(tmp_path)
    closed, kept = ClosedBook.of(opened, shelf), ClosedBook.of(opened, Shelf())
    for book in (opened, closed, kept):
        assert book.received == count
        assert differences(book, reports) == []
    # The control: one report less is missed.
    if reports:
        assert differences(closed, {user: told for user, told in reports.items() if user != max(reports)})
    assert list(tmp_path.iterdir()) == []
    shelf.close()


def test_what_finds_no_place_on_disk_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = {user: user & 1 for user in range(0, USERS, 2)}
    writes: Iterator[int] = iter(range(100))
    real: Callable[..., int] = os.pwrite

    def full(descriptor: int, block: bytes, place: int) -> int:
        # Every other block finds the disk full, once after a part of it.
        number = next(writes)
        if number % 2:
            if number == 1:
                return real(descriptor, block[:10], place)
            raise OSError(28, "No space left on device")
        return real(descriptor, block, place)

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(books, "BLOCK", BLOCK)
    closed = ClosedBook.of(filled(reports, 2, USERS), Shelf(tmp_path))

    assert next(writes) > 1
    assert differences(closed, reports) == []


def answers(ledger: Any) -> list[int]:
    """Verdicts on the same again, another one, a late one, one that is outside and one of nobody."""
    users = np.array([3, 4, 50, 5, 5000], np.uint64)
    verdicts: list[int] = ledger.charge(A, users, np.array([1, 1, 1, 9, 1], np.uint32)).tolist()
    return verdicts


LATE = [Verdict.REPEATED, Verdict.CONFLICT, Verdict.NOT_OPEN, Verdict.OUTSIDE, Verdict.UNKNOWN_USER]


def told(ledger: Any) -> list[int]:
    return [charge.micro_epsilon for user in (3, 50) for charge in ledger.standing(user).charges]


@pytest.mark.parametrize("few", [10, 1000])
def test_late_reports_are_answered_as_before_when_the_book_is_away_and_after_a_start(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "FEW", few)
    ledger = SqliteLedger.open(tmp_path)
    ledger.enrol(200, MICRO)
    publish(ledger, STUDY, ROUND)
    users = np.arange(40, dtype=np.uint64)
    ledger.charge(A, users, (users & np.uint64(1)).astype(np.uint32))
    [tally] = ledger.tallies(A)

    # Closed, answered and ended; then after a start.
    bulletin = ledger.close_round(A, "operator")
    assert not ledger._books
    assert answers(ledger) == LATE
    for notice in (
        RoundAnswered(round=A, tallies=(tuple(map(tuple, tally.to_rows())),)),
        StudyEnded(state="cancelled", reason="enough", cause=Cause.CANCELLED),
    ):
        bulletin = ledger.append(ID, bulletin.next(notice))
    entries = ledger.entries(ID)
    for _ in range(2):
        assert answers(ledger) == LATE
        assert (told(ledger), ledger.received(A)) == ([MICRO], 40)
        assert (ledger.bulletin(ID), ledger.state(A)) == (bulletin, RoundState.ANSWERED)
        assert (ledger.studies(), ledger.unfinished(), ledger.entries(ID)) == ([ID], [], entries)
        assert ledger.round(A).spec == ROUND
        assert ledger.verify() == []
        ledger.close()
        ledger = SqliteLedger.open(tmp_path)
        # Nothing of it is in memory before somebody asks.
        assert [ledger._books, ledger._shelved, ledger._specs] == [{}, {}, {}]
    ledger.close()


def test_few_reports_of_a_closed_round_are_read_without_preparing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account goes through all rounds, and to prepare a round takes ten times as long as to read few reports."""
    ledger = SqliteLedger.open(tmp_path)
    ledger.enrol(200, MICRO)
    publish(ledger, STUDY, ROUND)
    users = np.arange(40, dtype=np.uint64)
    ledger.charge(A, users, (users & np.uint64(1)).astype(np.uint32))
    ledger.close_round(A, "operator")
    ledger.close()
    ledger = SqliteLedger.open(tmp_path)

    def prepared(id_: str) -> Any:
        raise AssertionError(id_)

    monkeypatch.setattr(ledger, "round", prepared)
    # The control: of many reports, which are held in the narrowest type, it is.
    with monkeypatch.context() as many:
        many.setattr(projections, "FEW", 39)
        with pytest.raises(AssertionError, match=A):
            ledger._book(A)
    assert [user for user in range(200) if ledger._book(A).has(user)] == list(range(40))
    assert ledger._book(A).found(users[:3]).tolist() == [1, 2, 1]
    ledger.close()


def test_the_book_of_a_study_that_is_cancelled_leaves_memory() -> None:
    ledger = MemoryLedger()
    ledger.enrol(200, MICRO)
    bulletin = publish(ledger, STUDY, ROUND)
    ledger.charge(A, np.array([3, 4], np.uint64), np.array([1, 0], np.uint32))
    assert ledger._books

    ledger.append(ID, bulletin.next(StudyEnded(state="cancelled", reason="enough", cause=Cause.CANCELLED)))

    assert not ledger._books
    assert answers(ledger) == LATE


# ------------------------------------------------------------------------------------------------------------ outlines


def ended(state: Any, cause: Cause | None) -> list[Any]:
    """The entries of a study with a round that was answered and one that was not."""
    second = round_of(part(), of=STUDY, number=2)
    ledger = MemoryLedger()
    ledger.enrol(10, MICRO)
    bulletin = publish(ledger, STUDY, ROUND)
    bulletin = ledger.close_round(A, "operator")
    bulletin = ledger.append(ID, bulletin.next(RoundAnswered(round=A, tallies=(((1, 2),),))))
    bulletin = ledger.append(ID, bulletin.next(RoundPublished(round=second)))
    reason = 'It says "state":"finished"},"previous" and \\ more.'
    ledger.append(ID, bulletin.next(StudyEnded(state=state, reason=reason, cause=cause)))
    return ledger.entries(ID)


@pytest.mark.parametrize(
    ("state", "cause"),
    [("cancelled", Cause.CANCELLED), ("failed", Cause.STRATEGY), ("finished", None), ("failed", None)],
)
def test_an_outline_is_what_reading_all_entries_gives(state: str, cause: Cause | None) -> None:
    entries = ended(state, cause)
    outline = StudyOutline()
    for entry in entries:
        outline.append(entry.digest(), entry.to_bytes())

    read = Bulletin().extend(entries)
    found = outline.bulletin()
    assert (found.head, found.length, found.state, found.rounds) == (read.head, read.length, read.state, read.rounds)
    assert outline.places == [(A, 1), (read.rounds[1][0], 4)]


@pytest.mark.parametrize("place", range(5))
def test_an_entry_that_is_not_what_was_written_is_no_outline(place: int) -> None:
    entries = ended("cancelled", Cause.CANCELLED)
    bodies = [(entry.digest(), entry.to_bytes()) for entry in entries]
    digest, body = bodies[place]
    for wrong in ((digest, body.replace(b"1", b"2", 1)), ("0" * 64, body), bodies[place - 1], (digest, body[:-1])):
        outline = StudyOutline()
        for kept in bodies[:place]:
            outline.append(*kept)
        with pytest.raises(ValueError, match="entry"):
            outline.append(*wrong)
