"""One user: her example, her wallet, her reports. And many of them."""

from askance_client.history import History, Pin
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Patience, Problem, Server, UnreachableError
from askance_client.user import Answered, BulletinReader, Result, Unanswered, User, count, enrol
from askance_client.wallet import Identity, State, Wallet, WalletError, WalletFile

__all__ = [
    "Answered",
    "BulletinReader",
    "History",
    "Identity",
    "Patience",
    "Pin",
    "Problem",
    "Reason",
    "Refusal",
    "Result",
    "Server",
    "State",
    "Unanswered",
    "UnreachableError",
    "User",
    "Wallet",
    "WalletError",
    "WalletFile",
    "count",
    "enrol",
]
