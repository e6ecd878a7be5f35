"""`askance separation`: what is measured, what is said of it, and what it leaves behind."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import fisher_exact
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.commands import separation as separation_command
from askance_lab.data.made_up import made_up as made_up_users
from askance_lab.engines import engine
from askance_lab.evaluation.error import error_of
from askance_lab.evaluation.proportion import Proportion, chance_of_fewer
from askance_lab.experiments.separation import users
from askance_lab.experiments.separation.measurement import (
    BLIND,
    INTERACTIVE,
    LEARNERS,
    NONINTERACTIVE,
    TWO_ROUNDS,
    LearnerUsers,
    NumberKind,
    SeparationPoint,
    SeparationSetting,
    comparisons,
    measure,
    name_of,
    needed,
    results_of,
    settings_of,
    trial,
    verdict,
)
from askance_lab.experiments.separation.pairs import laws, success
from askance_lab.experiments.separation.report import rows, write
from askance_lab.theory.limits import users_at_once_proved
from askance_lab.theory.masked_parity import users_masked_parity_pooled
from askance_protocol.errors import AskanceError, UsageError
from askance_server.strategies.registry import registry
from benchmarks import users as remade

ROUNDS = {INTERACTIVE: 6, TWO_ROUNDS: 2}


def point(learner: str, users: int, errors: tuple[float | None, ...], d: int = 32) -> SeparationPoint:
    return SeparationPoint(learner, d, "1", users, errors, (ROUNDS.get(learner, 1),) * len(errors))


def made_up(setting: SeparationSetting, seed: int) -> tuple[float | None, int]:
    """In rounds it is always right, after four or five of them; in one round it guesses."""
    return (0.0, 4 + seed % 2) if setting.learner == INTERACTIVE else (0.5 * (seed % 2), 1)


def never(setting: SeparationSetting, seed: int) -> tuple[float | None, int]:
    raise AssertionError(f"{setting.key}, seed {seed} was measured again")


# ---------------------------------------------------------------------------------------------------------- measuring


def test_a_measurement_goes_on_where_it_stopped_and_measures_nothing_twice(tmp_path: Path) -> None:
    settings, results = settings_of([32], "1", [1000, 2000]), tmp_path / "measured.json"
    first = measure(settings, 4, results, engine(), run=made_up)
    again = measure(settings, 4, results, engine(), run=never)
    more = measure(settings, 6, results, engine(), run=made_up)

    assert first == again
    assert [each.errors[:4] for each in more] == [each.errors for each in first]
    assert [len(each.errors) for each in measure(settings, 2, results, engine(), run=never)] == [2] * 6
    with pytest.raises(AssertionError, match="measured again"):
        measure(settings, 7, results, engine(), run=never)


def test_points_are_the_same_for_both_learners_and_lie_around_what_is_needed() -> None:
    settings = settings_of([8, 16], "1", [])

    for d in (8, 16):
        users = [[each.users for each in settings if (each.d, each.learner) == (d, learner)] for learner in LEARNERS]
        assert users[0] == users[1] == users[2] == sorted(set(users[0]))
        assert len(users[0]) >= 4


def test_a_trial_may_be_counted_and_is_another_point() -> None:
    one_by_one, counted = (SeparationSetting(INTERACTIVE, 64, "1", 10**12, counts) for counts in (False, True))

    assert trial(counted, 1)[0] == 0
    assert one_by_one.key != counted.key


@pytest.mark.slow
def test_a_real_trial_learns_with_many_users_and_not_with_few() -> None:
    enough = SeparationSetting(INTERACTIVE, 8, "1", 40_000)

    assert [trial(enough, seed) for seed in range(3)] == [(0, 2)] * 3
    assert trial(enough, 1) == trial(enough, 1)
    assert (
        sum(trial(SeparationSetting(learner, 16, "1", 400), seed)[0] != 0 for learner in LEARNERS for seed in range(4))
        >= 6
    )


# ------------------------------------------------------------------------------------------------------ what it says


def test_intervals_are_those_of_the_books() -> None:
    assert point(INTERACTIVE, 1, (0.0,) * 10).success == Proportion(10, 10)
    assert point(INTERACTIVE, 1, (0.5,) * 10).success == Proportion(0, 10)
    error = point(NONINTERACTIVE, 1, (0.0, 0.5) * 50).error
    assert error is not None
    mean, low, high = error
    assert low < mean == 0.25 < high
    assert high - low < 0.25


def test_a_separation_is_claimed_where_an_exact_test_finds_one_and_nowhere_else() -> None:
    apart = [point(INTERACTIVE, 10, (0.0,) * 40), point(NONINTERACTIVE, 10, (0.0, 0.5) * 20)]
    unclear = [point(INTERACTIVE, 10, (0.0,) * 5), point(NONINTERACTIVE, 10, (0.0, 0.5, 0.0, 0.5, 0.0))]
    alike = [point(learner, 10, (0.0,) * 40) for learner in LEARNERS]

    assert ": apart (exact test, p < 0.0001)" in verdict(apart)[0]
    assert "one round only guesses the mask bit" in verdict(apart)[0]
    for points in (unclear, alike):
        assert ": not apart (exact test, p = " in verdict(points)[0]
        assert "guesses" not in verdict(points)[0]


def errors(right: int, of: int) -> tuple[float, ...]:
    return (0.0,) * right + (0.5,) * (of - right)


def test_ten_of_ten_against_two_of_ten_are_apart_whatever_was_measured_with_more_users() -> None:
    """Where both succeed nothing is seen. The comparison is at the fewest users with which rounds do."""
    points = [
        *(point(INTERACTIVE, users, errors(right, 10), 8) for users, right in ((1000, 3), (2000, 10), (8000, 10))),
        *(point(NONINTERACTIVE, users, errors(right, 10), 8) for users, right in ((1000, 1), (2000, 2), (8000, 10))),
    ]
    [found] = comparisons(points)
    [said] = verdict(points)

    assert (found.in_rounds.users, found.succeeds, found.apart) == (2000, True, True)
    # 12 of 20 were right: all 10 in rounds and 2 in one round, in C(10, 10)·C(10, 2) of the C(20, 12) ways.
    assert found.chance == pytest.approx(45 / math.comb(20, 12))
    assert found.ratio == (4.0, 1.0, 8.0)
    assert said.startswith("d = 8, 2,000 users: masked-parity-pooled (6 rounds) right in 10 of 10 [0.69, 1.00]; ")
    assert "masked-parity-noninteractive (1 round) right in 2 of 10 [0.03, 0.56]: apart" in said
    assert said.endswith("One round took 4.0 times as many users (95 %: 1.0 to 8.0); proved: at least 2.9 times")
    # The control: what the verdict was made from before, the most users, is not apart.
    assert not comparisons([each for each in points if each.users == 8000])[0].apart


def test_a_learner_in_rounds_that_never_succeeds_is_said_to() -> None:
    points = [point(TWO_ROUNDS, 3000, errors(21, 40)), point(NONINTERACTIVE, 3000, errors(20, 40))]
    [found], [said] = comparisons(points), verdict(points)

    assert (found.succeeds, found.apart, found.ratio, found.proved) == (False, False, (None,) * 3, None)
    assert "masked-parity-two-rounds (2 rounds) right in 21 of 40" in said
    assert said.endswith("With none of the numbers tried was masked-parity-two-rounds right 19 times in 20")
    # The control.
    assert "none of the numbers" not in verdict([point(TWO_ROUNDS, 3000, errors(39, 40)), points[1]])[0]


def test_a_success_of_one_round_below_what_is_proved_is_luck() -> None:
    """At d = 32 no learner in one round is right 19 times in 20 with 2,000 users, whatever 40 runs came to."""
    points = [point(learner, 2000, errors(40, 40)) for learner in (TWO_ROUNDS, NONINTERACTIVE)]
    [found], [said] = comparisons(points), verdict(points)

    assert found.ratio == (None, None, None)
    assert needed(points, NONINTERACTIVE, 32, "1").kind is NumberKind.LIMIT
    assert needed(points, TWO_ROUNDS, 32, "1").kind is NumberKind.MEASURED
    assert said.endswith("users one round takes is not seen; proved: at least 4.9e+07 times")


@pytest.mark.parametrize(
    ("once", "ratio"),
    [
        # Worse at both numbers, and right at none of them: the ratio is above 2, and nobody knows by how much.
        ({1000: 10, 2000: 10}, (None, 2.0, None)),
        # Not worse at the first number: no end below.
        ({1000: 37, 2000: 40}, (2.0, None, 4.0)),
        ({1000: 40}, (1.0, None, 2.0)),
        ({1000: 30, 2000: 40}, (2.0, 1.0, 4.0)),
    ],
)
def test_the_ratio_of_users_is_between_numbers_that_an_exact_test_tells_apart(
    once: dict[int, int], ratio: tuple[float | None, ...]
) -> None:
    points = [
        point(TWO_ROUNDS, 500, errors(10, 40), 4),
        point(TWO_ROUNDS, 1000, errors(40, 40), 4),
        *(point(NONINTERACTIVE, users, errors(right, 40), 4) for users, right in once.items()),
    ]

    assert comparisons(points)[0].ratio == ratio


def test_the_exact_test_is_that_of_the_books() -> None:
    for few, many in itertools.product(range(0, 11, 2), range(0, 13, 3)):
        table = np.array([[few, 10 - few], [many, 12 - many]])
        expected = fisher_exact(table, alternative="less").pvalue
        assert chance_of_fewer(Proportion(few, 10), Proportion(many, 12)) == pytest.approx(expected)


def test_rounds_are_those_that_were_measured(tmp_path: Path) -> None:
    """A strategy that may have six stops when it is sure; one of exactly two has two."""
    points = measure(settings_of([4], "1", [200, 3000]), 4, tmp_path / "measured.json", engine())
    found = {(each["strategy"], each["users"]): each for each in results_of(points)["points"]}

    assert {each.rounds for each in points if each.learner == TWO_ROUNDS} == {(2, 2, 2, 2)}
    assert {each.rounds for each in points if each.learner == NONINTERACTIVE} == {(1, 1, 1, 1)}
    many = [rounds for each in points if each.learner == INTERACTIVE for rounds in each.rounds]
    assert 2 <= min(many) < max(many) <= 6
    assert name_of(points, INTERACTIVE) == f"masked-parity-pooled (up to {max(many)} rounds)"
    assert all(row["rounds"] == max(each.rounds) for row, each in zip(found.values(), points, strict=True))
    assert all({"strategy", "rounds"} <= set(each) for each in results_of(points)["needed"])


def test_users_needed_are_measured_where_they_were_and_a_theorems_number_of_another_kind_where_not() -> None:
    points = [
        point(INTERACTIVE, 1000, (0.0,) * 18 + (0.5,) * 2),
        point(INTERACTIVE, 2000, (0.0,) * 19 + (0.5,)),
        point(INTERACTIVE, 4000, (0.0,) * 20),
        point(NONINTERACTIVE, 4000, (0.0, 0.5) * 10),
    ]

    assert needed(points, INTERACTIVE, 32, "1") == LearnerUsers(INTERACTIVE, 32, 2000)
    assert needed(points, INTERACTIVE, 32, "1").measured
    once = needed(points, NONINTERACTIVE, 32, "1")
    assert (once.kind, once.measured) == (NumberKind.LIMIT, False)
    assert once.users == users_at_once_proved(dimension=32, epsilon=1, failure=0.05)
    assert needed([point(TWO_ROUNDS, 9, (0.5,))], TWO_ROUNDS, 32, "1").kind is NumberKind.ENOUGH
    formula = needed(points[:1], INTERACTIVE, 32, "1")
    assert (formula.kind, formula.measured) == (NumberKind.ENOUGH, False)
    assert formula.users == users_masked_parity_pooled(dimension=32, epsilon=1, failure=0.05)


# ------------------------------------------------------------------------------------------------- limits and measured


def test_the_table_has_a_row_for_two_rounds_beside_the_one_for_more() -> None:
    found = users.table(users.DIMENSIONS, "1")

    assert [each.d for each in found] == [8, 16, 32, 64]
    for each in found:
        two, searched, more = each.learners
        assert (two, more) == (each.two_rounds, each.measured)
        assert [(one.name, one.rounds, one.mean_rounds) for one in (two, searched)] == [
            ("masked-parity-two-rounds", 2, 2.0),
            ("masked-parity-pooled rounds=2", 2, 2.0),
        ]
        assert more.rounds > 2
        assert all(one.success.rate >= 0.95 for one in each.learners)
        assert each.rounds_limit < more.users < searched.users < two.users
        assert more.users < each.at_once_proved < each.at_once_limit
        assert each.times_limit == each.at_once_limit / more.users
    # A gap of exactly two rounds is proved from d = 16 on for A_MP, and hardly at d = 8 for the search.
    gaps = [[each.times(one) for one in each.learners] for each in found]
    assert gaps[0][0] < 1 < gaps[0][1] < 1.2
    assert [round(least) >= bound for (least, *_), bound in zip(gaps[1:], (40, 10**5, 10**14), strict=True)]
    assert max(map(len, users.lines(found))) <= 80
    assert [row[2] for row in users.rows(found)][:3] == ["2", "2", "up to 6"]


def test_a_number_that_nobody_measured_is_a_dash_and_so_is_its_ratio() -> None:
    found = users.table([8], "0.5")
    [row] = users.rows(found)

    assert [cell == "–" for cell in row] == [False, True, True, True, True, False, True]
    assert "–" not in users.limit_rows(found)[0]
    assert users.table([8], "24") == []


def test_the_command_prints_the_table_and_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = CliRunner().invoke(app, ["separation", "--table"], catch_exceptions=False)
    some = CliRunner().invoke(app, ["separation", "--table", "--d", "8,4", "--epsilon", "1.0", "--json"])
    found, rows_ = (json.loads(some.stdout)[name] for name in ("limits", "rows"))

    assert all(line in plain.stdout for line in users.lines(users.table(users.DIMENSIONS, "1")))
    assert "Below 1 no gap is proved" in plain.stdout
    assert [(row["strategy"], row["rounds"]) for row in rows_] == [
        (each.strategy, each.rounds) for each in users.table([8], "1")[0].learners
    ]
    assert [(each["d"], each["measured"] is None) for each in found] == [(4, True), (8, False)]
    assert list(tmp_path.iterdir()) == []
    for silly in (["--epsilon", "0"], ["--epsilon", "21"], ["--d", "512"]):
        assert isinstance(CliRunner().invoke(app, ["separation", "--table", *silly]).exception, AskanceError)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_window_shows_the_table_as_documents_have_it_where_it_fits(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []
    monkeypatch.setattr(separation_command, "window_width", lambda: columns)
    monkeypatch.setattr(separation_command, "echo_table", lambda *table, **_: drawn.append(table))
    printed = CliRunner().invoke(app, ["separation", "--table", "--d", "8"], catch_exceptions=False).stdout
    table = users.lines(users.table([8], "1"))

    assert max(map(len, table)) <= 80
    assert (printed.splitlines()[: len(table)], drawn == []) == ((table, True) if columns >= 80 else ([], False))


def test_what_was_measured_is_the_fewest_of_the_benchmark() -> None:
    """The file in the package is the one that `python benchmarks/users.py --remake` makes; a changed one is found."""
    made = remade.measured_in_rounds()

    assert made == [each for of in users.measured_users().values() for each in of]
    # The control: a row of one user less, and one that was right too seldom.
    assert remade.measured_in_rounds({"more": [asdict(made[0]) | {"users": made[0].users - 1}]}) != made
    assert remade.measured_in_rounds({"more": [asdict(made[0]) | {"users": 1, "successes": 949}]}) == made


# --------------------------------------------------------------------------------------------------------- the files


def test_plots_and_page_come_from_the_points_and_fetch_nothing(tmp_path: Path) -> None:
    points = measure(settings_of([16, 32], "1", [1000, 5000]), 4, tmp_path / "measured.json", engine(), run=made_up)
    write(tmp_path, points, results_of(points))
    page = (tmp_path / "report.html").read_text()

    assert page.count("<svg") == 2
    assert page.count("<tr>") == 1 + len(points) + 1 + 2 * 3 + 1 + 2
    assert "Below 1 no gap is proved" in page
    assert "masked-parity-pooled (up to 5 rounds): measured" in page
    assert not re.search(r"(src|href)\s*=\s*\"?(https?:)?//", page)
    for name in ("error", "needed"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "1970" not in (tmp_path / f"{name}.svg").read_text()
    results = json.loads((tmp_path / "results.json").read_text())
    assert [each["successes"] for each in results["points"]] == [each.success and each.success.count for each in points]
    assert len(results["verdict"]) == 2, "one learner took more than one round"


def test_a_plot_of_more_users_than_64_bits_can_count_is_drawn(tmp_path: Path) -> None:
    points = measure(settings_of([32, 64], "1", [1000]), 4, tmp_path / "measured.json", engine(), run=made_up)
    results = results_of(points)
    write(tmp_path, points, results)

    assert max(each["at_once_proved"] for each in results["limits"]) > 2**64
    assert (tmp_path / "report.html").read_text().count("<svg") == 2


def test_the_same_points_draw_the_same_bytes(tmp_path: Path) -> None:
    points = [point(learner, 1000, (0.0, 0.5)) for learner in LEARNERS]
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        write(folder, points, results_of(points))

    assert (tmp_path / "a" / "report.html").read_text() == (tmp_path / "b" / "report.html").read_text()


@pytest.mark.slow
def test_the_command_measures_draws_resumes_and_overwrites_nothing(tmp_path: Path) -> None:
    def separation(*more: str) -> Any:
        return CliRunner().invoke(
            app, ["separation", "--d", "4", "--users", "600", "--out", str(tmp_path / "out"), *more]
        )

    shown = separation("--seeds", "3")
    assert shown.exit_code == 0, shown.output
    assert re.search(r"masked-parity-two-rounds +2 +\d/3", shown.stdout)
    assert isinstance(separation("--seeds", "3").exception, AskanceError)
    resumed = separation("--seeds", "4", "--resume", "--json")
    assert [each["seeds"] for each in json.loads(resumed.stdout)["points"]] == [4, 4, 4]
    assert isinstance(separation("--d", "4,x").exception, AskanceError)


def test_a_guess_of_the_mask_bit_costs_a_quarter() -> None:
    strategy = registry()[NONINTERACTIVE]
    population = made_up_users(strategy, {"d": 4}, 1, {"r": "0110", "a": 1})
    guesses = [error_of(strategy, {"r": "0110", "a": a}, population).value for a in (0, 1)]

    assert guesses == [0.5, 0]
    assert sum(each or 0 for each in guesses) / 2 == BLIND


# --------------------------------------------------------------------------------------------------- other learners

WEAK = "masked-parity-weak"


def unknown(setting: SeparationSetting, seed: int) -> tuple[float | None, int]:
    """Of the weak learner nothing is known but its rounds."""
    return (None, 1) if setting.learner == WEAK else made_up(setting, seed)


def test_other_learners_are_measured_by_name_beside_the_three(tmp_path: Path) -> None:
    settings = settings_of([4], "1", [400], learners=[*LEARNERS, WEAK])
    points = measure(settings, 3, tmp_path / "measured.json", engine())
    write(tmp_path, points, results_of(points))

    assert [each.learner for each in points] == [*LEARNERS, WEAK]
    assert all(each.success is not None and each.error is not None for each in points)
    assert [line.split(": ")[1].split()[0] for line in verdict(points)] == [INTERACTIVE, TWO_ROUNDS]
    assert WEAK in (tmp_path / "report.html").read_text()
    with pytest.raises(UsageError, match="there is no forest here"):
        settings_of([4], "1", [400], learners=["forest"])


def test_a_learner_is_measured_alone_and_nothing_is_compared(tmp_path: Path) -> None:
    points = measure(settings_of([4], "1", [400], [WEAK]), 3, tmp_path / "m.json", engine(), run=made_up)
    write(tmp_path, points, results_of(points))

    assert verdict(points)[0].startswith(f"d = 4, 400 users: {WEAK} (1 round) right in ")
    assert "apart" not in verdict(points)[0]
    none = {"users": None, "kind": None, "measured": False, "strategy": WEAK, "rounds": 1}
    assert results_of(points)["needed"] == [{"learner": WEAK, "d": 4, **none}]


def test_an_unknown_error_is_kept_as_null_and_shown_as_such(tmp_path: Path) -> None:
    settings, kept = settings_of([4], "1", [400, 500], learners=[INTERACTIVE, WEAK]), tmp_path / "measured.json"
    points = measure(settings, 2, kept, engine(), run=unknown)
    write(tmp_path, points, results_of(points))
    results = json.loads((tmp_path / "results.json").read_text())

    assert json.loads(kept.read_text())["errors"][settings[1].key] == [[None, 1]] * 2
    assert measure(settings, 2, kept, engine(), run=never) == points
    assert [(each["successes"], each["success"], each["error"]) for each in results["points"][1::2]] == [
        (None, None, None)
    ] * 2
    assert results["points"][0]["successes"] == 2
    assert results["needed"][1]["users"] is None
    assert rows(points)[1] == ("4", "400", WEAK, "1", "–/2", "–", "–")
    assert verdict(points[1::2])[0].endswith(f"{WEAK} (1 round) ran 2 times, with an error that is unknown")


# ---------------------------------------------------------------------------------------------------- what was before

VERSION_0_1 = """{
 "schema_version": 1,
 "errors": {
  "masked-parity-pooled d=4 epsilon=1 users=600": [0.0, 0.0],
  "masked-parity-noninteractive d=4 epsilon=1 users=600": [0.375, 0.375]
 }
}"""
"""As `askance separation --d 4 --users 600 --seeds 2` of version 0.1 left it."""


def test_what_version_0_1_measured_is_gone_on_with(tmp_path: Path) -> None:
    kept = tmp_path / "measured.json"
    kept.write_text(VERSION_0_1)
    settings = settings_of([4], "1", [600], [INTERACTIVE, NONINTERACTIVE])

    def searching(setting: SeparationSetting, seed: int) -> tuple[float | None, int]:
        """The search has changed since: what it did then is not what it would do now, and it is measured again."""
        return (1.0, 3) if setting.learner == INTERACTIVE else never(setting, seed)

    assert [each.errors for each in measure(settings, 2, kept, engine(), run=searching)] == [(1, 1), (0.375, 0.375)]
    again = measure(settings, 2, kept, engine(), run=never)
    assert [(each.errors, each.rounds) for each in again] == [((1, 1), (3, 3)), ((0.375, 0.375), (1, 1))]
    assert [each.errors for each in measure(settings, 3, kept, engine(), run=made_up)] == [(1, 1, 0), (0.375, 0.375, 0)]
    anew = measure(settings, 2, tmp_path / "anew.json", engine())
    assert anew[1:] == measure(settings, 2, kept, engine(), run=never)[1:]


def test_errors_without_their_rounds_are_measured_again_where_rounds_may_differ(tmp_path: Path) -> None:
    """Version 1.0 kept errors alone. How many rounds its searches took is nowhere, so they are not gone on with."""
    kept = tmp_path / "measured.json"
    [many, once] = settings_of([4], "1", [600], [INTERACTIVE, NONINTERACTIVE])
    kept.write_text(json.dumps({"schema_version": 1, "errors": {many.key: [1.0, 1.0], once.key: [0.5]}}))

    found = measure([many, once], 2, kept, engine(), run=made_up)
    assert [(each.errors, each.rounds) for each in found] == [((0, 0), (4, 5)), ((0.5, 0.5), (1, 1))]


# ---------------------------------------------------------------------------------------------- pairs of words, at once


def test_the_channel_of_a_pair_is_local_to_the_last_bit_and_has_the_law_that_is_drawn() -> None:
    """Every user's own probabilities, averaged over the users of each concept at d = 3."""
    d, epsilon = 3, 1.0
    k, law = math.expm1(epsilon), laws(d, epsilon)
    bits = np.arange(2**d)[:, None] >> np.arange(d) & 1
    for pair, r, a in itertools.product(range(2 ** (d - 1)), range(2**d), (0, 1)):
        words = bits[pair], 1 - bits[pair]
        chances = list[list[float]]()
        for x in bits:
            for i, b in itertools.product(range(d), (0, 1)):
                label = (-1) ** bits[r, i] if b else (-1) ** (bits[r] @ x + a)
                held = [
                    (label == (-1) ** (1 - word[i])) if b else label == sign * (-1) ** (word @ x)
                    for word in words
                    for sign in (1, -1)
                ]
                chances.append([(1 + k * each) / (4 + 2 * k) for each in held])
                assert sum(chances[-1]) == pytest.approx(1)
                assert max(chances[-1]) / min(chances[-1]) == pytest.approx(math.exp(epsilon))
        assert np.mean(chances, axis=0) == pytest.approx(law[pair, r, a])


def test_pairs_of_words_do_with_fewer_users_at_once_than_was_thought_possible() -> None:
    """12,283 was taken for a limit at d = 8; a guess of the mask bit, the control, is right in half of the studies."""
    users_of_a_pair = 88

    assert users_of_a_pair * 2**7 < 12_227
    assert success(d=8, users_of_a_pair=users_of_a_pair, epsilon=1, studies=400, seed=1).rate >= 0.95
    assert success(d=8, users_of_a_pair=users_of_a_pair // 8, epsilon=1, studies=100, seed=1).rate < 0.7
