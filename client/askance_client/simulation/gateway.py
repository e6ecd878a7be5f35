"""A gateway: it speaks for many simulated users of a simulated study, in batches.

Their reports come from the same queries and channels as a user's own, many at a time. Like a user, a gateway randomizes
once: a block of users is drawn, stored in its book, sent, and after any failure the same bytes are sent again.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from askance_client.population import Population
from askance_client.refusals import Refusal
from askance_client.simulation.blocks import BLOCK, blocks_of, reports_of
from askance_client.transport import Problem, Server
from askance_client.user import BulletinReader
from askance_protocol.errors import ProtocolError
from askance_protocol.reports import MAX_BATCH, encode_raw
from askance_protocol.rounds import PreparedRound

_BOOK: Final = """
    CREATE TABLE IF NOT EXISTS batches (
        round TEXT NOT NULL,        -- digest of the round
        first INTEGER NOT NULL,     -- the first user number of the block
        users INTEGER NOT NULL,     -- how many numbers the block has
        body BLOB,                  -- what is sent, and sent again; nothing once it was acknowledged
        PRIMARY KEY (round, first)
    ) WITHOUT ROWID
"""


class SentBatches:
    """What a gateway has drawn, on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(_BOOK)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def keep(self, round_: str, users: range, draw: Callable[[], bytes]) -> bytes | None:
        """The body for a block: stored, or drawn now; None where it was acknowledged."""
        query = "SELECT users, body FROM batches WHERE round = ? AND first = ?"
        row = self._db.execute(query, (round_, users.start)).fetchone()
        if row is None:
            body = draw()
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (round_, users.start, len(users), body))
            return body
        if row[0] != len(users):
            remedy = f"use blocks of {row[0]} users, as before, or begin anew in another folder"
            raise ProtocolError("was cut into blocks of another size", where=str(self._path), remedy=remedy)
        body_before: bytes | None = row[1]
        return body_before

    def settle(self, round_: str, users: range) -> None:
        """It was acknowledged."""
        self._db.execute("UPDATE batches SET body = NULL WHERE round = ? AND first = ?", (round_, users.start))


@dataclass(slots=True)
class Gateway:
    """Speaks for the users `numbers`: the k-th of them holds the k-th example of the population."""

    server: Server
    token: str
    population: Population
    numbers: range
    book: SentBatches
    seed: int | None = None
    """For a simulation that can be run again: its reports say so. None: noise that nobody can take away."""
    block: int = BLOCK
    verdicts: Counter[str] = field(default_factory=Counter[str])
    latencies: list[float] = field(default_factory=list[float])
    tell: Callable[[], None] = lambda: None
    """Called after each batch."""

    def __post_init__(self) -> None:
        if not 1 <= self.block <= MAX_BATCH:
            raise ProtocolError(f"{self.block} is not from 1 to {MAX_BATCH}", where="batch")

    async def answer(self, watch: BulletinReader) -> Refusal | Problem | None:
        """Report to every round that is open, for all who are asked."""
        for id_ in watch.history.open_rounds():
            round_ = watch.history.rounds[id_]
            if isinstance(round_, Refusal):
                return round_
            if round_.study.example != self.population.schema:
                raise ProtocolError("has another schema than the study", where="population")
            for users in blocks_of(self.numbers, self.block):
                refused = await self._deliver(round_, users)
                if refused is not None:
                    return refused
        return None

    async def _deliver(self, round_: PreparedRound, users: range) -> Refusal | Problem | None:
        body = self.book.keep(round_.id, users, lambda: self._draw(round_, users))
        if body is None:
            return None
        begin = time.perf_counter()
        answer = await self.server.deliver(round_.id, self.token, body)
        if isinstance(answer, Refusal | Problem):
            return answer
        self.latencies.append(time.perf_counter() - begin)
        self.book.settle(round_.id, users)
        self.verdicts.update({"accepted": answer["accepted"], "repeated": answer["repeated"], **answer["refused"]})
        self.tell()
        return None

    def _draw(self, round_: PreparedRound, users: range) -> bytes:
        """The reports of those of a block who are asked."""
        return encode_raw(reports_of(round_, users, self.population, self.numbers.start, self.seed))
