"""Heavy hitters: the strings that many users have, by their prefixes, round after round.

Theory of operation
-------------------
Strings of d bits are too many to ask for each. But whoever has a string that a share θ of the users has, has a prefix
of it that a share θ has. So the first round asks for the shares of all short prefixes, as cells of one query; each
later one asks for all ways in which those that were heavy go on (Bassily, Nissim, Stemmer and Thakurta 2017, Proc.
NeurIPS, §3, call it TreeHist). A prefix is kept at an estimate of 3θ/4 or more. With answers within θ/4 (KLNRS11,
Def. 5.4):

- each prefix of a string with share θ or more is kept, so the string is found;
- what is kept has share θ/2 or more, so that there are 2/θ at most.

A round asks for as many bits more as its cells have room for, were as many prefixes kept as can be: cells cost users by
their logarithm only, and a round costs users of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, And, AnyTest, Compare, If, Integer, Slice, Term
from askance_server.core.strategy import LEVEL, Ask, Asking, Estimate, estimates_in
from askance_server.strategies.shared.heavy_strings import WORD, Heavy, heavy_hitters, hypothesis

CELLS: Final = 1 << 14
"""Cells of a round, at most."""
ROUNDS: Final = 24


def starts(field: str, prefix: int, length: int) -> AnyTest:
    """Do the first bits stand for this number, the first bit lowest?"""
    words = tuple(
        Compare(
            left=Slice(field=field, first=first, width=min(WORD, length - first)),
            relation="=",
            right=Integer(of=prefix >> first & ((1 << min(WORD, length - first)) - 1)),
        )
        for first in range(0, length, WORD)
    )
    return words[0] if len(words) == 1 else And(of=words)


def longer(field: str, prefixes: Sequence[int], length: int, step: int) -> CellQuery:
    """How the users with these prefixes go on: the cells of the first prefix first. Who has none of them is in none."""
    cells = len(prefixes) << step
    after = Slice(field=field, first=length, width=step)
    if not length:
        return CellQuery(cells=cells, cell=after)
    mine = (
        If(test=starts(field, prefix, length), then=Integer(of=cells + (at << step)), otherwise=Integer(of=0))
        for at, prefix in enumerate(prefixes)
    )
    return CellQuery(
        cells=cells, cell=Affine(constant=-cells, terms=tuple(Term(weight=1, of=x) for x in (*mine, after)))
    )


def steps(heavy: Heavy) -> tuple[int, ...]:
    """How many bits each round asks for, if as many prefixes are kept as can be."""
    first, later = (min(heavy.field.width, (CELLS // kept).bit_length() - 1) for kept in (1, heavy.most))
    rest, last = divmod(heavy.field.width - first, later)
    return (first, *(later,) * rest, *(last,) * (last > 0))


def asking(heavy: Heavy) -> Asking:
    """Ask how the prefixes go on, until they are whole strings."""
    name, length, prefixes, shares = heavy.field.name, 0, [0], np.ones(1)
    kept, found = [0], list[Estimate]()
    for step in steps(heavy):
        answers = yield [Ask(longer(name, prefixes, length, step), float(heavy.tolerance))]
        shares = np.atleast_1d(answers[0])
        order = np.argsort(-shares, kind="stable")[: heavy.most]
        kept = [int(at) for at in order if shares[at] >= 3 * float(heavy.tolerance)]
        prefixes = [prefixes[at >> step] | (at & ((1 << step) - 1)) << length for at in kept]
        length += step
        if not kept:
            break
        sure = estimates_in(answers, 1 - (1 - LEVEL) / len(shares)) if length == heavy.field.width else ()
        found = [sure[at] for at in kept] if sure else []
    strings = [heavy.field.show(prefix) for prefix in prefixes]
    return hypothesis(heavy, strings, [float(shares[at]) for at in kept], found)


HEAVY_HITTERS: Final = heavy_hitters(
    "heavy-hitters",
    "The strings that many users have, by their prefixes",
    asking,
    rounds=ROUNDS,
    portions=lambda heavy: (1,) * len(steps(heavy)),
)
