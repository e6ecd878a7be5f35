"""Vectors of whole paths: rounds that are checked, users who are dealt a question and report, bulletins that are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.channels import (
    BinarySpec,
    ChannelSpec,
    GeometricSpec,
    HashSpec,
    KarySpec,
    LaplaceSpec,
    TableSpec,
)
from askance_protocol.examples import Example
from askance_protocol.queries import Query, read_query
from askance_protocol.reports import encode_report
from askance_protocol.rounds import (
    MAX_WORK,
    Bulletin,
    Cause,
    Cohort,
    Entry,
    LearnedHypothesis,
    Part,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundSpec,
    StudyEnded,
    StudyPublished,
    StudySpec,
    prepare_round,
    read_entry,
    read_round,
    work_of,
)
from askance_protocol.rounds.bulletin import Notice
from tests.vectors.parts import B_SET, FIELD_I, GOOD_QUERIES, RECORDS, SCHEMA, Vector, refused

Json = dict[str, Any]

STUDY = StudySpec(
    title="Whole paths",
    nonce="ffeeddccbbaa99887766554433221100",
    example=SCHEMA,
    strategy="vectors",
    interactive=True,
    simulated=False,
    cap=4 * MICRO,
)
AT_ONCE = STUDY.model_copy(update={"interactive": False, "nonce": "00" * 16})
STUDIES = (STUDY, AT_ONCE)

HALF = 1 << 63
CERTAIN = 1 << 62


def _query(document: Any) -> Query:
    return read_query(json.dumps(document))


BOOLEAN = _query({"kind": "boolean", "test": {"op": "and", "of": [B_SET, {"op": "label", "sign": -1}]}})
REAL = _query({"kind": "real", "denominator": 2, "numerator": {"op": "affine", "constant": -3, "terms": [{"weight": 1, "of": FIELD_I}]}})  # fmt: skip
CELLS = _query({"kind": "cell", "cells": 8, "cell": FIELD_I})
SOME_CELLS = _query({"kind": "cell", "cells": 5, "cell": FIELD_I})
SIGNED_CELLS = _query({"kind": "cell", "cells": 8, "cell": FIELD_I, "negative": {"op": "label", "sign": -1}})
SIGNED = _query(GOOD_QUERIES["all d queries of step 1 as cells"])
TABLE = TableSpec(weights=((str(3 * CERTAIN), str(CERTAIN)), (str(CERTAIN), str(3 * CERTAIN))))
"""Warner's randomized response with truth at 3/4: ε = ln 3, certified at 1,098,613 millionths."""
LN_3 = 1_098_613


def _round(number: int, *parts: Part, study: StudySpec = STUDY, cohort: Cohort | None = None) -> RoundSpec:
    chosen = Cohort(users=1000) if cohort is None else cohort
    return RoundSpec(study=study.digest(), number=number, parts=parts, cohort=chosen, target=100, deadline=1_800_000_000)  # fmt: skip


def _part(query: Query, channel: ChannelSpec, charge: int, share: int = 1) -> Part:
    return Part(query=query, channel=channel, charge=charge, share=share)


