"""A flood of connections without a token, as a program of its own: idle sockets, and heads and bodies that do not end.

    python benchmarks/flooding.py PORT CONNECTIONS

Four kinds in equal shares: sockets on which nothing is sent, heads in drops, bodies in drops, and bodies of 31 MB as
fast as they go. Whoever is cut off comes again. Prints a line when each was connected once, and one when somebody came
again after that, ends when its input does, and prints how often each kind was connected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from typing import Final

HOST: Final = "127.0.0.1"
PAUSE: Final = 0.25
"""Seconds between two bytes of a flooder who sends drops, and before one who was cut off comes again."""
LENGTH: Final = 31 << 20

_HEAD: Final = b"POST /v1/studies HTTP/1.1\r\nHost: x\r\n"
OPENINGS: Final = {
    "idle": b"",
    "head": _HEAD + b"X-Drops: ",
    "body": _HEAD + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n",
    "big": _HEAD + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{" % LENGTH,
}
"""What each kind sends first."""
PIECE: Final = b'"a":0,' * 10_000
"""JSON that takes time to read, of which a large body is made."""


async def flood(port: int, connections: int) -> Counter[str]:
    """Keep up this many connections until the input ends; how often each kind was connected."""
    stop, opened, kinds = asyncio.Event(), Counter[str](), list(OPENINGS)
    waiting, stage = set(range(connections)), "flooding"

    async def one(number: int) -> None:
        nonlocal stage
        kind = kinds[number % len(kinds)]
        while not stop.is_set():
            with contextlib.suppress(OSError):
                streams = await asyncio.open_connection(HOST, port)
                opened[kind] += 1
                if stage == "again":
                    print(stage, flush=True)
                    stage = "done"
                waiting.discard(number)
                if stage == "flooding" and not waiting:
                    print(stage, flush=True)
                    stage = "again"
                await _attack(kind, *streams, stop)
            await asyncio.sleep(PAUSE)

    async def until_the_input_ends() -> None:
        await asyncio.to_thread(sys.stdin.read)
        stop.set()

    await asyncio.gather(until_the_input_ends(), *(one(number) for number in range(connections)))
    return opened


async def _attack(kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stop: asyncio.Event) -> None:
    try:
        writer.write(OPENINGS[kind])
        if kind == "big":
            for _ in range(LENGTH // len(PIECE)):
                if stop.is_set():
                    return
                writer.write(PIECE)
                await writer.drain()
        while not stop.is_set() and not reader.at_eof():
            if kind in {"head", "body"}:
                writer.write(b"x")
                await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(4096), PAUSE)
    finally:
        # Not flushed: what is left of a large body would go on for ever.
        writer.transport.abort()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(flood(int(sys.argv[1]), int(sys.argv[2])))))
