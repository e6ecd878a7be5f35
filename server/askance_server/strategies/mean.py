"""The mean of a real: the simplest statistical query, A_g of KLNRS11, §5.1.1."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from askance_protocol import parameters as read
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.queries.query import MAX_DENOMINATOR
from askance_protocol.schema import RealField, Schema
from askance_server.core.strategy import Ask, Asking, Hypothesis, Learnt, Parameters, Strategy, estimates_in
from askance_server.strategies.shared.column import mean_of
from askance_server.strategies.shared.sure import interval_members, interval_text


def denominator(parameters: Parameters) -> int:
    """Denominator of the values: each is kept to the nearest multiple of one over this."""
    return read.whole(parameters, "denominator", 1, MAX_DENOMINATOR, default=1000)


def schema(parameters: Parameters) -> Schema:
    """A value in [−1, 1]."""
    read.only(parameters, "tolerance", "denominator")
    read.decimal(parameters, "tolerance", below=1, default="0.05")
    return Schema(fields=(RealField(name="value", low=-1, high=1, denominator=denominator(parameters)),))


def run(parameters: Parameters) -> Asking:
    """Ask for E[g] with g(u) = u. KLNRS11, §5.1.1: g: D → [−b, b], here with b = 1."""
    tolerance = float(read.decimal(parameters, "tolerance", below=1, default="0.05"))
    query = RealQuery(numerator=FieldValue(field="value"), denominator=denominator(parameters))
    answers = yield [Ask(query, tolerance)]
    found = estimates_in(answers)
    mean = found[0].estimate if found else float(answers[0])
    how = f" ({interval_text(found[0])})" if found else f", asked to within {tolerance:g}"
    return Hypothesis(
        f"the mean is {mean:.6g}{how}", {"mean": mean, "tolerance": tolerance, **interval_members(found, one=True)}
    )


def error(learned: Learnt, truth: Learnt) -> Fraction:
    """Absolute error of the estimate."""
    return abs(Fraction(learned["mean"]) - Fraction(truth["mean"]))


def promise(parameters: Parameters) -> float:
    """Error within the tolerance."""
    return float(read.decimal(parameters, "tolerance", below=1, default="0.05"))


def over(example: Schema) -> Strategy | None:
    """The mean of a field of these examples, in its own units, over the users who have a value there.

    It is asked as a survey asks it: a field with gaps takes two questions. `column` names the field, if there are more.
    """
    [field, *others] = example.fields
    own = isinstance(field, RealField) and (field.name, field.low, field.high, field.gap) == ("value", -1, 1, None)
    return None if own and not others else mean_of(example, MEAN)


def fields(parameters: Parameters) -> Sequence[str]:
    """The field that is asked about."""
    return (str(parameters.get("column", "value")),)


MEAN: Final = Strategy(
    name="mean",
    summary="The mean of a value in [-1, 1]",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    over=over,
    fields=fields,
    promise=promise,
    error=error,
    examples="mean",
    small={},
)
