"""MASKED-PARITY over uniform examples, by the adaptive learner A_MP: KLNRS11, §5.3.1, step by step."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import MaskedParityConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import And, Bit, Compare, FieldValue, Integer, Label, Not, Parity, Xor
from askance_protocol.schema import BitsField, IntegerField, LabelField, Schema
from askance_server.core.strategy import Ask, Asking, Hypothesis, Learnt, Parameters, Strategy
from askance_server.strategies.shared.portions import by_need

SHOWN: Final = Bit(field="b", index=0)
MINUS: Final = Label(sign=-1)


def dimension(parameters: Parameters) -> int:
    """Number of bits of r and of x: i ∈ {0, 1}^{log d} names one of them, so d is a power of two."""
    d = read.whole(parameters, "d", 2, 64)
    if d & (d - 1):
        raise read.refused("d", "is not a power of two", "give 2, 4, 8, 16, 32 or 64")
    return d


def schema(parameters: Parameters) -> Schema:
    """An example (x, i, b) and its label y = c_{r,a}(x, i, b). KLNRS11, §5.3."""
    read.only(parameters, "d")
    d = dimension(parameters)
    x, i, b = BitsField(name="x", width=d), IntegerField(name="i", low=0, high=d - 1), BitsField(name="b", width=1)
    return Schema(fields=(x, i, b, LabelField(name="y")))


def first(j: int) -> BooleanQuery:
    """Step 1(a): g_j = (i = j) ∧ (b = 1) ∧ (y = −1)."""
    names_j = Compare(left=FieldValue(field="i"), relation="=", right=Integer(of=j))
    return BooleanQuery(test=And(of=(names_j, SHOWN, MINUS)))


def second(r: str) -> BooleanQuery:
    """Step 2(b): g_{d+1} = (b = 0) ∧ (y ≠ (−1)^{r̂⊙x})."""
    parity = Parity(field="x", mask=f"{int(r[::-1], 2):x}")
    return BooleanQuery(test=And(of=(Not(of=SHOWN), Xor(of=(MINUS, parity)))))


def portions(parameters: Parameters) -> tuple[int, ...]:
    """By need: d fresh portions of tolerance 1/(4d + 1) against one of 1/5, as users go as 1/τ²."""
    d = dimension(parameters)
    return by_need(d * ((4 * d + 1) / 5) ** 2, d + 1)


def run(parameters: Parameters) -> Asking:
    """A_MP. KLNRS11, Prop. 5.18: 2 rounds, d + 1 queries, minimum tolerance 1/(4d + 1)."""
    d = dimension(parameters)
    # Step 1(b): answer_j ← SQ_D(g_j, τ), where τ = 1/(4d + 1), and r̂_j = 1 if answer_j > 1/(4d), 0 otherwise.
    answers = yield [Ask(first(j), 1 / (4 * d + 1)) for j in range(d)]
    r = "".join("1" if answer > 1 / (4 * d) else "0" for answer in answers)
    # Step 2(c): answer_{d+1} ← SQ_D(g_{d+1}, 1/5), and â = 1 if answer_{d+1} > 1/4, 0 otherwise.
    [answer] = yield [Ask(second(r), 1 / 5)]
    a = 1 if answer > 1 / 4 else 0
    return Hypothesis(f"c_(r,a) with r = {r}, a = {a}", {"r": r, "a": a})  # step 2(d)


def predict(value: Learnt, columns: Columns) -> Truths:
    """Labels by c_{r,a}."""
    return MaskedParityConcept(value["r"], value["a"]).positive(columns.arrays)


def error(learned: Learnt, truth: Learnt) -> Fraction:
    """Exact error, KLNRS11, §5.3: b shows bit i of r in one half, and masks the parity by a in the other."""
    wrong = different_bits(learned["r"], truth["r"])
    # Two parities of different r differ on half of all x; of the same r, everywhere or nowhere.
    masked = Fraction(1, 2) if wrong else Fraction(int(learned["a"] != truth["a"]))
    return (Fraction(wrong, len(truth["r"])) + masked) / 2


def different_bits(one: str, other: str) -> int:
    """Number of positions in which two bit strings differ."""
    return sum(mine != right for mine, right in zip(one, other, strict=True))


def promise(_: Parameters) -> float:
    """KLNRS11, Prop. 5.18: exactly r and a."""
    return 0.0


MASKED_PARITY: Final = Strategy(
    name="masked-parity",
    summary="A_MP: r, then its mask bit",
    interactive=True,
    rounds=2,
    schema=schema,
    run=run,
    longest="ones",
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
    portions=(9, 1),
    portions_for=portions,
)
