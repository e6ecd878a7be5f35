"""Clients that report through a balancer, note what they were told, and compare it with what the database holds."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from askance_client import WalletFile
from askance_client.wallet import ReportState
from askance_protocol.reports import decode_report, encode_report
from tests.harness.balancer import Balancer, Side
from tests.harness.wire import Connection, LostError

PAUSE: Final = 0.02
"""Seconds before a report is sent again."""


@dataclass
class Record:
    """What clients know of one round: it is theirs, and no server can change it."""

    outcomes: Mapping[int, int]
    """What each user reports."""
    acknowledged: dict[int, int] = field(default_factory=dict[int, int])
    """How often each has a receipt."""
    seconds: list[float] = field(default_factory=list[float])
    """How long each waited for her first one, whatever broke meanwhile."""
    moments: list[float] = field(default_factory=list[float])
    """When each came."""
    broke: int = 0
    """Requests whose connection broke."""
    surprises: list[str] = field(default_factory=list[str])
    """Answers that a person would have seen."""


async def report(port: int, round_: str, tokens: Mapping[int, str], record: Record, connections: int) -> None:
    """Send the reports of all these users; each again, the same bytes, until there is a receipt."""
    left = iter(sorted(tokens))

    async def client() -> None:
        line = Connection(port)
        try:
            for user in left:
                await _one(line, f"/v1/rounds/{round_}/reports", user, tokens[user], record)
        finally:
            await line.close()

    await asyncio.gather(*(client() for _ in range(connections)))


async def _one(line: Connection, path: str, user: int, token: str, record: Record) -> None:
    begin, body = time.monotonic(), encode_report(record.outcomes[user], 2)
    while True:
        try:
            status, answer = await line.post(path, token, body)
        except LostError:
            record.broke += 1
        else:
            if status == 200:
                break
            if status != 503:  # What a client sends again by itself.
                record.surprises.append(f"user {user}: {status} {answer[:200]!r}")
                return
        await asyncio.sleep(PAUSE)
    record.acknowledged[user] = record.acknowledged.get(user, 0) + 1
    record.moments.append(time.monotonic())
    record.seconds.append(record.moments[-1] - begin)


def record_of(wallets: Path, round_: str) -> Record:
    """What the wallets of a fleet have stored: its users' reports, and which of them have receipts."""
    query = "SELECT user_number, body, state FROM reports JOIN owners ON owner = owners.id WHERE round = ?"
    with closing(WalletFile.open(wallets)) as file:
        stored = [(user, decode_report(body, 2), state) for user, body, state in file.rows(query, (round_,))]
    receipts = {user: 1 for user, _, state in stored if state == ReportState.ACKNOWLEDGED.value}
    return Record({user: outcome for user, outcome, _ in stored}, receipts)


def wrong(record: Record, database: str, round_: str, tally: bytes) -> list[str]:
    """What the database, or the tally that the server tells, has otherwise than the clients."""
    return list(_wrong(record, database, round_, tally))


def _wrong(record: Record, database: str, round_: str, tally: bytes) -> Iterator[str]:
    query = "SELECT user_number, outcome FROM reports JOIN rounds ON key = round WHERE id = %s"
    with closing(psycopg.connect(database)) as link:
        rows = link.execute(query, (round_,)).fetchall()
        beyond = link.execute("SELECT number FROM users WHERE spent > cap").fetchall()
    yield from record.surprises
    logged = dict(rows)
    if len(logged) < len(rows):
        yield f"{len(rows) - len(logged)} reports are stored twice"
    lost = [user for user in record.acknowledged if logged.get(user) != record.outcomes[user]]
    if lost:
        yield f"{len(lost)} reports were acknowledged and are not stored as they were sent: user {lost[0]}, …"
    made_up = [user for user, outcome in rows if record.outcomes.get(user) != outcome]
    if made_up:
        yield f"{len(made_up)} reports are stored that nobody sent: user {made_up[0]}, …"
    if beyond:
        yield f"{len(beyond)} users are above their cap"
    sent = Counter(record.outcomes[user] for user in record.acknowledged)
    [[told]] = json.loads(tally)["tallies"] or [[None]]
    if told != [sent[0], sent[1]]:
        yield f"the tally is {told}, and clients have receipts for {[sent[0], sent[1]]}"


# ------------------------------------------------------------------------------------------------------- the control


class _Acknowledging(Side):
    """Gives the receipt for one report itself."""

    given = False

    def data_received(self, data: bytes) -> None:
        """As it is, but for that one."""
        if not _Acknowledging.given and b"/reports HTTP" in data and self._transport is not None:
            _Acknowledging.given = True
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        else:
            super().data_received(data)


class LyingBalancer(Balancer):
    """Gives one receipt for a report that it keeps to itself."""

    side = _Acknowledging

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(ports)
        _Acknowledging.given = False
