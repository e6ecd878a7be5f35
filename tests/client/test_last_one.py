"""What goes through fields, rows or rounds goes to the end: each of several is once the only one that matters."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client import Reason, Refusal, ReportState, User, Wallet, WalletError, WalletFile
from askance_client.consent import AccountStatement, PublicFacts, Spending, decide, refuse_study, undeclared_fields
from askance_client.history import History
from askance_client.transport.documents import read_tail
from askance_client.wallet import DamagedWalletError
from askance_client.wallet import wallet as wallet_module
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.rounds import BinarySpec, Cohort, PreparedRound
from askance_protocol.schema import BitsField, CategoryField, Schema
from tests.client.liar import URL, USER, Liar
from tests.client.people import HERS, enrolled, wallet_at
from tests.protocol.studies import SCHEMA, part, study

STUDY: Final = "a" * 64
SEVERAL: Final = 5
FIELDS: Final = len(SCHEMA.fields)
PLACES: Final = range(SEVERAL)
ROUNDS: Final = [f"{place + 1:064x}" for place in PLACES]


# ------------------------------------------------------------------------------------------------- the fields declared


def replaced(place: int, *fields: Any) -> Schema:
    """The schema with these in the place of one field."""
    return Schema(fields=(*SCHEMA.fields[:place], *fields, *SCHEMA.fields[place + 1 :]))


def others() -> Iterator[tuple[str, Schema]]:
    """Schemas that differ in one field: in its name, in its values, in its kind; in its being there, in its place."""
    for place, field in enumerate(SCHEMA.fields):
        where = f"field {place}"
        yield f"{where} has another name", replaced(place, field.model_copy(update={"name": "other"}))
        yield f"{where} is of another kind", replaced(place, CategoryField(name=field.name, values=("a", "b")))
        yield f"{where} has other values", replaced(place, BitsField(name=field.name, width=9))
        yield f"{where} is not there", replaced(place)
        yield f"{where} is followed by another", replaced(place, field, BitsField(name="more", width=1))
    for place, (one, two) in enumerate(zip(SCHEMA.fields, SCHEMA.fields[1:], strict=False)):
        swapped = (*SCHEMA.fields[:place], two, one, *SCHEMA.fields[place + 2 :])
        yield f"field {place} stands behind the next", Schema(fields=swapped)


OTHERS: Final = dict(others())


def accepted(path: Path) -> list[str]:
    """What a wallet takes for the fields that it was made for."""
    taken = list[str]()
    with closing(wallet_at(path)) as wallet:
        wallet.declare(SCHEMA)
        for name, schema in OTHERS.items():
            try:
                wallet.declare(schema)
            except WalletError:
                continue
            taken.append(name)
        assert wallet.declared == SCHEMA
    return taken


def test_a_wallet_is_for_all_the_fields_that_were_declared(tmp_path: Path) -> None:
    assert accepted(tmp_path) == []


class FirstFieldAlone(Schema):
    """A schema that another equals if their first fields are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.fields[0] == other.fields[0]

    __hash__ = Schema.__hash__


def test_control_a_wallet_that_compares_the_first_field_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = property(lambda wallet: FirstFieldAlone(fields=SCHEMA.fields) if wallet.account.owner.declared else None)
    monkeypatch.setattr(wallet_module.Wallet, "declared", declared)

    assert accepted(tmp_path)[-1] == f"field {FIELDS - 2} stands behind the next"


@pytest.mark.parametrize("place", range(FIELDS))
def test_each_field_that_a_study_asks_for_must_be_declared(place: int) -> None:
    field = SCHEMA.fields[place]

    assert undeclared_fields(SCHEMA, replaced(place)) == [field.name]
    assert undeclared_fields(SCHEMA, replaced(place, BitsField(name=field.name, width=9))) == [field.name]
    assert undeclared_fields(SCHEMA, SCHEMA) == undeclared_fields(SCHEMA, None) == []
    # Another field of the same name elsewhere does not make up for it, and their order does not matter.
    assert undeclared_fields(SCHEMA, Schema(fields=SCHEMA.fields[::-1])) == []


