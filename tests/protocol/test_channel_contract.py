"""What every channel promises, held against each kind that the package finds: a new channel is tested unasked.

A channel is published by its ε and the options of its kind. One that needs more has a line in `SPECS`; nothing else
here names a channel.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

from askance_protocol import canonical
from askance_protocol.arrays import Floats, Whole
from askance_protocol.budget import MICRO
from askance_protocol.channels import (
    CHANNELS,
    BaseChannelSpec,
    Channel,
    ChannelKind,
    HashSpec,
    KaryResponse,
    TabulatedChannel,
)
from askance_protocol.channels.channel import Inputs, Outcomes
from askance_protocol.channels.ratio import WORD, within
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import Query
from askance_protocol.randomness import SimulatedRandom, Words
from askance_protocol.rounds import Part
from askance_protocol.values import read
from tests.protocol.steps import ways
from tests.protocol.studies import HEIGHT, MASKED_BIT, MASKED_CELL, SCHEMA, TABLE, WHICH, WHICH_SIGNED, prepared

SPECS: Final[Mapping[str, BaseChannelSpec]] = {"table": TABLE, "hash": HashSpec(micro_epsilon=MICRO, bits=2)}
QUERIES: Final[Mapping[str, Query]] = {
    "a boolean": MASKED_BIT,
    "a real": HEIGHT,
    "a cell": WHICH,
    "a signed cell": WHICH_SIGNED,
    "a cell or none": MASKED_CELL,
}
EPSILONS: Final = (MICRO // 20, MICRO, 5 * MICRO)
KINDS: Final = [pytest.param(kind, id=name) for name, kind in CHANNELS.items()]


def spec_of(kind: ChannelKind) -> BaseChannelSpec:
    """How this kind is published at ε = 1 with the defaults of its options, or as `SPECS` says."""
    options = {name: default for name, (default, _) in kind.options.items() if name in kind.spec.model_fields}
    return SPECS[kind.name] if kind.name in SPECS else kind.spec.model_validate({"micro_epsilon": MICRO, **options})


def answered(spec: BaseChannelSpec) -> Iterator[tuple[str, Query, Channel]]:
    """The queries that it answers, each with its channel."""
    for name, query in QUERIES.items():
        try:
            yield name, query, spec.build(query, SCHEMA)
        except ProtocolError:
            # Each kind answers some: `test_the_published_form_comes_back` takes the first.
            continue


def every_channel() -> Iterator[Any]:
    """As the command line builds it, and as a round builds it for each query."""
    for kind in CHANNELS.values():
        options = {name: default for name, (default, _) in kind.options.items()}
        if kind.build is not None:
            for epsilon in EPSILONS:
                yield pytest.param(kind.build(epsilon, **options), id=f"{kind.name} at {epsilon}")
        for name, _, channel in answered(spec_of(kind)):
            yield pytest.param(channel, id=f"{kind.name} for {name}")


each_channel = pytest.mark.parametrize("channel", list(every_channel()))
each_kind = pytest.mark.parametrize("kind", KINDS)


# ------------------------------------------------------------------------------------------------- the contract


def rows_are_complete(channel: Channel) -> None:
    """Every row sums to 2⁶⁴, and no outcome rules an input out."""
    table = channel.table()

    assert (channel.inputs, {channel.outcomes}) == (len(table), {len(row) for row in table})
    assert {WORD} == {sum(row) for row in table}
    assert min(map(min, table)) > 0


def epsilon_is_certified(channel: Channel) -> None:
    """The integer inequality holds between all inputs at the certified ε, and at no smaller one."""
    pairs = [(max(column), min(column)) for column in zip(*channel.table(), strict=True)]
    certified = channel.certified_micro_epsilon

    assert all(within(most, least, certified) for most, least in pairs)
    assert certified > 0
    assert not all(within(most, least, certified - 1) for most, least in pairs)


def sampling_is_choosing(channel: Channel) -> None:
    """Many at once, one by one, and at the borders of every segment: the outcome is that of the definition."""
    given = np.arange(400) % channel.inputs
    source = SimulatedRandom(7)
    chosen = [channel.choose(int(one), source.word()) for one in given]
    assert chosen == channel.sample(given, SimulatedRandom(7)).outcomes.tolist()

    for one in range(channel.inputs):
        ends = [end for end, _ in channel.segments(one)]
        words = sorted({0, *(word for end in ends for word in (end - 1, end) if word < WORD)})
        decided = channel.decide(np.full(len(words), one), np.array(words, np.uint64))
        assert decided.tolist() == [channel.choose(one, word) for word in words]


def choosing_takes_the_same_steps(channel: Channel) -> None:
    """For every input and every outcome, so that time tells neither. `test_steps` has the clock, and more controls."""
    inputs = {0, channel.inputs // 2, channel.inputs - 1}
    words = (0, WORD // 3, WORD // 2, WORD - 1)

    assert ways([partial(channel.choose, given, word) for given in inputs for word in words]) == 1


def scores_are_unbiased(channel: Channel) -> None:
    """Σ_w Pr[w|u] · f(w) = target(u), over the rationals; what no score undoes is refused."""
    table = channel.table()
    linear = np.linspace(-1, 1, channel.inputs)
    indicators = [np.eye(channel.inputs)[one] for one in {0, channel.inputs // 2, channel.inputs - 1}]
    for target in (linear, *indicators):
        try:
            score = channel.scores(target)
        except ProtocolError:
            # Two outcomes, for instance, do not tell three inputs apart; a mean every channel has to give.
            assert target is not linear
            continue
        means = [
            sum(Fraction(w, WORD) * Fraction(f) for w, f in zip(row, score.tolist(), strict=True)) for row in table
        ]
        worst = max(abs(mean - Fraction(wanted)) for mean, wanted in zip(means, target.tolist(), strict=True))
        assert worst <= Fraction(1, 10**9) * max(1, Fraction(float(np.abs(score).max())))


def proportions_are_those_of_the_score(channel: Channel) -> None:
    """Where a sample size is exact: the score has two values, and the larger is as likely as it is said to be."""
    for target in (np.linspace(-1, 1, channel.inputs), np.eye(channel.inputs)[0]):
        ends = channel.proportions(target)
        if ends is None:
            continue
        score = channel.scores(target)
        larger = score == score.max()
        assert len(set(score.tolist())) == 2
        for end, given in zip(ends, (target.argmin(), target.argmax()), strict=True):
            exact = Fraction(sum(w for w, yes in zip(channel.weights(int(given)), larger, strict=True) if yes), WORD)
            assert float(exact) == pytest.approx(end, rel=1e-12)


CONTRACT: Final[list[Callable[[Channel], None]]] = [
    rows_are_complete,
    epsilon_is_certified,
    sampling_is_choosing,
    choosing_takes_the_same_steps,
    scores_are_unbiased,
    proportions_are_those_of_the_score,
]


@each_channel
@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_every_channel_keeps(promise: Callable[[Channel], None], channel: Channel) -> None:
    promise(channel)


@each_channel
def test_equal_channels_are_equal_and_travel(channel: Channel) -> None:
    again = pickle.loads(pickle.dumps(channel))

    assert (again, hash(again)) == (channel, hash(channel))


# -------------------------------------------------------------------------------------------- the published form


@each_kind
def test_the_published_form_comes_back(kind: ChannelKind) -> None:
    """Alone and inside a part, where its kind says which form it is."""
    spec = spec_of(kind)
    [(_, query, channel), *_] = answered(spec)
    part = Part(query=query, channel=spec, charge=channel.certified_micro_epsilon)

    assert kind.name == channel.kind == spec.to_json()["kind"]
    assert read(kind.spec, spec.to_bytes()) == spec
    assert read(Part, part.to_bytes()) == part
    assert type(read(Part, part.to_bytes()).channel) is kind.spec


@each_kind
def test_the_published_form_is_closed(kind: ChannelKind) -> None:
    spec = spec_of(kind)
    [(_, query, channel), *_] = answered(spec)
    json = Part(query=query, channel=spec, charge=channel.certified_micro_epsilon).to_json()
    json["channel"] |= {"seed": 1}

    with pytest.raises(ValueError, match=r"channel\.\w+\.seed"):
        Part.model_validate_json(canonical.dumps(json))


@each_kind
def test_a_channel_is_built_once_for_equal_forms(kind: ChannelKind) -> None:
    for _, query, channel in answered(spec_of(kind)):
        assert spec_of(kind).model_copy(deep=True).build(query, SCHEMA) is channel


@each_kind
def test_a_round_with_it_never_charges_less_than_it_costs(kind: ChannelKind) -> None:
    spec = spec_of(kind)
    for _, query, channel in answered(spec):
        cost = channel.certified_micro_epsilon
        [one] = prepared(Part(query=query, channel=spec, charge=cost)).parts
        assert one.channel == channel
        with pytest.raises(ProtocolError, match="certified"):
            prepared(Part(query=query, channel=spec, charge=cost - 1))


def test_a_table_finds_the_two_values_of_its_score_although_it_solves_for_them_in_floats() -> None:
    """Of the same table a channel that knows its score by a formula says the same."""
    known = KaryResponse(MICRO, 5)
    table = TabulatedChannel(known.table())
    assert table.proportions(np.eye(5)[0]) == pytest.approx(known.proportions(np.eye(5)[0]), rel=1e-12)
    assert table.proportions(np.linspace(-1, 1, 5)) is None


def test_a_table_whose_likely_outcomes_are_the_same_for_every_input_has_a_score() -> None:
    """Small ε, and an outcome that says nothing: those above the middle tell nothing apart."""
    says, more = WORD // 4 * 3, WORD // 100
    true = says // 2 + more
    table = TabulatedChannel(((true, says - true, WORD - says), (says - true, true, WORD - says)))
    for target in (np.array([0.0, 1.0]), np.array([1.0, 0.0])):
        assert np.isfinite(table.scores(target)).all()
    scores_are_unbiased(table)
    proportions_are_those_of_the_score(table)


def test_noise_is_of_the_range_that_the_documents_show_unless_another_is_said() -> None:
    assert [CHANNELS[name].options["range"][0] for name in ("geometric", "laplace")] == [10, 10]


@each_kind
def test_the_command_line_gets_its_words(kind: ChannelKind) -> None:
    assert kind.summary
    assert all(help_ for _, help_ in kind.options.values())
    assert kind.spec.answers


# ------------------------------------------------------------------------------------------------------ controls


class Leaky(KaryResponse):
    """A channel that breaks one promise at a time."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)


