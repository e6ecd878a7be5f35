"""A study whose users are counted, not made: the tallies of its rounds are drawn from their exact joint law.

Theory of operation
-------------------
Users who are drawn independently answer one question each, so all that a round sees of them is how many there are of
each kind: of a slot, of a part, of a public row, of an outcome. These counts are multinomial, and the study is the same
in all else: `step` plans, closes, answers and ends it, and the strategy is sent estimates of tallies.

- *Slots.* The study's coin puts each user into one of 2¹⁶ slots, evenly. Their sizes are drawn once.
- *Parts and rows.* A round's coin deals each user of its slots a part, with a chance in proportion to its share to
  within 2⁻³², and a row. `run_study` takes the coins of user numbers 0, 1, 2, …, which are as fixed as a hash; here
  they are as random as a hash looks, so that a part's size is drawn, with the coin's own weights, and not looked up.
- *Answers.* The law of a user's answer comes from the law of the population, in integers (`evaluation.classes`). A row
  turns an answer into an input of the channel, and the channel's table, in integers too, an input into outcomes.

So the joint law of all tallies of a study is that of `run_study`, over all populations, coins and noise of a kind, up
to what `evaluation.multinomial` says of its draws (some parts in 10¹²). Two differences can be seen. A round that needs
fewer reports than its cohort has closes with its last report here, and there with the block of users in which that is.
And one seed gives other numbers here than there: it draws the same concept, and other users of it.

What a round costs does not depend on the number of users, which goes up to that of user numbers, 2⁴⁸.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_lab.evaluation.classes import AnswerLaw, Weights, exact_counts, law_of, unknown_law
from askance_lab.evaluation.multinomial import multinomial
from askance_protocol.arrays import Integers
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import UsageError
from askance_protocol.rounds import Notice, PreparedPart, PreparedRound, RoundPublished, StudySpec
from askance_protocol.tally import Tally
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.planning import SLOTS, Slots
from askance_server.core.replay import ReplayError
from askance_server.core.strategy import Strategy
from askance_server.core.study import Ended, Paused, Waiting, step

MOST_PAIRS: Final = 1 << 28
"""Rows times answers of one part."""
_COIN: Final = 1 << 32
"""Values of a half of a coin."""
_FEW: Final = 1 << 20
"""Users whose slots are drawn one by one."""
_AT_A_TIME: Final = 1 << 20
"""Rows times answers that are looked at together."""


@dataclass(slots=True)
class CountedStudy(StudyInMemory):
    """A `StudyView` whose rounds have their reports as soon as they are published."""

    population: Population = field(kw_only=True)
    source: np.random.Generator = field(kw_only=True)
    slots: Slots = field(init=False, repr=False)
    """How many users the study's coin has put into each slot."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is a new class, which the empty form does not find.
        StudyInMemory.__post_init__(self)
        self.slots = slot_sizes(self.enrolled, self.source)

    def payers(self, charge: int) -> Slots:  # noqa: ARG002 - nobody has paid before
        """All users of each slot."""
        return self.slots

    def append(self, notice: Notice) -> None:
        """Add a notice to the bulletin; a round that is published is answered at once."""
        StudyInMemory.append(self, notice)
        if isinstance(notice, RoundPublished):
            round_ = self.round(notice.round.digest())
            cohort = round_.spec.cohort
            asked = int(self.slots[cohort.first_slot : cohort.first_slot + cohort.slot_count].sum())
            reports = min(asked, round_.spec.target)
            self.count(round_.id, tallies_of(round_, reports, self.population, self.source))


def slot_sizes(users: int, source: np.random.Generator) -> Slots:
    """How many users a study's coin puts into each slot; few of them one by one, which is as exact."""
    if users <= _FEW:
        return np.bincount(source.integers(0, SLOTS, users), minlength=SLOTS)
    return multinomial(np.array([users]), np.ones((1, SLOTS), object), source)[0]


