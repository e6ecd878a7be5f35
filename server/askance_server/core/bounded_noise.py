"""Strategies over examples whose labels are wrong with a probability that is known to be at most η₀: Kearns 1998.

Theory of operation
-------------------
`label_noise` undoes a noise rate η that is known. Where it is not, Kearns (Efficient noise-tolerant learning from
statistical queries, J. ACM 45(6), 1998, §4; BB-notes cites it as [9]) learns for each rate of a grid, and takes the
hypothesis that disagrees with the fewest noisy labels: h disagrees with a share η + (1 − 2η)·err(h) of them, so the
order of hypotheses by it is that by their errors, whatever η is.

*All rates at once.* Let A and B be the means of φ(x, y′) and φ(x, −y′). With s = η′/(1 − 2η′) the answer for a rate
η′ is

    ((1 − η′)A − η′B)/(1 − 2η′) = A + s(A − B),

which is linear in s: a mean of those for the rates 0 and η₀. So users are asked φ as it is, and what undoes η₀, each
within the tolerance; then the answer for every rate between is within it, too. Of a Boolean φ this takes
1 + 1/(1 − 2η₀)² times the users of right labels. φ(x, y′) and φ(x, −y′) apart, so that (1 + s₀)τ₁ + s₀τ₂ = τ, take
((1 + s₀)^⅔ + s₀^⅔)³ times as many, which is less up to about η₀ = 0.12: the cheaper of the two is asked. Questions that
do not depend on the rate are asked once.

*The grid.* A − B = (1 − 2η)(T − F), T and F the means over right and over flipped labels, so an s′ in place of s moves
an answer by |s′ − s| at most for a Boolean φ, twice that for one in [−1, 1]. Rates stand so near to each other that the
next one is off by a twentieth of the tolerance; the rest of it is what users are asked for. Rates cost nothing: one
generator of the strategy for each, which are asked in step. Where they ask the same, as a noninteractive strategy does
and an interactive one at first, it is asked once.

*The choice.* When all have learned, each hypothesis of theirs is asked about, of users of a further round: how many
labels it disagrees with. If the best one errs by α′ and the answers are within τ, the chosen one does by α′ +
2τ/(1 − 2η₀). A strategy that promises an error of α is run for ⅞ of it, and the last eighth is for the choice; one
that promises no error, or an exact hypothesis, chooses as sharply as it asks. Where all rates lead to one hypothesis,
nothing is asked.

The failure β is shared by the rounds as in any study, this one among them. How many hypotheses there will be is not
known beforehand: of a conjunction at most one more than variables, as each variable's answer crosses its threshold
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, TypeAlias, cast

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.canonical import Json, dumps
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import AnyTest, Label, Xor
from askance_protocol.schema import Schema
from askance_server.core.label_noise import LabelNoise, Undone, label_of
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy

_Portions: TypeAlias = Callable[[Parameters], tuple[int, ...]]

GRID: Final = 0.05
"""Of a tolerance, the part that is left to the distance of rates."""
CHOICE: Final = 0.125
"""Of a promised error, the part that is left to the choice among hypotheses."""
MOST_RATES: Final = 1 << 15


def chosen(strategy: Strategy, eta_most: Fraction, example: Schema) -> Strategy:
    """The same strategy, which learns what it would of right labels if no more than this part of them is wrong."""
    if not eta_most:
        return strategy
    noise = LabelNoise(eta_most, label_of(example, "eta_most"))
    positive = strategy.positive
    if positive is None:
        what = f"is not known to {strategy.name!r}, whose hypotheses cannot be asked about"
        raise read.refused(
            "eta_most", what, "give eta, if you know how many labels are wrong, or choose another strategy"
        )

    def run(parameters: Parameters) -> Asking:
        own, error = sharper(strategy, parameters)
        run_ = _Rates.of(strategy, own, noise)
        while pending := run_.pending:
            run_.answer((yield pending))
        learned = run_.learned
        if len(learned) == 1:
            return learned[0]
        left = float(1 - 2 * eta_most)
        tolerance = CHOICE / 2 * error * left if error else run_.finest * left
        wrong = yield [Ask(disagrees(positive(parameters, each.value)), tolerance) for each in learned]
        return learned[int(np.argmin(np.array(wrong, np.float64)))]

    # What is asked last depends on what was learned.
    return replace(
        strategy,
        run=run,
        rounds=strategy.rounds + 1,
        portions=_and_choice(strategy.portions),
        portions_for=_and_choice_for(strategy.portions_for),
        interactive=True,
        longest=None,
    )


def _and_choice_for(portions: _Portions | None) -> _Portions | None:
    return None if portions is None else lambda parameters: _and_choice(portions(parameters))


def _and_choice(portions: tuple[int, ...]) -> tuple[int, ...]:
    """With a round more, of as many users as the others have on average."""
    return (*portions, max(1, round(sum(portions) / len(portions)))) if portions else ()


def disagrees(positive: AnyTest) -> BooleanQuery:
    """Whether the label is another than a hypothesis says."""
    return BooleanQuery(test=Xor(of=(positive, Label(sign=1))))


def sharper(strategy: Strategy, parameters: Parameters) -> tuple[Parameters, float]:
    """Parameters with room for the choice in the error that is promised, and that error; 0: none is."""
    error = 0.0 if strategy.promise is None else strategy.promise(parameters)
    if not error:
        return parameters, 0.0
    room = (1 - CHOICE) * error
    own = {**parameters, "alpha": f"{room:.12f}"}
    if strategy.promise is None or strategy.promise(own) > room * (1 + 1e-6):
        what = f"leaves no room in the error of {error:g} that {strategy.name!r} promises"
        raise read.refused("eta_most", what, "choose a strategy that is told its error, alpha")
    return own, error


@dataclass(slots=True)
class _Rates:
    """One strategy for each rate of the grid, and what they ask together."""

    noise: LabelNoise
    runs: list[Asking]
    steps: list[float]
    """Of each, s/s₀: 0 is for right labels, 1 for the most noise."""
    reach: float
    """By how much the s of the nearest rate may be off."""
    finest: float
    """The sharpest tolerance that was asked for."""
    asked: list[Sequence[Ask] | Hypothesis]
    """What each run has asked, or learned."""
    _undone: dict[Ask, tuple[Undone, list[int]]] = field(default_factory=dict[Ask, "tuple[Undone, list[int]]"])
    """For each ask what is asked in its place, by their numbers: first as it is, then as it undoes η₀."""

    @classmethod
    def of(cls, strategy: Strategy, parameters: Parameters, noise: LabelNoise) -> _Rates:
        """Start the strategy for each rate."""
        asks = list(next(strategy.run(parameters)))
        finest = min(ask.tolerance for ask in asks)
        most = float(noise.eta / (1 - 2 * noise.eta))
        reach = min(GRID * ask.tolerance / _width(ask) for ask in asks)
        count = math.ceil(most / (2 * reach)) + 1
        if count > MOST_RATES:
            what = f"would take {count:,} rates at a tolerance of {finest:.3g}"
            raise read.refused("eta_most", what, "allow less noise, or more error")
        runs = [strategy.run(parameters) for _ in range(count)]
        steps = cast("list[float]", np.linspace(0, 1, count).tolist())
        return cls(noise, runs, steps, most / (count - 1) / 2, finest, [tuple(next(run)) for run in runs])

    @property
    def pending(self) -> list[Ask]:
        """What is to be asked now; nothing if all have learned."""
        self._undone, questions = {}, dict[Ask, int]()
        for ask in (each for asks in self.asked if not isinstance(asks, Hypothesis) for each in asks):
            if ask not in self._undone:
                within = replace(ask, tolerance=self._within(ask))
                undone = self._undo(within)
                # What undoes η₀ may ask the question itself, too, and more sharply.
                own = next((each for each in undone[0] if each.query == ask.query), within)
                numbers = [questions.setdefault(each, len(questions)) for each in (own, *undone[0])]
                self._undone[ask] = undone, numbers
        return list(questions)

    def _undo(self, ask: Ask) -> Undone:
        """What undoes η₀, the cheaper way: joined in one question, or apart."""
        if isinstance(ask.query, CellQuery):
            return self.noise.undone(ask)
        most = float(self.noise.eta / (1 - 2 * self.noise.eta))
        apart = ((1 + most) ** (2 / 3) + most ** (2 / 3)) ** 3
        return self.noise.apart(ask) if apart < 1 + (1 + 2 * most) ** 2 else self.noise.undone(ask)

    def _within(self, ask: Ask) -> float:
        """The tolerance that the distance of rates leaves."""
        within = ask.tolerance - _width(ask) * self.reach
        if within < ask.tolerance / 2:
            what = f"is asked at {ask.tolerance:.3g}, more sharply than in the first round"
            raise ProtocolError(what, where="tolerance", remedy="leave out eta_most")
        return within

    def answer(self, answers: Sequence[Answer]) -> None:
        """Send each run the answers for its rate, and take its next asks."""
        found = dict[Ask, tuple[Answer, Answer]]()
        for ask, ((_, undo), [as_it_is, *others]) in self._undone.items():
            found[ask] = answers[as_it_is], undo([answers[number] for number in others])
        for number, (run, step, asks) in enumerate(zip(self.runs, self.steps, self.asked, strict=True)):
            if isinstance(asks, Hypothesis):
                continue
            try:
                self.asked[number] = tuple(run.send([_between(*found[ask], step) for ask in asks]))
            except StopIteration as learned:
                self.asked[number] = cast("Hypothesis", learned.value)

    @property
    def learned(self) -> list[Hypothesis]:
        """The hypotheses of all rates, each once."""
        every = cast("Iterable[Hypothesis]", self.asked)
        once: Mapping[bytes, Hypothesis] = {dumps(cast("Json", each.value)): each for each in every}
        return list(once.values())


def _between(right: Answer, most: Answer, step: float) -> Answer:
    """The answer for a rate, from those for none and for the most noise."""
    if isinstance(right, np.ndarray) or isinstance(most, np.ndarray):
        return (1 - step) * np.asarray(right, np.float64) + step * np.asarray(most, np.float64)
    return (1 - step) * right + step * most


def _width(ask: Ask) -> float:
    """How far the answers over right and over flipped labels are apart at most."""
    narrow = isinstance(ask.query, BooleanQuery) or (isinstance(ask.query, CellQuery) and ask.query.negative is None)
    return 1.0 if narrow else 2.0
