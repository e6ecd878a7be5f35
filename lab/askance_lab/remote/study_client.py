"""A study over HTTP as its operator sees it: create it, wait for its end, read its result."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from askance_client import BulletinReader, Problem, Refusal, RemoteError, Server, VersionMismatchError
from askance_protocol import canonical
from askance_protocol.canonical import Json
from askance_protocol.errors import Code, UsageError
from askance_protocol.rounds import Cause, Notice, StudyEnded, StudyState, read_study
from askance_protocol.schema import Schema
from askance_protocol.text import printable

T = TypeVar("T")

_POLL: Final = 0.1
_WRONG_PARAMETER: Final = re.compile(
    r"(?P<where>parameters\.\w+|strategy|title): (?P<what>.*?)(?: \((?P<remedy>.*)\))?"
)
"""How a server says what is wrong with a study that was asked for."""
_WRONG_ROUND: Final = re.compile(r"(?P<where>round \d+): (?P<what>.*?)(?: \((?P<remedy>.*)\))?")
"""How it says that a study would end before it has asked anybody."""
_MOST_AT_ONCE: Final = 10_000_000
"""Users that one request can enrol."""


class TooFewUsersThereError(RemoteError):
    """The server has too few users for the study that was asked for."""

    code = Code.TOO_FEW_USERS


class StrategyFailsThereError(RemoteError):
    """The study that was asked for would end at once: its strategy fails at its first step."""

    code = Code.STRATEGY


_ENDED_BEFORE_IT_BEGAN: Final[Mapping[str, type[RemoteError]]] = {
    "too-few-users": TooFewUsersThereError,
    "strategy-failed": StrategyFailsThereError,
}


_TOKENS: Final[Mapping[str, str]] = {
    "unauthorized": "name the file of its token: --operator-token FILE, or --enrolment-token FILE to enrol",
    "forbidden": "name the file of the token for it: --operator-token FILE, or --enrolment-token FILE to enrol",
}
"""What to do where a server wants another token, as a command takes it."""


@dataclass(frozen=True, slots=True)
class OpenedStudy:
    """A created study, and the token with which a gateway may report for simulated users."""

    id: str
    gateway_token: str


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The end of a study and its hypothesis."""

    state: StudyState
    cause: Cause | None
    """Why it ended; None in a study of version 0.1, which names no cause."""
    reason: str
    hypothesis: Mapping[str, Any]
    text: str
    interactive: bool
    rounds: int
    received: tuple[int, ...]
    """Reports of each round."""
    charge: int
    """The most that one user paid, in micro-ε."""


def unwrap(answer: T | Problem | Refusal) -> T:
    """Return the server's answer; raise an error if it is a problem or cannot be understood."""
    match answer:
        case Refusal(detail=detail):
            raise RemoteError(f"cannot be understood: {detail}", where="server", remedy="is it an Askance server?")
        case Problem(name="version-mismatch", detail=detail):
            raise VersionMismatchError(detail, where="server", remedy="install the same version on both sides")
        case Problem(name=name, detail=detail) if name in _ENDED_BEFORE_IT_BEGAN:
            # The detail says what to do, of this very study.
            error = _ENDED_BEFORE_IT_BEGAN[name]
            if said := _WRONG_ROUND.fullmatch(detail):
                raise error(said["what"], where=said["where"], remedy=said["remedy"] or "")
            raise error(detail, where="server")
        case Problem(name=name, status=401 | 403 as status, detail=detail) if name in _TOKENS:
            raise RemoteError(f"{status} {name}: {detail}", where="server", remedy=_TOKENS[name])
        case Problem(name=name, status=status, detail=detail):
            remedy = "see its log" if status >= 500 or not answer.next else answer.next
            raise RemoteError(f"{status} {name}: {detail}".rstrip(": "), where="server", remedy=remedy)
        case _:
            return answer


def raise_refused(answer: Problem | Refusal | None) -> None:
    """Raise an error if something was refused."""
    if answer is not None:
        unwrap(answer)


