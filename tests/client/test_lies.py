"""A user refuses every lie of a malicious server: no report leaves her, and nothing is charged."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_client import (
    Answered,
    BulletinReader,
    NotEnrolledError,
    Reason,
    Refusal,
    ReportState,
    Result,
    Unanswered,
    UnreachableError,
    User,
    Wallet,
)
from askance_client.history import History
from askance_client.transport import Problem
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.rounds import PreparedRound, RoundSpec, StudySpec, open_round
from askance_protocol.schema import BitsField, IntegerField, Schema
from tests.client.liar import ENROLMENT, HOST, TOKEN, USER, Change, Liar
from tests.client.lies import EVIL, LIES, Lie, charged, earlier_round_cost, instead, member, redirect, says
from tests.client.people import CAP, HERS, OTHERS, SECONDS, answers, enrolled, reasons, run, wallet_at
from tests.protocol.studies import FAR, SCHEMA, part, study

BOOLEAN = SCHEMA.field("b")
ALL = [pytest.param(lie, id=lie.name) for lie in LIES]
OTHER = "2" * 64


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """An oversize answer need not be made of 64 MB."""
    monkeypatch.setattr("askance_client.transport.server.MOST_BYTES", 2_000_000)


@pytest.fixture
def wallet(tmp_path: Path) -> Generator[Wallet]:
    opened = wallet_at(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def liar() -> Liar:
    return Liar.of(study(simulated=False))


def told(liar: Liar, wallet: Wallet, lie: Lie, **how: Any) -> list[Result] | None:
    """What she says to a lie, or None where she gets no answer."""
    user = User(HERS, wallet, **how)
    enrolled(user, liar)
    lie.plant(liar)
    try:
        return answers(user, liar)
    except UnreachableError:
        return None


# ------------------------------------------------------------------------------------------------------ the control


def test_the_honest_double_gets_a_report_and_a_charge(liar: Liar, wallet: Wallet) -> None:
    results = told(liar, wallet, Lie("none", None, lambda liar: liar.ask(part())))
    [round_] = liar.heard

    assert results == [Answered(round_, MICRO)]
    assert liar.bodies in ([b'{"outcome":0}'], [b'{"outcome":1}'])
    assert wallet.spending.charges == liar.charges == {round_: MICRO}
    assert liar.tokens == {(HOST, ENROLMENT), (HOST, TOKEN)}


def trusts_any_round(study: StudySpec, spec: RoundSpec) -> PreparedRound:
    """Prepares a round as if it charged enough."""
    enough = spec.model_copy(update={"parts": tuple(part.model_copy(update={"charge": MICRO}) for part in spec.parts)})
    return dataclasses.replace(open_round(study, enough), spec=spec, id=spec.digest())


def trusts_the_server(history: History, id_: str, *_: object) -> PreparedRound | Refusal:
    """Judges nothing."""
    return history.rounds[id_]


def trusts_any_study(*_: object) -> None:
    """Refuses no study."""


@pytest.mark.parametrize(
    ("check", "trusting", "name"),
    [
        ("history.open_round", trusts_any_round, "a round that charges a millionth less than binary response costs"),
        ("user.decide", trusts_the_server, "an account of another user"),
        ("user.decide", trusts_the_server, "that it has heard her on the open round"),
        ("user.decide", trusts_the_server, "a round for one micro-ε"),
        ("user.refuse_study", trusts_any_study, "a simulated study for a real user"),
    ],
)
def test_a_user_who_trusts_the_server_is_caught_sending(
    liar: Liar,
    wallet: Wallet,
    monkeypatch: pytest.MonkeyPatch,
    check: str,
    trusting: Callable[..., object],
    name: str,
) -> None:
    [lie] = [lie for lie in LIES if lie.name == name]
    monkeypatch.setattr(f"askance_client.{check}", trusting)
    told(liar, wallet, lie)

    assert len(liar.bodies) == 1
    assert wallet.spending.charges


# --------------------------------------------------------------------------------------------------------- the lies


def test_there_are_many_lies_and_each_has_its_name() -> None:
    assert len({lie.name for lie in LIES}) == len(LIES) > 100


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("lie", ALL)
def test_a_lie_is_refused_and_nothing_is_sent_or_charged(liar: Liar, wallet: Wallet, lie: Lie) -> None:
    results = told(liar, wallet, lie)

    assert (None if results is None else reasons(results)) == (None if lie.reason is None else [lie.reason])
    assert results is None or len(results) == 1
    assert liar.bodies == []
    assert wallet.spending.charges == {}
    assert liar.hosts == {HOST}
    assert liar.tokens <= {(HOST, ENROLMENT), (HOST, TOKEN)}


@pytest.mark.parametrize("lie", [each for each in ALL if "deep" not in str(each.id)])
def test_a_lie_is_refused_alike_whatever_she_holds(
    liar: Liar, tmp_path: Path, lie: Lie, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a wallet draws before it enrols is drawn without looking at her example.
    monkeypatch.setattr("askance_client.wallet.wallet.secrets.token_hex", lambda size: "00" * size)
    seen = []
    for name, example in (("one", HERS), ("two", OTHERS)):
        asked = Liar.of(study(simulated=False))
        with_wallet = Wallet.open(tmp_path / name, cap=CAP)
        user = User(example, with_wallet)
        enrolled(user, asked)
        lie.plant(asked)
        try:
            said: object = answers(user, asked)
        except UnreachableError as error:
            said = str(error)
        seen.append((said, [(each.method, each.url, each.content) for each in asked.requests]))
        with_wallet.close()

    assert seen[0] == seen[1]


# ------------------------------------------------------------------------------------- lies about what she may be asked


def without(name: str) -> Schema:
    """Her fields but for one."""
    return Schema(fields=tuple(field for field in SCHEMA.fields if field.name != name))


def wider(name: str) -> Schema:
    """Her fields, but one of them has other values."""
    return Schema(fields=tuple(IntegerField(name="i", low=0, high=9) if f.name == name else f for f in SCHEMA.fields))


@pytest.mark.parametrize(
    ("declared", "named"), [(without("b"), "b"), (wider("i"), "i"), (Schema(fields=(BOOLEAN,)), "x, i, height, y")]
)
def test_a_study_about_fields_that_she_has_not_declared_is_refused_by_their_names(
    liar: Liar, wallet: Wallet, declared: Schema, named: str
) -> None:
    """Whatever her file holds: a study that wants her column `b` reads it only where she has declared it."""
    wallet.declare(declared)
    results = told(liar, wallet, Lie("none", None, lambda liar: liar.ask(part())))

    assert results == [Refusal(Reason.OTHER_SCHEMA, f"you have not declared {named}")]
    assert liar.bodies == []
    assert wallet.spending.charges == {}


@pytest.mark.parametrize("declared", [SCHEMA, Schema(fields=(*SCHEMA.fields, BitsField(name="secret", width=9)))])
def test_a_study_about_declared_fields_is_answered(liar: Liar, wallet: Wallet, declared: Schema) -> None:
    wallet.declare(declared)
    told(liar, wallet, Lie("none", None, lambda liar: liar.ask(part())))

    assert len(liar.bodies) == 1


def test_one_who_trusts_every_study_answers_about_what_she_has_not_declared(
    liar: Liar, wallet: Wallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr("askance_client.user.refuse_study", trusts_any_study)
    wallet.declare(without("b"))
    told(liar, wallet, Lie("none", None, lambda liar: liar.ask(part())))

    assert len(liar.bodies) == 1


def swapped(liar: Liar) -> str:
    """She names one study, and its bulletin is another's, as sound as hers: with a cap of 500, say."""
    named = liar.id
    liar.study.update(study(simulated=False, title="Another study", cap=500 * MICRO).to_json())
    liar.entries.clear()
    liar.publish({"kind": "study", "study": liar.study})
    liar.ask(part())
    return named


