"""Records of a wallet: its owner's identity at a server, and the reports that she has drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True, repr=False)
class StoredReport:
    """A stored report. Its body is private as long as it is not sent, so it has no readable form."""

    round: str
    charge: int
    body: bytes
    state: ReportState
