"""Everything that the papers' learners ask can be said, and means what the paper says.

Each query is checked by brute force: over all examples of a small domain where the claim is an exact expectation,
against numpy on random examples where it is a step of an algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare, read_query
from askance_protocol.queries.language import (
    Affine,
    And,
    AnyNumber,
    AnyTest,
    Bit,
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
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from tests.protocol.generators import AnyQuery

Signs = NDArray[np.int64]
Cube = NDArray[np.int64]


def answers(query: AnyQuery, columns: Columns) -> NDArray[np.int64]:
    """The answers of a query that went over the wire, checked to be those of each user alone (of the first 200)."""
    prepared = prepare(read_query(query.to_bytes()), columns.schema)
    together = prepared.answers(columns)
    shown = range(min(len(columns), 200))
    assert together[: len(shown)].tolist() == [prepared.answer(columns.example(row)) for row in shown]
    return together


def mean(query: AnyQuery, columns: Columns) -> Fraction:
    """The exact expectation over users who are as likely each."""
    denominator = query.denominator if isinstance(query, RealQuery) else 1
    return Fraction(int(answers(query, columns).sum()), denominator * len(columns))


def cube(d: int) -> Cube:
    """All of {0, 1}^d."""
    return np.array(list(product((0, 1), repeat=d)), np.int64)


def all_of(*tests: AnyTest) -> And:
    """∧."""
    return And(of=tests)


def differ(left: AnyTest, right: AnyTest) -> Xor:
    """≠ between truth values."""
    return Xor(of=(left, right))


def equals(field: str, value: int) -> Compare:
    """A field holds this integer."""
    return Compare(left=FieldValue(field=field), relation="=", right=Integer(of=value))


POSITIVE, NEGATIVE = Label(sign=1), Label(sign=-1)


# -------------------------------------------------------------- MASKED-PARITY (KLNRS11, Def. 5.17 and Prop. 5.18)


def masked_schema(d: int) -> Schema:
    """Examples (x, i, b) with their label."""
    return Schema(
        fields=(
            BitsField(name="x", width=d),
            IntegerField(name="i", low=0, high=d - 1),
            BitsField(name="b", width=1),
            LabelField(name="y"),
        )
    )


def masked_domain(d: int) -> tuple[Cube, Signs, Signs]:
    """All (x, i, b)."""
    x, i, b = (grid.ravel() for grid in np.meshgrid(np.arange(2**d), np.arange(d), np.arange(2), indexing="ij"))
    return cube(d)[x], i, b


def masked_parity(r: Cube, a: int, x: Cube, i: Signs, b: Signs) -> Signs:
    """c_{r,a}: (−1)^{r·x + a} where b = 0, (−1)^{r_i} where b = 1."""
    return 1 - 2 * np.where(b == 0, (x @ r + a) % 2, r[i])


def masked_examples(d: int, r: Cube, a: int) -> Columns:
    """The uniform distribution, labelled by c_{r,a}."""
    x, i, b = masked_domain(d)
    arrays = {"x": x, "i": i, "b": b[:, None], "y": masked_parity(r, a, x, i, b)}
    return Columns.of(masked_schema(d), arrays)


def concepts(d: int) -> Iterator[tuple[Cube, int]]:
    """All (r, a)."""
    for r in cube(d):
        yield from ((r, a) for a in (0, 1))


def mask(r: Cube) -> str:
    """R as the language writes it: r_i is bit i."""
    return f"{sum(int(bit) << index for index, bit in enumerate(r)):x}"


SHOWN = Bit(field="b", index=0)
"""b = 1: the label shows a bit of r."""


def g(j: int) -> BooleanQuery:
    """The first round of A_MP: g_j = (i = j) ∧ (b = 1) ∧ (y = −1)."""
    return BooleanQuery(test=all_of(equals("i", j), SHOWN, NEGATIVE))


def disagrees(r: Cube) -> BooleanQuery:
    """The second round of A_MP: (b = 0) ∧ (y ≠ (−1)^{r·x})."""
    return BooleanQuery(test=all_of(Not(of=SHOWN), differ(NEGATIVE, Parity(field="x", mask=mask(r)))))


@pytest.mark.parametrize("d", [2, 4])
def test_the_first_round_of_a_mp_shows_r(d: int) -> None:
    """E[g_j] is 1/(2d) where r_j = 1 and 0 where r_j = 0, for every concept."""
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)

        assert [mean(g(j), columns) for j in range(d)] == [Fraction(int(bit), 2 * d) for bit in r]


@pytest.mark.parametrize("d", [2, 4])
def test_the_second_round_of_a_mp_shows_a(d: int) -> None:
    """(b = 0) ∧ (y ≠ (−1)^{r·x}) has expectation a/2; of any other mask it has 1/4, and shows nothing."""
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)
        for other in cube(d):
            expected = Fraction(a, 2) if (other == r).all() else Fraction(1, 4)

            assert mean(disagrees(other), columns) == expected


def test_both_rounds_of_a_mp_learn_every_concept() -> None:
    """Within the tolerances of Prop. 5.18 (1/(4d+1), 1/5), worst answers included, two rounds give (r, a): d = 4."""
    d = 4
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)
        for lie in (-1, 1):
            first = [mean(g(j), columns) + lie * Fraction(1, 4 * d + 1) for j in range(d)]
            found = np.array([int(answer > Fraction(1, 4 * d)) for answer in first])
            second = mean(disagrees(found), columns) + lie * Fraction(1, 5)

            assert found.tolist() == r.tolist()
            assert int(second > Fraction(1, 4)) == a


def test_the_first_round_is_one_cell_query() -> None:
    """All d queries at once, as cells with a sign: the sum in cell j is (−1)^{r_j}/(2d), and b = 0 has no cell."""
    d = 4
    cell = If(test=SHOWN, then=FieldValue(field="i"), otherwise=Integer(of=-1))
    query = CellQuery(cells=d, cell=cell, negative=NEGATIVE)
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)
        signed = answers(query, columns)
        sums = [int(np.sign(signed[abs(signed) == j + 1]).sum()) for j in range(d)]

        assert [Fraction(total, len(columns)) for total in sums] == [Fraction(1 - 2 * int(bit), 2 * d) for bit in r]
        assert ((signed == 0) == (columns["b"][0] == 0)).all()


def test_a_parity_of_the_mask_is_asked_before_it_is_known() -> None:
    """The noninteractive half, y·χ_s(x) on b = 0: ±1/2 where s = r, else 0 (so 2^d users per useful one)."""
    d = 4
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)
        for s in cube(d):
            agrees = Not(of=differ(NEGATIVE, Parity(field="x", mask=mask(s))))
            sign = If(test=agrees, then=Integer(of=1), otherwise=Integer(of=-1))
            query = RealQuery(numerator=If(test=SHOWN, then=Integer(of=0), otherwise=sign), denominator=1)

            assert mean(query, columns) == (Fraction(1 - 2 * a, 2) if (s == r).all() else 0)


# --------------------------------------------------------------------- the refutation of KLNRS08, Thm 5.1


def bent(d: int) -> Xor:
    """The inner-product bent function B: x_0 x_{d/2} ⊕ … ⊕ x_{d/2−1} x_{d−1}. It is its own dual."""
    half = d // 2
    return Xor(of=tuple(all_of(Bit(field="x", index=k), Bit(field="x", index=half + k)) for k in range(half)))


def bent_value(d: int, x: Cube) -> int:
    """B(x), without the language."""
    return int(x[: d // 2] @ x[d // 2 :]) % 2


def bent_query(d: int) -> RealQuery:
    """A ±1-valued query, as KLNRS08 asks them: y·(−1)^{B(x)} on b = 0, and 1 on b = 1."""
    one = Integer(of=1)
    sign = If(test=differ(NEGATIVE, bent(d)), then=Integer(of=-1), otherwise=one)
    return RealQuery(numerator=If(test=SHOWN, then=one, otherwise=sign), denominator=1)


def lean(d: int, r: Cube, a: int) -> Fraction:
    """(−1)^{a ⊕ B(r)}·2^{−d/2−1}."""
    return Fraction(1 if (a + bent_value(d, r)) % 2 == 0 else -1, 2 ** (d // 2 + 1))


@pytest.mark.parametrize("d", [2, 4, 8])
def test_a_bent_function_leans_towards_every_parity_alike(d: int) -> None:
    """Over the whole domain, for every concept, the mean is exactly ½ ± 2^{−d/2−1}: the sign is a ⊕ the dual at r."""
    query = prepare(bent_query(d), masked_schema(d))
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)

        assert Fraction(int(query.answers(columns).sum()), len(columns)) == Fraction(1, 2) + lean(d, r, a)


@pytest.mark.parametrize("d", [2, 4])
def test_the_bent_query_is_a_boolean_one_too(d: int) -> None:
    """(b = 0) ∧ (y ≠ (−1)^{B(x)}) has mean ¼ ∓ 2^{−d/2−2}: half of the lean, as between ±1 and {0, 1}."""
    query = BooleanQuery(test=all_of(Not(of=SHOWN), differ(NEGATIVE, bent(d))))
    for r, a in concepts(d):
        assert mean(query, masked_examples(d, r, a)) == Fraction(1, 4) - lean(d, r, a) / 2


def test_klnrs08_theorem_5_1_is_refuted() -> None:
    """Nine nonadaptive queries (d + 1) at tolerance 2^{−2d/3} learn each of 512 concepts, against the worst lies.

    KLNRS08, Thm 5.1 says that no nonadaptive learner can with fewer than 2^d − 1. Here the g_j and the bent query
    are asked at once, and d = 8. KLNRS11, Thm 5.16 stands: its tolerance 2^{−d/3} is wider than the lean.
    """
    d = 8
    schema = masked_schema(d)
    asked = [prepare(query, schema) for query in (*map(g, range(d)), bent_query(d))]
    tolerance = 2 ** (-2 * d / 3)
    assert tolerance < 1 / 2 ** (d // 2 + 1) < 2 ** (-d / 3)
    for r, a in concepts(d):
        columns = masked_examples(d, r, a)
        *shown, leaning = (float(query.answers(columns).mean()) for query in asked)
        for lie in (-tolerance, tolerance):
            found = np.array([int(answer + lie > 1 / (4 * d)) for answer in shown])
            guess = (int(leaning + lie < 1 / 2) + bent_value(d, found)) % 2

            assert (found.tolist(), guess) == (r.tolist(), a)


# ---------------------------------------------------------------------- the weak learner (KLNRS11 p. 27; trap 10)


def error(predicts_minus: AnyTest) -> BooleanQuery:
    """The error of a hypothesis, given as a test of where it says −1."""
    return BooleanQuery(test=differ(predicts_minus, NEGATIVE))


def weak(r: Cube, otherwise: AnyTest) -> Or:
    """A hypothesis that says (−1)^{r_i} where b = 1."""
    table = Lookup(index=FieldValue(field="i"), table=tuple(map(int, r)))
    shown = Compare(left=table, relation="=", right=Integer(of=1))
    return Or(of=(all_of(SHOWN, shown), all_of(Not(of=SHOWN), otherwise)))


def test_the_weak_learner_errs_on_exactly_a_quarter() -> None:
    """Predicting χ_{r ⊕ e₁} on b = 0 has error ¼ for every (r, a): its error is one query."""
    d = 4
    for r, a in concepts(d):
        beside = r.copy()
        beside[0] ^= 1
        query = error(weak(r, Parity(field="x", mask=mask(beside))))

        assert mean(query, masked_examples(d, r, a)) == Fraction(1, 4)


def test_a_constant_does_not() -> None:
    """The text's constant on b = 0 has error 0 or ½ when r = 0: the trap."""
    d = 4
    seen = {(tuple(r), mean(error(weak(r, Constant(truth=False))), masked_examples(d, r, a))) for r, a in concepts(d)}

    assert {share for _, share in seen} == {0, Fraction(1, 4), Fraction(1, 2)}
    assert {share for r, share in seen if any(r)} == {Fraction(1, 4)}


