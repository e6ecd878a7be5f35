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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.parameters import Parameters
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, And, AnyTest, Compare, If, Integer, Slice, Term
from askance_protocol.queries.query import MAX_NODES
from askance_protocol.schema import BitsField, Schema
from askance_protocol.text import counted
from askance_server.core.strategy import LEVEL, Ask, Asking, Estimate, Hypothesis, Learnt, Strategy, estimates_in
from askance_server.strategies.shared.column import column
from askance_server.strategies.shared.sure import interval_members, interval_text

CELLS: Final = 1 << 14
"""Cells of a round, at most."""
WORD: Final = 52
"""Bits that one `slice` takes."""
MOST_BITS: Final = 4 * WORD
ROUNDS: Final = 24
OWN: Final = "x"


@dataclass(frozen=True, slots=True)
class Heavy:
    """Which strings are wanted: of which field, and from which share on."""

    field: BitsField
    share: Fraction

    @classmethod
    def of(cls, field: BitsField, parameters: Parameters) -> Heavy:
        """As the parameters say."""
        heavy = cls(field, read.decimal(parameters, "share", below=1, default="0.1"))
        if field.width > MOST_BITS:
            raise read.refused("d", f"is more than {MOST_BITS} bits", "take a hash of the string, or a part of it")
        if heavy.most > heavy.room:
            least = f"{2 / heavy.room + 0.0005:.3f}"
            raise read.refused("share", f"is too small for {field.width} bits", f"give {least} or more")
        return heavy

    @property
    def tolerance(self) -> Fraction:
        """Within which each share has to be known."""
        return self.share / 4

    @property
    def most(self) -> int:
        """Strings, or prefixes, that can be kept."""
        return int(2 / self.share)

    @property
    def room(self) -> int:
        """Prefixes that one query has room for: each takes a test of its words, and what goes around it."""
        return (MAX_NODES - 4) // (4 + 3 * -(-self.field.width // WORD))


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


def hypothesis(heavy: Heavy, strings: Sequence[str], shares: Sequence[float], found: Sequence[Estimate]) -> Hypothesis:
    """The strings that were found, the most frequent first."""
    members: dict[str, object] = {"strings": list(strings), "shares": [each.estimate for each in found] or list(shares)}
    text = f"{counted(len(strings), 'string')} with {float(heavy.share):g} of the users or more"
    if strings:
        first = interval_text(found[0]) if found else f"asked to within {float(heavy.tolerance):g}"
        text += f", the first {strings[0]}: {float(shares[0]):.4g} ({first})"
    return Hypothesis(text, {**members, **interval_members(found)})


def error(learned: Learnt, truth: Learnt) -> float:
    """The most that it is wrong by about the share of any string: one that is not listed is taken to have none."""
    said: Mapping[str, float] = dict(zip(learned["strings"], learned["shares"], strict=True))
    true: Mapping[str, Any] = truth["shares"]
    return max((abs(said.get(each, 0.0) - true.get(each, 0.0)) for each in {*said, *true}), default=0.0)


def promise(parameters: Parameters) -> float:
    """No string with this share is missed, and no listed one's share is wrong by so much."""
    return float(read.decimal(parameters, "share", below=1, default="0.1"))


def fields(parameters: Parameters) -> Sequence[str]:
    """The field that is asked about."""
    return (str(parameters.get("column", OWN)),)


def heavy_hitters(
    name: str,
    summary: str,
    ask: Callable[[Heavy], Asking],
    *,
    rounds: int,
    most: int = MOST_BITS,
    portions: Callable[[Heavy], tuple[int, ...]] | None = None,
) -> Strategy:
    """A strategy that asks so for the strings that many have."""

    def schema(parameters: Parameters) -> Schema:
        read.only(parameters, "d", "share")
        field = BitsField(name=OWN, width=read.whole(parameters, "d", 1, most))
        Heavy.of(field, parameters)
        return Schema(fields=(field,))

    def heavy(parameters: Parameters) -> Heavy:
        return Heavy.of(bits(OWN, schema(parameters), most), parameters)

    def over(example: Schema) -> Strategy | None:
        [field, *others] = example.fields
        if not others and isinstance(field, BitsField) and field.name == OWN:
            return None

        def heavy_in(parameters: Parameters) -> Heavy:
            read.only(parameters, "column", "share")
            return Heavy.of(bits(column(parameters, example), example, most), parameters)

        def schema_of(parameters: Parameters) -> Schema:
            heavy_in(parameters)
            return example

        return replace(strategy, schema=schema_of, error=None, examples=None, **asked(heavy_in))

    def asked(heavy: Callable[[Parameters], Heavy]) -> dict[str, Any]:
        shared = None if portions is None else lambda parameters: portions(heavy(parameters))
        return {"run": lambda parameters: ask(heavy(parameters)), "portions_for": shared}

    strategy = Strategy(
        name=name,
        summary=summary,
        interactive=rounds > 1,
        rounds=rounds,
        schema=schema,
        **asked(heavy),
        over=over,
        fields=fields,
        promise=promise,
        error=error,
        examples="strings",
        small={"d": 8, "share": "0.2"},
    )
    return strategy


def bits(name: str, example: Schema, most: int) -> BitsField:
    """The field of this name, if it is a string of so many bits at most."""
    field = example.field(name)
    if not isinstance(field, BitsField) or field.width > most:
        raise read.refused("column", f"is no string of {most} bits at most", "name a field of bits")
    return field


HEAVY_HITTERS: Final = heavy_hitters(
    "heavy-hitters",
    "The strings that many users have, by their prefixes",
    asking,
    rounds=ROUNDS,
    portions=lambda heavy: (1,) * len(steps(heavy)),
)
