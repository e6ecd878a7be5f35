"""KLNRS08, Thm 5.1 is false: d + 1 nonadaptive queries within its tolerance learn MASKED-PARITY from d = 8 on.

The theorem says that a nonadaptive learner whose queries have tolerance 2^{-2d/3} or more, and whose advantage is above
½ + 2^{-2d/3}, makes more than 2^d − 1 queries. Its proof counts the concepts that one query can eliminate, and takes
two to be the most; a query that is bent in x eliminates half of them all. KLNRS11, Thm 5.16 has a tolerance of 2^{-d/3}
instead, above a bent query's 2^{-d/2-1}, and stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Final

from askance_client.simulation.population import synthetic
from askance_lab.evaluation.domain import domain_of
from askance_lab.experiments.converse import LIE_SCHEDULES
from askance_lab.oracles.exact import Exact
from askance_lab.theory.masked_parity import bent_query_bias, klnrs08_nonadaptive_stated
from askance_protocol import checks
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import And, AnyTest, Compare, FieldValue, If, Integer, Not, Xor
from askance_server.core.run import Run
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import MINUS, SHOWN, dimension, schema
from askance_server.strategies.masked_parity_noninteractive import bent, dual

LARGEST: Final = 8
"""Dimension up to which all concepts are tried, each on the whole domain."""


@dataclass(frozen=True, slots=True)
class RefutationVerdict:
    """Number of concepts that the d + 1 queries learn, for any oracle within the theorem's tolerance."""

    d: int
    queries: int
    """Number that is asked, all at once."""
    claimed: int
    """Number that the theorem says is too few."""
    tolerance: float
    bias: float
    """By how much the bent query's mean differs from ½."""
    concepts: int
    learned: int
    """Number of concepts that are learned exactly, by every lie."""

    @property
    def refuted(self) -> bool:
        """Whether the theorem is false at this d."""
        return self.learned == self.concepts and self.queries <= self.claimed


def refute(d: int, tell: Callable[[int], None] = lambda _: None) -> RefutationVerdict:
    """Try every concept of MASKED-PARITY on its whole domain; `tell` is called with the number tried so far."""
    checks.between("d", d, 2, LARGEST)
    claim, learned = klnrs08_nonadaptive_stated(dimension=d), 0
    concepts = [("".join(r), a) for r in product("01", repeat=d) for a in (0, 1)]
    for number, (r, a) in enumerate(concepts, 1):
        learned += _learns(d, r, a)
        tell(number)
    return RefutationVerdict(
        d, d + 1, claim.queries, claim.tolerance, bent_query_bias(dimension=d), len(concepts), learned
    )


def _learns(d: int, r: str, a: int) -> bool:
    """Whether c_(r,a) is found for every schedule of errors."""
    population = synthetic("masked-parity", {"d": d, "r": r, "a": a}, 1)
    asks = Run(REFUTATION, {"d": d}).step(None)
    assert not isinstance(asks, Hypothesis)  # noqa: S101 - told the type checker: the first step asks
    means = Exact(domain_of(population)).answer(asks)
    return all(
        _learned(
            d, [float(mean) + lie(k) * ask.tolerance for k, (mean, ask) in enumerate(zip(means, asks, strict=True))]
        )
        == {"r": r, "a": a}
        for lie in LIE_SCHEDULES.values()
    )


def _learned(d: int, answers: list[Answer]) -> object:
    run = Run(REFUTATION, {"d": d})
    run.step(None)
    ended = run.step(answers)
    return ended.value if isinstance(ended, Hypothesis) else None


def shows(j: int) -> RealQuery:
    """The query g_j = y where i = j and b = 1, else 1: its mean is 1 if r_j = 0, and 1 − 1/d if r_j = 1."""
    names_j = Compare(left=FieldValue(field="i"), relation="=", right=Integer(of=j))
    return _signed(And(of=(names_j, SHOWN, MINUS)))


def masks(d: int) -> RealQuery:
    """The query y·(−1)^{B(x)} where b = 0, else 1: its mean is ½ ± 2^{-d/2-1}, for every r and a."""
    return _signed(And(of=(Not(of=SHOWN), Xor(of=(MINUS, bent(d))))))


def _signed(negative: AnyTest) -> RealQuery:
    """−1 where the test holds, else 1: a query with values in {+1, −1}, as in KLNRS08."""
    return RealQuery(numerator=If(test=negative, then=Integer(of=-1), otherwise=Integer(of=1)), denominator=1)


def run(parameters: Parameters) -> Asking:
    """Ask all d + 1 queries at once, each at the least tolerance that the theorem allows."""
    d = dimension(parameters)
    tolerance = klnrs08_nonadaptive_stated(dimension=d).tolerance
    *shown, masked = yield [Ask(query, tolerance) for query in (*map(shows, range(d)), masks(d))]
    r = "".join("1" if mean < 1 - 1 / (2 * d) else "0" for mean in shown)
    a = dual(r) ^ int(masked < 1 / 2)
    return Hypothesis(f"c_(r,a) with r = {r}, a = {a}", {"r": r, "a": a})


REFUTATION: Final = Strategy(
    name="masked-parity-refutation",
    summary="d + 1 nonadaptive queries, which KLNRS08 says are too few",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
)
