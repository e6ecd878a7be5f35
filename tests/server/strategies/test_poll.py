"""A poll: what leaves for who will not say is a fair coin, exactly; and what is told of a room is what it said."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from askance_client.simulation.population import over_schema
from askance_lab.run_study import run_study
from askance_protocol.budget import MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.rounds import PreparedPart, PreparedRound, RoundPublished, prepare_round
from askance_protocol.schema import BitsField, CategoryField, IntegerField, Schema
from askance_protocol.tally import Tally
from askance_server.core.estimates import study_estimates
from askance_server.core.planning import terms_of
from askance_server.core.strategy import Estimate
from askance_server.core.study import study_of
from askance_server.strategies.poll import POLL
from askance_server.strategies.registry import registry
from askance_server.strategies.shared.poll_questions import MOST_OF_SCALE
from tests.server.learners import learn

FAIR = 1 << 63
"""Half of all words of 64 bits."""


THREE = Schema(fields=(CategoryField(name="a", values=("x", "y", "z")),))
"""Whoever is asked says one of them."""


def choices(*values: str) -> Schema:
    return Schema(fields=(CategoryField(name="answer", values=values, gap=True),))


def scale(low: int, high: int) -> Schema:
    return Schema(fields=(IntegerField(name="answer", low=low, high=high, gap=True),))


def asked(example: Schema, users: int = 30, **parameters: Any) -> PreparedRound:
    """The round that a room is asked."""
    spec = study_of(
        registry(),
        strategy="poll",
        parameters={"users": users, "ask": "Have you?", **parameters},
        title="A room",
        nonce="00" * 16,
        simulated=True,
        example=example,
    )
    view = run_study(spec, POLL, over_schema(spec.example, seed=1), users=users, seed=1)
    [round_] = [entry.notice.round for entry in view.entries if isinstance(entry.notice, RoundPublished)]
    return prepare_round(spec, round_)


def weights(part: PreparedPart, schema: Schema, answer: object) -> list[int]:
    """Of each bit that may leave, how many of all words give it, where this is the answer."""
    input_ = part.encode(part.query.value(Example.of(schema, {"answer": answer})), 0)
    return list(part.channel.weights(input_))


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "1.234567", "3", "20"])
@pytest.mark.parametrize("schema", [choices("yes", "no"), scale(1, 10), scale(0, 10), scale(-3, 4)])
def test_who_will_not_say_leaves_a_fair_coin_exactly(schema: Schema, epsilon: str) -> None:
    """By the channel's own table, not by counting. The control: no answer but the middle of a scale does."""
    part = asked(schema, epsilon=epsilon).parts[0]
    field = schema.fields[0]
    said = field.values if isinstance(field, CategoryField) else range(field.low, field.high + 1)  # type: ignore[union-attr]

    assert isinstance(part.query.query, RealQuery)
    assert weights(part, schema, None) == [FAIR, FAIR]
    middle = [answer for answer in said if weights(part, schema, answer) == [FAIR, FAIR]]
    assert middle == ([5] if said == range(11) else [])


def test_yes_and_no_leave_by_the_whole_of_epsilon() -> None:
    """You say yes; the bit that leaves says yes with 73 %."""
    schema = choices("yes", "no")
    part = asked(schema).parts[0]
    yes, no = weights(part, schema, "yes"), weights(part, schema, "no")

    assert yes == no[::-1]
    assert yes[1] / (yes[0] + yes[1]) == pytest.approx(0.7310585, abs=1e-6)
    assert part.channel.certified_micro_epsilon == MICRO


def told(schema: Schema, counts: list[Any]) -> list[Estimate]:
    """What is told of these counts of the parts, of which some may be empty."""
    round_ = asked(schema)
    shapes = zip(round_.parts, counts, strict=True)
    tallies = [Tally(np.array([row], np.int64)) for _, row in shapes]
    return study_estimates(round_.study, POLL, [(round_, tallies)], vacuous=True)


def test_the_shares_of_two_choices_are_the_mean_from_both_sides() -> None:
    yes, no = told(choices("yes", "no"), [[40, 60]])

    assert (yes.name, no.name) == ("share(answer = 'yes')", "share(answer = 'no')")
    # A bit agrees with a yes with probability p = 0.731, and with a no with 1 − p.
    assert yes.estimate == pytest.approx((0.6 - 0.2689414) / 0.4621172, abs=1e-5)
    assert (no.estimate, no.low, no.high) == pytest.approx((1 - yes.estimate, 1 - yes.high, 1 - yes.low))
    assert 0 <= yes.low < yes.estimate < yes.high <= 1


