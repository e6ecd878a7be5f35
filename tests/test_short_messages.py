"""No error carries much of what it refuses: its message stays short, however large a document and whatever is in it.

A message goes to a terminal, a log and a problem document. What was sent may be somebody's own, and as long as its
document may be. So huge values are put at every place of every kind of document, in every room that reads one, and of
what was sent a message shows a few characters at most.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from pydantic import ValidationError

from askance_client.tables import from_file, read_schema
from askance_client.transport import documents
from askance_lab.commands.shared.channels import build
from askance_lab.commands.shared.options import read_numbers
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.targets import read_targets
from askance_lab.curator.registry import mechanism
from askance_lab.theory.theorem import EPSILON
from askance_protocol import parameters, values
from askance_protocol.budget import charge_from_text
from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import prepare, read_query
from askance_protocol.reports import decode_columns, decode_report
from askance_protocol.rounds import prepare_round, read_entry, read_round, read_study
from askance_protocol.schema import BitsField, CategoryField, Schema
from askance_protocol.values import read
from tests.harness.servers import Service
from tests.protocol.studies import PARTS, SCHEMA, round_of, study

Json = Any
Place = tuple[str | int, ...]

LONGEST: Final = 600
"""Characters of a message. Of them our own words may take the most: which names are known."""
MOST_SHOWN: Final = 70
"""Characters of what was sent that a message may hold, and what escapes some of them."""

VECTORS: Final = Path(__file__).parent / "vectors"
MARK: Final = "\u00df"
"""It stands in no message of ours, so those in a message are from outside."""
TEXTS: Final = (MARK * 2_000, "z7" * 1_000, "\x1b" * 2_000, "'" * 2_000, "z7" * 32)
HUGE: Final[tuple[Json, ...]] = (
    *TEXTS,
    [TEXTS[0]],
    [77] * 500,
    [[77] * 3] * 200,
    {TEXTS[0]: 1},
    {TEXTS[1]: {TEXTS[2]: 1}},
    {"kind": TEXTS[0], "op": TEXTS[0], "form": TEXTS[0]},
    {"kind": [TEXTS[0]], "op": [TEXTS[0]]},
    10**3000,
    -1,
)
SENT: Final = re.compile(rf"{MARK}+|(?:z7)+|(?:\\x1b)+|(?:\\?')+|(?:77\D{{0,4}})+")
"""What can stand in a message of these values."""


def message(attempt: Callable[[], object]) -> str:
    """What is said of an attempt; nothing where it succeeds."""
    try:
        attempt()
    except AskanceError as error:
        return str(error)
    return ""


def talkative(said: str) -> bool:
    """Whether a message is long, or shows much of what was sent."""
    return len(said) > LONGEST or sum(map(len, SENT.findall(said))) > 2 * MOST_SHOWN


def places(document: Json, known: set[Place], at: Place = (), above: Place = ()) -> Iterator[Place]:
    """Every place of a document of which none like it is known: of the same member in a node of the same kind."""
    likeness = (*above, *(step for step in at[-1:] if isinstance(step, str)))
    if likeness in known and at and isinstance(at[-1], str):
        return
    known.add(likeness)
    yield at
    if isinstance(document, dict):
        kind = str(document.get("kind", document.get("op", document.get("form", at[-1:]))))
        for name, item in document.items():
            yield from places(item, known, (*at, name), (kind,))
    elif isinstance(document, list):
        for index, item in enumerate(document[:2]):
            yield from places(item, known, (*at, index), above)


def spoilt(document: Json, at: Place) -> Iterator[Json]:
    """The document with huge values at this place: as the value, as a member's name, and in place of each name."""
    here = document
    for step in at:
        here = here[step]
    for value in HUGE:
        yield put(document, at, value)
        if isinstance(here, dict) and isinstance(value, str):
            yield put(document, at, {**here, value: 1})
            yield put(document, at, {name if index else value: here[name] for index, name in enumerate(here)})


def put(document: Json, at: Place, value: Json) -> Json:
    """A copy of the document with another value at one place."""
    if not at:
        return value
    changed = copy.deepcopy(document)
    holder = changed
    for step in at[:-1]:
        holder = holder[step]
    holder[at[-1]] = value
    return changed


def vectors(name: str) -> Json:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


def forms() -> Iterator[tuple[str, Callable[[str], object], Json]]:
    """Every form that a document may have, with its reader and sound documents of it."""
    queries = vectors("queries")
    schema = Schema(**read(Schema, json.dumps(queries["schema"])).__dict__)
    yield "study", read_study, study().to_json()
    yield "schema", lambda text: read(Schema, text), queries["schema"]
    for vector in queries["vectors"]:
        if vector["success"]:
            yield "query", lambda text: prepare(read_query(text), schema), vector["query"]
    for part in PARTS.values():
        yield "round", lambda text: prepare_round(study(), read_round(text)), round_of(part).to_json()
    for chain in vectors("chains")["vectors"]:
        for entry in chain["entries"]:
            yield "entry", read_entry, entry
    yield "batch", lambda text: decode_columns(text.encode()), {"users": [1, 2], "outcomes": [0, 1]}
    yield "report", lambda text: decode_report(text.encode(), 2), {"outcome": 1}
    for field in EXAMPLE:
        yield field, lambda text, field=field: SCHEMA.parse(EXAMPLE | {field: json.loads(text)}), EXAMPLE[field]
    for reader, answer in ANSWERS:
        yield reader.__name__, lambda text, reader=reader: reader(text.encode()), answer


