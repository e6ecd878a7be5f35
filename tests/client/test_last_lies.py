"""A lie in one of several places: each place in turn, so that whoever looks at the first ones only is found.

The client and the page's judgement are told the same. Each lie has its innocent twin, which both answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client import Reason, Refusal, User
from askance_protocol.budget import MICRO
from askance_protocol.coins import MAX_CHOICES
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    Clamp,
    Compare,
    Dot,
    FieldValue,
    If,
    Integer,
    Lookup,
    Or,
    Slice,
    Term,
    Xor,
)
from askance_protocol.rounds import BinarySpec, KarySpec
from askance_protocol.schema import Schema
from tests.client.liar import Json, Liar
from tests.client.lies import Lie, Plant
from tests.client.people import HERS, answers, enrolled, wallet_at
from tests.protocol.studies import MASKED_BIT, SCHEMA, D, part, study
from tests.protocol.web.scripts import WEB, planted, run
from tests.protocol.web.test_web_lies import case

PLACES: Final = range(4)
FAR: Final = 2**53 - 1
UNSOUND, UNREADABLE, BROKEN = Reason.UNSOUND_ROUND, Reason.UNREADABLE, Reason.BROKEN_CHAIN


def rewritten(change: Callable[[Json], object], position: int = 1) -> Plant:
    """A round that says something else, in its place; its digests are right."""

    def plant(liar: Liar) -> None:
        liar.ask(*[part() for _ in PLACES])
        liar.rewrite(position, lambda notice: change(notice["round"]))  # type: ignore[func-returns-value]

    return plant


def of_study(change: Callable[[Json], object]) -> Plant:
    """A study that says something else, and an honest round of it."""

    def plant(liar: Liar) -> None:
        change(liar.study)
        liar.entries.clear()
        liar.publish({"kind": "study", "study": liar.study})
        liar.ask(part())

    return plant


def chained(change: Callable[[Json], object], place: int) -> Plant:
    """Several rounds; one entry is changed, and nothing else."""

    def plant(liar: Liar) -> None:
        for _ in PLACES:
            liar.ask(part(channel=BinarySpec(micro_epsilon=MICRO // 4), charge=MICRO // 4))
        change(liar.entries[place + 1])

    return plant


def account(change: Callable[[list[Json]], object]) -> Plant:
    """The server's account of what she has spent, on rounds that there are not."""

    def said(document: Json) -> None:
        document["charges"] = [{"round": f"{place + 1:064x}", "micro_epsilon": 1} for place in PLACES]
        document["spent_micro_epsilon"] = len(PLACES)
        change(document["charges"])

    def plant(liar: Liar) -> None:
        liar.ask(part())
        liar.says["me"] = said

    return plant


def asked(query: Any, channel: Any = None) -> Plant:
    """A round with this question."""
    return lambda liar: liar.ask(part(query, channel))


def put(place: int, odd: Any, usual: Any, count: int = len(PLACES)) -> tuple[Any, ...]:
    """The odd one among usual ones."""
    return tuple(odd if at == place else usual for at in range(count))


def below(value: Any) -> BooleanQuery:
    """Whether a number is below 1."""
    return BooleanQuery(test=Compare(left=value, relation="<", right=Integer(of=1)))


def nothing(_: object) -> None:
    """Change nothing."""


