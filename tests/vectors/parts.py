"""Vectors of the protocol's pieces, one at a time: queries, coins, channels, documents, reports, Hadamard rows."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from askance_protocol import canonical, hadamard
from askance_protocol.budget import MICRO
from askance_protocol.channels import (
    CHANNELS,
    BinaryResponse,
    Channel,
    DiscreteLaplace,
    KaryResponse,
    TabulatedChannel,
    TwoSidedGeometric,
)
from askance_protocol.coins import MAX_USER, Coin, choices, rows
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example
from askance_protocol.hashing import Buckets
from askance_protocol.queries import measure, prepare, read_query
from askance_protocol.reports import ReportBatch, decode_columns, decode_raw, decode_report, encode_raw, encode_report
from askance_protocol.rounds import (
    BinarySpec,
    Bulletin,
    Cause,
    Cohort,
    Entry,
    GeometricSpec,
    LearnedHypothesis,
    Part,
    RoundPublished,
    RoundSpec,
    StudyEnded,
    StudyPublished,
    StudySpec,
    read_entry,
    read_round,
    read_study,
)
from askance_protocol.schema import (
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)

Vector = dict[str, Any]

SCHEMA = Schema(
    fields=(
        BitsField(name="x", width=70),
        CategoryField(name="town", values=("Åbo", "Bern", "Cork")),
        IntegerField(name="i", low=0, high=7),
        BitsField(name="b", width=1),
        RealField(name="height", low=-1, high=1, denominator=100),
        LabelField(name="y"),
    )
)
RECORDS = [
    {"x": "0" * 70, "town": "Åbo", "i": 0, "b": "0", "height": -1.0, "y": 1},
    {"x": "1" * 70, "town": "Cork", "i": 7, "b": "1", "height": 1.0, "y": -1},
    {"x": "01" * 35, "town": "Bern", "i": 3, "b": "1", "height": 0.335, "y": -1},
    {"x": "0" * 63 + "1100000", "town": "Bern", "i": 3, "b": "0", "height": -0.005, "y": 1},
]


def refused(do: Callable[[], object]) -> str:
    """The place that a refusal names."""
    try:
        do()
    except ProtocolError as error:
        return error.where
    raise AssertionError("a bad vector was accepted")


# ----------------------------------------------------------------------------------------------------- queries

FIELD_I = {"op": "field", "field": "i"}
B_SET = {"op": "bit", "field": "b", "index": 0}

GOOD_QUERIES: dict[str, Any] = {
    "KLNRS11 5.3.1, step 1: (i = 3) and (b = 1) and (y = -1)": {
        "kind": "boolean",
        "test": {
            "op": "and",
            "of": [
                {"op": "compare", "left": FIELD_I, "relation": "=", "right": {"op": "integer", "of": 3}},
                B_SET,
                {"op": "label", "sign": -1},
            ],
        },
    },
    "KLNRS11 5.3.1, step 2: (b = 0) and (y differs from the parity)": {
        "kind": "boolean",
        "test": {
            "op": "and",
            "of": [
                {"op": "not", "of": B_SET},
                {
                    "op": "xor",
                    "of": [{"op": "label", "sign": -1}, {"op": "parity", "field": "x", "mask": "20000000000000003"}],
                },
            ],
        },
    },
    "all d queries of step 1 as cells": {
        "kind": "cell",
        "cells": 8,
        "cell": {"op": "if", "test": B_SET, "then": FIELD_I, "otherwise": {"op": "integer", "of": -1}},
        "negative": {"op": "label", "sign": -1},
    },
    "a category or a threshold": {
        "kind": "boolean",
        "test": {
            "op": "or",
            "of": [
                {"op": "is", "field": "town", "category": "Åbo"},
                {
                    "op": "compare",
                    "left": {"op": "field", "field": "height"},
                    "relation": ">=",
                    "right": {"op": "integer", "of": 34},
                },
                {"op": "constant", "truth": False},
            ],
        },
    },
    "an affine form of a real, a category and bits, clamped to [-1, 1]": {
        "kind": "real",
        "denominator": 50,
        "numerator": {
            "op": "affine",
            "constant": -3,
            "terms": [
                {"weight": 2, "of": {"op": "field", "field": "height"}},
                {"weight": -7, "of": {"op": "field", "field": "town"}},
                {"weight": 1, "of": {"op": "slice", "field": "x", "first": 60, "width": 8}},
            ],
        },
    },
    "a lookup, inside the table and beside it": {
        "kind": "cell",
        "cells": 5,
        "cell": {
            "op": "clamp",
            "of": {"op": "lookup", "index": FIELD_I, "table": [4, -9, 2, 9], "default": 1},
            "low": 0,
            "high": 4,
        },
    },
    "y times a dot product": {
        "kind": "real",
        "denominator": 100,
        "numerator": {
            "op": "if",
            "test": {"op": "label", "sign": 1},
            "then": {"op": "dot", "field": "x", "weights": [(-1) ** i * i for i in range(70)]},
            "otherwise": {"op": "dot", "field": "x", "weights": [-((-1) ** i) * i for i in range(70)]},
        },
    },
}

DEEP: Any = {"op": "constant", "truth": True}
for _ in range(16):
    DEEP = {"op": "not", "of": DEEP}

BAD_QUERIES: dict[str, Any] = {
    "an unknown kind": {"kind": "prose", "test": B_SET},
    "an unknown operation": {"kind": "boolean", "test": {"op": "divide", "of": []}},
    "an unknown member": {"kind": "boolean", "test": {**B_SET, "because": 1}},
    "a missing member": {"kind": "boolean", "test": {"op": "bit", "field": "b"}},
    "true is not an index": {"kind": "boolean", "test": {"op": "bit", "field": "b", "index": True}},
    "text is not an index": {"kind": "boolean", "test": {"op": "bit", "field": "b", "index": "0"}},
    "true is not a sign": {"kind": "boolean", "test": {"op": "label", "sign": True}},
    "no such field": {"kind": "boolean", "test": {"op": "bit", "field": "c", "index": 0}},
    "no such bit": {"kind": "boolean", "test": {"op": "bit", "field": "x", "index": 70}},
    "a mask wider than its field": {"kind": "boolean", "test": {"op": "parity", "field": "b", "mask": "2"}},
    "no such category": {"kind": "boolean", "test": {"op": "is", "field": "town", "category": "Rome"}},
    "deeper than the limit": {"kind": "boolean", "test": DEEP},
    "more nodes than the limit": {
        "kind": "boolean",
        "test": {"op": "and", "of": [{"op": "or", "of": [B_SET] * 128}] * 2},
    },
    "a sum that can leave the safe integers": {
        "kind": "real",
        "denominator": 1,
        "numerator": {"op": "affine", "constant": 0, "terms": [{"weight": 9007199254740991, "of": FIELD_I}]},
    },
    "a denominator of zero": {"kind": "real", "denominator": 0, "numerator": FIELD_I},
    "a sum without its constant": {
        "kind": "real",
        "denominator": 7,
        "numerator": {"op": "affine", "terms": [{"weight": 1, "of": FIELD_I}]},
    },
    "a lookup without its default": {
        "kind": "real",
        "denominator": 1,
        "numerator": {"op": "lookup", "index": FIELD_I, "table": [1]},
    },
    "a null in place of a sign": {"kind": "cell", "cells": 8, "cell": FIELD_I, "negative": None},
}


GAP_SCHEMA = Schema(
    fields=(
        IntegerField(name="minutes", low=0, high=120, gap=True),
        CategoryField(name="plan", values=("free", "pro"), gap=True),
        RealField(name="height", low=-1, high=1, denominator=100, gap=True),
        IntegerField(name="i", low=0, high=7),
    )
)
GAP_RECORDS: list[dict[str, Any]] = [
    {"minutes": 0, "plan": "free", "height": -1.0, "i": 0},
    {"minutes": 120, "plan": "pro", "height": 1.0, "i": 7},
    {"minutes": None, "plan": None, "height": None, "i": 3},
    {"minutes": 31, "plan": None, "height": 0.335, "i": 3},
    {"minutes": None, "plan": "pro", "height": 0.0, "i": 7},
]
MINUTES = {"op": "field", "field": "minutes", "gap": -1}
OF_PLAN = {"op": "field", "field": "plan", "gap": 2}

GOOD_GAP_QUERIES: dict[str, Any] = {
    "whether there is anything": {
        "kind": "boolean",
        "test": {"op": "compare", "left": MINUTES, "relation": ">=", "right": {"op": "integer", "of": 0}},
    },
    "a gap is none of the categories": {
        "kind": "boolean",
        "test": {
            "op": "and",
            "of": [
                {"op": "not", "of": {"op": "is", "field": "plan", "category": "free"}},
                {"op": "compare", "left": MINUTES, "relation": "<", "right": {"op": "integer", "of": 31}},
            ],
        },
    },
    "a gap counts as zero": {
        "kind": "real",
        "denominator": 100,
        "numerator": {"op": "field", "field": "height", "gap": 0},
    },
    "a gap as a category": {"kind": "cell", "cells": 3, "cell": OF_PLAN},
    "a gap in no cell": {"kind": "cell", "cells": 2, "cell": {**OF_PLAN, "gap": -1}},
    "a gap as one above the largest": {"kind": "cell", "cells": 122, "cell": {**MINUTES, "gap": 121}},
    "fields with gaps and without": {
        "kind": "real",
        "denominator": 200,
        "numerator": {
            "op": "affine",
            "constant": 3,
            "terms": [
                {"weight": 1, "of": {**MINUTES, "gap": -9007199254740}},
                {"weight": -5, "of": FIELD_I},
            ],
        },
    },
}
BAD_GAP_QUERIES: dict[str, Any] = {
    "a gap that counts as nothing": {
        "kind": "boolean",
        "test": {
            "op": "compare",
            "left": {"op": "field", "field": "minutes"},
            "relation": "<",
            "right": {"op": "integer", "of": 31},
        },
    },
    "a gap where there are none": {"kind": "cell", "cells": 8, "cell": {**FIELD_I, "gap": 0}},
    "a gap that is true": {"kind": "cell", "cells": 3, "cell": {**OF_PLAN, "gap": True}},
    "a gap that is text": {"kind": "cell", "cells": 3, "cell": {**OF_PLAN, "gap": "2"}},
}


def queries() -> Iterator[Vector]:
    """Each good query with its answers on all records."""
    yield from answered(SCHEMA, RECORDS, GOOD_QUERIES, BAD_QUERIES)


def gaps() -> Iterator[Vector]:
    """The same over fields that have gaps."""
    yield from answered(GAP_SCHEMA, GAP_RECORDS, GOOD_GAP_QUERIES, BAD_GAP_QUERIES)


def answered(
    schema: Schema, records: Sequence[dict[str, Any]], good: dict[str, Any], bad: dict[str, Any]
) -> Iterator[Vector]:
    """Vectors of the queries over a schema: answers, or where they are refused."""
    examples = [Example.of(schema, record) for record in records]
    for name, document in good.items():
        query = read_query(json.dumps(document))
        ready = prepare(query, schema)
        cost = measure(query)
        yield {
            "name": name,
            "query": query.to_json(),
            "canonical_sha256": hashlib.sha256(query.to_bytes()).hexdigest(),
            "cost": {"nodes": cost.nodes, "depth": cost.depth, "entries": cost.entries},
            "answers": [ready.answer(example) for example in examples],
            "success": True,
        }
    for name, document in bad.items():
        text = json.dumps(document)
        where = refused(lambda text=text: prepare(read_query(text), schema))
        yield {"name": name, "query": document, "where": where, "success": False}


# ------------------------------------------------------------------------------------------------------- coins


def coins() -> Iterator[Vector]:
    """The 64 bits of some users under some digests, and what they choose."""
    for name in ("a round", "another round", "a study"):
        digest = hashlib.sha256(name.encode()).hexdigest()
        for user in (0, 1, 2, 3, 1_000_000, 2**32, 2**32 + 1, MAX_USER - 1):
            coin = Coin(digest).toss(np.array([user]))
            yield {
                "digest": digest,
                "user": user,
                "coin": f"{int(coin[0]):016x}",
                "choice_of_3": int(choices(coin, 3)[0]),
                "choice_of_1048576": int(choices(coin, 1 << 20)[0]),
                "row_of_128": int(rows(coin, 127)[0]),
                "success": True,
            }
    for name, digest, user in (
        ("a digest in capitals", "A" * 64, 0),
        ("a digest that is too short", "0" * 63, 0),
        ("a negative user", "0" * 64, -1),
        ("a user beyond the largest", "0" * 64, MAX_USER),
    ):
        where = refused(lambda digest=digest, user=user: Coin(digest).toss(np.array([user])))
        yield {"name": name, "digest": digest, "user": user, "where": where, "success": False}


# ---------------------------------------------------------------------------------------------------- channels

GOOD_CHANNELS: list[tuple[dict[str, Any], Channel]] = [
    *(({"micro_epsilon": asked, "steps": steps}, BinaryResponse(micro_epsilon=asked, steps=steps)) for asked in (1, 100_000, MICRO, 8 * MICRO) for steps in (1, 2, 5)),
    *(({"micro_epsilon": asked, "k": k}, KaryResponse(asked, k)) for asked in (100_000, MICRO, 8 * MICRO) for k in (2, 3, 7)),
    *(({"micro_epsilon": asked, "range": r}, TwoSidedGeometric(asked, r)) for asked in (100_000, MICRO, 8 * MICRO) for r in (1, 4)),
    *(({"micro_epsilon": asked, "range": r}, DiscreteLaplace(asked, r)) for asked in (100_000, MICRO, 8 * MICRO) for r in (1, 3)),
]  # fmt: skip


def other_channels() -> Iterator[tuple[dict[str, Any], Channel]]:
    """Each kind that is found beside those above, if its published form says all of it: with the defaults of its options."""
    listed = {channel.kind for _, channel in GOOD_CHANNELS}
    for name, kind in CHANNELS.items():
        options = {option: default for option, (default, _) in kind.options.items()}
        if name not in listed and kind.build is not None and options.keys() <= kind.spec.model_fields.keys():
            for asked in (100_000, MICRO, 8 * MICRO):
                yield {"micro_epsilon": asked, **options}, kind.build(asked, **options)


HALF = 1 << 63
BAD_CHANNELS: list[tuple[str, dict[str, Any], Callable[[], Channel]]] = [
    ("ε of zero", {"kind": "binary", "micro_epsilon": 0}, lambda: BinaryResponse(0)),
    ("ε below zero", {"kind": "kary", "micro_epsilon": -1, "k": 3}, lambda: KaryResponse(-1, 3)),
    ("ε too large to certify", {"kind": "binary", "micro_epsilon": 24 * MICRO}, lambda: BinaryResponse(24 * MICRO)),
    ("one category", {"kind": "kary", "micro_epsilon": MICRO, "k": 1}, lambda: KaryResponse(MICRO, 1)),
    ("no range", {"kind": "geometric", "micro_epsilon": MICRO, "range": 0}, lambda: TwoSidedGeometric(MICRO, 0)),
    ("a range too large", {"kind": "laplace", "micro_epsilon": MICRO, "range": 1024}, lambda: DiscreteLaplace(MICRO, 1024)),
    *(
        (name, {"kind": "table", "weights": [[str(weight) for weight in row] for row in table]}, lambda table=table: TabulatedChannel(table))
        for name, table in (
            ("a row one short of 2^64", ((HALF, HALF), (HALF, HALF - 1))),
            ("a row one beyond 2^64", ((HALF, HALF + 1), (HALF, HALF))),
            ("a zero opposite a weight", ((2 * HALF, 0), (HALF, HALF))),
            ("rows of unequal length", ((HALF, HALF), (HALF, HALF - 1, 1))),
            ("one input", ((HALF, HALF),)),
        )
    ),
]  # fmt: skip


def channels() -> Iterator[Vector]:
    """Each table with what some words choose: around every cut-point of the first and the last input."""
    for parameters, channel in [*GOOD_CHANNELS, *other_channels()]:
        chosen = [
            {"input": given, "word": str(word), "outcome": channel.choose(given, word)}
            for given in (0, channel.inputs - 1)
            for end, _ in channel.segments(given)
            for word in (end - 1, end)
            if 0 <= word < 1 << 64
        ]
        yield {
            "kind": channel.kind,
            **parameters,
            "weights": [[str(weight) for weight in row] for row in channel.table()],
            "certified_micro_epsilon": channel.certified_micro_epsilon,
            "chosen": chosen,
            "success": True,
        }
    for name, document, build in BAD_CHANNELS:
        yield {"name": name, **document, "where": refused(build), "success": False}


# ----------------------------------------------------------------------------------------------------- digests

STUDY = StudySpec(
    title="Vectors — “quoted”, \u2028 and \\ too",
    nonce="00112233445566778899aabbccddeeff",
    example=SCHEMA,
    strategy="masked-parity-pooled",
    parameters={"d": 8, "alpha": "0.1", "exact": True},
    interactive=True,
    simulated=False,
    cap=2 * MICRO,
)
LIVE = STUDY.model_copy(update={"live": 10})
ROUND = RoundSpec(
    study=STUDY.digest(),
    number=1,
    parts=(
        Part(query=read_query(json.dumps(GOOD_QUERIES["all d queries of step 1 as cells"])), channel=BinarySpec(micro_epsilon=MICRO), charge=MICRO, share=3),
        Part(query=read_query(json.dumps(GOOD_QUERIES["y times a dot product"])), channel=GeometricSpec(micro_epsilon=MICRO), charge=MICRO),
    ),
    cohort=Cohort(users=1000, slots=4, first_slot=1, slot_count=2),
    target=100,
    deadline=1_800_000_000,
)  # fmt: skip

BAD_TEXTS: dict[str, str] = {
    "a float": '{"a": 1.0}',
    "an exponent": '{"a": 1e3}',
    "not a number": '{"a": NaN}',
    "negative zero": "[-0]",
    "beyond 2^53 - 1": "[9007199254740992]",
    "a member twice": '{"a": 1, "a": 1}',
    "half a surrogate pair": '["\\ud800"]',
    "deep nesting": "[" * 65 + "]" * 65,
    "trailing text": "{} {}",
    "no text": "",
}


WEIGHTS = [0.1, -0.0, 1 / 3, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345680.0, 1e-7, 2.0]
"""Doubles that are written in different ways: each text reads back as the same bits."""
HYPOTHESIS = {"weights": WEIGHTS, "bias": 3, "large": 2**70, "name": "é\U0001f44b", "none": None}
LEARNED = StudyEnded(
    state="finished",
    reason="y = +1 where …",
    cause=Cause.LEARNED,
    hypothesis=LearnedHypothesis.of("y = +1 where …", HYPOTHESIS),
)
BAD_ENDS: dict[str, dict[str, Any]] = {
    "an end that has learned, without its hypothesis": {"hypothesis": None},
    "an end that has failed, with a hypothesis": {"state": "failed", "cause": "strategy"},
    "a hypothesis without its text": {"hypothesis": {"data": "{}"}},
    "a hypothesis that is no JSON": {"hypothesis": {"text": "", "data": '{"a":}'}},
    "a hypothesis with a member twice": {"hypothesis": {"text": "", "data": '{"a":1,"a":1}'}},
    "a hypothesis that is no object": {"hypothesis": {"text": "", "data": "[1]"}},
    "a hypothesis with NaN": {"hypothesis": {"text": "", "data": '{"a":NaN}'}},
    "a hypothesis with a number beyond all doubles": {"hypothesis": {"text": "", "data": '{"a":1e999}'}},
    "a hypothesis of 65 levels": {"hypothesis": {"text": "", "data": '{"a":' * 65 + "1" + "}" * 65}},
}


def last(notice: StudyEnded) -> Entry:
    """The last entry of a study that had no round."""
    first = Bulletin()
    return first.append(first.next(StudyPublished(study=STUDY))).next(notice)


def last_with(change: dict[str, Any]) -> dict[str, Any]:
    """The last entry, with one thing wrong."""
    document = last(LEARNED).to_json()
    notice = document["notice"] | change
    return document | {"notice": {name: value for name, value in notice.items() if value is not None}}


def doubles(numbers: Sequence[float]) -> list[str]:
    """Each as the 16 hexadecimal digits of its IEEE 754 form."""
    return [struct.pack(">d", number).hex() for number in numbers]


def digests() -> Iterator[Vector]:
    """Canonical bytes and SHA-256 of some documents; texts that have none; published forms with one thing wrong."""
    first = Bulletin()
    entry = first.next(StudyPublished(study=STUDY))
    second = first.append(entry).next(RoundPublished(round=ROUND))
    documents: dict[str, Any] = {
        "an empty object": {},
        "order, nesting, white space": {"b": [1, 2, {"z": None, "a": True}], "a": {"d": "x", "c": -7}},
        "text beyond ASCII": {"greeting": "Grüße \U0001f44b", "control": '\u0000\u001f\n\t"\\/\u007f'},
        "the largest integers": [9007199254740991, -9007199254740991],
        "a study": STUDY.to_json(),
        "a study whose open rounds are told in steps": LIVE.to_json(),
        "a round": ROUND.to_json(),
        "the first entry of a bulletin": entry.to_json(),
        "the second entry of a bulletin": second.to_json(),
        "the last entry of a bulletin": last(LEARNED).to_json(),
    }
    for name, document in documents.items():
        yield {
            "name": name,
            "text": json.dumps(document, indent=1),
            "canonical": base64.b64encode(canonical.dumps(document)).decode(),
            "sha256": canonical.digest(document),
            **({"weights": doubles(WEIGHTS)} if name == "the last entry of a bulletin" else {}),
            "success": True,
        }
    for name, text in BAD_TEXTS.items():
        yield {"name": name, "text": text, "where": refused(lambda text=text: canonical.loads(text)), "success": False}
    for name, read, document in (
        ("a round of a later version", read_round, ROUND.to_json() | {"version": 2}),
        ("a round of version true", read_round, ROUND.to_json() | {"version": True}),
        ("a round with an unknown member", read_round, ROUND.to_json() | {"note": "hello"}),
        ("a round without its cohort", read_round, {k: v for k, v in ROUND.to_json().items() if k != "cohort"}),
        ("a study without parameters", read_study, {k: v for k, v in STUDY.to_json().items() if k != "parameters"}),
        ("a study whose open rounds are told report by report", read_study, LIVE.to_json() | {"live": 1}),
        ("a study that is live, or not", read_study, LIVE.to_json() | {"live": True}),
        ("a study with steps of null", read_study, LIVE.to_json() | {"live": None}),
        ("an entry of another form", read_entry, entry.to_json() | {"form": "askance.round"}),
        *((name, read_entry, last_with(change)) for name, change in BAD_ENDS.items()),
    ):
        text = json.dumps(document)
        where = refused(lambda read=read, text=text: read(text))
        yield {"name": name, "reads_as": document.get("form"), "text": text, "where": where, "success": False}


# ----------------------------------------------------------------------------------------------------- reports


def reports() -> Iterator[Vector]:
    """Bodies of single reports, of JSON columns, and of raw columns in base64."""
    for outcome, outcomes in ((0, 1), (1, 2), (7, 10), (7, 11), (4095, 4096)):
        body = encode_report(outcome, outcomes)
        yield {"form": "single", "outcomes": outcomes, "body": body.decode(), "outcome": outcome, "success": True}
    for body in ('{"outcome": true}', '{"outcome": "1"}', '{"outcome": 1.0}', '{"outcome": NaN}', '{"outcome": -1}',
                 '{"outcome": 2}', '{"outcome": 01}', '{"outcome": -0}', '{"outcome":\v1}', '{"outcome": 1}\f', '\ufeff{"outcome": 1}', '{"outcome":\u00a01}', '{"outcome": 1, "user": 7}', '{"outcome": 1, "outcome": 1}', "{}", "1", ""):  # fmt: skip
        where = refused(lambda body=body: decode_report(body.encode(), 2))
        yield {"form": "single", "outcomes": 2, "body": body, "where": where, "success": False}
    batch = ReportBatch(
        np.array([3, 1, MAX_USER - 1], np.uint64), np.array([0, 1, 2**32 - 1], np.uint32), simulated=True
    )
    users, outcomes = batch.users.tolist(), batch.outcomes.tolist()
    text = json.dumps({"users": users, "outcomes": outcomes})
    yield {"form": "columns", "body": text, "users": users, "outcomes": outcomes, "success": True}
    for text in ('{"users": [1, true], "outcomes": [0, 1]}', '{"users": [1], "outcomes": [1.0]}', '{"users": [1], "outcomes": ["1"]}',
                 '{"users": [1], "outcomes": [-0]}', '{"users": [-0], "outcomes": [1]}', '{"users": [1],\v"outcomes": [1]}', '{"users": [1, 2], "outcomes": [0]}', '{"users": [281474976710656], "outcomes": [0]}', '{"users": [1]}', "[]"):  # fmt: skip
        where = refused(lambda text=text: decode_columns(text.encode()))
        yield {"form": "columns", "body": text, "where": where, "success": False}
    raw = encode_raw(batch)
    yield {"form": "raw", "body": base64.b64encode(raw).decode(), "users": users, "outcomes": outcomes, "simulated": True, "success": True}  # fmt: skip
    for name, body in (("too short", raw[:15]), ("cut off", raw[:-1]), ("too long", raw + b"\0"), ("another magic", b"JSON" + raw[4:]),
                       ("a later version", raw[:4] + b"\2" + raw[5:]), ("an unknown flag", raw[:5] + b"\x80" + raw[6:])):  # fmt: skip
        where = refused(lambda body=body: decode_raw(body))
        yield {"form": "raw", "name": name, "body": base64.b64encode(body).decode(), "where": where, "success": False}


def encodings() -> Iterator[Vector]:
    """How answers become inputs of a pooled part: 0 for −1, 1 for in no cell, 2 for +1."""
    for row, answer in ((0, 1), (0, -1), (5, 4), (5, -4), (6, 4), (127, 128), (127, 0)):
        yield {"row": row, "answer": answer, "input": hadamard.encode(answer, row), "success": True}


def hashings() -> Iterator[Vector]:
    """How answers become buckets, in the field of each degree: for each row, in a cell and in none."""
    for degree in range(1, 17):
        # Without signs and with, by turns.
        cells, bits, apart = (1 << degree) - (1 << degree >> 2), min(degree, 2 + degree % 8), degree % 2 == 0
        buckets = Buckets(bits, cells, apart, 1 << bits if apart else None)
        rows_, answers = (1, 3 * (1 << degree) // 5, (1 << degree) - 1), (0, 1 + cells // 2, -cells if apart else cells)
        yield {
            "bits": bits,
            "columns": cells,
            "apart": apart,
            "rows": rows_,
            "answers": answers,
            "inputs": [[int(buckets.encode(answer, row)) for answer in answers] for row in rows_],
            "success": True,
        }
