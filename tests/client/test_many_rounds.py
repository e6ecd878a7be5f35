"""Work does not grow with the square of the rounds: what was read is not read again for each further entry."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from askance_client import Identity, ReportState, User, Wallet, WalletFile
from askance_client.history import History
from askance_protocol import canonical
from askance_protocol.rounds import read_entry
from tests.client.liar import USER, Liar
from tests.client.people import HERS, wallet_at
from tests.protocol.studies import part, study

STUDY = "5" * 64
HEADS = [f"{number:064x}" for number in range(500)]


@pytest.fixture
def wallet(tmp_path: Path) -> Generator[Wallet]:
    opened = wallet_at(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each query has given."""
    counted, query = list[int](), WalletFile.rows

    def noted(file: WalletFile, *given: Any) -> list[tuple[Any, ...]]:
        found = query(file, *given)
        counted.append(len(found))
        return found

    monkeypatch.setattr(WalletFile, "rows", noted)
    return counted


def grown(wallet: Wallet, rows: list[int], length: int) -> int:
    """Rows that are read while a history grows by a hundred entries, from this length on."""
    assert wallet.note_history(STUDY, HEADS[:length])
    rows.clear()
    for upto in range(length, length + 100):
        assert wallet.note_history(STUDY, HEADS[: upto + 1])
    assert list(wallet.heads(STUDY).values())[: length + 100] == HEADS[: length + 100]
    return sum(rows) - length


def test_to_note_an_entry_takes_as_much_of_a_long_history_as_of_a_short_one(
    wallet: Wallet, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = grown(wallet, rows, 10), grown(wallet, rows, 210)

    assert long == short
    # The control: who forgets what was compared reads it all again.
    monkeypatch.setattr(WalletFile, "_noted", property(lambda _: {}, lambda *_: None), raising=False)
    assert grown(wallet, rows, 310) > 10 * short


def test_what_was_compared_is_compared_again_when_another_program_has_written(wallet: Wallet, tmp_path: Path) -> None:
    assert wallet.note_history(STUDY, HEADS[:2])
    other = Wallet.open(tmp_path / "wallet")
    assert other.note_history(STUDY, HEADS[:5])
    other.close()

    assert not wallet.note_history(STUDY, HEADS[:4])
    assert not wallet.note_history(STUDY, [*HEADS[:4], "f" * 64, *HEADS[5:7]])
    assert wallet.note_history(STUDY, HEADS[:6])
    assert not wallet.note_history(STUDY, ["f" * 64, *HEADS[1:5]])
    assert list(wallet.heads(STUDY).values()) == HEADS[:6]


@pytest.mark.parametrize("rounds", [3, 60])
def test_her_wallet_is_asked_once_for_all_rounds(wallet: Wallet, rows: list[int], rounds: int) -> None:
    liar = Liar.of(study(simulated=False))
    for _ in range(rounds):
        liar.ask(part())
    history = History(liar.id).extended([read_entry(canonical.dumps(entry)) for entry in liar.entries])
    assert isinstance(history, History)
    wallet.enrolled(Identity("http://askance.test", USER, "token"))
    for id_ in list(history.rounds)[:2]:
        wallet.draw_and_store(history.id, id_, 1000, lambda: b"{}")
    reader: Any = type("Read", (), {"history": history, "ended": False})()
    user = User(HERS, wallet)
    rows.clear()
    news = user.news(cast("Any", reader), {})

    assert news.over == ""
    assert len(rows) < 10


def test_what_a_file_holds_of_all_rounds_is_read_in_one_look(wallet: Wallet, rows: list[int]) -> None:
    file = wallet._file
    for number in range(20):
        wallet.draw_and_store(STUDY, HEADS[number], 1000, lambda: b"{}")
    for number in range(0, 20, 2):
        wallet.settle(HEADS[number], ReportState.ACKNOWLEDGED)
    rows.clear()

    assert file.reported() == {HEADS[number]: [0] for number in range(0, 20, 2)}
    assert len(rows) == 1