@pytest.mark.parametrize("how", ["take_part", "follow", "answer", "a reader"])
def test_the_study_that_was_named_is_the_one_that_is_answered_on_every_way(
    liar: Liar, wallet: Wallet, how: str
) -> None:
    async def ask(named: str) -> list[Result]:
        async with liar.server() as server:
            ways: dict[str, Callable[[], Awaitable[list[Result]]]] = {
                "take_part": lambda: user.take_part(server, named),
                "follow": lambda: user.follow(server, named, every=0),
                "answer": lambda: user.answer(BulletinReader(server, named)),
                "a reader": lambda: user.follow(server, BulletinReader(server, named), every=0),
            }
            return await ways[how]()

    user = User(HERS, wallet)
    enrolled(user, liar)
    named = swapped(liar)

    assert reasons(run(ask(named))) == [Reason.OTHER_STUDY]
    assert liar.bodies == []
    # The control: the other study, by its own name.
    assert [type(each) for each in answers(user, liar)] == [Answered]


# ---------------------------------------------------------------------------- lies to somebody who has seen something


def answered_once(liar: Liar, wallet: Wallet, **how: Any) -> User:
    """She has answered a round, and remembers what she has seen."""
    user = User(HERS, wallet, **how)
    enrolled(user, liar)
    liar.ask(part())
    assert [type(result) for result in answers(user, liar)] == [Answered]
    return user


