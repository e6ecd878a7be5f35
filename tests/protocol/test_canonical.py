"""One text for one value: what the canonical form is, and everything that has none."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_protocol import canonical
from askance_protocol.errors import ProtocolError
from tests.protocol.generators import fixed
from tests.protocol.studies import wrong

SAFE = canonical.MAX_SAFE_INTEGER
INTEGERS = st.one_of(st.integers(-9, 9), st.integers(-SAFE, SAFE), st.sampled_from([SAFE, -SAFE]))
NAMES = st.text(st.characters(codec="ascii"), max_size=6)
PRINTABLE = st.text(st.characters(max_codepoint=126), max_size=6)


def values(texts: st.SearchStrategy[str], names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[Any]:
    """JSON values with these texts and members of these names."""
    return st.recursive(
        st.one_of(st.none(), st.booleans(), INTEGERS, texts),
        lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(names, below, max_size=4)),
        max_leaves=20,
    )


ANY = values(st.text(st.characters(codec="utf-8"), max_size=8))


def types(value: Any) -> Any:
    """The value with its types, because True == 1."""
    match value:
        case dict():
            return {key: types(item) for key, item in value.items()}
        case list():
            return [types(item) for item in value]
        case _:
            return type(value), value


# ------------------------------------------------------------------------------------------------- one form


@fixed(300)
@given(ANY)
def test_loads_undoes_dumps(value: Any) -> None:
    """Every value survives its canonical bytes, types and all, and the bytes are a fixed point."""
    data = canonical.dumps(value)

    assert types(value) == types(canonical.loads(data))
    assert value == canonical.loads(data.decode())
    assert data == canonical.dumps(canonical.loads(data))


@fixed(300)
@given(values(PRINTABLE, PRINTABLE))
def test_of_ascii_values_the_form_is_what_json_prints(value: Any) -> None:
    """The bytes equal Python's own sorted, compact printing (which escapes DEL, as RFC 8785 does not)."""
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    assert expected.encode() == canonical.dumps(value)


def printed(value: Any) -> str:
    """RFC 8785, section 3.2, for this protocol's values: written from its text."""
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(value)
        case str():
            return '"' + "".join(short.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'
        case list():
            return "[" + ",".join(map(printed, value)) + "]"
        case _:
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))
            return "{" + ",".join(f"{printed(name)}:{printed(value[name])}" for name in names) + "}"


@fixed(300)
@given(ANY)
def test_the_form_is_that_of_rfc_8785(value: Any) -> None:
    """A second printer, written from the RFC, gives the same bytes for every value, Unicode and controls as well."""
    assert printed(value).encode() == canonical.dumps(value)


def test_the_form_is_this_text() -> None:
    """One example by hand: names sorted, no space, integers plain, Unicode as itself, controls escaped."""
    value = {"b": [1, -1, 0], "a": {"z": None, "aa": True, "a": False}, "c": 'é\n"\\\u0001'}

    assert '{"a":{"a":false,"aa":true,"z":null},"b":[1,-1,0],"c":"é\\n\\"\\\\\\u0001"}'.encode() == canonical.dumps(
        value
    )


@fixed(150)
@given(ANY, st.randoms(use_true_random=False))
def test_order_space_and_escapes_do_not_matter(value: Any, source: Any) -> None:
    """Any spelling of a value has the same digest."""

    def shuffled(item: Any) -> Any:
        if isinstance(item, list):
            return [shuffled(each) for each in item]
        if not isinstance(item, dict):
            return item
        members = list(item.items())
        source.shuffle(members)
        return {key: shuffled(each) for key, each in members}

    text = json.dumps(shuffled(value), ensure_ascii=source.random() < 0.5, indent=source.choice([None, 0, 3, "\t"]))
    again = canonical.loads(f" \r\n\t{text}\n ")

    assert canonical.digest(value) == canonical.digest(again)


def test_the_digest_is_sha_256_of_the_form() -> None:
    """Anyone can recompute it with a hash command."""
    assert hashlib.sha256(b'{"a":1}').hexdigest() == canonical.digest({"a": 1})
    assert canonical.DIGEST.fullmatch(canonical.digest(None))


@pytest.mark.parametrize("value", [MappingProxyType({"b": 1, "a": (2,)}), OrderedDict([("b", 1), ("a", [2])])])
def test_every_mapping_and_tuple_is_printed(value: Any) -> None:
    """A frozen mapping or a tuple prints as the dict or list of the same members."""
    assert canonical.dumps(value) == b'{"a":[2],"b":1}'
    assert canonical.dumps([value]) == b'[{"a":[2],"b":1}]'


