"""What she has read of a study is stored when she has read it: a second history is noticed, also before she answers."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from askance_client import Answered, BulletinReader, Identity, Pin, Reason, Result, User, Wallet, WalletFile
from askance_client.history import History
from askance_client.pace import AT_ONCE
from askance_protocol.budget import MICRO
from askance_protocol.rounds import StudySpec
from askance_protocol.schema import LabelField, Schema
from tests.client.liar import TOKEN, URL, USER, Liar, problem
from tests.client.people import HERS, OTHERS, answers, enrolled, reasons, run, wallet_at
from tests.protocol.studies import part, study

OTHER = Schema(fields=(LabelField(name="other"),))


def liar_of(spec: StudySpec) -> Liar:
    asked = Liar.of(spec)
    asked.ask(part())
    return asked


@pytest.fixture
def liar() -> Liar:
    return liar_of(study(simulated=False, cap=4 * MICRO))


def reads_and_is_shown_another(folder: Path, liar: Liar) -> list[Result]:
    """She reads a history and is kept from answering; in her next life she is shown another one. What she does then."""
    with closing(wallet_at(folder)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        liar.says["me"] = lambda _: problem(404, "not-found")
        assert reasons(answers(user, liar)) == [Reason.UNREADABLE]
        assert wallet.reports == {}
    liar.says.clear()
    liar.rewrite(1, lambda notice: notice["round"].update(target=11))
    with closing(wallet_at(folder)) as wallet:
        return answers(User(HERS, wallet, pace=AT_ONCE), liar)


def test_a_second_history_between_reading_and_answering_is_refused(tmp_path: Path, liar: Liar) -> None:
    assert reasons(reads_and_is_shown_another(tmp_path, liar)) == [Reason.TWO_HISTORIES]
    assert liar.bodies == []


def test_where_only_what_is_answered_is_stored_it_goes_unnoticed(
    tmp_path: Path, liar: Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: version 0.1 stored how far she had read together with her report."""

    async def as_before(user: User, history: History) -> Pin | None:
        return user.wallet.pin(history.id)

    monkeypatch.setattr(User, "_pin", as_before)

    assert [type(each) for each in reads_and_is_shown_another(tmp_path, liar)] == [Answered]


def test_it_is_stored_before_anything_else_is_asked_of_the_server(tmp_path: Path, liar: Liar) -> None:
    def looked(_: object) -> None:
        with closing(sqlite3.connect(tmp_path / "wallet")) as db:
            on_disk.extend(db.execute("SELECT study, length, head FROM heads ORDER BY length DESC LIMIT 1"))

    on_disk: list[tuple[object, ...]] = []
    liar.says["me"] = looked
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        answers(user, liar)

    assert on_disk == [(liar.id, 2, liar.head)]


@pytest.mark.parametrize("spec", [study(simulated=True), study(simulated=False, example=OTHER)])
def test_also_of_a_study_that_she_does_not_answer(tmp_path: Path, spec: StudySpec) -> None:
    liar = liar_of(spec)
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        answers(user, liar)
        liar.rewrite(1, lambda notice: notice["round"].update(target=11))

        assert reasons(answers(user, liar)) == [Reason.TWO_HISTORIES]


def test_a_history_of_which_the_end_is_missing_is_refused(tmp_path: Path, liar: Liar) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        answers(user, liar)
        del liar.entries[-1]

        assert reasons(answers(user, liar)) == [Reason.TWO_HISTORIES]


def test_two_processes_with_one_wallet_that_are_shown_two_histories_find_it_out(tmp_path: Path, liar: Liar) -> None:
    """Both have looked before either has stored what it read."""

    async def both(one: User, other: User) -> list[list[Result]]:
        async with liar.server() as first, liar.server() as second:
            readers = BulletinReader(first, liar.id), BulletinReader(second, liar.id)
            await readers[0].refresh()
            liar.rewrite(1, lambda notice: notice["round"].update(target=11))
            await readers[1].refresh()
            answered = (user.answer(reader, refresh=False) for user, reader in zip((one, other), readers, strict=True))
            return list(await asyncio.gather(*answered))

    with closing(wallet_at(tmp_path)) as one, closing(wallet_at(tmp_path)) as other:
        enrolled(User(HERS, one), liar)
        liar.says["me"] = lambda _: problem(404, "not-found")
        results = run(both(User(HERS, one, pace=AT_ONCE), User(OTHERS, other, pace=AT_ONCE)))

    assert sorted(map(reasons, results)) == [[Reason.TWO_HISTORIES], [Reason.UNREADABLE]]


def test_what_one_user_of_a_file_has_read_costs_the_others_nothing(tmp_path: Path) -> None:
    """A write for each entry, not for each user and entry."""

    async def all_of_them(file: WalletFile) -> None:
        async with liar.server() as server:
            reader = BulletinReader(server, liar.id)
            for owner in range(20):
                await User(HERS, Wallet(file, owner), simulated=True, pace=AT_ONCE).answer(reader)

    liar = liar_of(study(simulated=True))
    liar.says["me"] = lambda _: problem(404, "not-found")
    said: list[str] = []
    with closing(WalletFile.open(tmp_path / "wallets")) as file:
        file.add_all([(owner, MICRO, Identity(URL, USER, TOKEN)) for owner in range(20)])
        file._db.set_trace_callback(said.append)
        run(all_of_them(file))
        file._db.set_trace_callback(None)
        assert file.pin(liar.id) == Pin(2, liar.head)

    assert len({each for each in said if each.startswith("INSERT INTO heads")}) == 2
    assert said.count("BEGIN IMMEDIATE") == 1
