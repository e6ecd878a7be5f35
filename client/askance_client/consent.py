"""Consent: whether a user answers a round, decided before anything is drawn, from public data alone.

Nothing here sees an example, only its schema. So neither an answer nor a refusal tells more about her than that she
takes part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from askance_client.history import History, Pin
from askance_client.refusals import Reason, Refusal
from askance_protocol.budget import LARGEST, to_text
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import LEAST_CHARGE, MOST_ROUNDS, PreparedRound
from askance_protocol.schema import Schema

CLOCK_SKEW: Final = 300
"""Seconds that a round is still answered after its deadline. An honest server closes it then, by its own clock, within
a second or so; clocks that are set over a network differ by less than one, and five minutes are what Kerberos allows
those that are not (RFC 4120, 8.2). Too little would shut out a device whose clock is fast; too much costs her the
charge of a report that comes too late, of a server that shows an old bulletin."""


@dataclass(frozen=True, slots=True)
class AccountStatement:
    """The server's statement of a user's spending. A higher figure than her own is believed, a lower one never."""

    user: int
    spent: int
    charges: Mapping[str, int]
    """What each round cost, by its id."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What a user has spent, by her own wallet."""

    cap: int
    charges: Mapping[str, int]
    """What each round cost that she has a report for, sent or not."""
    elsewhere: int
    """What other copies of this wallet were once seen to have spent."""
    heard: Mapping[str, int] = field(default_factory=dict[str, int])
    """What each round cost that another copy was once seen to have answered: not again, where the server forgets it."""
    again: Mapping[str, int] = field(default_factory=dict[str, int])
    """What each round cost a second time: the server took another draw than the one that this wallet has sent it."""

    def after(self, statement: AccountStatement) -> Spending:
        """This spending, with the reports that the server has from her and this wallet does not know of."""
        heard = {
            **self.heard,
            **{
                round_: max(cost, self.heard.get(round_, 0))
                for round_, cost in statement.charges.items()
                if round_ not in self.charges
            },
        }
        own = sum(self.charges.values())
        elsewhere = max(self.elsewhere, sum(heard.values()), statement.spent - own)
        # No cap is beyond the largest sum, so what is said beyond it changes nothing, and the wallet can hold this.
        return replace(self, elsewhere=min(elsewhere, LARGEST), heard=heard)

    @property
    def spent(self) -> int:
        """Micro-ε spent, by the highest account."""
        return sum(self.charges.values()) + sum(self.again.values()) + self.elsewhere


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """Public facts about a user. With public documents they decide what she answers."""

    user: int
    schema: Schema
    simulated: bool
    declared: Schema | None = None
    """The fields that she has declared to her wallet; None: her example alone says what she may be asked."""


def refuse_study(history: History, pin: Pin | None, facts: PublicFacts) -> Refusal | None:
    """Reason to answer nothing of this study; None if there is none."""
    if pin is not None and not history.continues(pin):
        return Refusal(Reason.TWO_HISTORIES, f"entry {pin.length - 1} is another one than before, or gone")
    if history.study.simulated and not facts.simulated:
        return Refusal(Reason.SIMULATED, "gateways may speak for the users of this study")
    if history.study.example != facts.schema:
        return Refusal(Reason.OTHER_SCHEMA, "the study's examples have other fields than yours")
    undeclared = undeclared_fields(history.study.example, facts.declared)
    if undeclared:
        return Refusal(Reason.OTHER_SCHEMA, f"you have not declared {', '.join(undeclared)}")
    if len(history.rounds) > MOST_ROUNDS:
        what = f"the study has {len(history.rounds)} rounds, and {MOST_ROUNDS} are answered at most"
        return Refusal(Reason.TOO_MANY_ROUNDS, what)
    return None


def undeclared_fields(asked: Schema, declared: Schema | None) -> list[str]:
    """Names of the fields of `asked` that are not declared so: of another name, or of other values."""
    return [] if declared is None else [field.name for field in asked.fields if field not in declared.fields]


