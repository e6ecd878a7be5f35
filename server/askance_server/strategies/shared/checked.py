"""Learn coarsely, check on fresh users, and learn more finely until what was learned is right.

Theory of operation
-------------------
A learner whose promise holds for every population is planned for the worst of them, and most need a thousandth of the
users. So it learns in *attempts*, at tolerances that get smaller. Each offers candidates, and users who were not asked
before say how often each of these is wrong, to within α/2 (sequential testing).

*What is checked is right.* A candidate is taken where its error, by these users, is α/2 or less: then it is α or less,
whatever the population is, whatever the candidates are, and whether or not any hypothesis fits the labels. β is shared
by all rounds that are declared, and so by all attempts, as the planner shares it.

*What is not.* The last attempt asks within the tolerances of the learner's own theorem, if it has one. Its hypothesis
then needs no check, where labels are what the theorem wants them to be; where it did not pass either, the hypothesis
says so: `"checked": false`. That is how labels end that no hypothesis fits.

*Too few users.* Where all users are taken, or a round closed early, answers may be less sure than they were asked to
be. So the upper end of the error's interval has to be α or less, too. An oracle that answers by other means has no
intervals, and keeps the tolerance. Attempts take half of the users that the one before took, and the last ones alike.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import AnyTest, Label, Xor
from askance_server.core.strategy import LEVEL, Answer, Ask, Asking, Hypothesis, estimates_in

FIRST: Final = 1 / 8
"""Tolerance of the first attempt."""
QUERIES: Final = 4096
"""Queries of one study: `core.run.MAX_QUERIES`."""
_FIRST_PORTION: Final = 32
_SHORT: Final = 1.25
"""Times the tolerance: what is less sure than this was asked of too few. As planned, 95 % are well within one."""


class Proposal(NamedTuple):
    """What an attempt has learned."""

    text: str
    value: Mapping[str, object]
    positive: AnyTest
    """Which examples it labels +1."""


class _Tested(NamedTuple):
    most: float
    """Error that it has at most."""
    candidate: Proposal


Attempt: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Sequence[Proposal]]
"""Asks, and returns candidates: the last attempt returns that of the theorem alone."""


def tolerances(last: float, step: float, most: int, queries: int) -> tuple[float, ...]:
    """From the first attempt's to the last one's, each smaller than the one before by the same step or a larger one.

    No more attempts than `most`, nor than a study has room for, each with so many queries.
    """
    most = min(most, QUERIES // queries)
    if last >= FIRST or most <= 1:
        return (last,)
    steps = min(most - 1, math.ceil(math.log(FIRST / last) / math.log(step)))
    return tuple(last * (FIRST / last) ** (1 - number / steps) for number in range(steps + 1))


def portions(attempts: int, rounds: Sequence[int]) -> tuple[int, ...]:
    """How the rounds of all attempts share the users: within an attempt in these proportions."""
    return tuple(max(1, _FIRST_PORTION >> number) * each for number in range(attempts) for each in rounds)


def checked(alpha: float, attempts: Iterator[Attempt], number: int) -> Asking:
    """Make attempts, of so many at most, until one has learned with error at most α."""
    tested, own, short = list[_Tested](), list[_Tested](), False
    for attempt in attempts:
        candidates = yield from attempt
        answers = yield [Ask(_differs(each.positive), alpha / 2) for each in candidates]
        own, short = _tested(candidates, answers, alpha / 2, number)
        tested += own
        best = min(own, key=lambda one: one.most)
        if best.most <= alpha * (1 + 1e-9):
            return _said(best.candidate, f"error at most {alpha:g}, checked", checked=True)
    # The theorem is about answers that keep their tolerance. Without these, the best that was seen is the best guess.
    last = min(tested, key=lambda one: one.most) if short else own[0]
    return _said(last.candidate, f"not checked: the error may be above {alpha:g}", checked=False)


def _differs(positive: AnyTest) -> BooleanQuery:
    return BooleanQuery(test=Xor(of=(positive, Label(sign=1))))


def _tested(
    candidates: Sequence[Proposal], answers: Sequence[Answer], tolerance: float, number: int
) -> tuple[list[_Tested], bool]:
    """The candidates with the most that their errors can be, and whether fewer have answered than were needed."""
    errors = [max(0.0, float(answer)) for answer in answers]
    most = [error + tolerance for error in errors]
    sure = estimates_in(answers, 1 - (1 - LEVEL) / (number * len(candidates)))
    if sure:
        most = [max(one, each.high) for one, each in zip(most, sure, strict=True)]
    short = any(
        each.high - error > _SHORT * tolerance for each, error in zip(estimates_in(answers), errors, strict=False)
    )
    return [_Tested(*each) for each in zip(most, candidates, strict=True)], short


def _said(learned: Proposal, words: str, *, checked: bool) -> Hypothesis:
    return Hypothesis(f"{learned.text} ({words})", {**learned.value, "checked": checked})