def forgets(liar: Liar) -> None:
    """The round that she has answered was never there."""
    del liar.entries[1]


def rewrites(liar: Liar) -> None:
    """That round was another one."""
    liar.rewrite(1, lambda notice: notice["round"].update(target=9))


def rewrites_and_goes_on(liar: Liar) -> None:
    """The same, and a new round is open."""
    rewrites(liar)
    liar.ask(part())


def rewrites_longer(liar: Liar) -> None:
    """Another round stands before hers."""
    liar.entries.pop()
    liar.ask(part(), target=9)
    liar.ask(part())
    liar.ask(part())


def forgets_and_goes_on(liar: Liar) -> None:
    """A new round is in the place of the one that she has answered."""
    del liar.entries[1]
    liar.ask(part(), deadline=FAR + 1)


def ends_instead(liar: Liar) -> None:
    """The study ended where she has seen a round."""
    del liar.entries[1]
    liar.publish({"kind": "ended", "state": "finished", "reason": ""})


@pytest.mark.parametrize(
    "fork", [forgets, rewrites, rewrites_and_goes_on, rewrites_longer, forgets_and_goes_on, ends_instead]
)
def test_a_history_that_was_pinned_cannot_be_told_otherwise(
    liar: Liar, wallet: Wallet, fork: Callable[[Liar], None]
) -> None:
    user = answered_once(liar, wallet)
    sent, spending = list(liar.bodies), wallet.spending
    fork(liar)

    assert reasons(answers(user, liar)) == [Reason.TWO_HISTORIES]
    assert liar.bodies == sent
    assert wallet.spending == spending


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("bound", ["the study's cap", "her own cap"])
@pytest.mark.parametrize("tells", ["the truth", "that nothing was spent", "that the cap was raised"])
def test_no_cap_is_exceeded_over_rounds_whatever_the_server_says(tmp_path: Path, bound: str, tells: str) -> None:
    hers = bound == "her own cap"
    liar = Liar.of(study(simulated=False, cap=(4 if hers else 2) * MICRO))
    wallet = Wallet.open(tmp_path / "wallet", cap=2 * MICRO + 999_999 if hers else CAP)
    user = answered_once(liar, wallet)
    if tells == "that nothing was spent":
        liar.says["me"] = lambda said: said.update(spent_micro_epsilon=0, charges=[])
    if tells == "that the cap was raised":
        liar.says["me"] = lambda said: said.update(cap_micro_epsilon=10**15, remaining_micro_epsilon=10**15)
    liar.ask(part())
    liar.ask(part())
    results = answers(user, liar)

    assert [type(result) for result in results] == [Answered, Answered, Refusal]
    assert reasons(results) == [Reason.BEYOND_CAP if hers else Reason.BEYOND_STUDY_CAP]
    assert len(liar.bodies) == 2
    assert sum(wallet.spending.charges.values()) == 2 * MICRO
    wallet.close()


def test_what_the_server_once_said_was_spent_stays_spent_when_it_says_less(liar: Liar, wallet: Wallet) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    charged(spent=CAP)(liar)
    assert reasons(answers(user, liar)) == [Reason.BEYOND_CAP]
    liar.says.clear()

    assert reasons(answers(user, liar)) == [Reason.BEYOND_CAP]
    assert wallet.spending.elsewhere == CAP
    assert liar.bodies == []


def test_what_the_server_once_said_the_study_has_charged_stays_charged_when_it_says_less(
    liar: Liar, wallet: Wallet
) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    earlier_round_cost(2 * MICRO)(liar)
    assert reasons(answers(user, liar)) == [Reason.BEYOND_STUDY_CAP]
    liar.says.clear()

    assert reasons(answers(user, liar)) == [Reason.BEYOND_STUDY_CAP]
    assert liar.bodies == []


def test_statements_about_another_user_are_not_remembered(liar: Liar, wallet: Wallet) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    member("me", user=4, spent_micro_epsilon=CAP)(liar)
    assert reasons(answers(user, liar)) == [Reason.OTHER_USER]
    liar.says.clear()

    assert [type(result) for result in answers(user, liar)] == [Answered]


# ---------------------------------------------------------------------------------------------- lies to one reader


