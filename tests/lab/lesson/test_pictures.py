"""The pictures of a lesson: their numbers against what is known otherwise, and what they refuse."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import scipy.stats

from askance_lab import lesson
from askance_lab.experiments.float_laplace import possible
from askance_lab.experiments.separation import users as limits
from askance_lab.lesson.picture import Picture
from askance_protocol.errors import AskanceError

E = math.e


def test_a_report_moves_the_odds_by_e_to_the_epsilon_and_not_more() -> None:
    belief = lesson.belief_after_report("0.5", points=5)

    assert belief.before == (0, 0.25, 0.5, 0.75, 1)
    assert belief.factor == pytest.approx(math.exp(0.5), rel=1e-12)
    for before, no, yes in zip(belief.before, belief.after_no, belief.after_yes, strict=True):
        assert yes == pytest.approx(before * math.exp(0.5) / (before * math.exp(0.5) + 1 - before))
        assert no == pytest.approx(1 - belief.after_yes[belief.before.index(1 - before)])


def test_crowds_tell_the_share_and_more_people_tell_it_better() -> None:
    for share in (0.0, 0.3, 1.0):
        told = lesson.share_told(share, [400, 40_000], seed=2)
        assert all(low <= share <= high for low, high in zip(told.low, told.high, strict=True))
        assert told.widths[1] < told.widths[0] / 4
    # The control: they tell this share, and no other.
    assert not any(low <= 0.6 <= high for low, high in [(told.low[1], told.high[1])])


def test_what_epsilon_costs_is_the_square_of_the_factor_that_undoes_the_noise() -> None:
    told = lesson.privacy_by_epsilon(["0.1", "1"])

    assert told.truth == pytest.approx((math.exp(0.1) / (1 + math.exp(0.1)), E / (1 + E)))
    assert told.odds == pytest.approx((math.exp(0.1), E))
    assert told.worth == pytest.approx([((math.exp(e) + 1) / (math.exp(e) - 1)) ** 2 for e in (0.1, 1)])


def test_laplace_reports_are_laplace_reports() -> None:
    seen = lesson.laplace_reports("2", reports=40_000, seed=3)
    law = scipy.stats.laplace(loc=1, scale=1)
    for low, high, count in zip(seen.edges, seen.edges[1:], seen.yes, strict=False):
        chance = law.cdf(high) - law.cdf(low)
        # 10⁻⁶ over the 40 bins.
        assert abs(count - 40_000 * chance) <= 5.5 * math.sqrt(40_000 * chance) + 5
    assert sum(count for edge, count in zip(seen.edges, seen.no, strict=False) if edge < 0) > 20_000


def test_doubles_are_reachable_as_the_attack_says_one_by_one() -> None:
    close = lesson.reachable_doubles(start=0.75, count=30, epsilon="1")

    assert [math.nextafter(each, 2) for each in close.doubles[:-1]] == list(close.doubles[1:])
    assert close.no == tuple(possible(each, -1.0, 2.0) for each in close.doubles)
    assert close.yes == tuple(possible(each, 1.0, 2.0) for each in close.doubles)
    assert close.telling + close.shared <= 30
    assert any(close.no)
    assert any(close.yes)


def test_single_reports_in_doubles_are_ruled_out() -> None:
    caught = lesson.ruled_out(["0.5", "1"], reports=500, seed=4)

    assert all(share.total == 500 and share.interval[0] > 0.4 for share in caught.shares)


def test_the_majority_is_right_as_the_binomial_law_says() -> None:
    again = lesson.asked_again("1", times=9)

    assert again.times == (1, 3, 5, 7, 9)
    exact = [scipy.stats.binom.sf(times // 2, times, E / (1 + E)) for times in again.times]
    assert again.guessed == pytest.approx(exact)
    assert again.most[0] == pytest.approx(again.guessed[0])
    assert again.most[2] == pytest.approx(math.exp(5) / (1 + math.exp(5)))


def test_a_wallet_pays_while_it_can() -> None:
    wallet = lesson.wallet_steps("1", "0.3", studies=5)

    assert wallet.answered == (True, True, True, False, False)
    assert wallet.spent == (300_000, 600_000, 900_000, 900_000, 900_000)
    assert lesson.wallet_steps("1", "0.1", studies=11).spent[-2:] == (1_000_000, 1_000_000)
    assert wallet.rows()[3] == ("4", "refuses", "0.9")


def test_sharing_questions_out_is_better_than_splitting_epsilon() -> None:
    ways = lesson.split_or_shared([1, 4], people=10_000)

    def scale(epsilon: float) -> float:
        return (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)

    assert ways.split == pytest.approx([scale(1) / 200, scale(1 / 4) / 200])
    assert ways.shared == pytest.approx([scale(1) / 200, scale(1) / 100])


def test_learners_are_those_of_the_separation_and_so_is_what_is_said_of_them() -> None:
    right = lesson.right_by_users(4, [400, 200], runs=3)

    assert [point.users for point in right.two_rounds] == [200, 400]
    assert len(right.points) == 4
    assert all(right.right(point).total == 3 for point in right.points)
    assert {point.rounds for point in right.two_rounds} == {(2, 2, 2)}
    assert {point.rounds for point in right.one_round} == {(1, 1, 1)}
    assert re.match(r"d = 4, [24]00 users: masked-parity-two-rounds \(2 rounds\) right in ", right.verdict)


def test_users_by_dimension_are_those_of_the_table() -> None:
    needed = lesson.users_by_dimension()
    [row] = limits.table([16], "1")
    place = needed.dimensions.index(16)

    assert needed.dimensions == limits.DIMENSIONS
    assert row.measured is not None
    assert row.two_rounds is not None
    assert (needed.two_rounds[place], needed.one_round[place]) == (row.two_rounds.users, row.at_once_proved)
    assert needed.more_rounds[place] == (row.measured.users, row.measured.rounds)
    assert needed.times[place] == row.times(row.two_rounds)
    assert needed.times[0] < 1, "at d = 8 no gap is proved for exactly two rounds of A_MP"


def test_a_plan_takes_more_users_for_less_error_and_less_epsilon() -> None:
    plan = lesson.users_by_tolerance(["0.05", "0.1"], ["0.5", "1"])

    assert plan.users["1"] == (7590, 1909)
    assert all(less > more for less, more in zip(plan.users["0.5"], plan.users["1"], strict=True))
    assert plan.rows()[0] == ("0.05", "0.5", f"{plan.users['0.5'][0]:,}")


def test_a_plan_keeps_its_word_and_too_few_users_do_not() -> None:
    planned = lesson.studies_repeated(1909, studies=60, tolerance="0.1")
    few = lesson.studies_repeated(300, studies=60, tolerance="0.1")

    assert planned.within.interval[1] >= 0.95
    assert planned.held.interval[1] >= 0.95
    # The control: few users are not as exact, and their intervals, which are wider, hold all the same.
    assert few.within.interval[1] < 0.95
    assert few.held.interval[1] >= 0.95


# ------------------------------------------------------------------------------------------------------ every picture

SMALL: dict[str, Callable[[], Picture]] = {
    "asked_again": lambda: lesson.asked_again(times=3),
    "belief_after_report": lambda: lesson.belief_after_report(points=3),
    "laplace_reports": lambda: lesson.laplace_reports(reports=100),
    "privacy_by_epsilon": lambda: lesson.privacy_by_epsilon(["1", "2"]),
    "reachable_doubles": lambda: lesson.reachable_doubles(count=5),
    "right_by_users": lambda: lesson.right_by_users(4, [200], runs=2),
    "ruled_out": lambda: lesson.ruled_out(["1"], reports=50),
    "share_told": lambda: lesson.share_told(0.5, [50]),
    "split_or_shared": lambda: lesson.split_or_shared([1, 2]),
    "studies_repeated": lambda: lesson.studies_repeated(300, studies=3, tolerance="0.1"),
    "users_by_dimension": lesson.users_by_dimension,
    "users_by_tolerance": lambda: lesson.users_by_tolerance(["0.1"]),
    "wallet_steps": lambda: lesson.wallet_steps("1", "0.5", studies=3),
}


def test_every_picture_is_the_same_each_time_and_its_table_has_its_columns() -> None:
    assert {*SMALL, "holds"} == set(lesson.__all__)
    for name, make in SMALL.items():
        picture = make()
        assert picture == make(), name
        assert all(len(row) == len(picture.HEAD) for row in picture.rows()), name
        assert picture.table().count("\n") == len(picture.rows()) > 0, name
        assert dataclasses.is_dataclass(picture), name
        assert getattr(picture, "__dataclass_params__").frozen, name  # noqa: B009 - no type checker knows it


def test_the_same_numbers_draw_the_same_bytes() -> None:
    drawn = [lesson.wallet_steps("1", "0.5", studies=3)._repr_svg_() for _ in range(2)]

    assert drawn[0] == drawn[1]
    assert "refuses" in drawn[0]
    assert lesson.wallet_steps("1", "0.6", studies=3)._repr_svg_() != drawn[0]


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (lambda: lesson.belief_after_report("0"), "ε"),
        (lambda: lesson.belief_after_report(points=1), "points"),
        (lambda: lesson.share_told(1.5, [10]), "share"),
        (lambda: lesson.share_told(0.5, [0]), "people"),
        (lambda: lesson.laplace_reports(reports=0), "reports"),
        (lambda: lesson.reachable_doubles(count=0), "count"),
        (lambda: lesson.asked_again(times=0), "times"),
        (lambda: lesson.wallet_steps("1", "0.3", studies=0), "studies"),
        (lambda: lesson.split_or_shared([20], people=10), "questions"),
        (lambda: lesson.split_or_shared([0]), "questions"),
        (lambda: lesson.right_by_users(4, [200], runs=0), "runs"),
        (lambda: lesson.right_by_users(4, []), "users"),
        (lambda: lesson.right_by_users(3, [200]), "parameters.d"),
        (lambda: lesson.users_by_dimension("0.7"), "epsilon"),
        (lambda: lesson.users_by_tolerance(["2"]), "parameters.tolerance"),
        (lambda: lesson.studies_repeated(300, studies=0), "studies"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_the_error_says_where(asked: Callable[[], Any], where: str) -> None:
    with pytest.raises(AskanceError) as refused:
        asked()

    assert refused.value.where == where


def test_a_sentence_that_does_not_hold_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lesson.holds(True, "Two is even.")
    lesson.holds(False, "Three is even.")

    assert capsys.readouterr().out.splitlines() == [
        "✓ Two is even.",
        "✗ with these numbers it does not hold: Three is even.",
    ]


def test_a_lesson_loads_no_matplotlib_before_it_draws() -> None:
    program = "import sys; from askance_lab import lesson; lesson.asked_again(); print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False"]
