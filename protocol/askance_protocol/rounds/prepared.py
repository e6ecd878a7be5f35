"""A round, checked and ready to be answered: queries compiled, channels built and certified, coins at hand.

Theory of operation
-------------------
A round has up to 4,096 parts, and a user is asked one of them. To certify the channel of a part takes up to ten
milliseconds, and a line of JSON asks for it; a bulletin may have many rounds, few of which ask her. So a part is
prepared when it is first looked at, once (`PreparedParts`), and what has to be known of all of them (shares, rows,
charges, the number of outcomes) is read off their published forms.

- Who publishes a round prepares all of it (`prepare_round`): what nobody could answer is not published.
- Who is asked one question prepares that one (`open_round`, then `part_of`): her query is total, her channel's exact ε
  is at most what she pays. An unsound part that others are dealt is refused by them. Whether a user refuses is a
  function of the round and of her number, both public, and tells nothing of her example.
- The work of all parts is bounded, by a count that takes no work itself (`check_work`), and what is beyond is refused
  by both sides. A table or a query is as long as its document; what grows without it are channels of a formula.

Everything that is refused here is refused from public data.

Who speaks for many users (`respond_in_turn`) goes through the parts in their order, and in each through its users in
theirs: so it is defined which word of a seeded source decides whose report. Parts that differ in a constant only are
answered together, which changes no report (`queries.together`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Truths, Whole
from askance_protocol.channels import Channel, Sample
from askance_protocol.channels.channel import Outcomes, Pooling
from askance_protocol.coins import Coin, Users, choices, chosen, rows, rows_from_one
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.hadamard import Answers, PublicRows
from askance_protocol.queries import BooleanQuery, PreparedQuery, measure, prepare
from askance_protocol.queries.together import AnyQuery, alike, dealt_to
from askance_protocol.randomness import RandomSource, Words
from askance_protocol.remembering import Remembered
from askance_protocol.rounds.spec import Part, RoundSpec, StudySpec
from askance_protocol.schema import Schema
from askance_protocol.text import counted

UserPlaces = NDArray[np.intp]

MAX_WORK: Final = 1 << 23
"""Microseconds, about, that it takes to prepare all parts of a round. 4,096 parts of Laplace noise on twentieths, or a
few hundred of the largest channels, are within it; so is whatever binary response answers."""


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """One question: from an answer and a public row to the input of a channel."""

    part: Part
    query: PreparedQuery
    channel: Channel
    pooling: Pooling | None
    """How a public row turns a cell into an input; None where the part needs no row."""

    @property
    def pooled(self) -> bool:
        """Whether a public row turns a cell into an input of few."""
        return self.pooling is not None

    @property
    def rows(self) -> int:
        """Public rows; one where the part needs none."""
        return 1 if self.pooling is None else self.pooling.rows

    @property
    def dealt_rows(self) -> range:
        """Rows that the public coin deals, one as likely as another."""
        return range(0 if self.pooling is None else self.pooling.first, self.rows)

    def encode(self, answer: Whole, row: int) -> Whole:
        """The channel's input for one answer."""
        return self.query.query.input_of(answer) if self.pooling is None else self.pooling.encode(answer, row)

    def encode_all(self, answers: Answers, rows: PublicRows) -> NDArray[np.integer[Any]]:
        """The channel's inputs for many answers."""
        return self.query.query.input_of(answers) if self.pooling is None else self.pooling.encode_all(answers, rows)


@dataclass(frozen=True, slots=True)
class Question:
    """What one user is asked: a part of the round and, where it pools cells, a public row."""

    part: int
    row: int


class Dealt(NamedTuple):
    """What many users are asked: the part of each, and its public row, 0 where the part has none."""

    parts: NDArray[np.uint16]
    rows: PublicRows


@dataclass(frozen=True, slots=True, eq=False)
class InTurn:
    """Reports of many users, those of the first part first."""

    places: UserPlaces
    """Which of the users each report is from."""
    rows: PublicRows
    ends: UserPlaces
    """Where the reports of each part begin, and where those of the last one end."""
    outcomes: Outcomes
    simulated: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """Users in the order of their parts, those of each part in their own order."""

    places: UserPlaces
    ends: UserPlaces
    """Where each part begins, and where the last one ends."""
    everybody: bool
    """Whether they are all users, in their own order."""


