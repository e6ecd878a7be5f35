"""Python and JavaScript over the same made-up cases: schemas, queries, examples, rounds, and documents that are spoiled.

Both compute, or both refuse. Cases come from fixed seeds.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from askance_client.consent import AccountStatement
from askance_client.refusals import Refusal
from askance_client.transport import documents as answers
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.channels import BinarySpec, GeometricSpec, KarySpec, LaplaceSpec
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example
from askance_protocol.queries import BooleanQuery, prepare, read_query
from askance_protocol.queries.language import Compare, FieldValue, Integer
from askance_protocol.reports import encode_report
from askance_protocol.rounds import (
    Cohort,
    Part,
    PreparedRound,
    check_work,
    open_round,
    read_entry,
    read_round,
    read_study,
)
from askance_protocol.schema import Schema
from tests.protocol.generators import AnyQuery, cases, seeded
from tests.protocol.studies import MASKED_CELL, PARTS, SCHEMA, part, round_of, study
from tests.protocol.web.scripts import planted, run
from tests.vectors import generate

pytestmark = pytest.mark.slow

QUERIES, ROUNDS, DOCUMENTS = 1_000, 400, 6_000
RELATIONS: Final = get_args(Compare.model_fields["relation"].annotation)
READERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "study": read_study,
    "round": read_round,
    "entry": read_entry,
    "query": read_query,
    "json": canonical.loads,
}


Drawn = tuple[Schema, AnyQuery, list[Example]]


@cache
def all_drawn() -> list[Drawn]:
    """Queries, with schemas and users: the same in each run."""
    found = list[Drawn]()

    @settings(
        max_examples=QUERIES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(cases())
    def collect(case: Drawn) -> None:
        found.append(case)

    collect()
    return found


def drawn(count: int) -> Iterator[Drawn]:
    """So many of them, each with a few users more."""
    for number, (schema, query, users) in enumerate(all_drawn()[:count]):
        yield schema, query, [*users, *(seeded(schema, 4 * number + more) for more in range(4))]


def differing(jobs: list[Any], folder: Path, **how: Any) -> tuple[list[Any], list[Any]]:
    """The cases of which the two make different things, with what each makes of them; and what Python makes of all."""
    mine = [made_of(json.dumps(job)) for job in jobs]
    theirs = run("differing.mjs", jobs, folder, **how)
    pairs = zip(jobs, mine, theirs, strict=True)
    return [(job, one, other) for job, one, other in pairs if one != other], mine


@cache
def made_of(job: str) -> Any:
    """What Python makes of a case: once, for the test and for its controls."""
    asked = json.loads(job)
    return BY_PYTHON[asked["does"]](asked)


# --------------------------------------------------------------------------------------------------------- queries


def answered(job: Any) -> Any:
    query, schema = read_query(json.dumps(job["query"])), Schema.model_validate_json(json.dumps(job["schema"]))
    ready = prepare(query, schema)
    answers = [ready.answer(Example.of(schema, record)) for record in job["records"]]
    return {
        "digest": query.digest(),
        "cost": [ready.cost.nodes, ready.cost.depth, ready.cost.entries],
        "answers": answers,
    }


def edges() -> Iterator[Drawn]:
    """Comparisons whose sides are equal, or one apart: made-up cases may have none, which differ with what is imported."""
    record = {"x": "10110100", "b": "1", "height": 0.3, "y": -1}
    people = [Example.of(SCHEMA, {**record, "i": value}) for value in range(8)]
    for relation in RELATIONS:
        compared = Compare(left=FieldValue(field="i"), relation=relation, right=Integer(of=3))
        yield SCHEMA, BooleanQuery(test=compared), people


@cache
def queries(count: int) -> list[Any]:
    return [
        {
            "does": "query",
            "query": query.to_json(),
            "schema": schema.to_json(),
            "records": [example.record() for example in users],
        }
        for schema, query, users in (*edges(), *drawn(count))
    ]


def test_queries_have_the_same_answers(tmp_path: Path) -> None:
    unlike, mine = differing(queries(QUERIES), tmp_path)

    assert unlike == []
    assert len(mine) == QUERIES + len(RELATIONS)
    assert len({answer for each in mine for answer in each["answers"]}) > 50


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        ("evaluation.mjs", {"registers[at] = 1 - registers[of];": "registers[at] = 2 - registers[of];"}),
        ("evaluation.mjs", {'"<=": (a, b) => a <= b': '"<=": (a, b) => a < b'}),
        ("evaluation.mjs", {"table[registers[index] + 1]": "table[registers[index]]"}),
        ("evaluation.mjs", {"(1 - 2 * registers[negative])": "(1 - registers[negative])"}),
    ],
)
def test_control_a_planted_difference_is_found(tmp_path: Path, module: str, changes: dict[str, str]) -> None:
    unlike, _ = differing(queries(QUERIES), tmp_path, modules=planted(tmp_path, module, changes))

    assert unlike


# ---------------------------------------------------------------------------------------------------------- rounds

WORDS: Final = ["0", "1", str(1 << 63), str((1 << 64) - 1)]


def reported(job: Any) -> Any:
    published, spec = read_study(json.dumps(job["study"])), read_round(json.dumps(job["round"]))
    try:
        check_work(spec)
        round_ = open_round(published, spec)
    except ProtocolError:
        return "refused"
    example = Example.of(published.example, job["record"])
    return [_report(round_, user, example, job["words"]) for user in job["users"]]


def _report(round_: PreparedRound, user: int, example: Example, words: list[str]) -> Any:
    if not round_.asks(user):
        return None
    question = round_.question(user)
    try:
        mine, outcomes = round_.part_of(user), round_.outcomes
    except ProtocolError:
        return "refused"
    given = mine.encode(mine.query.answer(example), question.row)
    bodies = [encode_report(mine.channel.choose(given, int(word)), outcomes).decode() for word in words]
    certified = mine.channel.certified_micro_epsilon
    return {"part": question.part, "row": question.row, "certified": certified, "input": int(given), "bodies": bodies}


def channels(source: random.Random) -> Any:
    """A channel of any kind and ε, which may answer the query or not."""
    kind = source.choice([BinarySpec, BinarySpec, KarySpec, GeometricSpec, LaplaceSpec])
    return kind(micro_epsilon=source.choice([1, 10_000, 500_000, MICRO, 3 * MICRO, source.randint(1, 30 * MICRO)]))


def charged(query: AnyQuery, channel: Any, schema: Schema, source: random.Random) -> int:
    """Mostly what the channel costs; now and then a millionth less, or more."""
    try:
        certified = channel.build(query, schema).certified_micro_epsilon
    except ProtocolError:
        return MICRO
    return max(certified + source.choice([0, 0, 0, 0, -1, 1]), 1)


@cache
def rounds(count: int) -> list[Any]:
    """So many of them."""
    return list(made_rounds(count))


def made_rounds(count: int) -> Iterator[Any]:
    """Rounds of one to three parts over one schema, in cohorts of any kind."""
    source = random.Random(7)
    for schema, query, users in drawn(count):
        # A threshold for each step of a large denominator takes memory, and time; small ones are as good.
        members = query.to_json()
        if "denominator" in members:
            members["denominator"] = min(members["denominator"], source.choice([3, 50, 600]))
        asked = read_query(json.dumps(members))
        parts = list[Part]()
        for _ in range(source.randint(1, 3)):
            channel = channels(source)
            charge = charged(asked, channel, schema, source)
            parts.append(Part(query=asked, channel=channel, charge=charge, share=source.randint(1, 9)))
        slots = source.choice([1, 1, 2, 7])
        first = source.choice([0, 0, 5, MAX_USER - 40])
        cohort = Cohort(
            first_user=first,
            users=source.randint(1, 40),
            slots=slots,
            first_slot=0,
            slot_count=source.randint(1, slots),
        )
        published = study(example=schema, simulated=False, cap=source.choice([40 * MICRO, 2 * MICRO]))
        spec = round_of(*parts, of=published, cohort=cohort)
        record = users[0].record()
        numbers = sorted({source.randrange(first, min(first + 45, MAX_USER)) for _ in range(4)})
        yield {"does": "report", "study": published.to_json(), "round": spec.to_json(), "users": numbers, "record": record, "words": [*WORDS, str(source.getrandbits(64))]}  # fmt: skip


def test_rounds_ask_charge_and_report_the_same(tmp_path: Path) -> None:
    unlike, mine = differing(rounds(ROUNDS), tmp_path)
    said = [each for users in mine for each in (users if isinstance(users, list) else [users])]

    assert unlike == []
    assert sum(isinstance(each, dict) for each in said) > ROUNDS / 10
    assert said.count("refused") > ROUNDS / 20
    assert said.count(None) > ROUNDS / 20


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        ("ratio.mjs", {"while (high - low > 1) {": "while (high - low > 2) {"}),
        ("coins.mjs", {"coin.low % rows": "coin.high % rows"}),
        ("channels.mjs", {"this.low[first + at] <= word[1]": "this.low[first + at] < word[1] - 1"}),
        ("rounds.mjs", {"=> (drawn -= share) < 0": "=> (drawn -= share) <= 0"}),
    ],
    ids=["a millionth", "the other half", "a cut-point", "a share"],
)
def test_control_a_planted_difference_of_rounds_is_found(tmp_path: Path, module: str, changes: dict[str, str]) -> None:
    unlike, _ = differing([*rounds(150), *sound()], tmp_path, modules=planted(tmp_path, module, changes))

    assert unlike


def sound() -> Iterator[Any]:
    """Rounds of every kind of part, each word at a cut-point of its channel."""
    for name, asked in PARTS.items():
        spec, published = round_of(asked, part(MASKED_CELL)), study()
        round_ = open_round(published, spec)
        mine = round_.parts[0]
        cuts = {end + by for end, _ in mine.channel.segments(0) for by in (-1, 0) if end < 1 << 64}
        record = {"x": "10110100", "i": 3, "b": "1", "height": 0.3, "y": -1}
        assert name
        yield {"does": "report", "study": published.to_json(), "round": spec.to_json(), "users": list(range(8)), "record": record, "words": [str(cut) for cut in sorted(cuts)]}  # fmt: skip


def test_rounds_of_every_kind_report_the_same_at_every_cut_point(tmp_path: Path) -> None:
    unlike, _ = differing(list(sound()), tmp_path)

    assert unlike == []


# ------------------------------------------------------------------------------------------------------- documents


def read(job: Any) -> Any:
    try:
        value = READERS[job["form"]](base64.b64decode(job["written"]))
    except ProtocolError:
        return "refused"
    return {"digest": canonical.digest(value) if job["form"] == "json" else value.digest()}


def heard(job: Any) -> Any:
    """What a user makes of a server's answer: what it says, or that it is refused, for good or for now."""
    said = answers.read(base64.b64decode(job["written"]), ANSWERS[job["form"]])
    match said:
        case Refusal(passing=passing):
            return "not read" if passing else "refused"
        case answers.Tail(entries, pin, size):
            return [[entry.digest() for entry in entries], pin.length, pin.head, size]
        case AccountStatement(user, spent, charges):
            return [user, spent, *([round_, cost] for round_, cost in charges.items())]
        case answers.Receipt(user, round_, charged):
            return [user, round_, charged]
        case answers.Enrolled(first, tokens):
            return [first, *tokens]
        case _:
            return [said.status, said.name, said.detail, said.next]


ANSWERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "tail": answers.read_tail,
    "statement": answers.read_statement,
    "receipt": answers.read_receipt,
    "enrolled": answers.read_enrolled,
    "problem": lambda body: answers.read_problem(409, body),
}

BY_PYTHON: Final[dict[str, Callable[[Any], Any]]] = {
    "query": answered,
    "report": reported,
    "document": read,
    "answer": heard,
}

VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 1.5, 2**48, 2**53 - 1, 2**53, 10**15, 10**15 + 1, "", "a", "1", "0" * 64, "A" * 64,
    "binary", "table", [], {}, [1], {"op": "constant", "truth": True}, "é", "\u2028", "\U0001f44b" * 100, "b" * 201,
)  # fmt: skip
TEXTS: Final = ("-0", "1.0", "1e3", "01", "NaN", '"\\ud800"', '"\\u0041"', '"a\tb"', "9007199254740992", "[]", "true ")


def documents() -> Iterator[tuple[str, Any]]:
    """Sound ones, of each form."""
    files = generate.files()
    for vector in files["rounds.json"]["vectors"]:
        yield "round", vector["round"]
    for vector in files["chains.json"]["vectors"]:
        if vector["success"]:
            yield from (("entry", entry) for entry in vector["entries"])
    yield from (("study", each) for each in files["dealings.json"]["studies"].values())
    for name in ("queries.json", "gaps.json"):
        yield from (("query", vector["query"]) for vector in files[name]["vectors"] if vector["success"])


