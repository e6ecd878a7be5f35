"""Real-valued queries by Boolean ones: Bshouty and Feldman, as KLNRS11, §5, quotes them.

"Given access to an SQ oracle which accepts only boolean query functions, one can simulate an oracle that accepts
real-valued functions g: D → [−b, b], and outputs E[g(u)] ± τ using O(log(b/τ)) nonadaptive queries": these ask for the
binary digits of (g + 1)/2. Here b = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, RealQuery
from askance_protocol.queries.language import MAX_ENTRIES, Affine, Clamp, Compare, Integer, Lookup, Term
from askance_protocol.schema import Schema
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy


def boolean(ask: Ask) -> list[Ask]:
    """⌈log2(2/τ)⌉ digits of a real-valued query, each within τ/4; other queries as they are."""
    if not isinstance(ask.query, RealQuery):
        return [ask]
    one, count = ask.query.denominator, max(1, math.ceil(math.log2(2 / ask.tolerance)))
    if 2 * one >= MAX_ENTRIES:
        remedy = f"use one of {MAX_ENTRIES // 2 - 1} at most"
        raise ProtocolError(f"has digits for no denominator of {one}", where="boolean", remedy=remedy)
    shifted = Affine(constant=one, terms=(Term(weight=1, of=Clamp(of=ask.query.numerator, low=-one, high=one)),))
    cut = [min((u << count) // (2 * one), (1 << count) - 1) for u in range(2 * one + 1)]
    tables = [tuple(number >> count - place & 1 for number in cut) for place in range(1, count + 1)]
    tests = [Compare(left=Lookup(index=shifted, table=table), relation="=", right=Integer(of=1)) for table in tables]
    return [Ask(BooleanQuery(test=test), ask.tolerance / 4) for test in tests]


def recombined(ask: Ask, answers: Sequence[Answer]) -> Answer:
    """E[g] within τ: truncation costs at most τ/2, and the digits Σ 2·2^(−place)·τ/4."""
    if not isinstance(ask.query, RealQuery):
        return answers[0]
    half = sum(float(answer) / 2**place for place, answer in enumerate(answers, 1)) + 0.5 ** (len(answers) + 1)
    return 2 * half - 1


def bshouty_feldman(strategy: Strategy) -> Strategy:
    """The same strategy with Boolean (and cell) queries only, in the same number of rounds."""

    def run(parameters: Parameters) -> Asking:
        asking, answers = strategy.run(parameters), cast("list[Answer]", None)
        while True:
            try:
                asks = [(ask, boolean(ask)) for ask in asking.send(answers)]
            except StopIteration as learned:
                return cast("Hypothesis", learned.value)
            given = iter((yield [digit for _, digits in asks for digit in digits]))
            answers = [recombined(ask, [next(given) for _ in digits]) for ask, digits in asks]

    def over(example: Schema) -> Strategy:
        return bshouty_feldman(strategy.on(example))

    name = f"{strategy.name.removesuffix('-boolean')}-boolean"
    return replace(strategy, name=name, run=run, over=None if strategy.over is None else over)
