"""When a report is sent, and how often a server may see that: neither depends on what she holds."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from askance_client import Reason, User, Wallet, count
from askance_client.consent import AccountStatement, PublicFacts
from askance_client.history import History
from askance_client.pace import AT_ONCE, PACE, Pace
from askance_client.refusals import Refusal
from askance_client.transport import Server
from askance_client.wallet import Identity, StoredReport
from askance_protocol.budget import MICRO
from askance_protocol.examples import Example
from askance_protocol.rounds import LEAST_CHARGE, MOST_ROUNDS, BinarySpec, Part, PreparedRound
from tests.client.liar import HASTY, URL, Liar
from tests.client.people import HERS, OTHERS, enrolled, reasons, run
from tests.client.test_lies import trusts_any_study, trusts_the_server
from tests.protocol.studies import PARTS, part, study

SECONDS: Final = PACE.seconds
QUICK, SLOW = 0.0003, 0.0019
"""Seconds that the draw takes for one example and for another: far more apart than they ever are."""


GLANCE: Final = 2e-7
"""Seconds to look at the clock."""
ALIKE: Final = 2e-6
"""Seconds within which moments are alike here: a glance or two."""


@dataclass
class Clock:
    """A time that passes where it is told to, and a little whenever it is looked at."""

    now: float = 1000.0
    late: list[float] = field(default_factory=list[float])
    """By how much the next sleeps last longer."""

    def __call__(self) -> float:
        """The time."""
        self.now += GLANCE
        return self.now

    async def sleep(self, seconds: float) -> None:
        """It passes as on an event loop: in whole milliseconds, rounded up."""
        assert seconds >= 0
        begins = 1e-6  # It has become less when the loop looks.
        self.now += begins + math.ceil((seconds - begins) * 1000) / 1000 + (self.late.pop(0) if self.late else 0)


@dataclass
class Onlooker(Liar):
    """A server that notes when it was asked what, and takes its time to answer."""

    clock: Clock = field(default_factory=Clock)
    seen: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    takes: float = 0.0
    """Seconds until a user is told what she has spent."""

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Any request."""
        name = request.url.path.rpartition("/")[2]
        self.seen.append((name, self.clock.now))
        if name == "me":
            self.clock.now += self.takes
        return super().handle(request)


def seen_of(
    example: Example,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[User] = User,
    pace: Callable[[float, Clock, Callable[[float], Awaitable[None]]], Pace] = Pace,
    *,
    takes: float = 0.0,
    late: float = 0.0,
    seconds: float = SECONDS,
    asked: Sequence[Part] = tuple(PARTS.values()),
) -> list[tuple[str, float]]:
    """All that a server sees of somebody who answers every question, and when; and when she draws."""
    respond = PreparedRound.respond
    published = study(simulated=False, cap=100 * MICRO).to_json()
    watcher = Onlooker(published, clock=Clock(late=[late] * 2 * len(asked)), takes=takes)
    watcher.publish({"kind": "study", "study": published})

    def slowly(self: PreparedRound, user: int, example: Example, *rest: Any) -> int:
        watcher.clock.now += SLOW if example == HERS else QUICK
        watcher.seen.append(("drawn", 0.0))
        return respond(self, user, example, *rest)

    path.mkdir()
    wallet = Wallet.open(path / "wallet", cap=100 * MICRO)
    with monkeypatch.context() as patch:
        patch.setattr(PreparedRound, "respond", slowly)
        user = kind(example, wallet, pace=pace(seconds, watcher.clock, watcher.clock.sleep))
        enrolled(user, watcher)
        for each in asked:
            watcher.ask(each)

        async def once() -> None:
            async with watcher.server() as server:
                assert set(count(await user.take_part(server, watcher.id))) == {"answered"}

        run(once())
    wallet.close()
    return watcher.seen


def apart(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> float:
    """By how many seconds the moments of two users differ at most; what they do is the same."""
    assert [name for name, _ in one] == [name for name, _ in other]
    return max(abs(here - there) for (_, here), (_, there) in zip(one, other, strict=True))


class FromTheRequest(User):
    """Counts the seconds from her request, so that the server decides how many are left for the draw."""

    async def _draw_and_store(
        self, history: History, server: Server, id_: str, facts: PublicFacts, identity: Identity
    ) -> StoredReport | Refusal:
        begin = self._pace.begin()
        statement = await server.statement(identity.token)
        assert isinstance(statement, AccountStatement)
        report = await self._wallet.group_commit(lambda: self._decide(history, id_, facts, statement))
        await self._pace.hold(begin)
        return report


JUST_BEFORE: Final = SECONDS - (QUICK + SLOW) / 2 - 0.001
"""A server that answers so late that one draw ends in time for the next instant, and another does not."""


class Asleep(Pace):
    """Sleeps, and trusts the event loop with the instant."""

    async def hold(self, begin: float) -> None:
        """Sleep until then."""
        passed = self.clock() - begin
        await self.sleep(self.seconds * (1 + passed // self.seconds) - passed)


class AsleepAtAnyTime(Pace):
    """Counts the end down, but goes to sleep when the draw has ended, so that it wakes so much later."""

    async def hold(self, begin: float) -> None:
        """Sleep until almost then."""
        while True:
            due = begin + self.seconds * (1 + (self.clock() - begin) // self.seconds)
            await self.sleep(max(due - 0.002 - self.clock(), 0))
            if self.clock() < due:
                self._count_down(begin, self.seconds)
                return


LATE: Final = 0.0014
"""By how much a busy machine wakes her too late: for some of those who wake before the instant it is too much."""


@pytest.mark.parametrize("takes", [0.0, 0.02, JUST_BEFORE, 3.0])
@pytest.mark.parametrize("late", [0.0, 0.001, LATE, 0.0025, 0.25])
def test_the_moments_that_a_server_sees_are_alike_whatever_she_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: float, late: float
) -> None:
    one, other = (
        seen_of(each, tmp_path / str(n), monkeypatch, takes=takes, late=late) for n, each in enumerate([HERS, OTHERS])
    )

    assert apart(one, other) < ALIKE


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (User, {"seconds": 0.0}),
        (FromTheRequest, {"takes": JUST_BEFORE}),
        (User, {"pace": Asleep}),
        (User, {"pace": AsleepAtAnyTime, "late": LATE}),
    ],
    ids=["sends at once, as version 0.1", "counts from her request", "sleeps to the end", "sleeps at any time"],
)
def test_the_onlooker_sees_who_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[User], how: dict[str, Any]
) -> None:
    """The control."""
    one, other = (seen_of(each, tmp_path / str(n), monkeypatch, kind, **how) for n, each in enumerate([HERS, OTHERS]))

    assert apart(one, other) > 100 * ALIKE


