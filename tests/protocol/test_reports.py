"""Reports are decoded strictly: nothing is coerced, and every error names its place and repeats nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_protocol import reports
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.reports import (
    MAX_BATCH,
    ReportBatch,
    decode_columns,
    decode_raw,
    decode_report,
    encode_columns,
    encode_raw,
    encode_report,
)

# ----------------------------------------------------------------------------------------------------- one report


@given(st.integers(1, 1 << 32).flatmap(lambda m: st.tuples(st.integers(0, m - 1), st.just(m))))
def test_a_report_reads_back_as_itself(report: tuple[int, int]) -> None:
    outcome, outcomes = report
    assert decode_report(encode_report(outcome, outcomes), outcomes) == outcome
    assert json.loads(encode_report(outcome, outcomes)) == {"outcome": outcome}


@pytest.mark.parametrize("outcomes", [1, 2, 10, 11, 1000])
def test_all_reports_of_a_round_have_one_length(outcomes: int) -> None:
    assert len({len(encode_report(outcome, outcomes)) for outcome in range(outcomes)}) == 1


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"outcome": true}', "outcome: "),
        (b'{"outcome": "1"}', "outcome: "),
        (b'{"outcome": null}', "outcome: "),
        (b'{"outcome": [1]}', "outcome: "),
        (b'{"outcome": 1.0}', "number: "),
        (b'{"outcome": 1e0}', "number: "),
        (b'{"outcome": NaN}', "number: "),
        (b'{"outcome": Infinity}', "number: "),
        (b'{"outcome": -1}', "outcome: "),
        (b'{"outcome": 4}', "outcome: is not in 0 .. 3"),
        (b'{"outcome": 99999999999}', "outcome: "),
        (b'{"outcome": 01}', "line 1"),
        (b'{"outcome": -0}', "number: is -0"),
        # No white space of JSON's.
        *((b'{"outcome":%b1}' % space, "line 1") for space in (b"\v", b"\f", b"\x1c", b"\xc2\xa0")),
        (b'{"outcome": 1}\v', "line 1"),
        (b"\xef\xbb\xbf" + b'{"outcome": 1}', "line 1"),
        ('{"outcome": 1}'.encode("utf-16-le"), "line 1"),
        (b'{"outcome": 1, "outcome": 2}', "object: "),
        (b'{"outcome": 1, "user": 7}', "report: "),
        (b'{"user": 7}', "report: "),
        (b"{}", "outcome: is missing"),
        (b"1", "report: "),
        (b"[1]", "report: "),
        (b"", "line 1"),
        (b"{", "line 1"),
        (b'{"outcome": 1}x', "line 1"),
        (b"\xff\xfe", "byte 0"),
        (b'{"outcome": ' + b" " * 100 + b"1}", "report: "),
    ],
)
def test_what_is_not_a_report_is_refused_at_its_place(body: bytes, place: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_report(body, 4)
    assert str(caught.value).startswith(place)


def test_a_refusal_does_not_repeat_the_report() -> None:
    for body in (
        b'{"outcome": 31337}',
        b'{"outcome": "31337"}',
        b'{"outcome": 31337.5}',
        b'{"outcome": 31337313373133731337}',
        b'{"outcome": 1, "secret31337": 1}',
        b'{"31337": 1, "31337": 1}',
    ):
        with pytest.raises(ProtocolError) as caught:
            decode_report(body, 4)
        assert "31337" not in str(caught.value)


@settings(max_examples=500)
@given(st.binary(max_size=80))
def test_no_bytes_make_the_decoder_do_anything_but_refuse_or_read(body: bytes) -> None:
    for decode in (lambda b: decode_report(b, 4), decode_columns, decode_raw):
        with suppress(ProtocolError):
            decode(body)


@pytest.mark.parametrize("outcome", [-1, 4, True])
def test_only_an_outcome_is_encoded(outcome: int) -> None:
    with pytest.raises(ProtocolError, match=r"^outcome: "):
        encode_report(outcome, 4)


# --------------------------------------------------------------------------------------------------------- columns

batches = st.lists(st.tuples(st.integers(0, MAX_USER - 1), st.integers(0, (1 << 32) - 1)), max_size=50).map(
    lambda rows: ReportBatch(
        np.array([user for user, _ in rows], np.uint64),
        np.array([outcome for _, outcome in rows], np.uint32),
        simulated=True,
    )
)


@given(batches)
def test_columns_read_back_as_themselves(batch: ReportBatch) -> None:
    for back in (decode_columns(encode_columns(batch)), decode_raw(encode_raw(batch))):
        assert back.users.tolist() == batch.users.tolist()
        assert back.outcomes.tolist() == batch.outcomes.tolist()
        assert back.simulated


def test_raw_columns_carry_the_mark_of_a_simulation() -> None:
    empty = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
    assert not decode_raw(encode_raw(ReportBatch(*empty, simulated=False))).simulated
    assert decode_raw(encode_raw(ReportBatch(*empty, simulated=True))).simulated


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"users": [1, true], "outcomes": [0, 1]}', r"users\[1\]"),
        ('{"users": [1, 2], "outcomes": [0, "1"]}', r"outcomes\[1\]"),
        ('{"users": [1, 2], "outcomes": [0, 1.0]}', r"outcomes\[1\]"),
        ('{"users": [1, 2], "outcomes": [null, 1]}', r"outcomes\[0\]"),
        ('{"users": [1, 2], "outcomes": [NaN, 1]}', "batch: holds NaN"),
        ('{"users": [1, 2], "outcomes": [0, -1]}', r"outcomes\[1\]"),
        ('{"users": [1, 2], "outcomes": [0, 4294967296]}', r"outcomes\[1\]"),
        ('{"users": [1, 281474976710656], "outcomes": [0, 1]}', r"users\[1\]"),
        ('{"users": [1, 9999999999999999999999], "outcomes": [0, 1]}', r"users\[1\]"),
        ('{"users": [1, 2], "outcomes": [0]}', "outcomes: has 1 entry, users has 2"),
        ('{"users": 1, "outcomes": [0]}', "users: is not a list"),
        ('{"users": [1]}', "batch: has not exactly"),
        ('{"users": [1], "outcomes": [0], "round": 1}', "batch: has not exactly"),
        ('{"users": [1], "outcomes": [0], "users": [2]}', "batch: has not exactly"),
        ('{"users": [{"users": [], "outcomes": []}], "outcomes": [0]}', r"users\[0\]"),
        ('{"users": [1, 2], "outcomes": [0, -0]}', "batch: holds −0"),
        ('{"users": [-0, 2], "outcomes": [0, 0]}', "batch: holds −0"),
        ('{"users": [1],\v"outcomes": [0]}', "batch: is not JSON"),
        ('\ufeff{"users": [1], "outcomes": [0]}', "batch: is not JSON"),
        ("[]", "batch: is not an object"),
        ("nope", "batch: is not JSON"),
        ("[" * 100_000, "batch: is not JSON"),
        ('{"users": [' + "9" * 5000 + '], "outcomes": [0]}', "batch: is not JSON"),
    ],
)
def test_json_columns_are_refused_at_their_place(body: str, place: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{place}"):
        decode_columns(body.encode())


RAW = encode_raw(ReportBatch(np.arange(3, dtype=np.uint64), np.arange(3, dtype=np.uint32), simulated=True))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "batch: has 0 bytes"),
        (RAW[:15], "batch: has 15 bytes"),
        (RAW[:-1], "batch: "),
        (RAW + b"\0", "batch: "),
        (b"JSON" + RAW[4:], "bytes 0"),
        (RAW[:4] + b"\2" + RAW[5:], "version: is 2, this side speaks 1"),
        (RAW[:5] + b"\3" + RAW[6:], "bytes 5"),
        (RAW[:6] + b"\1" + RAW[7:], "bytes 5"),
        (RAW[:8] + struct.pack("<Q", 4) + RAW[16:], "batch: "),
        (RAW[:8] + struct.pack("<Q", 1 << 63) + RAW[16:], "batch: "),
        (RAW[:24] + struct.pack("<Q", MAX_USER) + RAW[32:], r"users\[1\]"),
    ],
)
def test_raw_columns_are_refused_at_their_place(body: bytes, place: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{place}"):
        decode_raw(body)


def test_an_outcome_that_the_round_does_not_have_is_refused_at_its_place() -> None:
    batch = decode_raw(RAW)
    batch.check_outcomes(3)
    with pytest.raises(ProtocolError, match=r"^outcomes\[2\]: is not in 0 .. 1"):
        batch.check_outcomes(2)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_json_columns_are_utf_8_and_no_other_encoding_is_guessed(encoding: str) -> None:
    text = '{"users": [1], "outcomes": [0]}'
    assert decode_columns(text.encode()).users.tolist() == [1]
    # The control: the parser would read it.
    assert json.loads(text.encode(encoding)) == {"users": [1], "outcomes": [0]}
    with pytest.raises(ProtocolError, match=r"^batch: is not JSON"):
        decode_columns(text.encode(encoding))


@pytest.mark.parametrize("space", [" ", "\t", "\n", "\r", " \t\r\n"])
def test_the_white_space_of_json_is_read_anywhere_between(space: str) -> None:
    assert decode_report(space.join(["", "{", '"outcome"', ":", "1", "}", ""]).encode(), 4) == 1


def test_a_large_batch_is_refused_without_being_parsed_as_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser does not let go of Python's lock: nine megabytes of it would silence a server."""
    parsed, loads = list[int](), json.loads

    def watched(text: str | bytes, **more: Any) -> Any:
        parsed.append(len(text))
        return loads(text, **more)

    monkeypatch.setattr("askance_protocol.reports.json.loads", watched)
    count = 400_000
    numbers = ",".join(["1"] * count)
    good = f'{{"users":[{",".join(map(str, range(count)))}],"outcomes":[{numbers}]}}'
    assert len(decode_columns(good.encode())) == count
    for bad in (
        good[:-1] + ',"x":1}',
        good.replace('"outcomes":[1', '"outcomes":[-0'),
        good.replace(",1]", ",1.5]"),
        good.replace('"users":[0', '"users":[00'),
        good.replace('"outcomes":[1', '"outcomes":[4294967296'),
    ):
        with pytest.raises(ProtocolError, match=r'^batch: is not \{"users"'):
            decode_columns(bad.encode())
    assert max(parsed) < 1 << 20
    # The control: a short one is parsed as a whole, and the place is named.
    parsed.clear()
    short = b'{"users":[0],"outcomes":[1.5]}'
    with pytest.raises(ProtocolError, match=r"^outcomes\[0\]"):
        decode_columns(short)
    assert parsed == [len(short)]


