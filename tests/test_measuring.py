"""A benchmark fails where a figure misses its goal, and a planted slowness is such a miss."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from benchmarks.measuring import MISSED, PLANTED, Arguments, Figure, in_turns, tell


class Clock:
    """Time that passes by work alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, *seconds: float) -> Callable[[], None]:
        """What takes these seconds, one after another, for ever."""
        calls = iter(range(1_000_000))

        def piece() -> None:
            self.now += seconds[next(calls) % len(seconds)]

        return piece


@pytest.mark.parametrize(("planted", "status"), [(None, 0), ("base", 0), ("ours", MISSED)])
def test_a_planted_slowness_misses_the_goal(
    planted: str | None, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    timed = in_turns({"base": clock.work(2.0), "ours": clock.work(1.0)}, Arguments(3, planted), clock)

    assert tell({"times": timed.ratio("base", "ours", at_least=1.5)}) == status
    told = json.loads(capsys.readouterr().out)
    assert told["missed"] == (["times"] if status else [])
    assert told["figures"]["times"]["median"] == {None: 2.0, "base": 2.0 * PLANTED, "ours": 2.0 / PLANTED}[planted]


def test_ratios_are_of_the_same_turn_and_the_first_turn_is_thrown_away() -> None:
    clock = Clock()
    # The machine gets slower from turn to turn, for both alike.
    work = {"base": clock.work(99, 2, 4, 8), "ours": clock.work(1, 1, 2, 4)}
    timed = in_turns(work, Arguments(3, None), clock)

    assert timed.ratio("base", "ours").values == (2.0, 2.0, 2.0)
    assert timed.rate("ours", 8).to_json() == {"median": 4.0, "least": 2.0, "most": 8.0}


@pytest.mark.parametrize(
    ("figure", "missed"),
    [
        (Figure((1, 2, 9), at_least=2), False),
        (Figure((1, 2, 9), at_least=2.1), True),
        (Figure((1, 2, 9), at_most=2), False),
        (Figure((1, 2, 9), at_most=1.9), True),
        (Figure((math.nan,), at_least=0), True),
        (Figure((1,)), False),
    ],
)
def test_a_goal_is_of_the_median(figure: Figure, missed: bool) -> None:
    assert figure.missed is missed
