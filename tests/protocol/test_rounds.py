"""What is published means one thing, is refused where it lies, and is answered as the channels say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue, Integer
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import (
    BinarySpec,
    Cohort,
    GeometricSpec,
    KarySpec,
    Question,
    TableSpec,
    prepare_round,
    read_round,
    read_study,
)
from tests.protocol.studies import (
    FAR,
    HEIGHT,
    LN_3,
    MASKED_BIT,
    PARTS,
    SCHEMA,
    TABLE,
    WHICH,
    D,
    part,
    prepared,
    round_of,
    study,
)

EVERY_PART = round_of(*PARTS.values())


def population(count: int, seed: int = 0) -> Columns:
    rng = np.random.default_rng(seed)
    return Columns.of(
        SCHEMA,
        {
            "x": rng.integers(0, 2, (count, D)),
            "i": rng.integers(0, D, count),
            "b": rng.integers(0, 2, (count, 1)),
            "height": rng.uniform(-1, 1, count),
            "y": rng.choice([-1, 1], count),
        },
    )


# --------------------------------------------------------------------------------------------------- wire form


def test_what_is_published_reads_back_as_itself() -> None:
    assert read_round(EVERY_PART.to_bytes()) == EVERY_PART
    assert read_study(study().to_bytes()) == study()


def test_white_space_and_order_do_not_change_what_a_document_names() -> None:
    spelled = json.dumps(json.loads(EVERY_PART.to_bytes()), indent=2)
    backwards = json.dumps(dict(reversed(json.loads(EVERY_PART.to_bytes()).items())))
    assert read_round(spelled).digest() == read_round(backwards).digest() == EVERY_PART.digest()


def test_any_change_is_another_round() -> None:
    digests = {
        round_of(part()).digest(),
        round_of(part(), deadline=FAR + 1).digest(),
        round_of(part(), target=1001).digest(),
        round_of(part(), number=2).digest(),
        round_of(part(share=2)).digest(),
        round_of(part(charge=MICRO + 1)).digest(),
        round_of(part(), cohort=Cohort(users=1_000_001)).digest(),
        round_of(part(), of=study(nonce="0" * 32)).digest(),
    }
    assert len(digests) == 8


Path = tuple[str | int, ...]


def changed(document: bytes, path: Path, value: object) -> bytes:
    """The document with one member replaced, or removed where the value is `...`."""
    root = json.loads(document)
    inner = root
    for step in path[:-1]:
        inner = inner[step]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(root).encode()


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("form",), "askance.study", "form"),
        (("version",), 2, "version"),
        (("version",), True, "version"),
        (("version",), "1", "version"),
        (("version",), ..., "RoundSpec"),
        (("unknown",), 1, "unknown"),
        (("study",), "A" * 64, "study"),
        (("study",), "0" * 63, "study"),
        (("number",), 0, "number"),
        (("number",), True, "number"),
        (("number",), "1", "number"),
        (("number",), 1.0, "number"),
        (("target",), 0, "target"),
        (("deadline",), -1, "deadline"),
        (("deadline",), None, "deadline"),
        (("parts",), [], "parts"),
        (("parts", 0, "share"), 0, r"parts\[0\]\.share"),
        (("parts", 0, "share"), ..., "RoundSpec"),
        (("parts", 0, "share"), 1 << 20, "document"),
        (("parts", 0, "charge"), -1, r"parts\[0\]\.charge"),
        (("parts", 0, "charge"), 1.5, "number"),
        (("parts", 0, "extra"), 0, r"parts\[0\]\.extra"),
        (("parts", 0, "channel", "kind"), "gaussian", r"parts\[0\]\.channel"),
        (("parts", 0, "channel", "k"), 3, r"parts\[0\]\.channel\.binary\.k"),
        (("parts", 0, "query", "kind"), "prose", r"parts\[0\]\.query"),
        (("parts", 0, "query", "test", "op"), "exec", r"parts\[0\]\.query\.boolean\.test"),
        (("parts", 5, "query", "negative"), None, "RoundSpec"),
        (("cohort", "slot_count"), 2, "cohort"),
        (("cohort", "users"), 0, r"cohort\.users"),
    ],
)
def test_an_altered_round_is_refused_at_its_place(path: Path, value: object, place: str) -> None:
    document = EVERY_PART.to_bytes()
    if path == ("parts", 5, "query", "negative"):
        document = round_of(*[part(WHICH)] * 6).to_bytes()
    with pytest.raises(ProtocolError, match=f"^{place}"):
        read_round(changed(document, path, value))


def test_a_member_that_stands_twice_is_refused() -> None:
    doubled = EVERY_PART.to_bytes().replace(b'"number":1', b'"number":1,"number":1')
    with pytest.raises(ProtocolError, match="twice"):
        read_round(doubled)


# ---------------------------------------------------------------------------------------------------- refusals


def refusal(*parts: Any, **changes: Any) -> str:
    with pytest.raises(ProtocolError) as caught:
        prepared(*parts, **changes)
    return str(caught.value)


def test_a_charge_that_is_one_micro_epsilon_too_low_is_refused() -> None:
    assert prepared(part(charge=MICRO)).charge == MICRO
    assert refusal(part(), part(charge=MICRO - 1)).startswith(
        "parts[1].charge: 999999 micro-ε is charged, but the channel is certified for 1000000"
    )


def test_a_table_is_charged_at_what_is_certified() -> None:
    assert prepared(part(MASKED_BIT, TABLE, LN_3)).parts[0].channel.certified_micro_epsilon == LN_3
    assert "certified" in refusal(part(MASKED_BIT, TABLE, LN_3 - 1))


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ((("18446744073709551615", "0"), ("0", "18446744073709551615")), "zero"),
        ((("9223372036854775808", "9223372036854775809"), ("9223372036854775808", "9223372036854775808")), "sums to"),
        ((("1", "18446744073709551615"),) * 3, "3 rows"),
    ],
)
def test_a_lying_table_is_refused(weights: Any, complaint: str) -> None:
    assert complaint in refusal(part(MASKED_BIT, TableSpec(weights=weights)))


def test_a_channel_that_does_not_fit_its_query_is_refused() -> None:
    assert "does not answer a boolean" in refusal(part(MASKED_BIT, KarySpec(micro_epsilon=MICRO)))
    assert "does not answer a cell" in refusal(part(WHICH, GeometricSpec(micro_epsilon=MICRO)))
    assert "does not answer a real" in refusal(part(HEIGHT, KarySpec(micro_epsilon=MICRO)))


def test_a_cell_that_may_be_none_needs_a_channel_that_can_say_so() -> None:
    none = CellQuery(cells=4, cell=FieldValue(field="i"))
    assert "clamp it" in refusal(part(none, KarySpec(micro_epsilon=MICRO)))
    prepared(part(none, BinarySpec(micro_epsilon=MICRO)))


def test_a_query_that_the_schema_cannot_answer_is_refused() -> None:
    unknown = CellQuery(cells=4, cell=FieldValue(field="age"))
    assert refusal(part(), part(unknown)).startswith("parts[1].schema: there is no field 'age'")


def test_an_epsilon_too_large_to_certify_is_refused() -> None:
    assert "too large" in refusal(part(channel=BinarySpec(micro_epsilon=40 * MICRO)))


def test_a_round_that_costs_more_than_its_study_may_is_refused() -> None:
    assert "above the study's cap" in refusal(part(charge=2 * MICRO + 1))


def test_a_round_of_another_study_is_refused() -> None:
    with pytest.raises(ProtocolError, match="another study"):
        prepare_round(study(nonce="f" * 32), round_of(part()))


# --------------------------------------------------------------------------------------------------- questions


def test_one_user_and_many_are_asked_the_same() -> None:
    round_ = prepared(*PARTS.values())
    users = range(100, 400)
    dealt, rows = round_.questions(users)

    assert [round_.question(user) for user in users] == [
        Question(int(number), int(row)) for number, row in zip(dealt, rows, strict=True)
    ]
    by_array = round_.questions(np.array(users))
    assert (by_array[0] == dealt).all()
    assert (by_array[1] == rows).all()
    assert all(question < round_.parts[number].rows for number, question in zip(dealt, rows, strict=True))


def test_parts_are_dealt_by_their_shares() -> None:
    round_ = prepared(part(share=1), part(share=5), part(share=2))
    counts = np.bincount(round_.questions(range(80_000))[0])
    assert np.abs(counts - [10_000, 50_000, 20_000]).max() < 5 * np.sqrt(20_000)


def test_one_user_and_many_report_alike() -> None:
    """A round of one part, for every pair of query and channel: the same words give the same reports."""
    columns = population(300)
    for one in PARTS.values():
        round_ = prepared(one)
        source = SimulatedRandom(4)
        singly = [round_.respond(user, columns.example(user - 50), source) for user in range(50, 350)]
        assert round_.respond_all(range(50, 350), columns, SimulatedRandom(4)).outcomes.tolist() == singly


@pytest.mark.parametrize("one", PARTS.values(), ids=PARTS.keys())
def test_scalar_and_column_encodings_agree(one: Any) -> None:
    round_ = prepared(one)
    columns = population(200)
    answers = round_.parts[0].query.answers(columns)
    rows = round_.questions(range(200))[1]
    inputs = round_.parts[0].encode_all(answers, rows)

    assert inputs.tolist() == [
        round_.parts[0].encode(int(answer), int(row)) for answer, row in zip(answers, rows, strict=True)
    ]
    assert 0 <= inputs.min() <= inputs.max() < round_.parts[0].channel.inputs


def test_all_reports_of_a_round_are_outcomes_of_their_parts() -> None:
    round_ = prepared(*PARTS.values())
    outcomes = round_.respond_all(range(5000), population(5000), SimulatedRandom(1)).outcomes
    dealt = round_.questions(range(5000))[0]
    limits = np.array([prepared_part.channel.outcomes for prepared_part in round_.parts])
    assert (outcomes < limits[dealt]).all()
    assert round_.outcomes == limits.max()


# ----------------------------------------------------------------------------------------------------- cohorts


def test_cohorts_of_different_slots_share_nobody_and_leave_nobody_out() -> None:
    """KLNRS11, Thm 5.7: each query on a fresh portion. The slot is kept from round to round."""
    rounds = [
        prepared(part(), number=number + 1, cohort=Cohort(users=10_000, slots=5, first_slot=number, slot_count=1))
        for number in range(5)
    ]
    asked = np.array([round_.asked(range(10_000)) for round_ in rounds])

    assert (asked.sum(axis=0) == 1).all()
    assert np.abs(asked.sum(axis=1) - 2000).max() < 5 * np.sqrt(2000)


def test_only_users_of_the_run_are_asked() -> None:
    round_ = prepared(part(), cohort=Cohort(first_user=10, users=5))
    assert np.flatnonzero(round_.asked(range(100))).tolist() == [10, 11, 12, 13, 14]
    assert [user for user in range(100) if round_.asks(user)] == [10, 11, 12, 13, 14]
    assert round_.asked(np.array([3, 12])).tolist() == [False, True]


# ------------------------------------------------------------------------------------------------ certification


def test_the_whole_path_from_example_to_report_is_epsilon_private() -> None:
    """Exactly, for every part: over all examples' inputs, the channel's weights keep the inequality."""
    examples = [
        Example.of(SCHEMA, {"x": "0" * D, "i": i, "b": b, "height": height, "y": y})
        for i in (0, 3)
        for b in "01"
        for height in (-1.0, 0.0, 1.0)
        for y in (-1, 1)
    ]
    for round_ in (prepared(one) for one in PARTS.values()):
        one = round_.parts[0]
        inputs = {one.encode(one.query.answer(example), round_.question(7).row) for example in examples}
        table = [one.channel.weights(given) for given in inputs]
        limit = one.part.charge / MICRO
        for column in zip(*table, strict=True):
            assert np.log(max(column) / min(column)) <= limit + 1e-12


def test_a_pooled_part_reports_a_fair_coin_for_no_cell() -> None:
    round_ = prepared(part(CellQuery(cells=4, cell=Integer(of=-1))))
    one = round_.parts[0]
    assert isinstance(one.channel, BinaryResponse)
    assert {one.encode(0, row) for row in range(4)} == {1}
    assert one.channel.weights(1) == (1 << 63, 1 << 63)
