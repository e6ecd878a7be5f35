"""What tests leave open is found at the end of their file."""

from __future__ import annotations

import socket

from tests.harness.open_things import left_open


def test_a_socket_that_nobody_closes_is_found_in_a_cycle_too() -> None:
    with socket.socket() as closed:
        keeps = [closed]
        keeps.append(keeps)  # type: ignore[arg-type]
    del keeps, closed
    assert left_open() == []
    # The control: one that nobody closes.
    around: list[object] = [socket.socket()]
    around.append(around)
    del around
    [left] = left_open()
    assert "unclosed <socket.socket" in left
