"""The client, which runs on a person's device: her example, her wallet, her consent, and the connection to a server.

`askance_client.simulation` (made-up users, fleets, gateways) and `askance_client.tables` (files with a row a user)
stand apart: nothing of what a device runs imports them.
"""

from askance_client.bulletin_reader import BulletinReader
from askance_client.history import History, Pin
from askance_client.news import LateRound, ShortRound, StudyNews
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Patience, Problem, RemoteError, Server, UnreachableError, VersionMismatchError
from askance_client.user import Answered, Result, Unanswered, User, count, enrol
from askance_client.wallet import (
    BeyondCapError,
    DamagedWalletError,
    Identity,
    NotEnrolledError,
    ReportState,
    Wallet,
    WalletError,
    WalletFile,
    WalletInUseError,
)

__all__ = [
    "Answered",
    "BeyondCapError",
    "BulletinReader",
    "DamagedWalletError",
    "History",
    "Identity",
    "LateRound",
    "NotEnrolledError",
    "Patience",
    "Pin",
    "Problem",
    "Reason",
    "Refusal",
    "RemoteError",
    "ReportState",
    "Result",
    "Server",
    "ShortRound",
    "StudyNews",
    "Unanswered",
    "UnreachableError",
    "User",
    "VersionMismatchError",
    "Wallet",
    "WalletError",
    "WalletFile",
    "WalletInUseError",
    "count",
    "enrol",
]