# ----------------------------------------------------------------------------------------------------- a study's rounds


def history_of(liar: Liar) -> History:
    """What a client has read, if it refuses nothing."""
    document = {"head": liar.head, "length": len(liar.entries), "entries": liar.entries}
    read = History(liar.id).extended(read_tail(canonical.dumps(document)).entries)
    assert isinstance(read, History), read
    return read


def asked(**changes: Any) -> Liar:
    """A study with several rounds."""
    liar = Liar.of(study(simulated=False, **({"cap": 100 * MICRO} | changes)))
    for _ in PLACES:
        liar.ask(part())
    return liar


def decided(liar: Liar, place: int, spending: Spending, statement: AccountStatement | None = None) -> str:
    """The reason for not answering a round; "" if it is answered."""
    history = history_of(liar)
    facts = PublicFacts(USER, SCHEMA, simulated=False)
    said = statement or AccountStatement(USER, 0, {})
    decision = decide(history, list(history.rounds)[place], facts, spending.after(said), said)
    assert isinstance(decision, PreparedRound | Refusal)
    return decision.reason.value if isinstance(decision, Refusal) else ""


def ids(liar: Liar) -> list[str]:
    return list(history_of(liar).rounds)


@pytest.mark.parametrize("place", PLACES)
def test_each_round_counts_against_the_cap_of_the_study(place: int) -> None:
    """By her own report, by a copy's, by the server's word, or a second time."""
    liar = asked(cap=3 * MICRO)
    last, rich, mine = -1 if place != SEVERAL - 1 else 0, 100 * MICRO, ids(liar)[place]
    two, three = 2 * MICRO, 2 * MICRO + 1
    for cost, expected in ((two, ""), (three, Reason.BEYOND_STUDY_CAP.value)):
        ways = {
            "her own": (Spending(rich, {mine: cost}, 0), None),
            "heard": (Spending(rich, {}, 0, {mine: cost}), None),
            "the server's": (Spending(rich, {}, 0), AccountStatement(USER, 0, {mine: cost})),
            "again": (Spending(rich, {mine: MICRO}, 0, {}, {mine: cost - MICRO}), None),
        }
        assert {name: decided(liar, last, *way) for name, way in ways.items()} == dict.fromkeys(ways, expected)


@pytest.mark.parametrize("place", PLACES)
def test_each_round_counts_against_her_own_cap(place: int) -> None:
    liar = asked()
    rounds = ids(liar)
    last, others_ = -1 if place != SEVERAL - 1 else 0, dict.fromkeys(rounds, 0)
    for cost, expected in ((MICRO, ""), (MICRO + 1, Reason.BEYOND_CAP.value)):
        costs = others_ | {rounds[place]: cost}
        answered = {id_: cost for id_, cost in costs.items() if id_ != rounds[last]}
        ways = {
            "her own": (Spending(2 * MICRO, answered, 0), None),
            "again": (Spending(2 * MICRO, {}, 0, {}, answered), None),
            "heard": (Spending(2 * MICRO, {}, 0, answered), None),
            "the server's": (Spending(2 * MICRO, {}, 0), AccountStatement(USER, 0, answered)),
        }
        assert {name: decided(liar, last, *way) for name, way in ways.items()} == dict.fromkeys(ways, expected)


@pytest.mark.parametrize("place", PLACES)
def test_what_the_server_says_of_each_round_is_believed_where_it_is_more(place: int) -> None:
    known = dict.fromkeys(ROUNDS, 10)
    said = {id_: 20 if at == place else 5 for at, id_ in enumerate(ROUNDS)}
    after = Spending(MICRO, {}, 0, known).after(AccountStatement(USER, 0, said))
    hers = Spending(MICRO, {ROUNDS[place]: 3}, 0).after(AccountStatement(USER, 0, said))

    assert after.heard == known | {ROUNDS[place]: 20}
    assert after.elsewhere == 10 * (SEVERAL - 1) + 20
    assert hers.heard == {id_: cost for id_, cost in said.items() if id_ != ROUNDS[place]}