@dataclass(frozen=True, slots=True)
class AskedAlike:
    """Consecutive parts that are answered together: of one channel, with queries that differ in constants only."""

    numbers: range
    first: PreparedPart
    query: AnyQuery | None
    """All their queries in one (`queries.together`); None of one part."""
    whole: bool
    """Whether they are all parts of the round."""

    def inputs(self, columns: Columns, asked: Dealt, mine: UserPlaces) -> NDArray[np.integer[Any]]:
        """The channel's inputs for those of these users who are asked one of these parts, in the order of `mine`."""
        if self.whole:
            # It is their inputs that are put in order, and not all that they hold.
            inputs = self._inputs(columns, asked)
            return inputs if self.query is None and len(mine) == len(columns) else inputs.take(mine)
        return self._inputs(columns.take(mine), Dealt(asked.parts.take(mine), asked.rows.take(mine)))

    def _inputs(self, columns: Columns, asked: Dealt) -> NDArray[np.integer[Any]]:
        query, prepared = self.query, self.first.query
        if query is None:
            return self.first.encode_all(prepared.answers(columns), asked.rows)
        columns = dealt_to(columns, asked.parts - np.uint16(self.numbers.start))
        if isinstance(query, BooleanQuery):
            return query.test.column(columns).view(np.uint8)
        return self.first.encode_all(prepared.of_alike(query).answers(columns), asked.rows)


class PreparedParts(Sequence[PreparedPart]):
    """The parts of a round, each prepared when it is first looked at. What is unsound raises each time."""

    def __init__(self, parts: Sequence[Part], schema: Schema) -> None:
        self._parts, self._schema = parts, schema
        self._prepared: dict[int, PreparedPart | ProtocolError] = {}

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, number: int) -> PreparedPart: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[PreparedPart]: ...
    def __getitem__(self, number: int | slice) -> PreparedPart | Sequence[PreparedPart]:
        if isinstance(number, slice):
            return tuple(self[each] for each in range(*number.indices(len(self))))
        number = range(len(self))[number]
        if number not in self._prepared:
            try:
                self._prepared[number] = _prepare_part(self._parts[number], self._schema)
            except ProtocolError as error:
                self._prepared[number] = error.at(f"parts[{number}]")
        part = self._prepared[number]
        if isinstance(part, ProtocolError):
            raise part.with_traceback(None)
        return part

    def __iter__(self) -> Iterator[PreparedPart]:
        return (self[number] for number in range(len(self)))


