"""A TCP balancer in front of several servers on this machine, for tests and benchmarks: no proxy has to be installed.

Theory of operation
-------------------
A connection goes to the replica that has the fewest, and bytes are passed on as they come: HTTP is the ends' own. Each
replica is asked for `/readyz`, again and again. One that refuses a connection, or is not ready `FAILURES` times in a
row, is taken out, and its connections are cut: what became of a request that was under way there, nobody here knows,
and nobody repeats it. To send a report again is the client's part, who has the same bytes; and the ledger's to find
that it is a repetition. One that is ready again is given new connections. haproxy does the same (docs/server.md).

    python tests/harness/balancer.py PORT ...      prints the port that it takes connections at
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast

HOST: Final = "127.0.0.1"
EVERY: Final = 0.2
"""Seconds between two looks at a replica."""
PATIENCE: Final = 3.0
"""Seconds that it has to answer; a server gives up on its ledger after two."""
FAILURES: Final = 2

_LOOK: Final = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@dataclass(slots=True, eq=False)
class Replica:
    """One server, and the connections that it has."""

    port: int
    ready: bool = False
    failures: int = 0
    sides: set[Side] = field(default_factory=set["Side"])

    def tell(self, what: str) -> None:
        """Say what becomes of it."""
        print(f"balancer: the replica at {self.port} {what}", file=sys.stderr)

    def out(self) -> None:
        """Take it out: whoever has a connection to it has to make another."""
        if self.ready:
            self.tell(f"is out, with {len(self.sides)} connections")
        self.ready = False
        for side in list(self.sides):
            side.cut()
        self.sides.clear()


class Side(asyncio.Protocol):
    """One end of a connection, which writes what it reads to the other."""

    def __init__(self, other: Side | None = None) -> None:
        self._transport: asyncio.Transport | None = None
        self.other = other
        self.replica: Replica | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Little is read before there is somewhere to write; what came all the same, `join` passes on."""
        self._transport = cast("asyncio.Transport", transport)
        if self.other is None:
            self._transport.pause_reading()

    def join(self, other: Side) -> None:
        """From the client's end: begin to pass on."""
        self.other = other
        if self._transport is None or self._transport.is_closing():
            self.cut()
        else:
            early, self._early = self._early, b""
            if early:
                self.data_received(early)
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Pass on."""
        if self.other is None:
            self._early += data
        elif self.other._transport is not None:
            self.other._transport.write(data)

    def pause_writing(self) -> None:
        """Whoever is read slowly is sent no more."""
        if self.other is not None and self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        if self.other is not None and self.other._transport is not None:
            self.other._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end is told what was said, and that it is over."""
        if self.replica is not None:
            self.replica.sides.discard(self)
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()

    def cut(self) -> None:
        """End both ends."""
        for each in (self, self.other):
            if each is not None and each._transport is not None:
                each._transport.abort()


class Balancer:
    """Takes connections and gives each to a replica that is ready."""

    side: type[Side] = Side
    """What stands at the client's end."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.replicas = [Replica(port) for port in ports]
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[int]:
        """Take connections at a port that the system chooses, as soon as one replica is ready."""
        looks = [asyncio.create_task(self._look_after(replica)) for replica in self.replicas]
        server = await asyncio.get_running_loop().create_server(self._accept, HOST, 0, backlog=2048)
        try:
            while not any(replica.ready for replica in self.replicas):
                await asyncio.sleep(0.01)
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in (*looks, *self._tasks):
                task.cancel()
            for replica in self.replicas:
                replica.out()

    def _accept(self) -> Side:
        side = self.side()
        task = asyncio.get_running_loop().create_task(self._connect(side))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return side

    async def _connect(self, side: Side) -> None:
        """Give a connection to the replica that has the fewest; one that takes none is out."""
        while ready := [replica for replica in self.replicas if replica.ready]:
            side.replica = min(ready, key=lambda each: len(each.sides))
            side.replica.sides.add(side)  # Before it is there: many may connect at once.
            try:
                _, up = await asyncio.get_running_loop().create_connection(lambda: Side(side), HOST, side.replica.port)
            except OSError:
                side.replica.sides.discard(side)
                side.replica.out()
            else:
                side.join(up)
                return
        side.cut()

    async def _look_after(self, replica: Replica) -> None:
        while True:
            found = await _look(replica.port)
            replica.failures = 0 if found else replica.failures + 1
            if found and not replica.ready:
                replica.tell("is ready")
                replica.ready = True
            elif replica.failures >= FAILURES or found is None:
                replica.out()
            await asyncio.sleep(EVERY)


async def _look(port: int) -> bool | None:
    """Whether a replica is ready; None if nobody is there."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return None
    try:
        writer.write(_LOOK)
        async with asyncio.timeout(PATIENCE):
            return (await reader.readline()).startswith(b"HTTP/1.1 200")
    except (OSError, TimeoutError):
        return False
    finally:
        writer.transport.abort()


async def _serve(ports: Sequence[int]) -> None:
    async with Balancer(ports).listening() as port:
        print(port, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Balance until the process is ended."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve([int(port) for port in sys.argv[1:]]))


if __name__ == "__main__":
    main()
