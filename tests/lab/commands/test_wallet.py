"""`askance wallet`: what was spent and what was read, and nothing of what was sent."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from askance_client import Identity, ReportState, Wallet
from askance_protocol.budget import MICRO
from askance_protocol.errors import DataError, UsageError
from askance_protocol.rounds import Bulletin, Cause, StudyEnded, StudyPublished
from askance_server.app import create_app, open_resources
from askance_server.core.study import study_of
from askance_server.settings import Settings
from askance_server.strategies.registry import registry
from tests.harness.hosted import hosted
from tests.lab.commands.calls import invoke

STUDY = "a" * 64
HEADS = ["1" * 64, "2" * 64, "3" * 64]


def made(path: Path, heads: list[str]) -> Path:
    """A wallet that has read these entries, and has an answered round and one in conflict."""
    with closing(Wallet.open(path, cap=5 * MICRO)) as wallet:
        wallet.enrolled(Identity("http://askance.test", 3, "sekret"))
        wallet.note_history(STUDY, heads)
        for number, state in enumerate((ReportState.ACKNOWLEDGED, ReportState.CONFLICT)):
            wallet.draw_and_store(STUDY, f"{number}" * 64, MICRO, lambda: b"sekret")
            wallet.settle(f"{number}" * 64, state)
    return path


def test_show_tells_spending_rounds_and_heads_and_neither_token_nor_body(tmp_path: Path) -> None:
    path = made(tmp_path / "wallet", HEADS)
    text, said = invoke("wallet", "show", path), invoke("wallet", "show", path, "--json")
    document = json.loads(said)

    assert "sekret" not in text + said
    assert text.splitlines() == [
        "cap ε = 5 · spent ε = 3 · remaining ε = 2 · by other copies ε = 0",
        "study aaaaaaaa round 00000000: ε = 1 acknowledged",
        "study aaaaaaaa round 11111111: ε = 2 conflict",
        "study aaaaaaaa: 3 entries read, head 33333333",
    ]
    assert document["schema_version"] == 1
    assert document["spent_micro_epsilon"] == 3 * MICRO
    assert [each["micro_epsilon"] for each in document["rounds"]] == [MICRO, 2 * MICRO]


def test_the_one_who_has_read_more_compares_and_a_second_history_is_found(tmp_path: Path) -> None:
    hers, friends = made(tmp_path / "hers", HEADS), made(tmp_path / "friends", HEADS[:2])
    lied_to = made(tmp_path / "lied to", [HEADS[0], "9" * 64])
    line, other = invoke("wallet", "heads", friends).strip(), invoke("wallet", "heads", lied_to).strip()

    assert line == f"{STUDY} 2 {HEADS[1]}"
    assert "the same 2 entries" in invoke("wallet", "heads", hers, "--compare", line)
    assert "two histories" in invoke("wallet", "heads", hers, "--compare", other, code=6)
    assert not json.loads(invoke("wallet", "heads", hers, "--compare", other, "--json", code=6))["same"]
    with pytest.raises(UsageError, match=r"has read 2 entries .*has read more"):
        invoke("wallet", "heads", friends, "--compare", invoke("wallet", "heads", hers).strip())


def test_a_wallet_reads_on_before_it_compares_and_finds_a_server_that_shows_another_history(tmp_path: Path) -> None:
    settings = Settings(database=str(tmp_path / "data"))
    opened = open_resources(settings)
    spec = study_of(
        registry(), strategy="mean", parameters={"users": "all"}, title="t", nonce="00" * 16, simulated=False
    )
    first = Bulletin().next(StudyPublished(study=spec))
    study, head = spec.digest(), first.digest()
    ended = StudyEnded(state="cancelled", reason="enough", cause=Cause.CANCELLED)
    after = opened.ledger.append(study, first)
    whole = opened.ledger.append(study, after.next(ended))
    line = f"{study} 2 {whole.head}"
    with hosted(create_app(settings, opened=opened), HttpToolsProtocol) as port:
        url = f"http://127.0.0.1:{port}"

        def behind(name: str, heads: list[str]) -> Path:
            path = tmp_path / name
            with closing(Wallet.open(path, cap=MICRO)) as wallet:
                wallet.note_history(study, heads)
            return path

        hers = behind("hers", [head])
        with pytest.raises(UsageError, match="read on with --server"):
            invoke("wallet", "heads", hers, "--compare", line)
        assert "the same 2 entries" in invoke("wallet", "heads", hers, "--compare", line, "--server", url)
        # It has kept what it has read, and finds out a friend's other line.
        assert invoke("wallet", "heads", hers).strip() == line
        other = f"{study} 2 {'9' * 64}"
        assert "for your friend" in invoke("wallet", "heads", hers, "--compare", other, "--server", url, code=6)
        # One whom the server has shown another beginning; she keeps it.
        lied_to = behind("lied to", ["9" * 64])
        told = invoke("wallet", "heads", lied_to, "--compare", line, "--server", url, code=6)
        assert "the server shows another than this wallet has read" in told
        assert invoke("wallet", "heads", lied_to).strip() == f"{study} 1 {'9' * 64}"
    with pytest.raises(UsageError, match="without --compare"):
        invoke("wallet", "heads", hers, "--server", url)


def test_what_is_no_wallet_and_what_is_no_line_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not there"):
        invoke("wallet", "show", tmp_path / "none")
    for line in ("", "a b", f"{STUDY} x {HEADS[0]}", f"{STUDY} -1 {HEADS[0]}"):
        with pytest.raises(UsageError, match="no line"):
            invoke("wallet", "heads", made(tmp_path / "wallet", HEADS), "--compare", line)

    assert not (tmp_path / "none").exists()
