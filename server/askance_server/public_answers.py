"""What anybody may ask costs little: answers that never change are remembered, and others are shared while they wait.

Theory of operation
-------------------
Questions without a token come as often as anybody likes. An answer that cannot change any more (the tally of an
answered round, whatever there is of a study that has ended) is worked out once and remembered as bytes, within a bound:
what was asked for longest ago is forgotten first. Any other answer is worked out for all who wait for it at once. Who
asks when that has begun gets a later one, because she may have seen what the one under way does not show: her own
report, say.

What is asked without a token is worked out by threads of its own, so that it waits in a line of its own; but what
devices need, the bulletin and its rounds, by those that read the ledger for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from askance_server.workers import Workers

MOST_BYTES: Final = 64 << 20
"""Bytes of all answers that are remembered."""
_LARGEST: Final = 8
"""One answer may take up so much of it: that part of the whole."""
_OVERHEAD: Final = 1 << 10
"""Bytes of an answer besides its body: an empty answer is not remembered for nothing."""

_TAGS: Final = re.compile(r'"([!#-~]*)"', re.ASCII)
"""The tags of a list, weak ones too: for this header they count as the strong ones do."""

PublicQuestion: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublicAnswer:
    """The body of an answer, and a tag that changes with it."""

    body: bytes
    tag: str
    final: bool = False
    """Whether it is the same for ever."""

    @property
    def size(self) -> int:
        """Bytes of its body."""
        return len(self.body)

    @classmethod
    def of(cls, body: bytes, *, final: bool = False) -> PublicAnswer:
        """An answer that is tagged by its digest."""
        return cls(body, hashlib.sha256(body).hexdigest()[:32], final)


@dataclass(slots=True, eq=False)
class _Coming:
    """An answer that is being worked out, or waits to be."""

    done: asyncio.Future[PublicAnswer] | None = None
    begun: bool = False


@dataclass(slots=True)
class PublicAnswers:
    """The answers to what anybody may ask. For one event loop."""

    workers: Workers
    most_bytes: int = MOST_BYTES
    size: int = 0
    """Bytes of what is remembered."""
    _known: OrderedDict[PublicQuestion, PublicAnswer] = field(default_factory=OrderedDict[PublicQuestion, PublicAnswer])
    _coming: dict[PublicQuestion, _Coming] = field(default_factory=dict[PublicQuestion, _Coming])

    def known(self, question: PublicQuestion) -> PublicAnswer | None:
        """The final answer, if it is remembered."""
        answer = self._known.get(question)
        if answer is not None:
            self._known.move_to_end(question)
        return answer

    async def to(
        self, question: PublicQuestion, work: Callable[[], PublicAnswer], workers: Workers | None = None
    ) -> PublicAnswer:
        """The answer: as it is remembered, or worked out by a thread, one of these, after this was asked."""
        answer = self.known(question)
        if answer is not None:
            return answer
        coming = self._coming.get(question)
        if coming is None or coming.begun or coming.done is None:
            coming = self._coming[question] = _Coming()
            coming.done = self._begin(question, coming, work, workers or self.workers)
        return await asyncio.shield(coming.done)

    def _begin(
        self, question: PublicQuestion, coming: _Coming, work: Callable[[], PublicAnswer], workers: Workers
    ) -> asyncio.Future[PublicAnswer]:
        def begun() -> PublicAnswer:
            # First of all: what is asked from now on is answered by another look.
            coming.begun = True
            return work()

        def settle(done: asyncio.Future[PublicAnswer]) -> None:
            if self._coming.get(question) is coming:
                del self._coming[question]
            if not done.cancelled() and done.exception() is None and done.result().final:
                self.remember(question, done.result())

        done = workers.begin(begun)
        done.add_done_callback(settle)
        return done

    def remember(self, question: PublicQuestion, answer: PublicAnswer) -> None:
        """Remember a final answer, unless it is large, and forget what was asked for longest ago."""
        if len(answer.body) + _OVERHEAD > self.most_bytes // _LARGEST:
            return
        before = self._known.pop(question, None)
        self.size += len(answer.body) + _OVERHEAD
        self.size -= 0 if before is None else len(before.body) + _OVERHEAD
        self._known[question] = answer
        while self.size > self.most_bytes:
            self.size -= len(self._known.popitem(last=False)[1].body) + _OVERHEAD


def tagged(request: Request, answer: PublicAnswer, media_type: str = "application/json") -> Response:
    """An answer with its tag, or without its body for one who names this tag (RFC 9110, section 13.1.2)."""
    # To be asked again each time: what is remembered elsewhere may be out of date.
    headers = {"ETag": f'"{answer.tag}"', "Cache-Control": "no-cache"}
    held = request.headers.get("if-none-match", "")
    if held.strip() == "*" or answer.tag in _TAGS.findall(held):
        return Response(status_code=304, headers=headers)
    return Response(answer.body, headers=headers, media_type=media_type)