EXAMPLE: Final[Json] = {"x": "01010101", "i": 3, "b": "1", "height": 0.5, "y": 1}
ANSWERS: Final[tuple[tuple[Callable[[bytes], object], Json], ...]] = (
    (documents.read_tail, {"head": "0" * 64, "length": 0, "entries": []}),
    (
        documents.read_statement,
        {
            "user": 1,
            "cap_micro_epsilon": 5,
            "spent_micro_epsilon": 3,
            "remaining_micro_epsilon": 2,
            "charges": [{"round": "0" * 64, "micro_epsilon": 3}],
        },
    ),
    (documents.read_receipt, {"user": 1, "round": "0" * 64, "charged": 3}),
    (documents.read_enrolled, {"user": 1, "users": 1, "cap_micro_epsilon": 3, "token": "u", "tokens": []}),
)


def told() -> Iterator[str]:
    """What is said of all spoilt documents that are refused."""
    known = dict[str, set[Place]]()
    for name, reader, document in forms():
        for at in places(document, known.setdefault(name, set())):
            for bad in spoilt(document, at):
                text = json.dumps(bad, ensure_ascii=False)
                if said := message(lambda reader=reader, text=text: reader(text)):
                    yield said


def test_no_document_is_repeated_by_the_error_that_refuses_it() -> None:
    said = list(told())

    assert [each for each in said if talkative(each)] == []
    # They were refused, for many different reasons, and each names its place.
    assert len(said) > 1_000
    assert len({SENT.sub("", each) for each in said}) > 100


def test_control_a_reader_that_passes_on_its_librarys_words_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pydantic repeat a tag that they do not know, whatever it is: 4,107 characters of it were shown."""

    def refused(error: ValidationError) -> ProtocolError:
        first = error.errors(include_url=False, include_input=False)[0]
        return ProtocolError(first["msg"], where=str(first["loc"])[:64])

    monkeypatch.setattr(values, "refused", refused)

    assert any(map(talkative, told()))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda text, _: charge_from_text(text),
        lambda text, _: SCHEMA.field(text),
        lambda text, _: SCHEMA.parse({**EXAMPLE, text: 1}),
        lambda text, _: wide_schema().field(text),
        lambda text, _: wide_schema().parse({}),
        lambda text, _: CategoryField(name="c", values=tuple(str(each) * 16 for each in range(1000, 5000))).parse(text),
        lambda text, _: Columns.of(wide_schema(), {text: np.zeros(1)}),
        lambda text, _: parameters.only({text: 1}, "d"),
        lambda text, _: parameters.whole({"d": text}, "d", 1, 9),
        lambda text, _: parameters.decimal({"d": text}, "d", "0.1"),
        lambda text, _: parameters.bits({"d": text}, "d", 9),
        lambda text, _: parameters.word({"d": text}, "d", "one", "two"),
        lambda text, _: parse_set([text]),
        lambda text, _: read_numbers(text, "--users"),
        lambda text, _: read_targets("1", text, 0.1, 0.1),
        lambda text, _: build(text, "1", None, None),
        lambda text, _: build("kary", "1", None, None, [f"{text}=1"]),
        lambda text, _: mechanism(text),
        lambda text, _: EPSILON.read(text),
        lambda text, folder: from_file(written(folder / "a.csv", "a,b\n1,2\n"), label=text),
        lambda text, folder: from_file(written(folder / "a.csv", f"{text},b\n1,2\n")),
        lambda text, folder: from_file(written(folder / "a.csv", f"a,b\n1,2\n{text},{text}\n")),
        lambda text, folder: read_schema(written(folder / "s.json", json.dumps({"fields": [{"kind": text}]}))),
    ],
)
@pytest.mark.parametrize("text", TEXTS, ids=["letters", "ASCII", "escapes", "marks", "a name"])
def test_no_text_is_repeated_by_the_error_that_refuses_it(
    attempt: Callable[[str, Path], object], text: str, tmp_path: Path
) -> None:
    said = message(lambda: attempt(text, tmp_path)).replace(str(tmp_path), "")

    assert said or text == TEXTS[-1]
    assert not talkative(said)
    # The control.
    assert talkative(f"{said} {text[:LONGEST]!r}") or text == TEXTS[-1]


def wide_schema() -> Schema:
    """As many fields as there may be, with names as long as they may be."""
    return Schema(fields=tuple(BitsField(name=f"{'w' * 60}{index:04}", width=1) for index in range(256)))


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_no_request_is_repeated_by_the_problem_that_refuses_it(tmp_path: Path) -> None:
    new = {"title": "t", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True, "gateway": {"users": 1}}
    said = list[str]()
    with Service(tmp_path / "data", cap="1") as api:
        for at in places(new, set()):
            for bad in spoilt(new, at):
                body = json.dumps(bad, ensure_ascii=False).encode()
                headers = {"Content-Type": "application/json"}
                answer = api.post("/v1/studies", token=api.operator, content=body, headers=headers)
                if not answer.is_success:
                    said.append(answer.json().get("detail", ""))

    assert [each for each in said if talkative(each)] == []
    assert len(said) > 50
