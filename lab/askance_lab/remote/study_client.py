"""An operator over HTTP: opens a study, waits for its end, reads what it learned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from askance_client import BulletinReader, Problem, Refusal, Server
from askance_protocol.canonical import Json
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Cause, Entry, StudyEnded, StudyState

T = TypeVar("T")

_POLL: Final = 0.1


class StudyTooFewUsersError(ProtocolError):
    """A study that failed because too few users could answer."""


class VersionError(ProtocolError):
    """The server speaks another version of the protocol."""


@dataclass(frozen=True, slots=True)
class OpenedStudy:
    """A study that was opened."""

    id: str
    gateway_token: str


@dataclass(frozen=True, slots=True)
class StudyResult:
    """What a study has come to."""

    state: StudyState
    reason: str
    cause: Cause | None
    """Unknown for studies that version 0.1 ended."""
    hypothesis: Mapping[str, Any]
    text: str
    interactive: bool
    rounds: int
    received: tuple[int, ...]
    """Reports of each round."""
    charge: int
    """The most that one user paid, in micro-ε."""


def unwrap(answer: T | Problem | Refusal) -> T:
    """The answer, or an error with the server's own words."""
    if isinstance(answer, Refusal):
        raise ProtocolError(f"cannot be understood: {answer.detail}", where="server", remedy="is it an Askance server?")
    if not isinstance(answer, Problem):
        return answer
    if answer.name == "version-mismatch":
        raise VersionError(answer.detail, where="server", remedy="install the same version on both sides")
    what = f"{answer.status} {answer.name}: {answer.detail}".rstrip(": ")
    raise ProtocolError(what, where="server", remedy="see its log")


async def create(
    server: Server, token: str, strategy: str, parameters: Mapping[str, Json], title: str, *, simulated: bool = True
) -> OpenedStudy:
    """Open a study."""
    asked = {"title": title, "strategy": strategy, "parameters": parameters, "simulated": simulated}
    study = unwrap(await server.command("/v1/studies", token, asked))
    return OpenedStudy(study["id"], study["gateway_token"] or "")


async def ended(watch: BulletinReader, tell: Callable[[int], None] = lambda _: None) -> StudyResult:
    """Wait for a study's end; `tell` hears how many reports there are, as often as they are looked at."""
    while not watch.ended:
        unwrap(await watch.refresh() or ())
        rounds = unwrap(await watch.server.document(f"/v1/studies/{watch.study}"))["rounds"]
        tell(sum(each["received"] for each in rounds))
        await asyncio.sleep(_POLL)
    return await _end(watch)


async def _end(watch: BulletinReader) -> StudyResult:
    unwrap(watch.refusal or ())
    path = f"/v1/studies/{watch.study}"
    result, study = unwrap(await watch.server.document(f"{path}/result")), unwrap(await watch.server.document(path))
    rounds = [each for each in watch.history.rounds.values() if not isinstance(each, Refusal)]
    return StudyResult(
        watch.history.bulletin.state,
        result["reason"],
        _cause(unwrap(await watch.server.entries(watch.study, len(watch.history.heads) - 2)).entries),
        result["hypothesis"] or {},
        result["text"] or "",
        watch.history.study.interactive,
        len(study["rounds"]),
        tuple(each["received"] for each in study["rounds"]),
        # Rounds of one study ask different users: the planner's runs of slots do not meet.
        max((each.charge for each in rounds), default=0),
    )


def _cause(last: Sequence[Entry]) -> Cause | None:
    notice = last[-1].notice
    return notice.cause if isinstance(notice, StudyEnded) else None
