"""What the strategies for heavy hitters share: which strings are wanted, and what is said of those that are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from askance_protocol import parameters as read
from askance_protocol.queries.query import MAX_NODES
from askance_protocol.schema import BitsField, CategoryField, Schema
from askance_protocol.text import counted
from askance_server.core.strategy import Asking, Estimate, Hypothesis, Learnt, Parameters, Strategy
from askance_server.strategies.shared.column import asking_of, column, running, sharing
from askance_server.strategies.shared.sure import interval_members, interval_text

WORD: Final = 52
"""Bits that one `slice` takes."""
MOST_BITS: Final = 4 * WORD
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

        return asking_of(strategy, example, ask, portions, heavy_in)

    strategy = Strategy(
        name=name,
        summary=summary,
        interactive=rounds > 1,
        rounds=rounds,
        schema=schema,
        run=running(ask, heavy),
        portions_for=sharing(portions, heavy),
        longest="ones",
        over=over,
        fields=fields,
        promise=promise,
        error=error,
        examples="strings",
        small={"d": 4, "share": "0.2"},
    )
    return strategy


def bits(name: str, example: Schema, most: int) -> BitsField:
    """The field of this name, if it is a string of so many bits at most."""
    field = example.field(name)
    if not isinstance(field, BitsField) or field.width > most:
        listed = isinstance(field, CategoryField)
        other = "; values that are known beforehand: askance survey --ask 'histogram(…)'" if listed else ""
        raise read.refused("column", f"is no string of {most} bits at most", f"name a field of bits{other}")
    return field