ROUNDS: dict[str, RoundSpec] = {
    "one bit": _round(1, _part(BOOLEAN, BinarySpec(micro_epsilon=MICRO), MICRO)),
    "a value in five steps": _round(2, _part(REAL, BinarySpec(micro_epsilon=100_000), 100_000)),
    "a pooled partition": _round(3, _part(SIGNED, BinarySpec(micro_epsilon=MICRO), MICRO)),
    "a cell by k-ary response": _round(4, _part(CELLS, KarySpec(micro_epsilon=2 * MICRO), 2 * MICRO)),
    "a table, charged one millionth more than it costs": _round(5, _part(BOOLEAN, TABLE, LN_3 + 1)),
    "five parts of unequal shares, charges and lengths, in three of seven slots": _round(
        6,
        _part(BOOLEAN, BinarySpec(micro_epsilon=MICRO), MICRO, 5),
        _part(REAL, GeometricSpec(micro_epsilon=MICRO), MICRO, 1),
        _part(REAL, LaplaceSpec(micro_epsilon=3 * MICRO), 3 * MICRO, 3),
        _part(SIGNED, BinarySpec(micro_epsilon=500_000), 500_000, 7),
        _part(CELLS, KarySpec(micro_epsilon=MICRO), MICRO + 7, 2),
        cohort=Cohort(first_user=10, users=500, slots=7, first_slot=2, slot_count=3),
    ),
    "the last users there can be, in the last slot": _round(
        1,
        _part(CELLS, BinarySpec(micro_epsilon=MICRO), MICRO),
        study=AT_ONCE,
        cohort=Cohort(first_user=(1 << 48) - 64, users=64, slots=2, first_slot=1, slot_count=1),
    ),
    "cells in four buckets": _round(
        7, _part(CELLS, HashSpec(micro_epsilon=MICRO, bits=2), MICRO), cohort=Cohort(users=12)
    ),
    "rows of every kind": _round(
        8,
        _part(SIGNED_CELLS, HashSpec(micro_epsilon=MICRO, bits=4), MICRO, 3),
        _part(SIGNED, BinarySpec(micro_epsilon=MICRO), MICRO, 2),
        _part(SOME_CELLS, HashSpec(micro_epsilon=500_000, bits=2), 500_000, 4),
        _part(SIGNED, HashSpec(micro_epsilon=2 * MICRO, bits=3), 2 * MICRO, 4),
        _part(BOOLEAN, BinarySpec(micro_epsilon=MICRO), MICRO, 1),
        cohort=Cohort(first_user=10, users=18),
    ),
}
USERS = (0, 1, 9, *range(10, 30), 509, 510, 999, 1000, *range((1 << 48) - 8, 1 << 48))
WORDS = (0, 1, HALF - 1, HALF, (1 << 64) - 1)


def studies() -> dict[str, Json]:
    """The studies by their digests."""
    return {study.digest(): study.to_json() for study in STUDIES}


def published() -> dict[str, Json]:
    """The rounds by their digests."""
    return {spec.digest(): spec.to_json() for spec in ROUNDS.values()}


def _prepared(spec: RoundSpec) -> PreparedRound:
    [study] = [each for each in STUDIES if each.digest() == spec.study]
    return prepare_round(study, spec)


def dealings() -> Iterator[Vector]:
    """Who is asked what, at which price; and what she reports, word by word, with each of the records of queries.json.

    `asked` false has nothing else. `reports` lists, for each record, the channel's input and its outcomes under
    `words`, and the very bytes that leave for the last of them.
    """
    for spec in ROUNDS.values():
        round_ = _prepared(spec)
        for user in USERS:
            asked = round_.asks(user)
            yield {"round": round_.id, "user": user, "asked": asked, **(_dealt(round_, user) if asked else {}), "success": True}  # fmt: skip


def _dealt(round_: PreparedRound, user: int) -> Json:
    question = round_.question(user)
    part = round_.parts[question.part]
    words = sorted({*WORDS, *_fresh(f"{round_.id} {user}")})
    reports: list[Json] = []
    for record in RECORDS:
        given = part.encode(part.query.answer(Example.of(SCHEMA, record)), question.row)
        outcomes = [part.channel.choose(given, word) for word in words]
        reports.append({"input": given, "outcomes": outcomes, "body": encode_report(outcomes[-1], round_.outcomes).decode()})  # fmt: skip
    return {
        "part": question.part,
        "row": question.row,
        "charge": round_.charge_of(user),
        "words": [str(word) for word in words],
        "reports": reports,
    }


def _fresh(name: str) -> list[int]:
    """Three words that differ from dealing to dealing."""
    found = hashlib.sha256(name.encode()).digest()
    return np.frombuffer(found[:24], "<u8").tolist()


# ---------------------------------------------------------------------------------------------- rounds, good and bad


def _changed(spec: RoundSpec, **members: Any) -> Json:
    return spec.to_json() | members


def _with_part(spec: RoundSpec, **members: Any) -> Json:
    document = spec.to_json()
    [first, *others] = document["parts"]
    return document | {"parts": [first | members, *others]}