@dataclass(frozen=True)
class PreparedRound:
    """A round that is safe to answer. Only `prepare_round` and `open_round` should make one."""

    study: StudySpec
    spec: RoundSpec
    id: str
    parts: Sequence[PreparedPart]

    @cached_property
    def limits(self) -> tuple[int, ...]:
        """The number of outcomes of each part."""
        return tuple(part.channel.outcomes(part.query, self.study.example) for part in self.spec.parts)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The number of public rows of each part; one where it needs none."""
        return tuple(1 if pooling is None else pooling.rows for pooling in self._poolings)

    @property
    def outcomes(self) -> int:
        """The largest number of outcomes of a part: every report of the round is written with the same length."""
        return max(self.limits)

    @property
    def charge(self) -> int:
        """The most that a part charges."""
        return max(part.charge for part in self.spec.parts)

    def charge_of(self, user: int) -> int:
        """The charge of the part that a user is dealt."""
        return self.spec.parts[0 if len(self.spec.parts) == 1 else self.question(user).part].charge

    def part_of(self, user: int) -> PreparedPart:
        """The part that a user is dealt, prepared; refused if it is unsound, and so her report would be."""
        return self.parts[self.question(user).part]

    def asks(self, user: int) -> bool:
        """Whether a user is in the cohort."""
        return bool(self.asked(range(user, user + 1))[0])

    def asked(self, users: Users) -> Truths:
        """Which of these users are in the cohort."""
        cohort = self.spec.cohort
        beyond = cohort.first_user + cohort.users
        if isinstance(users, range):
            inside = np.zeros(len(users), np.bool)
            inside[max(cohort.first_user - users.start, 0) : max(beyond - users.start, 0)] = True
        else:
            inside = (users >= cohort.first_user) & (users < beyond)
        if cohort.slot_count == cohort.slots:
            return inside
        return inside & chosen(self._cohort_coin.toss(users), cohort.slots, cohort.first_slot, cohort.slot_count)

    def question(self, user: int) -> Question:
        """The part and the row of one user."""
        dealt, public_rows = self.questions(range(user, user + 1))
        return Question(int(dealt[0]), int(public_rows[0]))

    def questions(self, users: Users) -> Dealt:
        """The part and the row of each of these users."""
        if len(self.rows) == 1 and self.rows[0] == 1:
            return Dealt(np.zeros(len(users), np.uint16), np.zeros(len(users), np.uint16))
        coins = self._round_coin.toss(users)
        dealt = self._parts_of(coins)
        if max(self.rows) == 1:
            return Dealt(dealt, np.zeros(len(users), np.uint16))
        last = self._last_rows[0] if len(self.rows) == 1 else self._last_rows.take(dealt)
        if self._from_one.all():
            return Dealt(dealt, rows_from_one(coins, last))
        found = rows(coins, last)
        if self._from_one.any():
            np.copyto(found, rows_from_one(coins, last), where=self._from_one.take(dealt))
        return Dealt(dealt, found)

    def _parts_of(self, coins: Words) -> NDArray[np.uint16]:
        """The part that each coin deals."""
        if len(self.rows) == 1:
            return np.zeros(len(coins), np.uint16)
        shares = self._shares
        dealt = choices(coins, int(shares[-1]))
        if shares[-1] == len(shares):  # A share each: its number is that of the part.
            return dealt.astype(np.uint16)
        if len(coins) < len(shares):
            return np.searchsorted(shares, dealt, side="right").astype(np.uint16)
        return _part_of_share(tuple(part.share for part in self.spec.parts))[dealt]

    def respond(self, user: int, example: Example, source: RandomSource) -> int:
        """One user's report (KLNRS11, Def. 5.2): find her question, answer it, randomize once."""
        question = self.question(user)
        part = self.parts[question.part]
        return part.channel.randomize(part.encode(part.query.value(example), question.row), source)

    def respond_all(self, users: Users, columns: Columns, source: RandomSource) -> Sample:
        """The reports of many users, in their order."""
        if len(users) != len(columns):
            raise ProtocolError(
                f"has {counted(len(users), 'entry', 'entries')}, examples has {len(columns):,}",
                where="users",
                remedy="give one example a user",
            )
        reports = self.respond_in_turn(self.questions(users), columns, source)
        outcomes = np.empty(len(columns), np.uint32)
        outcomes[reports.places] = reports.outcomes
        return Sample(outcomes, reports.simulated)

    def respond_in_turn(
        self, asked: Dealt, columns: Columns, source: RandomSource, among: UserPlaces | None = None
    ) -> InTurn:
        """The reports of many users, part by part: of all, or of those at some places, which are in order.

        The users of each part come in their own order. That is which word of the source decides whose report.
        """
        order = _by_part(asked.parts, len(self.rows), among)
        drawn = [np.zeros(0, np.uint8)]
        for group in self._groups(order):
            mine = order.places[order.ends[group.numbers.start] : order.ends[group.numbers.stop]]
            drawn.append(group.first.channel.sample(group.inputs(columns, asked, mine), source).outcomes)
        # Where nobody has a row, all of them are 0.
        same = order.everybody or max(self.rows) == 1
        rows = asked.rows[: len(order.places)] if same else asked.rows.take(order.places)
        return InTurn(order.places, rows, order.ends, np.concatenate(drawn), source.simulated)

    def _groups(self, order: _Order) -> Iterator[AskedAlike]:
        """The parts that somebody is asked; those that are asked alike together, where that is worth looking."""
        runs = self._runs if len(order.places) > len(self.rows) else _each_alone(len(self.rows))
        for numbers, query in runs.items():
            if order.ends[numbers.start] < order.ends[numbers.stop]:
                whole = len(numbers) == len(self.rows)
                yield AskedAlike(numbers, self.parts[numbers.start], query, whole)

    @cached_property
    def _runs(self) -> Mapping[range, AnyQuery | None]:
        """All parts, cut into runs that are asked alike, and the query of each; None for a part alone.

        A part that is unsound is alone: who is dealt it refuses it, and others go on.
        """
        count = len(self.rows)
        whole = self._in_one(range(count)) if count > 1 else None
        if whole is not None:
            return {range(count): whole}
        runs, begin = dict[range, AnyQuery | None](), 0
        while begin < count:
            end = begin + 1
            while end < count and self._in_one((begin, end)) is not None:
                end += 1
            run = range(begin, end)
            runs[run] = self._in_one(run) if len(run) > 1 else None
            begin = end
        return runs

    def _in_one(self, numbers: Sequence[int]) -> AnyQuery | None:
        """One query in place of those of some parts; None where they are not asked alike."""
        try:
            first, *others = (self.parts[number] for number in numbers)
        except ProtocolError:
            return None
        if any(each.channel != first.channel or each.pooling != first.pooling for each in others):
            return None
        return alike([self.parts[number].query.query for number in numbers])

    @cached_property
    def _round_coin(self) -> Coin:
        return Coin(self.id)

    @cached_property
    def _cohort_coin(self) -> Coin:
        return Coin(self.spec.study)

    @cached_property
    def _shares(self) -> NDArray[np.uint32]:
        return np.array(list(accumulate(part.share for part in self.spec.parts)), np.uint32)

    @cached_property
    def _poolings(self) -> tuple[Pooling | None, ...]:
        return tuple(_pooling_of(part, self.study.example) for part in self.spec.parts)

    @cached_property
    def _from_one(self) -> Truths:
        """Of which parts the rows begin at 1."""
        return np.array([pooling is not None and pooling.first == 1 for pooling in self._poolings])

    @cached_property
    def _last_rows(self) -> NDArray[np.uint16]:
        return np.array([height - 1 for height in self.rows], np.uint16)


