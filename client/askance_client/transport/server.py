"""One server over HTTP: its requests, each tried with patience, its answers bounded in size and time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Final, Self, TypeVar

import httpx

from askance_client.consent import AccountStatement
from askance_client.refusals import Refusal
from askance_client.transport import documents as answers
from askance_client.transport.body import AS_IT_IS, read_body
from askance_client.transport.documents import Enrolled, JsonObject, Problem, Receipt, Tail
from askance_client.transport.errors import UnreachableError, VersionMismatchError
from askance_client.transport.patience import PATIENCE, Patience, seconds_of
from askance_client.transport.trust import TRUST_IT, trusted, untrusted
from askance_protocol import canonical
from askance_protocol.errors import UsageError
from askance_protocol.rounds.spec import VERSION

MOST_BYTES: Final = 32 << 20
"""Bytes of any answer: a server gives a longer bulletin in pieces. Twice the largest entry."""
SMALL_BYTES: Final = 64 << 10
"""Bytes of a receipt or of a problem."""
ACCOUNT_BYTES: Final = 8 << 20
"""Bytes of an account, which lists a user's charges."""
_TOKEN_BYTES: Final = 1 << 10
MOST_SECONDS: Final = 300.0
"""Seconds until a request has its answer, attempts and pauses together: one that comes in drops never ends."""
_APART: Final = 1 << 15
"""Bytes from which an answer is read in a thread, so that other users of the process go on meanwhile."""
HEADER: Final = "Askance-Protocol"
T = TypeVar("T")
_GREETINGS: Final = 6
"""Attempts to find a server at all, in a second or two: somebody waits who may have mistyped its address."""
_PERMANENT: Final = frozenset({400, 401, 403, 404, 405, 409, 413, 415, 422})
"""Statuses after which it is of no use to ask again."""
_LOST: Final = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError)
"""An attempt without an answer."""


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """How long an answer may be, in bytes: one that was asked for, and a problem."""

    good: int
    problem: int

    def of(self, status: int) -> int:
        """The bound for an answer with this status."""
        return self.good if 200 <= status < 300 else self.problem


