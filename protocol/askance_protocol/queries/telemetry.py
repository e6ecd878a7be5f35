"""Questions as people write them, compiled into queries: `mean(minutes, 0, 120)`, `share(plan = 'pro' and age > 9)`.

Theory of operation
-------------------
    question    = "mean" "(" field ["," low "," high] ")"
                | "share" "(" condition ")"
                | "histogram" "(" field {"," cut} ")"
    condition   = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation    = "not" negation | "(" condition ")" | comparison
    comparison  = field [relation value | ["not"] "in" "(" value {"," value} ")" | "is" ["not"] "missing"]
    field       = name ["[" bit "]"]
    relation    = "=" | "!=" | "<" | "<=" | ">=" | ">"
    value       = a number, or 'text' for a category

A question is read by recursive descent and compiled against a schema into the closed language: nothing else is ever
evaluated, so a question is total, exact and takes the same steps for every example, as all queries do.

*Shares* are of all users. `share(country)`, of a category, and `histogram(country)` are the same question: the share
of each value. A bit or a label alone stands for its being 1. Of a number, `histogram(minutes, 30, 60)` gives the
shares below 30, from 30 to below 60, and from 60 on; without cuts every whole number of a short range is a cell.

*Means* are of the users who have a value, each kept to what lies between `low` and `high`: the ends of the field,
unless they are said.

*Gaps.* In a field with gaps, a histogram has one cell more, "missing". Compared with anything, a gap is false: who has
no minutes is neither in `minutes > 30` nor in `minutes <= 30`, and is in `not (minutes > 30)`. The mean of a field with
gaps is a quotient, so it takes two queries: one for the value, which is 0 for a gap, and one for whether there is any.

An error says which character of the question it is about, what was expected there, and which fields there are. All
that it repeats is the question and the schema, which are public.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from typing import Final, Literal, NoReturn, TypeAlias

from askance_protocol.errors import ProtocolError
from askance_protocol.queries.language import (
    Affine,
    And,
    AnyNumber,
    AnyTest,
    Bit,
    Clamp,
    Compare,
    Constant,
    FieldValue,
    If,
    Integer,
    Is,
    Label,
    Not,
    Or,
    Term,
)
from askance_protocol.queries.query import MAX_DENOMINATOR, BooleanQuery, CellQuery, RealQuery, prepare
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from askance_protocol.text import printable

MAX_QUESTION: Final = 200
"""Characters of a question: what a parameter of a study holds."""
MAX_HISTOGRAM: Final = 64
"""Cells of a histogram of numbers that are not cut."""
MISSING: Final = "missing"
"""What a gap is called."""

_FORMS: Final = "mean(field, low, high), share(condition) or histogram(field)"
_TIMES_USERS: Final = "a count is a share, and a sum is a mean, times the number of users"
_DEEPEST: Final = 12
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[-+]?[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|(?P<sign><=|>=|!=|<>|==|[=<>(),\[\]])|(?P<end>\Z))",
    re.ASCII,
)
_SPACE: Final = " \t\n\r\f\v"
_RELATIONS: Final = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">=": ">=", ">": ">"}
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "is"})

Relation: TypeAlias = Literal["<", "<=", "=", "!=", ">=", ">"]
Literals: TypeAlias = Fraction | str
"""A number or a text in a question."""


class Measure(Enum):
    """What a question asks for."""

    MEAN = "mean"
    SHARE = "share"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class TelemetryQuestion:
    """A question as it was asked, and the queries whose answers answer it."""

    text: str
    measure: Measure
    queries: tuple[BooleanQuery | RealQuery | CellQuery, ...]
    """One; or two for the mean of a field with gaps: the value, 0 for a gap, and whether there is one."""
    names: tuple[str, ...]
    """Of each number of the answer: the question itself, or with each of its cells."""
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)
    """Between what the answer lies."""


def compile_question(text: str, schema: Schema) -> TelemetryQuestion:
    """Read a question and compile it for examples of this schema."""
    return _Compiler(text, schema).compiled()


def fields_asked(text: str) -> tuple[str, ...]:
    """The fields that a question names, without looking whether there are such."""
    parser = _Parser(text, None)
    parser.question()
    return tuple(dict.fromkeys(parser.fields))


# ------------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int
    """Of its first character, counted from 1."""

    @property
    def word(self) -> str:
        """A keyword, whose case does not matter; empty for anything else."""
        return self.text.lower() if self.kind == "word" and self.text.lower() in _KEYWORDS else ""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    bit: int | None
    token: _Token


@dataclass(frozen=True, slots=True)
class _Value:
    value: Literals
    token: _Token


@dataclass(frozen=True, slots=True)
class _Comparison:
    field: _Field
    relation: str
    """One of the relations; "in", "not in", "missing", "not missing"; or empty for a field alone."""
    values: tuple[_Value, ...] = ()


@dataclass(frozen=True, slots=True)
class _Joined:
    how: Literal["and", "or", "not"]
    of: tuple[_Condition, ...]


_Condition: TypeAlias = _Comparison | _Joined
_Rule: TypeAlias = Callable[[], _Condition]


@dataclass(frozen=True, slots=True)
class _Parsed:
    measure: Measure
    of: _Condition
    numbers: tuple[_Value, ...] = ()


class _Parser:
    """Recursive descent: a method for each rule, each of which reads as far as its rule goes."""

    def __init__(self, text: str, schema: Schema | None) -> None:
        self.text, self.schema = text, schema
        self.fields: list[str] = []
        self._depth = 0
        if not 0 < len(text.strip()) <= len(text) <= MAX_QUESTION:
            what = f"is not a text of 1 to {MAX_QUESTION} characters"
            raise ProtocolError(what, where="question", remedy=f"write it as {_FORMS}")
        self._tokens = list(self._read())
        self._next = 0

    # -- tokens

    def _read(self) -> Iterator[_Token]:
        at = 0
        while True:
            found = _TOKEN.match(self.text, at)
            if found is None or found.lastgroup is None:
                place = len(self.text) - len(self.text[at:].lstrip(_SPACE)) + 1
                open_quote = self.text[place - 1] in "'\""
                what = (
                    "the text that begins here has no end" if open_quote else f"{self.text[place - 1]!r} means nothing"
                )
                self.refuse(place, what, "put texts into quotes: plan = 'pro'")
            yield _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup) + 1)
            if found.lastgroup == "end":
                return
            at = found.end()

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def take(self) -> _Token:
        token = self.token
        if token.kind != "end":
            self._next += 1
        return token

    def sign(self, *wanted: str) -> _Token | None:
        """Take the next token if it is one of these signs."""
        return self.take() if self.token.kind == "sign" and self.token.text in wanted else None

    def keyword(self, wanted: str) -> _Token | None:
        """Take the next token if it is this keyword."""
        return self.take() if self.token.word == wanted else None

    def need(self, sign: str) -> None:
        """Take this sign, or refuse what stands there."""
        if self.sign(sign) is None:
            self.expected(repr(sign))

    def expected(self, wanted: str, remedy: str = "") -> NoReturn:
        found = "the question ends" if self.token.kind == "end" else f"{self.token.text!r} stands"
        self.refuse(self.token.place, f"{found} where {wanted} was expected", remedy)

    def refuse(self, place: int, what: str, remedy: str = "") -> NoReturn:
        """An error at a character of the question; the remedy ends with the fields that there are."""
        known = f"ask {_FORMS}" if self.schema is None else f"the fields are {', '.join(self.schema.position)}"
        raise ProtocolError(
            f"{what}, at character {place}",
            where=f"question {self.text!r}",
            remedy="; ".join(filter(None, (remedy, known))),
        )

    # -- rules

    def question(self) -> _Parsed:
        token = self.take()
        known = {measure.value: measure for measure in Measure}
        if token.kind != "word" or token.text.lower() not in known:
            self._next = max(0, self._next - 1)
            self.expected("mean, share or histogram", _TIMES_USERS if token.text.lower() in {"count", "sum"} else "")
        measure = known[token.text.lower()]
        self.need("(")
        of: _Condition = self.condition() if measure is Measure.SHARE else _Comparison(self.field(), "")
        numbers = list[_Value]()
        while measure is not Measure.SHARE and self.sign(","):
            numbers.append(self.number())
        if measure is Measure.MEAN and len(numbers) not in (0, 2):
            self.expected("nothing more, or a low and a high end,")
        self.need(")")
        if self.token.kind != "end":
            self.expected("the end of the question")
        return _Parsed(measure, of, tuple(numbers))

    def condition(self) -> _Condition:
        return self._several("or", self._conjunction)

    def _conjunction(self) -> _Condition:
        return self._several("and", self._negation)

    def _several(self, word: Literal["and", "or"], rule: _Rule) -> _Condition:
        found = [rule()]
        while self.keyword(word):
            found.append(rule())
        return found[0] if len(found) == 1 else _Joined(word, tuple(found))

    def _negation(self) -> _Condition:
        token = self.token
        self._depth += 1
        if self._depth > _DEEPEST:
            self.refuse(token.place, f"more than {_DEEPEST} conditions stand inside each other", "ask less at once")
        if self.keyword("not"):
            found: _Condition = _Joined("not", (self._negation(),))
        elif self.sign("("):
            found = self.condition()
            self.need(")")
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> _Condition:
        field = self.field()
        if relation := self.sign(*_RELATIONS):
            return _Comparison(field, _RELATIONS[relation.text], (self._value(),))
        if self.keyword("is"):
            negated = "not " if self.keyword("not") else ""
            if self.token.kind != "word" or self.token.text.lower() != MISSING:
                self.expected(f"{MISSING!r}")
            self.take()
            return _Comparison(field, f"{negated}missing")
        negated = "not " if self.token.word == "not" and self._tokens[self._next + 1].word == "in" else ""
        if negated:
            self.take()
        if self.keyword("in"):
            self.need("(")
            values = [self._value()]
            while self.sign(","):
                values.append(self._value())
            self.need(")")
            return _Comparison(field, f"{negated}in", tuple(values))
        return _Comparison(field, "")

    def field(self) -> _Field:
        token = self.token
        if token.kind != "word" or token.word:
            self.expected("a field")
        self.take()
        self.fields.append(token.text)
        if self.sign("[") is None:
            return _Field(token.text, None, token)
        bit = self.number()
        if not isinstance(bit.value, Fraction) or bit.value.denominator > 1 or bit.value < 0:
            self.refuse(bit.token.place, "a bit is numbered from 0")
        self.need("]")
        return _Field(token.text, int(bit.value), token)

    def number(self) -> _Value:
        if self.token.kind != "number":
            self.expected("a number")
        return self._value()

    def _value(self) -> _Value:
        token = self.token
        match token.kind:
            case "number":
                value: Literals = Fraction(token.text)
            case "text":
                quote = token.text[0]
                value = token.text[1:-1].replace(2 * quote, quote)
            case "word" if not token.word:
                self.refuse(
                    token.place,
                    f"{token.text!r} stands where a number or a text in quotes was expected",
                    f"put a text into quotes: {token.text!r}",
                )
            case _:
                self.expected("a number or a text in quotes")
        self.take()
        return _Value(value, token)


# ----------------------------------------------------------------------------------------------------------- compiling


class _Compiler:
    """Compiles a question that was read, with the schema at hand."""

    def __init__(self, text: str, schema: Schema) -> None:
        self._parser = _Parser(text, schema)
        self._schema = schema
        self._text = text.strip()

    def compiled(self) -> TelemetryQuestion:
        parsed = self._parser.question()
        match parsed.measure:
            case Measure.MEAN:
                found = self._mean(_alone(parsed.of), parsed.numbers)
            case Measure.HISTOGRAM:
                found = self._histogram(_alone(parsed.of), parsed.numbers)
            case Measure.SHARE:
                found = self._share(parsed.of)
        for query in found.queries:
            try:
                prepare(query, self._schema)
            except ProtocolError as error:
                self._parser.refuse(1, f"it asks too much at once: {error}", "ask less at once")
        return found

    def _refuse(self, token: _Token, what: str, remedy: str = "") -> NoReturn:
        self._parser.refuse(token.place, what, remedy)

    def _field_of(self, field: _Field) -> AnyField:
        if field.name not in self._schema.position:
            self._refuse(field.token, f"there is no field {field.name!r}")
        found = self._schema.field(field.name)
        if isinstance(found, BitsField):
            if field.bit is None and found.width > 1:
                self._refuse(field.token, f"{field.name!r} has {found.width} bits", f"ask one of them: {field.name}[0]")
            if (field.bit or 0) >= found.width:
                self._refuse(field.token, f"{field.name!r} has {found.width} bits, numbered from 0")
        elif field.bit is not None:
            self._refuse(field.token, f"{field.name!r} has no bits", f"write it as {field.name}")
        return found

    # -- measures

    def _share(self, of: _Condition) -> TelemetryQuestion:
        if isinstance(of, _Comparison) and not of.relation and isinstance(self._field_of(of.field), CategoryField):
            return self._histogram(of.field, ())
        return TelemetryQuestion(self._text, Measure.SHARE, (BooleanQuery(test=self._test(of)),), (self._text,))

    def _mean(self, asked: _Field, ends: Sequence[_Value]) -> TelemetryQuestion:
        field = self._field_of(asked)
        if isinstance(field, CategoryField):
            self._refuse(asked.token, f"{asked.name!r} is a category and has no mean", f"ask share({asked.name})")
        low, high = [self._held(field, end) for end in ends] or [Fraction(_least(field)), Fraction(_most(field))]
        if not low < high:
            self._refuse((ends or [asked])[0].token, "the low end is not below the high end")
        for end, held in zip(ends, (low, high), strict=False):
            if held.denominator > 1 or abs(held) > 1 << 41:
                self._refuse(end.token, f"{end.token.text} is no value that {asked.name!r} could have", _steps(field))
        steps = int(high - low)
        if steps > MAX_DENOMINATOR:
            self._refuse(
                asked.token,
                f"from the low to the high end are {steps} steps, more than {MAX_DENOMINATOR}",
                "give ends that are nearer, or keep the field in larger units",
            )
        value = Clamp(of=self._number(asked, field, gap=int(low)), low=int(low), high=int(high))
        # v = (2x − low − high) / (high − low), in lowest terms, is in [−1, 1].
        common = math.gcd(2, int(low + high), steps)
        scaled = Affine(constant=-int(low + high) // common, terms=(Term(weight=2 // common, of=value),))
        unit = field.denominator if isinstance(field, RealField) else 1
        known = self._known(asked, field)
        numerator: AnyNumber = scaled if known is None else If(test=known, then=scaled, otherwise=Integer(of=0))
        queries = (RealQuery(numerator=numerator, denominator=steps // common),)
        return TelemetryQuestion(
            self._text,
            Measure.MEAN,
            queries if known is None else (*queries, BooleanQuery(test=known)),
            (self._text,),
            low / unit,
            high / unit,
        )

    def _histogram(self, asked: _Field, cuts: Sequence[_Value]) -> TelemetryQuestion:
        field = self._field_of(asked)
        if isinstance(field, CategoryField):
            if cuts:
                self._refuse(
                    cuts[0].token, f"{asked.name!r} is a category, and not cut", f"ask histogram({asked.name})"
                )
            cells = [printable(repr(value)) for value in field.values]
            return self._cells(field, cells, self._number(asked, field, gap=len(cells)))
        if isinstance(field, BitsField | LabelField):
            self._refuse(asked.token, f"{asked.name!r} has two values", f"ask share({asked.name})")
        if not cuts:
            count = _most(field) - _least(field) + 1
            if not isinstance(field, IntegerField) or count > MAX_HISTOGRAM:
                remedy = f"cut it: histogram({asked.name}, {_between(field)})"
                self._refuse(asked.token, f"{asked.name!r} has too many values for a cell each", remedy)
            number = self._number(asked, field, gap=_most(field) + 1)
            if field.low:
                number = Affine(constant=-field.low, terms=(Term(weight=1, of=number),))
            return self._cells(field, [str(value) for value in range(field.low, field.high + 1)], number)
        return self._cut(asked, field, cuts)

    def _cut(self, asked: _Field, field: AnyField, cuts: Sequence[_Value]) -> TelemetryQuestion:
        """The share below the first cut, between two, and from the last on: how many cuts a value has reached."""
        held = [self._held(field, cut) for cut in cuts]
        for cut, before, after in zip(cuts[1:], held, held[1:], strict=False):
            if not before < after:
                self._refuse(cut.token, "the cuts do not rise", "give the smallest first")
        for cut, at in zip(cuts, held, strict=True):
            if not _least(field) < at <= _most(field):
                self._refuse(cut.token, f"no cut at {cut.token.text} divides {asked.name!r}", _steps(field))
        reached = [
            If(test=self._above(asked, field, ">=", at, gap=True), then=Integer(of=1), otherwise=Integer(of=0))
            for at in held
        ]
        known = self._known(asked, field)
        if known is not None:
            reached.append(If(test=known, then=Integer(of=0), otherwise=Integer(of=1)))
        texts = [cut.token.text for cut in cuts]
        between = [f"{low} to under {high}" for low, high in pairwise(texts)]
        cells = [f"under {texts[0]}", *between, f"{texts[-1]} or more"]
        return self._cells(field, cells, Affine(terms=tuple(Term(weight=1, of=one) for one in reached)))

    def _cells(self, field: AnyField, cells: Sequence[str], number: AnyNumber) -> TelemetryQuestion:
        named = [*cells, MISSING] if _has_gaps(field) else cells
        query = CellQuery(cells=len(named), cell=number)
        return TelemetryQuestion(
            self._text, Measure.HISTOGRAM, (query,), tuple(f"{self._text}: {cell}" for cell in named)
        )

    # -- conditions

    def _test(self, of: _Condition) -> AnyTest:
        if isinstance(of, _Comparison):
            return self._comparison(of)
        tests = tuple(map(self._test, of.of))
        match of.how:
            case "not":
                return Not(of=tests[0])
            case "and":
                return And(of=tests)
            case "or":
                return Or(of=tests)

    def _comparison(self, asked: _Comparison) -> AnyTest:
        field = self._field_of(asked.field)
        match asked.relation:
            case "":
                return self._alone(asked.field, field)
            case "missing" | "not missing":
                known = self._known(asked.field, field)
                if known is None:
                    self._refuse(asked.field.token, f"{asked.field.name!r} has no gaps: it is never missing")
                return known if asked.relation == "not missing" else Not(of=known)
            case "in" | "not in":
                relation = "=" if asked.relation == "in" else "!="
                tests = tuple(self._relation(asked.field, field, relation, value) for value in asked.values)
                return tests[0] if len(tests) == 1 else Or(of=tests) if relation == "=" else And(of=tests)
            case relation:
                return self._relation(asked.field, field, relation, asked.values[0])

    def _alone(self, asked: _Field, field: AnyField) -> AnyTest:
        match field:
            case BitsField():
                found: AnyTest = Bit(field=field.name, index=asked.bit or 0)
            case LabelField():
                found = Label(sign=1)
            case _:
                example = "'…'" if isinstance(field, CategoryField) else str(field.show(field.least))
                self._refuse(
                    asked.token, f"{asked.name!r} alone is no condition", f"compare it: {asked.name} = {example}"
                )
        return found

    def _relation(self, asked: _Field, field: AnyField, relation: str, value: _Value) -> AnyTest:
        if isinstance(field, CategoryField):
            return self._is(field, relation, value)
        held = self._held(field, value)
        if isinstance(field, BitsField):
            return self._bit(asked, field, relation, held)
        if relation in {"=", "!="}:
            return self._equal(asked, field, "=" if relation == "=" else "!=", held)
        return self._above(asked, field, relation, held, gap=False)

    def _is(self, field: CategoryField, relation: str, value: _Value) -> AnyTest:
        if relation not in {"=", "!="}:
            self._refuse(
                value.token, f"{field.name!r} is a category, and has no order", "compare it by = or !=, or ask in (…)"
            )
        if not isinstance(value.value, str):
            self._refuse(value.token, f"{field.name!r} holds texts", f"write it in quotes: '{value.token.text}'")
        if value.value not in field.index:
            few = ", ".join(f"'{each}'" for each in field.values[:8]) + (", …" if len(field.values) > 8 else "")
            self._refuse(value.token, f"{field.name!r} has no value {value.value!r}", f"it has {few}")
        found = Is(field=field.name, category=value.value)
        if relation == "=":
            return found
        if not _has_gaps(field):
            return Not(of=found)
        at = field.index[value.value]
        return Compare(left=FieldValue(field=field.name, gap=at), relation="!=", right=Integer(of=at))

    def _bit(self, asked: _Field, field: BitsField, relation: str, held: Fraction) -> AnyTest:
        """A bit that is compared: it is 0 or 1, so the answers for both say all."""
        bit = Bit(field=field.name, index=asked.bit or 0)
        zero, one = _holds(0, relation, held), _holds(1, relation, held)
        if zero is one:
            return Constant(truth=one)
        return bit if one else Not(of=bit)

    def _equal(self, asked: _Field, field: AnyField, relation: Literal["=", "!="], held: Fraction) -> AnyTest:
        if held.denominator > 1 or not _least(field) <= held <= _most(field):
            known = self._known(asked, field)
            nobody = Constant(truth=False)
            return nobody if relation == "=" else (known or Constant(truth=True))
        at = int(held)
        # A gap counts as what is false: another number, or for "is not" the number itself.
        left = self._number(asked, field, gap=at if relation == "!=" else _least(field) - 1)
        return Compare(left=left, relation=relation, right=Integer(of=at))

    def _above(self, asked: _Field, field: AnyField, relation: str, held: Fraction, *, gap: bool) -> AnyTest:
        """An order. A number between two steps is moved to the one that divides them alike; a gap is `gap`."""
        at = math.floor(held) if relation in {">", "<="} else math.ceil(held)
        at = min(max(at, _least(field) - 1), _most(field) + 1)
        large = (relation in {">", ">="}) is gap
        left = self._number(asked, field, gap=_most(field) + 2 if large else _least(field) - 2)
        return Compare(left=left, relation=_order(relation), right=Integer(of=at))

    # -- numbers

    def _number(self, asked: _Field, field: AnyField, *, gap: int) -> AnyNumber:
        """What the field holds; `gap` where it holds nothing."""
        if isinstance(field, BitsField):
            bit = Bit(field=field.name, index=asked.bit or 0)
            return If(test=bit, then=Integer(of=1), otherwise=Integer(of=0))
        return FieldValue(field=field.name, gap=gap) if _has_gaps(field) else FieldValue(field=field.name)

    def _known(self, asked: _Field, field: AnyField) -> AnyTest | None:
        """Whether a field has a value; None: it always has."""
        if not _has_gaps(field):
            return None
        below = _least(field) - 1
        return Compare(left=self._number(asked, field, gap=below), relation=">", right=Integer(of=below))

    def _held(self, field: AnyField, value: _Value) -> Fraction:
        """A number as the field would hold it, if it had steps fine enough."""
        if not isinstance(value.value, Fraction):
            self._refuse(value.token, f"{field.name!r} holds numbers, and {value.token.text} is a text")
        return value.value * (field.denominator if isinstance(field, RealField) else 1)


def _alone(of: _Condition) -> _Field:
    assert isinstance(of, _Comparison)  # noqa: S101 - told the type checker: only a share has conditions
    return of.field


def _has_gaps(field: AnyField) -> bool:
    return field.empty is not None


def _least(field: AnyField) -> int:
    return 0 if isinstance(field, BitsField) else field.least


def _most(field: AnyField) -> int:
    """The largest number that the field holds; of bits, one is asked."""
    return 1 if isinstance(field, BitsField) else field.most


def _holds(number: int, relation: str, held: Fraction) -> bool:
    return {
        "=": number == held,
        "!=": number != held,
        "<": number < held,
        "<=": number <= held,
        ">": number > held,
        ">=": number >= held,
    }[relation]


def _order(relation: str) -> Literal["<", "<=", ">=", ">"]:
    orders: tuple[Literal["<", "<=", ">=", ">"], ...] = ("<", "<=", ">=", ">")
    return next(each for each in orders if each == relation)


def _steps(field: AnyField) -> str:
    """What the field may hold."""
    if isinstance(field, RealField):
        return f"it goes from {field.low} to {field.high} in steps of 1/{field.denominator}"
    return f"it goes from {_least(field)} to {_most(field)}, in whole numbers"


def _between(field: AnyField) -> str:
    """Three cuts as an example."""
    unit = field.denominator if isinstance(field, RealField) else 1
    low, high = Fraction(_least(field), unit), Fraction(_most(field), unit)
    return ", ".join(f"{float(low + (high - low) * part / 4):g}" for part in (1, 2, 3))
