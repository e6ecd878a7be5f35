"""What is new of a study, for all who follow it: looked up once, and told to one after the other.

Theory of operation
-------------------
*One look for all.* Three hundred streams of events of one study would each ask the ledger for the same, every second,
and three hundred pages for the same page whenever it changes. So while anybody follows a study, one task looks at it:
after each step of the study, and now and then. What followers and their pages ask for is worked out once and kept until
something has changed (`Feed.once`).

*One after the other.* If all were told at one instant, all would ask for the page at that instant, and a report that
comes then would wait behind all of them. So they are told some at a time: a few at once, hundreds over half a second.
What changes meanwhile is told together afterwards, so a stream is told no more often than all can be.

*How old.* A step of the study, and whatever is written on its bulletin, drops what was kept. Reports alone are seen at
the next look: what is kept may lack those of the last moments, while somebody follows. Where nobody does, nothing is
kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

LOOK_EVERY: Final = 2.0
"""Seconds between two looks where the study takes no step; a running one takes one each second."""
SPREAD: Final = 0.8
"""Seconds over which all followers are told, at most."""
TURNS: Final = 200
"""Into how many turns that is cut: where there are no more followers than that, one is told each turn."""
MOST_KEPT: Final = 8
"""Answers that are kept of a study."""
LARGEST_KEPT: Final = 1 << 18
"""Bytes of the largest of them."""


class Sized(Protocol):
    """What knows how much memory it takes."""

    @property
    def size(self) -> int:
        """Bytes, about."""
        ...


Found = TypeVar("Found", bound=Sized)


@dataclass(slots=True, eq=False)
class Follower:
    """One who is told that something has changed, whatever it is."""

    feed: Feed
    told: asyncio.Event = field(default_factory=asyncio.Event)


class Feed:
    """The news of one study. For one event loop."""

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look = look
        self._followers: dict[Follower, None] = {}
        self._kept: OrderedDict[tuple[str, ...], asyncio.Task[Any]] = OrderedDict()
        self._step = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def __len__(self) -> int:
        return len(self._followers)

    def join(self, new: Follower) -> None:
        """Tell this one, too, from now on."""
        self._followers[new] = None

    def leave(self, one: Follower) -> None:
        """Tell this one no more."""
        del self._followers[one]

    def end(self) -> None:
        """Look no more."""
        self._task.cancel()

    def step(self) -> None:
        """The study has taken a step: drop what is kept, and look."""
        self._kept.clear()
        self._step.set()

    def tell(self) -> None:
        """Tell all at once: there is no time to lose."""
        for each in self._followers:
            each.told.set()

    def kept(self, question: tuple[str, ...]) -> object:
        """The answer that is kept; None if there is none."""
        task = self._kept.get(question)
        whole = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return task.result() if task is not None and whole else None

    async def once(self, question: tuple[str, ...], work: Callable[[], Coroutine[Any, Any, Found]]) -> Found:
        """The answer, as it was worked out since the last change, or is now: for all who ask."""
        task: asyncio.Task[Found] | None = self._kept.get(question)
        if task is None:
            task = self._kept[question] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(partial(self._settle, question))
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return task.result() if task.done() else await asyncio.shield(task)

    def _settle(self, question: tuple[str, ...], task: asyncio.Task[Any]) -> None:
        """Keep no error, and nothing large: those who wait for it have it all the same."""
        fails = task.cancelled() or task.exception() is not None
        if (fails or task.result().size > LARGEST_KEPT) and self._kept.get(question) is task:
            del self._kept[question]

    async def _follow(self) -> None:
        before: object = None
        while True:
            self._step.clear()
            try:
                now = await self._look()
            except Exception:  # Whatever it is: followers look themselves, and say what they are told.
                now = None
            if now is None or now != before:
                before = now
                self._kept.clear()
                await self._tell_in_turns()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._step.wait(), LOOK_EVERY)

    async def _tell_in_turns(self) -> None:
        waiting = list(self._followers)
        some = -(-len(waiting) // TURNS)
        for begin in range(0, len(waiting), max(1, some)):
            if begin:
                await asyncio.sleep(SPREAD / TURNS)
            for each in waiting[begin : begin + some]:
                each.told.set()


class Feeds:
    """The studies that somebody follows."""

    def __init__(self, look: Callable[[str], Awaitable[object]]) -> None:
        self._look = look
        self._feeds: dict[str, Feed] = {}

    def of(self, study: str) -> Feed | None:
        """The news of a study, if anybody follows it."""
        return self._feeds.get(study)

    @contextlib.contextmanager
    def follow(self, study: str) -> Generator[Follower]:
        """Follow a study while a `with` block runs."""
        feed = self._feeds.get(study)
        if feed is None:
            feed = self._feeds[study] = Feed(partial(self._look, study))
        follower = Follower(feed)
        feed.join(follower)
        try:
            yield follower
        finally:
            feed.leave(follower)
            if not len(feed):
                feed.end()
                del self._feeds[study]

    def step(self, study: str) -> None:
        """A study has taken a step."""
        if (feed := self._feeds.get(study)) is not None:
            feed.step()

    def end(self) -> None:
        """Tell everybody at once."""
        for feed in self._feeds.values():
            feed.tell()