def answers_of_a_server() -> Iterator[tuple[str, Any]]:
    """Sound ones, of each form."""
    for vector in generate.files()["chains.json"]["vectors"]:
        if vector["success"]:
            entries = vector["entries"]
            yield "tail", {"entries": entries, "length": len(entries), "head": vector["heads"][-1]}
    amounts = {"cap_micro_epsilon": 5, "spent_micro_epsilon": 3, "remaining_micro_epsilon": 2}
    charges = [{"round": letter * 64, "micro_epsilon": cost} for letter, cost in (("a", 1), ("b", 2), ("__proto__", 0))]
    yield "statement", {"user": 7, **amounts, "charges": charges}
    yield "receipt", {"user": 7, "round": "a" * 64, "charged": 1_000_000}
    number = {"user": 7, "users": 1, "cap_micro_epsilon": 5}
    yield "enrolled", {**number, "token": "abc", "tokens": None}
    yield "enrolled", {**number, "token": None, "tokens": ["abc", "def"]}
    problem = {"type": "urn:askance:problem:conflict", "title": "t", "status": 409, "detail": "no\x1b[2J", "next": "é"}
    yield "problem", problem


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield above
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, (*above, name))
    elif isinstance(value, list):
        for index, each in enumerate(value[:20]):
            yield from places(each, (*above, index))


