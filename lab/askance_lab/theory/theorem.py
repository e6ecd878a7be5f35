"""Theorems as frozen records: a text's statement, and its formulas as plain functions.

Each module of this package ends with its `THEOREMS`; `theorems()` finds them all. A formula is a pure function of
keyword parameters. A record's formulas need not take the same parameters: each is given those that it takes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from askance_protocol import discovery
from askance_protocol.errors import ProtocolError, UsageError
from askance_protocol.text import one_of, quoted

Number: TypeAlias = int | float | bool
Formula: TypeAlias = Callable[..., Any]
"""Takes keyword parameters only; gives a number, or a NamedTuple of numbers or of such tuples."""

_LONGEST_POWER: Final = 14_000
"""Bits of the largest power that is read: Python writes no whole number of more than 4,300 digits."""


class Kind(StrEnum):
    """What the number that a theorem gives means for planning."""

    ENOUGH = "enough"
    """With this many it works."""
    LIMIT = "limit"
    """With fewer, or beyond this, those for whom it holds (`HoldsFor`) cannot do it."""
    PRICE = "price"
    """What a mechanism costs: noise, error, probability, privacy."""
    FALSE = "false"
    """What the text claims does not hold."""
    SHAPE = "shape"
    """What an algorithm asks for or does: queries, rounds, levels."""


class HoldsFor(StrEnum):
    """Whom a limit binds. Users give one ε-local report each unless the record says otherwise."""

    ONE_REPORT = "any single report"
    BINARY_REPORT = "a single report by binary response"
    ONE_ROUND = "learners in one round"
    """Every question is chosen before the first report. Says nothing about learners in several rounds."""
    ANY_ROUNDS = "learners in any number of rounds"
    """Questions may depend on all earlier reports. One round is one of the numbers."""
    NONADAPTIVE_QUERIES = "learners by nonadaptive statistical queries"
    QUERIES = "learners by statistical queries, adaptive or not"
    SANITIZERS = "sanitizers with δ = 0, run by a trusted curator"


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a theorem: its name in the code, its symbol in the texts, and an example value."""

    name: str
    symbol: str
    """Also what `--set` takes, with Greek letters spelled."""
    meaning: str
    type: type[int] | type[float] | type[bool]
    example: Number

    @property
    def shown(self) -> str:
        """Name, with the symbol if that differs."""
        return self.name if self.symbol == self.name else f"{self.name} ({self.symbol})"

    def at(self, example: Number, meaning: str = "") -> Parameter:
        """The same parameter with another example or meaning."""
        return replace(self, example=example, meaning=meaning or self.meaning)

    def read(self, text: str) -> Number:
        """Parse a value from text: 64, 0.05, 1/8, 2^64, true."""
        try:
            return self._read(text.strip().lower())
        except (ValueError, ZeroDivisionError, OverflowError):
            kinds = {
                int: "a whole number such as 64 or 2^64",
                float: "a number such as 0.05 or 1/8",
                bool: "true or false",
            }
            raise UsageError(
                f"{quoted(text, 40)} is not {kinds[self.type]}",
                where=self.name,
                remedy=f"try {self.name}={self.example}",
            ) from None

    def _read(self, text: str) -> Number:
        if self.type is bool:
            if text not in ("true", "false"):
                raise ValueError(text)
            return text == "true"
        base, power, exponent = text.partition("^")
        if power:
            if abs(int(exponent)) * max(1, int(base).bit_length()) > _LONGEST_POWER:
                raise OverflowError
            value = Fraction(int(base)) ** int(exponent)
        else:
            value = Fraction(text)
        if self.type is float:
            return float(value)
        if value.denominator != 1:
            raise ValueError(text)
        return int(value)


DIMENSION: Final = Parameter("dimension", "d", "bits of an example", int, 64)
EPSILON: Final = Parameter("epsilon", "ε", "privacy: ε", float, 1.0)
DELTA: Final = Parameter("delta", "δ", "privacy: δ", float, 1e-6)
ERROR: Final = Parameter("error", "α", "error that is allowed", float, 0.1)
FAILURE: Final = Parameter("failure", "β", "probability with which it may fail", float, 0.05)
TOLERANCE: Final = Parameter("tolerance", "τ", "how far an answer may be off", float, 0.05)
QUERIES: Final = Parameter("queries", "t", "number of statistical queries", int, 100)
BOUND: Final = Parameter("bound", "b", "largest absolute value of a query", float, 1.0)
CONSTANT: Final = Parameter("constant", "c", "the constant that the text leaves open", float, 1.0)
EXAMPLES: Final = Parameter("examples", "n", "number of examples", int, 1000)
VC: Final = Parameter("vc", "VC", "VC dimension of the class", int, 1)


