"""Ask a server whether it is alive, ready and of this version: `askance health` and `askance doctor` both do."""

from __future__ import annotations

import ssl
from enum import StrEnum
from typing import Final

import httpx

from askance_client.transport import TRUST_IT, trusted, untrusted
from askance_lab.commands.shared.urls import is_loopback, read_url
from askance_protocol.rounds.spec import VERSION
from askance_protocol.text import quoted

VERSION_HEADER: Final = "Askance-Protocol"


class ServerState(StrEnum):
    """How a server is, as a program reads it."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    VERSION_MISMATCH = "version-mismatch"
    NOT_READY = "not-ready"


class NotWellError(Exception):
    """Why a server is not well, and what to do."""

    def __init__(self, state: ServerState, what: str, remedy: str) -> None:
        super().__init__(f"{what} ({remedy})")
        self.state, self.what, self.remedy = state, what, remedy


def ask_server(server: str, timeout: float, trust: ssl.SSLContext | None = None) -> None:
    """Return if the server is alive, speaks our version and is ready; else say which of these fails first.

    `trust`: what certificates are believed; by default what `trusted` says.
    """
    url, headers = read_url(server), {VERSION_HEADER: str(VERSION)}
    verify = (trust or trusted()) if url.scheme == "https" else False
    # A proxy of the environment leads away from this machine.
    with httpx.Client(base_url=url, timeout=timeout, verify=verify, trust_env=not is_loopback(url.host)) as client:
        try:
            alive, ready = (client.get(path, headers=headers) for path in ("/healthz", "/readyz"))
        except httpx.HTTPError as error:
            if (why := untrusted(error)) is not None:
                raise NotWellError(ServerState.UNREACHABLE, why, TRUST_IT) from None
            what = "does not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
            remedy = "start it: askance serve; or name another: --server URL"
            raise NotWellError(ServerState.UNREACHABLE, what, remedy) from None
    _check_version(alive)
    if not alive.is_success:
        remedy = "see its log, or name another: --server URL"
        raise NotWellError(ServerState.UNREACHABLE, f"answers with status {alive.status_code}", remedy)
    if not ready.is_success:
        remedy = "wait; if it stays so, see its log and askance doctor"
        raise NotWellError(ServerState.NOT_READY, "is alive but not ready", remedy)


def _check_version(answer: httpx.Response) -> None:
    spoken = answer.headers.get(VERSION_HEADER)
    if spoken is None:
        remedy = "check the URL: --server URL"
        raise NotWellError(ServerState.UNREACHABLE, "answers, but is no Askance server", remedy)
    if spoken != str(VERSION):
        what = f"speaks version {quoted(spoken, 20)} of the protocol, this side {str(VERSION)!r}"
        raise NotWellError(ServerState.VERSION_MISMATCH, what, "install the same version on both sides")