@asynccontextmanager
async def connected(url: str, trust: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    """A server that answers. Whether one does is found in a second or two: somebody may have mistyped its address."""
    async with Server(url, trust=trust) as server:
        await server.check()
        yield server


async def check_server(url: str) -> None:
    """Raise an error if the server cannot be asked: before anything is computed for it."""
    async with connected(url):
        pass


async def enrol_many(server: Server, token: str, users: int) -> int:
    """Enrol simulated users without tokens, for a gateway; returns the first of their consecutive numbers."""
    firsts: list[int] = []
    for begin in range(0, users, _MOST_AT_ONCE):
        enrolled = unwrap(await server.enrol(token, min(_MOST_AT_ONCE, users - begin), simulated=True))
        assert not isinstance(enrolled, Refusal)  # noqa: S101 - told the type checker: `unwrap` has refused it
        firsts.append(enrolled.first)
    if firsts != list(range(firsts[0], firsts[0] + users, _MOST_AT_ONCE)):
        raise RemoteError("enrols other users at the same time", where="server", remedy="try again when that is done")
    return firsts[0]


async def create(
    server: Server,
    token: str,
    strategy: str,
    parameters: Mapping[str, Json],
    title: str,
    *,
    simulated: bool = True,
    gateway: range | None = None,
    example: Schema | None = None,
    live: int | None = None,
) -> OpenedStudy:
    """Create a study; the one that the server names has to be the one that was asked for.

    `gateway`: the users for whom a gateway will speak; by default, all simulated ones. `example`: what examples are
    made of, for a strategy that asks about whatever fields there are; by default, the strategy's own. `live`: in steps
    of how many reports open rounds are told; by default, they are not.
    """
    asked = {"title": title, "strategy": strategy, "parameters": parameters, "simulated": simulated}
    spoken_for: dict[str, Json] = (
        {} if gateway is None else {"gateway": {"first_user": gateway.start, "users": len(gateway)}}
    )
    examples: dict[str, Json] = {} if example is None else {"example": example.to_json()}
    steps: dict[str, Json] = {} if live is None else {"live": live}
    study = unwrap(_as_asked(await server.command("/v1/studies", token, {**asked, **spoken_for, **examples, **steps})))
    opened = read_study(canonical.dumps(study["study"]))
    if (
        opened.digest() != study["id"]
        or {**asked, "parameters": dict(parameters)}
        != {
            "title": opened.title,
            "strategy": opened.strategy,
            "parameters": dict(opened.parameters),
            "simulated": opened.simulated,
        }
        or example not in (None, opened.example)
        or live != opened.live
    ):
        raise RemoteError("has opened another study than was asked for", where="server", remedy="see its log")
    return OpenedStudy(study["id"], study["gateway_token"] or "")


def _as_asked(answer: T) -> T:
    """The server's answer to a creation; a parameter that it refuses is named as one of ours would be."""
    if isinstance(answer, Problem) and (wrong := _WRONG_PARAMETER.fullmatch(answer.detail)):
        raise UsageError(wrong["what"], where=wrong["where"], remedy=wrong["remedy"] or "")
    return answer


async def ended(watch: BulletinReader, tell: Callable[[int], None] = lambda _: None) -> StudyResult:
    """Wait for a study's end; `tell` is called with the number of reports at each poll."""
    while not watch.ended:
        raise_refused(await watch.refresh())
        study = await raise_paused(watch)
        tell(sum(each["received"] for each in study["rounds"]))
        await asyncio.sleep(_POLL)
    return await _end(watch)


async def raise_paused(watch: BulletinReader) -> Mapping[str, Any]:
    """Raise an error if the server says that the study is paused, with its reason; otherwise the study's document."""
    study = unwrap(await watch.server.document(f"/v1/studies/{watch.study}"))
    if reason := study.get("paused"):
        raise RemoteError(f"has paused the study: {printable(str(reason))}", where="server", remedy="or cancel it")
    return study


def cause_of(notice: Notice) -> Cause | None:
    """Cause in a study's last notice; None for an entry of version 0.1, which has none."""
    return notice.cause if isinstance(notice, StudyEnded) else None


async def last_notice(watch: BulletinReader) -> Notice:
    """The last entry that was read of a study, once more: a history keeps the digests alone."""
    entries = unwrap(await watch.server.entries(watch.study, len(watch.history.heads) - 2)).entries
    if not entries or entries[0].digest() != watch.history.heads[-1]:
        raise RemoteError("says something else of the study than before", where="server", remedy="see its log")
    return entries[0].notice


async def _end(watch: BulletinReader) -> StudyResult:
    raise_refused(watch.refusal)
    path = f"/v1/studies/{watch.study}"
    result, study = unwrap(await watch.server.document(f"{path}/result")), unwrap(await watch.server.document(path))
    rounds = [each for each in watch.history.rounds.values() if not isinstance(each, Refusal)]
    last = await last_notice(watch)
    learned = last.hypothesis if isinstance(last, StudyEnded) else None
    return StudyResult(
        watch.history.bulletin.state,
        cause_of(last),
        printable(result["reason"]),
        # From the bulletin, whose digest all can compare. What version 0.1 has ended has none there.
        (result["hypothesis"] or {}) if learned is None else learned.value,
        printable((result["text"] or "") if learned is None else learned.text),
        watch.history.study.interactive,
        len(study["rounds"]),
        tuple(each["received"] for each in study["rounds"]),
        # Rounds of one study ask different users: the planner's runs of slots do not meet.
        max((each.charge for each in rounds), default=0),
    )
