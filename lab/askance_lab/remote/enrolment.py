"""Many users enrolled at once, for whom a gateway speaks."""

from __future__ import annotations

from typing import Final

from askance_client import Refusal, Server
from askance_lab.remote.study_client import unwrap
from askance_protocol.errors import ProtocolError

_MOST_AT_ONCE: Final = 10_000_000


async def enrol_many(server: Server, token: str, users: int) -> int:
    """Enrol users who need no tokens, since a gateway speaks for them; the first of their consecutive numbers."""
    firsts: list[int] = []
    for begin in range(0, users, _MOST_AT_ONCE):
        enrolled = unwrap(await server.enrol(token, min(_MOST_AT_ONCE, users - begin)))
        assert not isinstance(enrolled, Refusal)  # noqa: S101 - told the type checker: `said` has refused it
        firsts.append(enrolled.first)
    if firsts != list(range(firsts[0], firsts[0] + users, _MOST_AT_ONCE)):
        raise ProtocolError("others enrol at the same time", where="server", remedy="try again when they are done")
    return firsts[0]
