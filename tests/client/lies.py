"""What a malicious server may say: each lie by its name, with the reason for which a user has to refuse it."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from askance_client import Reason
from askance_protocol import canonical
from askance_protocol.budget import LARGEST, MICRO
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import (
    And,
    Bit,
    Compare,
    Dot,
    FieldValue,
    Integer,
    Is,
    Lookup,
    Not,
    Parity,
    Slice,
)
from askance_protocol.rounds import (
    LEAST_CHARGE,
    MOST_ROUNDS,
    BinarySpec,
    GeometricSpec,
    KarySpec,
    LaplaceSpec,
    Part,
    TableSpec,
)
from askance_protocol.schema import BitsField, Schema
from tests.client.liar import HOST, RICH, Change, Json, Liar, instead_of_an_answer, problem
from tests.protocol.studies import HEIGHT, LN_3, MASKED_BIT, TABLE, WHICH, D, part, study

Plant = Callable[[Liar], object]

EVIL: Final = "evil.test"
WORD: Final = 1 << 64
HALF: Final = str(1 << 63)


@dataclass(frozen=True)
class Lie:
    """What is said, and why it is refused; no reason is where there is no answer at all."""

    name: str
    reason: Reason | None
    plant: Plant


UNSOUND, BROKEN, UNREADABLE = Reason.UNSOUND_ROUND, Reason.BROKEN_CHAIN, Reason.UNREADABLE


# ------------------------------------------------------------------------------------- rounds that cannot be answered


def rounds(asked: Part) -> Plant:
    """An open round of this part."""
    return lambda liar: liar.ask(asked)


def table(*rows: tuple[int, ...]) -> Part:
    """A boolean question with this channel, charged as the honest table is."""
    return part(MASKED_BIT, TableSpec(weights=tuple(tuple(map(str, row)) for row in rows)), LN_3)


def nested(levels: int) -> BooleanQuery:
    """A query with this number of levels."""
    test: Any = Bit(field="b", index=0)
    for _ in range(levels - 1):
        test = Not(of=test)
    return BooleanQuery(test=test)


def asks(test: Any) -> Part:
    """A boolean question."""
    return part(BooleanQuery(test=test))


_MOST, _REST = 3 << 62, 1 << 62
_LOOKUP: Final = Lookup(index=FieldValue(field="i"), table=tuple(range(4097)), default=0)
_OVERFLOW: Final = Dot(field="x", weights=(2**53 - 1,) * D)

UNSOUND_ROUNDS: Final = [
    Lie(f"a round {name}", UNSOUND, rounds(asked))
    for name, asked in {
        "that charges a millionth less than binary response costs": part(charge=MICRO - 1),
        "that charges a millionth less than its table costs": part(MASKED_BIT, TABLE, LN_3 - 1),
        "that charges a millionth less than its k-ary response costs": part(
            WHICH, KarySpec(micro_epsilon=MICRO), MICRO - 1
        ),
        "whose channel keeps more of the truth than it charges": part(channel=BinarySpec(micro_epsilon=MICRO + 1)),
        "of a boolean query through a k-ary channel": part(MASKED_BIT, KarySpec(micro_epsilon=MICRO)),
        "of a boolean query through a geometric channel": part(MASKED_BIT, GeometricSpec(micro_epsilon=MICRO)),
        "of a real query through a k-ary channel": part(HEIGHT, KarySpec(micro_epsilon=MICRO)),
        "of a cell query through a Laplace channel": part(WHICH, LaplaceSpec(micro_epsilon=MICRO)),
        "of a cell query through a table for a boolean one": part(WHICH, TABLE, LN_3),
        "whose table has a row for an answer that there is not": table((_MOST, _REST), (_REST, _MOST), (_REST, _MOST)),
        "whose weights sum to one less than all words": table((_MOST - 1, _REST), (_REST, _MOST)),
        "whose weights sum to one more than all words": table((_MOST, _REST + 1), (_REST, _MOST)),
        "whose table tells the answer outright": table((WORD, 0), (0, WORD)),
        "whose table tells one of two answers for certain": table((WORD, 0), (_REST, _MOST)),
        "whose table tells one answer in a word of all": table((WORD - 1, 1, 0), (WORD - 1, 0, 1)),
        "whose table has one outcome": table((WORD,), (WORD,)),
        "whose table has rows of two lengths": table((_MOST, _REST), (_REST, _MOST, 0)),
        "whose table has a weight beyond all words": table((WORD + 1, 0), (0, WORD + 1)),
        "whose ε is beyond every channel": part(channel=BinarySpec(micro_epsilon=25 * MICRO), charge=2 * MICRO),
        "whose channel has too large a range": part(
            RealQuery(numerator=FieldValue(field="i"), denominator=512), GeometricSpec(micro_epsilon=MICRO)
        ),
        "of a query of 257 nodes": asks(And(of=(And(of=(Bit(field="b", index=0),) * 254), nested(1).test))),
        "of a query of 17 levels": part(nested(17)),
        "of a query with 8194 table entries": asks(Compare(left=_LOOKUP, relation="<", right=_LOOKUP)),
        "of a query whose sums leave the safe integers": asks(
            Compare(left=_OVERFLOW, relation="<", right=Integer(of=1))
        ),
        "of a field that she has not": asks(Bit(field="secret", index=0)),
        "of a category where she has a number": asks(Is(field="i", category="a")),
        "of a number where she has bits": part(RealQuery(numerator=FieldValue(field="x"), denominator=1)),
        "of a bit beyond the last": asks(Bit(field="x", index=D)),
        "of a parity over bits that she has not": asks(Parity(field="x", mask="100")),
        "of a slice that reaches beyond her bits": part(
            CellQuery(cells=4, cell=Slice(field="x", first=D - 1, width=2))
        ),
        "of cells that k-ary response cannot name": part(
            CellQuery(cells=4, cell=FieldValue(field="i")), KarySpec(micro_epsilon=MICRO)
        ),
        "that charges more than the whole study": part(charge=10 * MICRO),
    }.items()
]


# --------------------------------------------------------------------------------------- broken chains of entries


def chained(plant: Plant) -> Plant:
    """On top of an honest round."""

    def planted(liar: Liar) -> None:
        liar.ask(part())
        plant(liar)

    return planted


def entry(position: int, **members: Any) -> Plant:
    """Members of one entry, and nothing chained to it."""
    return chained(lambda liar: liar.entries[position].update(members))


def notice(**members: Any) -> Plant:
    """Another notice behind an honest round."""
    return chained(lambda liar: liar.publish(members))


def without(position: int) -> Plant:
    """An entry is left out."""

    def planted(liar: Liar) -> None:
        liar.ask(part())
        liar.ask(part())
        del liar.entries[position]

    return planted


def swapped(liar: Liar) -> None:
    """Two entries change places."""
    liar.ask(part())
    liar.ask(part())
    liar.entries[1], liar.entries[2] = liar.entries[2], liar.entries[1]


def changed_below(liar: Liar) -> None:
    """A round that says something else than what the next entry is chained to."""
    liar.ask(part())
    liar.ask(part())
    liar.entries[1]["notice"]["round"]["target"] += 1


def second_of_noninteractive(liar: Liar) -> None:
    """The study said that no round would follow the first."""
    liar.study["interactive"] = False
    liar.entries.clear()
    liar.publish({"kind": "study", "study": liar.study})
    liar.ask(part())
    liar.ask(part())


def after_the_end(liar: Liar) -> None:
    """A round of a study that has ended."""
    liar.publish({"kind": "ended", "state": "finished", "reason": ""})
    liar.ask(part())


def rounds_first(liar: Liar) -> None:
    """There is no study on the bulletin."""
    liar.entries.clear()
    liar.ask(part())


def another_study(liar: Liar) -> None:
    """The bulletin of another study, sound in itself."""
    id_ = liar.id
    other = Liar.of(study(simulated=False, title="Another study"))
    other.ask(part())
    liar.says["bulletin"] = lambda document: document.update(
        head=other.head, length=len(other.entries), entries=other.entries
    )
    assert liar.id == id_ != other.id


_SECOND_STUDY: Final = study(simulated=False, title="Another study").to_json()

BROKEN_CHAINS: Final = [
    Lie("the first entry continues something", BROKEN, entry(0, previous="1" * 64)),
    Lie("an entry continues another one than it follows", BROKEN, entry(1, previous="1" * 64)),
    Lie("an entry's number is skipped", BROKEN, entry(1, sequence=2)),
    Lie("an entry's number stands twice", BROKEN, entry(1, sequence=0)),
    Lie("an entry is left out", BROKEN, without(1)),
    Lie("the first entry is left out", BROKEN, without(0)),
    Lie("two entries have changed places", BROKEN, swapped),
    Lie("a round has other content than the next entry is chained to", BROKEN, changed_below),
    Lie("there is a second study on the bulletin", BROKEN, notice(kind="study", study=_SECOND_STUDY)),
    Lie("the same study stands twice", BROKEN, chained(lambda liar: liar.publish(liar.entries[0]["notice"]))),
    Lie("the same round stands twice", BROKEN, chained(lambda liar: liar.publish(liar.entries[1]["notice"]))),
    Lie("a round's number is skipped", BROKEN, chained(lambda liar: liar.ask(part(), number=3))),
    Lie("a round's number is that of another", BROKEN, chained(lambda liar: liar.ask(part(), number=1, target=9))),
    Lie("a round is of another study", BROKEN, lambda liar: liar.ask(part(), study="1" * 64)),
    Lie(
        "a round closes that was never published",
        BROKEN,
        notice(kind="closed", round="1" * 64, reason="target", received=1),
    ),
    Lie(
        "a round is answered before it closes",
        BROKEN,
        chained(
            lambda liar: liar.publish(
                {"kind": "answers", "round": liar.round(part(), number=1).digest(), "tallies": []}
            )
        ),
    ),
    Lie("a noninteractive study opens a second round", BROKEN, second_of_noninteractive),
    Lie("a study goes on after its end", BROKEN, after_the_end),
    Lie("there is a round and no study", BROKEN, rounds_first),
    Lie("the bulletin is another study's", Reason.OTHER_STUDY, another_study),
]


# ------------------------------------------------------------------------ documents that are none of this protocol


def says(name: str, change: Change) -> Plant:
    """An honest round is open; this document is changed."""

    def planted(liar: Liar) -> None:
        liar.ask(part())
        liar.says[name] = change

    return planted


def member(name: str, *path: str | int, **members: Any) -> Plant:
    """Members of a part of a document."""

    def change(document: Json) -> None:
        place: Any = document
        for step in path:
            place = place[step]
        place.update(members)

    return says(name, change)


def written(name: str, old: bytes, new: bytes) -> Plant:
    """A document that is spelled otherwise."""

    def change(document: Json) -> bytes:
        text = canonical.dumps(document)
        assert old in text
        return text.replace(old, new)

    return says(name, change)


def lacks(name: str, *path: str | int) -> Plant:
    """A member is left out of a document."""

    def change(document: Json) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return says(name, change)


def rechained(change: Callable[[Json], object]) -> Plant:
    """A round that is changed, and in its place: there is no digest that tells."""

    def planted(liar: Liar) -> None:
        liar.ask(part())
        liar.rewrite(1, lambda said: change(said["round"]))  # type: ignore[func-returns-value]

    return planted


def instead(answer: httpx.Response | bytes) -> Change:
    """This, whatever was asked."""
    return lambda _: answer


_ROUND: Final = ("entries", 1, "notice", "round")
_QUERY: Final = b'"op":"bit"'


def _weights(*weights: object) -> Callable[[Json], None]:
    rows = [list(weights), list(weights)]
    return lambda said: said["parts"][0].update(channel={"kind": "table", "weights": rows})


UNREADABLE_DOCUMENTS: Final = [
    Lie(name, UNREADABLE, plant)
    for name, plant in {
        "a bulletin whose head is not that of its entries": member("bulletin", head="1" * 64),
        "a bulletin whose length is not that of its entries": member("bulletin", length=3),
        "a bulletin whose length is shorter than its entries": member("bulletin", length=1),
        "a last round with other content under the head that was": member("bulletin", *_ROUND, target=9),
        "an unknown member in a bulletin": member("bulletin", more=1),
        "an unknown member in an entry": member("bulletin", "entries", 1, more=1),
        "an unknown member in the study": member("bulletin", "entries", 0, "notice", "study", more=1),
        "an unknown member in a round": rechained(lambda said: said.update(more=1)),
        "an unknown member in a part": rechained(lambda said: said["parts"][0].update(more=1)),
        "an unknown member in a query": rechained(lambda said: said["parts"][0]["query"].update(more=1)),
        "a member of null": rechained(lambda said: said.update(form=None)),
        "a default that is left out": rechained(lambda said: said["parts"][0].pop("share")),
        "a charge that is left out": rechained(lambda said: said["parts"][0].pop("charge")),
        "a charge of nothing": rechained(lambda said: said["parts"][0].update(charge=0)),
        "a charge below nothing": rechained(lambda said: said["parts"][0].update(charge=-MICRO)),
        "a charge as text": rechained(lambda said: said["parts"][0].update(charge=str(MICRO))),
        "a charge of true": rechained(lambda said: said["parts"][0].update(charge=True)),
        "a round without parts": rechained(lambda said: said.update(parts=[])),
        "a round of version 2": rechained(lambda said: said.update(version=2)),
        "a round of version true": rechained(lambda said: said.update(version=True)),
        "an entry of version 2": member("bulletin", "entries", 0, version=2),
        "an entry of another form": member("bulletin", "entries", 0, form="askance.round"),
        "a notice of an unknown kind": member("bulletin", "entries", 1, "notice", kind="order"),
        "a channel of an unknown kind": rechained(lambda said: said["parts"][0]["channel"].update(kind="none")),
        "a query with an unknown node": written("bulletin", _QUERY, b'"op":"eval"'),
        "a negative weight": rechained(_weights(str(WORD + 1), "-1")),
        "a weight of 21 digits": rechained(_weights("0", "1" * 21)),
        "a weight as a number": rechained(_weights(1, 1)),
        "a weight with a sign": rechained(_weights("+" + HALF, HALF)),
        "a weight with a leading zero": rechained(_weights("0" + HALF, HALF)),
        "a weight of another alphabet's digits": rechained(_weights("١", HALF)),
        "a float for an integer": written("bulletin", b'"charge":1000000', b'"charge":1000000.0'),
        "an exponent": written("bulletin", b'"charge":1000000', b'"charge":1e6'),
        "minus zero": written("bulletin", b'"first_user":0', b'"first_user":-0'),
        "NaN": written("bulletin", b'"charge":1000000', b'"charge":NaN'),
        "Infinity": written("bulletin", b'"charge":1000000', b'"charge":Infinity'),
        "an integer beyond 2^53": written("bulletin", b'"target":10', b'"target":9007199254740993'),
        "an integer of 5000 digits": written("bulletin", b'"target":10', b'"target":' + b"9" * 5000),
        "a charge that stands twice": written("bulletin", b'"charge":1000000', b'"charge":1000000,"charge":1'),
        "entries that stand twice": written("bulletin", b'"head"', b'"entries":[],"head"'),
        "entries that are no list": member("bulletin", entries={}),
        "an entry that is no object": member("bulletin", entries=[1]),
        "a bulletin that is a list": says("bulletin", instead(b"[]")),
        "a bulletin of null": says("bulletin", instead(b"null")),
        "a bulletin without a head": lacks("bulletin", "head"),
        "an empty bulletin": says("bulletin", instead(b'{"entries":[],"head":"%s","length":0}' % (b"0" * 64))),
        "an empty bulletin with a head": member("bulletin", entries=[]),
        "no JSON": says("bulletin", instead(b"<html>Sign in</html>")),
        "no UTF-8": says("bulletin", instead(b'{"\xff":1}')),
        "half a surrogate pair": written("bulletin", b'"A study"', b'"\\ud800"'),
        "nothing": says("bulletin", instead(b"")),
        "half a document": says("bulletin", lambda document: canonical.dumps(document)[:-100]),
        "brackets without an end": says("bulletin", instead(b"[" * 1_000_000)),
        "nesting without an end": says("bulletin", instead(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)),
        "another version of the protocol": says("bulletin", instead(problem(409, "version-mismatch"))),
        "that there is no such study": says("bulletin", instead(problem(404, "not-found"))),
        "an account of another form": says("me", instead(b'{"user":3}')),
        "an account with an unknown member": member("me", more=1),
        "an account with a float": written("me", b'"spent_micro_epsilon":0', b'"spent_micro_epsilon":0.0'),
        "an account with NaN": written("me", b'"spent_micro_epsilon":0', b'"spent_micro_epsilon":NaN'),
        "an account that is negative": member("me", spent_micro_epsilon=-MICRO),
        "an account beyond all bounds": member("me", spent_micro_epsilon=LARGEST + 1),
        "an account of user true": member("me", user=True),
        "an account of user minus one": member("me", user=-1),
        "an account whose user stands twice": written("me", b'"user":3', b'"user":4,"user":3'),
        "charges that are no list": member("me", charges={}),
        "a charge without a round": member("me", charges=[{"micro_epsilon": 1}]),
        "a negative charge": member("me", charges=[{"round": "1" * 64, "micro_epsilon": -1}]),
        "that her token is void": says("me", instead(problem(401, "unauthorized"))),
    }.items()
]


# --------------------------------------------------------------------------------- who she is, what she has spent


def differs(**members: Any) -> Plant:
    """A study with other members, and an open round of it."""

    def planted(liar: Liar) -> None:
        liar.study.update(study(**({"simulated": False} | members)).to_json())
        liar.entries.clear()
        liar.publish({"kind": "study", "study": liar.study})
        liar.ask(part(BooleanQuery(test=Bit(field="b", index=0))))

    return planted


def charged(*charges: tuple[str, int], spent: int | None = None) -> Plant:
    """The server says that these rounds have been charged."""
    listed = [{"round": round_, "micro_epsilon": charge} for round_, charge in charges]
    total = sum(charge for _, charge in charges) if spent is None else spent
    return member("me", charges=listed, spent_micro_epsilon=min(total, LARGEST))


def heard_the_open_round(liar: Liar) -> None:
    """The server says that it has her report already."""
    charged((liar.round(part()).digest(), MICRO))(liar)


def earlier_round_cost(charge: int) -> Plant:
    """The server says that an earlier round of this study, which she does not know of, was charged."""

    def planted(liar: Liar) -> None:
        first = liar.ask(part())
        liar.publish({"kind": "closed", "round": first, "reason": "target", "received": 1})
        charged((first, charge))(liar)

    return planted


def cheap(charge: int, *, times: int = 1, with_: tuple[Part, ...] = ()) -> Plant:
    """Rounds that cost so little that many can be asked."""

    def planted(liar: Liar) -> None:
        for _ in range(times):
            liar.ask(part(channel=BinarySpec(micro_epsilon=charge), charge=charge), *with_)

    return planted


_OTHER_SCHEMA: Final = Schema(fields=(BitsField(name="b", width=1),))

TIMINGS: Final = [
    Lie("a round for one micro-ε", Reason.BELOW_FLOOR, cheap(1)),
    Lie("a round for one micro-ε less than the least", Reason.BELOW_FLOOR, cheap(LEAST_CHARGE - 1)),
    Lie("a round of which a part costs one micro-ε", Reason.BELOW_FLOOR, cheap(1, with_=(part(),))),
    Lie("a round more than a study may have", Reason.TOO_MANY_ROUNDS, cheap(LEAST_CHARGE, times=MOST_ROUNDS + 1)),
]

OTHER_ACCOUNTS: Final = [
    Lie("a simulated study for a real user", Reason.SIMULATED, differs(simulated=True)),
    Lie("a study of other examples than hers", Reason.OTHER_SCHEMA, differs(example=_OTHER_SCHEMA)),
    Lie("an account of another user", Reason.OTHER_USER, member("me", user=4)),
    Lie("that it has heard her on the open round", Reason.HEARD_ALREADY, heard_the_open_round),
    Lie("that she has spent all she has", Reason.BEYOND_CAP, charged(spent=10 * MICRO)),
    Lie("that she has spent all that there is", Reason.BEYOND_CAP, charged(spent=LARGEST)),
    Lie("that one round has cost all that there is", Reason.BEYOND_CAP, charged(("1" * 64, LARGEST))),
    Lie(
        "that ten thousand rounds have cost all that there is each",
        Reason.BEYOND_CAP,
        charged(*((f"{number:064x}", LARGEST) for number in range(10_000))),
    ),
    Lie("that the study has charged her its cap", Reason.BEYOND_STUDY_CAP, earlier_round_cost(2 * MICRO)),
    Lie("that the study has charged her all that there is", Reason.BEYOND_STUDY_CAP, earlier_round_cost(LARGEST)),
]


# ------------------------------------------------------------------------------------------------- below the documents


def redirect(status: int, to: str = f"http://{EVIL}/v1/me") -> Change:
    """Elsewhere."""
    return instead(httpx.Response(status, headers={"Location": to}))


async def _for_ever() -> AsyncIterator[bytes]:
    while True:
        yield b" " * (1 << 16)


def endless(_: Json) -> httpx.Response:
    """An answer that does not end."""
    return httpx.Response(200, content=_for_ever())


def _bomb(_: Json) -> httpx.Response:
    return httpx.Response(200, content=_once(gzip.compress(bytes(1 << 22))), headers={"Content-Encoding": "gzip"})


def _twice(document: Json) -> httpx.Response:
    packed = gzip.compress(gzip.compress(canonical.dumps(document)))
    return httpx.Response(200, content=_once(packed), headers={"Content-Encoding": "gzip, gzip"})


def _not_gzip(_: Json) -> httpx.Response:
    return httpx.Response(200, content=_once(b"not compressed"), headers={"Content-Encoding": "gzip"})


async def _once(body: bytes) -> AsyncIterator[bytes]:
    """A body that comes over the wire: httpx would unpack what it is given whole."""
    yield body


TRANSPORT_LIES: Final = [
    *(
        Lie(f"{name} is elsewhere now, by a {status}", UNREADABLE, says(name, redirect(status)))
        for name in ("bulletin", "me")
        for status in (301, 302, 303, 307, 308)
    ),
    Lie("the bulletin is at no address", None, says("bulletin", redirect(302, "http://[::/"))),
    Lie("the account is on another port", UNREADABLE, says("me", redirect(307, f"http://{HOST}:1/v1/me"))),
    *(
        Lie(f"{name} {what}", None, says(name, change))
        for name in ("bulletin", "me")
        for what, change in {
            "fails for ever": instead(problem(500, "internal")),
            "is never ready": instead(problem(503, "not-ready", Retry_After="1")),
            "has too many asking": instead(problem(429, "queue-full", Retry_After="99999")),
            "is of a status that there is not": instead(httpx.Response(599)),
            "breaks off": instead_of_an_answer,
        }.items()
    ),
    *(
        Lie(f"{name} {what}", UNREADABLE, says(name, change))
        for name in ("bulletin", "me")
        for what, change in {
            "does not end": endless,
            "is oversize": instead(b" " * (1 << 21)),
            "is oversize once unpacked": _bomb,
            "is packed twice": _twice,
            "is not packed as it says": _not_gzip,
        }.items()
    ),
]

LIES: Final = [
    *UNSOUND_ROUNDS,
    *BROKEN_CHAINS,
    *UNREADABLE_DOCUMENTS,
    *TIMINGS,
    *OTHER_ACCOUNTS,
    *TRANSPORT_LIES,
]
assert RICH > 10 * MICRO
