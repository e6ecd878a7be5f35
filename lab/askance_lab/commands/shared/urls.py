"""URLs of servers, as a person writes them."""

from __future__ import annotations

from contextlib import suppress

import httpx

from askance_protocol.errors import UsageError


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    return host in {"localhost", "::1"} or host.startswith("127.")


def read_url(server: str) -> httpx.URL:
    """The URL that was given with --server."""
    with suppress(httpx.InvalidURL):
        url = httpx.URL(server)
        if url.scheme in {"http", "https"} and url.host and 0 < (url.port or 80) < 1 << 16:
            return url
    raise UsageError("is not an http or https URL", where="--server", remedy="give one as http://127.0.0.1:8080")


def without_password(url: str) -> str:
    """A URL that may be shown."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2] if separator else url