def test_the_error_of_the_true_concept_is_none() -> None:
    """c_{r,a} itself, as a hypothesis, is never wrong, and its opposite always."""
    d = 3
    for r, a in concepts(d):
        hidden = differ(Parity(field="x", mask=mask(r)), Constant(truth=bool(a)))
        columns = masked_examples(d, r, a)

        assert mean(error(weak(r, hidden)), columns) == 0
        assert mean(error(Not(of=weak(r, hidden))), columns) == 1


# ----------------------------------------------------------------- conjunctions (BB-notes, Thm 5), noise (Thm 8)


def cube_schema(d: int) -> Schema:
    """Labelled points of {0, 1}^d."""
    return Schema(fields=(BitsField(name="x", width=d), LabelField(name="y")))


@pytest.mark.parametrize("d", [3, 5])
def test_a_conjunction_is_learnt_from_d_queries(d: int) -> None:
    """Pr[x_i = 0 ∧ y = 1] is 0 for the variables of the conjunction and positive for the others, over {0, 1}^d."""
    x = cube(d)
    for chosen in cube(d):
        y = np.where((x >= chosen).all(axis=1), 1, -1)
        columns = Columns.of(cube_schema(d), {"x": x, "y": y})
        for i in range(d):
            query = BooleanQuery(test=all_of(Not(of=Bit(field="x", index=i)), POSITIVE))
            expected = 0 if chosen[i] else Fraction(1, 2 ** (int(chosen.sum()) + 1))

            assert mean(query, columns) == expected


