"""Errors of the connection to a server. A refusal by the server is a value: `Problem`, or a `Refusal` by the client."""

from __future__ import annotations

from askance_protocol.errors import AskanceError, Code


class RemoteError(AskanceError):
    """The server declined, or gave an answer that cannot be understood, where there is no going on without one."""

    code = Code.REMOTE


class VersionMismatchError(RemoteError):
    """The server speaks another version of the protocol."""

    code = Code.VERSION_MISMATCH


class UnreachableError(AskanceError):
    """The server did not answer any attempt. Stored reports are sent another time."""

    code = Code.UNREACHABLE
