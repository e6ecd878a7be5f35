"""What a copy of a wallet costs: each draw that left a device is counted by every wallet that can know of it.

Two clones that answer at the same time both draw. The server takes one report and calls the other one a conflict:
whoever is told of the conflict knows of two draws, and counts both. Whoever was accepted cannot know (docs/client.md).
"""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from askance_client import Answered, Reason, ReportState, Unanswered, User, Wallet
from askance_client.consent import AccountStatement, Spending
from askance_client.pace import AT_ONCE
from askance_client.refusals import Refusal
from askance_client.transport import Problem, Server
from askance_protocol.budget import MICRO
from tests.client.liar import HASTY, URL, Liar, problem
from tests.client.people import HERS, answers, enrolled, reasons, run, wallet_at
from tests.protocol.studies import part, study

ROUNDS = 30


class InStep(Server):
    """A connection that hands on the server's statement when the other clone has its own: then both draw.

    Nobody waits for a clone that has done: one that refuses more rounds than the other asks more often.
    """

    def __init__(self, liar: Liar, step: asyncio.Barrier) -> None:
        super().__init__(URL, patience=HASTY, transport=liar.transport())
        self._step = step

    async def statement(self, token: str) -> AccountStatement | Problem | Refusal:
        """As it is."""
        said = await super().statement(token)
        with suppress(asyncio.BrokenBarrierError):
            await self._step.wait()
        return said


def cloned(folder: Path, liar: Liar, cap: int) -> list[Path]:
    """Two copies of the wallet of one who has enrolled."""
    places = [folder / "a", folder / "b"]
    for place in places:
        place.mkdir()
    with closing(wallet_at(places[0], cap)) as wallet:
        enrolled(User(HERS, wallet), liar)
    shutil.copy(places[0] / "wallet", places[1] / "wallet")
    return places


def race(folder: Path, liar: Liar, cap: int, rounds: int) -> list[Wallet]:
    """Both answer that many rounds at the same time, and then their files are opened again."""

    async def one_round(user: User, step: asyncio.Barrier) -> None:
        async with InStep(liar, step) as way:
            await user.take_part(way, liar.id)
        await step.abort()

    async def all_rounds(users: list[User]) -> None:
        for _ in range(rounds):
            liar.ask(part())
            step = asyncio.Barrier(2)
            await asyncio.gather(*(one_round(user, step) for user in users))

    places = cloned(folder, liar, cap)
    with ExitStack() as stack:
        wallets = [stack.enter_context(closing(wallet_at(place, None))) for place in places]
        run(all_rounds([User(HERS, wallet, pace=AT_ONCE) for wallet in wallets]))
    return [wallet_at(place, None) for place in places]


def seen(liar: Liar) -> dict[str, set[bytes]]:
    """The different bodies that left the devices, by round."""
    bodies = defaultdict[str, set[bytes]](set)
    for request in liar.requests:
        if "rounds" in request.url.path:
            bodies[request.url.path.split("/")[3]].add(request.content)
    return bodies


def counted(spending: Spending, round_: str) -> int:
    return sum(account.get(round_, 0) for account in (spending.charges, spending.again, spending.heard))


def missed(wallets: list[Wallet], liar: Liar) -> list[str]:
    """Rounds to which more bodies left the devices than any of the wallets counts."""
    accounts = [wallet.spending for wallet in wallets]
    return [
        round_
        for round_, bodies in seen(liar).items()
        if max(counted(account, round_) for account in accounts) < len(bodies) * MICRO
    ]


@pytest.fixture
def liar() -> Liar:
    return Liar.of(study(simulated=False, cap=3 * ROUNDS * MICRO))


def test_two_clones_at_once_count_both_draws_where_both_were_seen(tmp_path: Path, liar: Liar) -> None:
    wallets = race(tmp_path, liar, 3 * ROUNDS * MICRO, ROUNDS)
    twice = [round_ for round_, bodies in seen(liar).items() if len(bodies) == 2]
    conflicts = [[each.round for each in w.reports.values() if each.state is ReportState.CONFLICT] for w in wallets]

    print(f"{len(twice)} of {ROUNDS} rounds have seen two draws; told of it: {[len(each) for each in conflicts]}")
    assert missed(wallets, liar) == []
    # One of the two was told of each, and counts it for good. At ε = 1 two draws differ with .39: none of 30 is 3e-7.
    assert sorted(conflicts[0] + conflicts[1]) == sorted(twice) != []
    assert [w.spending.spent for w in wallets] == [(ROUNDS + len(told)) * MICRO for told in conflicts]
    for wallet in wallets:
        wallet.close()


