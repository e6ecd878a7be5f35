"""The way to a server: a few requests, each bounded in size and time, and patience where it asks for some.

Nothing that a server says is believed here; it is only read. A document that is not one of this protocol is refused as
a value. What is private, token and report, appears in no error and no log.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Any, Final, TypeVar, cast

import httpx

from askance_client.consent import AccountStatement
from askance_client.history import Pin
from askance_client.refusals import Reason, Refusal
from askance_protocol import canonical
from askance_protocol.budget import LARGEST
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Entry, read_entry
from askance_protocol.rounds.spec import VERSION

T = TypeVar("T")
Json = dict[str, Any]

MOST_BYTES: Final = 64 << 20
"""Of any answer. A bulletin may have many entries; nothing else comes near."""
MOST_SECONDS: Final = 300.0
"""Until any answer has ended: one that comes in drops never does."""
_HEADER: Final = "Askance-Protocol"
_PROBLEM: Final = "urn:askance:problem:"
_SHUFFLE: Final = random.SystemRandom()
_PERMANENT: Final = frozenset({400, 401, 403, 404, 405, 409, 413, 415, 422})


class UnreachableError(Exception):
    """The server did not answer, however often it was asked. What was stored is sent another time."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and how far apart, a request is tried that got no answer, or was asked to come again."""

    attempts: int = 8
    first: float = 0.1
    longest: float = 10.0

    def pause(self, attempt: int, retry_after: float) -> float:
        """Seconds until the next attempt: doubled each time, at least what the server asks, and spread at random."""
        steps = min(self.first * 2**attempt, self.longest)
        return min(retry_after, self.longest) + steps * _SHUFFLE.random()


@dataclass(frozen=True, slots=True)
class Receipt:
    """A report is on the server's disk."""

    user: int
    round: str
    charged: int


@dataclass(frozen=True, slots=True)
class Problem:
    """The server will not do it, whenever it is asked."""

    status: int
    name: str
    """The problem's type, without what all have in common."""
    detail: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """New users, of consecutive numbers."""

    first: int
    tokens: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tail:
    """What a server says that stands at the end of a bulletin."""

    entries: tuple[Entry, ...]
    pin: Pin
    """What it says of the whole."""


class Server:
    """One server, over one pool of connections. Use it on one event loop, and close it."""

    def __init__(
        self,
        url: str,
        *,
        patience: Patience = Patience(),
        transport: httpx.AsyncBaseTransport | None = None,
        connections: int = 4,
    ) -> None:
        self.url = _url(url)
        self._patience = patience
        self._client = httpx.AsyncClient(
            base_url=self.url,
            transport=transport,
            verify=self.url.startswith("https:"),  # To read the authorities takes 40 ms, and http has no use for them.
            headers={_HEADER: str(VERSION)},
            timeout=httpx.Timeout(30, connect=10),
            limits=httpx.Limits(max_connections=connections),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # She shows her token, and nothing else.
            trust_env=False,
        )

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()

    # ---------------------------------------------------------------------------------------------------- requests

    async def entries(self, study: str, after: int) -> Tail | Problem | Refusal:
        """What stands on a study's bulletin behind entry `after`."""
        answer = await self._ask("GET", f"/v1/studies/{study}/bulletin?after={after}")
        return answer if isinstance(answer, Problem) else _read(answer, _tail)

    async def claim(self, token: str) -> AccountStatement | Problem | Refusal:
        """What the server says of the user whose token this is."""
        answer = await self._ask("GET", "/v1/me", token=token)
        return answer if isinstance(answer, Problem) else _read(answer, _claim)

    async def send(self, round_: str, token: str, body: bytes) -> Receipt | Problem | Refusal:
        """Send a report, the very same bytes until there is an answer."""
        answer = await self._ask("POST", f"/v1/rounds/{round_}/reports", token=token, body=body)
        return answer if isinstance(answer, Problem) else _read(answer, _receipt)

    async def enrol(self, token: str, users: int = 1) -> Enrolled | Problem | Refusal:
        """New users."""
        body = canonical.dumps({"users": users})
        answer = await self._ask("POST", "/v1/enrolments", token=token, body=body)
        return answer if isinstance(answer, Problem) else _read(answer, _enrolled)

    async def document(self, path: str) -> Json | Problem | Refusal:
        """Any other public document, which may have fractions in it."""
        answer = await self._ask("GET", path)
        return answer if isinstance(answer, Problem) else _read(answer, _document)

    async def studies(self) -> list[Json] | Problem | Refusal:
        """All studies."""
        answer = await self._ask("GET", "/v1/studies")
        return answer if isinstance(answer, Problem) else _read(answer, _documents)

    async def metric(self, name: str) -> int:
        """One figure of /metrics; 0 where it is not there."""
        answer = await self._ask("GET", "/metrics")
        lines = [] if isinstance(answer, Problem) else answer.decode("utf-8", "replace").splitlines()
        values = [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]
        return int(float(values[0])) if values else 0

    async def command(
        self, path: str, token: str, document: Mapping[str, canonical.Json] | None = None
    ) -> Json | Problem | Refusal:
        """What an operator asks for; never tried twice."""
        body = b"" if document is None else canonical.dumps(document)
        answer = await self._ask("POST", path, token=token, body=body, attempts=1)
        return answer if isinstance(answer, Problem) else _read(answer, _document)

    async def deliver(self, round_: str, token: str, body: bytes) -> Json | Problem | Refusal:
        """A gateway's batch, in raw columns."""
        kind = "application/octet-stream"
        answer = await self._ask("POST", f"/v1/rounds/{round_}/batches", token=token, body=body, kind=kind)
        return answer if isinstance(answer, Problem) else _read(answer, _document)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        body: bytes = b"",
        kind: str = "application/json",
        attempts: int | None = None,
    ) -> bytes | Problem:
        """The body of a good answer, or why there will never be one."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body:
            headers["Content-Type"] = kind
        most = attempts or self._patience.attempts
        for attempt in range(most):
            retry_after = 0.0
            try:
                status, answer, retry_after = await self._once(method, path, headers, body)
            except (httpx.RequestError, TimeoutError):
                pass
            else:
                if 200 <= status < 300:
                    return answer
                if status in _PERMANENT or 300 <= status < 400:
                    return _problem(status, answer)
            if attempt + 1 < most:
                await asyncio.sleep(self._patience.pause(attempt, retry_after))
        raise UnreachableError(f"{self.url} gave no answer in {most} attempts")

    async def _once(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes, float]:
        async with (
            asyncio.timeout(MOST_SECONDS),
            self._client.stream(method, path, headers=headers, content=body or None) as response,
        ):
            pieces, size = list[bytes](), 0
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > MOST_BYTES:
                    raise httpx.ReadError("the answer is too long")
                pieces.append(piece)
            return response.status_code, b"".join(pieces), _seconds(response.headers.get("retry-after", ""))


def _url(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ProtocolError("is not an http or https URL", where="server", remedy="give one as http://127.0.0.1:8080")
    return text.rstrip("/")


def _seconds(retry_after: str) -> float:
    """Whole seconds; a date is not understood, and means now."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 6 else 0.0


