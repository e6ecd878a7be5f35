"""One who follows a study ends when it is over, looks less often while nothing is new, and outlasts what is no lie."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import httpx
import pytest

from askance_client import (
    Answered,
    BulletinReader,
    Reason,
    Refusal,
    Result,
    UnreachableError,
    User,
    Wallet,
    consent,
    history,
)
from askance_client.refusals import Refusal as Refused
from askance_client.transport import documents
from askance_client.transport.patience import Polling
from askance_lab.commands.client import exit_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.budget import LARGEST, MICRO
from tests.client.liar import Change, Liar, instead_of_an_answer, problem
from tests.client.lies import charged, instead
from tests.client.people import CAP, HERS, OTHERS, answers, enrolled, reasons, run, wallet_at
from tests.protocol.studies import FAR, part, study

PASSED = 1_000_000_000
PORTAL = instead(httpx.Response(200, content=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}))
LOOKS = 300
"""More looks than anybody takes who ever ends."""


class TooManyLooks(Exception):
    """She would have gone on for ever."""


@pytest.fixture
def wallet(tmp_path: Path) -> Generator[Wallet]:
    opened = wallet_at(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def liar() -> Liar:
    return Liar.of(study(simulated=False))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept; nobody sleeps."""
    slept, sleep = list[float](), asyncio.sleep

    async def recorded(seconds: float) -> None:
        # Not what the loop of another thread of this process does.
        if threading.current_thread() is not threading.main_thread():
            return await sleep(seconds)
        slept.append(seconds)
        if len(slept) > LOOKS:
            raise TooManyLooks
        return await sleep(0)

    monkeypatch.setattr("askance_client.user.asyncio.sleep", recorded)
    return slept


def looks(liar: Liar) -> int:
    return sum(request.url.path.endswith("/bulletin") for request in liar.requests)


def follows(liar: Liar, wallet: Wallet, every: float = 1.0) -> list[Result]:
    async def follow() -> list[Result]:
        async with liar.server() as server:
            return await user.follow(server, liar.id, every=every)

    user = User(HERS, wallet)
    enrolled(user, liar)
    return run(follow())


def at(seconds: float, liar: Liar, user: User) -> list[Result]:
    """She answers at this time, by the clock of her device."""

    async def once() -> list[Result]:
        async with liar.server() as server:
            return await user.answer(BulletinReader(server, liar.id, clock=lambda: seconds))

    return run(once())


# ---------------------------------------------------------------------------------------------------------- deadlines


@pytest.mark.parametrize("example", [HERS, OTHERS])
def test_a_round_whose_deadline_has_passed_is_not_answered(
    liar: Liar, wallet: Wallet, monkeypatch: pytest.MonkeyPatch, example: object
) -> None:
    user = User(HERS if example is HERS else OTHERS, wallet)
    enrolled(user, liar)
    liar.ask(part(), deadline=PASSED)
    asked = len(liar.requests)
    [refusal] = answers(user, liar)

    assert reasons([refusal]) == [Reason.DEADLINE_PASSED]
    assert "by the clock of this device" in refusal.detail  # type: ignore[union-attr]
    assert len(liar.requests) == asked + 1
    assert (liar.bodies, wallet.spending.charges) == ([], {})
    assert exit_of([refusal]) is Exit.TOO_FEW_USERS

    # The control: the client of version 0.1, which looked at no deadline.
    monkeypatch.setattr(consent, "CLOCK_SKEW", 10 * FAR)
    assert [type(result) for result in answers(user, liar)] == [Answered]


def test_a_device_whose_clock_is_a_little_fast_answers_all_the_same(liar: Liar, wallet: Wallet) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(part())
    assert reasons(at(FAR + 301, liar, user)) == [Reason.DEADLINE_PASSED]
    assert [type(result) for result in at(FAR + 300, liar, user)] == [Answered]


