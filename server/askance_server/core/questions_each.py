"""How many yes/no questions of a round each user answers: `questions_each` of a study. KLNRS11, Def. 5.3.

Theory of operation
-------------------
"If LR_z(i, R₁), …, LR_z(i, R_k) are the algorithm's invocations on index i, where each R_j is an ε_j-local randomizer,
then ε₁ + … + ε_k ≤ ε": a user may answer k questions of a round, at ε/k each. That is one report, of a channel on the
2^k joint answers which is the product of k binary responses. The definition allows any ε-private channel on them, and
one is better: k-ary response, which tells the joint answer at the whole of ε. A yes to one question is a sum of
2^(k−1) cells, so it has an exact interval (`estimators`). With u = e^ε, and one answer as likely as the other, an
answer is estimated, times the number of its reports, with the variance

    (u + 2^k − 1)² / 4(u − 1)²  by k-ary response,   (u^(1/k) + 1)² / 4(u^(1/k) − 1)²  by k binary ones.

For k = 2 that is u + 3 against u + 2√u + 1, each over u − 1: k-ary response is better at every ε. For larger k it is
better wherever either of them needs fewer users than one question each: a test goes through that.

One question each has k times the variance of k = 1, as it has a k-th of the users. So 2 questions need fewer users from
u = (3 − √2)/(√2 − 1), ε = 1.34 on, 3 from ε = 1.97 on, and at ε = 1 one question is best. Which number is best for the
questions of a round is decided by the planner's own need, from exact tails, for each number up to `MOST_EACH`.

Only questions of one round are put together. A round of a study takes users whom no earlier one has asked, each of
whom pays once. If a user answered in two rounds, at ε/2 in each, the second round's questions would depend on her own
answer in the first: its answers are no longer those of users drawn from the population, and the proof of Thm 5.7, "each
query is simulated with a fresh portion", breaks. Privacy would not: the ledger and her wallet add up what she pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, TypeAlias, cast

import numpy as np

from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import Affine, If, Integer, Term
from askance_protocol.rounds import StudySpec
from askance_server.core import planning
from askance_server.core.strategy import (
    Answer,
    Ask,
    Asking,
    Estimate,
    Parameters,
    ReportedAnswers,
    SetsOfCells,
    Strategy,
    SumsOfCells,
    estimates_of_one,
)

QuestionsEach: TypeAlias = int | Literal["best"]
_NO_SUMS: Final[SumsOfCells] = {}
_JUDGED: Final = 60
"""Asks of a round by which the best number is found; more of them are of the same kinds."""


@dataclass(frozen=True, slots=True)
class Joint:
    """Some asks of a round, by their numbers, and the ask that has the answers of all."""

    numbers: tuple[int, ...]
    ask: Ask

    def answers(self, given: Answer) -> Iterator[tuple[int, Answer]]:
        """The answer to each."""
        if len(self.numbers) == 1:
            yield self.numbers[0], given
            return
        cells = np.asarray(given, np.float64)
        for number, sum_ in zip(self.numbers, self.ask.sums, strict=True):
            yield number, float(cells[list(sum_)].sum())


def together(strategy: Strategy, study: StudySpec, each: QuestionsEach) -> Strategy:
    """The same strategy; each user answers so many of the yes/no questions of her round, in one report."""

    def run(parameters: Parameters) -> Asking:
        asking, answers = strategy.run(parameters), cast("Sequence[Answer]", None)
        while True:
            try:
                asks = asking.send(answers)
            except StopIteration as learned:
                return learned.value
            joint = joined(study, list(asks), strategy.rounds, each)
            given = yield [one.ask for one in joint]
            answers = given if len(joint) == len(asks) else _answers(asks, joint, given)

    return replace(strategy, run=run)


def _answers(asks: Sequence[Ask], joint: Sequence[Joint], given: Sequence[Answer]) -> Sequence[Answer]:
    """The answer to each ask, as sure as the joint ones are."""
    found = dict(pair for one, said in zip(joint, given, strict=True) for pair in one.answers(said))
    answers = [found[number] for number in range(len(asks))]
    if not isinstance(given, ReportedAnswers):
        return answers

    def estimates(level: float, sums: SumsOfCells = _NO_SUMS) -> Sequence[Estimate]:
        every, own = iter(given.estimates(level, sums)), dict[int, list[Estimate]]()
        for one in joint:
            alone = len(one.numbers) == 1
            own |= {
                each: list(islice(every, estimates_of_one(asks[each], sums) if alone else 1)) for each in one.numbers
            }
        return [each for number in range(len(asks)) for each in own[number]]

    return ReportedAnswers(answers, estimates)


def joined(study: StudySpec, asks: Sequence[Ask], rounds: int, each: QuestionsEach) -> list[Joint]:
    """The asks of a round, put together; best: in the number for which the round needs the fewest users."""
    if each != "best":
        return _joined(asks, each)
    some, best = asks[:_JUDGED], (0, 1)
    for number in range(1, planning.MOST_EACH + 1):
        try:
            users = planning.demand(study, [one.ask for one in _joined(some, number)], rounds).target
        except ProtocolError:
            # Joint questions may be too large for the language, or their noise for the channel.
            continue
        best = min(best, (users, number)) if best[0] else (users, number)
    return _joined(asks, best[1])


def _joined(asks: Sequence[Ask], each: int) -> list[Joint]:
    """Questions of one tolerance, so many at a time or one fewer; an ask that says its share of the users is alone."""
    runs = dict[float, list[int]]()
    for number, ask in enumerate(asks):
        if isinstance(ask.query, BooleanQuery) and not ask.share:
            runs.setdefault(ask.tolerance, []).append(number)
    alone = set(range(len(asks))).difference(*runs.values())
    groups = [(number,) for number in alone]
    for run in runs.values():
        cuts = -(-len(run) // each)
        groups += [tuple(run[len(run) * k // cuts : len(run) * (k + 1) // cuts]) for k in range(cuts)]
    return [_joint(asks, group) for group in sorted(groups)]


def _joint(asks: Sequence[Ask], numbers: tuple[int, ...]) -> Joint:
    first = asks[numbers[0]]
    if len(numbers) == 1:
        return Joint(numbers, first)
    tests = tuple(cast("BooleanQuery", asks[number].query) for number in numbers)
    return Joint(numbers, replace(first, query=product_of(tests), channel="kary", sums=yes_cells(len(numbers))))


def product_of(tests: Sequence[BooleanQuery]) -> CellQuery:
    """Which of the tests hold: the first one counts 1, the next one 2, and so on."""
    yes, no = Integer(of=1), Integer(of=0)
    terms = tuple(Term(weight=1 << at, of=If(test=one.test, then=yes, otherwise=no)) for at, one in enumerate(tests))
    return CellQuery(cells=1 << len(tests), cell=Affine(terms=terms))


def factors_of(query: object) -> tuple[BooleanQuery, ...]:
    """The tests that a query is the product of; none if it is not one."""
    if not isinstance(query, CellQuery) or query.negative is not None or not isinstance(query.cell, Affine):
        return ()
    tests = tuple(BooleanQuery(test=term.of.test) for term in query.cell.terms if isinstance(term.of, If))
    # So many cells, before they are made: of 31 tests, as k-means' strips have, there would be too many for a query.
    likely = len(tests) > 1 and query.cells == 1 << len(tests)
    return tests if likely and product_of(tests) == query else ()


@lru_cache(maxsize=8)
def yes_cells(tests: int) -> SetsOfCells:
    """For each of some tests the cells of their product in which it holds."""
    return tuple(tuple(cell for cell in range(1 << tests) if cell >> at & 1) for at in range(tests))