def test_a_query_splits_into_a_label_free_and_a_label_part() -> None:
    """BB-notes, Thm 8: φ(x, y) = ½(φ(x,1) + φ(x,−1)) + ½·y·(φ(x,1) − φ(x,−1)), both parts queries of their own.

    The first does not look at y; noise at rate η shrinks the second by 1 − 2η, exactly.
    """
    d, eta = 3, Fraction(1, 4)
    x = np.repeat(cube(d), 4, axis=0)
    clean = np.where(x[:, 0] == 1, 1, -1)
    noisy = clean * np.tile([1, 1, 1, -1], 2**d)  # one in four labels is turned
    on_plus, on_minus = Bit(field="x", index=0), Bit(field="x", index=1)
    phi = Or(of=(all_of(POSITIVE, on_plus), all_of(NEGATIVE, on_minus)))

    def number(test: AnyTest) -> If:
        return If(test=test, then=Integer(of=1), otherwise=Integer(of=0))

    def halves(sign: int) -> Affine:
        return Affine(terms=(Term(weight=1, of=number(on_plus)), Term(weight=sign, of=number(on_minus))))

    negated = Affine(terms=(Term(weight=-1, of=halves(-1)),))
    free = RealQuery(numerator=halves(1), denominator=2)
    label = RealQuery(numerator=If(test=POSITIVE, then=halves(-1), otherwise=negated), denominator=2)
    true_columns, noisy_columns = (Columns.of(cube_schema(d), {"x": x, "y": y}) for y in (clean, noisy))

    assert mean(free, noisy_columns) == mean(free, true_columns)
    assert mean(label, noisy_columns) == (1 - 2 * eta) * mean(label, true_columns)
    assert mean(BooleanQuery(test=phi), true_columns) == mean(free, noisy_columns) + mean(label, noisy_columns) / (
        1 - 2 * eta
    )
    assert mean(BooleanQuery(test=phi), noisy_columns) != mean(BooleanQuery(test=phi), true_columns)