def prepare_round(study: StudySpec, spec: RoundSpec) -> PreparedRound:
    """Check a round against its study, whole: every query answerable, every channel certified for what it charges."""
    check_work(spec)
    round_ = open_round(study, spec)
    for _ in round_.parts:
        pass
    return round_


def open_round(study: StudySpec, spec: RoundSpec) -> PreparedRound:
    """Check what a round is as a whole; each part is checked when it is first looked at, and all it takes is paid then.

    For who is asked one question, and for who has prepared the whole round before it was published.
    """
    if spec.study != study.digest():
        raise ProtocolError("is of another study", where="study", remedy="fetch the study that the round names")
    for number, part in enumerate(spec.parts):
        if part.charge > study.cap:
            raise ProtocolError(
                f"{part.charge} is above the study's cap of {study.cap} micro-ε", where=f"parts[{number}].charge"
            )
    return PreparedRound(study, spec, spec.digest(), PreparedParts(spec.parts, study.example))


def work_of(part: Part) -> int:
    """About how many microseconds it takes to prepare a part, told without doing it."""
    cost = measure(part.query)
    return cost.nodes + cost.entries + part.channel.work(part.query)


def check_work(spec: RoundSpec) -> None:
    """Refuse a round that takes too long to prepare."""
    work = sum(map(work_of, spec.parts))
    if work > MAX_WORK:
        raise ProtocolError(
            f"takes {work} steps to prepare, over the limit of {MAX_WORK}",
            where="parts",
            remedy="ask fewer questions at once, with smaller denominators, or by binary channels",
        )


def _pooling_of(part: Part, schema: Schema) -> Pooling | None:
    """How a part pools cells. One that is unsound has no rows: whoever is dealt it refuses it, and others go on."""
    try:
        return part.channel.pooling(part.query, schema)
    except ProtocolError:
        return None


def _by_part(parts: NDArray[np.uint16], count: int, among: UserPlaces | None) -> _Order:
    everybody = np.arange(len(parts)) if among is None else among
    if count == 1:
        return _Order(everybody, np.array([0, len(everybody)]), among is None)
    bits = len(parts).bit_length()
    key = np.uint32 if count.bit_length() + bits <= 32 else np.uint64
    mine = parts if among is None else parts.take(among)
    # Part and place are sorted as one number, in a quarter of the time that a stable sort of the parts takes.
    keys = mine.astype(key) << key(bits)
    keys |= everybody.astype(key)
    keys.sort()
    ends = np.searchsorted(keys, np.arange(count + 1, dtype=key) << key(bits))
    places = (keys & key((1 << bits) - 1)).astype(np.intp)
    return _Order(places, ends, everybody=False)


def _each_alone(count: int) -> Mapping[range, AnyQuery | None]:
    return {range(number, number + 1): None for number in range(count)}


def _parts_by_share(shares: tuple[int, ...]) -> NDArray[np.uint16]:
    return np.repeat(np.arange(len(shares), dtype=np.uint16), shares)


_part_of_share: Final = Remembered(_parts_by_share, lambda table: table.nbytes, most=16 << 20)
"""Of rounds with these shares, the part that each share deals."""


def _prepare_part(part: Part, schema: Schema) -> PreparedPart:
    query = prepare(part.query, schema)
    channel = part.channel.build(part.query, schema)
    if part.charge < channel.certified_micro_epsilon:
        raise ProtocolError(
            f"{part.charge} micro-ε is charged, but the channel is certified for {channel.certified_micro_epsilon}",
            where="charge",
            remedy="charge what the channel costs, or more",
        )
    return PreparedPart(part, query, channel, part.channel.pooling(part.query, schema))