def spoiled(document: Any, source: random.Random) -> bytes:
    """The document with one thing changed: a member, a value, or how it is written."""
    changed = copy.deepcopy(document)
    path = source.choice(list(places(changed))[1:])
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    match source.randrange(7):
        case 0:
            del holder[path[-1]]
        case 1:
            holder[path[-1]] = source.choice(VALUES)
        case 2 if type(value) is int:
            holder[path[-1]] = value + source.choice([-1, 1, -value, 1 << 20, 1 << 41])
        case 3 if isinstance(value, dict):
            value[source.choice(["more", "gap", "negative", "cause", "__proto__", "constructor", "é"])] = source.choice(
                VALUES
            )
        case 4 if isinstance(value, list):
            holder[path[-1]] = value * source.choice([2, 300]) if value else [1]
        case 5:
            holder[path[-1]] = "!here!"
            return json.dumps(changed).replace('"!here!"', source.choice(TEXTS), 1).encode()
        case _:
            text = bytearray(json.dumps(changed, ensure_ascii=False).encode())
            text[source.randrange(len(text))] = source.choice(b'\x00 \t"{}[],:0-\xff\xc3a\\')
            return bytes(text)
    return json.dumps(changed, ensure_ascii=source.random() < 0.5).encode()


def asked_to_read(form: str, text: bytes) -> Any:
    """The case of one document."""
    does = "answer" if form in ANSWERS else "document"
    return {"does": does, "form": form, "written": base64.b64encode(text).decode()}


