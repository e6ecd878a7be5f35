"""What a person reads before she answers a study: from its checked history, her own number and her wallet alone."""

from __future__ import annotations

from collections.abc import Iterator

from askance_client import History, Refusal
from askance_client.consent import Spending, refuse_question
from askance_protocol.budget import to_text
from askance_protocol.queries.wording import field_words, fields_of, words
from askance_protocol.rounds import MOST_ROUNDS, PreparedRound
from askance_protocol.text import printable


def consent_text(history: History, user: int, spending: Spending) -> str:
    """Title, fields, questions and prices of a study, and what is left of her budget."""
    study = history.study
    left = f"your wallet spends ε = {to_text(spending.cap)} in all, and {_left(spending)} is left"
    rows: list[tuple[str, str]] = [
        ("study", printable(study.title)),
        ("named", history.id),
        *_labelled("fields", (printable(field_words(field)) for field in study.example.fields)),
        *_labelled("questions", _questions(history, user)),
        ("price", f"ε = {to_text(study.cap)} at most in this study; {left}"),
        *([] if study.live is None else [("told", f"to anybody while it runs: sums of {study.live} reports or more")]),
    ]
    return "\n".join(f"{label:11}{line}" for label, line in rows)


def _left(spending: Spending) -> str:
    return to_text(max(spending.cap - spending.spent, 0))


def _labelled(label: str, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield label, line
        label = ""


def _questions(history: History, user: int) -> Iterator[str]:
    """Her own question of each open round, and what may still come."""
    open_rounds = history.open_rounds()
    for number, id_ in enumerate(history.rounds, 1):
        if id_ in open_rounds:
            yield from _question(history.rounds[id_], number, user)
    if not open_rounds:
        yield "none is asked now"
    if history.study.interactive:
        yield f"more rounds may follow, {MOST_ROUNDS} at most, about these fields and at this price in all"


def _question(round_: PreparedRound | Refusal, number: int, user: int) -> Iterator[str]:
    if not isinstance(round_, Refusal):
        if not round_.asks(user):
            yield f"round {number}: you are not asked"
            return
        round_ = refuse_question(round_, user) or round_
    if isinstance(round_, Refusal):
        yield f"round {number}: refused, {round_.reason.value}: {round_.detail}"
        return
    part = round_.part_of(user).part
    of = f", one of {len(round_.parts)} that were dealt by a public coin" if len(round_.parts) > 1 else ""
    asked = printable(words(part.query, round_.study.example))
    yield f"round {number}, for ε = {to_text(part.charge)}{of}: {asked}"
    looked_at = fields_of(part.query, round_.study.example)
    yield f"  it looks at {', '.join(looked_at) or 'none of your fields'}, and one noisy number leaves this machine"
