"""The law of a question's answers, in integers, is that of users who are made one by one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
import pytest
from scipy.stats import chi2

from askance_client.population import Population
from askance_client.simulation.population import KINDS, synthetic
from askance_client.simulation.population.over_schema import over_schema
from askance_lab.evaluation import bit_statistics
from askance_lab.evaluation.classes import AnswerLaw, exact_counts, law_of
from askance_lab.evaluation.domain import domain_of
from askance_lab.evaluation.weighted import histogram, lowest
from askance_protocol.errors import UsageError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    Clamp,
    Compare,
    Constant,
    Dot,
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
    Term,
    Xor,
)
from askance_protocol.schema import BitsField, Schema
from askance_server.strategies import masked_parity, masked_parity_noninteractive
from askance_server.strategies.heavy_hitters import longer
from askance_server.strategies.masked_parity_pooled import searched

FALSE_ALARM: Final = 1e-6 / 50
"""For each of some forty tests of a law."""
USERS: Final = 1 << 16
AnyQuery = BooleanQuery | RealQuery | CellQuery
MINUS: Final = Label(sign=-1)


def field(name: str, gap: int | None = None) -> FieldValue:
    return FieldValue(field=name, gap=gap)


def cells(count: int, cell: Any, negative: Any = None) -> CellQuery:
    return CellQuery(cells=count, cell=cell, negative=negative)


def sums(*terms: tuple[int, Any]) -> Affine:
    return Affine(terms=tuple(Term(weight=weight, of=of) for weight, of in terms))


def bits(first: int, width: int) -> Slice:
    return Slice(field="x", first=first, width=width)


def more(name: str, than: int, gap: int | None = None) -> Compare:
    return Compare(left=field(name, gap), relation=">", right=Integer(of=than))


def one(test: Any) -> If:
    return If(test=test, then=Integer(of=1), otherwise=Integer(of=0))


def whether(test: Any) -> BooleanQuery:
    return BooleanQuery(test=test)


TENTHS: Final = Lookup(index=field("x"), table=tuple(j // 10 for j in range(1000)))
SOME: Final = Or(of=(Bit(field="x", index=0), Not(of=Bit(field="x", index=3))))
HIGHER: Final = "1" + "01" * 31 + "1"
NEAR: Final = "01" * 31 + "10"
ZEBRA: Final = "01" * 32
WIDE: Final = And(of=tuple(Bit(field="x", index=j) for j in range(40)))
MASKS: Final = ("f0f0f0f0f0f0f0f0", "ff00ff00ff00ff00", "ff00ff00ff00ff0")
"""The third is the sum of the first two: their parities are of rank two."""
ODD: Final = [Parity(field="x", mask=mask) for mask in MASKS]
CASES: Final[list[tuple[str, dict[str, Any], AnyQuery]]] = [
    ("masked-parity", {"d": 64}, masked_parity.first(3)),
    ("masked-parity", {"d": 64, "r": ZEBRA}, masked_parity.second(ZEBRA)),
    ("masked-parity", {"d": 64, "r": ZEBRA, "bias": "0.9", "eta": "0.1"}, masked_parity.second(HIGHER)),
    ("masked-parity", {"d": 64, "r": "10" * 32, "bias": "0.95"}, searched(64, int("01" * 31, 2), 4)),
    ("masked-parity", {"d": 8, "bias": "0.3"}, masked_parity_noninteractive.both_halves(8)),
    ("masked-parity", {"d": 64, "bias": "0.9"}, masked_parity_noninteractive.both_halves(64)),
    ("parity", {"d": 64}, cells(8, sums(*((1 << at, one(test)) for at, test in enumerate(ODD))))),
    ("parity", {"d": 64, "r": "1" * 64, "bias": "0.99"}, whether(Xor(of=(*ODD, Not(of=MINUS))))),
    ("parity", {"d": 10}, cells(1024, bits(0, 10), MINUS)),
    ("conjunction", {"d": 64, "relevant": 64, "bias": "0.99"}, cells(8, bits(7, 3), MINUS)),
    ("conjunction", {"d": 70, "bias": "0.99"}, whether(Or(of=(Not(of=WIDE), Label(sign=1))))),
    ("decision-list", {"d": 64, "length": 40, "bias": "0.1"}, cells(16, bits(30, 4), MINUS)),
    ("copied-bits", {"d": 64, "labels": "list", "bias": "0.7"}, cells(64, bits(5, 6), MINUS)),
    ("copied-bits", {"d": 64}, RealQuery(numerator=Dot(field="x", weights=(*[1] * 63, -3)), denominator=64)),
    ("point", {"d": 64, "bias": "0.7", "mass": "0.3"}, cells(64, bits(5, 6), MINUS)),
    ("strings", {"d": 60}, cells(64, bits(5, 6))),
    ("threshold", {"skew": 3, "eta": "0.1"}, cells(100, TENTHS, MINUS)),
    ("mean", {"denominator": 100}, RealQuery(numerator=field("value"), denominator=100)),
    ("mean", {"mean": "0.3", "shape": "extremes"}, RealQuery(numerator=field("value"), denominator=1000)),
    ("histogram", {"cells": 100, "zipf": "1"}, cells(100, field("cell"))),
    ("telemetry", {}, cells(122, field("minutes", 121), Bit(field="dark", index=0))),
    ("telemetry", {"gaps": "0.3"}, cells(40, sums((8, field("plan", 3)), (1, field("country"))))),
    ("telemetry", {}, cells(60, sums((10, field("version", 5)), (1, field("crashes"))))),
    ("telemetry", {}, whether(And(of=(Is(field="plan", category="pro"), more("minutes", 30, 0))))),
    ("heart", {}, cells(221, field("max_heart_rate"))),
    ("heart", {}, cells(100, field("age"), more("max_heart_rate", 140))),
    ("heart", {}, cells(8, sums((2, field("chest_pain")), (1, field("sex"))))),
]  # fmt: skip


def strange(answers: Any, law: AnswerLaw) -> float:
    """How likely so strange answers are under a law; 0 where one cannot be."""
    if not np.isin(answers, law.answers).all():
        return 0.0
    expected = np.array([float(Fraction(each, sum(law.weights))) for each in law.weights]) * len(answers)
    seen = np.array([(answers == each).sum() for each in law.answers])
    often = expected > 8
    distance = float(((seen - expected)[often] ** 2 / expected[often]).sum())
    rest, others = expected[~often].sum(), seen[~often].sum()
    if rest > 8:
        distance += (others - rest) ** 2 / rest
    return float(chi2.sf(distance, max(1, often.sum() - (rest <= 8))))


def told(query: AnyQuery, population: Population) -> AnswerLaw:
    return law_of(prepare(query, population.schema), population)


@pytest.mark.parametrize(("kind", "parameters", "query"), CASES)
def test_users_answer_as_the_law_says(kind: str, parameters: dict[str, Any], query: AnyQuery) -> None:
    population = synthetic(kind, parameters, 1)
    answers = prepare(query, population.schema).answers(population.columns(range(USERS)))

    assert strange(answers, told(query, population)) > FALSE_ALARM


@pytest.mark.parametrize(
    ("kind", "parameters", "planted", "query"),
    [
        ("masked-parity", {"d": 64, "r": ZEBRA, "a": 1}, {"a": 0}, masked_parity.second(ZEBRA)),
        ("masked-parity", {"d": 64, "r": ZEBRA}, {"r": "01" * 31 + "11"}, masked_parity.second(ZEBRA)),
        ("masked-parity", {"d": 64, "r": ZEBRA, "bias": "0.9"}, {"bias": "0.88"}, masked_parity.second(NEAR)),
        ("threshold", {"threshold": 500}, {"threshold": 510}, cells(100, TENTHS, MINUS)),
        ("telemetry", {"gaps": "0.1"}, {"gaps": "0.11"}, whether(more("minutes", 120, 121))),
        ("conjunction", {"d": 9, "variables": "111000000", "eta": "0.1"}, {"eta": "0.11"}, cells(8, bits(0, 3), MINUS)),
    ],
)  # fmt: skip
def test_another_law_is_found(kind: str, parameters: dict[str, Any], planted: dict[str, Any], query: AnyQuery) -> None:
    """The control: one bit of r, the mask, a bias, a threshold, a chance of gaps or of noise that is a little off."""
    population, other = synthetic(kind, parameters, 1), synthetic(kind, {**parameters, **planted}, 1)
    answers = prepare(query, population.schema).answers(population.columns(range(USERS)))

    assert strange(answers, told(query, population)) > FALSE_ALARM
    assert strange(answers, told(query, other)) < 1e-6


SMALL: Final[list[tuple[str, dict[str, Any], AnyQuery]]] = [
    ("masked-parity", {"d": 4, "eta": "0.2"}, searched(4, 6, 4)),
    ("masked-parity", {"d": 8, "bias": "0.25"}, masked_parity_noninteractive.both_halves(8)),
    ("parity", {"d": 5, "bias": "0.25"}, whether(Or(of=(And(of=(MINUS, SOME)), Parity(field="x", mask="15"))))),
    ("conjunction", {"d": 6}, cells(4, Clamp(of=Dot(field="x", weights=(1, 2, 3, 4, 5, 6)), low=4, high=7), MINUS)),
    ("decision-list", {"d": 6}, whether(Xor(of=(MINUS, Constant(truth=True), SOME)))),
    ("point", {"d": 5, "mass": "0.3"}, cells(32, bits(0, 5), MINUS)),
    ("threshold", {"domain": 37, "skew": 2, "eta": "0.25"}, cells(37, field("x"), MINUS)),
    ("histogram", {"cells": 7, "zipf": "1.5"}, cells(5, field("cell"))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parameters", "query"), SMALL)
def test_on_domains_that_are_listed_it_is_their_law(kind: str, parameters: dict[str, Any], query: AnyQuery) -> None:
    population = synthetic(kind, parameters, 1)

    law = told(query, population)

    listed = histogram(prepare(query, population.schema), domain_of(population))
    mine = np.zeros(len(listed))
    mine[law.answers - lowest(query)] = [float(Fraction(each, sum(law.weights))) for each in law.weights]
    assert mine == pytest.approx(listed, abs=1e-12)


def test_what_is_read_is_told_apart_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parities of rank two make four classes, with a bit eight, and their sum one; a conjunction makes two."""
    found = list[int]()
    count = bit_statistics.classes_of_bits

    def counting(*given: Any) -> tuple[list[int], list[int]]:
        vectors, weights = count(*given)
        found.append(len(vectors))
        return vectors, weights

    monkeypatch.setattr("askance_lab.evaluation.classes.classes_of_bits", counting)
    parities = tuple(Not(of=each) for each in ODD)
    for test in (And(of=parities), And(of=(*parities, Bit(field="x", index=0))), WIDE, Xor(of=tuple(ODD))):
        told(whether(test), synthetic("parity", {"d": 64}, 1))

    assert found == [4, 8, 2, 1]


