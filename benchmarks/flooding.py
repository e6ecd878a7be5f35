"""A flood of connections without a token, as a program of its own: idle sockets, and heads and bodies that do not end.

    python benchmarks/flooding.py PORT CONNECTIONS [PATH ...]

Where paths are given, the flood asks for these in turn, `RATE` times a second in all, and prints how often it was
answered with 200. Otherwise:

Four kinds in equal shares: sockets on which nothing is sent, heads in drops, bodies in drops, and whole bodies of 31 MB
as fast as they go. Whoever is cut off or answered comes again. Prints a line when each was connected once, and one when
somebody came again after that, ends when its input does, and prints how often each kind was connected.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from itertools import repeat
from typing import Final

HOST: Final = "127.0.0.1"
PAUSE: Final = 0.25
"""Seconds between two bytes of a flooder who sends drops, and before one who was cut off comes again."""
PIECE: Final = b'"a":0,' * 10_000
PIECES: Final = 540
END: Final = b'"a":0}'
LENGTH: Final = 1 + PIECES * len(PIECE) + len(END)
"""31 MB of one JSON object, which is whole: who reads it before it asks for a token has all its work."""

_HEAD: Final = b"POST /v1/studies HTTP/1.1\r\nHost: x\r\n"
OPENINGS: Final = {
    "idle": b"",
    "head": _HEAD + b"X-Drops: ",
    "body": _HEAD + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n",
    "big": _HEAD + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{" % LENGTH,
}
"""What each kind sends first."""

RATE: Final = 400
"""Questions a second."""


async def flood(port: int, connections: int, paths: list[str]) -> Counter[str]:
    """Keep up this many connections until the input ends; how often each kind was connected, or each path answered."""
    stop, opened, kinds = asyncio.Event(), Counter[str](), list(OPENINGS)
    waiting, stage = set(range(connections)), "flooding"

    async def one(number: int) -> None:
        nonlocal stage
        kind = kinds[number % len(kinds)]
        while not stop.is_set():
            with contextlib.suppress(OSError):
                streams = await asyncio.open_connection(HOST, port)
                opened[kind] += 0 if paths else 1
                if stage == "again":
                    print(stage, flush=True)
                    stage = "done"
                waiting.discard(number)
                if stage == "flooding" and not waiting:
                    print(stage, flush=True)
                    stage = "again"
                if paths:
                    await _ask_on(paths, number, connections / RATE, opened, *streams, stop)
                else:
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
            for piece in (*repeat(PIECE, PIECES), END):
                if stop.is_set():
                    return
                writer.write(piece)
                await writer.drain()
        while not stop.is_set() and not reader.at_eof():
            if kind in {"head", "body"}:
                writer.write(b"x")
                await writer.drain()
            with contextlib.suppress(TimeoutError):
                answer = await asyncio.wait_for(reader.read(4096), PAUSE)
                if answer and kind == "big":
                    return
    finally:
        # Not flushed: what is left of a large body would go on for ever.
        writer.transport.abort()


async def _ask_on(
    paths: list[str],
    at: int,
    pause: float,
    answered: Counter[str],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stop: asyncio.Event,
) -> None:
    """Ask for one path after the other, each `pause` seconds after the last, or as soon as that is answered."""
    loop = asyncio.get_running_loop()
    try:
        while not stop.is_set():
            due, path = loop.time() + pause, paths[at % len(paths)]
            at += 1
            writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if b"chunked" in head:
                while size := int((await reader.readline()).strip(), 16):
                    await reader.readexactly(size + 2)
                await reader.readline()
            else:
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]))
            answered[path] += head.startswith(b"HTTP/1.1 200 ")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(0.0, due - loop.time()))
    except asyncio.IncompleteReadError:
        return
    finally:
        writer.transport.abort()


if __name__ == "__main__":
    counts = asyncio.run(flood(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
    print(json.dumps({kind: count for kind, count in counts.items() if count}))
