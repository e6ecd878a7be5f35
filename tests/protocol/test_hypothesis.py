"""A hypothesis on a bulletin: one text for one value, and every float back to the last bit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Bulletin, Cause, LearnedHypothesis, StudyEnded, read_entry
from askance_protocol.rounds.hypothesis import TooLargeError
from askance_protocol.values import read

HYPOTHESIS = LearnedHypothesis.of("a hypothesis", {"weights": [0.1, -0.0, 5e-324, 1e22, 2**70], "none": None, "a": "é"})
LEARNED = StudyEnded(state="finished", reason="", cause=Cause.LEARNED, hypothesis=HYPOTHESIS)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ANY_JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def test_a_hypothesis_reads_back_to_the_last_bit() -> None:
    """Floats are no part of a document: they travel as text, the shortest that is the same double."""
    back = read_entry(Bulletin().next(LEARNED).to_bytes()).notice

    assert isinstance(back, StudyEnded)
    assert back.hypothesis is not None
    assert back.hypothesis.value == {"weights": [0.1, -0.0, 5e-324, 1e22, 2**70], "none": None, "a": "é"}
    assert [str(weight) for weight in back.hypothesis.value["weights"][:2]] == ["0.1", "-0.0"]
    assert back.hypothesis.data == (
        '{"a":"\\u00e9","none":null,"weights":[0.1,-0.0,5e-324,1e+22,1180591620717411303424]}'
    )


@given(st.dictionaries(st.text(), ANY_JSON))
def test_any_json_has_one_text_and_reads_back_as_itself(value: dict[str, Any]) -> None:
    published = LearnedHypothesis.of("", value)

    assert json.dumps(published.value, sort_keys=True) == json.dumps(value, sort_keys=True)
    assert LearnedHypothesis.of("", published.value) == published
    assert read(LearnedHypothesis, published.to_bytes()) == published


@pytest.mark.parametrize(
    "data",
    ["[1]", "1", "", "{", '{"a":}', '{"a":NaN}', '{"a":-Infinity}', '{"a":1e999}', '{"a":{"b":1,"b":1}}',
     '{"a":' + "[" * 64 + "]" * 64 + "}", "[" * 100_000],
)  # fmt: skip
def test_data_that_are_not_the_json_of_an_object_are_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        read(LearnedHypothesis, json.dumps({"data": data, "text": ""}))
    # The control: what it should have been is read.
    read(LearnedHypothesis, json.dumps({"data": '{"a":1.0,"b":100000.0,"c":"\\u00e9"}', "text": ""}))


def test_a_hypothesis_that_is_too_large_is_refused_and_a_long_text_is_cut() -> None:
    assert len(LearnedHypothesis.of("é" * 100_000, {}).text) == 65_536
    with pytest.raises(TooLargeError, match="over the limit of 1048576"):
        LearnedHypothesis.of("", {"x": "x" * 1_048_576})


@pytest.mark.parametrize("cause", Cause)
def test_a_hypothesis_stands_where_something_was_learned_and_only_there(cause: Cause) -> None:
    document = LEARNED.to_json() | {
        "cause": cause.value,
        "state": {Cause.LEARNED: "finished", Cause.CANCELLED: "cancelled"}.get(cause, "failed"),
    }
    without = {name: value for name, value in document.items() if name != "hypothesis"}
    sound, wrong = (document, without) if cause is Cause.LEARNED else (without, document)

    StudyEnded.model_validate_json(json.dumps(sound))
    with pytest.raises(ValueError, match="a hypothesis stands where the cause is 'learned'"):
        StudyEnded.model_validate_json(json.dumps(wrong))
