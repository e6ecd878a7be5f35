"""A server with 256 descriptors under 300 connections without a token: those who have one are answered, all of them.

How fast they are answered is measured by `benchmarks/flood.py`; here nothing goes by the clock but the patience of
those who wait.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.flood import DESCRIPTORS, Running, flooding, reports, running
from benchmarks.flooding import OPENINGS
from tests.harness.hosted import answer_to

FLOOD = 300
CLIENTS, VISITS, REPORTS = 8, 5, 10
PATIENCE = 60.0
"""Seconds that one has for her reports: long, because a machine may be slow."""
SHUT_OUT = 10.0
"""Seconds after which one who has no answer counts as shut out, in the control."""


async def visit(port: int, requests: list[bytes], patience: float) -> int:
    """Send requests one after the other on one connection; how many were answered with 200 within some patience."""
    answered = 0
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for request in requests:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]))
                answered += head.startswith(b"HTTP/1.1 200 ")
            writer.close()
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        pass
    return answered


async def visits(server: Running, requests: list[bytes], count: int, patience: float = PATIENCE) -> tuple[int, int]:
    """Clients who come again and again, each time on a new connection: requests answered, and most descriptors open."""
    most = 0

    async def client(number: int) -> int:
        nonlocal most
        answered = 0
        for at in range(count):
            first = (number * count + at) * REPORTS
            answered += await visit(server.port, requests[first : first + REPORTS], patience)
            most = max(most, server.descriptors())
        return answered

    return sum(await asyncio.gather(*map(client, range(CLIENTS)))), most


@pytest.mark.slow
def test_beside_a_flood_everybody_with_a_token_is_answered_and_memory_and_descriptors_are_bounded(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "data", guarded=True) as server:
        requests, before = reports(server), server.megabytes()
        with flooding(server.port, FLOOD) as flood:
            answered, most = asyncio.run(visits(server, requests, VISITS))
            alive = answer_to(server.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            # Those who were ended came again.
            flood.came_again()

        assert answered == CLIENTS * VISITS * REPORTS
        assert alive.startswith(b"HTTP/1.1 200 ")
        assert most < DESCRIPTORS - 16
        # 75 bodies of 31 MB were on their way.
        assert server.megabytes() - before < 100
        # All kinds were there.
        assert flood.opened.keys() == OPENINGS.keys()
        assert flood.opened.total() > FLOOD


@pytest.mark.slow
def test_the_control_without_guards_the_same_flood_shuts_them_out(tmp_path: Path) -> None:
    with running(tmp_path / "data", guarded=False) as server:
        requests = reports(server)
        assert asyncio.run(visits(server, requests, 1))[0] == CLIENTS * REPORTS
        with flooding(server.port, FLOOD):
            answered, _ = asyncio.run(visits(server, requests, 1, SHUT_OUT))

    assert answered < CLIENTS * REPORTS
