"""A round, checked and ready to be answered: queries compiled, channels built and certified, coins at hand.

Both sides prepare the same round and get the same thing: the client to answer one question, the server to know
which reports can come and what they mean. Everything that is refused here is refused from public data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_protocol import hadamard
from askance_protocol.arrays import Truths
from askance_protocol.channels import Channel, Sample
from askance_protocol.coins import Coin, Users, choices, rows
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.queries import CellQuery, PreparedQuery, prepare
from askance_protocol.randomness import RandomSource
from askance_protocol.rounds.spec import Part, RoundSpec, StudySpec
from askance_protocol.schema import Schema

Answers = NDArray[np.signedinteger[Any]]
Rows = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """One question: from an answer and a public row to the input of a channel."""

    part: Part
    query: PreparedQuery
    channel: Channel
    rows: int
    """Hadamard rows; one where the part needs none."""

    @property
    def pooled(self) -> bool:
        """Whether a public Hadamard row turns a cell into one bit."""
        return self.part.channel.pools(self.query.query)

    def encode(self, answer: int, row: int) -> int:
        """The channel's input for one answer."""
        return hadamard.encode(answer, row) if self.pooled else self.query.query.input_of(answer)

    def encode_all(self, answers: Answers, rows: Rows) -> NDArray[np.integer[Any]]:
        """The channel's inputs for many answers."""
        return hadamard.encode_all(answers, rows) if self.pooled else self.query.query.input_of(answers)


@dataclass(frozen=True, slots=True)
class Question:
    """What one user is asked: a part of the round and, where it pools cells, a Hadamard row."""

    part: int
    row: int


@dataclass(frozen=True)
class PreparedRound:
    """A round that is safe to answer. Only `prepare_round` should make one."""

    study: StudySpec
    spec: RoundSpec
    id: str
    parts: tuple[PreparedPart, ...]

    @property
    def outcomes(self) -> int:
        """The largest number of outcomes of a part: every report of the round is written with the same length."""
        return max(part.channel.outcomes for part in self.parts)

    @property
    def charge(self) -> int:
        """The most that a part charges."""
        return max(part.part.charge for part in self.parts)

    def charge_of(self, user: int) -> int:
        """The charge of the part that a user is dealt."""
        return self.parts[0 if len(self.parts) == 1 else self.question(user).part].part.charge

    def asks(self, user: int) -> bool:
        """Whether a user is in the cohort."""
        return bool(self.asked(range(user, user + 1))[0])

    def asked(self, users: Users) -> Truths:
        """Which of these users are in the cohort."""
        cohort = self.spec.cohort
        numbers = np.arange(users.start, users.stop) if isinstance(users, range) else users
        inside = (numbers >= cohort.first_user) & (numbers < cohort.first_user + cohort.users)
        if cohort.slots == 1:
            return inside
        slots = choices(self._cohort_coin.toss(users), cohort.slots)
        return inside & (slots >= cohort.first_slot) & (slots < cohort.first_slot + cohort.slot_count)

    def question(self, user: int) -> Question:
        """The part and the row of one user."""
        dealt, public_rows = self.questions(range(user, user + 1))
        return Question(int(dealt[0]), int(public_rows[0]))

    def questions(self, users: Users) -> tuple[NDArray[np.intp], Rows]:
        """The part and the row of each of these users. The row is that of the part, 0 where it has none."""
        if len(self.parts) == 1 and self.parts[0].rows == 1:
            return np.zeros(len(users), np.intp), np.zeros(len(users), np.uint16)
        coins = self._round_coin.toss(users)
        if len(self.parts) == 1:
            return np.zeros(len(users), np.intp), rows(coins, self.parts[0].rows - 1)
        dealt = np.searchsorted(self._shares, choices(coins, int(self._shares[-1])), side="right")
        return dealt, rows(coins, self._last_rows[dealt])

    def respond(self, user: int, example: Example, source: RandomSource) -> int:
        """One user's report (KLNRS11, Def. 5.2): find her question, answer it, randomize once."""
        question = self.question(user)
        part = self.parts[question.part]
        return part.channel.randomize(part.encode(part.query.answer(example), question.row), source)

    def respond_all(self, users: Users, columns: Columns, source: RandomSource) -> Sample:
        """The reports of many users, computed part by part."""
        if len(users) != len(columns):
            raise ProtocolError(
                f"has {len(users)} entries, examples has {len(columns)}",
                where="users",
                remedy="give one example a user",
            )
        dealt, public_rows = self.questions(users)
        outcomes = np.zeros(len(columns), np.uint32)
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(dealt == number)
            if not len(mine):
                continue
            inputs = part.encode_all(part.query.answers(columns.take(mine)), public_rows[mine])
            outcomes[mine] = part.channel.sample(inputs, source).outcomes
        return Sample(outcomes, source.simulated)

    @cached_property
    def _round_coin(self) -> Coin:
        return Coin(self.id)

    @cached_property
    def _cohort_coin(self) -> Coin:
        return Coin(self.spec.study)

    @cached_property
    def _shares(self) -> NDArray[np.uint32]:
        return np.array(list(accumulate(part.part.share for part in self.parts)), np.uint32)

    @cached_property
    def _last_rows(self) -> NDArray[np.uint16]:
        return np.array([part.rows - 1 for part in self.parts], np.uint16)


def prepare_round(study: StudySpec, spec: RoundSpec) -> PreparedRound:
    """Check a round against its study: every query answerable, every channel certified for what it charges."""
    if spec.study != study.digest():
        raise ProtocolError("is of another study", where="study", remedy="fetch the study that the round names")
    parts: list[PreparedPart] = []
    for number, part in enumerate(spec.parts):
        try:
            parts.append(_prepare_part(part, study.example))
        except ProtocolError as error:
            raise error.at(f"parts[{number}]") from None
        if part.charge > study.cap:
            raise ProtocolError(
                f"{part.charge} is above the study's cap of {study.cap} micro-ε", where=f"parts[{number}].charge"
            )
    return PreparedRound(study, spec, spec.digest(), tuple(parts))


def _prepare_part(part: Part, schema: Schema) -> PreparedPart:
    query = prepare(part.query, schema)
    channel = part.channel.build(part.query, schema)
    if part.charge < channel.certified_micro_epsilon:
        raise ProtocolError(
            f"{part.charge} micro-ε is charged, but the channel is certified for {channel.certified_micro_epsilon}",
            where="charge",
            remedy="charge what the channel costs, or more",
        )
    height = 1
    if isinstance(part.query, CellQuery) and part.channel.pools(part.query):
        height = hadamard.rows_for(part.query.cells)
    return PreparedPart(part, query, channel, height)
