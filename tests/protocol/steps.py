"""What a call does, counted and timed: the steps of the interpreter one by one, and the CPU time in one run.

Counting is exact, and blind to what happens inside one step: the product of two large integers is one step, as that of
two small ones. Timing sees that, and is not exact. So both are looked at.

The rule of a timing was fixed before it was measured. All calls are timed in turns, a batch each, in CPU time of this
thread. A core that is shared may change its speed at any time, and a turn is short: so each time is taken relative to
its turn, and medians over all turns are compared. Medians that differ by less than `MARGIN` are the same. Where they
differ by more, a larger sample decides, three in all: a loaded machine makes a small sample unsteady, but no sample
makes a real difference go away.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

Call = Callable[[], object]
Steps = tuple[tuple[CodeType, int], ...]

MARGIN: Final = 1.2
SAMPLES: Final = (40, 120, 360)
"""Turns."""

BATCH_NS: Final = 40_000


def steps(call: Call) -> Steps:
    """Each step that the interpreter takes in a call: the function, and the place in it."""
    collecting = gc.isenabled()
    # What others left to be collected runs whenever it is collected: not among these steps.
    gc.disable()
    try:
        # From 3.12 on a trace function hears of no step of the frame in which it begins to ask for them.
        return _monitored(call) if sys.version_info >= (3, 12) else _traced(call)
    finally:
        if collecting:
            gc.enable()


def _traced(call: Call) -> Steps:
    taken: list[tuple[CodeType, int]] = []

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            taken.append((frame.f_code, frame.f_lasti))
        return inside

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return inside

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return tuple(taken)


def _monitored(call: Call) -> Steps:
    """By what Python 3.12 has for debuggers. It hears of all threads, and of this function as well."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - the types are those of 3.11
    taken: list[tuple[CodeType, int]] = []
    here, own = threading.get_ident(), sys._getframe().f_code

    def step(code: CodeType, place: int) -> None:
        if code is not own and threading.get_ident() == here:
            taken.append((code, place))

    event = monitoring.events.INSTRUCTION
    monitoring.use_tool_id(monitoring.DEBUGGER_ID, "steps")
    monitoring.register_callback(monitoring.DEBUGGER_ID, event, step)
    monitoring.set_events(monitoring.DEBUGGER_ID, event)
    try:
        call()
    finally:
        monitoring.set_events(monitoring.DEBUGGER_ID, 0)
        monitoring.register_callback(monitoring.DEBUGGER_ID, event, None)
        monitoring.free_tool_id(monitoring.DEBUGGER_ID)
    return tuple(taken)


def ways(calls: Sequence[Call]) -> int:
    """In how many ways these calls run: one, if all take the same steps.

    The first call is made once before. What it keeps for later has to serve the others too.
    """
    calls[0]()
    found = {steps(call) for call in calls}
    assert all(found), "no step was seen"
    return len(found)


def spread(calls: Sequence[Call], turns: int) -> float:
    """The largest median CPU time of these calls over the smallest, each time taken relative to its turn."""
    # One batch size for all: a loop costs the same for each then.
    slowest = max(_took(call, range(3)) for call in calls) / 3
    repeats = range(max(1, int(BATCH_NS / max(slowest, 1))))
    order, source = list(range(len(calls))), random.Random(turns)
    shares: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        source.shuffle(order)
        taken = {place: _took(calls[place], repeats) for place in order}
        usual = statistics.median(taken.values())
        for place, each in taken.items():
            shares[place].append(each / usual)
    medians = [statistics.median(each) for each in shares]
    return max(medians) / min(medians)


def spreads(calls: Sequence[Call]) -> list[float]:
    """The spread in each sample, up to the first in which the calls take the same time."""
    found: list[float] = []
    for turns in SAMPLES:
        found.append(spread(calls, turns))
        if found[-1] < MARGIN:
            break
    return found


def same_time(calls: Sequence[Call]) -> bool:
    """Whether these calls take the same time, by the rule above."""
    return spreads(calls)[-1] < MARGIN


def _took(call: Call, repeats: range) -> int:
    begin = time.thread_time_ns()
    for _ in repeats:
        call()
    return time.thread_time_ns() - begin