def count_study(
    study: StudySpec,
    strategy: Strategy,
    population: Population,
    users: int,
    seed: int | None,
    clock: Callable[[], int] = lambda: 0,
) -> CountedStudy:
    """Run a study over so many users of a population, as `run_study` does over the first so many."""
    if users > MAX_USER:
        raise UsageError(f"{users:,} are more than there are numbers for", where="users", remedy=f"give {MAX_USER:,}")
    source = np.random.default_rng(None if seed is None else [seed, 15])
    view = CountedStudy(study, strategy, users, clock, population=population, source=source)
    view.publish()
    while True:
        match step(view):
            case Ended():
                return view
            case Paused(reason):
                raise ReplayError(reason, where=study.strategy)
            case Waiting(deadline=deadline):
                # The study says how many reports a round closes at, and there are not as many users.
                view.pass_time(deadline)
            case notice:
                view.append(notice)


def tallies_of(round_: PreparedRound, reports: int, population: Population, source: np.random.Generator) -> list[Tally]:
    """Tallies of so many reports: one for each part."""
    shares = accumulate((part.part.share for part in round_.parts), initial=0)
    users = multinomial(np.array([reports]), _dealt(list(shares))[np.newaxis], source)[0]
    tallies, alike = dict[int, Tally](), defaultdict[tuple[range, int], list[int]](list)
    for number, part in enumerate(round_.parts):
        alike[part.dealt_rows, part.channel.outcomes].append(number)
    for numbers in alike.values():
        parts = [round_.parts[number] for number in numbers]
        for number, counts in zip(numbers, _counts(parts, users[numbers], population, source), strict=True):
            tallies[number] = Tally(counts)
    return [tallies[number] for number in range(len(round_.parts))]


def _counts(
    parts: Sequence[PreparedPart], users: Integers, population: Population, source: np.random.Generator
) -> Integers:
    """By part, row and outcome: how many reports, of parts of as many rows and outcomes."""
    rows = parts[0].dealt_rows
    # All rows are a power of two, which the low bits of a coin are; of rows from 1 on there is one fewer.
    dealt = multinomial(users, _dealt(range(len(rows) + 1))[np.newaxis], source)
    weights = np.concatenate([outcome_weights(part, law_of(part.query, population)) for part in parts])
    counts = np.zeros((len(parts), rows.stop, weights.shape[1]), np.int64)
    counts[:, rows.start :] = multinomial(dealt.ravel(), weights, source).reshape(len(parts), len(rows), -1)
    return counts


def outcome_weights(part: PreparedPart, law: AnswerLaw) -> Weights:
    """By dealt row: the weight of each outcome."""
    inputs = _input_weights(part, law)
    given = np.flatnonzero(inputs.any(axis=0))
    table = np.array([part.channel.weights(each) for each in given.tolist()], object)
    return inputs[:, given] @ table


def _dealt(ends: range | list[int]) -> Weights:
    """How many values of half a coin fall between one end and the next: ⌊half · last / 2³²⌋ lies there."""
    first = [-(-end * _COIN // ends[-1]) for end in ends]
    return np.array([after - this for this, after in pairwise(first)], object)


def _input_weights(part: PreparedPart, law: AnswerLaw) -> Weights:
    """By dealt row: the weight of each input of the channel."""
    rows, answers, inputs = part.dealt_rows, len(law.answers), part.channel.inputs
    if len(rows) * answers > MOST_PAIRS:
        raise unknown_law(f"would look at {answers:,} answers under {len(rows):,} public rows")
    found = np.zeros((len(rows), inputs), object)
    step_ = max(1, _AT_A_TIME // answers)
    for begin in range(0, len(rows), step_):
        some = np.array(rows[begin : begin + step_], np.uint16)
        given = part.encode_all(np.tile(law.answers, len(some)), np.repeat(some, answers)).astype(np.intp)
        places = given.reshape(len(some), answers) + inputs * np.arange(len(some))[:, np.newaxis]
        found[begin : begin + step_] = exact_counts(places, law.weights, inputs * len(some)).reshape(len(some), inputs)
    return found
