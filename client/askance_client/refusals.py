"""Refusals: why a user does not answer, as values that are counted and shown.

A refusal depends on public documents, on her number and on what she has spent, which follows from public documents.
It never depends on her example: what decides here never sees one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from askance_protocol.text import printable


class Reason(StrEnum):
    """Why a client refuses what a server says or asks."""

    UNREADABLE = "unreadable"
    """It is not a document of this protocol, or of another version."""
    OTHER_STUDY = "other-study"
    """The bulletin is of another study than was asked for."""
    BROKEN_CHAIN = "broken-chain"
    """An entry does not follow on the one before, or not on what the study allows."""
    TWO_HISTORIES = "two-histories"
    """The bulletin is not a continuation of what she has seen."""
    SIMULATED = "simulated"
    """The study says that its users are simulated, so that gateways may speak for them; she is not."""
    OTHER_SCHEMA = "other-schema"
    """The study asks about other fields than hers."""
    UNSOUND_ROUND = "unsound-round"
    """The round asks what cannot be answered, or charges less than its channel costs."""
    TOO_MANY_ROUNDS = "too-many-rounds"
    """The study has more rounds than anybody needs: each also tells when she answers."""
    BELOW_FLOOR = "below-floor"
    """The round charges so little that a server could ask any number of them."""
    DEADLINE_PASSED = "deadline-passed"
    """The round should have closed by now: a report would be charged by her wallet, and come too late."""
    OTHER_USER = "other-user"
    """The server's account is another user's."""
    HEARD_ALREADY = "heard-already"
    """The server has a report of hers that this wallet does not know: the wallet was restored or copied."""
    BEYOND_STUDY_CAP = "beyond-study-cap"
    """The study said that it would charge less."""
    BEYOND_CAP = "beyond-cap"
    """Her own cap does not cover it."""
    WRONG_RECEIPT = "wrong-receipt"
    """The receipt is for another report than hers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal: its reason and its detail, in which nothing that a server said can steer a terminal."""

    reason: Reason
    detail: str
    round: str | None = None
    passing: bool = False
    """Whether it may be over at the next attempt: what came was no document of this protocol at all, as a portal, a
    proxy, or a server that is just starting gives. A document that is wrong is a lie, and not asked for again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", printable(self.detail))