def lies() -> Iterator[tuple[str, Lie]]:
    """Each lie in each place; and, with no reason, what is as near to it and honest."""
    hers, foreign = Bit(field="b", index=0), Bit(field="secret", index=0)
    small, floor = part(channel=BinarySpec(micro_epsilon=9_999), charge=9_999), MICRO // 100
    least = part(channel=BinarySpec(micro_epsilon=floor), charge=floor)
    term, far = (Term(weight=weight, of=FieldValue(field="i")) for weight in (1, FAR))
    for place in PLACES:
        dear, dearest = part(charge=2 * MICRO), part(charge=2 * MICRO + 1)
        yield "a part charges more than the study", Lie("", UNSOUND, plant_parts(put(place, dearest, part())))
        yield "a part charges as much as the study", Lie("", None, plant_parts(put(place, dear, part())))
        yield "a part charges too little", Lie("", Reason.BELOW_FLOOR, plant_parts(put(place, small, part())))
        yield "a part charges little", Lie("", None, plant_parts(put(place, least, part())))
        for share, reason in ((MAX_CHOICES - 2, UNREADABLE), (MAX_CHOICES - 3, None)):
            yield (
                f"a part has a share of {share}",
                Lie("", reason, rewritten(lambda said, p=place, s=share: said["parts"][p].update(share=s))),
            )
        for each in (And, Or, Xor):
            yield (
                f"a foreign field in {each.__name__}",
                Lie("", UNSOUND, asked_test(each(of=put(place, foreign, hers)))),
            )
            yield f"her field in {each.__name__}", Lie("", None, asked_test(each(of=put(place, hers, hers))))
        yield "a term that is too large", Lie("", UNSOUND, asked(below(Affine(terms=put(place, far, term)))))
        yield "terms", Lie("", None, asked(below(Affine(terms=put(place, term, term)))))
        for value, reason in ((2, UNSOUND), (1, None)):
            table = Lookup(index=FieldValue(field="i"), table=put(place, value, 0), default=0)
            cell = CellQuery(cells=2, cell=table)
            yield f"cell {value} of 2", Lie("", reason, asked(cell, KarySpec(micro_epsilon=MICRO)))
        for name, change in CHANGES.items():
            yield name, Lie("", BROKEN, chained(change, place))
            yield "entries", Lie("", None, chained(nothing, place))
        for name, wrong in WRONG_CHARGES.items():
            yield (
                f"charges with {name}",
                Lie("", UNREADABLE, account(lambda charges, p=place, w=wrong: charges[p].update(w))),
            )
        yield "charges", Lie("", None, account(nothing))
    for place in range(D):
        weights = put(place, FAR, 1, D)
        yield "a weight that is too large", Lie("", UNSOUND, asked(below(Dot(field="x", weights=weights))))
        yield "a large weight", Lie("", None, asked(below(Dot(field="x", weights=put(place, FAR, 0, D)))))
        for name, cell, most in bounded(place):
            for cells, shift, reason in ((most + 1, 0, None), (most, 0, UNSOUND), (most + 1, -1, UNSOUND)):
                shifted = Affine(constant=shift, terms=(Term(weight=1, of=cell),))
                query = CellQuery(cells=cells, cell=shifted)
                yield (
                    f"{name} from {shift} on, of {cells} cells",
                    Lie("", reason, asked(query, KarySpec(micro_epsilon=MICRO))),
                )
    for place in range(len(SCHEMA.fields) - 1):
        yield "two fields of one name", Lie("", UNREADABLE, of_study(lambda said, p=place: doubled(said, p)))
    yield "fields", Lie("", None, of_study(nothing))


def bounded(place: int) -> Iterator[tuple[str, Any, int]]:
    """Numbers from 0 to another one, where one of eight members alone says how far they reach; and so downwards."""
    index, most = FieldValue(field="i"), 5
    zero, one = Term(weight=1, of=Integer(of=0)), Term(weight=1, of=index)
    yield "a weight", Dot(field="x", weights=put(place, most, 0, D)), most
    below_ = Dot(field="x", weights=put(place, -most, 0, D))
    yield "a weight below 0", Affine(constant=most, terms=(Term(weight=1, of=below_),)), most
    yield "a term", Affine(terms=put(place, one, zero, D)), D - 1
    downwards = Term(weight=-1, of=index)
    yield "a term below 0", Affine(constant=D - 1, terms=put(place, downwards, zero, D)), D - 1
    # No index lies beside these tables, so their default says nothing.
    yield "an entry", Lookup(index=index, table=put(place, most, 0, D), default=999), most
    yield "an entry below others", Lookup(index=index, table=put(place, 0, most, D), default=-999), most
    for beside in (-1, 1):
        moved = Affine(constant=beside, terms=(Term(weight=1, of=index),))
        yield f"an index {beside} beside a table", Lookup(index=moved, table=(0,) * D, default=most), most
    yield "a slice", Slice(field="x", first=min(place, D - 2), width=2), 3
    deep = Affine(terms=put(place, Term(weight=2, of=Clamp(of=index, low=-9, high=3)), zero, D))
    yield "a clamped number", deep, 6
    either = If(test=Bit(field="b", index=0), then=deep, otherwise=Affine(terms=put(place, one, zero, D)))
    yield "one of two", either, D - 1
    yield "the other of two", If(test=Bit(field="b", index=0), then=either, otherwise=deep), D - 1


def doubled(said: Json, place: int) -> None:
    """A field has the name of the next one."""
    fields = said["example"]["fields"]
    fields[place]["name"] = fields[place + 1]["name"]


def plant_parts(parts: Sequence[Any]) -> Plant:
    """A round of these parts."""
    return lambda liar: liar.ask(*parts)


def asked_test(test: Any) -> Plant:
    """A boolean question."""
    return asked(BooleanQuery(test=test))