class Server:
    """One server, over one pool of connections. Use it on one event loop, and close it."""

    def __init__(
        self,
        url: str,
        *,
        patience: Patience = PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
        connections: int = 4,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`trust`: what certificates are believed; by default what `trusted` says."""
        self.url = _url(url)
        self._patience = patience
        # To read the authorities takes 40 ms, and http has no use for them.
        self.trust = (trust or trusted()) if self.url.startswith("https:") else None
        """What certificates are believed; None where there are none."""
        self._client = httpx.AsyncClient(
            base_url=self.url,
            transport=transport,
            verify=self.trust or False,
            headers={HEADER: str(VERSION), "Accept-Encoding": AS_IT_IS},
            timeout=httpx.Timeout(30, connect=10),
            limits=httpx.Limits(max_connections=connections),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # She shows her token, and nothing else.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    # ---------------------------------------------------------------------------------------------------- requests

    async def check(self) -> None:
        """Raise an error unless a server of this protocol answers here. Ask before anything is made or stored."""
        answer = await self._ask("GET", "/healthz", attempts=min(self._patience.attempts, _GREETINGS))
        if isinstance(answer, Problem) and answer.name == "version-mismatch":
            raise VersionMismatchError(answer.detail, where=self.url, remedy="install the same version on both sides")
        match answers.read(answer, answers.read_document):
            case {"status": str(), "protocol": int(version)} if version == VERSION:
                return
            case {"status": str(), "protocol": int(version)}:
                what = f"speaks version {version} of the protocol, this side {VERSION}"
                raise VersionMismatchError(what, where=self.url, remedy="install the same version on both sides")
            case _:
                raise UnreachableError("answers, but is no Askance server", where=self.url, remedy="check the URL")

    async def entries(self, study: str, after: int) -> Tail | Problem | Refusal:
        """Read the entries of a study's bulletin that follow entry `after`."""
        answer = await self._ask("GET", f"/v1/studies/{study}/bulletin?after={after}", most=MOST_BYTES)
        return await _read(answer, answers.read_tail)

    async def statement(self, token: str) -> AccountStatement | Problem | Refusal:
        """Read what the user with this token has spent, by the server's account."""
        answer = await self._ask("GET", "/v1/me", token=token, most=ACCOUNT_BYTES, small=True)
        return await _read(answer, answers.read_statement)

    async def send(self, round_: str, token: str, body: bytes) -> Receipt | Problem | Refusal:
        """Send a report: the very same bytes, until there is an answer."""
        answer = await self._ask("POST", f"/v1/rounds/{round_}/reports", token=token, body=body, small=True)
        return await _read(answer, answers.read_receipt)

    async def enrol(
        self, token: str, users: int = 1, *, simulated: bool = False, key: str = ""
    ) -> Enrolled | Problem | Refusal:
        """Enrol new users. A server is told of simulated ones; who enrols alone and says nothing is a person.

        With a `key` of 32 hexadecimal digits it is asked for the users whom this key has enrolled, if it has: as many
        as they were then.
        """
        asked: dict[str, canonical.Json] = {"users": users, "simulated": True} if simulated else {"users": users}
        asked |= {"key": key} if key else {}
        body, most = canonical.dumps(asked), min(SMALL_BYTES + users * _TOKEN_BYTES, MOST_BYTES)
        answer = await self._ask("POST", "/v1/enrolments", token=token, body=body, most=most)
        return await _read(answer, answers.read_enrolled)

    async def document(self, path: str, token: str = "") -> JsonObject | Problem | Refusal:
        """Read any other document, which may have fractions in it. A public one takes no token."""
        answer = await self._ask("GET", path, token=token, most=MOST_BYTES)
        return await _read(answer, answers.read_document)

    async def studies(self) -> list[JsonObject] | Problem | Refusal:
        """Read the list of all studies."""
        answer = await self._ask("GET", "/v1/studies", most=MOST_BYTES)
        return await _read(answer, answers.read_documents)

    async def metric(self, name: str) -> int:
        """Read one figure of /metrics; 0 if it is not there."""
        answer = await self._ask("GET", "/metrics", most=MOST_BYTES)
        lines = answer.decode("utf-8", "replace").splitlines() if isinstance(answer, bytes) else []
        values = [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]
        try:
            return int(float(values[0])) if values else 0
        except (ValueError, OverflowError):
            return 0

    async def command(
        self, path: str, token: str, document: Mapping[str, canonical.Json] | None = None
    ) -> JsonObject | Problem | Refusal:
        """Send a request that only an operator may make; it is never repeated."""
        body = b"" if document is None else canonical.dumps(document)
        answer = await self._ask("POST", path, token=token, body=body, most=MOST_BYTES, attempts=1)
        return await _read(answer, answers.read_document)

    async def stirrings(self, path: str) -> AsyncIterator[None]:
        """Yield whenever a stream of events says anything, until it ends or breaks off.

        What it says is not read: who is told that something has changed asks what. So there is nothing to believe,
        and nothing to hold.
        """
        try:
            async with self._client.stream("GET", path, headers={"Accept": "text/event-stream"}) as response:
                if response.is_success:
                    async for _ in response.aiter_raw():
                        yield
        except _LOST:
            return

    async def deliver(self, round_: str, token: str, body: bytes) -> JsonObject | Problem | Refusal:
        """Send a gateway's batch of reports, in raw columns."""
        kind = "application/octet-stream"
        answer = await self._ask("POST", f"/v1/rounds/{round_}/batches", token=token, body=body, kind=kind)
        return await _read(answer, answers.read_document)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        body: bytes = b"",
        kind: str = "application/json",
        most: int = SMALL_BYTES,
        attempts: int | None = None,
        small: bool = False,
    ) -> bytes | Problem | Refusal:
        """Ask until there is an answer of `most` bytes: its body, or the problem that the server has for good.

        `small`: the request is one of those that a fleet sends for each user.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body:
            headers["Content-Type"] = kind
        attempts, retry_after = attempts or self._patience.attempts, 0.0
        exchange, bounds = (
            self._exchange_small if small else self._exchange,
            AnswerBounds(min(most, MOST_BYTES), SMALL_BYTES),
        )
        try:
            async with asyncio.timeout(MOST_SECONDS):
                for attempt in range(attempts):
                    if attempt:
                        await asyncio.sleep(self._patience.pause(attempt - 1, retry_after))
                    retry_after = 0.0
                    try:
                        status, answer, retry_after = await exchange(method, path, headers, body, bounds)
                    except _LOST as error:
                        if (why := untrusted(error)) is not None:
                            raise UnreachableError(why, where=self.url, remedy=TRUST_IT) from None
                        continue
                    good = 200 <= status < 300
                    if isinstance(answer, Refusal):
                        if good:
                            return answer
                        answer = b""  # Of a problem the status says enough.
                    if good:
                        return answer
                    if status in _PERMANENT or 300 <= status < 400:
                        return answers.read_problem(status, answer)
        except TimeoutError:
            raise UnreachableError(f"gave no answer in {MOST_SECONDS:.0f} seconds", where=self.url) from None
        raise UnreachableError(f"gave no answer in {attempts} attempts", where=self.url)

    async def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, bounds: AnswerBounds
    ) -> tuple[int, bytes | Refusal, float]:
        """Ask once: the answer's status, its body or why that is refused, and the seconds until it may be asked again.

        What is raised is one of `_LOST`.
        """
        async with self._client.stream(method, path, headers=headers, content=body or None) as response:
            answer = await read_body(response, bounds.of(response.status_code))
            return response.status_code, answer, seconds_of(response.headers.get("retry-after", ""))

    async def _exchange_small(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, bounds: AnswerBounds
    ) -> tuple[int, bytes | Refusal, float]:
        """As `_exchange`. There is a faster way for those who ask often: see `BareServer`."""
        return await self._exchange(method, path, headers, body, bounds)


async def _read(answer: bytes | Problem | Refusal, reader: Callable[[bytes], T]) -> T | Problem | Refusal:
    """Read an answer; a long one in a thread."""
    if isinstance(answer, bytes) and len(answer) > _APART:
        return await asyncio.to_thread(answers.read, answer, reader)
    return answers.read(answer, reader)


def _url(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or not 0 < (url.port or 80) < 1 << 16:
        raise UsageError("is not an http or https URL", where="server", remedy="give one as http://127.0.0.1:8080")
    return text.rstrip("/")