def test_where_a_conflict_costs_nothing_the_same_check_finds_it(
    tmp_path: Path, liar: Liar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: version 0.1 took a conflict for a report that was declined."""
    settle = Wallet.settle

    def as_before(wallet: Wallet, round_: str, state: ReportState) -> None:
        settle(wallet, round_, ReportState.DECLINED if state is ReportState.CONFLICT else state)

    monkeypatch.setattr(Wallet, "settle", as_before)
    wallets = race(tmp_path, liar, 3 * ROUNDS * MICRO, ROUNDS)

    assert sorted(missed(wallets, liar)) == sorted(round_ for round_, bodies in seen(liar).items() if len(bodies) == 2)
    assert missed(wallets, liar) != []
    for wallet in wallets:
        wallet.close()


def test_clones_together_spend_at_most_twice_the_cap(tmp_path: Path, liar: Liar) -> None:
    """What docs/client.md says: each keeps to the cap by what it knows, so the damage of a copy has a bound."""
    wallets = race(tmp_path, liar, 4 * MICRO, 4)

    drawn = sum(map(len, seen(liar).values()))
    assert drawn <= 2 * 4
    for wallet in wallets:
        assert sum(wallet.spending.charges.values()) <= 4 * MICRO
        # What she knows of beyond her own draws, from conflicts and from the server's account, is of the other's.
        assert wallet.spending.spent <= drawn * MICRO
    for wallet in wallets:
        wallet.close()


def test_a_server_that_lies_with_conflict_shuts_a_wallet_and_never_makes_it_overspend(
    tmp_path: Path, liar: Liar
) -> None:
    liar.says["receipt"] = lambda _: problem(409, "conflict")
    rounds = [liar.ask(part()) for _ in range(6)]
    with closing(wallet_at(tmp_path, 4 * MICRO)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        results = answers(user, liar)

        assert results[:2] == [Unanswered(round_, "conflict", final=True) for round_ in rounds[:2]]
        assert reasons(results) == [Reason.BEYOND_CAP] * 4
        assert len(liar.bodies) == 2
        assert wallet.spending.spent == 4 * MICRO
        assert wallet.spending.again == dict.fromkeys(rounds[:2], MICRO)

        # An honest answer later does not take it back, and neither do the same bytes again.
        liar.says.clear()
        assert answers(user, liar)[:2] == results[:2]
        wallet.settle(rounds[0], ReportState.ACKNOWLEDGED)
        assert wallet.spending.spent == 4 * MICRO


def test_a_conflict_counts_twice_against_what_the_study_promised(tmp_path: Path) -> None:
    liar = Liar.of(study(simulated=False, cap=3 * MICRO))
    liar.says["receipt"] = lambda _: problem(409, "conflict")
    first = liar.ask(part())
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        answers(user, liar)
        liar.says.clear()
        second, third = liar.ask(part()), liar.ask(part())
        results = answers(user, liar)

    assert results[:2] == [Unanswered(first, "conflict", final=True), Answered(second, MICRO)]
    assert [(each.reason, each.round) for each in results if isinstance(each, Refusal)] == [
        (Reason.BEYOND_STUDY_CAP, third)
    ]


def test_what_a_conflict_costs_is_not_counted_a_third_time_by_the_servers_account(tmp_path: Path, liar: Liar) -> None:
    """The server's account has the other draw. It is not taken for a round that was answered elsewhere, too."""
    first = liar.ask(part())
    with closing(wallet_at(tmp_path)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, liar)
        liar.says["receipt"] = lambda _: problem(409, "conflict")
        answers(user, liar)
        liar.says.clear()
        liar.charges[first] = MICRO
        liar.ask(part())
        answers(user, liar)

        assert wallet.spending.elsewhere == 0
        assert wallet.spending.spent == 3 * MICRO
