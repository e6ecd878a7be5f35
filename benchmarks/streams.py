"""What 300 browsers that watch a study take from those who answer it: how long a report takes with them and without.

Prints one JSON object. One client sends reports at a steady rate to a study that is told in steps (`live`): alone, and
while a room answers. It does so without browsers and beside 300 of them, in turns on one server. `watching.py` says
what a browser does. Ratios are those of the medians, and of the 95th percentiles, of all turns; `/healthz` is asked all
the while. The controls are servers with a miss planted, which has to be found: one that spends four milliseconds on
each event of each stream, and one that looks, and renders the page, for each browser anew. Exits 6 where a goal is
missed. Takes a minute, and ends after 90 seconds whatever happens.

    python benchmarks/streams.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvloop
from responsiveness import GOAL as HEALTH_GOAL
from responsiveness import Server

from askance_protocol.reports import encode_report
from askance_server.auth import UserToken, open_keys

HOST: Final = "127.0.0.1"
GOAL: Final = 2.0
"""What a report may take beside the browsers, in what it takes without."""
BROWSERS: Final = 300
USERS: Final = 20_000
RATE: Final = 40
"""Reports a second of the client whose reports are timed."""
ROOM: Final = 60
"""Reports a second of the room."""
HEALTH: Final = 10
"""Looks at `/healthz` a second."""
SECONDS: Final = 90

MODES: Final = ("alone", "room")

_SLOW_STREAMS: Final = """
import time
from askance_server.api import events
piece = events._piece
def slow(body):
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass
    return piece(body)
events._piece = slow
"""
_EACH_ANEW: Final = """
from askance_server import feeds, public_answers
async def once(self, question, work):
    return await work()
async def to(self, question, work):
    return await self.workers.run(work)
feeds.Feed.once, feeds.Feed.kept = once, lambda self, question: None
public_answers.PublicAnswers.to = to
"""
CONTROLS: Final = {"slow_streams": _SLOW_STREAMS, "each_anew": _EACH_ANEW}


# ------------------------------------------------------------------------------------------------------- those who ask


@dataclass(slots=True)
class Latencies:
    """How long requests took, in milliseconds."""

    taken: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        """Half of them took no longer."""
        return statistics.median(self.taken)

    @property
    def p95(self) -> float:
        """95 of 100 of them took no longer."""
        return statistics.quantiles(self.taken, n=20)[-1]


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """One connection that is kept."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def steady(port: int, requests: Iterator[bytes], rate: float, seconds: float, told: Latencies) -> None:
    """Send requests at a steady rate. Each counts from when it was due: who waits for the one before has waited too."""
    async with connected(port) as (reader, writer):
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.write(next(requests))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]))
            if not head.startswith(b"HTTP/1.1 200 "):
                raise AssertionError(f"a request was answered with {head[:40]!r}")
            told.taken.append(1000 * (time.perf_counter() - due))
            due += 1 / rate


@dataclass(slots=True)
class Study:
    """A study that is open on a server, and reports that nobody has sent yet."""

    server: Server
    id: str
    requests: Iterator[bytes]

    @classmethod
    def open(cls, server: Server) -> Study:
        """As `askance ask` opens one."""
        server.enrol(USERS)
        asked = {
            "title": "Have you ever copied homework?",
            "strategy": "poll",
            "parameters": {"ask": "Have you ever copied homework?", "users": USERS, "epsilon": "1"},
            "example": {"fields": [{"kind": "category", "name": "answer", "values": ["yes", "no"], "gap": True}]},
            "live": 10,
        }
        study = server.ask("POST", "/v1/studies", asked, server.token("operator"))
        return cls(server, study["id"], cls._reports(server, study["rounds"][0]["id"]))

    @staticmethod
    def _reports(server: Server, round_: str) -> Iterator[bytes]:
        keys = open_keys(server.directory)
        for user in range(USERS):
            body, token = encode_report(user % 2, 2), keys.mint(UserToken(user, 0))
            head = f"POST /v1/rounds/{round_}/reports HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n"
            yield f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def answer(self, seconds: float, *, room: bool, told: Latencies, health: Latencies) -> None:
        """Reports for some seconds: of one client, and of a room beside her."""

        async def all_of_them() -> None:
            port, look = self.server.port, _for_ever(f"GET /healthz HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            tasks = [steady(port, self.requests, RATE, seconds, told), steady(port, look, HEALTH, seconds, health)]
            if room:
                tasks += [steady(port, self.requests, ROOM / 4, seconds, Latencies()) for _ in range(4)]
            await asyncio.gather(*tasks)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(all_of_them())


def _for_ever(request: bytes) -> Iterator[bytes]:
    while True:
        yield request


@contextlib.contextmanager
def watched(study: Study, browsers: int) -> Generator[list[dict[str, Any]]]:
    """Browsers, in a process of their own, while a `with` block runs; then what they have seen."""
    script = str(Path(__file__).with_name("watching.py"))
    command = [sys.executable, script, str(study.server.port), study.id, str(browsers)]
    pipe, seen = subprocess.PIPE, list[dict[str, Any]]()
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)  # noqa: S603 - our own program
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
    try:
        if process.stdout.readline() != "watching\n":
            raise AssertionError("the browsers did not come")
        yield seen
        process.stdin.close()
        seen.append(json.loads(process.stdout.read()))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# ----------------------------------------------------------------------------------------------------------- measuring


