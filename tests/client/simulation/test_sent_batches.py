"""The book of a gateway."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from askance_client.simulation.gateway import SentBatches


def test_a_file_that_is_no_book_is_refused_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[sqlite3.Connection]()

    class Closing(sqlite3.Connection):
        def close(self) -> None:
            closed.append(self)
            super().close()

    (tmp_path / "book").write_bytes(b"no database " * 100)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Closing))
    with pytest.raises(sqlite3.DatabaseError):
        SentBatches(tmp_path / "book")

    assert len(closed) == 1