# ------------------------------------------------------------------------------------ means, digits, histograms

PLANE = Schema(
    fields=(
        RealField(name="u", low=-1, high=1, denominator=100),
        RealField(name="v", low=-1, high=1, denominator=100),
        CategoryField(name="colour", values=("red", "green", "blue")),
        BitsField(name="x", width=64),
        LabelField(name="y"),
    )
)
U, V = FieldValue(field="u"), FieldValue(field="v")


def plane(count: int = 3000, seed: int = 3) -> Columns:
    """Random points, many of them on ties."""
    source = np.random.default_rng(seed)
    points = source.integers(-20, 21, (count, 2)) / 20
    return Columns.of(
        PLANE,
        {
            "u": points[:, 0],
            "v": points[:, 1],
            "colour": source.integers(0, 3, count),
            "x": source.integers(0, 2, (count, 64)),
            "y": source.choice([-1, 1], count),
        },
    )


def bits_of(columns: Columns) -> Cube:
    """X as users × 64."""
    words = columns["x"][0]
    return (words[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(np.int64)


def test_a_mean_is_a_real_query() -> None:
    """g(u) = u over its denominator."""
    columns = plane()

    assert mean(RealQuery(numerator=U, denominator=100), columns) == Fraction(int(columns["u"].sum()), 100 * 3000)


def test_a_real_query_is_a_few_boolean_ones() -> None:
    """Bshouty–Feldman (KLNRS11, section 5): the binary digits of a real are Boolean queries, and add up to it."""
    columns = plane()
    shifted = Affine(constant=100, terms=(Term(weight=1, of=U),))
    total = np.zeros(len(columns), np.int64)
    for place in range(8):
        digit = Lookup(index=shifted, table=tuple(number >> place & 1 for number in range(201)))
        query = BooleanQuery(test=Compare(left=digit, relation="=", right=Integer(of=1)))
        total += answers(query, columns) << place

    assert (total - 100).tolist() == columns["u"].tolist()


def test_a_histogram_is_a_cell_query() -> None:
    """Every user counts in the cell of her category, and each category is a Boolean query as well."""
    columns = plane()
    cells = answers(CellQuery(cells=3, cell=FieldValue(field="colour")), columns)
    for index, colour in enumerate(("red", "green", "blue")):
        one = answers(BooleanQuery(test=Is(field="colour", category=colour)), columns)

        assert ((cells == index + 1) == (one == 1)).all()
        assert one.sum() == (columns["colour"] == index).sum()


def test_a_histogram_of_bits_is_a_cell_query() -> None:
    """A slice of 10 bits names one of 1024 cells."""
    columns = plane()
    cells = answers(CellQuery(cells=1024, cell=Slice(field="x", first=3, width=10)), columns)

    assert cells.tolist() == (1 + bits_of(columns)[:, 3:13] @ (1 << np.arange(10))).tolist()


# ------------------------------------------------------------------------------------------------- perceptron


def misclassified(score: AnyNumber) -> Or:
    """y·score ≤ 0."""
    zero = Integer(of=0)
    return Or(
        of=(
            all_of(POSITIVE, Compare(left=score, relation="<=", right=zero)),
            all_of(NEGATIVE, Compare(left=score, relation=">=", right=zero)),
        )
    )


@pytest.mark.parametrize("weights", [(0, 0, 0), (3, -2, 10), (-7, 1, 0), (50, 50, -2500)])
def test_a_perceptron_step_is_a_real_query_per_coordinate(weights: tuple[int, int, int]) -> None:
    """The step is the mean of y·x_i over the misclassified points, with the share of those as a Boolean query."""
    columns = plane()
    u, v, y = (columns[name] for name in ("u", "v", "y"))
    wrong = y * (weights[0] * u + weights[1] * v + weights[2]) <= 0
    terms = (Term(weight=weights[0], of=U), Term(weight=weights[1], of=V))
    test = misclassified(Affine(constant=weights[2], terms=terms))

    assert answers(BooleanQuery(test=test), columns).tolist() == wrong.astype(int).tolist()
    for field, column in ((U, u), (V, v)):
        minus = Affine(terms=(Term(weight=-1, of=field),))
        signed = If(test=POSITIVE, then=field, otherwise=minus)
        step = RealQuery(numerator=If(test=test, then=signed, otherwise=Integer(of=0)), denominator=100)

        assert answers(step, columns).tolist() == (wrong * y * column).tolist()


def test_a_perceptron_step_over_bits_is_one_too() -> None:
    """A threshold of 64 bits is a `dot`; y·x_i on its mistakes is y in the cell of the bit, or a signed test."""
    columns = plane()
    bits, y = bits_of(columns), columns["y"]
    weights = np.random.default_rng(9).integers(-5, 6, 64)
    wrong = y * (bits @ weights) <= 0
    test = misclassified(Dot(field="x", weights=tuple(map(int, weights))))
    for i in (0, 31, 63):
        on = all_of(test, Bit(field="x", index=i))
        step = RealQuery(numerator=If(test=on, then=FieldValue(field="y"), otherwise=Integer(of=0)), denominator=1)

        assert answers(step, columns).tolist() == (wrong * y * bits[:, i]).tolist()


# ---------------------------------------------------------------------------------------------------- k-means


def closer(one: tuple[int, int], other: tuple[int, int]) -> Compare:
    """|p − one|² ≤ |p − other|², which is affine in p: the squares of p cancel."""

    def power(centre: tuple[int, int]) -> Affine:
        terms = (Term(weight=-2 * centre[0], of=U), Term(weight=-2 * centre[1], of=V))
        return Affine(constant=centre[0] ** 2 + centre[1] ** 2, terms=terms)

    return Compare(left=power(one), relation="<=", right=power(other))


def nearest(centres: list[tuple[int, int]]) -> AnyNumber:
    """The index of the nearest centre, of several the first."""
    last = len(centres) - 1

    def choose(k: int) -> AnyNumber:
        if k == last:
            return Integer(of=k)
        beats = all_of(*(closer(centres[k], other) for other in centres[k + 1 :]))
        return If(test=beats, then=Integer(of=k), otherwise=choose(k + 1))

    return choose(0)


@pytest.mark.parametrize(
    "centres",
    [[(-50, 0), (50, 50), (0, -70)], [(0, 0), (0, 0), (5, 5)], [(100, 100), (-100, 100), (-100, -100)]],
)
def test_a_k_means_step_is_a_cell_query(centres: list[tuple[int, int]]) -> None:
    """Three centres in the plane, ties included: cells, and coordinates summed per cell, are numpy's."""
    columns = plane()
    points = np.stack([columns["u"], columns["v"]], axis=1)
    distances = ((points[:, None, :] - np.array(centres)[None, :, :]) ** 2).sum(axis=2)
    expected = distances.argmin(axis=1)

    assert (answers(CellQuery(cells=3, cell=nearest(centres)), columns) - 1).tolist() == expected.tolist()
    for k in range(3):
        inside = Compare(left=nearest(centres), relation="=", right=Integer(of=k))
        for field, column in ((U, points[:, 0]), (V, points[:, 1])):
            query = RealQuery(numerator=If(test=inside, then=field, otherwise=Integer(of=0)), denominator=100)

            assert answers(query, columns).tolist() == ((expected == k) * column).tolist()


# ----------------------------------------------------------------------------------- decision lists and trees

Rule = tuple[int, int, int]
"""If x_index = value, say sign."""


def listed(rules: list[Rule], otherwise: int, x: Cube) -> Signs:
    """What a decision list says, without the language."""
    said = np.full(len(x), otherwise)
    for index, value, sign in reversed(rules):
        said = np.where(x[:, index] == value, sign, said)
    return said


def literal(index: int, value: int) -> AnyTest:
    """x_index = value."""
    bit = Bit(field="x", index=index)
    return bit if value else Not(of=bit)


def random_rules(count: int, seed: int) -> list[Rule]:
    """A decision list over 64 bits."""
    source = np.random.default_rng(seed)
    columns = source.permutation(64)[:count], source.integers(0, 2, count), source.choice([-1, 1], count)
    return [(int(index), int(value), int(sign)) for index, value, sign in zip(*columns, strict=True)]


def test_the_error_of_a_short_decision_list_is_a_nest_of_ifs() -> None:
    """Up to a dozen rules, read from the top."""
    columns = plane()
    rules = random_rules(12, seed=1)
    said = reduce(
        lambda below, rule: If(test=literal(rule[0], rule[1]), then=Integer(of=rule[2]), otherwise=below),
        reversed(rules),
        Integer(of=-1),
    )
    wrong = BooleanQuery(test=Compare(left=said, relation="!=", right=FieldValue(field="y")))

    assert (
        answers(wrong, columns).tolist() == (listed(rules, -1, bits_of(columns)) != columns["y"]).astype(int).tolist()
    )


@pytest.mark.parametrize("count", [1, 12, 50])
def test_the_error_of_a_long_decision_list_is_a_threshold(count: int) -> None:
    """A 1-decision list is a halfspace with weights ±2^k: 50 rules in one comparison."""
    columns = plane()
    rules = random_rules(count, seed=count)
    weights, constant = [0] * 64, -1
    for place, (index, value, sign) in enumerate(reversed(rules), start=1):
        # sign·2^place where x_index = value, else 0: the first rule that fires outweighs all below it.
        constant += 0 if value else sign << place
        weights[index] = (1 if value else -1) * (sign << place)
    total = Affine(constant=constant, terms=(Term(weight=1, of=Dot(field="x", weights=tuple(weights))),))
    says_minus = Compare(left=total, relation="<", right=Integer(of=0))

    assert answers(error(says_minus), columns).tolist() == (
        (listed(rules, -1, bits_of(columns)) != columns["y"]).astype(int).tolist()
    )


def test_the_errors_of_all_next_rules_are_one_cell_query() -> None:
    """What a greedy list learner asks next: who reached this point, with which next bit and label."""
    columns = plane()
    bits, y = bits_of(columns), columns["y"]
    rules = random_rules(4, seed=8)
    reached = all_of(*(literal(index, 1 - value) for index, value, _ in rules))
    cell = If(test=reached, then=Slice(field="x", first=60, width=1), otherwise=Integer(of=-1))
    found = answers(CellQuery(cells=2, cell=cell, negative=NEGATIVE), columns)
    left = np.all([bits[:, index] != value for index, value, _ in rules], axis=0)

    assert found.tolist() == np.where(left, y * (bits[:, 60] + 1), 0).tolist()
    assert 0 < left.sum() < len(columns)


def test_a_leaf_of_a_decision_tree_is_a_boolean_query() -> None:
    """Counts at a leaf (a path of bits, a threshold, a category, the label), and all leaves as cells of a partition."""
    columns = plane()
    bits, u, colour = bits_of(columns), columns["u"], columns["colour"]
    low = Compare(left=U, relation="<", right=Integer(of=25))
    leaf = all_of(Bit(field="x", index=5), low, Is(field="colour", category="green"), POSITIVE)
    expected = (bits[:, 5] == 1) & (u < 25) & (colour == 1) & (columns["y"] == 1)

    assert answers(BooleanQuery(test=leaf), columns).tolist() == expected.astype(int).tolist()

    tree = If(
        test=Bit(field="x", index=5),
        then=If(test=low, then=Integer(of=0), otherwise=Integer(of=1)),
        otherwise=If(test=Is(field="colour", category="red"), then=Integer(of=2), otherwise=Integer(of=3)),
    )
    leaves = np.where(bits[:, 5] == 1, np.where(u < 25, 0, 1), np.where(colour == 0, 2, 3))

    assert (answers(CellQuery(cells=4, cell=tree), columns) - 1).tolist() == leaves.tolist()