def test_a_part_that_nobody_has_answered_is_between_its_ends_and_in_its_place() -> None:
    """As in a room in which the first answers are told: the order of what is told stays."""
    mean, *shares = told(scale(1, 4), [[0, 0], [3, 9, 3, 1, 4]])

    assert (mean.name, mean.low, mean.high, mean.reports) == ("mean(answer)", 1.0, 4.0, 0)
    assert [each.name for each in shares] == [f"histogram(answer): {cell}" for cell in (1, 2, 3, 4, "missing")]
    assert {each.reports for each in shares} == {20}
    mean, *shares = told(scale(1, 4), [[10, 10], [0, 0, 0, 0, 0]])
    assert (mean.estimate, mean.reports) == (2.5, 20)
    assert {(each.low, each.high, each.reports) for each in shares} == {(0.0, 1.0, 0)}


@pytest.mark.parametrize("schema", [choices("yes", "no"), choices("a", "b", "c"), scale(1, 10), scale(0, 500)])
def test_a_room_that_answers_is_within_what_is_told(schema: Schema) -> None:
    """20,000 made-up people; each interval of a question holds with 95 %, and none of these is a rare one."""
    spec = asked(schema).study.model_copy(update={"parameters": {"users": 20_000}})
    people = over_schema(schema, seed=3)
    view = run_study(spec, POLL, people, users=20_000, seed=1)
    columns = people.columns(range(20_000))
    learned, _ = learn(POLL.on(schema), {}, columns)
    truth = {row["name"]: row["estimate"] for row in learned.value["answers"]}  # type: ignore[attr-defined]

    assert view.end.hypothesis is not None
    rows = view.end.hypothesis.value["answers"]
    assert [row["name"] for row in rows] == list(truth)
    far = [row for row in rows if not row["low"] - 0.02 <= truth[row["name"]] <= row["high"] + 0.02]
    assert not far or schema.fields[0] == scale(0, 500).fields[0]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (choices("yes", "no"), "share(answer = 'yes') = "),
        (scale(0, 500), "mean(answer) = "),
        (
            Schema(fields=(CategoryField(name="a", values=("x", "y", "z")),)),
            "3 numbers, of which the first is histogram(a): ",
        ),
        (scale(1, 2), "4 numbers, of which the first is mean(answer) = "),
    ],
)
def test_what_was_learned_is_told_by_its_first_number(schema: Schema, text: str) -> None:
    """From reports with its interval, and from answers that are not made of reports without one."""
    people, spec = over_schema(schema, seed=3), asked(schema).study
    learned, _ = learn(POLL.on(schema), {}, people.columns(range(1000)))
    view = run_study(spec, POLL, people, users=30, seed=1)

    assert view.end.hypothesis is not None
    assert learned.text.startswith(text)
    assert view.end.hypothesis.text.startswith(text)
    assert " to " not in learned.text
    assert re.search(r" \(.+ to .+\)", view.end.hypothesis.text)


def test_what_is_no_poll_is_refused() -> None:
    for wrong in (
        Schema(fields=(BitsField(name="x", width=4),)),
        Schema(fields=(*choices("a", "b").fields, *Schema(fields=(IntegerField(name="i", low=0, high=1),)).fields)),
        scale(0, MOST_OF_SCALE),
        scale(3, 3),
    ):
        with pytest.raises(ProtocolError, match="example"):
            asked(wrong)
    with pytest.raises(ProtocolError, match="ask"):
        asked(choices("a", "b"), ask=3)
    with pytest.raises(ProtocolError, match="more"):
        asked(choices("a", "b"), more="x")


def test_more_choices_have_a_cell_for_who_will_not_say() -> None:
    part = asked(choices("a", "b", "c")).parts[0]

    assert isinstance(part.query.query, CellQuery)
    assert (part.query.query.cells, part.rows) == (4, 1)


def test_a_room_is_asked_before_anybody_is_there() -> None:
    """Whoever comes is asked, and the round closes at so many answers; with what is no number it is refused."""
    round_ = asked(choices("yes", "no"), users=7).spec

    assert round_.target == 7
    assert round_.cohort.users == 1 << 48
    assert (round_.cohort.first_slot, round_.cohort.slot_count) == (0, round_.cohort.slots)
    for wrong in (0, -1, True, "some"):
        with pytest.raises(ProtocolError, match="users"):
            terms_of({"users": wrong})