def test_a_batch_has_a_limit() -> None:
    users = np.zeros(MAX_BATCH + 1, np.uint64)
    with pytest.raises(ProtocolError, match="over the limit"):
        ReportBatch(users, users.astype(np.uint32), simulated=True)


# ------------------------------------------------------------------------------------------------- columns in pieces

BATCHES = [
    b'{"users":[1,2,3,44],"outcomes":[0,1,0,1]}',
    b' {"outcomes" : [ ] , "users":[]} ',
    b'{"users":[1],"users":[1]}',
    b'{"users":[281474976710655,9999999999999999999999],"outcomes":[4294967295,4294967296]}',
]


def decoded(decode: Callable[[bytes], ReportBatch], body: bytes) -> object:
    """The columns, or what is said to be wrong."""
    try:
        batch = decode(body)
    except ProtocolError as error:
        return str(error)
    return batch.users.tolist(), batch.outcomes.tolist(), batch.simulated


def disagreements(decode: Callable[[bytes], ReportBatch]) -> list[bytes]:
    """Bodies, changed in up to three places, of which `decode` says something else than the reader of documents."""
    random, found = Random(1), list[bytes]()
    for _ in range(6_000):
        body = bytearray(random.choice(BATCHES))
        for _ in range(random.randrange(4)):
            at, letter = random.randrange(len(body)), random.choice(b'0123456789,[]{}": \t.-e')
            body[at : at + random.randrange(2)] = bytes([letter] * random.randrange(2))
        if decoded(decode, bytes(body)) != decoded(reports._decode_document, bytes(body)):
            found.append(bytes(body))
    return found


@pytest.mark.parametrize("piece", [0, 1, 2, 3, 1 << 16])
def test_columns_that_are_read_in_pieces_are_those_of_the_whole_document(
    monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(reports, "_PIECE", piece)

    assert disagreements(decode_columns) == []


def test_the_control_a_reader_of_pieces_that_looks_for_nothing_beside_a_comma_is_found() -> None:
    def careless(body: bytes) -> ReportBatch:
        return decode_columns(body.replace(b"[,", b"["))

    assert disagreements(careless) != []
