"""The converse: statistical queries simulate local randomizers. KLNRS11, Lemma 5.8, Claims 5.9 and 5.10.

Whatever a local algorithm learns, an SQ algorithm learns: it never sees a report, it makes the reports up. To output w
as often as R does on a random user, it draws w from R(0), asks the oracle how much more likely w is among the users,
and accepts w with a probability that makes up for the difference: e^ε at most, as R is ε-private.

Claim 5.9's B asks again after a refusal; `Simulation.reports_at_once` is the nonadaptive one (`core.converse` has its
theory of operation, and a whole strategy that is simulated so).

The probabilities of a randomizer are those of its channel's integer table, so R is transparent (Def. 5.13) to the last
bit. What is simulated here is a distribution, and floats suffice.

Where a text is silent or wrong: Claim 5.10 estimates a ratio, to within (1 ± β/t), and then "as in Claim 5.9" divides
by (1 + β/3t): the acceptance could exceed 1. Here it divides by 1 + β/t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import Channel
from askance_protocol.errors import ProtocolError
from askance_server.core.converse import SimulationAccuracy, acceptance, at_once, at_once_distribution, candidates

LieSchedule: TypeAlias = Callable[[int], float]
"""By how many tolerances the answer to the k-th query is wrong: a number in [−1, 1]."""
NextRandomizer: TypeAlias = Callable[[Sequence[int]], "TransparentRandomizer"]
"""What a user's next randomizer is, given what the ones before put out: an interactive local algorithm's choice."""

LIE_SCHEDULES: Final[Mapping[str, LieSchedule]] = {
    "none": lambda _: 0.0,
    "up": lambda _: 1.0,
    "down": lambda _: -1.0,
    "up-down": lambda k: (-1.0) ** k,
    "down-up": lambda k: -((-1.0) ** k),
}
"""What an oracle may say within its tolerance: the truth, and the four schedules that use all of it."""

_WORDS: Final = 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class TransparentRandomizer:
    """R: D → W as a table, Pr[R(z) = w] for each z (rows) and w (columns), and its ε."""

    probabilities: Floats
    epsilon: float

    @classmethod
    def of(cls, channel: Channel) -> TransparentRandomizer:
        """Table of a channel, with its certified ε."""
        table = np.array([[weight / _WORDS for weight in row] for row in channel.table()])
        return cls(table, channel.certified_micro_epsilon / 1e6)

    def on(self, users: Floats) -> Floats:
        """Distribution of a random user's report, p(w) = Pr_{z∼D}[R(z) = w], which the simulation has to match."""
        return users @ self.probabilities


@dataclass(slots=True)
class QueryOracle:
    """SQ_D: E_{z∼D}[g(z)], each answer as wrong as its tolerance allows. KLNRS11, Def. 5.4."""

    users: Floats
    """D: how likely each z is."""
    lie: LieSchedule = lambda _: 0.0
    queries: int = 0

    def ask(self, g: Floats, tau: float) -> float:
        """Answer one query; g has a value in [−1, 1] for each z."""
        if np.abs(g).max() > 1 + 1e-9:
            raise ProtocolError(f"takes values up to {np.abs(g).max():g}", where="g", remedy="scale it to [-1, 1]")
        self.queries += 1
        return float(self.users @ g) + tau * self.lie(self.queries - 1)


