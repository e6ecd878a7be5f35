"""A published document keeps its canonical bytes and its digest, and nothing that copies it keeps stale ones."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from askance_protocol import canonical
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Entry, RoundPublished, RoundSpec, StudyPublished, StudySpec, read_entry, read_study
from askance_protocol.schema import IntegerField, Schema
from askance_protocol.values import Value
from tests.protocol.studies import part, round_of, study

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "model_copy": lambda value: value.model_copy(),
    "deep model_copy": lambda value: value.model_copy(deep=True),
}


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> Generator[list[object]]:
    """The calls of one function of `canonical`."""
    calls: list[object] = []
    function = getattr(canonical, name)

    def count(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return function(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(canonical, name, count)
        yield calls


def stale(value: Value) -> bool:
    """Whether a document says of itself what its fields do not."""
    return (
        value.to_bytes() != canonical.dumps(value.to_json())
        or value.digest() != hashlib.sha256(canonical.dumps(value.to_json())).hexdigest()
    )


def test_bytes_and_digest_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = study()
    with counted(monkeypatch, "dumps") as dumps:
        first, again = (spec.to_bytes(), spec.digest()), (spec.to_bytes(), spec.digest())

    assert first == again == (canonical.dumps(spec.to_json()), canonical.digest(spec.to_json()))
    assert len(dumps) == 1


def test_a_document_in_its_canonical_form_is_parsed_once_and_keeps_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(sequence=0, previous="0" * 64, notice=StudyPublished(study=study()))
    body = entry.to_bytes()
    with counted(monkeypatch, "loads") as loads, counted(monkeypatch, "dumps") as dumps:
        read = read_entry(body)
        kept = read.to_bytes(), read.digest()

    assert read == entry
    assert kept == (body, hashlib.sha256(body).hexdigest())
    assert (len(loads), len(dumps)) == (0, 1)


def test_a_document_in_another_spelling_has_the_same_name() -> None:
    body = study().to_bytes().decode().replace(",", ", ").replace("{", "{ ")

    assert read_study(body).digest() == study().digest()
    assert read_study(body).to_bytes() == study().to_bytes()


@pytest.mark.parametrize(
    ("spell", "complaint"),
    [
        (lambda text: text.replace('"version":1', '"version":1,"version":1'), "stands twice"),
        (lambda text: text.replace('"version":1', '"version":1.0'), "is not an integer"),
        (lambda text: text.replace('"version":1', '"version":1' + "0" * 5000), "is beyond"),
        (lambda text: text.replace('"A study"', '"\\ud800"'), "surrogate"),
        (lambda text: text.replace('"A study"', '"\ud800"'), "surrogate"),
        (lambda text: text.replace('"A study"', "[" * 100 + "]" * 100), "nested deeper"),
        (lambda text: text.replace(',"version":1', ""), "leaves out"),
    ],
)
def test_what_a_lenient_parser_would_take_is_refused(spell: Callable[[str], str], complaint: str) -> None:
    """The bytes are compared before they are parsed strictly: nothing may slip through in between."""
    text = study().to_bytes().decode()

    assert read_study(text) == study()
    assert spell(text) != text
    with pytest.raises(ProtocolError, match=complaint):
        read_study(spell(text))


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_copy_is_equal_and_names_the_same(name: str, used: bool) -> None:
    """Whether or not the original has worked out its bytes: equality, hash and digest do not show it."""
    spec = round_of(part())
    if used:
        spec.digest()
    copied = COPIES[name](spec)

    assert (copied, hash(copied)) == (spec, hash(spec)) == (round_of(part()), hash(round_of(part())))
    assert copied.digest() == round_of(part()).digest()
    assert not stale(copied)


@pytest.mark.parametrize("deep", [False, True])
def test_a_copy_with_other_fields_has_its_own_bytes(deep: bool) -> None:
    spec = study()
    before = spec.digest()
    other = spec.model_copy(update={"title": "Another study"}, deep=deep)

    assert other.digest() == study(title="Another study").digest() != before
    assert not stale(other)
    assert spec.digest() == before


def test_a_copied_schema_has_its_own_index() -> None:
    """What a `cached_property` holds is worked out from the fields too."""
    schema = Schema(fields=(IntegerField(name="a", low=0, high=1),))
    assert schema.position == {"a": 0}
    other = schema.model_copy(update={"fields": (IntegerField(name="b", low=0, high=1),)})

    assert other.position == {"b": 0}
    assert other == Schema(fields=(IntegerField(name="b", low=0, high=1),))


def test_control_a_cache_that_is_copied_is_found() -> None:
    """Kept where copies take it along, as a `cached_property` would, the bytes go stale, and `stale` says so."""

    class Careless(Value):
        title: str

        def to_bytes(self) -> bytes:
            if "kept" not in vars(self):
                vars(self)["kept"] = canonical.dumps({"title": self.title})
            return vars(self)["kept"]

        def model_copy(self, *, update: Any = None, deep: bool = False) -> Any:
            return super(Value, self).model_copy(update=update, deep=deep)

    first = Careless(title="first")
    first.to_bytes()

    assert stale(first.model_copy(update={"title": "second"}))
    assert not stale(Careless(title="second"))


def test_a_document_inside_another_keeps_its_own_bytes() -> None:
    spec: RoundSpec = round_of(part())
    digest = spec.digest()
    notice = RoundPublished(round=spec)

    assert notice.round.digest() == digest
    assert notice.digest() != digest


def test_a_pickle_carries_the_fields_only() -> None:
    """A worker process gets documents: neither their bytes twice, nor bytes that somebody else computed."""
    fresh, used = study(), study()
    used.digest()

    assert pickle.dumps(fresh) == pickle.dumps(used)
    assert isinstance(pickle.loads(pickle.dumps(used)), StudySpec)
