"""Users vanish at random, and the estimate from those who are left is unbiased. Who is late is not counted, and pays.

200 fixed seeds for each share of vanished users, each with a population, noise and dropouts of its own. An estimate,
less the truth of the distribution that the examples come from, is about normal in standard errors: of 200 of them none
is beyond 4, and their mean is within 4/√200.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from askance_client import Answered, BulletinReader, Identity, Result, Server, Unanswered, User, Wallet
from askance_protocol.budget import MICRO
from askance_protocol.examples import Columns, Example
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import Part, PreparedRound
from askance_protocol.tally import tally_round
from askance_server.core.estimators import estimate
from tests.client.liar import URL
from tests.harness.servers import Service
from tests.protocol.studies import HEIGHT, MASKED_BIT, MASKED_CELL, SCHEMA, D, part, prepared

SEEDS = 200
USERS = 6_000
BEYOND = 4.0
HELD, NEGATIVE = 0.7, 0.2
"""How many have the bit set, and how many a negative label."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool]


@dataclass(frozen=True)
class Question:
    """What is asked, and what the answer is in the distribution that `draw` draws from."""

    part: Part
    truth: Floats


def draw(generator: np.random.Generator) -> Columns:
    """Examples: all fields independent, none of them uniform."""
    skewed = generator.integers(0, D, (2, USERS)).min(axis=0)
    return Columns.of(
        SCHEMA,
        {
            "x": np.zeros((USERS, D), np.uint8),
            "i": skewed,
            "b": (generator.random((USERS, 1)) < HELD).astype(np.uint8),
            "height": generator.choice([-0.7, 0.2, 1.0], USERS, p=[0.5, 0.3, 0.2]),
            "y": np.where(generator.random(USERS) < NEGATIVE, -1, 1),
        },
    )


# Pr[min of two uniform of 0 .. D − 1 = i]
SKEWED = (2 * (D - np.arange(D)) - 1) / D**2
QUESTIONS = {
    "boolean": Question(part(MASKED_BIT), np.array([HELD * NEGATIVE])),
    "real": Question(part(HEIGHT), np.array([0.5 * -0.7 + 0.3 * 0.2 + 0.2 * 1.0])),
    "pooled cell": Question(part(MASKED_CELL), HELD * (1 - 2 * NEGATIVE) * SKEWED),
}

Stays = Callable[[np.random.Generator, Columns, float], Mask]


def at_random(generator: np.random.Generator, columns: Columns, vanished: float) -> Mask:
    """Who is left, whatever she holds."""
    return generator.random(len(columns)) >= vanished


def by_what_they_hold(generator: np.random.Generator, columns: Columns, vanished: float) -> Mask:
    """As many vanish of those whose bit is set as are asked for, and of the others half as many."""
    held = columns["b"][0].astype(np.bool)
    return generator.random(len(columns)) >= np.where(held, vanished, vanished / 2)


def deviations(question: Question, vanished: float, stays: Stays = at_random, *, of_all: bool = False) -> Floats:
    """For each seed, how far each estimate is from the truth, in standard errors: seeds × estimates."""
    round_ = prepared(question.part)
    return np.array([_deviation(round_, question.truth, seed, vanished, stays, of_all) for seed in range(SEEDS)])


def _deviation(round_: PreparedRound, truth: Floats, seed: int, vanished: float, stays: Stays, of_all: bool) -> Floats:
    generator = np.random.default_rng(seed)
    columns = draw(generator)
    users = np.arange(USERS, dtype=np.uint64)
    sample = round_.respond_all(users, columns, SimulatedRandom(seed))
    left = stays(generator, columns, vanished)
    [tally] = tally_round(round_, users[left], sample.outcomes[left])
    found = estimate(round_.parts[0], tally)
    assert found.received == left.sum()
    values = found.values * found.received / USERS if of_all else found.values
    return (values - truth) / found.standard_errors


def drift(z: Floats) -> float:
    """The largest mean over all seeds, in its own standard errors."""
    return float(np.abs(z.mean(axis=0)).max() * np.sqrt(len(z)))