def test_long_prefixes_are_a_few_classes() -> None:
    """Those that a heavy hitter is found by, of 60 bits."""
    population = synthetic("strings", {"d": 64}, 1)
    strings = [int(text[::-1], 2) & ((1 << 60) - 1) for text in cast("dict[str, float]", population.truth["shares"])]
    query = longer("x", strings, 60, 2)

    answers = prepare(query, population.schema).answers(population.columns(range(USERS)))

    assert strange(answers, told(query, population)) > FALSE_ALARM


def test_users_over_a_schema_have_a_label_that_nothing_decides() -> None:
    population = over_schema(synthetic("heart", {}, 1).schema, 1)

    law = told(cells(4, field("chest_pain"), MINUS), population)

    assert law.answers.tolist() == [-4, -3, -2, -1, 1, 2, 3, 4]
    assert law.weights.tolist() == [1] * 8


def test_weights_of_any_size_are_added_up_exactly() -> None:
    weights = np.array([1 << 200, 1, 3, (1 << 90) + 1], object)

    assert exact_counts(np.array([0, 1, 0, 1]), weights, 3).tolist() == [(1 << 200) + 3, (1 << 90) + 2, 0]
    assert exact_counts(np.array([[0, 1, 0, 1], [2, 2, 2, 2]]), weights, 3).tolist()[2] == sum(weights.tolist())