@dataclass(frozen=True, slots=True)
class Computed:
    """Value of a formula at given parameters, field by field, or why it refuses them."""

    formula: str
    fields: Mapping[str, Number] = field(default_factory=dict[str, Number])
    refusal: ProtocolError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Theorem:
    """A statement of a text: as stated, as repaired where its proof slips, and sharper where it can be."""

    name: str
    title: str
    citation: str
    """Text and number."""
    says: str
    """One plain sentence."""
    kind: Kind
    gives: str
    """What a plain number of the stated, repaired and sharp form counts: users, examples, noise, …"""
    parameters: tuple[Parameter, ...]
    stated: Formula | None = None
    """To the letter of the text: to draw or to compare, never to plan with."""
    repaired: Formula | None = None
    """What the proof gives once its slip is mended, with the constants that are proved."""
    sharp: Formula | None = None
    """Better than the text's own argument."""
    others: tuple[Formula, ...] = ()
    """Further formulas that belong to it: what the above are made from."""
    needs: str = ""
    """Pre-conditions, in words."""
    assumes: str = ""
    """What is taken for granted and not proved. Where it is empty, all is proved."""
    holds_for: HoldsFor | None = None
    """Whom a limit binds. Every limit says it, and no other kind does."""
    differs: str = ""
    """What is wrong in the text, and why."""
    traps: tuple[int, ...] = ()
    """Numbers of docs/theory.md and docs/errata.md."""
    checked_by: tuple[str, ...] = ()
    """Tests, as module::function below tests/."""

    def __post_init__(self) -> None:
        """Refuse a limit that does not say for whom it holds."""
        if (self.kind is Kind.LIMIT) != (self.holds_for is not None):
            what, remedy = "a limit, and nothing else, says for whom it holds", "set holds_for on each limit"
            raise ProtocolError(what, where=self.name, remedy=remedy)

    @property
    def means(self) -> str:
        """Kind of its number; of a limit also for whom it holds."""
        return self.kind if self.holds_for is None else f"{self.kind} for {self.holds_for}"

    @property
    def forms(self) -> dict[str, Formula]:
        """Formulas of the theorem: stated, repaired, sharp if there is one, others by their function's name."""
        forms = {"stated": self.stated, "repaired": self.repaired, "sharp": self.sharp}
        return {name: each for name, each in forms.items() if each is not None} | {
            each.__name__: each for each in self.others
        }

    def parameter(self, name: str) -> Parameter:
        """Parameter with this name or symbol; a Greek symbol may be spelled out."""
        for each in self.parameters:
            if name in {each.name, each.symbol, _SPELLED.get(each.symbol, each.symbol)}:
                return each
        known = ", ".join(each.shown for each in self.parameters)
        raise UsageError(f"is not a parameter of {self.name}", where=name, remedy=f"it has {known}")

    def values(self, given: Mapping[str, Number]) -> dict[str, Number]:
        """Value for each parameter: the given one, or its example. Refuses unknown parameters."""
        found = {self.parameter(name).name: value for name, value in given.items()}
        if len(found) < len(given):
            raise UsageError("is given twice", where=", ".join(given), remedy="give each parameter once")
        return {each.name: found.get(each.name, each.example) for each in self.parameters}

    def compute(self, given: Mapping[str, Number] | None = None) -> dict[str, Computed]:
        """Evaluate every formula at these parameters. Raises only if all of them refuse."""
        values = self.values(given or {})
        computed = {
            name: _computed(formula, values, "value" if formula in self.others else self.gives)
            for name, formula in self.forms.items()
        }
        refusals = [each.refusal for each in computed.values() if each.refusal is not None]
        if len(refusals) == len(computed):
            raise refusals[0]
        return computed


def takes(formula: Formula) -> tuple[str, ...]:
    """Parameters of a formula."""
    return tuple(inspect.signature(formula).parameters)


def theorems() -> dict[str, Theorem]:
    """All records of this package by name, module by module: each module's own `THEOREMS`."""
    found = dict[str, Theorem]()
    for each in _records():
        if each.name in found:
            raise ProtocolError("two theorems have this name", where=each.name, remedy="rename one of them")
        found[each.name] = each
    return found


def theorem(name: str) -> Theorem:
    """Record of this name."""
    found = theorems()
    if name not in found:
        near = [each for each in found if name.lower() in each]
        remedy = f"one of: {', '.join(near)}" if near else one_of(name, found)
        raise UsageError("there is no such theorem", where=name, remedy=remedy)
    return found[name]


def _records() -> Iterator[Theorem]:
    folder = import_module(__name__.rpartition(".")[0])
    for several in cast("Iterator[tuple[Theorem, ...]]", discovery.records(folder, "THEOREMS", tuple)):
        yield from several


_SPELLED: Final = {"α": "alpha", "β": "beta", "δ": "delta", "ε": "epsilon", "η": "eta", "τ": "tau", "φ": "phi"}


def _computed(formula: Formula, values: Mapping[str, Number], gives: str) -> Computed:
    try:
        fields = dict(_fields(formula(**{name: values[name] for name in takes(formula)}), gives))
    except ProtocolError as refusal:
        return Computed(formula.__name__, refusal=refusal)
    except OverflowError:
        return Computed(formula.__name__, refusal=_too_large(formula))
    if not all(isinstance(each, int) or math.isfinite(each) for each in fields.values()):
        return Computed(formula.__name__, refusal=_too_large(formula))
    return Computed(formula.__name__, fields)


def _too_large(formula: Formula) -> ProtocolError:
    what = "the number is larger than this machine can hold"
    return ProtocolError(what, where=formula.__name__, remedy="ask for less")


def _fields(value: object, name: str) -> Iterator[tuple[str, Number]]:
    """Numbers in a formula's result: the fields of a NamedTuple, and the properties of its class."""
    if isinstance(value, (bool, int, float)):
        yield name, value
        return
    own: tuple[str, ...] = getattr(value, "_fields", ())
    for each in (*own, *(each for each, kept in vars(type(value)).items() if isinstance(kept, property))):
        for deeper, number in _fields(getattr(value, each), ""):
            yield (f"{each}.{deeper}" if deeper else each), number


def readable(value: Number) -> str:
    """Number in readable form: 1,234,567; 2^64; 8.81e+20; 0.0123."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if not value or 1e-3 <= abs(value) < 1e6 else f"{value:.3g}"
    if abs(value) < 10**15:
        return f"{value:,}"
    if value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return f"{value:.4g}" if value.bit_length() < 1000 else f"about 2^{value.bit_length()}"