# -------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        # twice the same member
        ('{"a":1,"a":1}', "object: has a member that stands twice"),
        ('{"a":1,"\\u0061":2}', "object: has a member that stands twice"),
        ('[{"b":{"a":1,"c":0,"a":null}}]', "object: has a member that stands twice"),
        # not an integer
        ("1.0", "number: is not an integer"),
        ("[0.5]", "number: is not an integer"),
        ("1e3", "number: is not an integer"),
        ("1E3", "number: is not an integer"),
        ("-1e-400", "number: is not an integer"),
        ("1e400", "number: is not an integer"),
        ("-0.0", "number: is not an integer"),
        ("-0", "number: is -0, which"),
        ("NaN", "number: is not an integer"),
        ("[Infinity]", "number: is not an integer"),
        ('{"a":-Infinity}', "number: is not an integer"),
        # beyond 2^53 − 1
        (str(SAFE + 1), "number: is beyond"),
        (str(-SAFE - 1), "number: is beyond"),
        ("[" + "9" * 100_000 + "]", "number: is beyond"),
        # text
        ('"\\ud800"', "holds half of a surrogate pair"),
        ('{"a":["\\udfff\\ud800"]}', "a[0]: holds half of a surrogate pair"),
        ('"\ud800"', "holds half of a surrogate pair"),
        ('{"é":1}', "a member's name is not ASCII text"),
        ('{"a":[{"\\u00e9":1}]}', "a[0]: a member's name is not ASCII text"),
        ('{"\\ud800":1}', "a member's name is not ASCII text"),
        (b'"\xff"', "byte 1: is not UTF-8"),
        (b'"\xed\xa0\x80"', "byte 1: is not UTF-8"),  # a surrogate, encoded
        (b'"\xc0\xaf"', "byte 1: is not UTF-8"),  # an overlong slash
        (b"\xff\xfe1\x00", "byte 0: is not UTF-8"),  # UTF-16
        (b"\xef\xbb\xbf1", "line 1 column 1: is not JSON"),  # a byte order mark
        ("\ufeff1", "line 1 column 1: is not JSON"),
        ('"\n"', "line 1 column 2: is not JSON"),
        ('"\\x41"', "line 1 column 2: is not JSON"),
        ('"abc', "line 1 column 1: is not JSON"),
        # grammar
        ("", "line 1 column 1: is not JSON"),
        ("1 2", "line 1 column 3: is not JSON"),
        ("{}]", "line 1 column 3: is not JSON"),
        ("null\x00", "line 1 column 5: is not JSON"),
        ("[1,]", "is not JSON"),
        ('{"a":1,}', "is not JSON"),
        ("{'a':1}", "line 1 column 2: is not JSON"),
        ("{1:1}", "line 1 column 2: is not JSON"),
        ("01", "line 1 column 2: is not JSON"),
        ("+1", "line 1 column 1: is not JSON"),
        ("0x10", "line 1 column 2: is not JSON"),
        ("１", "line 1 column 1: is not JSON"),
        ("True", "line 1 column 1: is not JSON"),
        ("// no\n1", "line 1 column 1: is not JSON"),
        ("[1\u00a0]", "is not JSON"),
    ],
)
def test_what_has_two_readings_is_refused(text: str | bytes, complaint: str) -> None:
    """Whatever two JSON readers could take differently has no value here, and the error says where."""
    with pytest.raises(ProtocolError) as caught:
        canonical.loads(text)

    assert complaint in str(caught.value)


@pytest.mark.parametrize("text", ["0", str(SAFE), str(-SAFE), '"\\ud83d\\ude00"', '"\\u0000"', "{}", "[]", '""'])
def test_the_last_allowed_value_is_read(text: str) -> None:
    """Right at the edge of each refusal there is a value."""
    assert json.loads(text) == canonical.loads(text) == canonical.loads(canonical.dumps(json.loads(text)))


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (1.0, "a float has no canonical form"),
        ({"a": [float("nan")]}, "a[0]: a float has no canonical form"),
        (SAFE + 1, "is beyond"),
        ({"a": {"b": -SAFE - 1}}, "a.b: is beyond"),
        ("\ud800", "half of a surrogate pair"),
        ({"é": 1}, "name is not ASCII"),
        ({1: 1}, "name is not ASCII"),
        ({None: 1}, "name is not ASCII"),
        ([b"bytes"], "[0]: a bytes has no canonical form"),
        ([{1, 2}], "[0]: a set has no canonical form"),
        (range(3), "a range has no canonical form"),
        (object(), "a object has no canonical form"),
    ],
)
def test_what_has_no_form_is_not_printed(value: Any, complaint: str) -> None:
    """A digest is never taken of something that a reader would refuse."""
    with pytest.raises(ProtocolError) as caught:
        canonical.dumps(value)

    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [1.0, [1, 2, SAFE + 1], {"a": [-SAFE - 1]}, ["\ud800"], {"é": 1}, [{1: 1}], [b"x"], {"a": {1, 2}}, [range(3)]],
)
def test_the_quick_look_lets_nothing_pass_that_is_refused(value: Any) -> None:
    """What it is not sure of is looked at again, slowly; what it is sure of has a form."""
    assert not canonical._plain(value)
    with pytest.raises(ProtocolError):
        canonical.dumps(value)