def with_one_reader(
    liar: Liar, user: User, lie: Callable[[], object]
) -> tuple[list[Result], list[Result], list[Result]]:
    """She answers, is lied to, and asks once more."""

    async def three() -> tuple[list[Result], list[Result], list[Result]]:
        async with liar.server() as server:
            reader = BulletinReader(server, liar.id)
            first = await user.answer(reader)
            lie()
            return first, await user.answer(reader), await user.answer(reader)

    return run(three())


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (rewrites_and_goes_on, Reason.BROKEN_CHAIN),
        (rewrites, Reason.TWO_HISTORIES),
        (lambda liar: liar.says.update(bulletin=lambda said: said.update(head="1" * 64)), Reason.TWO_HISTORIES),
        (lambda liar: liar.says.update(bulletin=lambda said: said.update(length=3)), Reason.TWO_HISTORIES),
        (lambda liar: liar.says.update(bulletin=lambda said: said.update(length=0)), Reason.TWO_HISTORIES),
        (lambda liar: liar.says.update(bulletin=lambda said: said.update(length=-1)), Reason.UNREADABLE),
        (lambda liar: liar.says.update(bulletin=lambda said: said.update(length=True)), Reason.UNREADABLE),
        (lambda liar: liar.says.update(bulletin=lambda said: said.update(head=None)), Reason.UNREADABLE),
    ],
)
def test_a_watch_that_was_lied_to_reads_no_more(
    liar: Liar, wallet: Wallet, lie: Callable[[Liar], object], reason: Reason
) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(part())
    first, second, third = with_one_reader(liar, user, lambda: lie(liar))
    reads = sum(request.url.path.endswith("/bulletin") for request in liar.requests)

    assert [type(result) for result in first] == [Answered]
    assert reasons(second) == reasons(third) == [reason]
    assert reads == 2
    assert len(liar.bodies) == 1


def test_a_server_that_lags_behind_what_was_read_tells_no_second_history(liar: Liar, wallet: Wallet) -> None:
    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(part())
    lag: Change = lambda said: said.update(entries=[], length=1, head=canonical.digest(liar.entries[0]))  # noqa: E731
    first, second, third = with_one_reader(liar, user, lambda: liar.says.update(bulletin=lag))

    assert first == second == third == [Answered(next(iter(liar.heard)), MICRO)]


# ---------------------------------------------------------------------------------------- lies once a report is there

AFTERWARDS: dict[str, tuple[Change, Reason | str]] = {
    "a receipt for another user": (lambda said: said.update(user=USER + 1), Reason.WRONG_RECEIPT),
    "a receipt for another round": (lambda said: said.update(round=OTHER), Reason.WRONG_RECEIPT),
    "a receipt that charges less": (lambda said: said.update(charged=MICRO - 1), Reason.WRONG_RECEIPT),
    "a receipt that charges more": (lambda said: said.update(charged=MICRO + 1), Reason.WRONG_RECEIPT),
    "a receipt for user true": (lambda said: said.update(user=True), Reason.UNREADABLE),
    "a receipt with an unknown member": (lambda said: said.update(outcome=1), Reason.UNREADABLE),
    "a receipt with a float": (instead(b'{"user":3,"round":"","charged":1.0}'), Reason.UNREADABLE),
    "a receipt that is no object": (instead(b"[]"), Reason.UNREADABLE),
    "a receipt that is empty": (instead(b""), Reason.UNREADABLE),
    "a receipt that is no UTF-8": (instead(b"\xff"), Reason.UNREADABLE),
    "a receipt of somewhere else, by a 307": (redirect(307), "307"),
    "a receipt of somewhere else, by a 308": (redirect(308), "308"),
    "a receipt of somewhere else, by a 302": (redirect(302), "302"),
    "that another version is spoken": (instead(httpx.Response(409, content=b"{}")), "409"),
    "that there is no such round": (instead(httpx.Response(404)), "404"),
    "that her token is void": (instead(httpx.Response(401)), "401"),
    "a problem of another scheme": (
        instead(httpx.Response(409, content=b'{"type":"urn:other:conflict","detail":1}')),
        "409",
    ),
}


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("name", AFTERWARDS)
def test_after_a_lie_about_a_report_no_other_body_is_ever_sent(liar: Liar, wallet: Wallet, name: str) -> None:
    change, expected = AFTERWARDS[name]
    user = User(HERS, wallet)
    enrolled(user, liar)
    says("receipt", change)(liar)
    for _ in range(3):
        [result] = answers(user, liar)
        assert expected == (result.problem if isinstance(result, Unanswered) else reasons([result])[0])
    [round_] = liar.heard
    kept = wallet.stored(round_)

    assert len(liar.bodies) == 3
    assert len(set(liar.bodies)) == 1
    assert kept is not None
    assert kept.state is ReportState.STORED
    assert wallet.spending.charges == {round_: MICRO}
    assert liar.hosts == {HOST}

    liar.says.clear()
    assert answers(user, liar) == [Answered(round_, MICRO)]
    assert len(set(liar.bodies)) == 1


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("forgets_her", [True, False])
def test_a_server_that_forgets_a_report_gets_no_second_one(liar: Liar, wallet: Wallet, forgets_her: bool) -> None:
    user = answered_once(liar, wallet)
    liar.heard.clear()
    if forgets_her:
        liar.charges.clear()

    assert [type(result) for result in answers(user, liar)] == [Answered]
    assert len(liar.bodies) == 1


