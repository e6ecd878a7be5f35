"""Every randomizer is what it claims to be: checked by enumeration, by its cut-points, and by its samples."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_lab.experiments.audit import AuditVerdict, audit_channel
from askance_protocol.budget import MICRO
from askance_protocol.channels import (
    BinaryResponse,
    BinarySpec,
    Channel,
    DiscreteLaplace,
    KaryResponse,
    TabulatedChannel,
    TwoSidedGeometric,
)
from askance_protocol.channels.additive import WEIGHT_WORK
from askance_protocol.channels.binary import MOST_MICRO_EPSILON
from askance_protocol.channels.channel import BaseChannelSpec, extremes
from askance_protocol.channels.ratio import (
    MIN_WEIGHT,
    SCALE_BITS,
    WORD,
    certified_micro_epsilon,
    exp_lower,
    exp_scaled,
    within,
)
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.randomness import LEAD_BITS, Leads, OsRandom, Positions, SimulatedRandom, Words
from tests.protocol.studies import MASKED_BIT, PARTS, SCHEMA

EPSILONS = [100_000, 500_000, MICRO, 2 * MICRO, 4 * MICRO, 8 * MICRO]

Builder = Callable[[int], Channel]
BUILDERS: dict[str, Builder] = {
    "binary": BinaryResponse,
    "binary with neither": lambda asked: BinaryResponse(asked, 2),
    "binary on values": lambda asked: BinaryResponse(asked, 21),
    "kary 2": lambda asked: KaryResponse(asked, 2),
    "kary 3": lambda asked: KaryResponse(asked, 3),
    "kary 40": lambda asked: KaryResponse(asked, 40),
    "geometric 1": lambda asked: TwoSidedGeometric(asked, 1),
    "geometric 2": lambda asked: TwoSidedGeometric(asked, 2),
    "geometric 25": lambda asked: TwoSidedGeometric(asked, 25),
    "laplace 1": lambda asked: DiscreteLaplace(asked, 1),
    "laplace 2": lambda asked: DiscreteLaplace(asked, 2),
    "laplace 20": lambda asked: DiscreteLaplace(asked, 20),
    "table": lambda asked: TabulatedChannel(KaryResponse(asked, 5).table()),
}

each_channel = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS.keys())
each_epsilon = pytest.mark.parametrize("asked", EPSILONS)


class InjectedWords:
    """A source that gives exactly these words, by lead and tail as every source does."""

    simulated = True

    def __init__(self, words: list[int]) -> None:
        self._words = np.array(words, np.uint64)
        self._next = 0

    def word(self) -> int:
        self._next += 1
        return int(self._words[self._next - 1])

    def draw(self, count: int) -> InjectedDraw:
        self._next += count
        return InjectedDraw(self._words[self._next - count : self._next])


class InjectedDraw:
    def __init__(self, words: Words) -> None:
        self._words = words
        self.leads: Leads = (words >> np.uint64(64 - LEAD_BITS)).astype(np.uint16)

    def words(self, positions: Positions) -> Words:
        return self._words[positions]


# ------------------------------------------------------------------------------------------------ enumeration


@each_epsilon
@each_channel
def test_the_integer_inequality_holds_for_every_input_pair_and_outcome(build: Builder, asked: int) -> None:
    channel = build(asked)
    limit = exp_lower(asked)
    table = channel.table()
    for row in table:
        for other in table:
            for weight, opposite in zip(row, other, strict=True):
                assert weight << SCALE_BITS <= limit * opposite


@each_epsilon
@each_channel
def test_rows_sum_to_two_to_the_64_and_no_weight_is_small(build: Builder, asked: int) -> None:
    for row in build(asked).table():
        assert sum(row) == WORD
        assert min(row) >= MIN_WEIGHT


@each_epsilon
@each_channel
def test_the_certified_epsilon_is_that_of_the_table_and_no_more_than_asked(build: Builder, asked: int) -> None:
    channel = build(asked)
    certified = channel.certified_micro_epsilon

    assert certified == certified_micro_epsilon(extremes(zip(*channel.table(), strict=True)))
    assert certified <= asked
    assert certified >= asked - 1, "nothing that was asked is given away"
    largest = max(Fraction(max(column), min(column)) for column in zip(*channel.table(), strict=True))
    assert exact_exp(certified) >= largest > exact_exp(certified - 1)


@each_epsilon
@each_channel
def test_probabilities_are_the_weights_over_two_to_the_64(build: Builder, asked: int) -> None:
    channel = build(asked)
    for given in (0, channel.inputs - 1):
        assert [channel.probability(outcome, given) * WORD for outcome in range(channel.outcomes)] == list(
            channel.weights(given)
        )


def test_exp_lower_is_below_e_to_the_epsilon_by_less_than_a_part_in_ten_to_the_30() -> None:
    for asked in [1, 2, 999_999, *EPSILONS, 16 * MICRO, 24 * MICRO]:
        ratio = Fraction(exp_lower(asked), 1 << SCALE_BITS) / exact_exp(asked)
        assert 1 - Fraction(1, 10**30) < ratio <= 1


def test_exp_lower_never_falls() -> None:
    values = [exp_lower(asked) for asked in range(2000)]
    assert values == sorted(set(values))


def exact_exp(micro_epsilon: int) -> Fraction:
    """e^ε to 80 digits, by decimal arithmetic that shares no code with the channels."""
    with localcontext() as context:
        context.prec = 80
        return Fraction((Decimal(micro_epsilon) / MICRO).exp())


# ---------------------------------------------------------------------------------------------------- sampler


@each_epsilon
@each_channel
def test_every_way_to_sample_agrees_at_every_cut_point(build: Builder, asked: int) -> None:
    channel = build(asked)
    for given in range(channel.inputs):
        ends = [end for end, _ in channel.segments(given)]
        words = sorted({min(max(end + step, 0), WORD - 1) for end in [0, *ends] for step in (-1, 0, 1)})
        chosen = [channel.choose(given, word) for word in words]
        inputs = np.full(len(words), given)

        assert chosen == [next(outcome for end, outcome in channel.segments(given) if word < end) for word in words]
        assert chosen == [Channel.choose(channel, given, word) for word in words]
        assert chosen == channel.decide(inputs, np.array(words, np.uint64)).tolist()
        assert chosen == channel.sample(inputs, InjectedWords(words)).outcomes.tolist()


@each_epsilon
@each_channel
def test_segments_have_the_lengths_of_the_weights(build: Builder, asked: int) -> None:
    channel = build(asked)
    for given in range(channel.inputs):
        ends = [end for end, _ in channel.segments(given)]
        assert ends == sorted(ends)
        assert ends[-1] == WORD
        assert {outcome for _, outcome in channel.segments(given)} == set(range(channel.outcomes))


@each_channel
def test_scalar_and_bulk_sampling_read_the_same_stream_alike(build: Builder) -> None:
    channel = build(MICRO)
    inputs = np.arange(3000) % channel.inputs
    one_by_one = SimulatedRandom(11)
    expected = [channel.randomize(int(given), one_by_one) for given in inputs]

    assert channel.sample(inputs, SimulatedRandom(11)).outcomes.tolist() == expected
    in_pieces = SimulatedRandom(11)
    pieces = [channel.sample(inputs[begin : begin + 701], in_pieces).outcomes for begin in range(0, 3000, 701)]
    assert np.concatenate(pieces).tolist() == expected


@pytest.mark.parametrize("asked", [100_000, MICRO, 8 * MICRO])
@each_channel
def test_samples_follow_the_table(build: Builder, asked: int) -> None:
    """χ² of 300,000 outcomes against the exact probabilities, at 10⁻⁶ over all cases together."""
    channel = build(asked)
    for given in {0, channel.inputs // 2, channel.inputs - 1}:
        outcomes = channel.sample(np.full(300_000, given), SimulatedRandom(3, stream=given)).outcomes
        expected = np.array([float(Fraction(weight, WORD)) for weight in channel.weights(given)]) * 300_000
        observed = np.bincount(outcomes, minlength=channel.outcomes)
        # χ² is an approximation: outcomes that are expected less than ten times are counted together.
        rare = expected < 10
        if rare.any():
            expected = np.append(expected[~rare], expected[rare].sum())
            observed = np.append(observed[~rare], observed[rare].sum())
        kept = expected > 1e-3
        assert (
            stats.chisquare(observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()).pvalue > 1e-8
        )


def test_a_user_draws_one_whole_word_whatever_her_input() -> None:
    class Counting(InjectedWords):
        def draw(self, count: int) -> InjectedDraw:
            raise AssertionError("a user's own report is not drawn lazily")

    channel = KaryResponse(MICRO, 5)
    for given in range(5):
        source = Counting([0, WORD - 1, 1 << 63])
        for drawn in range(1, 4):
            channel.randomize(given, source)
            assert source._next == drawn


def test_what_a_seeded_source_produces_is_marked() -> None:
    channel = BinaryResponse(MICRO)
    assert channel.sample(np.zeros(3, np.uint8), SimulatedRandom(1)).simulated
    assert not channel.sample(np.zeros(3, np.uint8), OsRandom()).simulated


def test_a_value_moves_the_threshold_evenly_between_the_two_truths() -> None:
    channel = BinaryResponse(MICRO, 20)
    thresholds = [channel.threshold(step) for step in range(21)]
    steps = np.diff(np.array(thresholds, object))

    assert thresholds[0] == WORD - channel.keep
    assert thresholds[-1] == channel.keep
    assert thresholds[10] == WORD // 2, "the middle is a fair coin, exactly"
    assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize(
    ("value", "step"),
    [
        (-1.0, 0),
        (1.0, 20),
        (0.0, 10),
        (0.26, 13),
        (7.0, 20),
        (-1e308, 0),
        (float("inf"), 20),
        (float("-inf"), 0),
        (float("nan"), 10),
    ],
)
def test_every_float_has_an_input(value: float, step: int) -> None:
    """NaN is the middle: an answer that were refused would tell what it was."""
    assert BinaryResponse(MICRO, 20).step_of(value) == step


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "build",
    [BinaryResponse, lambda e: KaryResponse(e, 3), lambda e: TwoSidedGeometric(e, 3), lambda e: DiscreteLaplace(e, 3)],
)
@pytest.mark.parametrize(
    "asked",
    [0, -1, -MICRO, 1.0, float("nan"), float("inf"), 5e-324, True, "1", None, 24 * MICRO, 24 * MICRO + 1, 10**400],
)
def test_an_impossible_epsilon_is_refused_by_name(build: Builder, asked: object) -> None:
    with pytest.raises(ProtocolError, match=r"^micro_epsilon: "):
        build(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [1, 0, -2, 1025, 2.0, True, "3"])
def test_an_impossible_k_is_refused(k: object) -> None:
    with pytest.raises(ProtocolError, match=r"^k: "):
        KaryResponse(MICRO, k)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [TwoSidedGeometric, DiscreteLaplace])
@pytest.mark.parametrize("range_", [0, -1, 1024, 1.5, True])
def test_an_impossible_range_is_refused(kind: Callable[[int, object], Channel], range_: object) -> None:
    with pytest.raises(ProtocolError, match=r"^range: "):
        kind(MICRO, range_)


def test_a_table_too_large_to_check_is_refused() -> None:
    with pytest.raises(ProtocolError, match="cells"):
        DiscreteLaplace(MICRO, 1000)


HALF = WORD // 2


@pytest.mark.parametrize(
    ("rows", "place", "complaint"),
    [
        (((HALF, HALF), (HALF, HALF + 1)), r"weights\[1\]", "not to 2"),
        (((HALF, HALF), (HALF, HALF - 1)), r"weights\[1\]", "not to 2"),
        (((WORD, 0), (HALF, HALF)), r"weights\[0\]\[1\]", "zero"),
        (((HALF, HALF), (0, WORD)), r"weights\[1\]\[0\]", "zero"),
        (((HALF, HALF), (-1, WORD + 1)), r"weights\[1\]\[0\]", "non-negative"),
        (((HALF, HALF), (float(HALF), HALF)), r"weights\[1\]\[0\]", "non-negative integer"),
        (((HALF, HALF), (True, WORD - 1)), r"weights\[1\]\[0\]", "non-negative integer"),
        (((HALF, HALF), (HALF, HALF - 1, 1)), r"weights\[1\]", "has 3 weights"),
        (((HALF, HALF),), "weights", "two inputs"),
        (((WORD,), (WORD,)), "weights", "two outcomes"),
    ],
)
def test_a_table_that_is_no_channel_is_refused_at_its_place(rows: object, place: str, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{place}: .*{complaint}"):
        TabulatedChannel(rows)  # type: ignore[arg-type]


def test_a_zero_opposite_a_non_zero_weight_has_no_epsilon() -> None:
    with pytest.raises(ProtocolError, match="impossible under one input"):
        certified_micro_epsilon([(5, 5), (0, 1)])
    assert certified_micro_epsilon([(0, 0), (7, 7)]) == 0


def test_inputs_and_outcomes_outside_the_table_are_refused() -> None:
    channel = KaryResponse(MICRO, 3)
    for wrong in (-1, 3, True):
        with pytest.raises(ProtocolError, match=r"^input: "):
            channel.choose(wrong, 0)
        with pytest.raises(ProtocolError, match=r"^outcome: "):
            channel.probability(wrong, 0)
    for inputs in (np.array([0, 3]), np.array([-1]), np.array([0.0]), np.array([[0]])):
        with pytest.raises(ProtocolError, match=r"^inputs: "):
            channel.sample(inputs, SimulatedRandom(0))


@pytest.mark.parametrize(
    "build",
    [
        BinaryResponse,
        partial(KaryResponse, k=4),
        partial(TwoSidedGeometric, range=4),
        partial(DiscreteLaplace, range=4),
    ],
    ids=["binary", "kary", "geometric", "laplace"],
)
@pytest.mark.parametrize("meant", [1, 2, 24, 999])
def test_a_whole_epsilon_in_place_of_millionths_is_refused(build: Builder, meant: int) -> None:
    """`BinaryResponse(1)` would be ε = 0.000001: so little is given by name."""
    says = f"{meant} stands for ε = 0.{meant:06d} (write {meant}000000 for ε = {meant}, or micro_epsilon={meant} "
    with pytest.raises(ProtocolError, match=re.escape(says)):
        build(meant)


def test_a_small_epsilon_is_given_by_its_name_and_travels() -> None:
    """The control; and a published form, which has the name, builds it."""
    channel = BinaryResponse(micro_epsilon=1)
    assert (channel.certified_micro_epsilon, pickle.loads(pickle.dumps(channel))) == (1, channel)
    assert replace(channel, steps=2).micro_epsilon == 1
    assert BinarySpec(micro_epsilon=1).build(MASKED_BIT, SCHEMA) == channel
    assert BinaryResponse(1000).micro_epsilon == 1000


# ---------------------------------------------------------------------------------- controls: these must be caught


@each_epsilon
def test_control_one_word_more_for_the_truth_breaks_the_inequality(asked: int) -> None:
    """K + 1 in place of k: the smallest possible excess."""
    keep = BinaryResponse(asked).keep
    assert within(keep, WORD - keep, asked)
    assert not within(keep + 1, WORD - keep - 1, asked)


@each_epsilon
@pytest.mark.parametrize("k", [2, 3, 40])
def test_control_one_word_less_for_each_lie_breaks_the_inequality(asked: int, k: int) -> None:
    channel = KaryResponse(asked, k)
    assert within(channel.truth, channel.lie, asked)
    assert not within(channel.truth + k - 1, channel.lie - 1, asked)


def test_control_conditioning_on_the_range_instead_of_clamping_costs_more_for_neighbours() -> None:
    """N21, §2 with ε = 1 for one step: clamped 1.000, conditioned 1.209."""
    reach = 10
    clamped = TwoSidedGeometric(reach * MICRO, reach).table()
    noise = [exp_scaled(step * MICRO, MICRO) for step in range(reach + 1)]
    conditioned = []
    for given in range(reach + 1):
        row = [Fraction(1 << SCALE_BITS, noise[abs(given - outcome)]) for outcome in range(reach + 1)]
        conditioned.append([int(WORD * weight / sum(row)) for weight in row])

    assert neighbours_micro_epsilon(clamped) == MICRO
    assert round(neighbours_micro_epsilon(conditioned) / MICRO, 3) == 1.209


def neighbours_micro_epsilon(table: object) -> int:
    """The certified ε where only inputs one step apart are neighbours."""
    rows = [list(row) for row in table]  # type: ignore[attr-defined]
    pairs = [sorted(pair) for above, below in pairwise(rows) for pair in zip(above, below, strict=True)]
    return certified_micro_epsilon((low, high) for low, high in pairs)


SAMPLES = {500_000: 250_000, MICRO: 150_000, 2 * MICRO: 100_000}
AUDITED: dict[str, Builder] = {
    "binary": BinaryResponse,
    "kary 5": lambda asked: KaryResponse(asked, 5),
    "geometric 8": lambda asked: TwoSidedGeometric(asked, 8),
    "laplace 8": lambda asked: DiscreteLaplace(asked, 8),
}


@pytest.mark.parametrize("asked", SAMPLES)
@pytest.mark.parametrize("build", AUDITED.values(), ids=AUDITED.keys())
def test_the_audit_passes_every_channel_and_catches_it_at_fifteen_percent_more(build: Builder, asked: int) -> None:
    assert verdict(build(asked), asked) is AuditVerdict.CONSISTENT
    assert verdict(build(asked * 115 // 100), asked) is AuditVerdict.VIOLATED


def verdict(channel: Channel, claimed: int) -> AuditVerdict:
    streams = [SimulatedRandom(5, stream=stream) for stream in range(2)]
    ends = [0, channel.inputs - 1]

    def sampler(given: int, stream: SimulatedRandom) -> Callable[[int], NDArray[np.int64]]:
        return lambda n: channel.sample(np.full(n, given), stream).outcomes.astype(np.int64)

    samplers = [sampler(given, stream) for given, stream in zip(ends, streams, strict=True)]
    return audit_channel(samplers[0], samplers[1], SAMPLES[claimed], claimed, outcomes=channel.outcomes)[1]


# ------------------------------------------------------------------------------------------------------ what they say


@pytest.mark.parametrize(("k", "narrowest"), [(2, np.uint8), (256, np.uint8), (257, np.uint16)])
def test_outcomes_are_held_in_the_narrowest_type_that_has_room_for_them(k: int, narrowest: type) -> None:
    channel = KaryResponse(MICRO, k)

    assert channel.outcome_type is narrowest
    outcomes = channel.sample(np.full(2000, k - 1, np.uint32), SimulatedRandom(1)).outcomes
    assert outcomes.dtype == narrowest
    assert outcomes.max() == k - 1


@pytest.mark.parametrize(("outcomes", "narrowest"), [(1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)])
def test_many_outcomes_need_a_wider_type(outcomes: int, narrowest: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KaryResponse, "outcomes", outcomes)

    assert KaryResponse(MICRO, 2).outcome_type is narrowest


@pytest.mark.parametrize("name", PARTS)
def test_a_published_form_tells_the_outcomes_of_the_channel_that_it_stands_for(name: str) -> None:
    """And it is built for the query: what a client reads off the form and what she samples from are one channel."""
    asked = PARTS[name]
    channel = asked.channel.build(asked.query, SCHEMA)

    assert asked.channel.outcomes(asked.query, SCHEMA) == channel.outcomes == len(channel.table()[0])
    # As a form tells them that knows nothing quicker than to build its channel.
    assert BaseChannelSpec.outcomes(asked.channel, asked.query, SCHEMA) == channel.outcomes
    assert channel.inputs == len(list(channel.table()))


@pytest.mark.parametrize("name", ["real, binary", "real, geometric", "real, laplace", "cell, kary"])
@pytest.mark.parametrize("other", PARTS)
def test_a_form_refuses_to_tell_the_outcomes_of_a_query_that_it_does_not_answer(name: str, other: str) -> None:
    form, query = PARTS[name].channel, PARTS[other].query
    said = list[int | str]()
    for tell in (form.outcomes, lambda query, schema: form.build(query, schema).outcomes):
        try:
            said.append(tell(query, SCHEMA))
        except ProtocolError as error:
            said.append(error.where)

    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["real, geometric", "real, laplace"])
@pytest.mark.parametrize("denominator", [1, 10, 170])
def test_the_work_of_noise_is_told_by_the_weights_that_it_has(name: str, denominator: int) -> None:
    form = PARTS[name].channel
    query = RealQuery(numerator=FieldValue(field="y"), denominator=denominator)
    weights = form.build(query, SCHEMA).outcomes - 1

    assert form.work(query) == WEIGHT_WORK * weights


def test_an_epsilon_is_taken_as_long_as_the_rarest_word_certifies_it() -> None:
    """2⁶⁴/e^ε is above MIN_WEIGHT up to ε = ln 2³⁴ = 23.56…: what is below is built, what is above is refused."""
    last = BinaryResponse(MOST_MICRO_EPSILON)

    assert last.certified_micro_epsilon <= MOST_MICRO_EPSILON
    others: list[Builder] = [
        BinaryResponse,
        lambda e: KaryResponse(e, 2),
        lambda e: KaryResponse(e, 1024),
        lambda e: TwoSidedGeometric(e, 1),
        lambda e: DiscreteLaplace(e, 1),
    ]
    for build in others:
        with pytest.raises(ProtocolError, match=r"^micro_epsilon: ε = 23\.567005 is too large"):
            build(MOST_MICRO_EPSILON + 1)


def test_the_epsilon_of_any_table_is_found_however_large_it_is() -> None:
    """One word of 2⁶⁴ is ε = ln(2⁶⁴ − 1) = 44.361419…"""
    channel = TabulatedChannel(((WORD - 1, 1), (1, WORD - 1)))

    assert channel.certified_micro_epsilon == 44_361_420
