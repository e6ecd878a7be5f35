"""Which certificates of servers are believed, and what is said where one is not."""

from __future__ import annotations

import ssl
from typing import Final

import httpx

from askance_protocol.errors import UsageError

TRUST_IT: Final = "if it is the right one, name it, or the one that signed it: SSL_CERT_FILE=FILE"


def trusted() -> ssl.SSLContext:
    """What httpx believes: those that SSL_CERT_FILE names; where it names none, those of public authorities."""
    try:
        return httpx.create_ssl_context()
    except OSError:  # What is wrong with what it holds is one, too.
        raise UsageError("has no certificate that can be read", where="SSL_CERT_FILE", remedy="name a PEM") from None


def untrusted(error: BaseException) -> str | None:
    """Why a server's certificate is not believed; None where this was not the cause of an error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"shows a certificate that is not trusted: {cause.verify_message.rstrip('.')}"
        cause = cause.__cause__ or cause.__context__
    return None
