"""A study driven over a ledger as by a server that has just started: each call replays the study from its bulletin."""

from __future__ import annotations

from askance_protocol.rounds import StudySpec
from askance_server.core.strategy import Hypothesis
from askance_server.core.study import Ended, Paused, Strategies, Waiting
from askance_server.driver import Driver
from askance_server.ledger.base import Ledger


def publish(ledger: Ledger, spec: StudySpec, strategies: Strategies) -> str:
    return Driver(ledger, strategies).publish(spec)


def advance(ledger: Ledger, id_: str, strategies: Strategies, now: int) -> Waiting | Paused | Ended:
    return Driver(ledger, strategies).advance(id_, now)


def close(ledger: Ledger, round_: str) -> None:
    Driver(ledger, {}).close(round_)


def cancel(ledger: Ledger, id_: str) -> Ended:
    return Driver(ledger, {}).cancel(id_)


def result(ledger: Ledger, id_: str, strategies: Strategies) -> Hypothesis | None:
    return Driver(ledger, strategies).result(id_)