def is_asked(history: History, id_: str, user: int) -> bool:
    """Whether the user has to decide. An invalid round asks everybody, and all refuse it."""
    round_ = history.rounds[id_]
    return isinstance(round_, Refusal) or round_.asks(user)


def refuse_late(round_: PreparedRound | Refusal, now: float) -> Refusal | None:
    """Reason not to answer a round any more, by its own deadline and her device's clock; None if there is none."""
    if isinstance(round_, Refusal) or now <= round_.spec.deadline + CLOCK_SKEW:
        return None
    late = int(now) - round_.spec.deadline
    what = f"its deadline passed {late} seconds ago by the clock of this device, and the server has not closed it"
    return Refusal(Reason.DEADLINE_PASSED, what, round_.id)


def decide(
    history: History, id_: str, facts: PublicFacts, spending: Spending, statement: AccountStatement
) -> PreparedRound | Refusal:
    """The round, if she answers it, or the reason for not answering. `spending` includes the statement."""
    round_ = history.rounds[id_]
    if isinstance(round_, Refusal):
        return round_
    least = min(part.charge for part in round_.spec.parts)
    if least < LEAST_CHARGE:
        what = f"ε = {to_text(least)} is charged, and nothing below {to_text(LEAST_CHARGE)} is answered"
        return Refusal(Reason.BELOW_FLOOR, what, id_)
    if statement.user != facts.user:
        return Refusal(Reason.OTHER_USER, f"you are user {facts.user}, the server says {statement.user}", id_)
    if id_ in spending.heard:
        return Refusal(Reason.HEARD_ALREADY, "another report of yours was taken; a second would spend twice", id_)
    unsound = refuse_question(round_, facts.user)
    return unsound or _unaffordable(history, round_, facts.user, spending, statement) or round_


def refuse_question(round_: PreparedRound, user: int) -> Refusal | None:
    """Reason not to answer the question that a user is dealt, whoever she is; None if there is none.

    It is prepared for that, the first time: its query, and its channel's exact ε. What others are dealt is not.
    """
    try:
        round_.part_of(user)
        # How long her report is written depends on all parts.
        _ = round_.outcomes
    except ProtocolError as error:
        return Refusal(Reason.UNSOUND_ROUND, str(error), round_.id)
    return None


def _unaffordable(
    history: History, round_: PreparedRound, user: int, spending: Spending, statement: AccountStatement
) -> Refusal | None:
    """The cap that does not cover the round: what the study promised at most, or her own."""
    charge = round_.charge_of(user)
    accounts = (spending.charges, spending.heard, statement.charges)
    in_study = sum(
        max(account.get(other, 0) for account in accounts) + spending.again.get(other, 0) for other in history.rounds
    )
    if in_study + charge > history.study.cap:
        left, cap = to_text(max(history.study.cap - in_study, 0)), to_text(history.study.cap)
        what = f"ε = {to_text(charge)} is asked, {left} is left of the {cap} that the study promised at most"
        return Refusal(Reason.BEYOND_STUDY_CAP, what, round_.id)
    if spending.spent + charge > spending.cap:
        left = to_text(max(spending.cap - spending.spent, 0))
        what = f"ε = {to_text(charge)} is asked, {left} is left"
        return Refusal(Reason.BEYOND_CAP, what + _shut_by_a_claim(spending, charge), round_.id)
    return None


def _shut_by_a_claim(spending: Spending, charge: int) -> str:
    """What is said where nothing but the server's word keeps her from answering: whose word, and what is to be done.

    It is believed for good, as it has to be: of what a copy of her wallet has spent only the server knows. So one
    forged figure shuts a wallet. That costs her this wallet's future, and none of her privacy.
    """
    own = spending.spent - spending.elsewhere
    if own + charge > spending.cap:
        return ""
    return (
        f": this wallet has spent {to_text(own)} of its {to_text(spending.cap)}, but its server has claimed that "
        f"ε = {to_text(spending.elsewhere)} more was spent in your name, and a claim is believed for good. "
        "It is true if a copy of this wallet was used; if there was none, the server has shut this wallet by a false "
        "claim: tell those who run it, and use a new wallet with another server (what this one has spent stays spent)"
    )