CHANGES: Final[dict[str, Callable[[Json], object]]] = {
    "an entry that follows another": lambda entry: entry.update(previous="1" * 64),
    "an entry of another study's": lambda entry: entry["notice"]["round"].update(study="1" * 64),
    "an entry whose round has another number": lambda entry: entry["notice"]["round"].update(number=9),
}
WRONG_CHARGES: Final[dict[str, Json]] = {
    "one below nothing": {"micro_epsilon": -1},
    "one that is no number": {"micro_epsilon": "1"},
    "a round that is no digest": {"round": 1},
}
LIES: Final = list(lies())
SENT: Final = {Reason.WRONG_RECEIPT}
"""Reasons that come after a report has left: the double knows one price of a round."""


def in_python(path: Path, told: Sequence[Lie]) -> list[str | None]:
    """The reason for which a client refuses each; None if it sends a report."""
    said = list[str | None]()
    for number, lie in enumerate(told):
        liar, folder = Liar.of(study(simulated=False)), path / str(number)
        folder.mkdir()
        wallet = wallet_at(folder)
        user = User(HERS, wallet)
        enrolled(user, liar)
        lie.plant(liar)
        results = answers(user, liar)
        refused = [each.reason.value for each in results if isinstance(each, Refusal) and each.reason not in SENT]
        assert len(liar.bodies) == len(wallet.spending.charges) == len(results) - len(refused)
        said.append(refused[0] if refused else None)
        wallet.close()
    return said


def in_javascript(folder: Path, told: Sequence[Lie], modules: Path | None = None, **changes: Any) -> list[str | None]:
    """The same of a page."""
    job = [case(lie.plant, **changes) for lie in told]
    results = run("judging.mjs", job, folder, modules=modules or WEB)
    return [next((each for each in said if isinstance(each, str)), None) for said in results]


def wrong(told: Sequence[tuple[str, Lie]], said: Sequence[str | None]) -> list[str]:
    """The lies that are refused for another reason, or not; and what is honest and refused."""
    expected = [None if lie.reason is None else lie.reason.value for _, lie in told]
    return [f"{name}: {s}, not {e}" for (name, _), s, e in zip(told, said, expected, strict=True) if s != e]


def test_a_client_finds_a_lie_in_whichever_place_it_is(tmp_path: Path) -> None:
    assert wrong(LIES, in_python(tmp_path, [lie for _, lie in LIES])) == []


def test_a_page_finds_a_lie_in_whichever_place_it_is(tmp_path: Path) -> None:
    assert wrong(LIES, in_javascript(tmp_path, [lie for _, lie in LIES])) == []


