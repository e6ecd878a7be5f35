"""A part of a round is prepared when it is looked at, and not before; the work of all parts is known before any."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.channels import CHANNELS, DiscreteLaplace, TwoSidedGeometric
from askance_protocol.channels.additive import window_extremes
from askance_protocol.channels.channel import BaseChannelSpec
from askance_protocol.channels.ratio import certified_micro_epsilon
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import (
    MAX_WORK,
    GeometricSpec,
    LaplaceSpec,
    Part,
    PreparedRound,
    RoundSpec,
    StudySpec,
    check_work,
    open_round,
    prepare_round,
    work_of,
)
from askance_protocol.rounds import prepared as module
from tests.protocol.studies import PARTS, part, round_of, study
from tests.protocol.test_channel_contract import answered, spec_of
from tests.protocol.test_rounds import population

UNSOUND = part(charge=MICRO - 1)


def laplace(denominator: int = 295, epsilon: int = MICRO, kind: Any = LaplaceSpec) -> Part:
    return part(RealQuery(numerator=FieldValue(field="i"), denominator=denominator), kind(micro_epsilon=epsilon))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """The parts that were prepared, in their order."""
    done, prepare = list[Part](), module._prepare_part

    def counting(one: Part, schema: Any) -> Any:
        done.append(one)
        return prepare(one, schema)

    monkeypatch.setattr(module, "_prepare_part", counting)
    return done


Open = Callable[[StudySpec, RoundSpec], PreparedRound]


def prepared_for(user: int, opened: Open, counted: list[Part], *parts: Part) -> int:
    """Number of parts that are prepared until one user has answered, after all that is asked of a round on the way."""
    counted.clear()
    round_ = opened(study(), round_of(*parts))
    _ = round_.outcomes, round_.charge, round_.charge_of(user), round_.asks(user), round_.asked(range(100))
    round_.respond(user, population(1).example(0), SimulatedRandom(1))
    round_.respond(user, population(1).example(0), SimulatedRandom(2))
    return len(counted)


def test_who_is_asked_one_question_prepares_one(counted: list[Part]) -> None:
    parts = [laplace(epsilon=MICRO - number) for number in range(50)]

    assert prepared_for(7, open_round, counted, *parts) == 1
    # The control: version 0.1 prepared what others are asked.
    assert prepared_for(7, prepare_round, counted, *parts) == 50


def test_who_publishes_a_round_prepares_all_of_it_once(counted: list[Part]) -> None:
    round_ = prepare_round(study(), round_of(*PARTS.values()))
    assert counted == list(PARTS.values())

    assert len(round_.parts) == len(list(round_.parts)) == len(round_.parts[:]) == len(PARTS)
    assert round_.parts[-1] is round_.parts[len(PARTS) - 1]
    assert len(counted) == len(PARTS)
    with pytest.raises(IndexError):
        _ = round_.parts[len(PARTS)]


def test_what_is_read_off_the_published_form_is_what_the_prepared_part_has() -> None:
    round_ = prepare_round(study(), round_of(*PARTS.values()))

    assert list(round_.limits) == [one.channel.outcomes for one in round_.parts]
    assert list(round_.rows) == [one.rows for one in round_.parts]
    assert round_.charge == max(one.part.charge for one in round_.parts)


def test_a_channel_that_does_not_say_how_many_outcomes_it_has_is_built_to_know() -> None:
    for one in PARTS.values():
        said = one.channel.outcomes(one.query, study().example)
        assert BaseChannelSpec.outcomes(one.channel, one.query, study().example) == said


@pytest.mark.parametrize("query", [one.query for one in PARTS.values()], ids=list(PARTS))
@pytest.mark.parametrize("one", PARTS.values(), ids=list(PARTS))
def test_a_channel_is_not_asked_for_outcomes_of_what_it_does_not_answer(one: Part, query: Any) -> None:
    """Where it says a number for a query that it refuses, the part that has both is refused when it is prepared."""
    try:
        said = one.channel.outcomes(query, study().example)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            one.channel.build(query, study().example)
    else:
        try:
            assert one.channel.build(query, study().example).outcomes == said
        except ProtocolError:
            assert one.channel.kind == "table"


def said_to(round_: PreparedRound, user: int) -> str:
    """Why a user refuses; empty if she does not."""
    try:
        round_.part_of(user)
    except ProtocolError as error:
        return str(error)
    return ""


def test_whether_a_part_is_refused_depends_on_who_is_dealt_it_and_on_nothing_else() -> None:
    round_ = open_round(study(), round_of(part(), UNSOUND, part(share=2)))
    said = {user: said_to(round_, user) for user in range(200)}

    assert said == {user: said_to(round_, user) for user in range(200)}
    assert [user for user in said if said[user]] == [user for user in said if round_.question(user).part == 1]
    assert {why.partition(" is charged")[0] for why in said.values()} == {"", "parts[1].charge: 999999 micro-ε"}
    with pytest.raises(ProtocolError, match=r"^parts\[1\]\.charge"):
        prepare_round(study(), round_of(part(), UNSOUND, part()))


def test_nobody_reports_to_a_part_that_is_unsound() -> None:
    round_ = open_round(study(), round_of(part(), UNSOUND))
    [user, *_] = [user for user in range(100) if round_.question(user).part == 1]

    with pytest.raises(ProtocolError, match="is charged"):
        round_.respond(user, population(1).example(0), SimulatedRandom(1))
    with pytest.raises(ProtocolError, match="is charged"):
        round_.respond_all(range(100), population(100), SimulatedRandom(1))


# --------------------------------------------------------------------------------------------------------------- work


def test_the_work_of_a_round_is_bounded_and_known_before_any_is_done(counted: list[Part]) -> None:
    most = MAX_WORK // work_of(laplace())
    check_work(round_of(*[laplace()] * most))
    with pytest.raises(
        ProtocolError, match=r"^parts: takes \d+ steps to prepare, over the limit of 8388608 \(ask fewer"
    ):
        prepare_round(study(), round_of(*[laplace()] * (most + 1)))

    assert 100 < most < 4096
    assert counted == []


def test_what_strategies_ask_is_far_below_the_limit() -> None:
    """Binary response, whatever it is asked; a few thousand parts of noise on twentieths."""
    for one in (
        *[each for each in PARTS.values() if each.channel.kind == "binary"],
        laplace(10),
        laplace(10, kind=GeometricSpec),
    ):
        assert 4096 * work_of(one) <= MAX_WORK


@pytest.mark.parametrize("kind", CHANNELS)
def test_every_channel_says_what_it_takes_without_being_built(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(CHANNELS[kind])
    parts = [Part(query=query, channel=spec, charge=MICRO) for _, query, _ in answered(spec)]
    for each in CHANNELS.values():
        monkeypatch.setattr(each.spec, "build", None)

    assert parts
    for one in parts:
        assert 0 < work_of(one) < 1000
        for query in (other.query for other in PARTS.values()):
            assert one.channel.work(query) > 0


# ------------------------------------------------------------------------------------------------ certificates of noise


class Read(Sequence[int]):
    """A list that counts how often it is looked into."""

    def __init__(self, values: list[int]) -> None:
        self.values, self.looks = values, 0

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, at: Any) -> Any:
        self.looks += len(self.values[at]) if isinstance(at, slice) else 1
        return self.values[at]

    def __iter__(self) -> Iterator[int]:
        self.looks += len(self.values)
        return iter(self.values)


def each_window(values: Sequence[int], width: int) -> Iterator[tuple[int, int]]:
    """The definition: look at all of each window."""
    for begin in range(len(values) - width + 1):
        window = values[begin : begin + width]
        yield min(window), max(window)


def looks(extremes: Callable[[Sequence[int], int], Iterator[tuple[int, int]]], count: int, width: int) -> int:
    values = Read([abs(place - count // 2) for place in range(count)])
    assert list(extremes(values, width)) == list(each_window(values.values, width))
    return values.looks


def test_windows_are_looked_through_in_steps_that_do_not_depend_on_their_width() -> None:
    draw = random.Random(5)
    for _ in range(300):
        values = [draw.randrange(6) for _ in range(draw.randrange(1, 20))]
        width = draw.randrange(1, len(values) + 1)
        assert list(window_extremes(values, width)) == list(each_window(values, width))

    assert max(looks(window_extremes, 2000, width) for width in (1, 10, 500, 1999, 2000)) <= 8 * 2000
    # The control.
    assert looks(each_window, 2000, 500) > 8 * 2000


@pytest.mark.parametrize("kind", [DiscreteLaplace, TwoSidedGeometric])
@pytest.mark.parametrize(
    ("epsilon", "steps"), [(1, 1), (1, 60), (MICRO, 7), (MICRO, 60), (3 * MICRO, 60), (8 * MICRO, 5)]
)
def test_a_certificate_by_windows_is_that_of_the_whole_table(kind: Any, epsilon: int, steps: int) -> None:
    channel = kind(micro_epsilon=epsilon, range=steps)
    table = np.array(channel.table(), object)
    columns = [(min(column), max(column)) for column in table.T.tolist()]

    assert list(channel._extremes()) == columns
    assert channel.certified_micro_epsilon == certified_micro_epsilon(columns) <= epsilon