@pytest.mark.parametrize("value", [None, True, SAFE, "a", [], {}, [1, True, None, "x"], {"a": [[-SAFE], {"b": ()}]}])
def test_the_quick_look_knows_what_documents_are_made_of(value: Any) -> None:
    assert canonical._plain(value)
    canonical._check(value, "")


def nested(depth: int) -> Any:
    """Lists in lists, `depth` of them."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_nesting_is_limited_alike_both_ways() -> None:
    """64 levels are printed and read, 65 neither: whatever is printed can be read."""
    deepest = nested(canonical.MAX_DEPTH)

    assert deepest == canonical.loads(canonical.dumps(deepest))
    with pytest.raises(ProtocolError, match="nested deeper than 64"):
        canonical.dumps(nested(canonical.MAX_DEPTH + 1))
    with pytest.raises(ProtocolError, match=r"character 64: is nested deeper than 64"):
        canonical.loads(b"[" * 65 + b"]" * 65)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000, '["]"' + ",[" * 100_000]
)
def test_a_deep_text_does_not_overflow_the_stack(text: str) -> None:
    """A hundred thousand brackets are an error like any other."""
    with pytest.raises(ProtocolError, match="nested deeper"):
        canonical.loads(text)


def test_a_deep_value_does_not_overflow_the_stack() -> None:
    """Nor are they in memory."""
    with pytest.raises(ProtocolError, match="nested deeper"):
        canonical.dumps(nested(100_000))


@pytest.mark.parametrize("text", ["[" * 100, '\\"[[[' * 50, "]" * 100 + "[" * 100])
def test_brackets_in_a_text_are_not_nesting(text: str) -> None:
    """A string may hold any number of them, quotes and backslashes too."""
    value = {"a": [text, {"b": text}]}

    assert value == canonical.loads(canonical.dumps(value))


def test_a_long_text_is_refused_with_its_length() -> None:
    """The limit counts what arrives, and what is just at it is read."""
    with pytest.raises(ProtocolError, match=r"document: is 11 long, over the limit of 10"):
        canonical.loads("1" + " " * 10, limit=10)
    assert canonical.loads("1" + " " * 9, limit=10) == 1
    # In bytes, whatever it comes as: three characters of four bytes each, and the quotes.
    for arriving in ('"\U0001f44b\U0001f44b\U0001f44b"', '"\U0001f44b\U0001f44b\U0001f44b"'.encode()):
        assert canonical.loads(arriving, limit=14) == "\U0001f44b" * 3
        with pytest.raises(ProtocolError, match="document: is 14 long, over the limit of 13"):
            canonical.loads(arriving, limit=13)
    with pytest.raises(ProtocolError, match="over the limit of 1048576"):
        canonical.loads(b" " * (2**20 + 1))


def test_a_place_is_short() -> None:
    """However long the names that lead to it: naming a place costs little, and an error is a line."""
    with pytest.raises(ProtocolError) as caught:
        canonical.dumps({"a" * 100_000: [{"b" * 100_000: wrong(0.5)}]})

    assert caught.value.where == f"{'a' * 63}…{'b' * 64}"


@pytest.mark.parametrize(
    "text",
    [
        '\\"' * 500_000,  # every quote opens a string that does not end
        '["' + '\\"' * 500_000,
        '["' + "\\\n" * 500_000,
        "{" + ",".join(f'"{name}":0' for name in range(90_000)) + ',"89999":0}',  # the last name stands twice
        '{"' + "a" * 500_000 + '":[' + "0," * 250_000 + "0.5]}",
        '{"' + "a" * 500_000 + '":[' + "0," * 250_000 + '"\\ud800"]}',  # a long name in 250,000 places
        '"' + "\\u0061" * 170_000,
        "[" * 500_000,
        "9" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long_to_refuse(text: str) -> None:
    """A megabyte made to be slow is refused in a moment: quadratic work on it takes much longer than the bound."""
    with processor_bound(120), pytest.raises(ProtocolError):
        canonical.loads(text)


@contextmanager
def processor_bound(seconds: float) -> Iterator[None]:
    """Fail if this process itself computes for longer: no measure of speed, and other load does not count."""

    def stop(*_: object) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_control_a_pattern_that_begins_anew_at_each_quote_exceeds_the_bound() -> None:
    """It would take half an hour on this text."""
    with pytest.raises(TimeoutError), processor_bound(0.2):
        re.findall(r'"(?:[^"\\]|\\.)*"', '\\"' * 500_000)
