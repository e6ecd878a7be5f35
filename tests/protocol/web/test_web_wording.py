"""A question in words, in JavaScript: the very sentence that `askance client` shows for the same query, of every kind."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare, read_query
from askance_protocol.queries.language import Affine, FieldValue, Is, Lookup, Term
from askance_protocol.queries.wording import field_words, fields_of, words
from askance_protocol.schema import BitsField, CategoryField, IntegerField, Schema
from tests.protocol import trees
from tests.protocol.generators import AnyQuery
from tests.protocol.test_wording import ASKED_OF, NUMBERS, PERSON, SMALL, SURVEYED, TESTS, near, small_queries, surveyed
from tests.protocol.web.scripts import WEB, planted, run

SCHEMAS: Final = 300
NAMES: Final = (
    *("it's", 'say "no"', "'\"", "back\\slash", "\x1b[2J", "\u202egood", "line\nbreak", "\t", "\r", "\x7f", "\xa0", "\xad"),
    *("é", "e\u0301", "\u200d", "\u2028", "\u3000", "\ue000", "\U0001f44b", "\U000e0001", "\ufeff", "Å", "中", "ש", " a "),
)  # fmt: skip
"""What a server may call a category."""


def grown() -> Iterator[tuple[AnyQuery, Schema]]:
    """Random ones. A character that Unicode has assigned since Python's own table was made is escaped by Python alone."""
    source = random.Random(3)
    for _ in range(SCHEMAS):
        shape = trees.schema(source)
        schema = Schema.model_validate_json(json.dumps(shape))
        gardener = trees.Gardener(source, shape["fields"])
        for tree in (gardener.query() for _ in range(5)):
            if any(unicodedata.category(each) == "Cn" for each in f"{shape}{tree}"):
                continue
            with contextlib.suppress(ProtocolError):
                query = read_query(json.dumps(tree))
                yield prepare(query, schema).query, schema


def everything() -> Iterator[tuple[AnyQuery, Schema]]:
    """Each expression of the language, all small queries, random ones, and names that would steer a page."""
    for test in TESTS.values():
        yield BooleanQuery(test=test), PERSON
    for number, cells in itertools.product(NUMBERS.values(), (1, 3)):
        yield CellQuery(cells=cells, cell=number), PERSON
        yield RealQuery(numerator=number, denominator=9 * cells + 1), PERSON
    yield from ((query, SMALL) for query in small_queries())
    yield from grown()
    strange = Schema(fields=(CategoryField(name="plan", values=NAMES), BitsField(name="x", width=4096)))
    yield CellQuery(cells=len(NAMES), cell=FieldValue(field="plan")), strange
    yield from ((BooleanQuery(test=Is(field="plan", category=name)), strange) for name in NAMES)
    of_many = Schema(fields=(CategoryField(name="plan", values=tuple(f"{number}'" for number in range(40)), gap=True),))
    for cells, gap in itertools.product((39, 40, 41), (-1, 0, 39, 40, 41)):
        yield CellQuery(cells=cells, cell=FieldValue(field="plan", gap=gap)), of_many
    yield from tables()
    for query in itertools.chain.from_iterable(map(surveyed, SURVEYED)):
        yield from ((each, ASKED_OF) for each in (query, *near(query)))


def tables() -> Iterator[tuple[AnyQuery, Schema]]:
    """Tables that are just told by value, and just not."""
    for values, cells in itertools.product((1024, 1025), (32, 33)):
        index = Affine(constant=7, terms=(Term(weight=1, of=FieldValue(field="delay", gap=-7)),))
        table = tuple(place * cells // values for place in range(values))
        delay = IntegerField(name="delay", low=-7, high=values - 8, gap=True)
        yield CellQuery(cells=cells, cell=Lookup(index=index, table=table)), Schema(fields=(delay,))
    for values in (32, 33):
        page = CategoryField(name="page", values=tuple(f"{number}'" for number in range(values)))
        yield CellQuery(cells=1, cell=Lookup(index=FieldValue(field="page"), table=(0, 1, 1))), Schema(fields=(page,))


@cache
def asked() -> list[tuple[AnyQuery, Schema]]:
    return list(everything())


def differing(folder: Path, modules: Path = WEB) -> list[Any]:
    """What the two say otherwise."""
    theirs = run("differing.mjs", jobs(), folder, modules=modules, seconds=120)
    return [pair for pair in zip(mine(), theirs, strict=True) if pair[0] != pair[1]]


@cache
def jobs() -> list[Any]:
    return [{"does": "words", "query": query.to_json(), "schema": schema.to_json()} for query, schema in asked()]


@cache
def mine() -> list[Any]:
    return [
        [words(query, schema), list(fields_of(query, schema)), [field_words(field) for field in schema.fields]]
        for query, schema in asked()
    ]


def test_every_question_is_put_into_the_same_words(tmp_path: Path) -> None:
    assert differing(tmp_path) == []
    assert len(asked()) > 5_000


FAULTS: Final = {
    "a relation told the wrong way": {'"<": ["is less than", "is at least"]': '"<": ["is at least", "is less than"]'},
    "a gap that is not told": {', or ${number.gap} where there is nothing`': "`"},
    "brackets that are left out": {"return number.op === \"integer\" || !phrase.includes(\" \") ? phrase : `(${phrase})`;": "return phrase;"},
    "a constant that is left out": {"if (constant) phrases.push": "if (false) phrases.push"},
    "a quotation mark that is not escaped": {'inside.replaceAll("\'", "\\\\\'")': "inside"},
    "a name that steers": {"name.replace(UNSEEN, unseen)": "name"},
    "a list that is cut one later": {"names.slice(0, SHOWN - 1)": "names.slice(0, SHOWN)"},
    "a field that is not named": {'if (node.op === "label") found.add': 'if (false) found.add'},
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_control_a_question_in_other_words_is_found(tmp_path: Path, fault: str) -> None:
    assert differing(tmp_path, planted(tmp_path, "wording.mjs", FAULTS[fault]))
