"""A strategy's own local protocol, simulated by statistical queries: KLNRS11, Claim 5.9 and Thm 5.14.

Theory of operation
-------------------
What a strategy learns in a study, it learns by a *local algorithm*: t users answer through ε-local randomizers, and
estimates are made of their reports (Thm 5.7). Claim 5.9 turns any such algorithm into one that makes statistical
queries: nobody reports; the t reports are made up from answers, and the strategy is sent what the estimators make of
these. So the circle closes. `simulated` is a strategy again, and any oracle answers it: a study, too, whose users
randomize once more.

*A report.* To output w as often as R does on a random user, p(w) = E_z Pr[R(z) = w], B draws w from R(0), with
probability q(w), and accepts it with probability p̃(w)/(q(w)(1 + φ)e^ε), φ = β/3t; refused, it draws again. p̃(w) has to
lie within (1 ± φ)p(w), for which the claim asks E[g], g(z) = (Pr[R(z) = w] − q(w))/(q(w)(e^ε − e^−ε)), with tolerance
τ = β/(3e^{2ε}t).

*Nonadaptively.* The claim repeats "from Step 1", so it asks after it has seen answers. Here m candidates w₁, …, w_m are
drawn beforehand, all their queries are asked at once, and the first accepted one is the report; if none is, the last
one. A candidate is accepted with probability a ≥ e^−ε(1 − φ)/(1 + φ), so none is with (1 − a)^m, which `candidates`
makes 2β/3t at most. The distance from p is φ = β/3t for what p̃ is off and that for the rest: β/t together, and β for
t reports, which is what the claim allows.

*All reports.* The claim adds up the distances of t reports, so φ is of the order of β/t. What adds up without loss is
the divergence (chain rule; also where a report's question depends on earlier ones), and by Pinsker's inequality the
distance of all is √(½Σ KL) at most. Of one report, KL ≤ χ² = Var_p(p̃/p)/(Σp̃)² ≤ (φ/(1 − φ))². So t reports are within
2β/3 of the local algorithm's where φ/(1 − φ) = (2β/3)√(2/t), and a third of β is left for candidates that all fail.
With the claim's φ a study that answers the simulation needs users by t², with this one by t. `simulated` takes the
larger φ (`SimulationAccuracy.jointly`).

*The queries.* A user of a study sees R only through the value of her question: R(z) is a channel on φ(z). Then every
g is a linear function of what the strategy asks, Pr[R(z) = w] = R(0, w) + Σ_j v_j(z)·slope_j(w), and one answer for a
question gives p̃ of every w and of every public row. Its tolerance is the largest that keeps each p̃(w) within
(1 ± φ)p(w), whoever the users are: p(w) is no less than the least Pr[R(z) = w] of the table. The claim's τ, which knows
nothing of R but its ε, asks for three times as much at ε = 1, and so for ten times as many users.
All candidates that there could be are asked about before any answer, and equal ones are asked about once, so p̃ is a
function of w. Reports are then alike and independent, and their counts are drawn as a whole, from the exact
distribution of a report (`made_up`).

The local algorithm asks every question by one bit, or by k-ary response where its strategy wants that. t reports are
shared out as a study shares its users: rounds by their portions, the parts of a round by their shares.
B's own coins need not be secret: they come from the study's digest, so a replay makes up the same reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from askance_protocol import checks, hadamard
from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import Channel
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.rounds import PreparedPart, StudySpec
from askance_protocol.rounds.prepared import PreparedParts
from askance_protocol.tally import Tally
from askance_protocol.text import counted
from askance_server.core import planning
from askance_server.core.estimators import estimated
from askance_server.core.strategy import Answer, Ask, Asking, Parameters, Strategy

_WORDS: Final = 2.0**64


@dataclass(frozen=True, slots=True)
class SimulationAccuracy:
    """Statistical distance β allowed to the simulation of a local algorithm with t queries."""

    t: int
    beta: float
    jointly: bool = False
    """Whether divergences of reports are added up, and not their distances, as the text does."""

    def __post_init__(self) -> None:
        checks.count("t", self.t)
        checks.require(0 < self.beta <= 1, "must be above 0 and at most 1", where="beta", remedy="try 0.1")

    @property
    def phi(self) -> float:
        """φ = β/3t, the relative error allowed to p̃(w): Claim 5.9, (5). Jointly: see the theory of operation."""
        if not self.jointly:
            return self.beta / (3 * self.t)
        odds = 2 * self.beta / 3 * math.sqrt(2 / self.t)
        return min(odds / (1 + odds), 1 / 3)

    @property
    def failure(self) -> float:
        """With what probability all candidates of a report may be refused."""
        return self.beta / (3 * self.t) * (1 if self.jointly else 2)

    def tau(self, epsilon: float) -> float:
        """τ = φ/e^{2ε} = β/(3e^{2ε}t): Claim 5.9, step 2."""
        return self.phi / math.exp(2 * epsilon)


def candidates(epsilon: float, accuracy: SimulationAccuracy) -> int:
    """Number of w to draw at once, so that all of them are refused with this probability at most: no loop."""
    accept = math.exp(-epsilon) * (1 - accuracy.phi) / (1 + accuracy.phi)
    return math.ceil(math.log(accuracy.failure) / math.log1p(-accept)) if accept < 1 else 1


def acceptance(q: Floats, estimate: Floats, epsilon: float, phi: float) -> Floats:
    """Step 4: with which probability each w is accepted; a probability whatever the answers are."""
    return np.clip(estimate / (np.maximum(q, np.finfo(float).tiny) * (1 + phi) * math.exp(epsilon)), 0, 1)


def at_once(accept: Floats, drawn: Integers, random: np.random.Generator) -> Integers:
    """Step 4 on candidates that were drawn beforehand, a row for each report: the first accepted one, or the last."""
    taken = random.random(drawn.shape) < accept[drawn]
    taken[:, -1] = True
    return drawn[np.arange(len(drawn)), taken.argmax(axis=1)]


def at_once_distribution(q: Floats, accept: Floats, number: int) -> Floats:
    """The exact distribution of `at_once` on so many candidates from q."""
    taken = q @ accept
    # (1 − (1 − a)^m)/a: how many candidates are looked at, on average.
    looked_at = float(number) if taken == 0 else -math.expm1(number * math.log1p(-taken)) / taken if taken < 1 else 1.0
    refused = (1 - taken) ** (number - 1)
    return q * accept * looked_at + refused * q * (1 - accept)


# ------------------------------------------------------------------------------------------------------- one question


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedPart:
    """A question whose reports are made up: Pr[R(z) = w] as a linear function of what the question asks of z."""

    part: PreparedPart
    reports: int
    epsilon: float
    base: Floats
    """Pr[R = w] where what is asked is 0."""
    slopes: Floats
    """By how much each Pr[R = w] grows with each number that is asked; of a pooled part, with H·v in a row."""
    q: Floats
    """Pr[R(0) = w], from which candidates are drawn."""
    least: Floats
    """The least Pr[R(z) = w] of all z."""

    @classmethod
    def of(cls, part: PreparedPart, reports: int) -> SimulatedPart:
        """The question as users would be asked it."""
        query, channel = part.query.query, part.channel
        epsilon = channel.certified_micro_epsilon / 1e6
        if isinstance(query, CellQuery) and not part.pooled:
            table = np.array([_row(channel, given) for given in range(channel.inputs)])
            return cls(part, reports, epsilon, table[0], (table - table[0]).T, table[0], table.min(axis=0))
        low, high = _row(channel, 0), _row(channel, channel.inputs - 1)
        if isinstance(query, CellQuery | RealQuery):
            middle, half = (low + high) / 2, (high - low) / 2
            return cls(part, reports, epsilon, middle, half[:, np.newaxis], middle, np.minimum(low, high))
        return cls(part, reports, epsilon, low, (high - low)[:, np.newaxis], low, np.minimum(low, high))

    def tolerance(self, accuracy: SimulationAccuracy) -> float:
        """Within what the question is to be answered for each p̃(w) to be within (1 ± φ)p(w): Claim 5.9, (5)."""
        query = self.part.query.query
        cells = query.cells if isinstance(query, CellQuery) and self.part.pooled else 1
        steepest = np.abs(self.slopes).sum(axis=1) * cells
        moved = steepest > 0
        return float((self.least[moved] / steepest[moved]).min()) * accuracy.phi

    def estimates(self, answer: Answer) -> Floats:
        """p̃(w), a row for each public row: Claim 5.9, step 3."""
        asked = np.atleast_1d(np.asarray(answer, np.float64))
        if self.part.pooled:
            signs = np.zeros(self.part.rows)
            signs[: len(asked)] = asked
            # It adds and subtracts whatever numbers there are.
            rows = cast("Floats", hadamard.transform(cast("Integers", signs)))
            return self.base + rows[:, np.newaxis] * self.slopes[:, 0]
        return (self.base + self.slopes @ asked)[np.newaxis]

    def made_up(self, answer: Answer, accuracy: SimulationAccuracy, random: np.random.Generator) -> Tally:
        """The tally of reports that nobody has sent."""
        number = candidates(self.epsilon, accuracy)
        rows = self.estimates(answer)
        each = random.multinomial(self.reports, np.full(len(rows), 1 / len(rows)))
        found = [
            at_once_distribution(self.q, acceptance(self.q, row, self.epsilon, accuracy.phi), number) for row in rows
        ]
        counts = [random.multinomial(many, row / row.sum()) for many, row in zip(each, found, strict=True)]
        return Tally(np.array(counts, np.int64))


def _row(channel: Channel, given: int) -> Floats:
    return np.array([weight / _WORDS for weight in channel.weights(given)])


# --------------------------------------------------------------------------------------------------------- a strategy


def simulated(strategy: Strategy, study: StudySpec, reports: int) -> Strategy:
    """The strategy as a local algorithm of so many reports, all of which are made up by statistical queries."""
    terms = planning.terms_of(study.parameters)
    accuracy = SimulationAccuracy(reports, terms.beta, jointly=True)
    seed = int(study.digest(), 16)

    def run(parameters: Parameters) -> Asking:
        asking, answers = strategy.run(parameters), cast("list[Answer]", None)
        number, left = 0, reports
        while True:
            try:
                asks = [_by_one_bit(ask) for ask in asking.send(answers)]
            except StopIteration as learned:
                return learned.value
            number += 1
            some = int(left * strategy.portion(min(number, strategy.rounds)))
            left -= some
            parts = _parts(study, strategy, asks, some)
            said = yield [
                Ask(ask.query, part.tolerance(accuracy), share=ask.share) for ask, part in zip(asks, parts, strict=True)
            ]
            random = np.random.default_rng([number, seed])
            answers = [
                _answer(part, part.made_up(each, accuracy, random)) for part, each in zip(parts, said, strict=True)
            ]

    # What is made up has noise: after no answers is it known what the strategy will ask.
    return replace(strategy, run=run, longest=None)


def _parts(study: StudySpec, strategy: Strategy, asks: Sequence[Ask], reports: int) -> list[SimulatedPart]:
    """The questions of a round, and how many of its reports each has: by their shares, as the coin deals them."""
    planned = planning.demand(study, asks, strategy.rounds)
    prepared = PreparedParts(planned.parts, study.example)
    shares = np.array([part.share for part in planned.parts], np.float64)
    dealt = np.floor(np.cumsum(shares) / shares.sum() * reports + 1e-9).astype(np.int64)
    each = np.diff(dealt, prepend=0)
    if not each.all():
        what = f"are too few for {counted(len(asks), 'question')} of one round"
        raise ProtocolError(what, where="parameters.simulated_reports", remedy="simulate more")
    return [SimulatedPart.of(part, int(some)) for part, some in zip(prepared, each, strict=True)]


def _by_one_bit(ask: Ask) -> Ask:
    """How the local algorithm asks: every question by one bit, unless it wants the cells by name."""
    return replace(ask, channel="kary" if ask.channel == "kary" else "binary")


def _answer(part: SimulatedPart, tally: Tally) -> Answer:
    values = estimated(part.part, tally)
    return values if isinstance(part.part.query.query, CellQuery) else float(values[0])
