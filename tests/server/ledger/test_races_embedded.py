"""Many clients at once over one server process and its embedded ledger: no cap exceeded, no report tallied twice.

The same storm runs over a budget that is read first and charged later, and overspends it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from askance_protocol.budget import MICRO
from askance_protocol.reports import encode_report
from askance_server.auth import UserToken
from askance_server.ledger.base import Verdict
from askance_server.ledger.sqlite import SqliteLedger
from tests.harness.servers import serving
from tests.harness.wire import Connection
from tests.server.ledger.ledgers import Answer, Order, judge, orders_for

CLIENTS = 64
CAPPED, USERS = 8, 2000
CAP = 5 * MICRO
STUDIES = 12

Send = Callable[[str, int, int], Awaitable[Verdict]]
"""How a report is sent, and what a client is told of it; a receipt is `ACCEPTED`, whether it is the first or not."""


def singly(orders: Sequence[Sequence[Order]]) -> list[list[Order]]:
    """What each client sends, a report at a time."""
    return [[one for order in mine for one in _alone(order)] for mine in orders]


def _alone(order: Order) -> list[Order]:
    return [Order(order.round, (user,), (outcome,)) for user, outcome in zip(order.users, order.outcomes, strict=True)]


async def storm(sends: Sequence[Send], orders: Sequence[Sequence[Order]]) -> list[Answer]:
    """All clients at once, each sending its orders one after the other."""
    heard: set[tuple[str, int]] = set()
    answers: list[Answer] = []

    async def client(send: Send, mine: Sequence[Order]) -> None:
        for order in mine:
            (user,), (outcome,) = order.users, order.outcomes
            verdict = await send(order.round, user, outcome)
            if verdict is Verdict.ACCEPTED and (order.round, user) in heard:
                verdict = Verdict.REPEATED
            elif verdict is Verdict.ACCEPTED:
                heard.add((order.round, user))
            answers.append((order.round, user, outcome, verdict))

    await asyncio.gather(*(client(send, mine) for send, mine in zip(sends, orders, strict=True)))
    return answers


async def over_http(port: int, tokens: Sequence[str], orders: Sequence[Sequence[Order]]) -> list[Answer]:
    """Each client on a connection of its own."""
    named = {
        b"conflict": Verdict.CONFLICT,
        b"budget-exceeded": Verdict.OVER_BUDGET,
    }
    clients = [Connection(port) for _ in orders]

    def sending(client: Connection) -> Send:
        async def send(round_: str, user: int, outcome: int) -> Verdict:
            status, body = await client.post(f"/v1/rounds/{round_}/reports", tokens[user], encode_report(outcome, 2))
            if status == 200:
                return Verdict.ACCEPTED
            (verdict,) = [verdict for name, verdict in named.items() if b"problem:" + name in body]
            return verdict

        return send

    try:
        return await storm([sending(client) for client in clients], orders)
    finally:
        for client in clients:
            await client.close()


@pytest.mark.slow
def test_sixty_four_connections_overspend_nothing_and_tally_nothing_twice(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--cap", "5") as server:
        server.enrol(USERS)
        rounds = [str(server.study()["rounds"][0]["id"]) for _ in range(STUDIES)]
        tokens = [server.keys.mint(UserToken(user, 0)) for user in range(USERS)]
        orders = singly(orders_for(rounds, CAPPED, USERS, CLIENTS, each=128, seed=1))
        answers = asyncio.run(over_http(server.port, tokens, orders))

    found = judge(orders, answers, MICRO, [CAP] * USERS)
    assert found.operations >= 20_000
    assert (found.overspent, found.contradicted) == (0, 0)
    assert {verdict for *_, verdict in answers} == {
        Verdict.ACCEPTED,
        Verdict.REPEATED,
        Verdict.CONFLICT,
        Verdict.OVER_BUDGET,
    }
    assert_tallied_once(tmp_path / "data", found.accepted, answers)


def assert_tallied_once(directory: Path, accepted: Counter[str], answers: Sequence[Answer]) -> None:
    """The ledger holds what clients have receipts for, each (user, round) once, and nothing else."""
    charged = defaultdict[int, set[str]](set)
    for round_, user, _, verdict in answers:
        if verdict is Verdict.ACCEPTED:
            charged[user].add(round_)
    with closing(SqliteLedger.open(directory)) as ledger:
        assert ledger.verify() == []
        for round_, reports in accepted.items():
            (tally,) = ledger.tallies(round_)
            assert tally.received == ledger.received(round_) == reports
        for user in range(USERS):
            standing = ledger.standing(user)
            assert {charge.round for charge in standing.charges} == charged[user]
            assert standing.account.spent == len(charged[user]) * MICRO
        assert all(ledger.standing(user).account.remaining == 0 for user in range(CAPPED))


def test_the_same_storm_overspends_a_budget_that_is_read_before_it_is_charged() -> None:
    spent: Counter[int] = Counter()
    stored: dict[tuple[str, int], int] = {}

    async def send(round_: str, user: int, outcome: int) -> Verdict:
        if (round_, user) in stored:
            return Verdict.ACCEPTED if stored[round_, user] == outcome else Verdict.CONFLICT
        before = spent[user]
        await asyncio.sleep(0)  # As it would be while a query is under way.
        if before + MICRO > CAP:
            return Verdict.OVER_BUDGET
        stored.setdefault((round_, user), outcome)
        spent[user] = before + MICRO
        return Verdict.ACCEPTED

    rounds = [f"{number}" for number in range(STUDIES)]
    orders = singly(orders_for(rounds, CAPPED, USERS, CLIENTS, each=32, seed=1))
    found = judge(orders, asyncio.run(storm([send] * CLIENTS, orders)), MICRO, [CAP] * USERS)

    assert found.overspent > 0
    assert found.contradicted > 0