@dataclass(slots=True)
class Simulation:
    """B_{R,ε}: simulates a local algorithm's reports by statistical queries."""

    oracle: QueryOracle
    accuracy: SimulationAccuracy
    random: np.random.Generator
    tries: list[int] = field(default_factory=list[int])
    """Number of draws that each output took: 2e^ε at most, in expectation."""

    def report(self, randomizer: TransparentRandomizer) -> int:
        """Simulated report of a fresh user. Claim 5.9."""
        return self._draw(randomizer, lambda w: estimate(randomizer, w, self.oracle, self.accuracy), self.accuracy.phi)

    def reports(self, first: TransparentRandomizer, *more: NextRandomizer) -> list[int]:
        """Simulated reports of several randomizers about the same user. Claim 5.10."""
        outputs = [self.report(first)]
        past = first.probabilities[:, outputs[0]]
        spent = first.epsilon
        for choose in more:
            randomizer = choose(tuple(outputs))
            spent += randomizer.epsilon
            outputs.append(self._after(randomizer, past, spent))
            past = past * randomizer.probabilities[:, outputs[-1]]
        return outputs

    def reports_at_once(self, randomizer: TransparentRandomizer, number: int) -> Integers:
        """Simulated reports of so many users, by queries all of which are asked before the first answer is used.

        Claim 5.9 calls its B nonadaptive, and repeats from step 1. Here the candidates of all its tries are drawn
        beforehand, enough of them that none of a report's is accepted with a probability of 2β/3t at most, and what
        is equal among them is asked about once.
        """
        q = randomizer.probabilities[0]
        drawn = self.random.choice(len(q), (number, candidates(randomizer.epsilon, self.accuracy)), p=q / q.sum())
        estimated = np.zeros(len(q))
        for w in np.unique(drawn).tolist():
            estimated[w] = estimate(randomizer, w, self.oracle, self.accuracy)
        accept = acceptance(q, estimated, randomizer.epsilon, self.accuracy.phi)
        return at_once(accept, drawn, self.random)

    def _after(self, randomizer: TransparentRandomizer, past: Floats, spent: float) -> int:
        """Report given the earlier ones, whose joint probability on each z is `past`."""
        tau = self.accuracy.tau(spent)
        before = expectation(past, spent, self.oracle, tau)  # p₂: the same for every w

        def ratio(w: int) -> float:
            return expectation(past * randomizer.probabilities[:, w], spent, self.oracle, tau) / before

        # (1 ± τ')/(1 ± τ') lies within 1 ± 3τ' = 1 ± β/t, as τ' ≤ 1/3.
        return self._draw(randomizer, ratio, 3 * self.accuracy.phi, spent)

    def _draw(
        self,
        randomizer: TransparentRandomizer,
        estimated: Callable[[int], float],
        phi: float,
        epsilon: float | None = None,
    ) -> int:
        """Steps 1 and 4: draw from R(0), accept with probability in proportion."""
        bound = math.exp(randomizer.epsilon if epsilon is None else epsilon)
        q = randomizer.probabilities[0]
        tries = 0
        while True:
            tries += 1
            w = int(self.random.choice(len(q), p=q / q.sum()))
            accept = estimated(w) / (q[w] * (1 + phi) * bound)
            if not -1e-9 <= accept <= 1 + 1e-9:
                raise ProtocolError(f"{accept:g} is no probability", where="step 4", remedy="is the channel ε-private?")
            if self.random.random() < accept:
                self.tries.append(tries)
                return w


def estimate(randomizer: TransparentRandomizer, w: int, oracle: QueryOracle, accuracy: SimulationAccuracy) -> float:
    """p̃(w), within (1 ± φ)p(w). Claim 5.9, steps 2 and 3."""
    return expectation(randomizer.probabilities[:, w], randomizer.epsilon, oracle, accuracy.tau(randomizer.epsilon))


def expectation(r: Floats, epsilon: float, oracle: QueryOracle, tau: float) -> float:
    """E_{z∼D}[r(z)], r(z)/r(0) in e^{±ε}, by a query with values in [−1, 1]: Claim 5.9, step 2; 5.10, g₁ and g₂."""
    scale = r[0] * (math.exp(epsilon) - math.exp(-epsilon))
    return oracle.ask((r - r[0]) / scale, tau) * scale + float(r[0])


def output(
    randomizer: TransparentRandomizer, oracle: QueryOracle, accuracy: SimulationAccuracy
) -> tuple[Floats, float]:
    """The exact distribution of `report`, for an oracle whose lie depends on the order of w only; and E[tries]."""
    outcomes = range(randomizer.probabilities.shape[1])
    estimated = np.array([estimate(randomizer, w, oracle, accuracy) for w in outcomes])
    terminate = estimated.sum() / ((1 + accuracy.phi) * math.exp(randomizer.epsilon))
    return estimated / estimated.sum(), float(1 / terminate)


def output_at_once(randomizer: TransparentRandomizer, oracle: QueryOracle, accuracy: SimulationAccuracy) -> Floats:
    """The exact distribution of `reports_at_once`, for an oracle whose lie depends on the order of w only."""
    outcomes = range(randomizer.probabilities.shape[1])
    estimated = np.array([estimate(randomizer, w, oracle, accuracy) for w in outcomes])
    q = randomizer.probabilities[0]
    accept = acceptance(q, estimated, randomizer.epsilon, accuracy.phi)
    return at_once_distribution(q, accept, candidates(randomizer.epsilon, accuracy))


def distance(p: Floats, q: Floats) -> float:
    """Statistical (total variation) distance."""
    return float(np.abs(p - q).sum() / 2)
