"""The exact law of a question's answers over made-up users, in integers, also where there are 2⁶⁴ different examples.

Theory of operation
-------------------
A question reads little of an example: a few fields, a bit, a parity. Users who are the same in all that it reads, and
in all that their label depends on where it reads the label, answer alike: they are a *class*. A class has an integer
weight and one example, which stands for all of its users; the protocol's own evaluation is run on that. So what is
known here is only what an expression *reads* (`_Reads`), and never what it makes of it.

Independent features multiply. A feature's values are listed by its own `law`, of a field that nothing reads there is
one class; bits are read by automata (`bit_statistics`). A label is that of the concept, and wrong for ⌊2⁶⁴·η⌋ of 2⁶⁴.

What has no law here (points of a cloud, features that are not drawn apart) is refused, and so is what has too many
classes: such users are simulated one by one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.simulation.population import Synthetic, draws
from askance_client.simulation.population.features import Feature
from askance_client.simulation.population.law import BitsLaw, HasLaw
from askance_client.simulation.population.synthetic import LABEL
from askance_lab.evaluation.bit_statistics import (
    MOST_STATES,
    FirstRule,
    OddTerms,
    Statistic,
    Taken,
    TooManyClassesError,
    Weighed,
    classes_of_bits,
    parity_of,
)
from askance_lab.evaluation.multinomial import Weights
from askance_protocol.concepts import (
    Concept,
    ConjunctionConcept,
    DecisionListConcept,
    MaskedParityConcept,
    ParityConcept,
    PointConcept,
    ThresholdConcept,
)
from askance_protocol.errors import UsageError
from askance_protocol.examples import Column, Columns, words_for, words_of
from askance_protocol.queries import PreparedQuery
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    Clamp,
    Compare,
    Constant,
    Dot,
    Expression,
    FieldValue,
    If,
    Integer,
    Is,
    Label,
    Lookup,
    Not,
    Or,
    Parity,
    Slice,
    Xor,
)
from askance_protocol.schema import AnyField, BitsField
from askance_protocol.text import quoted

MOST: Final = 1 << 20
"""Classes of one question."""
_LIMB: Final = 30

_Terms: TypeAlias = tuple[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerLaw:
    """Which integers a question is answered with, and the weight of each."""

    answers: NDArray[np.int64]
    weights: Weights


def law_of(query: PreparedQuery, population: Population) -> AnswerLaw:
    """The law of a user's answer; UsageError where it is not known."""
    reads = _Reads(population.schema.label.name if population.schema.label else None)
    for root in query.query.roots():
        reads.look(root)
    columns, weights = _classes(reads, _made_up(population))
    found, places = np.unique(query.answers(columns), return_inverse=True)
    exact = exact_counts(places, weights, len(found))
    return AnswerLaw(found, exact // math.gcd(*exact.tolist()))


def exact_counts(places: NDArray[np.intp], weights: Weights, size: int) -> Weights:
    """`np.bincount` of integer weights: they are added up in pieces of 30 bits, in which no double rounds.

    Places may have rows, for each of which the weights are the same.
    """
    total, shift, left = np.zeros(size, object), 0, weights
    while left.any():
        pieces = np.broadcast_to((left & ((1 << _LIMB) - 1)).astype(np.float64), places.shape)
        total += np.bincount(places.ravel(), pieces.ravel(), size).astype(np.int64).astype(object) << shift
        left, shift = left >> _LIMB, shift + _LIMB
    return total


KNOWN: Final = (
    "leave it out: then users are simulated one by one. Counts are for made-up users of all kinds but clusters and "
    "separator, and for questions, and labels, that tell a million classes of them apart at most"
)


def unknown_law(what: str, remedy: str = KNOWN) -> UsageError:
    """The error for users whose tallies cannot be drawn."""
    return UsageError(what, where="--counts", remedy=remedy)


# --------------------------------------------------------------------------------------------------------- what is read


@dataclass(slots=True)
class _Reads:
    """What some expressions, and the concept where they read the label, look at."""

    label_name: str | None
    fields: set[str] = field(default_factory=set[str])
    """Fields that are numbers or categories."""
    bits: defaultdict[str, dict[Statistic, None]] = field(default_factory=lambda: defaultdict(dict[Statistic, None]))
    """Of fields that are bits, what is read of them."""
    label: bool = False

    def look(self, node: Expression) -> None:
        """Note what an expression reads."""
        terms = _terms(node)
        if terms is not None:
            self._note(terms)
            return
        match node:
            case Slice(field=name, first=first, width=width):
                self.bits[name][Taken((1 << width) - 1 << first)] = None
            case Dot(field=name, weights=weights):
                self.bits[name][Weighed(weights)] = None
            case Label():
                self.label = True
            case FieldValue(field=name) if name == self.label_name:
                self.label = True
            case FieldValue(field=name) | Is(field=name):
                self.fields.add(name)
            case Xor(of=parts):
                self._look_at_sum(parts)
            case Not() | And() | Or() | Compare() | Affine() | Lookup() | If() | Clamp() | Constant() | Integer():
                for part in node.parts():
                    self.look(part)
            case _:
                raise unknown_law(f"is not made for a question with {quoted(type(node).__name__)}")

    def _look_at_sum(self, parts: tuple[Any, ...]) -> None:
        """Of tests that are added up, those of one field are read as one."""
        joined = defaultdict[str, tuple[tuple[int, int], ...]](tuple)
        for part in parts:
            terms = _terms(part)
            if terms is None:
                self.look(part)
            else:
                joined[terms[0]] += terms[1]
        for terms in joined.items():
            self._note(terms)

    def _note(self, terms: _Terms) -> None:
        name, each = terms
        alone = len(each) == 1 and each[0][0].bit_count() == 1
        self.bits[name][Taken(each[0][0]) if alone else OddTerms(each)] = None

    def concept(self, concept: Concept) -> None:
        """Note what a concept reads."""
        match concept:
            case ParityConcept(r=r):
                self.bits["x"][parity_of(_mask(r))] = None
            case MaskedParityConcept(r=r):
                self.bits["x"][parity_of(_mask(r))] = None
                self.bits["b"][Taken(1)] = None
                self.fields.add("i")
            case ConjunctionConcept(variables=variables):
                every = sum(1 << i for i in set(variables))
                self.bits["x"][OddTerms(((every, every),) if every else ())] = None
            case DecisionListConcept(rules=rules):
                self.bits["x"][FirstRule(tuple((i, v) for i, v, _ in rules))] = None
            case PointConcept(point=point):
                self.bits["x"][OddTerms((((1 << len(point)) - 1, _mask(point)),))] = None
            case ThresholdConcept():
                self.fields.add("x")
            case _:
                raise unknown_law(f"does not know what labels depend on that are {quoted(type(concept).__name__)}")


def _mask(bits: str) -> int:
    return int(bits[::-1], 2)


def _terms(node: Expression) -> _Terms | None:
    """A test of bits of one field as the parity of terms, up to its sign; None if it is none."""
    for holds in (1, 0):
        term = _term(node, holds)
        if term is not None:
            return term[0], (term[1:],)
    match node:
        case Parity(field=name, mask=mask):
            return name, parity_of(int(mask, 16)).terms
        case Not(of=inner):
            return _terms(inner)
        case Xor(of=parts):
            found = [each for each in map(_terms, parts) if each is not None]
            if len(found) == len(parts) and len({name for name, _ in found}) == 1:
                return found[0][0], tuple(term for _, terms in found for term in terms)
        case _:
            pass
    return None


def _term(node: Expression, holds: int) -> tuple[str, int, int] | None:
    """The field, the mask and the values of bits that all have to be so for a test to hold, or not to hold."""
    match node:
        case Bit(field=name, index=index):
            return name, 1 << index, holds << index
        case Not(of=inner):
            return _term(inner, 1 - holds)
        case And(of=parts) if holds:
            return _together(parts, 1)
        case Or(of=parts) if not holds:
            return _together(parts, 0)
        case Compare(left=Slice(field=name, first=first, width=width), relation="=", right=Integer(of=value)) if holds:
            return (name, (1 << width) - 1 << first, value << first) if 0 <= value < 1 << width else None
        case _:
            return None


def _together(parts: Sequence[Expression], holds: int) -> tuple[str, int, int] | None:
    """All of some tests hold, or none."""
    name, mask, values = "", 0, 0
    for part in parts:
        term = _term(part, holds)
        if term is None or (name and term[0] != name) or (values ^ term[2]) & mask & term[1]:
            return None
        name, mask, values = term[0], mask | term[1], values | term[2]
    return name, mask, values


# ---------------------------------------------------------------------------------------------------------- the classes


def _made_up(population: Population) -> Synthetic:
    if not isinstance(population, Synthetic):
        raise unknown_law("is for made-up users")
    return population


def _classes(reads: _Reads, population: Synthetic) -> tuple[Columns, Weights]:
    """An example of each class, and its weight."""
    labelling = population.labelling
    if reads.label and labelling is not None:
        reads.concept(labelling.rule)
    elif reads.label_name is not None and reads.label:
        # Without a concept a label is a field as any other.
        reads.fields.add(reads.label_name)
    columns, weights = dict[str, Column](), np.ones(1, object)
    for feature in population.features:
        more, each = _listed(feature, reads)
        here = len(each)
        if len(weights) * here > MOST:
            raise _too_many(MOST)
        columns = {name: _column(np.repeat(column, here, axis=-1)) for name, column in columns.items()}
        columns |= {name: _column(np.tile(column, len(weights))) for name, column in more.items()}
        weights = np.outer(weights, each).ravel()
    if labelling is not None:
        # Where nothing reads the label, any will do.
        right = np.where(labelling.rule.positive(columns), np.int64(1), np.int64(-1)) if reads.label else None
        columns, weights = _labelled(columns, weights, right, draws.chance_of(labelling.eta))
    return Columns(population.schema, columns, len(weights)), weights


def _too_many(most: int) -> UsageError:
    return unknown_law(f"would tell more than {most:,} classes of users apart, to answer what is asked")


def _labelled(
    columns: dict[str, Column], weights: Weights, right: NDArray[np.int64] | None, wrong: int
) -> tuple[dict[str, Column], Weights]:
    """Right labels, and wrong ones where there are some."""
    if right is None:
        return {**columns, LABEL: np.ones(len(weights), np.int64)}, weights
    if not wrong:
        return {**columns, LABEL: right}, weights
    twice = {name: _column(np.concatenate([column, column], axis=-1)) for name, column in columns.items()}
    both = np.concatenate([(draws.WHOLE - wrong) * weights, wrong * weights])
    return {**twice, LABEL: np.concatenate([right, -right])}, both


def _listed(feature: Feature, reads: _Reads) -> tuple[Mapping[str, Column], Weights]:
    """The classes of one feature."""
    names = {field.name for field in feature.fields}
    read = names & (reads.fields | reads.bits.keys())
    if not read:
        return {field.name: _any(field) for field in feature.fields}, np.ones(1, object)
    if not isinstance(feature, HasLaw):
        raise unknown_law(f"knows no law of {', '.join(map(quoted, sorted(names)))}")
    if any(not isinstance(each, BitsField) and each.most - each.least >= MOST for each in feature.fields):
        raise unknown_law(f"would list a field of more than {MOST:,} values")
    law = feature.law(read)
    if isinstance(law, BitsLaw):
        try:
            vectors, weights = classes_of_bits(law, _statistics(reads.bits[law.field.name]))
        except TooManyClassesError:
            raise _too_many(MOST_STATES) from None
        words = words_for(law.field.width)
        packed = np.array([words_of(vector, 64 * words) for vector in vectors], np.uint64).T
        return {law.field.name: np.ascontiguousarray(packed)}, np.array(weights, object)
    return law.columns, np.array(law.weights, object)


def _statistics(every: Mapping[Statistic, None]) -> list[Statistic]:
    """The statistics, with all that are bits themselves as one."""
    taken = sum(
        {
            1 << j
            for each in every
            if isinstance(each, Taken)
            for j in range(each.reads.bit_length())
            if each.reads >> j & 1
        }
    )
    others = [each for each in every if not isinstance(each, Taken)]
    return [Taken(taken), *others] if taken else others


def _any(field: AnyField) -> Column:
    """One value of a field that nothing reads."""
    if isinstance(field, BitsField):
        return np.zeros((words_for(field.width), 1), np.uint64)
    return np.array([field.least])


def _column(array: NDArray[Any]) -> Column:
    """The array with the type of a column."""
    return cast("Column", array)
