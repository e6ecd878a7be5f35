"""A poll: one question to a room, about the one field that an answer is; `ask` says it in words.

Theory of operation
-------------------
*Two choices* are a real-valued question: +1 for the first, −1 for the second, and 0 for who cannot or will not say. One
bit leaves, by binary response: the answer with e^ε/(1 + e^ε), and for 0 a fair coin, exactly, since the middle of an
even number of steps has half of all words. So silence and speech look alike, and who says nothing counts as half of
each. The share of the first choice is (1 + mean)/2.

*A scale* is two questions, each of half of the users: the mean, which is real-valued from −1 at its lower end to +1 at
its upper one, with a fair coin for who will not say, who counts as the middle; and the share of each number.

*More choices*, and the numbers of a scale, are cells, asked through whichever channel estimates them best. Who will not
say is in a cell of her own, `missing`: an answer like any other, randomized like any other. Their intervals hold
together, by the union bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from askance_protocol import parameters as read
from askance_protocol.schema import CategoryField, Schema
from askance_server.core.strategy import (
    Asking,
    Estimate,
    Estimating,
    Hypothesis,
    Parameters,
    Strategy,
    estimates_in,
)
from askance_server.strategies.shared.poll_questions import asks_of, estimates_of, field_of, values_of
from askance_server.strategies.shared.sure import interval_members, interval_text

YES_NO: Final = Schema(fields=(CategoryField(name="answer", values=("yes", "no"), gap=True),))
"""What it asks where nobody says what there is."""


def _first(rows: Sequence[Mapping[str, Any]], told: str) -> str:
    """The first number in words, and how many there are."""
    first = f"{rows[0]['name']} = {told}"
    return first if len(rows) <= 2 else f"{len(rows)} numbers, of which the first is {first}"


def over(example: Schema) -> Strategy:
    """The poll whose answer is the one field of these examples."""

    def schema(parameters: Parameters) -> Schema:
        read.only(parameters, "ask")
        words = parameters.get("ask", "")
        if not isinstance(words, str):
            raise read.refused("ask", "is no text", "ask the question in words")
        field_of(example)
        return example

    def run(parameters: Parameters) -> Asking:
        del parameters
        answers = yield asks_of(example)
        rows = [{"name": name, "estimate": value} for name, value in values_of(example, answers)]
        if not estimates_in(answers):
            return Hypothesis(_first(rows, f"{rows[0]['estimate']:.4g}"), {"answers": rows})
        found = estimates_of(example, partial(estimates_in, answers))
        sure = [row | interval_members([each], one=True) for row, each in zip(rows, found, strict=True)]
        return Hypothesis(_first(rows, f"{found[0].estimate:.4g} ({interval_text(found[0])})"), {"answers": sure})

    def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
        del parameters
        return estimates_of(example, estimating)

    return Strategy(
        name="poll",
        summary="One question to a room: two choices, several, or a scale",
        interactive=False,
        rounds=1,
        schema=schema,
        run=run,
        over=over,
        estimates=estimates,
        small={},
    )


POLL: Final = over(YES_NO)