def test_what_is_drawn_is_sent_at_the_instant_that_was_fixed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Account, draw, report: in this order, and the report `SECONDS` after the answer that she waited for."""
    names, times = zip(*seen_of(HERS, tmp_path / "hers", monkeypatch, takes=0.5, asked=[part()]), strict=True)

    assert names == ("enrolments", "bulletin", "me", "drawn", "reports")
    assert times[4] - times[2] == pytest.approx(0.5 + SECONDS, abs=ALIKE)


@pytest.mark.parametrize(
    ("passed", "late", "instant"),
    [
        *((passed, 0.0, 1) for passed in (0.0, 0.0301, 0.0985)),
        (0.2511, 0.0, 3),
        (0.0301, 0.001, 1),
        (0.0301, 0.01, 2),
        (0.0301, 0.3, 4),
    ],
)
def test_one_who_is_too_late_waits_for_the_next_instant(passed: float, late: float, instant: int) -> None:
    """Because the draw took so long, or because she is woken so late."""
    clock = Clock(late=[late])
    pace = Pace(0.1, clock, clock.sleep)
    begin = pace.begin()
    clock.now += passed
    run(pace.hold(begin))

    assert clock.now - begin == pytest.approx(instant * 0.1, abs=ALIKE)


def test_a_person_waits_and_made_up_users_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_client.user.PACE", PACE)
    wallet = Wallet.open(tmp_path / "wallet", cap=MICRO)
    kept = [User(HERS, wallet)._pace, User(HERS, wallet, simulated=True)._pace]
    wallet.close()

    assert kept == [PACE, PACE]
    assert (PACE.seconds, AT_ONCE.seconds) == (0.1, 0)


# ----------------------------------------------------------------------------------------------- how often it sees that


def timings(liar: Liar, path: Path, rounds: int, charge: int, *, at_a_time: int) -> tuple[int, list[str]]:
    """How many reports a server gets, and can time, of one user whom it asks for next to nothing; and her refusals."""
    asked = part(channel=BinarySpec(micro_epsilon=charge), charge=charge)
    wallet = Wallet.open(path / "wallet", cap=100 * MICRO)
    user = User(HERS, wallet)
    enrolled(user, liar)
    last: list[Any] = []

    async def follow() -> None:
        async with Server(URL, patience=HASTY, transport=httpx.MockTransport(liar.handle)) as server:
            for _ in range(0, rounds, at_a_time):
                for _ in range(at_a_time):
                    liar.ask(asked)
                last[:] = await user.take_part(server, liar.id)

    run(follow())
    wallet.close()
    return len(liar.bodies), reasons(last)


def test_nobody_can_be_timed_fifty_times_for_nothing(tmp_path: Path) -> None:
    """Fifty timings for one micro-ε each told all-zero examples of version 0.1 from random ones, in 11 of 12 cases."""
    liar = Liar.of(study(simulated=False, cap=100 * MICRO))

    assert timings(liar, tmp_path, 50, 1, at_a_time=50) == (0, [Reason.BELOW_FLOOR] * 50)


def test_the_timings_of_a_study_are_bounded_and_paid_for(tmp_path: Path) -> None:
    """The largest study that is answered, and one round more."""
    liar = Liar.of(study(simulated=False, cap=100 * MICRO))
    reports, refused = timings(liar, tmp_path, MOST_ROUNDS + 25, LEAST_CHARGE, at_a_time=25)

    assert (reports, refused) == (MOST_ROUNDS, [Reason.TOO_MANY_ROUNDS])
    assert sum(liar.charges.values()) == MOST_ROUNDS * LEAST_CHARGE == MICRO


@pytest.mark.parametrize(
    ("check", "trusting", "rounds", "charge"),
    [
        ("decide", trusts_the_server, 50, 1),
        ("refuse_study", trusts_any_study, MOST_ROUNDS + 25, LEAST_CHARGE),
    ],
)
def test_one_who_minds_neither_price_nor_number_is_timed_each_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: str,
    trusting: Callable[..., object],
    rounds: int,
    charge: int,
) -> None:
    """The control: the rules of version 0.1."""
    monkeypatch.setattr(f"askance_client.user.{check}", trusting)
    liar = Liar.of(study(simulated=False, cap=100 * MICRO))

    assert timings(liar, tmp_path, rounds, charge, at_a_time=25) == (rounds, [])
