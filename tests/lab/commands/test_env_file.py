"""The file that says where a server is: whose it is, it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from askance_lab.commands.shared.env_file import EnvFile, env_file


def test_it_goes_with_its_server_and_stays_if_it_is_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "env"
    with env_file(path) as file:
        assert file is not None
        file.write("http://127.0.0.1:1", tmp_path / "operator.token", None)
        assert f"export SERVER_PID={os.getpid()}\n" in path.read_text()
    assert not path.exists()

    with env_file(path) as file:
        assert file is not None
        file.write("http://127.0.0.1:1", tmp_path / "operator.token", None)
        with monkeypatch.context() as patch:
            other = os.getpid() + 1
            patch.setattr(os, "getpid", lambda: other)
            EnvFile(path).write("http://127.0.0.1:2", tmp_path / "operator.token", None)
    assert "127.0.0.1:2" in path.read_text()