def bad_rounds() -> dict[str, Json]:
    """Rounds that nobody may answer, by what is wrong with them."""
    bit, cells, table = (ROUNDS[name] for name in ("one bit", "a cell by k-ary response", "a table, charged one millionth more than it costs"))  # fmt: skip
    hashed = ROUNDS["cells in four buckets"]
    pooled, many = ROUNDS["a pooled partition"], ROUNDS["five parts of unequal shares, charges and lengths, in three of seven slots"]  # fmt: skip
    short = {
        f"{name}: charged one millionth short": _with_part(spec, charge=spec.parts[0].charge - short)
        for name, spec, short in (
            ("binary", bit, 1),
            ("binary in five steps", ROUNDS["a value in five steps"], 1),
            ("pooled", pooled, 1),
            ("k-ary", cells, 1),
            ("hash", ROUNDS["cells in four buckets"], 1),
            ("table", table, 2),
        )
    }
    second, third, fifth = (many.to_json() for _ in range(3))
    second["parts"][1]["charge"] -= 1
    third["parts"][2]["charge"] -= 1
    fifth["parts"][4]["charge"] -= 8
    beyond = many.to_json()
    # The least denominator whose Geometric noise takes more than 2^23 steps, with the other parts.
    spare = MAX_WORK - sum(map(work_of, many.parts)) + 32 * beyond["parts"][1]["query"]["denominator"]
    beyond["parts"][1]["query"] = beyond["parts"][1]["query"] | {"denominator": spare // 32 + 1}
    several = many.to_json()
    several["parts"][0]["share"] = 1 << 20
    return short | {
        "geometric, the second of five parts: charged one millionth short": second,
        "laplace, the third of five parts: charged one millionth short": third,
        "k-ary, the last of five parts: charged one millionth short": fifth,
        "charged beyond the study's cap": _with_part(bit, charge=4 * MICRO + 1),
        "a charge of zero": _with_part(bit, charge=0),
        "of another study": _changed(bit, study=AT_ONCE.digest()),
        "of number 0": _changed(bit, number=0),
        "no parts": _changed(bit, parts=[]),
        "a share of zero": _with_part(bit, share=0),
        "shares of more than 2^20 in all": several,
        "work of more than 2^23 in all": beyond,
        "k-ary response to a boolean query": _with_part(bit, channel={"kind": "kary", "micro_epsilon": MICRO}),
        "buckets of a boolean query": _with_part(bit, channel={"kind": "hash", "micro_epsilon": MICRO, "bits": 2}),
        "buckets of no bits": _with_part(hashed, channel={"kind": "hash", "micro_epsilon": MICRO, "bits": 0}),
        "buckets of ten bits": _with_part(hashed, channel={"kind": "hash", "micro_epsilon": MICRO, "bits": 10}),
        "buckets without their bits": _with_part(hashed, channel={"kind": "hash", "micro_epsilon": MICRO}),
        "buckets of too many columns": _with_part(
            hashed,
            query={
                "kind": "cell",
                "cells": 1 << 16,
                "cell": {"op": "affine", "constant": -1, "terms": [{"weight": 1, "of": FIELD_I}]},
            },
        ),
        "geometric noise on a cell": _with_part(cells, channel={"kind": "geometric", "micro_epsilon": MICRO}),
        "a table with a row too few": _with_part(bit, query=REAL.to_json(), channel=TABLE.to_json()),
        "an unknown channel": _with_part(bit, channel={"kind": "exact"}),
        "ε of a channel above its limit": _with_part(bit, channel={"kind": "binary", "micro_epsilon": 24 * MICRO}),
        "a query of a field that the study does not have": _with_part(
            bit, query={"kind": "boolean", "test": {"op": "bit", "field": "z", "index": 0}}
        ),
        "no users": _changed(bit, cohort=bit.cohort.to_json() | {"users": 0}),
        "users beyond the largest number": _changed(bit, cohort=bit.cohort.to_json() | {"first_user": (1 << 48) - 999}),
        "slots beyond the last": _changed(
            bit, cohort=bit.cohort.to_json() | {"slots": 4, "first_slot": 3, "slot_count": 2}
        ),
        "a target of zero": _changed(bit, target=0),
        "a deadline before 1970": _changed(bit, deadline=-1),
    }


def rounds() -> Iterator[Vector]:
    """Rounds of one study: what each part is certified for and how many rows it has, or why it is refused."""
    for name, spec in ROUNDS.items():
        if spec.study != STUDY.digest():
            continue
        round_ = prepare_round(STUDY, spec)
        parts = [
            {
                "certified_micro_epsilon": part.channel.certified_micro_epsilon,
                "inputs": part.channel.inputs,
                "outcomes": part.channel.outcomes,
                "rows": part.rows,
            }
            for part in round_.parts
        ]
        yield {"name": name, "round": spec.to_json(), "id": round_.id, "parts": parts, "body_length": len(encode_report(0, round_.outcomes)), "success": True}  # fmt: skip
    for name, document in bad_rounds().items():
        where = refused(lambda document=document: prepare_round(STUDY, read_round(json.dumps(document))))
        yield {"name": name, "round": document, "where": where, "success": False}


# ---------------------------------------------------------------------------------------------------- chains

FIRST, SECOND = ROUNDS["one bit"], ROUNDS["a value in five steps"]
COUNTS = (((60, 40),),)


def _answered(spec: RoundSpec) -> tuple[Notice, ...]:
    id_ = spec.digest()
    return (
        RoundPublished(round=spec),
        RoundClosed(round=id_, reason="target", received=100),
        RoundAnswered(round=id_, tallies=COUNTS),
    )


LEARNED = StudyEnded(
    state="finished",
    reason="x_1 = 1",
    cause=Cause.LEARNED,
    hypothesis=LearnedHypothesis.of("x_1 = 1", {"bit": 1, "share": 0.6}),
)
NOT_ASCII = StudyEnded(
    state="finished",
    reason="in Zürich und 東京",
    cause=Cause.LEARNED,
    hypothesis=LearnedHypothesis.of("Zürich 👋", {"città": "Zürich", "Ωμέγα": 0.5, "a\u2028b": "👋\x7f"}),
)
"""Its data is ASCII, with \\u escapes, and its members are sorted by code points; all other text of the entry is as it is."""
GOOD_CHAINS: dict[str, tuple[Notice, ...]] = {
    "two rounds and what was learned": (StudyPublished(study=STUDY), *_answered(FIRST), *_answered(SECOND), LEARNED),
    "a study of version 0.1, whose end has no cause": (
        StudyPublished(study=STUDY),
        *_answered(FIRST),
        StudyEnded(state="finished", reason="x_1 = 1"),
    ),
    "cancelled while a round was open": (
        StudyPublished(study=STUDY),
        RoundPublished(round=FIRST),
        StudyEnded(state="cancelled", reason="cancelled by the operator", cause=Cause.CANCELLED),
    ),
    "everything at once": (
        StudyPublished(study=AT_ONCE),
        *_answered(ROUNDS["the last users there can be, in the last slot"]),
        StudyEnded(state="failed", reason="round 1 had no reports", cause=Cause.TOO_FEW_REPORTS),
    ),
    "what was learned is named in letters beyond ASCII": (
        StudyPublished(study=STUDY),
        *_answered(FIRST),
        NOT_ASCII,
    ),
}


def _chain(notices: tuple[Notice, ...]) -> list[Entry]:
    bulletin, entries = Bulletin(), list[Entry]()
    for notice in notices:
        entries.append(bulletin.next(notice))
        bulletin = bulletin.append(entries[-1])
    return entries


def _relinked(entries: list[Json]) -> list[Json]:
    """The same entries in this order, each naming the one before: what is left wrong is no matter of the chain."""
    linked, previous = list[Json](), "0" * 64
    for sequence, entry in enumerate(entries):
        linked.append(entry | {"sequence": sequence, "previous": previous})
        previous = canonical.digest(linked[-1])
    return linked


def bad_chains() -> dict[str, list[Json]]:
    """Chains with one thing wrong, which is at the last entry."""
    whole = [entry.to_json() for entry in _chain(GOOD_CHAINS["two rounds and what was learned"])]
    study, first, closed, answers, second, closed2, answers2, end = whole
    old_end = _chain(GOOD_CHAINS["a study of version 0.1, whose end has no cause"])[-1].to_json()
    at_once = [entry.to_json() for entry in _chain(GOOD_CHAINS["everything at once"])]
    again = at_once[1]["notice"]["round"] | {"number": 2}
    return {
        "an entry left out": [study, first, answers],
        "an entry that continues another": [study, first, closed | {"previous": "ab" * 32}],
        "a first entry that continues something": [study | {"previous": "ab" * 32}],
        "a first entry of sequence 1": [study | {"sequence": 1}],
        "an earlier entry changed": [study, first | {"notice": _deadline(first, 1)}, closed],
        "a round before the study": _relinked([first]),
        "a study twice": _relinked([study, study]),
        "a round of another study": _relinked([study, at_once[1]]),
        "a second round first": _relinked([study, second]),
        "a round twice": _relinked([study, first, first]),
        "a close of a round that was never published": _relinked([study, closed]),
        "a close twice": _relinked([study, first, closed, closed]),
        "answers of a round that is open": _relinked([study, first, answers]),
        "answers twice": _relinked([study, first, closed, answers, answers]),
        "a round after the end": _relinked([study, first, closed, answers, end, second]),
        "an end after the end": _relinked([study, end, end]),
        "a second round in a study that publishes at once": _relinked(
            [*at_once[:2], at_once[1] | {"notice": {"kind": "round", "round": again}}]
        ),
        "an end with a cause in an entry of version 1": _relinked([study, end | {"version": 1}]),
        "an end without a cause in an entry of version 2": _relinked([study, old_end | {"version": 2}]),
        "an entry of version 3": _relinked([study, end | {"version": 3}]),
        "a cause that does not lead to this state": _relinked(
            [study, end | {"notice": end["notice"] | {"state": "failed"}}]
        ),
        "an unknown cause": _relinked([study, end | {"notice": end["notice"] | {"cause": "bored"}}]),
        "an unknown kind of notice": _relinked([study, first | {"notice": {"kind": "prose"}}]),
        "a negative count": _relinked(
            [study, first, closed, answers | {"notice": answers["notice"] | {"tallies": [[[-1, 2]]]}}]
        ),
        "a reason to close that there is not": _relinked(
            [study, first, closed | {"notice": closed["notice"] | {"reason": "tired"}}]
        ),
        "a null in place of a member": _relinked([study, old_end | {"notice": old_end["notice"] | {"cause": None}}]),
        "the second round answered before it is closed": _relinked([study, first, closed, answers, second, answers2]),
        "the first round closed again after it was answered": _relinked(
            [study, first, closed, answers, second, closed2, closed]
        ),
    }


def _deadline(entry: Json, more: int) -> Json:
    round_ = entry["notice"]["round"]
    return entry["notice"] | {"round": round_ | {"deadline": round_["deadline"] + more}}


def chains() -> Iterator[Vector]:
    """Whole bulletins: the head after each entry, and where study and rounds stand at the end; or where one breaks."""
    for name, notices in GOOD_CHAINS.items():
        entries = _chain(notices)
        bulletin, heads = Bulletin(), list[str]()
        for entry in entries:
            bulletin = bulletin.append(entry)
            heads.append(bulletin.head)
        yield {
            "name": name,
            "entries": [entry.to_json() for entry in entries],
            "heads": heads,
            "study": bulletin.state.value,
            "rounds": [[id_, state.value] for id_, state in bulletin.rounds],
            "success": True,
        }
    for name, documents in bad_chains().items():
        good = Bulletin().extend(read_entry(json.dumps(document)) for document in documents[:-1])
        where = refused(lambda good=good, last=documents[-1]: good.append(read_entry(json.dumps(last))))
        yield {"name": name, "entries": documents, "where": where, "success": False}