@pytest.mark.parametrize("vanished", [0.3, 0.6])
@pytest.mark.parametrize("name", QUESTIONS)
def test_estimates_of_those_who_are_left_are_unbiased(name: str, vanished: float) -> None:
    z = deviations(QUESTIONS[name], vanished)

    print(f"{name}, {vanished:.0%} vanished: largest |z| {np.abs(z).max():.2f}, drift {drift(z):.2f}")
    assert np.abs(z).max() < BEYOND
    assert drift(z) < BEYOND
    # Standard errors are as large as the errors: neither of the above is for want of sharpness.
    assert z.std(axis=0) == pytest.approx(np.ones(z.shape[1]), abs=0.2)


@pytest.mark.parametrize("name", ["boolean", "pooled cell"])
def test_dropouts_that_depend_on_the_data_are_found(name: str) -> None:
    assert drift(deviations(QUESTIONS[name], 0.6, by_what_they_hold)) > BEYOND


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_estimate_that_divides_by_all_who_were_asked_is_found(name: str) -> None:
    assert drift(deviations(QUESTIONS[name], 0.3, of_all=True)) > BEYOND


# --------------------------------------------------------------------------------------------------------- over REST


IN_TIME, LATE, NEVER = 6, 2, 2
"""How many answer, are late, and come when they can read that it is over."""


class Person:
    """A user of a service, and what she has read of its study."""

    def __init__(self, server: Server, wallet: Wallet) -> None:
        self.server, self.wallet = server, wallet

    async def read(self, study: str) -> None:
        """She hears that the round is open."""
        self.reader = BulletinReader(self.server, study)
        assert await self.reader.refresh() is None
        self.user = User(Example.of(self.reader.history.study.example, {"value": 0.5}), self.wallet)

    async def answers(self, *, refresh: bool) -> list[Result]:
        """By what she has heard, or by what there is to be heard."""
        return await self.user.answer(self.reader, refresh=refresh)


def test_who_is_late_is_refused_and_not_counted_and_has_paid(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service, ExitStack() as stack:
        tokens = service.enrol(IN_TIME + LATE + NEVER)
        study = service.study()
        round_: str = study["rounds"][0]["id"]
        wallets = [stack.enter_context(closing(Wallet.open(tmp_path / token[-8:], cap=MICRO))) for token in tokens]
        for user, (wallet, token) in enumerate(zip(wallets, tokens, strict=True)):
            wallet.enrolled(Identity(URL, user, token))
        service._runner.run(closes_early(service, wallets, study["id"], round_))

        # What she has drawn is paid for, taken or not.
        assert [wallet.spending.spent for wallet in wallets] == [MICRO] * (IN_TIME + LATE) + [0] * NEVER
        accounts = [service.get("/v1/me", token=token).json()["spent_micro_epsilon"] for token in tokens]
        assert accounts == [MICRO] * IN_TIME + [0] * (LATE + NEVER)
        tally = service.get(f"/v1/rounds/{round_}/tally").json()
        assert (tally["received"], sum(tally["tallies"][0][0])) == (IN_TIME, IN_TIME)


async def closes_early(service: Service, wallets: Sequence[Wallet], study: str, round_: str) -> None:
    """All have read that the round is open; it closes when some have answered."""
    async with Server(URL, transport=httpx.ASGITransport(service.app)) as server:
        people = [Person(server, wallet) for wallet in wallets]
        for person in people:
            await person.read(study)
        in_time, late, never = people[:IN_TIME], people[IN_TIME:-NEVER], people[-NEVER:]
        for person in in_time:
            assert await person.answers(refresh=False) == [Answered(round_, MICRO)]
        assert isinstance(await server.command(f"/v1/rounds/{round_}/close", service.operator), dict)
        for person in late:
            assert await person.answers(refresh=False) == [Unanswered(round_, "round-not-open", final=True)]
        # Nobody sends anything any more, whatever she hears.
        for person in in_time:
            assert await person.answers(refresh=True) == [Answered(round_, MICRO)]
        for person in late:
            assert await person.answers(refresh=True) == [Unanswered(round_, "declined", final=True)]
        for person in never:
            assert await person.answers(refresh=True) == []