# ----------------------------------------------------------------------------------------------------- what is read


def _read(body: bytes, reader: Callable[[bytes], T]) -> T | Refusal:
    """What a server says, or that it cannot be read. Its words are not repeated: they may echo what is private."""
    try:
        return reader(body)
    except (ProtocolError, KeyError, TypeError, ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, ProtocolError) else type(error).__name__
        return Refusal(Reason.UNREADABLE, what)


def _tail(body: bytes) -> Tail:
    document = _object(canonical.loads(body, limit=MOST_BYTES), {"head", "length", "entries"})
    entries = tuple(read_entry(canonical.dumps(entry)) for entry in _list(document["entries"]))
    pin = Pin(_whole(document["length"], canonical.MAX_SAFE_INTEGER), _text(document["head"]))
    if entries and Pin(entries[-1].sequence + 1, entries[-1].digest()) != pin:
        raise ProtocolError("is not that of the last entry", where="head")
    return Tail(entries, pin)


def _claim(body: bytes) -> AccountStatement:
    names = {"user", "cap_micro_epsilon", "spent_micro_epsilon", "remaining_micro_epsilon", "charges"}
    document = _object(canonical.loads(body, limit=MOST_BYTES), names)
    charges: dict[str, int] = {}
    for item in _list(document["charges"]):
        charge = _object(item, {"round", "micro_epsilon"})
        charges[_text(charge["round"])] = _whole(charge["micro_epsilon"], LARGEST)
    return AccountStatement(
        _whole(document["user"], MAX_USER - 1), _whole(document["spent_micro_epsilon"], LARGEST), charges
    )


def _receipt(body: bytes) -> Receipt:
    document = _object(canonical.loads(body), {"user", "round", "charged"})
    return Receipt(
        _whole(document["user"], MAX_USER - 1), _text(document["round"]), _whole(document["charged"], LARGEST)
    )


def _enrolled(body: bytes) -> Enrolled:
    document = _object(
        canonical.loads(body, limit=MOST_BYTES), {"user", "users", "cap_micro_epsilon", "token", "tokens"}
    )
    token = document["token"]
    tokens = [token] if token is not None else _list(document["tokens"])
    return Enrolled(_whole(document["user"], MAX_USER - 1), tuple(_text(each) for each in tokens))


def _document(body: bytes) -> Json:
    return _object(json.loads(body), None)


def _documents(body: bytes) -> list[Json]:
    return [_object(each, None) for each in _list(json.loads(body))]


def _problem(status: int, body: bytes) -> Problem:
    """A refusal of the server's; where it is no problem document, its status says enough."""
    try:
        document = _object(canonical.loads(body), None)
        name, detail = document.get("type", ""), document.get("detail", "")
    except (ProtocolError, RecursionError):
        name = detail = ""
    known = isinstance(name, str) and name.startswith(_PROBLEM)
    return Problem(status, _shown(name).removeprefix(_PROBLEM) if known else "", _shown(detail))


def _shown(text: object) -> str:
    """A server's own words, as a terminal may show them: some, and nothing that steers it."""
    return "".join(each for each in text[:500] if each.isprintable()) if isinstance(text, str) else ""


def _object(value: object, names: set[str] | None) -> Json:
    if not isinstance(value, dict) or (names is not None and set(cast("Json", value)) != names):
        raise ProtocolError("has not the members that it should have", where="answer")
    return cast("Json", value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError("is no list", where="answer")
    return cast("list[Any]", value)


def _whole(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"is not a whole number from 0 to {most}", where="answer")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isascii() or len(value) > 4096:
        raise ProtocolError("is not a short text", where="answer")
    return value