class Incomplete(Leaky):
    __slots__ = ()

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        return iter([*super().segments(given)][:-1])


class Understated(Leaky):
    __slots__ = ()

    @property
    def certified_micro_epsilon(self) -> int:
        return MICRO - 1


class Shortcut(Leaky):
    __slots__ = ()

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        return super().decide(given, np.maximum(words, np.uint64(1)) - np.uint64(1))


class Walked(Leaky):
    __slots__ = ()

    def choose(self, given: Whole, word: int) -> int:
        return next(outcome for end, outcome in self.segments(int(given)) if word < end)


class Biased(Leaky):
    __slots__ = ()

    def scores(self, target: Floats) -> Floats:
        return super().scores(target) + 1e-6


class Optimistic(Leaky):
    __slots__ = ()

    def proportions(self, target: Floats) -> tuple[float, float] | None:
        return 0.25, 0.75


@dataclass(frozen=True)
class Planted:
    broken: type[Leaky]
    promise: Callable[[Channel], None]


@pytest.mark.parametrize(
    "planted",
    [
        Planted(Incomplete, rows_are_complete),
        Planted(Understated, epsilon_is_certified),
        Planted(Shortcut, sampling_is_choosing),
        Planted(Walked, choosing_takes_the_same_steps),
        Planted(Biased, scores_are_unbiased),
        Planted(Optimistic, proportions_are_those_of_the_score),
    ],
    ids=lambda planted: planted.promise.__name__,
)
def test_control_a_channel_that_breaks_a_promise_is_found(planted: Planted) -> None:
    planted.promise(KaryResponse(MICRO, 4))
    with pytest.raises(AssertionError):
        planted.promise(planted.broken(MICRO, 4))