@pytest.mark.parametrize(
    ("kind", "parameters", "query", "why"),
    [
        ("clusters", {}, RealQuery(numerator=field("x0"), denominator=1000), "knows no law of 'x0', 'x1'"),
        ("separator", {"d": 2}, whether(MINUS), "labels depend on that are 'SeparatorConcept'"),
        ("heart", {}, whether(MINUS), "'Risk'"),
        ("parity", {"d": 64}, RealQuery(numerator=bits(0, 30), denominator=10), "more than 131,072 classes"),
        ("threshold", {"domain": 1 << 40}, RealQuery(numerator=field("x"), denominator=10), "a field of more than"),
    ],
)
def test_what_has_no_law_is_refused_with_what_has(
    kind: str, parameters: dict[str, Any], query: AnyQuery, why: str
) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        told(query, synthetic(kind, parameters, 1))

    assert refused.value.where == "--counts"
    assert "all kinds but clusters and separator" in refused.value.remedy


def test_the_kinds_that_are_named_in_the_refusal_are_those_without_a_law() -> None:
    """A new kind whose features have no law is named, or gets one."""
    sizes: dict[str, dict[str, Any]] = {"histogram": {"cells": 4}, "masked-parity": {"d": 4}}
    bad = set[str]()
    for kind in KINDS:
        d = {"d": 4} if "d" in KINDS[kind].parameters else {}
        population = synthetic(kind, {**d, **sizes.get(kind, {})}, 1)
        unlabelled: Callable[[Any], bool] = lambda each: each is not population.schema.label  # noqa: B023, E731
        for each in filter(unlabelled, population.schema.fields):
            one = Bit(field=each.name, index=0) if isinstance(each, BitsField) else None
            value = one or Compare(
                left=field(each.name, None if each.empty is None else 0), relation="=", right=Integer(of=0)
            )
            try:
                told(whether(value), population)
            except UsageError:
                bad.add(kind)

    assert bad == {"clusters", "separator"}


def test_rows_of_a_table_have_no_law() -> None:
    class Rows(Population):
        def columns(self, users: range) -> Any: ...

    schema = Schema(fields=(BitsField(name="x", width=2),))
    with pytest.raises(UsageError, match="made-up users"):
        told(whether(Bit(field="x", index=0)), Rows("rows", schema, 10, {}, ""))