FAULTS: Final = {
    "the first parts' charges": (
        "rounds.mjs",
        "spec.parts.forEach(({ charge }",
        "spec.parts.slice(0, 2).forEach(({ charge }",
    ),
    "the least of the first charges": ("judge.mjs", "round.spec.parts.reduce(", "round.spec.parts.slice(0, 2).reduce("),
    "the first shares": ("spec.mjs", "parts.reduce((sum, { share })", "parts.slice(0, 2).reduce((sum, { share })"),
    "the first weights": ("bounds.mjs", "node.weights.map((weight)", "node.weights.slice(0, 2).map((weight)"),
    "the first terms": (
        "bounds.mjs",
        "node.terms.map(({ weight, of }, index)",
        "node.terms.slice(0, 2).map(({ weight, of }, index)",
    ),
    "the first entries of a table": ("bounds.mjs", "node.table.filter(", "node.table.slice(0, 2).filter("),
    "the first charges of an account": (
        "documents.mjs",
        "items(document.charges).map(",
        "items(document.charges).slice(0, 2).map(",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_control_a_page_that_looks_at_the_first_ones_only_is_found(tmp_path: Path, fault: str) -> None:
    module, old, new = FAULTS[fault]
    said = in_javascript(tmp_path, [lie for _, lie in LIES], planted(tmp_path, module, {old: new}))

    assert wrong(LIES, said)


# ------------------------------------------------------------------------------------------------- members of documents


def objects(document: Any) -> Iterator[Json]:
    """A document, and all that is in it, as far as it has members."""
    if isinstance(document, dict):
        yield document
    for each in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from objects(each)


def spoiled() -> Iterator[tuple[str, Lie]]:
    """A member more in any object of a study or of a round: the first by its name, and the last; and one fewer."""
    whole = Liar.of(study(simulated=False))
    whole.ask(*[part() for _ in PLACES])
    kinds: dict[str, tuple[Callable[[Callable[[Json], object]], Plant], Json]] = {
        "study": (of_study, whole.study),
        "round": (rewritten, whole.entries[1]["notice"]["round"]),
    }
    for kind, (plant, document) in kinds.items():
        for at, held in enumerate(objects(document)):
            if held is document.get("parameters"):
                continue  # These may have any name.
            for name in ("aaa", "zzz"):
                change = lambda said, a=at, n=name: list(objects(said))[a].update({n: 1})  # noqa: E731
                yield f"{name} in object {at} of a {kind}", Lie("", UNREADABLE, plant(change))
            for name in held:
                without = lambda said, a=at, n=name: list(objects(said))[a].pop(n)  # noqa: E731
                yield f"no {name} in object {at} of a {kind}", Lie("", None, plant(without))


def numbers(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the numbers of a document are."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, each in inner:
        yield from numbers(each, (*path, key))
    if type(document) is int:
        yield path


def at_its_end(said: Json, path: Sequence[str | int], value: object) -> None:
    """Put a value in a place."""
    holder: Any = said
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value


def out_of_range() -> Iterator[tuple[str, Lie]]:
    """Each number of a round at the ends of what it may be, and beyond; and lists that are too short or too long."""
    whole = Liar.of(study(simulated=False))
    dot = below(Dot(field="x", weights=(1,) * D))
    whole.ask(part(dot), part(CellQuery(cells=4, cell=Slice(field="x", first=0, width=2))))
    document = whole.entries[1]["notice"]["round"]
    edits: list[tuple[tuple[str | int, ...], object]] = [
        (path, value)
        for path in numbers(document)
        for value in (-1, 0, 2, 65_536, 65_537, MAX_CHOICES + 1, FAR, "1", True)
    ]
    weights = ("parts", 0, "query", "test", "left", "weights")
    edits += [(weights, [1] * count) for count in (0, 1, D - 1, D + 1, 4096, 4097)]
    edits += [(("parts",), [document["parts"][0]] * count) for count in (0, 1, 2)]
    for path, value in edits:

        def plant(liar: Liar, path: Sequence[str | int] = path, value: object = value) -> None:
            liar.publish(copy.deepcopy(whole.entries[1]["notice"]))
            liar.rewrite(1, lambda notice: at_its_end(notice["round"], path, value))

        yield f"{'.'.join(map(str, path))} is {str(value)[:20]}", Lie("", None, plant)


def test_numbers_and_lists_are_taken_to_the_same_ends(tmp_path: Path) -> None:
    told = list(out_of_range())
    python = in_python(tmp_path, [lie for _, lie in told])
    # By a clock that is past all these deadlines but the far one, as that of this machine is.
    javascript = in_javascript(tmp_path, [lie for _, lie in told], now=1_700_000_000)

    assert {name: (p, j) for (name, _), p, j in zip(told, python, javascript, strict=True) if p != j} == {}
    # The control: some are taken, some are no documents, and some are unsound.
    assert {None, UNREADABLE.value, UNSOUND.value} <= set(python)


def test_a_label_is_asked_for_where_there_is_one(tmp_path: Path) -> None:
    unlabelled = [field.to_json() for field in SCHEMA.fields[:-1]]
    asks = Lie("", None, of_study(lambda said: said["example"].update(fields=unlabelled)))
    schema = {**SCHEMA.to_json(), "fields": unlabelled}

    assert in_javascript(tmp_path, [asks], schema=schema) == [UNSOUND.value]
    # The control: with a label it is answered.
    assert in_javascript(tmp_path, [Lie("", None, of_study(nothing))]) == [None]


def test_a_member_more_or_fewer_anywhere_is_refused_or_read_alike(tmp_path: Path) -> None:
    told = list(spoiled())
    python, javascript = (f(tmp_path, [lie for _, lie in told]) for f in (in_python, in_javascript))

    assert {name: (p, j) for (name, _), p, j in zip(told, python, javascript, strict=True) if p != j} == {}
    more = [p for (_, lie), p in zip(told, python, strict=True) if lie.reason is not None]
    assert set(more) == {UNREADABLE.value}
    assert len(more) > 50
    assert python.count(None) < len(told) / 3


@pytest.mark.parametrize("place", range(len(SCHEMA.fields)))
def test_a_page_refuses_a_study_of_whichever_field_she_has_not(tmp_path: Path, place: int) -> None:
    others = SCHEMA.fields[:place] + SCHEMA.fields[place + 1 :]
    renamed = (
        *SCHEMA.fields[:place],
        SCHEMA.fields[place].model_copy(update={"name": "z"}),
        *SCHEMA.fields[place + 1 :],
    )
    honest = [Lie("", None, asked(MASKED_BIT))]
    for fields in (others, renamed):
        schema = Schema(fields=fields).to_json()

        assert in_javascript(tmp_path, honest, declared=schema) == [Reason.OTHER_SCHEMA.value]
        assert in_javascript(tmp_path, honest, schema=schema) == [Reason.OTHER_SCHEMA.value]
