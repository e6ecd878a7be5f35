"""Records of a wallet: its owner, her identity at a server, and the reports that she has drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from askance_protocol.schema import Schema
from askance_protocol.values import read


@dataclass(frozen=True, slots=True)
class Identity:
    """A user's number at a server, and the token that proves it."""

    server: str
    user: int
    token: str

    def __repr__(self) -> str:
        return f"Identity({self.server!r}, {self.user}, …)"


class ReportState(StrEnum):
    """State of a stored report."""

    STORED = "kept"
    """On its way, or waiting to be sent again. The value is the word that wallet files use."""
    ACKNOWLEDGED = "acknowledged"
    """The server has given its receipt."""
    DECLINED = "declined"
    """The server will never take it. What it cost stays spent: it has been seen."""
    CONFLICT = "conflict"
    """The server has taken another draw of hers to this round. Both have been seen, so its cost is counted twice."""


@dataclass(frozen=True, slots=True, repr=False)
class StoredReport:
    """A stored report. Its body is private as long as it is not sent, so it has no readable form."""

    round: str
    charge: int
    body: bytes
    state: ReportState
    study: str | None = None
    """Digest of the study; None where version 0.1 of this program drew the report."""


class Owner(NamedTuple):
    """A row of the table of owners. It holds her token, so it has no readable form."""

    id: int
    cap: int
    elsewhere: int = 0
    server: str | None = None
    user_number: int | None = None
    token: str | None = None
    declared: str | None = None
    report_count: int = 0
    heard_count: int = 0

    def __repr__(self) -> str:
        return f"Owner({self.id}, …)"

    @property
    def identity(self) -> Identity | None:
        """Her number and token at her server; None before she has enrolled."""
        if self.server is None or self.user_number is None or self.token is None:
            return None
        return Identity(self.server, self.user_number, self.token)

    @property
    def declared_fields(self) -> Schema | None:
        """The fields that she has declared to have; None before she has."""
        return None if self.declared is None else read(Schema, self.declared, limit=len(self.declared))


@dataclass(frozen=True, slots=True, repr=False)
class OwnerAccount:
    """All that a file knows of what one owner has spent, read at one time and found whole."""

    owner: Owner
    reports: Mapping[str, StoredReport]
    """By the round's id."""
    heard: Mapping[str, int]
    """What each round cost that a copy of this wallet has answered."""

    @property
    def again(self) -> dict[str, int]:
        """What each round cost a second time."""
        return {round_: each.charge for round_, each in self.reports.items() if each.state is ReportState.CONFLICT}

    @property
    def spent(self) -> int:
        """Micro-ε spent, here and elsewhere."""
        charges = sum(each.charge for each in self.reports.values())
        return charges + sum(self.again.values()) + self.owner.elsewhere