@pytest.mark.parametrize("place", range(3))
def test_the_part_that_charges_least_is_looked_at_wherever_it_stands(place: int) -> None:
    least = MICRO // 100
    for cost, expected in ((least, ""), (least - 1, Reason.BELOW_FLOOR.value)):
        charges = [cost if at == place else MICRO for at in range(3)]
        liar = Liar.of(study(simulated=False))
        parts = [part(channel=BinarySpec(micro_epsilon=charge), charge=charge) for charge in charges]
        liar.ask(*parts, cohort=Cohort(users=1000))

        assert decided(liar, 0, Spending(10 * MICRO, {}, 0)) == expected


@pytest.mark.parametrize("place", range(1, SEVERAL + 1))
def test_whichever_entry_does_not_follow_breaks_the_chain(place: int) -> None:
    breaks: dict[str, Callable[[dict[str, Any]], object]] = {
        "previous": lambda entry: entry.update(previous="1" * 64),
        "sequence": lambda entry: entry.update(sequence=entry["sequence"] + 1),
        "number": lambda entry: entry["notice"]["round"].update(number=place + 1),
        "study": lambda entry: entry["notice"]["round"].update(study="1" * 64),
    }
    for break_ in breaks.values():
        liar = asked()
        break_(liar.entries[place])
        document = {"head": liar.head, "length": liar.entries[-1]["sequence"] + 1, "entries": liar.entries}
        read = History(liar.id).extended(read_tail(canonical.dumps(document)).entries)

        assert isinstance(read, Refusal)
        assert read.reason is Reason.BROKEN_CHAIN


@pytest.mark.parametrize("place", PLACES)
def test_the_last_deadline_is_that_of_any_round(place: int) -> None:
    liar = Liar.of(study(simulated=False))
    for at in PLACES:
        liar.ask(part(), deadline=2000 if at == place else 1000)
    history = history_of(liar)

    assert history.deadline == 2000
    assert history.open_rounds() == list(history.rounds)
    assert len(history.rounds) == SEVERAL


def test_whichever_field_is_another_than_hers_the_study_is_refused() -> None:
    facts = {name: PublicFacts(USER, schema, simulated=False) for name, schema in OTHERS.items()}
    history = history_of(asked())
    refusals = {name: refuse_study(history, None, each) for name, each in facts.items()}

    assert {name for name, refusal in refusals.items() if refusal is None} == set()


# ----------------------------------------------------------------------------------------------------- a wallet's rows


def filled(path: Path) -> Path:
    """A wallet file of several owners; each has several reports, and has heard of several rounds."""
    with closing(WalletFile.open(path / "wallet")) as file:
        file.add_all([(owner, 100 * MICRO, None) for owner in PLACES])
        for owner in PLACES:
            wallet = Wallet(file, owner)
            wallet.note_elsewhere(1, {f"{99 - place:064x}": place for place in PLACES})
            for round_ in ROUNDS:
                wallet.draw_and_store(STUDY, round_, MICRO, lambda: b"drawn")
        Wallet(file, 0).note_history(STUDY, ROUNDS)
    return path / "wallet"


def read_all(path: Path) -> None:
    """Open the file, and read all that is known of its owners, together and one by one, and of a study."""
    with closing(WalletFile.open(path)) as file:
        file.read_accounts(list(PLACES))
        for owner in PLACES:
            account = Wallet(file, owner).account
            assert account.spent == SEVERAL * MICRO + 1
            assert list(account.heard.values()) == list(PLACES)[::-1]
        assert file.heads(STUDY) == dict(enumerate(ROUNDS, 1))


