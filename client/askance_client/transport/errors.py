"""Errors of the way to a server. What a server declines is no error but a value: `Problem`, or a `Refusal` of hers."""

from __future__ import annotations

from askance_protocol.errors import AskanceError, Code


class RemoteError(AskanceError):
    """The server declined, or gave an answer that cannot be understood, where there is no going on without one."""

    code = Code.REMOTE


class UnreachableError(AskanceError):
    """The server did not answer, however often it was asked. What was stored is sent another time."""

    code = Code.UNREACHABLE