def test_a_report_that_was_stored_in_time_is_sent_afterwards(liar: Liar, wallet: Wallet) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(part())
    liar.says["receipt"] = instead_of_an_answer
    with pytest.raises(UnreachableError):
        at(FAR - 1, liar, user)
    liar.says.clear()

    assert [type(result) for result in at(FAR + 10_000, liar, user)] == [Answered]
    assert len(set(liar.bodies)) == 1


def test_a_study_whose_last_deadline_has_long_passed_is_followed_no_longer(
    liar: Liar, wallet: Wallet, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = liar.ask(part(), deadline=PASSED)
    liar.publish({"kind": "closed", "round": closed, "reason": "deadline", "received": 1})
    assert follows(liar, wallet) == []
    assert looks(liar) == 1

    # The control.
    monkeypatch.setattr(history, "LONG_OVER", 10 * FAR)
    with pytest.raises(TooManyLooks):
        follows(liar, wallet)


def test_a_study_that_has_asked_nothing_yet_is_waited_for(liar: Liar, wallet: Wallet, pauses: list[float]) -> None:
    with pytest.raises(TooManyLooks):
        follows(liar, wallet)


# -------------------------------------------------------------------------------------------------------------- polling


def test_looks_become_rarer_while_nothing_is_new(liar: Liar, wallet: Wallet, pauses: list[float]) -> None:
    def bulletin(document: object) -> None:
        if len(pauses) == 12:
            liar.ask(part())
        if len(pauses) == 20:
            liar.publish({"kind": "ended", "state": "finished", "reason": ""})

    liar.says["bulletin"] = bulletin  # type: ignore[assignment]
    results = follows(liar, wallet)
    by_doubling = [1, 2, 4, 8, 16, *[32] * 7]

    assert [type(result) for result in results] == [Answered]
    assert all(most / 2 <= pause <= most for most, pause in zip(by_doubling, pauses, strict=False))
    assert pauses[12] >= 16
    assert pauses[13] <= 1
    assert len({round(pause / most, 9) for most, pause in zip(by_doubling, pauses, strict=False)}) > 6


def rare(polling: Polling) -> bool:
    """Whether an hour without news takes few looks."""
    return sum(polling.pause(news=False) for _ in range(250)) > 3600


def test_an_hour_without_news_takes_few_looks() -> None:
    class Steady(Polling):
        def pause(self, *, news: bool) -> float:
            return self.every

    assert rare(Polling(1))
    # The control: version 0.1 looked each second.
    assert not rare(Steady(1))


# ------------------------------------------------------------------------------------------ what is a lie, and what not


def for_looks(count: int, change: Change) -> Callable[[Liar], None]:
    """For so many looks something else is said."""

    def plant(liar: Liar) -> None:
        left = iter(range(count))
        liar.says["bulletin"] = lambda document: change(document) if next(left, None) is not None else None

    return plant


PASSING: dict[str, Change] = {
    "a portal's page": PORTAL,
    "a portal's redirect": instead(httpx.Response(302, headers={"Location": "http://portal.test/"})),
    "half a document": lambda document: b'{"entries":[',
    "nothing": instead(b""),
    "a proxy's own words": instead(b'{"error":"maintenance"}'),
    "a proxy's page for what is not there": instead(httpx.Response(404, content=b"<html>No</html>")),
    "a packed answer": instead(httpx.Response(200, headers={"Content-Encoding": "br"})),
    "an oversize answer": instead(httpx.Response(200, headers={"Content-Length": str(1 << 40)})),
    "no answer": instead_of_an_answer,
    "an empty bulletin": instead(b'{"entries":[],"head":"%s","length":0}' % (b"0" * 64)),
}
LIES: dict[str, Change] = {
    "a head of nothing": lambda document: document.update(head="1" * 64),
    "an unknown member": lambda document: document["entries"][0].update(more=1),
    "that there is no such study": instead(problem(404, "not-found")),
    "that another version is spoken": instead(problem(409, "version-mismatch")),
}


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("name", PASSING)
def test_what_is_no_lie_is_outlasted(liar: Liar, wallet: Wallet, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    liar.ask(part(), deadline=FAR)
    for_looks(40, PASSING[name])(liar)
    ends_when_answered(liar)
    assert [type(result) for result in follows(liar, wallet)] == [Answered]


def ends_when_answered(liar: Liar) -> None:
    """The study ends with the look after her report."""
    before = liar.says["bulletin"]

    def bulletin(document: object) -> object:
        if liar.heard and liar.entries[-1]["notice"]["kind"] != "ended":
            liar.publish({"kind": "ended", "state": "finished", "reason": ""})
        return before(document)  # type: ignore[arg-type]

    liar.says["bulletin"] = bulletin  # type: ignore[assignment]


@pytest.mark.parametrize("name", PASSING)
def test_what_never_passes_is_given_up(liar: Liar, wallet: Wallet, pauses: list[float], name: str) -> None:
    liar.ask(part())
    liar.says["bulletin"] = PASSING[name]
    if name == "no answer":
        with pytest.raises(UnreachableError):
            follows(liar, wallet)
    else:
        assert reasons(follows(liar, wallet)) == [Reason.UNREADABLE]

    assert len([pause for pause in pauses if pause]) == Polling(1).fruitless - 1
    assert 1200 < sum(pauses) < 2 * 3600


@pytest.mark.parametrize("name", LIES)
def test_after_a_lie_there_is_nothing_to_wait_for(liar: Liar, wallet: Wallet, pauses: list[float], name: str) -> None:
    liar.ask(part())
    liar.says["bulletin"] = LIES[name]

    assert reasons(follows(liar, wallet)) == [Reason.UNREADABLE]
    assert looks(liar) == 1
    assert pauses == []


@pytest.mark.usefixtures("pauses")
def test_a_client_that_takes_a_portal_for_a_liar_is_caught_ending(
    liar: Liar, wallet: Wallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: version 0.1, for which every answer that cannot be read was the last."""
    monkeypatch.setattr(documents, "Refusal", lambda reason, detail, passing: Refused(reason, detail))
    liar.ask(part())
    for_looks(1, PORTAL)(liar)

    assert reasons(follows(liar, wallet)) == [Reason.UNREADABLE]


@pytest.mark.usefixtures("pauses")
def test_a_study_that_she_refuses_is_followed_no_longer(wallet: Wallet) -> None:
    liar = Liar.of(study(simulated=True))
    liar.ask(part())

    assert reasons(follows(liar, wallet)) == [Reason.SIMULATED]
    assert looks(liar) == 1


# ------------------------------------------------------------------------------------ a wallet that was shut by a claim


@pytest.mark.parametrize("claim", [CAP, LARGEST])
def test_a_wallet_that_a_claim_has_shut_says_so_and_what_to_do(liar: Liar, wallet: Wallet, claim: int) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    charged(spent=claim)(liar)
    first = answers(user, liar)
    # Said again when the server says nothing of it any more: it is believed for good.
    liar.says.clear()
    for refusal in (*first, *answers(user, liar)):
        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.BEYOND_CAP
        assert f"its server has claimed that ε = {claim // MICRO} more was spent in your name" in refusal.detail
        assert "this wallet has spent 0 of its 10" in refusal.detail
        assert "a false claim: tell those who run it, and use a new wallet with another server" in refusal.detail
    assert exit_of(first) is Exit.BUDGET_REFUSED


def test_a_wallet_that_she_has_spent_herself_blames_nobody(tmp_path: Path, liar: Liar) -> None:
    wallet = wallet_at(tmp_path, MICRO)
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(part())
    liar.ask(part())
    answered, refusal = answers(user, liar)
    wallet.close()

    assert isinstance(answered, Answered)
    assert isinstance(refusal, Refusal)
    assert refusal.detail == "ε = 1 is asked, 0 is left"
