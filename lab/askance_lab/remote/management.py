"""What an operator does on a server over HTTP: find studies, close and cancel them, enrol users, renew their tokens.

Nothing here keeps a token longer than a request, or says one.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from askance_client import Problem, Refusal, RemoteError, Server
from askance_lab.remote.study_client import cause_of, unwrap
from askance_protocol.canonical import Json
from askance_protocol.errors import AskanceError, Code
from askance_protocol.rounds import Cause, Entry
from askance_protocol.text import printable

ServerDocument = Mapping[str, Any]

MOST_TOKENS: Final = 10_000
"""Users who get a token each where they enrol at once."""
_MOST_AT_ONCE: Final = 10_000_000
_NAME: Final = re.compile(r"[0-9a-f]{4,64}", re.ASCII)
_SECONDS: Final = 600
"""For how long a token holds that is made for one call of a command."""
_OVER: Final = frozenset({"finished", "failed", "cancelled"})
_POLL: Final = 1.0
_APART: Final = 0.1
"""Seconds between two looks, however much there is to see."""


class NoSuchStudyError(AskanceError):
    """The server has no study, or several, of the name that was given."""

    code = Code.NOT_FOUND


class NotOpenThereError(AskanceError):
    """The study has no round that could be closed."""

    code = Code.ROUND_NOT_OPEN


class NotOverError(AskanceError):
    """The study has not come to a result yet: more reports or time would help."""

    code = Code.TOO_FEW_USERS


class NotOperatorError(RemoteError):
    """The server does not take this token for its operator's."""

    code = Code.UNAUTHORIZED


def is_over(study: ServerDocument) -> bool:
    """Whether a study has ended."""
    return study["state"] in _OVER


# ---------------------------------------------------------------------------------------------------------- studies


async def find_study(server: Server, name: str) -> ServerDocument:
    """The study of this name, or whose name begins so; the newest where no name is given."""
    if len(name) == 64 and _NAME.fullmatch(name):
        return unwrap(await server.document(f"/v1/studies/{name}"))
    if name and _NAME.fullmatch(name) is None:
        remedy = "give the first digits of its id, four or more: askance study list"
        raise NoSuchStudyError("is no name of a study", where=printable(name, 80), remedy=remedy)
    found = [study for study in unwrap(await server.studies()) if str(study["id"]).startswith(name)]
    if not found:
        what = f"no study there begins with {name}" if name else "there is no study"
        raise NoSuchStudyError(
            what, where=server.url, remedy="see askance study list, or open one: askance study create"
        )
    if name and len(found) > 1:
        names = ", ".join(printable(str(study["id"]), 64)[:12] for study in found[:4])
        raise NoSuchStudyError(f"{len(found)} studies begin so", where=name, remedy=f"give more digits: {names}")
    return found[-1]


async def result_of(server: Server, study: ServerDocument) -> ServerDocument:
    """What a study has come to so far."""
    return unwrap(await server.document(f"/v1/studies/{study['id']}/result"))


async def cause_there(server: Server, study: ServerDocument) -> Cause | None:
    """Why a study has ended, from its last entry; None if it has not, or does not say."""
    if not is_over(study):
        return None
    last = unwrap(await server.entries(study["id"], study["length"] - 2)).entries
    return cause_of(last[-1].notice) if last else None


async def close_round(server: Server, token: str, study: ServerDocument) -> ServerDocument:
    """Close the open round of a study; the study as it goes on."""
    open_rounds = [each["id"] for each in study["rounds"] if each["state"] == "open"]
    if not open_rounds:
        state = printable(str(study["state"]), 20)
        raise NotOpenThereError(
            f"has no open round: it is {state}", where=_short(study), remedy="see askance study show"
        )
    _commanded(await server.command(f"/v1/rounds/{open_rounds[-1]}/close", token))
    return await find_study(server, study["id"])


async def cancel_study(server: Server, token: str, study: ServerDocument) -> ServerDocument:
    """End a study for good, without a result."""
    return _commanded(await server.command(f"/v1/studies/{study['id']}/cancel", token))


# ------------------------------------------------------------------------------------------------------------ users


@dataclass(frozen=True, slots=True)
class EnrolledUsers:
    """Users of consecutive numbers, and the tokens of some."""

    numbers: range
    tokens: Sequence[str]

    def __repr__(self) -> str:
        return f"EnrolledUsers({self.numbers})"


async def enrolment_token(server: Server, token: str, users: int, seconds: int, *, simulated: bool) -> ServerDocument:
    """A token that enrols so many users for so many seconds."""
    asked: dict[str, Json] = {"users": users, "seconds": seconds, "simulated": simulated}
    return _commanded(await server.command("/v1/enrolment-tokens", token, asked))