# --------------------------------------------------------------------------------------------------- lies to who enrols


def tokens(*tokens: str, one: str | None = None) -> Change:
    """Another number of tokens."""
    return lambda said: said.update(token=one, tokens=list(tokens))


@pytest.mark.parametrize(
    "change",
    [
        tokens(),
        tokens(TOKEN, "another"),
        lambda said: said.update(token=1),
        lambda said: said.update(token="ü"),
        lambda said: said.update(token="a" * 5000),
        lambda said: said.update(user=-1),
        lambda said: said.update(user=1 << 48),
        lambda said: said.update(user="3"),
        lambda said: said.update(user=True),
        lambda said: said.update(more=1),
        instead(b'{"user":3.0,"users":1,"cap_micro_epsilon":1,"token":"t","tokens":[]}'),
        instead(b""),
    ],
)
def test_an_enrolment_that_cannot_be_read_leaves_her_without_a_number(
    liar: Liar, wallet: Wallet, change: Change
) -> None:
    async def enrol() -> object:
        async with liar.server() as server:
            return await User(HERS, wallet).enrol(server, ENROLMENT)

    liar.says["enrolment"] = change
    refusal = run(enrol())

    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.UNREADABLE
    assert wallet.identity is None


def test_an_enrolment_that_is_elsewhere_is_not_followed(liar: Liar, wallet: Wallet) -> None:
    async def enrol() -> object:
        async with liar.server() as server:
            return await User(HERS, wallet).enrol(server, ENROLMENT)

    liar.says["enrolment"] = redirect(307, f"http://{EVIL}/v1/enrolments")

    assert isinstance(run(enrol()), Problem)
    assert liar.hosts == {HOST}
    assert wallet.identity is None


@pytest.mark.usefixtures("each_way")
def test_a_token_of_another_user_speaks_for_nobody(liar: Liar, wallet: Wallet) -> None:
    """She is told number 3 and given the token of user 4: what `/v1/me` says of the token is not her."""
    user = User(HERS, wallet)
    liar.says["enrolment"] = lambda said: said.update(token="user.token.4")
    enrolled(user, liar)
    member("me", user=4)(liar)

    assert reasons(answers(user, liar)) == [Reason.OTHER_USER]
    assert liar.bodies == []
    assert wallet.spending.charges == {}


def test_one_who_has_a_number_is_given_no_other(liar: Liar, wallet: Wallet) -> None:
    user = User(HERS, wallet)
    first = enrolled(user, liar)
    liar.says["enrolment"] = lambda said: said.update(user=4, token="user.token.4")

    assert enrolled(user, liar) == first
    assert len(liar.requests) == 1


def test_her_token_is_shown_to_no_other_server(liar: Liar, wallet: Wallet) -> None:
    async def elsewhere() -> list[Result]:
        async with liar.server(f"http://{EVIL}") as server:
            return await user.take_part(server, liar.id)

    user = User(HERS, wallet)
    enrolled(user, liar)
    liar.ask(part())
    with pytest.raises(NotEnrolledError, match="is known to"):
        run(elsewhere())

    assert liar.hosts == {HOST}


def test_a_study_of_lies_ends_for_one_who_follows_it(liar: Liar, wallet: Wallet) -> None:
    async def follow() -> list[Result]:
        async with liar.server() as server:
            return await asyncio.wait_for(user.follow(server, liar.id, every=0), timeout=SECONDS)

    user = User(HERS, wallet)
    enrolled(user, liar)
    member("bulletin", head="1" * 64)(liar)

    assert reasons(run(follow())) == [Reason.UNREADABLE]
