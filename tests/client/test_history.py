"""Reading a study's bulletin takes as many steps as it has entries, and prepares nothing that asks somebody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_client import Answered, BulletinReader, Reason, Refusal, User, Wallet, bulletin_reader, history
from askance_client import user as user_module
from askance_client.history import History
from askance_client.transport import documents, server
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    Bulletin,
    Cohort,
    Entry,
    Notice,
    Part,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    StudyPublished,
    StudySpec,
    open_round,
    prepare_round,
)
from askance_protocol.rounds import prepared as module
from tests.client.liar import USER, Liar
from tests.client.people import HERS, answers, enrolled, reasons, run, wallet_at
from tests.protocol.studies import part, round_of, study
from tests.protocol.test_prepared import laplace

NOT_HERS = Cohort(first_user=USER + 1, users=1000)


def entries_of(rounds: int, of: StudySpec) -> list[Entry]:
    """An honest bulletin: each round is closed, and answered."""
    notices: list[Notice] = [StudyPublished(study=of)]
    for number in range(1, rounds + 1):
        spec = round_of(part(), of=of, number=number)
        notices.append(RoundPublished(round=spec))
        notices.append(RoundClosed(round=spec.digest(), reason="target", received=10))
        notices.append(RoundAnswered(round=spec.digest(), tallies=(((6, 4),),)))
    entries, previous = list[Entry](), "0" * 64
    for sequence, notice in enumerate(notices):
        entries.append(Entry(sequence=sequence, previous=previous, notice=notice))
        previous = entries[-1].digest()
    return entries


# ------------------------------------------------------------------------------------------------------------- linear


def copies(extend: Callable[[History, list[Entry]], object], entries: list[Entry]) -> int:
    """Number of rounds that are copied from one state of a bulletin to the next until all entries are read."""
    copied, init = 0, Bulletin.__init__

    def counted(bulletin: Bulletin, *args: Any, **how: Any) -> None:
        nonlocal copied
        init(bulletin, *args, **how)
        copied += len(bulletin.rounds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bulletin, "__init__", counted)
        extend(History(entries[0].notice.study.digest()), entries)  # type: ignore[union-attr]
    return copied


def one_by_one(before: History, entries: list[Entry]) -> None:
    """As version 0.1 did."""
    for entry in entries:
        after = before.extended([entry])
        assert isinstance(after, History)
        before = after


def test_a_bulletin_is_read_in_steps_that_grow_with_its_entries() -> None:
    of = study(simulated=False)
    short, long = entries_of(10, of), entries_of(100, of)

    assert copies(History.extended, long) <= 10 * copies(History.extended, short) <= 1000
    # The control: ten times the entries were a hundred times the work.
    assert copies(one_by_one, long) > 50 * copies(one_by_one, short)


def test_a_history_that_is_read_in_pieces_is_that_of_the_whole() -> None:
    of = study(simulated=False)
    entries = entries_of(7, of)
    pieces: Any = History(of.digest())
    for begin in range(0, len(entries), 5):
        pieces = pieces.extended(entries[begin : begin + 5])
    whole = History(of.digest()).extended(entries)
    assert isinstance(whole, History)

    assert (pieces.bulletin, pieces.heads, list(pieces.rounds)) == (whole.bulletin, whole.heads, list(whole.rounds))
    assert pieces.bulletin == Bulletin().extend(entries)
    assert pieces.extended([]) is pieces


def test_what_is_refused_within_many_entries_changes_nothing() -> None:
    of = study(simulated=False)
    entries = entries_of(3, of)
    bulletin, before = Bulletin().extend(entries[:4]), History(of.digest()).extended(entries[:4])
    assert isinstance(before, History)
    with pytest.raises(ProtocolError, match="does not follow"):
        bulletin.extend([entries[4], entries[6]])

    assert isinstance(before.extended([entries[4], entries[6]]), Refusal)
    assert bulletin == before.bulletin == Bulletin().extend(entries[:4])
    assert isinstance(before.extended(entries[4:]), History)


def test_an_honest_bulletin_of_a_thousand_rounds_is_read() -> None:
    of = study(simulated=False)
    liar = Liar(of.to_json(), [entry.to_json() for entry in entries_of(1000, of)])

    async def read() -> BulletinReader:
        async with liar.server() as way:
            reader = BulletinReader(way, liar.id)
            assert await reader.refresh() is None
            return reader

    reader = run(read())
    assert len(reader.history.rounds) == 1000
    assert len(reader.history.heads) == 3001


class Pieces(Liar):
    """Gives one entry at a time, padded to the length of a piece; head and length are those of that entry."""

    def _bulletin(self, request: httpx.Request) -> dict[str, Any]:
        said = super()._bulletin(request)
        first = said["entries"][:1]
        last = first[0] if first else self.entries[-1]
        return {"head": canonical.digest(last), "length": last["sequence"] + 1, "entries": first}


def heads_read(liar: Liar) -> tuple[Refusal | None, int]:
    """What is said of a bulletin, and how much of it is read, in one look."""

    async def read() -> tuple[Refusal | None, int]:
        async with liar.server() as way:
            reader = BulletinReader(way, liar.id)
            return await reader.refresh(), len(reader.history.heads)

    return run(read())


def test_a_bulletin_that_comes_in_pieces_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    of = study(simulated=False)
    liar = Pieces(of.to_json(), [entry.to_json() for entry in entries_of(4, of)])
    monkeypatch.setattr(bulletin_reader, "_PIECE", 100)
    assert heads_read(liar) == (None, 13)

    # The control: one who takes a piece for the whole.
    monkeypatch.setattr(bulletin_reader, "_PIECE", 1 << 30)
    assert heads_read(liar) == (None, 1)


def test_a_bulletin_is_not_read_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    of = study(simulated=False)
    liar = Pieces(of.to_json(), [entry.to_json() for entry in entries_of(20, of)])
    monkeypatch.setattr(bulletin_reader, "_PIECE", 100)
    monkeypatch.setattr(bulletin_reader, "MOST_BYTES", 6000)
    refusal, read = heads_read(liar)

    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.passing, read) == (Reason.UNREADABLE, False, 0)
    assert len(liar.requests) < 20


# --------------------------------------------------------------------------------------------------- what asks her


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """The parts that were prepared."""
    done, prepare = list[Part](), module._prepare_part

    def counting(one: Part, schema: Any) -> Any:
        done.append(one)
        return prepare(one, schema)

    monkeypatch.setattr(module, "_prepare_part", counting)
    return done


@pytest.fixture
def wallet(tmp_path: Path) -> Generator[Wallet]:
    opened = wallet_at(tmp_path)
    yield opened
    opened.close()


def many(liar: Liar) -> None:
    """Rounds of many parts: none of the first asks her, one that does has closed, and the last asks her one part."""
    parts = [laplace(denominator, MICRO) for denominator in range(100, 140)]
    for _ in range(3):
        liar.ask(*parts, cohort=NOT_HERS)
    closed = liar.ask(*parts)
    liar.publish({"kind": "closed", "round": closed, "reason": "target", "received": 10})
    liar.ask(*parts)


def test_only_what_asks_her_is_prepared(wallet: Wallet, counted: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Liar.of(study(simulated=False))
    user = User(HERS, wallet)
    enrolled(user, liar)
    many(liar)
    results = answers(user, liar)

    assert [type(result) for result in results] == [Answered]
    assert len(counted) == 1

    # The control: a client that prepares a round when it is published, as that of version 0.1.
    monkeypatch.setattr(history, "open_round", prepare_round)
    answers(user, liar)
    assert len(counted) == 1 + 5 * 40


def test_a_round_that_takes_too_much_work_is_refused_before_any_is_done(wallet: Wallet, counted: list[Part]) -> None:
    liar = Liar.of(study(simulated=False))
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(*[laplace(590 // 2, MICRO)] * 4096)
    [refusal] = answers(user, liar)

    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.UNSOUND_ROUND
    assert "over the limit" in refusal.detail
    assert counted == []
    assert liar.bodies == []


@pytest.mark.parametrize("hers", [True, False])
def test_she_answers_where_her_own_part_is_sound(wallet: Wallet, hers: bool) -> None:
    liar = Liar.of(study(simulated=False))
    user = User(HERS, wallet)
    enrolled(user, liar)
    rounds = (liar.round(part(), part(charge=MICRO - 1), target=target) for target in range(10, 60))
    dealt = (open_round(study(simulated=False), spec) for spec in rounds)
    spec = next(round_.spec for round_ in dealt if (round_.question(USER).part == 1) == hers)
    liar.publish(RoundPublished(round=spec).to_json())

    assert reasons(answers(user, liar)) == ([Reason.UNSOUND_ROUND] if hers else [])
    assert len(liar.bodies) == (not hers)


# --------------------------------------------------------------------------------------------- others of the process


def threads(liar: Liar, user: User) -> set[str]:
    """In which threads entries are read, entries are checked, and parts are prepared."""
    seen, main = set[str](), threading.get_ident()

    def noted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **how: Any) -> Any:
            seen.add(f"{name} {'on the loop' if threading.get_ident() == main else 'apart'}")
            return work(*args, **how)

        return noting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "read_entry", noted("read", documents.read_entry))
        patch.setattr(history, "open_round", noted("checked", history.open_round))
        patch.setattr(module, "_prepare_part", noted("prepared", module._prepare_part))
        answers(user, liar)
    return seen


def test_what_takes_long_takes_it_from_nobody_else(wallet: Wallet, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Liar.of(study(simulated=False))
    user = User(HERS, wallet)
    enrolled(user, liar)
    many(liar)
    assert threads(liar, user) == {"read apart", "checked apart", "prepared apart"}

    # The control: all of it where other users wait.
    other = Liar.of(study(simulated=False, title="Another"))
    many(other)
    for place in (server, bulletin_reader, user_module):
        monkeypatch.setattr(place, "_APART", 1 << 40)
    assert threads(other, user) == {"read on the loop", "checked on the loop", "prepared on the loop"}