def by_form(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    sorted_ = dict[str, list[Any]]()
    for form, document in pairs:
        sorted_.setdefault(form, []).append(document)
    return sorted_


@cache
def written(count: int) -> list[Any]:
    source, sound_ = random.Random(11), by_form(documents())
    made = list[Any]()
    for _ in range(count):
        form = source.choice(list(sound_))
        text = spoiled(source.choice(sound_[form]), source)
        made.append(asked_to_read(source.choice([form, form, form, "json"]), text))
    return made


@cache
def said_by_a_server(count: int) -> list[Any]:
    source, sound_ = random.Random(13), by_form(answers_of_a_server())
    forms = [source.choice(list(sound_)) for _ in range(count)]
    return [asked_to_read(form, spoiled(source.choice(sound_[form]), source)) for form in forms]


def without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return changed


@cache
def dropping() -> list[Any]:
    return list(all_dropping())


def all_dropping() -> Iterator[Any]:
    """Each document as it is, and without each of its members: once for each kind of member of each form."""
    seen = set[Any]()
    for form, document in [*documents(), *answers_of_a_server()]:
        yield asked_to_read(form, json.dumps(document).encode())
        for path in places(document):
            holder = document
            for step in path[:-1]:
                holder = holder[step]
            if not path or not isinstance(path[-1], str):
                continue
            kind = form, tuple(step for step in path if isinstance(step, str)), holder.get("kind"), holder.get("op")
            if kind not in seen:
                seen.add(kind)
                yield asked_to_read(form, json.dumps(without(document, path)).encode())


def test_documents_that_are_spoiled_are_read_or_refused_alike(tmp_path: Path) -> None:
    unlike, mine = differing(written(DOCUMENTS), tmp_path)

    assert [(job["form"], base64.b64decode(job["written"])[:3000], one, other) for job, one, other in unlike] == []
    assert mine.count("refused") > DOCUMENTS / 4
    assert mine.count("refused") < DOCUMENTS * 9 / 10


def test_answers_of_a_server_that_are_spoiled_are_read_or_refused_alike(tmp_path: Path) -> None:
    unlike, mine = differing(said_by_a_server(DOCUMENTS), tmp_path)

    assert [(job["form"], base64.b64decode(job["written"])[:3000], one, other) for job, one, other in unlike] == []
    for how in ("refused", "not read"):
        assert DOCUMENTS / 20 < mine.count(how) < DOCUMENTS * 9 / 10


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        ("documents.mjs", {"const AMOUNT = whole(0, LARGEST);": "const AMOUNT = whole(0, LARGEST + 1);"}),
        ("documents.mjs", {"Object.keys(value).sort().join() !== ": "Object.keys(value).sort().join() < "}),
    ],
)
def test_control_a_reader_of_answers_that_is_less_strict_is_found(
    tmp_path: Path, module: str, changes: dict[str, str]
) -> None:
    unlike, _ = differing(said_by_a_server(DOCUMENTS), tmp_path, modules=planted(tmp_path, module, changes))

    assert unlike


def test_a_document_without_any_one_of_its_members_is_refused_or_read_alike(tmp_path: Path) -> None:
    jobs = dropping()
    unlike, mine = differing(jobs, tmp_path)

    assert [(job["form"], base64.b64decode(job["written"])[:3000], one, other) for job, one, other in unlike] == []
    assert {job["form"] for job in jobs} == {*READERS, *ANSWERS} - {"json"}
    assert mine.count("refused") > 150
    # What is read is byte for byte its own canonical form, so that one digest has one spelling.
    read_ = [base64.b64decode(job["written"]) for job, made in zip(jobs, mine, strict=True) if isinstance(made, dict)]
    digests = [made["digest"] for made in mine if isinstance(made, dict)]
    assert digests == [hashlib.sha256(canonical.dumps(canonical.loads(text))).hexdigest() for text in read_]


@pytest.mark.parametrize("member", ["constant: INTEGER,", "default: INTEGER", "first_slot: whole(0),"])
def test_control_a_member_that_may_be_left_out_is_found(tmp_path: Path, member: str) -> None:
    module = "spec.mjs" if "slot" in member else "queries.mjs"
    name, reader = member.rstrip(",").split(": ")
    often = {member: member.replace(reader, "Object.assign((value, place) => value, { optional: true })")}
    copied = planted(tmp_path, module, often)
    values = (copied / "values.mjs").read_text("utf-8")
    required = "for (const name of Object.keys(required)) {"
    assert values.count(required) == 1
    (copied / "values.mjs").write_text(values.replace(required, f"{required} if (required[name].optional) continue;"))
    unlike, _ = differing(dropping(), tmp_path, modules=copied)

    assert unlike, name


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        ("values.mjs", {"if (!Object.hasOwn(known, name)) {": "if (false) {"}),
        ("canonical.mjs", {'if (written === "-0")': 'if (written === "-1")'}),
        ("values.mjs", {"if (!Object.hasOwn(value, name)) {": "if (false) {"}),
    ],
)
def test_control_a_reader_that_is_less_strict_is_found(tmp_path: Path, module: str, changes: dict[str, str]) -> None:
    try:
        unlike, _ = differing(written(DOCUMENTS), tmp_path, modules=planted(tmp_path, module, changes))
    except AssertionError as error:
        # It goes on with a member that it does not know.
        unlike = [str(error)]

    assert unlike