def measure(plant: str = "", *, turns: int, seconds: float, modes: Sequence[str] = MODES) -> dict[str, Any]:
    """The figures of one server."""
    without, beside = ({mode: Latencies() for mode in modes} for _ in range(2))
    health, seen, used = Latencies(), list[dict[str, Any]](), {"without": 0.0, "beside": 0.0}
    with tempfile.TemporaryDirectory(prefix="askance-streams-") as directory:
        server = Server(Path(directory), directory, plant)
        try:
            study = Study.open(server)
            study.answer(1.0, room=True, told=Latencies(), health=Latencies())  # what is done once

            def answer(told: dict[str, Latencies], health: Latencies, name: str) -> None:
                before = processor(server)
                for mode in modes:
                    study.answer(seconds, room=mode == "room", told=told[mode], health=health)
                used[name] += processor(server) - before

            for _ in range(turns):
                answer(without, Latencies(), "without")
                with watched(study, BROWSERS) as found:
                    answer(beside, health, "beside")
                seen += found
        finally:
            server.stop()
    whole = turns * len(modes) * seconds
    return {
        **{mode: compared(without[mode], beside[mode]) for mode in modes},
        "healthz_worst_ms": round(max(health.taken), 1),
        "server_busy": {name: round(each / whole, 2) for name, each in used.items()},
        "browsers_busy": max(each["busy"] for each in seen),
        "events_per_second": round(sum(sum(each["events"].values()) for each in seen) / whole),
        "pages_per_second": round(sum(sum(each["pages"].values()) for each in seen) / whole),
        "page_ms": statistics.median(each["page_ms"] for each in seen),
        "page_worst_ms": max(each["page_worst_ms"] for each in seen),
        "lost": sum(each["lost"] for each in seen),
    }


def compared(without: Latencies, beside: Latencies) -> dict[str, Any]:
    """What reports take without the browsers, and beside them."""
    return {
        "reports": len(beside.taken),
        "median_ms": [round(without.median, 2), round(beside.median, 2)],
        "p95_ms": [round(without.p95, 2), round(beside.p95, 2)],
        "median_ratio": round(beside.median / without.median, 2),
        "p95_ratio": round(beside.p95 / without.p95, 2),
    }


def processor(server: Server) -> float:
    """Seconds of a processor that a server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def missed(figures: dict[str, Any]) -> list[str]:
    """The goals that a server misses."""
    ratios = [
        f"{mode}.{ratio}"
        for mode in MODES
        for ratio in ("median_ratio", "p95_ratio")
        if mode in figures and figures[mode][ratio] > GOAL
    ]
    return [*ratios, *(["healthz_worst_ms"] if figures["healthz_worst_ms"] > HEALTH_GOAL else [])]


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for development: its figures are rough")
    given = parser.parse_args()
    # The last resort: whatever hangs, the servers below are ended and the caller gets an answer.
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    turns, seconds = (1, 2.0) if given.quick else (3, 2.5)
    figures = measure(turns=turns, seconds=seconds)
    controls = {name: measure(plant, turns=1, seconds=2.0, modes=("room",)) for name, plant in CONTROLS.items()}
    not_found = [f"control {name}" for name, each in controls.items() if not missed(each)]
    load = [round(each, 2) for each in os.getloadavg()]
    shown = {"schema_version": 1, "quick": given.quick, "browsers": BROWSERS, "goal": GOAL, "machine_load": load}
    wrong = [*missed(figures), *not_found]
    print(json.dumps({**shown, "streams": figures, "controls": controls, "missed": wrong}))
    return 6 if wrong else 0


# --------------------------------------------------------------------------------------------------------- on the page

_OF: Final = {"alone": "of one client", "room": "of one client while a room answers"}


def markdown(printed: Mapping[str, Any]) -> list[str]:
    """The waits as docs/server.md has them."""
    beside = f"beside {printed['browsers']}"
    lines = [("reports", "median, alone", beside, "95 of 100, alone", beside), ("---",) * 5]
    for mode, name in _OF.items():
        waits = (*printed["streams"][mode]["median_ms"], *printed["streams"][mode]["p95_ms"])
        lines.append((name, *(f"{each:.1f} ms" for each in waits)))
    return [f"| {' | '.join(line)} |" for line in lines]


def sentences(printed: Mapping[str, Any]) -> str:
    """What else was measured, and what the controls did."""
    figures, controls = printed["streams"], printed["controls"]
    slow, anew = (controls[name] for name in CONTROLS)
    return (
        f"`/healthz` took {figures['healthz_worst_ms']:.1f} ms at worst, a page {figures['page_ms']:.1f} ms;"
        f" {figures['events_per_second']} events and {figures['pages_per_second']} pages a second."
        f" Of the controls, the first took {slow['room']['median_ratio']:.0f} times the median, the second"
        f" {anew['room']['median_ratio']:.0f} times, and {anew['page_ms'] / 1000:.1f} seconds a page."
    )


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"the benchmark took longer than {SECONDS} seconds")


if __name__ == "__main__":
    sys.exit(main())
