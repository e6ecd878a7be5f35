"""Users for tests: with wallets in a directory of the test, closed at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from askance_client import Identity, Refusal, Result, User, Wallet
from askance_protocol.budget import MICRO
from askance_protocol.examples import Example
from askance_protocol.randomness import OsRandom
from tests.client.liar import ENROLMENT, USER, Liar
from tests.protocol.studies import SCHEMA

T = TypeVar("T")

SECONDS: Final = 120
CAP: Final = 10 * MICRO
HERS: Final = Example.of(SCHEMA, {"x": "01100101", "i": 5, "b": "1", "height": 0.3, "y": -1})
OTHERS: Final = Example.of(SCHEMA, {"x": "00000000", "i": 0, "b": "0", "height": -1.0, "y": 1})


def run(work: Coroutine[Any, Any, T]) -> T:
    """On a loop of its own, within bounds: what hangs has failed."""
    return asyncio.run(asyncio.wait_for(work, SECONDS))


def answers(user: User, liar: Liar) -> list[Result]:
    """She takes part, once."""

    async def once() -> list[Result]:
        async with liar.server() as server:
            return await user.take_part(server, liar.id)

    return run(once())


def enrolled(user: User, liar: Liar) -> Identity:
    """She gets her number."""

    async def once() -> Identity:
        async with liar.server() as server:
            identity = await user.enrol(server, ENROLMENT)
            assert isinstance(identity, Identity)
            return identity

    identity = run(once())
    assert identity.user == USER
    return identity


def reasons(results: list[Result]) -> list[str]:
    """Why she refuses, where she does."""
    return [result.reason.value for result in results if isinstance(result, Refusal)]


def wallet_at(path: Path, cap: int | None = CAP) -> Wallet:
    """Her wallet."""
    return Wallet.open(path / "wallet", cap=cap)


class Words:
    """Counts the words that were drawn from the operating system, and what else was asked of it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.drawn = 0
        word = OsRandom.word

        def counted(source: OsRandom) -> int:
            self.drawn += 1
            return word(source)

        def bulk(*_: object) -> None:
            raise AssertionError("one report is one word")

        patch.setattr(OsRandom, "word", counted)
        patch.setattr(OsRandom, "draw", bulk)
