"""The way to a server: a few requests, each bounded in size and time, and patience where the server asks for some.

Nothing that a server says is believed here; it is only read. What is no document of this protocol is returned as a
refusal. What is private, token and report, appears in no error and no log.
"""

from askance_client.transport.documents import Enrolled, Problem, Receipt, Tail
from askance_client.transport.errors import RemoteError, UnreachableError, VersionMismatchError
from askance_client.transport.patience import Patience, Polling
from askance_client.transport.server import Server
from askance_client.transport.trust import TRUST_IT, trusted, untrusted

__all__ = [
    "TRUST_IT",
    "Enrolled",
    "Patience",
    "Polling",
    "Problem",
    "Receipt",
    "RemoteError",
    "Server",
    "Tail",
    "UnreachableError",
    "VersionMismatchError",
    "trusted",
    "untrusted",
]
