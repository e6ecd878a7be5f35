"""systemd is told when the server answers and when it stops; what is not there to be told changes nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from askance_server.hosting import notify
from tests.harness.marks import SECONDS
from tests.harness.servers import ServerProcess


def listener(address: str) -> socket.socket:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(address)
    manager.settimeout(SECONDS)
    return manager


def test_a_server_says_that_it_is_ready_once_it_answers_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener(str(tmp_path / "notify")) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        server = ServerProcess(tmp_path / "data")
        server.start()
        try:
            assert manager.recv(64) == b"READY=1"
            assert server.get("/readyz").status_code == 200
        finally:
            assert server.stop() == 0
        assert manager.recv(64) == b"STOPPING=1"


def test_an_abstract_address_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"askance{tmp_path}"
    with listener(f"\0{name}") as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify("READY=1")
        assert manager.recv(64) == b"READY=1"


def test_nobody_to_be_told_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for address in ("", str(tmp_path / "gone")):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
