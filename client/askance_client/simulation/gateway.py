"""A gateway: it speaks for many simulated users of a simulated study, in batches.

Their reports come from the same queries and channels as a user's own, many at a time. Like a user, a gateway randomizes
once: a block of users is drawn, stored on disk, sent, and after any failure the same bytes are sent again.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from askance_client.bulletin_reader import BulletinReader
from askance_client.population import Population
from askance_client.refusals import Refusal
from askance_client.simulation.blocks import BLOCK, blocks_of, reports_of
from askance_client.transport import Problem, Server
from askance_protocol.errors import UsageError
from askance_protocol.reports import MAX_BATCH, encode_raw
from askance_protocol.rounds import PreparedRound

_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS batches (
        round TEXT NOT NULL,        -- digest of the round
        first INTEGER NOT NULL,     -- the first user number of the block
        users INTEGER NOT NULL,     -- how many numbers the block has
        body BLOB,                  -- what is sent, and sent again; nothing once it was acknowledged
        PRIMARY KEY (round, first)
    ) WITHOUT ROWID
"""


class SentBatches:
    """The batches that a gateway has drawn, on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(_TABLE)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def draw_and_store(self, round_: str, users: range, draw: Callable[[], bytes]) -> bytes | None:
        """The body for a block of users: the stored one, or drawn and stored now; None once it was acknowledged."""
        query = "SELECT users, body FROM batches WHERE round = ? AND first = ?"
        row = self._db.execute(query, (round_, users.start)).fetchone()
        if row is None:
            body = draw()
            self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (round_, users.start, len(users), body))
            return body
        if row[0] != len(users):
            remedy = f"use blocks of {row[0]} users, as before, or begin anew in another folder"
            raise UsageError("was cut into blocks of another size", where=str(self._path), remedy=remedy)
        body_before: bytes | None = row[1]
        return body_before

    def settle(self, round_: str, users: range) -> None:
        """Note that a block was acknowledged: its body is not needed any more."""
        self._db.execute("UPDATE batches SET body = NULL WHERE round = ? AND first = ?", (round_, users.start))


@dataclass(slots=True)
class Gateway:
    """Speaks for the users `numbers`: the k-th of them holds the k-th example of the population."""

    server: Server
    token: str
    population: Population
    numbers: range
    sent: SentBatches
    seed: int | None = None
    """For a simulation that can be run again: its reports say so. None: real noise, from the operating system."""
    block: int = BLOCK
    verdicts: Counter[str] = field(default_factory=Counter[str])
    latencies: list[float] = field(default_factory=list[float])
    tell: Callable[[], None] = lambda: None
    """Called after each batch."""

    def __post_init__(self) -> None:
        if not 1 <= self.block <= MAX_BATCH:
            raise UsageError(f"{self.block} is not from 1 to {MAX_BATCH}", where="batch")

    async def answer(self, reader: BulletinReader) -> Refusal | Problem | None:
        """Report to every open round for all users who are asked. None, or the reason why it stopped."""
        for id_ in reader.history.open_rounds():
            round_ = reader.history.rounds[id_]
            if isinstance(round_, Refusal):
                return round_
            if round_.study.example != self.population.schema:
                raise UsageError("has another schema than the study", where="population")
            for users in blocks_of(self.numbers, self.block):
                refused = await self._deliver(round_, users)
                if refused is not None:
                    return refused
        return None

    async def _deliver(self, round_: PreparedRound, users: range) -> Refusal | Problem | None:
        body = self.sent.draw_and_store(round_.id, users, lambda: self._draw(round_, users))
        if body is None:
            return None
        begin = time.perf_counter()
        answer = await self.server.deliver(round_.id, self.token, body)
        if isinstance(answer, Refusal | Problem):
            return answer
        self.latencies.append(time.perf_counter() - begin)
        self.sent.settle(round_.id, users)
        self.verdicts.update({"accepted": answer["accepted"], "repeated": answer["repeated"], **answer["refused"]})
        self.tell()
        return None

    def _draw(self, round_: PreparedRound, users: range) -> bytes:
        """Draw the reports of those users of a block who are asked."""
        return encode_raw(reports_of(round_, users, self.population, self.numbers.start, self.seed).batch())
