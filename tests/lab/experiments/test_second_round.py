"""What a second round is worth: the conclusion says what was measured, with an interval, and no more."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from askance_lab.commands.shared.second_round_text import (
    conclusion,
    error_grid,
    introduction,
    learner_lines,
    mean_bars,
    quarter_note,
)
from askance_lab.experiments import second_round
from askance_lab.experiments.second_round import (
    LEARNERS,
    LIVE_LEARNERS,
    ConceptResult,
    ConceptTask,
    SecondRound,
    check_task,
    conclude,
    contradicts,
    how_often,
    learn_in_process,
    truth_of,
)
from askance_lab.experiments.separation.users import separation_users
from askance_lab.theory.limits import users_at_once_proved
from askance_protocol.errors import ProtocolError

TASK = ConceptTask(8, "1", 3000)
SHOWN = ConceptTask(16, "1", 40_000)
TRUTH = {"r": "00111001", "a": 1}
OTHER_MASK = {"r": "00111001", "a": 0}


def result(concept: int, learner: str, hypothesis: dict[str, object]) -> ConceptResult:
    return ConceptResult(concept, concept, learner, TRUTH, hypothesis, 2500, 2 if learner == LEARNERS[0] else 1, "")


def results(in_rounds: list[bool], at_once: list[bool], learners: tuple[str, str] = LEARNERS) -> list[ConceptResult]:
    """Each learner right or, by the mask bit, wrong on each concept."""
    return [
        result(number, learner, TRUTH if right else OTHER_MASK)
        for number, both in enumerate(zip(in_rounds, at_once, strict=True), 1)
        for learner, right in zip(learners, both, strict=True)
    ]


def concluded(in_rounds: list[bool], at_once: list[bool]) -> SecondRound:
    shown = conclude(TASK, results(in_rounds, at_once))
    assert shown is not None
    return shown


def text(lines: object) -> str:
    assert isinstance(lines, list)
    return "\n".join(line.plain for line in lines)


def learned(task: ConceptTask) -> SecondRound:
    """Seeds 2 to 31 are fixed, and so is what is seen."""
    seen = [learn_in_process(task, learner, number, number + 1) for number in range(1, 31) for learner in LEARNERS]
    shown = conclude(task, seen)
    assert shown is not None
    return shown


def test_at_the_demos_defaults_exactly_two_rounds_are_worth_it() -> None:
    """D = 16, 40,000 users, ε = 1. The control: at d = 8 with 3,000 users two rounds are no better than one."""
    shown, small = learned(SHOWN), learned(TASK)

    many, once = shown.right
    assert many.count >= 28
    assert once.count <= 20
    assert shown.difference[1] > 0
    assert (set(shown.in_rounds.rounds), set(shown.at_once.rounds)) == ({2}, {1})
    assert shown.sentence.startswith("A second round is worth it: masked-parity-two-rounds (2 rounds) learned ")
    assert set(shown.asked) == {40_000}
    assert small.sentence.startswith("No difference is shown: ")


def test_one_concept_contradicts_where_one_learner_is_right_and_the_other_is_said_to_be_better() -> None:
    shown = concluded([True] * 20, [True, False] * 10)

    assert shown.sign == 1
    for many, once in itertools.product((True, False), repeat=2):
        assert contradicts(results([many], [once], LIVE_LEARNERS), shown) == (once and not many)
    assert not contradicts(results([False], [True], LIVE_LEARNERS), None)
    assert not contradicts(results([False], [True], LIVE_LEARNERS), concluded([True], [True]))
    # Where one round is better, the opposite is the other one.
    assert contradicts(results([True], [False], LIVE_LEARNERS), concluded([False] * 20, [True] * 20))


def test_how_often_a_live_concept_contradicts_is_measured_by_studies_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_round, "STUDIES", 30)
    shown = concluded([True] * 20, [False] * 20)

    often, never = (how_often(ConceptTask(4, "1", users), shown, 7) for users in (150, 3000))
    assert (often.total, never.total) == (30, 30)
    assert 1 <= often.count <= 15
    assert never.count == 0


def test_where_both_are_right_no_difference_is_shown() -> None:
    shown = concluded([True] * 40, [True] * 38 + [False] * 2)

    assert shown.sentence.startswith("No difference is shown: masked-parity-two-rounds (2 rounds) learned 40 of 40 ")
    assert shown.difference[1] < 0 < shown.difference[2]


def test_where_rounds_are_worse_it_is_said_too() -> None:
    shown = concluded([False] * 38 + [True] * 2, [True] * 40)

    assert shown.sentence.startswith("Here one round was better")
    assert shown.difference[2] < 0


def test_a_concept_on_which_one_learner_failed_counts_for_neither() -> None:
    seen = results([True, True, True], [True, False, False])
    seen[-1] = replace(seen[-1], hypothesis={})

    shown = conclude(TASK, seen)

    assert shown is not None
    assert [(each.count, each.total) for each in shown.right] == [(2, 2), (1, 2)]
    assert conclude(TASK, seen[-2:]) is None


def test_the_error_of_a_wrong_mask_bit_is_one_half_and_its_mean_the_quarter() -> None:
    shown = concluded([True] * 20, [True, False] * 10)

    assert shown.at_once.error is not None
    assert shown.at_once.error[0] == 0.25
    assert shown.guesses
    assert not concluded([True] * 20, [True] * 20).guesses


def test_the_limit_is_the_one_that_is_proved_and_is_left_out_where_none_is_known() -> None:
    shown = concluded([True] * 20, [False] * 20)
    assert shown.needed.at_once_limit == users_at_once_proved(dimension=8, epsilon=1, failure=0.05)
    assert "fewer than 5,875 users" in text(conclusion(shown, 120))
    assert "(d = 8, ε = 1): proved" in text(conclusion(shown, 120))
    assert [each.d for each in shown.higher] == [16, 32, 64]

    large = replace(shown, task=ConceptTask(8, "24", 3000))
    assert large.needed.at_once_limit is None
    assert "fewer than" not in text(conclusion(large, 80))


def test_what_was_measured_in_rounds_and_what_a_formula_says_are_told_apart() -> None:
    shown = concluded([True] * 20, [False] * 20)
    found = separation_users(64, "1")
    assert found is not None
    assert found.two_rounds is not None
    kept = found.two_rounds.users
    other = replace(shown, task=ConceptTask(8, "0.5", 3000))

    assert f"{kept:,} measured" in text(conclusion(shown, 80))
    assert "enough" not in text(conclusion(shown, 80))
    assert replace(shown, task=ConceptTask(8, "1.0", 3000)).needed.measured
    assert [each.measured for each in other.higher] == [False] * 3
    assert "measured" not in text(conclusion(other, 80))
    assert "enough: by a formula, which is not the least" in " ".join(text(conclusion(other, 80)).split())


@pytest.mark.parametrize(("d", "epsilon"), [(7, "1"), (128, "1"), (8, "50"), (8, "0.000001"), (8, "0")])
def test_what_a_server_would_refuse_is_refused_here(d: int, epsilon: str) -> None:
    check_task(TASK)
    with pytest.raises(ProtocolError) as refused:
        check_task(ConceptTask(d, epsilon, 3000))
    assert refused.value.where in {"parameters.d", "parameters.epsilon"}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("concepts", [1, 13, 40, 101])
def test_nothing_is_wider_than_the_terminal(width: int, concepts: int) -> None:
    seen = results([True] * concepts, [True, False] * (concepts // 2) + [False] * (concepts % 2))
    shown = conclude(TASK, seen)
    assert shown is not None
    wide = truth_of(ConceptTask(64, "1", 3000), 1)
    long = ConceptResult(1, 1, LEARNERS[0], wide, wide, 999_999, 6, "")
    failed = replace(long, hypothesis={}, text="round 1: needs 1 user who can still pay ε = 1, and 0 are left")

    lines = [
        *introduction(TASK, concepts, width),
        *error_grid(seen, width),
        *learner_lines(seen[0], width),
        *learner_lines(long, width),
        *learner_lines(failed, width),
        *mean_bars(shown),
        *quarter_note(shown, width),
        *conclusion(shown, width),
    ]

    assert max(len(line) for line in lines) <= width
    numbers = [
        int(word) for line in error_grid(seen, width) if "concept" in line.plain for word in line.plain.split()[1:]
    ]
    assert numbers == list(range(1, concepts + 1)), "every concept has its column"


def test_the_quarter_stands_in_the_middle_of_the_bars() -> None:
    scale, right, wrong = (line.plain for line in mean_bars(concluded([True] * 20, [True, False] * 10)))

    assert scale.index("¼") == right.index("│")
    assert wrong[: scale.index("¼")].rstrip().endswith("█"), "a mean of ¼ reaches its line"
    assert wrong.rindex("█") == scale.index("¼") - 1
