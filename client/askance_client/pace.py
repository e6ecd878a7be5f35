"""Pace: a report leaves at an instant that was fixed before its example was looked at.

Theory of operation
-------------------
A server sees when each request comes. Between two of them lies whatever a client computes, and to evaluate a query and
to draw takes a time of its own. `askance_protocol.queries` takes the same steps for every example, as far as Python and
its machine let it; this takes away what is left.

*Drawing earlier is no way out.* A client that draws before it asks for its account draws between the bulletin and that
request, and the same server sees both. It would also hold a report that no file has yet. So the report is drawn where
it always was, in the transaction that stores it, and then it waits: the instant at which it is sent is fixed before the
transaction begins, `seconds` later. A machine that needs longer sends at the next multiple of it.

*Counted from the answer, not from the request.* A server decides how long its answer takes. If the instant were counted
from the request, it could answer so that the transaction ends now before the instant and now after it, which is again a
timing. Counted from the moment at which the last answer has been read, `seconds` are left whatever the server does, and
a draw takes a hundredth of them.

*To the instant, not to the millisecond.* An event loop sleeps whole milliseconds, rounded up from when it begins to:
what a draw took, modulo a millisecond, would be seen again at its end. So it goes to sleep at a whole millisecond after
the beginning, the last few before the instant are counted down by the clock, and one who wakes too late for that waits
for the next instant.

What remains: another connection of the same process, which waits while this one draws.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds from the last answer of a server to a report; 0: it is sent at once."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def begin(self) -> float:
        """Now: before anything private is looked at."""
        return self.clock()

    async def hold(self, begin: float) -> None:
        """Wait until the first multiple of `seconds` after `begin` that is still to come, exactly."""
        while self.seconds:
            asleep = self._count_down(begin, _LOOP)
            due = begin + self.seconds * (1 + (asleep - begin) // self.seconds)
            await self.sleep(max(due - _COUNTED - asleep, 0))
            if self.clock() < due:
                self._count_down(begin, self.seconds)
                return

    def _count_down(self, begin: float, step: float) -> float:
        """Look at the clock until the next multiple of `step` after `begin`, and return that."""
        then = begin + step * (1 + (self.clock() - begin) // step)
        while self.clock() < then:
            pass
        return then


_LOOP: Final = 0.001
"""Seconds that an event loop rounds up to."""
_COUNTED: Final = 0.002
"""Seconds before the instant from which the clock is looked at all the time."""
PACE: Final = Pace(0.1)
"""Of a person's device: a hundred times what a draw takes, and less than anybody waits for."""
AT_ONCE: Final = Pace(0)
"""Of made-up users: their examples are their operator's, who has nothing to hide from the server."""