async def enrolment_codes(server: Server, token: str, codes: int, seconds: int, *, simulated: bool) -> Sequence[str]:
    """One-time codes: enrolment tokens that let in one user each, for so many seconds."""
    asked: dict[str, Json] = {"codes": codes, "seconds": seconds, "simulated": simulated}
    made = [str(code) for code in _commanded(await server.command("/v1/enrolment-codes", token, asked))["codes"]]
    if len(set(made)) != codes:
        raise RemoteError("gave fewer codes than it was asked for", where="server", remedy="see its log")
    return made


async def enrol_users(
    server: Server, token: str, users: int, *, simulated: bool, with_tokens: bool
) -> AsyncIterator[EnrolledUsers]:
    """Enrol users as the operator, as many at once as the server gives tokens for, if tokens are wanted."""
    ticket = await enrolment_token(server, token, users, _SECONDS, simulated=simulated)
    piece = MOST_TOKENS if with_tokens else _MOST_AT_ONCE
    for begin in range(0, users, piece):
        count = min(piece, users - begin)
        enrolled = unwrap(await server.enrol(str(ticket["token"]), count, simulated=simulated))
        assert not isinstance(enrolled, Refusal)  # noqa: S101 - told the type checker: `unwrap` has refused it
        if with_tokens and len(enrolled.tokens) != count:
            raise RemoteError("gave fewer tokens than there are users", where="server", remedy="see its log")
        yield EnrolledUsers(range(enrolled.first, enrolled.first + count), enrolled.tokens if with_tokens else ())


async def renew_token(server: Server, token: str, user: int) -> str:
    """A new token for a user who lost hers: all that she had are void."""
    return str(_commanded(await server.command(f"/v1/users/{user}/token", token))["token"])


async def count_users(server: Server, token: str) -> ServerDocument:
    """How many users there are, and of which kinds."""
    return _commanded(await server.document("/v1/users", token))


def _commanded(answer: ServerDocument | Problem | Refusal) -> ServerDocument:
    """The answer to what only the operator may ask."""
    if isinstance(answer, Problem) and answer.name in {"unauthorized", "forbidden"}:
        what = "is not taken for its operator's by the server" if answer.name == "unauthorized" else answer.detail
        remedy = "name operator.token of its data directory: --operator-token FILE"
        raise NotOperatorError(what, where="operator token", remedy=remedy)
    found = unwrap(answer)
    assert not isinstance(found, Refusal)  # noqa: S101 - told the type checker: `unwrap` has refused it
    return found


def _short(study: ServerDocument) -> str:
    return f"study {printable(str(study['id']), 64)[:8]}"


# --------------------------------------------------------------------------------------------------------- watching


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Where a study stands."""

    study: ServerDocument
    result: ServerDocument
    cause: Cause | None = None
    """Why it has ended."""


async def follow_study(server: Server, name: str) -> AsyncIterator[StudyProgress]:
    """Look at a study whenever something has changed, until it has ended.

    The server's stream of events says when to look; where there is none, a timer does. What is seen is asked for
    anew each time, so that nothing is missed where the stream breaks off.
    """
    async with _changes(server, name) as changed:
        seen: object = None
        while True:
            changed.clear()
            study = await find_study(server, name)
            now = [study["state"], study.get("paused"), study["length"], [each["received"] for each in study["rounds"]]]
            if now != seen:
                seen = now
                yield StudyProgress(study, await result_of(server, study), await cause_there(server, study))
            if is_over(study):
                return
            begun = time.monotonic()
            with suppress(TimeoutError):
                # Not `wait_for`, which may lose an interruption that comes together with the event.
                async with asyncio.timeout(_POLL):
                    await changed.wait()
            await asyncio.sleep(max(0.0, _APART - (time.monotonic() - begun)))


@asynccontextmanager
async def _changes(server: Server, name: str) -> AsyncGenerator[asyncio.Event]:
    """An event that is set when the server's stream says anything."""
    changed = asyncio.Event()

    async def listen() -> None:
        while True:
            async for _ in server.stirrings(f"/v1/studies/{name}/events"):
                changed.set()
            await asyncio.sleep(_POLL)

    listening = asyncio.create_task(listen())
    try:
        yield changed
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


# --------------------------------------------------------------------------------------------------------- exporting


async def entries_of(server: Server, name: str, tell: Callable[[int], None] = lambda _: None) -> list[Entry]:
    """All entries of a study's bulletin, read to its head; `tell` is told how many are read."""
    entries: list[Entry] = []
    tell(0)
    while more := unwrap(await server.entries(name, len(entries) - 1)).entries:
        entries += more
        tell(len(entries))
    return entries