def by_hand(path: Path, statement: str, *values: Any) -> None:
    """What another program does, with the triggers out of its way."""
    with closing(sqlite3.connect(path)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        assert db.execute(statement, values).rowcount == 1
        for _, sql in triggers:
            db.execute(sql)
        db.commit()


DAMAGES: Final[dict[str, Callable[[int], tuple[str, int, str]]]] = {
    "a report's price": lambda at: ("UPDATE reports SET charge = 1 WHERE owner = ? AND round = ?", at, ROUNDS[at]),
    "a report": lambda at: ("DELETE FROM reports WHERE owner = ? AND round = ?", at, ROUNDS[at]),
    "what was heard": lambda at: ("UPDATE heard SET charge = 77 WHERE owner = ? AND round = ?", at, f"{99 - at:064x}"),
    "that a round was heard of": lambda at: ("DELETE FROM heard WHERE owner = ? AND round = ?", at, f"{99 - at:064x}"),
    "a cap": lambda at: ("UPDATE owners SET cap = 101000000 WHERE id = ? AND token IS NULL AND ? <> ''", at, "-"),
    "an owner": lambda at: ("DELETE FROM owners WHERE id = ? AND ? <> ''", at, "-"),
    "a head": lambda at: ("UPDATE heads SET head = replace(head, '0', 'f') WHERE ? = 0 AND length = ?", 0, f"{at + 1}"),
    "that a head was read": lambda at: ("DELETE FROM heads WHERE ? = 0 AND length = ?", 0, f"{at + 1}"),
}


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    """The control of the damages: this is what is read where there is none."""
    read_all(filled(tmp_path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_whichever_row_is_damaged_or_gone_is_noticed(tmp_path: Path, damage: str) -> None:
    whole = filled(tmp_path).read_bytes()
    for place in PLACES:
        path = tmp_path / f"damaged {place}"
        path.write_bytes(whole)
        path.chmod(0o600)
        by_hand(path, *DAMAGES[damage](place))
        with pytest.raises(DamagedWalletError):
            read_all(path)


@pytest.mark.parametrize("place", PLACES)
def test_whichever_head_is_another_the_history_is_not_noted(tmp_path: Path, place: int) -> None:
    other = [*ROUNDS[:place], "f" * 64, *ROUNDS[place + 1 :]]
    with closing(wallet_at(tmp_path)) as wallet:
        assert wallet.note_history(STUDY, ROUNDS)
    with closing(wallet_at(tmp_path)) as wallet:
        assert not wallet.note_history(STUDY, [*other, "e" * 64])
        assert wallet.note_history(STUDY, [*ROUNDS, "e" * 64])
        # What was noted once is compared by its last digest, which names all before it.
        assert not wallet.note_history(STUDY, [*ROUNDS, "d" * 64])
        assert not wallet.note_history(STUDY, ROUNDS)
        assert wallet.note_history(STUDY, [*ROUNDS, "e" * 64, "c" * 64])
        assert wallet.heads(STUDY) == dict(enumerate([*ROUNDS, "e" * 64, "c" * 64], 1))


@pytest.mark.parametrize("place", PLACES)
def test_whichever_report_is_settled_the_others_stay_as_they_are(tmp_path: Path, place: int) -> None:
    with closing(wallet_at(tmp_path)) as wallet:
        for round_ in ROUNDS:
            wallet.draw_and_store(STUDY, round_, MICRO, lambda: b"drawn")
        wallet.settle(ROUNDS[place], ReportState.CONFLICT)

        assert wallet.spending.again == {ROUNDS[place]: MICRO}
        assert wallet.spending.spent == (SEVERAL + 1) * MICRO
        assert [report.state for report in wallet.reports.values()].count(ReportState.STORED) == SEVERAL - 1


def test_the_key_of_an_enrolment_is_that_of_the_wallet(tmp_path: Path) -> None:
    liar = Liar.of(study(simulated=False))
    with closing(wallet_at(tmp_path)) as wallet:
        enrolled(User(HERS, wallet), liar)
        again = wallet.identity
        [request] = liar.requests
        sent = canonical.loads(request.content)

        # While it was asked for, the wallet held it; then there is a number in its place.
        assert isinstance(sent, dict)
        assert sent["key"]
        assert again is not None
        assert wallet.enrolment_key(URL) == ""
        enrolled(User(HERS, wallet), liar)
        assert len(liar.requests) == 1
