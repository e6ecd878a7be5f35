"""Errors of the trusted curator."""

from __future__ import annotations

from askance_protocol.errors import Code, ProtocolError


class TooFewExamplesError(ProtocolError):
    """The database has fewer examples than the mechanism's privacy, or its parts, require."""

    code = Code.TOO_FEW_USERS


def require_examples(examples: int, needed: int, what: str, *, where: str) -> None:
    """Refuse fewer than `needed` examples. Both numbers are public, so a refusal tells nothing."""
    if examples < needed:
        raise TooFewExamplesError(what, where=where, remedy=f"give at least {needed}")
