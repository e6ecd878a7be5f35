"""A benchmark fails where a figure misses its goal, and a planted slowness is such a miss."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from benchmarks.measuring import MISSED, PLANTED, Arguments, Figure, Growth, growing, held, in_turns, tell


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


# --------------------------------------------------------------------------------------------------------------- growth

SIZES = (1, 3, 10, 30, 100, 300, 1000)


def grown(seconds: Callable[[int], float], *, planted: bool = False, budget: float = math.inf) -> Growth:
    """Work that takes these seconds at a size, by a clock of its own."""
    clock = Clock()
    return growing(
        lambda size: clock.work(seconds(size)), SIZES, 3, budget=budget, planted=planted, clock=clock, watch=clock
    )


@pytest.mark.parametrize(
    ("seconds", "exponent"),
    [
        (lambda size: 0.5, 0.0),
        (lambda size: 0.001 * size, 1.0),
        (lambda size: 2.0 * size**2, 2.0),
        (lambda size: 1e-6 * size * math.sqrt(size), 1.5),
    ],
)
def test_an_exponent_is_found_however_short_the_work_is(seconds: Callable[[int], float], exponent: float) -> None:
    found = grown(seconds).exponent(at_most=1.1)

    assert found.values == pytest.approx((exponent,) * 3)
    assert found.missed is (exponent > 1.1)
    # The control: what is planted grows with one exponent more, whatever it was before.
    assert grown(seconds, planted=True).exponent().values == pytest.approx((exponent + 1,) * 3)


def test_fixed_costs_hide_no_quadratic_that_counts_at_the_largest_sizes() -> None:
    linear = grown(lambda size: 5 + 0.1 * size).exponent(at_most=1.1)
    hidden = grown(lambda size: 5 + 0.1 * size + 0.001 * size**2).exponent(at_most=1.1)

    assert not linear.missed
    assert hidden.missed
    assert 1.2 < hidden.median < 2


def test_what_would_not_fit_into_the_budget_is_left_out_and_said() -> None:
    curve = grown(lambda size: size, budget=700.0)

    # Once before it counts, and three turns: 4·(1 + 3 + 10 + 30 + 100) seconds.
    assert list(curve.seconds) == [1, 3, 10, 30, 100]
    assert curve.left_out == (300, 1000)
    assert curve.exponent().values == pytest.approx((1.0,) * 3)


def test_the_upper_half_is_fitted_and_each_turn_has_its_exponent() -> None:
    curve = Growth({1: [9, 9], 10: [1, 2], 100: [10, 40]})

    assert curve.upper == [10, 100]
    assert curve.exponent().values == pytest.approx((1.0, math.log10(20)))
    assert curve.to_json() == {
        "sizes": [1, 10, 100],
        "fitted_from": 10,
        "seconds": [[9, 9, 9], [1.5, 1, 2], [25, 10, 40]],
        "left_out": [],
    }


@pytest.mark.parametrize("curve", [Growth({10: [1.0]}), Growth({10: [0.0], 11: [1.0]})])
def test_an_exponent_that_cannot_be_fitted_is_missed(curve: Growth) -> None:
    assert curve.exponent(at_most=9).missed


@pytest.mark.parametrize(("turns", "level"), [(1, 0.0), (2, 0.5), (5, 0.9375)])
def test_how_sure_the_ends_of_the_turns_are(turns: int, level: float) -> None:
    assert held(turns) == level
